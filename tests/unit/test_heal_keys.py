"""One sweep: which records it finds, how many events it starts, how fast, and what it says."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from types import ModuleType
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from stuck import DEAD_AFTER, GIVEN_UP_AFTER, INDEX, RESTARTS_AT_MOST, StuckKey, find, start
from stuck import SINCE as ATTRIBUTE

from inorder import PROJECT
from inorder.aws import stuck as of_the_command
from tests.events import created
from tests.in_process import KEY_TABLE, Context
from tests.resolved_template import template
from tests.unit.conftest import Lines, Load

TABLE = "keys"
OLD = DEAD_AFTER + timedelta(seconds=1)
SINCE = "then"
TIMEOUT: int = template()["Resources"]["HealKeysFunction"]["Properties"]["Timeout"]


class SweepContext(Context):
    """A Lambda context in which time passes only as a test says."""

    function_name = "heal-keys"
    seconds = 0.0

    def get_remaining_time_in_millis(self) -> int:
        return TIMEOUT * 1000 - round(self.seconds * 1000)


class Healer:
    """The function, its table, and a state machine that leaves the table as it is."""

    def __init__(self, function: ModuleType) -> None:
        self.function = function
        self.refused: list[str] = []
        self.started: list[Any] = []
        function.states.meta.events.register(
            "provide-client-params.stepfunctions.StartExecution", self._note
        )

    def _note(self, params: dict[str, Any], **_: Any) -> None:
        event = json.loads(params["input"])
        if event["detail"]["object"]["key"] in self.refused:
            raise ClientError({"Error": {"Code": "ThrottlingException"}}, "StartExecution")
        assert params["stateMachineArn"] == self.function.STATE_MACHINE_ARN
        self.started.append(event)

    def put(self, key: str, age: timedelta | None, **more: Any) -> None:
        """Put a record that has been in progress for so long."""
        restarts = {"restarts": more.pop("restarts")} if "restarts" in more else {}
        item = {"id": key, "event": json.dumps(created(key) | restarts)}
        if age is not None:
            item["in_progress_since"] = ago(age)
        boto3.resource("dynamodb").Table(TABLE).put_item(Item=item | more)

    def parked(self) -> list[Any]:
        """Give the messages in the queue of parked events, each once."""
        sqs = boto3.client("sqs")
        queue = self.function.PARKED_QUEUE_URL
        messages = sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10)
        return [json.loads(each["Body"]) for each in messages.get("Messages", [])]

    def sweep(self, context: SweepContext | None = None) -> list[str]:
        """Sweep, and give the keys whose events were started."""
        self.started.clear()
        self.function.handler({}, context or SweepContext())
        return self.started_keys()

    def sweep_that_fails(self) -> list[str]:
        with pytest.raises(Exception, match="see the log") as raised:
            self.sweep()
        assert raised.type is self.function.SweepFailed
        return self.started_keys()

    def started_keys(self) -> list[str]:
        return [event["detail"]["object"]["key"] for event in self.started]


def ago(age: timedelta) -> str:
    return (datetime.now(UTC) - age).isoformat()


@pytest.fixture
def pauses() -> list[float]:
    return []


@pytest.fixture
def healer(load: Load, monkeypatch: pytest.MonkeyPatch, pauses: list[float]) -> Healer:
    names = ("AttributeDefinitions", "KeySchema", "GlobalSecondaryIndexes", "BillingMode")
    boto3.client("dynamodb").create_table(
        TableName=TABLE, **{name: KEY_TABLE[name] for name in names}
    )
    queue, other = (
        boto3.client("sqs").create_queue(QueueName=name)["QueueUrl"] for name in ("parked", "other")
    )
    function = load(
        "heal_keys",
        KEY_TABLE=TABLE,
        PARKED_EVENTS_QUEUE_URL=queue,
        ALARMED_QUEUE_URLS=f"{queue} {other}",
    )
    monkeypatch.setattr(function.time, "sleep", pauses.append)
    return Healer(function)


@pytest.fixture
def lines(healer: Healer, printed_by: Callable[[Any], Lines]) -> Lines:
    return printed_by(healer.function.logger)


def test_the_command_has_the_same_code() -> None:
    file = PROJECT / "inorder" / "aws" / "stuck.py"
    assert file.resolve() == PROJECT / "functions" / "heal_keys" / "stuck.py"
    assert of_the_command.DEAD_AFTER == DEAD_AFTER


def test_the_index_has_the_attribute_that_the_code_reads_and_only_keys() -> None:
    [index] = KEY_TABLE["GlobalSecondaryIndexes"]
    assert (index["IndexName"], index["KeySchema"]) == (
        INDEX,
        [{"AttributeName": ATTRIBUTE, "KeyType": "HASH"}],
    )
    assert index["Projection"] == {"ProjectionType": "KEYS_ONLY"}


def test_only_what_has_been_in_progress_for_longer_than_an_execution_lives_is_started(
    healer: Healer,
) -> None:
    healer.put("old", OLD)
    healer.put("new", DEAD_AFTER - timedelta(seconds=5))
    healer.put("finished", None)
    assert timedelta(seconds=300) < DEAD_AFTER - timedelta(minutes=1)
    assert healer.sweep() == ["old"]


def test_a_record_that_the_index_has_although_it_is_finished_is_left_alone(healer: Healer) -> None:
    """An index may be late: it is read first, and then the table, consistently."""
    healer.put("late", OLD)
    healer.put("gone", OLD)
    dynamodb, table = healer.function.dynamodb, boto3.resource("dynamodb").Table(TABLE)

    def finish(**_: Any) -> None:
        healer.put("late", None)
        table.delete_item(Key={"id": "gone"})

    def is_consistent(params: dict[str, Any], **_: Any) -> None:
        assert params["ConsistentRead"] is True

    dynamodb.meta.events.register("after-call.dynamodb.Scan", finish)
    dynamodb.meta.events.register("provide-client-params.dynamodb.GetItem", is_consistent)
    assert healer.sweep() == []


def test_a_sweep_starts_a_hundred_events_at_most_and_makes_pauses(
    healer: Healer, pauses: list[float], lines: Lines
) -> None:
    for number in range(103):
        healer.put(f"{number}", OLD)
    assert len(set(healer.sweep())) == 100
    assert pauses == [0.2] * 100
    assert "SweepEndsEarly" in [line.get("message") for line in lines()]


@pytest.mark.parametrize("record", ["started", "parked", "finished"])
def test_a_sweep_ends_before_its_time_is_up_however_slow_each_call_is(
    healer: Healer, lines: Lines, pauses: list[float], record: str
) -> None:
    """Each call takes two attempts, and each of them almost as long as it may."""
    context, function = SweepContext(), healer.function
    for number in range(20):
        restarts = {"restarts": RESTARTS_AT_MOST} if record == "parked" else {}
        healer.put(f"{number}", OLD, **restarts)

    def pass_time(**_: Any) -> None:
        attempts = function.CONFIG.retries["total_max_attempts"]
        context.seconds += attempts * (
            function.CONFIG.connect_timeout + function.CONFIG.read_timeout
        )

    for client in (function.dynamodb, function.states, function.sqs):
        client.meta.events.register("before-call", pass_time)
    # The index lists records one a page; of some, the table has no longer what the index says.
    function.dynamodb.meta.events.register(
        "provide-client-params.dynamodb.Scan", lambda params, **_: params | {"Limit": 1}
    )
    if record == "finished":
        function.dynamodb.meta.events.register(
            "before-parameter-build.dynamodb.GetItem",
            lambda params, **_: params["Key"].update(id={"S": "none"}),
        )
    healer.sweep(context)
    assert TIMEOUT - 40 < context.seconds <= TIMEOUT - 10  # so the pauses have room, too
    assert bool(pauses) is (record != "finished")
    assert "SweepEndsEarly" in [line.get("message") for line in lines()]


def test_a_sweep_uses_each_queue_that_only_people_read_so_that_it_keeps_its_metrics(
    healer: Healer, lines: Lines
) -> None:
    read: list[str] = []
    healer.function.sqs.meta.events.register(
        "provide-client-params.sqs.GetQueueAttributes",
        lambda params, **_: read.append(params["QueueUrl"]),
    )
    healer.sweep()
    assert [url.rpartition("/")[2] for url in read] == ["parked", "other"]
    healer.put("old", OLD)
    boto3.client("sqs").delete_queue(QueueUrl=read[0])
    assert healer.sweep_that_fails() == ["old"]
    assert "QueueNotRead" in [line.get("message") for line in lines()]


def test_a_key_whose_event_cannot_be_started_does_not_stop_the_others(
    healer: Healer, lines: Lines
) -> None:
    for key in ("one", "refused", "two"):
        healer.put(key, OLD)
    healer.refused = ["refused"]
    assert sorted(healer.sweep_that_fails()) == ["one", "two"]
    *logs, metrics = lines()
    assert sorted(log["message"] for log in logs) == [
        "HealingFailed",
        *["KeyRestarted"] * 2,
    ]
    [failed] = [log for log in logs if log["message"] == "HealingFailed"]
    assert failed["record"] == "refused"
    assert "ThrottlingException" in failed["exception"]
    counts = {name: metrics[name] for name in ("KeysStuck", "KeysRestarted", "HealingsFailed")}
    assert counts == {"KeysStuck": [3.0], "KeysRestarted": [2.0], "HealingsFailed": [1.0]}


def test_failed_starts_count_towards_the_hundred(healer: Healer, pauses: list[float]) -> None:
    healer.refused = [f"{number}" for number in range(103)]
    for key in healer.refused:
        healer.put(key, OLD)
    assert healer.sweep_that_fails() == []
    assert len(pauses) == 100


def test_a_restart_is_logged_with_its_record_its_age_and_its_number(
    healer: Healer, lines: Lines
) -> None:
    healer.put("x.png", DEAD_AFTER * 4.5, restarts=2)
    healer.sweep()
    log, metrics = lines()
    said = {"message": "KeyRestarted", "record": "x.png", "minutes_in_progress": 45, "restarts": 3}
    assert said.items() <= log.items()
    assert ":stuck-" in log["execution"]
    assert healer.started == [created("x.png") | {"restarts": 3}]
    assert metrics["KeysRestarted"] == [1.0]


def test_a_sweep_that_finds_nothing_says_so_in_its_metric_alone(
    healer: Healer, lines: Lines, recwarn: pytest.WarningsRecorder
) -> None:
    assert healer.sweep() == []
    [metrics] = lines()
    assert metrics["KeysStuck"] == [0.0]
    # Python also warns of what another test did not close.
    assert [each for each in recwarn.list if each.category is not ResourceWarning] == []


def test_a_table_that_cannot_be_read_fails_the_sweep(healer: Healer) -> None:
    """Lambda counts the error, and does not try again: the next sweep does."""
    boto3.client("dynamodb").delete_table(TableName=TABLE)
    with pytest.raises(ClientError, match="ResourceNotFound"):
        healer.sweep()


def due_at(restarts: int) -> list[timedelta]:
    """List the ages, in steps of ten minutes, at which an event would be started again."""
    ages = [DEAD_AFTER * number for number in range(1, 14 * 24 * 6 + 10)]
    return [age for age in ages if StuckKey("k", age, {"restarts": restarts}, SINCE).is_due]


def test_each_restart_waits_for_twice_as_long_and_after_some_a_person_is_needed() -> None:
    first = [due_at(restarts)[0] for restarts in range(RESTARTS_AT_MOST)]
    assert first[0] == DEAD_AFTER
    assert all(after == 2 * before for before, after in pairwise(first))
    assert timedelta(hours=42) < sum(first, timedelta()) < timedelta(hours=43)
    assert due_at(RESTARTS_AT_MOST) == []
    # An execution that dies before it claims the key leaves the count as it is.
    assert max(due_at(0)) < GIVEN_UP_AFTER


def test_an_event_whose_executions_die_again_and_again_is_parked_once(
    healer: Healer, lines: Lines
) -> None:
    healer.put("tried", DEAD_AFTER, restarts=RESTARTS_AT_MOST)
    healer.put("old", GIVEN_UP_AFTER)
    assert healer.sweep() == []
    *logs, metrics = lines()
    assert [log["message"] for log in logs] == ["KeyParked"] * 2
    assert metrics["KeysParked"] == [2.0]
    messages = {each["object_key"]: each for each in healer.parked()}
    assert {name: each["event"] for name, each in messages.items()} == {
        name: created(name) for name in ("tried", "old")
    }
    assert messages["tried"]["outcome"] == "Parked"
    assert messages["tried"]["reason"]["Error"] == "ExecutionDied"
    assert messages["tried"]["reason"]["restarts"] == RESTARTS_AT_MOST
    assert healer.sweep() == healer.parked() == []
    records = boto3.resource("dynamodb").Table(TABLE).scan()["Items"]
    assert not [record for record in records if ATTRIBUTE in record]


def test_a_key_that_is_claimed_while_its_event_is_parked_stays_in_the_index(
    healer: Healer,
) -> None:
    healer.put("tried", DEAD_AFTER, restarts=RESTARTS_AT_MOST)
    healer.function.sqs.meta.events.register(
        "after-call.sqs.SendMessage", lambda **_: healer.put("tried", OLD)
    )
    assert healer.sweep() == []
    assert healer.sweep() == ["tried"]


def test_a_key_whose_event_cannot_be_parked_stays_in_the_index(
    healer: Healer, lines: Lines
) -> None:
    healer.put("tried", DEAD_AFTER, restarts=RESTARTS_AT_MOST)
    boto3.client("sqs").delete_queue(QueueUrl=healer.function.PARKED_QUEUE_URL)
    for _ in range(2):
        assert healer.sweep_that_fails() == []
        assert lines()[-1]["HealingsFailed"] == [1.0]


@pytest.mark.parametrize("restarts", [None, "3", [], {}])
def test_a_field_of_that_name_that_is_no_number_counts_as_none(restarts: Any) -> None:
    assert StuckKey("k", OLD, {"restarts": restarts}, SINCE).restarts == 0


def test_an_event_that_is_started_again_is_as_short_as_it_was(healer: Healer) -> None:
    """Step Functions takes 256 KiB, which an escaped text could exceed."""
    key = StuckKey("k", OLD, created("é" * 100), SINCE)
    start(healer.function.states, healer.function.STATE_MACHINE_ARN, key, 1)
    [execution] = healer.function.states.list_executions(
        stateMachineArn=healer.function.STATE_MACHINE_ARN
    )["executions"]
    described = healer.function.states.describe_execution(executionArn=execution["executionArn"])
    text = json.dumps(created("é" * 100), ensure_ascii=False, separators=(",", ":"))
    assert described["input"] == text[:-1] + ',"restarts":1}'


def test_the_time_may_have_the_form_of_each_engine(healer: Healer) -> None:
    now = datetime(2026, 11, 20, 10, 0, tzinfo=UTC)
    for number, text in enumerate(
        ["2026-11-20T09:30:00Z", "2026-11-20T09:30:00.123Z", "2026-11-20T09:30:00.123456+00:00"]
    ):
        healer.put(f"{number}", None, in_progress_since=text)
    assert len(list(find(healer.function.dynamodb, TABLE, now))) == 3
