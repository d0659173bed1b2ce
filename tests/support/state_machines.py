"""State machines of ASL files on local engines."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

from inorder.aws.executions import LocalStateMachine


def substitute(file: Path, substitutions: Mapping[str, str]) -> str:
    """Read an ASL file, with its ``${Names}`` replaced as SAM does it."""
    text = file.read_text(encoding="utf-8")
    return re.sub(r"\$\{(\w+)\}", lambda found: substitutions[found[1]], text)


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
