"""The facts about the policies, and the tables that are rendered from them."""

import pytest
from samcli.yamlhelper import yaml_parse

from inorder import PROJECT
from inorder.asl.definition import INVOKE, is_end
from inorder.asl.roles import Role, doing
from inorder.model import outcomes, policies

POLICIES = policies.policies()
TEMPLATE = yaml_parse((PROJECT / "template.yaml").read_text())


def test_the_template_offers_the_policies_in_the_same_order_and_no_file_is_of_none() -> None:
    assert TEMPLATE["Parameters"]["Policy"]["AllowedValues"] == policies.names()
    files = {f"statemachine/{file.name}" for file in PROJECT.glob("statemachine/*.asl.json")}
    assert {policy.asl_file for policy in POLICIES} == files
    with pytest.raises(KeyError):
        policies.policy("nothing")


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)
def test_the_facts_are_those_of_the_file(policy: policies.Policy) -> None:
    states = policies.definition(policy.name)["States"]
    ends = {name: each for name, each in states.items() if is_end(each)}
    good = {each["Parameters"]["outcome"] for each in ends.values() if each["Type"] == "Pass"}
    bad = {each["Error"] for each in ends.values() if each["Type"] == "Fail"}
    assert good <= outcomes.FINISHED | {outcomes.RETRYING}
    queued = {outcomes.PARKED, outcomes.NOT_PARKED}
    assert bad <= queued or not doing(states, Role.HANDS_OVER)  # then it loses its events
    if policy.name == "latest-wins":
        assert good | bad == outcomes.FINISHED | {outcomes.RETRYING} | queued
    invoked = [each["Parameters"] for each in states.values() if each.get("Resource") == INVOKE]
    assert [parameters["Payload"].get("fence") for parameters in invoked] == [policy.fence]


def test_the_tables_of_the_documentation_are_up_to_date() -> None:
    texts = [file.read_text() for file in PROJECT.glob("docs/*.md")]
    tables = [text for text in texts if "<!-- table: " in text]
    assert tables
    assert list(map(policies.with_tables, tables)) == tables
