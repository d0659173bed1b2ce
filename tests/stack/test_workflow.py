"""The policy latest-wins from an upload to its output, by S3's own events and EventBridge.

tests/policies shows the promise in every other case.
"""

from __future__ import annotations

import time
from collections import Counter

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


def test_thirty_quick_overwrites_of_one_key_end_with_the_newest(workflow: Workflow) -> None:
    for number in range(30):
        workflow.upload("hot.png", picture((number, 0, 0)))
    ended = workflow.of_key("hot.png", 30)
    counted = Counter(each.outcome for each in ended)
    assert set(counted) <= {"Processed", "Superseded", "Duplicate"}
    # A holder starts one event; the execution that waited with it is then a duplicate.
    assert counted["Duplicate"] <= sum(each.is_started_by_holder for each in ended)
    of_newest = [each.outcome for each in ended if each.sequencer == ended[-1].sequencer]
    assert of_newest.count("Processed") == 1
    assert workflow.colour("hot.png") == (255 - 29, 255, 255)
    workflow.assert_quiet()


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
