"""`inorder try`: what it says of answers, invocations and handlers, without a local AWS."""

import json
import os
import re
import time
import zipfile
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from inorder.asl.size import MOST_BYTES
from inorder.aws import health
from inorder.errors import Failure
from inorder.local_aws import LocalAws
from inorder.model import policies
from inorder.trying import inside, new, verdict
from inorder.trying import work as trying_work
from inorder.trying.inside import FAILS, FILE, JOURNAL, LONGEST_TIMEOUT, RELEASE, TIMES_OUT
from inorder.trying.trial import Sample, paired, unseen
from inorder.trying.verdict import Invocation, broken
from inorder.trying.work import named
from tests.support import events

NOW = 1_795_000_000.0
NO_PROCESS = 2**22  # the largest number of a process on Linux is one less
LATER = str(int(NOW) + 3 * 86_400)
NO_OUTCOME: list[Any] = [None, [], "Processed", {}, {"outcome": "Done"}]
NO_DIGITS: list[Any] = [None, 1, "", "1.5", "-1", "٣٤"]  # the last ones are none of DynamoDB
DONE: dict[str, Any] = {"outcome": "Processed", "expires_at": LATER}
REJECTED = {"outcome": "Rejected", "expires_at": LATER, "error": "E", "cause": "because"}


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (DONE, ""),
        (DONE | {"outcome": "Superseded", "more": [1]}, ""),
        (REJECTED, ""),
        (DONE | {"more": "x" * MOST_BYTES}, "262,208 bytes"),
        *((answer, "is not JSON with an outcome") for answer in NO_OUTCOME),
        *((DONE | {"expires_at": value}, "no text of digits") for value in NO_DIGITS),
        (DONE | {"expires_at": str(int(NOW) + 86_400)}, "less than two days"),
        (REJECTED | {"error": 1}, "without the text error:"),
        ({"outcome": "Rejected", "expires_at": LATER}, "without the text error and cause:"),
    ],
)
def test_a_broken_contract_is_named_with_what_to_change(answer: Any, text: str) -> None:
    advice = broken(json.dumps(answer), NOW)
    assert bool(advice) == bool(text)
    assert text in advice


@pytest.mark.parametrize(
    ("facts", "text"),
    [
        ({"seconds": 1, "answer": json.dumps(DONE)}, ""),
        ({"seconds": 1, "error": "ValueError: bad (app.py, line 3)"}, "raises ValueError: bad ("),
        ({"began": NOW - 6, "alive": NOW - 1}, "not answered after the 5 s"),
        ({"began": NOW - 4, "alive": NOW}, ""),  # it may still answer
        ({"began": NOW - 6, "alive": NOW - 6}, "has ended its process"),
        ({"began": NOW - 2, "alive": NOW - 2}, "has ended its process"),
        ({"began": NOW - 2, "alive": NOW - 2, "process": os.getpid()}, ""),
        ({"began": NOW - 6, "alive": NOW - 6, "process": os.getpid()}, "not answered"),
        ({"began": NOW - 6, "stalled": "PutObject"}, ""),
    ],
)
def test_errors_timeouts_and_dead_processes_are_faults(facts: dict[str, Any], text: str) -> None:
    defaults: dict[str, Any] = {"id": "1", "began": NOW, "process": NO_PROCESS}
    fault, advice = Invocation(**defaults | facts).fault(NOW, timeout=5)
    assert [bool(fault), bool(advice)] == [bool(text)] * 2
    assert text in fault


def invocation(sequencer: str, began: float = NOW, **facts: Any) -> Invocation:
    defaults: dict[str, Any] = {"id": "1", "key": f"k{sequencer}", "seconds": 1.0}
    return Invocation(sequencer=sequencer, began=began, **defaults | facts)


def test_every_way_to_break_the_contract_is_named_once() -> None:
    other = json.dumps(DONE | {"expires_at": 1})
    answers = [json.dumps(DONE), "{}", "{}", other]
    findings = verdict.answers([invocation(str(n), answer=text) for n, text in enumerate(answers)])
    assert [finding.mark for finding in findings] == ["broken", "broken"]
    assert [finding.text[:4] for finding in findings] == ["k1: ", "k3: "]
    [kept] = verdict.answers([invocation("1", answer=answers[0]), invocation("1", error="E")])
    assert (kept.mark, kept.text[:2]) == ("kept", "1 ")


def test_an_exception_is_kept_if_a_retry_answered() -> None:
    good = json.dumps(DONE)
    failed = [invocation("1", error="ValueError: a"), invocation("2", error="ValueError: b")]
    retried = invocation("1", NOW + 5, answer=good)
    [finding] = verdict.faults([*failed, retried], NOW, timeout=5)
    assert finding.mark == "kept"
    assert re.fullmatch("k1: The handler raises ValueError: a[.] A retry helped[.]", finding.text)


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("import atexit\natexit.register(print, 'bye')\ndef handler(*_): 1", ""),
        ("import os\nos.write(1, b'\\xff')\ndef handler(*_): 1", ""),
        ("def other(): 1", "module 'app' has no attribute 'handler'"),
        ("handler = 1", "handler is no function"),
        ("import missing_here", "'missing_here' (app.py, line 1). Install missing_here"),
        ("import os\nos.environ['UNSET_HERE']", "KeyError: 'UNSET_HERE' (app.py, line 2)."),
        ("import sys\nsys.exit(0)", "SystemExit: 0 (app.py, line 2)."),
        ("import os\nos._exit(0)", "app.py ends the process that imports it, with status 0."),
        ("import os, sys\nos.write(2, b'\\xff why')\nos._exit(7)", "with status 7.\n\ufffd why"),
        ("import time\ntime.sleep(60)", "app.py takes over 3 s."),
    ],
)
def test_why_a_handler_cannot_be_loaded_is_named(
    source: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trying_work, "IMPORT_SECONDS", 3)
    file, local = tmp_path / "app.py", LocalAws(1, 1, 0, "")
    file.write_text(source)
    with pytest.raises(Failure, match=re.escape(text)) if text else nullcontext():
        named(str(file), tmp_path).check(local)


def test_a_handler_is_a_function_in_an_existing_python_file(tmp_path: Path) -> None:
    for text in ("app.json", str(tmp_path / "app.py")):
        with pytest.raises(Failure):
            named(text, tmp_path)
    (tmp_path / "app.py").touch()
    work = named(f"{tmp_path}/app.py:other", tmp_path)
    assert (work.file, work.function) == (tmp_path / "app.py", "other")


def test_what_is_missing_is_installed_from_requirements_beside_the_handler(tmp_path: Path) -> None:
    info, wheel = "tried_missing-1.dist-info", tmp_path / "tried_missing-1-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("tried_missing.py", "")
        names = "Metadata-Version: 2.1\nName: tried-missing\nVersion: 1\n"
        kind = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        for name, text in {"METADATA": names, "WHEEL": kind, "RECORD": ""}.items():
            archive.writestr(f"{info}/{name}", text)
    (tmp_path / "app.py").write_text("import tried_missing\ndef handler(event, context): 1")
    work, local = named(f"{tmp_path}/app.py", tmp_path / "packages"), LocalAws(1, 1, 0, "")
    with pytest.raises(Failure, match="Install tried_missing"):
        work.check(local)
    (tmp_path / "requirements.txt").write_text(f"{wheel}\n")
    work.check(local)
    assert (tmp_path / "packages" / "tried_missing.py").exists()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give the folder of a handler, which is also that of its journal."""
    variables = {FILE: f"{tmp_path}/app.py", JOURNAL: str(tmp_path), "OUTPUT_BUCKET": "output"}
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    return tmp_path


def invoked(folder: Path, key: str, handle: Any) -> tuple[Any, list[Invocation]]:
    context = SimpleNamespace(get_remaining_time_in_millis=lambda: -5_000)
    payload = {"event": events.created(key), "fence": "newest"}
    try:
        answer = inside.observed(handle)(payload, context)
    except Exception as error:
        answer = type(error)
    return answer, verdict.journal(folder)


def test_the_journal_has_each_answer_and_each_error(folder: Path) -> None:
    def fail(*_: Any) -> None:
        raise ValueError("why")

    assert invoked(folder, "a", lambda *_: {"x": "é"})[0] == {"x": "é"}
    assert invoked(folder, "b", fail)[0] is ValueError
    answer, journal = invoked(folder, "c", lambda *_: {1})
    assert answer is TypeError
    assert [invocation.key for invocation in journal] == ["a", "b", "c"]
    assert [invocation.answer for invocation in journal] == ['{"x": "é"}', "", "{1}"]
    assert [invocation.error for invocation in journal] == ["", "ValueError: why", ""]
    assert all(invocation.seconds is not None for invocation in journal)


def test_only_a_keys_first_answer_is_lost_or_late(folder: Path) -> None:
    for how, first in ((FAILS, ConnectionError), (TIMES_OUT, 1)):  # it slept until after its end
        (folder / how).touch()
        answers = [invoked(folder, f"{how}/x", lambda *_: 1)[0] for _ in range(2)]
        assert answers == [first, 1]
    assert all(invocation.answer == "1" for invocation in verdict.journal(folder))


def test_an_invocation_stalls_before_it_writes_until_it_is_released(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = folder / "release"
    monkeypatch.setenv(RELEASE, str(release))
    # Who looks at the journal sees that it has stalled, and releases it.
    monkeypatch.setattr(time, "sleep", lambda _: release.touch())

    def work(*_: Any) -> None:
        for name in ("GetObject", "PutObject", "DeleteObject"):
            call("s3", name, Bucket="output")

    _, [invocation] = invoked(folder, "a", work)
    assert (invocation.stalled, invocation.elsewhere) == ("PutObject", ())


def call(service: str, name: str, **params: str) -> None:
    model = SimpleNamespace(name=name, service_model=SimpleNamespace(service_name=service))
    inside.before_call(model=model, params=params)


def test_the_journal_names_writes_that_go_elsewhere(folder: Path) -> None:
    def work(*_: Any) -> None:
        call("s3", "PutObject", Bucket="another")
        call("dynamodb", "GetItem")
        call("dynamodb", "BatchWriteItem")

    _, [invocation] = invoked(folder, "a", work)
    assert invocation.elsewhere == ["dynamodb:BatchWriteItem", "s3:PutObject"]
    _, journal = invoked(folder, "b", lambda *_: call("s3", "PutObject", Bucket="output"))
    assert journal[1].elsewhere == ()


def test_only_a_store_that_is_compared_counts_as_seen() -> None:
    assert unseen(invocation("1"), "a late write") is None
    finding = unseen(invocation("1", elsewhere=["dynamodb:BatchWriteItem"]), "a late write")
    assert finding
    assert finding.mark == "unknown"
    assert finding.text.startswith("k1: what a late write changed was not seen, ")


def test_a_handler_may_take_as_long_as_the_policy_waits() -> None:
    assert health._limits(policies.definition("latest-wins")) == [LONGEST_TIMEOUT]


def test_a_file_is_overwritten_by_another_one_of_its_kind() -> None:
    samples = [Sample(name, name.encode(), b"") for name in ("a.txt", "b.json", "c.txt")]
    assert [sample.new for sample in paired(samples)] == [b"c.txt", b"b.json", b"a.txt"]


def test_a_new_function_finds_the_fence_and_replaces_nothing(tmp_path: Path) -> None:
    new.create("my_work", tmp_path)
    *_, fence = (tmp_path / "my_work" / "requirements.txt").read_text().splitlines()
    assert (tmp_path / fence / "pyproject.toml").exists()
    for name in ("my_work", "MyWork", "../x", "import-me", "", "json", "class"):
        with pytest.raises(Failure):
            new.create(name, tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["my_work"]
