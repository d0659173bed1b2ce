"""`inorder policy new`: what it writes, and when it writes nothing."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import pytest
from cfnlint import ManualArgs
from cfnlint.api import lint
from click.testing import CliRunner
from samcli.yamlhelper import yaml_parse

from inorder import PROJECT, cli, new_policy, policies
from inorder.asl import check_file

SHIPPED = policies.names()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Copy the parts of the project that a policy adds to."""
    shutil.copytree(PROJECT / "statemachine", tmp_path / "statemachine")
    shutil.copy(PROJECT / "template.yaml", tmp_path)
    (tmp_path / "tests" / "policies").mkdir(parents=True)
    (tmp_path / "docs").mkdir()
    (tmp_path / policies.DOCUMENT).write_text(
        "Before.\n<!-- table: costs -->\n| old |\n<!-- end -->\nAfter.\n"
    )
    return tmp_path


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("source", SHIPPED)
def test_a_new_policy_is_sound_and_leaves_the_others_as_they_are(
    project: Path, source: str
) -> None:
    before = contents(project)
    written = new_policy.create("made-by-test", source, project)
    template, asl = project / "template.yaml", project / "statemachine" / "made_by_test.asl.json"
    tests = project / "tests" / "policies" / "made_by_test"
    assert written == [
        asl,
        tests / "__init__.py",
        tests / "test_made_by_test.py",
        project / "statemachine" / "policies.toml",
        project / "docs" / "policies.md",
        template,
    ]
    assert contents(project) == before | {file: file.read_bytes() for file in written}
    assert check_file(asl) == []
    assert asl.read_text().startswith(f'{{\n  "Comment": "Made by test, made from {source}: ')
    assert lint(template.read_text(), config=ManualArgs(regions=["us-east-1"])) == []
    in_order = [
        *SHIPPED[: SHIPPED.index(source) + 1],
        "made-by-test",
        *SHIPPED[SHIPPED.index(source) + 1 :],
    ]
    assert policies.names(project) == in_order
    assert yaml_parse(template.read_text())["Parameters"]["Policy"]["AllowedValues"] == in_order


@pytest.mark.parametrize("source", SHIPPED)
def test_a_new_policy_has_the_facts_of_its_source_but_texts_of_its_own(
    project: Path, source: str
) -> None:
    shipped = policies.policies(project)
    new_policy.create("made-by-test", source, project)
    made = policies.policy("made-by-test", project)
    assert made.promise == f"As `{source}`, from which it was made."
    assert made.use == "Say here what it is for."
    copied = policies.policy(source, project)
    assert made == replace(copied, name=made.name, promise=made.promise, use=made.use)
    assert [each for each in policies.policies(project) if each != made] == shipped


def test_a_new_policy_is_a_row_of_the_tables(project: Path) -> None:
    new_policy.create("made-by-test", "optimistic", project)
    before, row, after = (
        (project / policies.DOCUMENT)
        .read_text()
        .partition("| `made-by-test` | 0 / 0 / 1 | 0 / 0 / 1 | 0 / 0 / 1 | - |\n")
    )
    assert before.startswith("Before.\n<!-- table: costs -->\n| cost of |")
    assert row
    assert after.endswith("<!-- end -->\nAfter.\n")


def test_a_project_without_documentation_gets_none(project: Path) -> None:
    shutil.rmtree(project / "docs")
    new_policy.create("made-by-test", "optimistic", project)
    assert not (project / "docs").exists()


def resolved(template: dict[str, Any], policy: str) -> Any:
    """Give the resources and outputs that a policy has, with each Fn::If decided."""
    parameters = {name: each.get("Default") for name, each in template["Parameters"].items()}
    parameters["Policy"] = policy

    def holds(condition: Any) -> bool:
        [(function, operands)] = condition.items()
        if function == "Condition":
            return holds(template["Conditions"][operands])
        if function == "Fn::Equals":
            left, right = (
                parameters[each["Ref"]] if isinstance(each, dict) else each for each in operands
            )
            return bool(left == right)
        held = [holds(each) for each in operands]
        return {"Fn::And": all(held), "Fn::Or": any(held), "Fn::Not": not all(held)}[function]

    def decided(value: Any) -> Any:
        if isinstance(value, list):
            # A join of the ARNs of all policies has an empty text in the place of each other one.
            return [decided(each) for each in value if decided(each) != ""]
        if not isinstance(value, dict):
            return value
        if "Fn::If" in value:
            condition, then, otherwise = value["Fn::If"]
            return decided(then if holds({"Condition": condition}) else otherwise)
        return {key: decided(each) for key, each in value.items() if key != "Condition"}

    return [
        {
            name: decided(each)
            for name, each in template[section].items()
            if holds({"Condition": each["Condition"]} if "Condition" in each else {"Fn::And": []})
        }
        for section in ("Resources", "Outputs")
    ]


@pytest.mark.parametrize("source", SHIPPED)
def test_a_new_policy_deploys_what_its_source_does(project: Path, source: str) -> None:
    new_policy.create("made-by-test", source, project)
    template = yaml_parse((project / "template.yaml").read_text())
    theirs, mine = resolved(template, source), json.dumps(resolved(template, "made-by-test"))
    old = source.title().replace("-", "")
    assert f"{old}StateMachine" in theirs[0]
    renamed = mine.replace("MadeByTest", old).replace("made_by_test", source.replace("-", "_"))
    assert json.loads(renamed) == theirs
    shipped = yaml_parse((PROJECT / "template.yaml").read_text())
    assert resolved(shipped, source) == theirs


def test_a_policy_can_be_made_of_a_new_one_and_of_a_shipped_one_again(project: Path) -> None:
    new_policy.create("one", "every-version", project)
    new_policy.create("two", "one", project)
    new_policy.create("three", "every-version", project)
    template = (project / "template.yaml").read_text()
    assert lint(template, config=ManualArgs(regions=["us-east-1"])) == []
    conditions = yaml_parse(template)["Conditions"]
    alike = {each["Condition"] for each in conditions["LikeEveryVersion"]["Fn::Or"]}
    assert alike >= {"EveryVersion", "One", "Two", "Three"}
    for name in ("one", "two", "three"):
        assert check_file(project / "statemachine" / f"{name}.asl.json") == []


@pytest.mark.parametrize(
    ("name", "source", "complaint"),
    [
        ("latest-wins", "latest-wins", "a policy latest-wins already"),
        ("My-Policy", "latest-wins", "no name for a policy"),
        ("made_by_test", "latest-wins", "no name for a policy"),
        ("../my-policy", "latest-wins", "no name for a policy"),
        ("my--policy", "latest-wins", "no name for a policy"),
        ("made-by-test\n", "latest-wins", "no name for a policy"),
        ("", "latest-wins", "no name for a policy"),
        ("x" * 41, "latest-wins", "no name for a policy"),
        ("made-by-test", "nothing", "no policy 'nothing': latest-wins, "),
        ("invert-image", "latest-wins", "an InvertImageRole already"),
        ("removes-outputs", "latest-wins", "a RemovesOutputs already"),
        ("taken", "latest-wins", "statemachine/taken.asl.json exists already"),
        ("tested", "latest-wins", "tests/policies/tested exists already"),
    ],
)
def test_a_policy_that_cannot_be_made_is_refused_in_one_line_and_nothing_is_written(
    project: Path, name: str, source: str, complaint: str
) -> None:
    (project / "statemachine" / "taken.asl.json").touch()
    (project / "tests" / "policies" / "tested").mkdir()
    before = contents(project)
    with pytest.raises(click.ClickException) as raised:
        new_policy.create(name, source, project)
    assert complaint.removeprefix("an ").removeprefix("a ") in raised.value.message
    assert "\n" not in raised.value.message
    assert contents(project) == before


@pytest.mark.parametrize(
    ("file", "before", "after"),
    [
        ("template.yaml", "  - latest-wins\n", ""),
        ("statemachine/policies.toml", "[latest-wins]", '["latest-wins"]'),
        ("statemachine/latest_wins.asl.json", '"States": {', '"States": {{'),
        ("statemachine/latest_wins.asl.json", '"lease_polls": 28', '"lease_polls": "28"'),
        ("docs/policies.md", "table: costs", "table: nothing"),
    ],
)
def test_a_project_that_is_not_as_expected_is_left_alone(
    project: Path, file: str, before: str, after: str
) -> None:
    path = project / file
    assert before in path.read_text()
    path.write_text(path.read_text().replace(before, after))
    files = contents(project)
    with pytest.raises(click.ClickException) as raised:
        new_policy.create("made-by-test", "latest-wins", project)
    assert "\n" not in raised.value.message
    assert contents(project) == files
    assert not (project / "tests" / "policies" / "made_by_test").exists()


@pytest.mark.parametrize("part", ["  LatestWinsRole:", "  LatestWins: !Equals", "# --- The policy"])
def test_a_template_without_a_part_is_left_alone(project: Path, part: str) -> None:
    template = project / "template.yaml"
    template.write_text(template.read_text().replace(part, part.replace("e", "3")))
    before = contents(project)
    with pytest.raises(click.ClickException, match=r"template\.yaml is not as expected"):
        new_policy.create("made-by-test", "latest-wins", project)
    assert contents(project) == before


def test_if_a_file_cannot_be_written_all_are_left_as_they_were(project: Path) -> None:
    (project / "tests" / "policies").rmdir()
    before = contents(project)
    with pytest.raises(click.ClickException, match="No such file"):
        new_policy.create("made-by-test", "latest-wins", project)
    assert contents(project) == before


def test_the_command_says_why_it_made_nothing() -> None:
    result = CliRunner(mix_stderr=False).invoke(cli.main, ["policy", "new", "latest-wins"])
    assert result.exit_code == 1
    assert result.stderr == "Error: The template has a policy latest-wins already.\n"
