"""The examples: an own function, and the application in templates of SAM and CDK."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import boto3
from playwright._impl._driver import compute_driver_executable
from samcli.yamlhelper import yaml_parse
from samtranslator.parser.parser import Parser  # type: ignore[import-untyped]
from samtranslator.translator.translator import Translator  # type: ignore[import-untyped]

from inorder import PROJECT
from inorder.aws.executions import LocalStateMachine
from inorder.aws.stack import deploy, sam_deploy
from inorder.local_aws import LocalAws
from tests.stack.conftest import SECONDS, Workflow
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
    assert (index["rows"], index["event"]) == (2, f"{processed.sequencer}#")
    indexing.delete(key)
    assert indexing.of_key(key, 2)[-1].outcome == "Processed"
    assert indexing.output(key) is None


def with_transformed_application(local: LocalAws, bucket: str, packaged: Path) -> dict[str, Any]:
    """Transform the inner template, as CloudFormation does, and the local AWS does not."""
    s3, outer = local.client("s3"), yaml_parse(packaged.read_text(encoding="utf-8"))
    key = outer["Resources"]["InOrder"]["Properties"]["Location"].rpartition("/")[2]
    inner = yaml_parse(s3.get_object(Bucket=bucket, Key=key)["Body"].read().decode())
    translator = Translator({}, Parser(), boto_session=boto3.Session(region_name="us-east-1"))
    native = translator.translate(inner, {})
    translator.metrics.publish()
    native.pop("Transform", None)
    s3.put_object(Bucket=bucket, Key=key, Body=json.dumps(native).encode())
    parsed: dict[str, Any] = outer
    return parsed


def test_nested_application_invokes_the_function_for_the_keys_of_its_suffix(
    local: LocalAws, tmp_path: Path
) -> None:
    packaged, bucket = tmp_path / "packaged.yaml", "nested-artifacts"
    local.client("s3").create_bucket(Bucket=bucket)
    command = [sys.executable, "-m", "samcli", "package", "--region", "us-east-1"]
    command += ["--template-file", str(EXAMPLES / "nested" / "template.yaml")]
    command += ["--s3-bucket", bucket, "--output-template-file", str(packaged)]
    environment = os.environ | local.environment
    subprocess.run(command, env=environment, capture_output=True, check=True)  # noqa: S603
    outer = with_transformed_application(local, bucket, packaged)
    assert outer["Resources"]["InOrder"]["Properties"]["Parameters"].keys() >= GIVEN
    cloudformation, s3 = local.client("cloudformation"), local.client("s3")
    cloudformation.create_stack(
        StackName="nested",
        TemplateBody=packaged.read_text(encoding="utf-8"),
        Capabilities=["CAPABILITY_IAM", "CAPABILITY_AUTO_EXPAND"],
    )
    cloudformation.get_waiter("stack_create_complete").wait(
        StackName="nested", WaiterConfig={"Delay": 1, "MaxAttempts": SECONDS}
    )
    outputs = outputs_of(local, "nested")
    assert ":nested-InOrder-" in outputs["StateMachineArn"]  # so its name counts, too
    for key in ("a/one.txt", "a/one.jsonl"):
        s3.put_object(Bucket=outputs["Documents"], Key=key, Body=b'{"a": 1}\n')

    machine = LocalStateMachine(local.client("stepfunctions"), outputs["StateMachineArn"])
    [ended] = machine.wait_for(1, SECONDS)
    assert (ended.key, ended.outcome) == ("a/one.jsonl", "Processed")  # the later upload
    [index] = s3.list_objects_v2(Bucket=outputs["Indexes"])["Contents"]
    assert index["Key"] == "a/out-one.jsonl"


def test_cdk_app_passes_parameters_reads_outputs_and_has_a_function_that_starts(
    local: LocalAws, fence: Path, tmp_path: Path
) -> None:
    """The app runs in an environment of its own, with the node of playwright's package."""
    node, _ = compute_driver_executable()
    out = tmp_path / "cdk"
    context = {"template": str(PROJECT / "template.yaml")}
    context["fence"] = str(fence / "inorder_fence_layer.zip")
    environment = os.environ | {
        "JSII_NODE": str(node),
        "JSII_SILENCE_WARNING_UNTESTED_NODE_VERSION": "1",
        "CDK_OUTDIR": str(out),
        "CDK_CONTEXT_JSON": json.dumps(context),
    }
    command = [*ALONE, "--with-requirements", "requirements.txt", "python", "app.py"]
    subprocess.run(  # noqa: S603
        command, cwd=EXAMPLES / "cdk", env=environment, capture_output=True, check=True
    )
    resources = json.loads((out / "Documents.template.json").read_text())["Resources"]
    [stack] = of_type(resources, "CloudFormation::Stack").values()
    given = stack["Parameters"]
    assert GIVEN <= given.keys() <= template()["Parameters"].keys()
    source = (EXAMPLES / "cdk" / "in_order.py").read_text(encoding="utf-8")
    assert set(re.findall(r'"Outputs\.(\w+)"', source)) <= template()["Outputs"].keys()

    functions = of_type(resources, "Lambda::Function").values()
    [function] = [each for each in functions if each.get("Layers")]
    [layer] = of_type(resources, "Lambda::LayerVersion").values()
    code = out / f"asset.{function['Code']['S3Key'].removesuffix('.zip')}"
    shutil.unpack_archive(out / f"asset.{layer['Content']['S3Key']}", tmp_path / "opt")
    path = [str(code), str(tmp_path / "opt" / "python")]
    module, _, _ = function["Handler"].partition(".")
    start = f"import sys; sys.path[:0] = {path}; import {module}, inorder_fence as fence"
    variables = function["Environment"]["Variables"]
    done = subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "-I", "-c", f"{start}; print(fence.__file__)"],
        env=os.environ | local.environment | variables | {"OUTPUT_BUCKET": "indexes"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.strip()).is_relative_to(tmp_path / "opt")
