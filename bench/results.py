"""The medians of several runs: bench/results.json, by workload, contender and measure."""

from __future__ import annotations

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

FILE = Path(__file__).parent / "results.json"
MACHINE = Path(__file__).parent / "machine.json"
BASE = "inorder"
DIGITS = 3

Measures = dict[str, float]
Results = dict[str, dict[str, Measures]]


def summary(runs: Sequence[Mapping[str, Measures]]) -> dict[str, Measures]:
    """Give the median of each measure of one workload by contender, and the number of ``runs``."""
    found: dict[str, Measures] = {}
    for contender in runs[0]:
        of_runs = [run[contender] for run in runs]
        measures = dict.fromkeys(name for each in of_runs for name in each)
        found[contender] = {"runs": len(runs)} | {
            name: round(median(each[name] for each in of_runs if name in each), DIGITS)
            for name in measures
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
        "date": datetime.now(UTC).date().isoformat(),
    }
    MACHINE.write_text(json.dumps(about, indent=2) + "\n")


def machine() -> dict[str, Any]:
    """Read on what was measured."""
    found: dict[str, Any] = json.loads(MACHINE.read_text())
    return found
