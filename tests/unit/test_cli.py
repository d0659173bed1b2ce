"""The commands, with the errors that a user can make: each is said in one line."""

from __future__ import annotations

import json
import os
import socket
import sys
from pathlib import Path
from unittest.mock import Mock

import pytest
from click.testing import CliRunner, Result

from inorder import commands
from inorder.commands import console
from inorder.commands.main import main


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


@pytest.mark.parametrize(
    ("command", "complaint"),
    [
        ("run nowhere.json", "Error: Cannot read nowhere.json: No such file or directory."),
        ("run bad.json", "Error: bad.json is not valid JSON: "),
        ("run good.json --policy nothing", "Error: There is no policy 'nothing': latest-wins, "),
        ("demo --images nowhere", "Error: Cannot read folder nowhere: "),
        ("demo --images ~/photos", "Error: Cannot read folder /home/me/photos: "),
        ("check bare.json", "bare.json: Done: comment: has no Comment that says why it is there"),
    ],
)
def test_bad_input_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, complaint: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/me")
    Path("bad.json").write_text("{'source': 'aws.s3'}")
    Path("good.json").write_text("{}")
    done = {"Type": "Fail", "Error": "Done"}
    Path("bare.json").write_text(json.dumps({"StartAt": "Done", "States": {"Done": done}}))
    assert error_of(*command.split()).startswith(complaint)


@pytest.mark.parametrize("since", ["999999d", "1970-12-31T23:59:59", "soon"])
def test_a_time_that_no_execution_has_is_refused(since: str) -> None:
    result = run("executions", "--stack-name", "any", "--since", since)
    assert result.exit_code == 2
    assert f"'{since}' is " in result.stderr


@pytest.mark.parametrize("arguments", [[], [""], ["--all", "0"]])
def test_redrive_needs_to_know_which_events(arguments: list[str]) -> None:
    result = run("redrive", "--stack-name", "any", *arguments)
    assert result.exit_code == 2
    assert "Say which: ID" in result.stderr


@pytest.mark.parametrize(
    ("setting", "value", "named"),
    [
        ("AWS_SECRET_ACCESS_KEY", "", "credentials"),
        ("AWS_DEFAULT_REGION", "", "region"),
        ("AWS_ENDPOINT_URL", "http://127.0.0.1:1", "http://127.0.0.1:1"),
    ],
)
def test_a_wrong_setting_of_aws_is_named(
    monkeypatch: pytest.MonkeyPatch, setting: str, value: str, named: str
) -> None:
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, os.devnull)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv(setting, value)
    if not value:
        monkeypatch.delenv(setting)
    assert named in error_of("parked", "--stack-name", "any")


def test_the_console_without_its_extra_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delitem(sys.modules, "inorder.console.server", raising=False)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    needed = "Error: This needs uvicorn: install inorder[console], as `make install` does."
    assert error_of("console") == needed
