"""The demonstration in a stack that is deployed, on AWS or on the local AWS."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from uuid import uuid4

from inorder.aws.executions import wait_until
from inorder.aws.log import state_machine
from inorder.aws.stack import Connection, Stack
from inorder.demo import run as demo
from inorder.demo.pictures import PicturePair
from inorder.demo.report import Counts, FinalOutput
from inorder.demo.run import (
    EXECUTIONS_AT_ONCE,
    UNCOORDINATED,
    PictureRun,
    check,
    progress_bars,
)
from inorder.errors import Failure
from inorder.model import outcomes, policies
from inorder.model.policies import Policy

# For which a cleanup waits when not even the demonstration saw all executions.
SHORT_PATIENCE_SECONDS = 30
# "After you enable EventBridge, it takes around five minutes for the changes to take effect":
# https://docs.aws.amazon.com/AmazonS3/latest/userguide/enable-event-notifications-eventbridge.html
# What is uploaded before that has no event, so the first object is uploaded again and again.
FIRST_EVENT_TRIES, FIRST_EVENT_SECONDS = 20, 30.0
# At AWS's list prices, at most: with a second for each picture, 10,240 MB and the dearest policy.
DOLLARS_FOR_A_KEY = 0.001


class Demonstration:
    """A demonstration in one deployed stack, which removes what it created.

    The records in the key table stay until they expire, and parked events stay in their queue: they
    are evidence of a fault. A stack whose outputs are no pictures, or whose log lacks what is
    counted, is a Failure.
    """

    def __init__(self, aws: Connection, pairs: Sequence[PicturePair]) -> None:
        self.aws, self.stack = aws, aws.stack
        self.policy = policy_of(self.stack)
        check(pairs)
        self.prefix = f"inorder-demo-{uuid4().hex[:8]}/"
        self._s3 = aws.client("s3")
        self._machine = state_machine(
            aws.client("stepfunctions"),
            aws.client("logs"),
            self.stack.state_machine_arn,
            datetime.now(UTC),
        )
        self._keys = len(pairs)
        self._first = (f"{self.prefix}first-event/{pairs[0].key.rpartition('/')[2]}", pairs[0].new)
        prefix = f"{self.prefix}keys/"
        self._run = PictureRun(
            aws,
            self.policy,
            self._machine,
            [replace(pair, key=f"{prefix}{pair.key}") for pair in pairs],
            EXECUTIONS_AT_ONCE["off" if self.policy.name == UNCOORDINATED else "on"],
            prefix,
        )
        # Cleaning up needs to list versions: if that is not allowed, fail before the first upload.
        for bucket in (self.stack.input_bucket, self.stack.output_bucket):
            self._empty(bucket)

    def plan(self) -> str:
        """Say what `show` will do, and what that costs."""
        cost = (
            "This is a local AWS, where it costs nothing."
            if self.aws.is_local
            else f"It costs less than {max(0.01, DOLLARS_FOR_A_KEY * self._keys):.2f} US dollars."
        )
        lines = [
            f"Stack {self.stack.name}, policy {self.policy.name}:",
            "- uploads one picture until its event arrives, which a new bucket's may not at once",
            f"- uploads an old and a new picture to each of {self._keys} keys,"
            f" s3://{self.stack.input_bucket}/{self.prefix}keys/...",
            f"- starts {2 * self._keys} executions with these events again, as duplicates and late",
            "- waits until all executions have ended, and compares the outputs",
            f"- removes the pictures from s3://{self.stack.input_bucket}"
            f" and s3://{self.stack.output_bucket}",
            "  (records in the key table expire by themselves; parked events stay in their queue)",
            cost,
        ]
        return "\n".join(lines)

    def show(self, say: Callable[[str], None]) -> tuple[Counts, list[FinalOutput]]:
        """Run the demonstration and, however it ends, remove what it created.

        A TimeoutError says which event did not arrive or start an execution, or which did not end.
        """
        patience = demo.PATIENCE_SECONDS
        try:
            self._wait_for_first_event(say)
            with progress_bars() as progress:
                bar = progress.add_task(f"Events, {self.stack.name}", total=4 * self._keys)
                return self._run.show(partial(progress.advance, bar))
        except TimeoutError:
            patience = min(patience, SHORT_PATIENCE_SECONDS)
            raise
        finally:
            self._clean_up(patience, say)

    def keeps_promise(self, counts: Counts) -> bool:
        """Tell whether the counts are as the policy promises, which may be nothing."""
        return self.policy.name == UNCOORDINATED or not counts.has_faults

    def _wait_for_first_event(self, say: Callable[[str], None]) -> None:
        """Upload one object again and again, until an event of it has started an execution."""
        key, content = self._first
        where = f"the event of s3://{self.stack.input_bucket}/{key}"
        say(f"Waiting for {where}: after a first deployment this may take about five minutes ...")
        for _ in range(FIRST_EVENT_TRIES):
            self._s3.put_object(Bucket=self.stack.input_bucket, Key=key, Body=content)
            with suppress(TimeoutError):
                return wait_until(
                    lambda: key in self._machine.arrived(key),
                    FIRST_EVENT_SECONDS,
                    where,
                    max(0.1, self._machine.poll_seconds),
                )
        raise TimeoutError(
            f"Waited {FIRST_EVENT_TRIES * FIRST_EVENT_SECONDS:.0f} s for {where}, which was"
            f" uploaded {FIRST_EVENT_TRIES} times. Is EventBridge switched on for the bucket?"
        )

    def _clean_up(self, patience: float, say: Callable[[str], None]) -> None:
        """Remove the uploads, wait for what that causes, and remove the outputs."""
        say(f"Removing {self.prefix} from both buckets ...")
        try:
            first = len(self._machine.arrived(self._first[0]).get(self._first[0], []))
            expected = self._run.expected + first
            removed = self._empty(self.stack.input_bucket)
            if self.stack.parameters.get("HandleDeletions") == "true" and self.policy.deletions:
                expected += removed
            ended = self._machine.wait_for(expected, patience, self.prefix)
            parked = sum(each.outcome in outcomes.PARKED for each in ended)
            if parked:
                say(f"{parked} events were parked: inorder parked --stack-name {self.stack.name}")
        except TimeoutError as error:
            say(f"{error} They may write outputs to s3://{self.stack.output_bucket}/{self.prefix}")
        finally:
            self._empty(self.stack.output_bucket)

    def _empty(self, bucket: str) -> int:
        """Delete all versions of all objects of this demonstration, and give their number."""
        pages = self._s3.get_paginator("list_object_versions").paginate(
            Bucket=bucket, Prefix=self.prefix
        )
        versions = [
            {"Key": each["Key"], "VersionId": each["VersionId"]}
            for page in pages
            for each in page.get("Versions", [])
        ]
        for first in range(0, len(versions), 1000):
            answer = self._s3.delete_objects(
                Bucket=bucket, Delete={"Objects": versions[first : first + 1000], "Quiet": True}
            )
            for error in answer.get("Errors", []):
                raise Failure(
                    f"s3://{bucket}/{error['Key']} is not removed: {error.get('Message')}"
                )
        return len(versions)


def policy_of(stack: Stack) -> Policy:
    """Find the policy of a stack; a Failure if it makes no pictures, or is not known."""
    name = stack.parameters.get("Policy", "")
    if stack.parameters.get("WorkFunctionArn"):
        raise Failure(
            f"Stack {stack.name} has a function of its own (WorkFunctionArn). The demonstration"
            " counts inverted pictures, so it needs a stack with the project's own function."
        )
    policy = policies.known(name)
    if policy is None:
        raise Failure(f"Stack {stack.name} has the policy {name!r}, unknown here.")
    if not policy.pictures:
        raise Failure(
            f"Stack {stack.name} has the policy {name}, which makes no pictures to compare."
        )
    return policy
