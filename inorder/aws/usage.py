"""What a deployed stack has used, from its CloudWatch metrics, and the bill of that."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from inorder import cost
from inorder.aws.stack import Connection
from inorder.cost import Bill, Workload
from inorder.model.policies import Policy, names, policy

HOUR = 3600  # seconds; CloudWatch keeps hourly values for 15 months
MONTH_DAYS = 30
BILLED_MB = 64  # what an execution takes if no metric says so
QUERIES = 500  # that one call takes
EXECUTION_LOG = "StateMachineLogGroup"
SQS_METRICS = (
    "NumberOfMessagesSent",
    "NumberOfMessagesReceived",
    "NumberOfMessagesDeleted",
    "NumberOfEmptyReceives",
)


@dataclass(frozen=True)
class Metric:
    """A metric of CloudWatch, and what it is a part of."""

    use: str
    namespace: str
    name: str
    dimensions: tuple[tuple[str, str], ...]
    statistic: str = "Sum"
    factor: float = 1

    def __str__(self) -> str:
        return f"{self.namespace} {self.name} of {', '.join(value for _, value in self.dimensions)}"


@dataclass
class Measured:
    """What a stack would use in a month like the last days."""

    # Quantities by the names of `inorder.cost.LINES`, without what no metric has.
    used: dict[str, float] = field(default_factory=dict)
    # Executions in a month; time and memory of the function that does the work.
    executions: float = 0
    process_ms: float = 0
    memory: int = 0
    silent: list[str] = field(default_factory=list)  # metrics without a value


def measure(aws: Connection, days: int, now: datetime | None = None) -> Measured:
    """Read the metrics of a stack's state machine, table, functions, queues and logs.

    The rest of the month is taken to be like the days that are read.
    """
    resources = _resources(aws)
    memory = {name: _memory(aws, name) for name in _functions(aws, resources)}
    table = aws.client("dynamodb").describe_table(TableName=aws.stack.key_table)["Table"]
    indexes = [each["IndexName"] for each in table.get("GlobalSecondaryIndexes", [])]
    metrics = [
        *_of_states(aws),
        *_of_table(aws.stack.key_table, indexes),
        *(each for name, size in memory.items() for each in _of_function(name, size)),
        *(each for url in resources["AWS::SQS::Queue"].values() for each in _of_queue(url)),
        *(_of_log(name, group) for name, group in resources["AWS::Logs::LogGroup"].items()),
    ]
    values, silent = _values(aws, metrics, days, now or datetime.now(UTC))
    month = MONTH_DAYS / days
    total: dict[str, float] = defaultdict(float)
    for metric, value in values.items():
        total[metric.use] += value * metric.factor * month
    used = {use: quantity for use, quantity in total.items() if not use.startswith("_")}
    billed_mb = total["_memory"] / total["_samples"] if total["_samples"] else BILLED_MB
    used["express_gb_seconds"] = total["_milliseconds"] / 1000 * billed_mb / 1024
    gigabytes = table.get("TableSizeBytes", 0) / 1e9
    used |= {"storage": gigabytes, "recovery": gigabytes}
    used["alarms"] = len(resources["AWS::CloudWatch::Alarm"])
    worker = aws.stack.function_name
    work = {
        metric.name: value
        for metric, value in values.items()
        if metric.namespace == "AWS/Lambda"
        and metric.dimensions == (("FunctionName", _name(worker)),)
    }
    invocations = work.get("Invocations", 0)
    return Measured(
        used,
        executions=used.get("express_requests", 0),
        process_ms=work.get("Duration", 0) / invocations if invocations else 0,
        memory=memory[_name(worker)],
        silent=silent,
    )


def of_stack(
    parameters: Mapping[str, str], measured: Measured, work: Workload
) -> tuple[Policy, Workload]:
    """Tell the policy of a stack and its workload, as far as it is known; the rest is `work`."""
    return policy(parameters.get("Policy", names()[0])), replace(
        work,
        events=measured.executions,
        process_ms=measured.process_ms or work.process_ms,
        memory=measured.memory,
        log_level=parameters.get("ExecutionLogLevel", work.log_level),
        heal_minutes=float(parameters.get("HealMinutes", work.heal_minutes)),
    )


def of_usage(name: str, chosen: Policy, work: Workload, measured: Measured) -> Bill:
    """Make the bill of what was measured; what no metric has is estimated."""
    modelled = cost.usage_of(chosen, work)
    estimated = ("events", "s3_gets", "s3_puts", "metrics")
    return cost.bill(name, {each: modelled[each] for each in estimated} | measured.used)


def _resources(aws: Connection) -> dict[str, dict[str, str]]:
    """List the stack's resources: by type, the physical IDs by the logical ones."""
    found: dict[str, dict[str, str]] = defaultdict(dict)
    pages = aws.client("cloudformation").get_paginator("list_stack_resources")
    for page in pages.paginate(StackName=aws.stack.name):
        for each in page["StackResourceSummaries"]:
            found[each["ResourceType"]][each["LogicalResourceId"]] = each.get(
                "PhysicalResourceId", ""
            )
    return found


def _functions(aws: Connection, resources: dict[str, dict[str, str]]) -> set[str]:
    """Name the functions; one's own is not a resource of the stack."""
    return {*resources["AWS::Lambda::Function"].values(), _name(aws.stack.function_name)}


def _name(function: str) -> str:
    """Give a function's name, also if it is an ARN, with a version or without."""
    return function.split(":")[6] if function.startswith("arn:") else function


def _memory(aws: Connection, function: str) -> int:
    configuration = aws.client("lambda").get_function_configuration(FunctionName=function)
    megabytes: int = configuration["MemorySize"]
    return megabytes


def _of_states(aws: Connection) -> Iterator[Metric]:
    machine = (("StateMachineArn", aws.stack.state_machine_arn),)
    yield Metric("express_requests", "AWS/States", "ExecutionsStarted", machine)
    yield Metric("_milliseconds", "AWS/States", "ExpressExecutionBilledDuration", machine)
    memory = "ExpressExecutionBilledMemory"
    yield Metric("_memory", "AWS/States", memory, machine)
    yield Metric("_samples", "AWS/States", memory, machine, "SampleCount")


def _of_table(table: str, indexes: list[str]) -> Iterator[Metric]:
    name = (("TableName", table),)
    for unit, use in (("Write", "writes"), ("Read", "reads")):
        metric = f"Consumed{unit}CapacityUnits"
        yield Metric(use, "AWS/DynamoDB", metric, name)
        for index in indexes:
            part = "index_writes" if use == "writes" else use
            of_index = (*name, ("GlobalSecondaryIndexName", index))
            yield Metric(part, "AWS/DynamoDB", metric, of_index)


def _of_function(name: str, memory: int) -> Iterator[Metric]:
    function = (("FunctionName", name),)
    yield Metric("lambda_requests", "AWS/Lambda", "Invocations", function)
    gigabytes = memory / 1024 / 1000  # for each ms
    yield Metric("lambda_gb_seconds", "AWS/Lambda", "Duration", function, factor=gigabytes)


def _of_queue(url: str) -> Iterator[Metric]:
    queue = (("QueueName", url.rsplit("/", 1)[-1]),)
    for metric in SQS_METRICS:
        yield Metric("sqs_requests", "AWS/SQS", metric, queue)


def _of_log(logical_id: str, group: str) -> Metric:
    use = "execution_log" if logical_id == EXECUTION_LOG else "function_log"
    return Metric(use, "AWS/Logs", "IncomingBytes", (("LogGroupName", group),), factor=1e-9)


def _values(
    aws: Connection, metrics: list[Metric], days: int, end: datetime
) -> tuple[dict[Metric, float], list[str]]:
    """Sum the values of each metric; also list those that have none."""
    client = aws.client("cloudwatch")
    values: dict[Metric, float] = {}
    for start in range(0, len(metrics), QUERIES):
        part = metrics[start : start + QUERIES]
        pages = client.get_paginator("get_metric_data").paginate(
            MetricDataQueries=[_query(f"m{at}", metric) for at, metric in enumerate(part)],
            StartTime=end - timedelta(days=days),
            EndTime=end,
        )
        for page in pages:
            for result in page["MetricDataResults"]:
                metric = part[int(result["Id"][1:])]
                if result["Values"]:
                    values[metric] = values.get(metric, 0) + sum(result["Values"])
    return values, [str(each) for each in metrics if each not in values]


def _query(query_id: str, metric: Metric) -> dict[str, Any]:
    dimensions = [{"Name": name, "Value": value} for name, value in metric.dimensions]
    named = {"Namespace": metric.namespace, "MetricName": metric.name, "Dimensions": dimensions}
    return {
        "Id": query_id,
        "MetricStat": {"Metric": named, "Period": HOUR, "Stat": metric.statistic},
    }
