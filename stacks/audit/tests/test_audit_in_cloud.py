"""An audit in the cloud: what a batch finds, what becomes of suspects, what the command says."""

from __future__ import annotations

import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import boto3
import pytest

from inorder.aws import cloud_audit
from inorder.errors import Failure
from main_stack import MainStack
from retry_events.retries import Fault, Message, Start
from tests.support.in_process import KEY_TABLE, Context
from tests.unit.conftest import Lines, Load, new_queue, taken_from

INPUT, OUTPUT, TABLE = "input", "output", "keys"


class Auditor:
    """The function, and a stack that it audits."""

    def __init__(self, load: Load, lines: Lines, repairs: str, **given: str) -> None:
        self.s3: Any = boto3.client("s3")
        for bucket in (INPUT, OUTPUT):
            self.s3.create_bucket(Bucket=bucket)
        names = ("AttributeDefinitions", "KeySchema", "GlobalSecondaryIndexes", "BillingMode")
        boto3.client("dynamodb").create_table(
            TableName=TABLE, **{name: KEY_TABLE[name] for name in names}
        )
        self.table = boto3.resource("dynamodb").Table(TABLE)
        self.queue = new_queue("retry")
        defaults = {"Policy": "latest-wins", "HandleDeletions": "true", "RetryHours": "24"}
        parameters = defaults | {"KeyPrefix": "", "KeySuffix": ""} | given
        outputs = {"InputBucketName": INPUT, "OutputBucketName": OUTPUT, "KeyTableName": TABLE}
        outputs |= {"RetryEventsQueueUrl": self.queue}
        function: Any = load("audit_keys.app", STACK_NAME="s", REPAIRS=repairs)
        stack = MainStack(parameters, outputs)
        function.description = SimpleNamespace(main_stack=lambda: stack)
        self.function = function
        self._read = lines
        self.findings: dict[str, str] = {}
        self.counts: dict[str, int] = {}
        self.wrong = 0

    def put(self, key: str, body: bytes = b"x") -> dict[str, Any]:
        """Put a source, and give it as the listing does."""
        put = self.s3.put_object(Bucket=INPUT, Key=key, Body=body)
        return {"audit": "a", "bucket": INPUT, "key": key, "etag": put["ETag"]}

    def output(self, key: str, **metadata: str) -> dict[str, Any]:
        """Put an output, and give it as the listing does."""
        self.s3.put_object(Bucket=OUTPUT, Key=key, Body=b"o", Metadata=metadata)
        return {"audit": "a", "bucket": OUTPUT, "key": key, "etag": "o"}

    def pair(self, key: str) -> list[dict[str, Any]]:
        """Put a source and its right output."""
        source = self.put(key)
        made_of = {"sequencer": "01", "source-etag": source["etag"].strip('"')}
        return [source, self.output(f"out-{key}", **made_of)]

    def run(self, event: dict[str, Any]) -> Any:
        answer = self.function.handler(event, Context())
        self.findings, self.counts, self.wrong = {}, {}, 0
        for line in self._read():
            if line.get("message") == "OutputNotRight":
                self.findings[line["finding"]["key"]] = line["finding"]["verdict"]
            elif line.get("message") == "OutputsCompared":
                self.counts = line["counts"]
            elif "WrongOutputs" in line:
                self.wrong = round(sum(line["WrongOutputs"]))
        return answer

    def compare(self, *items: dict[str, Any]) -> list[dict[str, Any]]:
        """Compare a batch, and give the suspects."""
        answer = self.run({"batch": {"Items": [*items]}})
        assert (answer["audit"], answer["count"]) == ("a", len(answer["suspects"]))
        suspects: list[dict[str, Any]] = answer["suspects"]
        return suspects

    def judge(self, suspects: list[dict[str, Any]]) -> None:
        assert self.run({"audit": "a", "suspects": suspects}) == {}

    def repairs(self) -> list[Any]:
        bodies = taken_from(self.queue)
        assert all(body.isascii() for body in bodies)  # SQS refuses some characters
        return [*map(json.loads, bodies)]


Make = Callable[..., Auditor]


@pytest.fixture
def auditor(load: Load, lines: Lines) -> Make:
    def make(repairs: str = "false", **given: str) -> Auditor:
        return Auditor(load, lines, repairs, **given)

    return make


def test_a_batch_counts_what_is_right_and_suspects_the_rest(auditor: Make) -> None:
    audited = auditor(KeySuffix="k")
    missing, stale, other = map(audited.put, ("missingk", "stalek", "other"))
    audited.output("out-stalek", sequencer="01", **{"source-etag": "old"})
    items = [*audited.pair("rightk"), missing, stale, other]
    items += [audited.put("foreignk"), audited.output("out-foreignk"), audited.output("report")]
    items += [audited.output("out-gonek", sequencer="01"), audited.output("out-gone")]
    suspects = audited.compare(*items)
    assert {each["key"] for each in suspects} == {"missingk", "stalek", "gonek"}
    assert audited.counts == {"right": 1, "foreign": 1}
    assert (audited.findings, audited.wrong) == ({"foreignk": "foreign"}, 1)
    audited.judge(suspects)
    assert audited.findings == {"missingk": "missing", "stalek": "stale", "gonek": "orphaned"}
    assert audited.wrong == 3
    assert audited.repairs() == []


def test_where_deletions_are_not_handled_no_output_is_orphaned(auditor: Make) -> None:
    audited = auditor(HandleDeletions="false")
    assert audited.compare(audited.output("out-gone", sequencer="01")) == []
    assert audited.counts == {"right": 1}


def test_what_changes_or_is_in_progress_is_waiting(auditor: Make) -> None:
    audited = auditor("true")
    audited.table.put_item(Item={"id": "input/held", "lock_token": "t"})
    suspects = audited.compare(*map(audited.put, ("done", "held", "changes")))
    assert audited.findings == {"held": "waiting"}
    audited.pair("done")
    audited.put("changes", b"y")
    audited.judge(suspects)
    assert audited.counts == {"right": 1, "waiting": 1}
    assert (audited.wrong, audited.repairs()) == (0, [])


def test_a_policy_without_records_reads_none_of_another_policy(auditor: Make) -> None:
    audited = auditor(Policy="uncoordinated")
    audited.table.put_item(Item={"id": "input/held", "lock_token": "t"})
    assert len(audited.compare(audited.put("held"))) == 1


def test_a_repair_goes_to_the_retry_queue_which_starts_it(auditor: Make) -> None:
    audited = auditor("true")
    audited.table.put_item(Item={"id": "input/failed", "status": "FAILED", "sequencer": "01"})
    suspects = audited.compare(*map(audited.put, ("failed", "\ufffe")))
    audited.judge(suspects)
    assert audited.findings == {"failed": "missing", "\ufffe": "missing"}
    assert audited.wrong == 1  # other alarms tell of events that failed
    [message] = audited.repairs()
    fault = Fault.read(Message("m", json.dumps(message), 1.0))
    assert fault
    started = fault.decide(10, patience=3600)
    assert isinstance(started, Start)
    event = json.loads(started.input)
    assert (event["source"], event["detail"]["object"]["key"]) == ("inorder.repair", "\ufffe")
    assert fault.reasons == ("Repair: An audit found it missing.",)


def test_each_version_of_a_listed_key_is_compared_and_no_longer_key(auditor: Make) -> None:
    audited = auditor(Policy="every-version")
    versioning = {"Status": "Enabled"}
    audited.s3.put_bucket_versioning(Bucket=INPUT, VersioningConfiguration=versioning)
    versions = [
        audited.s3.put_object(Bucket=INPUT, Key="key", Body=bytes([number])) for number in range(3)
    ]
    audited.put("key-longer")
    first, second, third = (each["VersionId"] for each in versions)
    made_of = {"sequencer": "01", "source-version-id": first}
    made_of |= {"source-etag": versions[0]["ETag"].strip('"')}
    of_first = audited.output(f"out-key/{first}", **made_of)
    by_sequencer = audited.output("out-key/0A", sequencer="0A", **{"source-etag": "e"})
    suspects = audited.compare(
        {"audit": "a", "bucket": INPUT, "key": "key", "etag": "any"}, of_first, by_sequencer
    )
    assert {each["version_id"] for each in suspects} == {second, third}
    assert audited.counts == {"right": 1, "not comparable": 1}


@pytest.mark.parametrize(
    ("key_prefix", "asked", "listed"),
    [
        ("", "", ""),
        ("", "a/", "a/"),
        ("a/b", "", "a/"),
        ("a/b", "a/b/", "a/b/"),
        ("a/", "c/", "c/"),
    ],
)
def test_what_is_listed_is_as_narrow_as_the_stacks_prefix_and_the_audits(
    auditor: Make, key_prefix: str, asked: str, listed: str
) -> None:
    answer = auditor(KeyPrefix=key_prefix).run({"audit": "a", "prefix": asked})
    assert answer == {"prefix": listed, "sources": INPUT, "outputs": OUTPUT}


@pytest.mark.parametrize(
    ("given", "said"),
    [({"Policy": "content-hash"}, "nothing to audit"), ({"RetryHours": "0"}, "needs the retry")],
)
def test_a_stack_that_cannot_be_audited_or_repaired_says_so(
    auditor: Make, given: dict[str, str], said: str
) -> None:
    audited = auditor("true", **given)
    with pytest.raises(audited.function.NotAuditable, match=said):
        audited.run({"audit": "a", "prefix": ""})


# The command, which waits for the audit

OUTPUTS = [
    {"OutputKey": "AuditStateMachineArn", "OutputValue": "machine"},
    {"OutputKey": "AuditLogGroupName", "OutputValue": "log"},
]
FAILED = {"status": "FAILED", "error": "E", "cause": json.dumps({"errorMessage": "no buckets."})}
SUCCEEDED = {"status": "SUCCEEDED"}
LINES = [
    "no JSON",
    json.dumps({"audit": "other", "message": "OutputsCompared", "items": 9, "counts": {}}),
    json.dumps({"audit": "a", "message": "OutputsCompared", "items": 2, "counts": {"right": 2}}),
]


def followed(ended: dict[str, Any], items: int, outputs: list[dict[str, str]]) -> Any:
    """Follow an audit of this end, which has compared so many objects."""
    log = SimpleNamespace(paginate=lambda **_: [{"events": [{"message": line} for line in LINES]}])
    stub = SimpleNamespace(
        describe_stacks=lambda **_: {"Stacks": [{"Outputs": outputs}]},
        start_execution=lambda **_: {"executionArn": "arn:a"},
        describe_execution=lambda **_: ended,
        list_map_runs=lambda **_: {"mapRuns": [{"mapRunArn": "run"}]},
        describe_map_run=lambda **_: {"itemCounts": {"total": items, "succeeded": items}},
        get_paginator=lambda _: log,
    )
    aws: Any = SimpleNamespace(
        stack=SimpleNamespace(name="s"), client=lambda _: stub, is_local=True
    )
    audit: Any = SimpleNamespace(
        scope=SimpleNamespace(bucket="input"), queued=lambda findings: findings
    )
    return cloud_audit.run(audit, aws, "", lambda *_: None)


@pytest.mark.parametrize(
    ("ended", "items", "outputs", "said"),
    [
        (FAILED, 2, OUTPUTS, "ended as FAILED: E no buckets. Its log is log."),
        (SUCCEEDED, 100_000_000, OUTPUTS, "audit it by prefixes"),
        (SUCCEEDED, 3, OUTPUTS, "lacks 1 of 3 objects"),
        (SUCCEEDED, 2, [], "no output AuditStateMachineArn"),
    ],
)
def test_an_audit_that_is_not_complete_says_why(
    ended: Any, items: int, outputs: Any, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cloud_audit, "LOG_SECONDS", -1)
    with pytest.raises(Failure, match=said):
        followed(ended, items, outputs)


def test_only_the_lines_of_the_audit_count() -> None:
    assert followed(SUCCEEDED, 2, OUTPUTS).counts == {"right": 2}
