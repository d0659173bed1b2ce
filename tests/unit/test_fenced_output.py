"""The fence against a real (in-process) S3: each situation that a late or early writer can meet."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from fenced_output import (
    OutputContended,
    Source,
    compare_sequencers,
    output_key,
    write_fenced,
    write_unfenced,
)
from inversion import InvalidImage, InvertedImage
from moto import mock_aws

INPUT, OUTPUT = "input", "output"
LIMIT = 1000


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    with mock_aws():
        client = boto3.client("s3", region_name="us-east-1")
        client.create_bucket(Bucket=INPUT)
        client.create_bucket(Bucket=OUTPUT)
        yield client


class Work:
    """Stands for the image work: marks the content, and lets something happen meanwhile."""

    def __init__(self, meanwhile: Callable[[], object] = lambda: None) -> None:
        self.calls = 0
        self._meanwhile = meanwhile

    def __call__(self, content: bytes) -> InvertedImage:
        self.calls += 1
        self._meanwhile()
        return InvertedImage(b"inverse of " + content, "image/test")


def upload(s3: Any, content: bytes, key: str = "a/x.jpg") -> Source:
    answer = s3.put_object(Bucket=INPUT, Key=key, Body=content)
    return Source(INPUT, key, answer["ETag"].strip('"'), answer.get("VersionId"))


def write(s3: Any, source: Source, sequencer: str, work: Work | None = None) -> str:
    return write_fenced(s3, source, sequencer, OUTPUT, LIMIT, work or Work()).outcome


def output(s3: Any, key: str = "a/out-x.jpg") -> bytes:
    """Read an output without its stamp."""
    content: bytes = s3.get_object(Bucket=OUTPUT, Key=key)["Body"].read()
    return content.partition(b"\n")[0]


def put_output(s3: Any, content: bytes, **metadata: str) -> None:
    s3.put_object(Bucket=OUTPUT, Key="a/out-x.jpg", Body=content, Metadata=metadata)


def test_first_event_writes_the_output_with_its_sequencer_and_type(s3: Any) -> None:
    source = upload(s3, b"old")
    assert write(s3, source, "0A") == "Processed"
    head = s3.head_object(Bucket=OUTPUT, Key="a/out-x.jpg")
    assert head["Metadata"] == {"sequencer": "0A", "source-etag": source.etag}
    assert head["ContentType"] == "image/test"
    assert output(s3) == b"inverse of old"


def test_newer_event_replaces_an_older_output(s3: Any) -> None:
    write(s3, upload(s3, b"old"), "0A")
    assert write(s3, upload(s3, b"new"), "0B") == "Processed"
    assert output(s3) == b"inverse of new"


def test_done_event_is_not_worked_on_again(s3: Any) -> None:
    source = upload(s3, b"old")
    write(s3, source, "0A")
    work = Work()
    assert write(s3, source, "0A", work) == "Processed"
    assert work.calls == 0


def test_older_event_after_a_newer_output_changes_nothing(s3: Any) -> None:
    # The same bytes again, so that the source's ETag cannot give the older event away.
    older, newer = upload(s3, b"same"), upload(s3, b"same")
    write(s3, newer, "0B")
    work = Work()
    assert write(s3, older, "0A", work) == "Superseded"
    assert work.calls == 0
    assert s3.head_object(Bucket=OUTPUT, Key="a/out-x.jpg")["Metadata"]["sequencer"] == "0B"


def test_source_overwritten_before_it_is_read_supersedes(s3: Any) -> None:
    older = upload(s3, b"old")
    upload(s3, b"new")
    assert write(s3, older, "0A") == "Superseded"
    assert s3.list_objects_v2(Bucket=OUTPUT)["KeyCount"] == 0


def test_event_without_an_etag_matches_no_source(s3: Any) -> None:
    source = upload(s3, b"old")
    assert write(s3, Source(INPUT, source.key, etag=""), "0A") == "Superseded"


def test_source_gone_supersedes(s3: Any) -> None:
    source = upload(s3, b"old")
    s3.delete_object(Bucket=INPUT, Key=source.key)
    assert write(s3, source, "0A") == "Superseded"


def test_holder_that_wakes_up_after_a_newer_event_changes_nothing(s3: Any) -> None:
    older = upload(s3, b"old")
    work = Work(meanwhile=lambda: write(s3, upload(s3, b"new"), "0B"))
    assert write(s3, older, "0A", work) == "Superseded"
    assert output(s3) == b"inverse of new"


def test_holder_that_wakes_up_when_the_first_output_is_there_changes_nothing(s3: Any) -> None:
    write(s3, upload(s3, b"oldest"), "09")
    older = upload(s3, b"old")
    work = Work(meanwhile=lambda: write(s3, upload(s3, b"new"), "0B"))
    assert write(s3, older, "0A", work) == "Superseded"
    assert output(s3) == b"inverse of new"


def test_holder_that_wakes_up_when_the_first_content_has_come_back_changes_nothing(s3: Any) -> None:
    """The output it saw and the newest one have the same picture, and must not have one ETag."""
    write(s3, upload(s3, b"first"), "0A")
    middle = upload(s3, b"second")
    work = Work(meanwhile=lambda: write(s3, upload(s3, b"first"), "0C"))
    assert write(s3, middle, "0B", work) == "Superseded"
    assert output(s3) == b"inverse of first"
    assert s3.head_object(Bucket=OUTPUT, Key="a/out-x.jpg")["Metadata"]["sequencer"] == "0C"


def test_older_output_that_comes_meanwhile_is_replaced_without_working_twice(s3: Any) -> None:
    newer = upload(s3, b"new")
    work = Work(meanwhile=lambda: put_output(s3, b"inverse of old", sequencer="0A"))
    assert write(s3, newer, "0B", work) == "Processed"
    assert (output(s3), work.calls) == (b"inverse of new", 1)


def test_same_event_done_meanwhile_by_another_run_counts_as_processed(s3: Any) -> None:
    source = upload(s3, b"old")
    work = Work(meanwhile=lambda: put_output(s3, b"by the other run", sequencer="0A"))
    assert write(s3, source, "0A", work) == "Processed"
    assert output(s3) == b"by the other run"


def test_output_deleted_meanwhile_is_written(s3: Any) -> None:
    put_output(s3, b"inverse of old", sequencer="0A")
    newer = upload(s3, b"new")
    work = Work(meanwhile=lambda: s3.delete_object(Bucket=OUTPUT, Key="a/out-x.jpg"))
    assert write(s3, newer, "0B", work) == "Processed"
    assert output(s3) == b"inverse of new"


def test_output_of_unknown_origin_is_replaced(s3: Any) -> None:
    put_output(s3, b"put there by hand")
    assert write(s3, upload(s3, b"new"), "0B") == "Processed"
    assert output(s3) == b"inverse of new"


@pytest.fixture
def fail(s3: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Let an operation of S3 fail: moto has no writes under way and denies nobody."""

    def fail_operation(operation: str, status: int, code: str, times: int) -> None:
        real, left = getattr(s3, operation), [None] * times

        def call(**parameters: Any) -> Any:
            if not left:
                return real(**parameters)
            left.pop()
            response: Any = {
                "Error": {"Code": code, "Message": "made by a test"},
                "ResponseMetadata": {"HTTPStatusCode": status},
            }
            raise ClientError(response, operation)

        monkeypatch.setattr(s3, operation, call)

    return fail_operation


def test_write_under_way_begins_the_fence_again(s3: Any, fail: Callable[..., None]) -> None:
    source = upload(s3, b"new")
    fail("put_object", 409, "ConditionalRequestConflict", times=2)
    work = Work()
    assert write(s3, source, "0B", work) == "Processed"
    assert (output(s3), work.calls) == (b"inverse of new", 1)


def test_fence_that_never_closes_is_a_fault(s3: Any, fail: Callable[..., None]) -> None:
    source = upload(s3, b"new")
    fail("put_object", 409, "ConditionalRequestConflict", times=99)
    with pytest.raises(OutputContended, match="out-x"):
        write(s3, source, "0B")


@pytest.mark.parametrize("operation", ["head_object", "get_object", "put_object"])
def test_denied_access_is_a_fault_and_no_outcome(
    s3: Any, fail: Callable[..., None], operation: str
) -> None:
    source = upload(s3, b"new")
    fail(operation, 403, "AccessDenied", times=1)
    with pytest.raises(ClientError, match="AccessDenied"):
        write(s3, source, "0B")


def test_missing_output_bucket_is_a_fault(s3: Any) -> None:
    source = upload(s3, b"new")
    with pytest.raises(ClientError, match="NoSuchBucket"):
        write_fenced(s3, source, "0B", "no-such-bucket", LIMIT, Work())


def test_object_over_the_limit_is_not_read(s3: Any) -> None:
    source = upload(s3, b"x" * (LIMIT + 1))
    work = Work()
    with pytest.raises(InvalidImage, match="larger than 1000 bytes"):
        write(s3, source, "0A", work)
    assert work.calls == 0


class TestVersionedBucket:
    """Sequencers of two versions do not compare: which version is current decides."""

    @pytest.fixture(autouse=True)
    def versioning(self, s3: Any) -> None:
        s3.put_bucket_versioning(Bucket=INPUT, VersioningConfiguration={"Status": "Enabled"})

    def test_current_version_is_processed_and_named(self, s3: Any) -> None:
        source = upload(s3, b"old")
        assert write(s3, source, "0A") == "Processed"
        head = s3.head_object(Bucket=OUTPUT, Key="a/out-x.jpg")
        assert head["Metadata"]["source-version-id"] == source.version_id

    def test_earlier_version_with_the_higher_sequencer_is_superseded(self, s3: Any) -> None:
        older, newer = upload(s3, b"same"), upload(s3, b"same")
        assert write(s3, newer, "0A") == "Processed"
        assert write(s3, older, "0F") == "Superseded"

    def test_later_version_with_the_lower_sequencer_is_processed(self, s3: Any) -> None:
        write(s3, upload(s3, b"old"), "0F")
        assert write(s3, upload(s3, b"new"), "0A") == "Processed"
        assert output(s3) == b"inverse of new"

    def test_version_under_a_delete_marker_is_superseded(self, s3: Any) -> None:
        source = upload(s3, b"old")
        s3.delete_object(Bucket=INPUT, Key=source.key)
        assert write(s3, source, "0A") == "Superseded"

    def test_version_overtaken_while_it_is_worked_on_is_superseded(self, s3: Any) -> None:
        older = upload(s3, b"old")
        work = Work(meanwhile=lambda: write(s3, upload(s3, b"new"), "01"))
        assert write(s3, older, "0A", work) == "Superseded"
        assert output(s3) == b"inverse of new"


def test_without_the_fence_an_older_event_overwrites_a_newer_output(s3: Any) -> None:
    # The negative control: what the fence is there to stop does happen without it.
    older = upload(s3, b"old")
    work = Work(meanwhile=lambda: write(s3, upload(s3, b"new"), "0B"))
    assert write_unfenced(s3, older, "0A", OUTPUT, LIMIT, work).outcome == "Processed"
    assert output(s3) == b"inverse of old"


@pytest.mark.parametrize(
    ("one", "other", "order"),
    [
        ("0A", "0A", 0),
        ("0A", "0B", -1),
        ("0B", "0A", 1),
        ("0A", "0A1", -1),  # a prefix is older
        ("0A", "0A00", 0),  # trailing zeros make a tie
        ("9", "10", 1),  # padded on the right: no numbers
        ("0055AED6DCD90281E5", "0055AED6DCD90281E6", -1),
        ("006A0F5FCE2D7F28B1", "006A0F5FCE", 1),
    ],
)
def test_sequencers_are_padded_on_the_right(one: str, other: str, order: int) -> None:
    assert compare_sequencers(one, other) == order


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("x.jpg", "out-x.jpg"),
        ("a/x.jpg", "a/out-x.jpg"),
        ("b/c/x.jpg", "b/c/out-x.jpg"),
        ("a b+%41'\"é.jpg", "out-a b+%41'\"é.jpg"),
        ("folder/", "folder/out-"),
    ],
)
def test_output_stays_in_its_folder(key: str, expected: str) -> None:
    assert output_key(key) == expected


def test_key_that_leaves_no_room_for_the_outputs_name_is_refused() -> None:
    assert len(output_key("x" * 1020)) == 1024
    with pytest.raises(InvalidImage, match="1024 bytes"):
        output_key("x" * 1021)
    with pytest.raises(InvalidImage, match="1024 bytes"):
        output_key("é" * 511)  # bytes count, not characters
