"""How large may an event be, and an answer of a function? Some limits end an execution uncaught."""

from collections.abc import Iterator
from typing import Literal, get_args

from inorder.asl.definition import Json, Rule, Violation
from inorder.asl.values import CAUSE_CHARACTERS
from inorder.asl.walk import walk

# Of the data of an execution, and of the input and the output of a state:
# https://docs.aws.amazon.com/step-functions/latest/dg/service-quotas.html
MOST_BYTES = 262_144
# An S3 event with the longest key, of 1,024 bytes that JSON writes with 6 bytes each, has 7,000.
LEAST_BYTES = 10_000
# AWS documents that States.ALL does not catch it, and has been recorded to for a Task's result.
TOO_LARGE = "States.DataLimitExceeded"

Kind = Literal["events", "answers"]


def largest_event(definition: Json) -> int:
    """Compute the bytes of the largest event that a file survives, with a short answer."""
    return min([MOST_BYTES, *(most for *_, most in _largest(definition, "events"))])


def largest_answer(definition: Json) -> int:
    """Compute the bytes of the largest answer of a function, to an event of S3."""
    return min([MOST_BYTES, *(most for *_, most in _largest(definition, "answers"))])


def _largest(definition: Json, kind: Kind) -> Iterator[tuple[str, str, int]]:
    """List what grows with an event or an answer, and which size of that a Catch need not see."""
    walked, other = walk(definition), "answers" if kind == "events" else "events"
    for state, part, size in sorted(walked.sizes):
        catches = walked.states[state].get("Catch", [])
        is_caught = any(TOO_LARGE in catcher["ErrorEquals"] for catcher in catches)
        if (copies := getattr(size, kind)) and not is_caught:
            room = _limit(part) - size.other - LEAST_BYTES * getattr(size, other)
            yield state, part, room // copies


def _limit(part: str) -> int:
    return CAUSE_CHARACTERS if part == "cause" else MOST_BYTES


def _size(definition: Json) -> Iterator[Violation]:
    for kind in get_args(Kind):
        smallest_last = sorted(_largest(definition, kind), reverse=True)
        for state, part, most in {size[:2]: size for size in smallest_last}.values():
            if most < LEAST_BYTES:
                yield (
                    state,
                    f"its {part} is above {_limit(part):,} bytes, which nothing catches, with an"
                    f" {kind.removesuffix('s')} of more than {most:,}: leave out what is large, or"
                    f" catch {TOO_LARGE}",
                )


RULES: dict[str, Rule] = {"size": _size}
