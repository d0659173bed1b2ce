"""The demonstration, as a user interrupts it; CI runs the whole of it."""

import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import psutil

from inorder import PROJECT
from inorder.aws.executions import wait_until
from tests.stack.conftest import SECONDS


def test_an_interrupted_demonstration_ends_and_leaves_no_process_behind(tmp_path: Path) -> None:
    code = (
        # A shell lets what it starts in the background ignore Ctrl-C.
        "import pathlib, signal; signal.signal(signal.SIGINT, signal.default_int_handler);"
        "from inorder import commands; from inorder.commands.main import main;"
        f" commands.OUT = pathlib.Path({str(tmp_path)!r}); main()"
    )
    family: list[psutil.Process] = []

    def works() -> bool:
        family[:] = psutil.Process(process.pid).children(recursive=True)
        with suppress(psutil.NoSuchProcess):  # it has ended meanwhile
            return any("ministack-lambda" in " ".join(child.cmdline()) for child in family)
        return False

    process = subprocess.Popen([sys.executable, "-c", code, "demo"], cwd=PROJECT)  # noqa: S603
    try:
        wait_until(works, SECONDS, "the function")
        process.send_signal(signal.SIGINT)
        # Its uploads and its executions would go on for longer.
        assert process.wait(SECONDS) == 1
    finally:
        process.kill()
    assert psutil.wait_procs(family, SECONDS)[1] == []
    assert not (tmp_path / "demo-aws").exists()
