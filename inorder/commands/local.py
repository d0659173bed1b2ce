"""The commands that keep a local AWS on this machine."""

from __future__ import annotations

import shlex

import click

from inorder import commands, local_aws
from inorder.aws.stack import deploy
from inorder.commands.terminal import say

LOCAL_AWS_FILE = "local-aws.json"


@click.command()
@click.option("--port", type=click.IntRange(1, 65535), help="Any free one if none is given.")
@click.option("--stack-name", default="inorder", show_default=True)
@click.option("--policy", help="Which the stack has; else it keeps its own, or has latest-wins.")
def up(port: int | None, stack_name: str, policy: str | None) -> None:
    """Start a local AWS with the stack on it, and keep it running."""
    local = local_aws.recall(commands.OUT / LOCAL_AWS_FILE)
    if local and port not in {None, local.port}:
        raise click.ClickException(f"A local AWS runs on port {local.port} already: make down")
    if not local:
        local = local_aws.start(commands.OUT / "local-aws", port)
        local_aws.remember(local, commands.OUT / LOCAL_AWS_FILE)
    say(f"Deploying template.yaml to {local.endpoint_url} ...")
    deploy(local, stack_name, {"Policy": policy} if policy else {})
    for name, value in {**local.environment, "STACK_NAME": stack_name}.items():
        click.echo(f"export {name}={shlex.quote(value)}")
    say("Now upload a picture: .venv/bin/inorder put docs/images/demonstration.jpg cat.jpg")


@click.command()
def down() -> None:
    """Stop the local AWS that `up` started."""
    local = local_aws.recall(commands.OUT / LOCAL_AWS_FILE)
    if not local:
        say("No local AWS is running.")
    else:
        local.stop()
    (commands.OUT / LOCAL_AWS_FILE).unlink(missing_ok=True)
