"""Tests of the work alone; `inorder try app.py` tries the whole function."""

import pytest

from inorder_fence import Rejection
from work import index


def test_an_index_has_the_byte_at_which_each_row_begins() -> None:
    assert index(b'{"id": 1}\n\n2\n').content == b'{"rows": 2, "offsets": [0, 11]}'


def test_a_document_with_a_row_that_is_not_json_is_rejected() -> None:
    with pytest.raises(Rejection, match="Row 2 is not JSON"):
        index(b"1\n{\n")
