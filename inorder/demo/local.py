"""The demonstration on a local AWS of its own, in a stack without coordination and one with it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from multiprocessing.pool import ThreadPool
from pathlib import Path

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from inorder import local_aws
from inorder.aws.executions import LocalStateMachine
from inorder.aws.stack import Connection, deploy
from inorder.console import saved
from inorder.console.answers import Answers
from inorder.demo import long_work
from inorder.demo.pictures import PicturePair
from inorder.demo.report import Counts, FinalOutput
from inorder.demo.run import EXECUTIONS_AT_ONCE, UNCOORDINATED, PictureRun
from inorder.model import policies

SLOW: dict[str, str | float] = {"SlowMark": "slow", "SlowSeconds": 5}


def run_demonstration(
    pairs: Sequence[PicturePair], folder: Path, port: int | None, policy: str, page: Path
) -> dict[str, tuple[Counts, list[FinalOutput]]]:
    """Upload the pictures to two stacks on a local AWS, and read the outputs.

    The page shows the executions of the stack with coordination. There is a result for ``off`` and
    one for ``on``.
    """
    columns = (TextColumn("{task.description:<28}"), BarColumn(), MofNCompleteColumn())
    with (
        Progress(*columns, TimeElapsedColumn()) as progress,
        local_aws.running(folder, port) as local,
        ThreadPool(2) as pool,  # whose threads an interrupt does not wait for
    ):
        starting = progress.add_task("sam deploy (2x)", total=2)
        machines, shown = {}, {}
        # The events of one stack come while SAM deploys the other. Those that wait take longer.
        for mode, name in {"on": policy, "off": UNCOORDINATED}.items():
            if is_long := name == policies.LONG_WORK:
                stack = long_work.deploy(local, f"demo-{mode}")
            else:
                stack = deploy(local, f"demo-{mode}", {"Policy": name, **SLOW})
            progress.advance(starting)
            events = progress.add_task(f"Events, coordination {mode}", total=4 * len(pairs))
            states = local.client("stepfunctions")
            machines[mode] = machine = LocalStateMachine(states, stack.state_machine_arn)
            at_once = long_work.EXECUTIONS_AT_ONCE if is_long else EXECUTIONS_AT_ONCE[mode]
            facts = policies.policy(policies.LIKE_LONG_WORK if is_long else name)
            run = PictureRun(Connection(stack.name, local), facts, machine, pairs, at_once)
            shown[mode] = pool.apply_async(run.show, (partial(progress.advance, events),))
        results = {mode: shown[mode].get() for mode in ("off", "on")}
        saved.write(page, saved.read(Answers(Connection("demo-on", local), machines["on"])))
        return results
