"""Leaves the tests of Step Functions Local to those who say where it is: `make test-sfn-local`."""

from __future__ import annotations

import os

collect_ignore = [] if "SFN_LOCAL_ENDPOINT" in os.environ else ["test_step_functions_local.py"]
