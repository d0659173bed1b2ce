"""The mutants that no test can kill, each with the reason."""

from __future__ import annotations

_NO_ITEM = (
    "where no item is, status <> DONE holds too, on moto and ministack; AWS does not document it"
)
_FAILS = "the state that follows fails and reads nothing; what is kept is for the log"
_SECOND = "whether a record counts in the very second in which it expires is nobody's matter"

EXPECTED: dict[str, str] = {
    **{
        f"{name} with ConditionExpression: no attribute_not_exists(id)": _NO_ITEM
        for name in (
            "latest-wins: Claim Key",
            "first-wins: Claim Key",
            "every-version: Record Event",
            "content-hash: Claim Content",
        )
    },
    **{
        f"{policy}: {name}": _FAILS
        for policy in ("latest-wins", "every-version", "first-wins", "content-hash", "optimistic")
        for name in (
            "Park Event with no Catch.0.ResultPath",
            "Park Invalid Event with no ResultPath",
        )
    },
    "every-version: Record Oldest Waiter with ResultSelector.word changed": (
        "all that is asked of it is that there is no Error in it"
    ),
    "content-hash: Claim Content with ConditionExpression: comparison 3, <, as <=": _SECOND,
}
