"""A function of one's own, which a stack invokes instead of the shipped one (WorkFunctionArn)."""

from __future__ import annotations

import json

from inorder import PROJECT
from inorder.aws.stack import deploy, sam_deploy
from inorder.local_aws import LocalAws
from tests.stack.conftest import Workflow

EXAMPLE = PROJECT / "examples" / "json_index" / "template.yaml"


def outputs_of(local: LocalAws, name: str) -> dict[str, str]:
    [stack] = local.client("cloudformation").describe_stacks(StackName=name)["Stacks"]
    return {each["OutputKey"]: each["OutputValue"] for each in stack["Outputs"]}


def test_the_example_deployed_as_its_document_says_is_invoked_instead_of_the_shipped_function(
    local: LocalAws,
) -> None:
    deploy(local, "indexing", {})
    outputs = outputs_of(local, "indexing")
    parameters = {name: outputs[name] for name in ("OutputBucketName", "WorkFunctionPolicyArn")}
    sam_deploy(local, "json-index", parameters, EXAMPLE)
    [arn] = outputs_of(local, "json-index").values()
    indexing = Workflow(local, deploy(local, "indexing", {"WorkFunctionArn": arn}))

    functions = local.client("lambda")
    names = [each["FunctionName"] for each in functions.list_functions()["Functions"]]
    assert not [name for name in names if name.startswith("indexing-InvertImage")]
    assert indexing.stack.function_name == arn

    key = "logs/day 1.jsonl"
    indexing.upload(key, b'{"id": 1}\n{"id": 2}\n')
    [processed] = indexing.of_key(key, 1)
    assert processed.outcome == "Processed"
    index = json.loads(indexing.output(key) or "")
    assert (index["rows"], index["fields"]) == (2, {"id": {"rows": 2, "types": ["number"]}})
    assert index["event"] == f"{processed.sequencer}#"
    indexing.delete(key)
    assert indexing.of_key(key, 2)[-1].outcome == "Processed"
    assert indexing.output(key) is None
    indexing.assert_quiet()
