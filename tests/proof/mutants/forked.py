"""Runs unit tests on mutants, each in a process of its own, until one test fails.

A mutant is in place before the tests are imported, so a constant may be changed, too. All else is
imported once: this process runs the tests without a mutant, and is then copied for each mutant.
"""

from __future__ import annotations

import gc
import os
import resource
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings

from inorder import PROJECT

PATIENCE = 10  # a test fails if it takes so many times as long as without a mutant
MEMORY_BYTES = 8 << 30


@dataclass(frozen=True)
class Mutant:
    """One change.

    Attributes
    ----------
    of : str
        A function, or ``template``.
    name : str
        What is changed.
    where : str
        The file and the function that is changed, as in ``stuck.py:oldest``.
    install : callable
        Makes the change, in a process in which nothing has been imported that may be changed.
    """

    of: str
    name: str
    where: str
    install: Callable[[], None]


@dataclass
class Seen:
    """How long a test takes, and which functions it calls."""

    seconds: float = 0
    calls: set[str] = field(default_factory=set)


CALLED: set[str] = set()  # each function that is watched adds its name


class Tests:
    """The tests that may notice a mutant.

    Parameters
    ----------
    files : list of str
        Under tests/unit.
    watched : context manager
        Makes what may be changed say which functions are called.
    """

    def __init__(
        self, files: list[str], watched: AbstractContextManager[None] | None = None
    ) -> None:
        self._files, self._watched = files, watched or nullcontext()
        self._seen: dict[str, Seen] = {}
        self._kills: Counter[tuple[str, str]] = Counter()

    def survivors(self, chosen: Iterable[Mutant], workers: int) -> Iterator[tuple[Mutant, bool]]:
        """Try mutants, and tell of each whether it survives.

        Raises
        ------
        RuntimeError
            A test fails without a mutant.
        """
        _forget()
        surveying = _Surveying(self._seen)
        with self._watched:
            _run(self._files, surveying)
        if surveying.failed:
            raise RuntimeError(f"{surveying.failed} fails without a mutant")
        gc.freeze()
        trying: dict[int, tuple[Mutant, int]] = {}
        for mutant in chosen:
            if len(trying) == workers:
                yield self._ended(trying)
            receiver, sender = os.pipe()
            pid = os.fork()
            if not pid:
                os.write(sender, self._try(mutant).encode())
                os._exit(0)
            os.close(sender)
            trying[pid] = mutant, receiver
        while trying:
            yield self._ended(trying)

    def _ended(self, trying: dict[int, tuple[Mutant, int]]) -> tuple[Mutant, bool]:
        pid, status = os.wait()
        mutant, receiver = trying.pop(pid)
        with os.fdopen(receiver) as file:
            killer = file.read()
        self._kills[mutant.where, killer] += 1
        return mutant, not killer and status == 0

    def _try(self, mutant: Mutant) -> str:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
        _forget()
        mutant.install()
        chosen = self._chosen(mutant)
        trying = _Trying(chosen)
        files = {name.partition("::")[0].rpartition("/")[2] for name in chosen}
        code = _run([file for file in self._files if file.partition("::")[0] in files], trying)
        return trying.failed or ("the import" if code else "")

    def _chosen(self, mutant: Mutant) -> dict[str, float]:
        """Choose the tests that call the function, or else all of those that call its file.

        Returns
        -------
        dict
            Those that kill quickly come first.
        """
        seen, file = self._seen, mutant.where.partition(":")[0]
        able = [name for name in seen if mutant.where in seen[name].calls]
        if not able:
            files = {
                name.partition("::")[0]
                for name in seen
                if any(each.partition(":")[0] == file for each in seen[name].calls)
            }
            able = [name for name in seen if not files or name.partition("::")[0] in files]
        return {
            name: seen[name].seconds
            for name in sorted(
                able,
                key=lambda name: seen[name].seconds / (1 + self._kills[mutant.where, name]) ** 2,
            )
        }


def _forget() -> None:
    """Let all that may be changed, and the tests, be imported anew."""
    for name, module in list(sys.modules.items()):
        path = str(getattr(module, "__file__", None) or "")
        if path.startswith((f"{PROJECT}/functions/", f"{PROJECT}/tests/unit/")):
            del sys.modules[name]


def _run(files: list[str], plugin: Any) -> int:
    options = ["-x", "-qq", "--no-summary", "-p", "no:cacheprovider"]
    paths = [str(PROJECT / "tests" / "unit" / file) for file in files]
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
    def __init__(self, seen: dict[str, Seen]) -> None:
        self._seen = seen

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        CALLED.clear()
        begun = time.monotonic()
        result = yield
        self._seen[item.nodeid] = Seen(time.monotonic() - begun, set(CALLED))
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
