"""The commands as a user types them, in this process."""

from typing import Any

from click.testing import CliRunner, Result

from inorder.commands.main import main


def run(*arguments: str, **more: Any) -> Result:
    """Run a command; the other parameters are those of `CliRunner.invoke`."""
    return CliRunner(mix_stderr=False).invoke(main, arguments, **more)
