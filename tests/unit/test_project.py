"""Rules for the project's own files: the template, imports, locks, and what make does."""

import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from inorder import PROJECT
from inorder.commands.main import EXTRAS
from tests.support.resolved_template import template

LOCKS = [PROJECT / folder / "requirements.txt" for folder in (".", "functions")]


def tracked(*patterns: str) -> list[Path]:
    """List the files of a pattern of git, whose ``*`` stands for any folders as well."""
    command = ["git", "ls-files", "-z", "--", *patterns]
    listed = subprocess.check_output(command, cwd=PROJECT, text=True)  # noqa: S603
    files = [PROJECT / name for name in listed.split("\0") if name]
    return [file for file in files if file.is_file() and not file.is_symlink()]


def test_the_template_is_plain_and_its_lines_are_short() -> None:
    text = (PROJECT / "template.yaml").read_text(encoding="utf-8")
    assert [line for line in text.splitlines() if len(line) > 120] == []
    assert re.findall(r"<<:|[:-] +[&*]\w+", text) == []  # merge keys, anchors and aliases


def occurrences(pattern: re.Pattern[str], *patterns: str) -> list[tuple[str, str]]:
    """List what matches a pattern in files, with the name of the file."""
    return [
        (file.name, match[0])
        for file in tracked(*patterns)
        for match in pattern.finditer(file.read_text(encoding="utf-8"))
    ]


def imported(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


def test_imports_go_one_way() -> None:
    """Lambda has a function's folder, and packages; the ruff.toml files have the other rules."""
    packages = {"boto3", "botocore", "PIL", "aws_lambda_powertools", *sys.stdlib_module_names}
    for file in tracked("functions/*.py"):
        others = {package.partition(".")[0] for package in imported(file)} - packages
        others = {package for package in others if not package.startswith("mypy_")}
        assert others <= {"inorder_fence", file.parent.name}, file


def test_only_one_place_writes_plurals() -> None:
    """A number and a plural in a text are "1 outputs" now and then: `counted` writes them."""
    things = "alarm|attempt|event|execution|invocation|key|line|message|object|output|record|time"
    number = r"\{(?![A-Z_]+\})[^{}]+\}"  # a constant is never 1
    plural = re.compile(rf"{number} (?:[a-z]+[a-rt-z] )?(?:{things})s\b")
    assert occurrences(plural, "inorder/*.py") == []


def test_every_edit_of_a_text_fails_if_it_changes_nothing() -> None:
    """`replaced` does. What only computes splits and joins, or gives `sub` a function."""
    replaces = r"\.replace\((?!\s*\w+=).*"  # not the field of a time
    substitutes = r"""\bre\.sub\([^,]+,\s*[rf]*["'].*|(?<!\bre)\.sub\(\s*[rf]*["'].*"""
    edit = re.compile(f"{replaces}|{substitutes}")
    files = "tests/*.py", "bench/*.py", "docs/recipes/*.py", "examples/*test_*.py"
    edits = occurrences(edit, *files)
    assert [name for name, _ in edits] == ["replacing.py"], edits


def test_the_name_of_a_test_has_at_most_ten_words() -> None:
    assert occurrences(re.compile(r"def test(_[^\W_]+){11,}\("), "*.py") == []


def pins(file: Path) -> dict[str, str]:
    return dict(re.findall(r"^([\w.-]+)(?:\[.*\])?==([\w.]+)", file.read_text(), re.MULTILINE))


def test_locks_have_hashes_and_functions_get_the_tested_versions() -> None:
    for file in LOCKS:
        text = file.read_text()
        requirements = [part for part in re.split(r"\n(?=\w)", text) if "==" in part]
        assert requirements
        assert all("--hash=sha256:" in requirement for requirement in requirements)
        assert not re.search(r"https?://|file:|--index|--find-links", text)
    tested, *deployed = map(pins, LOCKS)
    assert all(versions.items() <= tested.items() for versions in deployed)


def test_the_package_needs_three_others_to_run() -> None:
    """What else it imports is in the standard library, or in an extra, which a command names."""
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    needed = {re.match(r"[\w-]+", requirement)[0] for requirement in project["dependencies"]}  # type: ignore[index]
    assert needed == {"boto3", "click", "rich"}
    own = {"inorder", "inorder_fence", "invert_image"}  # of which a checkout alone has the last
    others = {name.partition(".")[0] for file in tracked("inorder/*.py") for name in imported(file)}
    others -= {*sys.stdlib_module_names, *own, *needed, "botocore"}
    assert others == {*EXTRAS, "ministack"}  # which is run as a process of its own


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
    ("message", "environment", "code"),
    [("", {"CI": "true"}, 0), ("page.py did not run.", {}, 0), ("Not run.", {"CI": "true"}, 2)],
)
def test_without_a_browser_make_says_so_and_ci_fails(
    message: str, environment: dict[str, str], code: int, tmp_path: Path
) -> None:
    copied(tmp_path, python=f'[ "$2" = pytest ] && echo "$@" || echo "{message}"', inorder="exit 0")
    (tmp_path / ".venv" / "installed").touch()
    run = make(tmp_path, "test", **environment)
    assert run.returncode == code
    *_, tests, last = ["", *run.stdout.splitlines(), *([] if message else [""])]
    assert "pytest" in tests
    assert last == message
    assert tests.endswith("--ignore tests/console/test_views.py") == bool(message)


@pytest.mark.parametrize("verb", ["deploy", "package"])
def test_nothing_is_built_or_deployed_where_the_target_is_refused(
    verb: str, tmp_path: Path
) -> None:
    refuses = '[ "$2" != inorder.commands.target ] || exit 1; echo "$@"'
    copied(tmp_path, python=refuses, inorder="exit 0", sam='echo "$@"')
    (tmp_path / ".venv" / "installed").touch()
    run = make(tmp_path, verb, "BUCKET=b")
    assert (run.returncode, run.stdout) == (2, "")


def test_make_finds_the_environments_programs_without_the_path() -> None:
    """GNU make 3.81, which macOS has, does not look there."""
    verbs = re.findall(r"^([a-z-]+):.* ## ", (PROJECT / "Makefile").read_text(), re.MULTILINE)
    there = {path.name for path in (PROJECT / ".venv" / "bin").iterdir()}
    assert {"inorder", "python", "sam", "uv"} <= there
    variables = ["PYTHON=/python", "POLICY=latest-wins", "STACK=s", "BUCKET=b"]
    for verb in verbs:
        printed = make(PROJECT, "--dry-run", verb, *variables)
        assert printed.returncode == 0, printed.stderr
        for part in re.split(r"\n|&&|\|\||;|\$\(|\bthen\b|\bdo\b|[{}()]", printed.stdout):
            words = [word for word in part.split() if not re.match(r"@?[A-Z_]+=", word)]
            assert not words or words[0].lstrip("@") not in there, (verb, part)


def test_the_bytecode_is_that_of_the_functions_python() -> None:
    printed = make(PROJECT, "--dry-run", "build").stdout
    runtime = template()["Globals"]["Function"]["Runtime"]
    assert f"--python {runtime.removeprefix('python')} " in printed
