"""The commands that keep a local AWS on this machine."""

from __future__ import annotations

import shlex
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click
from botocore.exceptions import ClientError

from inorder import commands
from inorder.aws.stack import Stack, deploy, describe
from inorder.commands.terminal import alone, say
from inorder.model.policies import names
from inorder.trying.inside import FILE, LONGEST_TIMEOUT
from inorder.trying.work import deploy_with_work, named
from inorder.wording import INORDER

if TYPE_CHECKING:
    from inorder.local_aws import LocalAws

LOCAL_AWS_FILE = "local-aws.json"

limited = click.option(
    "--timeout",
    type=click.IntRange(1, LONGEST_TIMEOUT),
    default=15,
    show_default=True,
    help="Of the function, in seconds, as in its template.",
)


@click.command()
@click.option("--port", type=click.IntRange(1, 65535), help="Any free one if none is given.")
@click.option("--stack-name", default="inorder", show_default=True)
@click.option(
    "--policy",
    type=click.Choice(names()),
    help="Which the stack has; else it keeps its own, or has latest-wins.",
)
@click.option("--work", metavar="HANDLER", help="Does the work: app.py, or folder/app.py:handler.")
@limited
def up(
    port: int | None, stack_name: str, policy: str | None, work: str | None, timeout: int
) -> None:
    """Start a local AWS with the stack on it, and keep it running.

    A stack that is there already keeps its policy and its work, unless others are given.
    """
    from inorder import local_aws  # noqa: PLC0415 - it needs an extra

    own = named(work, commands.OUT / "packages") if work else None
    with alone("local-aws"):
        if not (local := local_aws.recall(commands.OUT / LOCAL_AWS_FILE)):
            local = local_aws.start(commands.OUT / "local-aws", port)
            local_aws.remember(local, commands.OUT / LOCAL_AWS_FILE)
        if port not in {None, local.port}:
            raise click.ClickException(f"A local AWS runs on port {local.port} already: make down")
        before = None
        with suppress(ClientError):  # there is none
            before = describe(local.client("cloudformation"), stack_name)
        say(f"Deploying template.yaml to {local.endpoint_url} ...")
        parameters = {"Policy": policy} if policy else {}
        if own:
            stack = deploy_with_work(local, stack_name, parameters, own, timeout, {})
        else:
            stack = deploy(local, stack_name, parameters)
    if before and not policy:
        say(f"Kept: the policy {stack.parameters['Policy']}. Choose another one by --policy.")
    kept = "" if own else _work(local, stack)
    if kept:
        say(f"Kept: the work {kept}. To leave it: {INORDER} down, and then {INORDER} up")
    for name, value in {**local.environment, "STACK_NAME": stack_name}.items():
        click.echo(f"export {name}={shlex.quote(value)}")
    files = "FILE" if own or kept else "docs/images/demonstration.jpg cat.jpg"
    say(f"Now upload a file: {INORDER} put {files}")


@click.command()
def down() -> None:
    """Stop the local AWS that `up` started."""
    from inorder import local_aws  # noqa: PLC0415 - it needs an extra

    with alone("local-aws"):
        if local := local_aws.recall(commands.OUT / LOCAL_AWS_FILE):
            local.stop()
            say("The local AWS is stopped. Open a new shell: an old one still points to it.")
        else:
            say("No local AWS is running.")
        (commands.OUT / LOCAL_AWS_FILE).unlink(missing_ok=True)


def _work(local: LocalAws, stack: Stack) -> str:
    """Name the handler that is the work of a stack; "" if that is the shipped function."""
    arn = stack.parameters.get("WorkFunctionArn")
    if not arn:
        return ""
    function: dict[str, Any] = local.client("lambda").get_function(FunctionName=arn)
    variables = function["Configuration"].get("Environment", {}).get("Variables", {})
    return str(variables.get(FILE, arn))
