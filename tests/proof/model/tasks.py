"""Makes the moves of an execution at a Task or a Wait, with the faults of the services."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator

from inorder.asl.roles import Role, does
from tests.proof.model.engine import Step, is_sender, is_write, read
from tests.proof.model.functions import Functions
from tests.proof.model.state import Move, Run, State, attribute

THROTTLING = "DynamoDB.ThrottlingException"


class Tasks(Functions):
    """Makes the moves of executions."""

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
            failed = self._step(state, blind, item, "!States.TaskFailed")
            yield self._go(state, blind, failed, f"{who} cannot read", None)
        for error in sorted(set(state.transient)):
            if not error.startswith("Lambda.") and (name := self._transient(run.state, error)):
                yield self._fail_once(state, before, item, who, error, name)
        if state.refusals and is_sender(here):
            fewer = state.spend("refusals")
            failed = self._step(fewer, before, item, "!States.Timeout")
            yield self._go(fewer, before, failed, f"{who} is refused", None)
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
            failed = self._step(fewer, run, item, "!States.Timeout")
            yield self._go(fewer, run, failed, f"{who}, all answers are lost", None)
        fewer = state.spend("faults")
        failed = self._step(fewer, before, item, "!States.Timeout")
        yield self._go(fewer, before, failed, f"{who} fails", None)

    def _given_up(self, step: Step) -> str | None:
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
        late = list(state.late)
        late.remove(pending)
        state = state._replace(late=tuple(late))
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
        run = run._replace(waited=bool(self._scenario.transient))
        later, breaks = self._leased(state, run)
        # A poll that counts as the second, again, brings the end of the lease no nearer.
        next_poll = _at_poll(run, count - 1)
        if count <= 1:
            next_poll = run._replace(watched=run.watched + self._engine.seconds[run.state])
        waits = [("later", next_poll, state)]
        if self._promise.has_time(state, run):
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


def _at_poll(run: Run, count: int) -> Run:
    return run._replace(data=_with_polls(run.data, count))


@functools.lru_cache(maxsize=100_000)
def _with_polls(data: str, count: int) -> str:
    return json.dumps(read(data) | {"polls": count}, sort_keys=True)
