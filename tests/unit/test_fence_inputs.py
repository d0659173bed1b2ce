"""What the fence rejects, what it leaves to another attempt, and what an output gets."""

from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.support import events
from tests.support.replacing import replaced
from tests.unit import s3_calls
from tests.unit.s3_calls import (
    MAXIMUM_BYTES,
    OUTPUT,
    answer,
    delete,
    fails,
    no_output,
    outcome,
    output,
    read,
    source,
    write,
)

OF_ANOTHER_BUCKET = output("0A", source_bucket="other")
OWN = f"{OUTPUT}/0B"
DAY = 86_400


def created(key: str = s3_calls.KEY, **more: Any) -> Any:
    return events.created(key, **{"sequencer": "0B", "etag": "b"} | more)


def rejection(event: Any, *calls: s3_calls.Call, **options: Any) -> str:
    """Give the error of a rejection, which has a cause and no output."""
    rejected = answer(event, *calls, **options)
    assert rejected.keys() == {"outcome", "error", "cause", "expires_at"}
    assert rejected["outcome"] == "Rejected"
    assert rejected["cause"]
    return rejected["error"]


# The answer


def test_an_answer_says_for_how_long_its_record_is_kept() -> None:
    assert answer(created(), output("0C"))["expires_at"] == str(7 * DAY)
    rejected = answer(created(sequencer="ZZ"))
    assert rejected["expires_at"] == str(15 * DAY)  # longer than SQS keeps the parked event


# Events


@pytest.mark.parametrize(
    "event",
    [
        created(sequencer="ZZ"),
        created(key=""),
        created(etag=""),
        events.without(events.deleted("a/x"), "detail.object.sequencer"),
        created(bucket=""),
    ],
    ids=["word", "no key", "no ETag", "no sequencer", "no bucket"],
)
@pytest.mark.parametrize("fence", ["newest", "each", "none"])
def test_an_event_that_s3_cannot_have_sent_is_rejected(event: Any, fence: str) -> None:
    assert rejection(event, fence=fence) == "InvalidEvent"


def test_of_a_long_sequencer_the_first_digits_order_the_event() -> None:
    """It is recorded by then, so a rejection would keep the key without an output."""
    digits = "F" * 128
    calls = no_output(), read(), write(sequencer=digits), source()
    assert outcome(created(sequencer=digits + "F"), *calls) == "Processed"
    assert outcome(created(sequencer="0B" + "0" * 999), output("0B"), source()) == "Processed"
    assert rejection(created(sequencer=digits + "Z")) == "InvalidEvent"


def test_an_empty_version_means_none_in_events_and_outputs() -> None:
    newer = output("0C", source_bucket="input", source_version_id="")
    assert outcome(created(version_id=""), newer) == "Superseded"


# Outputs that are there


@pytest.mark.parametrize("event", [created(), events.deleted("a/x", sequencer="0B")])
def test_the_output_of_another_bucket_is_neither_replaced_nor_deleted(event: Any) -> None:
    assert rejection(event, OF_ANOTHER_BUCKET) == "OutputOfAnotherBucket"
    own = output("0A", key=OWN, source_bucket="other")
    assert rejection(created(), own, fence="each") == "OutputOfAnotherBucket"


@pytest.mark.parametrize("fence", ["newest", "each", "none"])
def test_an_output_bucket_that_is_the_input_bucket_is_refused(fence: str) -> None:
    assert rejection(created(bucket="output"), fence=fence) == "InvalidSource"


def test_an_output_with_an_impossible_sequencer_is_replaced() -> None:
    calls = output("ZZ", source_etag="b"), read(), write(etag="1"), source()
    assert outcome(created(), *calls) == "Processed"


# Sources


def test_what_the_work_rejects_is_rejected_with_its_error() -> None:
    assert rejection(created(), no_output(), read("bad")) == "Bad"


def test_a_source_may_have_as_many_bytes_as_are_allowed() -> None:
    largest = read(ContentLength=MAXIMUM_BYTES)
    assert outcome(created(), no_output(), largest, write(), source()) == "Processed"
    larger = read(ContentLength=MAXIMUM_BYTES + 1)
    assert rejection(created(), no_output(), larger) == "InvalidSource"


def test_the_length_of_an_outputs_key_is_counted_in_bytes() -> None:
    key = "é" * 511 + "x"
    assert rejection(created(key)) == "InvalidSource"
    of_deletion = answer(events.deleted(key, sequencer="0C"))
    assert (of_deletion["outcome"], of_deletion["output_key"]) == ("Processed", f"out-{key}")


@pytest.mark.parametrize(
    ("fence", "key", "calls"),
    [
        ("newest", "a/out-", [no_output("a/out-"), read("", key="a/")]),
        ("each", "a/out-/0B", [no_output("a/out-/0B"), read("", key="a/", version="null")]),
        ("none", "a/out-", [read("", None, "a/")]),
    ],
)
def test_a_folder_of_the_console_has_no_output(
    fence: str, key: str, calls: list[s3_calls.Call]
) -> None:
    of_folder = answer(created("a/"), *calls, fence=fence)
    assert (of_folder["outcome"], of_folder["output_key"]) == ("Superseded", key)


@pytest.mark.parametrize(("key", "content"), [("a/x", ""), ("a/", "B")])
def test_only_an_empty_object_with_a_slash_is_a_folder(key: str, content: str) -> None:
    name = replaced(key, "a/", "a/out-")
    calls = read(content, None, key, ETag='"b"'), write(content, key=name, is_fenced=False)
    assert outcome(created(key), *calls, fence="none") == "Processed"


@pytest.mark.parametrize(
    ("status", "code"),
    [(403, "InvalidObjectState"), (400, "InvalidRequest"), (400, "KMS.DisabledException")],
    ids=["archived", "SSE-C", "disabled key"],
)
def test_a_source_that_s3_refuses_for_good_is_rejected(status: int, code: str) -> None:
    refused = fails(read(version="null"), status, code)
    assert rejection(created(), no_output(OWN), refused, fence="each") == "SourceUnreadable"
    assert rejection(created(), no_output(), fails(read(), status, code)) == "SourceUnreadable"


def test_the_check_learns_from_get_why_head_is_refused() -> None:
    key = f"{OUTPUT}/v1"
    refused = fails(source(version="v1"), 400)
    reason = fails(read(etag=None, version="v1"), 400, "InvalidRequest")
    calls = output("0B", key=key, source_version_id="v1"), refused, reason
    assert rejection(created(version_id="v1"), *calls, fence="each") == "SourceUnreadable"


def test_metadata_that_are_too_large_together_reject_the_event() -> None:
    calls = no_output(), read(), fails(write(), 400, "MetadataTooLarge")
    assert rejection(created(), *calls) == "InvalidSource"


# Faults


def fault(event: Any, *calls: s3_calls.Call, fence: str = "newest") -> str:
    with pytest.raises(ClientError) as raised:
        answer(event, *calls, fence=fence)
    return str(raised.value.response["Error"]["Code"])


def test_what_may_not_be_read_now_is_a_fault() -> None:
    unusable = fails(read(), 400, "KMS.KMSInvalidStateException")  # the key may become usable
    assert fault(created(), no_output(), unusable) == "KMS.KMSInvalidStateException"
    assert fault(created(), fails(output("0A"), 403)) == "403"
    assert fault(created(), output("0B"), fails(source(), 403)) == "403"


def test_what_may_not_be_written_or_deleted_is_a_fault() -> None:
    refused = fails(write(), 403, "AccessDenied")
    assert fault(created(), no_output(), read(), refused) == "AccessDenied"
    key = f"{OUTPUT}/v1"
    event = events.deleted("a/x", sequencer="0C", version_id="v1")
    own = output("0B", key=key, source_version_id="v1")
    refused = fails(delete("1", key), 403, "AccessDenied")
    assert fault(event, own, refused, fence="each") == "AccessDenied"


def test_a_missing_bucket_is_a_fault_and_no_missing_object() -> None:
    assert fault(created(), no_output(), fails(read(), 404, "NoSuchBucket")) == "NoSuchBucket"
    missing = fails(write(), 404, "NoSuchBucket")
    assert fault(created(), no_output(), read(), missing) == "NoSuchBucket"


def test_without_a_fence_conflicts_are_faults_and_versions_are_ignored() -> None:
    written = write("C", source_etag="c", version="v1", is_fenced=False)
    calls = read("C", None, ETag='"c"', VersionId="v2"), fails(written, 409, "Conflict")
    assert fault(created(version_id="v1"), *calls, fence="none") == "Conflict"


# What an output gets


def test_an_output_gets_what_is_named_and_the_source_has() -> None:
    """Its own metadata win over the source's, and a version that it does not have is not kept."""
    metadata = {"made-by": "me", "sequencer": "0F", "source-version-id": "v9"}
    source_read = read(CacheControl="no-cache", ContentLanguage="de", Metadata=metadata)
    written = write(CacheControl="no-cache", Metadata={"made-by": "me"})
    names = ["CacheControl", "ContentDisposition", "Metadata"]
    calls = no_output(), source_read, written, source()
    assert outcome(created(), *calls, hands_on=names) == "Processed"
