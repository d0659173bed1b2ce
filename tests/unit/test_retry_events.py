"""What becomes of an event whose execution failed: the decision, and the function."""

import json
import math
import re
from datetime import UTC, datetime
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest.mock import Mock

import boto3
import pytest

from inorder_fence.records import retry_id
from retry_events.retries import (
    LONGEST_SECONDS,
    MAXIMUM_REASONS,
    REASON_CHARACTERS,
    Fault,
    Message,
    Park,
    Start,
    Wait,
    Waiting,
)
from retry_events.streams import AGAIN_SECONDS, Stream, taken
from tests.support import moto_parts
from tests.support.events import SEQUENCER, created
from tests.support.in_process import KEY_TABLE, Context, make_writes_atomic
from tests.support.replacing import replaced
from tests.support.resolved_template import template
from tests.unit.conftest import Lines, Load, new_queue, refuse, taken_from

Json = dict[str, Any]
NOW = 1_795_000_000.0
HOUR, DAY = 3600.0, 86_400.0
HOURS = 1.5  # for which the function retries
EVENT = created("a b/é😀.png")
THROTTLED = {
    "Error": "Lambda.TooManyRequestsException",
    "Cause": "Rate Exceeded. (Service: Lambda, Status Code: 429, Request ID: 8d2c)",
}
THROTTLED_TEXT = "Lambda.TooManyRequestsException: Rate Exceeded."


def retry(attempt: int, *reasons: str, since: float = NOW - HOUR) -> Json:
    """Build the field that the function adds to an execution's input."""
    return {"attempt": attempt, "since": str(int(since)), "reasons": list(reasons)}


def retried(attempt: int, *reasons: str, since: float = NOW - HOUR) -> Json:
    """Build the event of a retry."""
    return EVENT | {"retry": retry(attempt, *reasons, since=since)}


def body(event: Json, reason: Any = THROTTLED, **more: Any) -> Json:
    """Build what a state machine sends."""
    named = {"object_key": "input/a b/é.png", "sequencer": "0A", "execution": "arn:of:it"}
    return {"outcome": "Retrying", **named, "reason": reason, "event": event, **more}


def fault(event: Json = EVENT, reason: Any = THROTTLED, **more: Any) -> Fault:
    """Read a message that a state machine has sent, as it would fail again after ``event``."""
    sent = {"id": "m", "body": json.dumps(body(event, reason)), "sent": NOW, **more}
    failed = Fault.read(Message(**sent))
    assert failed
    return failed


def decide(
    failed: Fault, after: float = LONGEST_SECONDS, patience: float = DAY
) -> Wait | Start | Park:
    """Decide about a message some seconds after it was sent."""
    return failed.decide(NOW + after, patience)


def started(decision: Any) -> Json:
    """Read the input of the execution that is started."""
    assert isinstance(decision, Start), decision
    event: Json = json.loads(decision.input)
    return event


def parked(decision: Any) -> Json:
    """Read the message that is parked."""
    assert isinstance(decision, Park), decision
    text: Json = json.loads(decision.body)
    return text


def again(event: Json, reason: Any = THROTTLED) -> Json:
    """Let an event fail, and give that with which it is started again."""
    return started(decide(fault(event, reason), patience=math.inf))


# --- When, and for how long ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("attempt", "throttled", "growths"),
    [
        (0, 0, 0),
        (4, 0, 4),
        (20, 0, 20),
        (0, 1, -1 / 2),
        (2, 3, 1 / 2),
        (3, 3, 3 / 2),
        (14, 9, 19 / 2),
        (14, 999, 13 / 2),
    ],
)
def test_a_fault_is_started_after_its_delay(attempt: int, throttled: int, growths: float) -> None:
    before = [f"{THROTTLED_TEXT} ({throttled - 1} times)"] if throttled > 1 else []
    reason = THROTTLED if throttled else {"Error": "States.Timeout"}
    failed = fault(retried(attempt, *before), reason)
    due = failed.message.delay(growths)
    assert decide(failed, after=0) == Wait(math.ceil(due))
    assert decide(failed, after=due - 0.5) == Wait(1)
    assert isinstance(decide(failed, after=due + 0.001), Start)
    assert decide(failed, after=-1e6) == Wait(LONGEST_SECONDS)  # by a clock that is behind


@pytest.mark.parametrize(
    ("growths", "whole"),
    [(-0.5, 4.1), (0, 5), (1, 7.5), (4, 25.3), (12, 648.7), (13, 900), (10**30, 900)],
)
def test_delays_grow_to_15_minutes_and_spread_over_a_half(growths: float, whole: float) -> None:
    delays = [Message(f"m{number}", "", NOW).delay(growths) for number in range(300)]
    assert whole / 2 <= min(delays) < whole * 0.51
    assert whole * 0.99 < max(delays) < whole
    assert 100 < sum(delay < whole * 0.75 for delay in delays) < 200


def test_an_event_that_fails_beyond_the_patience_is_parked() -> None:
    failed = fault(retried(7, "x: y", since=NOW - DAY + 1))
    assert isinstance(decide(failed), Start)
    assert isinstance(decide(failed, after=10 * DAY), Start)  # it was not tried meanwhile
    assert isinstance(decide(fault(retried(7, "x: y", since=NOW - DAY))), Park)


def test_a_parked_event_is_unchanged_and_has_all_reasons() -> None:
    text = {**body(EVENT), "outcome": "Parked"}
    assert parked(decide(fault(), patience=0)) == text
    event = retried(3, "States.Timeout: ", f"{THROTTLED_TEXT} (2 times)", since=NOW - DAY)
    reasons = ["States.Timeout:", f"{THROTTLED_TEXT} (3 times)"]
    more = {"attempts": 4, "since": str(int(NOW - DAY)), "reasons": reasons}
    assert parked(decide(fault(event))) == text | {"reason": THROTTLED | more}


def test_an_event_that_cannot_start_waits_longer_and_then_parks() -> None:
    waits = [fault(receives=n).decide_again("gone", NOW + 60, DAY) for n in range(1, 17)]
    seconds = [wait.seconds for wait in waits if isinstance(wait, Wait)]
    assert seconds == sorted(seconds)
    assert seconds[0] == math.ceil(fault().message.delay(0))
    assert seconds[15] > LONGEST_SECONDS / 2
    reason = parked(fault(receives=99).decide_again("gone", NOW + DAY, DAY))["reason"]
    assert reason["reasons"] == [THROTTLED_TEXT, "gone"]
    assert (reason["Error"], reason["attempts"]) == (THROTTLED["Error"], 1)


LOCKED = {"Error": "KeyLocked", "Cause": "The key stayed locked for as long as an execution waits."}


def test_events_of_locked_keys_wait_briefly_and_count_no_failure() -> None:
    never_started = fault(EVENT, LOCKED, receives=20)
    assert isinstance(never_started.decide_again("refused", NOW + DAY - 1, 0), Wait)
    assert isinstance(never_started.decide_again("refused", NOW + DAY, 0), Park)
    event = EVENT
    for attempt in range(200):
        failed = fault(event, LOCKED, id=f"m{attempt}", sent=NOW + attempt * HOUR)
        now = NOW + attempt * HOUR
        assert isinstance(failed.decide_again("refused", now + HOUR, patience=0), Wait)
        due = failed.decide(now, patience=0)
        assert isinstance(due, Wait)
        assert due.seconds < 60
        event = started(failed.decide(now + 60, patience=0))
    # Its first failure begins the patience, and the delays, as if it had not waited.
    failed = fault(event, id="m", sent=NOW + DAY * 9)
    assert failed.since == NOW + DAY * 9
    assert failed.decide(failed.since, DAY) == fault(id="m").decide(NOW, DAY)
    assert isinstance(failed.decide(failed.since + 60, DAY), Start)
    later = started(failed.decide(failed.since + 60, DAY))
    waiting = fault(later, LOCKED, sent=NOW + DAY * 20)
    assert waiting.since == NOW + DAY * 9
    assert isinstance(decide(waiting, after=20 * DAY + 60), Start)
    assert isinstance(waiting.decide_again("refused", NOW + DAY * 20, DAY), Wait)


def test_one_refusal_after_a_long_pause_parks_nothing() -> None:
    """In the pause, its patience ended before anybody tried it."""
    end = NOW + 9 * DAY
    decisions = [
        fault(EVENT, receives=receives).decide_again("refused", end, HOUR)
        for receives in range(1, 30)
    ]
    kinds = [type(decision) for decision in decisions]
    assert kinds == [Wait] * kinds.count(Wait) + [Park] * kinds.count(Park)
    refused = sum(decision.seconds for decision in decisions if isinstance(decision, Wait))
    assert HOUR < refused < 2 * HOUR
    assert isinstance(fault(EVENT).decide_again("refused", NOW + 13 * DAY, HOUR), Park)
    refused_long = fault(EVENT, receives=20)
    assert isinstance(refused_long.decide_again("refused", NOW + HOUR, HOUR), Park)
    twice = fault(EVENT, receives=2).message
    assert twice.refused() == twice.delay(0)


@pytest.mark.parametrize("error", ["NotClaimed", "States.DataLimitExceeded"])
def test_an_error_that_retries_cannot_mend_parks_at_once(error: str) -> None:
    reason = {"Error": error, "Cause": "The result is too large."}
    assert parked(decide(fault(EVENT, reason)))["reason"] == reason


@pytest.mark.parametrize(
    ("error", "limit"),
    [
        ("Sandbox.Timedout", 12),
        ("Lambda.Unknown", 12),
        ("Runtime.ExitError", 3),
        ("Runtime.OutOfMemory", 3),
        ("MemoryError", 3),
        ("ExecutionDied", 40),
    ],
)
def test_an_error_probably_caused_by_the_event_has_a_limit(error: str, limit: int) -> None:
    cause = "RequestId: 8d2c-4f Error: Task timed out after 15.00 seconds"
    reason = {"Error": error, "Cause": json.dumps({"errorType": error, "errorMessage": cause})}
    event = again_after(*[reason] * limit)
    text = f"{error}: Task timed out after 15.00 seconds ({limit + 1} times)"
    assert parked(decide(fault(event, reason)))["reason"]["reasons"] == [text]
    # Other errors do not count, and different causes of one error do.
    assert again(retried(40, "x: y (40 times)"))["retry"]["attempt"] == 41
    different = retried(40, "x: y (40 times)", f"{error}: z (99 times)")
    assert isinstance(decide(fault(different)), Park)


def test_a_limit_counts_errors_whose_texts_differ() -> None:
    """As in https://github.com/aws-samples/amazon-textract-idp-cdk-constructs/issues/80."""
    payload = 'Returned payload: {"errorMessage":"2026-01-01T00:00:%02d.822Z %s Task timed out"}'
    reasons = [
        {"Error": "Lambda.Unknown", "Cause": payload % (number, number)} for number in range(13)
    ]
    event = again_after(*reasons[:12])
    assert len(event["retry"]["reasons"]) == 1
    assert isinstance(decide(fault(event, reasons[12])), Park)


def test_an_exception_on_the_local_aws_is_no_crash() -> None:
    reason = {"Error": "Runtime.HandlerError", "Cause": "ClientError"}
    assert again_after(*[reason] * 20)["retry"]["attempt"] == 20


# --- Reasons ------------------------------------------------------------------------------------


def again_after(*failures: Any) -> Json:
    """Let an event fail for each of these reasons, and give that with which it starts again."""
    event = EVENT
    for reason in failures:
        event = again(event, reason)
    return event


def reasons(*failures: Any) -> list[str]:
    """Give the texts that the function keeps of these reasons."""
    kept: list[str] = again_after(*failures)["retry"]["reasons"]
    return kept


def test_a_repeated_reason_is_counted_and_becomes_the_last() -> None:
    timeout = {"Error": "States.Timeout", "Cause": ""}
    other = THROTTLED | {"Cause": replaced(THROTTLED["Cause"], "8d2c", "77aa")}
    assert reasons(THROTTLED, timeout, other) == ["States.Timeout:", f"{THROTTLED_TEXT} (2 times)"]
    kept = reasons(*({"Error": f"E{number}", "Cause": "x" * 999} for number in range(30)))
    assert len(kept) == MAXIMUM_REASONS
    assert [text.partition(":")[0] for text in kept] == [f"E{number}" for number in range(20, 30)]
    assert {len(text) for text in kept} == {REASON_CHARACTERS}


@pytest.mark.parametrize(
    ("cause", "text"),
    [
        ('{"errorMessage": "SlowDown", "requestId": "1", "stackTrace": ["x"]}', "SlowDown"),
        ('{"errorMessage": {"a": 1}}', "{'a': 1}"),
        ("[7]", "[7]"),
        ('{"a": 1}', '{"a": 1}'),
        ('"text"', '"text"'),
        ("[" * 100_000, "[" * (REASON_CHARACTERS - len("E: "))),
        ("two\n  lines", "two lines"),
        (None, "None"),
    ],
)
def test_a_reason_is_one_short_line_without_changing_parts(cause: Any, text: str) -> None:
    assert reasons({"Error": "E", "Cause": cause}) == [f"E: {text}"]
    assert reasons({"Cause": cause}) == [f"None: {text}"[:REASON_CHARACTERS]]


@pytest.mark.parametrize(
    "other",
    [
        *({"attempt": attempt} for attempt in (0, 100_000, 10**4300 - 1)),
        *({"since": "1e5"}, {"since": 7}, {"reasons": ["x: y", 7]}),
    ],
)
def test_a_history_of_others_counts_as_absent(other: Json) -> None:
    event = EVENT | {"retry": retry(1, "x: y") | other}
    assert again(event)["retry"] == retry(1, THROTTLED_TEXT, since=NOW)


def test_a_made_up_history_becomes_small_and_past() -> None:
    many = f"{'x' * 999} ({'9' * 9} times)"
    made_up = retried(99_999, *[many] * 40, *"abcdefghijk", since=NOW + 10 * DAY)
    history = again(made_up)["retry"]
    assert (history["attempt"], history["since"]) == (100_000, str(int(NOW)))
    assert history["reasons"] == [*"cdefghijk", THROTTLED_TEXT]
    assert len(history["reasons"]) == MAXIMUM_REASONS


# --- What is sent -------------------------------------------------------------------------------


def test_any_event_is_sent_as_it_came() -> None:
    """SQS refuses some characters: lone surrogates, U+FFFE, U+FFFF and control characters."""
    text = "é\ud800\udbff\ufffd\ufffe\uffff\0\x1f\x7f\U0001f600"
    came = {text: [text, None, 1.5, {"a": text}], "detail": 7}
    event = came | {"retry": retry(2)}
    assert {**again(event), "retry": 0} == {**came, "retry": 0}
    decision = decide(fault(event), patience=0)
    assert parked(decision)["event"] == came
    assert isinstance(decision, Park)
    assert re.fullmatch("[ -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]*", decision.body)


def test_an_event_that_its_history_makes_too_large_is_parked() -> None:
    """`StartExecution` counts bytes, and escapes are longer than what they stand for."""
    # https://docs.aws.amazon.com/step-functions/latest/apireference/API_StartExecution.html
    shortest = decide(fault(EVENT | {"detail": ""}))
    assert isinstance(shortest, Start)
    compact = json.dumps(started(shortest), ensure_ascii=False, separators=(",", ":"))
    assert shortest.input == compact
    room = 256 * 1024 - len(shortest.input.encode())
    text = "é" * (room // 2) + "x" * (room % 2)
    assert again(EVENT | {"detail": text})["detail"] == text
    refused = parked(decide(fault(EVENT | {"detail": text + "x"})))
    assert refused["event"]["detail"] == text + "x"
    assert refused["reason"]["reasons"][-1].startswith("The event is too large")


def test_an_event_nested_too_deeply_is_parked_unchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("retry_events.retries.as_json", Mock(side_effect=RecursionError))
    failed = fault()
    assert decide(failed) == Park(failed.message.body)


# --- The function -------------------------------------------------------------------------------


class Retries:
    """The function, its queues, and the state machine that it starts."""

    lines: Lines  # what it has logged since the last time

    def __init__(self, function: ModuleType, patch: pytest.MonkeyPatch) -> None:
        self.function, self.queue = function, function.RETRY_QUEUE_URL
        self.sqs, self.states, self.dynamodb = function.sqs, function.states, function.dynamodb
        self.now = NOW
        self.has_failed = False  # the last call of the function
        self.patch = patch
        patch.setattr(function, "time", SimpleNamespace(time=lambda: self.now))
        moto_parts.tell_time(patch, lambda: self.now)

    def send(self, *bodies: str) -> None:
        for text in bodies:
            self.sqs.send_message(QueueUrl=self.queue, MessageBody=text)

    def fail(self, *events: Json) -> None:
        """Send what a state machine sends when an execution has failed."""
        self.send(*(json.dumps(body(event)) for event in events))

    def poll(self, seconds: float = 0, receive_again: bool = False) -> list[str]:
        """Do after some seconds what the event source mapping does; give the IDs that stay."""
        self.now += seconds
        received = self.sqs.receive_message(
            QueueUrl=self.queue, MaxNumberOfMessages=10, MessageSystemAttributeNames=["All"]
        ).get("Messages", [])
        if not received:
            return []
        arn = f"arn:aws:sqs:us-east-1:123456789012:{self.queue.rpartition('/')[2]}"
        records = [
            {
                "messageId": message["MessageId"],
                "receiptHandle": message["ReceiptHandle"],
                "body": message["Body"],
                "attributes": message["Attributes"],
                "eventSourceARN": arn,
            }
            for message in received
        ]
        kept = [message["MessageId"] for message in received]
        for _ in range(2 if receive_again else 1):
            self.has_failed = False
            try:
                answer = self.function.handler({"Records": records}, Context())
                kept = [failure["itemIdentifier"] for failure in answer["batchItemFailures"]]
            except self.function.NothingFinished:
                self.has_failed = True
        for message in received:
            if message["MessageId"] not in kept:
                handle = message["ReceiptHandle"]
                self.sqs.delete_message(QueueUrl=self.queue, ReceiptHandle=handle)
        return kept

    def started(self) -> list[Json]:
        """Read the inputs of all executions."""
        machine = self.function.STATE_MACHINE_ARN
        executions = self.states.list_executions(stateMachineArn=machine)["executions"]
        arns = [execution["executionArn"] for execution in executions]
        return [
            json.loads(self.states.describe_execution(executionArn=arn)["input"]) for arn in arns
        ]

    def parked(self) -> list[str]:
        return taken_from(self.function.PARKED_QUEUE_URL)

    def refused(self) -> set[str]:
        """Read the outcomes of which the log says why: with a warning."""
        lines = [line for line in self.lines() if line.get("refusal")]
        assert {line["level"] for line in lines} == {"WARNING"}
        return {line["message"] for line in lines}

    def counts(self) -> tuple[int, int]:
        """Count the executions, and the messages in the retry queue, visible or not."""
        queue = self.sqs.get_queue_attributes(QueueUrl=self.queue, AttributeNames=["All"])
        names = ("ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible")
        kept = sum(int(queue["Attributes"][name]) for name in names)
        return len(self.started()), kept

    def status(self) -> str:
        """Read what the one stream says that its message does."""
        [item] = self.dynamodb.scan(TableName="keys")["Items"]
        assert self.function.STATE_MACHINE_ARN.endswith(f":{item['state_machine']['S']}")
        status: str = item["status"]["S"]
        return status


@pytest.fixture
def retries(load: Load, lines: Lines, monkeypatch: pytest.MonkeyPatch) -> Retries:
    boto3.client("dynamodb").create_table(TableName="keys", **KEY_TABLE)
    function = load(
        "retry_events.app",
        KEY_TABLE="keys",
        RETRY_EVENTS_QUEUE_URL=new_queue("retry"),
        WAITING_EVENTS_QUEUE_URL=new_queue("waiting"),
        PARKED_EVENTS_QUEUE_URL=new_queue("parked"),
        RETRY_HOURS=str(HOURS),
        EXECUTION_SECONDS="300",
    )
    make_writes_atomic(function.dynamodb.meta.events)  # its threads write at once
    retries = Retries(function, monkeypatch)
    retries.lines = lines
    return retries


FAULT = json.dumps(body(EVENT))
LAST = json.dumps(body(retried(9, "x: y", since=NOW - HOURS * HOUR)))
STRANGE = [  # messages that no state machine has sent
    *("x", "[]", "[" * 100_000),
    json.dumps(body(EVENT) | {"outcome": "Parked"}),
    json.dumps(body(EVENT) | {"reason": "x"}),
]
REJECTED = {"Error": "InvalidEvent", "Cause": "This is not an S3 event.", "rejected": True}
NAMELESS = {"object_key": "", "sequencer": ""}  # as a state machine sends an invalid event


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        (NAMELESS | {"event": [7], "execution": "arn"}, {"event": [7], "execution": "arn"}),
        (NAMELESS | {"event": {"a": ""}}, {"event": {"a": ""}}),
        ({"object_key": "b/k", "record": {"id": {"S": "b/k"}}},) * 2,  # of a sweep
    ],
    ids=["a list", "an object", "a record without an event"],
)
def test_what_was_rejected_is_parked_whole(retries: Retries, sent: Json, kept: Json) -> None:
    retries.send(json.dumps({"outcome": "Retrying", "reason": REJECTED} | sent))
    assert retries.poll() == []
    [text] = retries.parked()
    assert json.loads(text) == {"outcome": "Parked", "reason": REJECTED} | kept
    assert retries.counts() == (0, 0)


def test_a_message_is_invisible_until_its_start_is_due(retries: Retries) -> None:
    event = created("a b/é.png", version_id="3HL4")
    retries.fail(event | {"retry": retry(2, "States.Timeout:")})
    [kept] = retries.poll()
    [waiting, metrics] = retries.lines()
    reasons = ["States.Timeout:", THROTTLED_TEXT]
    expected = {
        **{"message": "RetryWaiting", "level": "INFO", "message_id": kept, "attempts": 3},
        **{"object_key": "input/a b/é.png", "key": "a b/é.png", "version_id": "3HL4"},
        **{"sequencer": "0A", "since": datetime.fromtimestamp(NOW - HOUR, UTC).isoformat()},
        "reasons": reasons,
    }
    assert expected.items() <= waiting.items()
    due = datetime.fromisoformat(waiting["next"]).timestamp()
    assert NOW + 4 <= due <= NOW + 10
    assert metrics["RetryWaiting"] == [1.0]
    assert retries.poll(due - NOW - 0.01) == []
    assert retries.counts() == (0, 1)
    assert retries.poll(0.02) == []
    assert retries.counts() == (1, 0)
    assert retries.started() == [event | {"retry": retry(3, *reasons)}]
    [started, metrics] = retries.lines()
    assert started["execution"].endswith(f":retry-{kept}")
    assert metrics["RetryStarted"] == [1.0]


def test_a_message_delivered_twice_at_once_starts_one_execution(retries: Retries) -> None:
    retries.fail(EVENT)
    retries.poll()
    assert len(retries.poll(6, receive_again=True)) == 1
    # As after a crash between the start and the deletion, where names are unique; Express on AWS
    # starts another one of the same name.
    refuse(retries.states, "StartExecution", "ExecutionAlreadyExists")
    assert retries.poll(61) == []
    assert retries.counts() == (1, 0)


def test_messages_of_a_batch_do_not_depend_on_each_other(retries: Retries) -> None:
    """Those that no state machine sent are parked as they are."""
    retries.send(*STRANGE, FAULT, LAST)
    assert len(retries.poll()) == 1
    texts = retries.parked()
    assert sorted(text for text in texts if text in STRANGE) == sorted(STRANGE)
    [last] = [json.loads(text) for text in texts if text not in STRANGE]
    assert (last["outcome"], last["event"], retries.started()) == ("Parked", EVENT, [])
    metrics = retries.lines()[-1]
    assert (metrics["RetryWaiting"], metrics["RetryParked"]) == ([1.0], [1.0] * 6)


@pytest.mark.parametrize(
    ("service", "operation", "code"),
    [
        ("states", "StartExecution", "ThrottlingException"),
        ("dynamodb", "PutItem", "ThrottlingException"),
        ("dynamodb", "PutItem", ""),
    ],
)
def test_an_outage_loses_and_parks_nothing(
    retries: Retries, service: str, operation: str, code: str
) -> None:
    retries.fail(EVENT)
    retries.poll()
    end = refuse(getattr(retries, service), operation, code)
    for _ in range(20):
        retries.poll(30)
    assert retries.counts() == (0, 1)
    end()
    for _ in range(2):
        retries.poll(LONGEST_SECONDS)
    assert retries.counts() == (1, 0)
    assert retries.refused() == {"RetryWaiting"}


@pytest.mark.parametrize(("text", "code"), [(LAST, "ThrottlingException"), ("strange", "")])
def test_a_message_stays_while_it_cannot_be_parked(retries: Retries, text: str, code: str) -> None:
    retries.send(text)
    end = refuse(retries.sqs, "SendMessage", code)
    for seconds in (0, 61):
        assert len(retries.poll(seconds)) == 1
        assert retries.has_failed
    end()
    assert retries.poll(900) == []
    assert (len(retries.parked()), retries.counts()) == (1, (0, 0))
    assert retries.refused() == {"RetryWaiting"}


def test_the_bus_brings_events_that_sqs_refuses(retries: Retries) -> None:
    accepted = {"source": "inorder", "detail": body(created("ä\U0001f600\ufffd.png"))}
    assert retries.function.handler(accepted, Context()) == {"batchItemFailures": []}
    assert retries.counts() == (0, 0)  # the rule sends it to the queue
    event = created("a\uffff.png")
    retries.function.handler({"source": "inorder", "detail": body(event)}, Context())
    retries.poll(60)
    [started] = retries.started()
    assert started == event | {"retry": started["retry"]}


# What JSON and templates escape, and what SQS refuses.
STRANGE_KEYS = ['"a" \\ \n\r\t.png', "\\u0041<aws.events.event.json>.png", "é\U0001f600\x7f.png"]


@pytest.mark.parametrize("key", [*STRANGE_KEYS, "a\ufffe\uffff.png"])
def test_an_event_that_waited_starts_as_it_came_however_late(retries: Retries, key: str) -> None:
    """A pause is no fault: there is no history, so that the patience begins with a failure."""
    event = created(key)
    retries.queue = retries.function.WAITING_QUEUE_URL
    retries.function.handler(event, Context())  # the rule sends it to the function, too
    is_refused_by_sqs = "\uffff" in key
    assert retries.counts() == (0, is_refused_by_sqs)
    if not is_refused_by_sqs:
        retries.send(json.dumps(event, ensure_ascii=False))
    assert retries.poll(3 * DAY) == []
    assert retries.started() == [event]
    [line, metrics] = retries.lines()
    assert (line["message"], line["key"]) == ("WaitingStarted", key)
    assert line["sequencer"] == SEQUENCER
    assert metrics["WaitingStarted"] == [1.0]
    assert retries.dynamodb.scan(TableName="keys")["Items"] == []  # it needs no stream
    # Its first failure is the beginning of its retries.
    retries.queue = retries.function.RETRY_QUEUE_URL
    retries.fail(event)
    retries.poll()
    assert retries.poll(60) == []
    histories = [input_["retry"] for input_ in retries.started() if "retry" in input_]
    assert [history["attempt"] for history in histories] == [1]


def test_an_event_refused_for_the_patience_is_parked(retries: Retries) -> None:
    retries.queue = retries.function.WAITING_QUEUE_URL
    retries.send(json.dumps(EVENT))
    refuse(retries.states, "StartExecution")
    began = due = NOW + 4 * HOURS * HOUR
    while due:
        assert due < began + HOURS * HOUR + 2 * LONGEST_SECONDS
        retries.poll(due - retries.now)
        assert not retries.has_failed
        [line] = [line for line in retries.lines() if line.get("refusal")]
        due = datetime.fromisoformat(line["next"]).timestamp() + 1 if "next" in line else 0
    assert retries.now > began + HOURS * HOUR
    assert line["message"] == "RetryParked"
    [text] = map(json.loads, retries.parked())
    assert (text["outcome"], text["event"]) == ("Parked", EVENT)
    assert (text["object_key"], text["sequencer"]) == ("input/a b/é😀.png", SEQUENCER)
    assert text["reason"]["Error"] == "NotStarted"
    assert "ThrottlingException" in text["reason"]["Cause"]
    assert retries.counts() == (0, 0)


def test_an_event_that_waited_is_parked_before_sqs_deletes_it() -> None:
    def again(days: float) -> Wait | Park:
        waiting = Waiting.read(Message("m", json.dumps(EVENT), NOW))
        assert waiting
        return waiting.decide_again("refused", NOW + days * DAY, 13 * DAY)

    assert isinstance(again(12.9), Wait)
    assert isinstance(again(13), Park)


def test_what_waits_and_is_no_event_is_parked(retries: Retries) -> None:
    retries.queue = retries.function.WAITING_QUEUE_URL
    retries.send(*STRANGE, FAULT)
    assert retries.poll() == []
    assert len(retries.parked()) == len(STRANGE) + 1
    assert retries.started() == []


def test_a_batch_fails_only_if_nothing_of_it_is_finished(retries: Retries) -> None:
    """A message whose visibility cannot be changed returns by itself."""
    refuse(retries.sqs, "ChangeMessageVisibility")
    retries.send(FAULT, "strange")
    assert len(retries.poll()) == 1
    assert not retries.has_failed
    *logs, metrics = retries.lines()
    [error] = [line for line in logs if line["level"] == "ERROR"]
    assert (error["message"], error["exception_name"]) == ("RetryFailed", "ClientError")
    assert error["message_id"]
    assert metrics["RetryFailed"] == [1.0]
    assert retries.parked() == ["strange"]
    assert len(retries.poll(121)) == 0
    assert len(retries.started()) == 1


def test_five_calls_that_do_not_answer_end_before_the_timeout(retries: Retries) -> None:
    function = template()["Resources"]["RetryEventsFunction"]["Properties"]
    timeout, batch = function["Timeout"], function["Events"]["Faults"]["Properties"]["BatchSize"]
    for client in (retries.sqs, retries.states, retries.dynamodb):
        config = client.meta.config
        assert config.retries["total_max_attempts"] == 1
        assert 5 * (config.connect_timeout + config.read_timeout) < timeout < AGAIN_SECONDS
        assert config.max_pool_connections == batch  # a connection for each message


# --- Several messages of one event --------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "id_", "attempt", "after", "seconds"),
    [
        # The message that has the stream: SQS delivers it again.
        ("RETRYING", "m", 3, 0, 60),
        ("RETRYING", "m", 3, 59.5, 1),
        ("PARKING", "m", 3, 60, 0),
        ("PARKED", "m", 3, 0, None),
        # Another message: an execution takes 300 s, and its message waits for 16.875 s at most.
        ("RETRYING", "n", 2, 0, 317),
        ("RETRYING", "n", 0, 316, 1),
        ("RETRYING", "n", 2, 317, 0),
        ("PARKING", "n", 3, 0, 317),
        ("PARKING", "n", 3, 9999, 0),
        ("RETRYING", "n", 2, -9999, 900),  # a clock is wrong
        ("PARKED", "n", 2, 0, 0),
    ],
)
def test_the_stream_decides_whether_a_message_starts_waits_or_ends(
    status: Any, id_: str, attempt: int, after: float, seconds: int | None
) -> None:
    failed = fault(retried(attempt), id=id_)
    stream = Stream("m", 3, int(NOW), status)
    assert stream.seconds_to_wait(failed, NOW + after, 300) == seconds


@pytest.mark.parametrize(
    ("attempt", "receives", "longest"),
    [(0, 1, 7.5), (3, 1, 25.3125), (0, 5, 37.96875), (0, 99, 900)],
)
def test_a_stream_says_until_when_it_may_go_on(attempt: int, receives: int, longest: float) -> None:
    """An execution sends it again, and it waits; or it waits because none can be started."""
    failed = fault(retried(attempt), receives=receives)
    item = taken("keys", failed, None, NOW, "RETRYING", "machine", 300)["Item"]
    assert item["id"] == {"S": retry_id(EVENT)}  # no other event's, see test_records.py
    assert item["until"] == {"N": str(int(NOW + 300 + longest))}
    assert item["attempt"] == {"N": str(attempt + 1)}
    assert item["state_machine"] == {"S": "machine"}
    assert item["expires_at"] == {"N": str(int(NOW + 2 * DAY))}


def test_a_stream_outlives_its_parked_event() -> None:
    put = taken("keys", fault(), None, NOW, "PARKED", "machine", 300)
    assert put["Item"]["expires_at"] == {"N": str(int(NOW + 15 * DAY))}
    assert "ExpressionAttributeNames" not in put  # DynamoDB refuses an empty one


def test_a_message_starts_when_the_one_before_is_silent(retries: Retries) -> None:
    """The execution that the first one has started died, or there was nothing left to do."""
    retries.fail(EVENT, EVENT)
    retries.poll()
    for _ in range(15):  # if both come at once, the second is refused, and waits for longer
        retries.poll(1)
    assert (retries.counts(), retries.status()) == ((1, 1), "RETRYING")
    retries.poll(281)
    assert retries.counts() == (1, 1)
    retries.poll(30)
    assert retries.counts() == (2, 0)
    assert "RetryMerging" in [line.get("message") for line in retries.lines()]


def test_the_next_attempt_takes_the_stream_with_one_call(retries: Retries) -> None:
    calls = Mock(return_value=None)
    retries.dynamodb.meta.events.register("before-call.dynamodb", calls)
    for attempt in range(3):
        retries.fail(retried(attempt))
        retries.poll()
        retries.poll(12)
    assert retries.counts() == (3, 0)
    assert calls.call_count == 3


def test_a_parked_event_ends_waiting_messages_but_no_later_failures(retries: Retries) -> None:
    retries.fail(retried(10))  # as the stream has by then
    retries.poll()
    retries.send(LAST)
    end = refuse(retries.sqs, "SendMessage")
    retries.poll(2)
    assert retries.status() == "PARKING"
    end()
    retries.poll(61)
    assert (len(retries.parked()), retries.status()) == (1, "PARKED")
    retries.poll(900)
    assert retries.counts() == (0, 0)
    assert "RetryMerged" in [line.get("message") for line in retries.lines()]
    retries.fail(EVENT)
    retries.poll(1)
    retries.poll(6)
    assert retries.counts() == (1, 0)


def test_a_redrive_during_the_parking_is_retried(retries: Retries) -> None:
    retries.send(LAST)
    redriven = [EVENT]

    def answer_late(**_: Any) -> None:
        if redriven:
            retries.now += 1
            retries.fail(redriven.pop())
            retries.now += 1

    retries.sqs.meta.events.register("after-call.sqs.SendMessage", answer_late)
    retries.poll(2)
    assert (len(retries.parked()), retries.status()) == (1, "PARKED")
    retries.poll()
    retries.poll(12)
    assert retries.counts() == (1, 0)


@pytest.mark.parametrize("code", ["ThrottlingException", ""])
def test_an_event_parks_once_if_its_stream_cannot_be_written(retries: Retries, code: str) -> None:
    retries.send(LAST)
    retries.sqs.meta.events.register(
        "after-call.sqs.SendMessage", lambda **_: refuse(retries.dynamodb, "PutItem", code)
    )
    assert retries.poll() == []
    assert (len(retries.parked()), retries.counts()) == (1, (0, 0))


@pytest.mark.parametrize("is_silent", [False, True])
def test_the_loser_of_a_race_for_the_stream_waits(retries: Retries, is_silent: bool) -> None:
    if is_silent:  # the message takes over the stream of another one
        failed = fault(retried(1), id="silent")
        retries.dynamodb.put_item(**taken("keys", failed, None, NOW - DAY, "RETRYING", "m", 300))
    retries.fail(EVENT)
    retries.poll()
    put = retries.dynamodb.put_item

    def put_after_another(**request: Any) -> None:
        put(**request | {"Item": request["Item"] | {"message_id": {"S": "other"}}})
        put(**request)

    retries.patch.setattr(retries.dynamodb, "put_item", put_after_another)
    assert len(retries.poll(6)) == 1
    assert retries.started() == []
