"""Runs tests on mutants, each in a process of its own, until one test fails.

A mutant is in place before the tests are imported, so a constant may be changed, too. All else is
imported once: this process runs the tests without a mutant, and is then copied for each mutant.
"""

import gc
import os
import resource
import signal
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, Phase, settings

from inorder import PROJECT
from inorder.model.execution import Execution, execution_of
from tests.support.selection import policies_of

PATIENCE = 10  # a test fails if it takes so many times as long as without a mutant
LONGEST_SECONDS = 120  # of one mutant: it may also hang where a test's end is awaited
MEMORY_BYTES = 8 << 30
IMPORTED_ANEW = f"{PROJECT}/tests/policies/"  # what reads the ASL files

UNCHANGED = "unchanged"  # is no mutant: if it does not survive, the others were not killed either


class Mutant(NamedTuple):
    """One change, made in a process in which nothing has been imported that may be changed."""

    name: str
    where: str  # a policy and a state, as in latest-wins:Claim Key
    install: Callable[[], str]  # also gives what finds the mutant without a test, or ""


class Tests:
    """The tests that may notice a mutant: files, and options of pytest."""

    def __init__(self, names: list[str]) -> None:
        self._names = names
        self._seconds: dict[str, float] = {}
        self._reached: dict[str, set[str]] = {}
        self._kills: Counter[tuple[str, str]] = Counter()

    def survivors(self, chosen: Iterable[Mutant], workers: int) -> Iterator[tuple[Mutant, bool]]:
        _forget()
        surveying = _Surveying(self._seconds, self._reached)
        if _run_pytest(self._names, surveying):
            raise RuntimeError(f"{surveying.failed or self._names} fails without a mutant")
        gc.freeze()
        trying: dict[int, tuple[Mutant, int]] = {}
        for mutant in _numbered(chosen):
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

    def _ended(self, trying: dict[int, tuple[Mutant, int]]) -> tuple[Mutant, bool]:
        pid, status = os.wait()
        mutant, receiver = trying.pop(pid)
        with suppress(ProcessLookupError):  # what the mutant has started and not ended
            os.killpg(pid, signal.SIGKILL)
        os.set_blocking(receiver, False)
        with os.fdopen(receiver, "rb") as file:
            killer = (file.read() or b"").decode()
        self._kills[mutant.where, killer] += 1
        return mutant, not killer and status == 0

    def _try(self, mutant: Mutant) -> str:
        """Give what kills a mutant; the files that kill quickly are imported first."""
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
        _forget()
        if finder := mutant.install():
            return finder
        by_file: dict[str, list[str]] = defaultdict(list)
        for name in self._able(mutant):
            by_file[_file_of(name)].append(name)
        for file, names in by_file.items():
            trying = _Trying({name: self._seconds[name] for name in names})
            if _run_pytest([file], trying):
                return trying.failed or "the import"
        return ""

    def _able(self, mutant: Mutant) -> list[str]:
        """Choose the tests that reach the state, or else the files that reach its policy."""
        policy = mutant.where.partition(":")[0] + ":"
        able = [name for name, seen in self._reached.items() if seen & {mutant.where, policy}]
        if not able:
            files = {
                _file_of(name)
                for name, seen in self._reached.items()
                if any(state.startswith(policy) for state in seen)
            }
            able = [name for name in self._reached if not files or _file_of(name) in files]
        kills = self._kills
        return sorted(
            able, key=lambda name: self._seconds[name] / (1 + kills[mutant.where, name]) ** 2
        )


def _numbered(chosen: Iterable[Mutant]) -> Iterator[Mutant]:
    """Number the mutants of the same name: a reason is for one of them."""
    seen: Counter[str] = Counter()
    for mutant in chosen:
        seen[mutant.name] += 1
        again = seen[mutant.name] > 1 and mutant.name != UNCHANGED
        yield mutant._replace(name=f"{mutant.name} ({seen[mutant.name]})") if again else mutant


def _file_of(test: str) -> str:
    return test.partition("::")[0]


def _forget() -> None:
    """Let all that may be changed, and the tests, be imported anew."""
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None) or "").startswith(IMPORTED_ANEW):
            del sys.modules[name]


def _run_pytest(names: list[str], plugin: Any) -> int:
    """Run tests with a plugin, until one fails; pytest says nothing."""
    options = ["-qq", "--no-summary", "-p", "no:cacheprovider", "-x", f"--rootdir={PROJECT}"]
    with Path(os.devnull).open("w") as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere):
        return int(pytest.main([*names, *options], plugins=[plugin]))


@contextmanager
def _watching(item: pytest.Item, reached: set[str]) -> Iterator[None]:
    """Note the states that a test runs; one that runs none reads all."""
    states = {item.callspec.params.get("state")} - {None} if hasattr(item, "callspec") else set()

    def noting(*arguments: Any) -> Execution:
        execution = execution_of(*arguments)
        states.update(execution.path)
        return execution

    with patch("inorder.aws.executions.execution_of", noting):
        yield
    reached |= {f"{policy}:{state}" for policy in policies_of(item) for state in states or {""}}


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
    """Notes how long each test takes, and which states it reaches, as `Mutant.where` does."""

    def __init__(self, seconds: dict[str, float], reached: dict[str, set[str]]) -> None:
        self._seconds, self._reached = seconds, reached

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        begun = time.monotonic()
        with _watching(item, self._reached.setdefault(item.nodeid, set())):
            result = yield
        self._seconds[item.nodeid] = time.monotonic() - begun
        return result


class _Trying(_Run):
    def __init__(self, chosen: dict[str, float]) -> None:
        self._chosen = chosen

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        collected = {item.nodeid: item for item in items}
        items[:] = [collected[name] for name in self._chosen if name in collected]
        for item in items:
            item.add_marker(pytest.mark.timeout(PATIENCE * (1 + self._chosen[item.nodeid])))
