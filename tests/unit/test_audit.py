"""What an audit compares, and the event of a repair."""

import json
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count, groupby, pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import boto3
import pytest
from botocore.exceptions import ClientError
from moto import mock_aws

from inorder.asl.definition import EXPRESS_SECONDS
from inorder.audit import audit as auditing
from inorder.audit.audit import SETTLED, Audit, Progress
from inorder.audit.comparing import (
    ACTS_WITHIN,
    Finding,
    Keeps,
    Reading,
    Scope,
    Subject,
    Verdict,
    judge,
)
from inorder.audit.listing import Listed, listing
from inorder.audit.reading import RECORDS, Reader
from inorder.audit.repairing import known_sequencer, next_sequencer, repair_event, repaired_at
from inorder.aws import parked
from inorder.aws.stack import session_with_times_as_text
from inorder.commands import audit as command
from inorder.errors import Failure
from inorder_fence import ObjectEvent
from inorder_fence.fenced_output import OutputState, compare_sequencers
from inorder_fence.stuck import DEAD_AFTER
from retry_events.retries import LONGEST_SECONDS
from tests.proof.simulation.cloud import Cloud, Settings
from tests.support.commands import run
from tests.support.events import SEQUENCER, created, deleted
from tests.support.in_process import KEY_TABLE, answered
from tests.support.replacing import replaced
from tests.support.stacks import stack_with
from tests.unit.conftest import new_queue

Texts = dict[str, str]
NOTHING = OutputState()
NOW = datetime(2026, 11, 25, 12, tzinfo=UTC)
SCOPE = Scope("input", "output", "keys", "newest", handles_deletions=True)
X = Subject("x.png")
PAUSE = "The stack is paused: 1 event waits."
ETAG = "9dd4e461268c8034f5c8564e155c67a6"  # of the content "x"
SOURCE = ObjectEvent("input", "x.png", "", "e")
VERSION = ObjectEvent("input", "x.png", "", "e", "v1")


def written(
    sequencer: str = SEQUENCER, etag: str = "e", version: str = "", bucket: str = "input"
) -> OutputState:
    """Give an output as the fence has written it."""
    named = {"source-version-id": version} if version else {}
    named["source-bucket"] = bucket
    return OutputState('"o"', {"sequencer": sequencer, "source-etag": etag, **named})


def verdict_of(reading: Reading, **scope: Any) -> Verdict:
    return judge(reading, replace(SCOPE, **scope), NOW)


def ago(minutes: float) -> str:
    """Write a time as a state machine writes it."""
    return replaced((NOW - timedelta(minutes=minutes)).isoformat(), "+00:00", "Z")


def in_days(days: float) -> str:
    """Write a time as DynamoDB's expiry has it."""
    return str(int((NOW + timedelta(days=days)).timestamp()))


@pytest.mark.parametrize(
    ("source", "output", "keeps", "expected"),
    [
        (SOURCE, written(), "newest", "right"),
        (SOURCE, written(etag="other"), "newest", "stale"),
        (SOURCE, written(etag="other"), "first", "right"),
        (SOURCE, NOTHING, "newest", "missing"),
        (None, written(), "newest", "orphaned"),
        (None, NOTHING, "newest", "right"),
        (SOURCE, OutputState('"o"', {}), "newest", "foreign"),
        (None, OutputState('"o"', {}), "newest", "foreign"),
        (SOURCE, written("Z" * 52), "newest", "foreign"),
        (SOURCE, written("0" * 129), "newest", "foreign"),
        (SOURCE, written(bucket="other"), "newest", "foreign"),
        (None, written(bucket="other"), "newest", "foreign"),
        (VERSION, written(), "newest", "stale"),
        (VERSION, written(version="v1"), "each", "right"),
        (VERSION, written(version="v2"), "newest", "stale"),
        (SOURCE, written(version="null"), "newest", "right"),
    ],
)
def test_an_output_is_compared_with_its_source(
    source: ObjectEvent | None, output: OutputState, keeps: Keeps, expected: str
) -> None:
    done = {"status": "DONE", "sequencer": SEQUENCER}
    for record in ({}, done):
        assert verdict_of(Reading(X, record, output, source), keeps=keeps) == expected
    # What an event would mend waits for it.
    waiting = "waiting" if expected in {"missing", "stale", "orphaned"} else expected
    in_progress = Reading(X, {"in_progress_since": ago(1)}, output, source)
    assert verdict_of(in_progress, keeps=keeps) == waiting
    assert verdict_of(Reading(X, {}, output, source), keeps=keeps, pause=PAUSE) == waiting


def test_without_deletions_an_output_without_a_source_is_right() -> None:
    assert verdict_of(Reading(X, output=written()), handles_deletions=False) == "right"


HELD = {"status": "IN_PROGRESS", "lock_token": "t"}


@pytest.mark.parametrize(
    ("record", "retries", "expected"),
    [
        # Nothing clears the status and the lock of an execution that has died.
        (HELD, {}, "missing"),
        ({"status": "FAILED", "lock_token": "t"}, {}, "missing"),
        (HELD | {"in_progress_since": ago(22)}, {}, "waiting"),
        (HELD | {"in_progress_since": ago(24)}, {}, "missing"),
        (HELD | {"in_progress_since": "no time"}, {}, "missing"),
        (HELD | {"in_progress_since": ago(-9999)}, {}, "missing"),
        # The record of the retries has the time of the last start.
        ({}, {"status": "RETRYING", "at": in_days(-0.01)}, "waiting"),
        ({}, {"status": "PARKING", "at": in_days(-0.01)}, "waiting"),
        ({}, {"status": "RETRYING", "at": in_days(-0.02)}, "missing"),
        ({}, {"status": "RETRYING", "at": "9" * 99}, "missing"),
    ],
)
def test_only_what_will_be_acted_on_waits(record: Texts, retries: Texts, expected: str) -> None:
    assert verdict_of(Reading(X, record, NOTHING, SOURCE, retries=retries)) == expected


def test_an_audit_waits_for_the_times_of_sweeps_and_retries() -> None:
    """An execution, the longest delay of a retry, and three sweeps."""
    retried = timedelta(seconds=EXPRESS_SECONDS + LONGEST_SECONDS)
    assert ACTS_WITHIN == retried + timedelta(minutes=3) > DEAD_AFTER + timedelta(minutes=3)


FAILED = {"status": "FAILED", "sequencer": SEQUENCER, "event": json.dumps(created(etag="e"))}
DELETED = FAILED | {"event": json.dumps(deleted())}
SKIPPED = FAILED | {"status": "DONE", "outcome": "Skipped"}


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        (SKIPPED, "right"),
        (SKIPPED | {"outcome": "Processed"}, "missing"),
        (SKIPPED | {"status": "FAILED"}, "missing"),
        # The last event that ended so was of another content.
        (SKIPPED | {"event": json.dumps(created())}, "missing"),
    ],
)
def test_no_output_is_right_after_an_outcome_without_one(record: Texts, expected: str) -> None:
    reading = Reading(X, record, NOTHING, SOURCE)
    assert verdict_of(reading, without_output=frozenset({"Skipped"})) == expected
    assert verdict_of(reading) == "missing"
    stale = replace(reading, output=written(etag="other"))
    assert verdict_of(stale, without_output=frozenset({"Skipped"})) == "stale"


@pytest.mark.parametrize(
    ("record", "retries", "expected"),
    [
        (FAILED | {"expires_at": in_days(1)}, {}, "parked"),
        (FAILED | {"expires_at": in_days(-1)}, {}, "missing"),  # DynamoDB deletes it some day
        (FAILED | {"expires_at": in_days(15)}, {}, "parked"),
        (FAILED | {"expires_at": in_days(16)}, {}, "missing"),  # says not when it failed
        (FAILED, {"status": "PARKED", "expires_at": in_days(1)}, "parked"),
        (FAILED, {"status": "PARKED", "at": in_days(0), "expires_at": in_days(-1)}, "missing"),
        (FAILED, {"status": "RETRYING", "expires_at": in_days(1)}, "missing"),
        # The event of the object as it is now never came: the last one that came has failed.
        (FAILED | {"event": json.dumps(created()), "expires_at": in_days(1)}, {}, "missing"),
        (FAILED | {"event": "no event", "expires_at": in_days(1)}, {}, "missing"),
        (DELETED | {"expires_at": in_days(1)}, {}, "missing"),
    ],
)
def test_only_what_sqs_still_has_is_parked(record: Texts, retries: Texts, expected: str) -> None:
    reading = Reading(X, record, NOTHING, SOURCE, retries=retries)
    assert verdict_of(reading) == expected
    assert judge(reading, SCOPE, NOW, parked=True) is Verdict.PARKED  # the queue was read
    assert judge(reading, SCOPE, NOW, parked=False) is Verdict.MISSING
    if record["event"] == DELETED["event"]:
        assert verdict_of(replace(reading, source=None, output=written())) is Verdict.PARKED


REPAIR = next_sequencer("0B", 5, "e")
FORGED = ("Z" * len(REPAIR), "F" * len(REPAIR))  # of no time, and of one after the year 9999


@pytest.mark.parametrize("highest", ["", "0A", SEQUENCER, SEQUENCER * 2, REPAIR, *FORGED])
def test_a_repairs_sequencer_lies_between_known_and_later_ones(highest: str) -> None:
    repairs = [next_sequencer(highest, time, etag) for time, etag in ((1, "e"), (1, "f"), (2, ""))]
    later = highest[:-1] + chr(ord(highest[-1]) + 1) if highest else "00"
    for repair in repairs:
        assert compare_sequencers(repair, highest) == 1
        assert repair > highest  # DynamoDB compares without padding
    if len(highest) < len(repairs[0]):
        assert all(compare_sequencers(later + "1", repair) == 1 for repair in repairs)
    assert len(set(repairs)) == 3
    again = next_sequencer(repairs[-1], 1, "e")  # by a clock that is behind
    assert compare_sequencers(again, repairs[-1]) == 1


@pytest.mark.parametrize(
    ("source", "record", "output", "expected"),
    [
        (SOURCE, "0A", written("0B"), "0B"),
        (SOURCE, "0C", written("0B"), "0C"),
        (SOURCE, "", NOTHING, ""),
        (None, "0A", written("0B"), "0B"),
        (VERSION, "0A", written("0B", version="v1"), "0A"),
        (SOURCE, "0A", written("0B", version="null"), "0A"),
        (SOURCE, "0A", written("Z" * 52), "0A"),
        (SOURCE, "Z", NOTHING, ""),
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
def test_a_repairs_event_describes_the_object_and_holds_its_time(
    source: ObjectEvent | None, subject: Subject, kind: str, described: dict[str, str]
) -> None:
    now = datetime(2026, 11, 25, 1, 2, 3, 4000, UTC)
    event = repair_event(SCOPE, Reading(subject, {}, NOTHING, source), now)
    sequencer = ObjectEvent.from_event(event).sequencer
    assert (event["source"], event["detail-type"]) == ("inorder.repair", kind)
    assert event["detail"]["object"] == {"key": "x.png", "sequencer": sequencer} | described
    assert repaired_at(sequencer) == now
    assert [repaired_at(other) for other in (SEQUENCER, *FORGED, None)] == [None] * 4


def refuse(client: Any, status: int, code: str, parts: Sequence[str]) -> None:
    """Let S3 or DynamoDB refuse the calls whose URL has all these parts.

    S3's answer to HEAD has no body, and so no code.
    """

    def answer(params: dict[str, Any], model: Any, **_: Any) -> Any:
        if not all(part in params["url"] for part in parts):
            return None
        is_head = model.http["method"] == "HEAD"
        error = {"Code": str(status) if is_head else code, "Message": "by a test"}
        return answered(status, {"Error": error})

    client.meta.events.register_first("before-call", answer)


@pytest.fixture
def s3() -> Iterator[Any]:
    with mock_aws():
        client = boto3.client("s3")
        for bucket in ("input", "output"):
            client.create_bucket(Bucket=bucket)
        yield client


def reader(s3: Any, keeps: Keeps, **more: Any) -> Reader:
    return Reader(s3, lists(), None, replace(SCOPE, table="", keeps=keeps, **more))


def lists() -> Any:
    return session_with_times_as_text().client("s3")


def write(s3: Any, key: str, etag: str, version: str = "", sequencer: str = "0A") -> None:
    metadata = dict(written(sequencer, etag, version).metadata)
    s3.put_object(Bucket="output", Key=key, Body=b"o", Metadata=metadata)


def verdicts_of(reader: Reader, prefix: str = "") -> dict[Subject, Verdict]:
    """Judge all subjects, and check that those that look right are right."""
    with listing(reader.sources(prefix), reader.outputs(prefix), lambda _: None) as listed:
        pairs = [pair for page in listed.pairs() for pair in page]
        subjects = [pair.subject for pair in pairs]
        subjects += [subject for page in listed.outputs_alone() for subject in page]
    verdicts = {finding.subject: finding.verdict for finding in reader.find_all(subjects)}
    for pair in pairs:
        assert bool(reader.compared(pair)) == (verdicts[pair.subject] is Verdict.RIGHT)
    return verdicts


def test_an_audit_reads_only_the_stacks_keys_of_the_prefix(s3: Any) -> None:
    for key in ("a/1.png", "a/2.txt", "a/b/out-3.png", "b/4.png", "a/bc.png"):
        s3.put_object(Bucket="input", Key=key, Body=key)
        write(s3, "{}/out-gone-{}".format(*key.rsplit("/", 1)), "e")
    s3.put_object(Bucket="output", Key="a/b/no-out-put.png", Body=b"x")
    part = reader(s3, "newest", key_prefix="a/", key_suffix=".png")
    assert verdicts_of(part, "a/b") == {
        **dict.fromkeys(map(Subject, ("a/b/out-3.png", "a/bc.png")), Verdict.MISSING),
        Subject("a/b/gone-out-3.png"): Verdict.ORPHANED,
    }


@pytest.mark.parametrize("keeps", ["newest", "each"])
def test_an_audit_of_one_key_does_not_list_its_folder(s3: Any, keeps: Keeps) -> None:
    for key in ("a/out-1", "a/out-2", "a/1/out-x", "a/out-out-1", "a/out-1/v", "a/1/out-x/out-v"):
        write(s3, key, "e")
    read, asked = lists(), list[str]()
    read.meta.events.register(
        "provide-client-params.s3", lambda params, **_: asked.append(params["Prefix"])
    )
    reader = Reader(s3, read, None, replace(SCOPE, table="", keeps=keeps))

    def listed(prefix: str) -> list[Listed]:
        return sorted(entry for page in reader.outputs(prefix) for entry in page)

    everything = listed("")
    assert everything
    for prefix in ("a/", "a/o", "a/out-", "a/out-1", "a/1", "a/1/", "a/2"):
        assert listed(prefix) == [one for one in everything if one.key.startswith(prefix)], prefix
    asked.clear()
    listed("a/1")
    assert asked == ["a/out-1", "a/1"]


def test_in_versioned_buckets_the_current_version_has_the_output(s3: Any) -> None:
    s3.put_bucket_versioning(Bucket="input", VersioningConfiguration={"Status": "Enabled"})
    answers = [s3.put_object(Bucket="input", Key="x.png", Body=b"x") for _ in range(2)]
    for answer, expected in zip(answers, (Verdict.STALE, Verdict.RIGHT), strict=True):
        write(s3, "out-x.png", ETAG, answer["VersionId"])
        assert verdicts_of(reader(s3, "newest")) == {Subject("x.png"): expected}
    s3.delete_object(Bucket="input", Key="x.png")
    assert verdicts_of(reader(s3, "newest")) == {Subject("x.png"): Verdict.ORPHANED}


def test_an_audit_of_versions_skips_what_has_no_version(s3: Any) -> None:
    s3.put_object(Bucket="input", Key="x.png", Body=b"before versions")
    write(s3, f"out-x.png/{SEQUENCER}", "e")
    s3.put_bucket_versioning(Bucket="input", VersioningConfiguration={"Status": "Enabled"})
    answers = [s3.put_object(Bucket="input", Key="x.png", Body=b"x") for _ in range(4)]
    right, missing, orphaned, foreign = (answer["VersionId"] for answer in answers)
    for version in (right, orphaned):
        write(s3, f"out-x.png/{version}", ETAG, version)
    s3.delete_object(Bucket="input", Key="x.png", VersionId=orphaned)
    s3.put_object(Bucket="output", Key=f"out-x.png/{foreign}", Body=b"by hand")
    write(s3, "out-x.png/out-y.png", ETAG, "v1")  # latest-wins has written it for out-x.png/y.png
    assert verdicts_of(reader(s3, "each")) == {
        Subject("x.png", right): Verdict.RIGHT,
        Subject("x.png", missing): Verdict.MISSING,
        Subject("x.png", orphaned): Verdict.ORPHANED,
        Subject("x.png", foreign): Verdict.FOREIGN,
        **dict.fromkeys((Subject("x.png"), Subject("x.png", SEQUENCER)), Verdict.NOT_COMPARABLE),
    }


def test_a_key_whose_source_changes_each_time_is_not_judged(s3: Any) -> None:
    bodies = count()

    def change(**_: Any) -> None:
        s3.put_object(Bucket="input", Key="x.png", Body=b"%d" % next(bodies))

    change()
    s3.meta.events.register("after-call.s3.HeadObject", change)
    finding = reader(s3, "newest").find(X)
    assert (finding.verdict, finding.reading) == (Verdict.WAITING, None)


# What S3 refuses, and what others have forged


class Stack:
    """A stack in moto, as the command finds it, and its audits."""

    def __init__(self, s3: Any, file: Path, patch: pytest.MonkeyPatch) -> None:
        self.file, self.patch = file, patch  # the file has the list of what was right
        self.s3, self.dynamodb, self.sqs = s3, boto3.client("dynamodb"), boto3.client("sqs")
        self.table = boto3.resource("dynamodb").create_table(TableName="keys", **KEY_TABLE)
        queues: Any = {
            f"{name}_events_queue_url": new_queue(name) for name in ("parked", "waiting")
        }
        described = replace(stack_with(("input", "output")), **queues)
        self.parameters: Any = described.parameters
        clients = {"s3": s3, "dynamodb": self.dynamodb, "sqs": self.sqs}
        clients["cloudwatch"] = boto3.client("cloudwatch")
        states = SimpleNamespace(start_sync_execution=self._start)
        self.aws: Any = SimpleNamespace(
            stack=described, client=clients.__getitem__, lists=lists(), synchronous=states
        )
        self.started = list[str]()
        self.interrupted_at = 0

    def _start(self, **request: str) -> dict[str, str]:
        self.started.append(json.loads(request["input"])["detail"]["object"]["key"])
        if len(self.started) == self.interrupted_at:
            raise KeyboardInterrupt
        return {"status": "SUCCEEDED", "output": '{"outcome": "Processed"}'}

    def audit(self) -> Audit:
        return Audit(self.aws, "")

    def put(self, *keys: str, body: bytes = b"x") -> None:
        for key in keys:
            self.s3.put_object(Bucket="input", Key=key, Body=body)

    def record(self, record_id: str, **texts: str) -> None:
        self.table.put_item(Item={"id": record_id, **texts})

    def fail(self, key: str, record_id: str = "") -> None:
        """Write the record of an event that is parked."""
        texts = {"status": "FAILED", "sequencer": "0A", "expires_at": str(int(time.time()) + 60)}
        event = json.dumps(created(key, etag=ETAG))
        self.record(record_id or f"input/{key}", event=event, **texts)

    def record_ids(self) -> list[str]:
        return sorted(str(item["id"]) for item in self.table.scan()["Items"])

    def park(self, *events: Any) -> None:
        for event in events:
            body = json.dumps({"event": event, "reason": "Because."})
            self.sqs.send_message(QueueUrl=self.aws.stack.parked_events_queue_url, MessageBody=body)

    def let_wait(self) -> None:
        """Send an event that waits, as in a pause."""
        queue = self.aws.stack.waiting_events_queue_url
        self.sqs.send_message(QueueUrl=queue, MessageBody="{}")

    def asked(self, verdicts: dict[str, int]) -> set[str]:
        """Audit with a list of what was right, and give the outputs that S3 was asked about."""
        asked = set[str]()

        def ask(params: dict[str, Any], **_: Any) -> None:
            bucket, _slash, key = params["auth_path"].lstrip("/").partition("/")
            asked.update({key} if bucket == "output" else ())

        events = self.s3.meta.events
        events.register("before-call.s3.HeadObject", ask)
        try:
            report = Audit(self.aws, cache=self.file).run(grace=0)
        finally:
            events.unregister("before-call.s3.HeadObject", ask)
        assert +report.counts == verdicts
        return asked

    def verdicts(self) -> dict[str, str]:
        report = self.audit().run(grace=0)
        verdicts = verdict_by_key(report.findings)
        assert report.is_right is not bool({*verdicts.values()} - {"waiting"})
        return verdicts


def verdict_by_key(findings: Iterable[Finding]) -> dict[str, str]:
    return {finding.subject.key: str(finding.verdict) for finding in findings}


@pytest.fixture
def stack(s3: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stack:
    monkeypatch.setattr(parked, "RECEIVE_SECONDS", 0)
    return Stack(s3, tmp_path / "new" / "pairs.sqlite", monkeypatch)


ALL: tuple[str, ...] = ()  # parts of the URL: every call is refused


@pytest.mark.parametrize(
    ("service", "status", "code", "parts", "ends"),
    [
        ("s3", 400, "InvalidRequest", ("input", "bad.png"), ""),  # SSE-C
        ("s3", 403, "AccessDenied", ("input", "bad.png"), ""),
        ("s3", 400, "InvalidRequest", ("output", "bad.png"), ""),
        ("s3", 403, "AccessDenied", ("output", "bad.png"), ""),
        ("dynamodb", 400, "ValidationException", ALL, ""),
        ("s3", 400, "ExpiredToken", ALL, "ExpiredToken"),
        ("s3", 403, "InvalidAccessKeyId", ALL, "InvalidAccessKeyId"),
        ("s3", 503, "SlowDown", ALL, "503"),
        ("dynamodb", 400, "ProvisionedThroughputExceededException", ALL, "Provisioned"),
    ],
)
def test_only_a_refusal_that_concerns_all_objects_ends_an_audit(
    stack: Stack, service: str, status: int, code: str, parts: Sequence[str], ends: str
) -> None:
    stack.put("bad.png")
    audit = stack.audit()
    refuse(stack.aws.client(service), status, code, parts)
    if ends:
        with pytest.raises(ClientError, match=ends):
            audit._reader.find(Subject("bad.png"))
        return
    [finding] = audit.run(grace=0).findings
    assert finding.verdict is Verdict.UNREADABLE
    assert finding.reason.endswith("It is neither compared nor repaired.")


def test_a_folder_of_s3s_console_is_counted_and_skipped(stack: Stack) -> None:
    stack.put("photos/", "empty", body=b"")
    stack.put("bytes/")
    write(stack.s3, "photos/out-", "e")
    report = stack.audit().run(grace=0, only_missing=True)
    assert +report.counts == {"skipped": 1, "missing": 2}
    assert stack.verdicts() == dict.fromkeys(("bytes/", "empty"), "missing")


def test_the_record_of_a_version_shows_its_parked_event(stack: Stack) -> None:
    stack.s3.put_bucket_versioning(Bucket="input", VersioningConfiguration={"Status": "Enabled"})
    version = stack.s3.put_object(Bucket="input", Key="x.png", Body=b"x")["VersionId"]
    read = Reader(stack.s3, lists(), stack.dynamodb, replace(SCOPE, table="keys", keeps="each"))
    assert verdicts_of(read) == {Subject("x.png", version): Verdict.MISSING}
    stack.fail("x.png", record_id=f"input#{version}/x.png")
    assert verdicts_of(read) == {Subject("x.png", version): Verdict.PARKED}


def test_the_queue_of_parked_events_decides_what_is_parked(stack: Stack) -> None:
    """An event that has been removed from it is lost, whatever its record says."""
    stack.put("parked", "removed")
    for key in ("parked", "removed"):
        stack.fail(key)
    stack.park(created("parked", etag=ETAG), created(["no key"]), deleted("removed"), None)
    findings = stack.audit().run(grace=0).findings
    assert {(finding.subject.key, finding.verdict, finding.reason) for finding in findings} == {
        ("parked", Verdict.PARKED, "Because."),
        ("removed", Verdict.MISSING, "There is no output."),
    }


def test_what_changes_between_two_readings_is_no_false_alarm(stack: Stack) -> None:
    stack.put("busy", "slow")
    bodies = count()

    def sleep(_: float) -> None:
        stack.put("busy", body=b"%d" % next(bodies))
        write(stack.s3, "out-slow", ETAG)

    stack.patch.setattr(time, "sleep", sleep)
    assert +stack.audit().run().counts == {"right": 1, "waiting": 1}


@pytest.mark.parametrize(
    ("age", "is_queued", "others", "waits"),
    [
        (3600, True, "", []),
        (0, True, "", [60]),  # an upload of the same content may have an event on its way
        (3600, False, "", [60]),  # it may just have been redriven
        (3600, True, "y", [60]),
    ],
)
def test_an_audit_does_not_wait_for_events_surely_parked(
    stack: Stack,
    monkeypatch: pytest.MonkeyPatch,
    age: int,
    is_queued: bool,
    others: str,
    waits: list[float],
) -> None:
    stack.put("x.png", *others)
    stack.fail("x.png")
    if is_queued:
        stack.park(created("x.png", etag=ETAG))
    waited, now = list[float](), datetime.now(UTC) + timedelta(seconds=age)
    monkeypatch.setattr(Reader, "clock", lambda _: now)
    monkeypatch.setattr(time, "sleep", waited.append)
    reads = Mock(wraps=parked.parked_events)
    monkeypatch.setattr(parked, "parked_events", reads)
    report = stack.audit().run(grace=60)
    assert +report.counts == Counter(
        ["parked" if is_queued else "missing", *["missing"] * len(others)]
    )
    assert (waited, reads.call_count) == (waits, 1 if is_queued else 2)


def test_a_repair_that_is_interrupted_starts_no_more_events(stack: Stack) -> None:
    stack.put(*map(str, range(9)))
    audit, stack.interrupted_at = stack.audit(), 3
    with pytest.raises(KeyboardInterrupt):
        list(audit.repair(audit.run(grace=0).findings, 1))
    assert len(stack.started) < 9


def test_a_forged_sequencer_keeps_no_other_key_from_its_repair(stack: Stack) -> None:
    stack.put("0.png", "1.png", "2.png", "3.png")
    for number in range(4):
        write(stack.s3, f"out-{number}.png", "old", sequencer="Z" * 52 if number == 1 else "0A")
    for name, sequencer in (("2", "test"), ("3", "F" * 129), ("0", "0A")):
        stack.record(f"input/{name}.png", sequencer=sequencer)
    audit = stack.audit()
    findings = audit.run(grace=0).findings
    stale = dict.fromkeys(("0.png", "2.png", "3.png"), "stale")
    assert verdict_by_key(findings) == stale | {"1.png": "foreign"}
    assert [outcome for _, outcome in audit.repair(findings, 1)] == ["Processed"] * 4
    assert stack.started == [finding.subject.key for finding in findings]
    assert stack.record_ids() == ["input/0.png"]  # no event would be newer than the others


def test_a_foreign_output_that_no_repair_mends_is_kept(stack: Stack) -> None:
    stack.put("x.png", "y.png")
    theirs = dict(written(bucket="other").metadata)  # the fence would let the repair be parked
    stack.s3.put_object(Bucket="output", Key="out-y.png", Body=b"o", Metadata=theirs)
    for key in ("out-x.png", "reports/out-of-stock.csv"):
        stack.s3.put_object(Bucket="output", Key=key, Body=b"by hand")
    audit = stack.audit()
    findings = audit.run(grace=0).findings
    ended = {finding.subject.key: outcome for finding, outcome in audit.repair(findings, 1)}
    left = dict.fromkeys(("reports/of-stock.csv", "y.png"), "Not Started")
    assert ended == left | {"x.png": "Processed"}
    stack.patch.setattr(command, "Connection", lambda _: stack.aws)
    options = ("--repair", "--foreign", "--yes", "--no-cache", "--grace", "0", "--json")
    repaired = run("audit", *options)
    assert "Repaired: 0 of 1." in repaired.stderr  # the execution has written nothing here
    lines = repaired.stdout.splitlines()
    verdicts = {line["key"]: line["verdict"] for line in map(json.loads, lines)}
    assert (repaired.exit_code, verdicts) == (3, dict.fromkeys(ended, "foreign"))
    assert stack.started == ["x.png"] * 2


def test_what_is_written_once_is_not_replaced(stack: Stack) -> None:
    stack.parameters["Policy"] = "every-version"
    stack.s3.put_bucket_versioning(Bucket="input", VersioningConfiguration={"Status": "Enabled"})
    version = stack.s3.put_object(Bucket="input", Key="x.png", Body=b"x")["VersionId"]
    stack.s3.put_object(Bucket="output", Key=f"out-x.png/{version}", Body=b"by hand")
    stack.patch.setattr(command, "Connection", lambda _: stack.aws)
    repair = ("audit", "--repair", "--yes", "--no-cache", "--grace", "0")
    repaired, refused = run(*repair), run(*repair, "--foreign")
    assert ("1 foreign" in repaired.stdout, "--foreign" in repaired.stderr) == (True, False)
    assert (refused.exit_code, "that keep the newest output" in refused.stderr) == (1, True)
    assert stack.started == []


def test_a_repair_leaves_locked_and_changed_records(stack: Stack) -> None:
    stack.put("0.png", "1.png")
    stack.record("input/0.png", sequencer="test", lock_token="theirs")
    stack.record("input/1.png", sequencer="test")
    audit = stack.audit()
    findings = audit.run(grace=0).findings

    def change(params: Any, **_: Any) -> None:
        stack.record(params["Key"]["id"]["S"], sequencer="0B")

    stack.dynamodb.meta.events.register("provide-client-params.dynamodb.DeleteItem", change)
    list(audit.repair(findings, 1))
    assert stack.record_ids() == ["input/0.png", "input/1.png"]


def test_an_event_whose_executions_die_is_waiting_parked_then_lost() -> None:
    """Each execution dies at its work, until the event is parked; then SQS deletes that."""
    cloud = Cloud(Settings(dies=lambda _, state: state == "Invert Image"))
    cloud.upload("x.png")

    def batch_get_item(RequestItems: Any) -> Any:  # noqa: N803
        [(table, asked)] = RequestItems.items()
        items = (cloud.table.items.get(key["id"]["S"]) for key in asked["Keys"])
        return {"Responses": {table: [item for item in items if item]}}

    def head_object(Bucket: str, Key: str) -> Any:  # noqa: N803
        if Bucket == "input":
            return cloud.objects.head_object(Bucket, Key)
        missing: Any = {"ResponseMetadata": {"HTTPStatusCode": 404}, "Error": {"Code": "404"}}
        raise ClientError(missing, "HeadObject")

    s3 = SimpleNamespace(head_object=head_object)
    dynamodb = SimpleNamespace(batch_get_item=batch_get_item)
    ahead = timedelta()
    reader = Reader(s3, None, dynamodb, SCOPE, lambda: cloud.clock.datetime() + ahead)
    seen = list[tuple[Verdict, bool]]()
    for minutes in range(1, 11 * 60):
        cloud.clock.env.run(until=minutes * 60)
        seen.append((reader.find(X).verdict, bool(cloud.parked)))
    # A message that was sent this minute has no record yet: what is wrong twice is wrong.
    settled = [one for (one, _), (other, _) in pairwise(seen) if one == other]
    assert [verdict for verdict, _ in groupby(settled)] == [Verdict.WAITING, Verdict.PARKED]
    assert all(is_parked for verdict, is_parked in seen if verdict is Verdict.PARKED)
    for days, verdict in ((14, Verdict.PARKED), (17, Verdict.MISSING)):
        ahead = timedelta(days=days)
        assert reader.find(X).verdict is verdict


# The list of pairs that were right


@pytest.fixture
def remembering(stack: Stack) -> Stack:
    """Give a stack with three right outputs, which are older than a listing's seconds."""
    stack.patch.setattr(auditing, "SETTLED", timedelta(seconds=-60))
    stack.put("0", "1", "2")
    for key in "012":
        write(stack.s3, f"out-{key}", ETAG)
    return stack


ALL_OUTPUTS = {"out-0", "out-1", "out-2"}


def test_a_right_output_is_read_again_only_after_a_change(remembering: Stack) -> None:
    assert remembering.asked({"right": 3}) == ALL_OUTPUTS
    assert remembering.asked({"right": 3}) == set()
    time.sleep(1)  # S3 shows seconds
    remembering.put("1")  # the same content: only its time differs
    assert remembering.asked({"right": 3}) == {"out-1"}
    remembering.put("2", body=b"new")
    write(remembering.s3, "out-0", "other")
    assert remembering.asked({"right": 1, "stale": 2}) == {"out-0", "out-2"}
    remembering.s3.delete_object(Bucket="output", Key="out-1")
    remembering.s3.delete_object(Bucket="input", Key="0")
    assert remembering.asked({"missing": 1, "orphaned": 1, "stale": 1}) == ALL_OUTPUTS


def test_objects_changed_in_the_second_of_listing_are_read_again(remembering: Stack) -> None:
    remembering.patch.setattr(auditing, "SETTLED", SETTLED)
    for _ in range(2):
        assert remembering.asked({"right": 3}) == ALL_OUTPUTS


@pytest.mark.parametrize("damage", ["lost", "text", "flipped", "cut", "a folder", "of other work"])
def test_a_damaged_list_costs_requests_and_no_verdict(remembering: Stack, damage: str) -> None:
    assert remembering.asked({"right": 3}) == ALL_OUTPUTS
    stored = remembering.file.read_bytes()
    remembering.file.unlink()
    match damage:
        case "text":
            remembering.file.write_text("no database" * 1000, encoding="utf-8")
        case "flipped":
            remembering.file.write_bytes(stored[:-200] + bytes(b ^ 1 for b in stored[-200:]))
        case "cut":
            remembering.file.write_bytes(stored[: len(stored) // 2])
        case "a folder":
            remembering.file.mkdir()
        case "of other work":
            remembering.file.write_bytes(stored)
            remembering.parameters["HandleDeletions"] = "false"
    assert remembering.asked({"right": 3}) == ALL_OUTPUTS
    if damage != "a folder":
        assert remembering.asked({"right": 3}) == set()


def test_a_list_of_objects_that_have_gone_begins_anew(remembering: Stack) -> None:
    assert remembering.asked({"right": 3}) == ALL_OUTPUTS
    for key in "012":
        remembering.s3.delete_object(Bucket="input", Key=key)
        remembering.s3.delete_object(Bucket="output", Key=f"out-{key}")
    remembering.put("3")
    assert remembering.asked({"missing": 1}) == {"out-3"}
    assert remembering.file.exists()
    remembering.s3.delete_object(Bucket="input", Key="3")
    remembering.put("photos/", body=b"")
    write(remembering.s3, "out-9", ETAG)
    remembering.asked({"skipped": 1, "orphaned": 1})
    assert remembering.file.exists()


# Old outputs, waiting, and records in batches


def test_older_than_repairs_right_outputs_written_before_that_time(remembering: Stack) -> None:
    remembering.asked({"right": 3})
    time.sleep(1.1)
    now = datetime.now(UTC).replace(microsecond=0)
    write(remembering.s3, "out-1", ETAG)
    audit = Audit(remembering.aws, older_than=now, cache=remembering.file)
    report = audit.run(grace=3600)  # nothing looks wrong, so nothing is waited for
    assert verdict_by_key(report.findings) == {"0": "old", "2": "old"}
    assert all(finding.reason.endswith(" UTC.") for finding in report.findings)
    assert [outcome for _, outcome in audit.repair(report.findings, 1)] == ["Processed"] * 2
    write(remembering.s3, "out-0", ETAG)  # as an upload has done meanwhile
    assert [outcome for _, outcome in audit.repair(report.findings, 1)][:1] == ["Not Started"]
    with pytest.raises(Failure, match=r"is older than [\d :-]+ UTC: S3 has [\d :-]+ UTC\."):
        Audit(remembering.aws, older_than=now + timedelta(days=1)).run()
    remembering.parameters["Policy"] = "every-version"
    with pytest.raises(Failure, match="that keep the newest output"):
        Audit(remembering.aws, older_than=now)


def test_waiting_ends_when_each_key_is_right_or_lost(stack: Stack) -> None:
    stack.put("slow", "lost")
    stack.record("input/slow", in_progress_since=datetime.now(UTC).isoformat())
    waits = list[list[str]]()

    class Told(Progress):
        def waits(self, doubtful: Sequence[Finding], grace: float) -> None:
            assert grace == 10
            waits.append([finding.subject.key for finding in doubtful])
            if len(waits) == 4:
                write(stack.s3, "out-slow", ETAG)

    stack.patch.setattr(time, "sleep", lambda _: None)
    report = stack.audit().run(Told(), grace=10, wait=True)
    assert +report.counts == {"right": 1, "missing": 1}
    assert waits == [["lost", "slow"]] * 2 + [["slow"]] * 2


def test_records_that_dynamodb_leaves_unprocessed_are_read_again(stack: Stack) -> None:
    keys = "01234567"
    stack.put(*keys)
    for key in keys:
        stack.fail(key)
    assert RECORDS == 100  # as many as one request may have
    stack.patch.setattr("inorder.audit.reading.RECORDS", 5)
    batch_get_item, sizes = stack.dynamodb.batch_get_item, list[int]()

    def a_part(RequestItems: Any) -> Any:  # noqa: N803
        asked = RequestItems["keys"]
        sizes.append(len(asked["Keys"]))
        first = asked | {"Keys": asked["Keys"][:2]}
        answer = batch_get_item(RequestItems={"keys": first})
        left = asked["Keys"][2:]
        return answer | {"UnprocessedKeys": {"keys": asked | {"Keys": left}} if left else {}}

    stack.patch.setattr(stack.dynamodb, "batch_get_item", a_part)
    stack.patch.setattr(time, "sleep", lambda _: None)
    findings = stack.audit()._reader.find_all([Subject(key) for key in keys])
    assert {str(finding.verdict) for finding in findings} == {"parked"}
    assert sizes[:3] == [5, 3, 1]
    assert max(sizes) == 5


@pytest.mark.parametrize("keeps", ["newest", "each", "first"])
def test_any_object_in_the_output_bucket_can_be_read(s3: Any, keeps: Keeps) -> None:
    for key in ("out-", "a/out-", "out-/x", "out-x/", "/out-", "out-x", "x", "out-\N{SNOWMAN}/v"):
        s3.put_object(Bucket="output", Key=key, Body=b"x")
    assert all(subject.key for subject in verdicts_of(reader(s3, keeps)))


# In a pause


def test_in_a_pause_nothing_is_repaired_or_waited_for(stack: Stack) -> None:
    stack.put("x.png")
    stack.parameters["Paused"] = "true"
    stack.let_wait()
    assert stack.verdicts() == {"x.png": "waiting"}
    audit = stack.audit()
    [finding] = audit.run(grace=0).findings
    assert finding.reason == PAUSE
    with pytest.raises(Failure, match=r"1 event waits.* no output of theirs .*=Paused=false"):
        audit.run(wait=True)
    with pytest.raises(Failure, match=r"1 event waits.* nothing can be repaired\. .*=Paused=false"):
        list(audit.repair([finding], 1))
    assert stack.started == []


@pytest.mark.parametrize(("quiet", "expected"), [(0, "waiting"), (1, "missing")])
def test_what_waits_after_a_pause_is_not_missing(stack: Stack, quiet: int, expected: str) -> None:
    """Where each event waits for a while, an object counts as missing only after that time."""
    stack.put("x.png")
    stack.parameters["QuietSeconds"] = str(quiet)
    stack.let_wait()
    began = time.monotonic()
    assert stack.verdicts() == {"x.png": expected}
    assert time.monotonic() - began >= quiet
