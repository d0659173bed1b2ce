"""The shipped modules that the model runs, or such a module in which something is broken."""

from __future__ import annotations

import ast
import functools
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, NamedTuple

from inorder_fence import fenced_output, stuck
from tests.proof.simulation.clock import EPOCH

NOW = datetime.fromtimestamp(EPOCH, UTC)
LOOPS_AT_MOST = 100  # in one run; the shipped fence makes fewer than 30


class Code(NamedTuple):
    """A module's name, and its text."""

    module: str
    text: str

    @classmethod
    def of(cls, module: ModuleType) -> Code:
        return cls(module.__name__, Path(str(module.__file__)).read_text(encoding="utf-8"))

    def run(self) -> dict[str, Any]:
        """Give the names in the module for one run, which does not pause or loop for ever."""
        module = _module(self)
        loops = iter(range(LOOPS_AT_MOST))

        def count_loop() -> None:
            if next(loops, None) is None:
                raise RuntimeError("the function loops for ever")

        module.__dict__["count_loop"] = count_loop
        return module.__dict__


@functools.cache
def _module(code: Code) -> ModuleType:
    tree = ast.parse(code.text)
    for loop in ast.walk(tree):
        if isinstance(loop, ast.For | ast.While):
            loop.body.insert(0, ast.parse("count_loop()").body[0])
    module = ModuleType(code.module)  # dataclasses look it up in sys.modules
    exec(compile(ast.fix_missing_locations(tree), code.module, "exec"), module.__dict__)  # noqa: S102
    module.__dict__["time"] = SimpleNamespace(sleep=lambda _: None, time=NOW.timestamp)
    return module


FENCE, SWEEP = map(Code.of, (fenced_output, stuck))
