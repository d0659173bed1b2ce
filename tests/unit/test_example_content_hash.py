"""The function of examples/content_hash: what is one content, and what a batch comes to."""

import json
import sys
from collections.abc import Callable
from decimal import Decimal
from typing import Any
from unittest.mock import Mock

import pytest
from aws_lambda_powertools.utilities.data_classes.kinesis_stream_event import KinesisStreamRecord
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.support.contents import AGAIN, ORDER, app, kinesis_record, sqs_record
from tests.support.in_process import Context

TEXTS = st.text()
NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)
# Equal contents, as texts of a field of the detail.
EQUAL = [
    ["1", "1.0", "1e0", "10e-1", " 1 "],
    ["0", "-0.0", "0e5"],
    ["0.1", "0.10", "1e-1"],
    ["100", "1e2", "1E+2"],
    ['"é"', '"\\u00e9"'],
    ['"/"', '"\\/"'],
    ['{"a": 1, "b": [2]}', '{"b":[2.0],"a":1}'],
]
# Contents of which no two are equal, also where a float is.
DIFFERENT = [
    *("1", "true", '"1"', "[1]", "null", "{}", "[]", '""', '"null"'),
    *("9007199254740992", "9007199254740993", "0.1234567890123456789", "0.1234567890123456788"),
    *("1e400", "1e401", '"e\\u0301"', '"\\u00e9"', '"\\ud800"', '"\\ud801"', "[1, 2]", "[2, 1]"),
]


def content(body: Any) -> Any:
    return app().content_of(SQSRecord(sqs_record(body, "message")))


def content_of_stream(data: Any) -> Any:
    return app().content_of(KinesisStreamRecord(kinesis_record(data)))


def event_with(detail: str) -> str:
    return f'{{"source": "s", "detail-type": "t", "id": "7f", "detail": {detail}}}'


def id_with(field: str) -> str:
    return str(content(event_with(f'{{"field": {field}}}')).id)


def backwards(value: Any) -> Any:
    """Turn the order of all fields."""
    if isinstance(value, dict):
        return {key: backwards(value[key]) for key in reversed(value)}
    return [backwards(item) for item in value] if isinstance(value, list) else value


def exactly(text: str) -> Any:
    """Parse JSON without rounding: a number may be written with an exponent."""
    return json.loads(text, parse_int=Decimal, parse_float=Decimal)


@settings(max_examples=100, deadline=None)
@example(value=32_589_158_477_190_044_730)
@given(value=VALUES)
def test_order_space_and_escapes_do_not_count(value: Any) -> None:
    spelt = [
        json.dumps(value),
        json.dumps(backwards(value), indent=2),
        json.dumps(value, ensure_ascii=False),
        r"\/".join(json.dumps(value).split("/")),
    ]
    assert len({id_with(text) for text in spelt}) == 1
    # The canonical text still says the same, so two values that differ cannot share one.
    canonical = app().canonical(app()._parsed(spelt[0], []))
    assert exactly(canonical) == exactly(spelt[0])


@pytest.mark.parametrize("texts", EQUAL)
def test_equal_values_are_one_content(texts: list[str]) -> None:
    assert len({id_with(text) for text in texts}) == 1


def test_no_digit_type_or_character_is_lost() -> None:
    ids = [id_with(text) for text in DIFFERENT]
    assert len(set(ids)) == len(DIFFERENT)
    assert not [id_ for id_ in ids if id_.startswith("id:")]


def test_source_type_and_detail_are_hashed_and_nothing_else() -> None:
    hashed = content(ORDER).id
    others = {name: "other" for name in ORDER if name not in {"source", "detail-type", "detail"}}
    for same in (ORDER | others, AGAIN):
        assert content(same).id == hashed
    changes: list[Any] = [{"source": "other"}, {"detail-type": "other"}, {"detail": {}}]
    for change in changes:
        assert content(ORDER | change).id != hashed
    # No part may flow into the next one.
    one, other = ({"source": "ab", "detail-type": "c"}, {"source": "a", "detail-type": "bc"})
    assert content(ORDER | one).id != content(ORDER | other).id


def test_an_event_is_forwarded_as_it_is_spelt() -> None:
    body = '{"source":"s", "detail-type":"t", "detail":{"total":19.50,"n":12345678901234567890.10}}'
    assert content(body).event == body


def test_a_detail_that_is_a_text_is_parsed() -> None:
    parsed = content(ORDER | {"detail": json.dumps(AGAIN["detail"])})
    assert parsed.id == content(ORDER).id
    event = json.loads(parsed.event)
    assert event == {name: ORDER[name] for name in ("source", "detail-type", "detail")}


@pytest.mark.parametrize(
    ("text", "detail"),
    [
        ('{"order": 1.50}', {"order": 1.5}),
        ("no JSON", {"data": "no JSON"}),
        ('{"total": NaN}', {"data": '{"total": NaN}'}),
        ("[1, 2]", {"data": "[1, 2]"}),
        ("[" * 5_000 + "]" * 5_000, {"data": "[" * 5_000 + "]" * 5_000}),
        ("1e9999999999999999999", {"data": "1e9999999999999999999"}),
        ('{"source": "s", "detail-type": "t", "detail": "text"}', None),
        ('{"source": 5, "detail-type": "t", "detail": {}}', None),
        ('{"source": "s", "detail": {}}', None),
    ],
)
def test_what_is_no_event_becomes_the_detail_of_one(text: str, detail: Any) -> None:
    expected = {"detail-type": "Record", "detail": json.loads(text) if detail is None else detail}
    by_queue = content(text)
    assert json.loads(by_queue.event) == expected | {"source": "sqs.orders"}
    by_stream = content_of_stream(text.encode())
    assert json.loads(by_stream.event) == expected | {"source": "kinesis.orders"}
    assert not by_queue.id.startswith("id:")
    assert by_queue.id != by_stream.id


def test_an_event_is_the_same_content_from_a_stream() -> None:
    assert content_of_stream(AGAIN).id == content(ORDER).id


def test_bytes_that_are_no_text_are_forwarded_in_base64() -> None:
    assert json.loads(content_of_stream(b"\xff\x00").event)["detail"] == {"data": "/wA="}


def deep() -> str:
    """Nest objects so that Python's parser, written in C, can read them, and no function can."""
    levels = sys.getrecursionlimit() * 2 // 3
    return '{"n":' * levels + "1" + "}" * levels


NOT_HASHED = {
    "twice": lambda: '{"a": 1, "b": 2, "a": 3}',
    "twice within": lambda: '{"list": [{"a": 1, "a": 1}]}',
    "deep": deep,
}


@pytest.mark.parametrize("detail_of", NOT_HASHED.values(), ids=NOT_HASHED)
def test_what_cannot_be_hashed_takes_the_events_id(
    detail_of: Callable[[], str], caplog: pytest.LogCaptureFixture
) -> None:
    body = event_with(detail := detail_of())
    unhashed = content(body)
    assert (unhashed.id, unhashed.event) == ("id:7f", body)
    assert content(detail).id == "id:message"
    logged = [(line.getMessage(), vars(line)["event"]) for line in caplog.records]
    assert logged == [("NotHashed", "7f"), ("NotHashed", "message")]


def machine(*ends: Any) -> Any:
    """Give a state machine whose executions end so, one after the other."""
    return Mock(**{"start_sync_execution.side_effect": ends})


def ended(outcome: str) -> dict[str, str]:
    return {"status": "SUCCEEDED", "output": json.dumps({"outcome": outcome})}


FAILED = {"status": "FAILED", "error": "NotForwarded", "cause": "{}"}
BATCHES = {
    "sqs": ([sqs_record(ORDER, f"m{number}") for number in range(4)], "m"),
    "kinesis": ([kinesis_record(ORDER, f"{number}") for number in range(4)], ""),
}


@pytest.mark.parametrize(("records", "prefix"), BATCHES.values(), ids=BATCHES)
def test_a_batch_is_counted_and_what_failed_is_named(
    records: list[Any],
    prefix: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    ends = ended("Processed"), ended("Skipped"), FAILED, TimeoutError("late")
    monkeypatch.setattr(app(), "states", machine(*ends))
    answer = app().handler({"Records": records}, Context())
    failed = [{"itemIdentifier": f"{prefix}{number}"} for number in (2, 3)]
    assert answer == {"batchItemFailures": failed, "processed": 1, "skipped": 1, "failed": 2}
    [metrics] = map(json.loads, capsys.readouterr().out.splitlines())
    assert {"Processed": [1], "Skipped": [1], "Failed": [2]}.items() <= metrics.items()
    reasons = [str(line.exc_info[1]) for line in caplog.records if line.exc_info]
    assert reasons == ["NotForwarded: {}", "late"]


def test_a_batch_that_fails_whole_is_answered_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app(), "states", machine(FAILED))
    answer = app().handler({"Records": [sqs_record("{}", "message")]}, Context())
    assert answer["batchItemFailures"] == [{"itemIdentifier": "message"}]
    assert answer["failed"] == 1


def test_the_times_are_whole_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app(), "states", states := machine(ended("Processed")))
    monkeypatch.setattr(app().time, "time", lambda: 1_800_000_000.9)
    app().handler({"Records": [sqs_record(ORDER)]}, Context())
    assert json.loads(states.start_sync_execution.call_args.kwargs["input"]) == {
        "id": content(ORDER).id,
        "now": "1800000000",
        "dead_before": "1799999640",
        "expires_at": "1800604800",
        "event": ORDER,
    }
