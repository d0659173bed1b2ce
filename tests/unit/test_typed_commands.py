"""Types each document's commands in a shell that has only what the document before has set.

Programs that take long or change something are played: they write down how they were called, and
refuse what would go wrong. What tests/stack types for real needs no AWS.
"""

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import click
import pytest

from inorder import PROJECT
from inorder.commands.main import main
from tests.unit.test_documents import DOCUMENTS, tokens

SETS = "echo 'export AWS_ENDPOINT_URL=http://127.0.0.1:1 STACK_NAME=inorder'"
ONLY_TO_AWS = '[ -z "$AWS_ENDPOINT_URL" ] || refuse "the shell has a local AWS"'
PLAYED = {
    "make": f"""case "$*" in
    *"-s up"*) {SETS};;
    build*) echo .aws-sam/build/template.yaml >> built;;
    deploy*|package*) {ONLY_TO_AWS};;
esac""",
    "inorder": f"""case $1 in up) {SETS};; esac""",
    # It needs uv, and builds what it deploys.
    "sam": f"""[[ "$*" =~ --template(-file)?\\ ([^ ]+) ]] && file=${{BASH_REMATCH[2]}}
[[ "$*" =~ --build-dir\\ ([^ ]+) ]] && folder=${{BASH_REMATCH[1]}}
case "$*" in
    build*)
        command -v uv > /dev/null || refuse "uv is not in PATH"
        echo "${{folder:-.aws-sam/build}}/template.yaml" >> built;;
    *"--config-env local"*) ;;
    deploy*)
        {ONLY_TO_AWS}
        grep -qxF "${{file:-.aws-sam/build/template.yaml}}" built || refuse "that is not built";;
esac""",
    "pip": "ln -sf ../.venv/bin/inorder others/inorder",
    **dict.fromkeys(["python", "uv"], ""),
}
OF_THE_ENVIRONMENT = ["inorder", "python", "sam", "uv"]
OF_NO_EFFECT = ["aws", "cat", "cp", "docker", "git", "rm", "sed"]
REAL = ["basename", "cut", "grep", "ln", "sha256sum"]
PLAY = """#!/bin/bash
refuse() { echo "$call: $1" >> refused; exit 1; }
call=$(printf '%q ' "$(basename "$0")" "$@")
echo "$call" >> called
"""


def typed(document: Path) -> str:
    """Give all that a document, or a comment of a template, tells to type, in its order."""
    if document.suffix == ".yaml":
        blocks = re.findall(r"^#\n((?:#   .*\n)+)#$", document.read_text(), re.MULTILINE)
        return "".join(line.removeprefix("#   ") for line in "".join(blocks).splitlines(True))
    return "".join(token.content for token in tokens(document) if token.info.strip() == "sh")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Make a checkout of played programs."""
    environment, others = tmp_path / ".venv" / "bin", tmp_path / "others"
    environment.mkdir(parents=True)
    others.mkdir()
    (tmp_path / "statemachine").mkdir()
    for name, does in PLAYED.items() | dict.fromkeys(OF_NO_EFFECT, "").items():
        file = (environment if name in OF_THE_ENVIRONMENT else others) / name
        file.write_text(f"{PLAY}{does}\n")
        file.chmod(0o755)
    for name in REAL:
        program = shutil.which(name)
        assert program
        (others / name).symlink_to(program)
    for name in ("called", "refused", "built"):
        (tmp_path / name).touch()
    return tmp_path


@pytest.mark.parametrize(
    "document",
    [
        document
        for document in [*DOCUMENTS, *PROJECT.glob("examples/*/template.yaml")]
        if typed(document)
    ],
    ids=lambda document: str(document.relative_to(PROJECT)),
)
def test_each_document_can_be_typed_in_a_new_shell(document: Path, folder: Path) -> None:
    done = subprocess.run(  # noqa: S603 - of our own documents
        ["/bin/bash", "-eu", "-o", "pipefail", "-c", typed(document)],
        cwd=folder,
        env={"PATH": str(folder / "others"), "EDITOR": "true", "AWS_ENDPOINT_URL": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, (folder / "refused").read_text()) == (0, ""), done.stderr
    verbs = re.findall(r"^([a-z-]+):.* ## ", (PROJECT / "Makefile").read_text(), re.MULTILINE)
    for line in (folder / "called").read_text().splitlines():
        program, *arguments = shlex.split(line)
        if program == "make":
            names = {
                argument for argument in arguments if argument[0] != "-" and "=" not in argument
            }
            assert names <= set(verbs), line
        if program == "inorder":
            assert wrong(arguments) == "", line


def wrong(arguments: list[str]) -> str:
    """Say what a command does not take; it may name a file that is not there yet."""
    command: click.Command = main
    context = click.Context(main, **main.context_settings)
    try:
        while isinstance(command, click.Group):
            _, subcommand, arguments = command.resolve_command(context, arguments)
            assert subcommand
            command = subcommand
        command.make_context(command.name, arguments, context)
    except click.UsageError as error:
        return "" if "does not exist" in error.message else error.message
    return ""
