"""The demonstration in a stack that is deployed, on AWS or on the local AWS."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import astuple, replace
from datetime import UTC, datetime
from functools import partial
from typing import NamedTuple
from uuid import uuid4

from inorder.aws.executions import wait_until
from inorder.aws.log import state_machine
from inorder.aws.stack import Connection, Stack
from inorder.demo import run as demo
from inorder.demo.pictures import PicturePair
from inorder.demo.report import Counts, Output
from inorder.demo.run import (
    EXECUTIONS_AT_ONCE,
    PARKED,
    UNCOORDINATED,
    Run,
    check,
    progress_bars,
)
from inorder.errors import Failure
from inorder.model import policies
from inorder.model.policies import Cost, Policy

# For which a cleanup waits when not even the demonstration saw all executions.
SHORT_PATIENCE_SECONDS = 30
# "After you enable EventBridge, it takes around five minutes for the changes to take effect":
# https://docs.aws.amazon.com/AmazonS3/latest/userguide/enable-event-notifications-eventbridge.html
# What is uploaded before that has no event, so the first object is uploaded again and again.
FIRST_EVENT_TRIES, FIRST_EVENT_SECONDS = 20, 30.0


class Price(NamedTuple):
    """What one unit costs, in US dollars."""

    unit: str
    dollars: float


# List prices of us-east-1 in November 2026, without the free tier. They differ between regions.
# https://aws.amazon.com/s3/pricing/                  0.005 for 1,000 PUT, 0.0004 for 1,000 GET
# https://aws.amazon.com/eventbridge/pricing/         1 for a million events of S3
# https://aws.amazon.com/step-functions/pricing/      1 for a million, 0.06 for a GB-hour, in 64 MB
# https://aws.amazon.com/lambda/pricing/              0.20 for a million, 0.0000133334 for a GB-s
# https://aws.amazon.com/dynamodb/pricing/on-demand/  0.625 and 0.125 for a million units
# https://aws.amazon.com/cloudwatch/pricing/          0.50 for a GB of log
# https://aws.amazon.com/xray/pricing/                5 for a million traces
EXECUTION_SECONDS, INVOCATION_SECONDS = 5, 1  # rather too much
PUT = Price("S3 writes", 0.005 / 1000)
GET = Price("S3 reads", 0.0004 / 1000)
EVENT = Price("events of S3", 1e-6)
WRITE = Price("writes to the key table, of 2 KB", 2 * 0.625e-6)
READ = Price("reads from the key table, of 4 KB", 0.125e-6)


def estimate(
    keys: int, policy: Policy, memory: int, is_traced: bool = False
) -> list[tuple[int, Price]]:
    """Count the requests that the demonstration makes or causes, at most.

    Parameters
    ----------
    keys : int
        Each is uploaded twice, both events are delivered again, and the upload, or its two versions
        in a versioned bucket, are deleted.
    policy : Policy
        It tells what each kind of event costs.
    memory : int
        Of the function, in MB.
    is_traced : bool
        Whether X-Ray traces the executions.
    """
    cost = policy.cost
    # Whether an event waits is not known before.
    either = zip(astuple(cost.uncontended), astuple(cost.waiter or cost.uncontended), strict=True)
    deletions = 2 * keys if policy.deletions else 0
    each = [
        (2 * keys, Cost(*map(max, either))),
        (keys, cost.duplicate),
        (keys, cost.older),
        (deletions, cost.uncontended),
    ]
    kilobytes = policy.log.uncontended + (policy.log.poll or 0)
    execution = Price(
        f"executions, each of about {EXECUTION_SECONDS} s, with {kilobytes} KB of log"
        + is_traced * " and a trace",
        1e-6 + 0.06 / 3600 * EXECUTION_SECONDS / 16 + kilobytes * 0.50e-6 + is_traced * 5e-6,
    )
    invocations = sum(number * each_cost.invocations for number, each_cost in each)
    invocation = Price(
        f"invocations of the function, each of about {INVOCATION_SECONDS} s",
        0.2e-6 + 0.0000133334 * INVOCATION_SECONDS * memory / 1024,
    )
    return [
        (2 * keys + invocations, PUT),
        (keys + 3 * invocations, GET),
        (2 * keys + deletions, EVENT),
        (4 * keys + deletions, execution),
        (invocations, invocation),
        (sum(number * each_cost.writes for number, each_cost in each), WRITE),
        (sum(number * each_cost.reads for number, each_cost in each), READ),
    ]


class Demonstration:
    """A demonstration in one deployed stack, which removes what it created.

    The records in the key table stay until they expire, and parked events stay in their queue: they
    are evidence of a fault.

    Parameters
    ----------
    aws : Connection
        To the stack.
    pairs : sequence of PicturePair
        One for each key. Their keys get a prefix of their own.

    Raises
    ------
    Failure
        The stack cannot be shown: its outputs are no pictures, or its log lacks what is counted.
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
        self._run = Run(
            self._s3,
            self.stack,
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
        """Say what `show` will do, with how many requests, and what that costs."""
        memory = int(self.stack.parameters.get("FunctionMemorySize", 1769))
        is_traced = self.stack.parameters.get("Tracing") == "true"
        requests = estimate(self._keys + 1, self.policy, memory, is_traced)  # with the first event
        dollars = sum(number * price.dollars for number, price in requests)
        cost = (
            "This is a local AWS, where it costs nothing."
            if self.aws.is_local
            else f"At AWS's list prices this costs roughly {max(0.01, dollars):.2f} US dollars."
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
            "With what this causes in the stack, at most:",
            *(f"{number:>7,} {price.unit}" for number, price in requests if number),
            cost,
        ]
        return "\n".join(lines)

    def show(self, say: Callable[[str], None]) -> tuple[Counts, list[Output]]:
        """Run the demonstration and, however it ends, remove what it created.

        Parameters
        ----------
        say : callable
            Called with a line about what comes next.

        Raises
        ------
        TimeoutError
            No event arrives, an event does not start an execution, or an execution does not end.

        Returns
        -------
        tuple
            What was counted, and the outputs in the order of the pairs.
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
        """Tell whether the counts are as the policy promises; `uncoordinated` promises nothing."""
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
            parked = sum(each.outcome in PARKED for each in ended)
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
    """Find the policy of a stack.

    Raises
    ------
    Failure
        It makes no pictures, or it is not known what it makes.
    """
    name = stack.parameters.get("Policy", "")
    if stack.parameters.get("WorkFunctionArn"):
        raise Failure(
            f"Stack {stack.name} has a function of its own (WorkFunctionArn). The demonstration"
            " counts inverted pictures, so it needs a stack with the project's own function."
        )
    if name not in policies.names():
        raise Failure(f"Stack {stack.name} has the policy {name!r}, unknown here.")
    policy = policies.policy(name)
    if not policy.pictures:
        raise Failure(
            f"Stack {stack.name} has the policy {name}, which makes no pictures to compare."
        )
    return policy
