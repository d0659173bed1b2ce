"""The tests of everything that is deployed, and of the command `inorder`."""

import gc
import sys

if "pytest" in sys.modules:
    # What pytest imports stays, so it is no garbage. conftest.py enables this again.
    gc.disable()
