"""The parts of the demonstration that need no stack: its pictures and its report."""

import json
import re
from base64 import b64encode
from pathlib import Path
from urllib.parse import unquote

from inorder.demo.pictures import own_pairs
from inorder.demo.report import MEANINGS, FinalOutput, Result, write_report
from inorder.demo.run import _inverse, _outcomes, shows
from inorder.model.execution import Execution
from invert_image.stamp import stamp_image
from tests.conftest import picture
from tests.support.events import created

PICTURE = picture((0, 128, 128))
JPEG, PNG, GIF, WEBP = own_pairs(4)


def test_colours_identify_an_output_whatever_the_fence_adds() -> None:
    for pair in (JPEG, PNG, GIF, WEBP):
        assert shows(stamp_image(_inverse(pair.new), b"stamp"), pair.new)
        assert not shows(_inverse(pair.new), pair.old)
    for output in (b"", b"no picture", _inverse(JPEG.new)):
        assert not shows(output, PNG.new)


def ended(name: str, outcome: str, sequencer: str = "01") -> Execution:
    event, status = created("k", sequencer=sequencer), "SUCCEEDED" if outcome else "FAILED"
    return Execution(f"arn:x:machine:{name}", status, event, {"outcome": outcome})


def test_a_delivery_that_a_holder_started_counts_once() -> None:
    delivered = [ended("a", "Processed"), ended("b", "Duplicate"), ended("c", "Duplicate")]
    started = [ended("newest-b", "Processed"), ended("newest-c", "Retrying")]
    counted = {"Processed": 2, "Duplicate": 1, "Retrying": 1}
    assert _outcomes([*delivered, *started]) == counted


FRESH, STALE = FinalOutput("fresh.png", PICTURE, "new"), FinalOutput("stale.png", PICTURE, "old")
MISSING = FinalOutput("missing.png", None, "missing")
OTHER = FinalOutput("other.png", b"no picture", "other")


def test_a_report_has_each_output_marked_and_counted(tmp_path: Path) -> None:
    outputs, counts = [FRESH, STALE, MISSING, OTHER], {"Object keys": 4, "Stale outputs": 2}
    file = tmp_path / "demo" / "index.html"
    results = {"off": Result(counts, outputs, {}), "on": Result(counts, [FRESH], {})}
    write_report(file, "latest-wins", results)
    assert [*file.parent.iterdir()] == [file]
    text = file.read_text(encoding="utf-8")
    assert "off: 1 of 4 stale, 1 unexpected, 1 missing<" in text
    assert "on: none of 1 stale<" in text
    shown_images = re.findall(
        r'<figure class="(\w+)"><a href="[^"]+"><img alt="[^"]+" src="[^,]*,(.*?)">', text
    )
    shown = [*outputs, FRESH]
    assert shown_images == [
        (output.state, b64encode(output.content).decode()) for output in shown if output.content
    ]
    assert re.findall(r'class="mark">(\w+)<', text) == ["stale", "missing", "unexpected"]
    assert text.count(">no output<") == 1


def test_each_count_has_its_meaning_and_no_key_is_markup(tmp_path: Path) -> None:
    key = "a/</script><b>&amp;\"'?#.png"
    counts = dict.fromkeys(MEANINGS, 1)
    facts = {"/api/story": {key: "</script><noscript></noscript><title></title></body>"}}
    results = {"on": Result(counts, [FinalOutput(key, PICTURE, "new")], facts)}
    file = tmp_path / "index.html"
    write_report(file, "<policy>", results)
    text = file.read_text(encoding="utf-8")
    assert "<b>" not in text
    assert "<policy>" not in text
    [link] = re.findall(r'href="\?on#/key/([^"]*)"', text)
    assert unquote(link) == key
    [data] = re.findall(r'<script type="application/json" id="saved\?on">(.*?)</script>', text)
    assert json.loads(data) == facts
