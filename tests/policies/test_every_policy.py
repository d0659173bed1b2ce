"""What several policies do alike, with the real functions and conditional writes, on moto."""

import json
from collections import Counter

import pytest

from inorder.asl.definition import EXPRESS_SECONDS
from inorder.asl.size import LEAST_BYTES, TOO_LARGE, largest_answer, largest_event
from inorder.model.policies import definition
from tests.conftest import picture
from tests.policies.places import Moto
from tests.policies.situations import RED, of
from tests.policies.stories import TOLD, tell
from tests.policies.tables import TABLES
from tests.proof.simulation.cloud import Cloud, Settings
from tests.support.events import changed, created
from tests.support.in_process import InProcess

LOCKING = [policy for policy, table in TABLES.items() if "lock_token" in table.data]


@pytest.mark.parametrize(("story", "policy"), TOLD)
def test_a_story_happens_as_it_is_told(aws: InProcess, story: str, policy: str) -> None:
    tell(Moto(aws), story, policy)


@of(*LOCKING)
def test_of_five_copies_at_once_one_is_processed(aws: InProcess) -> None:
    aws.wait_scale = 0.2
    event = aws.upload("x.png", picture(RED))
    executions = [aws.start(event) for _ in range(5)]
    outcomes = Counter(aws.wait(execution).outcome for execution in executions)
    assert outcomes == {"Processed": 1, "Duplicate": 4}
    assert len(aws.invocations) == 1


@of(*TABLES)
def test_the_function_is_told_which_execution_invokes_it(aws: InProcess) -> None:
    execution = aws.run(aws.upload("x.png", picture(RED))).arn
    assert [invocation["execution"] for invocation in aws.invocations] == [execution]


# Above what the check computes, an execution may have this many bytes more until one is too many:
# the check does not know how long each short value is.
ROOM = 5_000


@pytest.mark.parametrize(("above", "outcome"), [(0, "Processed"), (ROOM, TOO_LARGE)])
@pytest.mark.parametrize("policy", LOCKING)
def test_an_event_may_be_as_large_as_the_check_computes(
    policy: str, above: int, outcome: str
) -> None:
    # In the record, which has the event as a text, each quote takes four bytes instead of two.
    cloud, event, largest = Cloud(Settings(policy)), created(), largest_event(definition(policy))
    longest_key = changed(event, "detail.object.key", "\x01" * 1024)
    assert len(json.dumps(longest_key)) < LEAST_BYTES < largest
    event["detail"]["reason"] = '"' * ((largest + above - len(json.dumps(event)) - 20) // 2)
    cloud.objects.upload("x.png", event["detail"]["object"]["etag"])
    cloud.start(event)
    cloud.clock.env.run(until=EXPRESS_SECONDS)
    assert cloud.outcomes == {outcome: 1}


@pytest.mark.parametrize(("above", "outcome"), [(0, "Parked"), (ROOM, "States.Runtime")])
@pytest.mark.parametrize("policy", LOCKING)
def test_an_answer_may_be_as_large_as_the_check_computes(
    policy: str, above: int, outcome: str
) -> None:
    answer = {"outcome": "Rejected", "error": "Rejection", "cause": "", "expires_at": "1795000000"}
    answer["cause"] = "x" * (largest_answer(definition(policy)) + above - len(json.dumps(answer)))
    cloud = Cloud(Settings(policy))
    cloud.function.answer = lambda _: answer
    cloud.upload("x.png")
    cloud.clock.env.run(until=EXPRESS_SECONDS)
    assert cloud.outcomes == {outcome: 1}
