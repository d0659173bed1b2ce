"""The commands, with the errors that a user can make: each is said in one line."""

import errno
import os
import re
import shlex
import socket
import subprocess
import sys
from collections import Counter
from copy import copy
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from click.testing import CliRunner, Result
from moto import mock_aws

from inorder import commands, local_aws
from inorder.audit.audit import Report
from inorder.audit.comparing import Finding, Subject, Verdict
from inorder.aws import parked
from inorder.aws.parked import ParkedEvent
from inorder.commands import audit, console, executions, local, queues, target
from inorder.commands import main as commands_main
from inorder.commands.main import MODULES, OF_A_CHECKOUT
from inorder.commands.terminal import alone
from inorder.errors import Failure
from inorder.local_aws import LocalAws
from inorder.model.execution import Execution, Step
from inorder.trying.inside import FILE
from inorder_fence import __version__
from tests.support.commands import run
from tests.support.events import created
from tests.support.stacks import stack_with


@pytest.fixture(autouse=True)
def out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "OUT", tmp_path)


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
    ("command", "text"),
    [
        ("executions --since 999999d", "'999999d' is before 1971."),
        ("executions --since 1970-12-31T23:59:59", "'1970-12-31T23:59:59' is before 1971."),
        ("executions --since soon", "Cannot read 'soon'"),
        ("why x.png --since 2999-01-01", "'2999-01-01' is in the future."),
        ("audit --foreign", "--foreign needs --repair."),
        *((f"redrive {options}", "Say which: ID") for options in ("", "''", "--all 0")),
        ("cost --overwrites 0.7 --older 0.7", "exceed 1"),
        ("cost --events nan", "A number is nan."),
        ("cost --process-ms 1e11", "Invalid value for '--process-ms'"),
        ("wy", "Error: There is no command wy. Did you mean why?"),
        ("policy nwe", "Error: There is no command nwe. Did you mean new?"),
        ("function xyz", "Error: There is no command xyz. There are new."),
        ("put --stackname x", "Error: No such option: --stackname Did you mean --stack-name?"),
    ],
)
def test_wrong_arguments_are_refused_with_the_reason(command: str, text: str) -> None:
    result = run(*shlex.split(command))
    assert (result.exit_code, result.stdout) == (2, "")
    assert text in result.stderr


@pytest.mark.parametrize(
    ("setting", "value", "step"),
    [
        ("AWS_SECRET_ACCESS_KEY", None, "AWS_SECRET_ACCESS_KEY. Run `aws configure`."),
        ("AWS_DEFAULT_REGION", None, "region. Set AWS_DEFAULT_REGION."),
        ("AWS_DEFAULT_REGION", "", "region. Set AWS_DEFAULT_REGION."),
        ("AWS_ENDPOINT_URL", "http://127.0.0.1:1", "The local AWS has stopped: run `make up`"),
    ],
)
def test_an_error_names_the_wrong_setting_and_the_next_step(
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
    error = error_of("up")
    assert error.startswith(
        "Error: [Errno 30] Read-only file system: 'out/local-aws'. The commands"
    )


def test_a_deployment_names_its_account_and_refuses_a_local_aws(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with mock_aws():
        target.main()
    assert capsys.readouterr().err == "Deploying to account 123456789012 in us-east-1 ...\n"
    for host in ("127.0.0.1", "localhost", "[::1]"):
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{host}:4566")
        with pytest.raises(SystemExit, match=r"local AWS .*:4566.*Open a new shell"):
            target.main()


@pytest.mark.parametrize("command", ["up", "down"])
def test_commands_start_and_stop_the_local_aws_one_by_one(
    command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    recall = Mock(return_value=None)
    monkeypatch.setattr(local_aws, "recall", recall)
    monkeypatch.setattr(local_aws, "start", Mock(side_effect=Failure("It was reached.")))
    results: list[Result] = []
    with alone("local-aws"):
        runner = CliRunner(mix_stderr=False)
        without_main = copy(getattr(local, command))  # `main` handles signals, in the main thread
        other = Thread(target=lambda: results.append(runner.invoke(without_main)))
        other.start()
        other.join(1)
        assert not recall.called
    other.join()
    assert recall.called
    assert results[0].stderr.splitlines()[0].startswith("Waiting for another such command")


@pytest.mark.parametrize(
    ("options", "parameters", "kept"),
    [
        ([], {}, ["policy every-version", "work /a/app.py"]),
        (["--policy", "latest-wins"], {"Policy": "latest-wins"}, ["work /a/app.py"]),
    ],
)
def test_up_says_what_it_keeps_and_how_to_leave_it(
    options: list[str], parameters: dict[str, str], kept: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    running = LocalAws(1, 1, 0, "")
    function = {"Configuration": {"Environment": {"Variables": {FILE: "/a/app.py"}}}}
    client = Mock(get_function=Mock(return_value=function))
    monkeypatch.setattr(LocalAws, "client", lambda *_: client)
    monkeypatch.setattr(local_aws, "recall", lambda _: running)
    before = SimpleNamespace(parameters={"Policy": "every-version", "WorkFunctionArn": "arn"})
    after = SimpleNamespace(parameters=before.parameters | parameters)
    deploy = Mock(return_value=after)
    monkeypatch.setattr(local, "describe", lambda *_: before)
    monkeypatch.setattr(local, "deploy", deploy)
    result = run("up", *options)
    assert result.exit_code == 0, result.output
    deploy.assert_called_once_with(running, "inorder", parameters)
    lines = [line for line in result.stderr.splitlines() if line.startswith("Kept: ")]
    assert [line.split(". ")[0] for line in lines] == [f"Kept: the {name}" for name in kept]
    assert lines[-1].endswith("To leave it: inorder down, and then inorder up")
    assert result.stderr.splitlines()[-1].endswith("put FILE")


def test_help_cuts_no_line_and_lists_commands_of_a_checkout() -> None:
    text = run("-h", env={"COLUMNS": "80"}).output
    [*_, of_a_stack, of_a_checkout] = text.split("\n\n")
    title, *lines = of_a_checkout.splitlines()
    assert title == "Commands that need a checkout of the project:"
    assert {line.split()[0] for line in lines} == OF_A_CHECKOUT
    listed = [*of_a_stack.splitlines()[1:], *lines]
    assert len(listed) == sum(map(len, MODULES.values()))
    assert [line for line in listed if line.endswith("...") or not line.endswith(".")] == []


@pytest.mark.parametrize(
    ("options", "hint"),
    [
        ([], []),
        (["--key", "cta"], ["`inorder why cta` looks back for a week, and names keys like it."]),
    ],
)
def test_an_empty_list_names_its_beginning_and_what_helps(
    options: list[str], hint: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    machine, since = state_machine(**{"select.return_value": []}), ["--since", "2026-11-22"]
    result = run_with(machine, monkeypatch, "executions", *options, *since)
    begun = "No such execution has started since 2026-11-22 00:00:00 UTC (--since)."
    assert (result.exit_code, result.stderr.splitlines()) == (0, [begun, *hint])


def state_machine(*unknown: str, **answers: Any) -> Mock:
    """Build a state machine of whose log something is unknown; answers are named as by `Mock`."""
    return Mock(unknown=unknown, poll_seconds=0, **answers)


def run_with(machine: Mock, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> Result:
    """Run a command on a stack with this state machine."""
    aws = Mock(**{"client.return_value.put_object.return_value": {"ETag": '"e"'}})
    aws.stack = stack_with()
    monkeypatch.setattr(executions, "Connection", lambda _: aws)
    monkeypatch.setattr(executions, "machine_of", lambda *_: machine)
    for name in ("FOLLOW_SECONDS", "EVENT_SECONDS"):
        monkeypatch.setattr(executions, name, 0)
    return run(*arguments)


def an_execution(name: str, key: str, status: str = "SUCCEEDED") -> Execution:
    arn = f"arn:aws:states:r:1:execution:machine:{name}"
    return Execution(arn, status, created(key), started=datetime(2026, 11, 22, tzinfo=UTC))


def test_what_is_followed_is_new_and_aligned_with_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    old = [an_execution("c" * 36, "c.png"), an_execution("b" * 36, "bb.png", "RUNNING")]
    cut = an_execution("a" * 36, "a.png")  # which the limit leaves out
    ended = [an_execution("d" * 36, "d.png"), old[0], replace(old[1], status="FAILED"), cut]
    machine = state_machine(**{"select.return_value": old})
    machine.changed.side_effect = [[*old, cut], ended, ended, KeyboardInterrupt]
    options = ["--follow", "--limit", "2", "--since=2026-11-01"]
    result = run_with(machine, monkeypatch, "executions", *options)
    assert result.exit_code == 0, result.output
    assert machine.select.call_args.args[0].limit == 2
    heading, *lines = result.stdout.splitlines()
    assert [line.split()[3] for line in lines] == ["bb.png", "c.png", "bb.png", "d.png"]
    outcomes = [line[heading.index("Outcome") :].split()[0] for line in lines]
    assert outcomes == ["Running", "Succeeded", "Failed", "Succeeded"]


@pytest.mark.parametrize(
    ("outcome", "error"),
    [
        ("Nonsense", "There is no outcome Nonsense. There are Aborted, Duplicate, "),
        ("Procesed", "There is no outcome Procesed. Did you mean Processed?"),
        ("parked", ""),
        ("Running", ""),
    ],
)
def test_an_outcome_that_no_execution_has_is_refused(
    monkeypatch: pytest.MonkeyPatch, outcome: str, error: str
) -> None:
    machine = state_machine(**{"select.return_value": []})
    result = run_with(machine, monkeypatch, "executions", "--outcome", outcome)
    assert result.exit_code == (2 if error else 0), result.output
    assert error in result.stderr


@pytest.mark.parametrize(("typed", "path"), [("bin/inorder", ""), ("inorder", "bin")])
def test_a_hint_begins_as_the_command_was_typed(typed: str, path: str) -> None:
    done = subprocess.run(  # noqa: S603 - our own command
        ["/bin/sh", "-c", f"{typed} redrive"],
        cwd=sys.prefix,
        env={"PATH": f"{sys.prefix}/{path}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert f"ID (of `{typed} parked`)" in done.stderr


def helps(*arguments: str) -> list[str]:
    """Give the paragraphs of a command's help, without its usage."""
    result = run(*arguments, "--help", terminal_width=1000)
    assert result.exit_code == 0, result.output
    return [" ".join(paragraph.split()) for paragraph in result.stdout.split("\n\n")[1:]]


@pytest.mark.parametrize("command", [name for names in MODULES.values() for name in names])
def test_outside_a_checkout_commands_say_their_work_and_their_needs(
    command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside = helps(command)
    monkeypatch.setattr(commands_main, "IS_CHECKOUT", False)
    does, *more = helps(command)
    assert [does, *more] == inside
    assert re.match("[A-Z][a-z]+ (?!needs )", does)
    is_of_a_checkout = command in OF_A_CHECKOUT
    assert (commands_main.CHECKOUT in more[:1]) == is_of_a_checkout
    if is_of_a_checkout:
        arguments = {"try": ["app.py"], "policy": ["new", "x"], "function": ["new", "x"]}
        assert error_of(command, *arguments.get(command, [])) == f"Error: {commands_main.CHECKOUT}"


@pytest.mark.parametrize(
    ("outcome", "code"),
    [("Processed", 0), ("Superseded", 0), ("Duplicate", 0), ("Parked", 1), ("Retrying", 1)],
)
def test_put_exits_as_its_help_says(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, outcome: str, code: int
) -> None:
    file = tmp_path / "a b.png"
    file.write_bytes(b"")
    fails = outcome == "Parked"
    ended = replace(
        an_execution("x", file.name, "FAILED" if fails else "SUCCEEDED"),
        event=created(file.name, etag="e"),
        output=None if fails else {"outcome": outcome},
        error=outcome if fails else None,
        steps=tuple(Step(name, "Task", {"much": "data"}, {}) for name in ("Claim Key", outcome)),
    )
    machine = state_machine(**{"wait.return_value": ended, "select.side_effect": [[], [ended]]})
    result = run_with(machine, monkeypatch, "put", str(file))
    assert (result.exit_code, f"Outcome   {outcome}" in result.stdout) == (code, True)
    assert result.stdout.endswith(f"States    Claim Key > {outcome}\n")
    assert "much" not in result.stdout
    helps = f"Error: The event ended as {outcome}: `inorder why 'a b.png'` says what helps.\n"
    more = "`inorder execution x` prints each state with its data.\n"
    assert result.stderr.endswith(helps if code else more)


def test_put_that_finds_no_execution_says_what_the_log_lacks(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (file := tmp_path / "x.png").write_bytes(b"")
    machine = state_machine("The log is without data.", **{"select.return_value": []})
    result = run_with(machine, monkeypatch, "put", str(file))
    assert result.exit_code == 1
    assert "The log is without data.\nError: Waited 0 s for its execution." in result.stderr


@pytest.mark.parametrize(
    ("keys", "hint"),
    [
        (["a b"], "`inorder why 'a b'` tells how each event ends."),
        (["a", "b"], "`inorder executions` tells how each event ends."),
        ([], "Nothing is parked."),
    ],
)
def test_redrive_names_the_command_that_tells_the_end(
    monkeypatch: pytest.MonkeyPatch, keys: list[str], hint: str
) -> None:
    bodies = [{"object_key": f"in/{key}", "event": created(key)} for key in keys]
    events = [ParkedEvent(f"id-{n}", "", datetime.now(UTC), body) for n, body in enumerate(bodies)]
    monkeypatch.setattr(queues, "Connection", Mock())
    for name in ("parked_events", "redrive"):
        monkeypatch.setattr(parked, name, lambda *_: events)
    result = run("redrive", "--all")
    assert (result.exit_code, result.stderr) == (0, f"{hint}\n")
    assert result.stdout.count("Started: ") == len(keys)


@pytest.mark.parametrize("command", ["audit", "backfill"])
def test_the_command_that_helps_parked_events_is_named(
    command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    finding = Finding(Subject("x.png"), Verdict.PARKED, None, "InvalidImage: no image")
    report = Report(Counter({Verdict.PARKED: 1}), [finding])
    audits = Mock(return_value=Mock(**{"run.return_value": report}))
    monkeypatch.setattr(audit, "Connection", Mock())
    monkeypatch.setattr(audit, "Audit", audits)
    result = run(command)
    helps = "1 event is parked, which no repair starts: `inorder parked` says what helps.\n"
    assert (result.exit_code, result.stderr) == (3, helps)


def test_a_console_without_its_extra_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "inorder.console.server", raising=False)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    needed = "Error: This needs uvicorn: make install; or, with the wheel, pip install "
    assert error_of("console") == f"{needed}'./inorder-{__version__}-py3-none-any.whl[console]'"
