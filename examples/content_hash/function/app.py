"""Lambda handler: starts an execution for each record of a batch, which forwards its content once.

The state machine decides what is forwarded. This function computes what JSONPath cannot: the hash
of a content, and times.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections import Counter
from dataclasses import dataclass
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal
from typing import Any, NoReturn

import boto3
from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.metrics import MetricUnit
from aws_lambda_powertools.utilities.batch import BatchProcessor, EventType
from aws_lambda_powertools.utilities.data_classes.kinesis_stream_event import KinesisStreamRecord
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
from aws_lambda_powertools.utilities.typing import LambdaContext
from botocore.config import Config

STATE_MACHINE_ARN = os.environ["STATE_MACHINE_ARN"]
REMEMBERED_SECONDS = 7 * 86_400  # a content is forwarded once in so long
DEAD_SECONDS = 360  # Express ends an execution after 300; the rest is for clocks that differ
EXACT = Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN)  # every digit of a number counts
logger = Logger()
metrics = Metrics()
# An execution takes 23 s at most, so ten of them end within the function's 300. There is no second
# attempt: it would find the content claimed by the first one, and the source tries again anyway.
states = boto3.client(
    "stepfunctions",
    config=Config(connect_timeout=2, read_timeout=27, retries={"total_max_attempts": 1}),
)


class NotForwarded(Exception):
    """An execution has failed, so the source must deliver its record again."""


@dataclass(frozen=True)
class Content:
    """The ID of what is forwarded once, and the event to forward, as JSON."""

    id: str
    event: str


@logger.inject_lambda_context
@metrics.log_metrics
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Forward a batch of SQS or Kinesis.

    Returns
    -------
    dict
        ``batchItemFailures``: the records that the source must deliver again; ``processed``,
        ``skipped`` and ``failed``: how many were forwarded, had been forwarded before, and failed.
    """
    is_sqs = event["Records"][0]["eventSource"] == "aws:sqs"
    processor = BatchProcessor(
        EventType.SQS if is_sqs else EventType.KinesisDataStreams,
        raise_on_entire_batch_failure=False,  # so that there are always counts
    )
    with processor(event["Records"], forward, context):
        results = processor.process()
    counts = Counter(outcome if status == "success" else "Failed" for status, outcome, _ in results)
    for name in ("Processed", "Skipped", "Failed"):
        metrics.add_metric(name=name, unit=MetricUnit.Count, value=counts[name])
    return {
        **processor.response(),
        "processed": counts["Processed"],
        "skipped": counts["Skipped"],
        "failed": counts["Failed"],
    }


def forward(record: SQSRecord | KinesisStreamRecord) -> str:
    """Let an execution forward a record, and give its outcome: ``Processed`` or ``Skipped``."""
    try:
        return _execute(content_of(record))
    except Exception:  # Powertools reports the record as failed, without a line in the log
        logger.exception("RecordFailed", extra={"record": _origin(record)[1]})
        raise


def _execute(content: Content) -> str:
    now = int(time.time())
    fields = {
        "id": content.id,
        "now": str(now),
        "dead_before": str(now - DEAD_SECONDS),
        "expires_at": str(now + REMEMBERED_SECONDS),
    }
    # The event keeps its spelling: a number that is parsed and written again may be another one.
    text = f'{json.dumps(fields)[:-1]}, "event": {content.event}}}'
    ended = states.start_sync_execution(stateMachineArn=STATE_MACHINE_ARN, input=text)
    if ended["status"] != "SUCCEEDED":
        raise NotForwarded(f"{ended.get('error')}: {ended.get('cause')}")
    return str(json.loads(ended["output"])["outcome"])


def content_of(record: SQSRecord | KinesisStreamRecord) -> Content:
    """Read the content of a record: an event of EventBridge, or anything else.

    What is no such event becomes the detail of one, whose source is the queue or the stream.
    """
    source, record_id, text = _origin(record)
    repeated: list[str] = []
    value = _parsed(text, repeated)
    match value:
        case {"source": str(), "detail-type": str(), "detail": dict()}:
            event = value
        case {"source": str(), "detail-type": str(), "detail": str(inner)} if isinstance(
            detail := _parsed(inner, repeated), dict
        ):
            event, text = value | {"detail": detail}, _event_text(value, inner)
        case dict():
            event = {"source": source, "detail-type": "Record", "detail": value}
            text = _event_text(event, text)
        case _:
            event = {"source": source, "detail-type": "Record", "detail": {"data": text}}
            text = json.dumps(event)
    try:
        if repeated:  # a consumer may read the first of two fields, and another one the second
            raise ValueError(f"These fields are there twice: {', '.join(repeated)}")
        hashed = canonical([event["source"], event["detail-type"], event["detail"]])
    except (ValueError, RecursionError) as error:
        event_id = event.get("id") or record_id
        logger.warning("NotHashed", extra={"event": event_id, "reason": str(error)})
        return Content(f"id:{event_id}", text)
    return Content(hashlib.sha256(hashed.encode()).hexdigest(), text)


def canonical(value: Any) -> str:
    """Write a value as JSON, with the same text for equal values.

    Fields are sorted, there is no white space, 1.0 is 1, and each character has one spelling.
    """
    if isinstance(value, dict):
        fields = (f"{json.dumps(name)}:{canonical(value[name])}" for name in sorted(value))
        return "{" + ",".join(fields) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(canonical, value)) + "]"
    if isinstance(value, Decimal):
        return str(value.normalize(EXACT)) if value else "0"
    return json.dumps(value)


def _parsed(text: str, repeated: list[str]) -> Any:
    """Parse a text, or give it back if it is no JSON; note the fields that an object has twice."""

    def fields(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        names = Counter(name for name, _ in pairs)
        repeated.extend(name for name, count in names.items() if count > 1)
        return dict(pairs)

    try:
        return json.loads(
            text,
            object_pairs_hook=fields,
            parse_int=EXACT.create_decimal,
            parse_float=EXACT.create_decimal,
            parse_constant=_no_number,
        )
    except (ValueError, ArithmeticError, RecursionError):
        return text


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def _event_text(event: dict[str, Any], detail: str) -> str:
    named = {name: event[name] for name in ("source", "detail-type")}
    return f'{json.dumps(named)[:-1]}, "detail": {detail}}}'


def _origin(record: SQSRecord | KinesisStreamRecord) -> tuple[str, str, str]:
    """Give a name for a record's source, the record's own ID, and its text."""
    _, _, service, _, _, resource = record.event_source_arn.split(":", 5)
    source = f"{service}.{resource.removeprefix('stream/')}"
    if isinstance(record, SQSRecord):
        return source, record.message_id, record.body
    try:
        return source, record.event_id, record.kinesis.data_as_text()
    except UnicodeDecodeError:
        return source, record.event_id, record.kinesis.data  # bytes, in base64
