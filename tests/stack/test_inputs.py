"""Any key that S3 allows, and any JSON as an input: each ends in a named outcome."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.conftest import picture
from tests.stack.conftest import SECONDS, Workflow

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


SCALARS = (st.none(), st.booleans(), st.integers(-(2**53), 2**53), st.text(max_size=20))
ANYTHING = st.recursive(
    st.one_of(*SCALARS, st.floats(allow_nan=False, allow_infinity=False)),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)


def fields(**usual: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Draw an object, from which some fields are missing, and a few of the others are anything."""
    return st.fixed_dictionaries(
        {},
        optional={
            name.replace("_", "-"): st.one_of(value, value, value, ANYTHING)
            for name, value in usual.items()
        },
    )


OBJECTS = fields(
    key=st.text(min_size=1, max_size=20),
    etag=st.text("0123456789abcdef", min_size=1),
    sequencer=st.text("0123456789ABCDEF", min_size=1, max_size=20),
    version_id=st.text(max_size=20),
)
DETAILS = fields(bucket=fields(name=st.just("BUCKET")), object=OBJECTS)
EVENTS = fields(detail_type=st.just("Object Created"), detail=DETAILS)


@given(inputs=st.lists(st.one_of(EVENTS, EVENTS, ANYTHING), min_size=25, max_size=25))
@settings(
    max_examples=4,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_any_json_ends_in_a_named_outcome_and_is_parked_whole(
    workflow: Workflow, inputs: list[Any]
) -> None:
    workflow.parked()
    bucket = json.dumps(workflow.stack.input_bucket)
    inputs = json.loads(json.dumps(inputs).replace('"BUCKET"', bucket))
    started = [workflow.deliver(each) for each in inputs]
    ended = [workflow.executions.wait(execution, SECONDS) for execution in started]
    refused = {"Parked", "InvalidEvent"}
    outcomes = {"Processed", "Duplicate", "Superseded"} | refused
    assert [each for each in ended if each.outcome not in outcomes] == []
    parked = [each.event for each in ended if each.outcome in refused]
    messages = [message["event"] for message in workflow.parked()]
    assert Counter(map(json.dumps, messages)) == Counter(map(json.dumps, parked))
    workflow.assert_quiet()
