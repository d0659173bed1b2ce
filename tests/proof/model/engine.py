"""Takes one step of the shipped code: a state as in the simulation, or the function up to a call.

Results are remembered, because the search takes the same step very often.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache, lru_cache
from http import HTTPStatus
from io import BytesIO
from typing import Any, NamedTuple

from invert_image.inversion import InvalidImage, InvertedImage
from tests.proof.model.healing import Items, Swept, hand_over, sweep
from tests.proof.model.scenario import NO_IMAGE
from tests.proof.model.source import FENCE, SWEEP, Code
from tests.proof.simulation.clock import Clock, ServiceError, client_error
from tests.proof.simulation.machine import (
    CompiledState,
    Context,
    Execution,
    UncaughtError,
    find,
    first_for,
)
from tests.proof.simulation.table import Table

QUEUE, BUS = "${RetryEventsQueueUrl}", "${RetryEventsBusName}"
SENT_TO = {"sqs", "events", "states"}  # services that an event is sent to
OUTPUT_BUCKET = "output"
OTHER = " (2)"  # ends the name of each state of a second file

Metadata = tuple[tuple[str, str], ...]


class S3Call(NamedTuple):
    """The next S3 call of the function; `condition` is its If-Match or If-None-Match."""

    operation: str
    key: str
    condition: str | None = None
    version: str | None = None
    content: str = ""
    metadata: Metadata = ()


class S3Answer(NamedTuple):
    """What S3 answered to a call."""

    status: int
    etag: str = ""
    content: str = ""
    metadata: Metadata = ()
    version: str | None = None
    keys: tuple[str, ...] = ()
    owes: bool = False  # the writer must check the source after this write


# The function's next S3 call, or its handler's result, or its exception.
Called = S3Call | dict[str, str] | Exception


class StepResult(NamedTuple):
    """What a state did: the next state, its data, the record, and what it sent or started."""

    following: str | None
    data: str
    item: str | None
    message: str | None = None  # to the retry queue
    started: str | None = None
    error: str | None = None


class Taken(NamedTuple):
    """A state, and all that decides what it does."""

    name: str
    execution: str
    data: str
    item: str | None  # the record that it uses
    event: str  # the execution's input
    mock: str | None  # what its service gives; an error's name if it starts with "!"
    token: str  # replaces the UUID that it makes, so that equal states are equal
    is_later: bool  # whether a sweep has read the records before


class _Pending(BaseException):
    """The function has reached an S3 call that has no answer yet."""


class _Replay:
    """An S3 client that gives recorded answers and stops the function at the next call."""

    def __init__(self, answers: tuple[S3Answer, ...]) -> None:
        self._answers = iter(answers)

    def _answer(self, call: S3Call) -> S3Answer:
        for answer in self._answers:
            if answer.status >= HTTPStatus.BAD_REQUEST:
                raise client_error(str(answer.status), answer.status)
            return answer
        raise _Pending(call)

    def _read_object(self, call: S3Call) -> dict[str, Any]:
        answer = self._answer(call)
        response = {
            **{"ETag": answer.etag, "Metadata": dict(answer.metadata)},
            **{"Body": BytesIO(answer.content.encode()), "ContentLength": len(answer.content)},
        }
        return response | ({"VersionId": answer.version} if answer.version else {})

    def head_object(self, Bucket: str, Key: str, VersionId: str | None = None) -> dict[str, Any]:  # noqa: N803
        operation = "HEAD output" if Bucket == OUTPUT_BUCKET else "HEAD source"
        return self._read_object(S3Call(operation, Key, version=VersionId))

    def get_object(self, Key: str, IfMatch: str | None = None, **rest: str) -> dict[str, Any]:  # noqa: N803
        return self._read_object(S3Call("GET source", Key, IfMatch, rest.get("VersionId")))

    def put_object(self, Key: str, Body: bytes, Metadata: dict[str, str], **rest: str) -> Any:  # noqa: N803
        condition = rest.get("IfMatch") or rest.get("IfNoneMatch")
        metadata = tuple(sorted(Metadata.items()))
        call = S3Call("PUT output", Key, condition, content=Body.decode(), metadata=metadata)
        return {"ETag": self._answer(call).etag}

    def delete_object(self, Key: str, IfMatch: str | None = None, **_: str) -> None:  # noqa: N803
        self._answer(S3Call("DELETE output", Key, IfMatch))

    def get_paginator(self, _: str) -> _Replay:
        return self

    def paginate(self, Prefix: str, **_: str) -> Iterator[dict[str, Any]]:  # noqa: N803
        answer = self._answer(S3Call("LIST outputs", Prefix))
        yield {"Contents": [{"Key": key} for key in answer.keys]}


def _work(content: bytes) -> InvertedImage:
    if content == NO_IMAGE.content.encode():
        raise InvalidImage("no image")
    return InvertedImage(b"inverse of " + content, "image/test")


class Engine:
    """Takes the steps of state machines and a function, once they are loaded.

    `states` are the loaded states. `starts` are the names of the first ones. `fences` has for each
    state what its policy adds to the function's event. `patience` is the number of reads after
    which an execution no longer waits for a lock.
    """

    def __init__(self) -> None:
        self._files: tuple[str, ...] = ()
        self._clocks = Clock(seed=0), Clock(seed=0)
        self._clocks[1].elapsed = 1.0

    def load(self, *files: str, fence: Code = FENCE, sweep: Code = SWEEP) -> None:
        """Take the steps of these from now on: the shipped ones, or a broken one."""
        self._fence, self._sweep = fence, sweep
        if files == self._files:
            return
        self._files = files
        self.states: dict[str, Any] = {}
        self.fences: dict[str, str] = {}
        self.starts: list[str] = []
        for number, file in enumerate(files):
            whole = json.loads(file)
            # The states of a second file get other names.
            names = {name: f"{name}{OTHER}" for name in whole["States"]} if number else {}
            self._add(redirected(whole, names), names)
        self._compiled = {name: CompiledState(state) for name, state in self.states.items()}
        self._live = {faults: live_fields(self.states, faults) for faults in (False, True)}
        self._steps: dict[tuple[Taken, bool], StepResult] = {}

    def _add(self, whole: dict[str, Any], names: dict[str, str]) -> None:
        states = {names.get(name, name): state for name, state in whole["States"].items()}
        parameters = [state.get("Parameters", {}) for state in states.values()]
        payloads = [request.get("Payload", {}) for request in parameters]
        fenced: dict[str, Any] = next((payload for payload in payloads if "fence" in payload), {})
        fence = {name: value for name, value in fenced.items() if not name.endswith(".$")}
        self.patience = _patience(whole)
        self.fences |= dict.fromkeys(states, json.dumps(fence))
        self.starts.append(whole["StartAt"])
        self.states |= states

    def step(self, taken: Taken, faults: bool) -> StepResult:
        """Take a state, and drop the fields that no state will read.

        If no service may still fail (`faults`), these include those that are read after a failure.
        """
        key = (taken, faults)
        if key not in self._steps:
            step = self._take(taken)
            keep = self._live[faults][step.following] if step.following else None
            if keep is not None:
                fields = {name: value for name, value in read(step.data).items() if name in keep}
                step = step._replace(data=json.dumps(fields, sort_keys=True))
            self._steps[key] = step
        return self._steps[key]

    def _take(self, taken: Taken) -> StepResult:
        name, execution, data, item, event, mock, token, is_later = taken
        state, compiled, state_input = self.states[name], self._compiled[name], read(data)
        clock = self._clocks[is_later]
        context = Context(Execution(execution, read(event), 0), clock, "")
        table, sent, error = Table(clock), dict[str, Any](), state.get("Error")
        table.items = {read(item)["id"]["S"]: read(item)} if item else {}
        try:
            if state["Type"] != "Task":
                following, output = compiled.passed(state_input, context)
            else:
                request = compiled.parameters(state_input, context)
                sent = request if service_of(state) in SENT_TO and not mock else {}
                try:
                    result = _result_of(state, mock, request, table)
                except ServiceError as failed:
                    error = failed.name
                    following, output = compiled.failed(state_input, failed)
                else:
                    following, output = compiled.succeeded(state_input, result, context)
        except UncaughtError as uncaught:
            return StepResult(None, data, item, error=f"States.Runtime, as {uncaught},")
        if is_write(state) and not mock:
            items = [json.dumps(record, sort_keys=True) for record in table.items.values()]
            item = items[0] if items else None
        if "lock_token" in output and token:
            output = output | {"lock_token": token}
        dumped = json.dumps(output, sort_keys=True)
        started = json.dumps(sent["Input"]) if "Input" in sent else None
        return StepResult(following, dumped, item, _message(sent), started, error)

    def attempts(self, name: str, error: str) -> tuple[int, int]:
        """Tell which retrier of a state retries an error, and how often; a step is one attempt.

        It is -1 if there is none.
        """
        number, retrier = first_for(self.states[name].get("Retry", []), error)
        return number, retrier.get("MaxAttempts", 3) if retrier else 0

    def item_key(self, name: str, data: str) -> str:
        """Give the ID of the record that a state reads or writes."""
        parameters = self.states[name]["Parameters"]
        path = (parameters.get("Key") or parameters["Item"])["id"]["S.$"]
        named: list[str] = [find(path, read(data)) for path in re.findall(r"\$[^,)]+", path)]
        return (path.split("'")[1] if path.startswith("States.Format(") else "{}").format(*named)

    def sweep(self, items: Items) -> Swept:
        return sweep(self._sweep, items)

    def hand_over(self, record: tuple[str, str], items: Items) -> Swept:
        return hand_over(self._sweep, record, items)

    def call(self, event: str, answers: tuple[S3Answer, ...]) -> Called:
        return _called(self._fence, event, answers)


@cache
def _called(code: Code, event: str, answers: tuple[S3Answer, ...]) -> Called:
    payload, fence = json.loads(event), code.run()["Fence"]
    replay = _Replay(answers)
    shipped = fence(replay, OUTPUT_BUCKET, 100, _work, True, InvalidImage)
    try:
        result: dict[str, str] = shipped.answer(payload | {"event": payload}, 1)
    except _Pending as pending:
        call: S3Call = pending.args[0]
        return call
    except Exception as error:
        return error
    return result


def redirected(part: Any, renamed: dict[str, str]) -> Any:
    """Let what leads to some states lead to others."""
    if isinstance(part, list):
        return [redirected(element, renamed) for element in part]
    if not isinstance(part, dict):
        return part
    return {
        key: renamed.get(value, value)
        if key in {"Next", "Default", "StartAt"}
        else redirected(value, renamed)
        for key, value in part.items()
    }


@lru_cache(maxsize=100_000)
def read(text: str) -> Any:
    """Read JSON that is read very often; the result must not be changed."""
    return json.loads(text)


def service_of(state: dict[str, Any]) -> str:
    """Name the service that a Task calls, as in ``arn:aws:states:::sqs:sendMessage``."""
    return next(iter(state.get("Resource", "").split(":")[5:]), "")


def is_write(state: dict[str, Any]) -> bool:
    """Tell whether a state writes to the table."""
    return service_of(state) == "dynamodb" and not state["Resource"].endswith(":getItem")


def is_sender(state: dict[str, Any]) -> bool:
    """Tell whether a state sends an event to a queue or to the bus."""
    buses = [entry["EventBusName"] for entry in state.get("Parameters", {}).get("Entries", [])]
    return service_of(state) == "sqs" or bool(buses)


def _patience(definition: dict[str, Any]) -> int:
    """Read after how many polls an execution gives up."""
    rules = (rule for state in definition["States"].values() for rule in state.get("Choices", []))
    counted = (rule for rule in rules if rule.get("Variable") == "$.polls")
    return next((rule.get("NumericGreaterThanEquals", 0) for rule in counted), 0)


def _result_of(state: dict[str, Any], mock: str | None, request: Any, table: Table) -> Any:
    """Give what a Task's service answers, or raise its error."""
    if mock:
        if mock.startswith("!"):
            raise ServiceError(mock[1:])
        return json.loads(mock)
    *_, service, operation = state["Resource"].split(":")
    return table.call(operation, request) if service == "dynamodb" else {}


def _message(sent: dict[str, Any]) -> str | None:
    """Give the message that comes to the retry queue; template.yaml's bus hands the detail on."""
    if sent.get("QueueUrl") == QUEUE:
        return json.dumps(sent["MessageBody"])
    details = [entry["Detail"] for entry in sent.get("Entries", []) if entry["EventBusName"] == BUS]
    return json.dumps(details[0]) if details else None


def live_fields(states: dict[str, Any], faults: bool) -> dict[str, frozenset[str] | None]:
    """Tell which fields of its data an execution may still read in each state; None stands for all.

    Executions that differ only in other fields behave alike, so the search drops those fields.
    """
    edges: dict[str, list[tuple[str, str | None]]] = {}
    live: dict[str, set[str]] = {}
    for name, state in states.items():
        catches = state.get("Catch", [])
        # States.ALL may also catch a failed condition, which is not a fault.
        refusable = "ConditionExpression" in state.get("Parameters", {}) and len(catches) == 1
        if not faults and not refusable:
            catches = [catch for catch in catches if catch["ErrorEquals"] != ["States.ALL"]]
        following = [rule["Next"] for rule in state.get("Choices", [])]
        following += [state[field] for field in ("Next", "Default") if field in state]
        edges[name] = [(target, state.get("ResultPath", "$")) for target in following]
        if state["Type"] != "Task" and not {"Parameters", "Result"} & set(state):
            edges[name] = [(target, None) for target in following]
        edges[name] += [(catch["Next"], catch.get("ResultPath", "$")) for catch in catches]
        text = json.dumps({k: v for k, v in state.items() if k not in {"Catch", "ResultPath"}})
        live[name] = {
            field or "$" for field in re.findall(r"(?<![.$])\$(?![${])(?:\.(\w+))?", text)
        }
    before: dict[str, set[str]] = {}
    while before != live:
        before = {name: set(fields) for name, fields in live.items()}
        for name, targets in edges.items():
            for target, written in targets:
                if written != "$":
                    live[name] |= live[target] - {(written or "").removeprefix("$.")}
    return {name: None if "$" in fields else frozenset(fields) for name, fields in live.items()}
