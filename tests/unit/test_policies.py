"""The facts about the policies, and the tables that are rendered from them."""

from typing import Any

import pytest
from samcli.yamlhelper import yaml_parse

from inorder import PROJECT
from inorder.asl.definition import INVOKE, assigned, is_end, removed
from inorder.asl.roles import Role, doing
from inorder.model import outcomes, policies
from tests.support.replacing import replaced

POLICIES = policies.policies()
TEMPLATE = yaml_parse((PROJECT / "template.yaml").read_text())


def test_the_template_offers_all_policies_in_the_same_order() -> None:
    parameter = TEMPLATE["Parameters"]["Policy"]
    assert parameter["AllowedValues"] == policies.names()
    assert parameter["Default"] == policies.names()[0]  # the table says so
    files = {f"statemachine/{file.name}" for file in PROJECT.glob("statemachine/*.asl.json")}
    assert {policy.asl_file for policy in POLICIES} == files
    with pytest.raises(KeyError):
        policies.policy("nothing")


def unwritten(states: dict[str, Any], without_output: frozenset[str]) -> list[str]:
    """List the outcomes that no state writes, and the states that keep another event's outcome."""
    written = {assigned(state).get("outcome", {}).get("S") for state in states.values()}
    claims = (
        {*doing(states, Role.CLAIMS), *doing(states, Role.RECORDS)} if without_output else set()
    )
    keeping = {name for name in claims if "outcome" not in removed(states[name])}
    return sorted(without_output - written) + sorted(keeping)


def test_states_must_write_and_remove_an_outcome_without_output() -> None:
    states, skipped = policies.definition("latest-wins")["States"], frozenset({"Skipped"})
    claims = ["Claim Key", "Record Newest Event"]
    assert unwritten(states, skipped) == ["Skipped", *claims]
    for name in claims:
        states[name]["Parameters"]["UpdateExpression"] += ", outcome"
    release = states["Release Lock"]["Parameters"]
    release["UpdateExpression"] = replaced(
        release["UpdateExpression"], "SET ", "SET outcome = :outcome, "
    )
    release["ExpressionAttributeValues"][":outcome"] = {"S": "Skipped"}
    assert unwritten(states, skipped) == []


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)
def test_the_facts_are_those_of_the_file(policy: policies.Policy) -> None:
    states = policies.definition(policy.name)["States"]
    ends = {name: state for name, state in states.items() if is_end(state)}
    good = {state["Parameters"]["outcome"] for state in ends.values() if state["Type"] == "Pass"}
    bad = {state["Error"] for state in ends.values() if state["Type"] == "Fail"}
    assert good <= outcomes.FINISHED | {outcomes.RETRYING} | policy.without_output
    assert unwritten(states, policy.without_output) == []
    queued = {outcomes.PARKED, outcomes.NOT_PARKED}
    assert bad <= queued or not doing(states, Role.HANDS_OVER)  # then it loses its events
    if policy.name == "latest-wins":
        assert good | bad == outcomes.FINISHED | {outcomes.RETRYING} | queued
    invoked = [state["Parameters"] for state in states.values() if state.get("Resource") == INVOKE]
    assert [parameters["Payload"].get("fence") for parameters in invoked] == [policy.fence]


def test_the_tables_of_the_documentation_are_up_to_date() -> None:
    texts = [file.read_text() for file in PROJECT.glob("docs/*.md")]
    tables = [text for text in texts if "<!-- table: " in text]
    assert tables
    rendered = list(map(policies.with_tables, tables))
    assert rendered == tables, "run: .venv/bin/inorder policy tables"
