"""cfn-lint, which asks the same of a template's conditions again and again, and answers slowly."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any
from unittest.mock import patch

from cfnlint import ManualArgs
from cfnlint.api import lint
from cfnlint.conditions import conditions
from cfnlint.context.conditions import _conditions


def findings(template: str) -> list[Any]:
    """List what cfn-lint finds in a template."""
    known: dict[Hashable, Any] = {}

    def satisfiable(formula: Any, **options: Any) -> Any:
        key = frozenset(map(frozenset, formula.data))
        if key not in known:
            known[key] = ask(formula, **options)
        return known[key]

    ask = conditions.satisfiable
    with (
        patch.object(conditions, "satisfiable", satisfiable),
        patch.object(_conditions, "satisfiable", satisfiable),
    ):
        return list(lint(template, config=ManualArgs(regions=["us-east-1"])))
