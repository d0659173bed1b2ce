"""What a month costs on AWS, here and with the alternatives: a bill from counts and list prices.

The counts of a policy are its facts in statemachine/policies.toml, the prices are in prices.toml,
and contenders.toml has the alternatives and what has to be assumed. Nothing here calls a service.
"""

import math
import tomllib
from collections.abc import Mapping
from dataclasses import astuple, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from inorder.model.policies import Cost, Policy, definition, starts_newest

PRICES, CONTENDERS = map(Path(__file__).with_name, ("prices.toml", "contenders.toml"))
LOG_LEVELS = ("ALL", "ERROR", "OFF")
DAY = 86_400
STEP_MS = 100  # what Express rounds to

Usage = Mapping[str, float]


@dataclass(frozen=True)
class Price:
    """A row of prices.toml."""

    unit: str
    price: float  # dollars
    per: float  # the number of units that they pay for
    source: str
    read: str
    above: tuple[tuple[float, float], ...] = ()  # the prices of the units above a number

    def dollars(self, quantity: float) -> float:
        """Price a quantity, tier by tier."""
        starts = [0.0, *(start for start, _ in self.above), math.inf]
        rates = [self.price, *(price for _, price in self.above)]
        tiers = zip(starts, starts[1:], rates, strict=False)
        return sum(
            max(min(quantity, end) - start, 0) * price / self.per for start, end, price in tiers
        )


# The lines of a bill, in their order: a name, and the price's name.
LINES = {
    "events": ("EventBridge: events of the bucket", "eventbridge_events"),
    "express_requests": ("Step Functions: Express requests", "express_requests"),
    "express_gb_seconds": ("Step Functions: Express duration", "express_gb_seconds"),
    "writes": ("DynamoDB: writes", "dynamodb_writes"),
    "index_writes": ("DynamoDB: writes of the indexes", "dynamodb_writes"),
    "reads": ("DynamoDB: reads", "dynamodb_reads"),
    "storage": ("DynamoDB: storage", "dynamodb_storage"),
    "recovery": ("DynamoDB: point-in-time recovery", "dynamodb_recovery"),
    "lambda_requests": ("Lambda: requests", "lambda_requests"),
    "lambda_gb_seconds": ("Lambda: duration (arm64)", "lambda_gb_seconds"),
    "durable_operations": ("Lambda: durable operations", "durable_operations"),
    "durable_data": ("Lambda: durable data", "durable_data"),
    "s3_gets": ("S3: GET and HEAD", "s3_gets"),
    "s3_puts": ("S3: PUT", "s3_puts"),
    "s3_storage": ("S3: the outputs of the month", "s3_storage"),
    "sqs_requests": ("SQS: requests", "sqs_requests"),
    "sqs_fifo_requests": ("SQS: FIFO requests", "sqs_fifo_requests"),
    "execution_log": ("CloudWatch: log of executions", "log_gb"),
    "function_log": ("CloudWatch: logs of functions", "log_gb"),
    "log_storage": ("CloudWatch: storage of logs", "log_storage"),
    "idle_requests": ("SQS: long polls of idle queues", "sqs_requests"),
    "idle_fifo_requests": ("SQS: long polls of an idle FIFO queue", "sqs_fifo_requests"),
    "metrics": ("CloudWatch: metrics", "metrics"),
    "alarms": ("CloudWatch: alarms", "alarms"),
}
# What is the same in a month with any number of events.
FIXED = {"idle_requests", "idle_fifo_requests", "metrics", "alarms"}


@dataclass(frozen=True)
class Line:
    """A line of a bill."""

    name: str
    quantity: float
    unit: str
    dollars: float
    is_fixed: bool  # whether it is the same in a month with any number of events


@dataclass(frozen=True)
class Bill:
    """What a month costs."""

    name: str
    lines: list[Line]

    @property
    def dollars(self) -> float:
        """The sum."""
        return sum(line.dollars for line in self.lines)


@dataclass(frozen=True)
class Workload:
    """What happens in a month, and how the stack is set."""

    events: float = 1_000_000  # deliveries of S3 events
    # The shares of events that find their key locked by another one, that are delivered again,
    # and that arrive after a newer one was processed.
    overwrites: float = 0
    duplicates: float = 0
    older: float = 0
    process_ms: float = 300  # how long the function reads, works and writes for one event
    memory: int = 1769  # of the function, in MB
    object_kb: float = 100  # size of an output
    key_bytes: int = 50  # length of an object's key, which is in the records
    log_level: str = "ALL"
    log_data: bool = True  # whether the log has what the states received and returned

    def __post_init__(self) -> None:
        if any(isinstance(value, float) and math.isnan(value) for value in astuple(self)):
            raise ValueError("A number is nan.")
        if self.overwrites + self.duplicates + self.older > 1:
            raise ValueError("The shares of overwrites, duplicates and older events exceed 1.")

    @property
    def counts(self) -> dict[str, float]:
        """The number of events in each situation."""
        rare = {"waiter": self.overwrites, "duplicate": self.duplicates, "older": self.older}
        shares = {"uncontended": 1 - sum(rare.values())} | rare
        return {name: share * self.events for name, share in shares.items()}

    def gb_seconds(self, milliseconds: float) -> float:
        """Compute what Lambda bills for an invocation: full milliseconds."""
        return self.memory / 1024 * math.ceil(milliseconds) / 1000


@dataclass(frozen=True)
class Contender:
    """Another way to process the events: a row of contenders.toml."""

    name: str
    lacks: str
    fence: str = "none"
    cost: Mapping[str, Cost] = field(default_factory=dict)
    waits: str = ""
    poll: float = 0
    each_delivery: Usage = field(default_factory=dict)
    beside: Usage = field(default_factory=dict)
    beside_poll: Usage = field(default_factory=dict)
    idle: str = ""


@cache
def prices() -> dict[str, Price]:
    """Read the list prices."""
    return {
        name: Price(source=page, **row | {"above": tuple(map(tuple, row.get("above", [])))})
        for page, rows in _read(PRICES).items()
        if isinstance(rows, dict)
        for name, row in rows.items()
    }


def prices_of() -> str:
    """Say of when and where the prices are."""
    table = _read(PRICES)
    return f"{table['region']}, {table['date']:%Y-%m-%d}"


def contenders() -> list[Contender]:
    """List the alternatives."""
    others = []
    for name, row in _read(CONTENDERS)["contenders"].items():
        costs = {situation: Cost(**counts) for situation, counts in row.get("cost", {}).items()}
        like = costs.get("uncontended", Cost(writes=0, reads=0, invocations=1))
        others.append(
            Contender(name, **row | {"cost": dict.fromkeys(Workload().counts, like) | costs})
        )
    return others


def bill_of(policy: Policy, work: Workload) -> Bill:
    """Compute what a month costs with a policy of this project."""
    return bill(policy.name, usage_of(policy, work))


def usage_of(policy: Policy, work: Workload) -> dict[str, float]:
    """Compute what a month with a policy uses, by the names in `LINES`."""
    used: dict[str, float] = {}
    for situation, count in work.counts.items():
        _add(used, _of_policy(policy, situation, work), count)
    assumed = _assumed()
    idle = {"idle_requests": _idle_requests() * assumed["polled_queues"]}
    _add(used, idle | {name: assumed[name] for name in ("alarms", "metrics")})
    return used


def bill_of_contender(contender: Contender, work: Workload) -> Bill:
    """Compute what a month costs with an alternative; nothing fails in it, or watches it."""
    used: dict[str, float] = {}
    for situation, count in work.counts.items():
        _add(used, _of_contender(contender, situation, work), count)
    if contender.idle:
        _add(used, {contender.idle: _idle_requests()})
    return bill(contender.name, used)


def bill(name: str, used: Usage) -> Bill:
    """Price what was used, by the names in `LINES`, and the storage of its logs."""
    assumed, rows, lines = _assumed(), prices(), []
    logs = used.get("execution_log", 0) + used.get("function_log", 0)
    stored = assumed["log_compression"] * assumed["log_days"] / assumed["month_days"]
    used = {**used, "log_storage": logs * stored}  # once the first logs are deleted
    for line, (title, price) in LINES.items():
        if quantity := used.get(line):
            row = rows[price]
            dollars, is_fixed = row.dollars(quantity), line in FIXED
            lines.append(Line(title, quantity, row.unit, dollars, is_fixed))
    return Bill(name, lines)


def express_gb_seconds(milliseconds: float) -> float:
    """Compute what AWS bills for an execution: full 100 ms, and full 64 MB.

    It counts 50 MB, the definition and the data, which are never as much as 14 MB:
    https://aws.amazon.com/step-functions/pricing/ (example 3).
    """
    return 64 / 1024 * math.ceil(milliseconds / STEP_MS) * STEP_MS / 1000


def _polls(policy: Policy, milliseconds: float) -> tuple[int, float]:
    """Tell how often a waiter polls until a key is free, and how many seconds it waits.

    Others work on for these milliseconds when the waiter begins.
    """
    states = definition(policy.name)["States"].values()
    [seconds] = [state["Seconds"] for state in states if state["Type"] == "Wait"]
    waits = max(1, math.ceil(milliseconds / 1000 / seconds))
    return waits, waits * seconds


def record_bytes(work: Workload, has_event: bool = True) -> float:
    """Compute the size of a record, by which DynamoDB bills writes, reads and storage."""
    names = work.key_bytes + _assumed()["bucket_bytes"]
    if has_event:  # which has the names, too
        return float(_assumed()["record_bytes"] + 2 * names)
    return float(_assumed()["plain_record_bytes"] + names)


def units_of_write(size: float) -> int:
    """Tell what a write costs: a unit for each KB that is begun, of the larger of both records.

    https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/read-write-operations.html
    """
    return math.ceil(size / 1024)


def _of_policy(policy: Policy, situation: str, work: Workload) -> dict[str, float]:
    """List what one event uses."""
    assumed = _assumed()
    counted: Cost | None = getattr(policy.cost, situation)
    if not counted:  # it waits for nothing
        situation, counted = "uncontended", policy.cost.uncontended
    count, seconds = 0, 0.0
    is_started = situation == "waiter" and starts_newest(policy.name)
    if situation == "waiter":  # the holder has begun just before, and may start an execution
        works = _function_ms(policy.fence, "uncontended", work) + assumed["invoke_ms"]
        count, seconds = _polls(policy, works * (1 + is_started))
        counted = _plus(counted, policy.each_poll, count - 1)
    function_ms = _function_ms(policy.fence, situation, work)
    works_ms = counted.invocations * (assumed["invoke_ms"] + function_ms)
    calls_ms = assumed["call_ms"] * (counted.writes + counted.reads)
    durations = [assumed["start_ms"] + calls_ms + works_ms + seconds * 1000]
    if is_started:  # the holder starts another execution, which does the work
        calls_ms = assumed["call_ms"] * policy.cost.uncontended.writes
        started = assumed["start_ms"] + calls_ms + works_ms
        durations = [started, assumed["start_ms"] + durations[0] - started]
    executions = len(durations)
    used = {
        "events": 1,
        "express_requests": executions,
        "express_gb_seconds": sum(map(express_gb_seconds, durations)),
        "index_writes": policy.index.get(situation, 0),
        **_of_table(counted, work),
        **_of_function(counted.invocations, work, function_ms),
    }
    log = policy.log if work.log_data else policy.log_without_data
    kilobytes = {
        # What a holder does to start an execution writes as much as a poll.
        "ALL": log.uncontended * executions + (count + is_started) * (log.poll or 0),
        # Any write may be refused, except an uncontended event's.
        "ERROR": assumed["error_kb"] * counted.writes * (situation != "uncontended"),
    }
    used["execution_log"] = kilobytes.get(work.log_level, 0) / 1e6
    if policy.index.get(situation) and situation != "waiter":  # a key has one record
        used |= _of_storage(record_bytes(work))
        used["recovery"] = used["storage"]
    if counted.invocations:
        used |= _of_s3(policy.fence, situation, work)
    return used


def _of_contender(contender: Contender, situation: str, work: Workload) -> dict[str, float]:
    """List what one event uses."""
    assumed = _assumed()
    counted, waited, again = contender.cost[situation], 0.0, 0
    if situation == "waiter" and contender.waits:
        again = max(math.ceil(work.process_ms / 1000 / contender.poll), 1)
        waited = again * contender.poll * (contender.waits == "function")
        counted = _plus(counted, contender.cost["each_poll"], again)
    invocations = contender.cost[situation].invocations
    busy = waited * 1000 + assumed["invoke_ms"] * (counted.invocations - invocations)
    busy += assumed["call_ms"] * (counted.writes + counted.reads)
    used = dict(contender.each_delivery)
    if invocations:
        busy += _function_ms(contender.fence, situation, work)
        _add(used, _of_s3(contender.fence, situation, work))
        _add(used, contender.beside)
    _add(used, contender.beside_poll, again)
    used |= _of_table(counted, work, has_event=False)
    _add(used, {"lambda_requests": counted.invocations, "lambda_gb_seconds": work.gb_seconds(busy)})
    # Of a function beside the one that does the work, too.
    used["function_log"] = used["lambda_requests"] * assumed["function_log_kb"] / 1e6
    if counted.writes and situation == "uncontended":
        _add(used, _of_storage(record_bytes(work, has_event=False)))
    return used


def _of_table(counted: Cost, work: Workload, has_event: bool = True) -> dict[str, float]:
    """Give the units of writes and of reads, which cost one for each 4 KB: no record is larger."""
    unit = units_of_write(record_bytes(work, has_event))
    return {"writes": unit * counted.writes, "reads": counted.reads}


def _of_function(invocations: int, work: Workload, milliseconds: float) -> dict[str, float]:
    return {
        "lambda_requests": invocations,
        "lambda_gb_seconds": invocations * work.gb_seconds(milliseconds),
        "function_log": invocations * _assumed()["function_log_kb"] / 1e6,
    }


def _of_storage(size: float) -> dict[str, float]:
    assumed = _assumed()
    return {"storage": size / 1e9 * assumed["retention_days"] / assumed["month_days"]}


def _function_ms(fence: str, situation: str, work: Workload) -> float:
    """Compute how long the function runs; one read and one write are in the time of the work."""
    requests = _of_s3(fence, situation, work)
    works = bool(requests["s3_puts"])  # else it has found that there is nothing to do
    more = requests["s3_gets"] - works
    return work.process_ms * works + more * float(_assumed()["call_ms"])


def _of_s3(fence: str, situation: str, work: Workload) -> dict[str, float]:
    gets, puts = _read(CONTENDERS)["s3"][fence][situation]
    remains = situation == "uncontended" or (fence == "each" and puts)  # others replace an output
    return {"s3_gets": gets, "s3_puts": puts, "s3_storage": work.object_kb / 1e6 * bool(remains)}


def _idle_requests() -> float:
    assumed = _assumed()
    return float(assumed["month_days"] * DAY / assumed["poll_seconds"] * assumed["pollers"])


def _plus(counted: Cost, more: Cost, times: int) -> Cost:
    return Cost(
        counted.writes + times * more.writes,
        counted.reads + times * more.reads,
        counted.invocations + times * more.invocations,
    )


def _add(total: dict[str, float], used: Usage, times: float = 1) -> None:
    for name, quantity in used.items():
        total[name] = total.get(name, 0) + quantity * times


@cache
def _read(file: Path) -> dict[str, Any]:
    return tomllib.loads(file.read_text(encoding="utf-8"))


def _assumed() -> dict[str, Any]:
    assumed: dict[str, Any] = _read(CONTENDERS)["assumed"]
    return assumed
