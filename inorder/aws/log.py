"""Executions on AWS, which keeps no history of Express executions but their log.

The log is read with FilterLogEvents, the newest entries first: it answers at once, and AWS's price
list has no price for it. An account may call it 5 times per second in a region
(https://repost.aws/knowledge-center/cloudwatch-logs-throttling); here it is called every two
seconds. A query of Logs Insights takes seconds and costs 0.005 dollars for each GB that it scans
(https://aws.amazon.com/cloudwatch/pricing/), each time anew. A field index would not help it to
find a key: that is in no field, but in the text of an input
(https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/CloudWatchLogs-Field-Indexing.html).
"""

import heapq
import json
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import Any

from inorder.aws.executions import LocalStateMachine, StateMachine, only_one
from inorder.model.execution import (
    ANSWERED,
    ANY,
    ENDS,
    LAST_EXITED,
    LIFE,
    UNREADABLE,
    Entry,
    Execution,
    Filter,
    execution_of,
)
from inorder.model.outcomes import DONE

CLOCK_DIFFERENCE = timedelta(minutes=10)  # at most, between this machine and AWS
LATE = timedelta(minutes=2)  # by which an entry may arrive after later ones
APART = timedelta(seconds=5)  # at most, between the times of an entry and of its line
# The newest lines come first only if no older ones are asked for:
# https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_FilterLogEvents.html
EARLIEST = datetime(2024, 1, 1, tzinfo=UTC)
Read = tuple[float, str, Entry]  # when the line was written, and whose entry it is
# JSON escapes none of these characters, and none has a meaning in a pattern.
_PLAIN = re.compile(r"[\w./ -]{1,800}", re.ASCII)


class AwsStateMachine(StateMachine):
    """A state machine on AWS.

    AWS delivers log entries as well as it can, and guarantees neither that all come nor when:
    https://docs.aws.amazon.com/step-functions/latest/dg/cw-logs.html. An execution without a last
    entry runs, as far as this class knows. The log has the level ``ALL``, ``ERROR`` or ``OFF``;
    without a log, its group has no name. Below ``ALL``, and in a log without data, the lines that
    the function has written tell keys, and how executions ended that did not fail. Executions that
    started before `since` are not listed, unless a filter says otherwise.
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
        function_log_group: str = "",
        has_data: bool = True,
    ) -> None:
        super().__init__(client, arn)
        self._logs, self._log_group, self._since = logs, log_group, since
        self._level, self._function_log_group = level, function_log_group
        self._has_data = has_data
        self.has_all_entries = level == "ALL"
        self.names_keys = self.has_all_entries and has_data
        self._spans: dict[str, tuple[datetime, datetime]] = {}  # when executions ran, at most
        self._recent: dict[str, dict[int, Entry]] = {}  # what `changed` has read, by ARN and ID
        self._latest = EARLIEST  # the time of the latest of these entries

    @property
    def unknown(self) -> tuple[str, ...]:
        """What the log lacks because of its settings; entries may be missing with any of them."""
        if self.names_keys:
            return ()
        if self.has_all_entries:
            return (NO_DATA,)
        has = "only what failed" if self._log_group else "no executions"
        return (
            f"The log has the level {self._level if self._log_group else 'OFF'}: it has {has}."
            " Other executions are known if they called the function and its log names them, with"
            " its answer for their outcome. Not known are those that run or wait, are retried, or"
            " ended as duplicates or superseded without a call."
            + (NO_KEY_OF_VERSION if self._has_data else NO_KEY_OF_FAILED),
        )

    def entries(self, arn: str) -> list[Entry]:
        """Read what has happened in an execution from the log, until its end is there."""
        since, until = self._spans.get(arn, (self._from(None), None))
        entries: dict[int, Entry] = {}
        pattern = f'{{ $.execution_arn = "{arn}" }}'
        for _, _, entry in self._entries(pattern, since, until, newest_first=until is None):
            entries.setdefault(entry.id, entry)
            last = max(entries)
            if entries[last].type in ENDS and len(entries) == last:
                break
        if not self.names_keys:
            for _, _, answer in self._answers(f'$.execution = "{arn}"', since, until):
                entries.setdefault(answer.id, answer)
        return _in_order(entries)

    def select(self, wanted: Filter = ANY) -> list[Execution]:
        """List executions from their first and last entries, and the entries of their waits.

        The log is read from its newest entry to the first one of the last execution that is listed.
        """
        since = self._from(wanted.since)
        if wanted.key is None:
            return wanted.select(self._newest(since))
        return wanted.select(self._of_key(wanted.key, since, []))

    def of_key(self, wanted: Filter) -> tuple[list[Execution], tuple[str, ...]]:
        """List the executions of a key with their steps, and say what could not be read."""
        unread: list[str] = []
        executions = wanted.select(self._of_key(str(wanted.key), self._from(wanted.since), unread))
        return executions, (*self.unknown, *unread)

    def changed(self, since: datetime) -> list[Execution]:
        """List executions that have started or ended since then, or since the last call."""
        with self._selecting:
            new: set[str] = set()
            for _, arn, entry in self._listed(max(since - LIFE, self._latest - LATE)):
                entries = self._recent.setdefault(arn, {})
                if entry.id not in entries:
                    entries[entry.id] = entry
                    new.add(arn)
            changed = [self._summary(arn, self._recent[arn]) for arn in new]
            latest = {arn: _times(self._recent[arn])[-1] for arn in self._recent}
            self._latest = max([self._latest, *latest.values()])
            # What has ended, or must have, does not change any more.
            oldest = self._latest - LIFE - LATE
            self._recent = {arn: self._recent[arn] for arn in latest if latest[arn] >= oldest}
        return ANY.select(changed)

    def find(self, beginning: str, since: datetime | None = None) -> Execution:
        """Read the one execution whose ARN, name or ID begins like this."""
        entries_of: dict[str, dict[int, Entry]] = {}
        if beginning.startswith("arn:"):
            entries_of = {beginning: {}} if self.entries(beginning) else {}
        elif _PLAIN.fullmatch(beginning):
            named, since = f'"*:{beginning}*"', self._from(since)
            pattern = f"{{ {_any_of(FIRST_AND_LAST)} && ($.execution_arn = {named}) }}"
            entries = self._entries(pattern, since)
            answers = self._answers(f"$.execution = {named}", since)
            for _, arn, entry in chain(entries, () if self.names_keys else answers):
                entries_of.setdefault(arn, {})[entry.id] = entry
        for arn, read in entries_of.items():
            self._note(arn, read)
        return self.describe(only_one(entries_of, beginning))

    def _from(self, since: datetime | None) -> datetime:
        if since is None and self._since:
            since = self._since - CLOCK_DIFFERENCE
        return max(since or EARLIEST, EARLIEST)

    def _newest(self, since: datetime) -> Iterator[Execution]:
        """Give executions as soon as all of their entries have been read, backwards.

        That is when their first entry has been read or, if the log does not have it, when they
        cannot have been alive any more.
        """
        read: dict[str, dict[int, Entry]] = {}
        due: list[tuple[float, str]] = []  # a heap: to which time, negative, to read for each
        for at, arn, entry in self._listed(since):
            while due and at < -due[0][0]:
                whole = heapq.heappop(due)[1]
                if whole in read:
                    yield self._summary(whole, read.pop(whole))
            if arn not in read:
                heapq.heappush(due, (LIFE.total_seconds() - at, arn))
            if entry.type == "ExecutionStarted":
                heapq.heappush(due, (APART.total_seconds() - at, arn))
            read.setdefault(arn, {}).setdefault(entry.id, entry)
        for arn, entries in read.items():
            yield self._summary(arn, entries)

    def _listed(self, since: datetime) -> Iterator[Read]:
        """Read what a list needs, the newest first."""
        if self.names_keys:
            return self._entries(f"{{ {_any_of(LISTED)} }}", since)
        # Below ALL, there is no other entry from which to learn whose execution it was.
        types = (*LISTED, *LAST_EXITED) if self.has_all_entries else (*ENDS, "FailStateEntered")
        entries = self._entries(f"{{ {_any_of(types)} }}", since)
        return _newest_first(entries, self._answers('$.source_key = "*"', since))

    def _of_key(self, key: str, since: datetime, unread: list[str]) -> Iterator[Execution]:
        """Give the executions of a key, the newest first: find what names it, and read the rest."""
        # At best, CloudWatch leaves out the other keys.
        plain = max(_PLAIN.findall(key), key=len, default="")
        like = f'"*{plain}*"' if plain else '"*"'
        first = "ExecutionStarted" if self.names_keys else "FailStateEntered"
        pattern = f'{{ ($.type = "{first}") && ($.details.input = {like}) }}'
        entries = self._entries(pattern, since, unread=unread)
        answers = self._answers(f"$.source_key = {like}", since)

        def naming() -> Iterator[Read]:
            if not self._has_data:  # no entry has an input
                yield from answers
                return
            if not self.names_keys:
                yield from _newest_first(entries, answers)
                return
            yield from entries
            if unread:  # the function's lines are fewer, but not of all executions
                yield from answers

        seen: set[str] = set()
        for _, arn, entry in naming():
            named = execution_of(arn, [entry], is_whole=False)
            if arn not in seen and named.key in (None, key):
                seen.add(arn)
                self._note(arn, {entry.id: entry})
                execution = self.describe(arn)
                if execution.key == key:
                    yield execution

    def _summary(self, arn: str, entries: Mapping[int, Entry]) -> Execution:
        self._note(arn, entries)
        return execution_of(arn, _in_order(entries), is_whole=False).summary

    def _note(self, arn: str, entries: Mapping[int, Entry]) -> None:
        """Note in which part of the log all of an execution is, as its life is short."""
        if times := _times(entries):
            started = any(entry.type == "ExecutionStarted" for entry in entries.values())
            since = times[0] - APART if started else times[-1] - LIFE
            self._spans[arn] = since, times[0] + LIFE + APART

    def _entries(
        self, pattern: str, since: datetime, until: datetime | None = None, **more: Any
    ) -> Iterator[Read]:
        """Read entries of executions."""
        for line in self._lines(self._log_group, pattern, since, until, **more):
            if entry := _entry(line):
                yield line["timestamp"] / 1000, *entry

    def _answers(
        self, named: str, since: datetime, until: datetime | None = None
    ) -> Iterator[Read]:
        """Read lines of the function, the newest first."""
        pattern = f'{{ ({named}) && ($.execution = "arn:*") }}'
        for line in self._lines(self._function_log_group, pattern, since, until):
            answer = _answer(line)
            if answer and (answer[1].details["outcome"] or not self._has_data):
                yield line["timestamp"] / 1000, *answer

    def _lines(
        self,
        log_group: str,
        pattern: str,
        since: datetime,
        until: datetime | None,
        newest_first: bool = True,
        unread: list[str] | None = None,
    ) -> Iterator[dict[str, Any]]:
        """Read lines page by page; a search that says what is `unread` ends after a while."""
        pages = self._logs.get_paginator("filter_log_events").paginate(
            logGroupName=log_group,
            filterPattern=pattern,
            startTime=_milliseconds(since),
            startFromHead=not newest_first,
            **({"endTime": _milliseconds(until)} if until else {}),
        )
        deadline = time.monotonic() + self.search_seconds
        for page in pages if log_group else ():
            if unread is not None and time.monotonic() > deadline:
                unread.append(SEARCH_ENDED)
                return
            yield from page["events"]


NO_DATA = (
    "The log is without data (ExecutionLogData): it has the states, but no events, inputs, outputs"
    " and numbers of attempts. An execution has a key if it called the function, and the function's"
    " log names it. Not known are the keys of those that wait, are retried, or ended as duplicates"
    " or superseded without a call."
)
NO_KEY_OF_VERSION = (
    " Of a version, or a key with a #, an execution that failed has the ID of the record, but not"
    " the key."
)
NO_KEY_OF_FAILED = (
    " The log is without data (ExecutionLogData), so an execution that failed without a call has"
    " no key."
)
SEARCH_ENDED = (
    f"The log was searched for {StateMachine.search_seconds} s, the newest first, and not to its"
    " end: of older executions, only those that called the function were found."
)

FIRST_AND_LAST = ("ExecutionStarted", *ENDS)
LISTED = (*FIRST_AND_LAST, "WaitStateEntered", "WaitStateExited")


def _any_of(types: Iterable[str]) -> str:
    # https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/matching-terms-json-log-events.html
    return "(" + " || ".join(f'($.type = "{name}")' for name in types) + ")"


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


def _answer(line: Mapping[str, Any]) -> tuple[str, Entry] | None:
    """Read what the function has answered to which execution; None if the line does not tell.

    What it has rejected, or any other line of its event, has no outcome.
    """
    with suppress(*UNREADABLE, AttributeError, KeyError, OSError):
        fields = json.loads(line["message"])
        at = datetime.fromtimestamp(int(line["timestamp"]) / 1000, UTC)
        details = {
            "key": str(fields["source_key"]),
            "sequencer": str(fields["sequencer"]),
            "version_id": fields.get("version_id"),
            "outcome": fields["message"] if fields["message"] in DONE else None,
        }
        return str(fields["execution"]), Entry(ANSWERED, details, at)
    return None


def _newest_first(*lines: Iterable[Read]) -> Iterator[Read]:
    return heapq.merge(*lines, key=lambda line: line[0], reverse=True)


def _times(entries: Mapping[int, Entry]) -> list[datetime]:
    return sorted(entry.time for entry in entries.values() if entry.time)


def _in_order(entries: Mapping[int, Entry]) -> list[Entry]:
    return [entries[number] for number in sorted(entries)]


def _milliseconds(at: datetime) -> int:
    return int(at.timestamp() * 1000)


def log_group(described: Mapping[str, Any]) -> str:
    """Give the name of the log group in DescribeStateMachine's answer; "" if it has no log."""
    destinations = described.get("loggingConfiguration", {}).get("destinations") or [{}]
    arn = destinations[0].get("cloudWatchLogsLogGroup", {}).get("logGroupArn", "")
    return arn.split(":")[6] if arn else ""


def state_machine(
    states: Any,
    logs: Any,
    arns: list[str],  # a text would be a sequence, too
    since: datetime | None = None,
    function_log_group: str = "",
) -> StateMachine:
    """Give a state machine on AWS or on a local engine, whose executions can be read.

    AWS refuses to list Express executions, where local engines list them:
    https://docs.aws.amazon.com/step-functions/latest/apireference/API_ListExecutions.html. Of the
    ARNs, the first is its own; others may exist beside it, which on AWS share its log.
    """
    arn, *others = arns
    described = states.describe_state_machine(stateMachineArn=arn)
    try:
        states.list_executions(stateMachineArn=arn, maxResults=1)
    except states.exceptions.StateMachineTypeNotSupported:
        logging = described.get("loggingConfiguration", {})
        level = logging.get("level", "OFF")
        has_data = level == "OFF" or logging.get("includeExecutionData", False)
        group = "" if level == "OFF" else log_group(described)
        options = since, level, function_log_group, has_data
        return AwsStateMachine(states, arn, logs, group, *options)
    return LocalStateMachine(states, arn, others)
