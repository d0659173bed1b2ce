"""Each recipe of docs/recipes, applied to a copy of the project, passes the proof of its policy.

`make test` runs the quick parts, and with NIGHT=1, as every night, all of them.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from inorder import PROJECT
from inorder.model import policies
from tests.proof.__main__ import steps

FOLDER = PROJECT / "docs" / "recipes"
RECIPES = sorted(FOLDER.glob("*.diff"))
NOT_COPIED = shutil.ignore_patterns(".git", ".venv", ".aws-sam", "out", "__pycache__", ".*_cache")
QUICK = ("check", "states")


def test_the_page_links_each_recipe_and_there_are_at_most_six() -> None:
    links = re.findall(r"\((.+\.diff)\)", (FOLDER / "README.md").read_text())
    assert sorted(links) == [file.name for file in RECIPES]
    assert 0 < len(RECIPES) <= 6


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda file: file.stem)
def test_a_copy_with_the_recipe_passes_the_proof(recipe: Path, tmp_path: Path) -> None:
    project = Path(shutil.copytree(PROJECT, tmp_path / "project", ignore=NOT_COPIED))
    [policy] = [name for name in policies.names() if policies.asl_file(name) in recipe.read_text()]
    parts = [step.name for step in steps(policy)] if os.environ.get("NIGHT") else QUICK
    for command in (
        ["git", "apply", str(recipe)],
        [sys.executable, "-m", "tests.proof", policy, *parts],
    ):
        done = subprocess.run(  # noqa: S603
            command, cwd=project, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
