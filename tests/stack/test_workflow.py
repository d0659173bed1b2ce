"""The policy latest-wins from an upload to its output, by S3's own events and EventBridge.

tests/policies and the soak show the promise in every other case.
"""

from __future__ import annotations

import time

from tests.conftest import picture
from tests.stack.conftest import CYAN, RED, Workflow


def test_an_uploaded_image_is_inverted_and_the_key_is_released(workflow: Workflow) -> None:
    workflow.upload("one.png", picture(RED))
    [ended] = workflow.of_key("one.png", 1)
    assert ended.outcome == "Processed"
    assert workflow.colour("one.png") == CYAN
    record = workflow.record("one.png")
    assert record["status"] == "DONE"
    assert float(record["expires_at"]) > time.time() + 6 * 86_400
    assert not {"lock_token", "execution"} & set(record)


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
