"""What statemachine/policies.toml and docs/policies.md say about events is what happens."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest

from inorder import PROJECT
from inorder.aws.executions import wait_until
from inorder.policies import Cost, asl_file, definition, policies
from inorder.run import with_object
from tests.conftest import picture
from tests.events import shipped
from tests.in_process import INPUT, InProcess
from tests.policies.situations import GREEN, RED

DOCUMENT = (PROJECT / "docs" / "policies.md").read_text()
EVENTS = sorted((PROJECT / "events").glob("*.json"))
COSTS = {policy.name: policy.cost for policy in policies()}
EACH_POLICY = pytest.mark.parametrize(
    "policy", [pytest.param(policy, marks=pytest.mark.policy(policy)) for policy in COSTS]
)


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


def cost(policy: str, execution: str) -> Cost:
    """Count the writes, reads and invocations of an execution, once it has ended."""
    states = definition(policy)["States"]
    client = boto3.client("stepfunctions")
    wait_until(
        lambda: client.describe_execution(executionArn=execution)["status"] != "RUNNING",
        30,
        "the end",
    )
    used = Counter(states[name].get("Resource", "").split(":::")[-1] for name in entered(execution))
    writes = used["dynamodb:putItem"] + used["dynamodb:updateItem"]
    return Cost(writes, reads=used["dynamodb:getItem"], invocations=used["lambda:invoke"])


def entered(execution: str) -> list[str]:
    client = boto3.client("stepfunctions")
    history = client.get_execution_history(executionArn=execution)["events"]
    details = [event.get("stateEnteredEventDetails") for event in history]
    return [each["name"] for each in details if each]


@EACH_POLICY
def test_an_event_costs_what_the_facts_say(aws: InProcess, policy: str) -> None:
    older, newer = aws.upload("x.png", picture(RED)), aws.upload("x.png", picture(GREEN))
    assert cost(policy, aws.start(newer)) == COSTS[policy].uncontended
    assert cost(policy, aws.start(newer)) == COSTS[policy].duplicate
    assert cost(policy, aws.start(older)) == COSTS[policy].older


@EACH_POLICY
def test_an_event_that_waits_once_costs_what_the_facts_say(aws: InProcess, policy: str) -> None:
    if not COSTS[policy].waiter:
        assert '"Type": "Wait"' not in (PROJECT / asl_file(policy)).read_text()
        return
    aws.wait_scale = 0.4
    first = aws.upload("x.png", picture(RED))
    aws.run(first)
    items = aws.table.scan()["Items"]
    [record] = [item for item in items if not str(item["id"]).startswith("event:")]
    aws.put_record(record | {"status": "IN_PROGRESS", "lock_token": "another's"})
    event = first if policy == "content-hash" else aws.upload("x.png", picture(GREEN))
    waiter = aws.start(event)
    wait_until(lambda: any(name.startswith("Wait ") for name in entered(waiter)), 30, "a wait")
    aws.table.update_item(
        Key={"id": record["id"]},
        UpdateExpression="SET #status = :done REMOVE lock_token",
        ExpressionAttributeNames={"#status": "status"},
        ExpressionAttributeValues={":done": "DONE"},
    )
    assert cost(policy, waiter) == COSTS[policy].waiter


@pytest.mark.parametrize(
    ("file", "outcome"),
    [
        pytest.param(
            row["event"],
            row[policy],
            marks=pytest.mark.policy(policy),
            id=f"{row['event']}-{policy}",
        )
        for row in table("event")
        for policy in COSTS
        if policy in row
    ],
)
def test_an_event_file_ends_as_the_table_says(aws: InProcess, file: str, outcome: str) -> None:
    event = shipped(Path(file).stem)
    if "version-id" in event["detail"].get("object", {}):
        aws.keep_versions()
    if event["detail-type"] in {"Object Created", "Object Deleted"}:
        event = with_object(event, picture(RED), aws.s3, INPUT, aws.run, lambda _: None)
    assert aws.run(event).outcome == outcome


@pytest.mark.policy("content-hash")
def test_the_same_order_with_another_id_and_field_order_is_a_duplicate(aws: InProcess) -> None:
    first, again = shipped("order-placed"), shipped("order-placed-again")
    assert first["id"] != again["id"]
    assert first["detail"] == again["detail"]
    assert list(first["detail"]) != list(again["detail"])
    assert aws.run(first).outcome == "Processed"
    assert aws.run(again).outcome == "Duplicate"


@pytest.mark.parametrize("file", EVENTS, ids=lambda file: file.name)
def test_each_event_file_is_used_by_a_test_or_a_page(file: Path) -> None:
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
def test_a_newer_event_after_a_change_of_policy(aws: InProcess, after: str, outcome: str) -> None:
    aws.run(aws.upload("x.png", picture(RED)))
    ended = aws.machine(after).run(aws.upload("x.png", picture(GREEN)), 60)
    assert ended.outcome == outcome


@pytest.mark.policy("latest-wins")
def test_a_redelivery_after_a_change_to_every_version_is_processed_once_more(
    aws: InProcess,
) -> None:
    event = aws.upload("x.png", picture(RED))
    aws.run(event)
    machine = aws.machine("every-version")
    assert machine.run(event, 60).outcome == "Processed"
    assert machine.run(event, 60).outcome == "Duplicate"
