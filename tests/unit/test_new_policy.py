"""`inorder policy new`: what it writes, and when it writes nothing."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest
from samcli.yamlhelper import yaml_parse

from inorder import PROJECT, asl, new_policy
from inorder.asl import check_file
from inorder.errors import Failure
from inorder.model import policies
from tests.support.resolved_template import resolve

SHIPPED = policies.names()
SHIPPED_TEMPLATE = yaml_parse((PROJECT / "template.yaml").read_text())


def copy_of_project(folder: Path) -> Path:
    """Copy the parts of the project that a policy adds to."""
    shutil.copytree(PROJECT / "statemachine", folder / "statemachine")
    shutil.copy(PROJECT / "template.yaml", folder)
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(PROJECT / "tests" / "policies", folder / "tests" / "policies", ignore=ignored)
    return folder


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return copy_of_project(tmp_path)


class Made(NamedTuple):
    """A project with a policy that was made from another one."""

    source: str
    project: Path
    written: list[Path]


@pytest.fixture(scope="module", params=SHIPPED)
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Made:
    project = copy_of_project(tmp_path_factory.mktemp("project"))
    return Made(request.param, project, new_policy.create("made-by-test", request.param, project))


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_new_policy_is_sound_and_in_order(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    # Its states are those of a shipped file, whose schema is checked there.
    monkeypatch.setattr(asl, "STAGES", asl.STAGES[1:])
    assert check_file(made.written[0]) == []
    after = SHIPPED.index(made.source) + 1
    in_order = [*SHIPPED[:after], "made-by-test", *SHIPPED[after:]]
    template = yaml_parse(made.written[-1].read_text())
    assert policies.names(made.project) == in_order
    assert template["Parameters"]["Policy"]["AllowedValues"] == in_order


def test_the_tests_of_a_new_policy_name_it_wherever_they_named_its_source(made: Made) -> None:
    source, old = made.source, policies.stem(made.source)
    folder = made.project / "tests" / "policies"
    for file in (folder / old).glob("*.py"):
        copy = folder / "made_by_test" / file.name.replace(old, "made_by_test")
        text = copy.read_text(encoding="utf-8")
        assert not re.search(rf"\b({source}|{old}|{source.title().replace('-', '')})\b", text)
        assert set(re.findall(r'policy\("(.+)"\)', text)) <= {"made-by-test"}


def test_a_new_policy_has_the_facts_of_its_source_but_texts_of_its_own(made: Made) -> None:
    new = policies.policy("made-by-test", made.project)
    copied = policies.policy(made.source, made.project)
    assert new.promise == f"As `{made.source}`, from which it was made."
    own = replace(copied, name=new.name, promise=new.promise, use=new.use, like=new.like)
    assert (new, new.like) == (own, copied.like or made.source)
    others = [each for each in policies.policies(made.project) if each != new]
    assert others == policies.policies()


def test_a_new_policy_deploys_what_its_source_does(made: Made) -> None:
    template = yaml_parse(made.written[-1].read_text())
    theirs, _ = resolve(template, {"Policy": made.source})
    mine, _ = resolve(template, {"Policy": "made-by-test"})
    old = made.source.title().replace("-", "")
    both = f'"{old}StateMachine", "MadeByTestStateMachine"'  # what the rule may start
    for sections in (mine, theirs):
        text = json.dumps(sections)
        assert both in text
        text = text.replace(both, f'"{old}StateMachine"').replace("MadeByTest", old)
        text = text.replace("made-by-test", made.source)
        renamed = json.loads(text.replace("made_by_test", policies.stem(made.source)))
        assert renamed == resolve(SHIPPED_TEMPLATE, {"Policy": made.source})[0]


def test_with_several_new_policies_each_reference_leads_somewhere(project: Path) -> None:
    # Fn::Or takes ten conditions, so with your own there may be ten policies with a table.
    sources = ("every-version", "content-hash", "first-wins", "uncoordinated")
    made = {f"of-{source}": source for source in sources}
    made |= {"of-new": "of-every-version", "again": "every-version"}
    for name, source in made.items():
        new_policy.create(name, source, project)
    template = yaml_parse((project / "template.yaml").read_text())
    for name in made:
        sections, referred = resolve(template, {"Policy": name})
        assert referred & template["Resources"].keys() <= sections["Resources"].keys()
    conditions = template["Conditions"].values()
    parts = [part for each in conditions for part in [each, *each.get("Fn::And", [])]]
    assert max(len(each.get("Fn::Or", [])) for each in parts) <= 10
    alike = {each["Condition"] for each in template["Conditions"]["ReadsVersions"]["Fn::Or"]}
    assert alike >= {"EveryVersion", "OfEveryVersion", "OfNew", "Again"}


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("latest-wins", "a policy latest-wins already"),
        ("../my", "no name for a policy"),
        ("my-policy\n", "no name for a policy"),
        ("invert-image", "InvertImageRole already"),
        ("taken", "statemachine/taken.asl.json exists already"),
        ("common", "tests/policies/common.py exists already"),
    ],
)
def test_after_a_refusal_nothing_is_written(project: Path, name: str, complaint: str) -> None:
    (project / "statemachine" / "taken.asl.json").touch()
    assert complaint in refused(project, name)


def refused(project: Path, name: str = "made-by-test") -> str:
    """Give the one line with which a policy is refused; nothing may be written."""
    before = contents(project)
    with pytest.raises(Failure) as raised:
        new_policy.create(name, "latest-wins", project)
    assert contents(project) == before
    return str(raised.value)


@pytest.mark.parametrize(
    ("file", "before", "after"),
    [
        ("template.yaml", "  - latest-wins\n", ""),
        ("statemachine/policies.toml", "[latest-wins]", '["latest-wins"]'),
    ],
)
def test_an_unexpected_file_is_left_alone(
    project: Path, file: str, before: str, after: str
) -> None:
    path = project / file
    assert before in path.read_text()
    path.write_text(path.read_text().replace(before, after))
    assert refused(project)


def test_what_was_written_before_a_failure_is_removed(project: Path) -> None:
    # A folder cannot be copied as a file.
    (project / "tests" / "policies" / "latest_wins" / "unread.py").mkdir()
    assert refused(project)
    assert not (project / "tests" / "policies" / "made_by_test").exists()
