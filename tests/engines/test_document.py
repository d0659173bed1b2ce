"""docs/engines.md tells the differences that the harness knows, and how many cases there are."""

from __future__ import annotations

from inorder.engines import DIFFERENCES
from inorder.stack import PROJECT
from tests.policies.mock_config import NOT_ALL_MOCKED
from tests.policies.tables import TABLES

DOCUMENT = (PROJECT / "docs" / "engines.md").read_text()


def test_every_difference_is_a_row_of_the_document_and_no_other() -> None:
    _, _, table = DOCUMENT.partition("| engine | differs | therefore |\n| --- | --- | --- |\n")
    rows = table.partition("\n\n")[0].splitlines()
    assert rows == [f"| {' | '.join(difference)} |" for difference in DIFFERENCES]


def test_the_number_of_mocked_cases_is_right() -> None:
    paths = sum(len(table.paths) for table in TABLES.values())
    assert f"{paths} cases mock every service" in DOCUMENT


def test_the_partly_mocked_case_is_told() -> None:
    assert f"`{NOT_ALL_MOCKED[1]}`" in DOCUMENT
