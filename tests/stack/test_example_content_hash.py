"""The example of content hashes: duplicates, a failing bus, dead executions, an outage."""

import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

from inorder.aws.executions import wait_until
from inorder.local_aws import LocalAws
from tests.stack.conftest import SECONDS, Deployed, edit
from tests.support.contents import AGAIN, EXAMPLE, ORDER, app, kinesis_record, sqs_record
from tests.support.replacing import replaced

# A bus of another account, which refuses the entry, and not the call.
REFUSING_BUS = "arn:aws:events:us-east-1:210987654321:event-bus/another"
ONCE, TWICE = ({"processed": 1, "skipped": count, "failed": 0} for count in (0, 1))
FAILED = {"processed": 0, "skipped": 0, "failed": 1}


class Example(Deployed):
    """The example, deployed, with a consumer of what is forwarded."""

    def __init__(self, local: LocalAws, folder: Path) -> None:
        template = copytree(EXAMPLE, folder / "content_hash") / "template.yaml"
        often = {"VisibilityTimeout: 1800": "VisibilityTimeout: 2"}
        edit(template, often | {"maxReceiveCount: 48": "maxReceiveCount: 3"})
        super().__init__(local, "unique", template)
        self.states = local.client("stepfunctions")
        self.machine = self.states.describe_state_machine(
            stateMachineArn=self.deployed["StateMachineArn"]
        )
        self.contents = self.table_of(self.deployed["ContentsName"])
        self.bus = self.deployed["UniqueEventsName"]
        self.consumer = self.capture({"source": [{"prefix": "unique."}]}, self.bus)

    def put(self, event: dict[str, Any]) -> None:
        """Put an event on the default bus, whose rule sends it to the queue."""
        entry = {"Source": event["source"], "DetailType": event["detail-type"]}
        self.client("events").put_events(Entries=[entry | {"Detail": json.dumps(event["detail"])}])

    def put_record(self, data: Any) -> None:
        self.client("kinesis").put_record(
            StreamName=self.deployed["RecordsName"], Data=json.dumps(data), PartitionKey="a"
        )

    def give(self, *records: Any) -> Any:
        """Give a batch to the function, as the local AWS does not make batches of certain sizes."""
        return self.invoke(self.deployed["FunctionName"], {"Records": records})

    def forwarded(self) -> list[Any]:
        return [*map(json.loads, self.received(self.consumer))]

    def receive_event(self, queue: str) -> Any:
        return json.loads(self.receive(queue))

    def wait_until_drained(self) -> None:
        """Wait until no message of the queue waits, or is being processed."""
        names = ("ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible")
        counts = partial(self.queue_attributes, self.deployed["EventsUrl"], *names)
        wait_until(lambda: counts() == ["0", "0"], SECONDS, "the queue")

    def executions(self, status: str) -> list[Any]:
        answer = self.states.list_executions(
            stateMachineArn=self.machine["stateMachineArn"], statusFilter=status, maxResults=1000
        )
        return sorted(answer["executions"], key=lambda execution: execution["startDate"])

    def test(self, state: str, data: Any, execution: str = "mine", **more: Any) -> Any:
        """Run one state of the deployed state machine, with the deployed table."""
        return self.states.test_state(
            definition=self.machine["definition"],
            roleArn=self.machine["roleArn"],
            stateName=state,
            input=json.dumps(data),
            context=json.dumps({"Execution": {"Id": execution}}),
            **more,
        )

    def keep(self, record: dict[str, Any] | None) -> None:
        if record is not None:
            self.contents.put_item(Item={**record, "id": CONTENT})

    def kept(self) -> dict[str, Any] | None:
        item = self.contents.get_item(Key={"id": CONTENT}).get("Item")
        return item and {name: value for name, value in item.items() if name != "id"}

    @contextmanager
    def refusing(self) -> Iterator[None]:
        """Let the bus refuse each entry."""
        definition, arn = self.machine["definition"], self.machine["stateMachineArn"]
        self.states.update_state_machine(
            stateMachineArn=arn, definition=replaced(definition, self.bus, REFUSING_BUS)
        )
        try:
            yield
        finally:
            self.states.update_state_machine(stateMachineArn=arn, definition=definition)


@pytest.fixture(scope="module")
def unique(strict: LocalAws, tmp_path_factory: pytest.TempPathFactory) -> Example:
    return Example(strict, tmp_path_factory.mktemp("unique"))


@pytest.fixture(autouse=True)
def forgets(unique: Example) -> Iterator[None]:
    """Begin without contents, and end without an event that nobody expects."""
    for record in unique.contents.scan()["Items"]:
        unique.contents.delete_item(Key={"id": record["id"]})
    yield
    assert unique.forwarded() == []
    assert unique.received(unique.deployed["FailedEventsUrl"]) == []


Make = Callable[[Any], dict[str, Any]]
# The local AWS ignores which records of a batch of Kinesis have failed, so these are recorded ones.
from_both_sources = pytest.mark.parametrize("record", [sqs_record, kinesis_record])


def content(event: dict[str, Any]) -> dict[str, Any]:
    """What of a forwarded event must be that of the original one."""
    return {
        "source": f"unique.{event['source']}",
        "detail-type": event["detail-type"],
        "detail": event["detail"],
    }


def named(event: dict[str, Any]) -> dict[str, Any]:
    return {name: event[name] for name in ("source", "detail-type", "detail")}


def number_of(record: dict[str, Any]) -> str:
    return str(record.get("messageId") or record["kinesis"]["sequenceNumber"])


@from_both_sources
def test_duplicates_in_one_batch_are_forwarded_once(unique: Example, record: Make) -> None:
    answer = unique.give(record(ORDER), record(AGAIN))
    assert answer == {"batchItemFailures": []} | TWICE
    [forwarded] = unique.forwarded()
    assert named(forwarded) == content(ORDER)
    [kept] = unique.contents.scan()["Items"]
    assert kept["status"] == "FORWARDED"
    assert kept.keys() == {"id", "status", "expires_at"}


def test_duplicates_in_two_batches_are_forwarded_once(unique: Example) -> None:
    unique.put(ORDER)
    assert named(unique.receive_event(unique.consumer)) == content(ORDER)
    unique.put(AGAIN)
    unique.wait_until_drained()
    assert unique.give(sqs_record(AGAIN))["skipped"] == 1


def test_duplicates_at_the_same_time_are_forwarded_once(unique: Example) -> None:
    records = [make(event) for make in (sqs_record, kinesis_record) for event in (ORDER, AGAIN)]
    with ThreadPoolExecutor(len(records)) as pool:
        answers = list(pool.map(unique.give, records))
    assert [answer["processed"] for answer in answers].count(1) == 1
    [forwarded] = unique.forwarded()
    assert named(forwarded)["detail"] == ORDER["detail"]
    # One that has met the claim of another one comes again, and is skipped then.
    again = [unique.give(record) for record in records]
    assert [answer["skipped"] for answer in again] == [1] * len(records)


def test_a_stream_and_a_queue_forward_an_event_once(unique: Example) -> None:
    unique.put_record(AGAIN)
    assert named(unique.receive_event(unique.consumer)) == content(AGAIN)
    unique.put_record(ORDER)
    unique.put(ORDER)
    unique.wait_until_drained()
    unique.put_record({"order": "A-1018"})  # behind the duplicate, so that one was processed
    forwarded = unique.receive_event(unique.consumer)
    source = f"unique.kinesis.{unique.deployed['RecordsName']}"
    assert (forwarded["source"], forwarded["detail"]) == (source, {"order": "A-1018"})


def test_different_contents_are_all_forwarded(unique: Example) -> None:
    other = ORDER | {"detail": ORDER["detail"] | {"total": 19.51}}
    answer = unique.give(sqs_record(ORDER), sqs_record(other))
    assert (answer["processed"], answer["skipped"]) == (2, 0)
    assert [named(event) for event in unique.forwarded()] == [content(ORDER), content(other)]


@from_both_sources
def test_a_refused_event_fails_and_is_forwarded_later(unique: Example, record: Make) -> None:
    delivery = record(ORDER)
    with unique.refusing():
        answer = unique.give(delivery)
    assert answer == {"batchItemFailures": [{"itemIdentifier": number_of(delivery)}]} | FAILED
    assert unique.contents.scan()["Items"] == []  # so that the next attempt need not wait
    assert unique.give(delivery) == {"batchItemFailures": []} | ONCE
    assert named(unique.forwarded()[0]) == content(ORDER)


def test_the_queue_delivers_a_refused_event_again(unique: Example) -> None:
    failed = len(unique.executions("FAILED"))
    with unique.refusing():
        unique.put(ORDER)
        wait_until(lambda: len(unique.executions("FAILED")) > failed, SECONDS, "a failure")
    assert named(unique.receive_event(unique.consumer)) == content(ORDER)
    unique.wait_until_drained()


def test_the_dead_letter_queue_keeps_messages_that_are_refused_long(unique: Example) -> None:
    queue = {"QueueUrl": unique.deployed["EventsUrl"]}
    with unique.refusing():
        unique.sqs.set_queue_attributes(**queue, Attributes={"VisibilityTimeout": "1"})
        unique.put(ORDER)
        kept = unique.receive_event(unique.deployed["FailedEventsUrl"])
    assert named(kept) == named(ORDER)


def test_during_an_outage_of_the_table_nothing_is_forwarded(unique: Example) -> None:
    dynamodb = unique.client("dynamodb")
    table = dynamodb.describe_table(TableName=unique.contents.name)["Table"]
    delivery = sqs_record(ORDER)
    dynamodb.delete_table(TableName=unique.contents.name)
    try:
        answer = unique.give(delivery)
    finally:
        names = ("TableName", "KeySchema", "AttributeDefinitions")
        description = {name: table[name] for name in names}
        dynamodb.create_table(**description, BillingMode="PAY_PER_REQUEST")
    assert answer == {"batchItemFailures": [{"itemIdentifier": number_of(delivery)}]} | FAILED
    assert unique.forwarded() == []
    assert unique.give(delivery)["processed"] == 1
    assert named(unique.forwarded()[0]) == content(ORDER)


CONTENT = "a content"
NOW, DEAD_BEFORE = 1_800_000_000, 1_799_999_640
GIVEN = {
    "id": CONTENT,
    "now": str(NOW),
    "dead_before": str(DEAD_BEFORE),
    "expires_at": str(NOW + 60),
    "event": named(ORDER),
    "answer": {},
}
CLAIMED = {"status": "CLAIMED", "claimed_by": "theirs", "claimed_at": NOW, "expires_at": NOW + 60}
FORWARDED = {"status": "FORWARDED", "expires_at": NOW}


@pytest.mark.parametrize(("age", "answer"), [(300, FAILED), (362, ONCE)])
def test_a_dead_executions_claim_is_taken_over_after_six_minutes(
    unique: Example, age: int, answer: dict[str, int]
) -> None:
    now, is_over = int(time.time()), answer == ONCE
    claim = CLAIMED | {"claimed_at": now - age, "expires_at": now + 60}
    unique.contents.put_item(Item=claim | {"id": app().content_of(SQSRecord(sqs_record(ORDER))).id})
    assert unique.give(sqs_record(AGAIN)).items() >= answer.items()
    [kept] = unique.contents.scan()["Items"]
    assert kept["status"] == ("FORWARDED" if is_over else "CLAIMED")
    assert [named(event) for event in unique.forwarded()] == [content(AGAIN)] * is_over


CLAIMS: dict[str, tuple[Any, bool]] = {
    "new": (None, True),
    "claimed": (CLAIMED, False),
    "claimed six minutes ago": (CLAIMED | {"claimed_at": DEAD_BEFORE}, False),
    "claimed earlier": (CLAIMED | {"claimed_at": DEAD_BEFORE - 1}, True),
    "claimed by an attempt without an answer": (CLAIMED | {"claimed_by": "mine"}, True),
    "forwarded": (FORWARDED, False),
    "forgotten": (FORWARDED | {"expires_at": NOW - 1}, True),
}


@pytest.mark.parametrize(("before", "may_claim"), CLAIMS.values(), ids=CLAIMS)
def test_a_claim_is_refused_while_another_one_counts(
    unique: Example, before: Any, may_claim: bool
) -> None:
    unique.keep(before)
    answer = unique.test("Claim Content", GIVEN)
    assert answer["nextState"] == ("Forward Event" if may_claim else "Read Content")
    mine = CLAIMED | {"claimed_by": "mine"}
    assert unique.kept() == (mine if may_claim else before)


@pytest.mark.parametrize("before", [None, CLAIMED, FORWARDED])
def test_an_execution_that_was_taken_over_changes_nothing(unique: Example, before: Any) -> None:
    unique.keep(before)
    assert unique.test("Mark As Forwarded", GIVEN)["nextState"] == "Processed"
    assert unique.test("Release Content", GIVEN)["nextState"] == "Not Forwarded"
    assert unique.kept() == before


OUTAGES = {
    ("Claim Content", "DynamoDB.InternalServerErrorException"): "Release Content",
    ("Read Content", "DynamoDB.InternalServerErrorException"): "Not Forwarded",
    ("Forward Event", "EventBridge.FailedEntry"): "Release Content",
    ("Forward Event", "States.Timeout"): "Release Content",
    ("Mark As Forwarded", "DynamoDB.InternalServerErrorException"): "Processed",
    ("Release Content", "States.Timeout"): "Not Forwarded",
}


@pytest.mark.parametrize(("at", "following"), OUTAGES.items())
def test_only_what_was_forwarded_ends_as_processed(
    unique: Example, at: tuple[str, str], following: str
) -> None:
    state, error = at
    failing = {"errorOutput": {"error": error, "cause": "an outage"}}
    assert unique.test(state, GIVEN, mock=failing)["nextState"] == following
