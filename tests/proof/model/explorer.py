"""Lists everything that may happen next in a state: the adversary's moves and the executions'."""

from collections.abc import Iterator

from inorder_fence.stuck import SINCE
from tests.proof.model.engine import S3Call, is_sender, read, service_of
from tests.proof.model.executions import ENDLESS, Executions
from tests.proof.model.healing import Swept
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

OWN_LOCK = "lock_token = :lock_token"  # the condition of a release begins so
NEVER = {"N": "253402300799"}  # the year 9999


class Explorer(Executions):
    """Makes the moves of a scenario, and checks the states in which all is quiet."""

    def first(self) -> State:
        scenario = self._scenario
        return State(
            waiting=tuple(map(Arrival, sorted(scenario.events))),
            items=(),
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
            change = "deletion" if self._scenario.is_deletion(happened) else "upload"
            yield f"{change} {happened}", self._shown(state._replace(happened=happened)), None
        for delivery in sorted(set(state.waiting)):
            if delivery.event <= state.happened and not self._is_merged(state, delivery):
                after = state._replace(waiting=less(state.waiting, delivery))
                name = free_name(state, delivery.event)
                yield from self._start(after, name, delivery, 1)
                if state.repeats and delivery.label == "retried":
                    yield from self._start(state.spend("repeats"), name, delivery, 1)
        for name, delivery, number in state.restartable if state.restarts else ():
            restartable = {*state.restartable, (name, delivery, number + 1)} - {
                (name, delivery, number)
            }
            again = state.spend("restarts")
            again = again._replace(restartable=tuple(sorted(restartable)) if again.restarts else ())
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

        `retry_events` has one stream for each event. If that retry has sent the event again, this
        goes on; so does a message that SQS delivers once more.
        """
        if delivery.label != "retried" or state.repeats < self._scenario.repeats:
            return False
        retries = (run for run in state.runs if "retry" in read(run.more))
        return any(run.event == delivery.event and run.done != SENT for run in retries)

    def judge(self, state: State) -> str | None:
        """Check a state in which all is quiet, and for good."""
        if not state.is_quiet or state.late or state.swept:
            return None
        if self._needs_sweep(state):
            return None if self._promise.has_failed(state) else "I7: a sweep is needed"
        return self._promise.check_quiet(state)

    def is_good(self, state: State) -> bool:
        """Tell whether all is quiet and right."""
        if not state.is_quiet or state.late or state.swept or self._needs_sweep(state):
            return False
        return self._promise.check_quiet(state) is None

    def _needs_sweep(self, state: State) -> bool:
        return bool(self._engine.sweep(state.items).messages)

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
            elif task.get("Parameters", {}).get("ConditionExpression", "").startswith(OWN_LOCK):
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

    def _start(
        self, state: State, name: str | None, arrival: Arrival, number: int
    ) -> Iterator[Move]:
        if name is None:
            yield f"{arrival.event} is {arrival.label}", state, ENDLESS
            return
        if state.restarts and number == 1 and arrival.label == "delivered":
            state = state._replace(
                restartable=tuple(sorted({*state.restartable, (name, arrival, 1)}))
            )
        label = f"{name} is {arrival.label if number == 1 else 'restarted'}"
        for start in self._promise.first_states(arrival.event):
            run = Run(name, number, *arrival, start, "")
            run = run._replace(data=self._input(run))
            paused, path, problem = self._settle(state, run)
            if isinstance(paused, State):
                yield label + path, state, problem or "I4: the event is not worked on"
            elif wrong := self._promise.check_start(paused):
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
        state = state.spend("crashes")
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
                done = frozenset(e for e in state.done if self._promise.key(e) != key)
                expired = state.spend("expiries")._replace(done=done)
                others = tuple(pair for pair in state.items if pair[0] != key)
                yield f"the record {key} expires", expired._replace(items=others), None

    def _sweep(self, state: State) -> Iterator[Move]:
        """Let a sweep free the locks of dead executions, and send the events of their keys.

        It asks for a time that no execution outlives, so it may come as soon as one has died. When
        nothing else goes on, it comes at last, also for what has no lock. One that comes earlier
        for that would send one more delivery, and a scenario has those.
        """
        items = tuple(pair for pair in state.items if state.is_quiet or self._is_dead(state, pair))
        swept = self._engine.sweep(items) if items else Swept((), ())
        if swept.messages:
            others = (pair for pair in state.items if pair not in items)
            yield self._swept(state, Swept(tuple(sorted((*others, *swept.items))), swept.messages))
        for pair in state.items if state.sweeps else ():
            token = attribute(pair[1], "lock_token")
            if attribute(pair[1], SINCE) and (not token or self._is_dead(state, pair)):
                after = state.spend("sweeps")._replace(swept=(pair,))
                yield f"a sweep reads {pair[0]}", after, None
        for pair in state.swept:
            after = state._replace(swept=())
            yield self._swept(after, self._engine.hand_over(pair, state.items))

    def _is_dead(self, state: State, pair: tuple[str, str]) -> bool:
        """Tell whether a record has the lock of an execution that is dead."""
        token = attribute(pair[1], "lock_token")
        return token is not None and not any(run.owns(token) for run in state.runs)

    def _swept(self, state: State, swept: Swept) -> Move:
        """Send what a sweep sends; a message merges with one of the same retry that waits."""
        after, sent = state._replace(items=swept.items), list[str]()
        for message in swept.messages:
            if arrival := self._delivery(read(message)["event"]):
                before, after = after, self._sent(after, message, arrival)
                if {*after.waiting} == {*before.waiting}:
                    after = after._replace(waiting=before.waiting)
                sent.append(str(arrival.event))
        return f"a sweep sends {', '.join(sent)}", after, None
