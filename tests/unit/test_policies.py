"""`inorder policy new`, and what `inorder run` refuses before it starts anything."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import click
import pytest
from cfnlint import ManualArgs
from cfnlint.api import lint
from click.testing import CliRunner
from samcli.yamlhelper import yaml_parse

from inorder import cli, policies
from inorder.check import check_file
from inorder.stack import PROJECT

SHIPPED = policies.names()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Copy what a policy consists of."""
    shutil.copytree(PROJECT / "statemachine", tmp_path / "statemachine")
    shutil.copy(PROJECT / "template.yaml", tmp_path)
    (tmp_path / "tests" / "statemachine").mkdir(parents=True)
    return tmp_path


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("source", SHIPPED)
def test_a_new_policy_is_sound_and_leaves_the_others_as_they_are(
    project: Path, source: str
) -> None:
    before = contents(project)
    written = policies.create("made-by-test", source, project)
    template = project / "template.yaml"
    asl = project / "statemachine" / "made_by_test.asl.json"
    assert written == [asl, project / "tests" / "statemachine" / "test_made_by_test.py", template]
    assert contents(project) == before | {file: file.read_bytes() for file in written}
    assert check_file(asl) == []
    assert asl.read_text().startswith(f'{{\n  "Comment": "Made by test, made from {source}: ')
    assert lint(template.read_text(), config=ManualArgs(regions=["us-east-1"])) == []
    assert policies.names(project) == [
        *SHIPPED[: SHIPPED.index(source) + 1],
        "made-by-test",
        *SHIPPED[SHIPPED.index(source) + 1 :],
    ]


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
    policies.create("made-by-test", source, project)
    template = yaml_parse((project / "template.yaml").read_text())
    theirs, mine = resolved(template, source), json.dumps(resolved(template, "made-by-test"))
    old = source.title().replace("-", "")
    assert f"{old}StateMachine" in theirs[0]
    renamed = mine.replace("MadeByTest", old).replace("made_by_test", source.replace("-", "_"))
    assert json.loads(renamed) == theirs
    shipped = yaml_parse((PROJECT / "template.yaml").read_text())
    assert resolved(shipped, source) == theirs


def test_a_policy_can_be_made_of_a_new_one_and_of_a_shipped_one_again(project: Path) -> None:
    policies.create("one", "every-version", project)
    policies.create("two", "one", project)
    policies.create("three", "every-version", project)
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
        ("tested", "latest-wins", "tests/statemachine/test_tested.py exists already"),
    ],
)
def test_what_cannot_be_made_is_said_in_one_line_and_nothing_is_written(
    project: Path, name: str, source: str, complaint: str
) -> None:
    (project / "statemachine" / "taken.asl.json").touch()
    (project / "tests" / "statemachine" / "test_tested.py").touch()
    before = contents(project)
    with pytest.raises(click.ClickException) as raised:
        policies.create(name, source, project)
    assert complaint.removeprefix("an ").removeprefix("a ") in raised.value.message
    assert "\n" not in raised.value.message
    assert contents(project) == before


@pytest.mark.parametrize("part", ["  LatestWinsRole:", "  LatestWins: !Equals", "# --- The policy"])
def test_a_template_without_a_part_is_left_alone(project: Path, part: str) -> None:
    template = project / "template.yaml"
    template.write_text(template.read_text().replace(part, part.replace("e", "3")))
    before = contents(project)
    with pytest.raises(click.ClickException, match=r"template\.yaml is not as expected"):
        policies.create("made-by-test", "latest-wins", project)
    assert contents(project) == before


def test_a_folder_that_cannot_be_written_is_said_and_nothing_is_left(project: Path) -> None:
    (project / "tests" / "statemachine").rmdir()
    before = contents(project)
    with pytest.raises(click.ClickException, match="No such file"):
        policies.create("made-by-test", "latest-wins", project)
    assert contents(project) == before


def test_the_command_says_why_it_made_nothing() -> None:
    result = CliRunner(mix_stderr=False).invoke(cli.main, ["policy", "new", "latest-wins"])
    assert result.exit_code == 1
    assert result.stderr == "Error: The template has a policy latest-wins already.\n"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["nowhere.json"], "Cannot read nowhere.json: No such file or directory."),
        (["."], "Cannot read .: Is a directory."),
        (["bad.json"], "bad.json is not valid JSON: "),
        (["binary.json"], "binary.json is not valid JSON: "),
        (["deep.json"], "deep.json is not valid JSON: "),
        (["good.json", "--policy", "nothing"], "There is no policy 'nothing': latest-wins, "),
        (["good.json", "--image", "nowhere.png"], "Cannot read nowhere.png: "),
    ],
)
def test_bad_input_of_run_is_said_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], complaint: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bad.json").write_text("{'source': 'aws.s3'}")
    Path("binary.json").write_bytes(b"\xff\xd8\xff\xe0")
    Path("deep.json").write_text("[" * 100_000)
    Path("good.json").write_text("{}")
    result = CliRunner(mix_stderr=False).invoke(cli.main, ["run", *arguments])
    assert result.exit_code == 1
    [line] = result.stderr.splitlines()
    assert line.startswith(f"Error: {complaint}")
