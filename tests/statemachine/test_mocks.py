"""The cases of MockConfigFile.json, run: each takes its path, and together they take every branch.

moto runs all of them as Step Functions Local does: one count of responses per state and execution,
retries included. ministack reads one response whenever a state is entered, and repeats it when it
retries: so it runs all cases but those whose names begin with Retried.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto.stepfunctions.parser.asl.component.state.exec.state_task.service.state_task_service import (  # noqa: E501
    StateTaskService,
)
from moto.stepfunctions.parser.asl.component.state.exec.state_task.service.state_task_service_dynamodb import (  # noqa: E501
    StateTaskServiceDynamoDB,
)
from moto.stepfunctions.parser.asl.eval.environment import Environment
from moto.stepfunctions.parser.mocking.mock_config import MockedResponseReturn, MockedResponseThrow

from inorder import PROJECT, local_aws
from inorder.aws.executions import Execution, LocalStateMachine, Step, create_local
from inorder.local_aws import LocalAws
from inorder.policies import asl_file, names
from tests.in_process import InProcess
from tests.statemachine.cases.common import event

MOCKS = PROJECT / "tests/statemachine/MockConfigFile.json"
CONFIGURED: dict[str, Any] = json.loads(MOCKS.read_text())
POLICIES: list[str] = list(CONFIGURED["StateMachines"])
STATES: dict[str, dict[str, Any]] = {
    policy: json.loads((PROJECT / asl_file(policy)).read_text())["States"] for policy in POLICIES
}
# Mocks one service only, for an engine that cannot be pointed at a local one.
NOT_ALL_MOCKED = ("content-hash", "AllRealButTheEventBus")
SECONDS = 60
# What stands for the names in the files, as no service is called.
SUBSTITUTIONS: dict[str, str] = defaultdict(lambda: "mocked")

Branch = tuple[str, str, int]  # state, field, place in it


def cases(policy: str) -> dict[str, dict[str, str]]:
    """Give the cases of a policy in which each service is mocked."""
    found = CONFIGURED["StateMachines"][policy]["TestCases"]
    return {name: case for name, case in found.items() if (policy, name) != NOT_ALL_MOCKED}


def event_of(policy: str, case: str) -> Any:
    """Give the event that a case starts with."""
    if "InvalidEvent" in case:
        return event("s3-notification-test-event")
    if policy == "content-hash":
        return event("order-placed")
    if case.startswith("Version"):
        return event("object-created-in-versioned-bucket")
    return event("object-deleted" if case.startswith("Deletion") else "object-created")


def responses(name: str) -> list[dict[str, Any]]:
    """Give a mocked response, number by number."""
    numbered = []
    for numbers, response in CONFIGURED["MockedResponses"][name].items():
        first, _, last = numbers.partition("-")
        numbered += [response] * (int(last or first) - int(first) + 1)
    return numbered


# Parts of paths that several cases share.
EVENT = ["S3 Object Event?", "Versioned Object?", "Prepare Event"]
VERSION = [*EVENT[:2], "Add Version"]
INVERTED = ["Invert Image", "Outcome?"]
PROCESSED = ["Processed", "Processed"]
SUPERSEDED = ["Superseded", "Superseded"]
DUPLICATE = ["Duplicate", "Duplicate"]
LOOK = ["Count Poll", "Read Key Record", "Key State?"]
WAIT = [*LOOK, "Wait For Lock"]
WATCH = [*LOOK, "Watch Lock", "Wait For Lock"]
NOT_PARKED = ["Park Event", "Not Parked"]
INVALID = {
    "InvalidEventParked": ["S3 Object Event?", "Park Invalid Event", "Invalid Event"],
    "InvalidEventNotParked": ["S3 Object Event?", "Park Invalid Event", "Not Parked"],
    "RetriedThenInvalidEventParked": ["S3 Object Event?", "Park Invalid Event", "Invalid Event"],
}


def latest_wins() -> dict[str, list[str]]:
    claim, waiting = [*EVENT, "Claim Key"], [*EVENT, "Claim Key", "Record Newest Event"]
    parked = ["Park Event", "Release Failed Key", "Parked"]
    released = [*INVERTED, "Release Lock", "Output Written?"]
    again = ["Claim Key", *released, *PROCESSED]
    dead = [*waiting, *WATCH, *27 * WAIT, *LOOK, "Break Lock"]
    return INVALID | {
        "Processed": [*claim, *released, *PROCESSED],
        "VersionProcessed": [*VERSION, *again],
        "DeletionProcessed": [*claim, *released, *PROCESSED],
        "SupersededAtTheFence": [*claim, *released, *SUPERSEDED],
        "LockLostProcessed": [*claim, *released, *PROCESSED],
        "Superseded": [*waiting, *LOOK, *SUPERSEDED],
        "Duplicate": [*waiting, *LOOK, *DUPLICATE],
        "LockedThenProcessed": [*waiting, *WATCH, *WAIT, *LOOK, *again],
        "LookFailedThenProcessed": [*waiting, *LOOK, *again],
        "DeadHolderThenProcessed": [*dead, *again],
        "LockChangedAsItWasBrokenThenDuplicate": [*dead, *LOOK, *DUPLICATE],
        "GaveUpWaiting": [*waiting, *2 * WATCH, *27 * WAIT, *LOOK, "Give Up Waiting", *parked],
        "InvalidImageParked": [*claim, *INVERTED, "Reject Object", *parked],
        "UnknownResultParked": [*claim, *INVERTED, "Reject Result", *parked],
        "FunctionFailedParked": [*claim, "Invert Image", *parked],
        "ClaimFailedParked": [*claim, *parked],
        "RecordFailedParked": [*waiting, *parked],
        "ReleaseFailedParked": [*claim, *INVERTED, "Release Lock", *parked],
        "QueueLostNotParked": [*claim, *INVERTED, "Reject Object", *NOT_PARKED],
        "RetriedThenProcessed": [*claim, *released, *PROCESSED],
        "RetriedThenDeadHolderThenProcessed": [*dead, *again],
        "RetriedThenParked": [*claim, *INVERTED, "Reject Object", *parked],
    }


def every_version() -> dict[str, list[str]]:
    record, claim = [*EVENT, "Record Event"], [*EVENT, "Record Event", "Claim Key"]
    held = ["Read Event Record", "Event Done?"]
    parked = ["Park Event", "Release Failed Key", "Mark Event Failed", "Parked"]
    released = [*held, *INVERTED, "Mark Event Done", "Release Lock", "Which Outcome?"]
    noted = ["Skip Duplicate", "Release Lock", "Which Outcome?"]
    again = ["Claim Key", *released, *PROCESSED]
    look = ["Record Oldest Waiter", *LOOK]
    wait = [*look, "Wait For Turn"]
    lock, turn = (
        [*look, "Watch Lock", "Wait For Turn"],
        [*look, "Watch Oldest Waiter", "Wait For Turn"],
    )
    waited = [*lock, *19 * wait, *lock, *14 * wait, *look]
    dead = [*claim, *lock, *27 * wait, *look, "Break Lock"]
    passed = [*claim, *turn, *4 * wait, *look, "Clear Dead Waiter", "Wait For Turn", *look, *again]
    inverted = [*claim, *held, *INVERTED]
    return INVALID | {
        "Processed": [*record, *again],
        "VersionProcessed": [*VERSION, "Record Event", *again],
        "DeletionProcessed": [*record, *again],
        "Superseded": [*claim, *released, *SUPERSEDED],
        "LockLostProcessed": [*record, *again],
        "Duplicate": [*record, *DUPLICATE],
        "DoneMeanwhileDuplicate": [*claim, *held, *noted, *DUPLICATE],
        "LockedThenProcessed": [*claim, *lock, *wait, *look, *again],
        "LookFailedThenProcessed": [*claim, *look, *again],
        "OlderFirstThenProcessed": [*claim, *turn, *wait, *look, *again],
        "DeadTurnPassedOverThenProcessed": passed,
        "TurnTakenAsItWasPassedOverThenProcessed": passed,
        "DeadHolderThenProcessed": [*dead, *again],
        "LockChangedAsItWasBrokenThenProcessed": [*dead, *look, *again],
        "GaveUpWaiting": [*claim, *waited, "Give Up Waiting", *parked],
        "InvalidImageParked": [*inverted, "Reject Object", *parked],
        "UnknownResultParked": [*inverted, "Reject Result", *parked],
        "FunctionFailedParked": [*claim, *held, "Invert Image", *parked],
        "RecordFailedParked": [*record, *parked],
        "ClaimFailedParked": [*claim, *parked],
        "LookAtEventFailedParked": [*claim, "Read Event Record", *parked],
        "MarkFailedParked": [*inverted, "Mark Event Done", *parked],
        "ReleaseFailedParked": [*inverted, "Mark Event Done", "Release Lock", *parked],
        "QueueLostNotParked": [*inverted, "Reject Object", *NOT_PARKED],
        "RetriedThenProcessed": [*record, *again],
        "RetriedThenDeadHolderThenProcessed": [*dead, *again],
        "RetriedThenParked": [*inverted, "Reject Object", *parked],
    }


def first_wins() -> dict[str, list[str]]:
    claim = [*EVENT, "Claim Key"]
    parked = ["Park Event", "Release Failed Key", "Parked"]
    again = ["Claim Key", *INVERTED, "Release Lock", *PROCESSED]
    opened = [*claim, *INVERTED, "Release Superseded Key"]
    over = [*claim, *WATCH, *27 * WAIT, *LOOK]
    dead = [*over, "Park Lost Event", "Break Lock"]
    return INVALID | {
        "Processed": [*EVENT, *again],
        "VersionProcessed": [*VERSION, *again],
        "LockLostProcessed": [*EVENT, *again],
        "Superseded": [*opened, *SUPERSEDED],
        "LockLostSuperseded": [*opened, *SUPERSEDED],
        "Duplicate": [*claim, *LOOK, *DUPLICATE],
        "LockedThenProcessed": [*claim, *WATCH, *WAIT, *LOOK, *again],
        "LookFailedThenProcessed": [*claim, *LOOK, *again],
        "DeadHolderThenProcessed": [*dead, *again],
        "DeadHolderWithoutEventThenProcessed": [*over, "Break Lock", *again],
        "DeadHolderQueueLostNotParked": [*over, "Park Lost Event", *NOT_PARKED],
        "LockChangedAsItWasBrokenThenDuplicate": [*over, "Break Lock", *LOOK, *DUPLICATE],
        "GaveUpWaiting": [*claim, *2 * WATCH, *27 * WAIT, *LOOK, "Give Up Waiting", *parked],
        "InvalidImageParked": [*claim, *INVERTED, "Reject Object", *parked],
        "UnknownResultParked": [*claim, *INVERTED, "Reject Result", *parked],
        "FunctionFailedParked": [*claim, "Invert Image", *parked],
        "ClaimFailedParked": [*claim, *parked],
        "ReleaseFailedParked": [*claim, *INVERTED, "Release Lock", *parked],
        "OpeningFailedParked": [*opened, *parked],
        "QueueLostNotParked": [*claim, *INVERTED, "Reject Object", *NOT_PARKED],
        "DeletionParked": INVALID["InvalidEventParked"],
        "RetriedThenProcessed": [*EVENT, *again],
        "RetriedThenSuperseded": [*opened, *SUPERSEDED],
        "RetriedThenDeadHolderThenProcessed": [*dead, *again],
        "RetriedThenParked": [*claim, *INVERTED, "Reject Object", *parked],
    }


def content_hash() -> dict[str, list[str]]:
    hashed = ["Complete Event?", "Prepare Event", "Hash Detail", "Hashed?"]
    claim = [*hashed, "Name Content", "Claim Content"]
    parked = ["Park Event", "Release Failed Content", "Parked"]
    again = ["Claim Content", "Forward Event", "Release Lock", *PROCESSED]
    look = ["Count Poll", "Read Content Record", "Content State?"]
    wait, watch = [*look, "Wait For Lock"], [*look, "Watch Lock", "Wait For Lock"]
    dead = [*claim, *watch, *19 * wait, *look, "Break Lock"]
    return {name: ["Complete Event?", *path[1:]] for name, path in INVALID.items()} | {
        "Processed": [*hashed, "Name Content", *again],
        "LockLostProcessed": [*hashed, "Name Content", *again],
        "Duplicate": [*claim, *look, *DUPLICATE],
        "LockedThenProcessed": [*claim, *watch, *wait, *look, *again],
        "LookFailedThenProcessed": [*claim, *look, *again],
        "DeadHolderThenProcessed": [*dead, *again],
        "LockChangedAsItWasBrokenThenDuplicate": [*dead, *look, *DUPLICATE],
        "GaveUpWaiting": [*claim, *2 * watch, *19 * wait, *look, "Give Up Waiting", *parked],
        "UnknownResultParked": [*hashed, "Reject Result", *parked],
        "FunctionFailedParked": [*hashed[:3], *parked],
        "ClaimFailedParked": [*claim, *parked],
        "ForwardFailedParked": [*claim, "Forward Event", *parked],
        "ReleaseFailedParked": [*claim, "Forward Event", "Release Lock", *parked],
        "QueueLostNotParked": [*hashed, "Reject Result", *NOT_PARKED],
        "RetriedThenProcessed": [*hashed, "Name Content", *again],
        "RetriedThenDeadHolderThenProcessed": [*dead, *again],
        "RetriedThenParked": [*hashed, "Reject Result", *parked],
    }


def optimistic() -> dict[str, list[str]]:
    read = ["S3 Object Event?", "Prepare Event"]
    inverted, parked = [*read, *INVERTED], ["Park Event", "Parked"]
    return INVALID | {
        "Processed": [*inverted, *PROCESSED],
        "DeletionProcessed": [*inverted, *PROCESSED],
        "Superseded": [*inverted, *SUPERSEDED],
        "InvalidImageParked": [*inverted, "Reject Object", *parked],
        "UnknownResultParked": [*inverted, "Reject Result", *parked],
        "FunctionFailedParked": [*read, "Invert Image", *parked],
        "QueueLostNotParked": [*inverted, "Reject Object", *NOT_PARKED],
        "RetriedThenProcessed": [*inverted, *PROCESSED],
        "RetriedThenParked": [*inverted, "Reject Object", *parked],
    }


PATHS: dict[str, dict[str, list[str]]] = {
    "latest-wins": latest_wins(),
    "every-version": every_version(),
    "first-wins": first_wins(),
    "content-hash": content_hash(),
    "optimistic": optimistic(),
    "uncoordinated": {
        "Processed": ["Invert Image", "Processed"],
        "FunctionFailedLost": ["Invert Image", "Lost"],
        "RetriedThenProcessed": ["Invert Image", "Processed"],
    },
}


def case_machine(machine: LocalStateMachine, states: Any, case: str) -> LocalStateMachine:
    """Give the state machine whose executions are a case's."""
    return LocalStateMachine(states, f"{machine.arn}#{case}")


def wrongly_ended(policy: str, ended: dict[str, Execution]) -> list[tuple[str, Any]]:
    """List the cases that took another path than theirs, or ended otherwise than it says."""
    wrong: list[tuple[str, Any]] = []
    for case, execution in ended.items():
        path = PATHS[policy][case]
        end = STATES[policy][path[-1]]
        status = ("FAILED", end["Error"]) if end["Type"] == "Fail" else ("SUCCEEDED", None)
        if execution.path != path or (execution.status, execution.error) != status:
            wrong.append((case, (execution.status, execution.error, execution.path)))
        elif policy != "uncoordinated" and execution.outcome != path[-1].replace(" ", ""):
            wrong.append((case, execution.outcome))
    return wrong


def run_on_moto(
    monkeypatch: pytest.MonkeyPatch, aws: InProcess, policy: str
) -> dict[str, Execution]:
    """Run the cases of a policy on moto, which can answer for services, but reads no file."""
    aws.wait_scale = 0
    machine = create_local(
        boto3.client("stepfunctions"), PROJECT / asl_file(policy), SUBSTITUTIONS, name=policy
    )

    def mocked(response: dict[str, Any]) -> MockedResponseReturn | MockedResponseThrow:
        if "Return" in response:
            return MockedResponseReturn(0, 0, response["Return"])
        return MockedResponseThrow(0, 0, response["Throw"]["Error"], response["Throw"]["Cause"])

    # It would give every error of DynamoDB that is not botocore's one name.
    monkeypatch.setattr(StateTaskServiceDynamoDB, "_from_error", StateTaskService._from_error)
    monkeypatch.setattr(Environment, "is_mocked_mode", lambda _: True)
    ended = {}
    for name, case in cases(policy).items():
        left = {state: map(mocked, responses(response)) for state, response in case.items()}
        monkeypatch.setattr(
            Environment,
            "get_current_mocked_response",
            lambda env, left=left: next(left[env.next_state_name]),
        )
        ended[name] = machine.run(event_of(policy, name), SECONDS)
    return ended


@pytest.fixture(scope="module")
def mocking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalAws]:
    """Run a ministack that reads the file."""
    folder: Path = tmp_path_factory.mktemp("mocking")
    settings = {"SFN_MOCK_CONFIG": str(MOCKS)}
    with local_aws.running(folder, wait_scale=0, settings=settings) as server:
        yield server


def test_the_file_is_as_step_functions_local_wants_it() -> None:
    assert set(CONFIGURED) == {"StateMachines", "MockedResponses"}
    assert set(POLICIES) <= set(names())  # one of a user's own need not have any
    used = set()
    for policy in POLICIES:
        assert set(CONFIGURED["StateMachines"][policy]) == {"TestCases"}
        for name, case in CONFIGURED["StateMachines"][policy]["TestCases"].items():
            assert name.isalnum()
            assert {STATES[policy][state]["Type"] for state in case} == {"Task"}
            used |= set(case.values())
    assert used == set(CONFIGURED["MockedResponses"])


@pytest.mark.parametrize("name", CONFIGURED["MockedResponses"])
def test_responses_are_numbered_without_a_gap(name: str) -> None:
    following = 0
    for numbers, response in CONFIGURED["MockedResponses"][name].items():
        first, _, last = numbers.partition("-")
        assert int(first) == following
        following = int(last or first) + 1
        [(kind, content)] = response.items()
        assert kind in {"Return", "Throw"}
        if kind == "Throw":
            assert set(content) == {"Error", "Cause"}
            assert not content["Error"].startswith("States.")  # those are the engine's own


@pytest.mark.parametrize("policy", POLICIES)
def test_every_case_without_retries_takes_its_path_on_ministack(
    policy: str, mocking: LocalAws
) -> None:
    states = mocking.client("stepfunctions")
    machine = create_local(states, PROJECT / asl_file(policy), SUBSTITUTIONS, name=policy)
    started = {
        case: case_machine(machine, states, case).start(event_of(policy, case))
        for case in cases(policy)
        if not case.startswith("Retried")
    }
    ended = {case: machine.wait(execution, SECONDS) for case, execution in started.items()}
    machine.delete()
    assert wrongly_ended(policy, ended) == []


def test_ministack_repeats_a_mocked_error_when_it_retries(mocking: LocalAws) -> None:
    states = mocking.client("stepfunctions")
    file = PROJECT / asl_file("uncoordinated")
    machine = create_local(states, file, SUBSTITUTIONS, name="uncoordinated")
    ended = case_machine(machine, states, "RetriedThenProcessed").run(
        event_of("uncoordinated", "RetriedThenProcessed"), SECONDS
    )
    machine.delete()
    assert ended.path == PATHS["uncoordinated"]["FunctionFailedLost"]


def all_branches(policy: str) -> set[Branch]:
    """List every way on, and every rule of repetition, of a file."""
    return {
        (name, field, at)
        for name, state in STATES[policy].items()
        for field in ("Next", "Default", "Choices", "Retry", "Catch")
        if field in state
        for at in range(len(state[field]) if isinstance(state[field], list) else 1)
    }


def matching(rules: list[dict[str, Any]], error: str) -> int:
    """Find the first retrier or catcher of an error that no engine made itself."""
    everything = {error, "States.TaskFailed", "States.ALL"}
    return next(at for at, rule in enumerate(rules) if everything & set(rule["ErrorEquals"]))


def attempts(name: str, state: dict[str, Any], left: Iterator[dict[str, Any]]) -> Iterator[Branch]:
    """Give the branches of one stay in a state, the last of which leads on.

    A retrier counts if an attempt after it helped, or if it is there to forbid one.
    """
    tried: Counter[int] = Counter()
    for response in left:
        if "Return" in response:
            yield from ((name, "Retry", at) for at in tried)
            yield name, "Next", 0
            return
        error = response["Throw"]["Error"]
        at = matching(state["Retry"], error)
        most = state["Retry"][at]["MaxAttempts"]
        if tried[at] == most:
            if most == 0:
                yield name, "Retry", at
            yield name, "Catch", matching(state["Catch"], error)
            return
        tried[at] += 1


def rule(local: LocalAws, step: Step, state: dict[str, Any]) -> Branch:
    """Ask TestState which rule of a Choice was true."""
    rules = [{**each, "Next": str(at)} for at, each in enumerate(state["Choices"])]
    following = local.client("stepfunctions").test_state(
        definition=json.dumps({**state, "Choices": rules, "Default": "Default"}),
        input=json.dumps(step.input),
        roleArn="arn:aws:iam::123456789012:role/test",
    )["nextState"]
    if following == "Default":
        return step.state, "Default", 0
    return step.state, "Choices", int(following)


def branches(local: LocalAws, policy: str, case: str, ended: Execution) -> Iterator[Branch]:
    """Give the branches that an execution took, checked against the path it took."""
    left = {state: iter(responses(name)) for state, name in cases(policy)[case].items()}
    for step, following in pairwise([*ended.steps, None]):
        assert step
        state = STATES[policy][step.state]
        if state["Type"] in {"Succeed", "Fail"}:
            continue
        taken = [(step.state, "Next", 0)]
        if state["Type"] == "Task":
            taken = list(attempts(step.state, state, left[step.state]))
        elif state["Type"] == "Choice":
            taken = [rule(local, step, state)]
        _, field, at = taken[-1]
        target = state[field] if isinstance(state[field], str) else state[field][at]["Next"]
        assert following
        assert target == following.state
        yield from taken
    assert [state for state, rest in left.items() if list(rest)] == []  # nothing mocked in vain


@pytest.mark.parametrize("policy", POLICIES)
def test_every_case_takes_its_path_on_moto_and_together_every_branch(
    policy: str, monkeypatch: pytest.MonkeyPatch, aws: InProcess, mocking: LocalAws
) -> None:
    ended = run_on_moto(monkeypatch, aws, policy)
    assert set(ended) == set(PATHS[policy])
    assert wrongly_ended(policy, ended) == []
    taken = {
        branch
        for case, execution in ended.items()
        for branch in branches(mocking, policy, case, execution)
    }
    assert {state for execution in ended.values() for state in execution.path} == set(
        STATES[policy]
    )
    assert taken == all_branches(policy)
