"""The command ``inorder``, made of its commands."""

from __future__ import annotations

import signal
import sys
from types import FrameType
from typing import Any

import click

from inorder.commands.audit import audit, backfill
from inorder.commands.console import console
from inorder.commands.cost import cost_command
from inorder.commands.demo import show_demonstration
from inorder.commands.executions import execution, executions, why
from inorder.commands.health import doctor
from inorder.commands.local import down, run, up
from inorder.commands.policy import check, policy_group
from inorder.commands.queues import list_parked, list_retrying, list_stuck, redrive
from inorder.errors import Failure
from inorder_fence import __version__


class Commands(click.Group):
    """Commands of which each ends with a message and a status if it fails."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command."""
        try:
            return super().invoke(ctx)
        except Failure as error:
            raise click.ClickException(str(error)) from None


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="%(version)s")
def main() -> None:
    """Ordered, exactly-once processing of S3 events: the local tooling."""
    # A terminated command cleans up like an interrupted one.
    signal.signal(signal.SIGTERM, _exit)


def _exit(signum: int, _frame: FrameType | None) -> None:
    sys.exit(128 + signum)


for command in (
    *(show_demonstration, up, down, run, check, policy_group),
    *(list_parked, list_retrying, redrive, list_stuck, doctor, audit, backfill),
    *(executions, execution, why, console, cost_command),
):
    main.add_command(command)

if __name__ == "__main__":
    main()
