"""Executions read from log entries as AWS documents them, by a CloudWatch that applies filters.

The form of an entry, and its levels:
https://docs.aws.amazon.com/step-functions/latest/dg/cw-logs.html. The types and their details are
those of the history: https://docs.aws.amazon.com/step-functions/latest/apireference/API_HistoryEvent.html
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import botocore.session
import pytest

from inorder.aws.log import AwsStateMachine, log_group, state_machine
from inorder.commands.executions import row
from inorder.errors import Failure
from inorder.events import created
from inorder.model.execution import ENDS, Attempt, Entry, Execution, Filter, execution_of

MACHINE = "arn:aws:states:us-east-1:123456789012:express:machine"
START = datetime(2026, 11, 22, 12, 0, 0, tzinfo=UTC)
REFUSED = {"error": "DynamoDB.ConditionalCheckFailedException", "cause": "refused"}
SERVICE = {"resource": "putItem", "resourceType": "dynamodb"}
LONGEST_PATTERN = 1024  # characters
Made = tuple[str, dict[str, Any]]


class Logs:
    """CloudWatch Logs, with one group whose lines are stored in any order, and some twice."""

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []
        self.asked: list[dict[str, Any]] = []

    def write(
        self, arn: str, entries: Sequence[Made], start: datetime = START, lost: Sequence[int] = ()
    ) -> None:
        """Write the entries of an execution, one each 100 ms, except the lost ones (IDs)."""
        for number, (kind, details) in enumerate(entries, 1):
            if number in lost:
                continue
            at = int((start + timedelta(milliseconds=100 * (number - 1))).timestamp() * 1000)
            message = {"id": str(number), "type": kind, "details": details}
            message |= {"event_timestamp": str(at), "execution_arn": arn}
            line = {"timestamp": at, "message": json.dumps(message)}
            self.lines += [line] * (1 + number % 2)
        random.Random(1).shuffle(self.lines)  # noqa: S311

    def get_paginator(self, _: str) -> Any:
        return SimpleNamespace(paginate=self._pages)

    def _pages(self, **asked: Any) -> Iterator[dict[str, Any]]:
        self.asked.append(asked)
        end = asked.get("endTime", float("inf"))
        for line in self.lines:
            if asked["startTime"] <= line["timestamp"] <= end:
                yield {"events": [line] if fits(asked["filterPattern"], line["message"]) else []}


def fits(pattern: str, line: str) -> bool:
    """Apply a pattern of strings with ``&&``, ``||`` and ``*``.

    As on the local AWS, a line that is no entry fits every pattern.
    https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/matching-terms-json-log-events.html
    """
    assert len(pattern) <= LONGEST_PATTERN
    try:
        message = json.loads(line)
        assert "execution_arn" in message
    except (ValueError, AssertionError):
        return True

    def compared(term: re.Match[str]) -> str:
        value = message
        for name in term[1].split("."):
            value = value.get(name, "") if isinstance(value, dict) else ""
        like = ".*".join(map(re.escape, term[2].split("*")))
        return str(bool(re.fullmatch(like, str(value), re.DOTALL)))

    [inside] = re.findall(r"^\{ (.*) \}$", pattern)
    said = re.sub(r'\$\.([\w.]+) = "([^"]*)"', compared, inside)
    return bool(eval(said.replace("&&", "and").replace("||", "or"), {}))  # noqa: S307


def task(name: str, *calls: Made, output: Any = None) -> list[Made]:
    """Give the entries of a Task whose data are left as they are."""
    data = json.dumps(output or {})
    entered = {"name": name, "input": data, "inputDetails": {"truncated": False}}
    exited = {"name": name, "output": data, "outputDetails": {"truncated": False}}
    return [("TaskStateEntered", entered), *calls, ("TaskStateExited", exited)]


def call(end: str = "TaskSucceeded", **details: Any) -> list[Made]:
    scheduled = {**SERVICE, "region": "us-east-1", "parameters": "{}", "timeoutInSeconds": 2}
    return [("TaskScheduled", scheduled), ("TaskStarted", SERVICE), (end, SERVICE | details)]


def state(kind: str, name: str, **data: Any) -> list[Made]:
    text = json.dumps(data)
    return [
        (f"{kind}StateEntered", {"name": name, "input": text}),
        (f"{kind}StateExited", {"name": name, "output": text}),
    ]


def started(key: str = "x.png", **changes: Any) -> Made:
    event = created(key, **changes)
    return ("ExecutionStarted", {"input": json.dumps(event), "inputDetails": {}, "roleArn": "r"})


def succeeded(outcome: str = "Processed", key: str = "x.png") -> Made:
    report = {"outcome": outcome, "object_key": f"input/{key}", "sequencer": "0A"}
    return ("ExecutionSucceeded", {"output": json.dumps(report), "outputDetails": {}})


def whole(key: str = "x.png", outcome: str = "Processed") -> list[Made]:
    return [started(key), *task("Claim Key", *call()), succeeded(outcome, key)]


@pytest.fixture
def logs() -> Logs:
    return Logs()


def machine(logs: Logs, **more: Any) -> AwsStateMachine:
    return AwsStateMachine(None, "arn", logs, "group", **more)


def read(logs: Logs, entries: Sequence[Made], lost: Sequence[int] = ()) -> Execution:
    arn = f"{MACHINE}:name:{len(logs.lines)}"
    logs.write(arn, entries, lost=lost)
    return machine(logs).describe(arn)


# Entries of every type


def test_no_type_that_aws_documents_is_an_error_wherever_it_comes() -> None:
    model = botocore.session.get_session().get_service_model("stepfunctions")
    details = {"name": "Claim Key", "input": "{}", "output": "{}", "error": "E", "cause": "C"}
    first, *others = [Entry(*made) for made in whole()]
    for kind in model.shape_for("HistoryEventType").metadata["enum"]:
        for at in range(len(others) + 1):
            entries = [first, *others[:at], Entry(kind, details), *others[at:]]
            assert execution_of("arn", entries).status in ENDS.values()


def at(milliseconds: int) -> datetime:
    return START + timedelta(milliseconds=milliseconds)


def test_attempts_are_told_apart_and_the_last_one_decides(logs: Logs) -> None:
    failed = call("TaskFailed", **REFUSED)
    calls = [*failed, *call("TaskTimedOut"), *call("TaskStartFailed", error="A", cause="c")]
    [step] = read(logs, [started(), *task("Claim Key", *calls), succeeded()]).steps
    assert step.attempts[0] == Attempt(at(200), at(400), REFUSED["error"], "refused")
    assert [each.error for each in step.attempts[1:]] == ["States.Timeout", "A"]
    assert (step.error, step.cause, step.entered, step.exited) == ("A", "c", at(100), at(1100))
    assert step.seconds == 1
    [step] = read(logs, [started(), *task("Claim Key", *failed, *call()), succeeded()]).steps
    assert (step.error, step.cause) == (None, "")
    # The beginning of the second one is lost.
    calls = [*call("TaskFailed", error="A"), *call("TaskFailed", error="B")]
    [step] = read(logs, [started(), *task("Claim Key", *calls)], lost=[6, 7]).steps
    assert [(each.error, each.started) for each in step.attempts] == [("A", at(200)), ("B", None)]


def test_times_of_an_execution_and_of_its_waits_are_added_up(logs: Logs) -> None:
    waits = [*state("Wait", "Wait For Lock"), *state("Wait", "Wait For Lock")]
    failed = ("ExecutionFailed", {"error": "Parked", "cause": '{"Error": "InvalidImage"}'})
    entered = ("FailStateEntered", {"name": "Parked", "input": '{"object_key": "input/k"}'})
    found = read(logs, [started(), *waits, *state("Choice", "Key State?"), entered, failed])
    assert (found.started, found.stopped, found.seconds) == (START, at(800), 0.8)
    assert found.waited == pytest.approx(0.2)
    assert found.path == ["Wait For Lock", "Wait For Lock", "Key State?", "Parked"]
    # A Fail has the error of the execution.
    assert (found.outcome, found.steps[-1].error) == ("Parked", "Parked")
    assert found.record_id == "input/k"


def test_a_retried_event_knows_its_attempt() -> None:
    for retry, attempt in (({}, 1), ({"attempt": 2}, 3), ({"attempt": "no"}, 1)):
        assert Execution("arn", "RUNNING", created() | {"retry": retry}).attempt == attempt


@pytest.mark.parametrize(
    ("end", "output", "status", "outcome"),
    [
        ("ExecutionSucceeded", '{"outcome": "Superseded"}', "SUCCEEDED", "Superseded"),
        *(
            ("ExecutionSucceeded", output, "SUCCEEDED", None)
            for output in ("{}", '{"outcome": ""}', "[]", "null", '"Processed"')
        ),
        ("ExecutionAborted", "", "ABORTED", None),
        ("ExecutionTimedOut", "", "TIMED_OUT", None),
    ],
)
def test_an_execution_ends_with_the_outcome_of_its_output_and_nothing_follows(
    logs: Logs, end: str, output: str, status: str, outcome: str | None
) -> None:
    later = state("Pass", "Processed")
    found = read(logs, [started(), (end, {"output": output, "error": ""}), *later])
    assert (found.status, found.outcome, found.steps) == (status, outcome, ())


# What is lost, cut off, or of somebody else


@pytest.mark.parametrize("lost", range(1, 8))
def test_an_entry_that_is_lost_is_counted_and_the_rest_is_read(logs: Logs, lost: int) -> None:
    found = read(logs, whole(), lost=[lost])
    is_last = lost == len(whole())
    assert found.missing == (0 if is_last else 1)
    assert found.status == ("RUNNING" if is_last else "SUCCEEDED")
    assert found.key == "x.png"


def test_calls_and_exits_of_a_state_whose_entry_is_lost_are_of_no_other_state(logs: Logs) -> None:
    refused = task("Claim Key", *call("TaskFailed", **REFUSED))
    found = read(logs, [started(), *state("Pass", "Prepare Event"), *refused, succeeded()], [4])
    assert [each.state for each in found.steps] == ["Prepare Event", ""]
    assert found.steps[1].error == REFUSED["error"]
    assert found.path == ["Prepare Event"]
    claim, release = task("Claim Key", output=1), task("Release Lock", output=2)
    found = read(logs, [started(), *claim, *release], lost=[3, 4])  # its exit, and the next entry
    assert [(each.state, each.output) for each in found.steps] == [("Claim Key", None)]


def test_data_that_is_cut_off_is_unknown_and_said_to_be(logs: Logs) -> None:
    cut = {"input": '{"detail": {"obj', "inputDetails": {"truncated": True}}
    found = read(logs, [("ExecutionStarted", cut), *whole()[1:]])
    assert (found.event, found.truncated) == (None, True)
    assert (found.key, found.sequencer) == ("x.png", "0A")  # the end says so too
    cut = {"output": '{"outcome": "Proc', "outputDetails": {"truncated": True}}
    found = read(logs, [*whole()[:-1], ("ExecutionSucceeded", cut)])
    assert (found.status, found.outcome, found.output) == ("SUCCEEDED", None, None)
    assert not read(logs, whole()).truncated


def test_a_list_leaves_out_an_execution_whose_event_is_lost_and_the_lines_of_others(
    logs: Logs,
) -> None:
    logs.lines += [{"timestamp": 1, "message": text} for text in ("no JSON", "[]", '{"id": "1"}')]
    logs.write(f"{MACHINE}:b:1", whole())
    assert len(machine(logs).select()) == 1
    logs.write(f"{MACHINE}:a:1", whole(), lost=[1])
    assert [each.arn for each in machine(logs).all()] == [f"{MACHINE}:b:1"]
    assert machine(logs).describe(f"{MACHINE}:a:1").status == "SUCCEEDED"


# Lists


def test_a_list_reads_no_entries_of_states_but_waits_and_the_newest_is_first(logs: Logs) -> None:
    for number in range(3):
        made = [*whole(f"{number}.png")[:-1], *state("Wait", "Wait For Lock"), succeeded()]
        logs.write(f"{MACHINE}:n:{number}", made, at(60_000 * number))
    found = machine(logs).select()
    assert [each.key for each in found] == ["2.png", "1.png", "0.png"]
    assert [each.steps for each in found] == [()] * 3
    assert [each.waited for each in found] == pytest.approx([0.1] * 3)
    assert logs.asked[0]["filterPattern"].count("$.type") == len(ENDS) + 3
    assert [each.key for each in machine(logs).select(Filter(limit=1))] == ["2.png"]
    # Clocks may differ by a minute, but not by an hour.
    since = START + timedelta(minutes=1)
    logs.write(f"{MACHINE}:n:old", whole(), START - timedelta(hours=1))
    assert [each.id for each in machine(logs, since=since).select()] == ["2", "1", "0"]


@pytest.mark.parametrize(
    ("wanted", "names"),
    [
        (Filter(key="a.png"), "a"),
        (Filter(prefix="a"), "ab"),
        (Filter(outcomes=frozenset({"parked", "RUNNING"})), "cd"),
        (Filter(since=START + timedelta(seconds=10)), "bcd"),
        (Filter(until=START + timedelta(seconds=10)), "ab"),
        (Filter(prefix="a", outcomes=frozenset({"Duplicate"})), "b"),
    ],
    ids=["key", "prefix", "outcomes", "since", "until", "prefix-and-outcome"],
)
def test_a_filter_selects_by_key_prefix_outcome_and_time(
    logs: Logs, wanted: Filter, names: str
) -> None:
    failed = ("ExecutionFailed", {"error": "Parked", "cause": "{}"})
    entries = [whole("a.png"), whole("a2.png", "Duplicate"), [started("c.png"), failed]]
    for number, made in enumerate([*entries, [started("d.png")]]):
        logs.write(f"{MACHINE}:n:{'abcd'[number]}", made, at(10_000 * number))
    assert "".join(sorted(each.id for each in machine(logs).select(wanted))) == names


def test_a_key_is_found_whatever_characters_it_has_and_only_a_plain_one_is_in_the_pattern(
    logs: Logs,
) -> None:
    keys = ["a b/c-d_e.png", 'q"uote.png', "stern*.png", "neu\nzeile.png", "שלום.png"]
    for number, key in enumerate(keys):
        logs.write(f"{MACHINE}:n:{number}", whole(key))
    for number, key in enumerate(keys):
        [found] = machine(logs).select(Filter(key=key))
        assert (found.id, found.key) == (str(number), key)
    machine(logs).select(Filter(key="a/x.png"))
    machine(logs).select(Filter(key='x" || $.type = "'))
    plain, other = (each["filterPattern"] for each in logs.asked[-2:])
    assert '$.details.input = "*a/x.png*"' in plain
    assert other == '{ ($.type = "ExecutionStarted") }'
    [found] = machine(logs).of_key(Filter(key=keys[0]))
    assert found.path == ["Claim Key"]
    # Only the few minutes of the execution are searched for its entries.
    assert logs.asked[-1]["endTime"] - logs.asked[-1]["startTime"] == 9 * 60 * 1000


def test_the_second_list_reads_only_what_is_new(logs: Logs) -> None:
    logs.write(f"{MACHINE}:n:1", whole(), at(0))
    logs.write(f"{MACHINE}:n:2", [started("y.png")], at(600_000))
    reader = machine(logs)
    listed = reader.select(Filter(since=START))
    assert {each.ended_as for each in listed} == {"Processed", "Running"}
    logs.write(f"{MACHINE}:n:2", [started("y.png"), succeeded()], at(600_000), lost=[1])
    listed = reader.select(Filter(since=at(1)))
    assert [(each.id, each.ended_as) for each in listed] == [("2", "Processed")]
    assert logs.asked[-1]["startTime"] == int(at(480_000).timestamp() * 1000)
    assert len(reader.select(Filter(since=START - timedelta(days=1)))) == 2
    assert logs.asked[-1]["startTime"] == int((START - timedelta(days=1)).timestamp() * 1000)


def test_an_execution_is_found_by_its_arn_name_or_the_beginning_of_its_id(logs: Logs) -> None:
    logs.write(f"{MACHINE}:first-name:1a2b", whole("a"))
    logs.write(f"{MACHINE}:second:1a3c", whole("b"))
    reader = machine(logs)
    for given in (f"{MACHINE}:first-name:1a2b", "first-name", "firs", "1a2b", "1a2"):
        assert reader.find(given).key == "a"
    with pytest.raises(Failure, match="has the ID 1a: 1a2b, 1a3c"):
        reader.find("1a")
    for none in ("4", '"*', f"{MACHINE}:none:9"):
        with pytest.raises(Failure, match="No execution has the ID"):
            reader.find(none)


# Other levels than ALL


def test_at_error_the_executions_that_failed_are_listed_and_the_rest_is_said(logs: Logs) -> None:
    entered = {"object_key": "input/bad.png", "sequencer": "0A"}
    fail = ("FailStateEntered", {"name": "Parked", "input": json.dumps(entered)})
    failed = ("ExecutionFailed", {"error": "Parked", "cause": '{"Error": "InvalidImage"}'})
    refused = ("TaskFailed", SERVICE | REFUSED)
    logs.write(f"{MACHINE}:n:1", [started(), refused, fail, failed], lost=[1])
    logs.write(f"{MACHINE}:n:2", [refused])  # it waited, or ended as a duplicate
    # A version of report, or the key report#1: the ID of the record does not tell.
    version = {"name": "Parked", "input": '{"object_key": "input/report#1"}'}
    logs.write(f"{MACHINE}:n:3", [("FailStateEntered", version), failed])
    reader = machine(logs, level="ERROR")
    [found] = reader.select(Filter(key="bad.png"))
    assert (found.key, found.record_id, found.ended_as) == ("bad.png", "input/bad.png", "Parked")
    whole_one = reader.describe(found.arn)
    assert (whole_one.missing, [each.state for each in whole_one.steps]) == (0, ["", "Parked"])
    [unclear] = [each for each in reader.select() if each.arn.endswith(":n:3")]
    assert (unclear.key, unclear.record_id, unclear.bucket) == (None, "input/report#1", None)
    assert row(unclear)[2] == "input/report#1"
    [said] = reader.unknown
    assert "it does not tell which events were processed, superseded or duplicates" in said


def described(level: str, data: bool = True) -> dict[str, Any]:
    destination = {"cloudWatchLogsLogGroup": {"logGroupArn": "arn:aws:logs:r:1:log-group:g:*"}}
    logging = {"level": level, "includeExecutionData": data, "destinations": [destination]}
    return {"loggingConfiguration": logging}


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (described("ALL"), None),
        (described("ALL", data=False), "no execution data"),
        (described("ERROR"), "level ERROR"),
        (described("OFF"), "level OFF"),
        ({}, "level OFF"),
    ],
)
def test_a_log_says_what_it_lacks_or_is_refused(
    logs: Logs, answer: dict[str, Any], said: str | None
) -> None:
    # Step Functions on AWS lists no Express executions.
    states = Mock(**{"describe_state_machine.return_value": answer})
    states.exceptions.StateMachineTypeNotSupported = KeyError
    states.list_executions.side_effect = KeyError
    logs.write(f"{MACHINE}:n:1", whole())
    found = state_machine(states, logs, "arn", needs_all=False)
    assert (said or "") in " ".join(found.unknown)
    assert bool(found.unknown) == bool(said)
    assert len(found.select()) == (0 if said and "OFF" in said else 1)
    if said:
        with pytest.raises(Failure, match="only at the level ALL"):
            state_machine(states, logs, "arn")
    assert (log_group(described("ALL")), log_group({})) == ("g", "")  # which may be missing
