"""A sweep of the deaths that left no record, on ministack; the search has what follows from one."""

import json
from datetime import UTC, datetime, timedelta
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from inorder.aws.executions import wait_until
from inorder.local_aws import LocalAws
from tests.support.events import created
from tests.support.in_process import KEY_TABLE, import_anew

ROLE = "arn:aws:iam::000000000000:role/test"
FAILS = {"StartAt": "F", "States": {"F": {"Type": "Fail", "ErrorPath": "$.error"}}}


@pytest.fixture
def app(local: LocalAws, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Give the handler's module with a table, and a state machine that fails before it claims."""
    local.client("dynamodb").create_table(TableName="taken-over", **KEY_TABLE)
    machine = local.client("stepfunctions").create_state_machine(
        name="fails", definition=json.dumps(FAILS), roleArn=ROLE
    )
    local.client("s3").create_bucket(Bucket="taken-over")
    queue = local.client("sqs").create_queue(QueueName="taken-over")
    settings = {
        **{"AWS_ENDPOINT_URL": local.endpoint_url, "KEY_TABLE": "taken-over"},
        **{"STATE_MACHINE_ARN": machine["stateMachineArn"], "STAGING_BUCKET": "taken-over"},
        "PARKED_EVENTS_QUEUE_URL": queue["QueueUrl"],
    }
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    loaded = import_anew("take_over.app")
    monkeypatch.setattr(loaded, "LATE", timedelta(0))
    return loaded


def sweep(app: ModuleType, milliseconds: int = 300_000) -> None:
    context = SimpleNamespace(get_remaining_time_in_millis=lambda: milliseconds)
    app.handler.__wrapped__({}, context)


def test_a_sweep_goes_on_where_the_first_death_stopped_it_that_it_could_not_handle(
    app: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(key: str, error: str = "Broken") -> str:
        given = {"input": json.dumps(created(key) | {"error": error})}
        arn = app.keys.state_machine_arn
        dead = str(app.states.start_execution(stateMachineArn=arn, **given)["executionArn"])

        def has_failed() -> bool:
            return bool(app.states.describe_execution(executionArn=dead)["status"] == "FAILED")

        wait_until(has_failed, 30, "a death")
        return dead

    def attempt(key: str) -> Any:
        item = app.keys._read(f"input/{key}")
        return json.loads(item["event"]["S"])["retry"]["attempt"] if "event" in item else None

    for key in "abc":
        start(key)
    shipped = type(app.keys)._death

    def broken(keys: Any, execution: str, record_id: str) -> Any:
        death = shipped(keys, execution, record_id)
        if "b" in json.dumps(death.event["detail"]["object"]["key"]):
            raise ConnectionError
        return death

    with monkeypatch.context() as patch:
        patch.setattr(type(app.keys), "_death", broken)
        with pytest.raises(app.SweepFailed):
            sweep(app)
    assert (attempt("a"), attempt("b"), attempt("c")) == (1, None, 1)
    start("d")
    with pytest.raises(app.SweepFailed):
        sweep(app, milliseconds=0)  # no time is left: nothing is lost
    assert attempt("d") is None
    sweep(app)
    assert attempt("b") == attempt("d") == 1
    invalid = start("of a bucket with versions", "InvalidEvent")
    assert app.keys.take_over(invalid, datetime.now(UTC)) == "Settled"  # at its status event
    seen = app.dynamodb.get_item(TableName="taken-over", Key=app.SWEEP)["Item"]["seen"]["S"]
    sweep(app)
    again = app.dynamodb.get_item(TableName="taken-over", Key=app.SWEEP)["Item"]["seen"]["S"]
    assert again > seen
    sweep(app)
    received = app.sqs.receive_message(QueueUrl=app.keys.parked_queue_url, MaxNumberOfMessages=10)
    [parked] = [json.loads(message["Body"]) for message in received["Messages"]]
    assert (parked["reason"]["Error"], parked["execution"]) == ("InvalidEvent", invalid)
