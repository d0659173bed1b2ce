"""Events that wait: in a pause until it ends, or for a while after they came.

Only the attributes of their queue are read: to receive a message would hide it from the function,
and one that was received three times would no longer count for the alarm.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError

from inorder.wording import clock, counted, in_one_line, verb

if TYPE_CHECKING:
    from inorder.aws.stack import Connection

# A message is due; it is being handled or waits for a retry; or its delay has not ended.
COUNTS = [
    "ApproximateNumberOfMessages",
    "ApproximateNumberOfMessagesNotVisible",
    "ApproximateNumberOfMessagesDelayed",
]
RESUME = "make deploy PARAMETERS=Paused=false ends the pause: docs/operate.md, 'Pause'."
GRACE_SECONDS = 60  # after QuietSeconds, until an event has started
MEASURED = timedelta(minutes=15)  # SQS measures the age of the oldest message each minute


def messages(aws: Connection, queue_url: str) -> list[int]:
    """Count the messages of any queue that `COUNTS` names, as SQS estimates it."""
    answer = aws.client("sqs").get_queue_attributes(QueueUrl=queue_url, AttributeNames=COUNTS)
    return [int(answer["Attributes"].get(name, 0)) for name in COUNTS]


def count(aws: Connection) -> int:
    """Count the events that wait."""
    return sum(messages(aws, aws.stack.waiting_events_queue_url))


def oldest(aws: Connection) -> datetime | None:
    """Tell since when the oldest event waits; None if CloudWatch does not say."""
    if not (last := _last_age(aws)):
        return None
    since: datetime = last["Timestamp"] - timedelta(seconds=last["Maximum"])
    return since.astimezone(UTC)


def _last_age(aws: Connection) -> dict[str, Any] | None:
    """Read how old the oldest event was when SQS has measured it last."""
    now, queue = datetime.now(UTC), aws.stack.waiting_events_queue_url.rpartition("/")[2]
    points = aws.client("cloudwatch").get_metric_statistics(
        Namespace="AWS/SQS",
        MetricName="ApproximateAgeOfOldestMessage",
        Dimensions=[{"Name": "QueueName", "Value": queue}],
        StartTime=now - MEASURED,
        EndTime=now,
        Period=60,
        Statistics=["Maximum"],
    )["Datapoints"]
    return max(points, key=lambda point: point["Timestamp"], default=None)


def described(aws: Connection) -> str:
    """Say how many events wait, and since when, as far as that can be read."""
    try:
        events = count(aws)
        text = f"{counted(events, 'event')} {verb(events, 'wait')}"
        since = oldest(aws) if events else None
    except (ClientError, BotoCoreError) as error:
        return f"how many events wait is not known ({in_one_line(error)})"
    return f"{text}, the oldest since {clock(since)}" if since else text


def pause(aws: Connection) -> str:
    """Say that the stack is paused; "" if it is not."""
    return f"The stack is paused: {described(aws)}." if aws.stack.is_paused else ""


def backlog(aws: Connection) -> str:
    """Say that events wait in a pause, since the last one, or for too long; "" if none does."""
    if aws.stack.is_paused or not count(aws):
        return pause(aws)
    if quiet := aws.stack.quiet_seconds:  # some always wait, but none for longer than that
        last = _last_age(aws)
        if not last or last["Maximum"] <= quiet + GRACE_SECONDS:
            return ""
        return f"Events wait for longer than QuietSeconds: {described(aws)}."
    return f"The stack was paused: {described(aws)}."
