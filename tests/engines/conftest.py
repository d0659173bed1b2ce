"""Leaves out the tests that need AWS or Docker: `make test-aws` and `make test-sfn-local`."""

from __future__ import annotations

import os

ELSEWHERE = {"SFN_LOCAL_ENDPOINT": "test_step_functions_local.py", "STACK": "test_aws.py"}
collect_ignore = [file for variable, file in ELSEWHERE.items() if variable not in os.environ]
