"""The tables of all policies, with the states of their ASL files."""

from __future__ import annotations

import importlib

from inorder import PROJECT
from inorder.policies import definition, names, stem
from tests.policies.common import Cases, Data


def _load() -> dict[str, Cases]:
    """Import each policy's cases; a policy of a user's own need not have any."""
    return {
        policy: importlib.import_module(f"tests.policies.{stem(policy)}.cases").CASES
        for policy in names()
        if (PROJECT / "tests" / "policies" / stem(policy) / "cases.py").exists()
    }


TABLES = _load()
STATES: dict[str, Data] = {policy: definition(policy)["States"] for policy in TABLES}
