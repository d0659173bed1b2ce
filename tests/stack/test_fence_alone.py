"""The example of the fence alone: the demonstration's events, and what fails."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from shutil import copytree
from types import SimpleNamespace
from typing import Any

import pytest
from cfnlint import ManualArgs
from cfnlint.api import lint

from inorder import PROJECT, local_aws
from inorder.aws.executions import wait_until
from inorder.aws.stack import sam_deploy
from inorder.demo.pictures import SLOW_EVERY, own_pairs
from inorder.demo.run import PictureRun
from inorder.local_aws import LocalAws
from inorder.model.policies import policy
from tests.stack.conftest import SECONDS, output_key
from tests.stack.test_examples import outputs_of

EXAMPLE = PROJECT / "examples" / "fence_alone"
PAIRS = own_pairs(SLOW_EVERY)  # the last old picture is slow
INVOCATIONS = 4 * len(PAIRS)
# The function with the slow picture, after it has read that, ends after all other invocations.
SLOW = f"""

import time
from dataclasses import replace
from pathlib import Path

HERE = Path({{folder!r}})
process = handler


def slow_work(content):
    if content.endswith(b"slow"):
        (HERE / "reading").touch()
        while (HERE / "ended").stat().st_size < {INVOCATIONS - 1}:
            time.sleep(0.1)
    return work(content)


def handler(event, context):
    try:
        process(event, context)
    finally:
        with (HERE / "ended").open("a") as ended:
            ended.write(".")


fence = replace(fence, work=slow_work)
"""


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalAws]:
    """Start a local AWS that enforces the function's role, and tries again soon."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("AUTH", "true")  # the server inherits them
        environment.setenv("LAMBDA_ASYNC_RETRY_BASE_SECONDS", "0.1")
        started = local_aws.start(tmp_path_factory.mktemp("local-aws"))
    try:
        yield started
    finally:
        started.stop()


class Example:
    """A deployed example, as the demonstration uses a state machine."""

    poll_seconds = 0.1

    def __init__(self, local: LocalAws, name: str, folder: Path) -> None:
        self.folder = folder
        (folder / "ended").touch()
        sam_deploy(local, name, {}, folder / "template.yaml")
        self.deployed = outputs_of(local, name)
        self.client = local.client
        self._sqs, self._seen = local.client("sqs"), dict[str, Any]()
        self._queue = self._sqs.create_queue(QueueName=f"{name}-seen")["QueueUrl"]
        arn = f"arn:aws:sqs:us-east-1:000000000000:{name}-seen"
        events = local.client("events")
        [rule] = events.list_rules(NamePrefix=f"{name}-")["Rules"]
        events.put_targets(Rule=rule["Name"], Targets=[{"Id": "seen", "Arn": arn}])

    def received(self, url: str) -> Iterator[Any]:
        """Take the messages of a queue."""
        while messages := self._sqs.receive_message(QueueUrl=url).get("Messages"):
            for each in messages:
                self._sqs.delete_message(QueueUrl=url, ReceiptHandle=each["ReceiptHandle"])
                yield json.loads(each["Body"])

    def arrived(self, _prefix: str) -> dict[str, list[Any]]:
        """Give the events that the rule has matched, by key and in order."""
        for event in self.received(self._queue):
            self._seen[event["detail"]["object"]["sequencer"]] = event
        found = defaultdict(list)
        for _, event in sorted(self._seen.items()):
            found[event["detail"]["object"]["key"]].append(event)
        return found

    def start(self, event: Any) -> None:
        """Invoke the function as the rule does."""
        self.client("lambda").invoke(
            FunctionName=self.deployed["FunctionName"],
            InvocationType="Event",
            Payload=json.dumps(event),
        )

    def show(self) -> list[str]:
        """Deliver the demonstration's events, and tell what each output shows in the end."""
        stack = SimpleNamespace(
            input_bucket=self.deployed["ObjectsBucketName"],
            output_bucket=self.deployed["OutputsBucketName"],
            parameters={"SlowMark": "slow"},
        )
        aws: Any = SimpleNamespace(client=self.client, stack=stack)
        machine: Any = self
        run = PictureRun(aws, policy("latest-wins"), machine, PAIRS, len(PAIRS))
        put = run._put

        def after_reading(key: str, content: bytes) -> None:
            if content == PAIRS[-1].new:
                wait_until((self.folder / "reading").exists, SECONDS, "the slow picture")
            put(key, content)

        run._put = after_reading  # type: ignore[method-assign]
        run.deliver(lambda: None)
        ended = self.folder / "ended"
        wait_until(lambda: ended.stat().st_size == INVOCATIONS, SECONDS, "the function")
        return [each.state for each in run.outputs()]


@pytest.fixture(scope="module")
def fenced(local: LocalAws, tmp_path_factory: pytest.TempPathFactory) -> Example:
    return deployed(local, "fenced", tmp_path_factory)


def deployed(
    local: LocalAws, name: str, folders: pytest.TempPathFactory, **renamed: str
) -> Example:
    """Deploy the example with slow pictures, and with another name for what it calls."""
    folder = copytree(EXAMPLE, folders.mktemp(name) / "fence_alone")
    text = (EXAMPLE / "app.py").read_text(encoding="utf-8")
    for old, new in renamed.items():
        assert old in text
        text = text.replace(old, new)
    (folder / "app.py").write_text(text + SLOW.format(folder=str(folder)), encoding="utf-8")
    return Example(local, name, folder)


def test_its_template_is_valid() -> None:
    text = (EXAMPLE / "template.yaml").read_text(encoding="utf-8")
    assert lint(text, config=ManualArgs(regions=["us-east-1"])) == []


def test_of_the_demonstrations_events_no_output_is_stale_and_without_the_fence_the_slow_one_is(
    local: LocalAws,
    fenced: Example,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    unfenced = deployed(local, "unfenced", tmp_path_factory, write_newest="write_unfenced")
    with ThreadPoolExecutor() as pool:
        states = [pool.submit(each.show) for each in (fenced, unfenced)]
    assert [each.result().count("old") for each in states] == [0, 1]
    assert states[0].result() == ["new"] * len(PAIRS)
    assert list(fenced.received(fenced.deployed["FailedEventsUrl"])) == []


def test_a_deletion_removes_the_output(fenced: Example) -> None:
    s3, key = fenced.client("s3"), "deleted.png"
    buckets = fenced.deployed["ObjectsBucketName"], fenced.deployed["OutputsBucketName"]

    def has_output() -> bool:
        return bool(s3.list_objects_v2(Bucket=buckets[1], Prefix=output_key(key))["KeyCount"])

    s3.put_object(Bucket=buckets[0], Key=key, Body=PAIRS[0].new)
    wait_until(has_output, SECONDS, "the output")
    s3.delete_object(Bucket=buckets[0], Key=key)
    wait_until(lambda: not has_output(), SECONDS, "the output to be removed")


def test_what_fails_three_times_waits_for_a_person(fenced: Example) -> None:
    """The local EventBridge does not let Lambda try again, so the event is delivered once more."""
    bucket, key = fenced.deployed["ObjectsBucketName"], "no picture"
    fenced.client("s3").put_object(Bucket=bucket, Key=key, Body=b"no picture")
    wait_until(lambda: key in fenced.arrived(""), SECONDS, "the event")
    [event] = fenced.arrived("")[key]
    fenced.start(event)
    found: list[Any] = []

    def has_failed() -> bool:
        found.extend(list(fenced.received(fenced.deployed["FailedEventsUrl"])))
        return bool(found)

    wait_until(has_failed, SECONDS, "the event to fail")
    [message] = found
    assert message["requestPayload"] == event
    assert "The object is no picture" in message["responsePayload"]["errorMessage"]
