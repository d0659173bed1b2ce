"""One contender's turn at one workload: uploads, deliveries, and what was recorded of them."""

from __future__ import annotations

import heapq
import json
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import Any

from PIL import Image

from bench.contenders.orders import with_orders
from bench.contenders.recorder import Processing
from bench.delivery import Transport, transport
from bench.laboratory import DURABLE, FUNCTION, ROUTER, Laboratory
from bench.measures import Turn, Uploaded, intervals_of
from bench.workloads import Upload, Workload
from inorder.aws.executions import wait_until
from inorder.demo.run import _inverse as inverse
from inorder_fence.fenced_output import output_key
from tests.support.events import SEQUENCER, shipped

QUIET_SECONDS = 1800
THREADS = 24
SIDE = 64  # pixels
AFTER_DEATH_SECONDS = 1


class Runner:
    """Makes the uploads of a workload at their times, and delivers their events."""

    def __init__(self, laboratory: Laboratory, target: Transport, prefix: str) -> None:
        self._laboratory, self._target, self._prefix = laboratory, target, prefix
        self._pool = ThreadPoolExecutor(THREADS)
        self._changed = threading.Condition()
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._open = 0  # actions that are due or run
        self._number = 0
        self._failure: BaseException | None = None
        self.newest: dict[str, Uploaded] = {}
        self.contents: dict[str, bytes] = {}
        self.events = 0

    def run(self, uploads: tuple[Upload, ...]) -> float:
        """Make all uploads and deliveries, and give the time of the beginning."""
        began = time.time()
        before: dict[int, Future[None] | None] = {}
        for number, upload in enumerate(uploads):
            done: Future[None] = Future()
            earlier = before.get(upload.key)
            self._at(began + upload.at, self._upload_in_turn, upload, number, earlier, done)
            before[upload.key] = done
        while True:
            with self._changed:
                while not self._due and self._open and not self._failure:
                    self._changed.wait()
                if self._failure:
                    raise self._failure
                if not self._due:
                    break
                if (pause := self._due[0][0] - time.time()) > 0:
                    self._changed.wait(pause)
                    continue
                _, _, action = heapq.heappop(self._due)
            self._pool.submit(self._act, action)
        self._pool.shutdown()
        return began

    def _at(self, when: float, action: Callable[..., None], *arguments: Any) -> None:
        with self._changed:
            self._number += 1
            self._open += 1
            heapq.heappush(self._due, (when, self._number, lambda: action(*arguments)))
            self._changed.notify()

    def _act(self, action: Callable[[], None]) -> None:
        try:
            action()
        except BaseException as error:  # for the thread that waits for all
            self._failure = error
        finally:
            with self._changed:
                self._open -= 1
                self._changed.notify()

    def _upload_in_turn(
        self, upload: Upload, number: int, before: Future[None] | None, done: Future[None]
    ) -> None:
        """Upload after the upload before it, if that succeeded."""
        try:
            if before:
                before.result()
            self._upload(upload, number)
        except BaseException as error:
            done.set_exception(error)
            raise
        done.set_result(None)

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
            self._at(now + upload.late, self._deliver, event)
        else:
            self._deliver(event)
        if upload.again is not None:
            self._at(now + upload.late + upload.again, self._deliver, event)
        if upload.dies:
            self._at(now, self._kill, key, self._laboratory.folder / f"{etag}.started")

    def _deliver(self, event: dict[str, Any]) -> None:
        with self._changed:
            self.events += 1
        self._target.deliver(event)

    def _kill(self, key: str, started: Path) -> None:
        wait_until(started.exists, QUIET_SECONDS, "the holder to begin", 0.02)
        self._target.kill_holder(key)


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
    offsets = [file.stat().st_size if file.exists() else 0 for file in files]
    laboratory.bound(workload.bound)
    target = transport(contender, laboratory, workload.bound)
    runner = Runner(laboratory, target, f"{workload.name}-{run}-{contender}")
    try:
        began = runner.run(workload.uploads)
        wait_until(target.is_quiet, QUIET_SECONDS, f"{contender} to end {workload.name}", 0.2)
    finally:
        target.close()
    turn = Turn(began, runner.events, runner.newest)
    records, calls = map(lines_from, files, offsets)
    read_records(turn, records)
    read_calls(turn, calls)
    turn.outputs = {
        key: state_of_output(laboratory, key, content) for key, content in runner.contents.items()
    }
    return turn


def lines_from(file: Path, offset: int) -> list[str]:
    """Read the lines that were appended to a file."""
    return file.read_bytes()[offset:].decode().splitlines() if file.exists() else []


def read_records(turn: Turn, lines: list[str]) -> None:
    """Take over what the contenders' handlers have recorded."""
    records = [json.loads(line) for line in lines]
    turn.invocations += intervals_of(records)
    for record in records:
        if record.pop("what") == "processing":
            del record["process"]
            turn.processings.append(Processing(**record))


def read_calls(turn: Turn, lines: list[str]) -> None:
    """Take over what the server has counted; the product's other functions are invoked there."""
    for line in lines:
        at, what, name, number = line.split(" ")
        if what == "invocation":
            if name not in {FUNCTION, ROUTER, DURABLE}:
                turn.invocations.append((float(at) - float(number), float(at)))
        else:
            turn.calls[what] += 1


def state_of_output(laboratory: Laboratory, key: str, newest: bytes) -> str:
    """Tell whether a key's output shows its newest content."""
    with suppress(laboratory.s3.exceptions.NoSuchKey):
        answer = laboratory.s3.get_object(Bucket=laboratory.output_bucket, Key=output_key(key))
        is_right = answer["Body"].read().startswith(inverse(newest))
        return "right" if is_right else "stale"
    return "missing"
