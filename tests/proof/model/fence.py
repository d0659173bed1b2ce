"""The fence, and the fence with one rule left out or changed.

A mutant changes the parsed module. The changed code is found by its method, its kind, and the names
of the methods, fields and outcomes in it, never by its text. So a local variable can be renamed.
"""

from __future__ import annotations

import ast
import copy
import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import fenced_output

LOOPS_AT_MOST = 100  # in one run; the shipped fence makes fewer than 30


@dataclass(frozen=True, eq=False)
class Function:
    """The function's module with `Fence`: the shipped one, or a mutant, named by what it lacks."""

    name: str
    tree: ast.Module = field(repr=False)

    def fence(self, *arguments: Any) -> Any:
        """Make a `Fence` for one run, which does not pause and cannot loop for ever."""
        module = _module(self)
        loops = iter(range(LOOPS_AT_MOST))

        def count_loop() -> None:
            if next(loops, None) is None:
                raise RuntimeError("the function loops for ever")

        module.__dict__["count_loop"] = count_loop
        return module.__dict__["Fence"](*arguments)


@functools.cache
def _module(function: Function) -> ModuleType:
    tree = copy.deepcopy(function.tree)
    for loop in ast.walk(tree):
        if isinstance(loop, ast.For | ast.While):
            loop.body.insert(0, ast.Expr(_parsed("count_loop()")))
    module = ModuleType("fenced_output")
    code = compile(ast.fix_missing_locations(tree), "fenced_output.py", "exec")
    exec(code, module.__dict__)  # noqa: S102
    module.__dict__["time"] = SimpleNamespace(sleep=lambda _: None)
    return module


FUNCTION = Function("shipped", ast.parse(Path(fenced_output.__file__).read_text()))

# Finds in a method what a mutant changes.
Find = Callable[[ast.AST], Iterator[ast.AST]]
# Gives what replaces it, or None to leave it out.
Change = Callable[[Any], ast.AST | None]


def change(name: str, method: str, find: Find, by: str | Change = lambda _: None) -> Function:
    """Change one place in a method, or in a function of the module.

    Parameters
    ----------
    name : str
        The missing rule.
    method : str
        Where the rule is.
    find : callable
        Finds the place.
    by : str or callable, optional
        The expression that replaces what is there; without it, what is there is left out.
    """
    tree = copy.deepcopy(FUNCTION.tree)
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    [where] = [function for function in functions if function.name == method]
    places = list(find(where))
    assert len(places) == 1, f"{name}: {len(places)} places in {method}"
    _Replacer(places[0], (lambda _: _parsed(by)) if isinstance(by, str) else by).visit(where)
    return Function(name, ast.fix_missing_locations(tree))


class _Replacer(ast.NodeTransformer):
    def __init__(self, found: ast.AST, by: Change) -> None:
        self._found, self._by = found, by

    def visit(self, node: ast.AST) -> Any:
        return self._by(node) if node is self._found else super().visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        self.generic_visit(node)
        return node if len(node.values) > 1 else node.values[0]


def _parsed(expression: str) -> ast.expr:
    return ast.parse(expression, mode="eval").body


def _mentions(node: ast.AST, name: str | None) -> bool:
    """Tell whether code uses a method, a field, a function, an outcome, a text or None."""
    return any(
        getattr(each, key, ...) == name
        for each in ast.walk(node)
        for key in ("attr", "id", "value")
    )


def call(name: str) -> Find:
    """Find the call of a method or function."""
    return lambda method: (
        node
        for node in ast.walk(method)
        if isinstance(node, ast.Call)
        and name in {getattr(node.func, key, None) for key in ("attr", "id")}
    )


def keyword(name: str, argument: str | None) -> Find:
    """Find a keyword argument of a call; that of ``**`` is None."""
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


def operand(name: str) -> Find:
    """Find the operand of `and` or `or` that mentions a name."""
    return lambda method: (
        each
        for node in ast.walk(method)
        if isinstance(node, ast.BoolOp)
        for each in node.values
        if _mentions(each, name)
    )


def element(name: str) -> Find:
    """Find the element of a set that mentions a name."""
    return lambda method: (
        each
        for node in ast.walk(method)
        if isinstance(node, ast.Set)
        for each in node.elts
        if _mentions(each, name)
    )


def _read_output_again(write: ast.Call) -> ast.Call:
    """Make the write conditional on the output as it is just before."""
    [condition] = [each for each in write.keywords if each.arg is None]
    condition.value = _parsed(f"self._read_output({ast.unparse(write.args[0])}).unchanged()")
    return write


def _check(rule: ast.If) -> ast.If:
    """Check the source instead of ending the attempt."""
    [order] = [node for node in call("order")(rule) if isinstance(node, ast.Call)]
    rule.body = [ast.Return(_parsed(f"self._check_source({ast.unparse(order.args[0])})"))]
    return rule


def _and_ignore(comparison: ast.expr) -> ast.expr:
    return ast.BoolOp(ast.Or(), [comparison, ast.Constant(value=True)])


# The fence that latest_wins and optimistic share. The numbers are those of its steps.
NEWEST = (
    change("1: a newer output supersedes", "_apply_creation", code(ast.match_case, "NEWER")),
    change("1: an output is written once", "_apply_creation", code(ast.match_case, "SAME")),
    change("1: versions do not compare", "order", code(ast.If, "source-version-id")),
    change("1: a version is created once", "order", code(ast.If, "SAME")),
    change("2: If-Match", "_replace_output", keyword("_read_source", "IfMatch")),
    change("2: the event's version", "_read_source", code(ast.If, "version_id")),
    change("2: a source that is there again", "_follow_source", call("_find_source"), "None"),
    change("2: a right output is not written again", "_follow_source", code(ast.If, "SAME")),
    change("2: a right output is not checked", "_follow_source", code(ast.If, "SAME"), _check),
    change("2: a later upload has its own event", "_follow_source", code(ast.If, "version_id")),
    change("3: the stamp", "_write_output", call("stamp"), "b''"),
    change("3: If-Match", "unchanged", code(ast.Dict, "IfMatch"), "{}"),
    change("3: If-None-Match", "unchanged", code(ast.Dict, "IfNoneMatch"), "{}"),
    change("3: If-Match of a deletion", "_delete_output", keyword("delete_object", "IfMatch")),
    change("3: a new attempt after 412", "_is_failed_condition", element("PRECONDITION_FAILED")),
    change("3: a new attempt after 409", "_is_failed_condition", element("CONFLICT")),
    change("3: a new attempt after 404", "_is_failed_condition", operand("_is_missing")),
    change("3: the ETag of step 1", "_replace_output", call("_write_output"), _read_output_again),
    change("4: the check", "_check_source", code(ast.If, "STALE")),
    change("4: the check after a first write", "_replace_output", operand("etag")),
    change("4: the check of a retry", "_apply_creation", call("_check_source"), "Attempt.DONE"),
    change("4: the check after the write of a version", "_replace_output", operand("version_id")),
    change("4: the check after a deletion", "_delete_orphan", call("_find_source"), "None"),
    change("4: the version of the source", "_check_source", operand("version_id")),
    change("4: a stale output follows the source", "_settle", code(ast.Assign, "_follow_source")),
    change("4: a stale event is superseded", "_settle", code(ast.Assign, "Superseded")),
)
# The fence of every_version.
EACH = (
    change("1: an output is written once", "_give_own_output", code(ast.Compare, None), "True"),
    change("2: If-Match", "_give_own_output", keyword("_read_source", "IfMatch")),
    change("2: the event's version", "_give_own_output", keyword("_read_source", None)),
    change("2: a deletion supersedes", "_give_own_output", code(ast.Name, "SourceGone"), "()"),
    change("3: If-None-Match", "_give_own_output", keyword("_write_output", None)),
    change("4: the check", "_give_own_output", call("_find_source"), "True"),
    change("4: the event's version", "_give_own_output", keyword("_find_source", None)),
    change(
        "deletion: this version's output only",
        "write_each",
        code(ast.IfExp, "_list_outputs"),
        lambda outputs: outputs.orelse,
    ),
    change("deletion: versions do not compare", "_delete_older", element("UNKNOWN")),
    change("deletion: a newer output stays", "_delete_older", element("NEWER")),
    change("deletion: a new attempt", "_delete_older", code(ast.Compare, "HELD"), _and_ignore),
)
