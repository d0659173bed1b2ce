"""cfn-lint, which asks the same of a template's conditions again and again, and answers slowly."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any
from unittest.mock import patch

from cfnlint import ManualArgs
from cfnlint.api import lint
from cfnlint.conditions import conditions
from cfnlint.context.conditions import _conditions

_ask = conditions.satisfiable
_known: dict[Hashable, Any] = {}


def _satisfiable(formula: Any, **options: Any) -> Any:
    key = frozenset(map(frozenset, formula.data))
    if key not in _known:
        _known[key] = _ask(formula, **options)
    return _known[key]


def findings(template: str) -> list[Any]:
    with (
        patch.object(conditions, "satisfiable", _satisfiable),
        patch.object(_conditions, "satisfiable", _satisfiable),
    ):
        return list(lint(template, config=ManualArgs(regions=["us-east-1"])))
