"""What an audit compares, and the event of a repair."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import boto3
import pytest
from moto import mock_aws

from audit_keys.comparing import Keeps, Reading, Subject, Verdict, compare, judge
from audit_keys.reading import Reader, Scope, subject_of
from audit_keys.repairing import known_sequencer, next_sequencer, repair_event, repaired_at
from inorder_fence import ObjectEvent
from inorder_fence.fenced_output import OutputState, compare_sequencers
from tests.support.events import SEQUENCER

NOTHING = OutputState()
SOURCE = ObjectEvent("input", "x.png", "", "e")
VERSION = ObjectEvent("input", "x.png", "", "e", "v1")


def made(sequencer: str = SEQUENCER, etag: str = "e", version: str = "") -> OutputState:
    """Give an output as the fence has written it."""
    named = {"source-version-id": version} if version else {}
    return OutputState('"o"', {"sequencer": sequencer, "source-etag": etag, **named})


def verdict_of(
    source: ObjectEvent | None, output: OutputState, keeps: Keeps, **record: str
) -> Verdict:
    reading = Reading(Subject("x.png"), record, output, source)
    return judge(reading, keeps, handles_deletions=True)


@pytest.mark.parametrize(
    ("source", "output", "keeps", "expected"),
    [
        (SOURCE, made(), "newest", "right"),
        (SOURCE, made(etag="other"), "newest", "stale"),
        (SOURCE, made(etag="other"), "first", "right"),
        (SOURCE, NOTHING, "newest", "missing"),
        (None, made(), "newest", "orphaned"),
        (None, NOTHING, "newest", "right"),
        (SOURCE, OutputState('"o"', {}), "newest", "foreign"),
        (None, OutputState('"o"', {}), "newest", "foreign"),
        (VERSION, made(), "newest", "stale"),
        (VERSION, made(version="v1"), "each", "right"),
        (VERSION, made(version="v2"), "newest", "stale"),
        (SOURCE, made(version="null"), "newest", "right"),
    ],
)
def test_an_output_is_compared_with_its_source(
    source: ObjectEvent | None, output: OutputState, keeps: Keeps, expected: str
) -> None:
    assert verdict_of(source, output, keeps) == expected
    assert verdict_of(source, output, keeps, status="DONE", sequencer=SEQUENCER) == expected
    waiting = "waiting" if expected in {"missing", "stale", "orphaned"} else expected
    assert verdict_of(source, output, keeps, status="IN_PROGRESS") == waiting
    assert verdict_of(source, output, keeps, status="FAILED", lock_token="t") == waiting
    assert verdict_of(source, output, keeps, oldest_waiting=SEQUENCER) == waiting


def test_an_output_without_a_source_is_right_if_deletions_are_not_handled() -> None:
    assert compare(None, made(), "newest", handles_deletions=False) is Verdict.RIGHT


REPAIR = next_sequencer("0B", 5, "e")
FORGED = ("Z" * len(REPAIR), "F" * len(REPAIR))  # of no time, and of one after the year 9999


@pytest.mark.parametrize("known", ["", "0A", SEQUENCER, SEQUENCER * 2, REPAIR, *FORGED])
def test_a_repair_is_newer_than_what_is_known_and_older_than_what_comes(known: str) -> None:
    repairs = [next_sequencer(known, time, etag) for time, etag in ((1, "e"), (1, "f"), (2, ""))]
    later = known[:-1] + chr(ord(known[-1]) + 1) if known else "00"
    for repair in repairs:
        assert compare_sequencers(repair, known) == 1
        assert repair > known  # DynamoDB compares without padding
    if len(known) < len(repairs[0]):
        assert all(compare_sequencers(later + "1", repair) == 1 for repair in repairs)
    assert len(set(repairs)) == 3
    again = next_sequencer(repairs[-1], 1, "e")  # by a clock that is behind
    assert compare_sequencers(again, repairs[-1]) == 1


@pytest.mark.parametrize(
    ("source", "record", "output", "expected"),
    [
        (SOURCE, "0A", made("0B"), "0B"),
        (SOURCE, "0C", made("0B"), "0C"),
        (SOURCE, "", NOTHING, ""),
        (None, "0A", made("0B"), "0B"),
        (VERSION, "0A", made("0B", version="v1"), "0A"),
        (SOURCE, "0A", made("0B", version="null"), "0A"),
    ],
)
def test_the_highest_sequencer_that_compares_is_the_known_one(
    source: ObjectEvent | None, record: str, output: OutputState, expected: str
) -> None:
    reading = Reading(Subject("x.png"), {"sequencer": record}, output, source)
    assert known_sequencer(reading) == expected


@pytest.mark.parametrize(
    ("source", "subject", "kind", "described"),
    [
        (SOURCE, Subject("x.png"), "Object Created", {"etag": "e"}),
        (VERSION, Subject("x.png"), "Object Created", {"etag": "e", "version-id": "v1"}),
        (None, Subject("x.png"), "Object Deleted", {}),
        (None, Subject("x.png", "v1"), "Object Deleted", {"version-id": "v1"}),
    ],
)
def test_the_event_of_a_repair_says_what_is_there_and_when_it_was_made(
    source: ObjectEvent | None, subject: Subject, kind: str, described: dict[str, str]
) -> None:
    now = datetime(2026, 11, 25, 1, 2, 3, 4000, UTC)
    event = repair_event("input", Reading(subject, {}, NOTHING, source), now)
    found = event["detail"]["object"]
    sequencer = found["sequencer"]
    assert ObjectEvent.from_event(event).sequencer == sequencer
    assert (event["source"], event["detail-type"]) == ("inorder.repair", kind)
    assert found == {"key": "x.png", "sequencer": sequencer} | described
    assert repaired_at(sequencer) == now
    assert [repaired_at(each) for each in (SEQUENCER, *FORGED, None)] == [None] * 4


@pytest.fixture
def s3() -> Iterator[Any]:
    with mock_aws():
        client = boto3.client("s3")
        for bucket in ("input", "output"):
            client.create_bucket(Bucket=bucket)
        yield client


def reader(s3: Any, keeps: Keeps, **more: Any) -> Reader:
    return Reader(s3, None, Scope("input", "output", "", keeps, handles_deletions=True, **more))


def write(s3: Any, key: str, etag: str, version: str = "") -> None:
    metadata = dict(made("0A", etag, version).metadata)
    s3.put_object(Bucket="output", Key=key, Body=b"o", Metadata=metadata)


def found_by(reader: Reader, prefix: str = "") -> dict[Subject, Verdict]:
    """Judge all subjects, and check that those that look right are right."""
    sources = [source for page in reader.sources(prefix) for source in page]
    subjects = {Subject(each.key, each.version_id) for each in sources}
    subjects |= {each for page in reader.outputs(prefix) for each in page}
    found = {}
    for subject in subjects:
        reading = reader.read(subject)
        assert reading
        found[subject] = judge(reading, reader.scope.keeps, handles_deletions=True)
    for each in sources:
        right = found[Subject(each.key, each.version_id)] is Verdict.RIGHT
        assert reader.is_right(each) == right
    return found


def test_only_keys_that_the_stack_processes_and_the_prefix_names_are_read(s3: Any) -> None:
    for key in ("a/1.png", "a/2.txt", "a/b/3.png", "b/4.png", "a/bc.png"):
        s3.put_object(Bucket="input", Key=key, Body=key)
        write(s3, "{}/out-gone-{}".format(*key.rsplit("/", 1)), "e")
    s3.put_object(Bucket="output", Key="a/no-output.png", Body=b"x")
    found = found_by(reader(s3, "newest", key_prefix="a/", key_suffix=".png"), "a/b")
    missing, orphaned = Verdict.MISSING, Verdict.ORPHANED
    assert found == {
        **dict.fromkeys(map(Subject, ("a/b/3.png", "a/bc.png")), missing),
        Subject("a/b/gone-3.png"): orphaned,
    }


def test_in_a_versioned_bucket_the_output_is_of_the_current_version(s3: Any) -> None:
    s3.put_bucket_versioning(Bucket="input", VersioningConfiguration={"Status": "Enabled"})
    etag, versions = "", list[str]()
    for _ in range(2):
        answer = s3.put_object(Bucket="input", Key="x.png", Body=b"same")
        etag, versions = answer["ETag"].strip('"'), [*versions, answer["VersionId"]]
    for version, expected in zip(versions, (Verdict.STALE, Verdict.RIGHT), strict=True):
        write(s3, "out-x.png", etag, version)
        assert found_by(reader(s3, "newest")) == {Subject("x.png"): expected}
    s3.delete_object(Bucket="input", Key="x.png")
    assert found_by(reader(s3, "newest")) == {Subject("x.png"): Verdict.ORPHANED}


def test_each_version_has_an_output_and_what_has_no_version_does_not_compare(s3: Any) -> None:
    s3.put_object(Bucket="input", Key="x.png", Body=b"before versions")
    write(s3, f"out-x.png/{SEQUENCER}", "e")
    s3.put_bucket_versioning(Bucket="input", VersioningConfiguration={"Status": "Enabled"})
    answers = [s3.put_object(Bucket="input", Key="x.png", Body=b"v") for _ in range(4)]
    right, missing, orphaned, foreign = (each["VersionId"] for each in answers)
    etag = answers[0]["ETag"].strip('"')
    for version in (right, orphaned):
        write(s3, f"out-x.png/{version}", etag, version)
    s3.delete_object(Bucket="input", Key="x.png", VersionId=orphaned)
    s3.put_object(Bucket="output", Key=f"out-x.png/{foreign}", Body=b"by hand")
    assert found_by(reader(s3, "each")) == {
        Subject("x.png", right): Verdict.RIGHT,
        Subject("x.png", missing): Verdict.MISSING,
        Subject("x.png", orphaned): Verdict.ORPHANED,
        Subject("x.png", foreign): Verdict.FOREIGN,
        **dict.fromkeys((Subject("x.png"), Subject("x.png", SEQUENCER)), Verdict.NOT_COMPARABLE),
    }


def test_a_key_whose_source_changes_each_time_is_not_judged(s3: Any) -> None:
    changing = reader(s3, "newest")
    head = s3.head_object
    s3.put_object(Bucket="input", Key="x.png", Body=b"0")

    def head_object(**named: Any) -> Any:
        answer = head(**named)
        if named["Bucket"] == "input":
            s3.put_object(Bucket="input", Key="x.png", Body=answer["ETag"])
        return answer

    s3.head_object = head_object
    assert changing.read(Subject("x.png")) is None


@pytest.mark.parametrize(
    ("key", "keeps", "expected"),
    [
        ("a/out-x.png", "newest", Subject("a/x.png")),
        ("out-out-x", "newest", Subject("out-x")),
        ("a/x.png", "newest", None),
        ("a/out-x.png/v1", "newest", None),
        ("a/out-x.png/v1", "each", Subject("a/x.png", "v1")),
        ("a/out-x.png", "each", None),
    ],
)
def test_an_outputs_key_names_its_subject(key: str, keeps: Keeps, expected: Subject | None) -> None:
    assert subject_of(key, keeps) == expected
