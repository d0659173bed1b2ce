"""The example of a function of one's own: what it indexes, rejects and answers."""

from __future__ import annotations

import json
from typing import Any

import json_lines
import pytest
from hypothesis import given
from hypothesis import strategies as st
from json_lines import InvalidDocument, index, with_event


def indexed(content: bytes) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(index(content).content)
    return found


@given(
    st.lists(st.dictionaries(st.text(max_size=3), st.integers() | st.text()), max_size=8),
    st.sampled_from(["\n", "\r\n", "\n\n", "\n  \n"]),
    st.integers(1, 4),
)
def test_from_an_offset_on_the_rows_can_be_read_alone(
    rows: list[dict[str, Any]], separator: str, step: int
) -> None:
    content = separator.join(json.dumps(row, ensure_ascii=False) for row in rows)
    document = content.encode(errors="ignore")
    with pytest.MonkeyPatch.context() as small:
        small.setattr(json_lines, "STEP", step)
        found = indexed(document)
    assert (found["rows"], found["bytes"], found["step"]) == (len(rows), len(document), step)
    starts = range(0, len(rows), step)
    assert len(found["offsets"]) == len(starts)
    for offset, start in zip(found["offsets"], starts, strict=True):
        rest = [json.loads(line) for line in document[offset:].split(b"\n") if line.strip()]
        assert len(rest) == len(rows) - start


def test_a_line_that_is_no_json_object_rejects_the_document_and_so_do_too_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for content, cause in [
        (b'{"a": 1}\n\n[1]\n', "Line 3 is JSON, but not an object"),
        (b'{"a": 1}\n{"a": \n', "Line 2 is not JSON"),
        (b'{"a": NaN}', "Line 1 is not JSON: NaN"),
        (b'{"a": "\xff"}', "Line 1 is not JSON"),
        (b"[" * 100_000, "Line 1 is not JSON"),
        ('{"a": 1}'.encode("utf-16"), "Line 1 is not JSON"),
    ]:
        with pytest.raises(InvalidDocument, match=cause):
            index(content)
    content = b'{"a": 1}\n{"b": 1}\n{"c": 1}\n'
    monkeypatch.setattr(json_lines, "MAXIMUM_ROWS", 3)
    assert indexed(content)["rows"] == 3
    monkeypatch.setattr(json_lines, "MAXIMUM_ROWS", 2)
    with pytest.raises(InvalidDocument, match="more than"):
        index(content)


def test_the_index_of_each_event_differs_and_is_json() -> None:
    made = index(b'{"a": 1}')
    content = made.content
    assert made.content_type == "application/json"
    one, other = (with_event(content, stamp) for stamp in (b"0A#", b"0B#"))
    assert json.loads(one) == {**json.loads(content), "event": "0A#"}
    assert one != other
    assert indexed(b"") == {"rows": 0, "bytes": 0, "step": 1000, "offsets": []}
