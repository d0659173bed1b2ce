"""Every interleaving of the executions of a few events of one object.

What must hold in each is the policy's matter, which is a `Promise`.

An execution pauses before each Task and each Wait; the Pass, Choice and end states between touch
nothing that another execution can see, so that nothing is lost by taking them at once. The function
pauses before each S3 call.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, ClassVar, NamedTuple

from tests.model.engine import Answer, Call, Engine, Metadata, Step
from tests.model.fence import FUNCTION, Function
from tests.model.scenario import Scenario

LONGEST = 200  # steps of a path; the shipped machines need fewer than 100

# Answers that the function's contract does not know.
ODD: tuple[Any, ...] = (
    *(None, "text", {}, {"expires_at": "1"}, {"outcome": "Processed"}, {"outcome": "Superseded"}),
    *({"outcome": each, "expires_at": 5} for each in ("Processed", "Superseded")),
    *({"outcome": "Rejected"}, {"outcome": "Rejected", "cause": "x"}),
    {"outcome": "Rejected", "error": "x"},
    {"outcome": "Other", "expires_at": "1", "error": "x", "cause": "x"},
)
NEVER = {"N": "253402300799"}  # what Record Newest Event writes: the year 9999


class Run(NamedTuple):
    """A live run of an execution.

    Attributes
    ----------
    answers : tuple
        What its function has got from S3 so far.
    tried : tuple of int
        The retriers of the state that it has used.
    locked : str or None
        The lock that it has seen with its first look and with each since.
    asked : bool
        Whether it has asked for its turn since the lock was taken last, where a policy has turns.
    """

    execution: str
    number: int
    event: int
    state: str
    data: str
    answers: tuple[Answer, ...] = ()
    tried: tuple[int, ...] = ()
    locked: str | None = None
    asked: bool = False

    @property
    def token(self) -> str:
        return f"token of {self.execution}, run {self.number}"


class Orphan(NamedTuple):
    """An invocation of the function whose execution does not wait for it any more.

    Attributes
    ----------
    may_stop : bool
        Whether it may stop though it owes a look, as its execution has begun again since and looks.
        Otherwise it must go on, as the product does not stand what it takes to stop it there: it
        stalls, nobody waits for it any more, and then it dies between its write and the look.
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
    """All there is. The last seven fields remember what the conditions need to know.

    Attributes
    ----------
    happened : int
        How much of the object's history has happened.
    known : tuple
        Executions that may be run again: name, event, number of runs.
    broken : frozenset of str
        What was broken though its holder lived: a lock's token, or the "recording" to take one.
    effective : frozenset of int
        Events that the outputs have shown at some time.
    lost : frozenset
        Events that an execution left behind, its lock token, and how.
    """

    waiting: tuple[int, ...]
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
    expiries: int
    transient: tuple[str, ...]
    known: tuple[tuple[str, int, int], ...]
    broken: frozenset[str]
    done: frozenset[int]
    effective: frozenset[int]
    lost: frozenset[tuple[int, str, str]]


Move = tuple[str, State, str | None]  # what happens, what follows, what is wrong with it


class Promise:
    """What a policy promises: its methods tell what is wrong, if anything is.

    A policy is a subclass: its ASL, its function, and these methods.

    Parameters
    ----------
    engine : Engine
        What runs.
    scenario : Scenario
        What happens to it.
    """

    definition: ClassVar[str]
    function: ClassVar[Function] = FUNCTION
    odd: ClassVar[tuple[Any, ...]] = ODD

    def __init__(self, engine: Engine, scenario: Scenario) -> None:
        self.engine = engine
        self.scenario = scenario

    def key(self, event: int) -> str:
        """Give the object key under which an event is worked on."""
        return self.scenario.key(event)

    def record_key(self, event: int) -> str:
        """Give the key of the item that tells whether an event is done."""
        return self.scenario.key(event)

    def starts(self, run: Run) -> str | None:
        """Judge a run that has come to its first Task."""
        raise NotImplementedError

    def steps(self, state: State, run: Run, item: str | None, step: Step) -> str | None:
        """Judge a Task; `item` is what it has found, `state` as it was, without the run."""
        raise NotImplementedError

    def passes(self, state: State, run: Run, following: str) -> str | None:
        """Judge the way that a Pass or a Choice takes."""
        raise NotImplementedError

    def ends(self, state: State, run: Run) -> str | None:
        """Judge an outcome."""
        raise NotImplementedError

    def writes(self, state: State, key: str, before: Output | None, after: Output) -> str | None:
        """Judge an output that is written, over another one perhaps."""
        raise NotImplementedError

    def owes(self, state: State, after: Output | None) -> bool:
        """Tell whether who writes an output, or removes it, must look at the source once more."""
        raise NotImplementedError

    def shows(self, state: State) -> set[int]:
        """Give the events that the outputs show."""
        raise NotImplementedError

    def rests(self, state: State) -> str | None:
        """Judge a state in which all is quiet."""
        raise NotImplementedError

    def awaits(self, state: State, run: Run, patience: int) -> tuple[int, str]:
        """Tell at which look a waiting run's patience with what it watches ends.

        Returns
        -------
        The look, at most `patience`, and what it then breaks though its holder lives, or nothing.
        """
        raise NotImplementedError

    def remembers(self, state: State, run: Run, step: Step) -> tuple[State, Run]:  # noqa: ARG002
        """Note what a condition needs to know of a Task; `state` is without the run."""
        return state, run

    def is_recorded(self, state: State, run: Run) -> bool:
        """Tell whether the table knows of a run's event; before, it is as good as not delivered."""
        raise NotImplementedError

    def is_done(self, run: Run) -> bool:
        """Tell whether an event is done once its run's Task has written to the table."""
        raise NotImplementedError

    def loses(self, run: Run) -> str:
        """Name how an execution that fails here may lose its event or lock, or nothing."""
        raise NotImplementedError

    def is_faulty(self, state: State) -> bool:
        """Tell whether there was a fault that may pass as the reason for anything."""
        return state.faults < self.scenario.faults

    def is_restarted(self, state: State) -> bool:
        """Tell whether an execution was run again."""
        return state.restarts < self.scenario.restarts


class Explorer:
    """Makes the moves of one scenario."""

    def __init__(self, promise: Promise) -> None:
        self._promise = promise
        self._engine = engine = promise.engine
        self._scenario = promise.scenario
        rules = [rule for each in engine.states.values() for rule in each.get("Choices", [])]
        limits = [rule.get("NumericGreaterThanEquals") for rule in rules]
        self._patience = max((limit for limit in limits if limit), default=30)

    def first(self) -> State:
        """Give the state before anything has happened."""
        s = self._scenario
        budgets = (s.crashes, s.breaks, s.restarts, s.faults, s.expiries)
        nothing: frozenset[Any] = frozenset()
        waiting, key = tuple(sorted(s.events)), s.key(s.events[0])
        left = json.dumps(json.loads(s.item) | {"id": {"S": key}}) if s.item else None
        items = ((key, left),) if left else ()
        return State(
            *(waiting, 0, items, (), nothing, (), (), *budgets, s.transient),
            *((), nothing, nothing, nothing, nothing),
        )

    def moves(self, state: State) -> Iterator[Move]:
        """Give everything that may happen next."""
        if state.happened < self._scenario.last:
            happened = state.happened + 1
            what = "deletion" if self._scenario.is_deletion(happened) else "upload"
            yield f"{what} {happened}", self._shown(state._replace(happened=happened)), None
        for event in sorted(set(state.waiting)):
            if event <= state.happened:
                waiting = list(state.waiting)
                waiting.remove(event)
                name = f"{event}{'abcd'[state.waiting.count(event) - 1]}"
                yield from self._start(state._replace(waiting=tuple(waiting)), name, event, 1)
        for name, event, number in state.known if state.restarts else ():
            known = {*state.known, (name, event, number + 1)} - {(name, event, number)}
            left = state.restarts - 1
            again = state._replace(restarts=left, known=tuple(sorted(known)) if left else ())
            yield from self._start(again, name, event, number + 1)
        for run in state.runs:
            others = state._replace(runs=tuple(other for other in state.runs if other != run))
            yield from self._steps(others, run)
            if state.crashes and self._promise.is_recorded(state, run):
                yield self._crash(others, run)
        for orphan in state.orphans:
            others = state._replace(orphans=_without(state.orphans, orphan))
            yield from self._call_orphan(others, orphan)
        # A record outlives every execution that began before it was done: days against minutes.
        for key, item in state.items if state.expiries and not state.runs else ():
            if json.loads(item).get("expires_at", NEVER) != NEVER:
                items = tuple(pair for pair in state.items if pair[0] != key)
                done = frozenset(e for e in state.done if self._promise.record_key(e) != key)
                expired = state._replace(items=items, done=done, expiries=state.expiries - 1)
                yield f"the item of {key} expires", expired, None

    def judge(self, state: State) -> str | None:
        """Tell what is wrong with a state in which all is quiet."""
        if state.runs or state.waiting or any(orphan.owes for orphan in state.orphans):
            return None
        return self._promise.rests(state)

    def _shown(self, state: State) -> State:
        """Remember what the outputs show."""
        shown = self._promise.shows(state)
        if shown <= state.effective:
            return state
        return state._replace(effective=state.effective | shown)

    def _start(self, state: State, name: str, event: int, number: int) -> Iterator[Move]:
        if state.restarts and number == 1:
            state = state._replace(known=tuple(sorted({*state.known, (name, event, 1)})))
        data = json.dumps(self._scenario.event(event), sort_keys=True)
        run = Run(name, number, event, self._engine.start, data)
        what = f"{name} is {'delivered' if number == 1 else 'run again'}; "
        paused, path, problem = self._settle(state, run)
        if isinstance(paused, State):
            yield what + path, state, problem or "I4: the event is not worked on"
            return
        if wrong := self._promise.starts(paused):
            yield what + path, state, wrong
            return
        for label, following, wrong in self._steps(state, paused):
            yield what + label, following, wrong

    def _steps(self, state: State, run: Run) -> Iterator[Move]:
        """Make the moves of a run; `state` is without it."""
        kind = self._engine.states[run.state]
        if kind["Type"] == "Wait":
            yield from self._look(state, run)
        elif "lambda" in kind["Resource"]:
            yield from self._call_function(state, run)
        else:
            yield from self._serve(state, run, "")

    def _look(self, state: State, run: Run) -> Iterator[Move]:
        """Wait, once or for a lease, and look again.

        Looks are the execution's clock. All but the first look count as the second, as long as the
        run does not wait for a whole lease; so that it need not be followed 28 times.
        """
        count = json.loads(run.data)["polls"]["count"]
        if count >= self._patience:
            yield f"{run.execution}: waits on", state, "I5: waits for longer than its budget"
            return
        later, breaks = self._leased(state, run)
        for label, at_look in (
            ("later", _at_look(run, count - (count > 1))),
            ("after a lease", later),
        ):
            at = state
            if label != "later" and breaks:
                if not state.breaks:
                    continue
                at = state._replace(breaks=state.breaks - 1, broken=state.broken | {breaks})
            paused, path, problem = self._settle(at, at_look, wait=True)
            if isinstance(paused, State):
                yield path, at, problem or "I4: a wait ended the execution"
                return
            yield from self._serve(at, paused, f"{label} ")

    def _leased(self, state: State, run: Run) -> tuple[Run, str]:
        """Wait until the next look breaks what it watches or is the last, while nobody else moves.

        Looks that change nothing are taken once only for all that are like it.

        Returns
        -------
        The run before that look, and what is then broken though its holder lives.
        """
        while True:
            count = json.loads(run.data)["polls"]["count"]
            at, breaks = self._promise.awaits(state, run, self._patience)
            looked = self._look_in_vain(state, run) if count < at - 1 else None
            if looked is None:
                return run, breaks if at < self._patience else ""
            if _at_look(looked, 0).data == _at_look(run, 0).data:
                looked = _at_look(run, at - 1)
            run = looked

    def _look_in_vain(self, state: State, run: Run) -> Run | None:
        """Give a waiting run as it waits again, or None if its look changes anything."""
        looked, _, _ = self._settle(state, run, wait=True)
        while isinstance(looked, Run) and looked.state != run.state:
            if "dynamodb" not in self._engine.states[looked.state].get("Resource", ""):
                return None
            item = self._item(state, looked)
            step = self._step(state, looked, item)
            if step.following is None or step.item != item:
                return None
            moved = looked._replace(state=step.following, data=step.data)
            looked, _, _ = self._settle(state, moved)
        return looked if isinstance(looked, Run) else None

    def _serve(self, state: State, run: Run, when: str) -> Iterator[Move]:
        """Take a Task of DynamoDB or SQS, as it should be, with a lost answer, or in vain."""
        item = self._item(state, run)
        step = self._step(state, run, item)
        who = f"{run.execution}: {when}{run.state}"
        if self._engine.states[run.state]["ResultPath"] == "$.record":
            token = attribute(item, "lock_token")
            first = json.loads(run.data)["polls"]["count"] == 1
            run = run._replace(locked=token if first or token == run.locked else None)
        problem = self._promise.steps(state, run, item, step)
        after = self._apply(state, run, item, step.item, step.message)
        yield self._go(*self._promise.remembers(after, run, step), step, who, problem)
        for error in sorted(set(state.transient)):
            if not error.startswith("Lambda."):
                yield self._fail_once(state, run, item, who, error)
        if not state.faults:
            return
        fewer = after._replace(faults=state.faults - 1)
        _, again = self._engine.attempts(run.state, "States.Timeout")
        if when == "" and (step.item, after.parked) != (item, state.parked) and again:
            yield f"{who}, the answer is lost, again", _with(fewer, run), None
        if self._promise.loses(run) == "not freed":  # the lock stays, as that of a dead holder
            kept = (run.event, run.token, "not freed")
            state = state._replace(lost=state.lost | {kept})
        failed = self._step(fewer, run, item, "!States.Timeout")
        if (step.item, after.parked) != (item, state.parked):
            yield self._go(fewer, run, failed, f"{who}, all answers are lost", None)
        fewer = state._replace(faults=state.faults - 1)
        yield self._go(fewer, run, failed, f"{who} fails", None)

    def _fail_once(self, state: State, run: Run, item: str | None, who: str, error: str) -> Move:
        """Let a Task fail; it is tried again if a retrier has attempts left."""
        left = list(state.transient)
        left.remove(error)
        state = state._replace(transient=tuple(left))
        retrier, attempts = self._engine.attempts(run.state, error)
        if run.tried.count(retrier) < attempts:
            again = run._replace(tried=tuple(sorted((*run.tried, retrier))), answers=())
            return f"{who} has a {error}, again", _with(state, again), None
        if error == "States.Timeout":  # of the first look, it costs the lease: there is no time
            run = run._replace(locked=None)
        failed = self._step(state, run, item, f"!{error}")
        return self._go(state, run, failed, f"{who} has a {error}", None)

    def _item(self, state: State, run: Run) -> str | None:
        """Give the item that a run's Task reads or writes, if it does."""
        if "dynamodb" not in self._engine.states[run.state].get("Resource", ""):
            return None
        return dict(state.items).get(self._engine.item_key(run.state, run.data))

    def _apply(
        self, state: State, run: Run, before: str | None, item: str | None, message: str | None
    ) -> State:
        """Put what a Task wrote into a state."""
        if item != before:
            items = dict(state.items)
            key = self._engine.item_key(run.state, run.data)
            items.pop(key, None)
            if item:
                items[key] = item
            state = state._replace(items=tuple(sorted(items.items())))
            if self._promise.is_done(run):
                state = state._replace(done=state.done | {run.event})
        if message:  # of this run's event, or of another's that it keeps from being forgotten
            parked = json.loads(message)["event"]
            known = {each for each in self._scenario.events if self._scenario.event(each) == parked}
            state = state._replace(parked=state.parked | known)
        return state

    def _call_function(self, state: State, run: Run) -> Iterator[Move]:
        """Take one S3 call of a run's function, or hand its result to the execution."""
        event = json.dumps(json.loads(run.data)["event"], sort_keys=True)
        next_call = self._engine.call(event, run.answers)
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
            step, said = self._step(fewer, run, None, mock), json.dumps(payload)
            yield self._go(fewer, run, step, f"{who}: answers {said}", None)
        if state.faults:
            fewer = state._replace(faults=state.faults - 1)
            if self._engine.attempts(run.state, "States.Timeout")[1]:
                left, again = self._orphaned(fewer, run, may_stop=True), run._replace(answers=())
                yield f"{who}: the function times out, again", _with(left, again), None
            left = self._orphaned(fewer, run)
            failed = self._step(left, run, None, "!States.Timeout")
            yield self._go(left, run, failed, f"{who}: the function times out for good", None)

    def _orphaned(self, state: State, run: Run, may_stop: bool = False) -> State:
        """Leave a run's function alone; it need not take another step, as it may have died too."""
        event = json.dumps(json.loads(run.data)["event"], sort_keys=True)
        orphans = {
            each._replace(may_stop=each.may_stop and (may_stop or each.event != event))
            for each in state.orphans
        }
        if isinstance(self._engine.call(event, run.answers), Call):
            orphans.add(Orphan(event, run.answers, may_stop))
        return state._replace(orphans=tuple(sorted(orphans, key=repr)))

    def _call_orphan(self, state: State, orphan: Orphan) -> Iterator[Move]:
        next_call = self._engine.call(orphan.event, orphan.answers)
        assert isinstance(next_call, Call)
        for label, after, answer, problem in self._answers(state, next_call):
            may_stop = orphan.may_stop and not answer.owes
            answered = Orphan(orphan.event, (*orphan.answers, answer), may_stop)
            following = after.orphans
            if isinstance(self._engine.call(answered.event, answered.answers), Call):
                following = tuple(sorted({*following, answered}, key=repr))
            sequencer = json.loads(orphan.event)["detail"]["object"]["sequencer"]
            who = f"orphan of {self._scenario.number(sequencer)}"
            yield f"{who}: {label}", after._replace(orphans=following), problem

    def _answers(self, state: State, call: Call) -> Iterator[tuple[str, State, Answer, str | None]]:
        """Give what S3 may answer to a call, and what it does."""
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
            answer, said = self._read_source(state, call)
            yield f"{what}{said}", state, answer, None
        else:
            yield from self._write_output(state, call, output)

    def _read_source(self, state: State, call: Call) -> tuple[Answer, str]:
        upload = self._scenario.current(state.happened)
        if call.version:
            there = int(call.version) in self._scenario.versions(state.happened)
            upload = int(call.version) if there else None
        if upload is None:
            return Answer(404), " (none)"
        content = self._scenario.content(upload)
        etag = f'"etag-{content}"'
        if call.condition not in {None, etag}:
            return Answer(412), " (changed)"
        version = str(upload) if self._scenario.versioned else None
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
            # The SDK sends it again, which its own first attempt makes fail.
            status = HTTPStatus.PRECONDITION_FAILED if new else HTTPStatus.NOT_FOUND
            yield f"{what} (the answer is lost, {status})", fewer, Answer(status, owes=owes), None
            fewer = state._replace(faults=state.faults - 1)
            yield f"{what} (another write is under way, 409)", fewer, Answer(409), None

    def _crash(self, state: State, run: Run) -> Move:
        lost = state.lost | {(run.event, run.token, "crashed")}
        state = state._replace(crashes=state.crashes - 1, lost=lost)
        if "lambda" in self._engine.states[run.state].get("Resource", ""):
            state = self._orphaned(state, run)
        return f"{run.execution} dies before {run.state}", state, None

    def _step(self, state: State, run: Run, item: str | None, mock: str | None = None) -> Step:
        faults = state.faults > 0 or bool(state.transient)
        return self._engine.step(run.state, run.execution, run.data, item, mock, run.token, faults)

    def _go(self, state: State, run: Run, step: Step, label: str, problem: str | None) -> Move:
        """Take a run that has done a Task to where it pauses next."""
        if step.following is None:
            return label, state, problem or f"I4: ended by {step.error} in {run.state}"
        label += f" → {step.following}"
        moved = run._replace(state=step.following, data=step.data, answers=(), tried=())
        following, path, wrong = self._settle(state, moved)
        after = _with(state, following) if isinstance(following, Run) else following
        return label + (f" → {path}" if path else ""), after, problem or wrong

    def _settle(
        self, state: State, run: Run, wait: bool = False
    ) -> tuple[Run | State, str, str | None]:
        """Take the states that nobody else can see.

        Returns
        -------
        The run where it pauses, or if it ended the state; the path; what is wrong.
        """
        path: list[str] = []
        while wait or self._engine.states[run.state]["Type"] in {"Pass", "Choice"}:
            wait = False
            step = self._step(state, run, None)
            if step.following is None:
                return state, " → ".join(path), f"I4: ended by {step.error} in {run.state}"
            if wrong := self._promise.passes(state, run, step.following):
                return state, " → ".join((*path, step.following)), wrong
            run = run._replace(state=step.following, data=step.data)
            path.append(run.state)
        if self._engine.states[run.state]["Type"] not in {"Succeed", "Fail"}:
            return run, " → ".join(path), None
        if how := self._promise.loses(run):
            state = state._replace(lost=state.lost | {(run.event, run.token, how)})
        return state, " → ".join(path), self._promise.ends(state, run)


def attribute(item: str | None, name: str) -> str | None:
    """Read a string of an item."""
    value: str | None = json.loads(item or "{}").get(name, {}).get("S")
    return value


def _at_look(run: Run, count: int) -> Run:
    data = json.loads(run.data) | {"polls": {"count": count}}
    return run._replace(data=json.dumps(data, sort_keys=True))


def _without(orphans: tuple[Orphan, ...], orphan: Orphan) -> tuple[Orphan, ...]:
    return tuple(other for other in orphans if other != orphan)


def _with(state: State, run: Run) -> State:
    """Add a run, and forget what cannot matter any more."""
    return state._replace(runs=tuple(sorted((*state.runs, run), key=lambda r: (r[0], r[1]))))


@dataclass(frozen=True)
class Result:
    """What a search found. The trace, if there is one, ends in the problem."""

    states: int
    transitions: int
    depth: int
    problem: str | None = None
    trace: tuple[str, ...] = ()


def explore(promise: Promise, limit: int = 10**9) -> Result:
    """Search depth first for anything wrong, and for a path that does not end.

    Paths of one acyclic graph all end, so this looks for a state that follows itself. A look that
    finds all as it was is no step.
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

    while stack and len(seen) < limit:
        depth = max(depth, len(stack))
        here = next(reversed(open_states))
        for label, state, problem in stack[-1]:
            if state == here:
                continue
            transitions += 1
            moved[-1] = True
            wrong = problem or (None if state in seen else explorer.judge(state))
            if wrong:
                return stopped(wrong, label)
            if state in open_states:
                since = labels[list(open_states).index(state) :]
                # Looks are counted, so that what waits ends; here one count stands for many.
                if any(": later " in each for each in (*since, label)):
                    continue
                return stopped("I5: this may go on for ever", label)
            if len(stack) > LONGEST:
                return stopped("I5: this may go on for ever", label)
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
    return Result(len(seen), transitions, depth)


def shortest(promise: Promise, limit: int) -> Result:
    """Search breadth first for the shortest way to anything wrong, in `limit` states at most."""
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
    return Result(len(came), transitions, depth)
