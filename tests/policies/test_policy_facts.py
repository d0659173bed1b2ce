"""docs/policies.md says what is so: its tables, its costs, and where each event file ends."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest

from inorder.executions import wait_until
from inorder.policies import asl_file
from inorder.run import with_object
from inorder.stack import PROJECT
from tests.conftest import picture
from tests.in_process import INPUT, InProcess
from tests.statemachine.situations import GREEN, RED

DOCUMENT = (PROJECT / "docs" / "policies.md").read_text()
EVENTS = sorted((PROJECT / "events").glob("*.json"))


def table(first_heading: str) -> Iterator[dict[str, str]]:
    """Read the rows of a table of the document by the heading of its first column."""
    lines = iter(DOCUMENT.splitlines())
    start = next(line for line in lines if line.startswith(f"| {first_heading} |"))
    headings = cells(start)
    next(lines)
    for line in lines:
        if not line.startswith("|"):
            return
        yield dict(zip(headings, cells(line), strict=True))


def cells(line: str) -> list[str]:
    return [cell.strip(" `") for cell in line.strip().strip("|").split("|")]


def states(policy: str) -> dict[str, Any]:
    """Read a policy's states, without their Comments."""
    definition = json.loads((PROJECT / asl_file(policy)).read_text())
    return {
        name: {field: value for field, value in state.items() if field != "Comment"}
        for name, state in definition["States"].items()
    }


COSTS = list(table("cost of"))
OUTCOMES = list(table("event"))
POLICIES = [row["cost of"] for row in COSTS]
EACH = pytest.mark.parametrize(
    "row",
    [pytest.param(row, marks=pytest.mark.policy(row["cost of"])) for row in COSTS],
    ids=POLICIES,
)


def test_the_table_of_states_is_that_of_the_files() -> None:
    documented = list(table("state"))
    policies = [heading for heading in documented[0] if heading != "state"]
    each = {policy: states(policy) for policy in policies}
    names = dict.fromkeys(name for policy in policies for name in each[policy])

    def cell(policy: str, name: str) -> str:
        if name not in each[policy]:
            return ""
        return "=" if each[policy][name] == each["latest-wins"].get(name) else "own"

    rows = [{"state": name, **{each: cell(each, name) for each in policies}} for name in names]
    assert documented == rows


def test_the_tables_tell_of_every_policy_that_the_project_ships() -> None:
    promised = [row["policy"] for row in table("policy")]
    assert [row["cost of"] for row in COSTS] == promised
    assert all((PROJECT / asl_file(policy)).exists() for policy in promised)


def cost(policy: str, arn: str) -> str:
    """Count writes, reads and invocations on the path of an execution."""
    client, each = boto3.client("stepfunctions"), states(policy)
    wait_until(
        lambda: client.describe_execution(executionArn=arn)["status"] != "RUNNING", 30, "the end"
    )
    used = Counter(each[name].get("Resource", "").rpartition(":::")[2] for name in entered(arn))
    writes = used["dynamodb:putItem"] + used["dynamodb:updateItem"]
    return f"{writes} / {used['dynamodb:getItem']} / {used['lambda:invoke']}"


def entered(arn: str) -> list[str]:
    history = boto3.client("stepfunctions").get_execution_history(executionArn=arn)["events"]
    return [
        event["stateEnteredEventDetails"]["name"]
        for event in history
        if "stateEnteredEventDetails" in event
    ]


@EACH
def test_an_event_costs_what_the_table_says(aws: InProcess, row: dict[str, str]) -> None:
    policy = row["cost of"]
    older, newer = aws.upload("x.png", picture(RED)), aws.upload("x.png", picture(GREEN))
    assert cost(policy, aws.start(newer)) == row["uncontended"]
    assert cost(policy, aws.start(newer)) == row["duplicate"]
    assert cost(policy, aws.start(older)) == row["older event"]


@EACH
def test_waiting_once_costs_what_the_table_says(aws: InProcess, row: dict[str, str]) -> None:
    policy = row["cost of"]
    if row["waiter"] == "-":
        assert not any(state["Type"] == "Wait" for state in states(policy).values())
        return
    aws.wait_scale = 0.4
    first = aws.upload("x.png", picture(RED))
    aws.run(first)
    items = aws.table.scan()["Items"]
    [key] = [item for item in items if not str(item["id"]).startswith("event:")]
    aws.put_record(key | {"status": "IN_PROGRESS", "lock_token": "another run's"})
    event = first if policy == "content-hash" else aws.upload("x.png", picture(GREEN))
    waiting = aws.start(event)
    wait_until(lambda: any(name.startswith("Wait ") for name in entered(waiting)), 30, "a wait")
    aws.table.update_item(
        Key={"id": key["id"]},
        UpdateExpression="SET #status = :done REMOVE lock_token",
        ExpressionAttributeNames={"#status": "status"},
        ExpressionAttributeValues={":done": "DONE"},
    )
    assert cost(policy, waiting) == row["waiter"]


@pytest.mark.parametrize(
    ("file", "outcome"),
    [
        pytest.param(
            row["event"],
            row[policy],
            marks=pytest.mark.policy(policy),
            id=f"{row['event']}-{policy}",
        )
        for row in OUTCOMES
        for policy in POLICIES
        if policy in row
    ],
)
def test_an_event_file_ends_as_the_table_says(aws: InProcess, file: str, outcome: str) -> None:
    event = json.loads((PROJECT / "events" / file).read_text())
    if "version-id" in event["detail"].get("object", {}):
        aws.keep_versions()
    if event["detail-type"] in {"Object Created", "Object Deleted"}:
        event = with_object(event, picture(RED), aws.s3, INPUT, aws.run, lambda _: None)
    assert aws.run(event).outcome == outcome


@pytest.mark.policy("content-hash")
def test_the_same_order_in_other_words_is_a_duplicate(aws: InProcess) -> None:
    files = [PROJECT / "events" / f"order-placed{which}.json" for which in ("", "-again")]
    first, again = (json.loads(file.read_text()) for file in files)
    assert first["detail"] == again["detail"]
    assert list(first["detail"]) != list(again["detail"])
    assert aws.run(first).outcome == "Processed"
    assert aws.run(again).outcome == "Duplicate"


@pytest.mark.parametrize("file", EVENTS, ids=lambda file: file.name)
def test_each_event_file_is_there_for_something(file: Path) -> None:
    texts = [DOCUMENT, (PROJECT / "README.md").read_text()]
    texts += [test.read_text() for test in PROJECT.glob("tests/**/*.py")]
    assert any(file.stem in text for text in texts)


@pytest.mark.parametrize(
    ("after", "outcome"),
    [
        pytest.param(after, outcome, marks=pytest.mark.policy(before), id=f"{before}-{after}")
        for before, after, outcome in [
            ("latest-wins", "every-version", "Processed"),
            ("latest-wins", "first-wins", "Duplicate"),
            ("latest-wins", "optimistic", "Processed"),
            ("latest-wins", "content-hash", "Processed"),
            ("first-wins", "every-version", "Processed"),
            ("first-wins", "latest-wins", "Processed"),
            ("every-version", "latest-wins", "Processed"),
            ("every-version", "first-wins", "Processed"),
            ("content-hash", "latest-wins", "Processed"),
            ("optimistic", "latest-wins", "Processed"),
        ]
    ],
)
def test_a_newer_event_after_a_switch_of_policy(aws: InProcess, after: str, outcome: str) -> None:
    aws.run(aws.upload("x.png", picture(RED)))
    ended = aws.machine(after).run(aws.upload("x.png", picture(GREEN)), 60)
    assert ended.outcome == outcome


@pytest.mark.policy("latest-wins")
def test_a_redelivery_after_a_switch_to_every_version_is_processed_once_more(
    aws: InProcess,
) -> None:
    event = aws.upload("x.png", picture(RED))
    aws.run(event)
    machine = aws.machine("every-version")
    assert machine.run(event, 60).outcome == "Processed"
    assert machine.run(event, 60).outcome == "Duplicate"
