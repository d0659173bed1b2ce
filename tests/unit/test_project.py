"""Rules for the project's own files: locks, and what the Makefile does on a new machine."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from inorder import PROJECT
from tests.proof import __main__ as prove
from tests.support.resolved_template import template

LOCKS = [PROJECT / "requirements.txt", PROJECT / "functions" / "requirements.txt"]


def pins(file: Path) -> dict[str, str]:
    return dict(re.findall(r"^([\w.-]+)(?:\[.*\])?==([\w.]+)", file.read_text(), re.MULTILINE))


def test_locks_have_hashes_and_no_index_and_a_function_runs_with_what_it_was_tested_with() -> None:
    for file in LOCKS:
        text = file.read_text()
        requirements = re.split(r"\n(?=\w)", text.strip())
        assert requirements
        assert all("--hash=sha256:" in each for each in requirements if "==" in each)
        assert not re.search(r"https?://|file:|--index|--find-links", text)
    tested, deployed = map(pins, LOCKS)
    assert deployed.items() <= tested.items()


def make(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603 - our own Makefile
        ["make", *arguments],  # noqa: S607
        cwd=folder,
        env={"PATH": os.environ["PATH"], **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def copied(folder: Path, **programs: str) -> None:
    """Copy what `make` reads, with programs of its environment that do something else."""
    for name in ("Makefile", "requirements.txt", "pyproject.toml"):
        shutil.copy(PROJECT / name, folder)
    (folder / ".venv" / "bin").mkdir(parents=True)
    for name, does in programs.items():
        program = folder / ".venv" / "bin" / name
        program.write_text(f"#!/bin/sh\n{does}\n")
        program.chmod(0o755)


@pytest.mark.parametrize(
    ("said", "environment", "code"),
    [("", {"CI": "true"}, 0), ("page.py did not run.", {}, 0), ("Not run.", {"CI": "true"}, 2)],
)
def test_without_a_browser_the_last_line_says_what_did_not_run_and_ci_fails(
    said: str, environment: dict[str, str], code: int, tmp_path: Path
) -> None:
    copied(tmp_path, python=f'[ "$2" = pytest ] && echo "$@" || echo "{said}"', inorder="exit 0")
    (tmp_path / ".venv" / "installed").touch()
    made = make(tmp_path, "test", **environment)
    assert made.returncode == code
    *_, tests, last = ["", *made.stdout.splitlines(), *([] if said else [""])]
    assert "pytest" in tests
    assert last == said
    assert tests.endswith("--ignore tests/console/test_views.py") == bool(said)


def test_the_bytecode_is_that_of_the_functions_python() -> None:
    printed = make(PROJECT, "--dry-run", "build").stdout
    properties = [each.get("Properties", {}) for each in template()["Resources"].values()]
    [runtime] = {each["Runtime"] for each in properties if "Runtime" in each}
    assert f"--python {runtime.removeprefix('python')} " in printed


def test_the_proof_stops_at_the_first_step_that_fails_and_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for step in prove.steps("latest-wins"):
        files = [part for part in step.command if part.startswith(("tests/", "statemachine/"))]
        assert all((PROJECT / file).exists() for file in files)
    made = [
        prove.Step(f"step {number}", f"Mend {number}.", ("sh", "-c", f"exit {code}"))
        for number, code in enumerate([0, prove.EMPTY, 1, 0])
    ]
    monkeypatch.setattr(prove, "steps", lambda _: [*made])
    assert prove.prove("latest-wins") == 1
    said = r"step 1: latest-wins has none.*step 2: failed after \d+ s. Mend 2.\nNot run: step 3."
    assert re.search(said, capsys.readouterr().out, re.DOTALL)
    del made[2]
    assert prove.prove("latest-wins") == 0
    assert prove.prove("latest-wins", "step 0") == 0
    said = r"(?s)has none.*latest-wins has passed: step 0, step 1, step 3\..*: step 0\.\n"
    assert re.search(said, capsys.readouterr().out)
    assert prove.prove("latest-wins", "unknown") == 1
