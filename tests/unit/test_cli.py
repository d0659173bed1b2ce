"""The commands, with the errors that a user can make: each is said in one line."""

import errno
import json
import os
import shlex
import socket
import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from click.testing import CliRunner, Result

from inorder import commands, local_aws
from inorder.commands import console, executions
from inorder.commands.main import MODULES, main
from inorder.model.execution import Execution, Filter
from tests.support.events import created


@pytest.fixture(autouse=True)
def out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "OUT", tmp_path)


def run(*arguments: str) -> Result:
    return CliRunner(mix_stderr=False).invoke(main, arguments)


def error_of(*arguments: str) -> str:
    """Run a command that fails, and give the one line that it prints."""
    result = run(*arguments)
    assert (result.exit_code, type(result.exception)) == (1, SystemExit)
    [line] = result.stderr.splitlines()
    return line


@pytest.mark.parametrize("command", ["demo --keys 1", "console"])
def test_a_port_that_is_taken_is_named(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("Connection", "machine_of", "Answers"):  # of the stack that it shows
        monkeypatch.setattr(console, name, Mock())
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        result = run(*command.split(), "--port", str(port))
    assert result.exit_code == 1
    assert f"Error: Port {port} cannot be used: " in result.stderr


def test_a_wrong_file_is_named(tmp_path: Path) -> None:
    wait, file = {"Type": "Wait", "Seconds": 400, "End": True}, tmp_path / "slow.json"
    file.write_text(json.dumps({"StartAt": "Idle", "States": {"Idle": wait}}))
    assert error_of("check", str(file)).startswith(
        f"{file}: seconds: the longest execution takes 4"
    )


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("executions --since 999999d", "'999999d' is before 1971."),
        ("executions --since 1970-12-31T23:59:59", "'1970-12-31T23:59:59' is before 1971."),
        ("executions --since soon", "Cannot read 'soon'"),
        *((f"redrive {each}", "Say which: ID") for each in ("", "''", "--all 0")),
        ("cost --overwrites 0.7 --older 0.7", "exceed 1"),
        ("cost --events nan", "A number is nan."),
        ("cost --process-ms 1e11", "Invalid value for '--process-ms'"),
    ],
)
def test_a_command_that_asks_for_what_cannot_be_is_refused(command: str, said: str) -> None:
    result = run(*shlex.split(command))
    assert (result.exit_code, result.stdout) == (2, "")
    assert said in result.stderr


@pytest.mark.parametrize(
    ("setting", "value", "step"),
    [
        ("AWS_SECRET_ACCESS_KEY", None, "AWS_SECRET_ACCESS_KEY. Run `aws configure`."),
        ("AWS_DEFAULT_REGION", None, "region. Set AWS_DEFAULT_REGION."),
        ("AWS_DEFAULT_REGION", "", "region. Set AWS_DEFAULT_REGION."),
        ("AWS_ENDPOINT_URL", "http://127.0.0.1:1", "The local AWS has stopped: run `make up`"),
    ],
)
def test_a_wrong_setting_of_aws_is_named_with_the_next_step(
    monkeypatch: pytest.MonkeyPatch, setting: str, value: str | None, step: str
) -> None:
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, os.devnull)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.delenv(setting, raising=False)
    if value is not None:
        monkeypatch.setenv(setting, value)
    assert step in error_of("parked", "--stack-name", "any")


def test_a_checkout_that_cannot_be_written_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = PermissionError(errno.EROFS, "Read-only file system", "out/local-aws")
    monkeypatch.setattr(local_aws, "start", Mock(side_effect=refused))
    said = error_of("up")
    assert said.startswith("Error: [Errno 30] Read-only file system: 'out/local-aws'. The commands")


def test_the_list_of_commands_cuts_no_line() -> None:
    lines = CliRunner().invoke(main, ["-h"], env={"COLUMNS": "80"}).output.splitlines()
    listed = lines[lines.index("Commands:") + 1 :]
    assert len(listed) == sum(map(len, MODULES.values()))
    assert [line for line in listed if line.endswith("...") or not line.endswith(".")] == []


class Executions:
    """A state machine whose list changes from one call to the next."""

    unknown, poll_seconds = (), 0

    def __init__(self, *lists: list[Execution]) -> None:
        self._lists = list(lists)

    def changed(self, _: datetime) -> list[Execution]:
        if not self._lists:
            raise KeyboardInterrupt
        return self._lists.pop(0)

    def select(self, wanted: Filter) -> list[Execution]:
        return self.changed(datetime.now(UTC))[: wanted.limit]


def listed_executions(
    monkeypatch: pytest.MonkeyPatch, lists: Sequence[list[Execution]], *options: str
) -> Result:
    stack = SimpleNamespace(stack=SimpleNamespace(parameters={"Policy": "latest-wins"}))
    monkeypatch.setattr(executions, "Connection", lambda _: stack)
    monkeypatch.setattr(executions, "machine_of", lambda *_: Executions(*lists))
    monkeypatch.setattr(executions, "FOLLOW_SECONDS", 0)
    return run("executions", *options)


def an_execution(name: str, key: str, status: str = "SUCCEEDED") -> Execution:
    arn = f"arn:aws:states:r:1:execution:machine:{name}"
    return Execution(arn, status, created(key), started=datetime(2026, 11, 22, tzinfo=UTC))


def test_what_is_followed_is_new_and_aligned_with_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    old = [an_execution("c" * 36, "c.png"), an_execution("b" * 36, "bb.png", "RUNNING")]
    cut = an_execution("a" * 36, "a.png")  # which the limit leaves out
    ended = [an_execution("d" * 36, "d.png"), old[0], replace(old[1], status="FAILED"), cut]
    lists, since = [[*old, cut], [*old, cut], ended, ended], "--since=2026-11-01"
    result = listed_executions(monkeypatch, lists, "--follow", "--limit", "2", since)
    assert result.exit_code == 0, result.output
    heading, *lines = result.stdout.splitlines()
    assert [line.split()[3] for line in lines] == ["bb.png", "c.png", "bb.png", "d.png"]
    outcomes = [line[heading.index("Outcome") :].split()[0] for line in lines]
    assert outcomes == ["Running", "Succeeded", "Failed", "Succeeded"]


def test_an_outcome_that_no_execution_has_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for given, code in (("Nonsense", 2), ("parked", 0), ("Running", 0)):
        result = listed_executions(monkeypatch, [[]], "--outcome", given)
        assert result.exit_code == code, result.output
        assert ("Parked, Processed, " in result.stderr) == (code == 2)


def test_a_console_without_its_extra_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "inorder.console.server", raising=False)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    needed = "Error: This needs uvicorn: install inorder[console], as `make install` does."
    assert error_of("console") == needed
