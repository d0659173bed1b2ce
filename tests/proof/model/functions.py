"""Runs the function one S3 call at a time, for an execution or as an orphan; models S3."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http import HTTPStatus

from tests.proof.model.engine import Answer, Call, read
from tests.proof.model.state import Move, Orphan, Output, Run, State
from tests.proof.model.steps import Steps

# What S3 did, the state afterwards, its answer, and what is wrong.
Answered = tuple[str, State, Answer, str | None]


class Functions(Steps):
    """Makes the moves of functions."""

    def _call_function(self, state: State, run: Run) -> Iterator[Move]:
        """Take one S3 call of a run's function, or give its result to the execution."""
        next_call = self._promise.call(self._event(run), run.answers)
        who = run.execution
        if isinstance(next_call, Call):
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
        for payload in self._promise.odd if self._scenario.odd else ():
            step = self._step(fewer, run, None, json.dumps({"Payload": payload}))
            yield self._go(fewer, run, step, f"{who}: answers {json.dumps(payload)}", None)
        if self._engine.attempts(run.state, "States.Timeout")[1]:
            left, again = self._orphaned(fewer, run, may_stop=True), run._replace(answers=())
            yield f"{who}: the function times out, again", left.with_run(again), None
        left = self._orphaned(fewer, run)
        failed = self._step(left, run, None, "!States.Timeout")
        yield self._go(left, run, failed, f"{who}: the function times out for good", None)

    def _fail_once(
        self, state: State, run: Run, item: str | None, who: str, error: str, name: str = ""
    ) -> Move:
        """Let one attempt of a Task fail; the Task is retried if a retrier has attempts left."""
        name = name or error
        left = list(state.transient)
        left.remove(error)
        state = state._replace(transient=tuple(left))
        retrier, attempts = self._engine.attempts(run.state, name)
        if run.tried.count(retrier) < attempts:
            again = run._replace(tried=tuple(sorted((*run.tried, retrier))), answers=())
            return f"{who} has a {name}, again", state.with_run(again), None
        run = run._replace(locked=None)  # a poll whose read fails may be the one that ends a lease
        failed = self._step(state, run, item, f"!{name}")
        return self._go(state, run, failed, f"{who} has a {name}", None)

    def _orphaned(self, state: State, run: Run, may_stop: bool = False) -> State:
        """Abandon a run's function, which may go on, or may have died too."""
        event = self._event(run)
        left = {
            each._replace(may_stop=each.may_stop and (may_stop or each.event != event))
            for each in state.orphans
        }
        if isinstance(self._promise.call(event, run.answers), Call):
            left.add(Orphan(event, run.answers, may_stop))
        return state._replace(orphans=tuple(sorted(left, key=repr)))

    def _may_stop(self, state: State, event: str) -> State:
        """Let the orphans of an event stop, because its function is invoked again."""
        orphans = {
            each._replace(may_stop=each.may_stop or each.event == event) for each in state.orphans
        }
        return state._replace(orphans=tuple(sorted(orphans, key=repr)))

    def _call_orphan(self, state: State, orphan: Orphan) -> Iterator[Move]:
        """Take one S3 call of an orphan; `state` is without it."""
        next_call = self._promise.call(orphan.event, orphan.answers)
        assert isinstance(next_call, Call)
        for label, after, answer, problem in self._answers(state, next_call):
            may_stop = orphan.may_stop and not answer.owes
            answered = Orphan(orphan.event, (*orphan.answers, answer), may_stop)
            following = after.orphans
            if isinstance(self._promise.call(answered.event, answered.answers), Call):
                following = tuple(sorted({*following, answered}, key=repr))
            sequencer = read(orphan.event)["detail"]["object"]["sequencer"]
            who = f"orphan of {sequencer.lstrip('0')[:2]}"
            yield f"{who}: {label}", after._replace(orphans=following), problem

    def _answers(self, state: State, call: Call) -> Iterator[Answered]:
        """List what S3 may do and answer."""
        what, outputs = call.operation, dict(state.outputs)
        output = outputs.get(call.key)
        if what == "HEAD output":
            answer = Answer(404)
            if output:
                answer = Answer(200, output.etag, metadata=output.metadata)
            yield f"{what}{'' if output else ' (none)'}", state, answer, None
        elif what == "LIST outputs":
            keys = tuple(key for key in sorted(outputs) if key.startswith(call.key))
            yield what, state, Answer(200, keys=keys), None
        elif "source" in what:
            answer, remark = self._read_source(state, call)
            yield f"{what}{remark}", state, answer, None
        else:
            yield from self._write_output(state, call, output)

    def _read_source(self, state: State, call: Call) -> tuple[Answer, str]:
        upload = self._scenario.current(state.happened)
        if call.version:
            upload = self._scenario.find(call.version, state.happened)
        if upload and self._scenario.is_deletion(upload):
            return Answer(405), " (a marker)"
        if upload is None:
            return Answer(404), " (none)"
        content = self._scenario.content(upload)
        etag = f'"etag-{content}"'
        if call.condition not in {None, etag}:
            return Answer(412), " (changed)"
        version = "null" if self._scenario.is_versioned(state.happened) else None
        version = str(upload) if self._scenario.is_named(upload) else version
        return Answer(200, etag, content, version=version), ""

    def _write_output(self, state: State, call: Call, output: Output | None) -> Iterator[Answered]:
        what, status = call.operation, HTTPStatus.OK
        if call.condition == "*":
            status = HTTPStatus.PRECONDITION_FAILED if output else status
        elif call.condition and output is None:
            status = HTTPStatus.NOT_FOUND
        elif call.condition and output and call.condition != output.etag:
            status = HTTPStatus.PRECONDITION_FAILED
        if status != HTTPStatus.OK:
            yield f"{what} ({status})", state, Answer(status), None
            return
        outputs = dict(state.outputs)
        outputs.pop(call.key, None)
        new, problem = None, None
        if what == "PUT output":
            new = outputs[call.key] = Output(call.content, call.metadata)
            problem = self._promise.writes(state, call.key, output, new)
        after = self._shown(state._replace(outputs=tuple(sorted(outputs.items()))))
        owes = self._promise.owes(state, new)
        yield what, after, Answer(200, new.etag if new else "", owes=owes), problem
        if state.faults:
            # The SDK retries, and fails because its first attempt has done the work.
            status = HTTPStatus.PRECONDITION_FAILED if new else HTTPStatus.NOT_FOUND
            lost = f"{what} (the answer is lost, {status})"
            yield lost, after.spend("faults"), Answer(status, owes=owes), None
            under_way = f"{what} (another write is under way, 409)"
            yield under_way, state.spend("faults"), Answer(409), None

    def _shown(self, state: State) -> State:
        """Remember what the outputs show."""
        shown = self._promise.shows(state)
        return state._replace(effective=state.effective | shown)
