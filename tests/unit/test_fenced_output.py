"""The fence against a real (in-process) S3: what the vectors leave to S3, refusals and faults.

The vectors (test_vectors.py) name each call of a situation, and the model checker searches all
orders of the calls of several writers.
"""

from __future__ import annotations

import itertools
import re
import weakref
from collections.abc import Container, Iterator
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
KEY, OUTPUT_KEY = "a/x.jpg", "a/out-x.jpg"
LIMIT = 1000


class History:
    """Lets things happen to an object, and delivers their events to a fence.

    A script is a list of words: ``A`` uploads this content; ``-`` deletes the object, or puts a
    delete marker; ``x2`` deletes for good the version, or marker, of event 2; ``2`` delivers event
    2, and ``2[...]`` lets a script happen while the function works.

    Between versions, sequencers mean nothing. Here they fall, to mislead a fence that trusts them,
    and those of the null version are the lowest.
    """

    def __init__(self, clients: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
        self.s3, self._uploader = clients  # the function's, and that of whoever has the source
        self._monkeypatch = monkeypatch
        self.events: list[ObjectEvent] = []
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

    def play(self, script: str) -> str:
        """Let a script happen; give the outcome of the last event that it delivers."""
        outcome = ""
        for number, meanwhile, word in re.findall(r"(\d+)(?:\[(.*?)\])?|(x\d+|\S)", script):
            if number:
                outcome = self.deliver(self.events[int(number) - 1], meanwhile)
            elif word == "-":
                self.delete()
            elif word[:1] == "x":
                self.delete(self.events[int(word[1:]) - 1].version_id)
            else:
                self.upload(word)
        return outcome

    def upload(self, content: str, key: str = KEY, **more: Any) -> ObjectEvent:
        sequencer = self._sequencer()
        event = events.upload(self._uploader, key, content.encode(), sequencer=sequencer, **more)
        return self._happened(event)

    def delete(self, version: str | None = None, key: str = KEY) -> ObjectEvent:
        event = events.delete(self._uploader, key, version, sequencer=self._sequencer())
        if self.is_versioned and "version-id" not in event["detail"]["object"]:
            # S3 puts a delete marker where there is nothing, too; moto does not.
            return ObjectEvent.from_event(event)
        return self._happened(event)

    def deliver(self, event: ObjectEvent, meanwhile: str = "") -> str:
        """Run the function; give its outcome."""

        def work(content: bytes) -> InvertedImage:
            self.worked += 1
            self.play(meanwhile)
            return InvertedImage(b"inverse of " + content, "image/test")

        fence = Fence(self.s3, OUTPUT, LIMIT, work, handles_deletions=True)
        return FENCES[self.fence](fence, event).outcome

    def output_keys(self) -> list[str]:
        found = self.s3.list_objects_v2(Bucket=OUTPUT).get("Contents", [])
        return [each["Key"] for each in found]

    def outputs(self) -> str:
        """Give the uploads of which the outputs are the inverse, such as ``AB``."""
        objects = (self.s3.get_object(Bucket=OUTPUT, Key=key) for key in self.output_keys())
        found = [each["Body"].read() for each in objects]
        uploads = [each.decode().partition("\n")[0].removeprefix("inverse of ") for each in found]
        return "".join(sorted(uploads))

    def fail(self, operation: str, status: int, code: str, numbers: Container[int] = (1,)) -> None:
        """Let calls of an operation fail: moto has no concurrent writes, and denies nobody."""
        real, seen = getattr(self.s3, operation), itertools.count(1)
        error: Any = {"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}

        def call(**parameters: Any) -> Any:
            if next(seen) in numbers:
                raise ClientError(error, operation)
            return real(**parameters)

        self._monkeypatch.setattr(self.s3, operation, call)

    def _happened(self, event: dict[str, Any]) -> ObjectEvent:
        self.events.append(ObjectEvent.from_event(event))
        return self.events[-1]

    def _sequencer(self) -> str:
        number = len(self.events)
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


CONFLICT = (409, "ConditionalRequestConflict")


# Each script, its last outcome, and the uploads that have an output in the end.
SCRIPTS = {
    # One output of a key: that of its newest event.
    "newest": {
        "a newer event replaces an older output": ("A 1 B 2", "Processed", "B"),
        "an older event after a newer output changes nothing": ("A A 2 1", "Superseded", "A"),
        "the source of an event is overwritten": ("A B 1", "Superseded", ""),
        "a holder wakes up after a newer event": ("A 1[B 2]", "Superseded", "B"),
        "the content that a holder has read comes back": ("A 1 B 2[A 3]", "Superseded", "A"),
        "the same event is processed twice at once": ("A 1[1]", "Processed", "A"),
        "a deletion deletes the output": ("A 1 - 2", "Processed", ""),
        "a creation arrives after the deletion": ("A - 2 1", "Superseded", ""),
        "a deletion arrives after a newer creation": ("A 1 - B 3 2", "Superseded", "B"),
        "a creation stalls while another comes and goes": ("A 1[B 2 - 3]", "Superseded", ""),
        "an update stalls during a deletion": ("A 1 B 2[- 3]", "Superseded", ""),
    },
    "newest of versions": {
        "a later version with the lower sequencer": ("A 1 B 2", "Processed", "B"),
        "an earlier version with the higher sequencer": ("A A 2 1", "Superseded", "A"),
        "a version is overtaken while it is processed": ("A 1[B 2]", "Superseded", "B"),
        "a marker that is deleted brings the output back": ("A 1 B 2 - 3 x3 4", "Processed", "B"),
        "the only version is deleted for good": ("A 1 x1 2", "Processed", ""),
        # The output was last written for the event of version 2, with another sequencer.
        "a restored version is deleted for good": ("A B 2 x2 3 x1 4", "Processed", ""),
        # The output is right for version 1, so the event of the deletion has changed nothing.
        "a version is deleted while it is processed": ("A 1 B 2[x2 3]", "Superseded", "A"),
    },
    # An output of its own for each event.
    "each": {
        "each event has its own": ("A 1 B 2", "Processed", "AB"),
        "a repeated event of an overwritten source": ("A 1 B 1", "Processed", "A"),
        "the source of an event is deleted": ("A - 1", "Superseded", ""),
        "a creation stalls during the deletion": ("A 1[- 2]", "Superseded", ""),
    },
    "each of versions": {
        "a version that is no longer current": ("A B 2 1", "Processed", "AB"),
        "a version under a delete marker": ("A - 2 1", "Processed", "A"),
        "the deletion of a version": ("A B 1 2 x1 3", "Processed", "B"),
        "a version that is deleted while it is processed": ("A B 1[x1 3]", "Superseded", ""),
    },
    # What the fence prevents.
    "none": {"an older event overwrites a newer output": ("A 1[B 2]", "Processed", "A")},
    "none of versions": {"whatever is current is read": ("A B 1", "Processed", "B")},
}


@pytest.mark.parametrize(
    ("fence", "case"), [(fence, case) for fence, cases in SCRIPTS.items() for case in cases]
)
def test_outcome_and_outputs(history: History, fence: str, case: str) -> None:
    script, outcome, outputs = SCRIPTS[fence][case]
    history.use(fence)
    assert (history.play(script), history.outputs()) == (outcome, outputs)


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
    history.play("A 1 B x1")
    history.fail("head_object", 400, "400", numbers=(2,))
    with pytest.raises(ClientError, match="NoSuchVersion"):
        history.play("1")


def test_deletion_after_the_check_is_tried_again(either: History) -> None:
    either.fail("delete_object", *CONFLICT)
    assert (either.play("A 1[-]"), either.outputs()) == ("Superseded", "")


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
    assert (history.deliver(deletion), history.outputs()) == ("Processed", "")


# S3's own faults are raised, and never taken for an answer.


def test_attempts_pause_for_random_times(history: History, pauses: list[float]) -> None:
    history.fail("put_object", *CONFLICT, numbers=range(99))
    with pytest.raises(OutputContended, match="out-x"):
        history.play("A 1")
    assert len(pauses) == ATTEMPTS
    assert all(0 <= pause <= number / 10 for number, pause in enumerate(pauses))
    assert any(pauses)


@pytest.mark.parametrize(
    ("earlier", "script", "operation", "number"),
    [("A 1", "1", "head_object", 2), ("A 1 -", "2", "delete_object", 1)],
)
def test_denied_check_or_deletion_is_a_fault(
    either: History, earlier: str, script: str, operation: str, number: int
) -> None:
    either.play(earlier)
    either.fail(operation, 403, "AccessDenied", numbers=(number,))
    with pytest.raises(ClientError, match="AccessDenied"):
        either.play(script)
    assert either.outputs() == "A"


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
        history.play("A 1")


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
