"""Virtual time, and what becomes of a call to a service: it is done, fails, or has no answer."""

import random
from collections import Counter
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, TypeVar, get_args

import simpy
from botocore.exceptions import ClientError, ReadTimeoutError

EPOCH = 1_800_000_000.0
SHORTEST, LONGEST = 0.005, 0.02  # seconds of a call that succeeds, or that is refused

# What a service does in an outage. ``errors``: it answers that it failed. ``silence``: it neither
# does anything nor answers. ``lost answers``: it does what it is asked to, but does not answer.
Kind = Literal["errors", "silence", "lost answers"]
KINDS: tuple[Kind, ...] = get_args(Kind)
Steps = Generator[simpy.Event, Any, Any]
T = TypeVar("T")


class ServiceError(Exception):
    """An error that a state machine can catch."""

    def __init__(self, name: str, cause: str = "") -> None:
        super().__init__(name)
        self.name, self.cause = name, cause
        self.response: dict[str, Any] = {}  # of boto3


@dataclass(frozen=True)
class Outage:
    """A time in which a service cannot be used."""

    service: str
    start: float  # in seconds
    end: float
    kind: Kind = "errors"


class Clock:
    """The time, the outages, and how often what has happened in each second."""

    def __init__(self, seed: int, outages: Iterable[Outage] = ()) -> None:
        self.env = simpy.Environment()
        self.random = random.Random(seed)  # noqa: S311
        # How long the code of a function has been running, whose calls take no time of `env`.
        self.elapsed = 0.0
        self.counts: Counter[tuple[str, int]] = Counter()
        self._outages = list(outages)

    @property
    def now(self) -> float:
        """The time, in seconds since the simulation began."""
        return self.env.now + self.elapsed

    def time(self) -> float:
        """Give the time, in seconds since 1970."""
        return EPOCH + self.now

    def datetime(self) -> datetime:
        return datetime.fromtimestamp(self.time(), UTC)

    def sleep(self, seconds: float) -> None:
        self.elapsed += seconds

    def count(self, counter: str) -> None:
        self.counts[counter, int(self.now)] += 1

    def total(self, counter: str) -> int:
        return sum(count for (name, _), count in self.counts.items() if name == counter)

    def peak(self, counter: str, since: float = 0) -> int:
        """Give how often something has happened at most within a second."""
        counts = self.counts.items()
        return max((n for (name, at), n in counts if name == counter and at >= since), default=0)

    def trouble(self, service: str) -> Kind | None:
        """Tell what is wrong with a service now."""
        now = self.now
        for outage in self._outages:
            if outage.service == service and outage.start <= now < outage.end:
                return outage.kind
        return None

    def _asked(self, service: str) -> Kind | None:
        """Count a call of a service, and tell what is wrong with it."""
        trouble = self.trouble(service)
        self.count(f"{service}, failing" if trouble else service)
        return trouble

    def request(self, service: str, action: Callable[[], T], seconds: float) -> Steps:
        """Do what a task of a state machine asks a service for."""
        trouble = self._asked(service)
        latency = self.random.uniform(SHORTEST, LONGEST)
        yield self.env.timeout(seconds if trouble == "silence" else latency)
        if trouble == "errors":
            raise ServiceError(f"{service}.ServiceUnavailable")
        if trouble == "silence":
            raise ServiceError("States.Timeout")
        result = action()
        if trouble == "lost answers":
            yield self.env.timeout(seconds - latency)
            raise ServiceError("States.Timeout")
        return result

    def call(
        self, service: str, action: Callable[[], T], seconds: float = 3, attempts: int = 1
    ) -> T:
        """Do what the code of a function asks a service for; raise as boto3 after all attempts."""
        trouble = self._asked(service)
        is_answered = trouble in {None, "errors"}
        # Between two attempts boto3 pauses for half a second or, for the third one, a second.
        # https://docs.aws.amazon.com/sdkref/latest/guide/feature-retry-behavior.html
        pauses = (attempts - 1) * attempts / 4 if trouble else 0
        self.elapsed += (LONGEST if is_answered else seconds * attempts) + pauses
        if trouble == "errors":
            raise client_error("ServiceUnavailable", 503)
        result = action() if trouble != "silence" else None
        if trouble:
            raise ReadTimeoutError(endpoint_url=service)
        return result  # type: ignore[return-value]


def client_error(code: str, status: int) -> ClientError:
    metadata: Any = {"HTTPStatusCode": status}
    return ClientError({"Error": {"Code": code}, "ResponseMetadata": metadata}, "simulated")
