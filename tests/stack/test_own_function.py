"""A function of one's own, which a stack invokes instead of the shipped one (WorkFunctionArn)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from inorder import PROJECT
from inorder.aws.stack import deploy, sam_deploy
from inorder.local_aws import LocalAws
from tests.stack.conftest import Workflow

EXAMPLE = PROJECT / "examples" / "json_index" / "template.yaml"


@pytest.fixture(scope="module")
def indexing(local: LocalAws) -> Workflow:
    """Give a stack that invokes the example, deployed as docs/function.md says."""
    deploy(local, "indexing", {})
    outputs = outputs_of(local, "indexing")
    parameters = {name: outputs[name] for name in ("OutputBucketName", "WorkFunctionPolicyArn")}
    sam_deploy(local, "json-index", parameters, EXAMPLE)
    [arn] = outputs_of(local, "json-index").values()
    return Workflow(local, deploy(local, "indexing", {"WorkFunctionArn": arn}))


def outputs_of(local: LocalAws, name: str) -> dict[str, str]:
    [stack] = local.client("cloudformation").describe_stacks(StackName=name)["Stacks"]
    return {each["OutputKey"]: each["OutputValue"] for each in stack["Outputs"]}


def index(workflow: Workflow, key: str) -> dict[str, Any] | None:
    content = workflow.output(key)
    return None if content is None else dict(json.loads(content))


def outcomes(workflow: Workflow, key: str, count: int) -> list[str | None]:
    return [execution.outcome for execution in workflow.of_key(key, count)]


def test_the_shipped_function_is_gone_and_the_output_names_the_own_one(indexing: Workflow) -> None:
    functions = indexing.local.client("lambda")
    names = [each["FunctionName"] for each in functions.list_functions()["Functions"]]
    assert not [name for name in names if name.startswith("indexing-InvertImage")]
    own = functions.get_function_configuration(FunctionName=indexing.stack.function_name)
    assert own["FunctionArn"] == indexing.stack.function_name
    assert own["Handler"] == "app.handler"


def test_the_index_follows_the_document_whatever_arrives_late_or_twice(indexing: Workflow) -> None:
    key = "logs/day 1.jsonl"
    indexing.upload(key, b'{"id": 1}\n{"id": 2}\n')
    assert outcomes(indexing, key, 1) == ["Processed"]
    first = index(indexing, key)
    assert first
    assert (first["rows"], first["fields"]) == (2, {"id": {"rows": 2, "types": ["number"]}})

    indexing.upload(key, b'{"name": "x"}\n')
    assert outcomes(indexing, key, 2) == ["Processed", "Processed"]
    old, new = indexing.events(key, 2)
    second = index(indexing, key)
    assert second
    assert second["fields"] == {"name": {"rows": 1, "types": ["string"]}}
    assert second["event"] == new["detail"]["object"]["sequencer"] + "#"

    assert indexing.run(old).outcome == "Superseded"
    assert indexing.run(new).outcome == "Duplicate"
    assert index(indexing, key) == second

    indexing.delete(key)
    assert outcomes(indexing, key, 5)[-1] == "Processed"
    assert index(indexing, key) is None
    assert indexing.run(new).outcome == "Superseded"
    assert index(indexing, key) is None
    indexing.assert_quiet()


def test_a_document_that_is_no_json_is_parked_with_the_line(indexing: Workflow) -> None:
    indexing.parked()
    indexing.upload("bad.jsonl", b"{}\nno JSON\n")
    assert outcomes(indexing, "bad.jsonl", 1) == ["Parked"]
    [message] = indexing.parked()
    assert message["reason"]["Error"] == "InvalidDocument"
    assert "Line 2" in message["reason"]["Cause"]
    assert index(indexing, "bad.jsonl") is None
