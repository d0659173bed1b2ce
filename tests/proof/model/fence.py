"""The mutants of the fence. The numbers in their names are its steps."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.proof.model.source import call, change, code, element, keyword, operand, parsed


def _read_output_again(write: ast.Call) -> ast.Call:
    """Make the write conditional on the output as it is just before."""
    [condition] = [each for each in write.keywords if each.arg is None]
    condition.value = parsed(f"self.read_output({ast.unparse(write.args[0])}).unchanged()")
    return write


def _check(rule: ast.If) -> ast.If:
    """Check the source instead of ending the attempt."""
    [shows] = [node for node in call("shows")(rule) if isinstance(node, ast.Call)]
    rule.body = [ast.Return(parsed(f"self._check_source({ast.unparse(shows.args[0])})"))]
    return rule


def _and_ignore(comparison: ast.expr) -> ast.expr:
    return ast.BoolOp(ast.Or(), [comparison, ast.Constant(value=True)])


def _guards(method: ast.AST) -> Iterator[ast.AST]:
    cases = (node for node in ast.walk(method) if isinstance(node, ast.match_case))
    return (each.guard for each in cases if each.guard)


# The fence of latest_wins and first_wins.
NEWEST = (
    change("1: a newer output supersedes", "_apply_creation", code(ast.match_case, "NEWER")),
    change("1: an output is written once", "_apply_creation", code(ast.match_case, "SAME")),
    change("1: versions do not compare", "order", code(ast.If, "source-version-id")),
    change("1: a version is created once", "order", code(ast.If, "SAME")),
    change("2: If-Match", "_replace_output", keyword("_read_source", "IfMatch")),
    change("2: the event's version", "_read_source", code(ast.If, "named_version")),
    change("2: a source that is there again", "_follow_source", call("find_source"), "None"),
    change("2: a right output is not written again", "_follow_source", code(ast.If, "shows")),
    change("2: a right output is not checked", "_follow_source", code(ast.If, "shows"), _check),
    change("2: a later upload has its own event", "_follow_source", code(ast.If, "version_id")),
    change(
        "2: the output of another version", "shows", call("named_version"), "source.object_id[0]"
    ),
    change(
        "2: the null version is overwritten", "shows", code(ast.Call, "source-etag"), "source.etag"
    ),
    change("3: the stamp", "_write_output", call("stamp"), "b''"),
    change("3: If-Match", "unchanged", code(ast.Dict, "IfMatch"), "{}"),
    change("3: If-None-Match", "unchanged", code(ast.Dict, "IfNoneMatch"), "{}"),
    change("3: If-Match of a deletion", "_delete_output", keyword("delete_object", "IfMatch")),
    change("3: a new attempt after 412", "_is_failed_condition", element("PRECONDITION_FAILED")),
    change("3: a new attempt after 409", "_is_failed_condition", element("CONFLICT")),
    change("3: a new attempt after 404", "_is_failed_condition", operand("_is_missing")),
    change("3: the ETag of step 1", "_replace_output", call("_write_output"), _read_output_again),
    change("4: the check", "_check_source", code(ast.If, "STALE")),
    *(
        change(f"4: the check {name}", "_replace_output", code(ast.Compare, "OLDER"), condition)
        for name, condition in (
            ("after a first write", "output.etag is None or output.order(source) is Order.OLDER"),
            ("after the write of a version", "source.version_id or output.etag"),
            ("after a write over another version", "output.etag and not source.version_id"),
        )
    ),
    change("4: the check of a retry", "_apply_creation", call("_check_source"), "Attempt.DONE"),
    change("4: the check after a deletion", "_delete_orphan", call("find_source"), "None"),
    change(
        "4: the version of the source", "_check_source", code(ast.Compare, "object_id"), "False"
    ),
    change("4: a stale output follows the source", "_settle", code(ast.Assign, "_follow_source")),
    change("4: a stale event is superseded", "_settle", code(ast.Assign, "Superseded")),
)
# Of repairs by another version of the code.
REPAIRS = tuple(
    change(f"1: a repair {name}", "_apply_creation", _guards, by)
    for name, by in (("makes an outdated output again", "True"), ("makes it once", "False"))
)
# The fence of every_version.
EACH = (
    change("1: an output is written once", "_give_own_output", code(ast.Compare, None), "True"),
    change(
        "2: the null version",
        "_give_own_output",
        code(ast.BoolOp, "NULL_VERSION"),
        "event.version_id",
    ),
    change("2: a marker is no object", "_is_missing", element("METHOD_NOT_ALLOWED")),
    change("2: If-Match", "_give_own_output", keyword("_read_source", "IfMatch")),
    change("2: the event's version", "_give_own_output", keyword("_read_source", None)),
    change("2: a deletion supersedes", "_give_own_output", code(ast.Name, "SourceGone"), "()"),
    change("3: If-None-Match", "_give_own_output", keyword("_write_output", None)),
    change("4: the check", "_give_own_output", call("find_source"), "True"),
    change("4: the event's version", "_give_own_output", keyword("find_source", None)),
    change(
        "deletion: this version's output only",
        "write_each",
        code(ast.IfExp, "_list_outputs"),
        lambda outputs: outputs.orelse,
    ),
    change("deletion: versions do not compare", "_delete_older", element("UNKNOWN")),
    change("deletion: a newer output stays", "_delete_older", element("NEWER")),
    change("deletion: a new attempt", "_delete_older", call("_delete_output"), _and_ignore),
)
