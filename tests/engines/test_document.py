"""docs/engines.md says how many mocked cases there are, and which is mocked in part."""

from __future__ import annotations

from inorder import PROJECT
from tests.policies.mock_config import NOT_ALL_MOCKED
from tests.policies.tables import TABLES

DOCUMENT = (PROJECT / "docs" / "engines.md").read_text()


def test_the_number_of_mocked_cases_is_right() -> None:
    paths = sum(len(table.paths) for table in TABLES.values())
    assert f"{paths} cases mock every service" in DOCUMENT


def test_the_partly_mocked_case_is_named() -> None:
    assert f"`{NOT_ALL_MOCKED[1]}`" in DOCUMENT
