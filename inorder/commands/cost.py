"""The command that computes the monthly bill."""

import click

from inorder import cost
from inorder.commands.terminal import aligned
from inorder.cost import Bill, Workload
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
@click.option("--log-data/--no-log-data", default=DEFAULT.log_data, show_default=True)
@click.option(
    "--object-kb", type=up_to(LARGEST_OBJECT_KB), default=DEFAULT.object_kb, show_default=True
)
def cost_command(policy_name: str, **options: float | str) -> None:
    """Compute a month's bill on AWS, and what each alternative costs.

    It multiplies what the policy's events use by AWS's list prices, without free tiers.
    """
    try:
        work = Workload(**options)  # type: ignore[arg-type]
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    print_bill(cost.bill_of(policy(policy_name), work), work.events)
    others = [(cost.bill_of_contender(other, work).dollars, other) for other in cost.contenders()]
    others.sort(key=lambda row: row[0])
    instead = [(other.name, f"{dollars:,.2f}", other.lacks) for dollars, other in others]
    print_rows(("Instead", "Dollars", "What it lacks"), *instead)


def print_bill(bill: Bill, events: float) -> None:
    """Print the lines, and their sum."""
    rows = [
        (line.name, f"{line.quantity:,.1f}".removesuffix(".0"), line.unit, f"{line.dollars:,.2f}")
        for line in bill.lines
    ]
    fixed = sum(line.dollars for line in bill.lines if line.is_fixed)
    rows.append((f"A month of {bill.name}", f"{events:,.0f}", "events", f"{bill.dollars:,.2f}"))
    rows.append(("- without events", "", "", f"{fixed:,.2f}"))
    rows.append(("- a million events", "", "", f"{(bill.dollars - fixed) / events * 1e6:,.2f}"))
    print_rows((f"Prices: {cost.prices_of()}", "Quantity", "", "Dollars"), *rows)


def print_rows(*rows: tuple[str, ...]) -> None:
    """Print rows in columns, and an empty line."""
    click.echo("\n".join(aligned(rows, [0] * len(rows[0]))) + "\n")
