"""Searches every interleaving of executions, deaths, status events and sweeps of a few events.

The states of the ASL file are taken as in the model, and `take_over` is the shipped code, stopped
at each call of a service. Abstract are the work; the fence, which has searches of its own; and
EventBridge, which loses, delays and doubles status events. Each mutant must break a promise.
"""

import json
import os
import sys
from collections.abc import Iterator
from datetime import timedelta
from types import ModuleType, SimpleNamespace
from typing import Any, NamedTuple, Self

import pytest

from inorder import PROJECT
from inorder.asl.definition import targets
from tests.proof.model.engine import Engine, StepResult, Taken, is_write, service_of
from tests.proof.model.source import NOW
from tests.proof.simulation.clock import Clock, ServiceError
from tests.proof.simulation.table import Table
from tests.support.events import created, deleted

FOLDER = PROJECT / "stacks/long_work"
ASL = (FOLDER / "long_work.asl.json").read_text(encoding="utf-8")
CODE = (FOLDER / "functions/take_over/keys.py").read_text(encoding="utf-8")
KEY = "input/x.png"
LATER = NOW + timedelta(days=1)  # when a sweep finds what has been delayed
ALONE = "a sweep is needed, and nothing has died"


class Run(NamedTuple):
    """An execution before a Task."""

    name: str
    input: str
    state: str
    data: str


class Helper(NamedTuple):
    """A call of take_over's code, and what the services have answered to it so far."""

    method: str
    argument: str
    answers: tuple[Any, ...] = ()
    is_listed: bool = False  # by a sweep of deaths, which lists it again if this fails


class State(NamedTuple):
    """A state of the search, which begins with a scenario."""

    coming: tuple[int, ...]  # events by their numbers, the newest last
    # What the adversary may still do:
    crashes: int = 0
    losses: int = 0  # of status events
    doubles: int = 0
    faults: int = 0  # the work or a start fails, an answer is lost, or take_over dies
    lates: int = 0  # claims that are written after their time is over
    early: int = 0  # sweeps while something goes on
    stops: int = 0  # that are allowed until the newest event is done; 0 without the switch
    rejected: int = 0  # the event whose result is refused
    deleted: int = 0  # the event that is a deletion
    stopped: int = 0  # executions since then
    record: str | None = None
    output: int = 0
    runs: tuple[Run, ...] = ()
    dead: tuple[tuple[str, str, str], ...] = ()  # executions with their input and error
    unlisted: tuple[str, ...] = ()  # deaths that no sweep has listed
    told: tuple[str, ...] = ()  # status events
    helpers: tuple[Helper, ...] = ()
    late: tuple[Run, ...] = ()
    named: frozenset[str] = frozenset()
    parked: frozenset[int] = frozenset()
    wrong: str = ""

    def spend(self, what: str) -> Self:
        return self._with(what, getattr(self, what) - 1)

    def less(self, part: str, one: Any) -> Self:
        parts = list(getattr(self, part))
        parts.remove(one)
        return self._with(part, tuple(parts))

    def more(self, part: str, one: Any) -> Self:
        return self._with(part, tuple(sorted((*getattr(self, part), one), key=repr)))

    def _with(self, name: str, value: Any) -> Self:
        return self._replace(**{name: value})

    @property
    def is_busy(self) -> bool:
        return bool(self.coming or self.runs or self.told or self.helpers or self.late)

    @property
    def is_in_progress(self) -> bool:
        return "in_progress_since" in json.loads(self.record or "{}")


class PendingCall(BaseException):
    """The code has reached a call that has no answer yet."""


class Services:
    """All clients of the code in one: gives recorded answers, and stops it at the next call."""

    exceptions = SimpleNamespace(
        ConditionalCheckFailedException=ServiceError,
        ExecutionDoesNotExist=KeyError,
        ExecutionAlreadyExists=FileExistsError,
    )

    def __init__(self, answers: tuple[Any, ...]) -> None:
        self._answers = iter(answers)

    def delete_object(self, **_: str) -> None:
        """Nobody reads what a dead execution has staged."""

    def __getattr__(self, name: str) -> Any:
        def answer(**request: Any) -> Any:
            for each in self._answers:
                if isinstance(each, Exception):
                    raise each
                return json.loads(each)
            raise PendingCall(name, request)

        return answer


REFUSED, EXISTS = ServiceError("refused"), FileExistsError()  # equal in equal states


def event_of(scenario: State, number: int) -> str:
    make = deleted if number == scenario.deleted else created
    return json.dumps(make(sequencer=f"0{number}"))


def number_of(text: str) -> int:
    return int(json.loads(text)["detail"]["object"]["sequencer"])


class Search:
    """Searches a scenario, with an ASL file and code that takes over, shipped or mutants."""

    def __init__(self, engine: Engine, first: State, old: str = ALONE, new: str = "") -> None:
        asl, code = ASL.replace(old, new), CODE.replace(old, new)
        self.engine, self.first, self.newest = engine, first, first.coming[-1]
        self.followed = set[tuple[str, Any]]()
        engine.load(asl)
        self.code: Any = ModuleType("take_over.keys")
        sys.modules.setdefault("take_over.keys", self.code)  # where dataclasses look it up
        exec(compile(code, "keys.py", "exec"), self.code.__dict__)  # noqa: S102
        vars(self.code)["STOPS_AT_MOST"] = first.stops
        self._calls: dict[Helper, Any] = {}

    def run(self, most: int = 500_000) -> str:
        """Give what is wrong in the first state where something is, or an empty text."""
        came: dict[State, list[State]] = {self.first: []}
        waiting, ends = [self.first], list[State]()
        while waiting:
            state = waiting.pop()
            moves = [*self._moves(state)]
            if wrong := state.wrong or self._wrong(state, is_end=not moves):
                return wrong
            ends += [] if moves else [state]
            for is_fair, after in moves:
                if after not in came:
                    came[after] = []
                    waiting.append(after)
                came[after] += [state] if is_fair else []
            self.states = len(came)
            assert self.states < most
        ending = set(ends)
        while ends:
            new = [each for each in came[ends.pop()] if each not in ending]
            ending.update(new)
            ends += new
        return "" if len(ending) == len(came) else "nothing ends it"

    def _wrong(self, state: State, is_end: bool) -> str:
        if sum(run.state.startswith(("Work", "Publish")) for run in state.runs) > 1:
            return "two executions work at once"
        if is_end and state.output != self.newest and self.newest not in state.parked:
            return "the newest event is lost"
        has_died = state.is_busy or state.dead or self.first.lates
        return ALONE if state.is_in_progress and not has_died else ""

    def _moves(self, state: State) -> Iterator[tuple[bool, State]]:
        """List what may happen, and whether it happens without the adversary."""
        for number in dict.fromkeys(state.coming):
            yield True, self._start(state.less("coming", number), event_of(state, number))
        for run in dict.fromkeys(state.runs):
            others = state.less("runs", run)
            yield from self._steps(others, run)
            if state.crashes:
                yield False, self._dies(others.spend("crashes"), run, "")
        for told in dict.fromkeys(state.told):
            method = "stop_outdated" if told == KEY else "take_over"
            helped = state.more("helpers", Helper(method, told))
            yield True, helped.less("told", told)
            if state.doubles:
                yield False, helped.spend("doubles")
            if state.losses:
                yield False, state.less("told", told).spend("losses")
        for helper in dict.fromkeys(state.helpers):
            yield True, self._help(state.less("helpers", helper), helper)
            if state.faults:
                yield False, state.less("helpers", helper).spend("faults")
        for run in dict.fromkeys(state.late):
            yield True, state.less("late", run)._replace(record=self._step(state, run).item)
        if not state.is_busy or (state.early and not state.helpers):
            swept = state.spend("early") if state.is_busy else state
            if state.is_in_progress:
                yield not state.is_busy, swept.more("helpers", Helper("sweep", KEY))
            elif state.unlisted and not state.is_busy:
                listed = Helper("take_over", state.unlisted[0], is_listed=True)
                yield True, state.more("helpers", listed)

    # Executions

    def _start(self, state: State, text: str) -> State:
        known = repr((state.record, state.runs, state.dead, state.late, state.named, state.helpers))
        names = (f"arn:{number_of(text)}{letter}" for letter in "abcdefghijklmnop")
        name = next(each for each in names if each not in known)
        return self._go(state, Run(name, text, self.engine.starts[0], text))

    def _step(self, state: State, run: Run, mock: str | None = None) -> StepResult:
        is_read = service_of(self.engine.states[run.state]) == "dynamodb"
        record = state.record if is_read else None
        taken = Taken(run.state, run.name, run.data, record, run.input, mock, "")
        step = self.engine.step(taken, faults=True)
        self.followed.add((run.state, step.following))
        return step

    def _go(self, state: State, run: Run) -> State:
        """Take a run to its next Task, or to its end."""
        while self.engine.states[run.state]["Type"] != "Task":
            step = self._step(state, run)
            if step.following is None:
                return self._dies(state, run, step.error) if step.error else self._ends(state, run)
            run = run._replace(state=step.following, data=step.data)
        return state.more("runs", run)

    def _ends(self, state: State, run: Run) -> State:
        record, own = json.loads(state.record or "{}"), number_of(run.input)
        recorded = int(record["sequencer"]["S"])
        is_true = {
            "Superseded": own < self.newest,
            "Duplicate": recorded > own or record["status"]["S"] == "DONE",
            "Processed": state.output >= own,
            "Waiting": recorded >= own,
        }
        if not is_true[run.state]:
            return state._replace(wrong=f"{run.state} is not true")
        return state.more("told", KEY) if run.state == "Waiting" and state.stops else state

    def _dies(self, state: State, run: Run, error: str) -> State:
        state = state.more("dead", (run.name, run.input, error))
        return state.more("told", run.name).more("unlisted", run.name)

    def _steps(self, state: State, run: Run) -> Iterator[tuple[bool, State]]:
        number = number_of(run.input)
        if run.state == "Publish Result":
            outcomes = ["Processed"] if state.output <= number else []
            outcomes += ["Superseded"] if number < self.newest else []  # S3 has a newer object
            for outcome in ["Rejected"] if number == state.rejected else outcomes:
                answer = {"Payload": {"outcome": outcome, "expires_at": "1"}}
                written = number if outcome == "Processed" else state.output
                yield from self._served(state, state._replace(output=written), run, answer)
        elif run.state.startswith("Work"):
            yield from self._served(state, state, run, {"Output": {}, "Payload": {}})
        else:
            yield from self._served(state, state, run, {})
        if state.lates and run.state == "Claim Key":
            yield False, state.spend("lates").more("late", run).more("runs", run)

    def _served(
        self, state: State, after: State, run: Run, answer: dict[str, Any]
    ) -> Iterator[tuple[bool, State]]:
        """Let a Task end, with an answer of the work or of the publication, or of DynamoDB."""
        step = self._step(state, run, json.dumps(answer) if answer else None)
        if is_write(self.engine.states[run.state]):
            is_done = '"DONE"' in (step.item or "")
            after = after._replace(record=step.item, stopped=0 if is_done else state.stopped)
            if is_done and '"stops"' in str(step.item):
                after = after._replace(wrong="the count of stops stays")
        if step.started:  # as another one than this, which still runs
            after = self._start(after.more("runs", run), step.started).less("runs", run)
        if step.following is None:
            yield True, self._dies(after, run, str(step.error))
            return
        yield True, self._go(after, run._replace(state=step.following, data=step.data))
        if state.faults and (answer or step.started):
            yield False, self._dies(state.spend("faults"), run, "States.TaskFailed")
        if state.faults and after != state:  # its answer is lost, and it is repeated
            yield False, after.spend("faults").more("runs", run)

    # The code that takes over

    def _help(self, state: State, helper: Helper) -> State:
        if helper not in self._calls:
            keys = self.code.Keys(*[Services(helper.answers)] * 4, "", "", "", "")
            times = {"sweep": [LATER], "take_over": [NOW]}.get(helper.method, [])
            self._calls[helper] = None
            try:
                getattr(keys, helper.method)(helper.argument, *times)
            except PendingCall as call:
                self._calls[helper] = call.args
            except self.code.RecordContended:  # a sweep comes later
                pass
        if (called := self._calls[helper]) is None:
            return state.less("unlisted", helper.argument) if helper.is_listed else state
        after: State
        answer, after = getattr(self, f"_{called[0]}")(state, **called[1])
        return after.more("helpers", helper._replace(answers=(*helper.answers, answer)))

    def _describe_execution(self, state: State, executionArn: str) -> tuple[Any, State]:  # noqa: N803
        status = "RUNNING" if any(run.name == executionArn for run in state.runs) else "SUCCEEDED"
        found = {"status": status, "input": event_of(state, int(executionArn[4]))}
        for name, text, error in state.dead:
            if name == executionArn:
                found = {"status": "FAILED", "input": text, "error": error}
        return json.dumps(found), state

    def _stop_execution(self, state: State, executionArn: str, **_: str) -> tuple[Any, State]:  # noqa: N803
        for run in (each for each in state.runs if each.name == executionArn):
            recorded = json.loads(state.record or "{}")["sequencer"]["S"]
            state = self._dies(state.less("runs", run), run, "Outdated")
            state = state._replace(stopped=state.stopped + 1)
            if number_of(run.input) == int(recorded) or state.stopped > state.stops:
                state = state._replace(wrong=STOPPED)
        return "{}", state

    def _get_item(self, state: State, **_: Any) -> tuple[Any, State]:
        item = {"Item": json.loads(state.record)} if state.record else {}
        return json.dumps(item), state

    def _put_item(self, state: State, **request: Any) -> tuple[Any, State]:
        table, before = Table(Clock(seed=0)), json.loads(state.record or "{}")
        table.items = {KEY: before} if before else {}
        try:
            table.put(request)
        except ServiceError:
            return REFUSED, state
        after = table.items[KEY]
        is_done = before.get("status", {}).get("S") == "DONE"
        if is_done and before["sequencer"] == after["sequencer"] and "expires_at" not in after:
            state = state._replace(wrong="a finished event is started again")
        if before and before["sequencer"] == after["sequencer"]:
            old, new = (self.code.attempts(json.loads(e["event"]["S"])) for e in (before, after))
            state = state._replace(wrong=FORGOTTEN) if new < old else state
        text = json.dumps(after, sort_keys=True).replace(LATER.isoformat(), NOW.isoformat())
        return "{}", state._replace(record=text)

    def _send_message(self, state: State, MessageBody: str, **_: str) -> tuple[Any, State]:  # noqa: N803
        number = number_of(json.dumps(json.loads(MessageBody)["event"]))
        return "{}", state._replace(parked=state.parked | {number})

    def _start_execution(self, state: State, **request: str) -> tuple[Any, State]:
        name = {request["name"]} if "name" in request else set()
        if name & state.named:
            return EXISTS, state
        return "{}", self._start(state._replace(named=state.named | name), request["input"])


FORGOTTEN = "a death is forgotten"
STOPPED = "the newest event's work is stopped, or too often that of others"
LOSES = State((1, 2), crashes=1, losses=1)
SCENARIOS = (
    LOSES._replace(crashes=2),
    LOSES._replace(doubles=1),
    LOSES._replace(lates=1),
    LOSES._replace(coming=(1, 1, 2), rejected=2),
    State((1, 2), crashes=1, faults=1),
    State((1, 2, 2), crashes=1),
    State((1, 2), crashes=1, deleted=2),
    State((1, 2), early=1, faults=1),
    LOSES._replace(stops=1),
    State((1, 2), stops=1, faults=1),
    State((1, 2, 3), stops=1),
)
AT_NIGHT = (
    LOSES._replace(crashes=2, losses=2, doubles=1),
    LOSES._replace(faults=1, lates=1),
    LOSES._replace(coming=(1, 2, 3), crashes=2),
    State((1, 2, 3), crashes=1, faults=1),
    State((1, 2), crashes=1, early=1),
    State((1, 2, 3), stops=2, crashes=1),
    State((1, 2), stops=1, lates=1, losses=1),
    State((1, 1, 2), stops=1, crashes=1),
    LOSES._replace(crashes=0, stops=1, doubles=1, faults=1),
)
TWICE, LOST, ENDLESS = "two executions work at once", "the newest event is lost", "nothing ends it"
AGAIN = "a finished event is started again"
DIES = State((1, 2), crashes=1)
MINE = '"Next": "Release Lock Only"\n        },'
# What is changed, in which scenario, and what the search finds then.
MUTANTS: tuple[tuple[str, str, State, str], ...] = (
    ("if_not_exists(lock_token, :lock_token)", ":lock_token", State((1, 2)), TWICE),
    ("sequencer < :", "sequencer > :", State((1, 2)), "Superseded is not true"),
    (MINE, MINE.replace("Release Lock Only", "Waiting"), State((1,), faults=1), ALONE),
    ('AND sequencer = :sequencer"', 'AND sequencer >= :sequencer"', State((1, 2)), LOST),
    ('"Next": "Start Newest Event"', '"Next": "Final Outcome?"', State((1, 2)), ALONE),
    ('found["status"] == "RUNNING"', "False", State((1, 2), early=1), TWICE),
    ('frees, event = holder in {"", death.execution}', "frees, event = True", DIES, TWICE),
    ("Item=new, **condition", "Item=new", DIES, TWICE),
    ("recorded < own or", "False or", State((1,), crashes=1), LOST),
    ("count > attempts(event)", "True", State((1,), crashes=2, doubles=1), FORGOTTEN),
    ('("event", "status", "lock', '("status", "lock', LOSES._replace(crashes=2), LOST),
    ("elif not is_due", "else", DIES, ENDLESS),
    ('_text(record, "status") == "IN_PROGRESS"', "True", State((1, 1), crashes=1), AGAIN),
    ("self.sqs.send_message", "None and self.sqs.send_message", State((1,), rejected=1), LOST),
    ('if holder := _text(record, "lock_token")', 'if holder := ""', LOSES, ENDLESS),
    ("own < _text(", "own <= _text(", State((1, 1), stops=1), STOPPED),
    ("or stops >= STOPS_AT_MOST", "", State((1, 2, 3), stops=1), STOPPED),
    (", stops", "", State((1, 2), stops=1), "the count of stops stays"),
    ('{"stops": {"N": str(stops + 1)}}', "{}", State((1, 2, 3), stops=1), STOPPED),
)


@pytest.fixture(scope="module")
def engine() -> Engine:
    return Engine()


def test_no_interleaving_breaks_a_promise_and_each_transition_is_taken(engine: Engine) -> None:
    followed = set[tuple[str, Any]]()
    for scenario in (*SCENARIOS, *(AT_NIGHT if os.environ.get("NIGHT") else ())):
        search = Search(engine, scenario)
        assert search.run() == "", scenario
        print(f"{scenario[:9]}: {search.states} states")  # noqa: T201
        followed |= search.followed
    search = Search(engine, State((1,)), "${WorksBy}", "function")
    assert search.run() == ""
    assert search._step(search.first, Run("arn:1a", "{}", "S3 Object Event?", "{}")).error is None
    states = json.loads(ASL)["States"]
    ways = {(name, each) for name, state in states.items() for each in targets(state)}
    assert {way for way in followed | search.followed if way[1]} == ways


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant[0])
def test_a_mutant_breaks_a_promise(engine: Engine, mutant: Any) -> None:
    old, new, scenario, problem = mutant
    assert (old in ASL) != (old in CODE)
    assert Search(engine, scenario, old, new).run() == problem
