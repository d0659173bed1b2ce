"""Rules for the project's own files: locks, and what the Makefile does on a new machine."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from bench import browser
from inorder import PROJECT
from inorder.resolved_template import template

LOCKS = [PROJECT / "requirements.txt", PROJECT / "functions" / "requirements.txt"]


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


@pytest.mark.parametrize(
    ("is_root", "works", "ran", "why"),
    [
        (True, None, [], ""),
        (True, "apt-get", ["apt-get", "apt-get"], ""),
        (True, "--with-deps", ["apt-get", "--with-deps"], ""),
        (True, "-", ["apt-get", "--with-deps"], "apt-get failed (no route), and "),
        (False, "--only-shell", ["--only-shell"], ""),
        (False, "-", ["--only-shell"], "this user may not install one with apt-get, and "),
    ],
)
def test_a_browser_is_installed_or_downloaded_or_it_is_said_why_not(
    is_root: bool, works: str | None, ran: list[str], why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands: list[str] = []

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        words = ("apt-get", "--with-deps", "--only-shell")
        commands.append(next(word for word in words if word in command))
        error = f"{'E' if command[0] == 'apt-get' else 'Error'}: no route\n    at index.js"
        return subprocess.CompletedProcess(command, commands[-1] != works, "", error)

    monkeypatch.setattr(browser, "starts", lambda: works in [None, *commands])
    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(os, "geteuid", lambda: 0 if is_root else 1000)
    if not why:
        browser.get()
    else:
        with pytest.raises(browser.NoBrowserError) as failed:
            browser.get()
        reasons = f"there is no browser, {why}playwright install failed (no route)"
        assert str(failed.value) == reasons
    assert commands == ran


@pytest.mark.parametrize(
    ("said", "environment", "code"),
    [("", {"CI": "true"}, 0), ("page.py did not run.", {}, 0), ("Not run.", {"CI": "true"}, 2)],
)
def test_without_a_browser_the_last_line_says_what_did_not_run_and_ci_fails(
    said: str, environment: dict[str, str], code: int, tmp_path: Path
) -> None:
    shutil.copy(PROJECT / "Makefile", tmp_path)
    programs = tmp_path / ".venv" / "bin"
    programs.mkdir(parents=True)
    for name, does in {
        "python": f'[ "$2" = pytest ] && echo "$@" || echo "{said}"',
        "inorder": "exit 0",
    }.items():
        (programs / name).write_text(f"#!/bin/sh\n{does}\n")
        (programs / name).chmod(0o755)
    for name in ("requirements.txt", "pyproject.toml", ".venv/installed"):
        (tmp_path / name).touch()
    made = subprocess.run(
        ["make", "test"],  # noqa: S607
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == code
    *_, tests, last = ["", *made.stdout.splitlines(), *([] if said else [""])]
    assert "pytest" in tests
    assert last == said
    assert tests.endswith("--ignore tests/console/test_views.py") == bool(said)


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
