"""What the tests of policies share."""

from tests.policies.mortal import mortal

__all__ = ["mortal"]
