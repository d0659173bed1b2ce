"""How each companion refers to the main stack, and what it reads of it while it runs."""

from collections import Counter
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

import main_stack
from inorder import PROJECT
from inorder.aws.stack import COMPANIONS
from inorder.model import policies
from main_stack import Description, MainStack, UnknownPolicy
from tests.support.resolved_template import template

NAMES = [each.parent.name for each in sorted(PROJECT.glob("stacks/*/template.yaml"))]


def references(found: Any) -> Iterator[dict[str, Any]]:
    """List what a part of a template refers to in another stack."""
    if isinstance(found, list):
        found = dict(enumerate(found))
    if isinstance(found, dict):
        for name, value in found.items():
            if name == "Fn::GetStackOutput":
                yield value
            else:
                yield from references(value)


@pytest.mark.parametrize("name", NAMES)
def test_a_companion_refers_to_outputs_of_the_stack_and_repeats_them_for_doctor(name: str) -> None:
    main, companion = template(), template(f"stacks/{name}/template.yaml")
    used = [*references(companion["Resources"])]
    assert all(each["StackName"] == {"Ref": "StackName"} for each in used)
    outputs = {each["OutputName"] for each in used}
    assert outputs <= main["Outputs"].keys()
    repeated = {
        output: reference["OutputName"]
        for output, each in companion["Outputs"].items()
        for reference in references(each)
    }
    assert repeated == {each: each for each in outputs}
    assert companion["Outputs"]["Version"] == main["Outputs"]["Version"]
    assert companion["Parameters"]["StackName"]["Default"] == "inorder"
    assert "Fn::ImportValue" not in str(companion)


def test_no_two_resources_of_a_stack_and_its_companions_have_one_logical_id() -> None:
    files = ["template.yaml", *(f"stacks/{name}/template.yaml" for name in NAMES)]
    ids = Counter(name for file in files for name in template(file)["Resources"])
    assert [name for name, count in ids.items() if count > 1] == []
    assert (*NAMES,) == COMPANIONS


@pytest.mark.parametrize("policy", policies.policies(), ids=str)
def test_the_facts_of_each_policy_are_those_of_the_project(policy: policies.Policy) -> None:
    given = {"Policy": policy.name, "HandleDeletions": "true"}
    read = MainStack(given, {})
    assert (read.facts["keeps"], read.facts["fence"]) == (policy.keeps, policy.fence)
    assert read.handles_deletions is policy.deletions
    assert not MainStack(given | {"HandleDeletions": "false"}, {}).handles_deletions
    with pytest.raises(UnknownPolicy, match="no policy later"):
        _ = MainStack({"Policy": "later"}, {}).facts


def test_the_main_stack_is_described_again_after_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    now, asked = 0.0, list[str]()

    def describe_stacks(StackName: str) -> Any:  # noqa: N803
        asked.append(StackName)
        found = {"OutputKey": "Version", "OutputValue": str(len(asked))}
        return {"Stacks": [{"Parameters": [], "Outputs": [found]}]}

    monkeypatch.setattr(main_stack, "time", SimpleNamespace(monotonic=lambda: now))
    description = Description(SimpleNamespace(describe_stacks=describe_stacks), "other")
    for seconds, version in ((0.0, "1"), (59.9, "1"), (60.0, "2"), (119.9, "2")):
        now = seconds
        assert description.main_stack().outputs == {"Version": version}
    assert asked == ["other"] * 2
