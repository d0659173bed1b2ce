"""The command that shows the demonstration."""

import os

import click
from rich.console import Console

from inorder import commands
from inorder.commands.terminal import alone
from inorder.demo.report import FAULTS, console_table, write_report
from inorder.model import policies

SHOWN = [name for name in policies.names() if name != policies.uncoordinated()]


@click.command("demo")
@click.option("--keys", type=click.IntRange(1, 1000), default=100, show_default=True)
@click.option("--policy", type=click.Choice(SHOWN), default=SHOWN[0], show_default=True)
@click.option("--port", type=click.IntRange(1, 65535), help="Port of the local AWS.")
def show_demonstration(keys: int, policy: str, port: int | None) -> None:
    """Show disordered events without coordination and with it.

    Starts a local AWS of its own for that, with a stack for each.
    """
    from inorder.demo.pictures import own_pairs  # noqa: PLC0415 - it needs an extra
    from inorder.demo.run import run_demonstration  # noqa: PLC0415

    try:
        pairs = own_pairs(keys)
        with alone("demo"):
            results = run_demonstration(pairs, commands.OUT / "demo-aws", port, policy)
    except TimeoutError as error:
        raise click.ClickException(f"{error} This machine may be too busy.") from None
    except KeyboardInterrupt:
        click.echo("Aborted!", err=True)
        os._exit(1)  # nothing is left to do: an orderly end takes seconds on a busy machine
    page = commands.OUT / "demo" / "index.html"
    write_report(page, policy, results)
    Console().print(console_table(results))
    click.echo(f"The outputs, and the timeline of each key: {page}")
    if any(results["on"].counts[fault] for fault in FAULTS):
        raise click.ClickException(
            "With coordination, no output may be stale or missing, and no event without an outcome."
        )
