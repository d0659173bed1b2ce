"""What happens to a key, which events arrive, and how each ends: the same on every engine."""

from typing import Any
from uuid import NAMESPACE_OID, uuid5

import pytest

from inorder_fence.records import object_key
from tests.conftest import colour_of, picture
from tests.policies.places import Place
from tests.policies.situations import BLUE, CYAN, GREEN, MAGENTA, RED, YELLOW
from tests.policies.tables import TABLES
from tests.support.events import created

# "A1": a red picture is uploaded, which makes event 1; B and C are others, and a is no image. "-2":
# the object is deleted, which makes event 2. "1=Processed": event 1 arrives, and ends so. A name in
# `RECORDS` gives the key that record; "expired" takes all its records. A name in `EVENTS` is an
# event; the sequencer of event w is no number. "is=AB": the outputs are the inverses of these
# pictures.
CONTENTS = {"A": picture(RED), "B": picture(GREEN), "C": picture(BLUE), "a": b"no image"}
INVERSES = {"A": CYAN, "B": MAGENTA, "C": YELLOW}
DEAD = {"status": "IN_PROGRESS", "lock_token": "dead", "execution": "dead", "event": "{}"}
RECORDS: dict[str, Any] = {"lock": DEAD}
EVENTS: dict[str, Any] = {"empty": {}, "list": [], "no-key": created(key=None)}
# Each story of each policy.
TOLD = [
    pytest.param(story, policy, marks=pytest.mark.policy(policy), id=f"{policy}: {story}")
    for policy, table in TABLES.items()
    for story in table.stories
]


def tell(place: Place, story: str, policy: str) -> None:
    """Let a story happen to a key of its own; fail if it happens otherwise."""
    key, events = f"a b+%C3%A9 {uuid5(NAMESPACE_OID, policy + story)}.png", dict(EVENTS)
    for step in story.split():
        name, separator, expected = step.partition("=")
        if name == "is":
            colours = list(map(colour_of, place.outputs(key)))
            assert colours == [INVERSES[name] for name in expected], f"{step} in: {story}"
        elif separator:
            outcome = place.outcome(policy, events[name])
            assert outcome == expected, f"{outcome} is not {step} in: {story}"
        elif name in RECORDS:
            record_id = object_key(place.input_bucket, key)
            place.table.put_item(Item={"id": record_id, **RECORDS[name]})
        elif name == "expired":
            for record in place.table.scan(ConsistentRead=True)["Items"]:
                if key in record["id"]:
                    place.table.delete_item(Key={"id": record["id"]})
        else:
            content = CONTENTS.get(name[0])
            events[name[1]] = place.change(key, content, f"006A0F5FCE2D7F28B{name[1]}")
    records = (
        record for record in place.table.scan(ConsistentRead=True)["Items"] if key in record["id"]
    )
    assert not [record for record in records if "lock_token" in record]
