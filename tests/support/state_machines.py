"""State machines of ASL files on local engines."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

from inorder.aws.executions import LocalStateMachine

# What stands in for a resource that a test does not have: AWS checks the form of a definition.
_STAND_INS = {
    "Arn": "arn:aws:lambda:us-east-1:123456789012:function:{}",
    "Url": "https://sqs.us-east-1.amazonaws.com/123456789012/{}",
    "Name": "{}",
}


def substitute(definition: Path | str, substitutions: Mapping[str, str]) -> str:
    """Replace the ``${Names}`` of an ASL file, or of its text, as SAM does it."""
    text = definition if isinstance(definition, str) else definition.read_text(encoding="utf-8")

    def value(match: re.Match[str]) -> str:
        name, kind = match.groups()
        return substitutions.get(name + kind) or _STAND_INS[kind].format(name)

    return re.sub(rf"\$\{{(\w+?)({'|'.join(_STAND_INS)})\}}", value, text)


def create_local(
    client: Any, definition: str, machine_type: str = "EXPRESS", name: str | None = None
) -> LocalStateMachine:
    """Create a state machine on a local engine.

    Step Functions Local keeps the history of ``STANDARD`` ones only, and finds mocks by the name.
    """
    created = client.create_state_machine(
        name=name or f"inorder-{uuid4()}",
        definition=definition,
        roleArn="arn:aws:iam::123456789012:role/local",
        type=machine_type,
    )
    return LocalStateMachine(client, created["stateMachineArn"])
