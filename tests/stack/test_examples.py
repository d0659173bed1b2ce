"""The example of a function of one's own, deployed as its document says."""

from inorder import PROJECT
from inorder.aws.stack import deploy
from inorder.local_aws import LocalAws
from tests.stack.conftest import Deployed, Workflow

EXAMPLE = PROJECT / "examples" / "work_function"


def test_an_own_function_deployed_as_documented_replaces_the_shipped_one(local: LocalAws) -> None:
    deploy(local, "own", {})
    outputs = Deployed(local, "own").deployed
    parameters = {name: outputs[name] for name in ("OutputBucketName", "WorkFunctionPolicyArn")}
    example = Deployed(local, "capitals", EXAMPLE / "template.yaml", **parameters)
    [arn] = example.deployed.values()
    own = Workflow(local, deploy(local, "own", {"WorkFunctionArn": arn}))
    assert own.stack.function_name == arn
    key = "texts/day 1.txt"
    own.upload(key, b"one")
    [processed] = own.of_key(key, 1)
    assert own.output(key) == f"ONE\n{processed.sequencer}#".encode()
    own.upload("bad.txt", b"\xff")
    [parked] = own.of_key("bad.txt", 1)
    assert parked.outcome == "Parked"
    own.delete(key)
    assert own.of_key(key, 2)[-1].outcome == "Processed"
    assert own.output(key) is None
