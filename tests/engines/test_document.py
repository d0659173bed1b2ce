"""docs/engines.md says how many mocked cases there are, and which is mocked in part."""

from __future__ import annotations

from inorder import PROJECT
from tests.statemachine.test_mocks import NOT_ALL_MOCKED, POLICIES, cases

DOCUMENT = (PROJECT / "docs" / "engines.md").read_text()


def test_the_number_of_mocked_cases_is_right() -> None:
    assert f"{sum(len(cases(policy)) for policy in POLICIES)} cases mock every service" in DOCUMENT


def test_the_partly_mocked_case_is_told() -> None:
    assert f"`{NOT_ALL_MOCKED[1]}`" in DOCUMENT
