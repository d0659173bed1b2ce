"""The benchmark: what it computes, the page it writes, and what its results say."""

from collections import Counter
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock
from xml.etree import ElementTree

import pytest
from botocore.hooks import HierarchicalEmitter

from bench import bursts, delivery, page, plots, results, scale, server, turns
from bench.contenders import recorder
from bench.contenders.recorder import Processing
from bench.delivery import pause_of_throttled
from bench.measures import Invocation, Turn, Uploaded, delay, dollars
from bench.turns import Runner, picture, read_records, state_of_output
from bench.workloads import Upload
from inorder import PROJECT
from inorder.aws.executions import wait_until
from inorder.cost import contenders, prices
from invert_image.inversion import invert
from invert_image.stamp import stamp_image
from tests.support.local_calls import Call

LATEST = Uploaded(at=10, etag="newest")


def test_the_pages_have_what_was_measured_and_computed() -> None:
    text = page.DOCUMENT.read_text()
    assert page.page(text, page.medians()) == text, "run python -m bench.page"
    text = (PROJECT / scale.DOCUMENT).read_text()
    assert scale.written(text) == text


def test_the_page_shows_each_plot_as_it_is_drawn_now() -> None:
    text = page.DOCUMENT.read_text()
    for place, plot in plots.plots(page.medians()).items():
        assert f"![{plot.finding}](images/{plot.file})\n" in text, place
        assert (page.IMAGES / plot.file).read_bytes() == plot.svg.encode(), "python -m bench.page"


def test_small_bursts_take_what_the_file_says() -> None:
    simulated = [bursts.measures(burst, bursts.simulate(burst)) for burst in bursts.SMALL]
    assert bursts.read()[: len(simulated)] == simulated, "run make bench-bursts"


@pytest.mark.parametrize("missing", [None, *delivery.NAMES])
def test_plots_draw_what_is_there_and_name_what_is_not(missing: str | None) -> None:
    fewer = {
        workload: {name: {} if missing in {name, None} else by[name] for name in by}
        for workload, by in page.medians().items()
    }
    for place, plot in plots.plots(fewer).items():
        drawing = ElementTree.fromstring(plot.svg)  # noqa: S314 - our own
        words = [element.text for element in drawing.iter("{http://www.w3.org/2000/svg}text")]
        workloads = {"cost": plots.SAME_WORK, "delay": fewer, "bursts": ["burst"]}
        expected = workloads.get(place.removeprefix("plot of "), [])
        missed = sum(not measures for name in expected for measures in fewer[name].values())
        assert words.count("not measured") == missed


def test_results_of_older_code_are_marked_unless_only_comments_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asl, code = tmp_path / "x.asl.json", tmp_path / "x.py"
    monkeypatch.setattr(results, "MORE", {"inorder": (asl, code)})
    monkeypatch.setattr(results, "fingerprint", results.fingerprint.__wrapped__)
    monkeypatch.setattr(results, "FILE", tmp_path / "results.json")
    results.FILE.write_text("[]")

    def cell(state: str, function: str) -> str:
        asl.write_text(state)
        code.write_text(function)
        if not results.read():
            results.add("gap", "inorder", 0, {"events": 1})
        of = results.medians(results.read(), "gap", "inorder")
        return page.cell({"inorder": of}, "inorder", "events", "{}")

    first = '"""A."""\ndef f(x):\n    """A."""\n    x()\n'
    assert cell('{"Comment": "a", "Seconds": 1}', first) == "1"
    assert cell('{"Seconds":\n1}', "def f( x ):\n    x()  # a\n") == "1"
    assert cell('{"Seconds": 2}', "def f(x):\n    x()\n") == "1 †"
    assert cell('{"Seconds": 1}', "def f(x):\n    x(1)\n") == "1 †"


def test_a_row_is_kept_until_its_code_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results, "FILE", tmp_path / "results.json")
    results.FILE.write_text("[]")
    for run, seconds in enumerate((1, 5, 2)):
        results.add("gap", "sqs-fence", run, {"makespan": seconds})
    results.add("gap", "inorder", 0, {"makespan": 9})
    assert results.has("gap", "sqs-fence", 2)
    assert not results.has("gap", "sqs-fence", 3)
    assert not results.has("burst", "sqs-fence", 0)
    row = results.medians(results.read(), "gap", "sqs-fence")
    assert (row["makespan"], row["runs"], row["is_old"]) == (2, 3, False)
    monkeypatch.setattr(results, "fingerprint", lambda contender: contender)
    assert not results.has("gap", "sqs-fence", 2)
    results.add("gap", "sqs-fence", 1, {"makespan": 7})
    assert [row["makespan"] for row in results.read()] == [9, 7]


def test_a_turn_costs_what_its_invocations_requests_and_logs_cost() -> None:
    turn = Turn(events=2, invocations=[Invocation(1.0001, 2048), Invocation(0.5, 256)])
    turn.used |= {"s3_puts": 3.0, "execution_log": 1e6}
    price = {name: price_of.dollars(1) for name, price_of in prices().items()}
    expected = 2 * price["eventbridge_events"] + 2 * price["lambda_requests"]
    expected += (2 * 1.001 + 0.5 / 4) * price["lambda_gb_seconds"] + 3 * price["s3_puts"]
    assert dollars(turn, without="execution_log") == pytest.approx(expected / 2 * 1e6)
    assert (
        dollars(turn) - dollars(turn, without="execution_log") > 0.001 * price["log_gb"] / 2 * 1e6
    )


def test_the_server_counts_what_a_state_uses(monkeypatch: pytest.MonkeyPatch) -> None:
    used: Counter[str] = Counter()
    monkeypatch.setattr(server, "count", lambda thing, _, number=1: used.update({thing: number}))

    def make(service: str, operation: str, result: Any = None, **parameters: Any) -> None:
        execution, work = {"status": "RUNNING"}, Mock(side_effect=result)
        with suppress(ConnectionError):
            server.make(Call("A", execution, service, operation, parameters, work))

    make("dynamodb", "getItem")
    assert used == {"reads": 1, "execution_log": 14_000}  # the poll of policies.toml
    used.clear()
    make("dynamodb", "updateItem", UpdateExpression="SET in_progress_since = :now")
    make("dynamodb", "updateItem", ConnectionError, UpdateExpression="SET in_progress_since = :now")
    make("dynamodb", "updateItem", UpdateExpression="REMOVE in_progress_since")
    assert used == {"writes": 3, "index_writes": 2}  # the entry that is set is removed later
    make("sqs", "sendMessage")
    make("lambda", "invoke")
    assert used == {"writes": 3, "index_writes": 2, "sqs_requests": 3}
    make("lambda", "invoke", ConnectionError, Payload="x" * 1000)
    make("lambda", "invoke", ConnectionError, Payload="")
    assert 3000 < used["execution_log"] < 4000  # two failures, one with a payload of 1,000 bytes


@pytest.mark.parametrize("dies", [True, False])
def test_an_execution_vanishes_only_if_the_workload_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dies: bool
) -> None:
    monkeypatch.setattr(turns, "AFTER_DEATH_SECONDS", 0)
    s3, target = Mock(), Mock()
    s3.put_object.return_value = {"ETag": '"tag"'}
    for mark in ("tag.started", "tag.died"):
        (tmp_path / mark).touch()
    laboratory: Any = SimpleNamespace(s3=s3, input_bucket="input", folder=tmp_path)
    Runner(laboratory, target, "x").run([Upload(0, 0, dies=dies)])
    assert target.kill_holder.call_count == dies
    assert target.deliver.call_count == 1


def test_an_output_counts_as_written_when_its_condition_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder, "FOLDER", str(tmp_path))
    events = HierarchicalEmitter()
    client: Any = SimpleNamespace(meta=SimpleNamespace(events=events))
    recorder.counted(client)
    with recorder.processing({"detail": {"object": {"key": "k"}}}):
        events.emit("before-send.s3.PutObject")
        for status in (200, 412):
            answer = SimpleNamespace(status_code=status)
            events.emit("after-call.s3.PutObject", http_response=answer)
            monkeypatch.setattr(recorder, "time", SimpleNamespace(time=lambda: -1))
    turn = Turn()
    read_records(turn, (tmp_path / "records").read_text().splitlines())
    assert turn.used["s3_puts"] == 1
    [processing] = turn.processings
    assert processing.written > 0  # and not when it was refused


def test_refused_events_pause_and_failed_ones_come_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    longest = [max(pause_of_throttled(refusals) for _ in range(99)) for refusals in (0, 3, 20)]
    assert 1 <= longest[0] <= 2 < longest[1] <= 16 < longest[2] <= 300
    assert min(pause_of_throttled(20) for _ in range(99)) >= 1
    monkeypatch.setattr(delivery, "RETRY_SECONDS", (0.01, 0.01))
    monkeypatch.setattr(delivery, "pause_of_throttled", lambda _: 0.01)
    refused = type("TooManyRequestsException", (Exception,), {})
    failed = {"Payload": BytesIO(), "FunctionError": "Unhandled"}
    client = Mock(**{"invoke.side_effect": [refused, failed, refused, refused, failed, failed]})
    client.exceptions.TooManyRequestsException = refused
    transport = delivery.FunctionTransport(Mock(**{"client.return_value": client}), "f", "x", 1)
    try:
        transport.deliver({})
        wait_until(transport.is_quiet, 10, "the last attempt", 0.01)
    finally:
        transport.close()
    assert client.invoke.call_count == 6


def test_the_delay_ends_at_the_first_output_of_newest_content() -> None:
    done = [
        Processing("k", "newest"),
        Processing("k", "newest", written=14),
        Processing("k", "newest", written=11),
        Processing("k", "old", written=10),
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
    assert [row for row in results.read() if results.wrong(row["contender"], row)] == []
    stale = {"missing": 0, "stale": 1}
    assert results.wrong("fifo-fence", stale)
    assert not results.wrong("uncoordinated", stale)
    assert results.wrong("uncoordinated", stale | {"missing": 1})


def test_a_contenders_bill_has_the_measured_writes_and_reads() -> None:
    rows = results.read()
    for contender in contenders():
        if row := results.medians(rows, "uncontended", contender.name):
            counted = contender.cost["uncontended"]
            assert counted.writes == round(row["writes"] / row["events"]), contender.name
            assert counted.reads == round(row["reads"] / row["events"]), contender.name
