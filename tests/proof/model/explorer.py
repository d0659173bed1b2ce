"""Lists everything that may happen next in a state: the adversary's moves and the executions'."""

import json
from collections.abc import Iterator

from inorder.asl.roles import OWN_LOCK
from tests.proof.model.engine import S3Call, Sent, is_sender, read, service_of
from tests.proof.model.executions import ENDLESS, Executions
from tests.proof.model.state import (
    NOTHING,
    SENT,
    Arrival,
    Move,
    Orphan,
    Run,
    State,
    attribute,
    free_name,
    less,
)

# The condition of a release begins with one of these.
OWN_LOCKS = (OWN_LOCK, "lock_token = :lock_token")
NEVER = {"N": "253402300799"}  # the year 9999
NEVER_TEXT = "9999"


class Explorer(Executions):
    """Makes the moves of a scenario, and checks the states in which all is quiet."""

    def first(self) -> State:
        scenario = self._scenario
        key = self._promise.key(min(scenario.events, default=1))
        left = read(scenario.item or "{}")
        return State(
            waiting=tuple(map(Arrival, sorted(scenario.events))),
            items=((key, json.dumps(left | {"id": {"S": key}})),) if left else (),
            # What the adversary may do, which a scenario and a state have by the same names.
            **{name: getattr(scenario, name) for name in State._fields if hasattr(scenario, name)},
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
            if delivery.event <= state.happened and not self._is_merged(state, delivery):
                after = state._replace(waiting=less(state.waiting, delivery))
                name = free_name(state, delivery.event)
                yield from self._start(after, name, delivery, 1)
                if state.repeats and delivery.label == "retried":
                    yield from self._start(state.spend("repeats"), name, delivery, 1)
        for name, delivery, number in state.known if state.restarts else ():
            known = {*state.known, (name, delivery, number + 1)} - {(name, delivery, number)}
            again = state.spend("restarts")
            again = again._replace(known=tuple(sorted(known)) if again.restarts else ())
            yield from self._start(again, name, delivery, number + 1)
        for run in state.runs:
            others = state.without(run)
            yield from self._steps(others, run)
            if state.crashes:
                yield from self._crash(others, run)
        for orphan in state.orphans:
            yield from self._call_orphan(state, orphan)
        for pending in sorted(set(state.late)):
            yield self._land(state, pending)
        yield from self._expire(state)
        yield from self._sweep(state)

    def _is_merged(self, state: State, delivery: Arrival) -> bool:
        """Tell whether a message waits because another retry of its event is alive.

        `retry_events` has one stream for each event. If that retry has sent the event again, which
        is no delayed message, this goes on; so does a message that SQS delivers once more, and one
        about a holder that is taken for dead.
        """
        if delivery.label != "retried" or state.repeats < self._scenario.repeats:
            return False
        retries = (each for each in state.runs if "retry" in read(each.more))
        same = (each for each in retries if each.event == delivery.event)
        known = (each for each in same if not any(map(each.owns, state.broken)))
        return any(each.done != SENT or each.later for each in known)

    def judge(self, state: State) -> str | None:
        """Check a state in which all is quiet, and for good."""
        if not state.is_quiet or state.late:
            return None
        if not self._engine.sweep(state.items).messages:
            return self._promise.rests(state)
        return None if self._promise.has_failed(state) else "I7: a sweep is needed"

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
            if service_of(task) == "lambda":
                commutes = self._commutes(state, self._event(run), run)
            elif task.get("Parameters", {}).get("ConditionExpression", "").startswith(OWN_LOCKS):
                may_own = any(pending.execution == run.execution for pending in state.late)
                owns = run.owns(attribute(self._item(state, run), "lock_token"))
                commutes = not owns and not may_own
            else:
                commutes = (is_sender(task) or service_of(task) == "states") and not dies
            if commutes:
                yield from self._steps(state.without(run), run)
                return
        for orphan in state.orphans:
            if self._commutes(state, orphan.event, orphan):
                yield from self._call_orphan(state, orphan)
                return

    def _commutes(self, state: State, event: str, works: Run | Orphan) -> bool:
        """Tell whether the next step of a function commutes with all other steps."""
        next_call = self._engine.call(event, works.answers)
        if not isinstance(next_call, S3Call):
            return True
        return "source" in next_call.operation and state.happened == self._scenario.last

    def _start(self, state: State, name: str | None, what: Arrival, number: int) -> Iterator[Move]:
        if name is None:
            yield f"{what.event} is {what.label}", state, ENDLESS
            return
        if state.restarts and number == 1:
            state = state._replace(known=tuple(sorted({*state.known, (name, what, 1)})))
        label = f"{name} is {what.label if number == 1 else 'restarted'}"
        for start in self._promise.entries(what.event):
            run = Run(name, number, *what, start, "")
            run = run._replace(data=self._input(run))
            paused, path, problem = self._settle(state, run)
            if isinstance(paused, State):
                yield label + path, state, problem or "I4: the event is not worked on"
            elif wrong := self._promise.starts(paused):
                yield label + path, state, wrong
            else:
                for step, following, wrong in self._steps(state, paused):
                    yield f"{label}; {step}", following, wrong

    def _crash(self, state: State, run: Run) -> Iterator[Move]:
        """Let an execution die.

        AWS starts it again if it had not waited yet and had written nothing: it is as if it had
        been delivered later. That trust covers a moment; a wait is too long for it.
        """
        waits = run.waited or self._engine.states[run.state]["Type"] == "Wait"
        is_trusted = run.done == NOTHING and not waits
        is_again = is_trusted and any(pending[:2] == run[:2] for pending in state.late)
        if is_trusted and not is_again:
            return
        state = state.after(run).spend("crashes")
        label = f"{run.execution} dies before {run.state}"
        if self._service(run) == "lambda":
            state = self._orphaned(state, run)
        if is_again:
            state = state.with_delivery(Arrival(run.event, run.more))
            label += ", to be started again"
        yield label, state, None

    def _expire(self, state: State) -> Iterator[Move]:
        """Let the time of a record pass, whether DynamoDB deletes it at once or later.

        By days, a record outlives all executions that began before it was done.
        """
        is_over = not (state.runs or state.late)
        for key, item in state.items if state.expiries and is_over else ():
            if read(item).get("expires_at", NEVER) != NEVER:
                done = frozenset(e for e in state.done if self._promise.record_key(e) != key)
                expired = state.spend("expiries")._replace(done=done)
                others = tuple(pair for pair in state.items if pair[0] != key)
                yield f"the record {key} expires", expired._replace(items=others), None
                if name := self._promise.until:
                    is_past = (attribute(item, name) or NEVER_TEXT) < NEVER_TEXT
                    old = read(item) | ({name: {"S": "1999"}} if is_past else {})
                    kept = tuple(sorted((*others, (key, json.dumps(old, sort_keys=True)))))
                    yield f"the record {key} is past its time", expired._replace(items=kept), None

    def _sweep(self, state: State) -> Iterator[Move]:
        """Let the schedule send the events of dead executions, when nothing else goes on.

        An event that a sweep sends earlier is one more delivery, and a scenario has those.
        """
        if not state.is_quiet or not (swept := self._engine.sweep(state.items)).messages:
            return
        after, sent = state._replace(items=swept.items), list[str]()
        for body in swept.messages:
            if what := self._delivery(read(body)["event"]):
                after = self._sent(after, Sent(is_retry=True, body=body), what)
                sent.append(str(what.event))
        yield f"a sweep sends {', '.join(sent)}", after, None
