"""The benchmark: what it computes, the page it writes, and that the contenders keep their word."""

from __future__ import annotations

import io
import json
import re
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import boto3
import pytest
from PIL import Image, ImageChops, ImageStat

from bench import function, page, results, workloads
from bench.contenders.orders import with_orders
from bench.contenders.recorder import Run
from bench.delivery import NAMES
from bench.measures import Turn, Uploaded, delay, express_gb_seconds, intervals_of, measures, peak
from bench.resolved_template import template
from inorder.cost import contenders
from inorder.model.policies import policy
from tests.conftest import colour_of, picture
from tests.support.in_process import OUTPUT, InProcess, import_anew

KEYS = ["a.png", "b.png", "c.png"]
VERSIONS = 3
ORDER = [(2, 0), (0, 2), (1, 1), (0, 0), (2, 2), (1, 0), (0, 1), (1, 2), (2, 1), (0, 0), (2, 2)]
LATEST = Uploaded(at=10, etag="newest")


@pytest.fixture(scope="module")
def files() -> dict[Path, bytes]:
    return page.files(results.read(), results.machine(), function.read())


def test_the_page_is_what_the_results_say(files: dict[Path, bytes]) -> None:
    assert page.DOCUMENT.read_bytes() == files[page.DOCUMENT], "run python -m bench.page"


def test_the_plots_show_the_results(files: dict[Path, bytes]) -> None:
    """Another machine may draw the edges of letters and lines in other shades."""
    assert set(page.PLOTS.glob("*")) == set(files) - {page.DOCUMENT}
    for file in page.PLOTS.glob("*"):
        drawn, shown = (Image.open(each).convert("L") for each in (io.BytesIO(files[file]), file))
        assert drawn.size == shown.size
        [difference] = ImageStat.Stat(ImageChops.difference(drawn, shown)).mean
        assert difference < 0.1, f"{file.name}: run python -m bench.page"


def test_the_text_of_the_page_has_no_measured_number() -> None:
    not_text = r"```.*?```|\{\{.*?\}\}|`[^`]*`|\]\([^)]*\)"
    text = re.sub(not_text, "", page.TEMPLATE.read_text(), flags=re.DOTALL)
    assert re.findall(r"(?<!\w)\d+", text) == ["100", "64", "1"]  # what the measures are


def run(event: str, started: float, ended: float, etag: str = "x", written: bool = True) -> Run:
    return Run("k", event, started=started, ended=ended, etag=etag, written=written)


OWN = run("4", 21, 23, "newest")
UNWRITTEN = run("2", 9, 10.5, "newest", False)


@pytest.mark.parametrize(
    ("runs", "expected"),
    [
        # A run blocks the newest event only if it had not ended at the upload.
        ([OWN, run("3", 13, 20), run("1", 5, 9), run("2", 8, 13)], (13, 3 + 2)),
        ([run("1", 5, 9), OWN], (13, 2)),
        # One that overlaps with the newest one does not block it.
        ([run("1", 9, 14), run("2", 11, 13, "newest")], (3, 2)),
        # A run counts by the content that it wrote, whichever event caused it.
        ([run("2", 12, 14, "newest"), UNWRITTEN, run("1", 10, 11, "newest")], (1, 1)),
        ([UNWRITTEN], None),
    ],
)
def test_the_delay_of_the_newest_event_and_what_of_it_could_not_be_avoided(
    runs: list[Run], expected: Any
) -> None:
    assert delay(Turn(0, newest={"k": LATEST}, runs=runs), "k") == expected


def test_measures_of_a_turn() -> None:
    turn = Turn(
        began=100,
        events=3,
        newest={"a": Uploaded(100, "1"), "b": Uploaded(101, "2")},
        invocations=[(100, 102), (101, 104), (104, 105)],
        runs=[Run("a", "1", 101, 102, "1", written=True)],
        outputs={"a": "right", "b": "missing"},
        executions=[0.101, 0.1],
    )
    turn.calls.update(read=2, write=1, log=5000)
    found = measures(turn)
    assert found["function_seconds"] == 6
    assert (found["stale"], found["missing"], found["peak_concurrency"]) == (0, 1, 2)
    assert (found["makespan"], found["delay_p50"], found["delay_least_p50"]) == (5, 2, 1)
    assert (found["reads"], found["writes"], found["log_bytes"]) == (2, 1, 5000)


def test_what_is_measured_of_invocations_and_executions() -> None:
    assert express_gb_seconds([0.1, 0.101, 0.3]) == pytest.approx(0.6 / 16)  # 100 ms, 64 MB
    assert express_gb_seconds([]) == 0
    assert peak([(0, 1), (1, 2), (1.5, 3)]) == 2  # those that meet do not overlap
    assert peak([]) == 0
    lines = [("begin", 1, 10), ("begin", 2, 11), ("end", 1, 12), ("begin", 1, 13), ("end", 2, 14)]
    lines += [("end", 1, 15)]
    records = [{"what": what, "process": process, "at": at} for what, process, at in lines]
    assert sorted(intervals_of(records)) == [(10, 12), (11, 14), (13, 15)]


def test_a_ratio_is_that_of_one_run_and_there_is_none_to_a_median_of_zero() -> None:
    runs = [
        {"inorder": {"writes": 1.0, "reads": 0.0}, "other": {"writes": 3.0, "reads": 1.0}},
        {"inorder": {"writes": 10.0, "reads": 1.0}, "other": {"writes": 10.0, "reads": 1.0}},
        {"inorder": {"writes": 20.0, "reads": 0.0}, "other": {"writes": 10.0, "reads": 5.0}},
    ]
    found = results.summary(runs)["other"]
    assert found == {"runs": 3, "writes": 10, "reads": 1, "writes_ratio": 1}


def test_the_default_memory_is_the_least_with_which_the_image_that_needs_most_is_fast() -> None:
    def seconds(*of_sizes: float) -> dict[str, Any]:
        pairs = zip(function.SIZES, of_sizes, strict=True)
        return {"sizes": {str(size): {"seconds": each} for size, each in pairs}}

    small, large = seconds(1.2, 1.05, 1, 1, 1.02), seconds(4, 2, 1.05, 1.09, 1)
    assert function.chosen({"small": small}) == function.SIZES[1]
    assert function.chosen({"small": small, "large": large}) == function.SIZES[2]
    default = template()["Parameters"]["FunctionMemorySize"]["Default"]
    assert default == function.chosen(function.read()["images"])


def test_the_time_of_an_import_is_divided_among_what_it_imports() -> None:
    report = """import time: self [us] | cumulative | imported package
import time:       100 |        100 |   sitecustomize
import time:       100 |        200 | site
import time:      1000 |       1000 |     botocore.session
import time:      2000 |       3000 |   boto3
import time:        10 |         10 |   aws_lambda_powertools
import time:        20 |         20 |   aws_lambda_powertools.metrics
import time:        40 |         40 |   random
import time:      5000 |       8070 | invert_image.app
"""
    assert function.parts(report) == pytest.approx(
        {function.OWN: 0.005, "boto3": 0.003, function.OTHERS: 0.00004, "Powertools": 0.00003}
    )


def test_the_worker_measures_the_handler_beside_plain_pillow(tmp_path: Path) -> None:
    image = tmp_path / "image"
    image.write_bytes(function.photograph(80, 64, 85))
    started = [str(function.WORKER), str(image), "2", str(tmp_path)]
    printed = function.run(started, function.SOURCE).stdout
    measured = json.loads(printed.splitlines()[-1])
    assert min(measured.values()) > 0
    assert set(measured) == set(function.read()["images"]["100 kB"]["sizes"]["1024"])
    assert (tmp_path / "cgroup.procs").read_text() == "0"  # where it asks for its share


def test_a_package_has_bytecode_that_knows_its_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(function, "files", lambda _: [])
    function.package(tmp_path / "built", bytecode=False)
    assert not list(tmp_path.rglob("*.pyc"))
    edit = {"import boto3\n": "import botocore\n"}
    function.package(tmp_path / "compiled", bytecode=True, edit=edit)
    assert "import botocore\n" in (tmp_path / "compiled" / "invert_image" / "app.py").read_text()
    [compiled] = tmp_path.rglob("invert_image/**/app.*.pyc")
    assert compiled.read_bytes()[4:8] == bytes([0b11, 0, 0, 0])  # of a source with the hash
    with pytest.raises(ValueError, match="no such line"):
        function.package(tmp_path / "x", bytecode=False, edit={"no such line": ""})


def test_the_headline_has_slow_runs_and_a_storm_has_duplicates_late_events_and_failures() -> None:
    uploads = workloads.workload("headline-gap0").uploads
    assert (len(uploads), sum(upload.seconds > 0 for upload in uploads)) == (200, 100)
    uploads = workloads.workload("storm").uploads
    assert len(uploads) == 1000
    assert 80 < sum(upload.again is not None for upload in uploads) < 120
    assert 160 < sum(upload.late > 0 for upload in uploads) < 240
    assert 10 < sum(upload.fails for upload in uploads) < 30


Contender = Callable[[str], Any]  # gives the module of its name


@pytest.fixture
def contender(
    aws: InProcess,  # noqa: ARG001 - moto must run
    monkeypatch: pytest.MonkeyPatch,
) -> Contender:
    """Import contenders by name, with what they need in moto."""
    dynamodb, sqs = boto3.client("dynamodb"), boto3.client("sqs")
    for table, key in (("locks", "key"), ("idempotency", "id")):
        dynamodb.create_table(
            TableName=table,
            BillingMode="PAY_PER_REQUEST",
            AttributeDefinitions=[{"AttributeName": key, "AttributeType": "S"}],
            KeySchema=[{"AttributeName": key, "KeyType": "HASH"}],
        )
    queue = sqs.create_queue(QueueName="bench.fifo", Attributes={"FifoQueue": "true"})
    url = queue["QueueUrl"]
    environment = {"LOCK_TABLE": "locks", "IDEMPOTENCY_TABLE": "idempotency", "FIFO_QUEUE_URL": url}
    for name, value in environment.items():
        monkeypatch.setenv(name, value)

    def load(name: str) -> Any:
        for old in [each for each in sys.modules if each.startswith("bench.contenders.")]:
            if old.rpartition(".")[2] not in {"recorder", "orders", "lock", "warm"}:
                monkeypatch.delitem(sys.modules, old)
        return import_anew(f"bench.contenders.{name}")

    return load


def upload_all(aws: InProcess) -> list[dict[str, Any]]:
    """Upload all versions of all keys, and give the events in disorder, some of them twice."""
    events = {
        (key, version): aws.upload(
            name, with_orders(picture((key, version, 9)), {"seconds": 0.05 * (version % 2)})
        )
        for version in range(VERSIONS)
        for key, name in enumerate(KEYS)
    }
    return [events[each] for each in ORDER]


def stale_outputs(aws: InProcess) -> list[str]:
    return [
        name
        for key, name in enumerate(KEYS)
        if colour_of(aws.s3.get_object(Bucket=OUTPUT, Key=f"out-{name}")["Body"].read())
        != (255 - key, 255 - (VERSIONS - 1), 246)
    ]


def lambda_context(request: str) -> SimpleNamespace:
    return SimpleNamespace(
        aws_request_id=request,
        function_name="bench",
        get_remaining_time_in_millis=lambda: 10_000,
        invoked_function_arn="arn",
        memory_limit_in_mb=1769,
    )


def deliver(events: list[Any], handler: Callable[[Any, Any], Any]) -> None:
    """Invoke a handler with all events at once."""
    with ThreadPoolExecutor(len(events)) as pool:
        given = [
            pool.submit(handler, event, lambda_context(str(n))) for n, event in enumerate(events)
        ]
        for each in given:
            each.result()


def of_each_other(module: Any, events: list[Any]) -> None:
    with pytest.MonkeyPatch.context() as failing:
        failing.setattr(module.image, "process", lambda _: 1 / 0)
        with pytest.raises(ZeroDivisionError):  # a failed run unlocks the key
            deliver(events[:1], module.handler)
    with pytest.MonkeyPatch.context() as hurried:
        hurried.setattr(module.random, "random", lambda: 0.02)
        deliver(events, module.handler)


def of_a_queue(module: Any, events: list[Any]) -> None:
    for event in events:
        module.route(event, None)
    sqs, url = boto3.client("sqs"), module.os.environ["FIFO_QUEUE_URL"]
    while messages := sqs.receive_message(QueueUrl=url).get("Messages"):
        for message in messages:
            module.handler({"Records": [{"body": message["Body"]}]}, None)
            sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])


def of_an_engine(module: Any, events: list[Any]) -> None:
    """Do each operation at once, and suspend for a moment."""

    def wait_for_condition(check: Any, config: Any, name: str) -> Any:  # noqa: ARG001
        state = config.initial_state
        while (state := check(state, None)) and config.wait_strategy(state, 1).should_continue:
            time.sleep(0.02)
        return state

    def handler(event: Any, context: Any) -> Any:
        durable = SimpleNamespace(
            execution_context=SimpleNamespace(durable_execution_arn=context.aws_request_id),
            step=lambda operation, name: operation(None),  # noqa: ARG005
            wait_for_condition=wait_for_condition,
        )
        return module.process(event, durable)

    deliver(events, handler)


def of_nothing(module: Any, events: list[Any]) -> None:
    for event in events:
        deliver([event], module.handler)


@pytest.mark.parametrize(
    ("name", "wait_for_turns", "least", "has_newest"),
    [
        ("lock_in_function", of_each_other, len(KEYS), True),
        ("sqs_fifo", of_a_queue, len(KEYS) * VERSIONS, True),  # no duplicate is run
        ("durable_function", of_an_engine, len(KEYS), True),
        ("idempotent_function", of_nothing, len(KEYS) * VERSIONS, False),
    ],
)
def test_a_contender_keeps_runs_of_a_key_apart_and_runs_no_event_twice(
    contender: Contender,
    aws: InProcess,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    wait_for_turns: Callable[[Any, list[Any]], None],
    least: int,
    has_newest: bool,
) -> None:
    module = contender(name)
    running: list[str] = []
    overlaps: list[str] = []
    runs: list[str] = []
    process = module.image.process

    def watched(event: Any) -> None:
        key = event["detail"]["object"]["key"]
        runs.append(key)
        overlaps.extend({key} & set(running))
        running.append(key)
        try:
            process(event)
            time.sleep(0.05)
        finally:
            running.remove(key)

    monkeypatch.setattr(module.image, "process", watched)
    wait_for_turns(module, upload_all(aws))
    assert overlaps == []
    assert least <= len(runs) <= len(KEYS) * VERSIONS
    assert (stale_outputs(aws) == []) or not has_newest


def test_inorder_leaves_no_stale_output(contender: Contender, aws: InProcess) -> None:
    handler = contender("inorder").handler
    aws.wait_scale = 0.1
    aws.invoke = lambda payload: handler(payload, lambda_context("test"))
    started = [aws.start(event) for event in upload_all(aws)]
    ends = {aws.state_machine.wait(arn).outcome for arn in started}
    assert ends <= {"Processed", "Superseded", "Duplicate"}
    assert stale_outputs(aws) == []


def test_the_lock_of_a_dead_holder_expires(
    contender: Contender, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = contender("lock")
    table = boto3.resource("dynamodb").Table("locks")
    dead, newer = lock.Lock(table, "k", "1", "dead"), lock.Lock(table, "k", "2", "newer")
    assert (dead.claim(), newer.claim()) == ("taken", "locked")
    now = time.time()
    monkeypatch.setattr(lock.time, "time", lambda: now + lock.LEASE_SECONDS + 1)
    assert newer.claim() == "taken"
    dead.unlock()  # in vain: it is not the holder any more
    assert lock.Lock(table, "k", "3", "third").claim() == "locked"
    newer.unlock()
    assert dead.claim() == "superseded"


def test_all_contenders_but_the_durable_function_are_in_one_function(
    contender: Contender, aws: InProcess
) -> None:
    module = contender("lambda_function")
    handled = {name.split()[0] for name in module.HANDLERS}
    assert handled | {"inorder", "optimistic", "durable-function"} == set(NAMES)
    [event, *_] = upload_all(aws)
    for name in sorted({"lock-in-function", "idempotent-function", "uncoordinated"}):
        aws.s3.delete_objects(Bucket=OUTPUT, Delete={"Objects": [{"Key": "out-c.png"}]})
        context = SimpleNamespace(aws_request_id=name, get_remaining_time_in_millis=lambda: 10_000)
        module.handler({"contender": name, "event": event}, context)
        assert aws.s3.list_objects_v2(Bucket=OUTPUT)["KeyCount"] == 1


def test_the_bill_of_a_contender_has_the_writes_and_reads_that_were_measured() -> None:
    found_of = results.read()
    assert set(found_of) <= set(workloads.NAMES)
    assert all(set(by_contender) <= set(NAMES) for by_contender in found_of.values())
    measured = found_of["uncontended"]
    for each in contenders(policy("latest-wins")):
        if not each.policy:
            counted, found = each.cost["uncontended"], measured[each.name]
            events = found["events"]
            assert counted.writes == round(found["writes"] / events), each.name
            assert counted.reads == round(found["reads"] / events), each.name
