"""Random repairs: an audit's events come at any time, while others are lost, late or repeated."""

import os
import random
from typing import Any

from inorder.audit.comparing import Reading, Scope, Subject
from inorder.audit.repairing import repair_event
from inorder_fence import ObjectEvent
from inorder_fence.fenced_output import OutputState, compare_sequencers
from inorder_fence.records import object_key
from tests.proof.simulation.cloud import Cloud, Settings
from tests.proof.simulation.conftest import DAY

SEEDS = range(1_500 if os.environ.get("MODEL") or os.environ.get("NIGHT") else 60)
SCOPE = Scope("input", "output", "keys", "newest", handles_deletions=True)
KEY = "x.png"
# States of executions whose event is in the record: a sweep finds what dies there.
RECORDED = {"Invert Image", "Release Lock", "Hand Over Event", "Wait For Lock"}


class History:
    """Uploads of a key, of which some events never come, and repairs in between.

    A repair reads the record, the output and the source one after the other, and other things
    happen meanwhile. It is made whether the output is wrong or not, as for outputs of older code.
    """

    def __init__(self, seed: int) -> None:
        self.chance = chance = random.Random(seed)  # noqa: S311
        settings = Settings(
            seconds=chance.choice([0.5, 5.0]),
            versioned=chance.random() < 1 / 3,
            dies=lambda _, state: state in RECORDED and chance.random() < 0.25,
            seed=seed,
        )
        self.cloud = Cloud(settings)
        self.backwards = list[tuple[str, str]]()
        self._watch_writes()
        for after in sorted(chance.uniform(0, 30) for _ in range(chance.randrange(1, 5))):
            content = chance.choice([None, "the same"])
            self.deliveries = chance.choice([0, 1, 1, 2])  # of the last one, in the end
            self.cloud.upload(KEY, after, content, deliveries=self.deliveries)
        for _ in range(chance.randrange(1, 4)):
            self.cloud.clock.env.process(self._repair(chance.uniform(0, 40)))

    def _watch_writes(self) -> None:
        objects: Any = self.cloud.objects
        put_object = objects.put_object

        def put(Metadata: dict[str, str], **named: Any) -> Any:  # noqa: N803
            before = objects._metadata.get(named["Key"], {})
            answer = put_object(Metadata=Metadata, **named)
            sequencers = before.get("sequencer", ""), Metadata["sequencer"]
            # Of a version, which has one content, nobody compares the outputs' sequencers.
            is_version = "source-version-id" in {*before, *Metadata}
            if not is_version and compare_sequencers(*sequencers) > 0:
                self.backwards.append(sequencers)
            return answer

        objects.put_object = put

    def _repair(self, after: float) -> Any:
        cloud, chance = self.cloud, self.chance
        wait = cloud.clock.env.timeout
        yield wait(after)
        first = self.source()
        version = first.object_id[0] if first else None
        record = cloud.table.items.get(object_key("input", KEY, version), {})
        record = {name: str(*value.values()) for name, value in record.items()}
        yield wait(chance.uniform(0, 3))
        output = self.output()
        yield wait(chance.uniform(0, 3))
        source = self.source()
        if (source.object_id[0] if source else None) != version:
            return  # an audit reads it again
        reading = Reading(Subject(KEY), record, output, source)
        event = repair_event(SCOPE, reading, cloud.clock.datetime())
        yield wait(chance.uniform(0, 5))
        cloud.start(event)

    def source(self) -> ObjectEvent | None:
        objects: Any = self.cloud.objects
        if KEY not in objects._sources:
            return None
        answer = objects._source(KEY, None)
        return ObjectEvent("input", KEY, "", answer["ETag"], answer.get("VersionId"))

    def output(self) -> OutputState:
        objects: Any = self.cloud.objects
        name = f"out-{KEY}"
        return OutputState(objects.outputs.get(name), objects._metadata.get(name, {}))

    def run(self) -> str | None:
        """Run until all is quiet, repair once more, and tell what is wrong, if anything is."""
        cloud = self.cloud
        cloud.clock.env.run(until=60)
        cloud.run_until_quiet(4 * DAY)
        source = self.source()
        assert source
        if self.deliveries and not self.output().shows(source):
            return "a repair has made it wrong"
        self.chance.random = lambda: 1.0  # type: ignore[method-assign] # nobody dies any more
        cloud.clock.env.process(self._repair(0))
        cloud.clock.env.run(until=cloud.clock.now + 60)
        cloud.run_until_quiet(8 * DAY)
        checks = {
            "wrong": not self.output().shows(source),
            "backwards": self.backwards,
            "parked": cloud.parked,
            "locks left": cloud.table.having("lock_token"),
            "two at once": cloud.shared_keys,
        }
        return next((f"{check}: {wrong}" for check, wrong in checks.items() if wrong), None)


def test_a_repair_mends_and_makes_nothing_worse_whatever_else_happens() -> None:
    for seed in SEEDS:
        assert (seed, History(seed).run()) == (seed, None)
