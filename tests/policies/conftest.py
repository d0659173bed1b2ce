"""Tells pytest of the mark by which a test says which policy's state machine it runs."""

from __future__ import annotations

import pytest


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "policy(name): the policy whose state machine `aws` runs")
