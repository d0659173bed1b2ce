"""Tests of the work alone; `inorder try app.py` tries the whole function."""

import pytest

from inorder_fence import Rejection
from work import work


def test_a_text_is_written_in_capitals() -> None:
    assert work("one é\n".encode()).content == "ONE É\n".encode()


def test_what_is_no_text_is_rejected() -> None:
    with pytest.raises(Rejection, match="no text"):
        work(b"\xff")
