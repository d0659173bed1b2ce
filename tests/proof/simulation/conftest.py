"""What the tests of bursts and outages share: a workload, and the promise."""

import random
from collections import defaultdict

from tests.proof.simulation.cloud import Cloud, Settings, sequencer_of

POLICIES = ["latest-wins", "every-version", "first-wins"]
DAY = 86_400.0


def uploaded_at_once(settings: Settings, keys: int, versions: int = 1) -> Cloud:
    """Upload versions of objects at the same time, and wait until all is quiet."""
    cloud = Cloud(settings)
    for _ in range(versions):
        for number in range(keys):
            upload(cloud, f"{number}.png")
    cloud.run_until_quiet(DAY)
    return cloud


def uploaded_meanwhile(settings: Settings, until: float, keys: int = 10, events: int = 60) -> Cloud:
    """Upload objects again and again until a time, and wait until all is quiet."""
    cloud, chance = Cloud(settings), random.Random(settings.seed)  # noqa: S311
    for after in sorted(chance.uniform(0, until) for _ in range(events)):
        upload(cloud, f"{chance.randrange(keys)}.png", after)
    cloud.run_until_quiet(DAY)
    return cloud


def upload(cloud: Cloud, key: str, after: float = 0) -> str:
    """Upload an object, whose content every-version can still read when its event's turn comes."""
    etag = "same" if cloud.settings.policy == "every-version" else None
    return cloud.upload(key, after, etag)


def assert_promise(cloud: Cloud, *, first_wins_twice: bool = False, may_drop: bool = False) -> None:
    """Check that each output is right, and that nothing was parked, lost or processed twice.

    `first_wins_twice`: first-wins may process a second event of a key. `may_drop`: events may have
    no outcome, if another event of their key decides the output.
    """
    assert cloud.parked == []
    policy, written = cloud.settings.policy, cloud.objects.written
    if not may_drop or policy == "every-version":
        assert set(cloud.finished) == set(cloud.arrived)
    assert set(written.values()) == {1}
    events: dict[str, set[str]] = defaultdict(set)
    for each in cloud.executions:
        events[each.input["detail"]["object"]["key"]].add(sequencer_of(each.input))
    if policy == "every-version":
        expected = {(f"out-{key}/{each}", each) for key in events for each in events[key]}
        assert set(written) == expected
        return
    assert set(cloud.objects.outputs) == {f"out-{key}" for key in events}
    if policy == "latest-wins":
        newest = {f"out-{key}": max(sequencers) for key, sequencers in events.items()}
        assert cloud.objects.outputs == newest
    elif not first_wins_twice:
        assert len(written) == len(events)
