"""The command, with the errors that a user can make."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from click.testing import CliRunner

from inorder import cli


@pytest.fixture
def runner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CliRunner:
    monkeypatch.setattr(cli, "OUT", tmp_path)
    return CliRunner(mix_stderr=False)


@pytest.mark.parametrize("command", ["demo", "up"])
def test_a_port_that_is_taken_is_said_in_one_line(runner: CliRunner, command: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        result = runner.invoke(cli.main, [command, "--port", str(port)])
    assert result.exit_code == 1
    assert result.stderr.splitlines()[-1].startswith(f"Error: Port {port} cannot be used: ")
    assert result.exception is None or isinstance(result.exception, SystemExit)


def test_a_folder_of_pictures_that_is_not_there_is_said_in_one_line(
    runner: CliRunner, tmp_path: Path
) -> None:
    result = runner.invoke(cli.main, ["demo", "--images", str(tmp_path / "nowhere")])
    assert result.exit_code == 1
    [line] = result.stderr.splitlines()
    assert "nowhere" in line


def test_down_without_up_is_no_error(runner: CliRunner) -> None:
    result = runner.invoke(cli.main, ["down"])
    assert result.exit_code == 0
    assert result.stderr == "No local AWS is running.\n"


def test_check_names_file_and_state_and_fails(runner: CliRunner, tmp_path: Path) -> None:
    file = tmp_path / "bare.asl.json"
    file.write_text('{"StartAt": "Done", "States": {"Done": {"Type": "Succeed"}}}')
    result = runner.invoke(cli.main, ["check", str(file)])
    assert result.exit_code == 1
    assert result.stderr == f"{file}: Done: comment: has no Comment that says why it is there\n"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["nowhere.json"], "Cannot read nowhere.json: No such file or directory."),
        (["."], "Cannot read .: Is a directory."),
        (["bad.json"], "bad.json is not valid JSON: "),
        (["binary.json"], "binary.json is not valid JSON: "),
        (["deep.json"], "deep.json is not valid JSON: "),
        (["good.json", "--policy", "nothing"], "There is no policy 'nothing': latest-wins, "),
        (["good.json", "--image", "nowhere.png"], "Cannot read nowhere.png: "),
    ],
)
def test_bad_input_of_run_is_said_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], complaint: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bad.json").write_text("{'source': 'aws.s3'}")
    Path("binary.json").write_bytes(b"\xff\xd8\xff\xe0")
    Path("deep.json").write_text("[" * 100_000)
    Path("good.json").write_text("{}")
    result = CliRunner(mix_stderr=False).invoke(cli.main, ["run", *arguments])
    assert result.exit_code == 1
    [line] = result.stderr.splitlines()
    assert line.startswith(f"Error: {complaint}")
