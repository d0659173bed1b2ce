"""The commands that use a local AWS of this machine: to keep one, and to run one event."""

from __future__ import annotations

import json
import shlex
from dataclasses import asdict
from pathlib import Path

import click

from inorder import commands, local_aws
from inorder.aws.stack import deploy
from inorder.commands.terminal import print_step, say
from inorder.demo.pictures import own_pairs
from inorder.model import policies
from inorder.model.execution import to_json
from inorder.run import run_event

LOCAL_AWS_FILE = "local-aws.json"


@click.command()
@click.option("--port", type=click.IntRange(1, 65535), help="Any free one if none is given.")
@click.option("--stack-name", default="inorder", show_default=True)
def up(port: int | None, stack_name: str) -> None:
    """Start a local AWS with the stack on it, and keep it running."""
    local = local_aws.recall(commands.OUT / LOCAL_AWS_FILE)
    if local and port not in {None, local.port}:
        raise click.ClickException(f"A local AWS runs on port {local.port} already: make down")
    if not local:
        local = local_aws.start(commands.OUT / "local-aws", port)
        local_aws.remember(local, commands.OUT / LOCAL_AWS_FILE)
    click.echo(f"Deploying template.yaml to {local.endpoint_url} ...", err=True)
    deploy(local, stack_name, {})
    for name, value in {**local.environment, "STACK_NAME": stack_name}.items():
        click.echo(f"export {name}={shlex.quote(value)}")
    say("Now upload a picture: .venv/bin/inorder put docs/images/demonstration.jpg cat.jpg")


@click.command()
def down() -> None:
    """Stop the local AWS that `up` started."""
    local = local_aws.recall(commands.OUT / LOCAL_AWS_FILE)
    if not local:
        click.echo("No local AWS is running.", err=True)
    else:
        local.stop()
    (commands.OUT / LOCAL_AWS_FILE).unlink(missing_ok=True)


@click.command()
@click.argument("event", type=click.Path(path_type=Path))
@click.option("--policy", "policy_name", default="latest-wins", show_default=True)
@click.option(
    "--image", type=click.Path(path_type=Path), help="File with the content of the event's object."
)
@click.option("--json", "as_json", is_flag=True, help="One state per line, with all its data.")
def run(event: Path, policy_name: str, image: Path | None, as_json: bool) -> None:
    """Show the states that an event passes.

    Processes the event in a file with a policy, on a local AWS of its own. The object of the
    event is made, and the event is changed to name that one. Fails if the execution ends with
    an error in a state that is not a Fail.
    """
    try:
        parsed = json.loads(_content(event))
    except (ValueError, RecursionError) as error:
        raise click.ClickException(f"{event} is not valid JSON: {error}") from None
    if policy_name not in policies.names():
        raise click.ClickException(
            f"There is no policy {policy_name!r}: {', '.join(policies.names())}."
        )
    content = _content(image) if image else own_pairs(1)[0].new
    try:
        execution = run_event(parsed, policy_name, content, commands.OUT / "run-aws", say)
    except TimeoutError as error:
        raise click.ClickException(f"{error} This machine may be too busy.") from None
    for number, step in enumerate(execution.steps, 1):
        if as_json:
            click.echo(to_json(asdict(step)))
        else:
            print_step(number, step)
    last = execution.steps[-1]
    if execution.status == "SUCCEEDED":
        say(f"Ended in {last.state}.")
        return
    say(f"Ended in {last.state}: {execution.error}: {execution.cause}")
    if last.type != "Fail":
        raise click.ClickException("No state of the policy has foreseen this.")


def _content(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise click.ClickException(f"Cannot read {file}: {error.strerror}.") from None
