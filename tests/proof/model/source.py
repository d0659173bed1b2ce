"""The shipped modules that are run, and how a mutant leaves out or changes one rule of them.

A mutant changes the parsed module. The changed code is found by its method, its kind, and the names
of the methods, fields and outcomes in it, never by its text. So a local variable can be renamed.
"""

from __future__ import annotations

import ast
import functools
import pickle
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

from inorder_fence import fenced_output, stuck

NOW = datetime(2100, 1, 1, tzinfo=UTC)  # TestState takes the real time, which is earlier
LOOPS_AT_MOST = 100  # in one run; the shipped fence makes fewer than 30


@dataclass(frozen=True, eq=False)
class Code:
    """A module: the shipped one, or a mutant, which is named by what it lacks."""

    file: str
    module: str
    name: str
    tree: ast.Module = field(repr=False)

    @classmethod
    def of(cls, module: ModuleType) -> Code:
        path = Path(str(module.__file__))
        return cls(path.name, module.__name__, "shipped", ast.parse(path.read_text()))

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
    tree = _copy(code.tree)
    for loop in ast.walk(tree):
        if isinstance(loop, ast.For | ast.While):
            loop.body.insert(0, ast.Expr(parsed("count_loop()")))
    module = ModuleType(code.module)  # dataclasses look it up in sys.modules
    exec(compile(ast.fix_missing_locations(tree), code.file, "exec"), module.__dict__)  # noqa: S102
    module.__dict__["time"] = SimpleNamespace(sleep=lambda _: None, time=NOW.timestamp)
    return module


def _copy(tree: ast.Module) -> ast.Module:
    """Copy a parsed module, in a third of the time that deepcopy takes."""
    copied: ast.Module = pickle.loads(pickle.dumps(tree))  # noqa: S301
    return copied


FUNCTION, SWEEP = map(Code.of, (fenced_output, stuck))

# Finds in a method what a mutant changes.
Find = Callable[[ast.AST], Iterator[ast.AST]]
# Gives what replaces it, or None to leave it out.
Change = Callable[[Any], ast.AST | None]


def change(
    name: str,
    method: str,
    find: Find,
    by: str | Change = lambda _: None,
    module: Code = FUNCTION,
) -> Code:
    """Change the place of a rule in a method, or in a function of the module, or leave it out."""
    tree = _copy(module.tree)
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    [where] = [function for function in functions if function.name == method]
    places = list(find(where))
    assert len(places) == 1, f"{name}: {len(places)} places in {method}"
    _Replacer(places[0], (lambda _: parsed(by)) if isinstance(by, str) else by).visit(where)
    ast.fix_missing_locations(where)
    return Code(module.file, module.module, name, tree)


class _Replacer(ast.NodeTransformer):
    def __init__(self, found: ast.AST, by: Change) -> None:
        self._found, self._by = found, by

    def visit(self, node: ast.AST) -> Any:
        return self._by(node) if node is self._found else super().visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        self.generic_visit(node)
        return node if len(node.values) > 1 else node.values[0]


def parsed(expression: str) -> ast.expr:
    return ast.parse(expression, mode="eval").body


def _mentions(node: ast.AST, name: str | None) -> bool:
    """Tell whether code uses a method, a field, a function, an outcome, a text or None."""
    return any(
        getattr(each, key, ...) == name
        for each in ast.walk(node)
        for key in ("attr", "id", "value")
    )


def call(name: str) -> Find:
    return lambda method: (
        node
        for node in ast.walk(method)
        if isinstance(node, ast.Call)
        and name in {getattr(node.func, key, None) for key in ("attr", "id")}
    )


def keyword(name: str, argument: str | None) -> Find:
    """Find a keyword argument of a call; ``**`` has the name None."""
    return lambda method: (
        each
        for node in call(name)(method)
        if isinstance(node, ast.Call)
        for each in node.keywords
        if each.arg == argument
    )


def code(kind: type[ast.AST], name: str | None) -> Find:
    """Find code of a kind that mentions a name."""
    return lambda method: (
        node for node in ast.walk(method) if isinstance(node, kind) and _mentions(node, name)
    )


def _part(kind: type[ast.BoolOp | ast.Set], name: str) -> Find:
    """Find the operand of `and` or `or`, or the element of a set, that mentions a name."""
    return lambda method: (
        each
        for node in ast.walk(method)
        if isinstance(node, kind)
        for each in (node.values if isinstance(node, ast.BoolOp) else node.elts)
        if _mentions(each, name)
    )


operand, element = functools.partial(_part, ast.BoolOp), functools.partial(_part, ast.Set)
