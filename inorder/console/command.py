"""The command ``inorder console``."""

from __future__ import annotations

import secrets
import socket
from contextlib import suppress
from datetime import datetime

import click
import uvicorn

from inorder.aws.inspection import machine_of
from inorder.aws.stack import Connection
from inorder.console.answers import Answers
from inorder.console.server import application
from inorder.inspect_commands import since
from inorder.local_aws import HOST
from inorder.terminal import aws_errors_in_one_line, deployed, say


@click.command()
@deployed
@click.option("--port", type=click.IntRange(1, 65535), help="Any free one if none is given.")
@since("3h")
def console(stack_name: str, port: int | None, since: datetime) -> None:
    """Serve a web page that shows the executions of a stack, and prints its address.

    The page is for this machine only, and runs until it is interrupted. Its address has a token
    without which nothing can be read or changed.
    """
    with aws_errors_in_one_line():
        aws = Connection(stack_name)
        answers = Answers(aws, machine_of(aws, since), since)
    with socket.socket() as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((HOST, port or 0))
        except OSError as error:
            raise click.ClickException(f"Port {port} cannot be used: {error.strerror}.") from None
        port, token = listening.getsockname()[1], secrets.token_urlsafe(16)
        served = application(answers, port, token)
        config = uvicorn.Config(
            served, log_level="warning", server_header=False, timeout_graceful_shutdown=1
        )
        listening.listen()  # so that the address works as soon as it is printed
        click.echo(f"http://{HOST}:{port}/#token={token}")
        say(f"This shows stack {stack_name}. Ctrl-C ends it.")
        with suppress(KeyboardInterrupt):  # to interrupt is how to end it
            uvicorn.Server(config).run(sockets=[listening])
