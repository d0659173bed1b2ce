"""The command that computes the monthly bill."""

from __future__ import annotations

import click

from inorder import cost
from inorder.commands.terminal import aligned
from inorder.cost import Bill, Contender, Workload
from inorder.model.policies import names, policy


def up_to(most: float) -> click.FloatRange:
    """Make the type of a number above 0."""
    return click.FloatRange(0, most, min_open=True)


SHARE = click.FloatRange(0, 1)
# https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html
LONGEST_MS = 900_000
# Of one PutObject: https://docs.aws.amazon.com/AmazonS3/latest/userguide/upload-objects.html
LARGEST_OBJECT_KB = 5_000_000
MOST_EVENTS = 1e15  # ten thousand times as many as the largest rate of docs/cost.md
DEFAULT = Workload()


@click.command("cost")
@click.option(
    "--events", type=up_to(MOST_EVENTS), default=DEFAULT.events, show_default="1e6", help="A month."
)
@click.option("--overwrites", type=SHARE, default=0, help="Share that finds its key locked.")
@click.option("--duplicates", type=SHARE, default=0, help="Share that is delivered again.")
@click.option("--older", type=SHARE, default=0, help="Share that comes after a newer one.")
@click.option("--process-ms", type=up_to(LONGEST_MS), default=DEFAULT.process_ms, show_default=True)
@click.option(
    "--memory", type=click.IntRange(128, 10240), default=DEFAULT.memory, show_default=True
)
@click.option("--policy", "policy_name", type=click.Choice(names()), default=names()[0])
@click.option("--log-level", type=click.Choice(cost.LOG_LEVELS), default=DEFAULT.log_level)
@click.option(
    "--object-kb", type=up_to(LARGEST_OBJECT_KB), default=DEFAULT.object_kb, show_default=True
)
def cost_command(policy_name: str, **given: float | str) -> None:
    """Compute a month's bill on AWS, and what else would cost less.

    It multiplies what the policy's events use by AWS's list prices, without free tiers.
    """
    chosen = policy(policy_name)
    try:
        work = Workload(**given)  # type: ignore[arg-type]
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    bill = cost.bill_of(chosen, work)
    print_bill(bill, work.events)
    click.echo()
    print_comparisons(bill, cost.compare(work))


def print_bill(bill: Bill, events: float) -> None:
    """Print the lines, and their sum."""
    rows = [
        (line.name, f"{line.quantity:,.1f}".removesuffix(".0"), line.unit, f"{line.dollars:,.2f}")
        for line in bill.lines
    ]
    fixed = sum(line.dollars for line in bill.lines if line.is_fixed)
    rows.append((f"A month of {bill.name}", f"{events:,.0f}", "events", f"{bill.dollars:,.2f}"))
    rows.append(("- whatever happens", "", "", f"{fixed:,.2f}"))
    rows.append(("- a million events", "", "", f"{(bill.dollars - fixed) / events * 1e6:,.2f}"))
    columns = (f"Prices: {cost.prices_of()}", "Quantity", "", "Dollars")
    click.echo("\n".join(aligned([columns, *rows], [0] * len(columns))))


def print_comparisons(bill: Bill, found: list[tuple[Contender, float]]) -> None:
    """Print what the alternatives cost, and say plainly which of them cost less."""
    rows = [(contender.name, f"{dollars:,.2f}") for contender, dollars in found]
    click.echo("\n".join(aligned([("Instead", "Dollars"), *rows], [0, 0])))
    click.echo()
    for contender, dollars in found:
        if dollars < bill.dollars:
            saved = bill.dollars - dollars
            click.echo(f"{contender.name} costs {saved:,.2f} less: {contender.lacks}.")
    if bill.dollars <= min(dollars for _, dollars in found):
        click.echo(f"{bill.name} is the cheapest of these.")
