"""Audits in the cloud: starts the state machine of stacks/audit, and reads what it has found."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from audit_keys.comparing import REPAIRED, Finding, Reading, Subject, Verdict
from inorder.aws.audit import NOTHING, Audit, Report
from inorder.aws.companions import companion
from inorder.aws.stack import Connection
from inorder.errors import Failure
from inorder_fence import ObjectEvent
from inorder_fence.fenced_output import OutputState

# https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/matching-terms-json-log-events.html
PATTERN = '{{ $.audit = "{}" }}'
# https://docs.aws.amazon.com/step-functions/latest/dg/input-output-itemreader.html
ITEMS_AT_MOST = 100_000_000  # that a Distributed Map reads
LOG_SECONDS = 120  # within which the log has all lines

Progress = Callable[[int, int], Any]  # is told how many objects are compared, and how many listed


def run(audit: Audit, aws: Connection, prefix: str, progress: Progress) -> Report:
    """Audit in the cloud, and wait for the end. If this is interrupted, the audit goes on."""
    if prefix and not prefix.endswith("/"):
        raise Failure("In the cloud, a prefix is a folder: it ends with a slash.")
    machine, log_group = _deployed(aws)
    states = aws.client("stepfunctions")
    started = time.time()
    arn = states.start_execution(stateMachineArn=machine, input=json.dumps({"prefix": prefix}))[
        "executionArn"
    ]
    while (ended := states.describe_execution(executionArn=arn))["status"] == "RUNNING":
        counts = _item_counts(states, arn)
        progress(sum(each["succeeded"] for each in counts), sum(each["total"] for each in counts))
        time.sleep(0.5 if aws.is_local else 5)
    if ended["status"] != "SUCCEEDED":
        raise Failure(
            f"The audit ended as {ended['status']}: {_cause(ended)} Its log is {log_group}."
        )
    counts = _item_counts(states, arn)
    if any(each["total"] >= ITEMS_AT_MOST for each in counts):
        raise Failure(f"A bucket has more than {ITEMS_AT_MOST:,} objects: audit it by prefixes.")
    return _report(audit, aws, log_group, arn, started, sum(each["total"] for each in counts))


def _deployed(aws: Connection) -> tuple[str, str]:
    """Give the ARN of the state machine that audits a stack, and the name of its log group."""
    stack = companion(aws, "audit")
    if stack is None:
        raise Failure(
            f"There is no stack {aws.stack.name}-audit, which audits {aws.stack.name} in the cloud."
            f" Deploy it: make companion NAME=audit STACK={aws.stack.name}"
        )
    try:
        return stack.outputs["AuditStateMachineArn"], stack.outputs["AuditLogGroupName"]
    except KeyError as error:  # it is not deployed yet, or another one
        raise Failure(f"Stack {aws.stack.name}-audit has no output {error.args[0]}.") from None


def _item_counts(states: Any, arn: str) -> list[dict[str, int]]:
    runs = states.list_map_runs(executionArn=arn)["mapRuns"]
    return [states.describe_map_run(mapRunArn=each["mapRunArn"])["itemCounts"] for each in runs]


def _cause(ended: dict[str, Any]) -> str:
    cause = ended.get("cause", "")
    with suppress(ValueError, LookupError, TypeError):
        cause = json.loads(cause)["errorMessage"]  # of the function
    return f"{ended.get('error', '')} {cause}".strip()


def _report(
    audit: Audit, aws: Connection, log_group: str, arn: str, since: float, items: int
) -> Report:
    name = arn.rpartition(":")[2]
    until = time.time() + LOG_SECONDS
    while True:
        lines = [*_lines(aws, log_group, name, since)]
        batches = [each for each in lines if each["message"] == "OutputsCompared"]
        if (read := sum(each["items"] for each in batches)) >= items:
            break
        if time.time() > until:
            raise Failure(f"The log {log_group} lacks {items - read:,} of {items:,} objects.")
        time.sleep(1)
    counts = Counter[Verdict]()
    for each in batches:
        counts.update({Verdict(verdict): count for verdict, count in each["counts"].items()})
    found = {
        (finding.subject, finding.verdict): finding
        for each in lines
        if each["message"] == "OutputNotRight"
        and (finding := _finding(audit.scope.bucket, each["finding"]))
    }
    report = Report(Counter({Verdict.RIGHT: counts[Verdict.RIGHT]}))
    # The repair that an audit has started is in a queue now.
    repaired = [each for each in found.values() if each.reason.endswith(REPAIRED)]
    others = [each for each in found.values() if not each.reason.endswith(REPAIRED)]
    for finding in [*repaired, *audit.queued(others)]:
        report.counts[finding.verdict] += 1
        report.findings.append(finding)
    if not report.counts.total():
        raise Failure(NOTHING)
    return report


def _lines(aws: Connection, log_group: str, name: str, since: float) -> Iterator[dict[str, Any]]:
    """Read what the function has logged of an audit."""
    pages = (
        aws.client("logs")
        .get_paginator("filter_log_events")
        .paginate(
            logGroupName=log_group,
            startTime=int((since - 60) * 1000),  # clocks differ
            filterPattern=PATTERN.format(name),
        )
    )
    for page in pages:
        for event in page["events"]:
            try:
                line = json.loads(event["message"])
            except ValueError:
                continue
            if isinstance(line, dict) and line.get("audit") == name:  # locally, nothing is filtered
                yield line


def _finding(bucket: str, said: dict[str, Any]) -> Finding:
    """Read what `Finding.described` has written."""
    subject = Subject(said["key"], said["version_id"])
    source = None
    if etag := said["source_etag"]:
        source = ObjectEvent(bucket, subject.key, "", etag, said["source_version_id"])
    output = OutputState() if said["output"] is None else OutputState("any", said["output"])
    reading = Reading(subject, {}, output, source)
    return Finding(subject, Verdict(said["verdict"]), reading, said["reason"])
