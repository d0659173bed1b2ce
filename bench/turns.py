"""One contender's turn at one workload: uploads, deliveries, and what was recorded of them."""

import json
import time
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from io import BytesIO
from pathlib import Path
from typing import Any

from PIL import Image

from bench.contenders.orders import with_orders
from bench.contenders.recorder import Processing
from bench.delivery import Transport, transport
from bench.laboratory import FUNCTION, ROUTER, Laboratory
from bench.measures import Invocation, Turn, Uploaded, invocations_of
from bench.workloads import Upload, Workload
from inorder.aws.executions import wait_until
from inorder.aws.stack import read_object
from inorder.demo.run import shows
from inorder_fence.fenced_output import output_key
from tests.support.events import SEQUENCER, shipped

QUIET_SECONDS = 1800
THREADS = 24  # that make the uploads of so many keys at a time
LATER_THREADS = 100  # that wait to deliver an event late or again, or to kill
SIDE = 64  # pixels
AFTER_DEATH_SECONDS = 1
# What AWS bills for the operations that the functions call.
REQUESTS = {
    "GetObject": "s3_gets",
    "HeadObject": "s3_gets",
    "PutObject": "s3_puts",
    "SendMessage": "sqs_fifo_requests",
    "ChangeMessageVisibility": "sqs_fifo_requests",
}


class Runner:
    """Makes the uploads of a workload at their times, and delivers their events."""

    def __init__(self, laboratory: Laboratory, target: Transport, prefix: str) -> None:
        self._laboratory, self._target, self._prefix = laboratory, target, prefix
        self._later = ThreadPoolExecutor(LATER_THREADS)
        self._deferred: list[Future[None]] = []
        self.newest: dict[str, Uploaded] = {}
        self.contents: dict[str, bytes] = {}
        self.delivered: list[dict[str, Any]] = []
        self.began = 0.0

    def run(self, uploads: tuple[Upload, ...]) -> None:
        """Make all uploads and deliveries."""
        self.began = began = time.time()
        of_keys: dict[int, list[tuple[int, Upload]]] = defaultdict(list)
        for number, upload in enumerate(uploads):
            of_keys[upload.key].append((number, upload))
        with self._later, ThreadPoolExecutor(THREADS) as pool:
            for done in [pool.submit(self._upload_all, began, own) for own in of_keys.values()]:
                done.result()
            for done in self._deferred:
                done.result()

    def _upload_all(self, began: float, own: list[tuple[int, Upload]]) -> None:
        """Make the uploads of a key, one after the other."""
        for number, upload in own:
            sleep_until(began + upload.at)
            self._upload(upload, number)

    def _defer(self, when: float, action: Callable[..., None], *arguments: Any) -> None:
        def act() -> None:
            sleep_until(when)
            action(*arguments)

        self._deferred.append(self._later.submit(act))

    def _upload(self, upload: Upload, number: int) -> None:
        key = f"{self._prefix}/{upload.key}.png"
        if upload.after_death:
            died = self._laboratory.folder / f"{self.newest[key].etag}.died"
            wait_until(died.exists, QUIET_SECONDS, "the death of the holder")
            time.sleep(AFTER_DEATH_SECONDS)
        content = picture(number, upload)
        bucket = self._laboratory.input_bucket
        answer = self._laboratory.s3.put_object(Bucket=bucket, Key=key, Body=content)
        etag, now = answer["ETag"].strip('"'), time.time()
        self.newest[key], self.contents[key] = Uploaded(now, etag), content
        event = shipped("object-created")
        event["detail"]["bucket"]["name"] = bucket
        event["detail"]["object"] = {
            "key": key,
            "size": len(content),
            "etag": etag,
            "sequencer": f"{int(SEQUENCER, 16) + number:0{len(SEQUENCER)}X}",
        }
        if upload.late:
            self._defer(now + upload.late, self._deliver, event)
        else:
            self._deliver(event)
        if upload.again is not None:
            self._defer(now + upload.late + upload.again, self._deliver, event)
        if upload.vanishes:
            self._defer(now, self._kill, key, self._laboratory.folder / f"{etag}.started")

    def _deliver(self, event: dict[str, Any]) -> None:
        self.delivered.append(event)
        self._target.deliver(event)

    def _kill(self, key: str, started: Path) -> None:
        wait_until(started.exists, QUIET_SECONDS, "the holder to begin", 0.02)
        self._target.kill_holder(key)


def sleep_until(when: float) -> None:
    """Sleep until a time, in seconds since 1970."""
    time.sleep(max(0, when - time.time()))


def picture(number: int, upload: Upload) -> bytes:
    """Make an image that no other upload of the turn has."""
    file = BytesIO()
    colour = (number % 256, number // 256, 77)
    Image.new("RGB", (SIDE, SIDE), colour).save(file, "PNG")
    orders = {"seconds": upload.seconds, "fails": upload.fails, "dies": upload.dies}
    return with_orders(file.getvalue(), orders)


def take_turn(laboratory: Laboratory, contender: str, workload: Workload, run: int) -> Turn:
    """Let a contender process a workload, and read what was recorded."""
    for mark in laboratory.folder.glob("*.*ed"):  # of the orders of an earlier turn
        mark.unlink()
    files = [laboratory.folder / name for name in ("records", "calls")]
    for file in files:
        file.write_text("")  # who writes appends
    laboratory.bound(workload.bound)
    target = transport(contender, laboratory, workload.bound)
    runner = Runner(laboratory, target, f"{workload.name}-{run}-{contender}")
    try:
        runner.run(workload.uploads)
        wait_until(target.is_quiet, QUIET_SECONDS, f"{contender} to end {workload.name}", 0.2)
    finally:
        target.close()
    turn = Turn(runner.began, len(runner.delivered), runner.newest)
    turn.used.update(target.used())
    records, calls = (file.read_text().splitlines() for file in files)
    read_records(turn, records)
    read_calls(turn, calls)
    turn.outputs = {
        key: state_of_output(laboratory, key, content) for key, content in runner.contents.items()
    }
    return turn


def read_records(turn: Turn, lines: list[str]) -> None:
    """Take over what the contenders' handlers have recorded."""
    records = [json.loads(line) for line in lines]
    turn.invocations += invocations_of(records)
    for record in records:
        what = record.pop("what")
        if what == "processing":
            del record["process"]
            turn.processings.append(Processing(**record))
        elif what == "call":
            turn.used[REQUESTS[record["operation"]]] += 1


def read_calls(turn: Turn, lines: list[str]) -> None:
    """Take over what the server has counted; the product's other functions are invoked there."""
    for line in lines:
        at, what, name, number, *memory = line.split(" ")
        if what != "invocation":
            turn.used[what] += float(number)
        elif name not in {FUNCTION, ROUTER}:
            end = float(at)
            turn.invocations.append(Invocation(end - float(number), end, int(memory[0])))


def state_of_output(laboratory: Laboratory, key: str, newest: bytes) -> str:
    """Tell whether a key's output shows its newest content."""
    content = read_object(laboratory.s3, laboratory.output_bucket, output_key(key))
    if content is None:
        return "missing"
    return "right" if shows(content, newest) else "stale"
