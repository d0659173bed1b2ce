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
from typing import Any, ClassVar, NamedTuple

from tests.model.engine import FUNCTION, INVALID, Answer, Call, Engine, Step

LONGEST = 200  # steps of a path; the shipped machine needs fewer than 100

# Answers that the function's contract does not know.
ODD: tuple[Any, ...] = (
    *(
        None,
        "text",
        {},
        {"expires_at": "1"},
        {"outcome": "Processed"},
        {"outcome": "Processed", "expires_at": 5},
    ),
    *({"outcome": "InvalidImage"}, {"outcome": "Other", "expires_at": "1", "cause": "x"}),
)
NEVER = {"N": "253402300799"}  # what Record Sequencer writes: the year 9999


@dataclass(frozen=True)
class Scenario:
    """What happens, and how much the adversary may do.

    Attributes
    ----------
    events : tuple of int
        The uploads whose events are delivered, in whichever order; an event twice is a duplicate.
    contents : str
        One letter for each upload, "ABA" if the third is the first again; all different if empty.
        A small letter is no image.
    versioned : bool
        Whether the bucket is. Sequencers then fall, as they do not compare between versions.
    crashes, breaks, restarts, faults, expiries : int
        How often an execution dies; a lock is broken whose holder lives; an execution is run again
        from the start; a service or the function fails, or an answer is lost; an item expires.
    transient : tuple of str
        Errors that Tasks may have once each, and not again if they are tried again.
    odd : bool
        Whether a fault may also be a function's answer that no contract knows.
    damaged : str
        What is wrong with the events: "detail.object.key" is not there, or "detail.object.key=5".
    item : str
        The item that somebody else has left for the key, as JSON without the key.
    """

    events: tuple[int, ...]
    crashes: int = 0
    breaks: int = 0
    restarts: int = 0
    faults: int = 0
    expiries: int = 0
    contents: str = ""
    versioned: bool = False
    transient: tuple[str, ...] = ()
    odd: bool = False
    damaged: str = ""
    item: str = ""

    def __str__(self) -> str:
        numbers = {
            "crash": self.crashes,
            "break": self.breaks,
            "restart": self.restarts,
            "fault": self.faults,
            "expiry": self.expiries,
        }
        budgets = [f"{number} {name}" for name, number in numbers.items() if number]
        budgets += [f"contents {self.contents}"] if self.contents else []
        budgets += ["versioned"] if self.versioned else []
        budgets += [f"transient {error}" for error in self.transient]
        budgets += ["odd answers"] if self.odd else []
        budgets += [f"damaged {self.damaged}"] if self.damaged else []
        budgets += [f"item {self.item}"] if self.item else []
        return f"{list(self.events)}; {', '.join(budgets) or 'none'}"

    @property
    def valid(self) -> bool:
        """Whether the events have all that they must; a version is not needed."""
        return not self.damaged or "version-id" in self.damaged

    def content(self, event: int) -> str:
        """Give what upload `event` holds."""
        letter = (self.contents or "ABCDEFGH")[event - 1]
        return letter if letter.isupper() else f"{INVALID} {letter}"

    def sequencer(self, event: int) -> str:
        """Give the sequencer of an event."""
        return f"0{9 - event if self.versioned else event}"

    def number(self, sequencer: str) -> int:
        """Give the event of a sequencer."""
        return 9 - int(sequencer) if self.versioned else int(sequencer)

    def key(self, event: int) -> str:
        """Give the key of an event's item."""
        return f"b/k#{event}" if self.versioned else "b/k"

    def detail(self, event: int) -> dict[str, Any]:
        """Make an event."""
        described = {
            "key": "k",
            "etag": f"etag-{self.content(event)}",
            "sequencer": self.sequencer(event),
        }
        if self.versioned:
            described["version-id"] = str(event)
        detail = {"bucket": {"name": "b"}, "object": described}
        made: dict[str, Any] = {"detail-type": "Object Created", "detail": detail}
        if self.damaged:
            path, _, value = self.damaged.partition("=")
            *parents, last = path.split(".")
            inside = made
            for parent in parents:
                inside = inside[parent]
            inside.pop(last, None)
            if value:
                inside[last] = json.loads(value)
        return made


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
    """

    execution: str
    number: int
    event: int
    state: str
    data: str
    answers: tuple[Answer, ...] = ()
    tried: tuple[int, ...] = ()
    locked: str | None = None

    @property
    def token(self) -> str:
        return f"token of {self.execution}, run {self.number}"


class Orphan(NamedTuple):
    """An invocation of the function whose execution does not wait for it any more."""

    source: str
    sequencer: str
    answers: tuple[Answer, ...]


class Output(NamedTuple):
    """The output's content and metadata. Its ETag is its content's, as in S3."""

    content: str
    metadata: tuple[tuple[str, str], ...]


class State(NamedTuple):
    """All there is. The last six fields remember what the conditions need to know."""

    waiting: tuple[int, ...]
    uploads: int
    items: tuple[tuple[str, str], ...]
    output: Output | None
    parked: frozenset[int]
    runs: tuple[Run, ...]
    orphans: tuple[Orphan, ...]
    crashes: int
    breaks: int
    restarts: int
    faults: int
    expiries: int
    transient: tuple[str, ...]
    known: tuple[tuple[str, int, int], ...]  # executions that may be run again: event, runs
    broken: bool  # a live holder's lock
    done: frozenset[int]
    lost: frozenset[tuple[int, str, str]]  # event, token, how


Move = tuple[str, State, str | None]  # what happens, what follows, what is wrong with it


class Promise:
    """What a policy promises: its methods tell what is wrong, if anything is.

    A policy is a subclass: its ASL, its function's source, and these methods.

    Parameters
    ----------
    engine : Engine
        What runs.
    scenario : Scenario
        What happens to it.
    """

    definition: ClassVar[str]
    function: ClassVar[str] = FUNCTION

    def __init__(self, engine: Engine, scenario: Scenario) -> None:
        self.engine = engine
        self.scenario = scenario

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

    def writes(self, before: Output, after: Output) -> str | None:
        """Judge an output that replaces another."""
        raise NotImplementedError

    def rests(self, state: State) -> str | None:
        """Judge a state in which all is quiet."""
        raise NotImplementedError

    def is_done(self, run: Run) -> bool:
        """Tell whether an event is done once its run's Task has written to the table."""
        raise NotImplementedError

    def loses(self, run: Run) -> str:
        """Name how an execution that fails here may lose its event or lock, or nothing."""
        raise NotImplementedError

    def written(self, output: Output) -> int:
        """Give the event of an output."""
        return self.scenario.number(dict(output.metadata)["sequencer"])

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
        left = json.dumps(json.loads(s.item) | {"object_key": {"S": key}}) if s.item else None
        items = ((key, left),) if left else ()
        return State(
            *(waiting, 0, items, None, nothing, (), (), *budgets, s.transient),
            *((), False, nothing, nothing),
        )

    def moves(self, state: State) -> Iterator[Move]:
        """Give everything that may happen next."""
        if state.uploads < max(self._scenario.events):
            yield f"upload {state.uploads + 1}", state._replace(uploads=state.uploads + 1), None
        for event in sorted(set(state.waiting)):
            if event <= state.uploads:
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
            if state.crashes and self._is_recorded(state, run):
                yield self._crash(others, run)
        for orphan in state.orphans:
            others = state._replace(orphans=_without(state.orphans, orphan))
            yield from self._call_orphan(others, orphan)
        # A record outlives every execution that began before it was done: days against minutes.
        for key, item in state.items if state.expiries and not state.runs else ():
            if json.loads(item).get("expires_at", NEVER) != NEVER:
                items = tuple(pair for pair in state.items if pair[0] != key)
                done = frozenset(e for e in state.done if self._scenario.key(e) != key)
                expired = state._replace(items=items, done=done, expiries=state.expiries - 1)
                yield f"the item of {key} expires", expired, None

    def judge(self, state: State) -> str | None:
        """Tell what is wrong with a state in which all is quiet."""
        return None if state.runs or state.waiting else self._promise.rests(state)

    def _is_recorded(self, state: State, run: Run) -> bool:
        """Tell whether the table knows of a run's event; before, it is as good as not delivered."""
        item = dict(state.items).get(self._scenario.key(run.event), "{}")
        sequencer = self._scenario.sequencer(run.event)
        return max(attribute(item, "newest") or "", attribute(item, "sequencer") or "") >= sequencer

    def _start(self, state: State, name: str, event: int, number: int) -> Iterator[Move]:
        if state.restarts and number == 1:
            state = state._replace(known=tuple(sorted({*state.known, (name, event, 1)})))
        data = json.dumps(self._scenario.detail(event), sort_keys=True)
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
        count = json.loads(run.data)["looks"]["count"]
        if count >= self._patience:
            yield f"{run.execution}: waits on", state, "I5: waits for longer than its budget"
            return
        later, breaks = self._leased(state, run)
        for label, at_look in (
            ("later", _at_look(run, count - (count > 1))),
            ("after a lease", later),
        ):
            at = state
            if label != "later":
                if breaks and not state.breaks:
                    continue
                if breaks:
                    at = state._replace(breaks=state.breaks - 1, broken=True)
            paused, path, problem = self._settle(at, at_look, wait=True)
            if isinstance(paused, State):
                yield path, at, problem or "I4: a wait ended the execution"
                return
            yield from self._serve(at, paused, f"{label} ")

    def _leased(self, state: State, run: Run) -> tuple[Run, bool]:
        """Wait until the next look breaks the lock or is the last one, while nobody else moves.

        A look that changes nothing is taken once only for all that are like it.

        Returns
        -------
        The run before that look, and whether the lock is then one whose holder lives.
        """
        item = dict(state.items).get(self._scenario.key(run.event))
        while True:
            data = json.loads(run.data)
            count, watched = data["looks"]["count"], data.get("watched", {})
            at = min(watched.get("break_at_look", self._patience), self._patience)
            if count >= at - 1:
                break
            paused, _, _ = self._settle(state, run, wait=True)
            if isinstance(paused, State):
                break
            step = self._step(state, paused, item)
            if step.following is None:
                break
            moved = paused._replace(state=step.following, data=step.data)
            looked, _, _ = self._settle(state, moved)
            if isinstance(looked, State) or looked.state != run.state:
                break
            if _at_look(looked, 0).data == _at_look(run, 0).data:
                looked = _at_look(run, at - 1)
            run = looked
        holder = attribute(item, "lock_token")
        live = holder in {other.token for other in state.runs}
        return run, at < self._patience and holder == watched.get("lock_token") and live

    def _serve(self, state: State, run: Run, when: str) -> Iterator[Move]:
        """Take a Task of DynamoDB or SQS, as it should be, with a lost answer, or in vain."""
        item = dict(state.items).get(self._scenario.key(run.event))
        step = self._step(state, run, item)
        who = f"{run.execution}: {when}{run.state}"
        if "getItem" in self._engine.states[run.state]["Resource"]:
            token = attribute(item, "lock_token")
            first = json.loads(run.data)["looks"]["count"] == 1
            run = run._replace(locked=token if first or token == run.locked else None)
        problem = self._promise.steps(state, run, item, step)
        after = self._apply(state, run, item, step.item, step.message)
        yield self._go(after, run, step, who, problem)
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

    def _apply(
        self, state: State, run: Run, before: str | None, item: str | None, message: str | None
    ) -> State:
        """Put what a Task wrote into a state."""
        items = dict(state.items)
        if item:
            items[self._scenario.key(run.event)] = item
        else:
            items.pop(self._scenario.key(run.event), None)
        state = state._replace(items=tuple(sorted(items.items())))
        if message and json.loads(message)["event"] == self._scenario.detail(run.event):
            state = state._replace(parked=state.parked | {run.event})
        if item != before and self._promise.is_done(run):
            state = state._replace(done=state.done | {run.event})
        return state

    def _call_function(self, state: State, run: Run) -> Iterator[Move]:
        """Take one S3 call of a run's function, or hand its result to the execution."""
        data = json.loads(run.data)
        source = json.dumps(data["source"], sort_keys=True)
        next_call = self._engine.call(source, data["sequencer"], run.answers)
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
        for payload in ODD if self._scenario.odd and state.faults else ():
            fewer, mock = state._replace(faults=state.faults - 1), json.dumps({"Payload": payload})
            step, said = self._step(fewer, run, None, mock), json.dumps(payload)
            yield self._go(fewer, run, step, f"{who}: answers {said}", None)
        if state.faults:
            orphan = Orphan(source, data["sequencer"], run.answers)
            fewer = state._replace(faults=state.faults - 1)
            left = fewer._replace(orphans=tuple(sorted({*state.orphans, orphan}, key=repr)))
            again = run._replace(answers=())
            failed = self._step(fewer, run, None, "!States.Timeout")
            # An orphan need not take another step, so that a function which died is one too.
            if self._engine.attempts(run.state, "States.Timeout")[1]:
                yield f"{who}: the function times out, again", _with(left, again), None
            yield self._go(left, run, failed, f"{who}: the function times out for good", None)

    def _call_orphan(self, state: State, orphan: Orphan) -> Iterator[Move]:
        next_call = self._engine.call(*orphan)
        if not isinstance(next_call, Call):
            return
        for label, after, answer, problem in self._answers(state, next_call):
            answered = orphan._replace(answers=(*orphan.answers, answer))
            following = after.orphans
            if isinstance(self._engine.call(*answered), Call):
                following = tuple(sorted({*following, answered}, key=repr))
            who = f"orphan of {self._scenario.number(orphan.sequencer)}"
            yield f"{who}: {label}", after._replace(orphans=following), problem

    def _answers(self, state: State, call: Call) -> Iterator[tuple[str, State, Answer, str | None]]:
        """Give what S3 may answer to a call, and what it does."""
        output = state.output
        etag = f'"{output.content}"' if output else None
        answer: Answer
        if call.operation == "HEAD output":
            answer = (etag, output.metadata) if output else 404
            yield call.operation, state, answer, None
            return
        if call.operation == "GET source":
            content = self._scenario.content(state.uploads)
            version = str(state.uploads) if self._scenario.versioned else None
            wrong = call.condition not in {None, f'"etag-{content}"'}
            answer = 412 if wrong else (content, version)
            yield f"{call.operation}{' (changed)' if wrong else ''}", state, answer, None
            return
        if call.condition == "*":
            status = 412 if output else 200
        else:
            status = 404 if not output else 412
            status = 200 if call.condition in {None, etag} else status
        if status != 200:
            yield f"PUT output ({status})", state, status, None
            return
        new = Output(call.content, call.metadata)
        problem = self._promise.writes(output, new) if output else None
        after = state._replace(output=new)
        yield "PUT output", after, (), problem
        if state.faults:
            fewer = after._replace(faults=state.faults - 1)
            # The SDK puts it again, which its own first attempt makes fail.
            yield "PUT output (the answer is lost, 412)", fewer, 412, problem
            fewer = state._replace(faults=state.faults - 1)
            yield "PUT output (another write is under way, 409)", fewer, 409, None

    def _crash(self, state: State, run: Run) -> Move:
        lost = state.lost | {(run.event, run.token, "crashed")}
        state = state._replace(crashes=state.crashes - 1, lost=lost)
        if run.state == "Invert Image":
            data = json.loads(run.data)
            source = json.dumps(data["source"], sort_keys=True)
            orphan = Orphan(source, data["sequencer"], run.answers)
            if isinstance(self._engine.call(*orphan), Call):
                orphans = tuple(sorted({*state.orphans, orphan}, key=repr))
                state = state._replace(orphans=orphans)
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
    data = json.loads(run.data) | {"looks": {"count": count}}
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
            if state in open_states or len(stack) > LONGEST:
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
