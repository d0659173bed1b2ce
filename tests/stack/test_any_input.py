"""Any JSON as an input ends in a named outcome; what is parked is parked whole."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.stack.conftest import SECONDS, Workflow

OUTCOMES = {"Processed", "Duplicate", "Superseded", "Parked", "InvalidEvent"}

ANYTHING = st.recursive(
    st.one_of(
        *(st.none(), st.booleans(), st.integers(-(2**53), 2**53), st.text(max_size=20)),
        st.floats(allow_nan=False, allow_infinity=False),
    ),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)


def perhaps(usual: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Draw the usual value in most cases, and anything else in some."""
    return st.one_of(usual, usual, usual, ANYTHING)


def fields(**usual: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Draw an object, from which some fields are missing, and others are anything."""
    optional = {name.replace("_", "-"): perhaps(value) for name, value in usual.items()}
    return st.fixed_dictionaries({}, optional=optional)


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
def test_any_json_ends_in_a_named_outcome(workflow: Workflow, inputs: list[Any]) -> None:
    workflow.parked()
    bucket = json.dumps(workflow.stack.input_bucket)
    inputs = json.loads(json.dumps(inputs).replace('"BUCKET"', bucket))
    started = [workflow.deliver(each) for each in inputs]
    ended = [workflow.executions.wait(execution, SECONDS) for execution in started]
    assert [each for each in ended if each.outcome not in OUTCOMES] == []
    parked = [each.event for each in ended if each.outcome in {"Parked", "InvalidEvent"}]
    messages = [message["event"] for message in workflow.parked()]
    assert Counter(map(json.dumps, messages)) == Counter(map(json.dumps, parked))
    workflow.assert_quiet()
