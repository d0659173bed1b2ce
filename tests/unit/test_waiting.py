"""What is said of events that wait: how many, and since when."""

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError

from inorder.aws import health, waiting
from inorder.aws.health import ADVICE, RIGHT

NOW = datetime.now(UTC).replace(microsecond=0)
QUEUE = "https://sqs.us-east-1.amazonaws.com/123456789012/waiting"


def stack(
    counts: tuple[int, ...] = (2, 3, 4),
    ages: tuple[float, ...] = (),
    *,
    is_paused: bool = True,
    quiet_seconds: int = 0,
) -> Any:
    """Build a stack whose queue has messages; CloudWatch has an age for each past minute."""
    asked = dict[str, Any]()
    attributes = dict(zip(waiting.COUNTS, map(str, counts), strict=False))

    def statistics(**question: Any) -> Any:
        asked.update(question)
        times = [NOW - timedelta(minutes=minutes) for minutes in range(len(ages))]
        points = zip(times, ages, strict=True)
        return {"Datapoints": [{"Timestamp": at, "Maximum": age} for at, age in points]}

    clients = SimpleNamespace(
        get_queue_attributes=lambda **_: {"Attributes": attributes},
        get_metric_statistics=statistics,
    )
    described = SimpleNamespace(
        waiting_events_queue_url=QUEUE, is_paused=is_paused, quiet_seconds=quiet_seconds
    )
    return SimpleNamespace(stack=described, client=lambda _: clients, asked=asked)


def test_a_pause_is_named_with_its_events_and_age() -> None:
    aws = stack(ages=(3600, 3540))
    since = (NOW - timedelta(hours=1)).strftime("%Y-%m-%d %H:%M:%S UTC")
    assert waiting.pause(aws) == f"The stack is paused: 9 events wait, the oldest since {since}."
    assert aws.asked["Dimensions"] == [{"Name": "QueueName", "Value": "waiting"}]
    assert waiting.pause(stack((1,))) == "The stack is paused: 1 event waits."
    assert waiting.pause(stack((0,), (9,))) == "The stack is paused: 0 events wait."
    assert waiting.pause(stack(is_paused=False)) == ""


def test_events_still_wait_after_a_pause() -> None:
    waiting_still = waiting.backlog(stack(is_paused=False))
    assert waiting_still == "The stack was paused: 9 events wait."
    assert waiting.backlog(stack((0,), is_paused=False)) == ""
    # Each event waits there then, so it says nothing about a pause.
    assert waiting.backlog(stack(is_paused=False, quiet_seconds=5)) == ""
    assert waiting.backlog(stack()) == waiting.pause(stack())


def test_what_cannot_be_read_of_a_pause_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: Any) -> int:
        raise ClientError({"Error": {"Code": "AccessDenied", "Message": "no"}}, "Read")

    monkeypatch.setattr(waiting, "count", refuse)
    text = waiting.pause(stack())
    assert text.startswith("The stack is paused: how many events wait is not known (An error")


def test_a_pause_is_advice() -> None:
    for is_paused, state in ((True, ADVICE), (False, RIGHT)):
        aws = stack(is_paused=is_paused)
        [finding] = health._pause(SimpleNamespace(aws=aws, stack=aws.stack))  # type: ignore[arg-type]
        assert finding.state == state
        assert "9 events wait" in finding.text


@pytest.mark.parametrize(
    ("is_paused", "read", "unread"),
    [
        (False, ["retry", "waiting"], []),
        (False, ["retry"], ["WaitingEventsQueue"]),
        (False, ["waiting"], ["RetryEventsQueue"]),
        (True, [], []),
    ],
)
def test_a_queue_without_a_reader_is_wrong_unless_paused(
    is_paused: bool, read: list[str], unread: list[str]
) -> None:
    named = [
        {"EventSourceArn": f"arn:aws:sqs:us-east-1:123456789012:{queue}", "State": "Enabled"}
        for queue in read
    ]
    other = {"EventSourceArn": "arn:aws:sqs:us-east-1:123456789012:other", "State": "Disabled"}
    clients = SimpleNamespace(
        get_queue_attributes=lambda **_: {"Attributes": {"ApproximateNumberOfMessages": "0"}},
        list_event_source_mappings=lambda **_: {"EventSourceMappings": [*named, other]},
    )
    names = {"RetryEventsQueue": "https://q/retry", "WaitingEventsQueue": "https://q/waiting"}
    asked: Any = SimpleNamespace(
        aws=SimpleNamespace(client=lambda _: clients),
        stack=SimpleNamespace(is_paused=is_paused),
        resources=names | {"RetryEventsFunction": "f"},
    )
    wrong = [check.text for check in health._queues(asked) if check.state == health.WRONG]
    assert [text.split()[2].rstrip(":") for text in wrong] == unread
