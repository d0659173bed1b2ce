"""The commands that tell whether all outputs are right, and repair those that are not."""

import sys
from collections.abc import Set
from itertools import groupby

import click
from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from inorder.audit.audit import GRACE_SECONDS, Audit, Report
from inorder.audit.comparing import REPAIRABLE, Verdict
from inorder.aws.stack import Connection
from inorder.commands.terminal import deployed, printable, say
from inorder.model.execution import to_json

EXAMPLES = 5  # of each verdict
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
sure = click.option("--yes", is_flag=True, help="Do not ask before the repair.")


@click.command()
@deployed
@prefixed
@click.option("--json", "as_json", is_flag=True, help="One line for each key that is not right.")
@click.option("--repair", is_flag=True, help="Start an event for each missing, stale or orphaned.")
@click.option("--foreign", is_flag=True, help="With --repair, replace foreign outputs as well.")
@sure
@at_once
@graced
def audit(
    stack_name: str,
    prefix: str,
    as_json: bool,
    repair: bool,
    foreign: bool,
    yes: bool,
    concurrency: int,
    grace: float,
) -> None:
    """Tell whether the output of every key is right.

    It compares each object with its output and its record, and changes nothing without --repair.
    Fails if something is wrong. What waits for an event is not wrong.
    """
    found = Audit(Connection(stack_name), prefix)
    report = _run(found, grace, only_missing=False)
    if not as_json:
        _show(report)
    if repair:
        wanted = REPAIRABLE | ({Verdict.FOREIGN} if foreign else set())
        _repair(found, report, wanted, yes, concurrency)
    if as_json:
        for finding in report.findings:
            click.echo(to_json(finding.described()))
    sys.exit(int(not report.is_right))


@click.command()
@deployed
@prefixed
@sure
@at_once
@graced
def backfill(stack_name: str, prefix: str, yes: bool, concurrency: int, grace: float) -> None:
    """Start an event for each object that has no output yet.

    It may be stopped at any time. When it is started again, it goes on with the rest.
    """
    found = Audit(Connection(stack_name), prefix)
    report = _run(found, grace, only_missing=True)
    _show(report)
    _repair(found, report, {Verdict.MISSING}, yes, concurrency)
    sys.exit(int(not report.is_right))


def _run(audit: Audit, grace: float, only_missing: bool) -> Report:
    with _progress() as progress:
        task = progress.add_task("Comparing", total=None)
        return audit.run(lambda more: progress.advance(task, more), grace, only_missing)


def _repair(
    audit: Audit, report: Report, wanted: Set[Verdict], agreed: bool, concurrency: int
) -> None:
    """Repair what is wanted, and leave in the report what is not right after all."""
    chosen = [each for each in report.findings if each.verdict in wanted]
    if not chosen or not (agreed or click.confirm(f"Start {len(chosen):,} events?", err=True)):
        return
    left = []
    with _progress() as progress:
        task = progress.add_task("Repairing", total=len(chosen))
        for finding, outcome in audit.repair(chosen, concurrency):
            progress.advance(task)
            if finding.verdict is not Verdict.RIGHT:
                left.append(finding)
                say(f"{finding.verdict}: {finding.subject.key}: the repair ended as {outcome}.")
    say(f"{len(chosen) - len(left)} of {len(chosen)} are right now.")
    report.findings = [each for each in report.findings if each.verdict not in wanted] + left


def _show(report: Report) -> None:
    counts = (f"{report.counts[each]:,} {each}" for each in Verdict if report.counts[each])
    click.echo(f"{report.counts.total():,} outputs: {', '.join(counts)}")
    found = sorted(report.findings, key=lambda each: [*Verdict].index(each.verdict))
    for verdict, group in groupby(found, key=lambda each: each.verdict):
        findings = [*group]
        for each in findings[:EXAMPLES]:
            version = f"#{each.subject.version_id}" if each.subject.version_id else ""
            line = f"{verdict:<15} {each.subject.key}{version}  {each.reason}"
            click.echo(printable(line.rstrip()))
        if (more := len(findings) - EXAMPLES) > 0:
            click.echo(f"{verdict:<15} and {more:,} more: --json lists them")


def _progress() -> Progress:
    """Make a progress bar beside the results, which shows only on a terminal."""
    columns = (TextColumn("{task.description}"), MofNCompleteColumn(), TimeElapsedColumn())
    console = Console(stderr=True)
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
