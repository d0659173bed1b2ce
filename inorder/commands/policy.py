"""The commands for those who write a policy."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import click
from botocore.exceptions import BotoCoreError, ClientError

from inorder import PROJECT, new_policy
from inorder.asl import check_file, numbers
from inorder.asl.definition import Json, parse
from inorder.asl.versions import differences
from inorder.aws.stack import Connection


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option(
    "--against",
    metavar="VERSION",
    help="Also say what breaks while executions of this version run: a file, a commit or a stack.",
)
def check(files: tuple[Path, ...], against: str | None) -> None:
    """Check ASL files, and print what their numbers add up to."""
    wrong = 0
    for file in files:
        findings = check_file(file)
        for finding in findings:
            click.echo(f"{file}: {finding}", err=True)
        if not findings:
            click.echo(f"{file}: {numbers(file)}")
        wrong += len(findings)
        if against and not findings:
            wrong += _compare(file, against)
    sys.exit(wrong > 0)


def _compare(file: Path, against: str) -> int:
    old, new = _version(file, against), parse(file.read_text(encoding="utf-8"))
    broken = list(differences(old, new))
    for difference in broken:
        click.echo(f"{file}: beside {against}: {difference}", err=True)
    if not broken:
        click.echo(f"{file}: may run beside {against}")
    return len(broken)


def _version(file: Path, against: str) -> Json:
    """Read another version of a file: from a file, else from a commit, else from a stack."""
    text = ""
    if Path(against).is_file():
        text = Path(against).read_text(encoding="utf-8")
    elif (shown := _committed(file, against)) is not None:
        text = shown
    else:
        text = _deployed(file, against)
    try:
        parsed: Json = parse(text)
    except ValueError as error:
        raise click.ClickException(f"{against} is not valid JSON: {error}") from None
    if not isinstance(parsed, dict) or not isinstance(parsed.get("States"), dict):
        raise click.ClickException(f"{against} is not a state machine.")
    return parsed


def _deployed(file: Path, stack_name: str) -> str:
    try:
        aws = Connection(stack_name)
        definition: str = aws.client("stepfunctions").describe_state_machine(
            stateMachineArn=aws.stack.state_machine_arn
        )["definition"]
    except (BotoCoreError, ClientError) as error:
        raise click.ClickException(
            f"{stack_name} is no file, no commit with {file.name}, and no stack that can be read:"
            f" {' '.join(str(error).split())}"
        ) from None
    return definition


def _committed(file: Path, commit: str) -> str | None:
    """Read a file as it was in a commit; None if there is no such commit, or git is not there."""
    if commit.startswith("-"):
        return None
    command = ["git", "show", f"{commit}:./{file.name}"]
    try:
        done = subprocess.run(  # noqa: S603 - without a shell; git takes this for a revision
            command, cwd=file.resolve().parent, capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        return None
    return done.stdout if done.returncode == 0 else None


@click.group("policy")
def policy_group() -> None:
    """Make policies of your own."""


@policy_group.command()
@click.argument("name")
@click.option("--from", "source", default="latest-wins", show_default=True, metavar="POLICY")
def new(name: str, source: str) -> None:
    """Copy a policy under a new name, to be edited.

    Writes its ASL, its facts, its tests, its rows of the documentation's tables, and its part of
    template.yaml.
    """
    before = new_policy.longest_stack_name()
    for file in new_policy.create(name, source):
        click.echo(f"Written: {file.relative_to(PROJECT)}")
    if (longest := new_policy.longest_stack_name()) < before:
        click.echo(
            f"A state machine is named STACK_{name}, in at most 80 characters: the stack's name may"
            f" now have {longest} instead of {before}."
        )
