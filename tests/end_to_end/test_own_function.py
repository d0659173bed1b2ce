"""A function of one's own, which a stack invokes instead of the shipped one (WorkFunctionArn)."""

from __future__ import annotations

import io
import json
import zipfile
from typing import Any

import pytest

from inorder import PROJECT
from inorder.aws.stack import deploy, sam_deploy
from inorder.local_aws import LocalAws
from tests.end_to_end.conftest import Workflow, inorder_on

EXAMPLE = PROJECT / "examples" / "json_index" / "template.yaml"


@pytest.fixture(scope="module")
def indexing(local: LocalAws) -> Workflow:
    """Give a stack that invokes the example, deployed as docs/function.md says."""
    stack = deploy(local, "indexing", {})
    buckets = {"InputBucketName": stack.input_bucket, "OutputBucketName": stack.output_bucket}
    sam_deploy(local, "json-index", buckets, EXAMPLE)
    [example] = local.client("cloudformation").describe_stacks(StackName="json-index")["Stacks"]
    [output] = example["Outputs"]
    return Workflow(local, deploy(local, "indexing", {"WorkFunctionArn": output["OutputValue"]}))


def index(workflow: Workflow, key: str) -> dict[str, Any] | None:
    """Read the index of a document."""
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


def function_that_answers(local: LocalAws, name: str, answer: Any) -> str:
    """Make a function with an alias, and give the alias's ARN."""
    package = io.BytesIO()
    with zipfile.ZipFile(package, "w") as file:
        file.writestr("wrong.py", f"def handler(event, context):\n    return {answer!r}\n")
    functions = local.client("lambda")
    functions.create_function(
        FunctionName=name,
        Runtime="python3.13",
        Handler="wrong.handler",
        Role="arn:aws:iam::000000000000:role/any",
        Code={"ZipFile": package.getvalue()},
        Publish=True,
    )
    alias = functions.create_alias(FunctionName=name, Name="live", FunctionVersion="1")
    arn: str = alias["AliasArn"]
    return arn


def test_the_first_answer_outside_the_contract_is_parked_and_listed_with_the_answer(
    local: LocalAws, monkeypatch: pytest.MonkeyPatch
) -> None:
    arn = function_that_answers(local, "wrong", {"status": "finished-4711"})
    assert arn.endswith(":wrong:live")
    workflow = Workflow(local, deploy(local, "wrong", {"WorkFunctionArn": arn}))
    workflow.upload("x.jsonl", b"{}")
    [parked] = workflow.of_key("x.jsonl", 1)
    assert parked.outcome == "Parked"
    inorder = inorder_on(workflow, monkeypatch)
    monkeypatch.setenv("COLUMNS", "2000")
    listed = inorder("parked")
    assert listed.exit_code == 0, listed.output
    [row] = [line for line in listed.stdout.splitlines() if "UnknownResult: " in line]
    assert workflow.record_id("x.jsonl") in row
    assert "finished-4711" in row
    [message] = workflow.parked()
    assert message["event"] == parked.event
    workflow.assert_quiet()
