"""State machines and their executions, on AWS or on a local engine."""

import heapq
import json
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from inorder.errors import Failure
from inorder.model.execution import ANY, LIFE, Entry, Execution, Filter, execution_of
from inorder.model.outcomes import RETRYING
from inorder.wording import counted
from inorder_fence.records import s3_object

SECONDS = 60  # for which a caller waits who names no time
NAMED = 5  # in a message


def _entry_of(event: Mapping[str, Any]) -> Entry:
    """Read an event of a local engine's history."""
    details: Any = next((v for k, v in event.items() if k.endswith("Details")), {})
    return Entry(event["type"], details, event["timestamp"].astimezone(UTC), event["id"])


class StateMachine(ABC):
    """A state machine on AWS or on a local engine."""

    poll_seconds = 0.03  # between two questions whether an execution has ended
    search_seconds = 30  # for which the executions of a key are searched for
    has_all_entries = True  # of each execution, unless some are missing
    names_keys = True  # of all executions, as it has their events

    def __init__(self, client: Any, arn: str) -> None:
        self.client, self.arn = client, arn
        self._ended: dict[str, Execution] = {}
        self._selecting = threading.Lock()

    @abstractmethod
    def entries(self, arn: str) -> list[Entry]:
        """Read what has happened in an execution, in order."""

    @abstractmethod
    def select(self, wanted: Filter = ANY) -> list[Execution]:
        """List executions without their steps, the one that started last first."""

    @abstractmethod
    def find(self, beginning: str, since: datetime | None = None) -> Execution:
        """Read the one execution whose ARN, name or ID begins like this; else a Failure.

        Only where the source must be searched, it must have started since then.
        """

    @property
    def unknown(self) -> tuple[str, ...]:
        """What the source cannot tell, in sentences; empty if it has everything."""
        return ()

    def all(self, prefix: str = "") -> list[Execution]:
        """List the executions of the S3 keys that begin with a prefix, or all of them.

        One whose event is not known is left out, because it may be of any key.
        """
        executions = self.select(Filter(prefix=prefix))
        return [execution for execution in executions if execution.event is not None]

    def of_key(self, wanted: Filter) -> tuple[list[Execution], tuple[str, ...]]:
        """List the executions of a key with their steps, and say what could not be read."""
        return [self.describe(execution.arn) for execution in self.select(wanted)], self.unknown

    def changed(self, since: datetime) -> list[Execution]:
        """List executions as `select` does; those that did not change since then may be missing."""
        return self.select(Filter(since=since - LIFE))  # one that started earlier had ended

    def start(self, event: Any) -> str:
        """Start an execution with an event as its input and give its ARN."""
        return start(self.client, self.arn, json.dumps(event))

    def describe(self, arn: str) -> Execution:
        """Read one execution."""
        if arn in self._ended:
            return self._ended[arn]
        execution = execution_of(arn, self.entries(arn), self.has_all_entries)
        # The line that names the key may come after the end.
        if execution.status != "RUNNING" and (execution.key or self.names_keys):
            self._ended[arn] = execution
        return execution

    def has_ended(self, arn: str) -> bool:
        """Tell whether an execution has ended."""
        return self.describe(arn).status != "RUNNING"

    def wait(self, arn: str, seconds: float = SECONDS) -> Execution:
        """Wait until an execution has ended; a TimeoutError if it has not, after `seconds`."""
        wait_until(lambda: self.has_ended(arn), seconds, f"the end of {arn}", self.poll_seconds)
        return self.describe(arn)

    def run(self, event: Any, seconds: float = SECONDS) -> Execution:
        """Start an execution and wait until it has ended."""
        return self.wait(self.start(event), seconds)

    def wait_for(self, count: int, seconds: float = SECONDS) -> list[Execution]:
        """Wait until there have been `count` executions and all have ended.

        One for each that ended to be retried, and those that other executions have started, come on
        top. A TimeoutError says after `seconds` what is missing.
        """
        deadline = time.monotonic() + seconds
        while True:
            executions = self.all()
            running = sorted(run.subject for run in executions if run.status == "RUNNING")
            expected = count + sum(run.outcome == RETRYING for run in executions)
            delivered = sum(not run.is_started_by_holder for run in executions)
            if not running and delivered >= expected:
                return executions
            if time.monotonic() > deadline:
                raise TimeoutError(
                    f"Waited {seconds:.0f} s: of {counted(expected, 'execution')} {delivered}"
                    f" started, and {len(running)} did not end{some_of(running)}."
                )
            time.sleep(max(0.1, self.poll_seconds))

    def arrived(self, prefix: str = "") -> dict[str, list[Any]]:
        """Give the distinct events of each S3 key that begins with a prefix, oldest first."""
        events: dict[str, dict[str, Any]] = {}
        for execution in self.all(prefix):
            if described := s3_object(execution.event):
                of_key = events.setdefault(str(described.get("key")), {})
                of_key[str(described["sequencer"])] = execution.event
        return {
            key: [event for _, event in sorted(of_key.items())] for key, of_key in events.items()
        }


class LocalStateMachine(StateMachine):
    """A state machine on moto, ministack or Step Functions Local.

    Unlike AWS, these list, describe and stop Express executions, and keep their history. The others
    are state machines that may exist beside it, whose executions are listed as well.
    """

    def __init__(self, client: Any, arn: str, others: Sequence[str] = ()) -> None:
        super().__init__(client, arn)
        self._others = others
        self._running: dict[str, Execution] = {}

    def entries(self, arn: str) -> list[Entry]:
        """Read what has happened in an execution from its history, in order."""
        pages = self.client.get_paginator("get_execution_history").paginate(
            executionArn=arn, PaginationConfig={"PageSize": 1000}
        )
        return [_entry_of(event) for page in pages for event in page["events"]]

    def has_ended(self, arn: str) -> bool:
        """Tell whether an execution has ended."""
        # The status costs less to read than the history, but may change a moment before that.
        described = self.client.describe_execution(executionArn=arn)
        return described["status"] != "RUNNING" and super().has_ended(arn)

    def stop(self, arn: str) -> None:
        """Abort an execution. A function that it has invoked goes on, as on AWS."""
        self.client.stop_execution(executionArn=arn)

    def arns(self, status: str | None = None) -> list[str]:
        """List the ARNs of all executions, or of those in one status."""
        pages = self.client.get_paginator("list_executions").paginate(
            stateMachineArn=self.arn, **({"statusFilter": status} if status else {})
        )
        return [execution["executionArn"] for page in pages for execution in page["executions"]]

    def select(self, wanted: Filter = ANY) -> list[Execution]:
        """List executions; those that run do not say for how long they have waited.

        The engine lists times, but neither events nor outcomes. So the history of each that has
        ended is read, once.
        """
        with self._selecting:
            return wanted.select(
                self._started(arn, started) if status == "RUNNING" else self.describe(arn).summary
                for arn, status, started in self._listed(wanted.since)
                if wanted.covers(started)
            )

    def find(self, beginning: str, since: datetime | None = None) -> Execution:
        """Read the one execution whose ARN or name begins like this."""
        listed = self._listed(since)
        arns = [arn for arn, _, started in listed if Filter(since=since).covers(started)]
        return self.describe(only_one(arns, beginning))

    def _listed(self, since: datetime | None) -> Iterator[tuple[str, str, datetime]]:
        """Give ARN, status and start, those first that have started or ended last.

        Executions that had ended before `since` may be left out.
        """
        lists = (self._pages(arn, since) for arn in (self.arn, *self._others))
        for listed in heapq.merge(*lists, key=_changed_at, reverse=True):
            yield listed["executionArn"], listed["status"], listed["startDate"].astimezone(UTC)

    def _pages(self, state_machine: str, since: datetime | None) -> Iterator[dict[str, Any]]:
        listing = self.client.get_paginator("list_executions")
        with suppress(self.client.exceptions.StateMachineDoesNotExist):
            for page in listing.paginate(stateMachineArn=state_machine):
                yield from page["executions"]
                times = map(_changed_at, page["executions"])
                if since and max(times, default=since) < since:
                    return

    def _started(self, arn: str, started: datetime) -> Execution:
        if arn not in self._running:
            event = json.loads(self.client.describe_execution(executionArn=arn)["input"])
            self._running[arn] = Execution(arn, "RUNNING", event, started=started)
        return self._running[arn]


def _changed_at(listed: Mapping[str, Any]) -> datetime:
    at: datetime = listed.get("stopDate") or listed["startDate"]
    return at


def start(client: Any, state_machine: str, event: str, name: str | None = None) -> str:
    """Start an execution and give its ARN; a name is made up, as not every engine does so."""
    arn: str = client.start_execution(
        stateMachineArn=state_machine, name=name or f"inorder-{uuid4()}", input=event
    )["executionArn"]
    return arn


def only_one(arns: Iterable[str], beginning: str) -> str:
    """Give the one ARN that begins like this, or whose name or last part does; else a Failure."""
    matches = set()
    for arn in arns:
        if arn == beginning:
            return arn
        # ...:execution:machine:name, on AWS ...:express:machine:name:id
        if any(part.startswith(beginning) for part in (arn, *arn.split(":")[7:])):
            matches.add(arn)
    if len(matches) != 1:
        number = "More than one" if matches else "No"
        names = some_of(sorted(arn.rpartition(":")[2] for arn in matches))
        raise Failure(f"{number} execution has the ID {beginning}{names}.")
    return matches.pop()


def some_of(names: Sequence[str]) -> str:
    """Name the first few of many, for a message."""
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return f": {', '.join(names[:NAMED])}{more}" if names else ""


def wait_until(
    condition: Callable[[], bool], seconds: float, purpose: str, poll_seconds: float = 0.1
) -> None:
    """Wait for a condition; a TimeoutError says after `seconds` for which purpose."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"Waited {seconds:.0f} s for {purpose}.")
        time.sleep(poll_seconds)
