"""What the folders of the policies have: their tables, and whatever else has one name in each."""

import importlib
from typing import Any

from inorder import PROJECT
from inorder.model.policies import definition, names, stem
from tests.policies.table import Cases, Data


def by_policy(module: str, name: str) -> dict[str, Any]:
    """Give what has a name in a module of the policies' folders, by policy, if there is one."""
    return {
        policy: getattr(importlib.import_module(f"tests.policies.{stem(policy)}.{module}"), name)
        for policy in names()
        if (PROJECT / "tests" / "policies" / stem(policy) / f"{module}.py").exists()
    }


TABLES: dict[str, Cases] = by_policy("cases", "CASES")
STATES: dict[str, Data] = {policy: definition(policy)["States"] for policy in TABLES}
