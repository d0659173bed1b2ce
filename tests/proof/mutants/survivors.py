"""The mutants that no test kills, each with the reason."""

from __future__ import annotations

from inorder.policies import policies

_NO_ITEM = (
    "without a record, status <> DONE is true too, on moto and ministack; AWS does not document it"
)
_FAILS = "the next state ends the execution and reads nothing; the data is kept for the log"
_OWN = "a waiter's own lock is in a record, and is never the lock that it watches"
_SECOND = "it makes no difference whether a record counts in the second in which it expires"

_SHIPPED: dict[str, str] = {
    **{
        f"{name} with ConditionExpression: no attribute_not_exists(id)": _NO_ITEM
        for name in (
            "first-wins: Claim Key",
            "every-version: Record Event",
            "content-hash: Claim Content",
        )
    },
    **{
        f"{policy}: {name}": _FAILS
        for policy in ("latest-wins", "every-version", "first-wins", "content-hash", "optimistic")
        for name in (
            "Park Invalid Event with no ResultPath",
            "Send By EventBridge with no Catch.0.ResultPath",
            "Send Invalid Event By EventBridge with no Catch.0.ResultPath",
            "Send Invalid Event By EventBridge with no ResultPath",
        )
    },
    "every-version: Key State? with Choices 3 and 4 swapped": _OWN,
    "every-version: Key State? with Choices 4 and 5 swapped": _OWN,
    "content-hash: Claim Content with Catch 1 and 2 swapped": "no error is both of them",
    "content-hash: Claim Content with ConditionExpression: comparison 3, <, as <=": _SECOND,
}
# A policy that was made from another has its survivors, as far as it has the mutants.
EXPECTED: dict[str, str] = {
    f"{policy.name}: {mutant}": reason
    for policy in policies()
    for shipped, mutant, reason in (
        (*name.split(": ", 1), reason) for name, reason in _SHIPPED.items()
    )
    if shipped in {policy.name, policy.like}
}
