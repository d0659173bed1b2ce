"""Every interleaving of the executions of a few events of one object, and what must hold in each.

An execution pauses before each Task and each Wait; the Pass, Choice and end states between touch
nothing that another execution can see, so that nothing is lost by taking them at once. The function
pauses before each S3 call.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from tests.model.engine import INVALID, Answer, Call, Engine, Step

LONGEST = 200  # steps of a path; the shipped machine needs fewer than 60
HOLDING = {"Invert Image", "Release Lock"}

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
    """

    events: tuple[int, ...]
    crashes: int = 0
    breaks: int = 0
    restarts: int = 0
    faults: int = 0
    expiries: int = 0
    contents: str = ""
    versioned: bool = False

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
        return {"detail-type": "Object Created", "detail": detail}


class Run(NamedTuple):
    """A live run of an execution, and the answers that its function has got so far."""

    execution: str
    number: int
    event: int
    state: str
    data: str
    answers: tuple[Answer, ...] = ()

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
    known: tuple[tuple[str, int, int], ...]  # executions that may be run again: event, runs
    broken: bool  # a live holder's lock
    done: frozenset[int]
    lost: frozenset[tuple[int, str, str]]  # event, token, how


Move = tuple[str, State, str | None]  # what happens, what follows, what is wrong with it


class Explorer:
    """Makes the moves of one scenario and judges them."""

    def __init__(self, engine: Engine, scenario: Scenario) -> None:
        self._engine = engine
        self._scenario = scenario
        rules = engine.states["Key State?"]["Choices"]
        limits = [rule.get("NumericGreaterThanEquals") for rule in rules]
        self._patience = max((limit for limit in limits if limit), default=30)

    def first(self) -> State:
        """Give the state before anything has happened."""
        s = self._scenario
        budgets = (s.crashes, s.breaks, s.restarts, s.faults, s.expiries)
        nothing: frozenset[Any] = frozenset()
        waiting = tuple(sorted(s.events))
        return State(waiting, 0, (), None, nothing, (), (), *budgets, (), False, nothing, nothing)

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
        """Tell what is wrong with a state that nothing follows, or in which all is quiet."""
        if state.runs or state.waiting:
            return None
        newest = max(self._scenario.events)
        written = self._written(state.output) if state.output else None
        content = f"inverse of {self._scenario.content(newest)}"
        right = state.output and written == newest and state.output.content.startswith(content)
        if not right and newest not in state.parked and not self._is_kept(state, newest):
            return f"I1: all is quiet and the output is that of {written}, not of {newest}"
        dead = {token for _, token, _ in state.lost}
        for _, item in state.items:
            # A lost answer to a claim may leave a lock behind, which a waiter breaks in time.
            fault = state.faults < self._scenario.faults
            if not fault and _text(item, "lock_token") not in {None, *dead}:
                return f"all is quiet and {_text(item, 'lock_token')} has the lock"
        return None

    def _is_kept(self, state: State, event: int) -> bool:
        """Tell whether a lost event can be found: in its item, or in the log if it says so."""
        hows = {how for lost, _, how in state.lost if lost == event}
        item = dict(state.items).get(self._scenario.key(event), "{}")
        sequencer = self._scenario.sequencer(event)
        if _text(item, "newest_event"):
            found = _text(item, "newest") == sequencer, _text(item, "newest_event")
        else:
            found = _text(item, "sequencer") == sequencer, _text(item, "event")
        kept = found[0] and json.loads(found[1] or "{}") == self._scenario.detail(event)
        return "not parked" in hows or bool(hows and kept)

    def _is_recorded(self, state: State, run: Run) -> bool:
        """Tell whether the table knows of a run's event; before, it is as good as not delivered."""
        item = dict(state.items).get(self._scenario.key(run.event), "{}")
        sequencer = self._scenario.sequencer(run.event)
        return max(_text(item, "newest") or "", _text(item, "sequencer") or "") >= sequencer

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
        data = json.loads(run.data)
        count, watched = data["looks"]["count"], data.get("watched", {})
        if count >= self._patience:
            yield f"{run.execution}: waits on", state, "I5: waits for longer than its budget"
            return
        item = dict(state.items).get(self._scenario.key(run.event), "{}")
        later = min(watched.get("break_at_look", self._patience), self._patience) - 1
        holder = _text(item, "lock_token")
        live = holder in {other.token for other in state.runs}
        breaks = later + 1 < self._patience and holder == watched.get("lock_token") and live
        for label, looks in (("later", count - (count > 1)), ("after a lease", later)):
            at = state
            if label != "later":
                if looks < count or (breaks and not state.breaks):
                    continue
                if breaks:
                    at = state._replace(breaks=state.breaks - 1, broken=True)
            text = json.dumps(data | {"looks": {"count": looks}}, sort_keys=True)
            paused, path, problem = self._settle(at, run._replace(data=text), wait=True)
            if isinstance(paused, State):
                yield path, at, problem or "I4: a wait ended the execution"
                return
            yield from self._serve(at, paused, f"{label} ")

    def _serve(self, state: State, run: Run, when: str) -> Iterator[Move]:
        """Take a Task of DynamoDB or SQS, as it should be, with a lost answer, or in vain."""
        item = dict(state.items).get(self._scenario.key(run.event))
        step = self._step(state, run, item)
        who = f"{run.execution}: {when}{run.state}"
        problem = self._wrong_step(state, run, item, step)
        after = self._apply(state, run, item, step.item, step.message)
        yield self._go(after, run, step, who, problem)
        if not state.faults:
            return
        fewer = after._replace(faults=state.faults - 1)
        if when == "" and (step.item, after.parked) != (item, state.parked):
            yield f"{who}, the answer is lost, again", _with(fewer, run), None
        if run.state == "Fail Key":  # in vain: the lock stays, as that of a dead holder
            kept = (run.event, run.token, "not freed")
            state = state._replace(lost=state.lost | {kept})
        failed = self._step(fewer, run, item, "!States.Timeout")
        if (step.item, after.parked) != (item, state.parked):
            yield self._go(fewer, run, failed, f"{who}, all answers are lost", None)
        fewer = state._replace(faults=state.faults - 1)
        yield self._go(fewer, run, failed, f"{who} fails", None)

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
        if message:
            state = state._replace(parked=state.parked | {run.event})
        if run.state == "Release Lock" and item != before:
            state = state._replace(done=state.done | {run.event})
        return state

    def _wrong_step(self, state: State, run: Run, item: str | None, step: Step) -> str | None:
        """Check I3, that a free key can be claimed, and that a broken lock was watched."""
        following = step.following
        refused = run.state == "Claim Key" and following == "Record Sequencer"
        if refused and run.event not in state.done and _text(item or "{}", "lock_token") is None:
            newest = _text(item or "{}", "newest") or ""
            if newest <= self._scenario.sequencer(run.event):
                return f"I5: {run.execution} cannot claim a free key"
        if run.state == "Break Lock":
            data = json.loads(run.data)
            watched = data["watched"]
            if not watched["lock_token"] or data["looks"]["count"] < watched["break_at_look"]:
                return f"I5: {run.execution} breaks a lock that it has not watched"
            if following == "Claim Key" and _text(step.item or "{}", "lock_token"):
                return f"I5: {run.execution} has broken a lock that is still there"
        if following in HOLDING and run.state not in HOLDING:
            if run.event in state.done:
                return f"I3: {run.event} is done and worked on again"
            others = [
                other
                for other in state.runs
                if other.state in HOLDING
                and other.event not in state.done
                and self._same_key(other.event, run.event)
            ]
            if others and not state.broken and not self._restarted(state):
                return f"I3: {run.execution} works while {others[0].execution} does"
        return None

    def _same_key(self, one: int, other: int) -> bool:
        return self._scenario.key(one) == self._scenario.key(other)

    def _restarted(self, state: State) -> bool:
        return state.restarts < self._scenario.restarts

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
        if state.faults:
            orphan = Orphan(source, data["sequencer"], run.answers)
            fewer = state._replace(faults=state.faults - 1)
            left = fewer._replace(orphans=tuple(sorted({*state.orphans, orphan}, key=repr)))
            again = run._replace(answers=())
            failed = self._step(fewer, run, None, "!States.Timeout")
            # An orphan need not take another step, so that a function which died is one too.
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
        problem = None
        if output and self._written(new) < self._written(output):
            problem = f"I2: the output of {self._written(output)} becomes {self._written(new)}'s"
        after = state._replace(output=new)
        yield "PUT output", after, (), problem
        if state.faults:
            fewer = after._replace(faults=state.faults - 1)
            # The SDK puts it again, which its own first attempt makes fail.
            yield "PUT output (the answer is lost, 412)", fewer, 412, problem
            fewer = state._replace(faults=state.faults - 1)
            yield "PUT output (another write is under way, 409)", fewer, 409, None

    def _written(self, output: Output) -> int:
        return self._scenario.number(dict(output.metadata)["sequencer"])

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
        faults = state.faults > 0
        return self._engine.step(run.state, run.execution, run.data, item, mock, run.token, faults)

    def _go(self, state: State, run: Run, step: Step, label: str, problem: str | None) -> Move:
        """Take a run that has done a Task to where it pauses next."""
        if step.following is None:
            return label, state, problem or f"I4: ended by {step.error} in {run.state}"
        label += f" → {step.following}"
        moved = run._replace(state=step.following, data=step.data, answers=())
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
            if step.following == "Give Up Waiting" and not self._may_give_up(run):
                return (
                    state,
                    " → ".join(path),
                    f"I4: {run.execution} gives up an event that is over",
                )
            run = run._replace(state=step.following, data=step.data)
            path.append(run.state)
        if self._engine.states[run.state]["Type"] not in {"Succeed", "Fail"}:
            return run, " → ".join(path), None
        if run.state == "Not Parked":
            state = state._replace(lost=state.lost | {(run.event, run.token, "not parked")})
        return state, " → ".join(path), self._wrong_end(state, run)

    def _wrong_end(self, state: State, run: Run) -> str | None:
        """Check I4: an execution's outcome is true."""
        written = self._written(state.output) if state.output else 0
        newer = state.uploads > run.event
        true = {
            "Processed": written >= run.event,
            "Superseded": newer,
            "Duplicate": newer or written >= run.event,
            "Parked": run.event in state.parked and self._is_reason(state, run),
            "Not Parked": state.faults < self._scenario.faults,
        }
        if true.get(run.state, False):
            return None
        return f"I4: {run.execution} ends in {run.state}, which is not so"

    def _may_give_up(self, run: Run) -> bool:
        """Tell whether a run last saw that its event is still to be worked on."""
        item = json.dumps(json.loads(run.data)["record"].get("Item", {}))
        sequencer = self._scenario.sequencer(run.event)
        done = _text(item, "sequencer") == sequencer and _text(item, "status") == "DONE"
        return _text(item, "newest") in {None, sequencer} and not done

    def _is_reason(self, state: State, run: Run) -> bool:
        """Tell whether an event was parked for a reason that is one."""
        reason = json.loads(run.data).get("fault", {}).get("Error")
        if reason == "InvalidImage":
            return self._scenario.content(run.event).startswith(INVALID)
        if reason == "KeyLocked":
            return len(self._scenario.events) > 1 or self._restarted(state)
        return state.faults < self._scenario.faults


def _text(item: str, attribute: str) -> str | None:
    value: str | None = json.loads(item).get(attribute, {}).get("S")
    return value


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


def explore(engine: Engine, scenario: Scenario, limit: int = 10**9) -> Result:
    """Search depth first for anything wrong, and for a path that does not end.

    Paths of one acyclic graph all end, so this looks for a state that follows itself. A look that
    finds all as it was is no step.
    """
    explorer = Explorer(engine, scenario)
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


def shortest(engine: Engine, scenario: Scenario, limit: int) -> Result:
    """Search breadth first for the shortest way to anything wrong, in `limit` states at most."""
    explorer = Explorer(engine, scenario)
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
