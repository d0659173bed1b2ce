"""A sweep, or `inorder stuck`: which records it finds, what becomes of them, what it says."""

import json
import re
import threading
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from types import ModuleType, SimpleNamespace
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from click.testing import Result

from inorder.commands import queues
from inorder_fence.records import PARKED_SECONDS, retry_id
from inorder_fence.stuck import COUNT_AT_MOST, DEAD_AFTER, INDEX
from inorder_fence.stuck import LATE as LATE_MESSAGE
from inorder_fence.stuck import SINCE as ATTRIBUTE
from retry_events.retries import RETRIES_AT_MOST
from tests.support.commands import run
from tests.support.events import created
from tests.support.in_process import KEY_TABLE, Context
from tests.support.resolved_template import template
from tests.support.stacks import stack_with
from tests.unit.conftest import Lines, Load, new_queue, refuse, taken_from

Json = dict[str, Any]
TABLE, PRESENT, FORMER = "keys", "inorder_latest-wins", "inorder_every-version"
RETRY_LASTS = timedelta(minutes=25)
OLD, LATE = DEAD_AFTER + timedelta(seconds=1), RETRY_LASTS + timedelta(seconds=1)
TIMEOUT: int = template()["Resources"]["HealKeysFunction"]["Properties"]["Timeout"]


class SweepContext(Context):
    """A Lambda context in which time passes only as a test says."""

    seconds = 0.0

    def get_remaining_time_in_millis(self) -> int:
        return TIMEOUT * 1000 - round(self.seconds * 1000)

    def pass_time(self, seconds: float) -> Callable[..., None]:
        """Let each call of a hook take so long."""
        return lambda **_: setattr(self, "seconds", self.seconds + seconds)


def ago(age: timedelta) -> datetime:
    return datetime.now(UTC) - age


def key_of(message: Json) -> str:
    return str(message["event"]["detail"]["object"]["key"])


class Healer:
    """The function, its table, its queues, and what it has logged since the last time."""

    rejected: list[Any]  # messages of the last sweep without an event

    def __init__(self, function: ModuleType, lines: Lines, patch: pytest.MonkeyPatch) -> None:
        self.function, self.lines, self.patch = function, lines, patch
        self.threads = function.THREADS
        patch.setattr(function, "THREADS", 1)  # most tests look at the order
        self.context = SweepContext()
        self.table = boto3.resource("dynamodb").Table(TABLE)

    def put(self, key: str, age: timedelta | None, **more: Any) -> None:
        """Put a record that has been in progress for so long."""
        item = {"id": f"input/{key}", "event": json.dumps(created(key))}
        if age is not None:
            item[ATTRIBUTE] = ago(age).isoformat()
        self.table.put_item(Item=item | more)

    def put_old(self, *keys: str) -> None:
        """Put records whose execution has died."""
        for key in keys:
            self.put(key, OLD)

    def put_retry(self, key: str, at: datetime, status: str, machine: str = PRESENT) -> None:
        """Put what `retry_events` writes when it starts or parks a key's event."""
        named = {"id": retry_id(created(key)), "status": status, "state_machine": machine}
        until = int((at + RETRY_LASTS - LATE_MESSAGE).timestamp())
        self.table.put_item(Item={**named, "at": int(at.timestamp()), "until": until})

    def at(self, hook: str, happening: Callable[..., Any]) -> None:
        """Let something happen at a call of a service, such as ``after-call.dynamodb.Scan``."""

        def happens(**named: Any) -> None:  # an answer would take the place of the service's
            happening(**named)

        client = self.function.sqs if "sqs" in hook else self.function.dynamodb
        client.meta.events.register(hook, happens)

    def asked_queues(self) -> list[str]:
        """Give a list that gets the address of each queue of which a sweep asks something."""
        asked: list[str] = []
        self.at("provide-client-params.sqs.*", lambda params, **_: asked.append(params["QueueUrl"]))
        return asked

    def read_one_by_one(self) -> None:
        """Let each page of the index have one entry."""
        self.at("provide-client-params.dynamodb.Scan", lambda params, **_: params.update(Limit=1))

    def heal_at_most(self, count: int) -> None:
        """Let a sweep have time for so many records."""
        seconds = (TIMEOUT - self.function.LAST_RECORD_MILLISECONDS / 1000) / count
        self.at("after-call.dynamodb.UpdateItem", self.context.pass_time(seconds + 0.1))

    def sweep(self, *, fails: bool = False) -> list[str]:
        """Sweep, and give the keys whose events were sent to the retry queue, in their order."""
        failure = pytest.raises(self.function.SweepFailed, match="see the log")
        self.context.seconds = 0
        with failure if fails else nullcontext():
            self.function.handler({}, self.context)
        sent = self.sent()
        self.rejected = [message for message in sent if "event" not in message]
        return [key_of(message) for message in sent if "event" in message]

    def sent(self) -> list[Json]:
        """Take the messages out of the retry queue."""
        return [json.loads(text) for text in taken_from(self.function.RETRY_QUEUE_URL)]

    def record(self, key: str) -> Json:
        return self.table.get_item(Key={"id": f"input/{key}"})["Item"]

    def is_kept(self, key: str) -> bool:
        """Tell whether a record stays; one that expires is kept as long as SQS keeps its event."""
        if not (expires_at := self.record(key).get("expires_at")):
            return True
        assert abs(int(expires_at) - datetime.now(UTC).timestamp() - PARKED_SECONDS) < 60
        return False

    def indexed(self) -> list[str]:
        return sorted(str(item["id"]) for item in self.table.scan(IndexName=INDEX)["Items"])


@pytest.fixture
def healer(load: Load, lines: Lines, monkeypatch: pytest.MonkeyPatch) -> Healer:
    boto3.client("dynamodb").create_table(TableName=TABLE, **KEY_TABLE)
    retry, parked, other = map(new_queue, ("retry", "parked", "other"))
    function = load(
        "heal_keys.app",
        KEY_TABLE=TABLE,
        STATE_MACHINE=PRESENT,
        CLAIMS_KEYS="true",
        RETRY_EVENTS_QUEUE_URL=retry,
        ALARMED_QUEUE_URLS=f"{parked} {other}",
        PAUSED="false",
    )
    return Healer(function, lines, monkeypatch)


def test_a_sweep_hands_over_only_events_long_in_progress(healer: Healer) -> None:
    assert timedelta(seconds=300) <= DEAD_AFTER - timedelta(minutes=1)
    healer.put("new", DEAD_AFTER - timedelta(seconds=50))
    healer.put("finished", None)
    assert healer.sweep() == []
    [metrics] = healer.lines()  # a sweep that finds nothing says so in its metric alone
    assert metrics["KeysStuck"] == [0.0]
    healer.put("old", OLD * 4)
    assert healer.sweep() == ["old"]
    log, metrics = healer.lines()
    assert (log["message"], log["record"]) == ("KeyHandedOver", "input/old")
    assert log["minutes_in_progress"] == 24
    assert metrics["KeysHandedOver"] == [1.0]
    assert healer.indexed() == ["input/new", "input/old"]
    assert healer.sweep() == []  # it has been handed over a moment ago


@pytest.mark.parametrize(
    ("claims_keys", "at", "status", "machine", "outcome"),
    [
        (True, LATE, "PARKED", PRESENT, "Settled"),
        (True, OLD, "PARKED", PRESENT, "Settled"),
        (True, LATE, "RETRYING", PRESENT, "HandedOver"),  # it may have died while it waited
        (True, 3 * LATE, "PARKED", PRESENT, "HandedOver"),  # before it was claimed last
        (True, LATE, "RETRYING", FORMER, "HandedOver"),  # the present policy claims it, too
        (True, OLD, "RETRYING", PRESENT, "Retried"),  # its retry may be under way
        (False, LATE, "RETRYING", PRESENT, "Settled"),  # no execution claims this record
        (False, LATE, "RETRYING", FORMER, "HandedOver"),  # it may have waited for this lock
        (False, 3 * LATE, "RETRYING", PRESENT, "HandedOver"),  # its message may be in the queue
        (False, OLD, "RETRYING", PRESENT, "Settled"),  # the retry queue has its event
        (False, OLD, "RETRYING", FORMER, "Retried"),
    ],
)
def test_a_sweep_hands_over_a_record_until_its_event_settles(
    healer: Healer, claims_keys: bool, at: timedelta, status: str, machine: str, outcome: str
) -> None:
    healer.patch.setattr(healer.function, "CLAIMS_KEYS", claims_keys)
    healer.put("x", 2 * LATE, hand_overs=1, state_machine=FORMER)
    healer.put_retry("x", ago(at), status, machine)
    assert healer.sweep() == (["x"] if outcome == "HandedOver" else [])
    assert healer.indexed() == ([] if outcome == "Settled" else ["input/x"])
    assert healer.record("x")["hand_overs"] == 1 + (outcome == "HandedOver")
    assert healer.is_kept("x") == (outcome != "Settled")
    log, metrics = healer.lines()
    assert log["message"] == f"Key{outcome}"
    assert metrics["KeysStuck"] == [float(outcome == "HandedOver")]  # the rest heals nothing


@pytest.mark.parametrize("has_started", [False, True])
def test_a_misnamed_record_leaves_the_index_once_retried(healer: Healer, has_started: bool) -> None:
    """No execution would ever claim it, so each sweep would hand its event over again."""
    healer.put("x", 2 * LATE, id="input#v/y", state_machine=PRESENT, lock_token="theirs")
    if has_started:
        healer.put_retry("x", ago(LATE), "RETRYING")
    assert healer.sweep() == ([] if has_started else ["x"])
    assert healer.indexed() == ([] if has_started else ["input#v/y"])


def test_an_event_parked_in_the_claims_second_frees_its_lock(healer: Healer) -> None:
    claimed = ago(LATE).replace(microsecond=1)
    healer.put("x", None, in_progress_since=claimed.isoformat(), lock_token="theirs")
    healer.put_retry("x", claimed, "PARKED")
    assert (healer.sweep(), healer.indexed()) == ([], [])
    assert "lock_token" not in healer.record("x")


def test_at_the_limit_the_retry_queue_parks_the_event(healer: Healer) -> None:
    for count in (COUNT_AT_MOST - 1, COUNT_AT_MOST):
        healer.put(str(count), OLD, hand_overs=count)
    healer.function.handler({}, healer.context)
    reasons = {key_of(message): message["reason"] for message in healer.sent()}
    below, limit = reasons[f"{COUNT_AT_MOST - 1}"], reasons[f"{COUNT_AT_MOST}"]
    assert (below["Error"], limit["Error"]) == ("ExecutionDied", "NotClaimed")
    assert f"handed over {COUNT_AT_MOST} times" in limit["Cause"]
    assert RETRIES_AT_MOST["NotClaimed"] == 0
    # Its retry's shortest delay, until the second sweep after that.
    assert COUNT_AT_MOST * 2 * (DEAD_AFTER + timedelta(seconds=30)) >= timedelta(days=1)


def test_interrupted_sweeps_are_repeated_and_parallel_ones_count_once(healer: Healer) -> None:
    healer.put("x", OLD)
    end = refuse(healer.function.dynamodb, "UpdateItem")
    assert healer.sweep(fails=True) == ["x"]
    assert "hand_overs" not in healer.record("x")
    end()
    another_sweep = [healer.function.handler]

    def sweep_beside(**_: Any) -> None:
        if another_sweep:
            another_sweep.pop()({}, healer.context)

    healer.at("before-call.dynamodb.UpdateItem", sweep_beside)
    assert healer.sweep() == ["x", "x"]
    assert healer.record("x")["hand_overs"] == 1
    assert healer.indexed() == ["input/x"]


def test_a_sweep_leaves_finished_records_that_the_index_still_has(healer: Healer) -> None:
    """An index may be late: only its keys are read, and then the table, consistently."""
    [index] = KEY_TABLE["GlobalSecondaryIndexes"]
    assert index["Projection"] == {"ProjectionType": "KEYS_ONLY"}
    healer.put_old("late", "gone", "claimed again")

    def finish(**_: Any) -> None:
        healer.put("late", None)
        healer.put("claimed again", timedelta())
        healer.table.delete_item(Key={"id": "input/gone"})

    def is_consistent(params: Json, **_: Any) -> None:
        assert params["ConsistentRead"] is True

    healer.at("after-call.dynamodb.Scan", finish)
    healer.at("provide-client-params.dynamodb.GetItem", is_consistent)
    assert healer.sweep() == []


def test_the_oldest_of_all_pages_is_first(healer: Healer) -> None:
    for hours in (4, 1, 5, 3, 2):
        healer.put(f"{hours}", OLD + timedelta(hours=hours))
    healer.read_one_by_one()
    healer.heal_at_most(3)
    assert healer.sweep() == ["5", "4", "3"]
    assert "SweepEndsEarly" in [line.get("message") for line in healer.lines()]
    assert healer.sweep() == ["2", "1"]


def test_a_sweep_heals_one_key_per_thread_at_once(healer: Healer) -> None:
    healer.patch.setattr(healer.function, "THREADS", threads := healer.threads)
    assert healer.function.CONFIG.max_pool_connections == threads > 1
    healer.put_old(*map(str, range(threads)))
    all_at_once = threading.Barrier(threads, timeout=10)
    healer.at("before-call.sqs.SendMessage", lambda **_: all_at_once.wait())
    assert len(healer.sweep()) == threads


@pytest.mark.parametrize(
    "event", ["{", "[1]", 5, "[" * 100_000, None], ids=["no JSON", "list", "number", "deep", "null"]
)
def test_a_record_with_no_readable_event_is_sent_as_rejected(healer: Healer, event: Any) -> None:
    healer.put("strange", OLD * 2, event=event)
    healer.put("old", OLD)
    assert healer.sweep() == ["old"]
    [sent] = healer.rejected
    cause = "This record in progress has no event."
    reason = {"Error": "NoEvent", "Cause": cause, "rejected": True}
    assert sent.pop("record")["id"] == {"S": "input/strange"}
    assert sent == {"outcome": "Retrying", "object_key": "input/strange", "reason": reason}
    log, other, metrics = healer.lines()
    assert (log["message"], log["record"]) == ("KeyParked", "input/strange")
    assert (log["level"], other["level"]) == ("ERROR", "INFO")
    assert (metrics["KeysParked"], metrics["KeysHandedOver"]) == ([1.0], [1.0])
    assert healer.sweep() == healer.rejected == []
    assert not healer.is_kept("strange")


def test_a_record_whose_time_is_none_counts_as_old(healer: Healer) -> None:
    healer.put("strange", None, **{ATTRIBUTE: "yesterday"})
    healer.put("before all times", None, **{ATTRIBUTE: "0001-01-01T00:00:00+01:00"})
    healer.put("without an offset", None, **{ATTRIBUTE: "2026-01-01T00:00:00"})
    assert healer.sweep() == ["before all times", "strange", "without an offset"]
    assert healer.sweep() == []


@pytest.mark.parametrize("record", ["in progress", "finished", "without an event"])
def test_a_slow_sweep_ends_before_its_time_is_up(healer: Healer, record: str) -> None:
    """Each call takes as long as it may."""
    more = {"event": 5} if record == "without an event" else {}
    for number in range(20):
        healer.put(f"{number}", OLD, hand_overs=1, **more)
    for service in ("dynamodb", "sqs"):
        config = getattr(healer.function, service).meta.config
        assert config.retries["total_max_attempts"] == 1
        assert config.connect_timeout + config.read_timeout == 3
        healer.at(f"before-call.{service}", healer.context.pass_time(3))
    if record == "finished":
        healer.at(
            "before-parameter-build.dynamodb.GetItem",
            lambda params, **_: params["Key"].update(id={"S": "none"}),
        )
    healer.sweep()
    assert TIMEOUT - 15 < healer.context.seconds <= TIMEOUT - 3
    assert "SweepEndsEarly" in [line.get("message") for line in healer.lines()]


def test_a_sweep_heals_the_part_of_the_index_it_reads(healer: Healer) -> None:
    healer.put_old(*"012345678")
    healer.at("before-call.dynamodb.Scan", healer.context.pass_time(15))
    healer.read_one_by_one()
    for _ in range(2):
        assert len(healer.sweep()) == 2


def test_a_sweep_reads_alarmed_queues_which_keeps_their_metrics(healer: Healer) -> None:
    asked = healer.asked_queues()
    healer.sweep()
    assert asked == healer.function.ALARMED_QUEUE_URLS
    healer.put("old", OLD)
    boto3.client("sqs").delete_queue(QueueUrl=asked[0])
    assert healer.sweep(fails=True) == ["old"]
    [unread] = [line for line in healer.lines() if line.get("message") == "QueueNotRead"]
    assert unread["queue"] == asked[0]


def test_in_a_pause_a_sweep_only_reads_the_queues(healer: Healer) -> None:
    healer.put("old", OLD)
    healer.patch.setattr(healer.function, "IS_PAUSED", True)
    asked, before = healer.asked_queues(), healer.record("old")
    assert healer.sweep() == []
    assert asked == healer.function.ALARMED_QUEUE_URLS
    assert healer.record("old") == before
    healer.patch.setattr(healer.function, "IS_PAUSED", False)
    assert healer.sweep() == ["old"]


def test_an_unsendable_event_stays_indexed_and_stops_no_other(healer: Healer) -> None:
    healer.put_old("one", "refused", "two")

    def refuse_one(params: Json, **_: Any) -> None:
        if '"refused"' in params["MessageBody"]:
            raise ClientError({"Error": {"Code": "ThrottlingException"}}, "SendMessage")

    healer.at("provide-client-params.sqs.SendMessage", refuse_one)
    assert sorted(healer.sweep(fails=True)) == ["one", "two"]
    assert "hand_overs" not in healer.record("refused")
    *logs, metrics = healer.lines()
    assert sorted(log["message"] for log in logs) == ["HealingFailed", *["KeyHandedOver"] * 2]
    [failed] = [log for log in logs if log["message"] == "HealingFailed"]
    assert failed["record"] == "input/refused"
    assert "ThrottlingException" in failed["exception"]
    counts = {"KeysStuck": [3.0], "KeysHandedOver": [2.0], "HealingsFailed": [1.0]}
    assert counts.items() <= metrics.items()


def test_a_table_that_cannot_be_read_fails_the_sweep(healer: Healer) -> None:
    """Lambda counts the error, and does not try again: the next sweep does."""
    healer.table.delete()
    with pytest.raises(ClientError, match="ResourceNotFound"):
        healer.sweep()


def test_a_hand_over_frees_only_the_dead_executions_lock(healer: Healer) -> None:
    lock = {"lock_token": "theirs", "execution": "theirs"}
    healer.put("dead", OLD, **lock)
    healer.put("alive", DEAD_AFTER - timedelta(seconds=5), **lock)
    assert healer.sweep() == ["dead"]
    healer.put("claimed meanwhile", OLD, **lock)
    healer.at(
        "before-call.dynamodb.UpdateItem",
        lambda **_: healer.put("claimed meanwhile", timedelta(), lock_token="another"),
    )
    assert healer.sweep() == ["claimed meanwhile"]  # one more delivery
    assert "lock_token" not in healer.record("dead")
    assert "execution" not in healer.record("dead")
    assert healer.record("alive")["lock_token"] == "theirs"  # noqa: S105
    assert healer.record("claimed meanwhile")["lock_token"] == "another"  # noqa: S105


def test_an_event_recorded_during_a_sweep_is_not_settled(healer: Healer) -> None:
    """A waiter has recorded it, and dies. The record's time is that of the event before."""
    healer.put("x", 2 * LATE, sequencer="0A")
    healer.put_retry("x", ago(LATE), "PARKED")

    def record(**_: Any) -> None:
        newer = {"sequencer": "0B", "event": json.dumps(created("x", sequencer="0B"))}
        healer.table.put_item(Item=healer.record("x") | newer)

    healer.at("before-call.dynamodb.UpdateItem", record)
    assert (healer.sweep(), healer.indexed()) == ([], ["input/x"])
    assert healer.sweep() == ["x"]


@pytest.mark.parametrize(
    ("retried", "sent"),
    [(timedelta(seconds=-5), []), (timedelta(seconds=5), ["x"])],
    ids=["after the claim, of a waiter", "before the claim: it was the holder"],
)
def test_a_dead_holders_lock_is_freed_while_its_event_retries(
    healer: Healer, retried: timedelta, sent: list[str]
) -> None:
    healer.put("x", OLD, lock_token="theirs")
    healer.put_retry("x", ago(OLD + retried), "RETRYING")
    assert healer.sweep() == sent
    assert "lock_token" not in healer.record("x")
    assert healer.indexed() == ["input/x"]
    assert datetime.now(UTC) - datetime.fromisoformat(healer.record("x")[ATTRIBUTE]) < OLD


@pytest.mark.parametrize("machine", [PRESENT, FORMER])
@pytest.mark.parametrize("claims_keys", [True, False])
def test_retried_records_do_not_hide_a_dead_one(
    healer: Healer, claims_keys: bool, machine: str
) -> None:
    healer.patch.setattr(healer.function, "CLAIMS_KEYS", claims_keys)
    healer.heal_at_most(3)
    for number in range(3):
        healer.put(f"{number}", OLD * 2)
        healer.put_retry(f"{number}", ago(timedelta(minutes=1)), "RETRYING", machine)
    healer.put("dead", OLD, lock_token="theirs")
    assert healer.sweep() == []
    assert healer.sweep() == ["dead"]


def test_a_sweep_names_only_the_attributes_its_role_may_write(healer: Healer) -> None:
    """IAM compares all that an update names: of the key, of its condition, and what it writes.

    https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/specifying-conditions.html
    """
    names: set[str] = set()

    def read_names(params: Json, **_: Any) -> None:
        expressions = f"{params['UpdateExpression']} {params['ConditionExpression']}"
        names.update(params["Key"], re.findall(r"(?<!:)\b[a-z]\w*", expressions))

    healer.at("provide-client-params.dynamodb.UpdateItem", read_names)
    for key in ("handed over", "retried", "parked"):
        healer.put(key, 2 * LATE, sequencer="0A")
    healer.put_retry("retried", ago(OLD), "RETRYING")
    healer.put_retry("parked", ago(LATE), "PARKED")
    healer.put("rejected", OLD, event=5)
    assert healer.sweep() == ["handed over"]
    assert {line["message"] for line in healer.lines() if "message" in line} == {
        *("KeyHandedOver", "KeyRetried", "KeySettled", "KeyParked")
    }
    [policy] = template()["Resources"]["HealKeysRole"]["Properties"]["Policies"]
    [allowed] = (
        statement["Condition"]["ForAllValues:StringEquals"]["dynamodb:Attributes"]
        for statement in policy["PolicyDocument"]["Statement"]
        if statement["Action"] == "dynamodb:UpdateItem"
    )
    assert sorted(names) == sorted(allowed)


def redrive(healer: Healer, ahead: timedelta | None) -> Result:
    """Run `inorder stuck --redrive` by a clock that is ahead of AWS's, which None does not tell."""

    def answer(parsed: Json, **_: Any) -> None:
        headers = parsed["ResponseMetadata"]["HTTPHeaders"]
        del headers["date"]
        if ahead is not None:
            headers["date"] = format_datetime(ago(ahead), usegmt=True)

    clients: Json = {name: boto3.client(name) for name in ("dynamodb", "sqs")}
    clients["dynamodb"].meta.events.register("after-call.dynamodb", answer)
    machine = f"arn:aws:states:us-east-1:123456789012:stateMachine:{PRESENT}"
    queue = healer.function.RETRY_QUEUE_URL
    stack = replace(stack_with(), retry_events_queue_url=queue, state_machine_arn=machine)
    aws = SimpleNamespace(stack=stack, client=clients.__getitem__)
    healer.patch.setattr(queues, "Connection", lambda _: aws)
    return run("stuck", "--redrive")


def test_the_command_frees_locks_by_the_clock_of_aws(healer: Healer) -> None:
    """By this machine's clock, the holder could no longer live; it claimed the key a minute ago."""
    ahead = timedelta(minutes=5)
    healer.put("living", ahead + timedelta(minutes=1), lock_token="its")
    healer.put("dead", ahead + OLD + timedelta(seconds=1), lock_token="its")
    living = healer.record("living")
    done = redrive(healer, ahead)
    assert (done.exit_code, done.stdout.count("Sent to the retry queue")) == (0, 1)
    assert [key_of(message) for message in healer.sent()] == ["dead"]
    assert healer.record("living") == living
    handed_over = healer.record("dead")
    assert "lock_token" not in handed_over
    late = datetime.now(UTC) - datetime.fromisoformat(str(handed_over[ATTRIBUTE]))
    assert ahead <= late < ahead + timedelta(minutes=1)


def test_the_command_frees_no_lock_if_aws_names_no_time(healer: Healer) -> None:
    healer.put("dead", OLD, lock_token="its")
    before = healer.record("dead")
    refused = redrive(healer, None)
    assert refused.exit_code == 1
    assert "does not say what time it is" in refused.stderr
    assert (healer.sent(), healer.record("dead")) == ([], before)
