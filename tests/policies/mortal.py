"""Executions that die in any of their states, and sweeps of what they leave behind.

An execution dies before or after a state has its effect. The time passes by moving the clock of the
sweep and of the state machines.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from types import SimpleNamespace
from typing import Any

import pytest
from moto.stepfunctions.parser.asl.component.state import state as moto_state
from moto.stepfunctions.parser.asl.component.state.state import CommonStateField

from tests import state_machines
from tests.conftest import colour_of
from tests.in_process import INPUT, OUTPUT, TABLE, Context, InProcess, import_anew

BEFORE, AFTER = "before", "after"

Event = dict[str, Any]
Place = tuple[str, str]  # a state, and whether it is before or after its effect


class SweepContext(Context):
    """What a sweep reads of a Lambda context."""

    def get_remaining_time_in_millis(self) -> int:
        return 120_000


class Held:
    """An execution that waits in a place until a test lets it go on, or die."""

    def __init__(self) -> None:
        self.reached, self._go_on, self._dies = threading.Event(), threading.Event(), False

    def __call__(self, env: Any) -> None:
        self.reached.set()
        assert self._go_on.wait(30)
        if self._dies:
            die(env)

    def end(self, *, dies: bool) -> None:
        """Let it go on, or die."""
        self._dies = dies
        self._go_on.set()


def die(env: Any) -> None:
    """Stop an execution before its next state, as AWS does when its state machine is deleted."""
    env.set_stop(stop_date=datetime.now(UTC), error="Died", cause="a test")


class Mortal:
    """Lets executions wait or die wherever they are, lets time pass, and sweeps."""

    def __init__(self, aws: InProcess, monkeypatch: pytest.MonkeyPatch) -> None:
        self.aws = aws
        # What happens to the next execution that comes to a place.
        self.happens: dict[Place, Callable[[Any], None]] = {}
        self.passed = timedelta()
        self._forwarded: list[Any] = []
        evaluate, substitute = CommonStateField._eval_body, state_machines.substitute

        def evaluate_or_die(state: CommonStateField, env: Any) -> None:
            self._comes_to((state.name, BEFORE), env)
            if env.is_running():
                evaluate(state, env)
                self._comes_to((state.name, AFTER), env)

        def shortened(*arguments: Any) -> str:
            """Give the definition with a shorter lease, which takes less time to poll."""
            return re.sub(r'"lease_polls": \d+', '"lease_polls": 2', substitute(*arguments))

        monkeypatch.setattr(CommonStateField, "_eval_body", evaluate_or_die)
        monkeypatch.setattr(state_machines, "substitute", shortened)
        aws.state_machine = aws.machine(aws.policy)
        monkeypatch.setenv("KEY_TABLE", TABLE)
        monkeypatch.setenv("RETRY_EVENTS_QUEUE_URL", aws.retry_queue)
        monkeypatch.setenv("PARKED_EVENTS_QUEUE_URL", aws.parked_queue)
        monkeypatch.setenv("ALARMED_QUEUE_URLS", aws.parked_queue)
        self.function = import_anew("heal_keys.app")
        clock = SimpleNamespace(now=lambda tz: datetime.now(tz) + self.passed)
        monkeypatch.setattr(self.function, "datetime", clock)
        module = SimpleNamespace(datetime=clock, timezone=timezone)
        monkeypatch.setattr(moto_state, "datetime", module)

    def _comes_to(self, place: Place, env: Any) -> None:
        self.happens.pop(place, lambda _: None)(env)

    def hold(self, event: Event, place: Place) -> tuple[str, Held]:
        """Start an execution, and let it wait in a place."""
        self.happens[place] = held = Held()
        execution = self.aws.start(event)
        assert held.reached.wait(30), f"{place} is not on the path"
        return execution, held

    def heal(self) -> list[tuple[Event, str]]:
        """Let time pass, sweep, and run what is in the retry queue; give the events' outcomes."""
        self.passed += timedelta(minutes=11)
        self.function.handler({}, SweepContext())
        return self.retry()

    def retry(self) -> list[tuple[Event, str]]:
        """Run the events in the retry queue, until it is empty, and give their outcomes."""
        ended: list[tuple[Event, str]] = []
        while messages := self.aws.retrying():
            started = [(each["event"], self.aws.start(each["event"])) for each in messages]
            ended += [(event, str(self.aws.wait(each).outcome)) for event, each in started]
        return ended

    def assert_right(self, event: Event, policy: str = "") -> None:
        """Check the output of an event under a policy, or that of the moment.

        Under content-hash, check that it was forwarded.
        """
        policy, described = policy or self.aws.like, event["detail"]["object"]
        if policy == "content-hash":
            while messages := self.aws.forwarded():
                self._forwarded += [each["detail"] for each in messages]
            assert event["detail"] in self._forwarded
            return
        key = f"out-{described['key']}"
        if policy == "every-version":
            key = f"{key}/{described['sequencer']}"
        head = self.aws.s3.head_object(Bucket=OUTPUT, Key=key)
        assert head["Metadata"]["sequencer"] == described["sequencer"]
        source = self.aws.s3.get_object(Bucket=INPUT, Key=described["key"])["Body"].read()
        red, green, blue = colour_of(source)
        assert colour_of(self.aws.output(key)) == (255 - red, 255 - green, 255 - blue)


@pytest.fixture
def mortal(aws: InProcess, monkeypatch: pytest.MonkeyPatch) -> Mortal:
    aws.wait_scale = 0.001
    return Mortal(aws, monkeypatch)


def indexed(aws: InProcess) -> list[str]:
    """List the IDs in the index."""
    return [str(item["id"]) for item in aws.table.scan(IndexName="InProgress")["Items"]]


def is_recorded(aws: InProcess, event: Event) -> bool:
    """Tell whether a record has an event."""
    return event in [json.loads(record["event"]) for record in aws.records() if "event" in record]
