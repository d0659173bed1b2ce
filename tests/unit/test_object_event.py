"""The fields that the function reads of an event of S3."""

from __future__ import annotations

import pytest
from object_event import ObjectEvent

from tests.events import changed, created, deleted, without

CREATED = created("a/x.png", sequencer="0A", etag="0123")


@pytest.mark.parametrize("version", [None, "v1"])
def test_creation(version: str | None) -> None:
    event = created("a/x.png", sequencer="0A", etag="0123", version_id=version)
    expected = ObjectEvent("input", "a/x.png", "0A", etag="0123", version_id=version)
    assert ObjectEvent.from_event(event) == expected


@pytest.mark.parametrize("has_etag", [False, True])
def test_deletion_needs_no_etag_and_reads_none(has_etag: bool) -> None:
    event = deleted("a/x.png", sequencer="0A", version_id="v1")
    if has_etag:
        event = changed(event, "detail.object.etag", "0123")
    expected = ObjectEvent("input", "a/x.png", "0A", version_id="v1", is_deletion=True)
    assert ObjectEvent.from_event(event) == expected


def test_object_may_have_no_version_of_its_own() -> None:
    # S3 calls it "null" in a bucket whose versioning is suspended.
    event = changed(CREATED, "detail.object.version-id", "null")
    assert ObjectEvent.from_event(event).version_id is None


@pytest.mark.parametrize("key", ["a+b.png", "a%20b.png", "é ü.png"])
def test_key_is_not_decoded(key: str) -> None:
    assert ObjectEvent.from_event(created(key)).key == key


@pytest.mark.parametrize("field", ["key", "sequencer", "etag"])
def test_missing_field_of_a_creation_is_named(field: str) -> None:
    with pytest.raises(KeyError, match=field):
        ObjectEvent.from_event(without(CREATED, f"detail.object.{field}"))
