"""Any JSON as an input ends in a named outcome; what is parked is parked whole."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.end_to_end.conftest import SECONDS, Workflow

OUTCOMES = {"Processed", "Duplicate", "Superseded", "Parked", "InvalidEvent"}

ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)


def perhaps(usual: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Draw the usual value in most cases, and anything else in some."""
    return st.one_of(usual, usual, usual, ANYTHING)


EVENTS = st.fixed_dictionaries(
    {},
    optional={
        "detail-type": perhaps(st.just("Object Created")),
        "detail": perhaps(
            st.fixed_dictionaries(
                {},
                optional={
                    "bucket": perhaps(
                        st.fixed_dictionaries({}, optional={"name": perhaps(st.just("BUCKET"))})
                    ),
                    "object": perhaps(
                        st.fixed_dictionaries(
                            {
                                "key": perhaps(st.text(min_size=1, max_size=20)),
                                "etag": perhaps(st.text("0123456789abcdef", min_size=1)),
                                "sequencer": perhaps(
                                    st.text("0123456789ABCDEF", min_size=1, max_size=20)
                                ),
                            },
                            optional={"version-id": perhaps(st.text(max_size=20))},
                        )
                    ),
                },
            )
        ),
    },
)


@given(inputs=st.lists(st.one_of(EVENTS, EVENTS, ANYTHING), min_size=25, max_size=25))
@settings(
    max_examples=8,
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
