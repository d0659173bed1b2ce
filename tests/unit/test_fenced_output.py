"""The fence against a real (in-process) S3: each situation that a late or early writer can meet."""

from __future__ import annotations

import itertools
import random
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from fenced_output import Fence, OutputContended, SourceChanged, compare_sequencers, output_key
from hypothesis import given, settings
from hypothesis import strategies as st
from inversion import InvalidImage, InvertedImage
from moto import mock_aws
from object_event import ObjectEvent

INPUT, OUTPUT = "input", "output"
KEY, OUTPUT_KEY = "a/x.jpg", "a/out-x.jpg"
LIMIT = 1000


def keep_versions(s3: Any, status: str = "Enabled") -> None:
    s3.put_bucket_versioning(Bucket=INPUT, VersioningConfiguration={"Status": status})


@contextmanager
def empty_buckets(s3: Any) -> Iterator[None]:
    with mock_aws():
        s3.create_bucket(Bucket=INPUT)
        s3.create_bucket(Bucket=OUTPUT)
        yield


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fenced_output.time.sleep", lambda _: None)


@pytest.fixture
def s3() -> Iterator[Any]:
    client = boto3.client("s3", region_name="us-east-1")
    with empty_buckets(client):
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


def upload(s3: Any, content: bytes, sequencer: str, key: str = KEY) -> ObjectEvent:
    answer = s3.put_object(Bucket=INPUT, Key=key, Body=content)
    return ObjectEvent(
        INPUT, key, sequencer, answer["ETag"].strip('"'), answer.get("VersionId") or None
    )


def delete(s3: Any, sequencer: str, key: str = KEY, **version: Any) -> ObjectEvent:
    """Delete an object, or put a delete marker over it, or delete a version or marker for good."""
    answer = s3.delete_object(Bucket=INPUT, Key=key, **version)
    return ObjectEvent(
        INPUT, key, sequencer, version_id=answer.get("VersionId") or None, is_deletion=True
    )


def delete_version(s3: Any, event: ObjectEvent, sequencer: str) -> ObjectEvent:
    return delete(s3, sequencer, VersionId=event.version_id)


def fence_of(
    s3: Any,
    work: Work | None = None,
    handles_deletions: bool = True,
    output_bucket: str = OUTPUT,
) -> Fence:
    return Fence(s3, output_bucket, LIMIT, work or Work(), handles_deletions)


def write(s3: Any, event: ObjectEvent, work: Work | None = None, **options: Any) -> str:
    return fence_of(s3, work, **options).write_newest(event).outcome


def write_each(s3: Any, event: ObjectEvent, work: Work | None = None, **options: Any) -> str:
    return fence_of(s3, work, **options).write_each(event).outcome


def output(s3: Any, key: str = OUTPUT_KEY) -> bytes | None:
    """Read an output without its stamp, or none if there is none."""
    try:
        content: bytes = s3.get_object(Bucket=OUTPUT, Key=key)["Body"].read()
    except s3.exceptions.NoSuchKey:
        return None
    return content.partition(b"\n")[0]


def sequencer_of_output(s3: Any) -> str:
    sequencer: str = s3.head_object(Bucket=OUTPUT, Key=OUTPUT_KEY)["Metadata"]["sequencer"]
    return sequencer


def outputs(s3: Any) -> list[str]:
    return [each["Key"] for each in s3.list_objects_v2(Bucket=OUTPUT).get("Contents", [])]


def put_output(s3: Any, content: bytes, **metadata: str) -> None:
    s3.put_object(Bucket=OUTPUT, Key=OUTPUT_KEY, Body=content, Metadata=metadata)


@pytest.fixture
def calls(s3: Any) -> list[str]:
    """Give what S3 is asked for from now on: clear it when the situation is there."""
    asked: list[str] = []
    s3.meta.events.register("before-call.s3", lambda model, **_: asked.append(model.name))
    return asked


@pytest.fixture
def before(s3: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Let something happen once, before the next call of an operation, or the one after it."""

    def arrange(operation: str, happening: Callable[[], object], number: int = 1) -> None:
        real, seen = getattr(s3, operation), itertools.count(1)

        def call(**parameters: Any) -> Any:
            if next(seen) == number:
                happening()
            return real(**parameters)

        monkeypatch.setattr(s3, operation, call)

    return arrange


class Killed(Exception):
    """The function dies."""


def die() -> None:
    raise Killed


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


@pytest.fixture
def lose_answer(s3: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Let the next call of an operation be sent again though it was done, as botocore would."""

    def lose(operation: str) -> None:
        real, lost = getattr(s3, operation), iter([True])

        def call(**parameters: Any) -> Any:
            if next(lost, False):
                real(**parameters)
            return real(**parameters)

        monkeypatch.setattr(s3, operation, call)

    return lose


class TestCreations:
    """One output of a key: it is the newest event's."""

    def test_first_event_writes_the_output_with_its_sequencer_and_type(self, s3: Any) -> None:
        event = upload(s3, b"old", "0A")
        assert write(s3, event) == "Processed"
        head = s3.head_object(Bucket=OUTPUT, Key=OUTPUT_KEY)
        assert head["Metadata"] == {"sequencer": "0A", "source-etag": event.etag}
        assert head["ContentType"] == "image/test"
        assert output(s3) == b"inverse of old"

    def test_newer_event_replaces_an_older_output(self, s3: Any) -> None:
        write(s3, upload(s3, b"old", "0A"))
        assert write(s3, upload(s3, b"new", "0B")) == "Processed"
        assert output(s3) == b"inverse of new"

    def test_done_event_is_not_worked_on_again(self, s3: Any, calls: list[str]) -> None:
        event = upload(s3, b"old", "0A")
        write(s3, event)
        work = Work()
        calls.clear()
        assert write(s3, event, work) == "Processed"
        assert (work.calls, calls) == (0, ["HeadObject", "HeadObject"])

    def test_older_event_after_a_newer_output_changes_nothing(self, s3: Any) -> None:
        # The same bytes again, so that the source's ETag cannot give the older event away.
        older, newer = upload(s3, b"same", "0A"), upload(s3, b"same", "0B")
        write(s3, newer)
        work = Work()
        assert write(s3, older, work) == "Superseded"
        assert work.calls == 0
        assert sequencer_of_output(s3) == "0B"

    def test_source_overwritten_before_it_is_read_supersedes(self, s3: Any) -> None:
        older = upload(s3, b"old", "0A")
        upload(s3, b"new", "0B")
        assert write(s3, older) == "Superseded"
        assert outputs(s3) == []

    def test_event_without_an_etag_matches_no_source(self, s3: Any) -> None:
        upload(s3, b"old", "0A")
        assert write(s3, ObjectEvent(INPUT, KEY, "0A", etag="")) == "Superseded"

    def test_holder_that_wakes_up_after_a_newer_event_changes_nothing(self, s3: Any) -> None:
        older = upload(s3, b"old", "0A")
        work = Work(meanwhile=lambda: write(s3, upload(s3, b"new", "0B")))
        assert write(s3, older, work) == "Superseded"
        assert output(s3) == b"inverse of new"

    def test_holder_that_wakes_up_when_the_first_output_is_there_changes_nothing(
        self, s3: Any
    ) -> None:
        write(s3, upload(s3, b"oldest", "09"))
        older = upload(s3, b"old", "0A")
        work = Work(meanwhile=lambda: write(s3, upload(s3, b"new", "0B")))
        assert write(s3, older, work) == "Superseded"
        assert output(s3) == b"inverse of new"

    def test_holder_that_wakes_up_when_the_first_content_has_come_back_changes_nothing(
        self, s3: Any
    ) -> None:
        """What it saw and the newest output have the same picture, and must not have one ETag."""
        write(s3, upload(s3, b"first", "0A"))
        middle = upload(s3, b"second", "0B")
        work = Work(meanwhile=lambda: write(s3, upload(s3, b"first", "0C")))
        assert write(s3, middle, work) == "Superseded"
        assert output(s3) == b"inverse of first"
        assert sequencer_of_output(s3) == "0C"

    def test_older_output_that_comes_meanwhile_is_replaced_without_working_twice(
        self, s3: Any
    ) -> None:
        newer = upload(s3, b"new", "0B")
        work = Work(meanwhile=lambda: put_output(s3, b"inverse of old", sequencer="0A"))
        assert write(s3, newer, work) == "Processed"
        assert (output(s3), work.calls) == (b"inverse of new", 1)

    def test_same_event_done_meanwhile_by_another_run_counts_as_processed(self, s3: Any) -> None:
        event = upload(s3, b"old", "0A")
        work = Work(meanwhile=lambda: put_output(s3, b"by the other run", sequencer="0A"))
        assert write(s3, event, work) == "Processed"
        assert output(s3) == b"by the other run"

    def test_output_deleted_meanwhile_is_written(self, s3: Any) -> None:
        put_output(s3, b"inverse of old", sequencer="0A")
        newer = upload(s3, b"new", "0B")
        work = Work(meanwhile=lambda: s3.delete_object(Bucket=OUTPUT, Key=OUTPUT_KEY))
        assert write(s3, newer, work) == "Processed"
        assert output(s3) == b"inverse of new"

    def test_output_of_unknown_origin_is_replaced(self, s3: Any) -> None:
        put_output(s3, b"put there by hand")
        assert write(s3, upload(s3, b"new", "0B")) == "Processed"
        assert output(s3) == b"inverse of new"

    @pytest.mark.parametrize("old", [None, b"old"])
    def test_write_whose_answer_is_lost_is_done_all_the_same(
        self, s3: Any, lose_answer: Callable[[str], None], old: bytes | None
    ) -> None:
        if old:
            write(s3, upload(s3, old, "0A"))
        event, work = upload(s3, b"new", "0B"), Work()
        lose_answer("put_object")
        assert write(s3, event, work) == "Processed"
        assert (output(s3), work.calls) == (b"inverse of new", 1)

    def test_write_under_way_begins_the_fence_again(
        self, s3: Any, fail: Callable[..., None]
    ) -> None:
        event = upload(s3, b"new", "0B")
        fail("put_object", 409, "ConditionalRequestConflict", times=2)
        work = Work()
        assert write(s3, event, work) == "Processed"
        assert (output(s3), work.calls) == (b"inverse of new", 1)

    def test_object_over_the_limit_is_not_read(self, s3: Any) -> None:
        event = upload(s3, b"x" * (LIMIT + 1), "0A")
        work = Work()
        with pytest.raises(InvalidImage, match="larger than 1000 bytes"):
            write(s3, event, work)
        assert work.calls == 0

    @pytest.mark.parametrize(
        ("handles_deletions", "last_look"), [(True, ["HeadObject"]), (False, [])]
    )
    def test_costs_of_an_uncontended_event(
        self, s3: Any, calls: list[str], handles_deletions: bool, last_look: list[str]
    ) -> None:
        first = upload(s3, b"old", "0A")
        calls.clear()
        write(s3, first, handles_deletions=handles_deletions)
        assert calls == ["HeadObject", "GetObject", "PutObject", *last_look]
        second = upload(s3, b"new", "0B")
        calls.clear()
        write(s3, second, handles_deletions=handles_deletions)
        assert calls == ["HeadObject", "GetObject", "PutObject"]


class TestDeletions:
    """A deletion removes the output, unless the source is there again."""

    def test_output_of_a_deleted_source_is_removed(self, s3: Any) -> None:
        write(s3, upload(s3, b"old", "0A"))
        assert write(s3, delete(s3, "0B")) == "Processed"
        assert outputs(s3) == []

    def test_repeated_deletion_is_processed_again_and_changes_nothing(self, s3: Any) -> None:
        write(s3, upload(s3, b"old", "0A"))
        deletion = delete(s3, "0B")
        assert [write(s3, deletion), write(s3, deletion)] == ["Processed", "Processed"]
        assert outputs(s3) == []

    def test_deletion_of_what_was_never_processed_is_processed(self, s3: Any) -> None:
        upload(s3, b"old", "0A")
        assert write(s3, delete(s3, "0B")) == "Processed"

    def test_creation_that_arrives_after_the_deletion_changes_nothing(self, s3: Any) -> None:
        creation, deletion = upload(s3, b"old", "0A"), delete(s3, "0B")
        write(s3, deletion)
        work = Work()
        assert write(s3, creation, work) == "Superseded"
        assert (outputs(s3), work.calls) == ([], 0)

    def test_source_created_again_after_a_deletion_has_an_output(self, s3: Any) -> None:
        write(s3, upload(s3, b"old", "0A"))
        write(s3, delete(s3, "0B"))
        assert write(s3, upload(s3, b"new", "0C")) == "Processed"
        assert output(s3) == b"inverse of new"

    def test_deletion_that_arrives_after_a_newer_creation_changes_nothing(self, s3: Any) -> None:
        write(s3, upload(s3, b"old", "0A"))
        deletion = delete(s3, "0B")
        write(s3, upload(s3, b"new", "0C"))
        assert write(s3, deletion) == "Superseded"
        assert output(s3) == b"inverse of new"

    @pytest.mark.parametrize("is_processed", [True, False])
    def test_newer_creation_that_is_not_processed_yet_keeps_the_output(
        self, s3: Any, is_processed: bool
    ) -> None:
        older = upload(s3, b"old", "0A")
        if is_processed:
            write(s3, older)
        deletion = delete(s3, "0B")
        upload(s3, b"new", "0C")
        assert write(s3, deletion) == "Superseded"
        assert output(s3) == (b"inverse of old" if is_processed else None)

    def test_deletion_that_arrives_late_removes_what_its_successors_left(self, s3: Any) -> None:
        """The newer creation's source is gone too, so it does not matter whose deletion this is."""
        first = delete(s3, "0A")
        write(s3, upload(s3, b"new", "0B"))
        delete(s3, "0C")
        assert write(s3, first) == "Processed"
        assert outputs(s3) == []

    def test_output_that_changes_before_it_is_removed_begins_the_fence_again(
        self, s3: Any, before: Callable[..., None]
    ) -> None:
        write(s3, upload(s3, b"old", "0A"))
        deletion = delete(s3, "0B")
        before("delete_object", lambda: write(s3, upload(s3, b"new", "0C")))
        assert write(s3, deletion) == "Superseded"
        assert output(s3) == b"inverse of new"

    def test_output_that_is_removed_meanwhile_counts_as_removed(
        self, s3: Any, before: Callable[..., None]
    ) -> None:
        write(s3, upload(s3, b"old", "0A"))
        deletion = delete(s3, "0B")
        before("delete_object", lambda: s3.delete_object(Bucket=OUTPUT, Key=OUTPUT_KEY))
        assert write(s3, deletion) == "Processed"

    def test_removal_whose_answer_is_lost_is_done_all_the_same(
        self, s3: Any, lose_answer: Callable[[str], None]
    ) -> None:
        write(s3, upload(s3, b"old", "0A"))
        deletion = delete(s3, "0B")
        lose_answer("delete_object")
        assert write(s3, deletion) == "Processed"
        assert outputs(s3) == []

    def test_removal_under_way_begins_the_fence_again(
        self, s3: Any, fail: Callable[..., None]
    ) -> None:
        write(s3, upload(s3, b"old", "0A"))
        deletion = delete(s3, "0B")
        fail("delete_object", 409, "ConditionalRequestConflict", times=2)
        assert write(s3, deletion) == "Processed"
        assert outputs(s3) == []

    def test_output_of_a_creator_that_slept_through_a_deletion_does_not_stay(self, s3: Any) -> None:
        """There is no output before and after, so that no condition can tell what it missed."""
        creation = upload(s3, b"old", "0A")

        def meanwhile() -> None:
            write(s3, upload(s3, b"new", "0B"))
            write(s3, delete(s3, "0C"))

        assert write(s3, creation, Work(meanwhile)) == "Superseded"
        assert outputs(s3) == []

    def test_output_of_an_updater_that_slept_through_a_deletion_is_not_written(
        self, s3: Any
    ) -> None:
        write(s3, upload(s3, b"old", "0A"))
        update = upload(s3, b"new", "0B")
        work = Work(meanwhile=lambda: write(s3, delete(s3, "0C")))
        assert write(s3, update, work) == "Superseded"
        assert outputs(s3) == []

    def test_creator_that_dies_before_its_last_look_makes_it_when_it_is_run_again(
        self, s3: Any, before: Callable[..., None]
    ) -> None:
        creation = upload(s3, b"old", "0A")
        before("head_object", die, number=2)
        with pytest.raises(Killed):
            write(s3, creation, Work(meanwhile=lambda: delete(s3, "0B")))
        assert output(s3) == b"inverse of old"
        assert write(s3, creation) == "Superseded"
        assert outputs(s3) == []

    def test_last_look_spares_the_output_of_a_newer_creation(
        self, s3: Any, before: Callable[..., None]
    ) -> None:
        creation = upload(s3, b"old", "0A")
        before("delete_object", lambda: write(s3, upload(s3, b"new", "0C")), number=2)
        assert write(s3, creation, Work(meanwhile=lambda: delete(s3, "0B"))) == "Superseded"
        assert output(s3) == b"inverse of new"

    def test_update_of_an_output_that_was_removed_and_brought_back_does_not_stay(
        self, s3: Any
    ) -> None:
        """A second run of the first event brings back the very ETag that the update waits for."""
        first = upload(s3, b"old", "0A")
        second_run = boto3.client("s3", region_name="us-east-1")
        is_asleep, wake_up, is_written, look_again = (threading.Event() for _ in range(4))

        def sleep() -> None:
            is_asleep.set()
            assert wake_up.wait(10)

        def sleep_again(**_: Any) -> None:
            is_written.set()
            assert look_again.wait(10)

        def meanwhile() -> None:
            write(s3, delete(s3, "0C"))
            wake_up.set()
            assert is_written.wait(10)

        second_run.meta.events.register("after-call.s3.PutObject", sleep_again)
        with ThreadPoolExecutor(1) as other:
            outcome = other.submit(write, second_run, first, Work(sleep))
            assert is_asleep.wait(10)
            write(s3, first)
            assert write(s3, upload(s3, b"new", "0B"), Work(meanwhile)) == "Processed"
            look_again.set()
            assert outcome.result(10) == "Superseded"
        assert outputs(s3) == []

    def test_unhandled_deletion_removes_nothing_and_asks_for_nothing(
        self, s3: Any, calls: list[str]
    ) -> None:
        write(s3, upload(s3, b"old", "0A"), handles_deletions=False)
        deletion = delete(s3, "0B")
        calls.clear()
        assert write(s3, deletion, handles_deletions=False) == "Superseded"
        assert write_each(s3, deletion, handles_deletions=False) == "Superseded"
        assert calls == []
        assert output(s3) == b"inverse of old"

    def test_last_look_is_not_made_where_deletions_are_not_handled(self, s3: Any) -> None:
        creation = upload(s3, b"old", "0A")
        work = Work(meanwhile=lambda: delete(s3, "0B"))
        assert write(s3, creation, work, handles_deletions=False) == "Processed"
        assert output(s3) == b"inverse of old"


class TestVersionedBucket:
    """Sequencers of two versions do not compare: which version is current decides."""

    @pytest.fixture(autouse=True)
    def versioning(self, s3: Any) -> None:
        keep_versions(s3)

    def test_current_version_is_processed_and_named(self, s3: Any) -> None:
        event = upload(s3, b"old", "0A")
        assert write(s3, event) == "Processed"
        head = s3.head_object(Bucket=OUTPUT, Key=OUTPUT_KEY)
        assert head["Metadata"]["source-version-id"] == event.version_id

    def test_earlier_version_with_the_higher_sequencer_is_superseded(self, s3: Any) -> None:
        older, newer = upload(s3, b"same", "0F"), upload(s3, b"same", "0A")
        assert write(s3, newer) == "Processed"
        assert write(s3, older) == "Superseded"

    def test_later_version_with_the_lower_sequencer_is_processed(self, s3: Any) -> None:
        write(s3, upload(s3, b"old", "0F"))
        assert write(s3, upload(s3, b"new", "0A")) == "Processed"
        assert output(s3) == b"inverse of new"

    def test_version_that_is_done_is_not_worked_on_again(self, s3: Any) -> None:
        event = upload(s3, b"old", "0A")
        write(s3, event)
        work = Work()
        assert write(s3, event, work) == "Processed"
        assert work.calls == 0

    def test_version_under_a_delete_marker_is_superseded(self, s3: Any) -> None:
        event = upload(s3, b"old", "0A")
        delete(s3, "0B")
        assert write(s3, event) == "Superseded"

    def test_version_overtaken_while_it_is_worked_on_is_superseded(self, s3: Any) -> None:
        older = upload(s3, b"old", "0A")
        work = Work(meanwhile=lambda: write(s3, upload(s3, b"new", "01")))
        assert write(s3, older, work) == "Superseded"
        assert output(s3) == b"inverse of new"

    def test_delete_marker_removes_the_output(self, s3: Any) -> None:
        write(s3, upload(s3, b"old", "0A"))
        assert write(s3, delete(s3, "01")) == "Processed"
        assert outputs(s3) == []

    def test_marker_that_is_removed_again_restores_the_output_of_the_current_version(
        self, s3: Any
    ) -> None:
        write(s3, upload(s3, b"oldest", "0A"))
        write(s3, upload(s3, b"old", "0B"))
        marker = delete(s3, "0C")
        write(s3, marker)
        assert write(s3, delete_version(s3, marker, "0D")) == "Processed"
        assert output(s3) == b"inverse of old"

    def test_current_version_that_is_deleted_for_good_leaves_the_output_to_the_one_before(
        self, s3: Any
    ) -> None:
        write(s3, upload(s3, b"old", "0A"))
        newer = upload(s3, b"new", "0B")
        write(s3, newer)
        assert write(s3, delete_version(s3, newer, "0C")) == "Processed"
        assert output(s3) == b"inverse of old"

    def test_only_version_that_is_deleted_for_good_leaves_no_output(self, s3: Any) -> None:
        event = upload(s3, b"old", "0A")
        write(s3, event)
        assert write(s3, delete_version(s3, event, "0B")) == "Processed"
        assert outputs(s3) == []

    def test_old_version_that_is_deleted_for_good_changes_nothing(
        self, s3: Any, calls: list[str]
    ) -> None:
        older = upload(s3, b"old", "0A")
        write(s3, upload(s3, b"new", "0B"))
        deletion = delete_version(s3, older, "0C")
        calls.clear()
        assert write(s3, deletion) == "Superseded"
        assert calls == ["HeadObject", "HeadObject"]
        assert output(s3) == b"inverse of new"

    def test_version_that_is_deleted_before_its_event_arrives_has_no_output(self, s3: Any) -> None:
        event = upload(s3, b"old", "0A")
        write(s3, delete_version(s3, event, "0B"))
        assert write(s3, event) == "Superseded"
        assert outputs(s3) == []

    def test_event_of_a_marker_that_arrives_after_a_new_version_changes_nothing(
        self, s3: Any
    ) -> None:
        write(s3, upload(s3, b"old", "0A"))
        marker = delete(s3, "0F")
        write(s3, upload(s3, b"new", "01"))
        assert write(s3, marker) == "Superseded"
        assert output(s3) == b"inverse of new"

    def test_restored_version_is_removed_by_its_own_deletion_whatever_the_sequencers(
        self, s3: Any
    ) -> None:
        """The output was last written for the event of another version, with a higher sequencer."""
        older, newer = upload(s3, b"old", "01"), upload(s3, b"new", "0E")
        write(s3, newer)
        write(s3, delete_version(s3, newer, "0F"))
        assert write(s3, delete_version(s3, older, "02")) == "Processed"
        assert outputs(s3) == []

    def test_marker_that_is_removed_before_its_event_removes_the_output_keeps_it(
        self, s3: Any, before: Callable[..., None]
    ) -> None:
        """The output is right again without a write, so that the sleeper's condition holds."""
        write(s3, upload(s3, b"old", "0A"))
        marker = delete(s3, "0B")
        before("delete_object", lambda: write(s3, delete_version(s3, marker, "0C")), number=1)
        write(s3, marker)
        assert output(s3) == b"inverse of old"

    def test_marker_that_is_removed_before_a_creators_last_removal_keeps_the_output(
        self, s3: Any, before: Callable[..., None]
    ) -> None:
        creation = upload(s3, b"old", "0A")
        markers: list[ObjectEvent] = []
        before(
            "delete_object",
            lambda: write(s3, delete_version(s3, markers[0], "0C")),
            number=2,  # the first one puts the marker
        )
        write(s3, creation, Work(meanwhile=lambda: markers.append(delete(s3, "0B"))))
        assert output(s3) == b"inverse of old"

    def test_version_that_is_deleted_while_it_is_worked_on_does_not_stay(self, s3: Any) -> None:
        """The output is right for the version before, so its deletion's event changed nothing."""
        write(s3, upload(s3, b"old", "0A"))
        newer = upload(s3, b"new", "0B")
        work = Work(meanwhile=lambda: write(s3, delete_version(s3, newer, "0C")))
        assert write(s3, newer, work) == "Superseded"
        assert output(s3) == b"inverse of old"

    def test_version_whose_writer_dies_before_its_last_look_is_put_right_when_it_is_run_again(
        self, s3: Any, before: Callable[..., None]
    ) -> None:
        write(s3, upload(s3, b"old", "0A"))
        newer = upload(s3, b"new", "0B")
        work = Work(meanwhile=lambda: write(s3, delete_version(s3, newer, "0C")))
        before("head_object", die, number=4)  # after two looks of the deletion's event
        with pytest.raises(Killed):
            write(s3, newer, work)
        assert output(s3) == b"inverse of new"
        assert write(s3, newer) == "Superseded"
        assert output(s3) == b"inverse of old"

    def test_costs_of_an_uncontended_event(self, s3: Any, calls: list[str]) -> None:
        for handles_deletions, last_look in ((True, ["HeadObject"]), (False, [])):
            event = upload(s3, b"old", "0A")
            calls.clear()
            write(s3, event, handles_deletions=handles_deletions)
            assert calls == ["HeadObject", "GetObject", "PutObject", *last_look]


class TestObjectsFromBeforeVersioning:
    """Objects without a version of their own, which S3 says to have the version ``null``."""

    @pytest.fixture(autouse=True)
    def null_versions(self, s3: Any) -> None:
        # moto names no version where AWS says "null".
        for operation in ("HeadObject", "GetObject"):
            s3.meta.events.register(
                f"after-call.s3.{operation}",
                lambda parsed, **_: "ETag" in parsed and parsed.setdefault("VersionId", "null"),
            )

    def test_suspended_versioning_leaves_sequencers_to_decide(self, s3: Any) -> None:
        keep_versions(s3, "Suspended")
        write(s3, upload(s3, b"old", "0A"))
        deletion = delete(s3, "0B")
        newer = upload(s3, b"new", "0C")
        assert write(s3, deletion) == "Superseded"
        assert output(s3) == b"inverse of old"
        assert write(s3, newer) == "Processed"
        assert write(s3, deletion) == "Superseded"
        assert output(s3) == b"inverse of new"

    def test_marker_over_an_object_without_a_version_that_is_removed_restores_the_output(
        self, s3: Any
    ) -> None:
        write(s3, upload(s3, b"old", "0A"))
        keep_versions(s3)
        marker = delete(s3, "0B")
        write(s3, marker)
        assert outputs(s3) == []
        assert write(s3, delete_version(s3, marker, "0C")) == "Processed"
        assert output(s3) == b"inverse of old"

    def test_first_version_that_is_deleted_for_good_leaves_the_output_to_the_one_before(
        self, s3: Any
    ) -> None:
        write(s3, upload(s3, b"old", "0A"))
        keep_versions(s3)
        version = upload(s3, b"new", "0B")
        write(s3, version)
        assert write(s3, delete_version(s3, version, "0C")) == "Processed"
        assert output(s3) == b"inverse of old"

    def test_deletion_of_one_spares_the_outputs_of_versions(self, s3: Any) -> None:
        write_each(s3, upload(s3, b"old", "0A"))
        keep_versions(s3)
        version = upload(s3, b"new", "0B")
        write_each(s3, version)
        # Were a version's ID taken for a sequencer, it would be below this one.
        deletion = ObjectEvent(INPUT, KEY, "zz", is_deletion=True)
        assert write_each(s3, deletion) == "Processed"
        assert outputs(s3) == [f"{OUTPUT_KEY}/{version.version_id}"]


class TestEachInAnUnversionedBucket:
    """An output of its own for each event, as long as its content is there."""

    def test_each_event_has_an_output_of_its_own(self, s3: Any) -> None:
        assert write_each(s3, upload(s3, b"old", "0A")) == "Processed"
        assert write_each(s3, upload(s3, b"new", "0B")) == "Processed"
        assert output(s3, f"{OUTPUT_KEY}/0A") == b"inverse of old"
        assert output(s3, f"{OUTPUT_KEY}/0B") == b"inverse of new"

    def test_repeated_event_writes_nothing_and_works_nothing(
        self, s3: Any, calls: list[str]
    ) -> None:
        event = upload(s3, b"old", "0A")
        write_each(s3, event)
        work = Work()
        calls.clear()
        assert write_each(s3, event, work) == "Processed"
        assert (work.calls, calls) == (0, ["HeadObject", "HeadObject"])

    def test_repeated_event_of_an_overwritten_source_stays_processed(self, s3: Any) -> None:
        event = upload(s3, b"old", "0A")
        write_each(s3, event)
        upload(s3, b"new", "0B")
        assert write_each(s3, event) == "Processed"
        assert output(s3, f"{OUTPUT_KEY}/0A") == b"inverse of old"

    def test_two_runs_of_one_event_write_once(self, s3: Any) -> None:
        event = upload(s3, b"old", "0A")
        assert write_each(s3, event, Work(lambda: write_each(s3, event))) == "Processed"
        assert outputs(s3) == [f"{OUTPUT_KEY}/0A"]

    def test_write_whose_answer_is_lost_is_done_all_the_same(
        self, s3: Any, lose_answer: Callable[[str], None]
    ) -> None:
        event = upload(s3, b"old", "0A")
        lose_answer("put_object")
        assert write_each(s3, event) == "Processed"
        assert outputs(s3) == [f"{OUTPUT_KEY}/0A"]

    def test_overwritten_source_is_lost(self, s3: Any) -> None:
        event = upload(s3, b"old", "0A")
        upload(s3, b"new", "0B")
        with pytest.raises(SourceChanged, match="overwritten"):
            write_each(s3, event)
        assert outputs(s3) == []

    def test_deleted_source_supersedes(self, s3: Any) -> None:
        event = upload(s3, b"old", "0A")
        delete(s3, "0B")
        assert write_each(s3, event) == "Superseded"
        assert outputs(s3) == []

    def test_deletion_removes_older_outputs_of_its_key_only(self, s3: Any) -> None:
        for key in ("x.png", "x.png/y", "out-x.png/z", "x.pngs", "a/x.png"):
            write_each(s3, upload(s3, b"old", "0A", key))
        write_each(s3, upload(s3, b"newer", "0A1", "x.png"))
        s3.put_object(Bucket=OUTPUT, Key="out-x.png/by-hand", Body=b"not ours")
        deletion = delete(s3, "0B", "x.png")
        write_each(s3, upload(s3, b"newest", "0C", "x.png"))
        assert write_each(s3, deletion) == "Processed"
        assert outputs(s3) == [
            "a/out-x.png/0A",
            "out-x.png/0C",
            "out-x.png/by-hand",
            "out-x.png/out-z/0A",
            "out-x.pngs/0A",
            "x.png/out-y/0A",
        ]

    def test_deletion_removes_more_outputs_than_a_page_lists(
        self, s3: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for number in range(3):
            write_each(s3, upload(s3, b"old", f"0{number}"))
        real = s3.get_paginator

        def of_pages_of_two(operation: str) -> Any:
            paginator = real(operation)
            paginate = paginator.paginate
            paginator.paginate = lambda **named: paginate(**named, PaginationConfig={"PageSize": 2})
            return paginator

        monkeypatch.setattr(s3, "get_paginator", of_pages_of_two)
        assert write_each(s3, delete(s3, "0B")) == "Processed"
        assert outputs(s3) == []

    def test_output_of_a_creator_that_slept_through_the_deletion_does_not_stay(
        self, s3: Any
    ) -> None:
        event = upload(s3, b"old", "0A")
        work = Work(meanwhile=lambda: write_each(s3, delete(s3, "0B")))
        assert write_each(s3, event, work) == "Superseded"
        assert outputs(s3) == []

    def test_creator_that_dies_before_its_last_look_makes_it_when_it_is_run_again(
        self, s3: Any, before: Callable[..., None]
    ) -> None:
        event = upload(s3, b"old", "0A")
        before("head_object", die, number=2)
        with pytest.raises(Killed):
            write_each(s3, event, Work(meanwhile=lambda: write_each(s3, delete(s3, "0B"))))
        assert outputs(s3) == [f"{OUTPUT_KEY}/0A"]
        assert write_each(s3, event) == "Superseded"
        assert outputs(s3) == []

    @pytest.mark.parametrize(
        ("handles_deletions", "last_look"), [(True, ["HeadObject"]), (False, [])]
    )
    def test_costs_of_an_uncontended_event(
        self, s3: Any, calls: list[str], handles_deletions: bool, last_look: list[str]
    ) -> None:
        event = upload(s3, b"old", "0A")
        calls.clear()
        write_each(s3, event, handles_deletions=handles_deletions)
        assert calls == ["HeadObject", "GetObject", "PutObject", *last_look]

    def test_removal_under_way_is_tried_again_and_is_a_fault_in_the_end(
        self, s3: Any, fail: Callable[..., None]
    ) -> None:
        write_each(s3, upload(s3, b"old", "0A"))
        deletion = delete(s3, "0B")
        fail("delete_object", 409, "ConditionalRequestConflict", times=6)
        with pytest.raises(OutputContended, match="out-x"):
            write_each(s3, deletion)
        assert write_each(s3, deletion) == "Processed"
        assert outputs(s3) == []

    def test_key_that_leaves_no_room_for_the_sequencer_is_refused(self, s3: Any) -> None:
        event = upload(s3, b"old", "0A", "x" * 1017)
        assert write_each(s3, event) == "Processed"  # 4 + 1017 + 3
        event = upload(s3, b"old", "0A", "x" * 1018)
        with pytest.raises(InvalidImage, match="1024 bytes"):
            write_each(s3, event)


class TestEachInAVersionedBucket:
    """An output of its own for each version, as long as the version is there."""

    @pytest.fixture(autouse=True)
    def versioning(self, s3: Any) -> None:
        keep_versions(s3)

    def test_version_that_is_not_current_any_more_is_processed(self, s3: Any) -> None:
        older, newer = upload(s3, b"old", "0A"), upload(s3, b"new", "0B")
        assert write_each(s3, newer) == "Processed"
        assert write_each(s3, older) == "Processed"
        assert output(s3, f"{OUTPUT_KEY}/{older.version_id}") == b"inverse of old"
        assert output(s3, f"{OUTPUT_KEY}/{newer.version_id}") == b"inverse of new"

    def test_version_under_a_delete_marker_is_processed(self, s3: Any) -> None:
        event = upload(s3, b"old", "0A")
        assert write_each(s3, delete(s3, "0B")) == "Processed"
        assert write_each(s3, event) == "Processed"
        assert outputs(s3) == [f"{OUTPUT_KEY}/{event.version_id}"]

    def test_delete_marker_removes_nothing(self, s3: Any, calls: list[str]) -> None:
        event = upload(s3, b"old", "0A")
        write_each(s3, event)
        marker = delete(s3, "0B")
        calls.clear()
        assert write_each(s3, marker) == "Processed"
        assert calls == ["HeadObject"]
        assert outputs(s3) == [f"{OUTPUT_KEY}/{event.version_id}"]

    def test_deletion_of_a_version_removes_that_versions_output_only(self, s3: Any) -> None:
        older, newer = upload(s3, b"old", "0A"), upload(s3, b"new", "0B")
        write_each(s3, older)
        write_each(s3, newer)
        assert write_each(s3, delete_version(s3, older, "0C")) == "Processed"
        assert outputs(s3) == [f"{OUTPUT_KEY}/{newer.version_id}"]

    def test_version_that_is_deleted_before_its_event_arrives_has_no_output(self, s3: Any) -> None:
        event = upload(s3, b"old", "0A")
        write_each(s3, delete_version(s3, event, "0B"))
        assert write_each(s3, event) == "Superseded"
        assert outputs(s3) == []

    def test_output_of_a_version_that_is_deleted_while_it_is_worked_on_does_not_stay(
        self, s3: Any
    ) -> None:
        event = upload(s3, b"old", "0A")
        work = Work(meanwhile=lambda: write_each(s3, delete_version(s3, event, "0B")))
        upload(s3, b"new", "0C")
        assert write_each(s3, event, work) == "Superseded"
        assert outputs(s3) == []


class TestFaults:
    """S3's own faults are raised, and never taken for an answer."""

    def test_fence_that_never_closes_is_a_fault(self, s3: Any, fail: Callable[..., None]) -> None:
        event = upload(s3, b"new", "0B")
        fail("put_object", 409, "ConditionalRequestConflict", times=99)
        for run in (write, write_each):
            with pytest.raises(OutputContended, match="out-x"):
                run(s3, event)

    @pytest.mark.parametrize("operation", ["head_object", "get_object", "put_object"])
    def test_denied_access_is_a_fault_and_no_outcome(
        self, s3: Any, fail: Callable[..., None], operation: str
    ) -> None:
        event = upload(s3, b"new", "0B")
        for run in (write, write_each):
            fail(operation, 403, "AccessDenied", times=1)
            with pytest.raises(ClientError, match="AccessDenied"):
                run(s3, event)

    @pytest.mark.parametrize("operation", ["head_object", "delete_object"])
    def test_denied_access_is_a_fault_and_no_deletion(
        self, s3: Any, fail: Callable[..., None], operation: str
    ) -> None:
        event = upload(s3, b"old", "0A")
        write(s3, event)
        write_each(s3, event)
        deletion = delete(s3, "0B")
        for run in (write, write_each):
            fail(operation, 403, "AccessDenied", times=1)
            with pytest.raises(ClientError, match="AccessDenied"):
                run(s3, deletion)
        assert len(outputs(s3)) == 2

    def test_denied_last_look_is_a_fault(self, s3: Any, before: Callable[..., None]) -> None:
        for number, run in enumerate((write, write_each)):
            event = upload(s3, b"old", f"0{number}", f"{number}.png")
            before("head_object", die, number=2)
            with pytest.raises(Killed):
                run(s3, event)

    def test_missing_output_bucket_is_a_fault(self, s3: Any, fail: Callable[..., None]) -> None:
        event = upload(s3, b"new", "0B")
        # To HEAD, which has no body, AWS says 404 and no more; moto names the bucket.
        fail("head_object", 404, "404", times=2)
        for run in (write, write_each):
            with pytest.raises(ClientError, match="NoSuchBucket"):
                run(s3, event, output_bucket="no-such-bucket")

    def test_missing_input_bucket_is_a_fault(self, s3: Any) -> None:
        event = ObjectEvent("no-such-bucket", KEY, "0A", "0123")
        for run in (write, write_each):
            with pytest.raises(ClientError, match="NoSuchBucket"):
                run(s3, event)


def test_without_the_fence_an_older_event_overwrites_a_newer_output(s3: Any) -> None:
    # The negative control: what the fence is there to stop does happen without it.
    older = upload(s3, b"old", "0A")
    work = Work(meanwhile=lambda: write(s3, upload(s3, b"new", "0B")))
    assert fence_of(s3, work).write_unfenced(older).outcome == "Processed"
    assert output(s3) == b"inverse of old"


# Any history of an object, its events delivered in any order, some of them twice, and any of the
# function's calls to S3 slow enough for more of the history to happen before it.
EXAMPLES = 100
NUMBER = st.integers(0, 3)
QUICK = st.one_of(
    st.tuples(st.just("upload"), st.booleans(), st.sampled_from([b"1", b"2"])),
    st.tuples(st.just("delete"), st.booleans()),
    st.tuples(st.just("delete_version"), st.booleans(), NUMBER),
    st.tuples(st.just("deliver"), NUMBER),
)
SLOW = st.tuples(
    st.just("deliver"), NUMBER, st.integers(1, 6), st.lists(QUICK, min_size=1, max_size=4)
)
HISTORY = st.lists(st.one_of(QUICK, SLOW), max_size=12)


class History:
    """Lets a history happen, and delivers its events."""

    def __init__(self, s3: Any, run: Callable[..., str], versioned: bool) -> None:
        self._s3, self._run, self._versioned = s3, run, versioned
        self._events: list[ObjectEvent] = []
        self._undelivered: list[ObjectEvent] = []
        self._random = random.Random(0)  # noqa: S311 - no secret
        if versioned:
            keep_versions(s3)

    def play(self, steps: Any) -> None:
        for name, *arguments in steps:
            getattr(self, name)(*arguments)

    def settle(self) -> None:
        while self._undelivered:
            self._deliver(self._undelivered[0])

    def upload(self, is_delivered: bool, content: bytes) -> None:
        self._happened(is_delivered, upload(self._s3, content, self._sequencer()))

    def delete(self, is_delivered: bool) -> None:
        event = delete(self._s3, self._sequencer())
        # S3 puts a delete marker where there is nothing, too; moto does not.
        if event.version_id or not self._versioned:
            self._happened(is_delivered, event)

    def delete_version(self, is_delivered: bool, number: int) -> None:
        found = self._s3.list_object_versions(Bucket=INPUT)
        versions = [*found.get("DeleteMarkers", []), *found.get("Versions", [])]
        if self._versioned and versions:
            version_id = versions[number % len(versions)]["VersionId"]
            event = delete(self._s3, self._sequencer(), VersionId=version_id)
            self._happened(is_delivered, event)

    def deliver(self, number: int, slow_call: int = 0, meanwhile: Any = ()) -> None:
        if self._events:
            self._deliver(self._events[-1 - number % len(self._events)], slow_call, meanwhile)

    def _deliver(self, event: ObjectEvent, slow_call: int = 0, meanwhile: Any = ()) -> None:
        calls = itertools.count(1)

        def wait(**_: Any) -> None:
            if next(calls) == slow_call:
                self.play(meanwhile)

        if slow_call:
            self._s3.meta.events.register("before-call.s3", wait)
        try:
            self._run(self._s3, event)
        finally:
            if slow_call:
                self._s3.meta.events.unregister("before-call.s3", wait)
        if event in self._undelivered:
            self._undelivered.remove(event)

    def _happened(self, is_delivered: bool, event: ObjectEvent) -> None:
        self._events.append(event)
        self._undelivered.append(event)
        if is_delivered:
            self._deliver(event)

    def _sequencer(self) -> str:
        # Between versions, sequencers say nothing.
        number = self._random.getrandbits(32) if self._versioned else len(self._events)
        return f"{number:08X}"


@pytest.mark.parametrize("versioned", [False, True])
def test_whatever_happens_the_output_ends_as_that_of_the_current_object(versioned: bool) -> None:
    s3 = boto3.client("s3", region_name="us-east-1")

    @settings(max_examples=EXAMPLES, deadline=None)
    @given(HISTORY)
    def check(steps: Any) -> None:
        with empty_buckets(s3):
            history = History(s3, write, versioned)
            history.play(steps)
            history.settle()
            try:
                current = s3.get_object(Bucket=INPUT, Key=KEY)["Body"].read()
            except s3.exceptions.NoSuchKey:
                assert output(s3) is None
            else:
                assert output(s3) == b"inverse of " + current

    check()


def test_whatever_happens_the_outputs_end_as_those_of_the_versions() -> None:
    s3 = boto3.client("s3", region_name="us-east-1")

    @settings(max_examples=EXAMPLES, deadline=None)
    @given(HISTORY)
    def check(steps: Any) -> None:
        with empty_buckets(s3):
            history = History(s3, write_each, versioned=True)
            history.play(steps)
            history.settle()
            versions = s3.list_object_versions(Bucket=INPUT).get("Versions", [])
            expected = [f"{OUTPUT_KEY}/{version['VersionId']}" for version in versions]
            assert sorted(outputs(s3)) == sorted(expected)

    check()


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
