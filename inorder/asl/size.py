"""How large may an event be, and an answer of a function? Some limits end an execution uncaught."""

from collections.abc import Iterator

from inorder.asl.definition import Json, Rule, Violation
from inorder.asl.values import CAUSE_CHARACTERS, Size
from inorder.asl.walk import walk

# Of the data of an execution, and of the input and the output of a state:
# https://docs.aws.amazon.com/step-functions/latest/dg/service-quotas.html
MOST_BYTES = 262_144
# An S3 event with the longest key, of 1,024 bytes that JSON writes with 6 bytes each, has 7,000.
LEAST_BYTES = 10_000
# AWS documents that States.ALL does not catch it, and has been recorded to for a Task's result.
TOO_LARGE = "States.DataLimitExceeded"


def largest_event(definition: Json) -> int:
    """Compute the bytes of the largest event that a file survives, with a short answer."""
    return min([MOST_BYTES, *(most for *_, most in _events(definition))])


def largest_answer(definition: Json) -> int:
    """Compute the bytes of the largest answer of a function, to an event of S3."""
    return min([MOST_BYTES, *(most for *_, most in _answers(definition))])


def _events(definition: Json) -> Iterator[tuple[str, str, int]]:
    for state, part, size, room in _limited(definition):
        if size.events:
            yield state, part, (room - LEAST_BYTES * size.answers) // size.events


def _answers(definition: Json) -> Iterator[tuple[str, str, int]]:
    for state, part, size, room in _limited(definition):
        if size.answers:
            yield state, part, (room - LEAST_BYTES * size.events) // size.answers


def _limited(definition: Json) -> Iterator[tuple[str, str, Size, int]]:
    """List what may be too large without a Catch, and what room its other bytes leave."""
    walked = walk(definition)
    for state, part, size in sorted(walked.sizes):
        catches = walked.states[state].get("Catch", [])
        if not any(TOO_LARGE in catcher["ErrorEquals"] for catcher in catches):
            yield (
                state,
                part,
                size,
                (CAUSE_CHARACTERS if part == "cause" else MOST_BYTES) - size.other,
            )


def _size(definition: Json) -> Iterator[Violation]:
    kinds = {"event": _events(definition), "answer": _answers(definition)}
    for kind, sizes in kinds.items():
        for state, part, most in {size[:2]: size for size in sorted(sizes, reverse=True)}.values():
            if most < LEAST_BYTES:
                limit = CAUSE_CHARACTERS if part == "cause" else MOST_BYTES
                yield (
                    state,
                    f"its {part} is above {limit:,} bytes, which nothing catches, with an {kind} of"
                    f" more than {most:,}: leave out what is large, or catch {TOO_LARGE}",
                )


RULES: dict[str, Rule] = {"size": _size}
