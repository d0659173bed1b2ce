"""An audit in the cloud: what it refuses, what a batch finds, what becomes of suspects."""

import json
import time
from collections.abc import Callable
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from main_stack import MainStack
from retry_events.retries import Fault, Message, Start
from tests.support.events import created
from tests.support.in_process import KEY_TABLE, Context
from tests.unit.conftest import Lines, Load, new_queue, taken_from

INPUT, OUTPUT, TABLE = "input", "output", "keys"
START = {"audit": "a", "prefix": ""}
ACCOUNT = Context().invoked_function_arn.split(":")[4]
Refuse = Callable[..., None]


class Auditor:
    """The function, and a stack that it audits."""

    def __init__(self, load: Load, lines: Lines, repairs: str, **given: str) -> None:
        self.s3: Any = boto3.client("s3")
        for bucket in (INPUT, OUTPUT):
            self.s3.create_bucket(Bucket=bucket)
        self.table = boto3.resource("dynamodb").create_table(TableName=TABLE, **KEY_TABLE)
        self.queue = new_queue("retry")
        defaults = {"Policy": "latest-wins", "HandleDeletions": "true", "RetryHours": "24"}
        parameters = defaults | {"KeyPrefix": "", "KeySuffix": "", "HealMinutes": "15"} | given
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
        return {"audit": "a", "bucket": INPUT, "key": key, "etag": put["ETag"], "size": len(body)}

    def output(self, key: str, **metadata: str) -> dict[str, Any]:
        """Put an output, and give it as the listing does."""
        self.s3.put_object(Bucket=OUTPUT, Key=key, Body=b"o", Metadata=metadata)
        return {"audit": "a", "bucket": OUTPUT, "key": key, "etag": "o", "size": 1}

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


def test_what_changes_or_is_in_progress_is_waiting(auditor: Make) -> None:
    audited = auditor("true")
    since = datetime.now(UTC).isoformat()
    audited.table.put_item(Item={"id": "input/held", "in_progress_since": since})
    suspects = audited.compare(*map(audited.put, ("done", "held", "changes")))
    assert audited.findings == {"held": "waiting"}
    audited.pair("done")
    audited.put("changes", b"y")
    audited.judge(suspects)
    assert audited.counts == {"right": 1, "waiting": 1}
    assert (audited.wrong, audited.repairs()) == (0, [])


def test_a_repair_goes_to_the_retry_queue_which_starts_it(auditor: Make) -> None:
    audited = auditor("true")
    failed = audited.put("failed")
    event = json.dumps(created("failed", etag=failed["etag"].strip('"')))
    record = {"id": "input/failed", "status": "FAILED", "sequencer": "01", "event": event}
    audited.table.put_item(Item=record | {"expires_at": int(time.time()) + 60})
    suspects = audited.compare(failed, audited.put("\ufffe"))
    assert (audited.findings, audited.wrong) == ({"failed": "parked"}, 1)
    audited.judge(suspects)
    assert (audited.findings, audited.wrong) == ({"\ufffe": "missing"}, 1)
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
    ("policy", "parts"), [("latest-wins", ["bad"]), ("every-version", ["versions", "prefix=bad"])]
)
def test_one_object_that_s3_refuses_to_show_ends_no_batch(
    auditor: Make, refuse: Refuse, policy: str, parts: list[str]
) -> None:
    audited = auditor("true", Policy=policy)
    versioning = {"Status": "Enabled"}
    audited.s3.put_bucket_versioning(Bucket=INPUT, VersioningConfiguration=versioning)
    items = [*map(audited.put, ("a", "bad", "c")), audited.put("folder/", b"")]
    refuse(audited.function.s3, 403, "AccessDenied", INPUT, *parts)
    suspects = audited.compare(*items, audited.output("out-bad", sequencer="01"))
    assert {each["key"] for each in suspects} == {"a", "c"}
    assert audited.findings == {"bad": "unreadable"}
    assert audited.counts["skipped"] == 1
    assert audited.wrong == audited.counts["unreadable"]
    refuse(audited.function.s3, 400, "ExpiredToken")
    with pytest.raises(ClientError, match="ExpiredToken"):
        audited.compare(items[0])


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
    ("given", "prefix", "said"),
    [
        ({"RetryHours": "0"}, "", "needs the retry"),
        ({}, "pictures", "ends with a slash"),
    ],
)
def test_a_stack_that_cannot_be_audited_or_repaired_says_so(
    auditor: Make, given: dict[str, str], prefix: str, said: str
) -> None:
    audited = auditor("true", **given)
    with pytest.raises(audited.function.NotAuditable, match=said):
        audited.run({"audit": "a", "prefix": prefix})


def test_a_bucket_of_another_account_or_region_is_refused_before_it_is_listed(
    auditor: Make, refuse: Refuse
) -> None:
    audited = auditor()
    asked = list[dict[str, str]]()

    def answer(params: dict[str, str], **_: Any) -> None:
        asked.append(params)

    audited.function.s3.meta.events.register("provide-client-params.s3.HeadBucket", answer)
    audited.run(START)
    assert [(each["Bucket"], each["ExpectedBucketOwner"]) for each in asked] == [
        (INPUT, ACCOUNT),
        (OUTPUT, ACCOUNT),
    ]
    audited.function.s3 = boto3.client("s3", region_name="eu-central-1")
    with pytest.raises(audited.function.NotAuditable, match="the bucket input is in us-east-1"):
        audited.run(START)
    refuse(audited.function.s3, 403, "AccessDenied", OUTPUT)
    refuse(audited.function.s3, 403, "AccessDenied", INPUT)
    with pytest.raises(audited.function.NotAuditable, match="does not own the bucket input, or"):
        audited.run(START)
    audited.function.s3 = boto3.client("s3")
    refuse(audited.function.s3, 503, "SlowDown")
    with pytest.raises(ClientError, match="503"):  # which passes: the state may try again
        audited.run(START)
