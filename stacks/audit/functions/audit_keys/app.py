"""Lambda handler: audits batches of keys for the state machine stacks/audit/audit.asl.json.

The first step reads which stack to audit. Of each batch, `compare` counts what is right and gives
the suspects. A minute later, `judge` reads these again, as `inorder audit` does: what has changed
meanwhile is waiting and not wrong.

What is found goes to the log, a line for each output that is not right and a line for each batch.
A batch may be repeated, so its lines may be there twice.

A repair goes to the retry queue, which outlives the audit, bounds how fast events are started, and
starts them by the policy of that moment. What is parked is not repaired: it waits for a person. The
queue of parked events is not read, which would hide them from people; the records tell.
"""

from __future__ import annotations

import os
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256
from http import HTTPStatus
from itertools import chain
from typing import Any

import boto3
from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.metrics import MetricUnit
from aws_lambda_powertools.utilities.typing import LambdaContext
from botocore.config import Config
from botocore.exceptions import ClientError

from audit_keys.comparing import REPAIRABLE, WRONG, Finding, Scope, Subject, Verdict
from audit_keys.reading import Reader, subject_of
from audit_keys.repairing import repair_event
from inorder_fence import ObjectEvent
from inorder_fence.records import retry_message
from main_stack import Description, MainStack

REPAIRS = os.environ["REPAIRS"] == "true"
THREADS = 16
CONFIG = Config(
    connect_timeout=2,
    read_timeout=5,
    max_pool_connections=THREADS,
    retries={"mode": "standard", "total_max_attempts": 5},
)
logger = Logger()
metrics = Metrics()
s3 = boto3.client("s3", config=CONFIG)
dynamodb = boto3.client("dynamodb", config=CONFIG)
sqs = boto3.client("sqs", config=CONFIG)
description = Description(boto3.client("cloudformation", config=CONFIG), os.environ["STACK_NAME"])


class NotAuditable(Exception):
    """The stack has nothing that could be audited, or repaired, or not in the cloud."""


@logger.inject_lambda_context
@metrics.log_metrics
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Do a step of an audit.

    Raises
    ------
    NotAuditable
        The audit repairs and the stack retries nothing, or a Distributed Map cannot list what is
        asked for.
    """
    metrics.add_metric(name="WrongOutputs", unit=MetricUnit.Count, value=0)
    stack = description.main_stack()
    reader = Reader(s3, dynamodb, _scope(stack))
    if "batch" in event:
        return _compare(reader, event["batch"])
    if REPAIRS and stack.parameters["RetryHours"] == "0":
        raise NotAuditable("A repair needs the retry queue: RetryHours must not be 0.")
    if "suspects" in event:
        queue = stack.outputs["RetryEventsQueueUrl"]
        return _judge(reader, queue, event["audit"], event["suspects"])
    asked = event["prefix"]
    if asked and not asked.endswith("/"):
        raise NotAuditable("In the cloud, a prefix is a folder: it ends with a slash.")
    account = context.invoked_function_arn.split(":")[4]
    for bucket in (reader.scope.bucket, reader.scope.output_bucket):
        _check_place(bucket, account)
    own = reader.scope.folder
    return {
        "prefix": own if own.startswith(asked) else asked,
        "sources": reader.scope.bucket,
        "outputs": reader.scope.output_bucket,
    }


def _check_place(bucket: str, account: str) -> None:
    """Refuse a bucket that a Distributed Map does not list: of another account or region.

    https://docs.aws.amazon.com/step-functions/latest/dg/input-output-itemreader.html
    https://docs.aws.amazon.com/AmazonS3/latest/API/API_HeadBucket.html
    """
    try:
        found = s3.head_bucket(Bucket=bucket, ExpectedBucketOwner=account)
    except ClientError as error:
        if error.response["ResponseMetadata"]["HTTPStatusCode"] >= HTTPStatus.INTERNAL_SERVER_ERROR:
            raise
        said = f"account {account} does not own the bucket {bucket}, or may not list it ({error})"
    else:
        region = s3.meta.region_name
        if (home := found.get("BucketRegion", region)) == region:
            return
        said = f"the bucket {bucket} is in {home}"
    raise NotAuditable(
        "A Distributed Map lists the buckets of its own account and region only, and"
        f" {said}. Use inorder audit instead."
    )


def _scope(stack: MainStack) -> Scope:
    facts = stack.facts
    return Scope(
        bucket=stack.outputs["InputBucketName"],
        output_bucket=stack.outputs["OutputBucketName"],
        table=stack.outputs["KeyTableName"] if facts["cost"]["uncontended"]["writes"] else "",
        keeps=facts["keeps"],
        handles_deletions=stack.handles_deletions,
        key_prefix=stack.parameters["KeyPrefix"],
        key_suffix=stack.parameters["KeySuffix"],
        heal_minutes=int(stack.parameters["HealMinutes"]),
    )


def _compare(reader: Reader, batch: dict[str, Any]) -> dict[str, Any]:
    """Count what is right in a batch, and list the rest, with what is seen of it now."""
    items = batch.get("Items", [batch])  # a local Step Functions makes no batches
    audit = items[0]["audit"]
    found, suspects = list[Finding](), list[dict[str, Any]]()
    with ThreadPoolExecutor(THREADS) as pool:
        for each in chain.from_iterable(pool.map(partial(_first_sight, reader), items)):
            if each.verdict in REPAIRABLE:
                subject = {"key": each.subject.key, "version_id": each.subject.version_id}
                suspects.append({**subject, "seen": _fingerprint(each)})
            else:
                found.append(each)
    _report(audit, found, len(items))
    return {"audit": audit, "suspects": suspects, "count": len(suspects)}


def _first_sight(reader: Reader, item: dict[str, Any]) -> list[Finding]:
    """Judge a listed object, all its versions, or the output that it is."""
    compare = _compare_source if item["bucket"] == reader.scope.bucket else _compare_output
    return compare(reader, item)


def _compare_source(reader: Reader, item: dict[str, Any]) -> list[Finding]:
    key = item["key"]
    if not reader.scope.covers(key):
        return []
    if reader.scope.keeps == "each":
        return reader.compared_versions(key)
    source = ObjectEvent(reader.scope.bucket, key, "", item["etag"].strip('"'))
    return [reader.compared(source, item.get("size", 1))]  # an older state machine gives no size


def _compare_output(reader: Reader, item: dict[str, Any]) -> list[Finding]:
    """Find an output without a source. If it has one, that is in the other listing."""
    subject = subject_of(item["key"], reader.scope.keeps)
    if subject is None or not reader.scope.covers(subject.key):
        return []
    if reader.scope.keeps != "each" and reader.has_source(subject):
        return []
    finding = reader.find(subject)
    return [] if finding.reading and finding.reading.source else [finding]


def _judge(
    reader: Reader, queue_url: str, audit: str, suspects: list[dict[str, Any]]
) -> dict[str, Any]:
    """Judge suspects, and repair them if the stack says so."""

    def judged(suspect: dict[str, Any]) -> Finding:
        found = reader.find(Subject(suspect["key"], suspect["version_id"]))
        if found.verdict not in REPAIRABLE:
            return found
        if _fingerprint(found) != suspect["seen"]:
            return replace(found, verdict=Verdict.WAITING, reason="It changes.")
        if REPAIRS:
            sqs.send_message(QueueUrl=queue_url, MessageBody=_message(reader.scope, found))
            found = replace(found, reason=f"{found.reason} Its repair was started.")
        return found

    with ThreadPoolExecutor(THREADS) as pool:
        _report(audit, [*pool.map(judged, suspects)], 0)
    return {}


def _message(scope: Scope, finding: Finding) -> str:
    """Write what a state machine writes to have an event tried again."""
    event = repair_event(scope, finding.reading, datetime.now(UTC))  # type: ignore[arg-type]
    return retry_message(event, "Repair", f"An audit found it {finding.verdict}.")


def _report(audit: str, found: list[Finding], items: int) -> None:
    for each in found:
        if each.verdict not in {Verdict.RIGHT, Verdict.SKIPPED}:
            logger.info("OutputNotRight", extra={"audit": audit, "finding": each.described()})
    wrong = sum(each.verdict in WRONG for each in found)
    metrics.add_metric(name="WrongOutputs", unit=MetricUnit.Count, value=wrong)
    counts = Counter(each.verdict for each in found)
    logger.info("OutputsCompared", extra={"audit": audit, "items": items, "counts": counts})


def _fingerprint(finding: Finding) -> str:
    """Name what was read."""
    read: Any = finding.reading
    records = [sorted(each.items()) for each in (read.record, read.retries)]
    seen = (records, read.output.etag, read.source)
    return sha256(repr(seen).encode()).hexdigest()[:16]
