"""One contender's turn at one workload: uploads, deliveries, and what was recorded of them."""

import json
import time
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO

from PIL import Image

from bench.contenders.orders import with_orders
from bench.contenders.recorder import Processing
from bench.delivery import Transport, transport
from bench.laboratory import FUNCTION, ROUTER, Laboratory
from bench.measures import Invocation, Turn, Uploaded
from bench.workloads import Upload
from inorder.aws.executions import wait_until
from inorder.aws.stack import read_object
from inorder.demo.run import shows
from inorder_fence.fenced_output import output_key
from tests.support.events import SEQUENCER, shipped

QUIET_SECONDS = 1800
THREADS = 24  # that make the uploads of so many keys at a time
SIDE = 64  # pixels
AFTER_DEATH_SECONDS = 1
# What AWS bills for the operations that the functions call.
REQUESTS = {
    "GetObject": "s3_gets",
    "HeadObject": "s3_gets",
    "PutObject": "s3_puts",
    "SendMessage": "sqs_fifo_requests",  # of the router
}


class Runner:
    """Makes the uploads of a workload at their times, and delivers their events."""

    def __init__(self, laboratory: Laboratory, target: Transport, prefix: str) -> None:
        self._laboratory, self._target, self._prefix = laboratory, target, prefix
        self.newest: dict[str, Uploaded] = {}
        self.contents: dict[str, bytes] = {}
        self.began = 0.0

    def run(self, uploads: Sequence[Upload]) -> None:
        """Make all uploads and deliveries."""
        self.began = time.time()
        of_keys: dict[int, list[tuple[int, Upload]]] = defaultdict(list)
        for number, upload in enumerate(uploads):
            of_keys[upload.key].append((number, upload))
        with ThreadPoolExecutor(THREADS) as pool:
            for done in [pool.submit(self._upload_all, own) for own in of_keys.values()]:
                done.result()

    def _upload_all(self, own: list[tuple[int, Upload]]) -> None:
        """Make the uploads of a key, one after the other."""
        for number, upload in own:
            time.sleep(max(0, self.began + upload.at - time.time()))
            self._upload(upload, number)

    def _upload(self, upload: Upload, number: int) -> None:
        key, content = f"{self._prefix}/{upload.key}.png", picture(number, upload)
        bucket = self._laboratory.input_bucket
        answer = self._laboratory.s3.put_object(Bucket=bucket, Key=key, Body=content)
        etag = answer["ETag"].strip('"')
        self.newest[key], self.contents[key] = Uploaded(time.time(), etag), content
        event = shipped("object-created")
        event["detail"]["bucket"]["name"] = bucket
        event["detail"]["object"] = {
            "key": key,
            "size": len(content),
            "etag": etag,
            "sequencer": f"{int(SEQUENCER, 16) + number:0{len(SEQUENCER)}X}",
        }
        self._target.deliver(event)
        if upload.dies:
            mark = self._laboratory.folder / etag
            started, died = mark.with_suffix(".started"), mark.with_suffix(".died")
            wait_until(started.exists, QUIET_SECONDS, "the work to begin", 0.02)
            self._target.kill_holder(key)
            wait_until(died.exists, QUIET_SECONDS, "the death of the process")
            time.sleep(AFTER_DEATH_SECONDS)


def picture(number: int, upload: Upload) -> bytes:
    """Make an image that no other upload of the turn has."""
    file = BytesIO()
    colour = (number % 256, number // 256, 77)
    Image.new("RGB", (SIDE, SIDE), colour).save(file, "PNG")
    return with_orders(file.getvalue(), {"seconds": upload.seconds, "dies": upload.dies})


def take_turn(
    laboratory: Laboratory, contender: str, prefix: str, uploads: Sequence[Upload], bound: int
) -> Turn:
    """Let a contender process uploads under a prefix, and read what was recorded."""
    for mark in laboratory.folder.glob("*.*ed"):  # of the orders of an earlier turn
        mark.unlink()
    files = [laboratory.folder / name for name in ("records", "calls")]
    for file in files:
        file.write_text("")  # who writes appends
    laboratory.bound(bound)
    target = transport(contender, laboratory, bound)
    runner = Runner(laboratory, target, prefix)
    try:
        runner.run(uploads)
        wait_until(target.is_quiet, QUIET_SECONDS, f"{contender} to end {prefix}", 0.2)
    finally:
        target.close()
    turn = Turn(runner.began, len(uploads), runner.newest)
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
    for line in lines:
        record = json.loads(line)
        match record.pop("what"):
            case "invocation":
                turn.invocations.append(Invocation(**record))
            case "processing":
                turn.processings.append(Processing(**record))
            case "call":
                turn.used[REQUESTS[record["operation"]]] += 1


def read_calls(turn: Turn, lines: list[str]) -> None:
    """Take over what the server has counted; the product's other functions are invoked there."""
    for line in lines:
        what, name, number, *memory = line.split(" ")
        if what != "invocation":
            turn.used[what] += float(number)
        elif name not in {FUNCTION, ROUTER}:
            turn.invocations.append(Invocation(float(number), int(memory[0])))


def state_of_output(laboratory: Laboratory, key: str, newest: bytes) -> str:
    """Tell whether a key's output shows its newest content."""
    content = read_object(laboratory.s3, laboratory.output_bucket, output_key(key))
    if content is None:
        return "missing"
    return "right" if shows(content, newest) else "stale"
