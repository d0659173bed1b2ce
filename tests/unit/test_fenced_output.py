"""The fence against a real (in-process) S3: what its vectors leave to S3, refusals and faults.

The vectors (test_vectors.py) name each call of a situation, the model checker searches all orders
of the calls of several writers, and stories (tests/policies) happen on each engine.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Container, Iterator
from dataclasses import replace
from io import BytesIO
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError, IncompleteReadError
from botocore.response import StreamingBody
from moto import mock_aws

from inorder import events
from inorder.events import changed, created, deleted
from inorder_fence.fenced_output import (
    ATTEMPTS,
    FENCES,
    Fence,
    InvalidSource,
    OutputContended,
    output_key,
)
from inorder_fence.object_event import ObjectEvent
from invert_image.inversion import InvertedImage

INPUT, OUTPUT = "input", "output"
KEY = "a/x.jpg"
LIMIT = 1000
CONFLICT = (409, "ConditionalRequestConflict")


class History:
    """Lets things happen to objects, and delivers their events to a fence.

    Between versions, sequencers mean nothing. Here they fall, to mislead a fence that trusts them.
    """

    def __init__(self, clients: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
        self.s3, self._uploader = clients  # the function's, and that of whoever has the source
        self._monkeypatch = monkeypatch
        self._numbers = itertools.count()
        self.fence = "newest"
        self.worked = 0
        self.is_versioned = False

    def use(self, fence: str) -> None:
        """Use a fence, such as ``newest`` or ``each of versions``."""
        self.fence, _, of_versions = fence.partition(" ")
        if of_versions:
            enabled: Any = {"Status": "Enabled"}
            self.s3.put_bucket_versioning(Bucket=INPUT, VersioningConfiguration=enabled)
            self.is_versioned = True

    def upload(self, content: str, key: str = KEY) -> ObjectEvent:
        sequencer = self._sequencer()
        event = events.upload(self._uploader, key, content.encode(), sequencer=sequencer)
        return ObjectEvent.from_event(event)

    def delete(self, version: str | None = None, key: str = KEY) -> ObjectEvent:
        event = events.delete(self._uploader, key, version, sequencer=self._sequencer())
        return ObjectEvent.from_event(event)

    def deliver(self, event: ObjectEvent, meanwhile: Callable[[], object] = lambda: None) -> str:
        """Run the function, while something happens; give its outcome."""

        def work(content: bytes) -> InvertedImage:
            self.worked += 1
            meanwhile()
            return InvertedImage(b"inverse of " + content, "image/test")

        fence = Fence(self.s3, OUTPUT, LIMIT, work, handles_deletions=True)
        return FENCES[self.fence](fence, event).outcome

    def output_keys(self) -> list[str]:
        found = self.s3.list_objects_v2(Bucket=OUTPUT).get("Contents", [])
        return [each["Key"] for each in found]

    def shown(self) -> list[str]:
        """Give the content of which each output is the inverse, with its stamp."""
        found = [self.s3.get_object(Bucket=OUTPUT, Key=key) for key in self.output_keys()]
        return [each["Body"].read().decode().removeprefix("inverse of ") for each in found]

    def fail(self, operation: str, status: int, code: str, numbers: Container[int] = (1,)) -> None:
        """Let calls of an operation fail: moto has no concurrent writes, and denies nobody."""
        real, seen = getattr(self.s3, operation), itertools.count(1)
        error: Any = {"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}

        def call(**parameters: Any) -> Any:
            if next(seen) in numbers:
                raise ClientError(error, operation)
            return real(**parameters)

        self._monkeypatch.setattr(self.s3, operation, call)

    def _sequencer(self) -> str:
        number = next(self._numbers)
        return f"{0xFF - number if self.is_versioned else 0x80 + number:02X}"


@pytest.fixture(scope="module")
def clients() -> list[Any]:
    session = boto3.Session("test", "test", region_name="us-east-1")
    return [session.client("s3") for _ in range(2)]


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Make no pauses, and list those that were asked for."""
    asked: list[float] = []
    monkeypatch.setattr("inorder_fence.fenced_output.time.sleep", asked.append)
    return asked


@pytest.fixture
def history(clients: list[Any], monkeypatch: pytest.MonkeyPatch) -> Iterator[History]:
    made = History(clients, monkeypatch)
    with mock_aws():
        for bucket in (INPUT, OUTPUT):
            made.s3.create_bucket(Bucket=bucket)
        yield made


@pytest.fixture(params=["newest", "each"])
def either(history: History, request: pytest.FixtureRequest) -> History:
    history.use(request.param)
    return history


def test_holder_whose_content_comes_back_meanwhile_changes_nothing(history: History) -> None:
    history.deliver(history.upload("A"))
    stalled = history.upload("B")
    assert history.deliver(stalled, lambda: history.deliver(history.upload("A"))) == "Superseded"
    assert history.shown() == ["A\n82#"]


def test_output_follows_the_versions_whatever_their_sequencers_are(history: History) -> None:
    history.use("newest of versions")
    one, two = history.upload("A"), history.upload("B")
    assert [history.deliver(each) for each in (two, one)] == ["Processed", "Superseded"]
    assert history.shown() == [f"B\nFE#{two.version_id}"]
    restoring = history.delete(two.version_id)
    assert history.deliver(restoring) == "Processed"
    assert history.shown() == [f"A\nFD#{one.version_id}"]
    assert history.deliver(history.delete(one.version_id)) == "Processed"
    assert history.shown() == []


def test_without_the_fence_whatever_was_read_is_written(history: History) -> None:
    history.use("none of versions")
    older = history.upload("A")
    assert history.deliver(older, lambda: history.deliver(history.upload("B"))) == "Processed"
    assert history.shown() == [f"A\nFF#{older.version_id}"]
    assert history.deliver(older) == "Processed"
    assert history.shown() == [f"B\nFF#{older.version_id}"]


def test_results_of_two_contents_are_never_kept_at_once(history: History) -> None:
    history.use("newest of versions")
    results: list[weakref.ref[InvertedImage]] = []

    def work(content: bytes) -> InvertedImage:
        assert not [result for result in results if result()]
        if not results:
            history.upload("B")
        result = InvertedImage(content, "image/test")
        results.append(weakref.ref(result))
        return result

    fence = Fence(history.s3, OUTPUT, LIMIT, work, handles_deletions=True)
    # Version 2 is current at step 4, so the fence makes its output as well.
    assert fence.write_newest(history.upload("A")).outcome == "Superseded"
    assert len(results) == 2


def test_reason_why_a_check_is_refused_is_that_of_the_same_version(history: History) -> None:
    history.use("each of versions")
    event = history.upload("A")
    history.deliver(event)
    history.upload("B")
    history.delete(event.version_id)
    history.fail("head_object", 400, "400", numbers=(2,))
    with pytest.raises(ClientError, match="NoSuchVersion"):
        history.deliver(event)


def test_deletion_after_the_check_is_tried_again(either: History) -> None:
    either.fail("delete_object", *CONFLICT)
    assert either.deliver(either.upload("A"), either.delete) == "Superseded"
    assert either.output_keys() == []


def test_deletion_deletes_older_outputs_of_its_key_only(history: History) -> None:
    history.use("each")
    for key in ("x.png", "x.png/y", "out-x.png/z", "x.pngs", "a/x.png", "x.png"):
        history.deliver(history.upload("A", key))
    history.s3.put_object(Bucket=OUTPUT, Key="out-x.png/by-hand", Body=b"not ours")
    history.use("newest")  # as the policy before did
    history.deliver(history.upload("A", "out-x.png/w"))
    history.use("each")
    deletion = history.delete(key="x.png")
    history.deliver(history.upload("B", "x.png"))
    assert history.deliver(deletion) == "Processed"
    assert history.output_keys() == [
        *("a/out-x.png/84", "out-x.png/88", "out-x.png/by-hand", "out-x.png/out-w"),
        *("out-x.png/out-z/82", "out-x.pngs/83", "x.png/out-y/81"),
    ]


# What cannot have an output is refused.


def test_object_over_the_limit_is_not_read(
    history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    event = history.upload("x" * (LIMIT + 1))
    read: list[int] = []
    monkeypatch.setattr(StreamingBody, "read", lambda *_: read.append(1))
    with pytest.raises(InvalidSource, match="larger than 1000 bytes"):
        history.deliver(event)
    assert not read
    assert history.worked == 0


@pytest.mark.parametrize(
    ("fence", "longest"),  # what an output's name adds: "out-", "/", a sequencer, a version
    [
        ("newest", 1024 - 4),
        ("none", 1024 - 4),
        ("each", 1024 - 4 - 1 - 2),
        ("each of versions", 1024 - 4 - 1 - 36),
    ],
)
def test_key_that_leaves_no_room_for_the_outputs_name_is_refused(
    history: History, fence: str, longest: int
) -> None:
    history.use(fence)
    created = history.upload("A", "x" * longest)
    assert len(created.version_id or "") in {0, 36}
    assert history.deliver(created) == "Processed"
    for key in ("x" * (longest + 1), "é" * (longest // 2 + 1)):  # bytes count, not characters
        with pytest.raises(InvalidSource, match="1024 bytes"):
            history.deliver(history.upload("A", key))


@pytest.mark.parametrize(
    ("fence", "version", "length"),
    [("newest", None, 1021), ("newest", "v", 1024), ("each", None, 1021), ("each", "v" * 36, 1000)],
)
def test_deletion_of_an_object_whose_outputs_name_is_too_long_asks_for_nothing(
    fence: str, version: str | None, length: int
) -> None:
    no: Any = None  # S3 refuses such a key
    event = ObjectEvent(INPUT, "x" * length, "80", version_id=version, is_deletion=True)
    made = Fence(no, OUTPUT, LIMIT, no, handles_deletions=True)
    assert FENCES[fence](made, event).outcome == "Processed"


def test_deletion_whose_own_name_would_be_too_long_deletes_shorter_names(history: History) -> None:
    history.use("each")
    history.deliver(history.upload("A", "x" * 1017))
    deletion = replace(history.delete(key="x" * 1017), sequencer="8100")
    assert (history.deliver(deletion), history.output_keys()) == ("Processed", [])


# S3's own faults are raised, and never taken for an answer.


def test_attempts_pause_for_random_times(history: History, pauses: list[float]) -> None:
    history.fail("put_object", *CONFLICT, numbers=range(99))
    with pytest.raises(OutputContended, match="out-x"):
        history.deliver(history.upload("A"))
    assert len(pauses) == ATTEMPTS
    assert all(0 <= pause <= number / 10 for number, pause in enumerate(pauses))
    assert any(pauses)


def test_denied_check_or_deletion_is_a_fault(either: History) -> None:
    event = either.upload("A")
    either.deliver(event)
    either.fail("head_object", 403, "AccessDenied", numbers=(2,))
    with pytest.raises(ClientError, match="AccessDenied"):
        either.deliver(event)
    either.fail("delete_object", 403, "AccessDenied")
    with pytest.raises(ClientError, match="AccessDenied"):
        either.deliver(either.delete())
    assert len(either.output_keys()) == 1


def test_content_that_breaks_off_is_a_fault(
    either: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    event = either.upload("A")
    half = {"Body": StreamingBody(BytesIO(b"A"), 2), "ContentLength": 2}
    monkeypatch.setattr(either.s3, "get_object", lambda **_: half)
    with pytest.raises(IncompleteReadError):
        either.deliver(event)
    assert either.worked == 0


def test_conflict_without_the_fence_is_a_fault(history: History) -> None:
    history.use("none")
    history.fail("put_object", *CONFLICT)
    with pytest.raises(ClientError, match="Conflict"):
        history.deliver(history.upload("A"))


def test_output_stays_in_its_folder() -> None:
    keys = ("x.jpg", "b/c/x.jpg", "folder/")
    assert [*map(output_key, keys)] == ["out-x.jpg", "b/c/out-x.jpg", "folder/out-"]


CREATION = created(key="a+b%20é.png", sequencer="0A", etag="0123")
DELETION = deleted("a+b%20é.png", sequencer="0A", version_id="v1")


# S3 calls the version "null" in a bucket whose versioning is suspended.
@pytest.mark.parametrize(
    ("event", "version", "etag"),
    [
        (CREATION, None, "0123"),
        (changed(CREATION, "detail.object.version-id", "v1"), "v1", "0123"),
        (changed(CREATION, "detail.object.version-id", "null"), None, "0123"),
        (changed(CREATION, "detail.object.version-id", 5), None, "0123"),
        (DELETION, "v1", ""),
        (changed(DELETION, "detail.object.etag", "0123"), "v1", ""),
    ],
)
def test_event_is_read_and_its_key_is_not_decoded(
    event: dict[str, Any], version: str | None, etag: str
) -> None:
    read = ObjectEvent.from_event(event)
    assert read == ObjectEvent("input", "a+b%20é.png", "0A", etag, version, is_deletion=not etag)
