"""The steps of the fence: which calls of S3 it makes for an event, and in which order.

The model checker searches all orders of the calls of several writers, and stories (tests/policies)
happen on each engine.
"""

from typing import Any

import pytest

from inorder_fence.fenced_output import ATTEMPTS, OutputContended
from inorder_fence.object_event import REPAIR_SOURCE
from tests.unit.s3_calls import (
    OF_VERSION,
    OUTPUT,
    OWN,
    VERSION_OUTPUT,
    Call,
    Case,
    answer,
    created,
    delete,
    deleted,
    ends_as,
    fails,
    no_output,
    no_source,
    output,
    overtaken,
    processed,
    read,
    source,
    superseded,
    write,
)


def conflict(call: Call) -> Call:
    return fails(call, 409, "ConditionalRequestConflict")


def repaired(version: str) -> Any:
    return created(version=version) | {"source": REPAIR_SOURCE}


def made_of(etag: str, version: str, own_etag: str = "1", sequencer: str = "0B") -> Call:
    """Find an output that was made of a version."""
    return output(sequencer, own_etag, source_etag=etag, source_version_id=version)


NEWEST = {
    # A creation
    "a first output is checked": processed(created(), no_output(), read(), write(), source()),
    "an older output is replaced without a check": processed(
        created(), output("0A", source_bucket="input", source_etag="a"), read(), write(etag="1")
    ),
    "a newer output is left unread": superseded(created("0A", etag="a"), output("0B")),
    "a longer sequencer is older": superseded(created("0A10"), output("0B")),
    "a shorter sequencer is newer": processed(created(), output("0A10"), read(), write(etag="1")),
    "an output's sequencer has zeros more": processed(created("0B"), output("0B00"), source()),
    "an event's sequencer has zeros more": processed(created("0B00"), output("0B"), source()),
    "a retry removes the output of an unchecked attempt": superseded(
        created(),
        *(output("0B", "2"), no_source()),
        *(output("0B", "2"), no_source(), delete("2"), no_source()),
    ),
    "an overwritten source has no output": superseded(created(), no_output(), overtaken(read())),
    "a newer output that comes before the write is left": superseded(
        created(), output("0A"), read(), overtaken(write(etag="1")), output("0C", "3")
    ),
    "a write that meets another one is tried again": processed(
        created(),
        *(no_output(), read(), conflict(write())),
        *(no_output(), read(), write(), source()),
    ),
    "an output deleted before the write stays deleted": superseded(
        created(),
        *(output("0A"), read(), fails(write(etag="1"), 404, "NoSuchKey")),
        *(no_output(), fails(read(), 404, "NoSuchKey")),
    ),
    "after a lost answer, the write finds its own output": processed(
        created(), no_output(), read(), overtaken(write()), output("0B"), source()
    ),
    "the check leaves a newer upload to its own event": processed(
        created(), no_output(), read(), write(), source("c")
    ),
    "nothing is checked without deletions": processed(
        created(), no_output(), read(), write(), handles_deletions=False
    ),
    # A deletion
    "after a deletion, the source is checked again": processed(
        deleted(), output("0B"), no_source(), delete("1"), no_source()
    ),
    "a deletion without an output does nothing": processed(deleted(), no_output(), no_source()),
    "a deletion leaves a newer source's output": superseded(deleted(), output("0B"), source("d")),
    "a deletion leaves a newer output that comes before it": superseded(
        deleted(),
        *(output("0B"), no_source(), overtaken(delete("1"))),
        *(output("0D", "2"), source("d")),
    ),
    "a source that returns after a deletion supersedes it": superseded(
        deleted(),
        *(output("0B"), no_source(), delete("1"), source("d")),
        *(no_output(), source("d")),
    ),
}

VERSIONS = {
    "a version replaces another one's output, whatever their sequencers": processed(
        created("0A", version="v2"),
        made_of("a", "v1"),
        read(VersionId="v2"),
        write(etag="1", sequencer="0A", version="v2"),
        source("b", "v2"),
    ),
    "the output of the same version is only checked": processed(
        created(version="v2"), made_of("b", "v2"), source("b", "v2")
    ),
    "the output of the same repair is only checked": processed(
        repaired("v2"), made_of("b", "v2"), source("b", "v2")
    ),
    "a repair replaces the output of the same version": processed(
        repaired("v2"),
        made_of("b", "v2", sequencer="0A"),
        read(VersionId="v2"),
        write(etag="1", version="v2"),
    ),
    "another version with the same content supersedes an event": superseded(
        created(version="v1"), no_output(), read(VersionId="v2")
    ),
    "the check finds a later version and makes its output": superseded(
        created(version="v1"),
        *(no_output(), read(VersionId="v1"), write(version="v1"), source("c", "v2")),
        *(made_of("b", "v1"), source("c", "v2"), read("C", "c", VersionId="v2")),
        *(write("C", "1", source_etag="c", version="v2"), source("c", "v2")),
    ),
    "deleting a version writes the output of the previous one": processed(
        deleted(version="v2"),
        *(made_of("b", "v2", "2"), source("a", "v1"), read("A", "a", VersionId="v1")),
        *(write("A", "2", sequencer="0C", source_etag="a", version="v1"), source("a", "v1")),
    ),
    # Its own event is rejected; this one was right, and nobody needs to look at it.
    "a later version without an output supersedes the earlier one": superseded(
        created(version="v1"),
        *(no_output(), read(VersionId="v1"), write(version="v1"), source("c", "v2")),
        *(made_of("b", "v1", "9"), source("c", "v2"), read("bad", "c", VersionId="v2")),
        *(delete("9"), source("c", "v2")),
    ),
    # The deletion is rejected, so that somebody learns why there is no output.
    "a deleted version's output goes, though the current one has none": ends_as(
        "Bad",
        deleted(version="v2"),
        *(made_of("b", "v2", "2"), source("a", "v1"), read("bad", "a", VersionId="v1")),
        *(delete("2"), source("a", "v1")),
    ),
    "a deleted version had no output, and the current one has none": ends_as(
        "Bad",
        deleted(version="v2"),
        *(no_output(), source("a", "v1"), read("bad", "a", VersionId="v1")),
    ),
    # Version 2 was deleted after it was read; its deletion may have found the removed output.
    "after removing an output, the current version is checked": processed(
        deleted(version="v3"),
        *(made_of("c", "v3", "3"), source("b", "v2"), read("bad", "b", VersionId="v2")),
        *(delete("3"), source("a", "v1")),
        *(no_output(), source("a", "v1"), read("A", "a", VersionId="v1")),
        *(write("A", sequencer="0C", source_etag="a", version="v1"), source("a", "v1")),
    ),
    "a deleted version leaves the output of the current one": superseded(
        deleted(version="v2"), made_of("a", "v1", sequencer="0A"), source("a", "v1")
    ),
    "the null version was overwritten since its output was written": processed(
        deleted(version="v2"),
        *(made_of("a", "null", "2"), source("c", "null"), read("C", "c", VersionId="null")),
        *(write("C", "2", sequencer="0C", source_etag="c", version="null"), source("c", "null")),
    ),
    "the check finds that the null version is overwritten": superseded(
        created(),
        *(no_output(), read(VersionId="null"), write(), source("c", "null")),
        *(output("0B", source_etag="b"), source("c", "null"), read("C", "c", VersionId="null")),
        *(write("C", "1", source_etag="c", version="null"), source("c", "null")),
    ),
    # That output's sequencer is a deletion's, so that nothing compares with it.
    "an upload of the null version replaces its output": processed(
        created(),
        made_of("a", "null", "3", sequencer="0C"),
        read(VersionId="null"),
        write(etag="3"),
        source("b", "null"),
    ),
}

EACH = {
    "nothing is checked without deletions, either": processed(
        *(created(), no_output(OWN), read(version="null"), write(key=OWN)),
        handles_deletions=False,
    ),
    "another attempt at the same event has written first": processed(
        created(),
        *(no_output(OWN), read(version="null"), overtaken(write(key=OWN))),
        *(output("0B", key=OWN), source(version="null")),
    ),
    "a delete marker has no output": superseded(
        created(), no_output(OWN), fails(read(version="null"), 405, "MethodNotAllowed")
    ),
    "a content that is lost rejects its event": ends_as(
        "SourceChanged", created(), no_output(OWN), overtaken(read(version="null"))
    ),
    "a version deleted before the check loses its output": superseded(
        created(version="v1"),
        *(no_output(OF_VERSION), read(version="v1", VersionId="v1")),
        *(write(key=OF_VERSION, version="v1"), no_source("v1"), delete("9", OF_VERSION)),
    ),
    "another writer may delete a deleted version's output": superseded(
        created(version="v1"),
        *(VERSION_OUTPUT, no_source("v1"), conflict(delete("1", OF_VERSION))),
        *(no_output(OF_VERSION), fails(read(version="v1"), 404, "NoSuchVersion")),
    ),
    "a version's deletion deletes its output": processed(
        deleted(version="v1"), VERSION_OUTPUT, delete("1", OF_VERSION)
    ),
}


@pytest.mark.parametrize("case", NEWEST.values(), ids=NEWEST)
def test_the_newest_event_decides_the_output(case: Case) -> None:
    case.check()


@pytest.mark.parametrize("case", VERSIONS.values(), ids=VERSIONS)
def test_the_current_version_has_the_output(case: Case) -> None:
    case.check()


@pytest.mark.parametrize("case", EACH.values(), ids=EACH)
def test_each_event_has_an_output_until_its_source_is_deleted(case: Case) -> None:
    case.check(fence="each")


def test_five_attempts_that_meet_another_writer_are_a_fault() -> None:
    assert ATTEMPTS == 5
    with pytest.raises(OutputContended):
        answer(created(), *[no_output(), read(), overtaken(write())] * 5)
    calls = [VERSION_OUTPUT, overtaken(delete("1", OF_VERSION))] * 5
    with pytest.raises(OutputContended):
        answer(deleted(version="v1"), *calls, fence="each")


@pytest.mark.parametrize(("fence", "key"), [("newest", OUTPUT), ("each", f"{OUTPUT}/0C")])
def test_where_deletions_are_not_handled_a_deletion_asks_for_nothing(fence: str, key: str) -> None:
    answered = answer(deleted(), fence=fence, handles_deletions=False)
    assert (answered["outcome"], answered["output_key"]) == ("Superseded", key)


def test_each_event_has_an_output_of_its_own() -> None:
    calls = no_output(OWN), read(version="null"), write(key=OWN), source(version="null")
    answered = answer(created(), *calls, fence="each")
    assert (answered["outcome"], answered["output_key"]) == ("Processed", OWN)


def test_a_deletion_without_versions_deletes_its_keys_older_outputs() -> None:
    listing = {"Bucket": "output", "Prefix": f"{OUTPUT}/", "Delimiter": "/"}
    pages = [["0A", "09", "0D", "by-hand"], ["out-y", "v1", "0B"]]
    first, second = (
        {"Contents": [{"Key": f"{OUTPUT}/{name}"} for name in names]} for names in pages
    )
    token = {"ContinuationToken": "next"}
    more = {"IsTruncated": True, "NextContinuationToken": "next"}
    calls = [
        Call("ListObjectsV2", listing, first | more),
        output("0A", "1", f"{OUTPUT}/0A"),
        delete("1", f"{OUTPUT}/0A"),
        output("09", "2", f"{OUTPUT}/09", source_bucket="other"),
        output("0D", "3", f"{OUTPUT}/0D"),  # of a newer event
        output("", "4", f"{OUTPUT}/by-hand"),
        Call("ListObjectsV2", listing | token, second | {"IsTruncated": False}),
        output("0A", "5", f"{OUTPUT}/out-y"),  # of a key in a folder of the output's name
        output("0B", "6", f"{OUTPUT}/v1", source_version_id="v1"),
        output("0B", "7", OWN),
        delete("7", OWN),
    ]
    answered = answer(deleted(), *calls, fence="each")
    assert (answered["outcome"], answered["output_key"]) == ("Processed", f"{OUTPUT}/0C")


def test_without_a_fence_the_output_names_the_content_read() -> None:
    written = write("C", source_etag="c", is_fenced=False)
    answered = answer(created(), read("C", None, ETag='"c"'), written, fence="none")
    assert (answered["outcome"], answered["output_key"]) == ("Processed", OUTPUT)
