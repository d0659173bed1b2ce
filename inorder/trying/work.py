"""A handler of one's own as the work of a stack on a local AWS."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from inorder.aws.stack import Stack, deploy
from inorder.errors import Failure
from inorder.trying.inside import FILE, FUNCTION, PACKAGES

if TYPE_CHECKING:
    from inorder.local_aws import LocalAws  # which needs an extra

MODULE = "deployed_by_inorder_try"  # which no module of the user is named
CODE = "from inorder.trying.inside import deployed\nhandler = deployed()\n"
ACCOUNT = "000000000000"
IMPORT_SECONDS = 60
HANDLER = re.compile(r"(?P<file>.+\.py)(:(?P<function>\w+))?")


@dataclass(frozen=True)
class Work:
    """A handler: a function in a file of Python."""

    file: Path
    function: str
    packages: Path  # where what its requirements.txt names is installed, if it must be

    def variables(self, input_bucket: str, output_bucket: str) -> dict[str, str]:
        """Give what the handler finds in its environment, and what leads to it."""
        return {
            "INPUT_BUCKET": input_bucket,
            "OUTPUT_BUCKET": output_bucket,
            "RECORD_RETENTION_DAYS": "7",
            "HANDLES_DELETIONS": "true",
            FILE: str(self.file),
            FUNCTION: self.function,
            PACKAGES: str(self.packages),
        }

    def check(self, local: LocalAws) -> None:
        """Import it in a process of its own; a Failure says what to change.

        A module that this environment lacks is installed from a requirements.txt beside the file.
        """
        wrong = self._import(local)
        requirements = self.file.parent / "requirements.txt"
        if "module" in wrong and requirements.exists():
            command = [sys.executable, "-m", "pip", "install", "--quiet", "--upgrade"]
            command += ["--target", str(self.packages), "--requirement", str(requirements)]
            done = subprocess.run(command, capture_output=True, check=False)  # noqa: S603
            if done.returncode:
                errors = done.stderr.decode(errors="replace").strip()
                raise Failure(f"{requirements} cannot be installed:\n{errors}")
            wrong = self._import(local)
        if wrong:
            raise Failure(self.what_to_change(wrong))

    def _import(self, local: LocalAws) -> dict[str, Any]:
        with TemporaryDirectory() as folder:
            answer = Path(folder, "answer.json")
            try:
                done = subprocess.run(  # noqa: S603 - our own module
                    [sys.executable, "-m", "inorder.trying.inside", answer],
                    env=os.environ | local.environment | self.variables("input", "output"),
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    check=False,
                    timeout=IMPORT_SECONDS,
                )
            except subprocess.TimeoutExpired:
                raise Failure(f"The import of {self.file} takes over {IMPORT_SECONDS} s.") from None
            if answer.exists():
                wrong: dict[str, Any] = json.loads(answer.read_text())
                return wrong
        text = f"{self.file} ends the process that imports it, with status {done.returncode}."
        raise Failure(f"{text}\n{done.stderr.decode(errors='replace')}".strip())

    def what_to_change(self, wrong: Mapping[str, Any]) -> str:
        """Say why it cannot be loaded, from the answer of `why_not`, and what to do."""
        text = f"{self.file}:{self.function} cannot be loaded: {wrong['error']}."
        if "module" in wrong:
            return f"{text} Install {wrong['module']}, or name it in a requirements.txt beside it."
        return text


def named(text: str, packages: Path) -> Work:
    """Read ``app.py`` or ``folder/app.py:function``; a Failure if it names no Python file."""
    handler = HANDLER.fullmatch(text)
    if not handler:
        raise Failure(f"{text} is no handler, such as app.py or app.py:handler.")
    file = Path(handler["file"]).resolve()
    if not file.is_file():
        raise Failure(f"There is no file {file}.")
    return Work(file, handler["function"] or "handler", packages)


def deploy_with_work(
    local: LocalAws,
    stack_name: str,
    parameters: Mapping[str, str | float],
    work: Work,
    timeout: int,
    more: Mapping[str, str],
) -> Stack:
    """Deploy template.yaml with a function of one's own, which has more variables."""
    work.check(local)
    function = f"{stack_name}-work"
    arn = f"arn:aws:lambda:{local.session.region_name}:{ACCOUNT}:function:{function}"
    stack = deploy(local, stack_name, {**parameters, "WorkFunctionArn": arn})
    create_function(local, stack, function, work, timeout, more)
    return stack


def create_function(
    local: LocalAws, stack: Stack, name: str, work: Work, timeout: int, more: Mapping[str, str]
) -> None:
    """Create a function of a stack, or replace it."""
    functions = local.client("lambda")
    with suppress(functions.exceptions.ResourceNotFoundException):
        functions.delete_function(FunctionName=name)
    code = BytesIO()
    with zipfile.ZipFile(code, "w") as archive:
        archive.writestr(f"{MODULE}.py", CODE)
    variables = work.variables(stack.input_bucket, stack.output_bucket)
    functions.create_function(
        FunctionName=name,
        Runtime="python3.13",
        Role=f"arn:aws:iam::{ACCOUNT}:role/work",
        Handler=f"{MODULE}.handler",
        Code={"ZipFile": code.getvalue()},
        Timeout=timeout,
        Environment={"Variables": variables | dict(more)},
    )
