"""Rules for the project's own files: locks and the errors of the Makefile."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from inorder import PROJECT
from tests.resolved_template import template

LOCKS = [PROJECT / "requirements.txt", *sorted(PROJECT.glob("functions/*/requirements.txt"))]


def pins(file: Path) -> dict[str, str]:
    return dict(re.findall(r"^([\w.-]+)(?:\[.*\])?==([\w.]+)", file.read_text(), re.MULTILINE))


@pytest.mark.parametrize("file", LOCKS, ids=lambda file: str(file.relative_to(PROJECT)))
def test_a_lock_names_hashes_and_no_index(file: Path) -> None:
    text = file.read_text()
    requirements = re.split(r"\n(?=\w)", text.strip())
    assert requirements
    assert all("--hash=sha256:" in each for each in requirements if "==" in each)
    assert not re.search(r"https?://|file:|--index|--find-links", text)


@pytest.mark.parametrize("file", LOCKS[1:], ids=lambda file: file.parent.name)
def test_a_function_runs_with_the_versions_it_was_tested_with(file: Path) -> None:
    assert pins(file).items() <= pins(LOCKS[0]).items()


@pytest.mark.parametrize(
    ("python", "complaint"),
    [
        ("no-such-python", "There is no no-such-python: install Python 3.11 or newer"),
        ("./old-python", "./old-python is too old: Python 3.11 or newer is needed"),
    ],
)
def test_a_missing_or_old_python_is_reported_in_one_line(
    tmp_path: Path, python: str, complaint: str
) -> None:
    for name in ("Makefile", "requirements.txt", "pyproject.toml"):
        shutil.copy(PROJECT / name, tmp_path)
    old = tmp_path / "old-python"
    old.write_text("#!/bin/sh\nexit 1\n")  # as Python answers to the question for its version
    old.chmod(0o755)
    made = subprocess.run(  # noqa: S603 - our own Makefile
        ["make", "demo", f"PYTHON={python}"],  # noqa: S607
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode != 0
    first, *rest = made.stderr.splitlines()
    assert first.startswith(complaint)
    assert all(re.match(r"make(\[\d+\])?: \*\*\*", line) for line in rest)


def test_the_bytecode_is_that_of_the_functions_python() -> None:
    printed = subprocess.run(
        ["make", "--dry-run", "build"],  # noqa: S607
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    properties = [each.get("Properties", {}) for each in template()["Resources"].values()]
    [runtime] = {each["Runtime"] for each in properties if "Runtime" in each}
    assert f"--python {runtime.removeprefix('python')} " in printed
