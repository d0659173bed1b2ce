"""Takes the steps of executions and of their functions: what each may do next, and S3's answers.

An execution pauses before each Task and each Wait. The states between are taken at once, because no
other execution can see what they do.
"""

import functools
import json
from collections.abc import Iterator
from typing import Any

from inorder.asl.roles import Role, does
from tests.proof.model.engine import (
    S3Answer,
    S3Call,
    Sent,
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

    def _patience(self, run: Run) -> int:
        most: int = read(run.data).get("limits", {}).get("maximum_polls", 0)
        return most

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
        taken = Taken(run.state, run.execution, run.data, item, event, mock, run.token)
        return self._engine.step(taken, faults)

    def _go(
        self, state: State, run: Run, step: StepResult, label: str, problem: str | None
    ) -> Move:
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
                return state.after(run), path, self._promise.ends(state, run)
            path += f" → {step.following}"
            if wrong := self._promise.passes(state, run, step.following):
                return state, path, wrong
            if here.get("ResultPath") == "$.watched_lock":
                run = run._replace(watched=0)
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
            # It has this run's event, or a dead holder's.
            sent = self._delivery(read(step.message.body)["event"])
            is_own = sent == (run.event, run.more)
            run = run._replace(done=max(run.done, SENT if is_own else ACTED))
            if step.message.is_delayed:
                after = self._sent(state._replace(waiting=()), step.message, sent)
                return state, run._replace(later=after.waiting)
            state = self._sent(state, step.message, sent)
        return state, run

    def _sent(self, state: State, message: Sent, what: Arrival | None) -> State:
        """Put a message into its queue; one in the retry queue leads to a delivery."""
        again = self._retried(message)
        if delivery := self._delivery(again) if again else None:
            return state.with_delivery(delivery)
        return state._replace(parked=state.parked | {what.event}) if what else state

    def _retried(self, message: Sent) -> dict[str, Any] | None:
        return retried(message.body, not self._scenario.is_closed) if message.is_retry else None

    def _delivery(self, event: Any) -> Arrival | None:
        """Make the delivery of an event, to which fields may have been added."""
        more = {name: event[name] for name in ("retry",) if name in event}
        added = {*more, "account", "resources"}  # the last two are empty in a record's event
        same = {name: value for name, value in event.items() if name not in added}
        known = [each for each in self._scenario.events if self._scenario.event(each) == same]
        return Arrival(known[0], json.dumps(more, sort_keys=True)) if known else None

    # Tasks and Waits

    def _steps(self, state: State, run: Run) -> Iterator[Move]:
        """List the moves of a run; `state` is without it."""
        if self._engine.states[run.state]["Type"] == "Wait":
            yield from self._poll(state, run)
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
        if is_poll := here["ResultPath"] == "$.record":
            token, polls = attribute(item, "lock_token"), read(run.data)["polls"]
            run = run._replace(locked=token if polls == 1 or token == run.locked else None)
            if polls > self._patience(run):
                problem = "I5: polls more often than its limit"
        problem = problem or self._promise.steps(state, run, item, step)
        before = run
        after, run = self._apply(state, run, item, step)
        if step.item != item and does(here, Role.RENEWS):
            after = self._may_stop(after, self._event(run))
        problem = problem or self._given_up(step)
        yield self._go(*self._promise.remembers(after, run, step), step, who, problem)
        if self._scenario.blind and is_poll:
            blind = before._replace(locked=None)
            yield self._fail(state, blind, item, "States.TaskFailed", f"{who} cannot read")
        for error in sorted(set(state.transient)):
            if not error.startswith("Lambda.") and (name := self._transient(run.state, error)):
                yield self._fail_once(state, before, item, who, error, name)
        if state.refusals and is_sender(here):
            fewer = state.spend("refusals")
            yield self._fail(fewer, before, item, "States.Timeout", f"{who} is refused")
        is_retried = self._engine.attempts(run.state, "States.Timeout")[1] > 0
        if state.lates and is_write(here):
            failed = self._step(state, before, item, "!States.Timeout")
            late = tuple(sorted((*state.late, Run(*before[:6]))))  # what its write needs of a run
            fewer = state.spend("lates")._replace(late=late)
            if is_retried:
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
        sent = step.message
        if not sent or not sent.is_retry or self._scenario.is_closed or self._retried(sent):
            return None
        if not read(sent.body)["reason"].get("rejected"):
            return "I7: an event is parked after a fault"
        return None

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
        if step.item != item:
            state, written = self._apply(state, pending, item, step)
            runs = (
                each._replace(done=max(each.done, written.done))
                if each[:2] == pending[:2]
                else each
                for each in state.runs
            )
            state = state._replace(runs=tuple(runs))
        return f"{pending.execution}: {pending.state} takes effect, late", state, None

    def _poll(self, state: State, run: Run) -> Iterator[Move]:
        """Wait, either until the next poll or for a lease, and poll.

        Polls are the execution's clock. Unless the run waits for a whole lease, each poll after the
        first counts as the second, so that the search need not follow all of them.
        """
        count = read(run.data)["polls"]
        if count >= self._patience(run):
            yield f"{run.execution}: waits on", state, "I5: waits for longer than its limit"
            return
        run = run._replace(waited=bool(self._scenario.transient or state.crashes))
        later, breaks = self._leased(state, run)
        # A poll that counts as the second, again, brings the end of the lease no nearer.
        next_poll = _at_poll(run, count - 1)
        if count <= 1:
            next_poll = run._replace(watched=run.watched + self._engine.seconds[run.state])
        waits = [("later", next_poll, state)]
        if count and self._promise.has_time(state, run):
            if not breaks or self._promise.may_need(state, breaks, later.watched):
                waits.append(("after a lease", later, state))
            elif state.breaks:
                broken = state.spend("breaks")._replace(broken=state.broken | {breaks})
                waits.append(("after a lease", later, broken))
        for label, at_poll, at in waits:
            paused, path, problem = self._settle(at, at_poll, wait=True)
            if isinstance(paused, State):
                yield path, at, problem or "I4: a wait ended the execution"
                return
            yield from self._serve(at, paused, f"{label} ")

    def _leased(self, state: State, run: Run) -> tuple[Run, str]:
        """Wait until the next poll removes what is watched, or is the last; nothing else moves.

        A poll that changes nothing stands for all polls like it. Gives the run before that poll,
        and what is then removed although its execution lives.
        """
        seconds, patience = self._engine.seconds[run.state], self._patience(run)
        for _ in range(patience):
            count = read(run.data)["polls"]
            at, breaks = self._promise.awaits(state, run, patience)
            polled = self._poll_in_vain(state, run) if count < at - 1 else None
            if polled is None:
                break
            waits, passed = 1, read(polled.data)["polls"] - count
            if _at_poll(polled, 0) == _at_poll(run, 0):
                waits = (at - 1 - count) // passed
                polled = _at_poll(run, count + waits * passed)
            run = polled._replace(watched=run.watched + waits * seconds)
        run = run._replace(watched=run.watched + seconds)
        return run, breaks if at < patience else ""

    def _poll_in_vain(self, state: State, run: Run) -> Run | None:
        """Give a waiting run as it waits again, or None if its poll changes anything."""
        polled, _, _ = self._settle(state, run, wait=True)
        for _ in self._engine.states:  # a broken file may never come back to a Wait
            if not isinstance(polled, Run):
                return None
            if self._engine.states[polled.state]["Type"] == "Wait":
                return polled
            if self._service(polled) != "dynamodb":
                return None
            item = self._item(state, polled)
            step = self._step(state, polled, item)
            if step.following is None or step.item != item:
                return None
            moved = polled._replace(state=step.following, data=step.data)
            polled, _, _ = self._settle(state, moved)
        return None

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
            mock = "!States.TaskFailed"
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
        run = run._replace(locked=None)  # a poll whose read fails may be the one that ends a lease
        return self._fail(state, run, item, name, f"{who} has a {name}")

    def _orphaned(self, state: State, run: Run, may_stop: bool = False) -> State:
        """Abandon a run's function, which may go on, or may have died too."""
        event = self._event(run)
        left = {
            each._replace(may_stop=each.may_stop and (may_stop or each.event != event))
            for each in state.orphans
        }
        if isinstance(self._engine.call(event, run.answers), S3Call):
            left.add(Orphan(event, run.answers, may_stop))
        return state.with_orphans(left)

    def _may_stop(self, state: State, event: str) -> State:
        """Let the orphans of an event stop, because its function is invoked again."""
        return state.with_orphans(
            each._replace(may_stop=each.may_stop or each.event == event) for each in state.orphans
        )

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
        what, outputs = call.operation, dict(state.outputs)
        output = outputs.get(call.key)
        if what == "HEAD output":
            if output:
                yield what, state, S3Answer(200, output.etag, metadata=output.metadata), None
            else:
                yield f"{what} (none)", state, S3Answer(404), None
        elif what == "LIST outputs":
            keys = tuple(key for key in sorted(outputs) if key.startswith(call.key))
            yield what, state, S3Answer(200, keys=keys), None
        elif "source" in what:
            answer, remark = self._read_source(state, call)
            yield f"{what}{remark}", state, answer, None
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
        what = call.operation
        if call.condition and call.condition != (output.etag if output else "*"):
            status = 412 if output else 404
            yield f"{what} ({status})", state, S3Answer(status), None
            return
        outputs = dict(state.outputs)
        outputs.pop(call.key, None)
        new, problem = None, None
        if what == "PUT output":
            new = outputs[call.key] = Stored(call.content, call.metadata)
            problem = self._promise.writes(state, call.key, output, new)
        after = self._shown(state._replace(outputs=tuple(sorted(outputs.items()))))
        owes = self._promise.owes(state, new)
        yield what, after, S3Answer(200, new.etag if new else "", owes=owes), problem
        if state.faults:
            # The SDK retries, and fails because its first attempt has done the work.
            status = 412 if new else 404
            lost = f"{what} (the answer is lost, {status})"
            yield lost, after.spend("faults"), S3Answer(status, owes=owes), None
            under_way = f"{what} (another write is under way, 409)"
            yield under_way, state.spend("faults"), S3Answer(409), None

    def _shown(self, state: State) -> State:
        shown = self._promise.shows(state)
        return state._replace(effective=state.effective | shown)


def _at_poll(run: Run, count: int) -> Run:
    return run._replace(data=_with_polls(run.data, count))


@functools.lru_cache(maxsize=100_000)
def _with_polls(data: str, count: int) -> str:
    return json.dumps(read(data) | {"polls": count}, sort_keys=True)
