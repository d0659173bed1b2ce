"""What the fence rejects, what it leaves to another attempt, and what an output gets."""

import re
from dataclasses import replace
from typing import Any
from unittest.mock import Mock

import pytest
from botocore.exceptions import ClientError, IncompleteReadError

from inorder_fence.fenced_output import (
    ATTEMPTS,
    FENCES,
    Fence,
    InvalidSource,
    OutputState,
    attempts,
)
from inorder_fence.object_event import InvalidEvent, ObjectEvent
from tests.support.events import changed, without
from tests.support.replacing import replaced
from tests.unit.s3_calls import (
    MAXIMUM_BYTES,
    OF_VERSION,
    OWN,
    VERSION_OUTPUT,
    Call,
    Case,
    answer,
    created,
    delete,
    deleted,
    ends_as,
    fails,
    no_output,
    outcome,
    output,
    processed,
    read,
    source,
    superseded,
    write,
)

OF_ANOTHER_BUCKET = output("0A", source_bucket="other")
DIGITS = "F" * 128  # as many as count of a sequencer
DAY = 86_400


def test_an_answer_says_for_how_long_its_record_is_kept() -> None:
    assert answer(created(), output("0C"))["expires_at"] == str(7 * DAY)
    invalid = answer(created(sequencer="ZZ"))
    assert invalid["expires_at"] == str(15 * DAY)  # longer than SQS keeps the parked event


@pytest.mark.parametrize(
    ("error", "event"),
    [
        ("InvalidEvent", created(sequencer="ZZ")),
        ("InvalidEvent", created(sequencer=DIGITS + "Z")),
        ("InvalidEvent", created(key="")),
        ("InvalidEvent", created(etag="")),
        ("InvalidEvent", created(bucket="")),
        ("InvalidEvent", without(deleted(), "detail.object.sequencer")),
        ("InvalidSource", created(bucket="output")),  # each output would be input
    ],
)
@pytest.mark.parametrize("fence", ["newest", "each", "none"])
def test_an_event_that_can_have_no_output_is_rejected(error: str, event: Any, fence: str) -> None:
    assert outcome(event, fence=fence) == error


CASES = {
    # It is recorded by then, so a rejection would keep the key without an output.
    "the first digits of a long sequencer count": processed(
        created(sequencer=DIGITS + "F"), no_output(), read(), write(sequencer=DIGITS), source()
    ),
    "zeros behind a sequencer do not count": processed(
        created(sequencer="0B" + "0" * 999), output("0B"), source()
    ),
    "an empty version means none, in events and outputs": superseded(
        created(version_id=""), output("0C", source_bucket="input", source_version_id="")
    ),
    "another bucket's output is not replaced": ends_as(
        "OutputOfAnotherBucket", created(), OF_ANOTHER_BUCKET
    ),
    "another bucket's output is not deleted": ends_as(
        "OutputOfAnotherBucket", deleted(), OF_ANOTHER_BUCKET
    ),
    "an output with an impossible sequencer is replaced": processed(
        created(), output("ZZ", source_etag="b"), read(), write(etag="1"), source()
    ),
    "the work rejects a content": ends_as("Bad", created(), no_output(), read("bad")),
    "a source has as many bytes as are allowed": processed(
        created(), no_output(), read("B" * MAXIMUM_BYTES), write("B" * MAXIMUM_BYTES), source()
    ),
    "a source is too large": ends_as(
        "InvalidSource", created(), no_output(), read("B" * (MAXIMUM_BYTES + 1))
    ),
    "metadata are too large together": ends_as(
        "InvalidSource", created(), no_output(), read(), fails(write(), 400, "MetadataTooLarge")
    ),
    "another bucket's output is not a version's": ends_as(
        "OutputOfAnotherBucket",
        created(),
        output("0A", key=OWN, source_bucket="other"),
        fence="each",
    ),
    "the check learns from GET why HEAD is refused": ends_as(
        "SourceUnreadable",
        created(version="v1"),
        VERSION_OUTPUT,
        fails(source(version="v1"), 400),
        fails(read(etag=None, version="v1"), 400, "InvalidRequest"),
        fence="each",
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_what_is_unusual_has_an_output_or_is_rejected(case: Case) -> None:
    case.check()


def test_a_rejection_names_both_buckets() -> None:
    cause = answer(created(), OF_ANOTHER_BUCKET)["cause"]
    assert re.search("'a/out-x' .* bucket other, .* bucket input:", cause)


def test_an_output_of_another_bucket_shows_no_source() -> None:
    """The fence rejects the event before it asks this; an audit asks."""
    event = ObjectEvent("input", "x", "0A", "e")
    metadata = {"sequencer": "0A", "source-etag": "e", "source-bucket": "other"}
    assert not OutputState("1", metadata).shows(event)
    assert OutputState("1", metadata | {"source-bucket": "input"}).shows(event)


@pytest.mark.parametrize(
    ("status", "code"),
    [(403, "InvalidObjectState"), (400, "InvalidRequest"), (400, "KMS.DisabledException")],
    ids=["archived", "SSE-C", "disabled key"],
)
def test_a_source_that_s3_refuses_for_good_is_rejected(status: int, code: str) -> None:
    refused = fails(read(version="null"), status, code)
    assert outcome(created(), no_output(OWN), refused, fence="each") == "SourceUnreadable"
    assert outcome(created(), no_output(), fails(read(), status, code)) == "SourceUnreadable"


# Keys


class Asked(Exception):
    """S3 was called."""


def deliver(fence: str, event: ObjectEvent) -> str:
    """Give the outcome; neither S3 nor the work may be called."""
    calls = ("head_object", "get_object", "get_paginator")
    s3 = Mock(**{f"{call}.side_effect": Asked for call in calls})
    fenced = Fence(s3, "output", 1000, Mock(side_effect=AssertionError), handles_deletions=True)
    return FENCES[fence](fenced, event).outcome


@pytest.mark.parametrize(
    ("fence", "version", "is_deletion", "added"),
    [
        ("newest", None, False, "out-"),
        ("none", None, False, "out-"),
        ("each", None, False, "out-/80"),
        ("each", "v" * 36, False, "out-/" + "v" * 36),
        ("newest", None, True, "out-"),
        ("each", None, True, "out-/"),  # an older event's sequencer may be shorter
        ("each", "v" * 36, True, "out-/" + "v" * 36),
    ],
)
def test_keys_whose_outputs_have_too_long_names_are_refused(
    fence: str, version: str | None, is_deletion: bool, added: str
) -> None:
    longest = ObjectEvent("input", "x" * (1024 - len(added)), "80", "e", version, is_deletion)
    with pytest.raises(Asked):
        deliver(fence, longest)
    longer = replace(longest, key=f"x{longest.key}")
    if is_deletion:
        assert deliver(fence, longer) == "Processed"
    else:
        with pytest.raises(InvalidSource, match="1024 bytes"):
            deliver(fence, longer)


def test_the_length_of_an_outputs_key_is_counted_in_bytes() -> None:
    key = "é" * 511 + "x"
    assert outcome(created(key=key)) == "InvalidSource"
    of_deletion = answer(deleted(key=key))
    assert (of_deletion["outcome"], of_deletion["output_key"]) == ("Processed", f"out-{key}")


@pytest.mark.parametrize(
    ("fence", "key", "calls"),
    [
        ("newest", "a/out-", [no_output("a/out-"), read("", key="a/")]),
        ("each", "a/out-/0B", [no_output("a/out-/0B"), read("", key="a/", version="null")]),
        ("none", "a/out-", [read("", None, "a/")]),
    ],
)
def test_a_folder_of_the_console_has_no_output(fence: str, key: str, calls: list[Call]) -> None:
    of_folder = answer(created(key="a/"), *calls, fence=fence)
    assert (of_folder["outcome"], of_folder["output_key"]) == ("Superseded", key)


@pytest.mark.parametrize(("key", "content"), [("a/x", ""), ("a/", "B")])
def test_only_an_empty_object_with_a_slash_is_a_folder(key: str, content: str) -> None:
    name = replaced(key, "a/", "a/out-")
    calls = read(content, None, key, ETag='"b"'), write(content, key=name, is_fenced=False)
    assert outcome(created(key=key), *calls, fence="none") == "Processed"


# Faults


@pytest.mark.parametrize(
    ("fence", "event", "calls"),
    [
        ("newest", created(), [fails(output("0A"), 403)]),
        ("newest", created(), [output("0B"), fails(source(), 403)]),
        # The key may become usable.
        ("newest", created(), [no_output(), fails(read(), 400, "KMS.KMSInvalidStateException")]),
        ("newest", created(), [no_output(), fails(read(), 404, "NoSuchBucket")]),
        ("newest", created(), [no_output(), read(), fails(write(), 404, "NoSuchBucket")]),
        ("newest", created(), [no_output(), read(), fails(write(), 403, "AccessDenied")]),
        (
            "each",
            deleted(version="v1"),
            [VERSION_OUTPUT, fails(delete("1", OF_VERSION), 403, "AccessDenied")],
        ),
    ],
)
def test_what_may_pass_is_a_fault(fence: str, event: Any, calls: list[Call]) -> None:
    with pytest.raises(ClientError) as raised:
        answer(event, *calls, fence=fence)
    assert raised.value.response["Error"]["Code"] == calls[-1].answer["code"]


def test_without_a_fence_conflicts_are_faults_and_versions_are_ignored() -> None:
    written = write("C", source_etag="c", version="v1", is_fenced=False)
    calls = read("C", None, ETag='"c"', VersionId="v2"), fails(written, 409, "Conflict")
    with pytest.raises(ClientError, match="Conflict"):
        answer(created(version="v1"), *calls, fence="none")


def test_content_that_breaks_off_is_a_fault_without_work() -> None:
    with pytest.raises(IncompleteReadError):
        answer(created(), no_output(), read("B", ContentLength=2))


def test_attempts_pause_for_random_times(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr("inorder_fence.fenced_output.time.sleep", pauses.append)
    assert len(list(attempts())) == len(pauses) == ATTEMPTS
    assert all(0 <= pause <= number / 10 for number, pause in enumerate(pauses))
    assert any(pauses)


# What an output gets


def test_an_output_gets_what_is_named_and_the_source_has() -> None:
    """Its own metadata win over the source's, and a version that it does not have is not kept."""
    metadata = {"made-by": "me", "sequencer": "0F", "source-version-id": "v9"}
    source_read = read(CacheControl="no-cache", ContentLanguage="de", Metadata=metadata)
    written = write(CacheControl="no-cache", Metadata={"made-by": "me"})
    names = ["CacheControl", "ContentDisposition", "Metadata"]
    calls = no_output(), source_read, written, source()
    assert outcome(created(), *calls, hands_on=names) == "Processed"


# What is read of an event

CREATION = created(key="a+b%20é.png", sequencer="0A", etag="0123")
DELETION = deleted(key="a+b%20é.png", sequencer="0A", version_id="v1")


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
def test_events_are_read_and_keys_not_decoded(event: Any, version: str | None, etag: str) -> None:
    with pytest.raises(InvalidEvent, match="no sequencer"):
        ObjectEvent.from_event(changed(event, "detail.object.sequencer", 7))
    expected = ObjectEvent("input", "a+b%20é.png", "0A", etag, version, is_deletion=not etag)
    assert ObjectEvent.from_event(event) == expected
