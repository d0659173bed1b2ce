"""The facts about the policies, and the tables that are rendered from them."""

from __future__ import annotations

from pathlib import Path

import pytest
from samcli.yamlhelper import yaml_parse

from inorder import PROJECT
from inorder.asl.definition import INVOKE
from inorder.asl.lease import lease_numbers, longest_execution
from inorder.demo import run as demo
from inorder.model import policies

POLICIES = policies.policies()
EACH = pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)
TEMPLATE = yaml_parse((PROJECT / "template.yaml").read_text())


def test_the_template_offers_the_policies_in_the_same_order() -> None:
    assert TEMPLATE["Parameters"]["Policy"]["AllowedValues"] == policies.names()


def test_each_asl_file_is_that_of_a_policy() -> None:
    files = {f"statemachine/{file.name}" for file in PROJECT.glob("statemachine/*.asl.json")}
    assert {policy.asl_file for policy in POLICIES} == files


@EACH
def test_the_fence_is_the_one_that_the_file_passes_on(policy: policies.Policy) -> None:
    states = policies.definition(policy.name)["States"].values()
    payloads = [each["Parameters"]["Payload"] for each in states if each.get("Resource") == INVOKE]
    assert [payload.get("fence") for payload in payloads] == [policy.fence]


@EACH
def test_the_template_removes_outputs_for_the_policies_that_do(policy: policies.Policy) -> None:
    conditions = TEMPLATE["Conditions"]
    [_, any_of] = conditions["RemovesOutputs"]["Fn::And"]
    removing = [conditions[each["Condition"]]["Fn::Equals"][1] for each in any_of["Fn::Or"]]
    assert policy.deletions == (policy.name in removing)


def test_the_demonstration_offers_the_policies_that_make_pictures_but_the_one_to_compare() -> None:
    offered = demo.choices()
    assert offered[0] == "latest-wins"
    assert set(offered) >= {"latest-wins", "every-version", "first-wins", "optimistic"}
    assert not set(offered) & {"content-hash", "uncoordinated"}


def test_there_is_no_policy_of_another_name() -> None:
    with pytest.raises(KeyError):
        policies.policy("nothing")


def test_a_table_has_a_row_for_each_policy() -> None:
    rendered = policies.tables()
    assert list(rendered) == ["policies", "costs", "seconds"]
    for table in rendered.values():
        _, _, *rows = table.splitlines()
        assert [row.split("`")[1] for row in rows] == policies.names()
    assert "| `latest-wins` | 2 / 0 / 1 | 1 / 1 / 0 | 1 / 1 / 0 | 4 / 2 / 1 |" in rendered["costs"]
    assert "| `optimistic` | 0 / 0 / 1 | 0 / 0 / 1 | 0 / 0 / 1 | - |" in rendered["costs"]
    definition = policies.definition("latest-wins")
    row = " | ".join(f"{each:g}" for each in lease_numbers(definition) or ())
    assert f"| `latest-wins` | {row} |" in rendered["seconds"]
    seconds = longest_execution(policies.definition("optimistic"))
    assert f"| `optimistic` | - | - | - | {seconds:g} |" in rendered["seconds"]


@pytest.mark.parametrize("between", ["", "| old |\n| --- |\n"])
def test_a_table_is_written_between_its_markers_and_nowhere_else(between: str) -> None:
    text = f"Before.\n<!-- table: costs -->\n{between}<!-- end -->\n| another |\n"
    costs = policies.tables()["costs"]
    rewritten = f"Before.\n<!-- table: costs -->\n{costs}<!-- end -->\n| another |\n"
    assert policies.with_tables(text) == rewritten
    assert policies.with_tables(rewritten) == rewritten


@pytest.mark.parametrize("file", sorted(PROJECT.glob("docs/*.md")), ids=lambda file: file.name)
def test_the_tables_of_the_documentation_are_up_to_date(file: Path) -> None:
    text = file.read_text()
    assert policies.with_tables(text) == text
