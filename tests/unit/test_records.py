"""Records and messages: a state machine names and writes them as the functions and the tool do."""

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from inorder.model.policies import definition, names, uncoordinated
from inorder_fence import records
from tests.proof.simulation.clock import Clock
from tests.proof.simulation.machine import CompiledState, Context, Execution
from tests.support.events import SEQUENCER, created

ODD = r"a/b#c@d e%20é😀%s{}'\\.png"
NONE = uncoordinated()
PARAMETERS = [
    (f"{policy}: {name}", state.get("Parameters", {}))
    for policy in names()
    for name, state in definition(policy)["States"].items()
]
FORMATS = [
    pytest.param(parameters["object_key.$"], id=place)
    for place, parameters in PARAMETERS
    if str(parameters.get("object_key.$")).startswith("States.Format(")
]
SENT = [
    pytest.param(parameters["MessageBody"], id=place)
    for place, parameters in PARAMETERS
    if place.endswith(": Hand Over Event")
]


@pytest.mark.parametrize("intrinsic", FORMATS)
def test_a_state_machine_names_a_record_as_the_module_does(intrinsic: str) -> None:
    version = "3HL4kqtJlcpXroDTDmJ+rmSpXd3dIbrHY" if "version-id" in intrinsic else None
    event = created(ODD, sequencer="0A", version_id=version)
    key = records.object_key_of(event)
    assert key == records.object_key("input", ODD, version)
    assert records.object_key("input", ODD, "") == records.object_key("input", ODD)
    state = CompiledState({"Type": "Pass", "Parameters": {"id.$": intrinsic}})
    context = Context(Execution("", event, 0), Clock(0), "")
    assert state.parameters({}, context) == {"id": key}


def test_each_locking_policy_has_formats_for_keys_and_versions() -> None:
    assert len(FORMATS) == 2 * len({place.partition(":")[0] for place, _ in PARAMETERS} - {NONE})


BUCKETS = st.from_regex(r"[a-z0-9][a-z0-9.-]{1,8}[a-z0-9]", fullmatch=True)
KEYS = st.text("ab/#@:é", min_size=1, max_size=8)
VERSIONS = st.none() | st.text("ab#@:._", min_size=1, max_size=6)
OBJECTS = st.tuples(BUCKETS | st.sampled_from(["b-1", "b-2"]), KEYS, VERSIONS)
SEQUENCERS = st.text("0AF@/", min_size=1, max_size=4)


@given(st.lists(st.tuples(OBJECTS, SEQUENCERS), max_size=8))
@example([(("b-1", "a#V", None), "0A"), (("b-1", "a", "V"), "0A")])
@example([(("b-1", "a@0A", None), "0A"), (("b-1", "a", None), "0A@0A")])
def test_no_two_objects_share_a_record_of_any_kind(objects: Any) -> None:
    ids: dict[str, Any] = {}
    for (bucket, key, version), sequencer in objects:
        named = records.object_key(bucket, key, version)
        assert records.key_in(named) == key
        event = created(key, bucket=bucket, version_id=version, sequencer=sequencer)
        for record_id, its in (
            (named, (bucket, key, version)),
            (records.retry_id(event), (bucket, key, version, sequencer)),
        ):
            assert ids.setdefault(record_id, its) == its


@pytest.mark.parametrize("sent", SENT)
def test_a_state_machine_sends_the_fields_of_the_modules_message(sent: dict[str, Any]) -> None:
    message = records.retry_message(created(ODD), "E", "c", "id")
    fields = {name.removesuffix(".$") for name in sent}
    assert fields == {"execution", *json.loads(message)}
    assert sent["outcome"] == json.loads(message)["outcome"]


S3 = {"sequencer": SEQUENCER}


@pytest.mark.parametrize(
    ("record_id", "event", "subject"),
    [
        ("input/é", created("é"), {"object_key": "input/é", **S3}),
        ("event:x", created("x", version_id="3"), {"object_key": "input#3/x", **S3}),
        ("other", {"detail": "odd", "retry": {"attempt": 3}}, {"object_key": "other"}),
        # DynamoDB refuses these characters in an id, and SQS in a message.
        ("x", created("\uffff\ud800"), {"object_key": "input/\uffff\ud800", **S3}),
    ],
)
def test_a_retry_message_is_like_a_state_machines(record_id: str, event: Any, subject: Any) -> None:
    sent = records.retry_message(event, "E", "c", record_id)
    reason = {"Error": "E", "Cause": "c"}
    assert json.loads(sent) == {"outcome": "Retrying", **subject, "reason": reason, "event": event}
    assert sent.encode().decode().isprintable()
    assert ("é" in sent) is ("é" in record_id)  # no longer than what a state machine sends
    assert '": ' not in sent


S3_EVENT, ORDER = created(ODD), {"detail-type": "Order", "detail": {"order": "x"}}
RETRIED = {"retry": {"attempt": 3}}


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        (S3_EVENT, S3_EVENT | {"id": "another"} | RETRIED, True),
        (S3_EVENT, created(ODD, sequencer="0056"), False),
        (S3_EVENT, created("other.png"), False),
        (S3_EVENT, created(ODD, bucket="other"), False),
        (S3_EVENT, created(ODD, version_id=5), True),  # not a version
        (S3_EVENT, created(ODD, version_id="3HL4"), False),
        (created(version_id="3HL4"), created(version_id="9A2C"), False),
        (created("a", bucket=None), created("b", bucket=None), False),  # names no object
        (created(sequencer=None), created(sequencer=None, etag="other"), False),
        (ORDER, dict(reversed(ORDER.items())) | RETRIED, True),
        (ORDER, ORDER | {"detail": {"order": "é"}}, False),
    ],
)
def test_only_deliveries_of_one_event_share_a_record(one: Any, other: Any, is_same: bool) -> None:
    first, second = (records.retry_id(event) for event in (one, other))
    assert (first == second) is is_same


@pytest.mark.parametrize(
    "event",
    [None, {}, {"detail": 7}, {"detail": {"object": 7}}, {"detail": {"object": {"key": 7}}}],
)
def test_other_inputs_have_no_object_and_are_restarted_unchanged(event: Any) -> None:
    assert records.s3_object(event) == {}
    assert records.object_key_of(event) is None
    assert records.without_history(event) == event


@pytest.mark.parametrize(
    ("named", "key"),
    [
        (records.object_key("b", "a/k.png"), "a/k.png"),
        (records.object_key("b", "k#v", "w"), "k#v"),
        (records.retry_id(created(ODD)), None),
        ("b", None),
    ],
)
def test_only_an_unambiguous_name_tells_the_key(named: str, key: str | None) -> None:
    assert records.key_in(named) == key
