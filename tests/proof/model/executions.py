"""Takes the steps of executions and of their functions: what each may do next, and S3's answers.

An execution pauses before each Task and each Wait. The states between are taken at once, because no
other execution can see what they do.
"""

import functools
import json
from collections.abc import Iterator
from typing import Any

from tests.proof.model.engine import (
    S3Answer,
    S3Call,
    StepResult,
    Taken,
    is_sender,
    is_write,
    read,
    service_of,
)
from tests.proof.model.healing import retried
from tests.proof.model.promise import ODD, Promise
from tests.proof.model.state import (
    ACTED,
    RECORDED,
    SENT,
    Arrival,
    Move,
    Orphan,
    Run,
    State,
    Stored,
    attribute,
    less,
)

ENDLESS = "I5: this may go on for ever"
THROTTLING = "DynamoDB.ThrottlingException"

# What S3 did, the state afterwards, its answer, and what is wrong.
Answered = tuple[str, State, S3Answer, str | None]


class Executions:
    """Makes the moves of a scenario's executions, and of functions, also without an execution."""

    def __init__(self, promise: Promise) -> None:
        self._promise = promise
        self._engine = promise.engine
        self._scenario = promise.scenario

    def _service(self, run: Run) -> str:
        return service_of(self._engine.states[run.state])

    def _item(self, state: State, run: Run) -> str | None:
        """Give the record that a run's Task reads or writes, if it is a Task of DynamoDB."""
        if self._service(run) != "dynamodb":
            return None
        return state.item(self._engine.item_key(run.state, run.data))

    def _event(self, run: Run) -> str:
        """Give what a run's function is given: the event, and the name of its fence."""
        return self._text(run.event, self._engine.fences[run.state])

    def _input(self, run: Run) -> str:
        return self._text(run.event, run.more)

    @functools.cache  # noqa: B019 - there are few
    def _text(self, event: int, more: str) -> str:
        return json.dumps(self._scenario.event(event) | read(more), sort_keys=True)

    def _step(
        self, state: State, run: Run, item: str | None, mock: str | None = None
    ) -> StepResult:
        faults = state.faults + state.refusals + state.lates > 0 or bool(state.transient)
        event = self._input(run)
        is_later = state.sweeps < self._scenario.sweeps
        taken = Taken(run.state, run.execution, run.data, item, event, mock, run.token, is_later)
        return self._engine.step(taken, faults)

    def _go(
        self, state: State, run: Run, step: StepResult, label: str, problem: str | None
    ) -> Move:
        """Take a run from a Task to its next pause."""
        if step.following is None:
            return label, state, problem or f"I4: ended by {step.error} in {run.state}"
        label += f" → {step.following}"
        moved = run._replace(state=step.following, data=step.data, answers=(), tried=())
        following, path, wrong = self._settle(state, moved)
        if isinstance(following, Run):
            following = state.with_run(following)
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
                return state, path, self._promise.check_outcome(state, run)
            path += f" → {step.following}"
            if wrong := self._promise.check_waiting(run, step.following):
                return state, path, wrong
            run = run._replace(state=step.following, data=step.data)
        return state, path, ENDLESS

    def _apply(
        self, state: State, run: Run, before: str | None, step: StepResult
    ) -> tuple[State, Run]:
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
            is_recorded = read(self._input(run)).items() <= read(event or "{}").items()
            run = run._replace(done=max(run.done, RECORDED if is_recorded else ACTED))
        if step.started and state.starts and (started := self._delivery(read(step.started))):
            state = state.spend("starts").with_delivery(started)
        if step.message:
            sent = self._delivery(read(step.message)["event"])
            is_own = sent == (run.event, run.more)
            run = run._replace(done=max(run.done, SENT if is_own else ACTED))
            state = self._sent(state, step.message, sent)
        return state, run

    def _sent(self, state: State, message: str, arrival: Arrival | None) -> State:
        """Put a message into the retry queue: it leads to a delivery, or is parked."""
        again = retried(message)
        if delivery := self._delivery(again) if again else None:
            return state.with_delivery(delivery)
        return state._replace(parked=state.parked | {arrival.event}) if arrival else state

    def _delivery(self, event: Any) -> Arrival | None:
        """Make the delivery of an event, to which fields may have been added."""
        more = {name: event[name] for name in ("retry",) if name in event}
        added = {*more, "account", "resources"}  # the last two are empty in a record's event
        same = {name: value for name, value in event.items() if name not in added}
        numbers = [
            number for number in self._scenario.events if self._scenario.event(number) == same
        ]
        return Arrival(numbers[0], json.dumps(more, sort_keys=True)) if numbers else None

    # Tasks and Waits

    def _steps(self, state: State, run: Run) -> Iterator[Move]:
        """List the moves of a run; `state` is without it."""
        if self._engine.states[run.state]["Type"] == "Wait":
            yield from self._wait(state, run)
        elif self._service(run) == "lambda":
            yield from self._call_function(state, run)
        else:
            yield from self._serve(state, run, "")

    def _serve(self, state: State, run: Run, when: str) -> Iterator[Move]:
        """Take a Task other than the function: it works, its answer is lost, or it fails."""
        item = self._item(state, run)
        step = self._step(state, run, item)
        here = self._engine.states[run.state]
        who = f"{run.execution}: {when}{run.state}"
        problem = None
        is_poll = here["ResultPath"] == "$.record"
        if is_poll and read(run.data)["polls"] > self._engine.patience:
            problem = "I5: polls more often than its limit"
        problem = problem or self._promise.check_task(state, run, item, step)
        before = run
        after, run = self._apply(state, run, item, step)
        problem = problem or self._given_up(step)
        yield self._go(after, run, step, who, problem)
        if self._scenario.blind and is_poll:
            yield self._fail(state, before, item, "States.TaskFailed", f"{who} cannot read")
        if is_sender(here):
            before = before._replace(refused=before.refused + 1)
            run = run._replace(refused=before.refused)
        for error in sorted(set(state.transient)):
            if not error.startswith("Lambda.") and (name := self._transient(run.state, error)):
                yield self._fail_once(state, before, item, who, error, name)
        if state.refusals and is_sender(here):
            fewer = state.spend("refusals")
            yield self._fail(fewer, before, item, "States.Timeout", f"{who} is refused")
        is_retried = self._engine.attempts(run.state, "States.Timeout")[1] > 0
        if state.lates and is_write(here):
            # The attempt has been throttled, as far as its caller knows, or has timed out.
            is_repeated = is_retried or self._engine.attempts(run.state, THROTTLING)[1] > 0
            failed = self._step(state, before, item, "!States.Timeout")
            late = tuple(sorted((*state.late, Run(*before[:6]))))  # what its write needs of a run
            fewer = state.spend("lates")._replace(late=late)
            if is_repeated:
                yield f"{who} will take effect late, again", fewer.with_run(before), None
            yield self._go(fewer, before, failed, f"{who} will take effect late", None)
        if not state.faults:
            return
        if after != state:
            fewer = after.spend("faults")
            if when == "" and is_retried:
                yield f"{who}, the answer is lost, again", fewer.with_run(run), None
            yield self._fail(fewer, run, item, "States.Timeout", f"{who}, all answers are lost")
        yield self._fail(state.spend("faults"), before, item, "States.Timeout", f"{who} fails")

    def _fail(self, state: State, run: Run, item: str | None, error: str, label: str) -> Move:
        return self._go(state, run, self._step(state, run, item, f"!{error}"), label, None)

    def _given_up(self, step: StepResult) -> str | None:
        """Check that an event in the retry queue is retried, unless it was rejected."""
        if not step.message or retried(step.message):
            return None
        is_rejected = read(step.message)["reason"].get("rejected")
        return None if is_rejected else "I7: an event is parked after a fault"

    def _transient(self, name: str, error: str) -> str:
        """Name the error of a Task that has done nothing; a write that has is not transient."""
        retries = self._engine.attempts(name, error)[1]
        if retries or not self._engine.attempts(name, THROTTLING)[1]:
            return error
        return THROTTLING if error == "States.TaskFailed" else ""

    def _land(self, state: State, pending: Run) -> Move:
        """Let a write take effect whose caller no longer waits for an answer."""
        state = state._replace(late=less(state.late, pending))
        item = self._item(state, pending)
        step = self._step(state, pending, item)
        problem = self._promise.check_release(state, pending, item, step)
        if step.item != item:
            state, written = self._apply(state, pending, item, step)
            runs = (
                run._replace(done=max(run.done, written.done)) if run[:2] == pending[:2] else run
                for run in state.runs
            )
            state = state._replace(runs=tuple(runs))
        return f"{pending.execution}: {pending.state} takes effect, late", state, problem

    def _wait(self, state: State, run: Run) -> Iterator[Move]:
        """Wait, and poll again, perhaps for the last time.

        How long anything takes is not known, so any number of polls may have passed. The second
        one therefore stands for all but the last.
        """
        count, patience = read(run.data)["polls"], self._engine.patience
        if count >= patience:
            yield f"{run.execution}: waits on", state, "I5: waits for longer than its limit"
            return
        run = run._replace(waited=state.crashes > 0)
        for label, before in (("later", min(count, 1)), ("for the last time", patience - 1)):
            paused, path, problem = self._settle(state, _at_poll(run, before), wait=True)
            if isinstance(paused, State):
                yield path, state, problem or "I4: a wait ended the execution"
                return
            yield from self._serve(state, paused, f"{label} ")

    # Functions

    def _call_function(self, state: State, run: Run) -> Iterator[Move]:
        """Take one S3 call of a run's function, or give its result to the execution."""
        next_call = self._engine.call(self._event(run), run.answers)
        who = run.execution
        if isinstance(next_call, S3Call):
            for label, after, answer, problem in self._answers(state, next_call):
                answered = run._replace(answers=(*run.answers, answer))
                yield f"{who}: {label}", after.with_run(answered), problem
        else:
            mock = f"!{type(next_call).__name__}"
            if not isinstance(next_call, Exception):
                mock = json.dumps({"Payload": next_call})
            yield self._go(state, run, self._step(state, run, None, mock), f"{who}: answers", None)
        for error in sorted(set(state.transient)):
            yield self._fail_once(state, run, None, f"{who}: {run.state}", error)
        if not state.faults:
            return
        fewer = state.spend("faults")
        for payload in ODD if self._scenario.odd else ():
            step = self._step(fewer, run, None, json.dumps({"Payload": payload}))
            yield self._go(fewer, run, step, f"{who}: answers {json.dumps(payload)}", None)
        if self._engine.attempts(run.state, "States.Timeout")[1]:
            left, again = self._orphaned(fewer, run, may_stop=True), run._replace(answers=())
            yield f"{who}: the function times out, again", left.with_run(again), None
        left, label = self._orphaned(fewer, run), f"{who}: the function times out for good"
        yield self._fail(left, run, None, "States.Timeout", label)

    def _fail_once(
        self, state: State, run: Run, item: str | None, who: str, error: str, name: str = ""
    ) -> Move:
        """Let one attempt of a Task fail; the Task is retried if a retrier has attempts left."""
        name = name or error
        state = state._replace(transient=less(state.transient, error))
        retrier, attempts = self._engine.attempts(run.state, name)
        if run.tried.count(retrier) < attempts:
            again = run._replace(tried=tuple(sorted((*run.tried, retrier))), answers=())
            return f"{who} has a {name}, again", state.with_run(again), None
        return self._fail(state, run, item, name, f"{who} has a {name}")

    def _orphaned(self, state: State, run: Run, may_stop: bool = False) -> State:
        """Abandon a run's function, which may go on, or may have died too."""
        event = self._event(run)
        left = {
            orphan._replace(may_stop=orphan.may_stop and (may_stop or orphan.event != event))
            for orphan in state.orphans
        }
        if isinstance(self._engine.call(event, run.answers), S3Call):
            left.add(Orphan(event, run.answers, may_stop))
        return state.with_orphans(left)

    def _call_orphan(self, state: State, orphan: Orphan) -> Iterator[Move]:
        state = state._replace(orphans=less(state.orphans, orphan))
        next_call = self._engine.call(orphan.event, orphan.answers)
        assert isinstance(next_call, S3Call)
        for label, after, answer, problem in self._answers(state, next_call):
            may_stop = orphan.may_stop and not answer.owes
            answered = Orphan(orphan.event, (*orphan.answers, answer), may_stop)
            if isinstance(self._engine.call(answered.event, answered.answers), S3Call):
                after = after.with_orphans({*after.orphans, answered})  # noqa: PLW2901
            sequencer = read(orphan.event)["detail"]["object"]["sequencer"]
            yield f"orphan of {sequencer.lstrip('0')[:2]}: {label}", after, problem

    def _answers(self, state: State, call: S3Call) -> Iterator[Answered]:
        operation, outputs = call.operation, dict(state.outputs)
        output = outputs.get(call.key)
        if operation == "HEAD output":
            if output:
                yield operation, state, S3Answer(200, output.etag, metadata=output.metadata), None
            else:
                yield f"{operation} (none)", state, S3Answer(404), None
        elif operation == "LIST outputs":
            keys = tuple(key for key in sorted(outputs) if key.startswith(call.key))
            yield operation, state, S3Answer(200, keys=keys), None
        elif "source" in operation:
            answer, remark = self._read_source(state, call)
            yield f"{operation}{remark}", state, answer, None
        else:
            yield from self._write_output(state, call, output)

    def _read_source(self, state: State, call: S3Call) -> tuple[S3Answer, str]:
        upload = self._scenario.current(state.happened)
        if call.version:
            upload = self._scenario.find(call.version, state.happened)
        if upload and self._scenario.is_deletion(upload):
            return S3Answer(405), " (a marker)"
        if upload is None:
            return S3Answer(404), " (none)"
        content = self._scenario.content(upload)
        etag = f'"etag-{content}"'
        if call.condition not in {None, etag}:
            return S3Answer(412), " (changed)"
        version = "null" if self._scenario.is_versioned(state.happened) else None
        version = str(upload) if self._scenario.is_named(upload) else version
        return S3Answer(200, etag, content, version=version), ""

    def _write_output(
        self, state: State, call: S3Call, output: Stored | None
    ) -> Iterator[Answered]:
        operation = call.operation
        if call.condition and call.condition != (output.etag if output else "*"):
            status = 412 if output else 404
            yield f"{operation} ({status})", state, S3Answer(status), None
            return
        outputs = dict(state.outputs)
        outputs.pop(call.key, None)
        new, problem = None, None
        if operation == "PUT output":
            new = outputs[call.key] = Stored(call.content, call.metadata)
            problem = self._promise.check_output(state, call.key, output, new)
        after = self._shown(state._replace(outputs=tuple(sorted(outputs.items()))))
        owes = self._promise.must_check_source(state, new)
        yield operation, after, S3Answer(200, new.etag if new else "", owes=owes), problem
        if state.faults:
            # The SDK retries, and fails because its first attempt has done the work.
            status = 412 if new else 404
            lost = f"{operation} (the answer is lost, {status})"
            yield lost, after.spend("faults"), S3Answer(status, owes=owes), None
            under_way = f"{operation} (another write is under way, 409)"
            yield under_way, state.spend("faults"), S3Answer(409), None

    def _shown(self, state: State) -> State:
        shown = self._promise.shown_events(state)
        return state._replace(effective=state.effective | shown)


def _at_poll(run: Run, count: int) -> Run:
    return run._replace(data=_with_polls(run.data, count))


@functools.lru_cache(maxsize=100_000)
def _with_polls(data: str, count: int) -> str:
    return json.dumps(read(data) | {"polls": count}, sort_keys=True)
