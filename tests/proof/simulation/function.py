"""Lambda functions: a concurrency, and the shipped code with the simulated time and services."""

import importlib.util
import json
import os
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from io import BytesIO
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest.mock import patch

from inorder import PROJECT
from tests.proof.simulation.clock import Clock, ServiceError, Steps, client_error

Json = dict[str, Any]


@dataclass
class Limit:
    """How many invocations may run at once; without one, as many as wanted."""

    capacity: float = float("inf")
    running: int = 0

    def is_reached(self) -> bool:
        return self.running >= self.capacity


@dataclass
class Function:
    """A function that a state machine invokes."""

    clock: Clock
    answer: Callable[[Json], Json]  # gives its answer to a payload
    seconds: float  # for how long it runs if no call of it has to wait
    timeout: float
    limit: Limit = field(default_factory=Limit)

    def invoke(self, payload: Json, seconds: float) -> Steps:
        """Do what a state machine's task asks for. The function may outlive the task."""
        env, began = self.clock.env, self.clock.now
        run = yield from self.clock.request("lambda", lambda: self._start(payload), seconds)
        yield run | env.timeout(seconds - (env.now - began))
        if not run.processed:
            raise ServiceError("States.Timeout")
        if isinstance(run.value, ServiceError):
            raise run.value
        return {"Payload": run.value}

    def _start(self, payload: Json) -> Any:
        if self.limit.is_reached():
            self.clock.count("refusals")
            raise ServiceError("Lambda.TooManyRequestsException", "Rate Exceeded.")
        self.clock.count("invocations")
        self.limit.running += 1
        return self.clock.env.process(self._run(payload))

    def _run(self, payload: Json) -> Any:
        yield self.clock.env.timeout(self.seconds)
        self.clock.elapsed = 0.0
        result: Json | ServiceError
        try:
            result = self.answer(payload)
        except ServiceError as error:  # Lambda's, of a function that ended without an answer
            result = error
        except Exception as error:
            described = {"errorType": type(error).__name__, "errorMessage": str(error)}
            result = ServiceError(type(error).__name__, json.dumps(described))
        spent, self.clock.elapsed = self.clock.elapsed, 0.0
        if self.seconds + spent > self.timeout:
            spent, result = self.timeout - self.seconds, ServiceError("Sandbox.Timedout")
        if spent:
            yield self.clock.env.timeout(spent)
        self.limit.running -= 1
        return result


def load(path: str, clients: Mapping[str, Any], environment: Mapping[str, str]) -> ModuleType:
    """Load a module of a function anew; `clients` are what ``boto3.client`` gives it."""
    file = PROJECT / "functions" / path
    name = f"simulated_{file.parent.name}"
    specification = importlib.util.spec_from_file_location(name, file)
    assert specification
    assert specification.loader
    module = importlib.util.module_from_spec(specification)
    sys.modules[name] = module  # dataclasses look there
    quiet = {"POWERTOOLS_LOG_LEVEL": "CRITICAL", "POWERTOOLS_METRICS_NAMESPACE": "simulation"}
    with (
        patch.dict(os.environ, {**environment, **quiet}),
        patch("boto3.client", lambda service, **_: clients[service]),
    ):
        specification.loader.exec_module(module)
    module.metrics = SimpleNamespace(add_metric=lambda **_: None)  # type: ignore[attr-defined]
    return module


class Objects:
    """S3, as far as a creation needs it, as boto3's client."""

    # As the client of the shipped function: see `S3_CONFIG`.
    SECONDS, ATTEMPTS = 4, 3

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        # Their ETags, by key and version, of which the last one is current.
        self._sources: dict[str, dict[str | None, str]] = {}
        # Their ETags, which are the sequencers of the uploads that they were made from.
        self.outputs: dict[str, str] = {}
        self._metadata: dict[str, Json] = {}
        self.written: Counter[tuple[str, str]] = Counter()  # how often, by key and ETag

    def upload(self, key: str, etag: str, version: str | None = None) -> None:
        self._sources.setdefault(key, {})[version] = etag

    def _source(self, key: str, version: str | None) -> Json:
        """Find a source: its current version, unless another one is named."""
        versions = self._sources.get(key, {})
        chosen = next(reversed(versions), None) if version in {None, "null"} else version
        if chosen not in versions:
            raise client_error("404", 404)
        return {"ETag": versions[chosen]} | ({"VersionId": chosen} if chosen else {})

    def _call(self, action: Callable[[], Json]) -> Json:
        before = self._clock.elapsed
        answer = self._clock.call("s3", action, self.SECONDS, self.ATTEMPTS)
        self._clock.elapsed = before  # what it takes usually is a part of the function's seconds
        return answer

    def head_object(self, Bucket: str, Key: str, VersionId: str | None = None) -> Json:  # noqa: N803
        def head() -> Json:
            if Bucket != "output":
                return self._source(Key, VersionId) | {"Metadata": {}}
            if Key not in self.outputs:
                raise client_error("404", 404)
            return {"ETag": self.outputs[Key], "Metadata": self._metadata[Key]}

        return self._call(head)

    def get_object(
        self,
        Key: str,  # noqa: N803
        IfMatch: str = "",  # noqa: N803
        VersionId: str | None = None,  # noqa: N803
        **_: str,
    ) -> Json:
        def get() -> Json:
            source = self._source(Key, VersionId)
            if IfMatch and source["ETag"] != IfMatch.strip('"'):
                raise client_error("PreconditionFailed", 412)
            return source | {"Body": BytesIO(b""), "ContentLength": 0}

        return self._call(get)

    def put_object(self, Key: str, Metadata: Json, **condition: str) -> Json:  # noqa: N803
        def put() -> Json:
            is_fenced = {"IfMatch", "IfNoneMatch"} & condition.keys()
            if is_fenced and self.outputs.get(Key) != condition.get("IfMatch"):
                raise client_error("PreconditionFailed", 412)
            # Under latest-wins, the event of an older version may make the output of a newer one.
            source: str = Metadata.get("source-version-id") or Metadata["sequencer"]
            self.outputs[Key], self._metadata[Key] = source, Metadata
            self.written[Key, source] += 1
            return {"ETag": self.outputs[Key]}

        return self._call(put)
