"""Searches every interleaving of the executions of a few events of one object.

A policy's `Promise` says what must hold in each.

An execution pauses before each Task and each Wait, and the function before each S3 call. The states
between are taken at once, because no other execution can see what they do.
"""

from __future__ import annotations

import functools
import json
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, ClassVar, NamedTuple

from inorder.asl.definition import OWN_LOCK, is_renewal
from tests.proof.model.engine import (
    Answer,
    Call,
    Engine,
    Message,
    Metadata,
    Step,
    is_sender,
    is_start,
    is_write,
    read,
)
from tests.proof.model.healing import retried
from tests.proof.model.scenario import Scenario
from tests.proof.model.source import FUNCTION, Code
from tests.proof.model.symmetry import free_name, renamed

# With one of these begins the condition of a release.
OWN_LOCKS = (OWN_LOCK, "lock_token = :lock_token")
LONGEST = 400  # steps of a path; the shipped state machines need at most 300
THROTTLING = "DynamoDB.ThrottlingException"
ENDLESS = "I5: this may go on for ever"

# Answers that are not in the function's contract.
ODD: tuple[Any, ...] = (
    *(None, "text", {}, {"expires_at": "1"}, {"outcome": "Processed"}, {"outcome": "Superseded"}),
    *({"outcome": each, "expires_at": 5} for each in ("Processed", "Superseded")),
    {"outcome": "Rejected", "cause": "x", "expires_at": "1"},
    {"outcome": "Rejected", "error": "x", "expires_at": "1"},
    {"outcome": "Rejected", "error": "x", "cause": "x"},
    {"outcome": "Rejected", "error": "x", "cause": "x", "expires_at": 5},
    {"outcome": "Other", "expires_at": "1", "error": "x", "cause": "x"},
)
NEVER = {"N": "253402300799"}  # the year 9999


# What an execution has done to tables and queues: nothing; something; it has recorded its event in
# a table, and so in an index; it has sent its event to a queue.
NOTHING, ACTED, RECORDED, SENT = range(4)


class Delivery(NamedTuple):
    """An execution that will start.

    Attributes
    ----------
    more : str
        The fields, as JSON, that `retry_events` has added to the event.
    """

    event: int
    more: str = "{}"

    @property
    def label(self) -> str:
        """Tell who starts it."""
        fields = read(self.more)
        return "retried" if "retry" in fields else "delivered"


class Run(NamedTuple):
    """A live run of an execution, which may be restarted and then has several.

    Attributes
    ----------
    more : str
        As in its `Delivery`.
    answers : tuple
        What its function has received from S3 so far.
    tried : tuple of int
        The retriers of the state that it has used.
    locked : str or None
        The lock that it has seen at its first poll and at each since.
    in_line : bool
        Whether its event has waited for its turn since the key was last claimed, in a policy that
        has turns.
    done : int
        The most that it has done: NOTHING, ACTED, RECORDED or SENT.
    held : float
        The most seconds for which it has had its lock when it came to its state, while it needs
        the lock.
    watched : float
        The fewest seconds for which it has watched a lock.
    waited : bool
        Whether it has waited, in a scenario in which that makes a difference.
    """

    execution: str
    number: int
    event: int
    more: str
    state: str
    data: str
    answers: tuple[Answer, ...] = ()
    tried: tuple[int, ...] = ()
    locked: str | None = None
    in_line: bool = False
    done: int = NOTHING
    held: float = 0
    watched: float = 0
    waited: bool = False

    @property
    def token(self) -> str:
        return f"token of {self.execution}, run {self.number}"

    def owns(self, token: str | None) -> bool:
        """Tell whether a lock is this run's; a renewed token begins with the first one."""
        return token is not None and token.startswith(self.token)


class Orphan(NamedTuple):
    """An invocation of the function whose execution no longer waits for it.

    Attributes
    ----------
    may_stop : bool
        Whether it may stop although it owes a check of the source, because its execution has
        invoked the function again. Otherwise it must go on: the product does not withstand a
        function that stalls, is abandoned, and then dies between its write and the check.
    """

    event: str
    answers: tuple[Answer, ...]
    may_stop: bool = False

    @property
    def owes(self) -> bool:
        return not self.may_stop and any(answer.owes for answer in self.answers)


class Output(NamedTuple):
    """An output's content and metadata. Its ETag is its content's, as in S3."""

    content: str
    metadata: Metadata

    @property
    def etag(self) -> str:
        return f'"{self.content}"'


class State(NamedTuple):
    """A state of the search. The last four fields remember what the promise refers to.

    Attributes
    ----------
    waiting : tuple
        What will be delivered.
    happened : int
        How much of the object's history has happened.
    known : tuple
        Executions that may be restarted: name, delivery, number of runs.
    broken : frozenset of str
        What was removed although its execution lived and worked: a lock's token, or "waiter" for a
        waiter.
    effective : frozenset of int
        Events that the outputs have shown at some time.
    logged : frozenset of int
        Events of failed executions that are in no record and no queue: only the log has them.
    lates : int
        How many writes may still take effect late.
    late : tuple of Run
        Writes that will take effect, each as the run that made it, before it did.
    """

    waiting: tuple[Delivery, ...]
    happened: int
    items: tuple[tuple[str, str], ...]
    outputs: tuple[tuple[str, Output], ...]
    parked: frozenset[int]
    runs: tuple[Run, ...]
    orphans: tuple[Orphan, ...]
    crashes: int
    breaks: int
    restarts: int
    faults: int
    refusals: int
    repeats: int
    expiries: int
    starts: int
    transient: tuple[str, ...]
    known: tuple[tuple[str, Delivery, int], ...]
    broken: frozenset[str]
    done: frozenset[int]
    effective: frozenset[int]
    logged: frozenset[int]
    lates: int = 0
    late: tuple[Run, ...] = ()


Move = tuple[str, State, str | None]  # what happens, the next state, what is wrong with it


class Promise:
    """What a policy promises. Its methods return what is wrong, or None.

    Each policy has a subclass with its ASL, its function, and these methods.

    Parameters
    ----------
    engine : Engine
        Takes the steps.
    scenario : Scenario
        What happens.
    """

    definition: ClassVar[str]
    function: ClassVar[Code] = FUNCTION
    has_records: ClassVar[bool] = True  # in which a schedule finds what dead executions leave
    records_waiters: ClassVar[bool] = True  # so that it finds those that died while they waited
    odd: ClassVar[tuple[Any, ...]] = ODD

    def __init__(self, engine: Engine, scenario: Scenario) -> None:
        self.engine = engine
        self.scenario = scenario

    def call(self, event: str, answers: tuple[Answer, ...]) -> Call | dict[str, str] | Exception:
        """Give the function's next S3 call, or its handler's result, or its exception."""
        return self.engine.call(event, answers)

    def key(self, event: int) -> str:
        """Give the ID of the key's record under which an event is worked on."""
        return self.scenario.key(event)

    def record_key(self, event: int) -> str:
        """Give the ID of the record that says whether an event is done."""
        return self.key(event)

    def ids(self, event: int) -> dict[str, str]:
        """Give the IDs of all records of an event."""
        return {"object_key": self.key(event)}

    def starts(self, run: Run) -> str | None:
        """Check a run at its first Task: it parks an invalid event, and has its event's IDs."""
        if is_sender(self.engine.states[run.state]):
            return None
        if not self.scenario.valid:
            return f"I4: {run.execution} works on an invalid event"
        if not self.ids(run.event).items() <= read(run.data).items():
            return f"I3: {run.execution} works under another event's IDs"
        return None

    def steps(self, state: State, run: Run, item: str | None, step: Step) -> str | None:
        """Check a Task: `item` is the record before it, `state` was before it, without the run."""
        raise NotImplementedError

    def passes(self, state: State, run: Run, following: str) -> str | None:
        """Check the state that follows a Pass, a Choice or a Wait."""
        raise NotImplementedError

    def outcomes(self, state: State, run: Run) -> dict[str, bool]:
        """Tell which outcomes of a run are true, if its event is valid and not parked."""
        raise NotImplementedError

    def ends(self, state: State, run: Run) -> str | None:
        """Check I4 at an execution's end: its outcome is true."""
        valid, sent = self.scenario.valid, run.done == SENT
        reason = read(run.data).get("fault", {}).get("Error")
        is_parked = sent and run.event in state.parked
        true = {
            "Parked": valid and is_parked and self.is_rejection(state, run, reason),
            "Retrying": valid and sent and self.is_fault(state, run, reason),
            "Invalid Event": not valid and sent,
            "Not Parked": self.faults(state) > 1,  # of the queue and of EventBridge
        }
        if valid:
            true |= self.outcomes(state, run)
        if not true.get(run.state):
            return f"I4: {run.execution} ends in {run.state}, which is not true"
        return None

    def is_rejection(self, state: State, run: Run, reason: str | None) -> bool:  # noqa: ARG002
        """Tell whether an event was rejected for a true reason."""
        return reason == "UnknownResult" and self.scenario.odd and self.is_faulty(state)

    def is_fault(self, state: State, run: Run, reason: str | None) -> bool:  # noqa: ARG002
        """Tell whether an event is retried for a true reason."""
        # "x" comes from an odd answer; no rule may take it for a reason.
        return self.is_faulty(state) and reason != "x"

    def writes(self, state: State, key: str, before: Output | None, after: Output) -> str | None:
        """Check an output that is written, and the output that it replaces, if any."""
        raise NotImplementedError

    def owes(self, state: State, after: Output | None) -> bool:
        """Tell whether the writer or remover of an output must check the source afterwards."""
        raise NotImplementedError

    def shows(self, state: State) -> set[int]:
        """List the events that the outputs show."""
        raise NotImplementedError

    def rests(self, state: State) -> str | None:
        """Check a state in which all is quiet."""
        raise NotImplementedError

    def awaits(self, state: State, run: Run, patience: int) -> tuple[int, str]:
        """Tell at which poll a waiting run removes the lock or the waiter that it watches.

        Returns
        -------
        The poll, at most `patience`, and what is then removed although its execution lives, or "".
        """
        raise NotImplementedError

    def holds(self, before: Run, after: Run) -> Run:  # noqa: ARG002
        """Note how long a run has needed its lock at the end of a Task."""
        return after

    def may_need(self, state: State, removed: str, seconds: float) -> bool:  # noqa: ARG002
        """Tell whether what is removed after so many seconds may still be needed by then."""
        return False

    def has_time(self, state: State, run: Run) -> bool:  # noqa: ARG002
        """Tell whether a lease may pass before any other run moves."""
        return True

    def remembers(self, state: State, run: Run, step: Step) -> tuple[State, Run]:  # noqa: ARG002
        """Remember what the promise refers to after a Task; `state` is without the run."""
        return state, run

    def is_done(self, run: Run) -> bool:
        """Tell whether an event is done when its run's Task has written to the table."""
        raise NotImplementedError

    def is_faulty(self, state: State) -> bool:
        """Tell whether there was a fault, which excuses some outcomes."""
        return self.faults(state) > 0 or state.lates < self.scenario.lates

    def faults(self, state: State) -> int:
        """Count the faults."""
        scenario = self.scenario
        return scenario.faults + scenario.refusals - state.faults - state.refusals

    def has_failed(self, state: State) -> bool:
        """Tell whether anything went wrong, so that a sweep may have something to do."""
        scenario = self.scenario
        died = state.crashes < scenario.crashes or bool(state.broken)
        failed = self.is_faulty(state) or len(state.transient) < len(scenario.transient)
        return died or failed or self.is_restarted(state) or bool(scenario.item)

    def is_restarted(self, state: State) -> bool:
        """Tell whether an execution was restarted."""
        return state.restarts < self.scenario.restarts


class Explorer:
    """Makes the moves of a scenario."""

    def __init__(self, promise: Promise) -> None:
        self._promise = promise
        self._engine = engine = promise.engine
        self._scenario = promise.scenario
        self._patience = engine.limits.get("maximum_polls", 0)

    def first(self) -> State:
        """Give the first state."""
        s = self._scenario
        happens = (s.crashes, s.breaks, s.restarts, s.faults, s.refusals, s.repeats)
        budgets = (*happens, s.expiries, s.starts)
        nothing: frozenset[Any] = frozenset()
        waiting = tuple(map(Delivery, sorted(s.events)))
        key = self._promise.key(s.events[0])
        left = json.dumps(read(s.item) | {"id": {"S": key}}) if s.item else None
        items = ((key, left),) if left else ()
        return State(
            *(waiting, 0, items, (), nothing, (), (), *budgets, s.transient),
            *((), nothing, nothing, nothing, nothing),
            lates=s.lates,
        )

    def moves(self, state: State) -> Iterator[Move]:
        """List everything that may happen next, or one step that commutes with everything else."""
        if alone := [*self._commuting(state)]:
            yield from alone
            return
        if state.happened < self._scenario.last:
            happened = state.happened + 1
            what = "deletion" if self._scenario.is_deletion(happened) else "upload"
            yield f"{what} {happened}", self._shown(state._replace(happened=happened)), None
        for delivery in sorted(set(state.waiting)):
            if delivery.event <= state.happened:
                waiting = list(state.waiting)
                waiting.remove(delivery)
                after = state._replace(waiting=tuple(waiting))
                yield from self._start(after, free_name(state, delivery.event), delivery, 1)
                if state.repeats and delivery.label == "retried":
                    again = state._replace(repeats=state.repeats - 1)
                    yield from self._start(again, free_name(state, delivery.event), delivery, 1)
        for name, delivery, number in state.known if state.restarts else ():
            known = {*state.known, (name, delivery, number + 1)} - {(name, delivery, number)}
            left = state.restarts - 1
            again = state._replace(restarts=left, known=tuple(sorted(known)) if left else ())
            yield from self._start(again, name, delivery, number + 1)
        for run in state.runs:
            others = state._replace(runs=tuple(other for other in state.runs if other != run))
            yield from self._steps(others, run)
            if state.crashes:
                yield from self._crash(others, run)
        for orphan in state.orphans:
            others = state._replace(orphans=_without(state.orphans, orphan))
            yield from self._call_orphan(others, orphan)
        for pending in sorted(set(state.late)):
            yield self._land(state, pending)
        # A record outlives every execution that began before it was done, by days.
        is_over = not (state.runs or state.late)
        for key, item in state.items if state.expiries and is_over else ():
            if read(item).get("expires_at", NEVER) != NEVER:
                items = tuple(pair for pair in state.items if pair[0] != key)
                done = frozenset(e for e in state.done if self._promise.record_key(e) != key)
                expired = state._replace(items=items, done=done, expiries=state.expiries - 1)
                yield f"the record {key} expires", expired, None
        yield from self._sweep(state)

    def _commuting(self, state: State) -> Iterator[Move]:
        """Take a step of one run or orphan that nobody else sees, and that nobody else changes.

        The function ends, or reads the source when the object's history is over. Whether its
        execution dies before that or afterwards makes no difference. Or the execution sends a
        message, which may be delivered at any time, if it can neither fail nor die before; or it
        releases a lock that it does not have.
        """
        dies = state.crashes or state.faults or state.refusals or state.transient or state.lates
        for run in state.runs:
            task = self._engine.states[run.state]
            if "lambda" in task.get("Resource", ""):
                commutes = self._commutes(state, self._event(run), run)
            elif task.get("Parameters", {}).get("ConditionExpression", "").startswith(OWN_LOCKS):
                may_own = any(pending.execution == run.execution for pending in state.late)
                owns = run.owns(attribute(self._item(state, run), "lock_token"))
                commutes = not owns and not may_own
            else:
                commutes = (is_sender(task) or is_start(task)) and not dies
            if commutes:
                runs = tuple(other for other in state.runs if other != run)
                yield from self._steps(state._replace(runs=runs), run)
                return
        for orphan in state.orphans:
            if self._commutes(state, orphan.event, orphan):
                orphans = _without(state.orphans, orphan)
                yield from self._call_orphan(state._replace(orphans=orphans), orphan)
                return

    def _commutes(self, state: State, event: str, works: Run | Orphan) -> bool:
        """Tell whether the next step of a function commutes with all other steps."""
        next_call = self._promise.call(event, works.answers)
        if not isinstance(next_call, Call):
            return True
        return "source" in next_call.operation and state.happened == self._scenario.last

    def _sweep(self, state: State) -> Iterator[Move]:
        """Let the schedule send the events of dead executions, when nothing else goes on.

        An event that a sweep sends earlier is one more delivery, and a scenario has those.
        """
        if not _is_quiet(state) or not (swept := self._engine.sweep(state.items)).messages:
            return
        after, sent = state._replace(items=swept.items), list[str]()
        for body in swept.messages:
            if what := self._delivery(read(body)["event"]):
                after = self._sent(after, Message(is_retry=True, body=body), what)
                sent.append(str(what.event))
        yield f"a sweep sends {', '.join(sent)}", after, None

    def _delivery(self, event: Any) -> Delivery | None:
        """Make the delivery of an event, to which fields may have been added."""
        more = {name: event[name] for name in ("retry",) if name in event}
        same = {name: value for name, value in event.items() if name not in more}
        known = [each for each in self._scenario.events if self._scenario.event(each) == same]
        return Delivery(known[0], json.dumps(more, sort_keys=True)) if known else None

    def judge(self, state: State) -> str | None:
        """Check a state in which all is quiet, and for good."""
        if not _is_quiet(state) or state.late:
            return None
        if not self._engine.sweep(state.items).messages:
            return self._promise.rests(state)
        return None if self._promise.has_failed(state) else "I7: a sweep is needed"

    def _shown(self, state: State) -> State:
        """Remember what the outputs show."""
        shown = self._promise.shows(state)
        if shown <= state.effective:
            return state
        return state._replace(effective=state.effective | shown)

    def _start(self, state: State, name: str | None, what: Delivery, number: int) -> Iterator[Move]:
        if name is None:
            yield f"{what.event} is {what.label}", state, ENDLESS
            return
        if state.restarts and number == 1:
            state = state._replace(known=tuple(sorted({*state.known, (name, what, 1)})))
        run = Run(name, number, *what, self._engine.start, "")
        run = run._replace(data=self._input(run))
        label = f"{name} is {what.label if number == 1 else 'restarted'}; "
        paused, path, problem = self._settle(state, run)
        if isinstance(paused, State):
            yield label + path, state, problem or "I4: the event is not worked on"
            return
        if wrong := self._promise.starts(paused):
            yield label + path, state, wrong
            return
        for step, following, wrong in self._steps(state, paused):
            yield label + step, following, wrong

    def _steps(self, state: State, run: Run) -> Iterator[Move]:
        """List the moves of a run; `state` is without it."""
        kind = self._engine.states[run.state]
        if kind["Type"] == "Wait":
            yield from self._poll(state, run)
        elif "lambda" in kind["Resource"]:
            yield from self._call_function(state, run)
        else:
            yield from self._serve(state, run, "")

    def _poll(self, state: State, run: Run) -> Iterator[Move]:
        """Wait, either until the next poll or for a lease, and poll.

        Polls are the execution's clock. Unless the run waits for a whole lease, each poll after the
        first counts as the second, so that the search need not follow all of them.
        """
        count = read(run.data)["polls"]
        if count >= self._patience:
            yield f"{run.execution}: waits on", state, "I5: waits for longer than its limit"
            return
        run = run._replace(waited=bool(self._scenario.transient))
        later, breaks = self._leased(state, run)
        # A poll that counts as the second, again, brings the end of the lease no nearer.
        next_poll = _at_poll(run, count - 1)
        if count <= 1:
            next_poll = run._replace(watched=run.watched + self._engine.seconds[run.state])
        for label, at_poll in (("later", next_poll), ("after a lease", later)):
            at = state
            if label != "later" and not self._promise.has_time(state, run):
                continue
            if (
                label != "later"
                and breaks
                and not self._promise.may_need(state, breaks, later.watched)
            ):
                if not state.breaks:
                    continue
                at = state._replace(breaks=state.breaks - 1, broken=state.broken | {breaks})
            paused, path, problem = self._settle(at, at_poll, wait=True)
            if isinstance(paused, State):
                yield path, at, problem or "I4: a wait ended the execution"
                return
            yield from self._serve(at, paused, f"{label} ")

    def _leased(self, state: State, run: Run) -> tuple[Run, str]:
        """Wait until the next poll removes what is watched, or is the last; nothing else moves.

        A poll that changes nothing stands for all polls like it.

        Returns
        -------
        The run before that poll, and what is then removed although its execution lives.
        """
        seconds = self._engine.seconds[run.state]
        for _ in range(self._patience):
            count = read(run.data)["polls"]
            at, breaks = self._promise.awaits(state, run, self._patience)
            polled = self._poll_in_vain(state, run) if count < at - 1 else None
            if polled is None:
                break
            waits, passed = 1, read(polled.data)["polls"] - count
            if _at_poll(polled, 0) == _at_poll(run, 0):
                waits = (at - 1 - count) // passed
                polled = _at_poll(run, count + waits * passed)
            run = polled._replace(watched=run.watched + waits * seconds)
        run = run._replace(watched=run.watched + seconds)
        return run, breaks if at < self._patience else ""

    def _poll_in_vain(self, state: State, run: Run) -> Run | None:
        """Give a waiting run as it waits again, or None if its poll changes anything."""
        polled, _, _ = self._settle(state, run, wait=True)
        for _ in self._engine.states:  # a broken file may never come back to a Wait
            if not isinstance(polled, Run):
                return None
            if self._engine.states[polled.state]["Type"] == "Wait":
                return polled
            if "dynamodb" not in self._engine.states[polled.state].get("Resource", ""):
                return None
            item = self._item(state, polled)
            step = self._step(state, polled, item)
            if step.following is None or step.item != item:
                return None
            moved = polled._replace(state=step.following, data=step.data)
            polled, _, _ = self._settle(state, moved)
        return None

    def _serve(self, state: State, run: Run, when: str) -> Iterator[Move]:
        """Take a Task other than the function: it works, its answer is lost, or it fails."""
        item = self._item(state, run)
        step = self._step(state, run, item)
        who = f"{run.execution}: {when}{run.state}"
        problem = None
        if self._engine.states[run.state]["ResultPath"] == "$.record":
            token, polls = attribute(item, "lock_token"), read(run.data)["polls"]
            run = run._replace(locked=token if polls == 1 or token == run.locked else None)
            if polls > self._patience:
                problem = "I5: polls more often than its limit"
        problem = problem or self._promise.steps(state, run, item, step)
        before = run
        after, run = self._apply(state, run, item, step)
        if step.item != item and is_renewal(self._engine.states[run.state]):
            after = self._may_stop(after, self._event(run))
        problem = problem or self._given_up(step)
        yield self._go(*self._promise.remembers(after, run, step), step, who, problem)
        if self._scenario.blind and self._engine.states[run.state]["ResultPath"] == "$.record":
            blind = before._replace(locked=None)
            failed = self._step(state, blind, item, "!States.TaskFailed")
            yield self._go(state, blind, failed, f"{who} cannot read", None)
        for error in sorted(set(state.transient)):
            if not error.startswith("Lambda.") and (name := self._transient(run.state, error)):
                yield self._fail_once(state, before, item, who, error, name)
        if state.refusals and is_sender(self._engine.states[run.state]):
            fewer = state._replace(refusals=state.refusals - 1)
            failed = self._step(fewer, before, item, "!States.Timeout")
            yield self._go(fewer, before, failed, f"{who} is refused", None)
        if state.lates and is_write(self._engine.states[run.state]):
            failed = self._step(state, before, item, "!States.Timeout")
            late = tuple(sorted((*state.late, _write(before))))
            fewer = state._replace(lates=state.lates - 1, late=late)
            if self._engine.attempts(run.state, "States.Timeout")[1]:
                yield f"{who} will take effect late, again", _with(fewer, before), None
            yield self._go(fewer, before, failed, f"{who} will take effect late", None)
        if not state.faults:
            return
        fewer = after._replace(faults=state.faults - 1)
        _, again = self._engine.attempts(run.state, "States.Timeout")
        if when == "" and after != state and again:
            yield f"{who}, the answer is lost, again", _with(fewer, run), None
        failed = self._step(fewer, run, item, "!States.Timeout")
        if after != state:
            yield self._go(fewer, run, failed, f"{who}, all answers are lost", None)
        fewer = state._replace(faults=state.faults - 1)
        yield self._go(fewer, before, failed, f"{who} fails", None)

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

    def _transient(self, name: str, error: str) -> str:
        """Name the error of a Task that has done nothing; a write that has is not transient."""
        retries = self._engine.attempts(name, error)[1]
        throttled = self._engine.attempts(name, THROTTLING)[1]
        if retries or not throttled:
            return error
        return THROTTLING if error == "States.TaskFailed" else ""

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
            return f"{who} has a {name}, again", _with(state, again), None
        run = run._replace(locked=None)  # a poll whose read fails may be the one that ends a lease
        failed = self._step(state, run, item, f"!{name}")
        return self._go(state, run, failed, f"{who} has a {name}", None)

    def _item(self, state: State, run: Run) -> str | None:
        """Give the record that a run's Task reads or writes, if it is a Task of DynamoDB."""
        if "dynamodb" not in self._engine.states[run.state].get("Resource", ""):
            return None
        return dict(state.items).get(self._engine.item_key(run.state, run.data))

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
            is_recorded = event is not None and self._input(run) == _sorted(event)
            run = run._replace(done=max(run.done, RECORDED if is_recorded else ACTED))
        if step.started and state.starts and (started := self._delivery(read(step.started))):
            waiting = tuple(sorted((*state.waiting, started)))
            state = state._replace(waiting=waiting, starts=state.starts - 1)
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
        delivery = self._delivery(again) if again else None
        if delivery:
            return state._replace(waiting=tuple(sorted((*state.waiting, delivery))))
        return state._replace(parked=state.parked | {what.event}) if what else state

    def _retried(self, message: Message) -> dict[str, Any] | None:
        if not message.is_retry:
            return None
        return retried(message.body, not self._scenario.is_closed)

    def _given_up(self, step: Step) -> str | None:
        """Check that an event in the retry queue is retried, unless it was rejected."""
        sent = step.message
        if not sent or not sent.is_retry or self._scenario.is_closed or self._retried(sent):
            return None
        if not read(sent.body)["reason"].get("rejected"):
            return "I7: an event is parked after a fault"
        return None

    def _call_function(self, state: State, run: Run) -> Iterator[Move]:
        """Take one S3 call of a run's function, or give its result to the execution."""
        event = self._event(run)
        next_call = self._promise.call(event, run.answers)
        who = run.execution
        if isinstance(next_call, Call):
            for label, after, answer, problem in self._answers(state, next_call):
                answered = run._replace(answers=(*run.answers, answer))
                yield f"{who}: {label}", _with(after, answered), problem
        else:
            mock = "!States.TaskFailed"
            if not isinstance(next_call, Exception):
                mock = json.dumps({"Payload": next_call})
            yield self._go(state, run, self._step(state, run, None, mock), f"{who}: answers", None)
        for error in sorted(set(state.transient)):
            yield self._fail_once(state, run, None, f"{who}: {run.state}", error)
        for payload in self._promise.odd if self._scenario.odd and state.faults else ():
            fewer, mock = state._replace(faults=state.faults - 1), json.dumps({"Payload": payload})
            label = f"{who}: answers {json.dumps(payload)}"
            yield self._go(fewer, run, self._step(fewer, run, None, mock), label, None)
        if state.faults:
            fewer = state._replace(faults=state.faults - 1)
            if self._engine.attempts(run.state, "States.Timeout")[1]:
                left, again = self._orphaned(fewer, run, may_stop=True), run._replace(answers=())
                yield f"{who}: the function times out, again", _with(left, again), None
            left = self._orphaned(fewer, run)
            failed = self._step(left, run, None, "!States.Timeout")
            yield self._go(left, run, failed, f"{who}: the function times out for good", None)

    def _orphaned(self, state: State, run: Run, may_stop: bool = False) -> State:
        """Abandon a run's function, which may go on, or may have died too."""
        event = self._event(run)
        orphans = {
            each._replace(may_stop=each.may_stop and (may_stop or each.event != event))
            for each in state.orphans
        }
        if isinstance(self._promise.call(event, run.answers), Call):
            orphans.add(Orphan(event, run.answers, may_stop))
        return state._replace(orphans=tuple(sorted(orphans, key=repr)))

    def _may_stop(self, state: State, event: str) -> State:
        """Let the orphans of an event stop, because its function is invoked again."""
        orphans = {
            each._replace(may_stop=each.may_stop or each.event == event) for each in state.orphans
        }
        return state._replace(orphans=tuple(sorted(orphans, key=repr)))

    def _call_orphan(self, state: State, orphan: Orphan) -> Iterator[Move]:
        next_call = self._promise.call(orphan.event, orphan.answers)
        assert isinstance(next_call, Call)
        for label, after, answer, problem in self._answers(state, next_call):
            may_stop = orphan.may_stop and not answer.owes
            answered = Orphan(orphan.event, (*orphan.answers, answer), may_stop)
            following = after.orphans
            if isinstance(self._promise.call(answered.event, answered.answers), Call):
                following = tuple(sorted({*following, answered}, key=repr))
            sequencer = read(orphan.event)["detail"]["object"]["sequencer"]
            who = f"orphan of {self._scenario.number(sequencer)}"
            yield f"{who}: {label}", after._replace(orphans=following), problem

    def _answers(self, state: State, call: Call) -> Iterator[tuple[str, State, Answer, str | None]]:
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

    def _write_output(
        self, state: State, call: Call, output: Output | None
    ) -> Iterator[tuple[str, State, Answer, str | None]]:
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
            fewer = after._replace(faults=state.faults - 1)
            # The SDK retries, and fails because its first attempt has done the work.
            status = HTTPStatus.PRECONDITION_FAILED if new else HTTPStatus.NOT_FOUND
            yield f"{what} (the answer is lost, {status})", fewer, Answer(status, owes=owes), None
            fewer = state._replace(faults=state.faults - 1)
            yield f"{what} (another write is under way, 409)", fewer, Answer(409), None

    def _crash(self, state: State, run: Run) -> Iterator[Move]:
        """Let an execution die.

        Before its first write, AWS starts it again: it is as if it had been delivered later.
        """
        is_waiter = run.done == ACTED and not (
            self._promise.records_waiters or self._is_recorded(state, run)
        )
        if self._promise.has_records and run.done == NOTHING:
            if not any(pending[:2] == run[:2] for pending in state.late):
                return
            is_waiter = True  # AWS starts it again, although its write takes effect later
        state = state._replace(crashes=state.crashes - 1)
        label = f"{run.execution} dies before {run.state}"
        if not self._promise.has_records and run.done < SENT:
            state = state._replace(logged=state.logged | {run.event})
        if "lambda" in self._engine.states[run.state].get("Resource", ""):
            state = self._orphaned(state, run)
        if is_waiter:
            waiting = tuple(sorted((*state.waiting, Delivery(run.event, run.more))))
            state, label = state._replace(waiting=waiting), f"{label}, to be started again"
        yield label, state, None

    def _is_recorded(self, state: State, run: Run) -> bool:
        """Tell whether the record of a run's key has its event, from an earlier execution."""
        event = attribute(dict(state.items).get(self._promise.key(run.event)), "event")
        found = self._delivery(read(event)) if event else None
        return found is not None and found.event == run.event

    def _step(self, state: State, run: Run, item: str | None, mock: str | None = None) -> Step:
        faults = state.faults + state.refusals + state.lates > 0 or bool(state.transient)
        event = self._input(run)
        return self._engine.step(
            run.state, run.execution, run.data, item, event, mock, run.token, faults
        )

    def _event(self, run: Run) -> str:
        """Give a run's event, of which the function knows no more fields."""
        return self._text(run.event, "{}")

    def _input(self, run: Run) -> str:
        return self._text(run.event, run.more)

    @functools.cache  # noqa: B019 - there are few
    def _text(self, event: int, more: str) -> str:
        return _dumped(self._scenario.event(event) | read(more))

    def _go(self, state: State, run: Run, step: Step, label: str, problem: str | None) -> Move:
        """Take a run from a Task to its next pause."""
        if step.following is None:
            return label, state, problem or f"I4: ended by {step.error} in {run.state}"
        label += f" → {step.following}"
        if step.following == "Not Parked" and "sqs" in self._engine.states[run.state]["Resource"]:
            problem = problem or f"I4: {run.execution} does not try to send by EventBridge"
        moved = run._replace(state=step.following, data=step.data, answers=(), tried=())
        following, path, wrong = self._settle(state, moved)
        after = (
            _with(state, self._promise.holds(run, following))
            if isinstance(following, Run)
            else following
        )
        return label + (f" → {path}" if path else ""), after, problem or wrong

    def _settle(
        self, state: State, run: Run, wait: bool = False
    ) -> tuple[Run | State, str, str | None]:
        """Take states until the run pauses or ends.

        Returns
        -------
        The run at its pause, or the state if it ended; the path; what is wrong.
        """
        path: list[str] = []
        while wait or self._engine.states[run.state]["Type"] not in {"Task", "Wait"}:
            wait = False
            step = self._step(state, run, None)
            if step.following is None:
                if step.error != self._engine.states[run.state].get("Error"):
                    return state, " → ".join(path), f"I4: ended by {step.error} in {run.state}"
                if run.state == "Not Parked" and run.done < RECORDED:
                    state = state._replace(logged=state.logged | {run.event})
                return state, " → ".join(path), self._promise.ends(state, run)
            if len(path) > len(self._engine.states):
                return state, " → ".join(path), ENDLESS
            if wrong := self._promise.passes(state, run, step.following):
                return state, " → ".join((*path, step.following)), wrong
            if self._engine.states[run.state].get("ResultPath") == "$.watched_lock":
                run = run._replace(watched=0)
            run = run._replace(state=step.following, data=step.data)
            path.append(run.state)
        return run, " → ".join(path), None


def attribute(item: str | None, name: str) -> str | None:
    """Read an attribute of a record, which is a string."""
    value: str | None = read(item or "{}").get(name, {}).get("S")
    return value


def _dumped(event: Any) -> str:
    return json.dumps(event, sort_keys=True)


def _sorted(text: str) -> str:
    return _dumped(read(text))


def _is_quiet(state: State) -> bool:
    owing = any(orphan.owes for orphan in state.orphans)
    return not (state.runs or state.waiting or owing)


def _write(run: Run) -> Run:
    """Give of a run what a write of it needs."""
    return Run(*run[:6])


def _at_poll(run: Run, count: int) -> Run:
    data = read(run.data) | {"polls": count}
    return run._replace(data=json.dumps(data, sort_keys=True))


def _without(orphans: tuple[Orphan, ...], orphan: Orphan) -> tuple[Orphan, ...]:
    return tuple(other for other in orphans if other != orphan)


def _with(state: State, run: Run) -> State:
    """Add a run."""
    return state._replace(runs=tuple(sorted((*state.runs, run), key=lambda r: (r[0], r[1]))))


@dataclass(frozen=True)
class Result:
    """What a search found.

    Attributes
    ----------
    problem : str or None
        What is wrong at the end of the trace.
    ended : bool
        Whether the search ended before it had seen as many states as it may.
    """

    states: int
    transitions: int
    depth: int
    problem: str | None = None
    trace: tuple[str, ...] = ()
    ended: bool = True

    def __str__(self) -> str:
        searched = f"{self.states} states, {self.transitions} transitions, depth {self.depth}"
        if self.ended and not self.problem:
            return searched
        problem = self.problem or "The search found nothing, but has not ended; it is here:"
        return "\n".join((problem, *folded(self.trace), f"({searched})"))


def folded(trace: Sequence[str]) -> Iterator[str]:
    """Write a trace, in which steps that are repeated at once stand only once."""
    at = 0
    while at < len(trace):
        for length in range(1, (len(trace) - at) // 2 + 1):
            steps = trace[at : at + length]
            times = 1
            while trace[at + times * length :][:length] == steps:
                times += 1
            if times > 1:
                yield from steps
                what = "this step" if length == 1 else f"these {length} steps"
                yield f"... {what} {times} times in all"
                at += times * length
                break
        else:
            yield trace[at]
            at += 1


def explore(promise: Promise, limit: int) -> Result:
    """Search depth first for the first violation, and for a path that does not end.

    Paths of one acyclic graph all end, so a path that comes back to one of its states does not. A
    poll that changes nothing is not a step.

    Parameters
    ----------
    promise : Promise
        What must hold, and the scenario.
    limit : int
        The search ends when it has seen so many states.
    """
    explorer = Explorer(promise)
    first = explorer.first()
    open_states = {first: True}  # in order: the path
    seen = {first}
    labels: list[str] = []
    stack = [explorer.moves(first)]
    transitions = depth = 0
    moved = [False]

    def stopped(problem: str, label: str) -> Result:
        return Result(len(seen), transitions, depth, problem, (*labels, label))

    while stack and len(seen) <= limit:
        depth = max(depth, len(stack))
        here = next(reversed(open_states))
        for label, moved_to, problem in stack[-1]:
            state = renamed(moved_to)
            if state == here:
                continue
            transitions += 1
            moved[-1] = True
            wrong = problem or (None if state in seen else explorer.judge(state))
            if wrong:
                return stopped(wrong, label)
            if state in open_states:
                since = labels[list(open_states).index(state) :]
                # Polls are counted, so waiting ends, but here one count stands for many; and what
                # may be unreadable as often as it likes may be so for ever.
                text = "".join((*since, label))
                if ": later " in text or " cannot read" in text:
                    continue
                return stopped(ENDLESS, label)
            if len(stack) > LONGEST:
                return stopped(ENDLESS, label)
            if state not in seen:
                seen.add(state)
                open_states[state] = True
                labels.append(label)
                stack.append(explorer.moves(state))
                moved.append(False)
                break
        else:
            if not moved.pop() and (here.runs or here.waiting):
                return stopped("I5: nothing can go on", "")
            stack.pop()
            del open_states[here]
            if labels:
                labels.pop()
    return Result(len(seen), transitions, depth, None, tuple(labels), ended=not stack)


def shortest(promise: Promise, limit: int) -> Result:
    """Search breadth first for the shortest path to a violation, in `limit` states at most."""
    explorer = Explorer(promise)
    first = explorer.first()
    came: dict[State, tuple[State, str] | None] = {first: None}
    queue = deque([(first, 1)])
    transitions = depth = 0

    def stopped(problem: str, *last: str) -> Result:
        trace = [*last]
        back = came[here]
        while back:
            trace.append(back[1])
            back = came[back[0]]
        return Result(len(came), transitions, depth, problem, tuple(reversed(trace)))

    while queue and len(came) < limit:
        here, depth = queue.popleft()
        moved = False
        for label, state, problem in explorer.moves(here):
            if state == here:
                continue
            moved = True
            transitions += 1
            wrong = problem or (None if state in came else explorer.judge(state))
            if wrong:
                return stopped(wrong, label)
            if state not in came:
                came[state] = (here, label)
                queue.append((state, depth + 1))
        if not moved and (here.runs or here.waiting):
            return stopped("I5: nothing can go on")
    return Result(len(came), transitions, depth, ended=not queue)
