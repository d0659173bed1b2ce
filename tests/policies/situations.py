"""What the tests of several policies share: colours, and tests about some policies."""

import pytest

RED, GREEN, BLUE = (255, 0, 0), (0, 255, 0), (0, 0, 255)
CYAN, MAGENTA, YELLOW = (0, 255, 255), (255, 0, 255), (255, 255, 0)  # their inverses


def of(*names: str) -> pytest.MarkDecorator:
    """Let a test run for each of some policies."""
    marked = [pytest.param(name, marks=pytest.mark.policy(name)) for name in names]
    return pytest.mark.parametrize("aws", marked, indirect=True)
