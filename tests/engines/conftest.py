"""Leaves the tests of engines that are elsewhere to `make test-sfn-local` and `make test-aws`."""

from __future__ import annotations

import os

ELSEWHERE = {"SFN_LOCAL_ENDPOINT": "test_step_functions_local.py", "STACK": "test_aws.py"}
collect_ignore = [file for variable, file in ELSEWHERE.items() if variable not in os.environ]
