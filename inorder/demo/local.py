"""The demonstration on a local AWS of its own, in a stack without coordination and one with it."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from inorder import local_aws
from inorder.aws.executions import LocalStateMachine, StateMachine
from inorder.aws.stack import Connection, Stack, deploy
from inorder.console import saved
from inorder.console.answers import Answers
from inorder.demo.pictures import PicturePair
from inorder.demo.report import Counts, FinalOutput
from inorder.demo.run import EXECUTIONS_AT_ONCE, UNCOORDINATED, PictureRun, check, progress_bars
from inorder.model import policies

SLOW: dict[str, str | float] = {"SlowMark": "slow", "SlowSeconds": 5}


def run_demonstration(
    pairs: Sequence[PicturePair], folder: Path, port: int | None, policy: str, page: Path
) -> dict[str, tuple[Counts, list[FinalOutput]]]:
    """Upload the pictures to two stacks on a local AWS, and read the outputs.

    The page shows the executions of the stack with coordination. A picture that the function cannot
    invert is a Failure. There is a result for ``off`` and one for ``on``.
    """
    check(pairs)
    with progress_bars() as progress:
        starting = progress.add_task("Local AWS, sam deploy (2x)", total=3)
        saving = progress.add_task("Page of the executions", total=1, visible=False)
        with local_aws.running(folder, port) as local:
            progress.advance(starting)
            deployed = {"off": policies.policy(UNCOORDINATED), "on": policies.policy(policy)}
            tasks = {
                mode: progress.add_task(f"Events, coordination {mode}", total=4 * len(pairs))
                for mode in deployed
            }
            stacks: dict[str, Stack] = {}
            machines: dict[str, StateMachine] = {}
            deploying = threading.Lock()  # what SAM creates once for all stacks

            def show(mode: str) -> tuple[Counts, list[FinalOutput]]:
                with deploying:
                    stack = deploy(local, f"demo-{mode}", {"Policy": deployed[mode].name, **SLOW})
                    stacks[mode] = stack
                    progress.advance(starting)
                states = local.client("stepfunctions")
                machines[mode] = machine = LocalStateMachine(states, stack.state_machine_arn)
                at_once = EXECUTIONS_AT_ONCE[mode]
                aws = Connection(stack.name, local)
                run = PictureRun(aws, deployed[mode], machine, pairs, at_once)
                return run.show(partial(progress.advance, tasks[mode]))

            # The events of one stack come while SAM deploys the other. Those that wait take longer.
            with ThreadPoolExecutor(len(deployed)) as pool:
                shown = {mode: pool.submit(show, mode) for mode in reversed(deployed)}
                results = {mode: shown[mode].result() for mode in deployed}
            progress.update(saving, visible=True)
            aws = Connection(stacks["on"].name, local)
            saved.write(page, saved.read(Answers(aws, machines["on"])))
            progress.advance(saving)
            return results
