"""The tables of all policies, with the states of their ASL files."""

from __future__ import annotations

import importlib
import json

from inorder import PROJECT
from inorder.policies import asl_file, names, stem
from tests.policies.common import Cases, Data


def _load() -> dict[str, Cases]:
    """Import each policy's cases; a policy of a user's own need not have any."""
    return {
        policy: importlib.import_module(f"tests.policies.{stem(policy)}.cases").CASES
        for policy in names()
        if (PROJECT / "tests" / "policies" / stem(policy) / "cases.py").exists()
    }


def definition_of(policy: str) -> Data:
    """Read a policy's ASL file."""
    loaded: Data = json.loads((PROJECT / asl_file(policy)).read_text(encoding="utf-8"))
    return loaded


TABLES = _load()
STATES: dict[str, Data] = {policy: definition_of(policy)["States"] for policy in TABLES}
