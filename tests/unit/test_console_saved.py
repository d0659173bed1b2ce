"""The console's page in one file, and the command that serves it."""

from __future__ import annotations

import json
import re
import socket
import sys
from base64 import b64decode
from hashlib import sha256
from html.parser import HTMLParser
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner
from PIL import Image

from inorder.aws import parked
from inorder.commands import console
from inorder.commands.main import main
from inorder.console import page, saved
from inorder.console.answers import Answers, Picture
from tests.in_process import InProcess
from tests.unit.test_inspection import GREEN, RED, connection

STRANGE = "</script><!--<script>\u2028\u202e\u05e9.png"


@pytest.fixture
def file(aws: InProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Save the page after four events, one of which is parked."""
    monkeypatch.setattr(parked, "RECEIVE_SECONDS", 0)
    older, newer = aws.upload(STRANGE, RED), aws.upload(STRANGE, GREEN)
    for event in (older, newer, aws.upload("bad.png", b"no image"), {"no": "event"}):
        aws.run(event)
    path = tmp_path / "folder" / "page.html"
    saved.write(path, saved.read(Answers(connection(aws), aws.state_machine)))
    return path


class Elements(HTMLParser):
    """Collects the elements of a page, with their attributes and text."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self._is_open = False
        self.found: list[tuple[str, dict[str, str | None], str]] = []
        self.feed(file.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs), ""))
        self._is_open = True

    def handle_endtag(self, _: str) -> None:
        self._is_open = False

    def handle_data(self, data: str) -> None:
        if self._is_open:
            tag, attributes, text = self.found[-1]
            self.found[-1] = tag, attributes, text + data

    def texts(self, tag: str, **wanted: str) -> list[str]:
        return [
            text
            for name, attributes, text in self.found
            if name == tag and wanted.items() <= attributes.items()
        ]


def test_a_saved_page_has_all_answers(file: Path, aws: InProcess) -> None:
    [text] = Elements(file).texts("script", type="application/json", id="saved")
    data = json.loads(text)
    rows = data["/api/executions"]["executions"]
    assert [each["key"] for each in rows] == [None, "bad.png", STRANGE, STRANGE]
    assert list(data["/api/execution"]) == [each["arn"] for each in rows]
    assert set(data["/api/story"]) == {"bad.png", STRANGE}
    story = data["/api/story"][STRANGE]
    assert sorted(story["executions"]) == sorted(each["arn"] for each in rows[2:])
    assert len(data["/api/parked"]["events"]) == 2
    assert data["/api/definition"]["StartAt"]
    assert data["/api/stack"]["policy"] == aws.policy
    output = story["outputs"][0]["key"]
    assert set(data["/api/picture"]) == {f"source:{STRANGE}", f"output:{output}"}
    for address in data["/api/picture"].values():
        kind, _, content = address.partition(";base64,")
        assert kind == "data:image/webp"
        with Image.open(BytesIO(b64decode(content))) as picture:
            assert (picture.format, picture.size) == ("WEBP", (16, 16))


def test_a_saved_page_needs_no_other_file_and_runs_only_its_own_scripts(file: Path) -> None:
    html, elements = file.read_text(encoding="utf-8"), Elements(file)
    assert "</script><!--" not in html  # no text in the data ends its element
    assert html.count("</script>") == len(elements.texts("script")) == 3
    addresses = [
        each
        for _, attributes, _ in elements.found
        for name, each in attributes.items()
        if name in {"src", "href"}
    ]
    assert [each for each in addresses if not (each or "").startswith("data:")] == []
    [importmap] = elements.texts("script", type="importmap")
    imports = json.loads(importmap)["imports"]
    assert list(imports) == list(page.modules())
    for specifier, address in imports.items():
        kind, _, content = address.partition(";base64,")
        assert kind == "data:text/javascript"
        assert b64decode(content) == (page.FOLDER / page.modules()[specifier]).read_bytes()
    files = {each.relative_to(page.FOLDER).as_posix() for each in page.FOLDER.rglob("*.js")}
    assert files == set(page.modules().values())
    [main] = elements.texts("script", type="module")
    assert re.fullmatch(r'import "([\w/]+)";', main)[1] in imports  # type: ignore[index]
    [policy] = [
        attributes["content"] or ""
        for name, attributes, _ in elements.found
        if name == "meta" and "http-equiv" in attributes
    ]
    hashes = {b64decode(each) for each in re.findall(r"'sha256-(.+?)'", policy)}
    inline = [*elements.texts("style"), importmap, main]
    assert hashes == {sha256(each.encode()).digest() for each in inline}
    assert policy.startswith("default-src 'none'; ")
    assert "connect-src 'none'" in policy


def test_a_large_picture_is_saved_small_and_a_broken_one_is_left_out() -> None:
    large = BytesIO()
    Image.new("CMYK", (1000, 200)).save(large, "JPEG")
    with Image.open(BytesIO(saved._thumbnail(large.getvalue()))) as small:
        assert small.size == (480, 96)

    broken: Any = SimpleNamespace(picture=lambda *_: Picture(large.getvalue()[:600], "image/jpeg"))
    assert list(saved._pictures(broken, {"key": "x", "outputs": []})) == []


def test_a_port_that_is_taken_is_named(aws: InProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(console, "Connection", lambda _: connection(aws))
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        result = CliRunner(mix_stderr=False).invoke(main, ["console", "--port", port])
    assert result.exit_code == 1
    assert result.stderr.startswith(f"Error: Port {port} cannot be used: ")


def test_the_console_without_its_extra_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delitem(sys.modules, "inorder.console.server", raising=False)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    result = CliRunner(mix_stderr=False).invoke(main, ["console"])
    assert result.exit_code == 1
    assert result.stderr == (
        "Error: The console needs uvicorn: install inorder[console], as `make install` does.\n"
    )
