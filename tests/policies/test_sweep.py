"""A sweep frees no lock whose holder, or its function, can run: `inorder_fence.stuck` says why."""

from datetime import UTC, datetime, timedelta

import boto3
import pytest

from inorder.asl.definition import EXPRESS_SECONDS, INVOKE, assigned, removed
from inorder.asl.roles import Role, doing
from inorder.asl.walk import longest
from inorder.aws.health import BEFORE_AND_AFTER_SECONDS
from inorder.model import policies
from inorder_fence import stuck
from tests.policies.situations import of
from tests.support.in_process import InProcess

SINCE, LOCK = stuck.SINCE, stuck.LOCK
LOCKING = [
    name for name in policies.names() if doing(policies.definition(name)["States"], Role.CLAIMS)
]
FOR_LOCKING = pytest.mark.parametrize("policy", LOCKING)


@FOR_LOCKING
def test_express_ends_executions_before_a_sweep_frees_their_locks(policy: str) -> None:
    assert policies.definition(policy)["TimeoutSeconds"] == EXPRESS_SECONDS
    assert timedelta(seconds=EXPRESS_SECONDS) == stuck.EXECUTION
    assert timedelta(seconds=60) == stuck.CLOCKS_DIFFER
    assert stuck.DEAD_AFTER == stuck.EXECUTION + stuck.CLOCKS_DIFFER


@FOR_LOCKING
def test_a_function_ends_before_its_executions_timeout(policy: str) -> None:
    """The claim's time is that at which *Claim Key* was entered."""
    states = policies.definition(policy)["States"]
    [claim] = doing(states, Role.CLAIMS)
    [work] = [state for state in states.values() if state.get("Resource") == INVOKE]
    before = longest(states[claim]) + longest(work) - work["TimeoutSeconds"]  # the last attempt
    function = work["TimeoutSeconds"] - BEFORE_AND_AFTER_SECONDS
    assert function == 110
    initialised = 10
    assert function + initialised < work["TimeoutSeconds"]  # so a release comes after it has ended
    assert before + initialised + function < EXPRESS_SECONDS


@FOR_LOCKING
def test_the_time_of_a_lock_is_that_of_its_claim(policy: str) -> None:
    states = policies.definition(policy)["States"]
    for name, state in states.items():
        update = state.get("Parameters", {}).get("UpdateExpression", "")
        if LOCK in assigned(state):
            assert f"{SINCE} = :now" in update, name
            assert state["Parameters"]["ExpressionAttributeValues"][":now"] == {
                "S.$": "$$.State.EnteredTime"
            }
        elif SINCE in assigned(state):
            assert f"{SINCE} = if_not_exists({SINCE}, :now)" in update, name
        if SINCE in removed(state):
            assert LOCK in removed(state), name


@of("latest-wins")
@pytest.mark.parametrize(("ahead", "is_freed"), [(-60, False), (0, False), (59, False), (60, True)])
def test_a_sweeps_clock_may_be_less_than_a_minute_ahead(
    aws: InProcess, ahead: int, is_freed: bool
) -> None:
    """At the very instant at which Express ends the execution that has claimed the key at once."""
    claimed = datetime.now(UTC)
    record = {"id": "input/x.png", "event": "{}", LOCK: "mine", SINCE: claimed.isoformat()}
    aws.table.put_item(Item=record)
    of_index = boto3.client("dynamodb"), aws.table.name
    sweep = claimed + stuck.EXECUTION + timedelta(seconds=ahead)
    stuck_ids = stuck.oldest(*of_index, sweep)
    assert stuck_ids == (["input/x.png"] if is_freed else [])
    assert (stuck.read(*of_index, "input/x.png", sweep) is not None) == is_freed
