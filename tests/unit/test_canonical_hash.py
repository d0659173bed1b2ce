"""The hash of an event's content, for the policy content-hash."""

import hashlib
import json
import time
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.events import shipped, without
from tests.support.in_process import import_anew

TEXTS = st.text()
NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


@pytest.fixture(scope="module")
def function() -> ModuleType:
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("RECORD_RETENTION_DAYS", "7")
        return import_anew("canonical_hash.app")


def hash_of(function: ModuleType, detail: Any) -> str:
    return str(function.handler({"detail": detail}, None)["hash"])


def backwards(value: Any) -> Any:
    """Turn the order of all keys."""
    if isinstance(value, dict):
        return {key: backwards(value[key]) for key in reversed(value)}
    return [backwards(each) for each in value] if isinstance(value, list) else value


@settings(max_examples=100, deadline=None)
@given(detail=VALUES)
def test_neither_order_nor_white_space_nor_escapes_count(function: ModuleType, detail: Any) -> None:
    spelt = [
        json.dumps(backwards(detail), indent=2),
        json.dumps(detail, ensure_ascii=False),
        json.dumps(detail).replace("/", r"\/"),
    ]
    assert {hash_of(function, json.loads(text)) for text in spelt} == {hash_of(function, detail)}
    # The canonical text still says the same. So two details that differ cannot share a text.
    text = function.canonical_json(detail).decode(errors="surrogatepass")
    assert json.loads(text) == detail


def test_what_differs_is_hashed_apart_and_lost_digits_are_a_fault(function: ModuleType) -> None:
    for same in (["1", "1.0", "1e0"], ["0", "-0.0"], ["0.1", "0.10", "1e-1"]):
        assert len({hash_of(function, json.loads(text)) for text in same}) == 1
    for number, boolean in ((1, True), (0, False)):
        assert hash_of(function, number) != hash_of(function, boolean)
    # Half a character, which JSON may escape.
    assert hash_of(function, "\ud800") != hash_of(function, "\ud801")
    with pytest.raises(ValueError, match="Out of range float"):
        hash_of(function, json.loads("1e400"))


def test_the_hash_is_that_of_rfc_8785_and_the_times_are_whole_seconds(function: ModuleType) -> None:
    text = (
        '{"bucket":{"name":"pictures"},"object":{"etag":"9b2cf535f27731c974343645a3985328",'
        '"key":"holiday/a b+c%2B\'é.png","size":48213},"reason":"PutObject",'
        '"request-id":"C3D13FE58DE4C810","requester":"123456789012",'
        '"source-ip-address":"192.0.2.7","version":"0"}'
    )
    answer = function.handler(without(shipped("object-created"), "detail.object.sequencer"), None)
    assert answer["hash"] == hashlib.sha256(text.encode()).hexdigest()
    assert int(answer["now"]) == pytest.approx(time.time(), abs=60)
    assert int(answer["expires_at"]) - int(answer["now"]) == 7 * 86_400
