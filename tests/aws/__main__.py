"""The command: `make test-aws [REGION=...] [REMOVE=name] [LOCAL=1]`."""

from __future__ import annotations

import os
import re
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import uuid4

import boto3
import click
from botocore.credentials import RefreshableCredentials
from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError

from inorder import PROJECT, local_aws
from inorder.commands.target import account
from inorder.commands.terminal import explained
from inorder.errors import Failure
from inorder_fence import __version__
from tests.aws.steps import STEPS, Unknown, delete, deploy
from tests.aws.trial import NAME, Trial

Step = Callable[[Trial], str]
EXPECTED, OTHERWISE, UNKNOWN = "as expected", "OTHERWISE", "not known"
PRIVATE = {  # an account's ID, and who called it
    r"(?<!\d)\d{12}(?!\d)": "ACCOUNT",
    r"(arn:aws:(?:iam|sts)::)[^\s'\"]+": r"\1PRINCIPAL",
}
NEEDED_SECONDS = 7200
OF_MACHINES = {"iam-role", "container-role"}  # credentials that AWS renews
SHORT = """\
These credentials end within two hours, or do not say when they end. Use longer ones: without them
the stack would stay. Beside AWS_SESSION_TOKEN, set AWS_CREDENTIAL_EXPIRATION to when they end."""
ANNOUNCEMENT = """\
This deploys the stack {name}, tries it for an hour, and deletes it with its data,
also after Ctrl-C. It costs two dollars at most. docs/engines.md has the permissions that it needs.
Go on, in account {account}, region {region}?"""


class Report:
    """What was seen, without an account's ID. The file is written after each step."""

    def __init__(self, file: Path, region: str) -> None:
        self.file, self.verdicts = file, list[str]()
        self._lines = ["# What AWS answered", f"{datetime.now(UTC):%F}, {region}, {__version__}"]

    def take(self, step: Step, trial: Trial) -> None:
        """Take a step, and add its answer. A failure is one, too, so that the others are taken."""
        began = time.monotonic()
        _print(f"... {step.__doc__}")
        try:
            verdict, seen = EXPECTED, step(trial)
        except Unknown as reason:
            verdict, seen = UNKNOWN, str(reason)
        except Exception as error:
            with suppress(OSError):
                traceback.print_exc()
            verdict, seen = OTHERWISE, f"{type(error).__name__}: {error}"
        seen = f"{step.__doc__} Seen: {seen} ({time.monotonic() - began:.0f} s)"
        line = f"- **{verdict}:** {' '.join(seen.split())}"
        for pattern, replacement in PRIVATE.items():
            line = re.sub(pattern, replacement, line)
        _print(line)
        self.verdicts.append(verdict)
        self.add(line)

    def add(self, line: str) -> None:
        """Add a line, and write the file."""
        self._lines.append(line)
        self.file.parent.mkdir(parents=True, exist_ok=True)
        self.file.write_text("\n\n".join(self._lines) + "\n", encoding="utf-8")


def _print(text: str) -> None:
    """Print, unless the terminal is gone: what was deployed is deleted all the same."""
    with suppress(OSError):
        click.echo(text)


def run(trial: Trial, report: Report, steps: Sequence[Step] = STEPS) -> bool:
    """Try the stack and delete it; tell whether nothing was otherwise, and nothing is left."""
    report.add(f"The stack {trial.name}. If it is left: make test-aws REMOVE={trial.name}")
    try:
        for step in [deploy, *steps]:
            report.take(step, trial)
            if report.verdicts == [OTHERWISE]:  # there is no stack
                break
    finally:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # a closed terminal sends it twice
        report.take(delete, trial)
    return OTHERWISE not in report.verdicts


def check_credentials(session: boto3.Session) -> None:
    """Refuse credentials of which it is not known that they last until everything is deleted."""
    if (credentials := session.get_credentials()) is None:
        raise NoCredentialsError
    try:
        is_temporary = bool(credentials.get_frozen_credentials().token)
    except RuntimeError:  # they have ended
        raise click.ClickException(SHORT) from None
    is_known = isinstance(credentials, RefreshableCredentials)
    is_long = is_known and not credentials.refresh_needed(NEEDED_SECONDS)  # type: ignore[attr-defined]
    if is_temporary and not is_long and credentials.method not in OF_MACHINES:
        raise click.ClickException(SHORT)


@click.command()
@click.option("--region", help="The region; by default that of the environment.")
@click.option("--remove", help="Only delete what the run of this name has left.")
@click.option("--local", "is_local", is_flag=True, help="Rehearse on the local AWS.")
def main(region: str | None, remove: str | None, is_local: bool) -> None:
    """Try on AWS what no local engine can tell, and write a report that names no account."""
    if remove and not re.fullmatch(f"{NAME}[0-9a-f]{{8}}", remove):
        raise click.UsageError(f"A run's name is {NAME} and eight hexadecimal digits.")
    for end in (signal.SIGTERM, signal.SIGHUP):  # as Ctrl-C, also if the terminal is closed
        signal.signal(end, signal.default_int_handler)
    name, file = f"{NAME}{uuid4().hex[:8]}", PROJECT / "out" / "aws-report.md"
    if is_local:
        with TemporaryDirectory() as folder, local_aws.start(Path(folder) / "aws") as local:
            sys.exit(not run(Trial(name, local), Report(file, "the local AWS")))
    if region:
        os.environ["AWS_DEFAULT_REGION"] = os.environ["AWS_REGION"] = region
    session = boto3.Session()
    if not session.region_name:
        raise click.UsageError("Say which region: make test-aws REGION=eu-central-1")
    try:
        number = account(session)
        if remove:
            Trial(remove).delete()
            return
        check_credentials(session)
    except (BotoCoreError, ClientError) as error:
        raise click.ClickException(explained(error)) from None
    except Failure as error:
        raise click.ClickException(str(error)) from None
    asked = ANNOUNCEMENT.format(name=name, account=number, region=session.region_name)
    click.confirm(asked, abort=True)
    sys.exit(not run(Trial(name), Report(file, session.region_name)))


if __name__ == "__main__":
    main()
