"""Each recipe of docs/recipes, applied to a copy of the project, passes the proof of its policy.

`make test` runs the quick parts, and with NIGHT=1, as every night, `make prove`.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from inorder import PROJECT
from inorder.asl import check_file
from inorder.model import policies

FOLDER = PROJECT / "docs" / "recipes"
RECIPES = sorted(FOLDER.glob("*.diff"))
FIRST_WINS = FOLDER / "first_wins" / "README.md"
# Bytecode is copied, so that no copy compiles all files again; not what is being written of it.
NOT_COPIED = shutil.ignore_patterns(".git", ".venv", ".aws-sam", "out", ".*_cache", "*.pyc.*")
STATES = ("tests/policies/test_states.py",)
# All but the longest searches.
ALL = (*STATES, "tests/policies/test_every_policy.py", "tests/policies/test_policy_facts.py")
PROVED = (*ALL, "tests/template", "tests/proof/model", "-k", "not transient")


def test_the_page_links_all_recipes_and_at_most_six_exist() -> None:
    links = re.findall(r"\((.+\.diff)\)", (FOLDER / "README.md").read_text())
    assert sorted(links) == [file.name for file in RECIPES]
    assert 0 < len(RECIPES) <= 6


def run(project: Path, *command: str) -> None:
    """Run a command in a copy of the project, which must succeed."""
    done = subprocess.run(  # noqa: S603
        command,
        cwd=project,
        env=os.environ | {"PYTHONPATH": f"{project}:{project / 'functions'}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def prove(project: Path, policy: str, *tests: str) -> None:
    """Prove a policy of a copy by some tests; at night, by all."""
    if os.environ.get("NIGHT"):
        run(project, "make", "--old-file", ".venv/installed", "prove", f"POLICY={policy}")
    else:
        assert check_file(project / policies.asl_file(policy, project)) == []
        run(project, sys.executable, "-m", "pytest", "-qq", "--policy", policy, *tests)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    copy = Path(shutil.copytree(PROJECT, tmp_path / "project", ignore=NOT_COPIED))
    (copy / ".venv").symlink_to(PROJECT / ".venv")
    return copy


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda file: file.stem)
def test_a_copy_with_the_recipe_passes_the_proof(recipe: Path, project: Path) -> None:
    [policy] = [
        name
        for name in policies.names()
        if policies.own_file(name) == policies.asl_file(name)
        and policies.asl_file(name) in recipe.read_text()
    ]
    run(project, "git", "apply", str(recipe))
    prove(project, policy, *STATES)


def test_first_wins_as_its_page_makes_it_keeps_its_promise(project: Path) -> None:
    """The page's commands are run; the model searches what may happen."""
    [commands] = re.findall(r"```sh\n(.+?)```", FIRST_WINS.read_text(), re.DOTALL)
    run(project, "bash", "-e", "-c", commands)
    prove(project, "first-wins", *PROVED)
