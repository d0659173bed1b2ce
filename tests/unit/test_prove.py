"""`make prove POLICY=name`: its steps, and where it stops."""

from __future__ import annotations

import re
import sys

import pytest

from inorder import PROJECT
from inorder.model import policies
from tests.proof import __main__ as prove


def test_each_step_runs_what_is_there() -> None:
    for policy in policies.names():
        for step in prove.steps(policy):
            files = [part for part in step.command if part.startswith(("tests/", "statemachine/"))]
            assert all((PROJECT / file).exists() for file in files)
            assert {policy, policies.asl_file(policy)} & set(step.command)


@pytest.mark.parametrize(
    ("codes", "said"),
    [
        ([0, 0], "latest-wins has passed all"),
        ([prove.EMPTY, 0], "step 0: latest-wins has none."),
        ([0, 1, 0], r"step 1: failed after \d+ s. Mend 1.\nNot run: step 2."),
        ([2, 0], r"step 0: failed after \d+ s. Mend 0.\nNot run: step 1."),
    ],
)
def test_it_stops_at_the_first_step_that_fails_and_says_what_to_do(
    codes: list[int],
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    made = [
        prove.Step(
            f"step {number}",
            "what",
            f"Mend {number}.",
            (sys.executable, "-S", "-c", f"raise SystemExit({code})"),
        )
        for number, code in enumerate(codes)
    ]
    monkeypatch.setattr(prove, "steps", lambda _: made)
    assert prove.prove("latest-wins") == int(not set(codes) <= {0, prove.EMPTY})
    assert re.search(said, capsys.readouterr().out)
