"""The facts about the policies, and the tables that are rendered from them."""

from __future__ import annotations

import pytest
from samcli.yamlhelper import yaml_parse

from inorder import PROJECT
from inorder.asl.definition import INVOKE, is_end
from inorder.model import outcomes, policies

POLICIES = policies.policies()
TEMPLATE = yaml_parse((PROJECT / "template.yaml").read_text())


def test_the_template_offers_the_policies_in_the_same_order_and_each_file_is_of_one() -> None:
    assert TEMPLATE["Parameters"]["Policy"]["AllowedValues"] == policies.names()
    files = {f"statemachine/{file.name}" for file in PROJECT.glob("statemachine/*.asl.json")}
    assert {policy.asl_file for policy in POLICIES} == files
    with pytest.raises(KeyError):
        policies.policy("nothing")


@pytest.mark.parametrize("policy", ["every-version", "first-wins", "content-hash"])
def test_a_policy_ends_only_in_outcomes_that_the_default_one_has(policy: str) -> None:
    states = policies.definition(policy)["States"].values()
    ends = {each.get("Error") or each["Parameters"]["outcome"] for each in states if is_end(each)}
    assert ends <= outcomes.finished() | outcomes.parked() | {outcomes.retrying(), "NotParked"}


def test_the_outcomes_are_told_apart_by_what_the_default_policy_does_with_the_event() -> None:
    assert outcomes.finished() == {"Processed", "Superseded", "Duplicate"}
    assert outcomes.parked() == {"Parked", "InvalidEvent"}
    assert outcomes.retrying() == "Retrying"


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)
def test_fence_and_deletions_are_those_of_the_file_and_of_the_template(
    policy: policies.Policy,
) -> None:
    states = policies.definition(policy.name)["States"].values()
    payloads = [each["Parameters"]["Payload"] for each in states if each.get("Resource") == INVOKE]
    assert [payload.get("fence") for payload in payloads] == [policy.fence]
    conditions = TEMPLATE["Conditions"]
    [_, any_of] = conditions["RemovesOutputs"]["Fn::And"]
    removing = [conditions[each["Condition"]]["Fn::Equals"][1] for each in any_of["Fn::Or"]]
    assert policy.deletions == (policy.name in removing)


def test_a_table_has_a_row_for_each_policy_and_is_written_between_its_markers() -> None:
    rendered = policies.tables()
    for table in rendered.values():
        _, _, *rows = table.splitlines()
        assert [row.split("`")[1] for row in rows] == policies.names()
    text = "Before.\n<!-- table: costs -->\n{}<!-- end -->\n| another |\n"
    rewritten = policies.with_tables(text.format("| old |\n"))
    assert rewritten == text.format(rendered["costs"])


def test_the_tables_of_the_documentation_are_up_to_date() -> None:
    texts = [file.read_text() for file in PROJECT.glob("docs/*.md")]
    tables = [text for text in texts if "<!-- table: " in text]
    assert tables
    assert list(map(policies.with_tables, tables)) == tables
