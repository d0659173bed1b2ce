"""Starts the workers before anything is measured."""

from __future__ import annotations

import os
import time
from pathlib import Path

from bench.contenders.recorder import FOLDER

SECONDS = 180


def warm(mark: str, workers: int) -> None:
    """Wait until a number of workers are here at the same time."""
    Path(FOLDER, f"{mark}-{os.getpid()}").touch()
    deadline = time.monotonic() + SECONDS
    while len(list(Path(FOLDER).glob(f"{mark}-*"))) < workers and time.monotonic() < deadline:
        time.sleep(0.2)
