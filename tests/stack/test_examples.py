"""The example of a function of one's own, deployed as its document says."""

import json

from inorder import PROJECT
from inorder.aws.stack import deploy, sam_deploy
from inorder.local_aws import LocalAws
from tests.stack.conftest import Workflow

EXAMPLES = PROJECT / "examples"


def outputs_of(local: LocalAws, stack: str) -> dict[str, str]:
    [found] = local.client("cloudformation").describe_stacks(StackName=stack)["Stacks"]
    return {each["OutputKey"]: each["OutputValue"] for each in found["Outputs"]}


def test_an_own_function_deployed_as_its_document_says_is_invoked_instead_of_the_shipped_one(
    local: LocalAws,
) -> None:
    deploy(local, "indexing", {})
    outputs = outputs_of(local, "indexing")
    parameters = {name: outputs[name] for name in ("OutputBucketName", "WorkFunctionPolicyArn")}
    sam_deploy(local, "json-index", parameters, EXAMPLES / "json_index" / "template.yaml")
    [arn] = outputs_of(local, "json-index").values()
    indexing = Workflow(local, deploy(local, "indexing", {"WorkFunctionArn": arn}))
    assert indexing.stack.function_name == arn
    key = "logs/day 1.jsonl"
    indexing.upload(key, b'{"id": 1}\n{"id": 2}\n')
    [processed] = indexing.of_key(key, 1)
    index = json.loads(indexing.output(key) or "")
    assert index == {"rows": 2, "offsets": [0, 10], "event": f"{processed.sequencer}#"}
    indexing.upload("bad.jsonl", b"{}\n{\n")
    [parked] = indexing.of_key("bad.jsonl", 1)
    assert parked.outcome == "Parked"
    indexing.delete(key)
    assert indexing.of_key(key, 2)[-1].outcome == "Processed"
    assert indexing.output(key) is None
