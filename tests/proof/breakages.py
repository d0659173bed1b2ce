"""Named breakages of latest_wins.asl.json, of the sweep and of the fence, and what must find each.

A breakage is the product with one thing left out or changed. The layer beside it says in which
scenario, campaign or test it is found, and how.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple
from unittest.mock import patch

import pytest

from inorder import PROJECT
from inorder.model import policies
from inorder_fence import stuck
from tests.policies.latest_wins.promise import LatestWins
from tests.proof.model.engine import Engine
from tests.proof.model.scenario import DELETED, FAILED, NO_IMAGE, A, B, Damage, Deletion, Scenario
from tests.proof.model.search import STUCK, search
from tests.proof.model.suite import Shipped, limit
from tests.proof.simulation.conftest import hot_key_whose_holder_dies, long_work
from tests.proof.simulation.test_deaths import Campaign

SIMULATION = "tests/proof/simulation/test"
CAMPAIGNS = 400
HOT_KEY_SECONDS = 480


class Breakage(NamedTuple):
    """A change of the product."""

    name: str
    found_by: Search | Simulated | Tests
    text: str  # of the ASL file, of the fence or of the sweep
    instead: str

    def shipped(self) -> Shipped:
        return Shipped.of(LatestWins).changed(self.text, self.instead)

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Let all that reads the file, or the sweep, later use the changed one."""
        shipped, sweep = self.shipped(), {"__name__": stuck.__name__}
        exec(compile(shipped.sweep.text, stuck.__file__, "exec"), sweep)  # noqa: S102
        read = policies.asl

        def asl(name: str, *project: Any) -> str:
            return shipped.file if name == "latest-wins" else read(name, *project)

        with patch.object(policies, "asl", asl), patch.dict(vars(stuck), sweep):
            yield


@dataclass(frozen=True)
class Search:
    """The model checker finds a problem in a scenario."""

    scenario: Scenario
    problem: str
    is_quick: ClassVar[bool] = True

    def finds(self, breakage: Breakage) -> bool:
        shipped, engine = breakage.shipped(), Engine()
        engine.load(shipped.file, fence=shipped.fence, sweep=shipped.sweep)
        result = search(LatestWins(engine, self.scenario), limit(self.scenario))
        print(result)  # noqa: T201 - with `-rP`, pytest shows the trace
        return result.problem == self.problem


@dataclass(frozen=True)
class Simulated:
    """A simulation ends wrong."""

    is_wrong: Callable[[], object]
    is_quick: bool = True

    def finds(self, breakage: Breakage) -> bool:
        with breakage.installed():
            return bool(self.is_wrong())


def deaths_end(problem: str) -> bool:
    """Run campaigns of random deaths until one ends wrong, and tell whether with a problem."""
    first = next(filter(None, (Campaign(seed).run() for seed in range(CAMPAIGNS))), "")
    print(first)  # noqa: T201
    return first.startswith(problem)


@dataclass(frozen=True)
class Tests:
    """A test of the files' tables, of a function or of the simulation fails."""

    test: str
    is_quick: ClassVar[bool] = False

    def finds(self, breakage: Breakage) -> bool:
        command = [sys.executable, "-m", "tests.proof.breakages", breakage.name, self.test]
        environment = os.environ | {"PYTHONPATH": "functions"}
        done = subprocess.run(  # noqa: S603
            command, cwd=PROJECT, env=environment, capture_output=True, text=True, check=False
        )
        print(done.stdout)  # noqa: T201
        return done.returncode == pytest.ExitCode.TESTS_FAILED


BREAKAGES = (
    # The claim
    Breakage(
        "a damaged event is worked on",
        Search(
            Scenario([A], damaged=Damage("detail.object.key", 5)),
            "I4: 1a works on an invalid event",
        ),
        '{ "Variable": "$.detail.object.key", "IsString": true },',
        "",
    ),
    Breakage(
        "an event that has no order is recorded",
        Search(
            Scenario([A], damaged=Damage("detail.object.sequencer", "test")),
            "I4: 1a works on an invalid event",
        ),
        '"NumericGreaterThan": 0, "Next": "Reject Event"',
        '"NumericGreaterThan": 9, "Next": "Reject Event"',
    ),
    Breakage(
        "a locked key is claimed",
        Search(Scenario([A], delivered=[1, 1]), "I3: 1b works while 1a does"),
        "(attribute_not_exists(lock_token) AND (attribute",
        "(attribute_not_exists(hand_overs) AND (attribute",
    ),
    Breakage(
        "a done event is claimed",
        Search(Scenario([A], delivered=[1, 1]), "I3: 1 is done and processed again"),
        " AND #status <> :done",
        "",
    ),
    Breakage(
        "a newer event is not claimed",
        Search(Scenario([A, B]), "I5: 2a cannot claim a free key"),
        "OR sequencer < :sequencer OR (sequencer = ",
        "OR (sequencer = ",
    ),
    Breakage(
        "an older event is claimed",
        Search(
            Scenario([A, B], transient=(FAILED,)), "I4: 2a ends in Superseded, which is not true"
        ),
        "OR sequencer < :sequencer OR (",
        "OR sequencer <> :sequencer OR (",
    ),
    Breakage(
        "a claim that was written late is not taken over",
        Search(Scenario([A], lates=1), "I5: 1a cannot claim the key that it has"),
        ' OR (lock_token = :lock_token AND sequencer = :sequencer)"',
        '"',
    ),
    Breakage(
        "each event has a record of its own",
        Search(Scenario([A, B]), "I3: 2a works while 1a does"),
        '"id": { "S.$": "$.object_key" }',
        '"id": { "S.$": "$.sequencer" }',
    ),
    Breakage(
        "all executions have the same lock token",
        Simulated(lambda: deaths_end("two at once"), is_quick=False),
        '"lock_token.$": "States.UUID()"',
        '"lock_token.$": "$$.StateMachine.Name"',
    ),
    # The waiter
    Breakage(
        "a newer event is not recorded",
        Search(Scenario([A, B]), "I4: 2a ends in Superseded, which is not true"),
        '"attribute_not_exists(sequencer) OR sequencer < :sequencer"',
        '"attribute_not_exists(sequencer)"',
    ),
    Breakage(
        "each recorded event renews the time of the claim",
        Simulated(lambda: hot_key_whose_holder_dies(30)[1] > HOT_KEY_SECONDS),
        "if_not_exists(in_progress_since, :now)",
        ":now",
    ),
    Breakage(
        "a superseded event waits",
        Search(Scenario([A, B]), "I5: waits for longer than its limit"),
        '"Next": "Superseded"\n        },\n        {\n          "And": [\n'
        '            { "Variable": "$.record.Item.status.S"',
        '"Next": "Wait For Lock"\n        },\n        {\n          "And": [\n'
        '            { "Variable": "$.record.Item.status.S"',
    ),
    Breakage(
        "a done event waits",
        Search(
            Scenario([A], delivered=[1, 1]), "I4: 1a gives up an event that is superseded or done"
        ),
        '"StringEquals": "DONE"',
        '"StringEquals": "FAILED"',
    ),
    Breakage(
        "an execution waits for its own lock",
        Search(Scenario([A, B], lates=1), "I5: 2a waits for its own lock"),
        '{ "Variable": "$.polls", "NumericLessThan": 6 }',
        '{ "Variable": "$.polls", "NumericLessThan": 0 }',
    ),
    Breakage(
        "an execution ends without its own lock, if a newer event is recorded",
        Search(Scenario([A, B], lates=1), "I5: 1a ends, and leaves its lock to a sweep"),
        '"StringEqualsPath": "$.sequencer" } }\n          ],\n'
        '          "Next": "Release Lock Only"',
        '"StringEqualsPath": "$.sequencer" } }\n          ],\n          "Next": "Superseded"',
    ),
    Breakage(
        "an execution waits beyond Express's five minutes",
        Tests("tests/policies/test_definition.py::test_the_longest_execution_takes_its_seconds"),
        '"Seconds": 5,',
        '"Seconds": 50,',
    ),
    # The work
    Breakage(
        "a fault is not handed over",
        Search(Scenario([A], transient=(FAILED,)), "I4: 1a ends in Retrying, which is not true"),
        '"ResultPath": "$.fault", "Next": "Hand Over Event" }\n      ],\n      "Next": "Outcome?"',
        '"ResultPath": "$.fault", "Next": "Release Lock Only" }\n      ],\n'
        '      "Next": "Outcome?"',
    ),
    Breakage(
        "an answer without expires_at counts",
        Search(
            Scenario([A], faults=1, odd=True),
            "I4: ended by States.Runtime, as $.inversion.Payload.expires_at is absent, "
            "in Release Lock",
        ),
        '            { "Variable": "$.inversion.Payload.expires_at", "IsPresent": true },\n'
        '            { "Variable": "$.inversion.Payload.expires_at", "IsString": true }\n'
        '          ],\n          "Next": "Release Lock"',
        '            { "Variable": "$.inversion.Payload", "IsPresent": true }\n'
        '          ],\n          "Next": "Release Lock"',
    ),
    Breakage(
        "a rejected event's reason is lost",
        Tests(f"{SIMULATION}_validation.py::test_each_state_does_what_the_table_says"),
        '"Cause.$": "$.inversion.Payload.cause"',
        '"Cause.$": "$.inversion.Payload.error"',
    ),
    # The releases
    Breakage(
        "an event is marked as done in the record of a newer one",
        Search(Scenario([A, B]), "I4: 2a ends in Duplicate, which is not true"),
        '"lock_token = :lock_token AND sequencer = :sequencer"',
        '"lock_token = :lock_token"',
    ),
    Breakage(
        "a late release frees another execution's lock",
        Search(Scenario([A], lates=1), "I3: 1b releases another execution's lock"),
        '"lock_token = :lock_token AND sequencer = :sequencer"',
        '"sequencer = :sequencer"',
    ),
    Breakage(
        "an execution without a lock frees another one's",
        Search(Scenario([A], delivered=[1, 1]), "I3: 1b releases another execution's lock"),
        '"ConditionExpression": "lock_token = :lock_token",',
        '"ConditionExpression": "attribute_exists(lock_token)",',
    ),
    Breakage(
        "a done record stays in the index",
        Search(Scenario([A]), "I7: a sweep is needed"),
        'execution, in_progress_since"',
        'execution"',
    ),
    Breakage(
        "a holder starts its own event again",
        Search(Scenario([A], transient=(FAILED,)), "I5: 1a starts an event that is not newer"),
        '"StringEqualsPath": "$.sequencer", "Next": "Final Outcome?" }',
        '"StringEqualsPath": "$.lock_token", "Next": "Final Outcome?" }',
    ),
    Breakage(
        "a holder starts its own event instead of the newest one",
        Search(Scenario([A, B]), "I5: 1a starts an event that is not newer"),
        "States.StringToJson($.newest.event)",
        "$$.Execution.Input",
    ),
    Breakage(
        "the newest event is not started",
        Tests(f"{SIMULATION}_bursts.py::test_the_newest_event_follows_soon_after_its_holder"),
        '"Default": "Start Newest Event"',
        '"Default": "Final Outcome?"',
    ),
    # The hand-over
    Breakage(
        "a rejected event stays in progress",
        Search(Scenario([NO_IMAGE]), "I7: a sweep is needed"),
        '"Next": "Release Unprocessed Key"\n        }\n      ],\n'
        '      "Default": "Release Lock Only"',
        '"Next": "Release Lock Only"\n        }\n      ],\n      "Default": "Release Lock Only"',
    ),
    Breakage(
        "a rejected event that was not sent is marked as failed",
        Search(
            Scenario([NO_IMAGE], refusals=2),
            "I1: all is quiet and the output was made from None, not from 1",
        ),
        '            { "Variable": "$.fault.rejected", "IsPresent": true },\n'
        '            { "Not": { "Variable": "$.unsent", "IsPresent": true } }',
        '            { "Variable": "$.fault.rejected", "IsPresent": true }',
    ),
    Breakage(
        "EventBridge is not tried",
        Search(Scenario([NO_IMAGE], refusals=1), "I4: 1a ends in Parked, which is not true"),
        '"Next": "Send By EventBridge"',
        '"Next": "Rejected?"',
    ),
    Breakage(
        "the queue's refusal counts as the event's fault",
        Search(Scenario([NO_IMAGE], refusals=1), "I4: 1a ends in Retrying, which is not true"),
        '"ResultPath": "$.refusal", "Next": "Send By EventBridge"',
        '"ResultPath": "$.fault", "Next": "Send By EventBridge"',
    ),
    Breakage(
        "an event that was not sent is reported as parked",
        Search(Scenario([NO_IMAGE], refusals=2), "I4: 1a ends in Parked, which is not true"),
        '"ResultPath": "$.unsent", "Next": "Rejected?"',
        '"ResultPath": "$.refusal", "Next": "Rejected?"',
    ),
    Breakage(
        "the lock stays after EventBridge has the event",
        Search(Scenario([NO_IMAGE], refusals=1), "I5: 1a ends, and leaves its lock to a sweep"),
        '"ResultPath": "$.unsent", "Next": "Rejected?" }\n      ],\n      "Next": "Rejected?"',
        '"ResultPath": "$.unsent", "Next": "Rejected?" }\n      ],\n      "Next": "Final Outcome?"',
    ),
    Breakage(
        "the event goes to a bus without a rule",
        Search(Scenario([NO_IMAGE], refusals=1), "I4: 1a ends in Parked, which is not true"),
        "${RetryEventsBusName}",
        "default",
    ),
    # The sweep
    Breakage(
        "a sweep frees no lock",
        Search(Scenario([A], lates=1), "I5: this may go on for ever"),
        'FREE = f"REMOVE {LOCK}, execution"',
        'FREE = "REMOVE nothing"',
    ),
    Breakage(
        "a sweep leaves locked records to others",
        Search(Scenario([A], delivered=[1, 1], crashes=1), STUCK),
        "    record = item(record_id)\n",
        "    record = item(record_id)\n    if LOCK in record:\n        return None\n",
    ),
    Breakage(
        "a sweep frees a lock, and sends nothing",
        Search(
            Scenario([NO_IMAGE], refusals=2),
            "I1: all is quiet and the output was made from None, not from 1",
        ),
        "    send(records.retry_message(key.event, *reason, key.id))\n",
        "",
    ),
    Breakage(
        "a sweep takes a record out of the index",
        Simulated(lambda: deaths_end("lost"), is_quick=False),
        'f"SET {SINCE} = :now, {COUNT} = :count {FREE}",\n        now={"S": now.isoformat()},\n',
        'f"SET {COUNT} = :count {LEAVE}",\n',
    ),
    Breakage(
        "a slow sweep frees the lock of a later holder",
        Search(Scenario([A, B], crashes=1, sweeps=1), "I3: 2a works while 1a does"),
        "for name in (SINCE, SEQUENCER) if",
        "for name in (SEQUENCER,) if",
    ),
    Breakage(
        "a slow sweep takes a newer event's record out of the index",
        Tests("tests/unit/test_heal_keys.py"),
        "for name in (SINCE, SEQUENCER) if",
        "for name in (SINCE,) if",
    ),
    Breakage(
        "a sweep frees a lock after a minute",
        Simulated(lambda: long_work(110).shared_keys),
        "DEAD_AFTER = EXECUTION + CLOCKS_DIFFER",
        "DEAD_AFTER = CLOCKS_DIFFER",
    ),
    Breakage(
        "a sweep hands over an event whose retry may be alive",
        Tests("tests/unit/test_heal_keys.py"),
        'is_retried=status == "RETRYING" and',
        'is_retried=status == "PARKING" and',
    ),
    # The fence
    Breakage(
        "the fence overwrites whatever output is there",
        Search(Scenario([A, B], versioned=True), "I3: the output of 2 is written again"),
        '{"IfMatch": self.etag}',
        "{}",
    ),
    Breakage(
        "the fence overwrites an output that has come meanwhile",
        Search(Scenario([A], faults=1), "I3: the output of 1 is written again"),
        '{"IfNoneMatch": "*"}',
        "{}",
    ),
    Breakage(
        "outputs of equal contents have one ETag",
        Search(
            Scenario([A, A, Deletion(1)], versioned=True), "I3: the output of 2 is written again"
        ),
        "stamp(event)",
        'b""',
    ),
    Breakage(
        "the fence reads another source than the one that it has found",
        Search(Scenario([A, B], versioned=True), "I2: the output of 2 becomes 1's"),
        "IfMatch=_quoted(source.etag)",
        "",
    ),
    Breakage(
        "the fence does not compare a version's output with its source",
        Search(
            Scenario([A, DELETED], crashes=1, versioned=True),
            "I1: all is quiet and the output was made from 1, not from None",
        ),
        "if output.order(source)",
        "if source.version_id or output.order(source)",
    ),
    Breakage(
        "an event is rejected for the content of a later version",
        Search(Scenario([A, NO_IMAGE], versioned=True), "I4: 1a ends in Parked, which is not true"),
        "if event.is_deletion:\n                raise",
        "raise",
    ),
    Breakage(
        "a deleted version's output stays if the current one has none",
        Search(
            Scenario([NO_IMAGE, B, Deletion(2)], versioned=True),
            "I1: all is quiet and the output was made from 2, not from 1",
        ),
        "if self._remove_output(output, event, key, source) is Attempt.AGAIN:",
        "if False:",
    ),
)


def main(name: str, *tests: str) -> int:
    """Run tests with a breakage."""
    breakage = next(breakage for breakage in BREAKAGES if breakage.name == name)
    with breakage.installed():
        return int(pytest.main(["-q", "-x", "-p", "no:cacheprovider", *tests]))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
