"""The workloads: which objects are uploaded when, and what happens to the work on them."""

from collections.abc import Callable
from typing import NamedTuple

BOUND = 20  # invocations at a time
BURST_BOUND = 10
SLOW = 2.0  # seconds that a slow run takes longer
QUICK_SIZE = 0.1


class Upload(NamedTuple):
    """An upload, whose event is delivered at once."""

    # When, in seconds after the beginning. Uploads of a key are made one after the other.
    at: float
    key: int  # which key
    seconds: float = 0  # how long the work takes, besides inverting a small image
    # Whether the function's process dies in the first attempt, and the execution too, if there is
    # one. The next upload of the key waits for that.
    dies: bool = False


class Workload(NamedTuple):
    """Uploads in order of time, and the concurrency that the function may have."""

    about: str
    keys: int  # in full size
    make: Callable[[int], list[Upload]]  # for a number of keys
    bound: int = BOUND  # how many invocations may run at a time

    def uploads(self, size: float = 1) -> list[Upload]:
        """Make the uploads for a share of the keys."""
        keys = self.keys if self.keys == 1 else max(4, round(size * self.keys))
        return sorted(self.make(keys))


WORKLOADS = {
    "gap": Workload(
        "two uploads of each key, 1 s apart; half of the runs take 2 s longer, in all combinations",
        100,
        lambda keys: [
            Upload(at=0.25 * key + version, key=key, seconds=SLOW * (key >> version & 1))
            for key in range(keys)
            for version in (0, 1)
        ],
    ),
    "hot-slow": Workload(
        "30 quick overwrites of one key, and each run takes 2 s",
        1,
        lambda _: [Upload(at=0, key=0, seconds=SLOW)] * 30,
    ),
    "uncontended": Workload(
        "one upload of each key, 10 a second",
        300,
        lambda keys: [Upload(at=key / 10, key=key) for key in range(keys)],
    ),
    # Each death costs a cold start, and several at once would delay each other.
    "crash": Workload(
        "the function's process dies with each key's first event, the execution, where there is"
        " one, vanishes too, and a newer event follows",
        50,
        lambda keys: [
            upload
            for key in range(keys)
            for upload in (
                Upload(at=4 * key, key=key, seconds=1, dies=True),
                Upload(at=4 * key + 0.1, key=key),
            )
        ],
    ),
    "burst": Workload(
        f"all uploads at once, runs of 0.5 s, at most {BURST_BOUND} at a time",
        1000,
        lambda keys: [Upload(at=0, key=key, seconds=0.5) for key in range(keys)],
        BURST_BOUND,
    ),
}
