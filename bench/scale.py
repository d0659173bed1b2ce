"""Computes what breaks first at 10, 1,000 and 100,000 events a second, and writes docs/cost.md.

`python -m bench.scale` writes the tables between their markers. It counts as the bill does
(inorder/cost.py), and takes the function's time from bench/results.json.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from bench import results
from inorder import PROJECT
from inorder.cost import (
    CONTENDERS,
    DAY,
    LOG_LEVELS,
    Bill,
    Workload,
    audit_map,
    bill,
    bill_of,
    of_audit,
    record_bytes,
    units_of_write,
    usage_of,
)
from inorder.model.policies import Policy, policy

DOCUMENT = "docs/cost.md"
RATES = (10, 1_000, 100_000)  # events a second
MONTH = 30 * DAY  # seconds
AUDITED = (1_000_000, 1_000_000_000)  # objects
READS_OF_PREFIX = "GET and HEAD requests a second for a prefix of a bucket"
PARTITION_WRITES = 1000  # units a second, of one partition of a table; no request raises that


def process_ms() -> float:
    """Give the measured time of the function for an uncontended event."""
    measured = results.read()["uncontended"]["inorder"]
    return float(round(1000 * measured["function_seconds"] / measured["invocations"]))


def workload() -> Workload:
    """Give a second with one event, of which a tenth finds its key locked."""
    return Workload(events=MONTH, overwrites=0.1, process_ms=process_ms())


def needs(of: Policy, work: Workload) -> dict[str, float]:
    """Compute what one event needs, on average."""
    used = {name: quantity / work.events for name, quantity in usage_of(of, work).items()}
    return {
        "events": used["events"],
        "executions": used["express_requests"],
        "function_seconds": used["lambda_requests"] * work.process_ms / 1000,
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
    return _table(headings, [cells for _, cells in sorted(rows)])


def dollar_table(of: Policy, work: Workload) -> str:
    """Render what a month costs at each rate, and what most of it is for."""
    bills = {
        level: [bill_of(of, replace(work, log_level=level, events=rate * MONTH)) for rate in RATES]
        for level in LOG_LEVELS
    }
    rows = [
        [f"`{level}`", *(f"{bill.dollars:,.0f}" for bill in at_rates)]
        for level, at_rates in bills.items()
    ]
    for level in ("ALL", "ERROR"):
        rows.append([f"largest line at `{level}`", *map(_largest, bills[level])])
    log = usage_of(of, replace(work, log_level="ALL"))["execution_log"] / work.events * 1e9
    rows.append(["bytes a second at `ALL`", *(_bytes(rate * log) for rate in RATES)])
    return _table(["log level", *(f"{rate:,}/s" for rate in RATES)], rows)


def hot_key(of: Policy, work: Workload) -> str:
    """Say how many events of one key a partition takes, and how many are processed."""
    writes = of.cost.older.writes * units_of_write(record_bytes(work))
    taken, processed = PARTITION_WRITES / writes, 1000 / work.process_ms
    return (
        f"So `{of.name}`, which writes {writes} unit for an older event, takes {taken:,.0f} events"
        f" a second of one key, of which\nat most {processed:.1f} are processed: one at a time.\n"
    )


def audit_table() -> str:
    """Render what an audit of so many objects takes: hours, and dollars."""
    parallel = audit_map()["MaxConcurrency"]
    milliseconds = tomllib.loads(CONTENDERS.read_text())["assumed"]["audit_ms"]
    rate = min(parallel * 1000 / milliseconds, quotas()[READS_OF_PREFIX]["quota"])
    rows = []
    for objects in AUDITED:
        paid = bill("audit", {name: objects * used for name, used in of_audit().items()})
        hours = 2 * objects / rate / 3600
        rows.append([f"{objects:,}", f"{hours:,.1f}", f"{paid.dollars:,.2f}", _largest(paid)])
    text = f"At {parallel} batches at a time, each of which reads an object in {milliseconds} ms.\n"
    return _table(["objects", "hours", "dollars", "largest line"], rows) + text


def written(text: str) -> str:
    """Put the tables between their markers in the text of docs/cost.md."""
    of, work = policy("latest-wins"), workload()
    tables = {
        "quotas": quota_table(of, work),
        "dollars": dollar_table(of, work),
        "hot key": hot_key(of, work),
        "audit": audit_table(),
        "workload": f"The function takes {work.process_ms:,.0f} ms for an event, and"
        f" {work.overwrites:.0%} of the events find their key locked.\n",
    }
    for name, table in tables.items():
        pattern = rf"(<!-- scale: {name} -->\n)(?:.*\n)*?(<!-- end -->)"
        text, count = re.subn(pattern, lambda found, t=table: f"{found[1]}{t}{found[2]}", text)  # type: ignore[misc]
        if count != 1:
            raise ValueError(f"{DOCUMENT} has {count} places for {name}")
    return text


def _share(share: float) -> str:
    return f"**{share:,.1f} times**" if share > 1 else f"{share:.1%}"


def _largest(bill: Bill) -> str:
    line = max(bill.lines, key=lambda each: each.dollars)
    return f"{line.name}, {line.dollars / bill.dollars:.0%}"


def _bytes(count: float) -> str:
    return f"{count / 1e6:,.1f} MB"


def _table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [headings, ["---"] * len(headings), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


if __name__ == "__main__":
    file = PROJECT / DOCUMENT
    file.write_text(written(file.read_text()))
