"""`inorder policy new`: what it writes, that its tests pass, and when it writes nothing."""

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from difflib import SequenceMatcher
from pathlib import Path

import pytest
from samcli.yamlhelper import yaml_parse

from inorder import PROJECT, new_policy
from inorder.errors import Failure
from inorder.model import policies
from tests.support.replacing import replaced
from tests.support.resolved_template import resolve

SHIPPED = [policy.name for policy in policies.policies() if policy.like is None]
# Bytecode is copied, so that no copy compiles all files again; not what is being written of it.
NOT_COPIED = shutil.ignore_patterns(".git", ".venv", ".aws-sam", "out", ".*_cache", "*.pyc.*")
# Of the tests that read each policy, the quick ones, for one source; at night, all.
SOURCES, TESTS = ["every-version"], ["tests/unit/test_policies.py", "tests/unit/test_documents.py"]
TESTS += ["tests/template", "tests/policies/test_definition.py", "tests/policies/made_by_test"]
if os.environ.get("NIGHT"):
    SOURCES, TESTS = SHIPPED, ["tests/unit", "tests/template", "tests/policies"]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return Path(shutil.copytree(PROJECT, tmp_path / "project", ignore=NOT_COPIED))


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("source", SOURCES)
def test_a_new_policy_passes_the_tests(project: Path, source: str) -> None:
    new_policy.create("made-by-test", source, project)
    command = [sys.executable, "-m", "pytest", "-q", *TESTS]
    others = ["tests/unit/test_new_policy.py", "tests/unit/test_project.py"]  # of the checkout
    command += [f"--ignore={file}" for file in others]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)  # noqa: S603
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr


@pytest.mark.parametrize("source", SHIPPED)
def test_a_new_policy_is_few_lines_and_deploys_like_another(project: Path, source: str) -> None:
    before = (project / "template.yaml").read_text(encoding="utf-8")
    new_policy.create("made-by-test", source, project)
    after = (project / "template.yaml").read_text(encoding="utf-8")
    one, other = before.splitlines(), after.splitlines()
    edits = SequenceMatcher(None, one, other, autojunk=False).get_opcodes()
    added = [other[a:b] for kind, _, _, a, b in edits if kind != "equal"]
    assert len(added) <= 5
    assert sum(bool(line) and line not in one for place in added for line in place) <= 22
    old = "".join(source.title().split("-"))
    mine, theirs = (
        json.dumps(resolve(yaml_parse(after), {"Policy": policy})["Resources"])
        for policy in ("made-by-test", source)
    )
    files = policies.own_file("made-by-test"), policies.asl_file(source)
    for new, copied in (("made-by-test", source), ("MadeByTest", old), files):
        mine, theirs = (replaced(text, new, copied) for text in (mine, theirs))
    assert json.loads(mine) == json.loads(theirs)
    document = (project / policies.DOCUMENT).read_text(encoding="utf-8")
    [default] = [line for line in document.splitlines() if line.endswith("The default. |")]
    assert default.startswith("| `latest-wins` |")


def test_a_new_policy_starts_with_the_facts_of_its_source(project: Path) -> None:
    for name, source in (("made-by-test", "every-version"), ("again", "made-by-test")):
        new_policy.create(name, source, project)
        new, original = policies.policy(name, project), policies.policy(source, project)
        assert new == replace(original, name=name, file="", like="every-version")


def test_the_tables_are_rendered_by_a_command(project: Path) -> None:
    document = project / policies.DOCUMENT
    right = document.read_text(encoding="utf-8")
    document.write_text(replaced(right, "The default. |", "Nothing. |"), encoding="utf-8")
    command = [sys.executable, "-m", "inorder.commands.main", "policy", "tables"]
    assert subprocess.check_output(command, cwd=project, text=True) == "Written: docs/policies.md\n"  # noqa: S603
    assert document.read_text(encoding="utf-8") == right


def test_the_command_names_files_stack_name_and_next_step(project: Path) -> None:
    command = [sys.executable, "-m", "inorder.commands.main", "policy", "new", "fourteen-chars"]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, check=True)  # noqa: S603
    lines = done.stdout.splitlines()
    assert "Written: statemachine/fourteen_chars.asl.json" in lines
    assert "Edited: template.yaml" in lines
    assert lines[-1].endswith("the stack's name may now have 65 instead of 66.")
    edited = "statemachine/fourteen_chars.asl.json"
    assert done.stderr == f"Now edit {edited}, and then: make prove POLICY=fourteen-chars\n"


@pytest.mark.parametrize(
    ("name", "file", "before", "after", "complaint"),
    [
        ("latest-wins", "", "", "", "a policy latest-wins already"),
        ("../my", "", "", "", "no name for a policy"),
        ("my-policy\n", "", "", "", "no name for a policy"),
        ("common", "", "", "", "tests/policies/common.py exists already"),
        ("m", "template.yaml", "  UncoordinatedState", "  MState", "has a MStateMachine already"),
        ("m", "template.yaml", "      - latest-wins\n", "", "'- latest-wins' must be there once"),
        ("m", policies.FACTS, "[latest-wins]", "['latest-wins']", "'[latest-wins]' must be there"),
        # What is written before the document does not stay.
        ("m", policies.DOCUMENT, "table: costs", "table: none", "there is no table none"),
    ],
)
def test_after_a_refusal_nothing_is_written(
    project: Path, name: str, file: str, before: str, after: str, complaint: str
) -> None:
    if file:
        text = (project / file).read_text(encoding="utf-8")
        (project / file).write_text(replaced(text, before, after), encoding="utf-8")
    files = {path: path.read_bytes() for path in project.rglob("*") if path.is_file()}
    with pytest.raises(Failure, match=re.escape(complaint)):
        new_policy.create(name, "latest-wins", project)
    assert files == {path: path.read_bytes() for path in project.rglob("*") if path.is_file()}
    assert not (project / "tests" / "policies" / "m").exists()
