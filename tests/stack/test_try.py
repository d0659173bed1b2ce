"""`inorder try`, and the five minutes of docs/function.md, as a user types them."""

import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from inorder import PROJECT, commands
from tests.support.commands import run

# What replaces the body of the example's handler, and what `try` says then.
WRONG = {
    "    return {}\n": "is not JSON with an outcome",
    "    import time\n    time.sleep(9)\n": "not answered after the 3 s",
    # It adds to its output, so that a repetition changes it, and so does a late write.
    """    import time
    described = event["event"]["detail"]["object"]
    place = {"Bucket": fence.output_bucket, "Key": described["key"]}
    try:
        before = fence.s3.get_object(**place)["Body"].read()
    except fence.s3.exceptions.NoSuchKey:
        before = b""
    fence.s3.put_object(**place, Body=before + described.get("etag", "").encode())
    return {"outcome": "Processed", "expires_at": str(int(time.time()) + 7 * 86_400)}
""": "(?s)once more.* changed times-out/text.*overwritten, .* changed late-overwritten/text",
}


@pytest.fixture(autouse=True)
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Type the commands in a folder without anything."""
    folder = tmp_path / "fresh"
    folder.mkdir()
    (folder / ".venv").symlink_to(PROJECT / ".venv")
    monkeypatch.chdir(folder)
    monkeypatch.setattr(commands, "OUT", tmp_path / "out")
    return folder


def test_the_five_minutes_of_the_document(monkeypatch: pytest.MonkeyPatch) -> None:
    document = (PROJECT / "docs" / "function.md").read_text(encoding="utf-8")
    typed = document.partition("## Five minutes\n")[2].split("```")[1].removeprefix("sh\n")
    printed = {}
    for line in typed.splitlines():
        command, _, _ = line.partition("  #")
        if evaluated := re.match(r'eval "\$\((.*)\)"', command):
            command = evaluated[1]
        program, *arguments = shlex.split(command)
        if program != ".venv/bin/inorder":
            subprocess.run(command, shell=True, check=True)  # noqa: S602 - of our own document
            continue
        done = run(*arguments)
        assert done.exit_code == 0, done.output
        printed[arguments[0]] = done.stdout
        for setting in re.findall(r"^export (.*)$", done.stdout, re.MULTILINE):
            name, _, value = shlex.split(setting)[0].partition("=")
            monkeypatch.setenv(name, value)
    assert printed["try"].endswith("The contract is kept.\n")
    assert not re.findall("^(?:broken|unknown)", printed["try"], re.MULTILINE)
    assert re.search(
        "took [0-9.]+ s[.] Its timeout is 15 s, and may be up to 110 s[.]", printed["try"]
    )
    assert "Outcome   Processed" in printed["put"]


if os.environ.get("NIGHT"):

    @pytest.mark.parametrize("body", WRONG)
    def test_try_says_what_to_change_in_a_wrong_function(body: str, fresh: Path) -> None:
        run("function", "new", "wrong")
        file = fresh / "wrong" / "app.py"
        before, _, _ = file.read_text().partition("def handler(")
        file.write_text(f"{before}def handler(event, context):\n{body}")
        done = run("try", "--timeout", "3", "wrong/app.py")
        assert done.exit_code == 3, done.output
        assert done.stdout.splitlines()[-1].startswith("broken ")
        assert re.search(WRONG[body], done.stdout)


def test_a_function_that_cannot_be_imported_is_not_tried(fresh: Path) -> None:
    (fresh / "app.py").write_text("import nowhere_to_be_found\n")
    done = run("try", "app.py")
    assert done.exit_code == 1
    assert "Install nowhere_to_be_found" in done.stderr.splitlines()[-1]
