"""State machines of ASL files on local engines."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any
from uuid import uuid4

from inorder import PROJECT
from inorder.aws.executions import LocalStateMachine
from inorder.model.policies import asl_file
from inorder.model.policies import names as names_of_policies


def substitute(file: Path, substitutions: Mapping[str, str]) -> str:
    """Read an ASL file, with its ``${Names}`` replaced as SAM does it.

    Raises
    ------
    KeyError
        The file asks for a name that is not given.
    """
    text = file.read_text(encoding="utf-8")
    return re.sub(r"\$\{(\w+)\}", lambda found: substitutions[found[1]], text)


@cache
def written() -> frozenset[str]:
    """Name the attributes that a record may have: those that some policy writes."""
    names: set[str] = set()

    def learn(part: dict[str, Any]) -> dict[str, Any]:
        aliases = part.get("ExpressionAttributeNames", {})
        changed = re.findall(r"(#?\w+) = ", part.get("UpdateExpression", ""))
        names.update(part.get("Item", {}), (aliases.get(each, each) for each in changed))
        return part

    for policy in names_of_policies():
        json.loads((PROJECT / asl_file(policy)).read_text(encoding="utf-8"), object_hook=learn)
    return frozenset(names)


def put_record(table: Any, record: Mapping[str, Any]) -> None:
    """Write a record such as a policy writes.

    Raises
    ------
    ValueError
        No policy writes one of its attributes, so no policy reads it.
    """
    unknown = record.keys() - written()
    if unknown:
        raise ValueError(f"No policy writes {', '.join(sorted(unknown))}.")
    table.put_item(Item=record)


def create_local(
    client: Any, definition: str, machine_type: str = "EXPRESS", name: str | None = None
) -> LocalStateMachine:
    """Create a state machine on a local engine.

    Parameters
    ----------
    client : SFNClient
        Of the engine.
    definition : str
        As `substitute` gives it.
    machine_type : str
        ``STANDARD`` on Step Functions Local, which keeps the history of those only.
    name : str, optional
        A new one if none is given. Step Functions Local finds its mocks by it.
    """
    created = client.create_state_machine(
        name=name or f"inorder-{uuid4()}",
        definition=definition,
        roleArn="arn:aws:iam::123456789012:role/local",
        type=machine_type,
    )
    return LocalStateMachine(client, created["stateMachineArn"])
