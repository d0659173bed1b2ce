"""SQS, the event source mapping that reads it, and the deliveries of EventBridge."""

import heapq
import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Any

from tests.proof.simulation.clock import Clock, Steps
from tests.proof.simulation.function import Limit

# EventBridge does not say how long it waits between 185 attempts in 24 hours.
# https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-rule-retry-policy.html
LONGEST_DELIVERY_PAUSE = 24 * 3600 / 185


@dataclass
class QueuedMessage:
    """A message of a queue."""

    id: str
    body: str
    sent: float
    visible: float  # when it can be received again
    receives: int = 0
    is_deleted: bool = False


class Queue:
    """A standard queue.

    For `visibility` seconds nobody else receives a message that has been received. `twice` is the
    share of the messages that are delivered twice.
    """

    def __init__(self, clock: Clock, visibility: float, twice: float) -> None:
        self._clock, self.visibility, self._twice = clock, visibility, twice
        self._heap: list[tuple[float, int, QueuedMessage]] = []
        self._numbers = count()
        self._changed = clock.env.event()
        self.size = 0

    def send(self, body: str, delay: float = 0) -> None:
        name, now = f"m{next(self._numbers)}", self._clock.now
        for _ in range(2 if self._clock.random.random() < self._twice else 1):
            self.size += 1
            self.show(QueuedMessage(name, body, now, now), delay)

    def show(self, message: QueuedMessage, seconds: float) -> None:
        """Hide a message for a number of seconds: ChangeMessageVisibility."""
        message.visible = self._clock.now + seconds
        heapq.heappush(self._heap, (message.visible, next(self._numbers), message))
        if self._changed.callbacks:
            self._changed.succeed()
            self._changed = self._clock.env.event()

    def delete(self, message: QueuedMessage) -> None:
        self.size -= not message.is_deleted
        message.is_deleted = True

    def wait(self) -> Steps:
        env = self._clock.env
        while (seconds := self._next_visible() - env.now) > 0:
            timer = [env.timeout(seconds)] if math.isfinite(seconds) else []
            yield env.any_of([self._changed, *timer])

    def receive(self, most: int) -> list[QueuedMessage]:
        batch: list[QueuedMessage] = []
        while len(batch) < most and self._next_visible() <= self._clock.now:
            message = heapq.heappop(self._heap)[2]
            message.receives += 1
            batch.append(message)
        for message in batch:
            self.show(message, self.visibility)
        return batch

    def _next_visible(self) -> float:
        while self._heap:
            visible, _, message = self._heap[0]
            if visible == message.visible and not message.is_deleted:
                return visible
            heapq.heappop(self._heap)
        return math.inf


@dataclass
class Mapping:
    """An event source mapping with MaximumConcurrency, as AWS documents it.

    https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-errorhandling.html
    """

    clock: Clock
    queue: Queue
    # Handles one message, and tells whether it is finished. The messages of a batch are handled
    # at the same time.
    handle: Callable[[QueuedMessage], bool]
    batch: int  # messages
    window: float  # for how many seconds more messages are awaited if there are fewer
    concurrency: int  # how many batches are handled at once
    seconds: float  # for how long the function runs if no call of it has to wait
    limit: Limit  # the concurrency that the function may share with others

    def start(self) -> None:
        for _ in range(self.concurrency):
            self.clock.env.process(self._poll())

    def _poll(self) -> Steps:
        env = self.clock.env
        while True:
            yield from self.queue.wait()
            if self.clock.trouble("sqs"):
                yield env.timeout(1)
                continue
            batch, received, pause = self.queue.receive(self.batch), env.now, 1.0
            if len(batch) < self.batch:
                yield env.timeout(self.window)
                batch += self.queue.receive(self.batch - len(batch))
            # Lambda tries a batch that is refused again, until it is visible to others.
            while is_refused := self.clock.trouble("lambda") or self.limit.is_reached():
                pause = min(2 * pause, 60)
                if env.now + pause > received + self.queue.visibility:
                    break
                yield env.timeout(self.clock.random.uniform(0, pause))
            if batch and not is_refused:
                yield from self._invoke(batch)

    def _invoke(self, batch: list[QueuedMessage]) -> Steps:
        self.limit.running += 1
        self.clock.count("retry batches")
        finished, longest = [], 0.0
        for message in batch:
            self.clock.elapsed = 0.0
            if self.handle(message):
                finished.append(message)
            longest = max(longest, self.clock.elapsed)
        self.clock.elapsed = 0.0
        yield self.clock.env.timeout(self.seconds + longest)
        self.limit.running -= 1
        if not self.clock.trouble("sqs"):
            for message in finished:
                self.queue.delete(message)


class Bus:
    """EventBridge, which retries what it cannot deliver."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.pending = 0

    def deliver(self, service: str, action: Callable[[], Any], after: float = 0) -> None:
        """Deliver an event after some seconds."""
        self.pending += 1
        self._clock.env.process(self._deliver(service, action, after))

    def _deliver(self, service: str, action: Callable[[], Any], after: float) -> Steps:
        env, pause = self._clock.env, 1.0
        yield env.timeout(after)
        while self._clock.trouble(service):
            yield env.timeout(self._clock.random.uniform(pause / 2, pause))
            pause = min(2 * pause, LONGEST_DELIVERY_PAUSE)
        action()
        self.pending -= 1
