"""The engine, which remembers the steps that it has taken for all searches."""

from __future__ import annotations

import pytest

from tests.proof.model.engine import Engine


@pytest.fixture(scope="session")
def engine() -> Engine:
    return Engine()
