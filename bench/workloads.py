"""The workloads: which objects are uploaded when, and how their events are delivered."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace

BOUND = 20  # invocations at a time
BURST_BOUND = 10
PER_SECOND = 10  # uploads without contention
SLOW = 2.0  # seconds that a slow run takes longer


@dataclass(frozen=True)
class Upload:
    """An upload, and the delivery of its event."""

    # When, in seconds after the beginning. Uploads of a key are made one after the other.
    at: float
    key: int  # which key
    seconds: float = 0  # how long the work takes, besides inverting a small image
    # Whether the first attempt to process it fails, or dies with its process, and whether what
    # carries the event vanishes too: the execution, if there is one.
    fails: bool = False
    dies: bool = False
    vanishes: bool = False
    late: float = 0  # for how many seconds the event is held back
    again: float | None = None  # after how many seconds it is delivered a second time, if at all
    after_death: bool = False  # whether the upload waits until the holder has died


@dataclass(frozen=True)
class Workload:
    """Uploads, in order of time, and the concurrency that the function may have."""

    name: str
    about: str
    uploads: tuple[Upload, ...]  # in order of time
    bound: int = BOUND  # how many invocations may run at a time


def headline(gap: float, keys: int) -> list[Upload]:
    """Two uploads of each key; half of the runs are slow, in all four combinations."""
    return [
        Upload(at=0.25 * key + gap * version, key=key, seconds=SLOW * (key >> version & 1))
        for key in range(keys)
        for version in (0, 1)
    ]


def hot(versions: int, seconds: float) -> list[Upload]:
    """Quick overwrites of one key."""
    return [Upload(at=0, key=0, seconds=seconds) for _ in range(versions)]


def uncontended(keys: int, per_second: float) -> list[Upload]:
    """One upload of each key."""
    return [Upload(at=key / per_second, key=key) for key in range(keys)]


def storm(keys: int, versions: int) -> list[Upload]:
    """Many versions, with duplicates, late events and failures, the same in each run."""
    chance = random.Random(12)  # noqa: S311 - not for a secret
    uploads = []
    for key in range(keys):
        for version in range(versions):
            upload = Upload(at=2 * key + 0.5 * version, key=key, seconds=0.2)
            if chance.random() < 0.1:  # noqa: PLR2004 - these are the workload
                upload = replace(upload, again=chance.uniform(0, 5))
            if chance.random() < 0.2:  # noqa: PLR2004
                upload = replace(upload, late=chance.uniform(1, 10))
            uploads.append(replace(upload, fails=chance.random() < 0.02))  # noqa: PLR2004
    return uploads


def crash(keys: int, vanishes: bool) -> list[Upload]:
    """Let the holder of each key die, and a newer event follow."""
    return [
        upload
        for key in range(keys)
        for upload in (
            # Each death costs a cold start, and several at once would delay each other.
            Upload(at=4 * key, key=key, seconds=1, dies=True, vanishes=vanishes),
            Upload(at=4 * key, key=key, after_death=True),
        )
    ]


def burst(keys: int) -> list[Upload]:
    """As many uploads as possible at once, of more keys than the function can take."""
    return [Upload(at=0, key=key, seconds=0.5) for key in range(keys)]


def _share(size: float, whole: int) -> int:
    return max(4, round(size * whole))


# What each is, its uploads for a share of its keys, and how many invocations may run at a time.
MAKERS: dict[str, tuple[str, Callable[[float], list[Upload]], int]] = {
    "headline-gap0": (
        "two uploads of each key, one right after the other; half of the runs take 2 s longer",
        lambda size: headline(0, _share(size, 100)),
        BOUND,
    ),
    "headline-gap1": (
        "two uploads of each key, 1 s apart; half of the runs take 2 s longer",
        lambda size: headline(1, _share(size, 100)),
        BOUND,
    ),
    "hot": ("30 quick overwrites of one key", lambda _: hot(30, 0), BOUND),
    "hot-slow": (
        "30 quick overwrites of one key, and each run takes 2 s",
        lambda _: hot(30, SLOW),
        BOUND,
    ),
    "uncontended": (
        f"one upload of each key, {PER_SECOND} a second",
        lambda size: uncontended(_share(size, 300), PER_SECOND),
        BOUND,
    ),
    "storm": (
        "20 versions of each key; 10 % of the events twice, 20 % late, 2 % fail at first",
        lambda size: storm(_share(size, 50), 20),
        BOUND,
    ),
    "crash-process": (
        "the function's process dies with each key's first event, and a newer event follows",
        lambda _: crash(5, vanishes=False),
        BOUND,
    ),
    "crash-execution": (
        "as `crash-process`, and the execution, where there is one, vanishes too",
        lambda _: crash(5, vanishes=True),
        BOUND,
    ),
    "burst": (
        f"all uploads at once, runs of 0.5 s, at most {BURST_BOUND} at a time",
        lambda size: burst(_share(size, 1000)),
        BURST_BOUND,
    ),
}
NAMES = list(MAKERS)
QUICK = ["headline-gap0", "headline-gap1", "hot", "hot-slow", "uncontended"]
QUICK_SIZE = 0.3


def workload(name: str, size: float = 1) -> Workload:
    """Make a workload.

    Parameters
    ----------
    size : float
        The share of its keys; those with a fixed number keep it.
    """
    about, make, bound = MAKERS[name]
    return Workload(name, about, tuple(sorted(make(size), key=lambda each: each.at)), bound)
