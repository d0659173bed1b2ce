"""The console's page in one file."""

from __future__ import annotations

import json
import re
from base64 import b64decode
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from PIL import Image

from inorder.aws import parked
from inorder.console import page, saved
from inorder.console.answers import Answers, Picture
from tests.in_process import InProcess
from tests.unit.test_inspection import GREEN, RED, connection

STRANGE = "</script><!--<script>\u2028\u202e\u05e9.png"


def decoded(address: str, media_type: str) -> bytes:
    kind, _, content = address.partition(";base64,")
    assert kind == f"data:{media_type}"
    return b64decode(content)


def test_a_saved_page_has_all_answers_and_needs_no_other_file(
    aws: InProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parked, "RECEIVE_SECONDS", 0)
    older, newer = aws.upload(STRANGE, RED), aws.upload(STRANGE, GREEN)
    for event in (older, newer, aws.upload("bad.png", b"no image"), {"no": "event"}):
        aws.run(event)
    file = tmp_path / "folder" / "page.html"
    saved.write(file, saved.read(Answers(connection(aws), aws.state_machine)))
    html = file.read_text(encoding="utf-8")
    assert STRANGE[:12] not in html  # no text in the data ends its element
    scripts = re.findall(r'<script type="(\S+?)"[^>]*>(.*?)</script>', html, re.DOTALL)
    assert [kind for kind, _ in scripts] == ["importmap", "application/json", "module"]
    assert html.count("</script>") == 3
    importmap, data, main = (text for _, text in scripts)
    answers = json.loads(data)
    rows = answers["/api/executions"]["executions"]
    assert [each["key"] for each in rows] == [None, "bad.png", STRANGE, STRANGE]
    assert list(answers["/api/execution"]) == [each["arn"] for each in rows]
    assert set(answers["/api/story"]) == {"bad.png", STRANGE}
    story = answers["/api/story"][STRANGE]
    assert sorted(story["executions"]) == sorted(each["arn"] for each in rows[2:])
    assert len(answers["/api/parked"]["events"]) == 2
    assert answers["/api/definition"]["StartAt"]
    assert answers["/api/stack"]["policy"] == aws.policy
    output = story["outputs"][0]["key"]
    assert set(answers["/api/picture"]) == {f"source:{STRANGE}", f"output:{output}"}
    for address in answers["/api/picture"].values():
        with Image.open(BytesIO(decoded(address, "image/webp"))) as picture:
            assert (picture.format, picture.size) == ("WEBP", (16, 16))

    without_data = html.replace(data, "")
    assert set(re.findall(r' (?:src|href)="(.{5})', without_data)) <= {"data:"}
    imports = json.loads(importmap)["imports"]
    assert {name: decoded(each, "text/javascript") for name, each in imports.items()} == {
        name: (page.FOLDER / module).read_bytes() for name, module in page.modules().items()
    }
    assert re.fullmatch(r'import "([\w/]+)";', main)[1] in imports  # type: ignore[index]
    [policy] = re.findall(r'<meta http-equiv="Content-Security-Policy" content="(.*?)">', html)
    hashes = {b64decode(each) for each in re.findall(r"'sha256-(.+?)'", policy)}
    inline = [*re.findall(r"<style>(.*?)</style>", without_data, re.DOTALL), importmap, main]
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
