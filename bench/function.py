"""Measures the function: its cold start, its time beside plain Pillow, and time by memory.

`python -m bench.function` writes bench/function.json, and needs root for the control groups.
"""

from __future__ import annotations

import compileall
import json
import os
import random
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import files
from io import BytesIO
from pathlib import Path
from py_compile import PycInvalidationMode
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from PIL import Image

from bench import results
from inorder import PROJECT
from tests.support.resolved_template import resources_with

FILE = PROJECT / "bench" / "function.json"
SOURCE = PROJECT / "functions"
WORKER = PROJECT / "bench" / "function_worker.py"
GROUPS = Path("/sys/fs/cgroup")
PERIOD = 20_000  # microseconds
RUNS, ROUNDS = 10, 5
# "At 1,769 MB, a function has the equivalent of one vCPU", and less memory gives proportionally
# less: https://docs.aws.amazon.com/lambda/latest/dg/configuration-memory.html
ONE_PROCESSOR = 1769
SIZES = (512, 1024, ONE_PROCESSOR, 2048, 3008)
NEARLY = 1.1  # a memory size is as fast as another if it takes at most so many times as long
# Name, width, height, quality, and how often a turn is repeated.
IMAGES = {"100 kB": (720, 540, 85, 40), "12 megapixels": (4000, 3000, 85, 5)}
# The packages of this machine's tools that boto3 and urllib3 import where they find them. boto3
# does not depend on them, and Lambda has boto3 and what it depends on:
# https://docs.aws.amazon.com/lambda/latest/dg/lambda-python.html
ABSENT = ("awscrt", "cryptography", "OpenSSL")
IMPORT = f"""
import sys, time
sys.modules.update(dict.fromkeys({ABSENT}))
open(sys.argv[1] + "/cgroup.procs", "w").write("0")
began = time.perf_counter()
import invert_image.app
print(time.perf_counter() - began)
"""
BUILT, COMPILED = "`sam build`", "`make build`: with bytecode"

Measured = dict[str, Any]


def photograph(width: int, height: int, quality: int) -> bytes:
    """Make a JPEG that has some detail everywhere, the same each time."""
    small = (width // 8, height // 8)
    noise = Image.frombytes("RGB", small, random.Random(1).randbytes(3 * small[0] * small[1]))  # noqa: S311
    file = BytesIO()
    large = noise.resize((width, height), Image.Resampling.BICUBIC)
    large.save(file, "JPEG", quality=quality)
    return file.getvalue()


def package(folder: Path, *, bytecode: bool) -> Path:
    """Pack the function with what it needs, as SAM does."""
    folder.mkdir()
    requirements = (SOURCE / "requirements.txt").read_text()
    for name in re.findall(r"^([\w.-]+)==", requirements, re.MULTILINE):
        for file in files(name) or ():
            if ".." not in file.parts and file.suffix != ".pyc":
                target = folder / file
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(str(file.locate()), target)
    for source in SOURCE.glob("*/*.py"):
        target = folder / source.relative_to(SOURCE)
        target.parent.mkdir(exist_ok=True)
        shutil.copy(source, target)
    if bytecode:
        mode = PycInvalidationMode.CHECKED_HASH
        compileall.compile_dir(folder, quiet=1, invalidation_mode=mode)
    return folder


def run(arguments: Sequence[str], path: Path) -> subprocess.CompletedProcess[str]:
    """Run Python as Lambda would: with the function's environment, and a package on its path."""
    properties = resources_with({})["InvertImageFunction"]["Properties"]
    environment = {
        **properties["Environment"]["Variables"],
        "AWS_ACCESS_KEY_ID": "none",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_SECRET_ACCESS_KEY": "none",
        "PATH": os.environ["PATH"],
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONPATH": str(path),
    }
    return subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, *arguments], env=environment, capture_output=True, text=True, check=True
    )


def measure_cold_start(folder: Path, say: Callable[[str], None]) -> Measured:
    """Import the handler in fresh interpreters."""
    packages = {
        BUILT: package(folder / "built", bytecode=False),
        COMPILED: package(folder / "compiled", bytecode=True),
    }
    taken: list[dict[str, float]] = []
    with processor_quota(1) as group:
        started = ["-c", IMPORT, str(group)]
        for _ in range(RUNS):
            taken.append({name: float(run(started, of).stdout) for name, of in packages.items()})
            say(" ".join(f"{seconds:.3f}" for seconds in taken[-1].values()))
    return {
        each: {
            "seconds": median(one[each] for one in taken),
            "ratio": median(one[each] / one[BUILT] for one in taken),
        }
        for each in packages
    }


@contextmanager
def processor_quota(share: float) -> Iterator[Path]:
    """Make a control group whose processes get a share of the processors.

    Parameters
    ----------
    share : float
        Of one processor. The kernel stops the processes for the rest of each period, and lets them
        run before the processes of other groups.
    """
    first = GROUPS / "cpu"  # version 1 of control groups
    group = (first if first.exists() else GROUPS) / f"inorder-{os.getpid()}"
    quota = round(share * PERIOD)
    settings = (
        {"cpu.cfs_period_us": PERIOD, "cpu.cfs_quota_us": quota, "cpu.shares": 262_144}
        if first.exists()
        else {"cpu.max": f"{quota} {PERIOD}", "cpu.weight": 10_000}
    )
    group.mkdir()
    try:
        for name, value in settings.items():
            (group / name).write_text(str(value))
        yield group
    finally:
        group.rmdir()


def measure_sizes(folder: Path, say: Callable[[str], None]) -> Measured:
    """Run the handler with the processor time of each memory size."""
    taken: dict[tuple[str, int], list[dict[str, float]]] = defaultdict(list)
    sources = {}
    for name, (width, height, quality, _) in IMAGES.items():
        sources[name] = folder / name
        sources[name].write_bytes(photograph(width, height, quality))
    for _ in range(ROUNDS):
        for name, (*_, turns) in IMAGES.items():
            for size in SIZES:
                with processor_quota(size / ONE_PROCESSOR) as group:
                    started = [str(WORKER), str(sources[name]), str(turns), str(group)]
                    printed = run(started, SOURCE).stdout
                taken[name, size].append(json.loads(printed.splitlines()[-1]))
                say(f"{name} {size} MB: {taken[name, size][-1]}")
    return {
        name: {
            str(size): {
                measure: median(each[measure] for each in taken[name, size])
                for measure in taken[name, size][0]
            }
            for size in SIZES
        }
        for name in IMAGES
    }


def chosen(measured: Measured) -> int:
    """Choose the least memory with which every image is nearly as fast as it gets."""

    def fast(size: int) -> bool:
        return all(
            measured[name][str(size)]["seconds"]
            <= NEARLY * min(each["seconds"] for each in measured[name].values())
            for name in IMAGES
        )

    return min(filter(fast, SIZES))


def rounded(value: Any) -> Any:
    """Round all numbers to four digits."""
    if isinstance(value, dict):
        return {name: rounded(each) for name, each in value.items()}
    return float(f"{value:.4g}") if isinstance(value, float) else value


def read() -> Measured:
    """Read what was measured."""
    found: Measured = json.loads(FILE.read_text())
    return found


def main() -> None:
    """Measure all, and write it down."""
    with TemporaryDirectory() as folder:
        found = {
            "machine": results.about(),
            "cold": measure_cold_start(Path(folder), print),
            **measure_sizes(Path(folder), print),
        }
    FILE.write_text(results.lines(rounded(found)))


if __name__ == "__main__":
    main()
