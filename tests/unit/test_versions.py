"""What `inorder check --against` finds between two versions of a policy."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from inorder import PROJECT
from inorder.asl.versions import differences
from inorder.commands.main import main
from inorder.model.policies import definition, names

FILE = PROJECT / "statemachine" / "latest_wins.asl.json"


@pytest.mark.parametrize("policy", names())
def test_a_version_may_run_beside_itself(policy: str) -> None:
    assert list(differences(definition(policy), definition(policy))) == []


@pytest.mark.parametrize(
    ("shipped", "instead", "said"),
    [
        ('"TimeoutSeconds": 62', '"TimeoutSeconds": 66', "lease: a holder of the other version"),
        ("lock_token", "lease_token", "records: lock_token is read by"),
        ('"Superseded"', '"Overtaken"', "outcomes: Superseded is gone"),
        ("{}/{}#{}", "{}/{}@{}", "records: the id is"),
        ('"DONE"', '"READY"', "values in records: DONE is gone"),
        ('"fence": "newest"', '"fence": "each"', "fence = newest is gone"),
        ('"reason.$": "$.fault"', '"why.$": "$.fault"', "fields of retried events: why is new"),
    ],
)
def test_what_breaks_beside_the_version_before_is_named(
    shipped: str, instead: str, said: str
) -> None:
    text = FILE.read_text(encoding="utf-8")
    assert shipped in text
    found = list(differences(json.loads(text), json.loads(text.replace(shipped, instead))))
    assert any(said in each for each in found), found


def test_the_command_compares_with_a_file_and_refuses_what_is_none(tmp_path: Path) -> None:
    same = tmp_path / "same.asl.json"
    same.write_bytes(FILE.read_bytes())
    runner = CliRunner(mix_stderr=False)
    said = runner.invoke(main, ["check", str(FILE), "--against", str(same)])
    assert said.exit_code == 0
    assert "may run beside" in said.stdout
    same.write_text("[]")
    said = runner.invoke(main, ["check", str(FILE), "--against", str(same)])
    assert said.stderr == f"Error: {same} is not a state machine.\n"
