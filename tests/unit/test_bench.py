"""The benchmark: what it computes, the page it writes, and what its results say."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from bench import measured, page, results, scale
from bench.contenders.recorder import Processing
from bench.measures import Turn, Uploaded, delay
from bench.turns import picture, state_of_output
from bench.workloads import Upload
from inorder import PROJECT
from inorder.cost import contenders
from invert_image.inversion import invert
from invert_image.stamp import stamp_image

LATEST = Uploaded(at=10, etag="newest")


def test_the_page_is_what_the_results_say() -> None:
    text = page.DOCUMENT.read_text()
    assert page.page(text) == text, "run python -m bench.page"


def test_what_older_code_did_is_marked_and_comments_make_no_code_older(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asl, code = tmp_path / "x.asl.json", tmp_path / "x.py"
    monkeypatch.setattr(measured, "PRODUCT", (asl, code))
    monkeypatch.setattr(results, "fingerprint", measured.fingerprint.__wrapped__)

    def cell(state: str, function: str) -> str:
        asl.write_text(state)
        code.write_text(function)
        return page.cell({"inorder": row}, "inorder", "events", "{}")

    row = {"of": "", "events": 1}
    assert (
        cell('{"Comment": "a", "Seconds": 1}', '"""A."""\ndef f(x):\n    """A."""\n    x()\n')
        == "1 †"
    )
    row = results.measured_now("inorder", {"events": 1})
    assert cell('{"Seconds":\n1}', "def f( x ):\n    x()  # a\n") == "1"
    assert cell('{"Seconds": 2}', "def f(x):\n    x()\n") == "1 †"
    assert cell('{"Seconds": 1}', "def f(x):\n    x(1)\n") == "1 †"


def test_the_delay_is_that_of_the_first_output_with_the_newest_content() -> None:
    done = [
        Processing("k", 10.5, "newest", written=False),
        Processing("k", 14, "newest", written=True),
        Processing("k", 11, "newest", written=True),
        Processing("k", 10, "old", written=True),
    ]
    assert delay(Turn(newest={"k": LATEST}, processings=done), "k") == 1
    assert delay(Turn(newest={"k": LATEST}, processings=done[:1]), "k") is None


def test_an_output_is_right_although_the_fence_has_stamped_it() -> None:
    older, newest = (picture(number, Upload(at=0, key=0)) for number in (1, 2))
    content = stamp_image(invert(newest, 10_000).content, b"stamp")
    s3 = Mock(**{"get_object.side_effect": lambda **_: {"Body": BytesIO(content)}})
    s3.exceptions.NoSuchKey = LookupError
    laboratory: Any = SimpleNamespace(s3=s3, output_bucket="output")
    assert state_of_output(laboratory, "x.png", newest) == "right"
    assert state_of_output(laboratory, "x.png", older) == "stale"


def test_no_contender_leaves_a_stale_output_but_the_uncoordinated_one() -> None:
    for workload, by_contender in results.read().items():
        for name, found in by_contender.items():
            assert found["missing"] == 0, (workload, name)
            assert found["stale"] == 0 or name == "uncoordinated", (workload, name)


def test_the_bill_of_a_contender_has_the_writes_and_reads_that_were_measured() -> None:
    measured = results.read()["uncontended"]
    for each in contenders():
        if each.name in measured:
            counted, found = each.cost["uncontended"], measured[each.name]
            assert counted.writes == round(found["writes"] / found["events"]), each.name
            assert counted.reads == round(found["reads"] / found["events"]), each.name


def test_the_tables_of_scale_are_those_that_are_computed() -> None:
    text = (PROJECT / scale.DOCUMENT).read_text()
    assert scale.written(text) == text
