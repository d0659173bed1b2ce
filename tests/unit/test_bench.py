"""The benchmark: what it computes, the page it writes, and what its results say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bench import function, page, results, scale
from bench.contenders.recorder import Processing
from bench.measures import Turn, Uploaded, delay
from inorder import PROJECT
from inorder.cost import contenders
from inorder.model.policies import policy
from tests.support.resolved_template import template

LATEST = Uploaded(at=10, etag="newest")


@pytest.fixture(scope="module")
def files() -> dict[Path, bytes]:
    return page.files(results.read(), results.machine(), function.read())


def test_the_page_is_what_the_results_say(files: dict[Path, bytes]) -> None:
    assert page.DOCUMENT.read_bytes() == files[page.DOCUMENT], "run python -m bench.page"


def done(
    event: str, started: float, ended: float, etag: str = "x", written: bool = True
) -> Processing:
    return Processing("k", event, started=started, ended=ended, etag=etag, written=written)


OWN = done("4", 21, 23, "newest")
UNWRITTEN = done("2", 9, 10.5, "newest", False)


@pytest.mark.parametrize(
    ("processings", "expected"),
    [
        # One blocks the newest event only if it had not ended at the upload.
        ([OWN, done("3", 13, 20), done("1", 5, 9), done("2", 8, 13)], (13, 3 + 2)),
        ([done("1", 5, 9), OWN], (13, 2)),
        # One that overlaps with the newest one does not block it.
        ([done("1", 9, 14), done("2", 11, 13, "newest")], (3, 2)),
        # One counts by the content that it wrote, whichever event caused it.
        ([done("2", 12, 14, "newest"), UNWRITTEN, done("1", 10, 11, "newest")], (1, 1)),
        ([UNWRITTEN], None),
    ],
)
def test_the_delay_of_the_newest_event_and_what_of_it_could_not_be_avoided(
    processings: list[Processing], expected: Any
) -> None:
    assert delay(Turn(0, newest={"k": LATEST}, processings=processings), "k") == expected


def test_the_default_memory_is_the_least_with_which_the_image_that_needs_most_is_fast() -> None:
    default = template()["Parameters"]["FunctionMemorySize"]["Default"]
    assert default == function.chosen(function.read())


def test_no_contender_leaves_a_stale_output_but_those_that_promise_no_order() -> None:
    for workload, by_contender in results.read().items():
        for name, found in by_contender.items():
            assert found["missing"] == 0, (workload, name)
            unordered = name in {"idempotent-function", "uncoordinated"}
            assert found["stale"] == 0 or unordered, (workload, name)


def test_the_bill_of_a_contender_has_the_writes_and_reads_that_were_measured() -> None:
    measured = results.read()["uncontended"]
    for each in contenders(policy("latest-wins")):
        if not each.policy and each.name != "fenced-function":  # which has no table
            counted, found = each.cost["uncontended"], measured[each.name]
            assert counted.writes == round(found["writes"] / found["events"]), each.name
            assert counted.reads == round(found["reads"] / found["events"]), each.name


def test_the_tables_of_scale_are_those_that_are_computed() -> None:
    text = (PROJECT / scale.DOCUMENT).read_text()
    assert scale.written(text) == text
