"""The commands that keep a local AWS on this machine."""

import shlex

import click

from inorder import commands, local_aws
from inorder.aws.stack import deploy
from inorder.commands.terminal import say
from inorder.trying.work import deploy_with_work, named

LOCAL_AWS_FILE = "local-aws.json"

limited = click.option(
    "--timeout",
    type=click.IntRange(1, 60),
    default=15,
    show_default=True,
    help="Of the function, in seconds, as in its template.",
)


@click.command()
@click.option("--port", type=click.IntRange(1, 65535), help="Any free one if none is given.")
@click.option("--stack-name", default="inorder", show_default=True)
@click.option("--policy", help="Which the stack has; else it keeps its own, or has latest-wins.")
@click.option("--work", metavar="HANDLER", help="Does the work: app.py, or folder/app.py:handler.")
@limited
def up(
    port: int | None, stack_name: str, policy: str | None, work: str | None, timeout: int
) -> None:
    """Start a local AWS with the stack on it, and keep it running."""
    own = named(work, commands.OUT / "packages") if work else None
    local = local_aws.recall(commands.OUT / LOCAL_AWS_FILE)
    if local and port not in {None, local.port}:
        raise click.ClickException(f"A local AWS runs on port {local.port} already: make down")
    if not local:
        local = local_aws.start(commands.OUT / "local-aws", port)
        local_aws.remember(local, commands.OUT / LOCAL_AWS_FILE)
    say(f"Deploying template.yaml to {local.endpoint_url} ...")
    parameters = {"Policy": policy} if policy else {}
    if own:
        deploy_with_work(local, stack_name, parameters, own, timeout, {})
    else:
        deploy(local, stack_name, parameters)
    for name, value in {**local.environment, "STACK_NAME": stack_name}.items():
        click.echo(f"export {name}={shlex.quote(value)}")
    files = "a file: .venv/bin/inorder put FILE"
    picture = "a picture: .venv/bin/inorder put docs/images/demonstration.jpg cat.jpg"
    say(f"Now upload {files if own else picture}")


@click.command()
def down() -> None:
    """Stop the local AWS that `up` started."""
    local = local_aws.recall(commands.OUT / LOCAL_AWS_FILE)
    if not local:
        say("No local AWS is running.")
    else:
        local.stop()
    (commands.OUT / LOCAL_AWS_FILE).unlink(missing_ok=True)
