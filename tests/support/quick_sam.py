"""SAM in processes that have imported it already, which takes as long as half of a deployment."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml  # type: ignore[import-untyped]

SERVER = get_context("forkserver")
SERVER.set_forkserver_preload(["samcli.cli.main", "samcli.commands.deploy.command"])


def run(
    command: Sequence[str], cwd: Path, env: Mapping[str, str], **_: Any
) -> subprocess.CompletedProcess[str]:
    """Run ``python -m samcli ...`` as `subprocess.run` does, and give all that it printed."""
    assert command[:3] == [sys.executable, "-m", "samcli"]
    with TemporaryDirectory() as folder:
        output = Path(folder) / "said"
        process = SERVER.Process(target=_sam, args=(command[3:], cwd, env, output))
        process.start()
        process.join()
        return subprocess.CompletedProcess(command, process.exitcode or 0, output.read_text(), "")


def _sam(arguments: Sequence[str], cwd: Path, env: Mapping[str, str], output: Path) -> None:
    with output.open("wb") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    # Only here, as that is what takes long.
    from samcli import yamlhelper  # noqa: PLC0415
    from samcli.cli.main import cli  # noqa: PLC0415

    if yaml.__with_libyaml__:  # SAM reads the template nine times, and writes it
        yaml.SafeLoader = yaml.CSafeLoader
        own = {"ignore_aliases": yamlhelper.CfnDumper.ignore_aliases}
        yamlhelper.CfnDumper = type("CfnDumper", (yaml.CSafeDumper,), own)
    cli(arguments, prog_name="sam")
