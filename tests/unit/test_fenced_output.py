"""The fence against a real (in-process) S3: each situation that a late or early writer can meet."""

from __future__ import annotations

import functools
import itertools
import re
import threading
from collections.abc import Callable, Container, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any
from unittest.mock import ANY

import boto3
import pytest
from botocore.exceptions import ClientError
from fenced_output import (
    ATTEMPTS,
    Fence,
    OutputContended,
    SourceChanged,
    compare_sequencers,
    output_key,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from inversion import InvalidImage, InvertedImage
from moto import mock_aws
from object_event import ObjectEvent

from tests import events

INPUT, OUTPUT = "input", "output"
KEY, OUTPUT_KEY = "a/x.jpg", "a/out-x.jpg"
LIMIT = 1000

Happening = Callable[[], object]


class History:
    """Lets things happen to an object, and delivers their events to a fence.

    A script is a list of words: ``A`` uploads this content; ``-`` deletes the object, or puts a
    delete marker; ``x2`` deletes for good the version, or marker, of event 2; ``2`` delivers event
    2. ``2[...]`` also lets a script happen while the function works, ``2<...>`` before the function
    deletes an output.

    Between versions, sequencers mean nothing. Here they fall, to mislead a fence that trusts them.
    """

    def __init__(self, clients: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch) -> None:
        self.s3, self._uploader = clients  # the function's, and that of whoever has the source
        self._monkeypatch = monkeypatch
        self.events: list[ObjectEvent] = []
        self.calls: list[str] = []
        self.fence, self.output_bucket, self.handles_deletions = "newest", OUTPUT, True
        self.worked = 0
        self.is_versioned = False
        self.undelivered: list[ObjectEvent] = []

    def keep_versions(self, status: str = "Enabled") -> None:
        self.s3.put_bucket_versioning(Bucket=INPUT, VersioningConfiguration={"Status": status})
        self.is_versioned = status == "Enabled"

    def play(self, script: str) -> str:
        """Let a script happen; give the outcome of the last event that it delivers."""
        outcome = ""
        words = re.findall(r"(\d+)(?:\[(.*?)\])?(?:<(.*?)>)?|(x\d+|\S)", script)
        for number, meanwhile, before_deletion, word in words:
            if number:
                event = self.events[int(number) - 1]
                if before_deletion:
                    self.before("delete_object", functools.partial(self.play, before_deletion))
                outcome = self.deliver(event, functools.partial(self.play, meanwhile))
            elif word == "-":
                self.delete()
            elif word[0] == "x":
                self.delete(self.events[int(word[1:]) - 1].version_id)
            else:
                self.upload(word)
        return outcome

    def upload(self, content: str, key: str = KEY) -> ObjectEvent:
        sequencer = self._sequencer()
        event = events.upload(self._uploader, key, content.encode(), sequencer=sequencer)
        return self._happened(event)

    def delete(self, version: str | None = None, key: str = KEY) -> ObjectEvent:
        return self._happened(
            events.delete(self._uploader, key, version, sequencer=self._sequencer())
        )

    def deliver(self, event: ObjectEvent, meanwhile: Happening = lambda: None) -> str:
        """Run the function; give its outcome."""

        def work(content: bytes) -> InvertedImage:
            self.worked += 1
            meanwhile()
            return InvertedImage(b"inverse of " + content, "image/test")

        fence = Fence(self.s3, self.output_bucket, LIMIT, work, self.handles_deletions)
        write = {
            "newest": fence.write_newest,
            "each": fence.write_each,
            "none": fence.write_unfenced,
        }
        return write[self.fence](event).outcome

    def output(self, key: str = OUTPUT_KEY) -> str | None:
        """Give the upload of which an output is the inverse; None if there is no output."""
        try:
            content: bytes = self.s3.get_object(Bucket=OUTPUT, Key=key)["Body"].read()
        except self.s3.exceptions.NoSuchKey:
            return None
        return content.decode().partition("\n")[0].removeprefix("inverse of ")

    def outputs(self) -> list[str]:
        found = self.s3.list_objects_v2(Bucket=OUTPUT).get("Contents", [])
        return [each["Key"] for each in found]

    def shown(self) -> list[str | None]:
        """Give the upload of each output."""
        return [self.output(key) for key in self.outputs()]

    def events_with_an_output(self) -> list[int]:
        """Number the events that `write_each` has given an output of their own."""
        keys = self.outputs()
        names = [event.version_id or event.sequencer for event in self.events]
        return [n for n, name in enumerate(names, 1) if f"{OUTPUT_KEY}/{name}" in keys]

    def put_output(self, content: str, **metadata: str) -> None:
        """Put an output that no fence has written."""
        body = content.encode()
        self.s3.put_object(Bucket=OUTPUT, Key=OUTPUT_KEY, Body=body, Metadata=metadata)

    def delete_output(self) -> None:
        self.s3.delete_object(Bucket=OUTPUT, Key=OUTPUT_KEY)

    def before(self, operation: str, happening: Happening, numbers: Container[int] = (1,)) -> None:
        """Let something happen before the next call of an operation, or before later ones."""
        real, seen = getattr(self.s3, operation), itertools.count(1)

        def call(**parameters: Any) -> Any:
            if next(seen) in numbers:
                happening()
            return real(**parameters)

        self._monkeypatch.setattr(self.s3, operation, call)

    def fail(self, operation: str, status: int, code: str, numbers: Container[int] = (1,)) -> None:
        """Let an operation fail: moto has no concurrent writes, and denies nobody."""

        def raise_error() -> None:
            error: Any = {"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}
            raise ClientError(error, operation)

        self.before(operation, raise_error, numbers)

    def lose_answers(self, operation: str) -> None:
        """Let an operation be sent twice each time, as botocore does if no answer comes."""
        real = getattr(self.s3, operation)

        def call(**parameters: Any) -> Any:
            real(**parameters)
            return real(**parameters)

        self._monkeypatch.setattr(self.s3, operation, call)

    def note(self, model: Any, **_: Any) -> None:
        self.calls.append(model.name)

    def _happened(self, event: dict[str, Any]) -> ObjectEvent:
        self.events.append(ObjectEvent.from_event(event))
        return self.events[-1]

    def _sequencer(self) -> str:
        number = len(self.events)
        return f"{0x80 - number if self.is_versioned else 0x80 + number:02X}"


@contextmanager
def empty_buckets(s3: Any) -> Iterator[None]:
    with mock_aws():
        s3.create_bucket(Bucket=INPUT)
        s3.create_bucket(Bucket=OUTPUT)
        yield


def new_client() -> Any:
    url, test = "https://s3.us-east-1.amazonaws.com", "test"
    return boto3.client("s3", endpoint_url=url, aws_access_key_id=test, aws_secret_access_key=test)


@pytest.fixture(scope="module")
def clients() -> tuple[Any, Any]:
    return new_client(), new_client()


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Make no pauses, and list those that were asked for."""
    asked: list[float] = []
    monkeypatch.setattr("fenced_output.time.sleep", asked.append)
    return asked


@pytest.fixture
def history(clients: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch) -> Iterator[History]:
    made = History(clients, monkeypatch)
    with empty_buckets(made.s3):
        made.s3.meta.events.register("before-call.s3", made.note)
        yield made
        made.s3.meta.events.unregister("before-call.s3", made.note)


@pytest.fixture
def versions(history: History) -> History:
    history.keep_versions()
    return history


@pytest.fixture
def each(history: History) -> History:
    history.fence = "each"
    return history


@pytest.fixture(params=["newest", "each"])
def either(history: History, request: pytest.FixtureRequest) -> History:
    history.fence = request.param
    return history


CONFLICT = (409, "ConditionalRequestConflict")


class Killed(Exception):
    """The function dies."""


def die() -> None:
    raise Killed


def play_alone(history: History, script: str) -> str:
    """Play the end of a script, and count only what that does."""
    history.calls.clear()
    history.worked = 0
    return history.play(script)


def each_case(cases: dict[str, tuple[Any, ...]]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(
        ("script", "outcome", "expected"), cases.values(), ids=cases.keys()
    )


# One output of a key: that of its newest event.


@each_case(
    {
        "a newer event replaces an older output": ("A 1 B 2", "Processed", "B"),
        "an older event after a newer output changes nothing": ("A A 2 1", "Superseded", "A"),
        "the source of an event is overwritten": ("A B 1", "Superseded", None),
        "a holder wakes up after a newer event": ("A 1[B 2]", "Superseded", "B"),
        "a holder of an update wakes up after a newer event": ("Z A 1 2[B 3]", "Superseded", "B"),
        "the content that a holder has read comes back": ("A 1 B 2[A 3]", "Superseded", "A"),
        "the same event is processed twice at once": ("A 1[1]", "Processed", "A"),
        # deletions
        "a deletion deletes the output": ("A 1 - 2", "Processed", None),
        "a repeated deletion changes nothing": ("A 1 - 2 2", "Processed", None),
        "nothing was processed before a deletion": ("A - 2", "Processed", None),
        "a creation arrives after the deletion": ("A - 2 1", "Superseded", None),
        "a deletion arrives after a newer creation": ("A 1 - B 3 2", "Superseded", "B"),
        "a deletion arrives before a newer creation": ("A 1 - B 2", "Superseded", "A"),
        "the same without an output": ("A - B 2", "Superseded", None),
        "a late deletion deletes the output of a later one": ("- A 2 - 1", "Processed", None),
        "a creation stalls while another comes and goes": ("A 1[B 2 - 3]", "Superseded", None),
        "an update stalls during a deletion": ("A 1 B 2[- 3]", "Superseded", None),
        "a newer output comes before step 3 of a deletion": ("A 1 - 2<B 3>", "Superseded", "B"),
        "a newer output comes after step 4 of a creation": ("A 1[-]<B 3>", "Superseded", "B"),
    }
)
def test_output_of_a_key(history: History, script: str, outcome: str, expected: str | None) -> None:
    assert (history.play(script), history.output()) == (outcome, expected)


@each_case(
    {
        "a later version with the lower sequencer": ("A 1 B 2", "Processed", "B"),
        "an earlier version with the higher sequencer": ("A A 2 1", "Superseded", "A"),
        "a version is overtaken while it is processed": ("A 1[B 2]", "Superseded", "B"),
        "a version under a delete marker": ("A - 1", "Superseded", None),
        "a delete marker deletes the output": ("A 1 - 2", "Processed", None),
        "a marker that is deleted brings the output back": ("A 1 B 2 - 3 x3 4", "Processed", "B"),
        "the current version is deleted for good": ("A 1 B 2 x2 3", "Processed", "A"),
        "the only version is deleted for good": ("A 1 x1 2", "Processed", None),
        "a version is deleted before its event arrives": ("A x1 2 1", "Superseded", None),
        "a marker's event arrives after a new version": ("A 1 - B 3 2", "Superseded", "B"),
        # The output was last written for the event of version 2, with another sequencer.
        "a restored version is deleted for good": ("A B 2 x2 3 x1 4", "Processed", None),
        # The output is right for version 1, so the event of the deletion has changed nothing.
        "a version is deleted while it is processed": ("A 1 B 2[x2 3]", "Superseded", "A"),
        # The output is right again without a write, so the condition of the deletion holds.
        "a marker is deleted before the output is": ("A 1 - 2<x2 3>", "Processed", "A"),
        "a marker is deleted before step 4 deletes the output": (
            *("A 1[-]<x2 3>", "Superseded", "A"),
        ),
    }
)
def test_output_of_a_key_with_versions(
    versions: History, script: str, outcome: str, expected: str | None
) -> None:
    assert (versions.play(script), versions.output()) == (outcome, expected)


def test_output_has_the_type_and_names_its_event(history: History) -> None:
    for version in ({}, {"source-version-id": ANY}):
        event = history.upload("A")
        history.deliver(event)
        head = history.s3.head_object(Bucket=OUTPUT, Key=OUTPUT_KEY)
        names = {"sequencer": event.sequencer, "source-etag": event.etag}
        assert head["Metadata"] == names | version
        assert head["Metadata"].get("source-version-id") == event.version_id
        assert head["ContentType"] == "image/test"
        history.keep_versions()


@pytest.mark.parametrize("place", ["history", "versions"])
def test_finished_event_is_not_processed_again(place: str, request: Any) -> None:
    history: History = request.getfixturevalue(place)
    history.play("A 1")
    assert play_alone(history, "1") == "Processed"
    assert (history.worked, history.calls) == (0, ["HeadObject", "HeadObject"])


@pytest.mark.parametrize(
    ("fence", "earlier", "script", "calls"),
    [
        ("newest", "A A 2", "1", ["Head"]),
        ("newest", "A B", "1", ["Head", "Get"]),
        ("newest of versions", "A A 2", "1", ["Head", "Get"]),
        ("newest of versions", "A B 2 x1", "3", ["Head", "Head"]),
        ("each", "A", "1[-]", ["Head", "Get", "Put", "Head", "Delete"]),
    ],
)
def test_calls_of_a_superseded_event(
    history: History, fence: str, earlier: str, script: str, calls: list[str]
) -> None:
    if "versions" in fence:
        history.keep_versions()
    history.fence = fence.partition(" ")[0]
    history.play(earlier)
    assert play_alone(history, script) == "Superseded"
    assert history.calls == [f"{call}Object" for call in calls]
    assert history.worked == calls.count("Put")


def test_event_without_an_etag_matches_no_source(history: History) -> None:
    history.upload("A")
    assert history.deliver(ObjectEvent(INPUT, KEY, "80", etag="")) == "Superseded"


@pytest.mark.parametrize(
    ("sequencer", "expected", "worked"),
    [("0A", "A", 1), ("80", "by another execution", 1)],
    ids=["older", "same"],
)
def test_output_that_is_written_meanwhile(
    history: History, sequencer: str, expected: str, worked: int
) -> None:
    event = history.upload("A")
    assert event.sequencer == "80"

    def meanwhile() -> None:
        history.put_output("by another execution", sequencer=sequencer)

    assert history.deliver(event, meanwhile) == "Processed"
    assert (history.output(), history.worked) == (expected, worked)


def test_output_that_is_deleted_meanwhile_is_written(history: History) -> None:
    history.put_output("old", sequencer="0A")
    assert history.deliver(history.upload("A"), history.delete_output) == "Processed"
    assert history.output() == "A"


def test_output_of_unknown_origin_is_replaced(history: History) -> None:
    history.put_output("put there by hand")
    assert history.play("A 1") == "Processed"
    assert history.output() == "A"


@pytest.mark.parametrize("trouble", ["answers are lost", "409"])
@pytest.mark.parametrize("operation", ["put_object", "delete_object"])
@pytest.mark.parametrize(
    ("script", "outcome", "last"),
    [("A 1 B 2", "Processed", ["B"]), ("A 1 - 2", "Processed", []), ("A 1[-]", "Superseded", [])],
)
def test_write_or_deletion_is_tried_again(
    either: History, script: str, outcome: str, last: list[str], operation: str, trouble: str
) -> None:
    if trouble == "409":
        either.fail(operation, *CONFLICT, numbers=(1, 2))
    else:
        either.lose_answers(operation)
    assert (either.play(script), either.shown()[-1:]) == (outcome, last)
    assert either.worked == len(re.findall("[A-Z]", script))


def test_object_over_the_limit_is_not_read(history: History) -> None:
    event = history.upload("x" * (LIMIT + 1))
    with pytest.raises(InvalidImage, match="larger than 1000 bytes"):
        history.deliver(event)
    assert history.worked == 0


@pytest.mark.parametrize("handles_deletions", [True, False])
@pytest.mark.parametrize("versioned", [True, False])
@pytest.mark.parametrize("fence", ["newest", "each"])
def test_calls_of_an_uncontended_event(
    history: History, fence: str, versioned: bool, handles_deletions: bool
) -> None:
    history.fence, history.handles_deletions = fence, handles_deletions
    if versioned:
        history.keep_versions()
    written, check = ["HeadObject", "GetObject", "PutObject"], ["HeadObject"] * handles_deletions
    history.upload("A")
    play_alone(history, "1")
    assert history.calls == [*written, *check]
    history.upload("B")
    play_alone(history, "2")
    assert history.calls == [*written, *(check if versioned or fence == "each" else [])]


@pytest.mark.parametrize("fence", ["newest", "each"])
def test_function_that_dies_before_step_4_takes_it_in_its_retry(
    history: History, fence: str
) -> None:
    history.fence = fence
    history.before("head_object", die, numbers=(2,))
    with pytest.raises(Killed):
        history.play("A 1[-]")
    assert len(history.outputs()) == 1
    assert history.play("1") == "Superseded"
    assert history.outputs() == []


def test_same_for_a_version(versions: History) -> None:
    versions.play("A 1 B")
    versions.before("head_object", die, numbers=(4,))  # two others are those of event 3
    with pytest.raises(Killed):
        versions.play("2[x2 3]")
    assert versions.output() == "B"
    assert versions.play("2") == "Superseded"
    assert versions.output() == "A"


def test_update_of_an_output_that_was_deleted_and_came_back(
    history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second execution of event 1 writes the very ETag that the update waits for."""
    history.play("A")
    other = History((new_client(), None), monkeypatch)
    other.events = history.events
    is_asleep, wake_up, is_written, check = (threading.Event() for _ in range(4))

    def sleep() -> None:
        is_asleep.set()
        assert wake_up.wait(10)

    def sleep_again(**_: Any) -> None:
        is_written.set()
        assert check.wait(10)

    def meanwhile() -> None:
        history.play("- 3")
        wake_up.set()
        assert is_written.wait(10)

    other.s3.meta.events.register("after-call.s3.PutObject", sleep_again)
    with ThreadPoolExecutor(1) as thread:
        outcome = thread.submit(other.deliver, history.events[0], sleep)
        assert is_asleep.wait(10)
        history.play("1")
        assert history.deliver(history.upload("B"), meanwhile) == "Processed"
        check.set()
        assert outcome.result(10) == "Superseded"
    assert history.outputs() == []


def test_unhandled_deletion_deletes_nothing_and_calls_nothing(either: History) -> None:
    either.handles_deletions = False
    either.play("A 1 -")
    assert play_alone(either, "2") == "Superseded"
    assert either.calls == []
    assert len(either.outputs()) == 1


def test_source_is_not_checked_where_deletions_are_not_handled(either: History) -> None:
    either.handles_deletions = False
    assert either.play("A 1[-]") == "Processed"
    assert len(either.outputs()) == 1


class TestObjectsFromBeforeVersioning:
    """Objects without a version of their own, which S3 says to have the version ``null``."""

    @pytest.fixture(autouse=True)
    def null_versions(self, history: History) -> Iterator[None]:
        """Name the version ``null``, as AWS does, where moto names none."""
        s3 = history.s3
        names = [f"after-call.s3.{operation}" for operation in ("HeadObject", "GetObject")]

        def add_version(parsed: dict[str, Any], **_: Any) -> None:
            if "ETag" in parsed:
                parsed.setdefault("VersionId", "null")

        for name in names:
            s3.meta.events.register(name, add_version)
        yield
        for name in names:
            s3.meta.events.unregister(name, add_version)

    def test_suspended_versioning_leaves_sequencers_to_decide(self, history: History) -> None:
        history.keep_versions("Suspended")
        assert (history.play("A 1 - B 2"), history.output()) == ("Superseded", "A")
        assert (history.play("3"), history.play("2")) == ("Processed", "Superseded")
        assert history.output() == "B"

    @pytest.mark.parametrize("script", ["- 2 x2 3", "B 2 x2 3"], ids=["marker", "first version"])
    def test_version_over_such_an_object_is_deleted_for_good(
        self, history: History, script: str
    ) -> None:
        history.play("A 1")
        history.keep_versions()
        assert (history.play(script), history.output()) == ("Processed", "A")

    def test_deletion_of_such_an_object_keeps_the_outputs_of_versions(self, each: History) -> None:
        each.play("A 1")
        each.keep_versions()
        each.play("B 2")
        # Were a version's ID taken for a sequencer, it would be below this one.
        deletion = ObjectEvent(INPUT, KEY, "zz", is_deletion=True)
        assert each.deliver(deletion) == "Processed"
        assert each.events_with_an_output() == [2]


# An output of its own for each event.


@each_case(
    {
        "each event has its own": ("A 1 B 2", "Processed", [1, 2]),
        "a repeated event of an overwritten source": ("A 1 B 1", "Processed", [1]),
        "an event is processed twice at once": ("A 1[1]", "Processed", [1]),
        "the source of an event is deleted": ("A - 1", "Superseded", []),
        "a creation stalls during the deletion": ("A 1[- 2]", "Superseded", []),
    }
)
def test_outputs_of_a_key(each: History, script: str, outcome: str, expected: list[int]) -> None:
    assert (each.play(script), each.events_with_an_output()) == (outcome, expected)


@each_case(
    {
        "a version that is no longer current": ("A B 2 1", "Processed", [1, 2]),
        "a version under a delete marker": ("A - 2 1", "Processed", [1]),
        "the deletion of a version": ("A B 1 2 x1 3", "Processed", [2]),
        "a version that is deleted before its event arrives": ("A x1 2 1", "Superseded", []),
        "a version that is deleted while it is processed": ("A B 1[x1 3]", "Superseded", []),
    }
)
def test_outputs_of_a_key_with_versions(
    versions: History, script: str, outcome: str, expected: list[int]
) -> None:
    versions.fence = "each"
    assert (versions.play(script), versions.events_with_an_output()) == (outcome, expected)


def test_each_output_is_of_its_own_content(each: History) -> None:
    each.play("A 1 B 2")
    assert each.shown() == ["A", "B"]


def test_repeated_event_writes_nothing(each: History) -> None:
    each.play("A 1")
    assert play_alone(each, "1") == "Processed"
    assert (each.worked, each.calls) == (0, ["HeadObject", "HeadObject"])


def test_content_of_an_overwritten_source_is_lost(each: History) -> None:
    with pytest.raises(SourceChanged, match="overwritten"):
        each.play("A B 1")
    assert each.outputs() == []


def test_delete_marker_deletes_nothing(versions: History) -> None:
    versions.fence = "each"
    versions.play("A 1 -")
    assert play_alone(versions, "2") == "Processed"
    assert versions.calls == ["HeadObject"]
    assert versions.events_with_an_output() == [1]


def test_deletion_deletes_older_outputs_of_its_key_only(each: History) -> None:
    for key in ("x.png", "x.png/y", "out-x.png/z", "x.pngs", "a/x.png", "x.png"):
        each.deliver(each.upload("A", key))
    each.s3.put_object(Bucket=OUTPUT, Key="out-x.png/by-hand", Body=b"not ours")
    deletion = each.delete(key="x.png")
    each.deliver(each.upload("B", "x.png"))
    assert each.deliver(deletion) == "Processed"
    assert each.outputs() == [
        "a/out-x.png/84",
        "out-x.png/87",
        "out-x.png/by-hand",
        "out-x.png/out-z/82",
        "out-x.pngs/83",
        "x.png/out-y/81",
    ]


def test_deletion_deletes_more_outputs_than_a_page_lists(
    each: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = each.s3.get_paginator

    def of_pages_of_two(operation: str) -> Any:
        paginator = real(operation)
        paginate = paginator.paginate
        paginator.paginate = lambda **named: paginate(**named, PaginationConfig={"PageSize": 2})
        return paginator

    monkeypatch.setattr(each.s3, "get_paginator", of_pages_of_two)
    assert each.play("A 1 B 2 C 3 - 4") == "Processed"
    assert each.outputs() == []


def test_deletion_that_always_meets_another_writer_is_a_fault(each: History) -> None:
    each.play("A 1 -")
    each.fail("delete_object", *CONFLICT, numbers=range(99))
    with pytest.raises(OutputContended, match="out-x"):
        each.play("2")


def test_key_that_leaves_no_room_for_the_sequencer_is_refused(each: History) -> None:
    event = each.upload("A", "x" * 1017)
    assert each.deliver(event) == "Processed"  # 4 + 1017 + 3
    event = each.upload("A", "x" * 1018)
    with pytest.raises(InvalidImage, match="1024 bytes"):
        each.deliver(event)


# S3's own faults are raised, and never taken for an answer.


def test_fence_that_always_meets_another_writer_is_a_fault(
    either: History, pauses: list[float]
) -> None:
    either.fail("put_object", *CONFLICT, numbers=range(99))
    with pytest.raises(OutputContended, match="out-x"):
        either.play("A 1")
    assert len(pauses) == ATTEMPTS
    assert all(0 <= pause <= number / 10 for number, pause in enumerate(pauses))
    assert any(pauses)


@pytest.mark.parametrize(
    ("earlier", "script", "operation"),
    [
        *(("A", "1", operation) for operation in ("head_object", "get_object", "put_object")),
        *(("A 1 -", "2", operation) for operation in ("head_object", "delete_object")),
    ],
)
def test_denied_access_is_a_fault(
    either: History, earlier: str, script: str, operation: str
) -> None:
    either.play(earlier)
    before = either.outputs()
    either.fail(operation, 403, "AccessDenied")
    with pytest.raises(ClientError, match="AccessDenied"):
        either.play(script)
    assert either.outputs() == before


def test_denied_check_of_the_source_is_a_fault(either: History) -> None:
    either.fail("head_object", 403, "AccessDenied", numbers=(2,))
    with pytest.raises(ClientError, match="AccessDenied"):
        either.play("A 1")


def test_missing_output_bucket_is_a_fault(either: History) -> None:
    # To HEAD, which has no body, AWS says 404 and no more; moto names the bucket.
    either.fail("head_object", 404, "404")
    either.output_bucket = "no-such-bucket"
    with pytest.raises(ClientError, match="NoSuchBucket"):
        either.play("A 1")


def test_missing_input_bucket_is_a_fault(either: History) -> None:
    with pytest.raises(ClientError, match="NoSuchBucket"):
        either.deliver(ObjectEvent("no-such-bucket", KEY, "80", "0123"))


def test_without_the_fence_an_older_event_overwrites_a_newer_output(history: History) -> None:
    """Show what the fence prevents."""

    def meanwhile() -> None:
        history.fence = "newest"
        history.play("B 2")

    older = history.upload("A")
    history.fence = "none"
    assert history.deliver(older, meanwhile) == "Processed"
    assert history.output() == "A"


def test_conflict_without_the_fence_is_a_fault(history: History) -> None:
    history.fence = "none"
    history.fail("put_object", *CONFLICT)
    with pytest.raises(ClientError, match="Conflict"):
        history.play("A 1")


# Any history of an object, its events delivered in any order, some of them twice, and any of the
# function's calls to S3 slow enough for more of the history to happen before it.
EXAMPLES = 100
NUMBER = st.integers(0, 3)
QUICK = st.one_of(
    st.tuples(st.just("upload"), st.booleans(), st.sampled_from(["A", "B"])),
    st.tuples(st.just("delete"), st.booleans()),
    st.tuples(st.just("delete_version"), st.booleans(), NUMBER),
    st.tuples(st.just("deliver"), NUMBER),
)
SLOW = st.tuples(
    st.just("deliver"), NUMBER, st.integers(1, 6), st.lists(QUICK, min_size=1, max_size=4)
)
HISTORY = st.lists(st.one_of(QUICK, SLOW), max_size=12)


class AnyHistory(History):
    """Lets any history happen, and delivers each event at some time."""

    def let_happen(self, steps: Any) -> None:
        for step in steps:
            match step:
                case "upload", is_delivered, content:
                    self._happens(is_delivered, self.upload(content))
                case "delete", is_delivered:
                    self._delete(is_delivered)
                case "delete_version", is_delivered, number:
                    found = self.s3.list_object_versions(Bucket=INPUT)
                    there = [*found.get("DeleteMarkers", []), *found.get("Versions", [])]
                    if self.is_versioned and there:
                        self._delete(is_delivered, there[number % len(there)]["VersionId"])
                case "deliver", number, *slow if self.events:
                    self._deliver(self.events[-1 - number % len(self.events)], *slow)

    def settle(self) -> None:
        while self.undelivered:
            self._deliver(self.undelivered[0])

    def _delete(self, is_delivered: bool, version: str | None = None) -> None:
        event = self.delete(version)
        # S3 puts a delete marker where there is nothing, too; moto does not.
        if event.version_id or not self.is_versioned:
            self._happens(is_delivered, event)
        else:
            self.events.remove(event)

    def _happens(self, is_delivered: bool, event: ObjectEvent) -> None:
        self.undelivered.append(event)
        if is_delivered:
            self._deliver(event)

    def _deliver(self, event: ObjectEvent, slow_call: int = 0, meanwhile: Any = ()) -> None:
        calls = itertools.count(1)

        def wait(**_: Any) -> None:
            if next(calls) == slow_call:
                self.let_happen(meanwhile)

        self.s3.meta.events.register("before-call.s3", wait)
        try:
            self.deliver(event)
        finally:
            self.s3.meta.events.unregister("before-call.s3", wait)
        if event in self.undelivered:
            self.undelivered.remove(event)


@pytest.mark.parametrize("fence", ["newest", "newest of versions", "each of versions"])
def test_any_history_ends_with_the_right_outputs(
    clients: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch, fence: str
) -> None:
    @settings(max_examples=EXAMPLES, deadline=None)
    @given(HISTORY)
    def check(steps: Any) -> None:
        with empty_buckets(clients[0]):
            history = AnyHistory(clients, monkeypatch)
            history.fence = fence.partition(" ")[0]
            if "versions" in fence:
                history.keep_versions()
            history.let_happen(steps)
            history.settle()
            if history.fence == "each":
                found = history.s3.list_object_versions(Bucket=INPUT).get("Versions", [])
                expected = [f"{OUTPUT_KEY}/{version['VersionId']}" for version in found]
                assert sorted(history.outputs()) == sorted(expected)
                return
            try:
                current = history.s3.get_object(Bucket=INPUT, Key=KEY)["Body"].read().decode()
            except history.s3.exceptions.NoSuchKey:
                current = None
            assert history.output() == current

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
        ("b/c/x.jpg", "b/c/out-x.jpg"),
        ("a b+%41'\"é.jpg", "out-a b+%41'\"é.jpg"),
        ("folder/", "folder/out-"),
    ],
)
def test_output_stays_in_its_folder(key: str, expected: str) -> None:
    assert output_key(key) == expected


def test_key_that_leaves_no_room_for_the_outputs_name_is_refused() -> None:
    assert len(output_key("x" * 1020)) == 1024
    for key in ("x" * 1021, "é" * 511):  # bytes count, not characters
        with pytest.raises(InvalidImage, match="1024 bytes"):
            output_key(key)
