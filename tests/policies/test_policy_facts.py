"""What statemachine/policies.toml and docs/policies.md say about events is what happens."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import boto3
import pytest

from inorder import PROJECT
from inorder.events import shipped
from inorder.model.policies import Cost, definition, like, policies, starts_newest
from inorder.run import with_object
from tests.conftest import picture
from tests.in_process import INPUT, InProcess
from tests.policies.situations import GREEN, RED, HeldBack, Paused, locked_again, of, release

DOCUMENT = (PROJECT / "docs" / "policies.md").read_text()
POLICIES = {policy.name: policy for policy in policies()}
WAITING = [policy.name for policy in POLICIES.values() if policy.cost.waiter]
INDEXED = "in_progress_since"


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


@of(*POLICIES)
def test_an_event_costs_what_the_facts_say(aws: InProcess, policy: str) -> None:
    older, newer = aws.upload("x.png", picture(RED)), aws.upload("x.png", picture(GREEN))
    index, facts = Index(aws), POLICIES[policy]
    for situation, event in (("uncontended", newer), ("duplicate", newer), ("older", older)):
        execution = aws.start(event)
        assert cost(aws, execution) == getattr(facts.cost, situation), situation
        assert plain_writes(aws, execution) == facts.plain_writes.get(situation, 0), situation
        assert index.take() == facts.index.get(situation, 0), situation


@pytest.mark.parametrize("least", [1, 2])
@of(*(name for name in WAITING if not starts_newest(name)))
def test_an_event_that_waits_costs_what_the_facts_say(
    aws: InProcess, policy: str, least: int
) -> None:
    paused = Paused(aws, waits=least)
    first = aws.upload("x.png", picture(RED))
    aws.run(first)
    record = locked_again(aws)
    index, facts = Index(aws), POLICIES[policy]
    event = first if policy in like("content-hash") else aws.upload("x.png", picture(GREEN))
    waiter = aws.start(event)

    assert paused.waits.wait(30)
    written = index.take()
    release(aws, str(record["id"]))
    index.take()
    paused.go_on.set()
    counted, once, each = cost(aws, waiter), facts.cost.waiter, facts.each_poll
    assert once
    more = least - 1
    assert counted == Cost(
        once.writes + more * each.writes,
        once.reads + more * each.reads,
        once.invocations + more * each.invocations,
    )
    assert written + index.take() == facts.index.get("waiter", 0)
    plain = facts.plain_writes.get("waiter", 0) + more * facts.plain_writes.get("each_poll", 0)
    assert plain_writes(aws, waiter) == plain


@pytest.mark.parametrize("least", [1, 2])
@of(*(name for name in WAITING if starts_newest(name)))
def test_an_event_that_a_holder_starts_costs_what_the_facts_say(
    aws: InProcess, policy: str, least: int
) -> None:
    index, facts = Index(aws), POLICIES[policy]
    answers, paused = HeldBack(aws), Paused(aws, waits=least)
    holder = aws.start(aws.upload("x.png", picture(RED)))
    assert answers.worked.wait(30)
    waiter = aws.start(aws.upload("x.png", picture(GREEN)))
    assert paused.waits.wait(30)
    answers.release.set()
    used = Counter[str]()
    for execution in (holder, started(aws, holder)):
        used.update(asdict(cost(aws, execution)))
    paused.go_on.set()  # when the event is processed
    used.update(asdict(cost(aws, waiter)))
    used.subtract(asdict(facts.cost.uncontended))
    assert facts.cost.waiter
    expected = Counter(asdict(facts.cost.waiter))
    for _ in range(least - 1):
        expected.update(asdict(facts.each_poll))
    assert used == expected
    assert index.take() - facts.index["uncontended"] == facts.index["waiter"]


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
def test_an_event_file_ends_as_the_table_says(aws: InProcess, policy: str) -> None:
    told = [(row["event"], row[policy]) for row in table("event") if policy in row]
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
