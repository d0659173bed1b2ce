"""Lambda handler: audits batches of keys for the state machine stacks/audit/audit.asl.json.

The first step reads which stack to audit. Of each batch, `compare` counts what is right and gives
the suspects. A minute later, `judge` reads these again, as `inorder audit` does: what has changed
meanwhile is waiting and not wrong.

What is found goes to the log, a line for each output that is not right and a line for each batch.
A batch may be repeated, so its lines may be there twice.

A repair goes to the retry queue, which outlives the audit, bounds how fast events are started, and
starts them by the policy of that moment. What has failed is not repaired: its event is in that
queue already, or it is parked and waits for a person.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

import boto3
from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.metrics import MetricUnit
from aws_lambda_powertools.utilities.typing import LambdaContext
from botocore.config import Config

from audit_keys.comparing import (
    REPAIRABLE,
    REPAIRED,
    WRONG,
    Finding,
    Reading,
    Subject,
    Verdict,
)
from audit_keys.reading import Reader, Scope, subject_of
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
    """The stack has nothing that could be audited, or repaired."""


@logger.inject_lambda_context
@metrics.log_metrics
def handler(event: dict[str, Any], _context: LambdaContext) -> dict[str, Any]:
    """Do a step of an audit.

    Raises
    ------
    NotAuditable
        The stack's policy writes no outputs, or the audit repairs and the stack retries nothing.
    """
    metrics.add_metric(name="WrongOutputs", unit=MetricUnit.Count, value=0)
    stack = description.main_stack()
    reader = Reader(s3, dynamodb, _scope(stack))
    if "batch" in event:
        return _compare(reader, event["batch"])
    if REPAIRS and stack.parameters["RetryHours"] == "0":
        raise NotAuditable("A repair needs the retry queue: RetryHours must not be 0.")
    if "suspects" in event:
        return _judge(
            reader, stack.outputs["RetryEventsQueueUrl"], event["audit"], event["suspects"]
        )
    # Both buckets are listed by a folder, as an output has another name than its object.
    folder, slash, _ = reader.scope.key_prefix.rpartition("/")
    own, asked = f"{folder}{slash}", event["prefix"]
    return {
        "prefix": own if own.startswith(asked) else asked,
        "sources": reader.scope.bucket,
        "outputs": reader.scope.output_bucket,
    }


def _scope(stack: MainStack) -> Scope:
    facts = stack.facts
    if "keeps" not in facts:
        policy = stack.parameters["Policy"]
        raise NotAuditable(f"The policy {policy} writes no outputs, so there is nothing to audit.")
    return Scope(
        bucket=stack.outputs["InputBucketName"],
        output_bucket=stack.outputs["OutputBucketName"],
        table=stack.outputs["KeyTableName"] if facts["cost"]["uncontended"]["writes"] else "",
        keeps=facts["keeps"],
        handles_deletions=stack.handles_deletions,
        key_prefix=stack.parameters["KeyPrefix"],
        key_suffix=stack.parameters["KeySuffix"],
    )


def _compare(reader: Reader, batch: dict[str, Any]) -> dict[str, Any]:
    """Count what is right in a batch, and list the rest, with what is seen of it now."""
    items = batch.get("Items", [batch])  # a local Step Functions makes no batches
    audit = items[0]["audit"]
    counts, found, suspects = Counter[Verdict](), list[Finding](), list[dict[str, Any]]()
    with ThreadPoolExecutor(THREADS) as pool:
        for right, seen in pool.map(lambda item: _first_sight(reader, item), items):
            counts[Verdict.RIGHT] += right
            for each in seen:
                if each.verdict in REPAIRABLE and each.reading:
                    subject = {"key": each.subject.key, "version_id": each.subject.version_id}
                    suspects.append({**subject, "seen": _fingerprint(each.reading)})
                else:
                    found.append(each)
    _report(audit, counts, found, len(items))
    return {"audit": audit, "suspects": suspects, "count": len(suspects)}


def _first_sight(reader: Reader, item: dict[str, str]) -> tuple[int, list[Finding]]:
    """Count what is right of a listed object, and read what is not."""
    if item["bucket"] == reader.scope.bucket:
        sources = [*_sources(reader, item)]
        suspects = [
            Subject(each.key, each.version_id) for each in sources if not reader.is_right(each)
        ]
        found = [reader.finding(each, reader.read(each)) for each in suspects]
        return len(sources) - len(suspects), found
    # If an output has a source, that is in the other listing.
    keeps, subject = reader.scope.keeps, subject_of(item["key"], reader.scope.keeps)
    if subject is None or not reader.scope.covers(subject.key):
        return 0, []
    if keeps != "each" and reader.has_source(subject):
        return 0, []
    finding = reader.finding(subject, reader.read(subject))
    return 0, [] if finding.reading and finding.reading.source else [finding]


def _sources(reader: Reader, item: dict[str, str]) -> Iterator[ObjectEvent]:
    key = item["key"]
    if not reader.scope.covers(key):
        return
    if reader.scope.keeps != "each":
        yield ObjectEvent(reader.scope.bucket, key, "", item["etag"].strip('"'))
        return
    for page in reader.sources(key):  # the versions of a key come before longer keys
        yield from (each for each in page if each.key == key)
        if page and page[-1].key != key:
            return


def _judge(
    reader: Reader, queue_url: str, audit: str, suspects: list[dict[str, Any]]
) -> dict[str, Any]:
    """Judge suspects, and repair them if the stack says so."""

    def judged(suspect: dict[str, Any]) -> Finding:
        subject = Subject(suspect["key"], suspect["version_id"])
        found = reader.finding(subject, reader.read(subject))
        is_same = found.reading is not None and _fingerprint(found.reading) == suspect["seen"]
        if found.verdict in REPAIRABLE and not is_same:
            found = replace(found, verdict=Verdict.WAITING, reason="It changes.")
        elif REPAIRS and found.verdict in REPAIRABLE and not _has_failed(found):
            sqs.send_message(QueueUrl=queue_url, MessageBody=_message(reader.scope, found))
            found = replace(found, reason=f"{found.reason} {REPAIRED}")
        return found

    with ThreadPoolExecutor(THREADS) as pool:
        _report(audit, Counter(), [*pool.map(judged, suspects)], 0)
    return {}


def _message(scope: Scope, finding: Finding) -> str:
    """Write what a state machine writes to have an event tried again."""
    event = repair_event(scope.bucket, finding.reading, datetime.now(UTC))  # type: ignore[arg-type]
    return retry_message(event, "Repair", f"An audit found it {finding.verdict}.")


def _report(audit: str, counts: Counter[Verdict], found: list[Finding], items: int) -> None:
    for each in found:
        counts[each.verdict] += 1
        if each.verdict is not Verdict.RIGHT:
            logger.info("OutputNotRight", extra={"audit": audit, "finding": each.described()})
    wrong = sum(each.verdict in WRONG and not _has_failed(each) for each in found)
    metrics.add_metric(name="WrongOutputs", unit=MetricUnit.Count, value=wrong)
    said = {"audit": audit, "items": items, "counts": dict(counts)}
    logger.info("OutputsCompared", extra=said)


def _has_failed(finding: Finding) -> bool:
    """Tell whether its last event has failed, which other alarms tell."""
    return bool(finding.reading) and finding.reading.record.get("status") == "FAILED"  # type: ignore[union-attr]


def _fingerprint(reading: Reading) -> str:
    """Name what was read."""
    seen = (sorted(reading.record.items()), reading.output.etag, reading.source)
    return sha256(repr(seen).encode()).hexdigest()[:16]
