"""`examples/rows`: whatever arrives in which order, the newest event decides the row."""

import itertools
import sys
import time
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from hypothesis import example, given
from hypothesis import strategies as st
from moto import mock_aws

from inorder_fence import ObjectEvent, Rejection
from inorder_fence.fenced_output import compare_sequencers
from tests.support import events
from tests.support.resolved_template import template

ROWS = template("examples/rows/template.yaml")["Resources"]["Rows"]["Properties"]
MODULE = "examples.rows.app"
SEQUENCERS = st.text("0123456789ABCDEF", min_size=1, max_size=20)


class Rows:
    """The function of the example, with its table and a bucket in moto."""

    def __init__(self) -> None:
        self.s3 = boto3.client("s3")
        self.s3.create_bucket(Bucket="input")
        parts = ("AttributeDefinitions", "KeySchema", "BillingMode")
        properties = {name: ROWS[name] for name in parts}
        self.table = boto3.resource("dynamodb").create_table(TableName="rows", **properties)
        self.app: Any = import_module(MODULE)

    def upload(self, content: bytes, sequencer: str, key: str = "a/x") -> dict[str, Any]:
        return events.upload(self.s3, key, content, sequencer=sequencer)

    def answer(self, event: dict[str, Any]) -> dict[str, str]:
        """Invoke the function as a state machine does."""
        answer: dict[str, str] = self.app.handler({"event": event, "fence": "newest"}, None)
        return answer

    def row(self, key: str = "a/x") -> dict[str, Any]:
        row: dict[str, Any] = self.table.get_item(Key={"key": key}).get("Item", {})
        return row


@pytest.fixture
def rows(monkeypatch: pytest.MonkeyPatch) -> Iterator[Rows]:
    monkeypatch.setenv("TABLE_NAME", "rows")
    monkeypatch.delitem(sys.modules, MODULE, raising=False)
    with mock_aws():
        yield Rows()


# Their lengths differ. S3 calls the last two equal.
ORDERED = ["0A", "0A01", "0B", "0B00"]


def test_the_row_never_goes_back_in_any_order_of_writes(rows: Rows) -> None:
    for number, order in enumerate(itertools.permutations(ORDERED)):
        key, newest = f"order {number}", ""
        for sequencer in order:
            is_older = compare_sequencers(sequencer, newest) < 0
            event = ObjectEvent("input", key, sequencer, "e")
            outcome = rows.app.write(event, {"written_by": sequencer})
            assert outcome == ("Superseded" if is_older else "Processed")
            newest = newest if is_older else sequencer
            assert rows.row(key)["written_by"] == newest


def test_a_comparable_sequencer_has_the_order_of_s3(rows: Rows) -> None:
    @given(SEQUENCERS, SEQUENCERS)
    @example("0A", "0A00")
    @example("0", "00")
    def check(one: str, other: str) -> None:
        left, right = map(rows.app.comparable, (one, other))
        assert (left > right) - (left < right) == compare_sequencers(one, other)

    check()


@pytest.mark.parametrize("expected", [{"title": "newest", "lines": 1}, {"deleted": True}])
def test_late_and_repeated_events_end_in_the_newest(rows: Rows, expected: Any) -> None:
    is_deleted = "deleted" in expected
    for number, order in enumerate(itertools.permutations(range(3))):
        key = f"order {number}"
        contents = {"0A": b"old\n", "0A10": b"new\nnew\n", "0B": b"newest\n"}
        sent = [rows.upload(content, sequencer, key) for sequencer, content in contents.items()]
        if is_deleted:
            sent[-1] = events.delete(rows.s3, key, sequencer="0B")
        for index in [*order, *reversed(order)]:
            rows.answer(sent[index])
        row = rows.row(key)
        assert is_deleted == (row.pop("expires_at", 0) > time.time() + 29 * 86_400)
        assert row == {"key": key, "sequencer": "0B"} | expected


def test_only_a_newer_object_replaces_a_tombstone(rows: Rows) -> None:
    late = ObjectEvent.from_event(rows.upload(b"old\n", "0A"))
    assert rows.answer(events.delete(rows.s3, "a/x", sequencer="0B"))["outcome"] == "Processed"
    tombstone = rows.row()
    assert tombstone["deleted"]
    assert rows.app.write(late, {"title": "old"}) == "Superseded"
    assert rows.row() == tombstone
    rows.answer(rows.upload(b"new\n", "0C"))
    assert rows.row() == {"key": "a/x", "sequencer": "0C", "title": "new", "lines": 1}


def test_an_event_after_the_tombstone_has_expired_makes_no_row(rows: Rows) -> None:
    late = rows.upload(b"old\n", "0A")
    rows.answer(events.delete(rows.s3, "a/x", sequencer="0B"))
    rows.table.delete_item(Key={"key": "a/x"})
    assert rows.answer(late)["outcome"] == "Superseded"
    assert rows.row() == {}


def test_objects_no_retry_helps_are_rejected_and_alone_they_fail(
    rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_text = rows.upload(b"\xff", "0A")
    long = rows.upload(b"12345\n", "0B")
    monkeypatch.setattr(rows.app, "MAXIMUM_BYTES", 5)
    version = events.changed(long, "detail.object.version-id", "v1")
    no_sequencer = events.changed(long, "detail.object.sequencer", "ZZ")
    assert rows.answer(no_text)["outcome"] == "Superseded"  # it is overwritten
    rejected = {"larger than 5": long, "versions": version, "hexadecimal": no_sequencer}
    for cause, event in rejected.items():
        answer = rows.answer(event)
        assert answer["outcome"] == "Rejected"
        assert cause in answer["cause"]
        assert int(answer["expires_at"]) > time.time() + 14 * 86_400  # as long as it is parked
        with pytest.raises(Rejection, match=cause):
            rows.app.handler(event, None)
    with pytest.raises(Rejection, match="no text"):
        rows.app.work(b"\xff")
    assert rows.row() == {}


def test_what_may_pass_is_a_fault(rows: Rows) -> None:
    event = rows.upload(b"new\n", "0A")
    rows.table.delete()
    with pytest.raises(ClientError, match="ResourceNotFound"):
        rows.answer(event)
    event = events.changed(event, "detail.bucket.name", "nowhere")
    with pytest.raises(ClientError, match="NoSuchBucket"):
        rows.answer(event)
