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
from inorder.model import policies

FOLDER = PROJECT / "docs" / "recipes"
RECIPES = sorted(FOLDER.glob("*.diff"))
NOT_COPIED = shutil.ignore_patterns(".git", ".venv", ".aws-sam", "out", "__pycache__", ".*_cache")
STATES = ["-m", "pytest", "-qq", "tests/policies/test_states.py", "--policy"]


def test_the_page_links_each_recipe_and_there_are_at_most_six() -> None:
    links = re.findall(r"\((.+\.diff)\)", (FOLDER / "README.md").read_text())
    assert sorted(links) == [file.name for file in RECIPES]
    assert 0 < len(RECIPES) <= 6


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda file: file.stem)
def test_a_copy_with_the_recipe_passes_the_proof(recipe: Path, tmp_path: Path) -> None:
    project = Path(shutil.copytree(PROJECT, tmp_path / "project", ignore=NOT_COPIED))
    [policy] = [name for name in policies.names() if policies.asl_file(name) in recipe.read_text()]
    check = ["-m", "inorder.commands.main", "check", policies.asl_file(policy)]
    parts = [[sys.executable, *check], [sys.executable, *STATES, policy]]
    if os.environ.get("NIGHT"):
        (project / ".venv").symlink_to(PROJECT / ".venv")
        parts = [["make", "--old-file", ".venv/installed", "prove", f"POLICY={policy}"]]
    for command in (["git", "apply", str(recipe)], *parts):
        done = subprocess.run(  # noqa: S603
            command,
            cwd=project,
            env=os.environ | {"PYTHONPATH": str(project)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
