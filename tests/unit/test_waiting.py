"""What is said of events that wait: how many, and since when."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from unittest.mock import Mock

import pytest
from botocore.exceptions import ClientError

from inorder.aws import health, waiting
from inorder.aws.health import ADVICE, RIGHT
from tests.support.stacks import stack_with

NOW = datetime.now(UTC).replace(microsecond=0)
QUEUE = "https://sqs.us-east-1.amazonaws.com/123456789012/waiting"


def stack(counts: Sequence[int] = (2, 3, 4), ages: Sequence[float] = (), **more: str) -> Mock:
    """Build a paused stack whose queue has messages; CloudWatch has an age for each past minute."""
    times = [NOW - timedelta(minutes=minutes) for minutes in range(len(ages))]
    points = [{"Timestamp": at, "Maximum": age} for at, age in zip(times, ages, strict=True)]
    attributes = dict(zip(waiting.COUNTS, map(str, counts), strict=False))
    client = Mock()
    client.get_queue_attributes.return_value = {"Attributes": attributes}
    client.get_metric_statistics.return_value = {"Datapoints": points}
    described = replace(stack_with(**{"Paused": "true"} | more), waiting_events_queue_url=QUEUE)
    return Mock(stack=described, client=Mock(return_value=client))


def test_a_pause_is_named_with_its_events_and_age() -> None:
    aws = stack(ages=(3600, 7200))
    since = (NOW - timedelta(hours=1)).strftime("%Y-%m-%d %H:%M:%S UTC")
    assert waiting.pause(aws) == f"The stack is paused: 9 events wait, the oldest since {since}."
    asked = aws.client().get_metric_statistics.call_args.kwargs
    assert asked["Dimensions"] == [{"Name": "QueueName", "Value": "waiting"}]
    assert waiting.pause(stack((1,))) == "The stack is paused: 1 event waits."
    assert waiting.pause(stack((0,), (9,))) == "The stack is paused: 0 events wait."
    assert waiting.pause(stack(Paused="false")) == ""


def test_events_still_wait_after_a_pause() -> None:
    waiting_still = waiting.backlog(stack(Paused="false"))
    assert waiting_still == "The stack was paused: 9 events wait."
    assert waiting.backlog(stack((0,), Paused="false")) == ""
    # Where each event waits for a while, only one that waits for longer tells of a backlog.
    for ages, is_backlog in (((), False), ((65, 900), False), ((66, 0), True)):
        aws = stack(ages=ages, Paused="false", QuietSeconds="5")
        says = waiting.backlog(aws)
        assert ("Events wait for longer than QuietSeconds: 9 events" in says) == is_backlog, says
        assert bool(says) == is_backlog
    assert waiting.backlog(stack()) == waiting.pause(stack())


def test_what_cannot_be_read_of_a_pause_is_not_known() -> None:
    aws = stack()
    refusal = ClientError({"Error": {"Code": "AccessDenied", "Message": "no"}}, "Read")
    aws.client().get_queue_attributes.side_effect = refusal
    text = waiting.pause(aws)
    assert text.startswith("The stack is paused: how many events wait is not known (An error")


def test_a_pause_is_advice() -> None:
    for paused, state in (("true", ADVICE), ("false", RIGHT)):
        aws = stack(Paused=paused)
        [finding] = health._pause(Mock(aws=aws, stack=aws.stack))
        assert finding.state == state
        assert "9 events wait" in finding.text


@pytest.mark.parametrize(
    ("paused", "read", "unread"),
    [
        ("false", ["retry", "waiting"], []),
        ("false", ["retry"], ["WaitingEventsQueue"]),
        ("false", ["waiting"], ["RetryEventsQueue"]),
        ("true", [], []),
    ],
)
def test_a_queue_without_a_reader_is_wrong_unless_paused(
    paused: str, read: list[str], unread: list[str]
) -> None:
    states = dict.fromkeys(["retry", "waiting"], "Disabled") | dict.fromkeys(read, "Enabled")
    mappings = [
        {"EventSourceArn": f"arn:aws:sqs:us-east-1:123456789012:{queue}", "State": state}
        for queue, state in states.items()
    ]
    aws = stack((0,), Paused=paused)
    aws.client().list_event_source_mappings.return_value = {"EventSourceMappings": mappings}
    names = {"RetryEventsQueue": "https://q/retry", "WaitingEventsQueue": "https://q/waiting"}
    asked = Mock(aws=aws, stack=aws.stack, resources=names | {"RetryEventsFunction": "f"})
    wrong = [check.text for check in health._queues(asked) if check.state == health.WRONG]
    assert [text.split()[2].rstrip(":") for text in wrong] == unread
