"""What decides whether a search is repeated is all that a search imports."""

import subprocess
import sys
from pathlib import Path

from inorder import PROJECT
from tests.proof.model.conftest import read_files

IMPORTED = """
import sys
import tests.proof.model.test_mixed, tests.proof.model.test_model
print(*(getattr(each, "__file__", None) or "" for each in [*sys.modules.values()]), sep="\\n")
"""


def test_a_search_imports_only_files_that_decide_its_repetition() -> None:
    command = [sys.executable, "-c", IMPORTED]
    path = f"{PROJECT}:{PROJECT / 'functions'}"
    printed = subprocess.check_output(command, cwd=PROJECT, env={"PYTHONPATH": path}, text=True)  # noqa: S603
    imported = {Path(name) for name in printed.splitlines() if name}
    own = {file for file in imported if file.is_relative_to(PROJECT) and ".venv" not in file.parts}
    assert Path(__file__).with_name("test_model.py") in own
    assert own <= {*read_files()}
