"""The fence's limits: the length of a name, the number of attempts.

test_fence_steps.py has each call of a situation, the model checker searches all orders of the calls
of several writers, and stories (tests/policies) happen on each engine.
"""

from dataclasses import replace
from io import BytesIO
from typing import Any
from unittest.mock import Mock

import pytest
from botocore.exceptions import ClientError, IncompleteReadError
from botocore.response import StreamingBody

from inorder_fence.fenced_output import (
    ATTEMPTS,
    FENCES,
    Fence,
    InvalidSource,
    OutputOfAnotherBucket,
    OutputState,
    attempts,
)
from inorder_fence.object_event import InvalidEvent, ObjectEvent
from tests.support.events import changed, created, deleted


class Asked(Exception):
    """S3 was called."""


def deliver(s3: Any, fence: str, event: ObjectEvent) -> str:
    """Run the function, whose work must not be called, and give its outcome."""
    fenced = Fence(s3, "output", 1000, Mock(side_effect=AssertionError), handles_deletions=True)
    return FENCES[fence](fenced, event).outcome


def test_content_that_breaks_off_is_a_fault_without_work() -> None:
    missing: Any = {"Error": {"Code": "404"}, "ResponseMetadata": {"HTTPStatusCode": 404}}
    s3 = Mock()
    s3.head_object.side_effect = ClientError(missing, "HeadObject")
    s3.get_object.return_value = {"Body": StreamingBody(BytesIO(b"A"), 2), "ContentLength": 2}
    with pytest.raises(IncompleteReadError):
        deliver(s3, "newest", ObjectEvent("input", "x", "80", "e", is_deletion=False))


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
    s3 = Mock()
    s3.head_object.side_effect = s3.get_object.side_effect = s3.get_paginator.side_effect = Asked
    longest = ObjectEvent("input", "x" * (1024 - len(added)), "80", "e", version, is_deletion)
    with pytest.raises(Asked):
        deliver(s3, fence, longest)
    longer = replace(longest, key=f"x{longest.key}")
    if is_deletion:
        assert deliver(s3, fence, longer) == "Processed"
    else:
        with pytest.raises(InvalidSource, match="1024 bytes"):
            deliver(s3, fence, longer)


def test_attempts_pause_for_random_times(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr("inorder_fence.fenced_output.time.sleep", pauses.append)
    assert len(list(attempts())) == len(pauses) == ATTEMPTS
    assert all(0 <= pause <= number / 10 for number, pause in enumerate(pauses))
    assert any(pauses)


def test_an_output_of_another_bucket_is_rejected_naming_both_buckets() -> None:
    """The fence does not ask whether it shows one; an audit does."""
    source = ObjectEvent("input", "x", "0A", "e")
    metadata = {"sequencer": "0A", "source-etag": "e", "source-bucket": "other"}
    assert not OutputState("1", metadata).shows(source)
    assert OutputState("1", metadata | {"source-bucket": "input"}).shows(source)
    s3 = Mock(**{"head_object.return_value": {"ETag": "1", "Metadata": metadata}})
    with pytest.raises(OutputOfAnotherBucket, match=r"'out-x' .* bucket other, .* bucket input:"):
        deliver(s3, "newest", source)


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
    with pytest.raises(InvalidEvent, match="no sequencer"):
        ObjectEvent.from_event(changed(event, "detail.object.sequencer", 7))
    read = ObjectEvent.from_event(event)
    assert read == ObjectEvent("input", "a+b%20é.png", "0A", etag, version, is_deletion=not etag)
