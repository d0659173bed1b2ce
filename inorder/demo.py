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

from inorder import PROJECT, local_aws, policies
from inorder.aws.executions import LocalStateMachine, wait_until
from inorder.aws.stack import Stack, deploy
from inorder.local_aws import LocalAws
from inorder.pictures import PicturePair
from inorder.policies import Policy
from inorder.report import Counts, Output

UNCOORDINATED = "uncoordinated"  # the policy to compare with
SLOW = {"SlowProbability": 0.15, "SlowSeconds": 2.5}
GAP_SECONDS = 1.0  # between an old picture and the new one over it
# A concurrent invocation is a process of some 80 MB locally, which takes a second or two to start.
# With coordination, of all executions of a key only one invokes; the others wait.
EXECUTIONS_AT_ONCE = {"off": 4, "on": 6}
KEYS_AT_ONCE = 6
PATIENCE_SECONDS = 240


def choices() -> list[str]:
    """List the policies that can be shown: those that make pictures, in order."""
    makers = [policy.name for policy in policies.policies() if policy.pictures]
    return [name for name in makers if name != UNCOORDINATED]


def run_demonstration(
    pairs: Sequence[PicturePair], folder: Path, port: int | None, policy: str
) -> dict[str, tuple[Counts, list[Output]]]:
    """Upload the pictures to two stacks on a local AWS, and read the outputs.

    Parameters
    ----------
    pairs : sequence of PicturePair
        One for each key.
    folder : Path
        For the local AWS's own files, which are removed again.
    port : int, optional
        The local AWS's port; any free one if none is given.
    policy : str
        The policy to show, one of `choices`.

    Raises
    ------
    click.ClickException
        The function cannot invert a picture.

    Returns
    -------
    dict
        For ``off`` and ``on`` what was counted and the outputs, in the order of the pairs.
    """
    for pair in pairs:
        try:
            _inverse(pair.old), _inverse(pair.new)
        except ValueError as error:
            # Its event would be parked, and the key would rightly have an older output or none.
            raise click.ClickException(f"The function cannot invert {pair.key}: {error}") from None
    columns = (TextColumn("{task.description:<28}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeElapsedColumn()) as progress:
        starting = progress.add_task("Local AWS, sam deploy (2x)", total=3)
        with local_aws.running(folder, port) as local:
            progress.advance(starting)
            deployed = {"off": policies.policy(UNCOORDINATED), "on": policies.policy(policy)}
            stacks = {}
            for mode, each in deployed.items():
                stacks[mode] = deploy(local, f"demo-{mode}", {"Policy": each.name, **SLOW})
                progress.advance(starting)
            tasks = {
                mode: progress.add_task(f"Events, coordination {mode}", total=4 * len(pairs))
                for mode in stacks
            }
            with ThreadPoolExecutor(len(stacks)) as pool:
                shown = {
                    mode: pool.submit(
                        _show,
                        local,
                        stack,
                        pairs,
                        EXECUTIONS_AT_ONCE[mode],
                        deployed[mode],
                        partial(progress.advance, tasks[mode]),
                    )
                    for mode, stack in stacks.items()
                }
                return {mode: each.result() for mode, each in shown.items()}


def _show(
    local: LocalAws,
    stack: Stack,
    pairs: Sequence[PicturePair],
    executions_at_once: int,
    policy: Policy,
    advance: Callable[[], None],
) -> tuple[Counts, list[Output]]:
    started = time.monotonic()
    machine = LocalStateMachine(local.client("stepfunctions"), stack.state_machine_arn)
    _deliver(local, stack, pairs, machine, executions_at_once, advance)
    ended = machine.wait_for(4 * len(pairs), PATIENCE_SECONDS)
    outputs = _outputs(local, stack, pairs, policy)
    outcomes = Counter(execution.outcome for execution in ended)
    states = Counter(output.state for output in outputs)
    return Counts(
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
    machine: LocalStateMachine,
    executions_at_once: int,
    advance: Callable[[], None],
) -> None:
    """Upload each old picture and the new one over it; then deliver both events once more.

    The new picture's event is then a duplicate, and the old picture's event is out of order.
    """
    s3 = local.client("s3")
    queue = threading.Lock()

    def deliver(pair: PicturePair) -> None:
        with queue:  # one key at a time waits until it may start
            wait_until(
                lambda: len(machine.arns("RUNNING")) < executions_at_once,
                PATIENCE_SECONDS,
                "executions to end",
            )
            s3.put_object(Bucket=stack.input_bucket, Key=pair.key, Body=pair.old)
        advance()
        time.sleep(GAP_SECONDS)
        s3.put_object(Bucket=stack.input_bucket, Key=pair.key, Body=pair.new)
        advance()
        for event in machine.events(pair.key, 2, PATIENCE_SECONDS):
            machine.start(event)
            advance()

    with ThreadPoolExecutor(KEYS_AT_ONCE) as pool:
        for _ in pool.map(deliver, pairs):
            pass


def _outputs(
    local: LocalAws, stack: Stack, pairs: Sequence[PicturePair], policy: Policy
) -> list[Output]:
    s3 = local.client("s3")

    def output(pair: PicturePair) -> Output:
        folder, _, name = pair.key.rpartition("/")
        key = f"{folder}/out-{name}"
        if policy.keeps == "each":  # an output for each sequencer, the newest last
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
            # Under first-wins either of the two may be processed first.
            return Output(pair.key, content, "new" if policy.keeps == "first" else "old")
        return Output(pair.key, content, "other")

    return [output(pair) for pair in pairs]


@cache
def _inverse(content: bytes) -> bytes:
    """Invert a picture as the function does; outputs are compared by pixels, not by metadata."""
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
