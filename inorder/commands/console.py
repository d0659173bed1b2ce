"""The command ``inorder console``."""

import secrets
from contextlib import suppress
from datetime import datetime

import click

from inorder.aws.inspection import machine_of
from inorder.aws.stack import Connection
from inorder.commands.executions import since
from inorder.commands.terminal import deployed, say
from inorder.console.answers import Answers
from inorder.loopback import HOST, bound


@click.command()
@deployed
@click.option("--port", type=click.IntRange(1, 65535), help="Any free one if none is given.")
@since("3h")
def console(stack_name: str, port: int | None, since: datetime) -> None:
    """Serve a web page about a stack, and print its address.

    The page is for this machine only, changes nothing, and runs until it is interrupted. Its
    address has a token without which nothing can be read.
    """
    from inorder.console.server import serve  # noqa: PLC0415 - it needs an extra

    aws = Connection(stack_name)
    answers = Answers(aws, machine_of(aws, since), since)
    with bound(port) as listening:
        listening.listen()  # so that the address works as soon as it is printed
        token = secrets.token_urlsafe(16)
        click.echo(f"http://{HOST}:{listening.getsockname()[1]}/#token={token}")
        say(f"This shows stack {stack_name}. Ctrl-C ends it.")
        with suppress(KeyboardInterrupt):  # to interrupt is how to end it
            serve(answers, listening, token)
