"""Records and messages: a state machine names and writes them as the functions and the tool do."""

import json
from typing import Any

import pytest

from inorder.model.policies import definition, names
from inorder_fence import records
from tests.proof.simulation.clock import Clock
from tests.proof.simulation.machine import CompiledState, Context, Execution
from tests.support.events import SEQUENCER, created

ODD = r"a/b#c@d e%20é😀%s{}'\\.png"
IDS = {
    "object_key.$": lambda key, _: key,
    "record_id.$": lambda key, _: records.first_id(key),
    "S.$": records.event_id,
}
PARAMETERS = [
    (f"{policy}: {name}", state.get("Parameters", {}))
    for policy in names()
    for name, state in definition(policy)["States"].items()
]
FORMATS = [
    pytest.param(field, made[field], id=f"{place}: {field}")
    for place, parameters in PARAMETERS
    for made in (parameters, parameters.get("Key", parameters.get("Item", {})).get("id", {}))
    for field in IDS
    if str(made.get(field)).startswith("States.Format(")
]
SENT = [
    pytest.param(parameters["MessageBody"], id=place)
    for place, parameters in PARAMETERS
    if place.endswith(": Retry Event")
]


@pytest.mark.parametrize(("field", "intrinsic"), FORMATS)
def test_a_state_machine_names_a_record_as_the_module_does(field: str, intrinsic: str) -> None:
    version = "3HL4kqtJlcpXroDTDmJ+rmSpXd3dIbrHY" if "version-id" in intrinsic else None
    event = created(ODD, sequencer="0A", version_id=version)
    key = records.object_key_of(event)
    assert key == records.object_key("input", ODD, version)
    assert records.object_key("input", ODD, "") == records.object_key("input", ODD)
    state = CompiledState({"Type": "Pass", "Parameters": {"id.$": intrinsic}})
    context = Context(Execution("", event, 0), Clock(0), "")
    data = {"object_key": key, "sequencer": "0A"}
    assert state.parameters(data, context) == {"id": IDS[field](key, "0A")}


def test_the_ids_of_all_kinds_of_records_are_compared() -> None:
    assert {each.values[0] for each in FORMATS} == IDS.keys()


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
        ("event:x", created("x", version_id="3"), {"object_key": "input/x#3", **S3}),
        ("other", {"detail": "odd", "retry": {"attempt": 3}}, {"object_key": "other"}),
        # DynamoDB refuses these characters in an id, and SQS in a message.
        ("x", created("\uffff\ud800"), {"object_key": "input/\uffff\ud800", **S3}),
    ],
)
def test_a_message_is_like_that_of_a_state_machine_whichever_policy_wrote_the_record(
    record_id: str, event: dict[str, Any], subject: dict[str, str]
) -> None:
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
def test_all_deliveries_of_an_event_and_no_others_have_one_record_of_retries(
    one: dict[str, Any], other: dict[str, Any], is_same: bool
) -> None:
    first, second = (records.retry_id(event) for event in (one, other))
    assert (first == second) is is_same


@pytest.mark.parametrize(
    "event",
    [None, {}, {"detail": 7}, {"detail": {"object": 7}}, {"detail": {"object": {"key": 7}}}],
)
def test_any_other_input_has_no_object_and_is_started_again_as_it_is(event: Any) -> None:
    assert records.s3_object(event) == {}
    assert records.object_key_of(event) is None
    assert records.without_history(event) == event


@pytest.mark.parametrize(
    ("named", "key"),
    [
        (records.object_key("b", "a/k.png"), "a/k.png"),
        (records.object_key("b", "k", "v"), None),  # or is it the key k#v?
        (records.first_id(records.object_key("b", "k")), None),
        ("b", None),
    ],
)
def test_a_key_is_read_from_a_name_that_has_only_one_meaning(named: str, key: str | None) -> None:
    assert records.key_in(named) == key
