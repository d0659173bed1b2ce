"""The wheels, installed outside the checkout: the commands on a stack, and the fence alone."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path

import click
import pytest

from inorder import PROJECT
from inorder.commands.main import Commands
from inorder.local_aws import LocalAws
from inorder_fence import __version__
from tests.conftest import picture
from tests.stack.conftest import RED, Workflow, make, ran, serving
from tests.support import events

EXAMPLE = PROJECT / "examples" / "work_function"
UV = [sys.executable, "-m", "uv", "--quiet"]
# Runs commands one after the other, and imports everything once.
COMMANDS = """
import json, sys
from click.testing import CliRunner
from inorder.commands.main import main
results = [CliRunner().invoke(main, each.split()) for each in json.load(sys.stdin)]
print(json.dumps([(each.exit_code, each.output) for each in results]))
"""


@pytest.fixture(scope="module")
def install(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Type a `pip install` of the runbook, at the locked versions; give the commands' folder."""
    folder = tmp_path_factory.mktemp("tool")
    make("wheels", f"WHEELS={folder}/out/wheels")
    environment = folder / "environment"
    ran(*UV, "venv", "--python", sys.executable, environment)
    typed = re.findall(
        "^pip install (.*?)(?:  +#.*)?$", (PROJECT / "docs/operate.md").read_text(), re.M
    )
    pip = shlex.join([*UV, "pip", "install", "--python", str(environment)])
    constraint = f"--constraint {PROJECT}/requirements.txt"

    def with_extras(extras: str) -> Path:
        [wheel] = [argument for argument in typed if ("[" in argument) == bool(extras)]
        subprocess.run(  # noqa: S602 - of our own document
            f"{pip} {constraint} {wheel}", shell=True, cwd=folder, check=True
        )
        return environment / "bin"

    return with_extras


def settings(workflow: Workflow) -> dict[str, str]:
    own = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    return own | workflow.local.environment | {"STACK_NAME": workflow.stack.name}


def test_the_on_call_persons_commands_work_without_a_checkout(
    install: Callable[[str], Path], workflow: Workflow, tmp_path: Path
) -> None:
    folder = install("")

    def printed_by(program: str, *arguments: str, text: str = "") -> str:
        return subprocess.run(  # noqa: S603 - our own command
            [folder / program, *arguments],
            cwd=tmp_path,
            env=settings(workflow),
            input=text,
            capture_output=True,
            text=True,
            check=True,
        ).stdout

    workflow.upload("on-call.png", picture(RED))
    workflow.upload("no-picture.png", b"none")
    for key in ("on-call.png", "no-picture.png"):
        [ended] = workflow.of_key(key, 1)
    assert __version__ in printed_by("inorder", "--version")
    works = {
        "why on-call.png": "made from the object as it is now.",
        "executions --key on-call.png": "Processed",
        f"execution {ended.arn}": "Parked",
        "audit --prefix on-call": "1 right",
        "backfill --prefix on-call": "",
        "parked --json": "no-picture.png",
        "retrying": "",
        "stuck": "0 keys.",
        "undelivered": "Every event was delivered.",
        "redrive --all": "Started: ",
        "doctor": "right    The rules are enabled.",
        "cost": "A month of latest-wins",
    }
    file = PROJECT / "statemachine" / "latest_wins.asl.json"
    fails = {
        "demo --keys 3": "This needs a checkout of the project, ",
        "up": "This needs a checkout of the project, ",
        "wy": "There is no command wy. Did you mean why?",
        f"check {file}": "This needs statelint: ",
        "console": "This needs ",
    }
    names = Commands().list_commands(click.Context(click.Command("")))
    helps = [f"{name} --help" for name in names]
    lines = [*works, *fails, *helps]
    results = json.loads(printed_by("python", "-c", COMMANDS, text=json.dumps(lines)))
    wrong = {}
    for arguments, (code, printed) in zip(lines, results, strict=True):
        if arguments in works:
            # What `doctor` finds wrong, a parked event, is right of this stack.
            is_right = code == (arguments == "doctor") and works[arguments] in printed
        elif arguments in fails:
            end = printed.splitlines()[-1]
            is_right = code > 0 and end.startswith(f"Error: {fails[arguments]}")
        else:
            is_right = code == 0 and printed.startswith("Usage: ")
            is_right = is_right and printed.split("\n\n")[1][2:7] != "This "
        if not is_right:
            wrong[arguments] = printed
    assert not wrong, "\n".join(f"{name}: {printed}" for name, printed in wrong.items())


def test_the_console_is_an_extra(
    install: Callable[[str], Path], workflow: Workflow, tmp_path: Path
) -> None:
    command = [str(install("[console]") / "inorder"), "console"]
    with (
        serving(command, tmp_path, settings(workflow)) as (_, address),
        urllib.request.urlopen(address.partition("#")[0], timeout=30) as page,  # noqa: S310
    ):
        assert b'<script type="module"' in page.read()


def test_the_wheel_alone_runs_the_example(fence: Path, local: LocalAws, tmp_path: Path) -> None:
    s3 = local.client("s3")
    for bucket in ("fence-input", "fence-output"):
        s3.create_bucket(Bucket=bucket)
    [wheel] = fence.glob("*.whl")
    run = [sys.executable, "-m", "uv", "run", "--quiet", "--isolated", "--no-project"]
    run += ["--python", sys.executable, "--with", f"{wheel}[boto3]", "python", "-Es"]
    contents = {"x": b"one", "y": b"\xff"}
    sent = [
        events.upload(s3, f"a/{name}", contents[name], bucket="fence-input") for name in contents
    ]
    payloads = [{"event": event, "fence": "newest"} for event in sent]
    answers = f"\nimport json\nprint(json.dumps([handler(each, None) for each in {payloads!r}]))\n"
    (tmp_path / "app.py").write_text((EXAMPLE / "app.py").read_text() + answers)
    shutil.copy(EXAMPLE / "work.py", tmp_path)
    variables = {"RECORD_RETENTION_DAYS": "7", "HANDLES_DELETIONS": "true"}
    variables |= local.environment | {"OUTPUT_BUCKET": "fence-output"}
    *_, answer = ran(*run, tmp_path / "app.py", variables=variables).splitlines()
    processed, rejected = json.loads(answer)
    assert (processed["outcome"], processed["output_key"]) == ("Processed", "a/out-x")
    assert (rejected["error"], rejected["cause"][:17]) == ("Rejection", "The object is no ")
    written = s3.get_object(Bucket="fence-output", Key="a/out-x")["Body"].read()
    assert written == f"ONE\n{events.SEQUENCER}#".encode()


def test_a_function_imports_the_fence_from_the_layer(fence: Path, tmp_path: Path) -> None:
    """Lambda unpacks a layer into /opt, and has /opt/python in its path."""
    shutil.unpack_archive(fence / "inorder_fence_layer.zip", tmp_path)
    start = f"import sys; sys.path.insert(0, {str(tmp_path / 'python')!r}); import inorder_fence"
    file = ran(sys.executable, "-I", "-c", f"{start}; print(inorder_fence.__file__)").strip()
    assert Path(file).is_relative_to(tmp_path)
