"""What the tests of several policies need: colours, slow functions, and holders of a lock."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from tests.support.in_process import InProcess

RED, GREEN, BLUE = (255, 0, 0), (0, 255, 0), (0, 0, 255)
CYAN, MAGENTA, YELLOW = (0, 255, 255), (255, 0, 255), (255, 255, 0)  # their inverses


def of(*names: str) -> pytest.MarkDecorator:
    marked = [pytest.param(name, marks=pytest.mark.policy(name)) for name in names]
    return pytest.mark.parametrize("aws", marked, indirect=True)


class HeldBack:
    """Lets the function work but keeps its answers back until a test releases them."""

    def __init__(self, aws: InProcess) -> None:
        self.worked, self.release = threading.Event(), threading.Event()
        self._aws = aws
        aws.invoke = self._work

    def _work(self, payload: Any) -> Any:
        answer = self._aws.handle(payload)
        self.worked.set()
        assert self.release.wait(30)
        return answer
