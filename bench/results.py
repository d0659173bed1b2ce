"""The medians of several runs: bench/results.json, by workload, contender and measure."""

import json
import os
import platform
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

from bench.measured import fingerprint

FILE = Path(__file__).parent / "results.json"
MACHINE = Path(__file__).parent / "machine.json"
BASE = "inorder"
DIGITS = 3

Measures = dict[str, Any]  # numbers, and what was measured, and when
Results = dict[str, dict[str, Measures]]


def measured_now(contender: str, measures: Measures) -> Measures:
    """Say of measures what was measured, and when."""
    today = datetime.now(UTC).date().isoformat()
    return {"of": fingerprint(contender), "on": today} | measures


def is_old(contender: str, measures: Measures) -> bool:
    """Tell whether what a contender runs has changed since it was measured."""
    return bool(measures["of"] != fingerprint(contender))


def old(workloads: Sequence[str], contenders: Sequence[str]) -> list[str]:
    """Name the workloads in which a contender has no row, or an old one."""
    found = read()

    def is_new(name: str, contender: str) -> bool:
        measures = found.get(name, {}).get(contender)
        return measures is not None and not is_old(contender, measures)

    return [name for name in workloads if not all(is_new(name, each) for each in contenders)]


def wrong(by_contender: Mapping[str, Measures]) -> list[str]:
    """Name the contenders that left a missing output, or a stale one although they coordinate."""
    return [
        name
        for name, measures in by_contender.items()
        if measures["missing"] or (measures["stale"] and name != "uncoordinated")
    ]


def summary(runs: Sequence[Mapping[str, Measures]]) -> dict[str, Measures]:
    """Give the median of each measure of one workload by contender, and the number of ``runs``."""
    found: dict[str, Measures] = {}
    for contender in runs[0]:
        of_runs = [run[contender] for run in runs]
        measures = dict.fromkeys(name for each in of_runs for name in each)
        found[contender] = {"of": of_runs[0]["of"], "on": of_runs[0]["on"], "runs": len(runs)} | {
            name: round(median(each[name] for each in of_runs if name in each), DIGITS)
            for name in measures
            if name not in {"of", "on"}
        }
    return found


def read() -> Results:
    """Read all results, in the order of the workloads."""
    found: Results = json.loads(FILE.read_text())
    return found


def merge(workload: str, measured: dict[str, Measures], order: Sequence[str]) -> None:
    """Replace the results of a workload; contenders of different runs do not compare."""
    found = read() | {workload: measured}
    kept = {name: found[name] for name in sorted(found, key=order.index)}
    FILE.write_text(lines(kept))


def lines(found: Mapping[str, Mapping[str, Any]]) -> str:
    """Write a line for each workload and contender."""
    workloads = [
        f"{json.dumps(name)}: {{\n  "
        + ",\n  ".join(f"{json.dumps(each)}: {json.dumps(of[each])}" for each in of)
        + "\n}"
        for name, of in found.items()
    ]
    return "{\n" + ",\n".join(workloads) + "\n}\n"


def describe() -> None:
    """Write down on what is measured."""
    names: list[str] = []
    with suppress(OSError):  # Linux has it
        names = re.findall(r"model name\s*: (.+)", Path("/proc/cpuinfo").read_text())
    about = {
        "ministack": version("ministack"),
        "cores": os.cpu_count(),
        "processor": names[0] if names else platform.machine(),
        "python": platform.python_version(),
    }
    MACHINE.write_text(json.dumps(about, indent=2) + "\n")


def machine() -> dict[str, Any]:
    """Read on what was measured."""
    found: dict[str, Any] = json.loads(MACHINE.read_text())
    return found
