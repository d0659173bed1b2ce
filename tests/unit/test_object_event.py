"""What is read of an event of S3, and what is not."""

from __future__ import annotations

from typing import Any

import pytest
from object_event import ObjectEvent


def event_of(detail_type: str = "Object Created", **described: Any) -> dict[str, Any]:
    described = {"key": "a/x.png", "sequencer": "0A", "etag": "0123"} | described
    return {
        "detail-type": detail_type,
        "detail": {
            "bucket": {"name": "input"},
            "object": {name: value for name, value in described.items() if value != "absent"},
        },
    }


def test_creation() -> None:
    assert ObjectEvent.from_event(event_of()) == ObjectEvent("input", "a/x.png", "0A", "0123")


def test_creation_of_a_version() -> None:
    event = ObjectEvent.from_event(event_of(**{"version-id": "v1"}))
    assert event == ObjectEvent("input", "a/x.png", "0A", "0123", version_id="v1")


@pytest.mark.parametrize("etag", ["absent", "0123"])
def test_deletion_needs_no_etag_and_reads_none(etag: str) -> None:
    event = ObjectEvent.from_event(event_of("Object Deleted", etag=etag, **{"version-id": "v1"}))
    assert event == ObjectEvent("input", "a/x.png", "0A", "", version_id="v1", is_deletion=True)


@pytest.mark.parametrize("version_id", ["absent", None, "null"])
def test_object_without_a_version_of_its_own_has_none(version_id: str | None) -> None:
    described: dict[str, Any] = {"version-id": version_id}
    # "null" is what S3 calls it in a bucket whose versioning is suspended.
    assert ObjectEvent.from_event(event_of(**described)).version_id is None


@pytest.mark.parametrize("key", ["a+b.png", "a%20b.png", "é ü.png"])
def test_key_is_not_decoded(key: str) -> None:
    assert ObjectEvent.from_event(event_of(key=key)).key == key


@pytest.mark.parametrize("lacking", ["key", "sequencer", "etag"])
def test_what_a_creation_lacks_is_named(lacking: str) -> None:
    with pytest.raises(KeyError, match=lacking):
        ObjectEvent.from_event(event_of(**{lacking: "absent"}))
