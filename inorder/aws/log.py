"""Executions on AWS, which keeps no history of Express executions but their log.

The log is read with FilterLogEvents: it answers at once, and AWS's price list has no price for it.
An account may call it 5 times per second in a region
(https://repost.aws/knowledge-center/cloudwatch-logs-throttling); here it is called every two
seconds. A query of Logs Insights takes seconds and costs 0.005 dollars for each GB that it scans
(https://aws.amazon.com/cloudwatch/pricing/), each time anew.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from inorder.aws.executions import LocalStateMachine, StateMachine, only_one
from inorder.model.execution import (
    ANY,
    BEGINNING,
    ENDS,
    LIFE,
    UNREADABLE,
    Entry,
    Execution,
    Filter,
    execution_of,
)

CLOCK_DIFFERENCE = timedelta(minutes=10)  # at most, between this machine and AWS
LATE = timedelta(minutes=2)  # by which an entry may come after later ones
# JSON escapes none of these characters, and none has a meaning in a pattern.
_PLAIN = re.compile(r"[\w./ -]{1,800}", re.ASCII)


class AwsStateMachine(StateMachine):
    """A state machine on AWS.

    AWS delivers log entries as well as it can, and guarantees neither that all come nor when:
    https://docs.aws.amazon.com/step-functions/latest/dg/cw-logs.html. An execution without a last
    entry runs, as far as this class knows. The log has the level ``ALL``, ``ERROR`` or ``OFF``;
    without a log, its group has no name. Executions that started before `since` are not listed,
    unless a filter says otherwise.
    """

    poll_seconds = 2  # a log takes a few seconds to arrive, and calls are limited

    def __init__(
        self,
        client: Any,
        arn: str,
        logs: Any,
        log_group: str,
        since: datetime | None = None,
        level: str = "ALL",
    ) -> None:
        super().__init__(client, arn)
        self._logs, self._log_group, self._since = logs, log_group, since
        self._level = level
        self._seen: dict[str, dict[int, Entry]] = {}  # what `select` has read, by ARN and ID
        self._summaries: dict[str, Execution] = {}  # of these
        self._read_from: datetime | None = None
        self._latest = BEGINNING  # the time of the latest entry

    @property
    def unknown(self) -> tuple[str, ...]:
        """What the log lacks because of its level; entries may be missing at any level."""
        if self._level == "OFF" or not self._log_group:
            return ("The log has the level OFF: it has no executions.",)
        if self._level == "ALL":
            return ()
        return (
            f"The log has the level {self._level}: it has no executions that run or succeed, so it"
            " does not tell which events were processed, superseded or duplicates. Of a version, or"
            " a key with a #, it has the ID of the record, but not the key.",
        )

    def entries(self, arn: str) -> list[Entry]:
        """Read what has happened in an execution from the log."""
        known = self._summaries.get(arn)
        started = known.started if known else None
        # An execution is over soon, so not all of the log has to be searched.
        since = started - LATE if started else self._since and self._since - CLOCK_DIFFERENCE
        until = started + LIFE + LATE if started else None
        return _in_order(self._read(f'{{ $.execution_arn = "{arn}" }}', since, until).get(arn, {}))

    def select(self, wanted: Filter = ANY) -> list[Execution]:
        """List executions from their first and last entries, and the entries of their waits."""
        since = wanted.since or (self._since - CLOCK_DIFFERENCE if self._since else BEGINNING)
        with self._selecting:
            if wanted.key is not None and self._level == "ALL":
                found = self._of_key(wanted.key, since)
            else:
                found = self._all(since)
        accepted = [each for each in found if wanted.accepts(each)]
        accepted.sort(key=lambda each: each.started or each.stopped or BEGINNING, reverse=True)
        return accepted[: wanted.limit]

    def find(self, beginning: str, since: datetime | None = None) -> Execution:
        """Read the one execution whose ARN, name or ID begins like this."""
        if beginning.startswith("arn:"):
            found = {beginning} if self.entries(beginning) else set()
        elif _PLAIN.fullmatch(beginning):
            pattern = f'{{ {_any_of(FIRST_AND_LAST)} && ($.execution_arn = "*:{beginning}*") }}'
            entries = self._read(pattern, since)
            found = set(entries)
            self._learn(entries)
        else:
            found = set()
        return self.describe(only_one(found, beginning))

    def _all(self, since: datetime) -> list[Execution]:
        """Read what has come since the last time, and give all that is known."""
        if self._read_from is None or since < self._read_from:
            self._seen, self._summaries, self._latest = {}, {}, since
            self._read_from = since
        # At this level there is no other entry from which to learn whose execution it was.
        types = LISTED if self._level == "ALL" else (*ENDS, "FailStateEntered")
        self._learn(self._read(f"{{ {_any_of(types)} }}", max(self._latest - LATE, since)))
        return list(self._summaries.values())

    def _of_key(self, key: str, since: datetime) -> list[Execution]:
        """Read the executions of a key: first their beginnings, then what each of them did."""
        first = '($.type = "ExecutionStarted")'
        if _PLAIN.fullmatch(key):  # at best, CloudWatch leaves out the other keys
            first += f' && ($.details.input = "*{key}*")'
        started = {
            arn: execution_of(arn, _in_order(entries), is_whole=False)
            for arn, entries in self._read(f"{{ {first} }}", since).items()
        }
        found = []
        for arn, execution in started.items():
            if execution.key == key:
                self._summaries.setdefault(arn, execution.summary)
                found.append(self.describe(arn).summary)
        return found

    def _learn(self, read: Mapping[str, Mapping[int, Entry]]) -> None:
        for arn, entries in read.items():
            seen = self._seen.setdefault(arn, {})
            if entries.keys() <= seen.keys():
                continue
            seen.update(entries)
            self._summaries[arn] = execution_of(arn, _in_order(seen), is_whole=False).summary
            times = [entry.time for entry in entries.values() if entry.time]
            self._latest = max([self._latest, *times])

    def _read(
        self, pattern: str, since: datetime | None = None, until: datetime | None = None
    ) -> dict[str, dict[int, Entry]]:
        """Read entries by the ARN of their execution and their ID."""
        if not self._log_group:
            return {}
        limits = {"endTime": _milliseconds(until)} if until else {}
        pages = self._logs.get_paginator("filter_log_events").paginate(
            logGroupName=self._log_group,
            filterPattern=pattern,
            startTime=_milliseconds(since or BEGINNING),
            **limits,
        )
        # Entries may be stored in another order, and twice. Their IDs count from 1.
        by_id: dict[str, dict[int, Entry]] = {}
        for page in pages:
            for event in page["events"]:
                entry = _entry(event)
                if entry:
                    arn, parsed = entry
                    by_id.setdefault(arn, {})[parsed.id] = parsed
        return by_id


FIRST_AND_LAST = ("ExecutionStarted", *ENDS)
LISTED = (*FIRST_AND_LAST, "WaitStateEntered", "WaitStateExited")


def _any_of(types: Iterable[str]) -> str:
    # https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/matching-terms-json-log-events.html
    return "(" + " || ".join(f'($.type = "{each}")' for each in types) + ")"


def _entry(event: Mapping[str, Any]) -> tuple[str, Entry] | None:
    """Read the ARN and the entry of a line; None if Step Functions has not written it."""
    try:
        entry = json.loads(event["message"])
        milliseconds = entry.get("event_timestamp") or event["timestamp"]
        at = datetime.fromtimestamp(int(milliseconds) / 1000, UTC)
        details = dict(entry.get("details") or {})
        arn, kind, number = str(entry["execution_arn"]), str(entry["type"]), int(entry["id"])
        return arn, Entry(kind, details, at, number)
    except (*UNREADABLE, AttributeError, KeyError, OSError):
        return None


def _in_order(entries: Mapping[int, Entry]) -> list[Entry]:
    return [entries[number] for number in sorted(entries)]


def _milliseconds(at: datetime) -> int:
    return int(at.timestamp() * 1000)


def log_group(described: Mapping[str, Any]) -> str:
    """Give the name of the log group in DescribeStateMachine's answer; "" if it has no log."""
    destinations = described.get("loggingConfiguration", {}).get("destinations") or [{}]
    arn = destinations[0].get("cloudWatchLogsLogGroup", {}).get("logGroupArn", "")
    return arn.split(":")[6] if arn else ""


def state_machine(states: Any, logs: Any, arn: str, since: datetime | None = None) -> StateMachine:
    """Give a state machine on AWS or on a local engine, whose executions can be read.

    AWS refuses to list Express executions, where local engines list them:
    https://docs.aws.amazon.com/step-functions/latest/apireference/API_ListExecutions.html
    """
    try:
        states.list_executions(stateMachineArn=arn, maxResults=1)
    except states.exceptions.StateMachineTypeNotSupported:
        described = states.describe_state_machine(stateMachineArn=arn)
        level = described.get("loggingConfiguration", {}).get("level", "OFF")
        group = log_group(described) if level != "OFF" else ""
        return AwsStateMachine(states, arn, logs, group, since, level)
    return LocalStateMachine(states, arn)
