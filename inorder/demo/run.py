"""The events of the demonstration in one stack, and what became of them."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from io import BytesIO

from botocore.exceptions import ClientError
from PIL import Image, ImageChops, ImageStat
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from audit_keys.comparing import REPAIRABLE
from inorder.asl.definition import EXPRESS_SECONDS
from inorder.aws.audit import Audit
from inorder.aws.executions import (
    LocalStateMachine,
    StateMachine,
    some_of,
    wait_until,
)
from inorder.aws.stack import Connection
from inorder.demo.pictures import SLOW_EVERY, PicturePair
from inorder.demo.report import Counts, FinalOutput
from inorder.errors import Failure
from inorder.model import outcomes, policies
from inorder.model.execution import Execution
from inorder.model.policies import Policy
from inorder_fence.fenced_output import output_key
from invert_image.inversion import invert

UNCOORDINATED = policies.uncoordinated()  # to compare with
GAP_SECONDS = 1.0  # between an old picture and the new one over it
# A concurrent invocation is a process of some 80 MB locally, which takes a second or two to start.
# With coordination, of all executions of a key only one invokes; the others wait.
EXECUTIONS_AT_ONCE = {"off": 10, "on": 12}
KEYS_AT_ONCE, KEYS_AT_ONCE_ON_AWS = 12, 50
PAUSE_SECONDS = 0.15  # between two keys: new accounts may run ten functions at once
# After the first, no Express execution runs. A log may come later, and a machine be busy.
PATIENCE_SECONDS: float = EXPRESS_SECONDS + 60
SAME_COLOURS = 4  # of 255, the mean difference of two encodings of one picture


def choices() -> list[str]:
    """List the policies that can be shown: those that make pictures, in order."""
    makers = [policy.name for policy in policies.policies() if policy.pictures]
    return [name for name in makers if name != UNCOORDINATED]


def check(pairs: Sequence[PicturePair]) -> None:
    """Refuse pictures that the function cannot invert: then an old output or none is right."""
    for pair in pairs:
        try:
            _inverse(pair.old), _inverse(pair.new)
        except ValueError as error:
            raise Failure(f"The function cannot invert {pair.key}: {error}") from None


def progress_bars() -> Progress:
    """Make bars that count up to a total."""
    columns = (TextColumn("{task.description:<28}"), BarColumn(), MofNCompleteColumn())
    return Progress(*columns, TimeElapsedColumn())


class PictureRun:
    """The events of some pictures in one stack.

    While `executions_at_once` run on a local AWS, no key is begun and no event is delivered again.
    All keys begin with the prefix; other executions are left alone.
    """

    def __init__(
        self,
        aws: Connection,
        policy: Policy,
        machine: StateMachine,
        pairs: Sequence[PicturePair],
        executions_at_once: int,
        prefix: str = "",
    ) -> None:
        self._aws, self._policy, self._machine = aws, policy, machine
        self._s3, self._stack = aws.client("s3"), aws.stack
        self._pairs, self._executions_at_once, self._prefix = pairs, executions_at_once, prefix
        self.expected = 0
        mark = aws.stack.parameters.get("SlowMark", "").encode()
        slow = pairs[SLOW_EVERY - 1 :: SLOW_EVERY] if mark else []
        self._marks = {pair.key: mark for pair in slow}  # to put behind the old pictures
        self._counting, self._queue = threading.Lock(), threading.Lock()
        self._stopped = threading.Event()
        self._delivered = {pair.key: threading.Event() for pair in pairs}

    def show(self, advance: Callable[[], None]) -> tuple[Counts, list[FinalOutput]]:
        """Deliver the events, wait until all executions have ended, and count.

        A TimeoutError says which event did not start an execution, or which did not end.
        """
        started = time.monotonic()
        self.deliver(advance)
        ended = self._machine.wait_for(self.expected, PATIENCE_SECONDS, self._prefix)
        outputs = self.outputs()
        counted = Counter(_outcomes(ended))
        foreseen = outcomes.FINISHED | outcomes.PARKED | {outcomes.RETRYING}
        processed = {each.subject for each in ended if each.outcome == "Processed"}
        states = Counter(output.state for output in outputs)
        audited = Audit(self._aws, self._prefix).run(grace=0)  # nothing runs any more
        return Counts(
            keys=len(self._pairs),
            slow=len(self._marks),
            stale=states["old"] + states["other"],
            missing=states["missing"],
            events=counted.total() - counted[outcomes.RETRYING],
            processed=counted["Processed"],
            repeated=counted["Processed"] - len(processed),
            superseded=counted["Superseded"],
            duplicates=counted["Duplicate"],
            retried=counted[outcomes.RETRYING],
            parked=sum(counted[each] for each in outcomes.PARKED),
            lost=sum(count for each, count in counted.items() if each not in foreseen),
            wrong=sum(audited.counts[each] for each in REPAIRABLE),
            seconds=round(time.monotonic() - started, 1),
        ), outputs

    def deliver(self, advance: Callable[[], None]) -> None:
        """Upload each old picture and the new one over it; then deliver both events once more.

        The new picture's event is then a duplicate, and the old picture's event is out of order.
        """
        # The log of AWS takes seconds to show an event, for which a key waits.
        keys_at_once = (
            KEYS_AT_ONCE if isinstance(self._machine, LocalStateMachine) else KEYS_AT_ONCE_ON_AWS
        )
        with ThreadPoolExecutor(keys_at_once) as pool:
            try:
                uploads = [pool.submit(self._upload, pair, advance) for pair in self._pairs]
                self._deliver_again(uploads, advance)
            except BaseException:  # an interrupt, too: nothing may be uploaded after it
                self._stopped.set()
                for delivered in self._delivered.values():
                    delivered.set()
                pool.shutdown(cancel_futures=True)
                raise

    def _upload(self, pair: PicturePair, advance: Callable[[], None]) -> None:
        with self._queue:  # one key at a time waits until it may start
            self._wait_for_room()
            self._put(pair.key, pair.old + self._marks.get(pair.key, b""))
            self._stopped.wait(PAUSE_SECONDS)
        advance()
        self._stopped.wait(GAP_SECONDS)
        self._put(pair.key, pair.new)
        advance()
        self._delivered[pair.key].wait()

    def _wait_for_room(self) -> None:
        wait_until(self._has_room, PATIENCE_SECONDS, "executions to end")

    def _has_room(self) -> bool:
        """Tell whether a key may start, or an event come again.

        AWS needs no bound, and its log comes too late.
        """
        if self._stopped.is_set() or not isinstance(self._machine, LocalStateMachine):
            return True
        return len(self._machine.arns("RUNNING")) < self._executions_at_once

    def _put(self, key: str, content: bytes) -> None:
        if not self._stopped.is_set():
            self._s3.put_object(Bucket=self._stack.input_bucket, Key=key, Body=content)
            self._count()

    def _count(self) -> None:
        with self._counting:
            self.expected += 1

    def _deliver_again(self, uploads: Sequence[Future[None]], advance: Callable[[], None]) -> None:
        remaining = {pair.key for pair in self._pairs}
        sent, deadline = -1, 0.0
        while remaining:
            if sent < self.expected:
                sent, deadline = self.expected, time.monotonic() + PATIENCE_SECONDS
            elif time.monotonic() > deadline:
                raise TimeoutError(
                    f"Waited {PATIENCE_SECONDS:.0f} s for the two events of {len(remaining)} keys"
                    f"{some_of(sorted(remaining))}."
                )
            time.sleep(max(0.25, self._machine.poll_seconds))
            arrived = self._machine.arrived(self._prefix)
            # A late delivery would make the output of a slow picture right again: these come first.
            for key in sorted(remaining, key=lambda key: (key not in self._marks, key)):
                if len(arrived.get(key, [])) > 1:
                    for event in arrived[key]:
                        self._wait_for_room()
                        self._machine.start(event)
                        self._count()
                        advance()
                    remaining.remove(key)
                    self._delivered[key].set()
            for upload in uploads:
                if upload.done():
                    upload.result()  # raises what it has raised

    def outputs(self) -> list[FinalOutput]:
        """Read the outputs, in the order of the pairs."""
        return [self._output(pair) for pair in self._pairs]

    def _output(self, pair: PicturePair) -> FinalOutput:
        bucket = self._stack.output_bucket
        key = output_key(pair.key)
        if self._policy.keeps == "each":  # an output for each sequencer, the newest last
            listed = self._s3.list_objects_v2(Bucket=bucket, Prefix=f"{key}/")
            key = max((each["Key"] for each in listed.get("Contents", [])), default=key)
        try:
            answer = self._s3.get_object(Bucket=bucket, Key=key)
        except ClientError as error:
            if error.response["Error"]["Code"] == "NoSuchKey":
                return FinalOutput(pair.key, None, "missing")
            raise
        content = answer["Body"].read()
        if shows(content, pair.new):
            return FinalOutput(pair.key, content, "new")
        if shows(content, pair.old):
            # Under first-wins either of the two may be processed first.
            return FinalOutput(pair.key, content, "new" if self._policy.keeps == "first" else "old")
        return FinalOutput(pair.key, content, "other")


def _outcomes(ended: Sequence[Execution]) -> list[str | None]:
    """List what became of each delivery.

    If a holder starts the newest event, the execution that waited for it ends as a duplicate. What
    the started one did counts as the outcome of that delivery.
    """
    started = [each for each in ended if each.is_started_by_holder]
    done = Counter(each.subject for each in started if each.outcome == "Processed")
    # A retry is one more execution.
    retried = [each.outcome for each in started if each.outcome == outcomes.RETRYING]
    delivered: list[str | None] = [*retried]
    for each in ended:
        if each.is_started_by_holder:
            continue
        if each.outcome == "Duplicate" and done[each.subject]:
            done[each.subject] -= 1
            delivered.append("Processed")
        else:
            delivered.append(each.outcome)
    return delivered


def shows(output: bytes, picture: bytes) -> bool:
    """Tell whether an output shows the inverse of a picture.

    On Lambda's other processor, an encoder may give other bytes, and slightly other colours.
    """
    try:
        with Image.open(BytesIO(output)) as one, Image.open(BytesIO(_inverse(picture))) as other:
            if one.size != other.size:
                return False
            difference = ImageChops.difference(one.convert("RGB"), other.convert("RGB"))
    except Exception:  # a broken picture can raise almost anything in Pillow
        return False
    return max(ImageStat.Stat(difference).mean) < SAME_COLOURS


@cache
def _inverse(content: bytes) -> bytes:
    """Invert a picture as the function does."""
    inverted: bytes = invert(content, maximum_pixels=30_000_000).content
    return inverted
