"""The demonstration: the same events, in disorder, without coordination and with it."""

from __future__ import annotations

import importlib.util
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from pathlib import Path
from typing import Any

import click
from botocore.exceptions import ClientError
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from inorder import local_aws
from inorder.executions import Executions, wait_until
from inorder.local_aws import LocalAws
from inorder.pictures import PicturePair
from inorder.report import Output, Run
from inorder.stack import PROJECT, Stack, deploy

# Those that make pictures.
POLICIES = ("latest-wins", "every-version", "first-wins", "optimistic")
SLOW = {"SlowProbability": 0.15, "SlowSeconds": 2.5}
GAP_SECONDS = 1.0  # between an old picture and the new one over it
# A concurrent invocation is a process of some 80 MB locally, which takes a second or two to start.
# With coordination, of all executions of a key only one invokes; the others wait.
EXECUTIONS_AT_ONCE = {"off": 4, "on": 6}
KEYS_AT_ONCE = 6
PATIENCE_SECONDS = 240


def run_demonstration(
    pairs: Sequence[PicturePair], folder: Path, port: int | None, policy: str
) -> dict[str, tuple[Run, list[Output]]]:
    """Upload the pictures to two stacks on a local AWS and see what comes out.

    Parameters
    ----------
    pairs : sequence of PicturePair
        One for each key.
    folder : Path
        For the local AWS's own files, which are removed again.
    port : int, optional
        The local AWS's port; any free one if none is given.
    policy : str
        What coordinates, one of `POLICIES`.

    Raises
    ------
    click.ClickException
        A picture is none that the function can invert.

    Returns
    -------
    dict
        For ``off`` and ``on`` what was counted and the outputs, in the order of the pairs.
    """
    for pair in pairs:
        try:
            _inverse(pair.old), _inverse(pair.new)
        except ValueError as error:
            # Its event would be parked, and the key would rightly show an older picture or none.
            raise click.ClickException(f"The function cannot invert {pair.key}: {error}") from None
    columns = (TextColumn("{task.description:<28}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeElapsedColumn()) as progress:
        starting = progress.add_task("Local AWS, sam deploy (2x)", total=3)
        with local_aws.running(folder, port) as local:
            progress.advance(starting)
            stacks = {}
            for mode, deployed in {"off": "uncoordinated", "on": policy}.items():
                name = f"demo-{mode}"
                stacks[mode] = deploy(local, name, {"Policy": deployed, **SLOW})
                progress.advance(starting)
            tasks = {
                mode: progress.add_task(f"Events, coordination {mode}", total=4 * len(pairs))
                for mode in stacks
            }
            with ThreadPoolExecutor(len(stacks)) as pool:
                runs = {
                    mode: pool.submit(
                        _run,
                        local,
                        stack,
                        pairs,
                        EXECUTIONS_AT_ONCE[mode],
                        policy if mode == "on" else "uncoordinated",
                        partial(progress.advance, tasks[mode]),
                    )
                    for mode, stack in stacks.items()
                }
                return {mode: run.result() for mode, run in runs.items()}


def _run(
    local: LocalAws,
    stack: Stack,
    pairs: Sequence[PicturePair],
    executions_at_once: int,
    policy: str,
    advance: Callable[[], None],
) -> tuple[Run, list[Output]]:
    started = time.monotonic()
    executions = Executions(local, stack.state_machine_arn)
    _deliver(local, stack, pairs, executions, executions_at_once, advance)
    ended = executions.wait_for(4 * len(pairs), PATIENCE_SECONDS)
    outputs = _outputs(local, stack, pairs, policy)
    outcomes = Counter(execution.outcome for execution in ended)
    states = Counter(output.state for output in outputs)
    return Run(
        keys=len(pairs),
        stale=states["old"] + states["other"],
        missing=states["missing"],
        events=len(ended),
        processed=outcomes["Processed"],
        superseded=outcomes["Superseded"],
        duplicates=outcomes["Duplicate"],
        parked=outcomes["Parked"] + outcomes["InvalidEvent"],
        seconds=round(time.monotonic() - started, 1),
    ), outputs


def _deliver(
    local: LocalAws,
    stack: Stack,
    pairs: Sequence[PicturePair],
    executions: Executions,
    executions_at_once: int,
    advance: Callable[[], None],
) -> None:
    """Upload each old picture and the new one over it; then deliver both events once more.

    The new picture's event is then a duplicate, and the old one's comes out of order.
    """
    s3 = local.client("s3")
    queue = threading.Lock()

    def deliver(pair: PicturePair) -> None:
        with queue:  # one key after the other asks whether there is room for it
            wait_until(
                lambda: len(executions.arns("RUNNING")) < executions_at_once,
                PATIENCE_SECONDS,
                "executions to end",
            )
            s3.put_object(Bucket=stack.input_bucket, Key=pair.key, Body=pair.old)
        advance()
        time.sleep(GAP_SECONDS)
        s3.put_object(Bucket=stack.input_bucket, Key=pair.key, Body=pair.new)
        advance()
        for event in executions.events(pair.key, 2, PATIENCE_SECONDS):
            executions.start(event)
            advance()

    with ThreadPoolExecutor(KEYS_AT_ONCE) as pool:
        for _ in pool.map(deliver, pairs):
            pass


def _outputs(
    local: LocalAws, stack: Stack, pairs: Sequence[PicturePair], policy: str
) -> list[Output]:
    s3 = local.client("s3")

    def output(pair: PicturePair) -> Output:
        folder, _, name = pair.key.rpartition("/")
        key = f"{folder}/out-{name}"
        if policy == "every-version":  # an output for each sequencer, the newest last
            listed = s3.list_objects_v2(Bucket=stack.output_bucket, Prefix=f"{key}/")
            key = max((each["Key"] for each in listed.get("Contents", [])), default=key)
        try:
            answer = s3.get_object(Bucket=stack.output_bucket, Key=key)
        except ClientError as error:
            if error.response["Error"]["Code"] == "NoSuchKey":
                return Output(pair.key, None, "missing")
            raise
        content = answer["Body"].read()
        if content.startswith(_inverse(pair.new)):  # the fence's stamp follows
            return Output(pair.key, content, "new")
        if content.startswith(_inverse(pair.old)):
            # Whichever of the two is processed first stays.
            return Output(pair.key, content, "new" if policy == "first-wins" else "old")
        return Output(pair.key, content, "other")

    return [output(pair) for pair in pairs]


@cache
def _inverse(content: bytes) -> bytes:
    """Give what the function makes of a picture: the measure is pixels, not what metadata says."""
    inverted: bytes = _inversion().invert(content, maximum_pixels=30_000_000).content
    return inverted


@cache
def _inversion() -> Any:
    file = PROJECT / "functions" / "invert_image" / "inversion.py"
    specification = importlib.util.spec_from_file_location("inversion", file)
    assert specification is not None  # noqa: S101 - for the type checker
    assert specification.loader is not None  # noqa: S101
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module
