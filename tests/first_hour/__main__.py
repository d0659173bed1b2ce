"""The command: `make test-aws [REGION=...] [LOCAL=1]`."""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Collection
from pathlib import Path
from uuid import uuid4

import boto3
import click
from botocore.exceptions import BotoCoreError, ClientError

from inorder import PROJECT, local_aws
from inorder.commands.terminal import explained
from tests.first_hour import before, deliveries, faults, tools
from tests.first_hour.questions import QUESTIONS
from tests.first_hour.report import Report
from tests.first_hour.trial import NAME, Trial

MODULES = before, deliveries, faults, tools  # the questions are asked in this order
LOCAL_WAIT_SCALE = 0.12
ANNOUNCEMENT = """\
This deploys a stack of a random name, asks {number} questions of it, and
removes it again, in about an hour. It costs less than two dollars: a KMS key for a week (0.25),
logs, and a few thousand executions. Ctrl-C stops it at any time: what it has made is removed.

It needs permissions to create, use and delete CloudFormation stacks with their IAM roles and
policies, S3 buckets, DynamoDB tables, SQS queues, Lambda functions, state machines,
EventBridge rules and buses, log groups, alarms and a KMS key; and states:TestState,
states:ValidateStateMachineDefinition, servicequotas:GetServiceQuota and
servicequotas:GetAWSDefaultServiceQuota. Those of an administrator of a test account are simplest.
SAM's own bucket (aws-sam-cli-managed-default) stays.
"""


def ask(trial: Trial, report: Report, only: Collection[str] = ()) -> None:
    """Ask what the report does not answer yet, and remove the trial whatever happens."""
    try:
        for question in QUESTIONS:
            is_wanted = question.name in only or not only
            if question.deploys or (is_wanted and question.name not in report.rows):
                click.echo(f"{question.name}: {question.asked}")
                answer = question.answer(trial)
                report.add(question, answer)
                click.echo(f"  {answer.verdict}: {answer.observed}")
    finally:
        click.echo("Removing what was made. Ctrl-C now leaves it.")
        report.left = [f"{trial.name}: make test-aws REMOVE={trial.name.removeprefix(NAME)}"]
        report.write()
        report.left = trial.remove()
        report.write()


def run(trial: Trial, report: Report, only: Collection[str] = ()) -> None:
    """Ask, and exit with 1 if an answer is not as expected or something is left."""
    if trial.stacks():
        raise click.ClickException(f"There is a stack {trial.name}, which would be removed.")
    try:
        ask(trial, report, only)
    finally:
        for each in report.left or ():
            click.echo(f"Not removed: {each}")
        click.echo(f"The report is in {report.markdown}.")
    if not report.is_good:
        raise SystemExit(1)


@click.command()
@click.option("--region", help="The region; by default that of the environment.")
@click.option("--local", "is_local", is_flag=True, help="Rehearse on the local AWS.")
@click.option("--only", multiple=True, help="A question to ask, by its name; by default all.")
@click.option("--resume", is_flag=True, help="Ask what out/aws-report.json does not answer yet.")
@click.option("--remove", help="Only remove what the run of this ID has left.")
@click.option("--yes", is_flag=True, help="Do not ask before anything is made.")
@click.option("--folder", type=click.Path(path_type=Path), default=PROJECT / "out")
def main(
    region: str | None,
    is_local: bool,
    only: tuple[str, ...],
    resume: bool,
    remove: str | None,
    yes: bool,
    folder: Path,
) -> None:
    """Ask AWS what no local engine can tell, and write a report that names no account."""
    if unknown := set(only) - {each.name for each in QUESTIONS}:
        raise click.UsageError(f"There is no question {', '.join(sorted(unknown))}.")
    for end in (signal.SIGTERM, signal.SIGHUP):  # as for Ctrl-C, also if the terminal is closed
        signal.signal(end, signal.default_int_handler)
    if is_local:
        if remove:
            raise click.UsageError("A rehearsal leaves nothing: its local AWS ends with it.")
        report = Report(folder, "the local AWS", resume)
        with (
            tempfile.TemporaryDirectory() as server,
            local_aws.start(Path(server) / "aws", wait_scale=LOCAL_WAIT_SCALE) as local,
        ):
            run(Trial(uuid4().hex[:8], local), report, only)
        return
    if region:
        os.environ["AWS_DEFAULT_REGION"] = os.environ["AWS_REGION"] = region
    session = boto3.Session()
    if not session.region_name:
        raise click.UsageError("Say which region: make test-aws REGION=eu-central-1")
    try:
        account = session.client("sts").get_caller_identity()["Account"]
    except (BotoCoreError, ClientError) as error:
        raise click.ClickException(explained(error)) from None
    if remove:
        for each in (left := Trial(remove).remove()):
            click.echo(f"Not removed: {each}")
        raise SystemExit(bool(left))
    click.echo(ANNOUNCEMENT.format(number=len(QUESTIONS)))
    if not yes:
        click.confirm(f"Go on, in account {account}, region {session.region_name}?", abort=True)
    run(Trial(uuid4().hex[:8]), Report(folder, session.region_name, resume), only)


if __name__ == "__main__":
    main()
