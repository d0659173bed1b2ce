"""The command that shows the demonstration."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import click
from rich.console import Console

from inorder import commands
from inorder.aws.stack import Connection
from inorder.commands.terminal import say
from inorder.demo import local
from inorder.demo.deployed import Demonstration
from inorder.demo.pictures import PicturePair, own_pairs, pairs_from_folder
from inorder.demo.report import Results, console_table, write_report
from inorder.demo.run import choices


@click.command("demo")
@click.option("--images", type=click.Path(path_type=Path), help="Folder with your own pictures.")
@click.option("--keys", type=click.IntRange(1, 1000), default=100, show_default=True)
@click.option("--policy", type=click.Choice(choices()), help=f"[default: {choices()[0]}]")
@click.option("--port", type=click.IntRange(1, 65535), help="Port of the local AWS.")
@click.option(
    "--stack-name",
    "stack_names",
    metavar="NAME",
    multiple=True,
    help="Show a deployed stack, on AWS or on the local AWS of `up`. More than one are compared.",
)
@click.option("--yes", is_flag=True, help="With --stack-name: begin without asking.")
def show_demonstration(
    images: Path | None,
    keys: int,
    policy: str | None,
    port: int | None,
    stack_names: tuple[str, ...],
    yes: bool,
) -> None:
    """Show disordered events without coordination and with it.

    Starts a local AWS of its own for that, with a stack for each. With --stack-name it shows a
    deployed stack instead, says before what it will do and what that costs, and removes what it
    created.
    """
    saved_page = commands.OUT / "demo" / "console.html"
    if stack_names and (policy or port):
        raise click.UsageError("A stack that is deployed has a policy and a place already.")
    pairs = pairs_from_folder(images.expanduser(), keys, say) if images else own_pairs(keys)
    if stack_names:
        results, good = _show_deployed(stack_names, pairs, yes)
        heading = "Stack"
    else:
        try:
            results = local.run_demonstration(
                pairs, commands.OUT / "demo-aws", port, policy or choices()[0], saved_page
            )
        except TimeoutError as error:
            raise click.ClickException(f"{error} This machine may be too busy.") from None
        heading, good = "Coordination", not results["on"][0].has_faults
    page = write_report(commands.OUT / "demo", results, heading)
    Console().print(console_table(results, heading))
    click.echo(f"The outputs: {page}")
    if not stack_names:
        click.echo(f"Each execution, and why it ended as it did: {saved_page}")
    if not good:
        raise click.ClickException(
            "With coordination, no output may be stale or missing, and no event without an outcome."
        )


def _show_deployed(
    stack_names: Iterable[str], pairs: Sequence[PicturePair], yes: bool
) -> tuple[Results, bool]:
    """Show stacks one after the other; also tell whether each kept its promise."""
    demonstrations = [Demonstration(Connection(name), pairs) for name in dict.fromkeys(stack_names)]
    for each in demonstrations:
        click.echo(each.plan(), err=True)
    if not yes and not all(each.aws.is_local for each in demonstrations):
        click.confirm("Begin?", abort=True, err=True)
    try:
        results = {each.stack.name: each.show(say) for each in demonstrations}
    except TimeoutError as error:
        raise click.ClickException(f"{error} docs/operate.md says what to check.") from None
    return results, all(each.keeps_promise(results[each.stack.name][0]) for each in demonstrations)
