"""Computes what breaks first at 10, 1,000 and 100,000 events a second, and writes docs/cost.md.

`python -m bench.scale` writes the tables between their markers. It counts as the bill does
(inorder/cost.py), with the same time of the function.
"""

import tomllib
from typing import Any

from inorder import PROJECT
from inorder.cost import DAY, Workload, record_bytes, units_of_write, usage_of
from inorder.model.policies import Policy, between_markers, policy, table

DOCUMENT = "docs/cost.md"
RATES = (10, 1_000, 100_000)  # events a second
MONTH = 30 * DAY  # seconds
OUTAGE = 600  # seconds in which each event fails, and its message in the retry queue is in flight
PARTITION_WRITES = 1000  # units a second, of one partition of a table; no request raises that


def workload() -> Workload:
    """Give a second with one event, of which a tenth finds its key locked."""
    return Workload(events=MONTH, overwrites=0.1)


def needs(of: Policy, work: Workload) -> dict[str, float]:
    """Compute what one event needs, on average."""
    used = {name: quantity / work.events for name, quantity in usage_of(of, work).items()}
    return {
        "events": used["events"],
        "executions": used["express_requests"],
        "function_seconds": used["lambda_gb_seconds"] / (work.memory / 1024),
        "retry_seconds": OUTAGE,
        "writes": used.get("writes", 0),
        "puts": used["s3_puts"],
        "gets": used["s3_gets"],
    }


def quotas() -> dict[str, Any]:
    """Read AWS's quotas by name."""
    return tomllib.loads((PROJECT / "bench" / "quotas.toml").read_text())


def quota_table(of: Policy, work: Workload) -> str:
    """Render the quotas, in the order in which they are reached."""
    needed, rows = needs(of, work), []
    for name, row in quotas().items():
        if isinstance(row, dict):
            reached = row["quota"] / needed[row["per_event"]]
            cells = [f"[{name}]({row['source']})", f"{row['quota']:,}", f"{reached:,.0f}"]
            cells += [_share(rate / reached) for rate in RATES]
            rows.append((reached, [*cells, row["more"]]))
    rates = [f"{rate:,}/s" for rate in RATES]
    headings = ["quota", "default", "reached at events/s", *rates, "who raises it"]
    return table(headings, [cells for _, cells in sorted(rows)])


def hot_key(of: Policy, work: Workload) -> str:
    """Say how many events of one key a partition takes, and how many are processed."""
    writes = of.cost.older.writes * units_of_write(record_bytes(work))
    taken, processed = PARTITION_WRITES / writes, 1 / needs(of, work)["function_seconds"]
    return (
        f"So `{of.name}`, which writes {writes} units for an older event, takes {taken:,.0f} events"
        f" a second of one key, of which\nat most {processed:.1f} are processed: one at a time.\n"
    )


def written(text: str) -> str:
    """Put the tables between their markers in the text of docs/cost.md."""
    of, work = policy("latest-wins"), workload()
    about = (
        f"The function takes {needs(of, work)['function_seconds']:.2f} s, as in the bill, and"
        f" {work.overwrites:.0%} of the events find their key locked.\n"
    )
    rendered = {"quotas": quota_table(of, work), "hot key": hot_key(of, work), "workload": about}
    return between_markers(text, "scale", rendered)


def _share(share: float) -> str:
    return f"**{share:,.1f} times**" if share > 1 else f"{share:.1%}"


if __name__ == "__main__":
    file = PROJECT / DOCUMENT
    file.write_text(written(file.read_text()))
