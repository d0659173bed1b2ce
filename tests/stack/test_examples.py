"""The examples: an own function, and the application in a template of CDK."""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path

from playwright._impl._driver import compute_driver_executable

from inorder import PROJECT
from inorder.aws.stack import deploy, sam_deploy
from inorder.local_aws import LocalAws
from tests.stack.conftest import Workflow, ran
from tests.support.resolved_template import of_type, template

EXAMPLES = PROJECT / "examples"
# A command in an environment of its own.
ALONE = [sys.executable, "-m", "uv", "run", "--quiet", "--no-project", "--python", sys.executable]
GIVEN = {"InputBucketName", "OutputBucketName", "WorkFunctionArn", "WorkFunctionRoleName"}


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


def test_cdk_app_passes_parameters_reads_outputs_and_has_a_function_that_starts(
    local: LocalAws, fence: Path, tmp_path: Path
) -> None:
    """The app runs in an environment of its own, with the node of playwright's package."""
    node, _ = compute_driver_executable()
    out = tmp_path / "cdk"
    context = {"template": str(PROJECT / "template.yaml")}
    context["fence"] = str(fence / "inorder_fence_layer.zip")
    variables = {
        "JSII_NODE": str(node),
        "JSII_SILENCE_WARNING_UNTESTED_NODE_VERSION": "1",
        "CDK_OUTDIR": str(out),
        "CDK_CONTEXT_JSON": json.dumps(context),
    }
    command = [*ALONE, "--with-requirements", "requirements.txt", "python", "app.py"]
    ran(*command, cwd=EXAMPLES / "cdk", variables=variables)
    resources = json.loads((out / "Documents.template.json").read_text())["Resources"]
    [stack] = of_type(resources, "CloudFormation::Stack").values()
    given = stack["Parameters"]
    assert GIVEN <= given.keys() <= template()["Parameters"].keys()
    source = (EXAMPLES / "cdk" / "app.py").read_text(encoding="utf-8")
    assert set(re.findall(r'"Outputs\.(\w+)"', source)) <= template()["Outputs"].keys()

    functions = of_type(resources, "Lambda::Function").values()
    [function] = [each for each in functions if each.get("Layers")]
    [layer] = of_type(resources, "Lambda::LayerVersion").values()
    code = out / f"asset.{function['Code']['S3Key'].removesuffix('.zip')}"
    shutil.unpack_archive(out / f"asset.{layer['Content']['S3Key']}", tmp_path / "opt")
    path = [str(code), str(tmp_path / "opt" / "python")]
    module, _, _ = function["Handler"].partition(".")
    start = f"import sys; sys.path[:0] = {path}; import {module}, inorder_fence as fence"
    variables = function["Environment"]["Variables"] | {"OUTPUT_BUCKET": "indexes"}
    start += "; print(fence.__file__)"
    said = ran(sys.executable, "-I", "-c", start, variables=local.environment | variables)
    assert Path(said.strip()).is_relative_to(tmp_path / "opt")
