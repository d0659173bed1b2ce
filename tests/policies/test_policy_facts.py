"""What statemachine/policies.toml and docs/policies.md say about events is what happens.

The log is at level ALL, with entries as AWS writes them.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import boto3
import pytest

from bench.log_size import METADATA, size_of
from inorder import PROJECT
from inorder.events import shipped
from inorder.policies import NOTHING, Cost, definition, policies, starts_newest
from inorder.run import with_object
from tests.conftest import picture
from tests.in_process import INPUT, InProcess
from tests.policies.situations import GREEN, RED, HeldBack, Paused, of

DOCUMENT = (PROJECT / "docs" / "policies.md").read_text()
POLICIES = {policy.name: policy for policy in policies()}
WAITING = [policy.name for policy in POLICIES.values() if policy.cost.waiter]
INDEXED = "in_progress_since"
EVENT = shipped("object-created")


def table(first_heading: str) -> Iterator[dict[str, str]]:
    """Read the rows of a table of docs/policies.md by the heading of its first column."""
    lines = iter(DOCUMENT.splitlines())
    headings = cells(next(line for line in lines if line.startswith(f"| {first_heading} |")))
    next(lines)
    for line in lines:
        if not line.startswith("|"):
            return
        yield dict(zip(headings, cells(line), strict=True))


def cells(line: str) -> list[str]:
    return [cell.strip(" `") for cell in line.strip().strip("|").split("|")]


def cost(aws: InProcess, execution: str) -> Cost:
    """Count the writes, reads and invocations of an execution, once it has ended."""
    states = definition(aws.policy)["States"]
    path = aws.wait(execution).path
    used = Counter(states[name].get("Resource", "").split(":::")[-1] for name in path)
    writes = used["dynamodb:putItem"] + used["dynamodb:updateItem"]
    return Cost(writes, reads=used["dynamodb:getItem"], invocations=used["lambda:invoke"])


def plain_writes(aws: InProcess, execution: str) -> int:
    """Count the writes of an execution to the record of a key that has no event in it."""
    states = definition(aws.policy)["States"]
    wrote = [
        json.dumps(parameters.get("Key", parameters.get("Item")))
        for name in aws.wait(execution).path
        if "ConditionExpression" in (parameters := states[name].get("Parameters", {}))
    ]
    has_both = any("$.event_id" in json.dumps(each) for each in states.values())
    return sum('"$.object_key"' in each for each in wrote) if has_both else 0


class Index:
    """Counts the entries of the table's index that are written or removed."""

    def __init__(self, aws: InProcess) -> None:
        self._aws, self._before, self.units = aws, self._entries(aws), 0
        assert boto3.DEFAULT_SESSION
        for operation in ("PutItem", "UpdateItem"):
            events = boto3.DEFAULT_SESSION.events
            events.register(f"before-call.dynamodb.{operation}", self._remember)
            events.register(f"after-call.dynamodb.{operation}", self._count)

    @staticmethod
    def _entries(aws: InProcess) -> set[tuple[Any, ...]]:
        return {(record["id"], record[INDEXED]) for record in aws.records() if INDEXED in record}

    def _remember(self, **_: Any) -> None:
        self._before = self._entries(self._aws)

    def _count(self, **_: Any) -> None:
        # A changed entry is removed and written anew.
        self.units += len(self._before ^ self._entries(self._aws))

    def take(self) -> int:
        units, self.units = self.units, 0
        return units


def upload(aws: InProcess, colour: tuple[int, int, int]) -> dict[str, Any]:
    """Upload an object, and give an event that is as long as those of S3."""
    shipped_detail: dict[str, Any] = EVENT["detail"]
    described = shipped_detail["object"]
    made = aws.upload(described["key"], picture(colour))["detail"]
    return EVENT | {"detail": shipped_detail | made | {"object": described | made["object"]}}


def entries(execution: str) -> list[tuple[str, int]]:
    """Give the name of the state, if it is entered, and the size of each entry of the log.

    The form is that of https://docs.aws.amazon.com/step-functions/latest/dg/cw-logs.html.
    """
    client = boto3.client("stepfunctions")
    pages = client.get_paginator("get_execution_history").paginate(executionArn=execution)
    history: list[Any] = [event for page in pages for event in page["events"]]
    written = []
    for event in history:
        details: dict[str, Any] = next(
            (value for name, value in event.items() if name.endswith("Details")), {}
        )
        if event["type"] == "TaskSucceeded" and details["resourceType"] == "lambda":
            details["output"] = json.dumps(json.loads(details["output"]) | METADATA)
        entered = details["name"] if event["type"].endswith("StateEntered") else ""
        written.append((entered, size_of(event["type"], details)))
    return written


def kilobytes(written: list[tuple[str, int]]) -> float:
    return sum(size for _, size in written) / 1000


def with_metadata() -> None:
    """Let DynamoDB and EventBridge answer as an optimized integration hands it on."""
    assert boto3.DEFAULT_SESSION
    for service in ("dynamodb", "eventbridge"):
        boto3.DEFAULT_SESSION.events.register(
            f"after-call.{service}", lambda parsed, **_: parsed.update(METADATA)
        )


@of(*POLICIES)
def test_an_event_costs_and_logs_what_the_facts_say(aws: InProcess) -> None:
    with_metadata()
    older, newer = (upload(aws, colour) for colour in (RED, GREEN))
    index, facts = Index(aws), POLICIES[aws.policy]
    for situation, event in (("uncontended", newer), ("duplicate", newer), ("older", older)):
        execution = aws.start(event)
        assert cost(aws, execution) == getattr(facts.cost, situation), situation
        assert plain_writes(aws, execution) == facts.plain_writes.get(situation, 0), situation
        assert index.take() == facts.index.get(situation, 0), situation
        if situation == "uncontended":
            assert kilobytes(entries(execution)) == pytest.approx(facts.log.uncontended, abs=1)


@pytest.mark.parametrize("polls", [1, 3])
@of(*WAITING)
def test_an_event_that_waits_costs_and_logs_what_the_facts_say(aws: InProcess, polls: int) -> None:
    with_metadata()
    paused, facts = Paused(aws, waits=polls), POLICIES[aws.policy]
    if starts_newest(aws.policy):
        waiter, used, written = behind_a_holder(aws, paused)
    else:
        waiter, used, written = behind_a_lock(aws, paused)
    expected = Counter(asdict(facts.cost.waiter or Cost(**NOTHING)))
    for _ in range(polls - 1):
        expected.update(asdict(facts.each_poll))
    assert (used, written) == (expected, facts.index.get("waiter", 0))
    plain = facts.plain_writes.get("waiter", 0)
    assert plain_writes(aws, waiter) == plain + (polls - 1) * facts.plain_writes.get("each_poll", 0)
    logged = entries(waiter)
    waits = [at for at, (name, _) in enumerate(logged) if name.startswith("Wait ")]
    for first, second in pairwise(waits[1:polls]):
        assert kilobytes(logged[first:second]) == pytest.approx(facts.log.poll, abs=1)


def behind_a_lock(aws: InProcess, paused: Paused) -> tuple[str, Counter[str], int]:
    """Let an event wait; give its execution, what that has used, and what the index has."""
    first = upload(aws, RED)
    aws.run(first)
    [record] = [each for each in aws.records() if not str(each["id"]).startswith("event:")]
    aws.put_record(record | {"status": "IN_PROGRESS", "lock_token": "another's"})
    index = Index(aws)
    is_content = aws.like == "content-hash"
    waiter = aws.start(first if is_content else upload(aws, GREEN))
    assert paused.waits.wait(30)
    written = index.take()
    released = {"lock_token": {"Action": "DELETE"}, "status": {"Value": "DONE"}}
    aws.table.update_item(Key={"id": record["id"]}, AttributeUpdates=released)
    index.take()
    paused.go_on.set()
    return waiter, Counter(asdict(cost(aws, waiter))), written + index.take()


def behind_a_holder(aws: InProcess, paused: Paused) -> tuple[str, Counter[str], int]:
    """Let an event wait, and the holder start it; give what this takes beside the holder's own."""
    index, facts, answers = Index(aws), POLICIES[aws.policy], HeldBack(aws)
    holder = aws.start(upload(aws, RED))
    assert answers.worked.wait(30)
    waiter = aws.start(upload(aws, GREEN))
    assert paused.waits.wait(30)
    answers.release.set()
    used = Counter[str]()
    for execution in (holder, started(aws, holder)):
        used.update(asdict(cost(aws, execution)))
    paused.go_on.set()  # when the event is processed
    used.update(asdict(cost(aws, waiter)))
    used.subtract(asdict(facts.cost.uncontended))
    return waiter, used, index.take() - facts.index["uncontended"]


def started(aws: InProcess, execution: str) -> str:
    """Name the execution that another one has started."""
    assert aws.wait(execution).outcome == "Processed"
    entries = aws.state_machine.entries(execution)
    [output] = [
        entry.details["output"]
        for entry in entries
        if entry.type == "TaskSucceeded" and entry.details["resourceType"] == "states"
    ]
    arn: str = json.loads(output)["executionArn"]
    return arn


def test_a_policy_has_the_cost_of_a_waiter_if_it_waits() -> None:
    types = {
        name: {state["Type"] for state in definition(name)["States"].values()} for name in POLICIES
    }
    assert [name for name in POLICIES if "Wait" in types[name]] == WAITING


@of(*POLICIES)
def test_an_event_file_ends_as_the_table_says(aws: InProcess) -> None:
    told = [(row["event"], row[aws.policy]) for row in table("event") if aws.policy in row]
    for file, outcome in told:
        event = shipped(Path(file).stem)
        if "version-id" in event["detail"].get("object", {}):
            aws.keep_versions()
        if event["detail-type"] in {"Object Created", "Object Deleted"}:
            event = with_object(event, picture(RED), aws.s3, INPUT, aws.run, lambda _: None)
        assert aws.run(event).outcome == outcome, file


def test_each_event_file_is_used_by_a_test_or_a_page() -> None:
    files = [PROJECT / "docs" / "policies.md", PROJECT / "README.md"]
    texts = "".join(file.read_text() for file in [*files, *PROJECT.glob("tests/**/*.py")])
    assert [file for file in PROJECT.glob("events/*.json") if file.stem not in texts] == []
