"""Breaks the code of the functions: each mutant is one small change of one file.

The library mutmut changes only what is inside functions: a tenth of these mutants, the timeouts and
limits of the modules, would be missing. cosmic-ray starts a command for each mutant, and leaves out
no statement, argument or entry. Both number their mutants, and a reason needs a name.
"""

from __future__ import annotations

import ast
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.machinery import SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from inorder import PROJECT
from tests.proof.mutants.harness import CODE, UNCHANGED, Mutant

UNIT = "tests/unit/test_"
TESTED_BY = {
    "heal_keys": [f"{UNIT}heal_keys.py"],
    "inorder_fence": [
        f"{UNIT}fence_inputs.py",
        f"{UNIT}fence_steps.py",
        f"{UNIT}app.py",
        f"{UNIT}fenced_output.py",
        f"{UNIT}heal_keys.py",
        f"{UNIT}records.py",
        f"{UNIT}retry_events.py",
    ],
    "invert_image": [f"{UNIT}app.py", f"{UNIT}image_files.py", f"{UNIT}inversion.py"],
    "retry_events": [f"{UNIT}retry_events.py"],
}
# Of what is said to people, and of types, nothing is changed; a frozen class is for mypy.
_KEPT = {"annotation", "returns", "decorator_list"}
_PAIRS: tuple[tuple[type[Any], type[Any]], ...] = (
    *((ast.Eq, ast.NotEq), (ast.In, ast.NotIn), (ast.Is, ast.IsNot), (ast.Add, ast.Sub)),
    *((ast.Mult, ast.Div), (ast.BitOr, ast.BitAnd), (ast.LShift, ast.RShift)),
)
_OPPOSITE: dict[type[ast.AST], list[type[Any]]] = {
    **{one: [other] for pair in _PAIRS for one, other in (pair, pair[::-1])},
    ast.Lt: [ast.GtE, ast.LtE],
    ast.LtE: [ast.Gt, ast.Lt],
    ast.Gt: [ast.LtE, ast.GtE],
    ast.GtE: [ast.Lt, ast.Gt],
}


def mutants(function: str) -> Iterator[Mutant]:
    for path in sorted((PROJECT / "functions" / function).glob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        unchanged = _Finder(path, compile(tree, path, "exec"))
        yield Mutant(UNCHANGED, f"{path.name}:", unchanged.install)
        for where, name in _changed(tree):
            code = compile(ast.fix_missing_locations(tree), path, "exec")
            install = _Finder(path, code).install
            yield Mutant(f"{path.name} {where}: {name}", f"{path.name}:{where}", install)


@contextmanager
def watch(_: object, reached: set[str]) -> Iterator[None]:
    """Note the functions that a test calls."""

    def note(frame: FrameType, event: str, _: object) -> None:
        path, code = frame.f_code.co_filename, frame.f_code
        if event == "call" and path.startswith(CODE):
            name = code.co_qualname.replace(".<locals>", "")
            reached.add(f"{path.rpartition('/')[2]}:{name}")

    threading.setprofile(note)
    sys.setprofile(note)
    yield
    sys.setprofile(None)
    threading.setprofile(None)


class _Finder:
    """Lets a module be imported with other code."""

    def __init__(self, path: Path, code: CodeType) -> None:
        self._path, self._code = path, code

    def install(self) -> str:
        sys.meta_path.insert(0, self)
        return ""

    def find_spec(self, name: str, *_: Any) -> Any:
        if name != f"{self._path.parent.name}.{self._path.stem}":
            return None
        loader = SourceFileLoader(name, str(self._path))
        loader.get_code = lambda _: self._code  # type: ignore[method-assign,assignment]
        return spec_from_file_location(name, self._path, loader=loader)


def _changed(node: ast.AST, where: str = "") -> Iterator[tuple[str, str]]:
    """Change a tree in each way; give the function that is different until the next one is made."""
    for field, value in ast.iter_fields(node):
        inner = where
        if field == "body" and isinstance(node, ast.ClassDef | ast.FunctionDef):
            inner = f"{where}.{node.name}".lstrip(".")
        if field in _KEPT:
            continue
        for at, each in enumerate(value if isinstance(value, list) else [value]):
            if not isinstance(each, ast.AST) or getattr(each, "id", "") == "TYPE_CHECKING":
                continue
            for other in _others(each, node, field):
                text = _difference(each, other)
                if isinstance(value, list):
                    value[at : at + 1] = [other] if other else []
                else:
                    setattr(node, field, other)
                yield inner, text
                if isinstance(value, list):
                    value[at : at + bool(other)] = [each]
                else:
                    setattr(node, field, each)
            if not isinstance(each, ast.Raise):  # with a sentence for people
                yield from _changed(each, inner)


def _difference(one: ast.AST, other: ast.AST | None) -> str:
    if isinstance(one, ast.Dict | ast.Set | ast.Tuple):
        before, after = _elements(one), _elements(other)
        return f"no {', '.join(each for each in before if each not in after)}"
    if other is None or isinstance(other, ast.Pass):
        return f"no {_short(one)}"
    return f"{_short(one)} -> {_short(other)}"


def _short(node: ast.AST) -> str:
    text = " ".join(ast.unparse(node).split())
    return text if len(text) <= 40 else f"{text[:37]}..."


def _elements(node: ast.AST | None) -> list[str]:
    if isinstance(node, ast.Dict):
        return [ast.unparse(key) if key else "**" for key in node.keys]
    return [ast.unparse(each) for each in getattr(node, "elts", [])]


def _without_each(parts: list[Any]) -> list[list[Any]]:
    return [[*parts[:at], *parts[at + 1 :]] for at in range(len(parts))]


def _others(  # noqa: PLR0912
    node: ast.AST, parent: ast.AST, field: str
) -> Iterator[ast.AST | None]:
    """Give what a node is replaced by; None is nothing."""
    match node:
        case ast.Constant(value=bool(value)):
            yield ast.Constant(not value)
        case ast.Constant(value=int(value) | float(value)):
            is_small = abs(value) < 10
            others = (value + 1, value - 1) if is_small else (value * 2, value // 2)
            yield from map(ast.Constant, others)
        case ast.Compare(left, [operator], right):
            yield from (ast.Compare(left, [each()], right) for each in _OPPOSITE[type(operator)])
        case ast.BinOp(left, operator, right):
            yield from (
                ast.BinOp(left, each(), right) for each in _OPPOSITE.get(type(operator), [])
            )
        case ast.BoolOp(operator, values):
            for rest in _without_each(values):
                yield ast.BoolOp(operator, rest) if len(rest) > 1 else rest[0]
        case ast.UnaryOp(ast.Not() | ast.Invert(), operand):
            yield operand
        case ast.IfExp(_, body, orelse):
            yield from (body, orelse)
        case ast.Subscript(value, ast.Slice(), ast.Load()):
            yield value
        case ast.Call(ast.Name("min" | "max"), [one, other]):
            yield from (one, other)
        case ast.Dict(keys, values):
            yield from map(ast.Dict, _without_each(keys), _without_each(values))
        case ast.Set(elts) if len(elts) > 1:
            yield from map(ast.Set, _without_each(elts))
        case ast.Raise() | ast.AugAssign() | ast.Expr(ast.Call()):
            yield ast.Pass()
        case ast.Return() if not isinstance(parent, ast.FunctionDef):
            yield ast.Pass()
        case ast.Assign([ast.Attribute() | ast.Subscript()]):
            yield ast.Pass()
        case ast.keyword() | ast.FormattedValue():
            yield None
        case ast.match_case() if len(parent.cases) > 1:  # type: ignore[attr-defined]
            yield None
        case ast.ExceptHandler() if len(parent.handlers) > 1:  # type: ignore[attr-defined]
            yield None
    if field in {"test", "guard"}:
        yield from (ast.Constant(value=True), ast.Constant(value=False))
    is_tolerant = isinstance(parent, ast.Call) and getattr(parent.func, "id", "") == "suppress"
    if field == "ifs" or (field == "args" and is_tolerant):
        yield None
    if isinstance(parent, ast.ExceptHandler) and isinstance(node, ast.Tuple):
        yield from (ast.Tuple(rest, ast.Load()) for rest in _without_each(node.elts))
    if field == "iter":  # the first page, and no other
        yield ast.parse(f"[*({ast.unparse(node)})][:1]", mode="eval").body
