"""Lambda handler: starts the executions for S3 events that come by SQS, or by SNS and SQS.

A message is finished when each of its events has started an execution. What is malformed is sent to
the queue of unadapted records at once, as another attempt cannot help. If anything else fails, SQS
delivers the whole message again, for a day at least, and some events start a second execution: the
state machine drops these duplicates. Executions get no names: where names must be unique, the name
of an execution that failed would prevent the redelivery of its event.

Each hour, a schedule lets the function read the attributes of its queues: SQS has metrics of a
queue, which alarms watch, for six hours after it was last used.
https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/monitoring-using-cloudwatch.html
"""

from __future__ import annotations

import json
import os
from typing import Any

import boto3
from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.metrics import MetricUnit
from aws_lambda_powertools.utilities.batch import (
    BatchProcessor,
    EventType,
    process_partial_response,
)
from aws_lambda_powertools.utilities.batch.types import PartialItemFailureResponse
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
from aws_lambda_powertools.utilities.typing import LambdaContext
from botocore.config import Config

from adapt_records.notifications import MalformedNotification, adapt, s3_records
from main_stack import Description, MainStack

QUEUE_URL = os.environ["RECORDS_QUEUE_URL"]
UNADAPTED_QUEUE_URL = os.environ["UNADAPTED_RECORDS_QUEUE_URL"]
# Of an execution's input.
# https://docs.aws.amazon.com/step-functions/latest/apireference/API_StartExecution.html
MAXIMUM_BYTES = 262_144
# If every message of a batch fails, the processor raises an error: the messages stay the same, but
# the metric Errors and its alarm show it, and Lambda polls less often.
PROCESSOR = BatchProcessor(EventType.SQS)
logger = Logger()
metrics = Metrics()
config = Config(
    connect_timeout=2, read_timeout=4, retries={"mode": "standard", "total_max_attempts": 3}
)
states = boto3.client("stepfunctions", config=config)
sqs = boto3.client("sqs", config=config)
description = Description(boto3.client("cloudformation", config=config), os.environ["STACK_NAME"])


@logger.inject_lambda_context
def handler(event: dict[str, Any], context: LambdaContext) -> PartialItemFailureResponse:
    """Start the executions of a batch, or read the attributes of the queues.

    Returns
    -------
    dict
        ``batchItemFailures``: the messages that must be delivered again.

    Raises
    ------
    BatchProcessingError
        Those are all messages.
    """
    if "Records" in event:
        answer: PartialItemFailureResponse = _adapt_batch(event, context)
        return answer
    for queue_url in (QUEUE_URL, UNADAPTED_QUEUE_URL):
        sqs.get_queue_attributes(QueueUrl=queue_url, AttributeNames=["QueueArn"])
    return {"batchItemFailures": []}


@metrics.log_metrics
def _adapt_batch(event: dict[str, Any], context: LambdaContext) -> PartialItemFailureResponse:
    return process_partial_response(event, start_executions, PROCESSOR, context)


def start_executions(record: SQSRecord) -> None:
    """Start an execution for each S3 event of a message.

    Parameters
    ----------
    record : SQSRecord
        The message. Powertools passes it by this name.

    Raises
    ------
    ExceptionGroup
        Some could not be started. All others were, so a bad event delays no other one.
    """
    failures: list[Exception] = []
    with logger.append_context_keys(message_id=record.message_id):
        try:
            records = s3_records(record.body)
        except MalformedNotification as error:
            records, failures = [], [error]
        for s3_record in records:
            try:
                _start_execution(s3_record)
            except Exception as error:  # Powertools would not log it
                failures.append(error)
        for failure in failures:
            logger.error("RecordFailed", exc_info=failure)
            metrics.add_metric(name="RecordsFailed", unit=MetricUnit.Count, value=1)
    if not all(isinstance(failure, MalformedNotification) for failure in failures):
        raise ExceptionGroup("Not every record has started an execution", failures)
    if failures:
        sqs.send_message(QueueUrl=UNADAPTED_QUEUE_URL, MessageBody=record.body)


def _start_execution(record: Any) -> None:
    event = adapt(record)
    stack = description.main_stack()
    if event is None or not _is_wanted(event, stack):
        logger.info("RecordSkipped", extra={"event_name": record["eventName"]})
        metrics.add_metric(name="RecordsSkipped", unit=MetricUnit.Count, value=1)
        return
    text = json.dumps(event)
    if len(text) > MAXIMUM_BYTES:
        raise MalformedNotification("The record is longer than any of S3")
    started = states.start_execution(stateMachineArn=stack.outputs["StateMachineArn"], input=text)
    logger.info(
        "ExecutionStarted",
        extra={
            "source_key": event["detail"]["object"]["key"],
            "execution": started["executionArn"],
        },
    )
    metrics.add_metric(name="ExecutionsStarted", unit=MetricUnit.Count, value=1)


def _is_wanted(event: dict[str, Any], stack: MainStack) -> bool:
    """Tell whether the rule of the main stack would match the event, and it is not of a folder.

    The console's *Create folder* makes an object of no bytes whose key ends in ``/``:
    https://docs.aws.amazon.com/AmazonS3/latest/userguide/using-folders.html
    """
    described = event["detail"]["object"]
    key = described["key"]
    if key.endswith("/") and described.get("size") == 0:
        return False
    # The rule's pattern has PREFIX*SUFFIX.
    prefix, suffix = stack.parameters["KeyPrefix"], stack.parameters["KeySuffix"]
    has_both = key.startswith(prefix) and key.removeprefix(prefix).endswith(suffix)
    return has_both and (event["detail-type"] == "Object Created" or stack.handles_deletions)
