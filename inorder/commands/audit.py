"""The commands that tell whether all outputs are right, and repair those that are not."""

import sys
from collections.abc import Iterator, Sequence, Set
from contextlib import contextmanager
from datetime import datetime

import click
from rich.console import Console
from rich.progress import (
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
)
from rich.text import Text

from inorder.audit import audit as auditing
from inorder.audit.audit import GRACE_SECONDS, Audit, Report
from inorder.audit.comparing import REPAIRABLE, Finding, Verdict
from inorder.audit.right_pairs import cache_file
from inorder.aws.stack import Connection
from inorder.commands.terminal import Time, deployed, printable, say
from inorder.model.execution import to_json
from inorder.wording import INORDER, counted, verb

EXAMPLES = 5  # of each verdict
SOMETHING_IS_WRONG = 3  # an exit status; 1 is a command that failed or was stopped, 2 a wrong call
prefixed = click.option("--prefix", default="", help="Only S3 keys that begin with this.")
at_once = click.option(
    "--concurrency",
    type=click.IntRange(1, 500),
    default=5,
    show_default=True,
    help="Repairs at a time. Leave some of the function's concurrency to the events.",
)
graced = click.option(
    "--grace",
    type=click.FloatRange(0, 3600),
    default=GRACE_SECONDS,
    show_default=True,
    help="Seconds after which what looks wrong is read again.",
)
cached = click.option(
    "--cache/--no-cache",
    default=True,
    help="Whether to ask only about outputs that have changed since they were right.",
)
sure = click.option("--yes", is_flag=True, help="Start the events without asking.")


@click.command()
@deployed
@prefixed
@click.option("--json", "as_json", is_flag=True, help="One line for each key that is not right.")
@click.option(
    "--wait", is_flag=True, help="Wait until all are right, or something cannot become so."
)
@click.option("--repair", is_flag=True, help="Start an event for each that a repair mends.")
@click.option(
    "--foreign", is_flag=True, help="With --repair: replace foreign outputs of objects, too."
)
@click.option(
    "--older-than",
    type=Time(),
    help="An age or a time: outputs written before are old, and --repair makes them again.",
)
@sure
@at_once
@graced
@cached
def audit(
    stack_name: str,
    prefix: str,
    as_json: bool,
    wait: bool,
    repair: bool,
    foreign: bool,
    older_than: datetime | None,
    yes: bool,
    concurrency: int,
    grace: float,
    cache: bool,
) -> None:
    """Tell whether the output of every key is right.

    It compares each object with its output and its record, and changes nothing without --repair.
    What waits for an event is not wrong.

    Exit status: 0 if nothing is wrong, 3 if something is; 1 if the audit failed or was stopped.
    """
    if foreign and not repair:
        raise click.UsageError("--foreign needs --repair.")
    file = cache_file(stack_name) if cache else None
    auditor = Audit(Connection(stack_name), prefix, older_than, file, foreign)
    if repair:
        auditor.refuse_in_a_pause()
    report = _run(auditor, grace, wait=wait)
    if not as_json:
        _show(report, repair and not foreign and auditor.scope.rewrites)
    if repair:
        wanted = REPAIRABLE | ({Verdict.FOREIGN} if foreign else set())
        _repair(auditor, report, wanted, yes, concurrency)
    if as_json:
        for finding in report.findings:
            click.echo(to_json(finding.described()))
    sys.exit(0 if report.is_right else SOMETHING_IS_WRONG)


@click.command()
@deployed
@prefixed
@sure
@at_once
@graced
@cached
def backfill(
    stack_name: str, prefix: str, yes: bool, concurrency: int, grace: float, cache: bool
) -> None:
    """Start an event for each object that has no output yet.

    It may be stopped at any time. When it is started again, it goes on with the rest.

    Exit status: as of `audit`.
    """
    auditor = Audit(Connection(stack_name), prefix, cache=cache_file(stack_name) if cache else None)
    auditor.refuse_in_a_pause()
    report = _run(auditor, grace, only_missing=True)
    _show(report)
    _repair(auditor, report, {Verdict.MISSING}, yes, concurrency)
    sys.exit(0 if report.is_right else SOMETHING_IS_WRONG)


def _run(audit: Audit, grace: float, **how: bool) -> Report:
    with _progress() as progress:
        return audit.run(_Shown(progress), grace, **how)


class _Shown(auditing.Progress):
    """Shows how an audit goes on."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._task, self._shown = progress.add_task("Listing", total=None), ""

    def listed(self, more: int) -> None:
        self._progress.advance(self._task, more)

    def compared(self, more: int, total: int) -> None:
        if self._progress.tasks[self._task].total is None:
            self._progress.reset(self._task, description="Comparing", total=total)
        self._progress.advance(self._task, more)

    def waits(self, doubtful: Sequence[Finding], grace: float) -> None:
        waiting = sum(finding.verdict is Verdict.WAITING for finding in doubtful)
        keys = ", ".join(finding.subject.key for finding in doubtful[:EXAMPLES])
        parts = [f"{waiting:,} in progress"] if waiting else []
        if wrong := len(doubtful) - waiting:
            look = verb(wrong, "look")
            parts.append(f"{wrong:,} {look} wrong: read again in {grace:g} s (--grace)")
        text = f"{'; '.join(parts)}: {keys}{', ...' if len(doubtful) > EXAMPLES else ''}"
        if text != self._shown:
            self._shown = text
            self._progress.console.print(Text(printable(text)), soft_wrap=True)


def _repair(
    audit: Audit, report: Report, wanted: Set[Verdict], agreed: bool, concurrency: int
) -> None:
    """Repair what is wanted, and leave in the report what is not right after all."""
    chosen = [finding for finding in report.findings if finding.is_repairable(wanted)]
    question = f"Start {counted(len(chosen), 'event')}?"
    if not chosen or not (agreed or click.confirm(question, err=True)):
        return
    left = []
    with _progress() as progress:
        task = progress.add_task("Repairing", total=len(chosen))
        for finding, outcome in audit.repair(chosen, concurrency):
            progress.advance(task)
            if finding.verdict is not Verdict.RIGHT:
                left.append(finding)
                say(f"{finding.verdict}: {finding.subject.key}: the repair ended as {outcome}.")
    say(f"Repaired: {len(chosen) - len(left)} of {len(chosen)}.")
    report.findings = [other for other in report.findings if not other.is_repairable(wanted)] + left


def _show(report: Report, may_replace: bool = False) -> None:
    counts = [f"{count:,} {verdict}" for verdict in Verdict if (count := report.counts[verdict])]
    click.echo(f"{counted(report.counts.total(), 'output')}: {', '.join(counts)}")
    for verdict in Verdict:
        findings = [finding for finding in report.findings if finding.verdict is verdict]
        for finding in findings[:EXAMPLES]:
            subject = finding.subject
            version = f"#{subject.version_id}" if subject.version_id else ""
            line = f"{verdict:<15} {subject.key}{version}  {finding.reason}"
            click.echo(printable(line.rstrip()))
        if (more := len(findings) - EXAMPLES) > 0:
            click.echo(f"{verdict:<15} and {more:,} more: --json lists them")
    if parked := report.counts[Verdict.PARKED]:
        text = f"{counted(parked, 'event')} {verb(parked, 'are')} parked, which no repair starts"
        say(f"{text}: `{INORDER} parked` says what helps.")
    if may_replace and any(item.is_repairable({Verdict.FOREIGN}) for item in report.findings):
        say("A repair leaves foreign outputs as they are. Replace them with --repair --foreign.")


class _Rate(ProgressColumn):
    """Shows how many are done in a second."""

    def render(self, task: Task) -> Text:
        return Text(f"{task.speed:,.0f}/s" if task.speed else "")


@contextmanager
def _progress() -> Iterator[Progress]:
    """Show progress beside the results, on a terminal only; what it prints shows anywhere."""
    console = Console(stderr=True)
    with Progress(
        TextColumn("{task.description}"),
        MofNCompleteColumn(),
        _Rate(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    ) as progress:
        yield progress
