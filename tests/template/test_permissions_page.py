"""docs/permissions.md, which names each right that the template grants."""

import re

import pytest

from inorder import PROJECT
from tests.support.resolved_template import Json
from tests.template.deployed import KEY, Deployed, listed, state_machine_arn

STACK = Deployed(KmsKeyArn=KEY)
PAGE = (PROJECT / "docs/permissions.md").read_text(encoding="utf-8")


# What a right is on, and what of it the page leaves out.
MACHINE = state_machine_arn("")
RESOURCE = rf"arn:aws:s3:::\w+(/\*)?|\w+\.Arn(/index/\w+)?|{MACHINE}\S+|\w+StateMachine|{KEY}|\*"
LEFT_OUT = rf"^arn:aws:s3:::|\.Arn\b|^{MACHINE.removesuffix('stack_')}"


def shown(names: object) -> str:
    texts = ("".join(re.split(LEFT_OUT, name)) for name in listed(names))
    return ", ".join(f"`{'KmsKeyArn'.join(text.split(KEY))}`" for text in texts)


def row(statement: Json) -> str:
    assert all(re.fullmatch(RESOURCE, resource) for resource in listed(statement["Resource"]))
    on = shown(statement["Resource"])
    for compared in statement.get("Condition", {}).values():
        for key, value in compared.items():
            on += f" if `{key}` is {'REGION'.join(shown(value).split('us-east-1'))}"
    return f"| {shown(statement['Action'])} | {on} | "


@pytest.mark.parametrize("role", STACK.of("IAM::Role"))
def test_the_page_says_why_a_role_has_each_right(role: str) -> None:
    [section] = re.findall(rf"^## [^\n]*`{role}`.*?(?=^## )", PAGE, re.M | re.S)
    rows = [line for line in section.splitlines() if line.startswith("| `")]
    wanted = [row(statement) for statement in STACK.statements(role)]
    assert [line[: line.rindex(" | ") + 3] for line in rows] == wanted
    assert all(re.search(r" \| [A-Z][^|]+\.\s\|$", line) for line in rows)


def test_the_page_names_who_may_send_messages_and_invoke_functions() -> None:
    [section] = re.findall(r"^## Who may .*?(?=^## )", PAGE, re.M | re.S)
    admitted = [
        (statement["Resource"].removesuffix(".Arn"), str(statement["Principal"]))
        for policy in STACK.of("SQS::QueuePolicy").values()
        for statement in policy["PolicyDocument"]["Statement"]
        if statement["Effect"] == "Allow"
    ]
    admitted += [
        (permission["FunctionName"], permission["Principal"])
        for permission in STACK.of("Lambda::Permission").values()
    ]
    assert {name for name, _ in admitted} == set(re.findall(r"^\| `(\w+)`", section, re.M))
    assert all("events.amazonaws.com" in principal for _, principal in admitted)
