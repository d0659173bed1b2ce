"""The commands for those who write a function of their own."""

import sys
from pathlib import Path

import click

from inorder import commands
from inorder.commands.group import Group
from inorder.commands.local import limited
from inorder.commands.terminal import alone, print_entry, say
from inorder.trying.new import create
from inorder.trying.work import named
from inorder.wording import INORDER

BROKEN = 3  # the exit code


@click.command("try")
@limited
@click.argument("handler")
@click.argument("files", nargs=-1, type=click.Path(exists=True, dir_okay=False, path_type=Path))
def try_handler(timeout: int, handler: str, files: tuple[Path, ...]) -> None:
    """Try a function of your own on a local AWS, with faults.

    HANDLER is app.py or folder/app.py:handler. FILES are objects to process; without any, some
    small ones are made. The function finds OUTPUT_BUCKET, INPUT_BUCKET, HANDLES_DELETIONS,
    RECORD_RETENTION_DAYS and the shell's variables.

    Exits with 0 if the contract is kept (docs/function.md), with 3 if it is not, and with 1 if
    nothing could be tried, for example because of an import.
    """
    from inorder.trying.trial import run  # noqa: PLC0415 - it needs an extra

    folder = commands.OUT / "try"
    work = named(handler, folder / "packages")
    findings = []
    try:
        with alone("try"):
            for finding in run(work, timeout, files, folder, say):
                findings.append(finding)
                if finding.mark != "broken":
                    print_entry(f"{finding.mark:<9}{finding.text}")
    except TimeoutError as error:
        raise click.ClickException(f"{error} This machine may be too busy.") from None
    click.echo(f"Each execution, and why it ended as it did: {folder / 'console.html'}")
    click.echo(f'To try more: eval "$({INORDER} up --work {handler})", then {INORDER} put FILE')
    broken = [finding.text for finding in findings if finding.mark == "broken"]
    for text in broken:
        print_entry(f"broken   {text}")
    if broken:
        sys.exit(BROKEN)
    is_whole = all(finding.mark == "kept" for finding in findings)
    click.echo("The contract is kept" + ("." if is_whole else ", so far as it could be tried."))


@click.group("function", cls=Group)
def function_group() -> None:
    """Make functions of your own."""


@function_group.command()
@click.argument("name")
def new(name: str) -> None:
    """Copy the example of a function into a folder, with its test and its template."""
    for file in create(name, Path.cwd()):
        click.echo(f"Written: {file.relative_to(Path.cwd())}")
    say(f"Now try it: {INORDER} try {name}/app.py")
