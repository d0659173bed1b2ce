"""What the tests of the functions' handlers share."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

Lines = Callable[[], list[dict[str, Any]]]


@pytest.fixture
def printed_by(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[[Any], Lines]:
    """Read the lines that a handler has printed, each of which is JSON: give it the logger."""

    def start(logger: Any) -> Lines:
        # Powertools' logger outlives a test, and would write to the output of the first one.
        handler = logger.handlers[0]
        monkeypatch.setattr(handler, "emit", lambda entry: print(handler.format(entry)))  # noqa: T201
        return lambda: [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    return start
