"""The mutants of the smallest state machine: `make mutants` works."""

import subprocess
import sys

from inorder import PROJECT


def test_every_mutant_of_the_smallest_state_machine_is_killed() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.proof.mutants", "uncoordinated"],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("uncoordinated: ")
