"""The deployed stack of a policy, in virtual time: what the template has, wired as it is there."""

import inspect
import json
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import count
from types import SimpleNamespace
from typing import Any

from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

from inorder.model.outcomes import FINISHED
from inorder.model.policies import definition
from inorder_fence.records import object_key_of
from inorder_fence.stuck import SINCE
from tests.proof.simulation.clock import EPOCH, Clock, Outage, Steps
from tests.proof.simulation.function import Function, Limit, Objects, load
from tests.proof.simulation.machine import Execution, Json, Machine
from tests.proof.simulation.queue import Bus, Mapping, Queue, QueuedMessage
from tests.proof.simulation.table import Table
from tests.support.events import created
from tests.support.resolved_template import resolve, template

TEMPLATE = template()
DEFAULTS = {name: parameter["Default"] for name, parameter in TEMPLATE["Parameters"].items()}
RESOURCES = {
    name: resource["Properties"]
    for name, resource in resolve(TEMPLATE, {})["Resources"].items()
    if "Properties" in resource
}
CONSUMER = RESOURCES["RetryEventsFunction"]["Events"]["Faults"]["Properties"]
# Of the retries' function for a batch, if no call has to wait: 50 messages take 4 ms of its
# processor each.
CONSUMER_SECONDS = 0.2
Dies = Callable[[Execution, str], bool]


@dataclass
class Settings:
    """What a simulation is given."""

    policy: str = "latest-wins"
    concurrency: int = 1000
    seconds: float = 0.5
    # Whether the retries' function has to get along with that concurrency too.
    shares_concurrency: bool = False
    timeout: float = RESOURCES["InvertImageFunction"]["Timeout"]
    # Whether each upload is a version; every-version is for such a bucket only.
    versioned: bool | None = None
    retry_hours: float = DEFAULTS["RetryHours"]
    outages: Iterable[Outage] = ()
    dies: Dies = lambda _, __: False  # tells whether an execution dies when it enters a state
    # By the keys of objects for which the function fails: its error.
    poison: dict[str, Exception] = field(default_factory=dict)
    twice: float = 0  # the share of the messages that SQS delivers twice
    maximum_concurrency: int = CONSUMER["ScalingConfig"]["MaximumConcurrency"]
    seed: int = 1

    @property
    def is_versioned(self) -> bool:
        return self.policy == "every-version" if self.versioned is None else self.versioned


class Cloud:
    """A deployed stack."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.clock = clock = Clock(settings.seed, settings.outages)
        self.table, self.objects, self.bus = Table(clock), Objects(clock), Bus(clock)
        visibility = RESOURCES["RetryEventsQueue"]["VisibilityTimeout"]
        self.retries = Queue(clock, visibility, settings.twice)
        self.switch(settings.policy)
        self.executions: list[Execution] = []
        self.running = 0
        self.parked: list[Json] = []
        # When an event arrived, and when it was finished, by sequencer.
        self.arrived: dict[str, float] = {}
        self.finished: dict[str, float] = {}
        # Under which record each function works, how many do so, and where two did at once.
        self._working: dict[str, str] = {}
        self._workers = Counter[str]()
        self.shared_keys: set[str] = set()
        self._numbers = count(1)
        self._limit = Limit(settings.concurrency)
        self.function = self._make_function()
        self._start_retries()
        clock.env.process(self._sweep())

    def switch(self, policy: str) -> None:
        """Let executions that start from now on have this policy."""
        self.machine = Machine(definition(policy), policy)

    # What arrives

    def upload(
        self, key: str, after: float = 0, etag: str | None = None, deliveries: int = 1
    ) -> str:
        """Upload an object, whose event arrives some seconds later; give its sequencer.

        Further deliveries of the event follow every 2 s.
        """
        sequencer = f"{next(self._numbers):018X}"
        etag = etag or f"etag-{sequencer}"
        version = sequencer if self.settings.is_versioned else None
        event = created(key, sequencer=sequencer, etag=etag, version_id=version)

        def arrive() -> None:
            self.objects.upload(key, etag, version)
            self.arrived[sequencer] = self.clock.now
            for number in range(deliveries):
                self.bus.deliver("states", lambda: self.start(event), 2 * number)

        self.bus.deliver("s3 events", arrive, after)
        return sequencer

    def start(self, event: Json) -> None:
        """Start an execution now: in the code of a function, that is later than `env.now`."""
        execution = Execution(f"execution-{len(self.executions)}", event, self.clock.now)
        self.executions.append(execution)
        self.running += 1
        self.clock.count("starts")
        self.clock.env.process(self._execute(execution))

    def _execute(self, execution: Execution) -> Steps:
        yield self.clock.env.timeout(execution.started - self.clock.env.now)
        execution.outcome = yield from self.machine.run(execution, self)
        execution.ended = self.clock.now
        self._stop_work(execution)
        self.running -= 1
        if execution.outcome in FINISHED:
            self.finished.setdefault(sequencer_of(execution.input), execution.ended)

    # What the state machine needs

    def call(self, resource: str, parameters: Json, seconds: float) -> Steps:
        service, operation = resource.rsplit(":", 2)[1:]
        if service == "lambda":
            return self.function.invoke(parameters["Payload"], seconds)
        action: Callable[[Json], Any] = {
            "dynamodb": lambda parameters: self.table.call(operation, parameters),
            "sqs": self._send,
            "events": self._put_events,
            "states": lambda parameters: self.start(parameters["Input"]),
        }[service]
        return self.clock.request(service, lambda: action(parameters) or {}, seconds)

    def dies(self, execution: Execution, state: str) -> bool:
        self._stop_work(execution)
        if state == "Invert Image":
            record = self._working[execution.id] = str(object_key_of(execution.input))
            self._workers[record] += 1
            if self._workers[record] > 1:
                self.shared_keys.add(record)
        return self.settings.dies(execution, state)

    def _stop_work(self, execution: Execution) -> None:
        if record := self._working.pop(execution.id, None):
            self._workers[record] -= 1

    def _send(self, parameters: Json) -> None:
        if parameters["QueueUrl"] == "${RetryEventsQueueUrl}":
            body = json.dumps(parameters["MessageBody"])
            self.retries.send(body, parameters.get("DelaySeconds", 0))
        else:
            assert parameters["QueueUrl"] == "${ParkedEventsQueueUrl}"
            self.parked.append(parameters["MessageBody"])

    def _put_events(self, parameters: Json) -> None:
        [entry] = parameters["Entries"]
        if entry["EventBusName"] == "${RetryEventsBusName}":  # a recipe has the default bus
            body = json.dumps(entry["Detail"])
            self.clock.count("by EventBridge")
            self.bus.deliver("sqs", lambda: self.retries.send(body))

    # The functions

    def _make_function(self) -> Function:
        clock, poison = self.clock, self.settings.poison
        fences = load("inorder_fence/fenced_output.py", {}, {})
        fences.time = SimpleNamespace(time=clock.time, sleep=clock.sleep)  # type: ignore[attr-defined]
        result = SimpleNamespace(content=b"", content_type="")
        fence = fences.Fence(self.objects, "output", 1, lambda _: result, True)
        days = DEFAULTS["RecordRetentionDays"]

        def answer_or_fail(payload: Json) -> Json:
            if error := poison.get(payload["event"]["detail"]["object"]["key"]):
                raise error
            answer: Json = fence.answer(payload, days)
            return answer

        settings = self.settings
        return Function(clock, answer_or_fail, settings.seconds, settings.timeout, self._limit)

    def _start_retries(self) -> None:
        settings, messages = self.settings, dict[str, QueuedMessage]()
        environment = _environment("RetryEventsFunction", RETRY_HOURS=settings.retry_hours)

        def start_execution(input: str, **_: str) -> Json:  # noqa: A002
            self.clock.call("states", lambda: self.start(json.loads(input)))
            return {"executionArn": ""}

        # Express lets names repeat.
        exceptions = SimpleNamespace(ExecutionAlreadyExists=NotImplementedError)
        states = SimpleNamespace(start_execution=start_execution, exceptions=exceptions)
        clients = {"dynamodb": self.table, "stepfunctions": states, "sqs": self._sqs(messages)}
        function = load("retry_events/app.py", clients, environment)
        function.time = SimpleNamespace(time=self.clock.time)  # type: ignore[attr-defined]

        def handle(message: QueuedMessage) -> bool:
            messages[message.id] = message
            function.STATE_MACHINE = self.machine.name  # type: ignore[attr-defined]
            attributes = {
                "SentTimestamp": str(int((EPOCH + message.sent) * 1000)),
                "ApproximateReceiveCount": str(message.receives),
            }
            record = {"messageId": message.id, "receiptHandle": message.id, "body": message.body}
            record["eventSourceARN"] = "RetryEventsQueue"
            outcome = function.handle(SQSRecord(record | {"attributes": attributes}))
            self.clock.count(outcome)
            del messages[message.id]
            return outcome in function.FINISHED

        Mapping(
            self.clock,
            self.retries,
            handle,
            CONSUMER["BatchSize"],
            CONSUMER["MaximumBatchingWindowInSeconds"],
            settings.maximum_concurrency,
            CONSUMER_SECONDS,
            self._limit if settings.shares_concurrency else Limit(),
        ).start()

    def _sqs(self, messages: dict[str, QueuedMessage]) -> SimpleNamespace:
        """Make boto3's client, for a function that has received messages."""

        def send_message(QueueUrl: str, MessageBody: str) -> None:  # noqa: N803
            if QueueUrl == "RetryEventsQueue":
                self.clock.call("sqs", lambda: self.retries.send(MessageBody))
            else:
                self.clock.call("sqs", lambda: self.parked.append(json.loads(MessageBody)))

        return SimpleNamespace(
            send_message=send_message,
            change_message_visibility=lambda ReceiptHandle, VisibilityTimeout, **_: self.clock.call(  # noqa: N803
                "sqs", lambda: self.retries.show(messages[ReceiptHandle], VisibilityTimeout)
            ),
            get_queue_attributes=lambda **_: self.clock.call("sqs", lambda: None, attempts=2),
        )

    def _sweep(self) -> Steps:
        clock = self.clock
        clients = {"dynamodb": self.table, "sqs": self._sqs({})}
        function = load("heal_keys/app.py", clients, _environment("HealKeysFunction"))
        function.THREADS = 1  # type: ignore[attr-defined] # the simulated time is that of one
        function.datetime = SimpleNamespace(now=lambda _: clock.datetime())  # type: ignore[attr-defined]
        seconds = RESOURCES["HealKeysFunction"]["Timeout"]
        context = SimpleNamespace(
            get_remaining_time_in_millis=lambda: 1000 * (seconds - clock.elapsed)
        )
        handle = inspect.unwrap(function.handler)
        while True:
            yield clock.env.timeout(60)
            if clock.trouble("lambda"):
                continue  # it begins within a minute, or not at all
            clock.elapsed = 0.0
            function.STATE_MACHINE = self.machine.name  # type: ignore[attr-defined]
            try:
                handle({}, context)
            except Exception:  # the next sweep tries again
                clock.count("failed sweeps")
            clock.elapsed = 0.0

    # How it goes on

    def run_until_quiet(self, seconds: float) -> None:
        """Let the time pass until nothing is left to do, or the seconds are over."""
        while not self.is_quiet():
            assert self.clock.now < seconds, self.outcomes
            self.clock.env.run(until=self.clock.now + 5)

    def is_quiet(self) -> bool:
        """Tell whether nothing is left to do, and no record is in the index."""
        busy = self.running or self.retries.size or self.bus.pending
        return not busy and not self.table.having(SINCE)

    @property
    def outcomes(self) -> Counter[str]:
        """How many executions ended with each outcome, which is empty as long as one runs."""
        return Counter(execution.outcome for execution in self.executions)

    @property
    def reasons(self) -> list[list[str]]:
        """The reasons with which each retried execution was started."""
        retries = [execution.input.get("retry") for execution in self.executions]
        return [retry["reasons"] for retry in retries if retry]

    @property
    def makespan(self) -> float:
        """From the beginning until the last event was finished, in seconds."""
        return max(self.finished.values(), default=0)


def _environment(function: str, **others: float) -> dict[str, str]:
    """Give the environment of a function in the template, in which a resource is its name."""
    variables = RESOURCES[function]["Environment"]["Variables"] | others
    return {name: str(value) for name, value in variables.items()}


def sequencer_of(event: Json) -> str:
    sequencer: str = event["detail"]["object"]["sequencer"]
    return sequencer
