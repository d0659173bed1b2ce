"""The fields that the function reads of an event of S3."""

from __future__ import annotations

import pytest

from inorder.events import changed, created, deleted, without
from inorder_fence.object_event import ObjectEvent

CREATED = created("a/x.png", sequencer="0A", etag="0123")


# S3 calls the version "null" in a bucket whose versioning is suspended.
@pytest.mark.parametrize(("named", "version"), [(None, None), ("v1", "v1"), ("null", None)])
def test_creation(named: str | None, version: str | None) -> None:
    event = created("a/x.png", sequencer="0A", etag="0123", version_id=named)
    expected = ObjectEvent("input", "a/x.png", "0A", etag="0123", version_id=version)
    assert ObjectEvent.from_event(event) == expected


@pytest.mark.parametrize("has_etag", [False, True])
def test_deletion_needs_no_etag_and_reads_none(has_etag: bool) -> None:
    event = deleted("a/x.png", sequencer="0A", version_id="v1")
    if has_etag:
        event = changed(event, "detail.object.etag", "0123")
    expected = ObjectEvent("input", "a/x.png", "0A", version_id="v1", is_deletion=True)
    assert ObjectEvent.from_event(event) == expected


@pytest.mark.parametrize("key", ["a+b.png", "a%20b.png", "é ü.png"])
def test_key_is_not_decoded(key: str) -> None:
    assert ObjectEvent.from_event(created(key)).key == key


@pytest.mark.parametrize("field", ["key", "sequencer", "etag"])
def test_missing_field_of_a_creation_is_named(field: str) -> None:
    with pytest.raises(KeyError, match=field):
        ObjectEvent.from_event(without(CREATED, f"detail.object.{field}"))
