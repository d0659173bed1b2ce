"""Does the template know the states? Its metrics, its dashboard and its queries name some."""

from __future__ import annotations

import re
from collections.abc import Iterator

from inorder.asl.definition import (
    PUT,
    PUT_EVENTS,
    SEND,
    UPDATE,
    Json,
    is_end,
    is_renewal,
    payload,
    written,
)

# How a resource of the template names a state.
_FORMS = {
    "OutcomesFilter": '$.details.name = "{}"',
    "EventsDashboard": '"Outcomes", "Outcome", "{}"',
    "BrokenLocksFilter": '$.details.name = "{}"',
}
_IN_A_QUERY = '"{}"'
# What a state does, and the resources that must name it for that.
_METRICS = ("ends an execution", ("OutcomesFilter", "EventsDashboard"))
_ENDS = ("ends an execution", ("OutcomesQuery", "KeyHistoryQuery"))
_CLAIMS = ("claims a lock", ("KeyHistoryQuery",))
_RELEASES = ("releases its own lock", ("SlowestHoldersQuery",))
_BREAKS = ("breaks a lock", ("BrokenLocksFilter", "BrokenLocksQuery", "KeyHistoryQuery"))


def findings(definition: Json, template: str) -> Iterator[tuple[str, str]]:
    """Compare the names of a file's states with those in the text of a template.

    A resource that the template lacks needs no name.
    """
    states: Json = definition["States"]
    # Without a queue, a policy has neither these metrics nor the dashboard.
    sends = any(state.get("Resource") in {SEND, PUT_EVENTS} for state in states.values())
    for name, state in states.items():
        for does, resources in _roles(state):
            for resource in resources if sends or resources != _METRICS[1] else ():
                form = _FORMS.get(resource, _IN_A_QUERY)
                block = re.search(rf"^  {resource}:.*\n(?:(?:    .*)?\n)+", template, re.MULTILINE)
                if block and form.format(name) not in block.group():
                    line = _line(template, block, form)
                    yield (
                        name,
                        f"it {does}, so add {form.format(name)} to line {line} of the template,"
                        f" in {resource}",
                    )


def _roles(state: Json) -> Iterator[tuple[str, tuple[str, ...]]]:
    if is_end(state):
        yield from (_METRICS, _ENDS)
    parameters = state.get("Parameters", {})
    if state.get("Resource") == UPDATE and "lock_token" in written(state, "REMOVE"):
        is_own = "$.lock_token" in payload(parameters.get("ExpressionAttributeValues"))
        yield _RELEASES if is_own else _BREAKS
    takes = state.get("Resource") == UPDATE and "lock_token" in written(state, "SET")
    puts = state.get("Resource") == PUT and "lock_token" in parameters.get("Item", {})
    if puts or (takes and not is_renewal(state)):
        yield _CLAIMS


def _line(template: str, block: re.Match[str], form: str) -> int:
    """Give the last line of a resource that names a state, or its first line."""
    # A query has other texts in quotes, too: the name of a state is in a list of such names.
    named = re.escape(form).replace(r"\{\}", r"[A-Z][\w ?]*")
    *_, last = [0, *(each.start() for each in re.finditer(named, block.group()))]
    return template.count("\n", 0, block.start() + last) + 1
