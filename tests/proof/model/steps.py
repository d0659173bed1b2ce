"""Takes an execution from one pause to the next, and puts what it did into the state.

An execution pauses before each Task and each Wait. The states between are taken at once, because no
other execution can see what they do.
"""

from __future__ import annotations

import functools
import json
from typing import Any

from audit_keys.repairing import SOURCE
from tests.proof.model.engine import Message, Step, Taken, read, service_of
from tests.proof.model.healing import retried
from tests.proof.model.promise import Promise
from tests.proof.model.state import ACTED, RECORDED, SENT, Delivery, Move, Run, State, attribute

ENDLESS = "I5: this may go on for ever"


class Steps:
    """Takes steps of a scenario's executions."""

    def __init__(self, promise: Promise) -> None:
        self._promise = promise
        self._engine = promise.engine
        self._scenario = promise.scenario

    def _patience(self, run: Run) -> int:
        """Give the most polls of a run."""
        most: int = read(run.data).get("limits", {}).get("maximum_polls", 0)
        return most

    def _service(self, run: Run) -> str:
        """Name the service of a run's state, if it is a Task."""
        return service_of(self._engine.states[run.state])

    def _item(self, state: State, run: Run) -> str | None:
        """Give the record that a run's Task reads or writes, if it is a Task of DynamoDB."""
        if self._service(run) != "dynamodb":
            return None
        return state.item(self._engine.item_key(run.state, run.data))

    def _event(self, run: Run) -> str:
        """Give what a run's function is given: the event, and the name of its fence."""
        fence = self._engine.fences[run.state]
        if run.is_repair:  # its sequencer is not that of the upload
            fence = json.dumps(read(fence) | {"detail": read(run.more)["detail"]})
        return self._text(run.event, fence)

    def _input(self, run: Run) -> str:
        return self._text(run.event, run.more)

    @functools.cache  # noqa: B019 - there are few
    def _text(self, event: int, more: str) -> str:
        return json.dumps(self._scenario.event(event) | read(more), sort_keys=True)

    def _step(self, state: State, run: Run, item: str | None, mock: str | None = None) -> Step:
        faults = state.faults + state.refusals + state.lates > 0 or bool(state.transient)
        event = self._input(run)
        taken = Taken(run.state, run.execution, run.data, item, event, mock, run.token)
        return self._engine.step(taken, faults)

    def _go(self, state: State, run: Run, step: Step, label: str, problem: str | None) -> Move:
        """Take a run from a Task to its next pause."""
        if step.following is None:
            return label, state, problem or f"I4: ended by {step.error} in {run.state}"
        label += f" → {step.following}"
        if step.following == "Not Parked" and self._service(run) == "sqs":
            problem = problem or f"I4: {run.execution} does not try to send by EventBridge"
        moved = run._replace(state=step.following, data=step.data, answers=(), tried=())
        following, path, wrong = self._settle(state, moved)
        if isinstance(following, Run):
            following = state.with_run(self._promise.holds(run, following))
        return label + path, following, problem or wrong

    def _settle(
        self, state: State, run: Run, wait: bool = False
    ) -> tuple[Run | State, str, str | None]:
        """Take states until the run pauses or ends: it, or the state; the path; what is wrong."""
        path, states = "", self._engine.states
        for _ in range(len(states) + 1):
            here = states[run.state]
            if not wait and here["Type"] in {"Task", "Wait"}:
                return run, path, None
            wait = False
            step = self._step(state, run, None)
            if step.following is None:
                if step.error != here.get("Error"):
                    return state, path, f"I4: ended by {step.error} in {run.state}"
                if run.state == "Not Parked" and run.done < RECORDED:
                    state = state._replace(logged=state.logged | {run.event})
                if run.state == "Processed" and read(run.more).get("covers"):
                    state = state._replace(covered=True)
                return state, path, self._promise.ends(state, run)
            path += f" → {step.following}"
            if wrong := self._promise.passes(state, run, step.following):
                return state, path, wrong
            if here.get("ResultPath") == "$.watched_lock":
                run = run._replace(watched=0)
            run = run._replace(state=step.following, data=step.data)
        return state, path, ENDLESS

    def _apply(self, state: State, run: Run, before: str | None, step: Step) -> tuple[State, Run]:
        """Put what a Task wrote and sent into a state, and note in the run that it did."""
        if step.item != before:
            items = dict(state.items)
            key = self._engine.item_key(run.state, run.data)
            items.pop(key, None)
            if step.item:
                items[key] = step.item
            state = state._replace(items=tuple(sorted(items.items())))
            if self._promise.is_done(run):
                state = state._replace(done=state.done | {run.event})
            event = attribute(step.item, "event")
            is_recorded = event is not None and read(self._input(run)) == read(event)
            run = run._replace(done=max(run.done, RECORDED if is_recorded else ACTED))
        if step.started and state.starts and (started := self._delivery(read(step.started))):
            state = state.spend("starts").with_delivery(started)
        if step.message:
            # It has this run's event, or that of a dead holder.
            sent = self._delivery(read(step.message.body)["event"])
            is_own = sent == (run.event, run.more)
            run = run._replace(done=max(run.done, SENT if is_own else ACTED))
            state = self._sent(state, step.message, sent)
        return state, run

    def _sent(self, state: State, message: Message, what: Delivery | None) -> State:
        """Put a message into its queue; that of retries leads to a delivery."""
        again = self._retried(message)
        if delivery := self._delivery(again) if again else None:
            return state.with_delivery(delivery)
        return state._replace(parked=state.parked | {what.event}) if what else state

    def _retried(self, message: Message) -> dict[str, Any] | None:
        return retried(message.body, not self._scenario.is_closed) if message.is_retry else None

    def _delivery(self, event: Any) -> Delivery | None:
        """Make the delivery of an event, to which fields may have been added."""
        if event.get("source") == SOURCE:
            fields = ("retry", "source", "detail", "id", "covers")
            same = {name: event[name] for name in fields if name in event}
            return Delivery(int(event["id"]), json.dumps(same, sort_keys=True))
        more = {name: event[name] for name in ("retry",) if name in event}
        same = {name: value for name, value in event.items() if name not in more}
        known = [each for each in self._scenario.events if self._scenario.event(each) == same]
        return Delivery(known[0], json.dumps(more, sort_keys=True)) if known else None
