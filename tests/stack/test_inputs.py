"""Any key that S3 allows is used as it is."""

from __future__ import annotations

from tests.conftest import picture
from tests.stack.conftest import Workflow

KEYS = [
    *("with space.png", "a+b.png", "a b+c.png", "100%.png", "a%2Bb.png", 'it\'s "quoted".png'),
    *("{}-{0}-\\.png", "$.path.png", "ünïcödé-日本-🙂.png", "deep/er/and#hash?.png"),
    *("x" * 996 + ".png", "x y.png", "x+y.png", "x%20y.png"),  # some differ in encoding only
]


def test_an_unusual_key_is_used_as_it_is(workflow: Workflow) -> None:
    for number, key in enumerate(KEYS):
        workflow.upload(key, picture((number, 0, 0)))
        assert [each.outcome for each in workflow.of_key(key, 1)] == ["Processed"], key
    for number, key in enumerate(KEYS):
        assert workflow.colour(key) == (255 - number, 255, 255), key
        assert workflow.record(key)["status"] == "DONE", key
