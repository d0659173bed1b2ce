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


@pytest.mark.parametrize("command", [["demo", "--keys", "1"], ["up"], ["console"]])
def test_a_port_that_is_taken_is_named(command: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("Connection", "machine_of", "Answers"):  # of the stack that it shows
        monkeypatch.setattr(console, name, Mock())
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        result = run(*command, "--port", str(port))
    assert result.exit_code == 1
    assert result.stderr.splitlines()[-1].startswith(f"Error: Port {port} cannot be used: ")


def test_down_without_up_is_no_error() -> None:
    result = run("down")
    assert (result.exit_code, result.stderr) == (0, "No local AWS is running.\n")


@pytest.mark.parametrize(
    ("command", "complaint"),
    [
        ("run nowhere.json", "Error: Cannot read nowhere.json: No such file or directory."),
        ("run .", "Error: Cannot read .: Is a directory."),
        ("run bad.json", "Error: bad.json is not valid JSON: "),
        ("run binary.json", "Error: binary.json is not valid JSON: "),
        ("run deep.json", "Error: deep.json is not valid JSON: "),
        ("run good.json --policy nothing", "Error: There is no policy 'nothing': latest-wins, "),
        ("run good.json --image nowhere.png", "Error: Cannot read nowhere.png: "),
        ("demo --images nowhere", "Error: Cannot read folder nowhere: "),
        ("policy new latest-wins", "Error: The template has a policy latest-wins already."),
        ("check bare.json", "bare.json: Done: comment: has no Comment that says why it is there"),
    ],
)
def test_bad_input_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, complaint: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bad.json").write_text("{'source': 'aws.s3'}")
    Path("binary.json").write_bytes(b"\xff\xd8\xff\xe0")
    Path("deep.json").write_text("[" * 100_000)
    Path("good.json").write_text("{}")
    done = {"Type": "Fail", "Error": "Done"}
    Path("bare.json").write_text(json.dumps({"StartAt": "Done", "States": {"Done": done}}))
    assert error_of(*command.split()).startswith(complaint)


@pytest.mark.parametrize("command", [["executions"], ["execution", "x"], ["why", "x"], ["console"]])
@pytest.mark.parametrize(
    ("since", "complaint"),
    [
        ("999999d", "'999999d' is before 1971."),
        ("90000d", "'90000d' is before 1971."),
        ("0001-01-01", "'0001-01-01' is before 1971."),
        ("1970-12-31T23:59:59", "'1970-12-31T23:59:59' is before 1971."),
        ("soon", "'soon' is neither a time nor such as 90s, 30m, 3h or 7d."),
    ],
)
def test_a_time_that_no_execution_has_is_refused(
    command: list[str], since: str, complaint: str
) -> None:
    result = run(*command, "--stack-name", "any", "--since", since)
    assert result.exit_code == 2
    assert complaint in " ".join(result.stderr.split())


@pytest.mark.parametrize("arguments", [[], [""], ["--all", "0"]])
def test_redrive_needs_to_know_which_events(arguments: list[str]) -> None:
    result = run("redrive", "--stack-name", "any", *arguments)
    assert result.exit_code == 2
    assert "Say which: ID" in result.stderr


@pytest.mark.parametrize(
    ("environment", "named"),
    [
        ({"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""}, "credentials"),
        ({"AWS_DEFAULT_REGION": ""}, "region"),
        ({"AWS_PROFILE": "nobody"}, "nobody"),
        ({"AWS_ENDPOINT_URL": "http://127.0.0.1:1"}, "http://127.0.0.1:1"),
        ({"AWS_ENDPOINT_URL": "nonsense"}, "nonsense"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_a_wrong_setting_of_aws_is_named(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], named: str
) -> None:
    nothing = {"AWS_CONFIG_FILE": os.devnull, "AWS_SHARED_CREDENTIALS_FILE": os.devnull}
    for name, value in (nothing | {"AWS_EC2_METADATA_DISABLED": "true"} | environment).items():
        monkeypatch.setenv(name, value)
        if not value:
            monkeypatch.delenv(name)
    line = error_of("parked", "--stack-name", "any")
    assert line.startswith("Error: ")
    assert named in line


def test_the_console_without_its_extra_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delitem(sys.modules, "inorder.console.server", raising=False)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    needed = "Error: The console needs uvicorn: install inorder[console], as `make install` does."
    assert error_of("console") == needed
