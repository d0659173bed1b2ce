"""The command ``inorder``, made of its commands."""

import signal
import sys
from importlib import import_module
from types import FrameType
from typing import Any

import click

from inorder import IS_CHECKOUT
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
# The extra of the package that has a module.
EXTRAS = dict.fromkeys(["starlette", "uvicorn"], "console") | dict.fromkeys(
    ["PIL", "ministack", "psutil", "samcli", "samtranslator", "statelint"], "local"
)


class Commands(click.Group):
    """Commands that are imported when they are called, and end with a message if they fail."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Give the names of all commands."""
        return [name for names in MODULES.values() for name in names]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import a command. One that cannot run here says why."""
        found = [module for module, names in MODULES.items() if cmd_name in names]
        if not found:
            return None
        if cmd_name in OF_A_CHECKOUT and not IS_CHECKOUT:
            return _only_says(
                cmd_name, "This needs a checkout of the project, in which `make install` was run."
            )
        try:
            module = import_module(f"inorder.commands.{found[0]}")
        except ModuleNotFoundError as error:
            return _only_says(cmd_name, _missing(error))
        commands = [each for each in vars(module).values() if isinstance(each, click.Command)]
        return next(each for each in commands if each.name == cmd_name)

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


def _missing(error: ModuleNotFoundError) -> str:
    """Say which extra has a module; the error is raised again if none has it."""
    if error.name not in EXTRAS:
        raise error
    extra = EXTRAS[error.name]
    return f"This needs {error.name}: install inorder[{extra}], as `make install` does."


def _only_says(name: str, why: str) -> click.Command:
    def fail(**_: Any) -> None:
        raise click.ClickException(why)

    anything = {"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []}
    return click.Command(name, callback=fail, short_help=why, context_settings=anything)


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
