"""What can be told from the ASL files and the template alone. The rest is what `check` tells."""

from __future__ import annotations

import json
from typing import Any

import pytest
from samcli.yamlhelper import yaml_parse

from inorder.check import EXPRESS_SECONDS, lease_numbers
from inorder.stack import PROJECT


@pytest.fixture(scope="module")
def template() -> dict[str, Any]:
    parsed: dict[str, Any] = yaml_parse((PROJECT / "template.yaml").read_text())
    return parsed


@pytest.fixture(scope="module")
def definition() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(
        (PROJECT / "statemachine" / "latest_wins.asl.json").read_text()
    )
    return loaded


def test_no_holder_outlives_its_lease_and_no_execution_express(definition: dict[str, Any]) -> None:
    numbers = lease_numbers(definition)
    assert numbers
    assert numbers == (82, 84, 87, 286)  # as the file says
    assert numbers.holder < numbers.lease < numbers.waiter
    assert numbers.longest_execution < EXPRESS_SECONDS
    for number in numbers:
        assert f"{number:g}" in definition["Comment"]


def test_the_function_ends_before_the_state_that_waits_for_it(
    definition: dict[str, Any], template: dict[str, Any]
) -> None:
    function = template["Resources"]["InvertImageFunction"]["Properties"]
    assert function["Timeout"] < definition["States"]["Invert Image"]["TimeoutSeconds"]
    assert template["Parameters"]["SlowSeconds"]["MaxValue"] < function["Timeout"]


def test_a_look_sees_what_was_written_before_it(definition: dict[str, Any]) -> None:
    # No engine at hand reads anything old, so that no run of the state can show it.
    assert definition["States"]["Read Key"]["Parameters"]["ConsistentRead"] is True
