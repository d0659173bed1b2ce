"""What `inorder doctor` says of retries, keys and alarms: AWS's answers are built here."""

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from inorder.aws import health, retrying
from inorder.aws.health import ADVICE, RIGHT, WRONG, Check
from inorder.aws.retrying import RetryingEvent
from inorder.aws.stack import Stack


def deployment(is_local: bool = False, clients: Any = None, **parameters: str) -> Any:
    """Build a stack with some parameters, and clients that answer for all services."""
    given = {"Policy": "latest-wins", **parameters}
    stack = Stack("s", "in", "out", "keys", "arn", "parked", "retries", "f", "log", given)
    aws = SimpleNamespace(stack=stack, is_local=is_local, client=lambda _: clients)
    return SimpleNamespace(aws=aws, stack=stack, resources={})


@pytest.mark.parametrize(
    ("policy", "changed", "waiting", "said"),
    [
        ("latest-wins", {}, "1", "Nothing must be done"),
        ("uncoordinated", {}, "1", "1 event in the retry queue"),
        ("uncoordinated", {"HandleDeletions": "false"}, "1", "Nothing must be done"),
        ("every-version", {}, "0", "the input bucket keeps no versions"),
        ("uncoordinated", {"Timeout": 61}, "0", "the function may take 61 s, and it waits for 15"),
    ],
)
def test_what_must_be_done_before_a_change_of_policy_is_named(
    policy: str, changed: dict[str, Any], waiting: str, said: str
) -> None:
    attributes = {"Attributes": {"ApproximateNumberOfMessagesDelayed": waiting}}
    clients = SimpleNamespace(
        get_queue_attributes=lambda **_: attributes, get_bucket_versioning=lambda **_: {}
    )
    asked = deployment(clients=clients, **changed)
    asked.function = {"Timeout": changed.get("Timeout", 15)}
    [finding] = health._change(asked, policy)
    assert said in finding.text
    assert finding.state == (RIGHT if "Nothing" in said else WRONG)


def test_an_event_that_is_retried_for_hours_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    def retried(*hours: float) -> list[Check]:
        now = datetime.now(UTC)
        since = [(now - timedelta(hours=each)).isoformat() for each in hours]
        line = {"message_id": "m", "attempts": 1, "next": now.isoformat(), "reasons": ["E: c"]}
        events = [RetryingEvent.of(line | {"since": each}) for each in since]
        monkeypatch.setattr(retrying, "retrying_events", lambda _: events)
        return list(health._retries(deployment()))

    [found] = retried(0.5, 3.1, 5.2)
    assert found.state == WRONG
    assert "more than an hour: 2 events, one of them for 5 hours, because of E: c" in found.text
    assert [each.state for each in retried(0.5)] == [RIGHT]


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({}, ""),
        ({"KeyPrefix": "photos/"}, "1 of the first 3 objects: dog.JPG"),
        ({"KeySuffix": ".jpg"}, "2 of the first 3 objects: dog.JPG, photos/cat.JPG"),
        ({"KeyPrefix": "photos/", "KeySuffix": ".jpg"}, "2 of the first 3 objects"),
    ],
)
def test_objects_that_the_filter_leaves_out_are_named(parameters: Any, said: str) -> None:
    keys = ["dog.JPG", "photos/cat.JPG", "photos/cat.jpg"]
    listed = {"Contents": [{"Key": each, "Size": 1} for each in keys]}
    listed["Contents"].append({"Key": "photos/", "Size": 0})  # a folder's marker
    asked = deployment(clients=SimpleNamespace(list_objects_v2=lambda **_: listed), **parameters)
    found = list(health._keys(asked))
    assert [each.state for each in found] == ([ADVICE] if said else [])
    assert all(said in each.text for each in found)


@pytest.mark.parametrize(("is_local", "states"), [(True, []), (False, [ADVICE])])
def test_alarms_that_reach_nobody_are_advice_on_aws(is_local: bool, states: list[str]) -> None:
    alarm = {"AlarmName": "a", "AlarmActions": [], "StateValue": "OK"}
    pages = SimpleNamespace(paginate=lambda: [{"MetricAlarms": [alarm]}])
    asked = deployment(is_local, SimpleNamespace(get_paginator=lambda _: pages))
    assert [each.state for each in health._alarms(asked)] == states
