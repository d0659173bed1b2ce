"""The command that checks a deployed stack."""

import sys

import click

from inorder.aws.health import WRONG, health
from inorder.aws.stack import Connection
from inorder.commands.terminal import deployed, printable
from inorder.model.policies import names


@click.command()
@deployed
@click.option("--policy", type=click.Choice(names()), help="Also say what must precede this one.")
def doctor(stack_name: str, policy: str | None) -> None:
    """Check a deployed stack, line by line, and say what mends it.

    It changes nothing. Fails if something is wrong; advice is not. What the credentials may not
    read is unknown.
    """
    wrong = 0
    for finding in health(Connection(stack_name), policy):
        click.echo(f"{finding.state:<8} {printable(finding.text)}")
        if finding.remedy:
            click.echo(f"{'':<8} -> {printable(finding.remedy)}")
        wrong += finding.state == WRONG
    sys.exit(wrong > 0)
