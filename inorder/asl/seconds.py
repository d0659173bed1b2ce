"""How long may an execution take? Express ends it after five minutes, and no Catch sees that."""

from collections.abc import Iterator
from math import inf

from inorder.asl.definition import EXPRESS_SECONDS, Json, Rule, Violation
from inorder.asl.walk import walk


def longest_execution(definition: Json) -> float:
    """Compute the seconds that the slowest way through a file takes."""
    walked = walk(definition)
    return inf if walked.endless else sum(walked.seconds.values())


def _seconds(definition: Json) -> Iterator[Violation]:
    walked, most = walk(definition), definition.get("TimeoutSeconds", EXPRESS_SECONDS)
    if most > EXPRESS_SECONDS:
        yield "", f"TimeoutSeconds is {most}, but Express ends an execution after {EXPRESS_SECONDS}"
    if walked.endless:
        yield (
            walked.endless,
            "nothing bounds how often an execution may come here: count, and stop at a number",
        )
    for name, seconds in walked.seconds.items():
        if seconds == inf:
            yield name, "nothing bounds its seconds: give a Task TimeoutSeconds, and a Wait Seconds"
    if most <= (total := sum(walked.seconds.values())) < inf:
        parts = (f"{name} {seconds:g}" for name, seconds in walked.seconds.most_common(4))
        yield (
            "",
            f"the longest execution takes {total:g} s, and must end before {most} s:"
            f" {', '.join(parts)}. Shorten a timeout, a wait or a Retry",
        )


RULES: dict[str, Rule] = {"seconds": _seconds}
