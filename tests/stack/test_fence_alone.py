"""The example of the fence alone: its rule, its role, and what becomes of an event that fails.

The vectors (tests/unit/test_vectors.py) and the model checker show what the fence itself keeps.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from inorder import PROJECT, local_aws
from inorder.aws.executions import wait_until
from inorder.aws.stack import sam_deploy
from inorder.local_aws import LocalAws
from tests.conftest import colour_of, picture
from tests.stack.conftest import BLUE, RED, SECONDS, output_key
from tests.stack.test_examples import outputs_of
from tests.support.events import created

TEMPLATE = PROJECT / "examples" / "fence_alone" / "template.yaml"
KEY = "a/x.png"


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


@pytest.fixture(scope="module")
def deployed(local: LocalAws) -> dict[str, str]:
    sam_deploy(local, "fenced", {}, TEMPLATE)
    return outputs_of(local, "fenced")


def test_uploads_make_outputs_an_old_event_changes_none_and_a_deletion_removes_it(
    local: LocalAws, deployed: dict[str, str]
) -> None:
    s3, source = local.client("s3"), {"Bucket": deployed["ObjectsBucketName"], "Key": KEY}
    output = {"Bucket": deployed["OutputsBucketName"], "Key": output_key(KEY)}

    def outputs() -> list[Any]:
        found: list[Any] = s3.list_objects_v2(Bucket=output["Bucket"]).get("Contents", [])
        return found

    def shows(colour: tuple[int, int, int]) -> bool:
        return bool(outputs()) and colour_of(s3.get_object(**output)["Body"].read()) == colour

    s3.put_object(**source, Body=picture(RED))
    wait_until(lambda: shows((0, 255, 255)), SECONDS, "the first output")
    etag = s3.put_object(**source, Body=picture(BLUE))["ETag"].strip('"')
    wait_until(lambda: shows((255, 255, 0)), SECONDS, "the second output")
    before = outputs()
    old = created(KEY, bucket=source["Bucket"], sequencer="00", etag=etag)
    answer = local.client("lambda").invoke(
        FunctionName=deployed["FunctionName"], Payload=json.dumps(old)
    )
    assert "FunctionError" not in answer
    assert outputs() == before
    s3.delete_object(**source)
    wait_until(lambda: not outputs(), SECONDS, "the output to be removed")


def test_what_fails_three_times_waits_for_a_person(
    local: LocalAws, deployed: dict[str, str]
) -> None:
    """The local EventBridge does not let Lambda try again, so the function is invoked here."""
    bucket, key = deployed["ObjectsBucketName"], "no picture"
    etag = local.client("s3").put_object(Bucket=bucket, Key=key, Body=b"no picture")["ETag"]
    event = created(key, bucket=bucket, etag=etag.strip('"'))
    local.client("lambda").invoke(
        FunctionName=deployed["FunctionName"], InvocationType="Event", Payload=json.dumps(event)
    )
    sqs, found = local.client("sqs"), list[Any]()

    def has_failed() -> bool:
        queue = deployed["FailedEventsUrl"]
        found.extend(sqs.receive_message(QueueUrl=queue).get("Messages", []))
        return bool(found)

    wait_until(has_failed, SECONDS, "the event to fail")
    message = json.loads(found[0]["Body"])
    assert message["requestPayload"] == event
    assert "The object is no picture" in message["responsePayload"]["errorMessage"]
