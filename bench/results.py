"""What was measured: bench/results.json, with a row for each turn of each run.

A row is written as soon as it is measured, with a hash of the code that ran, so that a measurement
which was interrupted goes on where it stopped.
"""

import ast
import json
import os
import platform
import re
import sys
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

from inorder import PROJECT
from inorder.model.policies import asl_file, stem

FILE = Path(__file__).parent / "results.json"
CONTENDERS = PROJECT / "bench" / "contenders"
# What every contender runs: the work, and the workloads.
SHARED = (
    CONTENDERS / "image.py",
    PROJECT / "bench" / "delivery.py",
    PROJECT / "bench" / "workloads.py",
    PROJECT / "functions" / "invert_image" / "inversion.py",
)
FUNCTIONS = PROJECT / "functions"
FENCE = tuple(
    FUNCTIONS / "inorder_fence" / f"{name}.py"
    for name in ("fenced_output", "object_event", "records")
)
# Beside its own module.
MORE = {
    "inorder": (
        PROJECT / asl_file("latest-wins"),
        *sorted(FUNCTIONS.glob("*/*.py")),
    ),
    "fenced-function": FENCE,
    "sqs-fence": FENCE,
    "fifo-fence": (*FENCE, CONTENDERS / "sqs_fence.py"),
}
DIGITS = 3
OLD = " †"  # marks what older code did

Measures = dict[str, Any]


def read() -> list[Measures]:
    """Read the rows: where and when each was measured, of which code, and its measures."""
    rows: list[Measures] = json.loads(FILE.read_text())
    return rows


def add(workload: str, contender: str, run: int, measures: Measures) -> None:
    """Write a row, in the place of what older code did, or the same run."""
    row = {
        "workload": workload,
        "contender": contender,
        "run": run,
        "code": fingerprint(contender),
        "on": datetime.now(UTC).date().isoformat(),
        "machine": machine(),
    } | {name: round(number, DIGITS) for name, number in measures.items()}
    kept = [
        earlier
        for earlier in read()
        if (earlier["workload"], earlier["contender"]) != (workload, contender)
        or (earlier["run"] != run and not is_old(earlier))
    ]
    write(FILE, [*kept, row])


def write(file: Path, rows: Iterable[Measures]) -> None:
    """Write rows, each in a line of its own."""
    lines = ",\n".join(map(json.dumps, rows))
    file.write_text(f"[\n{lines}\n]\n")


def has(workload: str, contender: str, run: int) -> bool:
    """Tell whether the present code was measured in a run."""
    turn = (workload, contender, run)
    return any(
        (row["workload"], row["contender"], row["run"]) == turn and not is_old(row)
        for row in read()
    )


def medians(rows: Iterable[Measures], workload: str, contender: str) -> Measures:
    """Give the medians of the measures over the runs, and the number of runs; {} without a run."""
    of = [row for row in rows if (row["workload"], row["contender"]) == (workload, contender)]
    names = [name for row in of[:1] for name in row if isinstance(row[name], int | float)]
    middle: Measures = {name: median(row[name] for row in of if name in row) for name in names}
    return (
        middle | {"runs": len(of), "on": of[-1]["on"], "is_old": any(map(is_old, of))} if of else {}
    )


def wrong(contender: str, measures: Measures) -> bool:
    """Tell whether outputs are missing, or stale although the contender coordinates."""
    return bool(measures["missing"] or (measures["stale"] and contender != "uncoordinated"))


def is_old(row: Measures) -> bool:
    """Tell whether what a contender runs has changed since it was measured."""
    return bool(row["code"] != fingerprint(row["contender"]))


@cache
def fingerprint(contender: str) -> str:
    """Hash what a contender runs; comments, docstrings and formatting change nothing."""
    files = (*SHARED, module(contender), *MORE.get(contender, ()))
    return sha256("\n".join(map(_running, files)).encode()).hexdigest()[:12]


def module(contender: str) -> Path:
    """Give the file that has a contender's handler."""
    return CONTENDERS / f"{stem(contender)}.py"


@cache
def machine() -> str:
    """Describe on what is measured."""
    processors: list[str] = []
    with suppress(OSError):  # Linux has it
        processors = re.findall(r"model name\s*: (.+)", Path("/proc/cpuinfo").read_text())
    processor = processors[0] if processors else platform.machine()
    return (
        f"ministack {version('ministack')} on {os.cpu_count()} cores ({processor})"
        f" with Python {platform.python_version()}"
    )


def _running(file: Path) -> str:
    text = file.read_text(encoding="utf-8")
    if file.suffix == ".json":
        return json.dumps(json.loads(text, object_hook=_without_comment), sort_keys=True)
    tree = ast.parse(text)
    for node in ast.walk(tree):
        match node:
            case ast.Module(body=body) | ast.ClassDef(body=body) | ast.FunctionDef(body=body):
                if ast.get_docstring(node) is not None:
                    node.body = body[1:]
    return _dump(tree)


def _dump(tree: ast.AST) -> str:
    """Write a tree as Python 3.11 does: 3.12 has a field more, and 3.13 leaves out empty lists."""
    more: dict[str, Any] = {"show_empty": True} if sys.version_info >= (3, 13) else {}
    return "".join(ast.dump(tree, **more).split(", type_params=[]"))


def _without_comment(state: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in state.items() if name != "Comment"}
