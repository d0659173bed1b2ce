"""The steps of the fence: which calls of S3 it makes for an event, and in which order."""

from typing import Any

import pytest

from inorder_fence.fenced_output import ATTEMPTS, OutputContended
from inorder_fence.object_event import REPAIR_SOURCE
from tests.support import events
from tests.unit import s3_calls
from tests.unit.s3_calls import (
    OUTPUT,
    answer,
    delete,
    fails,
    no_output,
    no_source,
    outcome,
    output,
    overtaken,
    read,
    source,
    write,
)

OWN = f"{OUTPUT}/0B"  # of an event, under the fence `each`
OF_VERSION = f"{OUTPUT}/v1"


def created(sequencer: str = "0B", etag: str = "b", version: str | None = None) -> Any:
    return events.created(s3_calls.KEY, sequencer=sequencer, etag=etag, version_id=version)


def deleted(sequencer: str = "0C", version: str | None = None) -> Any:
    return events.deleted(s3_calls.KEY, sequencer=sequencer, version_id=version)


# Newest: a creation


def test_after_a_first_output_the_source_is_checked() -> None:
    assert outcome(created(), no_output(), read(), write(), source()) == "Processed"


def test_an_older_output_is_replaced_without_a_check() -> None:
    older = output("0A", source_bucket="input", source_etag="a")
    assert outcome(created(), older, read(), write(etag="1")) == "Processed"


def test_a_newer_output_is_left_and_nothing_else_is_read() -> None:
    assert outcome(created("0A", "a"), output("0B")) == "Superseded"


def test_a_longer_sequencer_may_be_the_older_one_or_equal() -> None:
    assert outcome(created("0A10"), output("0B")) == "Superseded"
    newer = created("0B"), output("0A10"), read(), write(etag="1")
    assert outcome(*newer) == "Processed"
    for one, other in (("0B", "0B00"), ("0B00", "0B")):
        assert outcome(created(one), output(other), source()) == "Processed"


def test_a_retry_removes_the_output_of_an_unchecked_attempt() -> None:
    own = output("0B", "2")
    calls = own, no_source(), own, no_source(), delete("2"), no_source()
    assert outcome(created(), *calls) == "Superseded"


def test_an_overwritten_source_makes_no_output() -> None:
    assert outcome(created(), no_output(), overtaken(read())) == "Superseded"


def test_a_newer_output_that_comes_before_the_write_is_left() -> None:
    calls = output("0A"), read(), overtaken(write(etag="1")), output("0C", "3")
    assert outcome(created(), *calls) == "Superseded"


def test_a_write_that_meets_another_one_is_tried_again() -> None:
    conflict = fails(write(), 409, "ConditionalRequestConflict")
    calls = no_output(), read(), conflict, no_output(), read(), write(), source()
    assert outcome(created(), *calls) == "Processed"


def test_an_output_deleted_before_the_write_stays_deleted() -> None:
    gone, no_object = fails(write(etag="1"), 404, "NoSuchKey"), fails(read(), 404, "NoSuchKey")
    calls = output("0A"), read(), gone, no_output(), no_object
    assert outcome(created(), *calls) == "Superseded"


def test_after_a_lost_answer_the_write_finds_its_own_output() -> None:
    calls = no_output(), read(), overtaken(write()), output("0B"), source()
    assert outcome(created(), *calls) == "Processed"


def test_five_attempts_that_meet_another_writer_are_a_fault() -> None:
    assert ATTEMPTS == 5
    with pytest.raises(OutputContended):
        answer(created(), *[no_output(), read(), overtaken(write())] * 5)
    own = output("0B", key=OF_VERSION, source_version_id="v1")
    with pytest.raises(OutputContended):
        answer(deleted(version="v1"), *[own, overtaken(delete("1", OF_VERSION))] * 5, fence="each")


def test_the_check_leaves_a_newer_upload_to_its_own_event() -> None:
    assert outcome(created(), no_output(), read(), write(), source("c")) == "Processed"


def test_without_deletions_the_source_is_not_checked() -> None:
    calls = no_output(), read(), write()
    assert outcome(created(), *calls, handles_deletions=False) == "Processed"
    calls = no_output(OWN), read(version="null"), write(key=OWN)
    assert outcome(created(), *calls, fence="each", handles_deletions=False) == "Processed"


# Newest: a deletion


def test_a_deletion_deletes_the_output_and_checks_the_source_again() -> None:
    calls = output("0B"), no_source(), delete("1"), no_source()
    assert outcome(deleted(), *calls) == "Processed"


def test_a_deletion_without_an_output_has_nothing_to_do() -> None:
    assert outcome(deleted(), no_output(), no_source()) == "Processed"


def test_a_deletion_leaves_the_output_of_a_newer_source() -> None:
    assert outcome(deleted(), output("0B"), source("d")) == "Superseded"


def test_a_deletion_leaves_a_newer_output_that_comes_before_it() -> None:
    calls = output("0B"), no_source(), overtaken(delete("1")), output("0D", "2"), source("d")
    assert outcome(deleted(), *calls) == "Superseded"


def test_a_source_that_returns_after_deletion_supersedes_the_deletion() -> None:
    calls = output("0B"), no_source(), delete("1"), source("d"), no_output(), source("d")
    assert outcome(deleted(), *calls) == "Superseded"


@pytest.mark.parametrize(("fence", "key"), [("newest", OUTPUT), ("each", f"{OUTPUT}/0C")])
def test_where_deletions_are_not_handled_a_deletion_asks_for_nothing(fence: str, key: str) -> None:
    answered = answer(deleted(), fence=fence, handles_deletions=False)
    assert (answered["outcome"], answered["output_key"]) == ("Superseded", key)


# Newest, in a bucket with versions


def test_a_version_replaces_another_versions_output_whatever_their_sequencers() -> None:
    other = output("0B", source_etag="a", source_version_id="v1")
    written = write(etag="1", sequencer="0A", version="v2")
    calls = other, read(VersionId="v2"), written, source("b", "v2")
    assert outcome(created("0A", version="v2"), *calls) == "Processed"


def test_the_same_versions_output_is_only_checked_unless_repaired() -> None:
    own = output("0B", source_etag="b", source_version_id="v2")
    repair = created(version="v2") | {"source": REPAIR_SOURCE}
    for event in (created(version="v2"), repair):
        assert outcome(event, own, source("b", "v2")) == "Processed"
    older = output("0A", source_etag="b", source_version_id="v2")
    calls = older, read(VersionId="v2"), write(etag="1", version="v2")
    assert outcome(repair, *calls) == "Processed"


def test_another_version_with_the_same_content_supersedes_an_event() -> None:
    assert outcome(created(version="v1"), no_output(), read(VersionId="v2")) == "Superseded"


def test_the_check_finds_a_later_version_and_makes_its_output() -> None:
    first = read(VersionId="v1"), write(version="v1"), source("c", "v2")
    written = output("0B", source_etag="b", source_version_id="v1")
    later = write("C", "1", source_etag="c", version="v2")
    calls = read("C", "c", VersionId="v2"), later, source("c", "v2")
    event = created(version="v1")
    assert outcome(event, no_output(), *first, written, source("c", "v2"), *calls) == "Superseded"


def test_deleting_a_version_writes_the_output_of_the_previous_one() -> None:
    of_deleted = output("0B", "2", source_etag="b", source_version_id="v2")
    before = source("a", "v1")
    written = write("A", "2", sequencer="0C", source_etag="a", version="v1")
    calls = of_deleted, before, read("A", "a", VersionId="v1"), written, before
    assert outcome(deleted(version="v2"), *calls) == "Processed"


def test_a_later_version_without_output_supersedes_the_earlier_one() -> None:
    """Its own event is rejected; this one was right, and nobody needs to look at it."""
    first = no_output(), read(VersionId="v1"), write(version="v1"), source("c", "v2")
    own = output("0B", "9", source_etag="b", source_version_id="v1")
    bad = read("bad", "c", VersionId="v2")
    calls = *first, own, source("c", "v2"), bad, delete("9"), source("c", "v2")
    assert outcome(created(version="v1"), *calls) == "Superseded"


def test_a_deleted_versions_output_goes_though_the_current_has_none() -> None:
    """The deletion is rejected, so that somebody learns why there is no output."""
    of_deleted = output("0B", "2", source_etag="b", source_version_id="v2")
    bad = read("bad", "a", VersionId="v1")
    calls = of_deleted, source("a", "v1"), bad, delete("2"), source("a", "v1")
    answered = answer(deleted(version="v2"), *calls)
    assert (answered["outcome"], answered["error"]) == ("Rejected", "Bad")
    again = no_output(), source("a", "v1"), bad
    assert outcome(deleted(version="v2"), *again) == "Rejected"


def test_after_removing_an_output_the_current_version_is_checked() -> None:
    """Version 2 was deleted after it was read; its deletion may have found the removed output."""
    of_deleted = output("0B", "3", source_etag="c", source_version_id="v3")
    bad = read("bad", "b", VersionId="v2")
    removed = of_deleted, source("b", "v2"), bad, delete("3"), source("a", "v1")
    written = write("A", sequencer="0C", source_etag="a", version="v1")
    again = no_output(), source("a", "v1"), read("A", "a", VersionId="v1"), written
    assert outcome(deleted(version="v3"), *removed, *again, source("a", "v1")) == "Processed"


def test_a_deleted_version_leaves_the_output_of_the_current_one() -> None:
    of_current = output("0A", source_etag="a", source_version_id="v1")
    assert outcome(deleted(version="v2"), of_current, source("a", "v1")) == "Superseded"


def test_the_null_version_was_overwritten_since_its_output_was_written() -> None:
    before = output("0B", "2", source_etag="a", source_version_id="null")
    written = write("C", "2", sequencer="0C", source_etag="c", version="null")
    current = source("c", "null")
    calls = before, current, read("C", "c", VersionId="null"), written, current
    assert outcome(deleted(version="v2"), *calls) == "Processed"


def test_the_check_finds_that_the_null_version_is_overwritten() -> None:
    first = no_output(), read(VersionId="null"), write()
    current = source("c", "null")
    written = write("C", "1", source_etag="c", version="null")
    again = output("0B", source_etag="b"), current, read("C", "c", VersionId="null"), written
    assert outcome(created(), *first, current, *again, current) == "Superseded"


def test_an_upload_of_the_null_version_replaces_its_output() -> None:
    """That output's sequencer is a deletion's, so that nothing compares with it."""
    named = output("0C", "3", source_etag="a", source_version_id="null")
    calls = named, read(VersionId="null"), write(etag="3"), source("b", "null")
    assert outcome(created(), *calls) == "Processed"


# Each


def test_each_event_has_an_output_of_its_own() -> None:
    calls = no_output(OWN), read(version="null"), write(key=OWN), source(version="null")
    answered = answer(created(), *calls, fence="each")
    assert (answered["outcome"], answered["output_key"]) == ("Processed", OWN)


def test_another_attempt_at_the_same_event_has_written_first() -> None:
    written = overtaken(write(key=OWN))
    again = output("0B", key=OWN), source(version="null")
    calls = no_output(OWN), read(version="null"), written, *again
    assert outcome(created(), *calls, fence="each") == "Processed"


def test_a_delete_marker_has_no_output() -> None:
    marker = fails(read(version="null"), 405, "MethodNotAllowed")
    assert outcome(created(), no_output(OWN), marker, fence="each") == "Superseded"


def test_a_content_that_is_lost_rejects_its_event() -> None:
    answered = answer(created(), no_output(OWN), overtaken(read(version="null")), fence="each")
    assert (answered["outcome"], answered["error"]) == ("Rejected", "SourceChanged")


def test_a_version_deleted_before_the_check_loses_its_output() -> None:
    written = write(key=OF_VERSION, version="v1")
    calls = read(version="v1", VersionId="v1"), written, no_source("v1"), delete("9", OF_VERSION)
    event = created(version="v1")
    assert outcome(event, no_output(OF_VERSION), *calls, fence="each") == "Superseded"


def test_another_writer_may_delete_a_deleted_versions_output() -> None:
    conflict = fails(delete("1", OF_VERSION), 409, "ConditionalRequestConflict")
    first = output("0B", key=OF_VERSION, source_version_id="v1"), no_source("v1"), conflict
    again = no_output(OF_VERSION), fails(read(version="v1"), 404, "NoSuchVersion")
    assert outcome(created(version="v1"), *first, *again, fence="each") == "Superseded"


def test_the_deletion_of_a_version_deletes_its_output() -> None:
    own = output("0B", key=OF_VERSION, source_version_id="v1")
    calls = own, delete("1", OF_VERSION)
    assert outcome(deleted(version="v1"), *calls, fence="each") == "Processed"


def test_a_deletion_without_versions_deletes_its_keys_older_outputs() -> None:
    listing = {"Bucket": "output", "Prefix": f"{OUTPUT}/", "Delimiter": "/"}
    pages = [["0A", "09", "0D", "by-hand"], ["out-y", "v1", "0B"]]
    first, second = (
        {"Contents": [{"Key": f"{OUTPUT}/{name}"} for name in names]} for names in pages
    )
    token = {"ContinuationToken": "next"}
    more = {"IsTruncated": True, "NextContinuationToken": "next"}
    calls = [
        s3_calls.Call("ListObjectsV2", listing, first | more),
        output("0A", "1", f"{OUTPUT}/0A"),
        delete("1", f"{OUTPUT}/0A"),
        output("09", "2", f"{OUTPUT}/09", source_bucket="other"),
        output("0D", "3", f"{OUTPUT}/0D"),  # of a newer event
        output("", "4", f"{OUTPUT}/by-hand"),
        s3_calls.Call("ListObjectsV2", listing | token, second | {"IsTruncated": False}),
        output("0A", "5", f"{OUTPUT}/out-y"),  # of a key in a folder of the output's name
        output("0B", "6", f"{OUTPUT}/v1", source_version_id="v1"),
        output("0B", "7", OWN),
        delete("7", OWN),
    ]
    answered = answer(deleted(), *calls, fence="each")
    assert (answered["outcome"], answered["output_key"]) == ("Processed", f"{OUTPUT}/0C")


# None


def test_without_a_fence_the_output_names_the_content_read() -> None:
    written = write("C", source_etag="c", is_fenced=False)
    calls = read("C", None, ETag='"c"'), written
    answered = answer(created(), *calls, fence="none")
    assert (answered["outcome"], answered["output_key"]) == ("Processed", OUTPUT)
