"""Executions read from log entries as AWS documents them, by a CloudWatch that applies filters.

https://docs.aws.amazon.com/step-functions/latest/dg/cw-logs.html
https://docs.aws.amazon.com/step-functions/latest/apireference/API_HistoryEvent.html
"""

import json
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import botocore.session
import pytest

from inorder.aws.log import EARLIEST, AwsStateMachine, state_machine
from inorder.errors import Failure
from inorder.model.execution import ENDS, Entry, Execution, Filter, execution_of
from tests.support.events import created
from tests.support.log_size import without_data

MACHINE = "arn:aws:states:us-east-1:123456789012:express:machine"
REFUSED = {"error": "DynamoDB.ConditionalCheckFailedException", "cause": "refused"}
SERVICE = {"resource": "putItem", "resourceType": "dynamodb"}
Written = tuple[str, dict[str, Any]]


def at(seconds: float) -> datetime:
    """Give a time, in seconds after the start of the first execution."""
    return datetime(2026, 11, 22, 12, 0, 0, tzinfo=UTC) + timedelta(seconds=seconds)


def milliseconds(time: datetime) -> int:
    return int(time.timestamp() * 1000)


class Logs:
    """CloudWatch Logs, with one group whose lines are stored in any order, and some twice."""

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []
        self.answers: list[dict[str, Any]] = []  # the function's lines, in a group of their own
        self.asked: list[dict[str, Any]] = []
        self.has_data = True
        self.sent = 0  # lines that a filter has let through

    def write(
        self, name: str, entries: Sequence[Written], start: float = 0, lost: Sequence[int] = ()
    ) -> None:
        """Write the entries of an execution, one each 100 ms, except the lost ones (IDs)."""
        for number, (kind, details) in enumerate(entries, 1):
            if number in lost:
                continue
            time = milliseconds(at(start + (number - 1) / 10))
            shown = details if self.has_data else without_data(details)
            message = {"id": str(number), "type": kind, "details": shown}
            message |= {"event_timestamp": str(time), "execution_arn": f"{MACHINE}:{name}"}
            line = {"timestamp": time, "message": json.dumps(message)}
            self.lines += [line] * (1 + number % 2)
        random.Random(1).shuffle(self.lines)  # noqa: S311

    def answer(self, name: str, time: datetime, key: str = "x.png", **more: Any) -> None:
        """Write what the function of this project writes."""
        message = {"message": "Processed", "source_key": key, "sequencer": "0A", **more}
        message |= {"execution": f"{MACHINE}:{name}"}
        self.answers.append({"timestamp": milliseconds(time), "message": json.dumps(message)})

    def get_paginator(self, _: str) -> Any:
        return SimpleNamespace(paginate=self._pages)

    def _pages(self, **asked: Any) -> Iterator[dict[str, Any]]:
        self.asked.append(asked)
        newest_first, end = not asked["startFromHead"], asked.get("endTime", float("inf"))
        assert not newest_first or asked["startTime"] >= milliseconds(EARLIEST)
        lines = self.answers if asked["logGroupName"] == "functions" else self.lines
        for line in sorted(lines, key=lambda line: line["timestamp"], reverse=newest_first):
            if asked["startTime"] <= line["timestamp"] <= end:
                is_sent = fits(asked["filterPattern"], line["message"])
                self.sent += is_sent
                yield {"events": [line] if is_sent else []}


def fits(pattern: str, line: str) -> bool:
    """Apply a pattern of strings with ``&&``, ``||`` and ``*``.

    One has at most 1024 characters. As on the local AWS, a line that is no entry fits all of them.
    https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/matching-terms-json-log-events.html
    """
    assert len(pattern) <= 1024
    if "execution" not in line:
        return True
    message = json.loads(line)
    details = message.get("details", {}).items()
    values = message | {f"details.{name}": value for name, value in details}
    compared = re.sub(
        r'\$\.([\w.]+) = "([^"]*)"',
        lambda term: str(fnmatchcase(str(values.get(term[1], "")), term[2])),
        pattern.strip("{} "),
    )
    python = " or ".join(" and ".join(part.split("&&")) for part in compared.split("||"))
    return bool(eval(python, {}))  # noqa: S307


def call(end: str = "TaskSucceeded", **details: Any) -> list[Written]:
    return [("TaskScheduled", SERVICE), ("TaskStarted", SERVICE), (end, SERVICE | details)]


def state(kind: str, name: str, *calls: Written) -> list[Written]:
    entered, exited = {"name": name, "input": "{}"}, {"name": name, "output": "{}"}
    return [(f"{kind}StateEntered", entered), *calls, (f"{kind}StateExited", exited)]


def started(key: str = "x.png") -> Written:
    return ("ExecutionStarted", {"input": json.dumps(created(key)), "roleArn": "r"})


def succeeded(outcome: str = "Processed", key: str = "x.png") -> Written:
    report = {"outcome": outcome, "object_key": f"input/{key}", "sequencer": "0A"}
    return ("ExecutionSucceeded", {"output": json.dumps(report)})


def parked(record_id: str) -> list[Written]:
    data = json.dumps({"object_key": record_id})
    return [
        ("FailStateEntered", {"name": "Parked", "input": data}),
        ("ExecutionFailed", {"error": "Parked", "cause": '{"Error": "InvalidImage"}'}),
    ]


def whole(key: str = "x.png", outcome: str = "Processed") -> list[Written]:
    return [started(key), *state("Task", "Claim Key", *call()), succeeded(outcome, key)]


@pytest.fixture
def logs() -> Logs:
    return Logs()


def machine(logs: Logs, level: str = "ALL") -> AwsStateMachine:
    of_log: dict[str, Any] = {"level": level, "has_data": logs.has_data}
    return AwsStateMachine(None, "arn", logs, "group", function_log_group="functions", **of_log)


def keys_of(executions: Sequence[Execution]) -> list[str | None]:
    return [execution.key for execution in executions]


def ends(executions: Sequence[Execution]) -> list[str]:
    return [execution.ended_as for execution in executions]


def read(logs: Logs, entries: Sequence[Written], lost: Sequence[int] = ()) -> Execution:
    name = f"name:{len(logs.lines)}"
    logs.write(name, entries, lost=lost)
    return machine(logs).describe(f"{MACHINE}:{name}")


def test_every_documented_type_of_entry_can_be_read_anywhere() -> None:
    model = botocore.session.get_session().get_service_model("stepfunctions")
    details = {"name": "Claim Key", "input": "{}", "output": "{}", "error": "E", "cause": "C"}
    first, *others = [Entry(*written) for written in whole()]
    for kind in model.shape_for("HistoryEventType").metadata["enum"]:
        for place in range(len(others) + 1):
            entries = [first, *others[:place], Entry(kind, details), *others[place:]]
            assert execution_of("arn", entries).status in ENDS.values()


def test_attempts_are_told_apart_and_the_last_one_decides(logs: Logs) -> None:
    failed = call("TaskFailed", **REFUSED)
    calls = [*failed, *call("TaskTimedOut"), *call("TaskStartFailed", error="A", cause="c")]
    [step] = read(logs, [started(), *state("Task", "Claim Key", *calls), succeeded()]).steps
    assert [attempt.error for attempt in step.attempts] == [REFUSED["error"], "States.Timeout", "A"]
    assert (step.error, step.cause, step.entered, step.exited) == ("A", "c", at(0.1), at(1.1))


def test_an_execution_has_its_times_waits_and_states(logs: Logs) -> None:
    waits = [*state("Wait", "Wait For Lock"), *state("Wait", "Wait For Lock")]
    execution = read(logs, [started(), *waits, *parked("input/k")])
    assert (execution.started, execution.stopped, execution.seconds) == (at(0), at(0.6), 0.6)
    assert execution.waited == pytest.approx(0.2)
    assert execution.path == ["Wait For Lock", "Wait For Lock", "Parked"]
    # A Fail has the error of the execution.
    assert (execution.outcome, execution.steps[-1].error) == ("Parked", "Parked")


@pytest.mark.parametrize("lost", range(1, 8))
def test_a_lost_entry_is_counted_and_others_are_read(logs: Logs, lost: int) -> None:
    execution = read(logs, whole(), lost=[lost])
    is_last = lost == len(whole())
    assert execution.missing == (0 if is_last else 1)
    assert execution.status == ("RUNNING" if is_last else "SUCCEEDED")
    assert execution.key == "x.png"


def test_truncated_data_is_unknown_and_reported_as_truncated(logs: Logs) -> None:
    cut = {"input": '{"detail": {"obj', "inputDetails": {"truncated": True}}
    execution = read(logs, [("ExecutionStarted", cut), *whole()[1:]])
    assert (execution.event, execution.truncated) == (None, True)
    assert (execution.key, execution.sequencer) == ("x.png", "0A")  # the end says so too


def test_a_list_reads_only_waits_and_has_the_newest_first(logs: Logs) -> None:
    logs.lines += [{"timestamp": 1, "message": text} for text in ("no JSON", "[]", '{"id": "1"}')]
    for number in range(3):
        entries = [*whole(f"{number}.png")[:-1], *state("Wait", "Wait For Lock"), succeeded()]
        logs.write(f"n:{number}", entries, 60 * number)
    listed = machine(logs).select()
    assert [(execution.key, execution.steps) for execution in listed] == [
        (f"{number}.png", ()) for number in (2, 1, 0)
    ]
    assert [execution.waited for execution in listed] == pytest.approx([0.1] * 3)


def test_a_filter_selects_by_key_prefix_outcome_and_time(logs: Logs) -> None:
    failed = [started("c.png"), *parked("input/c.png")]
    executions = [whole("a.png"), whole("a2.png", "Duplicate"), failed, [started("d.png")]]
    for number, entries in enumerate(executions):
        logs.write(f"n:{'abcd'[number]}", entries, 10 * number)
    for wanted, names in (
        (Filter(key="a.png"), "a"),
        (Filter(prefix="a"), "ab"),
        (Filter(outcomes=frozenset({"parked", "RUNNING"})), "cd"),
        (Filter(since=at(10)), "bcd"),
        (Filter(limit=1), "d"),
    ):
        assert {execution.id for execution in machine(logs).select(wanted)} == set(names)


def test_any_key_is_found_though_queries_have_only_plain_characters(logs: Logs) -> None:
    keys = {"a b/c-d_e.png": "*a b/c-d_e.png*", "שלום": "*"}
    keys |= {
        'x" || $.type = "': "*.type *",
        "stern*.png": "*stern*",
        "neu\nzeile.png": "*zeile.png*",
    }
    for number, key in enumerate(keys):
        logs.write(f"n:{number}", whole(key))
    for number, (key, plain) in enumerate(keys.items()):
        logs.asked.clear()
        [execution], _ = machine(logs).of_key(Filter(key=key))
        assert (execution.id, execution.key, execution.path) == (str(number), key, ["Claim Key"])
        pattern = f'{{ ($.type = "ExecutionStarted") && ($.details.input = "{plain}") }}'
        assert logs.asked[0]["filterPattern"] == pattern


def test_only_what_is_new_is_read_and_given_again(logs: Logs) -> None:
    logs.write("n:1", whole())
    logs.write("n:2", [started("y.png")], 600)
    reader = machine(logs)
    assert ends(reader.changed(at(200))) == ["Running", "Processed"]
    logs.write("n:2", [started("y.png"), succeeded()], 600, lost=[1])
    [ended] = reader.changed(at(600))
    assert (ended.key, ended.started, ended.ended_as) == ("y.png", at(600), "Processed")
    assert logs.asked[-1]["startTime"] == milliseconds(at(480))


def test_a_list_reads_no_entries_older_than_its_last_execution(logs: Logs) -> None:
    chance = random.Random(2)  # noqa: S311
    for number in range(60):  # one starts each second, and some outlive many others
        waits = state("Wait", "Wait For Lock") * chance.choice([0, 1, 20])
        entries = [started(f"{number}.png"), *waits, succeeded()]
        logs.write(f"n:{number}", entries[: chance.choice([-1, None, None])], number)
    keys = [f"{59 - number}.png" for number in range(60)]
    assert keys_of(machine(logs).select()) == keys
    everything, ended = logs.sent, Filter(outcomes=frozenset({"Processed"}))
    all_ended = machine(logs).select(ended)
    for limit in (1, 7, 25):
        logs.sent = 0
        assert keys_of(machine(logs).select(Filter(limit=limit))) == keys[:limit]
        assert logs.sent < everything * (limit + 20) / 60
        assert machine(logs).select(replace(ended, limit=limit)) == all_ended[:limit]


def test_an_execution_without_first_entry_is_listed_by_its_end(logs: Logs) -> None:
    for number in range(0, 1200, 60):
        logs.write(f"n:{number}", whole(f"{number}"), number, lost=[1] if number == 600 else [])
    listed = machine(logs).select()
    assert keys_of(listed) == [f"{number}" for number in range(1140, -1, -60)]
    assert listed[9].started is None


def test_an_arn_a_name_or_an_ids_beginning_finds_executions(logs: Logs) -> None:
    logs.write("first-name:1a2b", whole("a"))
    logs.write("second:1a3c", whole("b"))
    reader = machine(logs)
    for name in (f"{MACHINE}:first-name:1a2b", "firs", "1a2"):
        assert reader.find(name).key == "a"
    for wrong, text in (("1a", "1a2b, 1a3c"), ("4", "No execution"), ('"*', "No execution")):
        with pytest.raises(Failure, match=text):
            reader.find(wrong)


def test_below_all_the_functions_lines_tell_what_did_not_fail(logs: Logs) -> None:
    logs.answer("n:1", at(10), version_id="v")
    logs.answer("n:2", at(20), "y.png", message="Superseded")
    logs.answer("n:4", at(40), message="InvalidImage", cause="no image")
    logs.write("n:4", parked("input/x.png"), 40)
    refused = ("TaskFailed", SERVICE | REFUSED)
    logs.write("n:5", [refused, *parked("input/bad.png")], 50)
    logs.write("n:6", [refused], 60)  # it waited, or ended as a duplicate
    reader = machine(logs, level="ERROR")
    listed = reader.select()
    assert [execution.id for execution in listed] == ["5", "4", "2", "1"]
    assert ends(listed) == ["Parked", "Parked", "Superseded", "Processed"]
    [bad], _ = reader.of_key(Filter(key="bad.png"))
    assert (bad.key, bad.record_id, bad.ended_as) == ("bad.png", "input/bad.png", "Parked")
    of_key, unread = reader.of_key(Filter(key="x.png"))
    assert of_key == [listed[1], listed[3]]
    assert "level ERROR" in unread[0]
    processed = machine(logs, level="ERROR").find("1")
    assert (processed.version_id, processed.sequencer, processed.is_deletion) == ("v", "0A", None)
    assert (processed.started, processed.stopped, processed.seen) == (None, at(10), at(10))


def ended(state_name: str) -> list[Written]:
    """Build an execution whose last state has the name of its outcome."""
    before = [*state("Pass", "Prepare Event"), *state("Task", "Claim Key", *call())]
    return [started(), *before, *state("Pass", state_name), succeeded(state_name)]


def test_without_data_function_and_last_state_tell_key_and_outcome(logs: Logs) -> None:
    logs.has_data = False
    for number, outcome in enumerate(["Processed", "Duplicate", "Retrying"]):
        logs.write(f"n:{number}", ended(outcome), 60 * number)
    rejection = [started(), *state("Task", "Invert Image", *call()), *parked("input/x.png")]
    logs.write("n:3", rejection, 180)
    logs.write("n:4", [started(), *state("Wait", "Wait For Lock")], 240)
    logs.answer("n:0", at(0.3), version_id="v")
    logs.answer("n:3", at(180.3), message="InvalidImage", cause="no image")
    reader = machine(logs)
    listed = reader.select()
    assert keys_of(listed) == [None, "x.png", None, None, "x.png"]
    assert ends(listed) == ["Running", "Parked", "Retrying", "Duplicate", "Processed"]
    [rejected, processed], [unread] = reader.of_key(Filter(key="x.png"))
    assert "without data" in unread
    assert (rejected.id, processed.id) == ("3", "0")
    assert json.loads(rejected.cause) == {"Error": "InvalidImage"}
    assert processed.path == ["Prepare Event", "Claim Key", "Processed"]
    assert (processed.sequencer, processed.version_id, processed.event) == ("0A", "v", None)
    assert (processed.started, processed.seconds, processed.missing) == (at(0), 1.0, 0)
    assert reader.find("1").ended_as == "Duplicate"
    logs.answer("n:1", at(60.3), key="late.png")
    assert reader.find("1").key == "late.png"


def test_without_data_outcomes_need_the_last_state_or_an_answer(logs: Logs) -> None:
    logs.has_data = False
    last = len(ended("Processed")) - 1  # the exit of the last state
    for number in range(2):
        logs.write(f"n:{number}", ended("Processed"), number * 60, lost=[last])
    logs.answer("n:1", at(60.3), message="Superseded")
    reader = machine(logs)
    assert ends(reader.select()) == ["Superseded", "Succeeded"]
    assert [reader.find(name).missing for name in "01"] == [1, 1]


def test_without_data_starts_and_ends_are_reported_as_they_come(logs: Logs) -> None:
    logs.has_data = False
    logs.write("n:1", [started()])
    reader = machine(logs)
    [running] = reader.changed(at(0))
    assert (running.key, running.ended_as) == (None, "Running")
    logs.write("n:1", ended("Processed"))
    logs.answer("n:1", at(0.3))
    [processed] = reader.changed(at(1))
    assert (processed.key, processed.ended_as) == ("x.png", "Processed")


def test_at_error_without_data_the_function_tells_whose_execution_failed(logs: Logs) -> None:
    logs.has_data = False
    for name in ("n:1", "n:2"):
        logs.write(name, parked("input/x.png"))
    logs.answer("n:1", at(0), message="InvalidImage", cause="no image")
    reader = machine(logs, level="ERROR")
    keys = {execution.id: execution.key for execution in reader.select()}
    assert keys == {"1": "x.png", "2": None}
    [execution], [unread] = reader.of_key(Filter(key="x.png"))
    assert (execution.id, execution.ended_as) == ("1", "Parked")
    assert "level ERROR" in unread
    assert "without data" in unread


def test_a_long_search_finds_older_executions_by_the_functions_lines(
    logs: Logs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(AwsStateMachine, "search_seconds", -1)
    for number, outcome in enumerate(["Duplicate", "Processed", "Processed"]):
        logs.write(f"n:{number}", whole("x.png", outcome), number * 1000)
    logs.answer("n:1", at(1000.2))
    logs.answer("n:2", at(2000.2))
    executions, [unread] = machine(logs).of_key(Filter(key="x.png"))
    assert [execution.id for execution in executions] == ["2", "1"]
    assert [execution.path for execution in executions] == [["Claim Key"]] * 2
    assert "not to its end" in unread


@pytest.mark.parametrize(
    ("level", "has_data", "text"),
    [
        *(("ALL", True, ""), ("ERROR", True, "level ERROR"), (None, True, "level OFF")),
        *(("ALL", False, "without data"), ("ERROR", False, "without data")),
        ("OFF", False, "level OFF"),
    ],
)
def test_a_log_says_what_it_lacks(logs: Logs, level: str | None, has_data: bool, text: str) -> None:
    group = {"logGroupArn": "arn:aws:logs:r:1:log-group:g:*"}
    destinations = [{"cloudWatchLogsLogGroup": group}]
    logging = {"level": level, "includeExecutionData": has_data, "destinations": destinations}
    answer = {"loggingConfiguration": logging} if level else {}
    # Step Functions on AWS lists no Express executions.
    states = Mock(**{"describe_state_machine.return_value": answer})
    states.exceptions.StateMachineTypeNotSupported = KeyError
    states.list_executions.side_effect = KeyError
    logs.write("n:1", whole())
    reader = state_machine(states, logs, ["arn"])
    assert text in " ".join(reader.unknown)
    is_read = level in {"ALL", "ERROR"}
    assert (len(reader.unknown), len(reader.select())) == (1 if text else 0, 1 if is_read else 0)
    assert "data" not in text or "ExecutionLogData" in reader.unknown[0]
