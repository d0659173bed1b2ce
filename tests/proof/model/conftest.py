"""The engine, which remembers the steps that it has taken for all searches.

With ONCE=1, as `make test` says, a search that has succeeded is not repeated on the same files.
"""

import hashlib
import os
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from inorder import PROJECT
from tests.proof.model.engine import Engine

# All that decides how a search ends.
FOLDERS = (
    *("events", "functions", "inorder/asl", "inorder/model", "statemachine"),
    *("tests/policies", "tests/proof/model", "tests/proof/simulation", "tests/support"),
)
FILES = ("requirements.txt", "inorder/__init__.py", "tests/__init__.py", "tests/proof/__init__.py")
IS_ONCE = bool(os.environ.get("ONCE")) and not os.environ.get("MODEL")


def read_files() -> Iterator[Path]:
    """List what decides how a search ends."""
    yield from (PROJECT / name for name in FILES)
    for folder in FOLDERS:
        paths = (PROJECT / folder).rglob("*")
        yield from sorted(path for path in paths if path.is_file() and path.suffix != ".pyc")


def digest() -> str:
    hashed = hashlib.sha256()
    for file in read_files():
        content = hashlib.sha256(file.read_bytes()).hexdigest()
        hashed.update(f"{file.relative_to(PROJECT)}\n{content}\n".encode())
    return hashed.hexdigest()


SEARCHED = digest()


def key(item: pytest.Item) -> str:
    return f"searched/{hashlib.sha256(item.nodeid.encode()).hexdigest()}"


def pytest_runtest_setup(item: pytest.Item) -> None:
    cache = getattr(item.config, "cache", None)  # not with -p no:cacheprovider
    if IS_ONCE and cache and cache.get(key(item), None) == SEARCHED:
        pytest.skip("was searched before on the same files; CI=true searches again")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    cache = getattr(item.config, "cache", None)
    if IS_ONCE and call.when == "call" and report.passed and cache:
        cache.set(key(item), SEARCHED)
    return report


@pytest.fixture(scope="session")
def engine() -> Engine:
    return Engine()
