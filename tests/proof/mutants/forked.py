"""Runs unit tests on mutants, each in a process of its own, until one test fails.

A mutant is in place before the tests are imported, so a constant may be changed, too. All else is
imported once: this process runs the tests without a mutant, and is then copied for each mutant.
"""

from __future__ import annotations

import gc
import os
import resource
import signal
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, Phase, settings

from inorder import PROJECT

PATIENCE = 10  # a test fails if it takes so many times as long as without a mutant
LONGEST_SECONDS = 120  # of one mutant: it may also hang where a test's end is awaited
MEMORY_BYTES = 8 << 30
FOLDERS = tuple(f"{PROJECT}/{each}/" for each in ("functions", "stacks", "tests/unit"))


class CodeMutant(NamedTuple):
    """One change, made in a process in which nothing has been imported that may be changed."""

    name: str
    where: str  # the file and the function, as in stuck.py:oldest
    install: Callable[[], None]


class Tests:
    """The tests that may notice a mutant: files, or tests of a file."""

    def __init__(self, names: list[str]) -> None:
        self._paths = [f"{PROJECT}/{name}" for name in names]
        self._seconds: dict[str, float] = {}
        self._calls: dict[str, set[str]] = {}
        self._kills: Counter[tuple[str, str]] = Counter()

    def survivors(
        self, chosen: Iterable[CodeMutant], workers: int
    ) -> Iterator[tuple[CodeMutant, bool]]:
        _forget()
        surveying = _Surveying(self._seconds, self._calls)
        if run_pytest(self._paths, surveying, "-x"):
            raise RuntimeError(f"{surveying.failed or self._paths} fails without a mutant")
        gc.freeze()
        trying: dict[int, tuple[CodeMutant, int]] = {}
        for mutant in chosen:
            if len(trying) == workers:
                yield self._ended(trying)
            receiver, sender = os.pipe()
            pid = os.fork()
            if not pid:
                os.setsid()
                threading.Timer(LONGEST_SECONDS, os._exit, [1]).start()
                os.write(sender, self._try(mutant).encode())
                os._exit(0)
            os.close(sender)
            trying[pid] = mutant, receiver
        while trying:
            yield self._ended(trying)

    def _ended(self, trying: dict[int, tuple[CodeMutant, int]]) -> tuple[CodeMutant, bool]:
        pid, status = os.wait()
        mutant, receiver = trying.pop(pid)
        with suppress(ProcessLookupError):  # what the mutant has started and not ended
            os.killpg(pid, signal.SIGKILL)
        os.set_blocking(receiver, False)
        with os.fdopen(receiver, "rb") as file:
            killer = (file.read() or b"").decode()
        self._kills[mutant.where, killer] += 1
        return mutant, not killer and status == 0

    def _try(self, mutant: CodeMutant) -> str:
        """Give the test that kills a mutant; the files that kill quickly are imported first."""
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
        _forget()
        mutant.install()
        by_file: dict[str, list[str]] = defaultdict(list)
        for name in self._able(mutant):
            by_file[_file_of(name)].append(name)
        for file, names in by_file.items():
            trying = _Trying({name: self._seconds[name] for name in names})
            of_file = [path for path in self._paths if _file_of(path) == file]
            if run_pytest(of_file, trying, "-x"):
                return trying.failed or "the import"
        return ""

    def _able(self, mutant: CodeMutant) -> list[str]:
        """Choose the tests that call the function, or else the files that call its file."""
        able = [name for name, calls in self._calls.items() if mutant.where in calls]
        if not able:
            file = mutant.where.partition(":")[0] + ":"
            files = {
                _file_of(name)
                for name, calls in self._calls.items()
                if any(each.startswith(file) for each in calls)
            }
            able = [name for name in self._calls if not files or _file_of(name) in files]
        kills = self._kills
        return sorted(
            able, key=lambda name: self._seconds[name] / (1 + kills[mutant.where, name]) ** 2
        )


def _file_of(test: str) -> str:
    return test.partition("::")[0].rpartition("/")[2]


def _forget() -> None:
    """Let all that may be changed, and the tests, be imported anew."""
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None) or "").startswith(FOLDERS):
            del sys.modules[name]


def run_pytest(paths: list[str], plugin: Any, *more: str) -> int:
    """Run tests with a plugin, which decides what is said; pytest says nothing."""
    options = ["-qq", "--no-summary", "-p", "no:cacheprovider", *more]
    with Path(os.devnull).open("w") as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere):
        return int(pytest.main([*paths, *options], plugins=[plugin]))


class _Run:
    failed = ""

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self) -> None:
        """Let Hypothesis make the same examples each time, and not look for smaller ones."""
        settings.register_profile(
            "mutants",
            phases=[Phase.explicit, Phase.generate],
            derandomize=True,
            database=None,
            suppress_health_check=list(HealthCheck),
        )
        settings.load_profile("mutants")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed = report.nodeid


class _Surveying(_Run):
    """Notes how long each test takes, and which functions it calls."""

    def __init__(self, seconds: dict[str, float], calls: dict[str, set[str]]) -> None:
        self._seconds, self._calls = seconds, calls

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        calls = self._calls[item.nodeid] = set()

        def note(frame: FrameType, event: str, _: object) -> None:
            path, code = frame.f_code.co_filename, frame.f_code
            if event == "call" and path.startswith(FOLDERS):
                name = code.co_qualname.replace(".<locals>", "")
                calls.add(f"{path.rpartition('/')[2]}:{name}")

        begun = time.monotonic()
        threading.setprofile(note)
        sys.setprofile(note)
        result = yield
        sys.setprofile(None)
        threading.setprofile(None)
        self._seconds[item.nodeid] = time.monotonic() - begun
        return result


class _Trying(_Run):
    def __init__(self, chosen: dict[str, float]) -> None:
        self._chosen = chosen

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        found = {item.nodeid: item for item in items}
        items[:] = [found[name] for name in self._chosen]
        for item in items:
            item.add_marker(pytest.mark.timeout(PATIENCE * (1 + self._chosen[item.nodeid])))
