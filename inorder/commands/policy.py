"""The commands for those who write a policy."""

import sys
from pathlib import Path

import click

from inorder import PROJECT, new_policy
from inorder.asl import check_file, numbers
from inorder.commands.group import Group
from inorder.commands.terminal import say
from inorder.model.policies import DOCUMENT, own_file, with_tables


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--standard", is_flag=True, help="They are STANDARD, which may wait for a year.")
def check(files: tuple[Path, ...], standard: bool) -> None:
    """Check ASL files, and print what they can take.

    They are of EXPRESS state machines, unless --standard is given.
    """
    wrong = 0
    for file in files:
        findings = check_file(file, standard=standard)
        for finding in findings:
            click.echo(f"{file}: {finding}", err=True)
        if not findings:
            click.echo(f"{file}: {'no findings' if standard else numbers(file)}")
        wrong += len(findings)
    sys.exit(wrong > 0)


@click.group("policy", cls=Group)
def policy_group() -> None:
    """Make a policy of your own; render the tables of policies."""


@policy_group.command()
@click.argument("name")
@click.option("--from", "source", default="latest-wins", show_default=True, metavar="POLICY")
def new(name: str, source: str) -> None:
    """Copy a policy under a new name, to be edited.

    Writes its ASL and its tests, and adds its lines to statemachine/policies.toml, template.yaml,
    docs/policies.md and docs/permissions.md.
    """
    before = new_policy.longest_stack_name()
    for file, was_there in new_policy.create(name, source).items():
        click.echo(f"{'Edited' if was_there else 'Written'}: {file}")
    if (longest := new_policy.longest_stack_name()) < before:
        click.echo(
            f"A state machine is named STACK_{name}, in at most 80 characters: the stack's name may"
            f" now have {longest} instead of {before}."
        )
    say(f"Now edit {own_file(name)}, and then: make prove POLICY={name}")


@policy_group.command()
def tables() -> None:
    """Render the tables of docs/policies.md, from statemachine/policies.toml and the ASL files."""
    document = PROJECT / DOCUMENT
    document.write_text(with_tables(document.read_text(encoding="utf-8")), encoding="utf-8")
    click.echo(f"Written: {DOCUMENT}")
