"""Executions on AWS, which keeps no history of Express executions but their log.

The log is read with FilterLogEvents: it answers at once, and AWS's price list has no price for it.
An account may call it 5 times per second in a region
(https://repost.aws/knowledge-center/cloudwatch-logs-throttling); here it is called every two
seconds. A query of Logs Insights takes seconds and costs 0.005 dollars for each GB that it scans
(https://aws.amazon.com/cloudwatch/pricing/), each time anew.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import click

from inorder.aws.executions import (
    ENDS,
    Entry,
    Execution,
    LocalStateMachine,
    StateMachine,
    execution_of,
)

CLOCK_DIFFERENCE = timedelta(minutes=10)  # at most, between this machine and AWS


class AwsStateMachine(StateMachine):
    """A state machine on AWS.

    AWS delivers log entries as well as it can, and guarantees neither that all come nor when:
    https://docs.aws.amazon.com/step-functions/latest/dg/cw-logs.html. An execution without a first
    entry is not listed. One without a last entry runs, as far as this class knows.

    Parameters
    ----------
    client : SFNClient
        Of AWS.
    arn : str
        Of the state machine.
    logs : CloudWatchLogsClient
        Of AWS.
    log_group : str
        The name of its log, at level ALL with execution data.
    since : datetime, optional
        `all` lists the executions that have started since then.
    """

    poll_seconds = 2  # a log takes a few seconds to arrive, and calls are limited

    def __init__(
        self, client: Any, arn: str, logs: Any, log_group: str, since: datetime | None = None
    ) -> None:
        super().__init__(client, arn)
        self._logs, self._log_group, self._since = logs, log_group, since

    def entries(self, arn: str) -> list[Entry]:
        """Read what has happened in an execution from the log."""
        return self._read(f'{{ $.execution_arn = "{arn}" }}').get(arn, [])

    def all(self, prefix: str = "") -> list[Execution]:
        """List the executions from their first and last entries, so they have no steps."""
        types = " || ".join(f'($.type = "{each}")' for each in ("ExecutionStarted", *ENDS))
        found = [execution_of(arn, each) for arn, each in self._read(f"{{ {types} }}").items()]
        # Without its first entry, the log does not tell whose execution it is.
        return [each for each in found if each.event is not None and each.is_of(prefix)]

    def _read(self, pattern: str) -> dict[str, list[Entry]]:
        """Read entries, in order, by the ARN of their execution."""
        start = int((self._since - CLOCK_DIFFERENCE).timestamp() * 1000) if self._since else 0
        pages = self._logs.get_paginator("filter_log_events").paginate(
            logGroupName=self._log_group, filterPattern=pattern, startTime=start
        )
        # Entries may be stored in another order, and twice. Their IDs count from 1.
        by_id: dict[str, dict[int, Entry]] = {}
        for page in pages:
            for event in page["events"]:
                entry = json.loads(event["message"])
                by_id.setdefault(entry["execution_arn"], {})[int(entry["id"])] = Entry(
                    entry["type"], entry.get("details", {})
                )
        return {arn: [of[number] for number in sorted(of)] for arn, of in by_id.items()}


def log_group(described: Mapping[str, Any]) -> str:
    """Give the name of a state machine's log group.

    Parameters
    ----------
    described : Mapping
        The answer of DescribeStateMachine.
    """
    [destination] = described["loggingConfiguration"]["destinations"]
    arn: str = destination["cloudWatchLogsLogGroup"]["logGroupArn"]
    return arn.split(":")[6]


def state_machine(states: Any, logs: Any, arn: str, since: datetime) -> StateMachine:
    """Give a state machine on AWS or on a local engine, whose executions can be read.

    AWS refuses to list Express executions, where local engines list them:
    https://docs.aws.amazon.com/step-functions/latest/apireference/API_ListExecutions.html

    Parameters
    ----------
    states : SFNClient
        Of AWS or the engine.
    logs : CloudWatchLogsClient
        Of the same.
    arn : str
        Of the state machine.
    since : datetime
        Executions that started before are not needed.

    Raises
    ------
    click.ClickException
        The log does not have what is needed.
    """
    try:
        states.list_executions(stateMachineArn=arn, maxResults=1)
    except states.exceptions.StateMachineTypeNotSupported:
        pass
    else:
        return LocalStateMachine(states, arn)
    described = states.describe_state_machine(stateMachineArn=arn)
    logging = described.get("loggingConfiguration", {})
    if logging.get("level") != "ALL" or not logging.get("includeExecutionData"):
        data = "with" if logging.get("includeExecutionData") else "without"
        raise click.ClickException(
            f"The log of {arn} has the level {logging.get('level', 'OFF')}, {data} execution data."
            " Executions can be read from it only at the level ALL, with execution data."
        )
    return AwsStateMachine(states, arn, logs, log_group(described), since)
