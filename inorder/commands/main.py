"""The command ``inorder``, made of its commands."""

import signal
import sys
from copy import copy
from importlib import import_module
from inspect import cleandoc
from types import FrameType
from typing import Any

import click

from inorder import IS_CHECKOUT
from inorder.commands.group import Group
from inorder.errors import Failure
from inorder_fence import __version__

# The commands of each module.
MODULES = {
    "demo": ["demo"],
    "local": ["up", "down"],
    "function": ["try", "function"],
    "policy": ["check", "policy"],
    "executions": ["put", "why", "executions", "execution"],
    "queues": ["parked", "redrive", "retrying", "undelivered", "stuck"],
    "health": ["doctor"],
    "audit": ["audit", "backfill"],
    "console": ["console"],
    "cost": ["cost"],
}
# These deploy template.yaml, or write files beside it.
OF_A_CHECKOUT = {"demo", "up", "down", "try", "function", "policy"}
LIMIT = 66  # characters of what a command does
CHECKOUT = "This needs a checkout of the project, in which `make install` was run."
# The extra of the package that has a module.
EXTRAS = {"starlette": "console", "uvicorn": "console"} | dict.fromkeys(
    ["PIL", "psutil", "statelint"], "local"
)


class Commands(Group):
    """Commands that are imported when they are called, and end with a message if they fail."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Give the names of all commands."""
        return [name for names in MODULES.values() for name in names]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import a command, which says what it does also where it cannot run."""
        for name, names in MODULES.items():
            if cmd_name in names:
                for command in vars(import_module(f"inorder.commands.{name}")).values():
                    if isinstance(command, click.Command) and command.name == cmd_name:
                        return _of_a_checkout(command) if cmd_name in OF_A_CHECKOUT else command
        return None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List what the commands do, below those for a stack the ones of a checkout."""
        commands = filter(None, [self.get_command(ctx, name) for name in self.list_commands(ctx)])
        rows = [(str(command.name), command.get_short_help_str(LIMIT)) for command in commands]
        with formatter.section("Commands"):
            formatter.write_dl([row for row in rows if row[0] not in OF_A_CHECKOUT])
        with formatter.section("Commands that need a checkout of the project"):
            formatter.write_dl([row for row in rows if row[0] in OF_A_CHECKOUT])

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command."""
        try:
            return super().invoke(ctx)
        except Failure as error:
            raise click.ClickException(str(error)) from None
        except ModuleNotFoundError as error:
            raise click.ClickException(_missing(error)) from None
        except Exception as error:
            from inorder.commands.terminal import explained  # noqa: PLC0415 - it takes a moment

            if text := explained(error):
                raise click.ClickException(text) from None
            raise


def _of_a_checkout(command: click.Command) -> click.Command:
    """Say in a command's help that it needs a checkout; elsewhere it does nothing else."""
    does, _, more = cleandoc(command.help or "").partition("\n\n")
    command = copy(command)
    command.help = f"{does}\n\n{CHECKOUT}\n\n{more}"
    if not IS_CHECKOUT:
        command.callback = _refuse
    return command


def _refuse(**_: Any) -> None:
    raise click.ClickException(CHECKOUT)


def _missing(error: ModuleNotFoundError) -> str:
    """Say which extra has a module; the error is raised again if none has it."""
    if error.name not in EXTRAS:
        raise error
    wheel = f"inorder-{__version__}-py3-none-any.whl[{EXTRAS[error.name]}]"
    return f"This needs {error.name}: make install; or, with the wheel, pip install './{wheel}'"


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="%(version)s")
def main() -> None:
    """Ordered, exactly-once processing of S3 events: commands for a stack, and a local AWS."""
    # A terminated command cleans up like an interrupted one.
    signal.signal(signal.SIGTERM, _exit)


def _exit(signum: int, _frame: FrameType | None) -> None:
    sys.exit(128 + signum)


if __name__ == "__main__":
    main()
