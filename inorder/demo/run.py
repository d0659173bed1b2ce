"""The events of the demonstration in each of two stacks, and what became of them."""

import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache, partial
from io import BytesIO
from multiprocessing.pool import ThreadPool
from pathlib import Path

from PIL import Image
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from inorder import local_aws
from inorder.asl.definition import EXPRESS_SECONDS
from inorder.audit.audit import Audit
from inorder.audit.comparing import REPAIRABLE
from inorder.aws.executions import LocalStateMachine, wait_until
from inorder.aws.stack import Connection, deploy, read_object
from inorder.console import saved
from inorder.console.answers import Answers
from inorder.demo.pictures import SLOW_EVERY, PicturePair
from inorder.demo.report import Counts, FinalOutput, Result
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
KEYS_AT_ONCE = 12
PAUSE_SECONDS = 0.15  # between two keys
# After the first, no Express execution runs, and a machine may be busy.
PATIENCE_SECONDS: float = EXPRESS_SECONDS + 60


def run_demonstration(
    pairs: Sequence[PicturePair], folder: Path, port: int | None, policy: str
) -> dict[str, Result]:
    """Upload the pictures to two stacks on a local AWS, and read what became of them.

    There is a result for ``off`` and one for ``on``.
    """
    columns = (TextColumn("{task.description:<28}"), BarColumn(), MofNCompleteColumn())
    slow: dict[str, str | float] = {"SlowMark": "slow", "SlowSeconds": 5}
    with (
        Progress(*columns, TimeElapsedColumn()) as progress,
        local_aws.start(folder, port) as local,
        ThreadPool(2) as pool,  # whose threads an interrupt does not wait for
    ):
        starting = progress.add_task("sam deploy (2x)", total=2)
        shown = {}
        # The events of one stack come while SAM deploys the other. Those that wait take longer.
        for mode, name in {"on": policy, "off": UNCOORDINATED}.items():
            stack = deploy(local, f"demo-{mode}", {"Policy": name, **slow})
            progress.advance(starting)
            events = progress.add_task(f"Events, coordination {mode}", total=4 * len(pairs))
            states = local.client("stepfunctions")
            machine = LocalStateMachine(states, stack.state_machine_arn)
            aws, facts = Connection(stack.name, local), policies.policy(name)
            run = PictureRun(aws, facts, machine, pairs, EXECUTIONS_AT_ONCE[mode])
            shown[mode] = pool.apply_async(run.show, (partial(progress.advance, events),))
        return {mode: shown[mode].get() for mode in ("off", "on")}


class PictureRun:
    """The events of some pictures in one stack.

    While `executions_at_once` run, no key is begun and no event is delivered again.
    """

    def __init__(
        self,
        aws: Connection,
        policy: Policy,
        machine: LocalStateMachine,
        pairs: Sequence[PicturePair],
        executions_at_once: int,
    ) -> None:
        self._aws, self._policy, self._machine = aws, policy, machine
        self._s3, self._stack = aws.client("s3"), aws.stack
        self._pairs, self._executions_at_once = pairs, executions_at_once
        mark = aws.stack.parameters.get("SlowMark", "").encode()
        slow = pairs[SLOW_EVERY - 1 :: SLOW_EVERY] if mark else []
        self._marks = {pair.key: mark for pair in slow}  # to put behind the old pictures
        self._queue = threading.Lock()
        self._delivered = {pair.key: threading.Event() for pair in pairs}

    def show(self, advance: Callable[[], None]) -> Result:
        """Deliver the events, wait until all executions have ended, and read what they did.

        A TimeoutError says which event did not start an execution, or which did not end.
        """
        self.deliver(advance)
        ended = self._machine.wait_for(4 * len(self._pairs), PATIENCE_SECONDS)
        outputs = [self._output(pair) for pair in self._pairs]
        executions = saved.read(Answers(self._aws, self._machine))
        return Result(self._counts(ended, outputs), outputs, executions)

    def _counts(self, ended: Sequence[Execution], outputs: Sequence[FinalOutput]) -> Counts:
        counted = _outcomes(ended)
        foreseen = outcomes.FINISHED | {outcomes.PARKED, outcomes.RETRYING}
        processed = {run.subject for run in ended if run.outcome == "Processed"}
        states = Counter(output.state for output in outputs)
        audited = Audit(self._aws).run(grace=0)  # nothing runs any more
        return {
            "Object keys": len(self._pairs),
            "Events delivered": counted.total() - counted[outcomes.RETRYING],
            "Executions": len(ended),
            "Processed": counted["Processed"],
            "Processed again": counted["Processed"] - len(processed),
            "Superseded": counted["Superseded"],
            "Duplicates dropped": counted["Duplicate"],
            "Retried after a fault": counted[outcomes.RETRYING],
            "Parked": counted[outcomes.PARKED],
            "Without an outcome": sum(counted[name] for name in counted.keys() - foreseen),
            "Stale outputs": states["old"] + states["other"],
            "Missing outputs": states["missing"],
            # It does not read the pictures.
            "Wrong, says the audit": sum(audited.counts[verdict] for verdict in REPAIRABLE),
        }

    def deliver(self, advance: Callable[[], None]) -> None:
        """Upload each old picture and the new one over it; then deliver both events once more.

        The new picture's event is then a duplicate, and the old picture's event is out of order.
        """
        remaining = {pair.key for pair in self._pairs}
        with ThreadPool(KEYS_AT_ONCE) as pool:
            uploads = [pool.apply_async(self._upload, (pair, advance)) for pair in self._pairs]

            def all_came_again() -> bool:
                arrived = self._machine.arrived()
                ready = (key for key in remaining if len(arrived.get(key, [])) > 1)
                # A late delivery would make the output of a slow picture right again.
                for key in sorted(ready, key=lambda key: (key not in self._marks, key)):
                    for event in arrived[key]:
                        self._wait_for_room()
                        self._machine.start(event)
                        advance()
                    remaining.remove(key)
                    self._delivered[key].set()
                for upload in uploads:
                    if upload.ready():
                        upload.get()  # raises what it has raised
                return not remaining

            seconds = PATIENCE_SECONDS * math.ceil(len(self._pairs) / 100)
            wait_until(all_came_again, seconds, "the events of all keys", 0.25)

    def _upload(self, pair: PicturePair, advance: Callable[[], None]) -> None:
        with self._queue:  # one key at a time waits until it may start
            self._wait_for_room()
            self._put(pair.key, pair.old + self._marks.get(pair.key, b""))
            time.sleep(PAUSE_SECONDS)
        advance()
        time.sleep(GAP_SECONDS)
        self._put(pair.key, pair.new)
        advance()
        self._delivered[pair.key].wait()

    def _wait_for_room(self) -> None:
        """Wait until a key may start, or an event come again."""

        def has_room() -> bool:
            return len(self._machine.arns("RUNNING")) < self._executions_at_once

        wait_until(has_room, PATIENCE_SECONDS, "executions to end")

    def _put(self, key: str, content: bytes) -> None:
        self._s3.put_object(Bucket=self._stack.input_bucket, Key=key, Body=content)

    def _output(self, pair: PicturePair) -> FinalOutput:
        bucket = self._stack.output_bucket
        key = output_key(pair.key)
        if self._policy.keeps == "each":  # an output for each sequencer, the newest last
            listed = self._s3.list_objects_v2(Bucket=bucket, Prefix=f"{key}/")
            key = max((item["Key"] for item in listed.get("Contents", [])), default=key)
        content = read_object(self._s3, bucket, key)
        if content is None:
            return FinalOutput(pair.key, None, "missing")
        if shows(content, pair.new):
            return FinalOutput(pair.key, content, "new")
        if shows(content, pair.old):
            # If the first one is kept, either of the two may be processed first.
            return FinalOutput(pair.key, content, "new" if self._policy.keeps == "first" else "old")
        return FinalOutput(pair.key, content, "other")


def _outcomes(ended: Sequence[Execution]) -> Counter[str | None]:
    """Count what became of the deliveries.

    A holder may start the newest event. The execution that waited with it is then a duplicate, and
    the two are one delivery.
    """
    started = [run.outcome for run in ended if run.is_started_by_holder]
    counted = Counter(run.outcome for run in ended if not run.is_started_by_holder)
    counted += Counter({outcomes.RETRYING: started.count(outcomes.RETRYING)})
    processed = started.count("Processed")
    return counted + Counter(Processed=processed) - Counter({outcomes.DUPLICATE: processed})


def shows(output: bytes, picture: bytes) -> bool:
    """Tell whether an output shows the inverse of a picture; its metadata has the fence's stamp."""
    try:
        with Image.open(BytesIO(output)) as one, Image.open(BytesIO(_inverse(picture))) as other:
            shown, wanted = one.convert("RGB"), other.convert("RGB")
            return (shown.size, shown.tobytes()) == (wanted.size, wanted.tobytes())
    except Exception:  # a broken picture can raise almost anything in Pillow
        return False


@cache
def _inverse(content: bytes) -> bytes:
    """Invert a picture as the function does."""
    inverted: bytes = invert(content, maximum_pixels=30_000_000).content
    return inverted
