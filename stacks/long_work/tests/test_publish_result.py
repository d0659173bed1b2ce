"""Publishes staged results on ministack, which honours the condition on a multipart upload."""

from types import ModuleType
from typing import Any

import pytest

from inorder.local_aws import LocalAws
from tests.support.events import upload
from tests.support.in_process import import_anew

INPUT, OUTPUT, STAGING = "publish-input", "publish-output", "publish-staging"
LARGE = bytes(5 * 1024 * 1024)
PLACE = {"Bucket": STAGING, "Key": "staged/execution"}


@pytest.fixture(scope="module")
def s3(local: LocalAws) -> Any:
    client = local.client("s3")
    for bucket in (INPUT, OUTPUT, STAGING):
        client.create_bucket(Bucket=bucket)
    return client


@pytest.fixture
def app(s3: Any, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    settings = {"OUTPUT_BUCKET": OUTPUT, "STAGING_BUCKET": STAGING, "RECORD_RETENTION_DAYS": "7"}
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    loaded = import_anew("publish_result.app")
    monkeypatch.setattr(loaded, "s3", s3)
    monkeypatch.setattr("publish_result.staged.PART", len(LARGE))
    return loaded


def published(app: ModuleType, event: Any, content: bytes | None, **more: Any) -> Any:
    """Stage a result, unless it is None, and publish it."""
    if content is not None:
        app.s3.put_object(**PLACE, Body=content, **more)
    answer = {"outcome": "Rejected", "error": "E", "cause": "why"} if content == b"" else None
    payload = {"event": event, "fence": "newest", "answer": answer, "staged_key": PLACE["Key"]}
    found = app.handler.__wrapped__(payload, None)
    assert "Contents" not in app.s3.list_objects_v2(Bucket=STAGING)
    return found


def output(s3: Any, key: str) -> Any:
    return s3.get_object(Bucket=OUTPUT, Key=f"out-{key}")


@pytest.mark.parametrize("content", [b"small", LARGE], ids=["small", "large"])
def test_a_result_is_published_with_its_media_type_and_its_event(
    app: ModuleType, s3: Any, content: bytes
) -> None:
    event = upload(s3, key := str(len(content)), b"x", bucket=INPUT, sequencer="B1")
    stamped = content + b"B1#"
    assert published(app, event, stamped, ContentType="video/mp4")["outcome"] == "Processed"
    found = output(s3, key)
    assert found["Body"].read() == stamped
    assert (found["ContentType"], found["Metadata"]["sequencer"]) == ("video/mp4", "B1")
    # Its work was done again: nothing is written again.
    assert published(app, event, b"other")["outcome"] == "Processed"
    assert output(s3, key)["ETag"] == found["ETag"]


def test_an_output_that_is_written_meanwhile_is_not_replaced_although_its_content_is_the_same(
    app: ModuleType, s3: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After A, B, A the late result of B meets an output like the one that it has read."""
    older = upload(s3, "y", b"A", bucket=INPUT, sequencer="A1")
    published(app, older, LARGE + b"A1#")
    complete = s3.complete_multipart_upload

    def late(**request: Any) -> Any:
        monkeypatch.setattr(s3, "complete_multipart_upload", complete)
        newest = upload(s3, "y", b"A", bucket=INPUT, sequencer="A3")
        published(app, newest, LARGE + b"A3#")
        return complete(**request)

    between = upload(s3, "y", b"B", bucket=INPUT, sequencer="A2")
    monkeypatch.setattr(s3, "complete_multipart_upload", late)
    assert published(app, between, LARGE + b"A2#")["outcome"] == "Superseded"
    assert output(s3, "y")["Body"].read().endswith(b"A3#")
    assert "Uploads" not in s3.list_multipart_uploads(Bucket=OUTPUT)


def test_a_result_that_is_not_the_events_own_is_refused(app: ModuleType, s3: Any) -> None:
    event = upload(s3, "z", b"z", bucket=INPUT, sequencer="C1")
    place = {"Metadata": {"stamp-offset": "1"}}
    for content, more, error in (
        (None, {}, "NothingStaged"),
        (b"", {}, "RejectedByWork"),
        (b"no stamp", {}, "NotStamped"),
        (b"C", {}, "NotStamped"),
        (b"behind C1#", place, "NotStamped"),
    ):
        found = published(app, event, content, **more)
        assert (found["outcome"], found["error"]) == ("Rejected", error)
    assert published(app, event, b"!C1# and more", **place)["outcome"] == "Processed"
    s3.delete_object(Bucket=INPUT, Key="z")
    deletion = event | {"detail-type": "Object Deleted"}
    assert published(app, deletion, None)["outcome"] == "Processed"
    assert "Contents" not in s3.list_objects_v2(Bucket=OUTPUT, Prefix="out-z")
