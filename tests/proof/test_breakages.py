"""Each breakage is found by the layer that is named beside it."""

import os

import pytest

from tests.policies.latest_wins.promise import LatestWins
from tests.proof.breakages import BREAKAGES, Breakage
from tests.proof.model.suite import Shipped

AT_NIGHT = bool(os.environ.get("MODEL") or os.environ.get("NIGHT"))


@pytest.mark.policy("latest-wins")
@pytest.mark.parametrize(
    "breakage",
    [breakage for breakage in BREAKAGES if breakage.found_by.is_quick or AT_NIGHT],
    ids=lambda breakage: breakage.name,
)
def test_a_breakage_is_found(breakage: Breakage) -> None:
    assert breakage.found_by.finds(breakage)


@pytest.mark.policy("latest-wins")
def test_every_breakage_has_something_to_change() -> None:
    for breakage in BREAKAGES:
        assert breakage.shipped() != Shipped.of(LatestWins), breakage.name


def test_breakages_are_at_least_25_of_different_names() -> None:
    assert len({breakage.name for breakage in BREAKAGES}) == len(BREAKAGES) >= 25
