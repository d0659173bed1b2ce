"""docs/permissions.md, which names each right that the template grants."""

import re

import pytest

from inorder import PROJECT
from tests.support.resolved_template import Json
from tests.template.deployed import KEY, Deployed, listed

STACK = Deployed(KmsKeyArn=KEY)
PAGE = (PROJECT / "docs/permissions.md").read_text(encoding="utf-8")


def shown(names: object) -> str:
    """Write names as the page has them: without the region and the account of this test."""
    texts = (
        "".join(re.split(r"^arn:aws:s3:::|\.Arn\b|^arn:aws:(?!kms).*:", name))
        for name in listed(names)
    )
    return ", ".join(f"`{'KmsKeyArn'.join(text.split(KEY))}`" for text in texts)


def row(statement: Json) -> str:
    condition = statement.get("Condition")
    [(operator, compared)] = condition.items() if condition else [("", {})]
    on = shown(statement["Resource"])
    for key, value in compared.items():
        of = "REGION".join(shown(value).split("us-east-1"))
        on += f" if `{key}` is {of}" if operator else ""
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
