"""Work in a process of its own: what it gives, how it ends, and how much memory it takes."""

import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import Mock

import psutil
import pytest
from PIL import Image

from inorder import PROJECT
from inorder.aws.executions import wait_until
from inorder_fence import bounded_work, worker
from inorder_fence.bounded_work import TooSlow, WorkCrashed, in_time
from invert_image.inversion import InvalidImage, invert
from tests.support import work
from tests.support.resolved_template import template
from tests.unit.test_inversion import encoded, noise

LONG = 600.0  # seconds, which no work here takes on any machine
invert_any = partial(invert, maximum_pixels=10**9)


@pytest.fixture(autouse=True)
def no_process_is_left() -> Iterator[None]:
    before = set(psutil.Process().children())
    yield
    for process in bounded_work._idle.values():
        process.end()
    bounded_work._idle.clear()
    assert set(psutil.Process().children()) <= before


def done(does: Any, content: Any, seconds: float = LONG) -> Any:
    """Do any work of any content."""
    return in_time(does, content, seconds)


def is_running(number: int) -> bool:
    with suppress(psutil.NoSuchProcess):
        return psutil.Process(number).status() != psutil.STATUS_ZOMBIE
    return False


def request(does: Any, content: Any, seconds: float) -> bytes:
    return pickle.dumps((sys.path, pickle.dumps(does), content, seconds))


def test_result_is_that_of_the_work() -> None:
    content = encoded(noise(size=(300, 300)), "PNG")  # more than a pipe holds at once
    assert in_time(invert_any, content, LONG) == invert_any(content)


def bomb(scans: int = 100) -> bytes:
    """Give a valid picture of which Pillow's C code has work for half a second or more.

    Each scan takes few bytes, and a pass over all pixels.
    """
    content = encoded(Image.new("L", (3000, 3000)), "JPEG", progressive=True)
    scan = content[content.rindex(b"\xff\xda") : -2]
    return content[:-2] + scans * scan + content[-2:]


@pytest.mark.parametrize(("slow", "content"), [(invert_any, bomb()), (time.sleep, LONG)])
def test_work_that_takes_too_long_is_rejected(slow: Any, content: Any) -> None:
    before = done(work.process_id, b"")
    with pytest.raises(TooSlow, match=r"not done after 0.1 seconds") as _raised:
        done(slow, content, 0.1)
    assert not is_running(before)
    assert done(bytes, b"next") == b"next"


@pytest.mark.parametrize(
    ("crash", "content", "text"),
    [
        *((signal.raise_signal, each, rf"Signal {each} \(\w") for each in (9, 11)),
        (work.hang_up, b"", r"Signal 1 \(\w"),
        *((os._exit, each, f"status {each}") for each in (0, 3)),
        *((sys.exit, each, f"status {code}") for each, code in ((3, 3), (None, 0), ("a", 1))),
    ],
)
def test_work_that_ends_its_process_is_rejected(crash: Any, content: Any, text: str) -> None:
    with pytest.raises(WorkCrashed, match=text):
        done(crash, content)


@pytest.mark.parametrize(
    ("fails", "kind", "name", "text"),
    [
        (invert_any, InvalidImage, "InvalidImage", "The file is text"),
        (work.bad_row, work.BadRow, "BadRow", "row 7, column 3"),
        (work.worse_row, work.BadRow, "WorseRow", "row 7, column 3"),
        (bytes.decode, UnicodeDecodeError, "UnicodeDecodeError", "can't decode byte"),
        (memoryview, TypeError, "TypeError", "pickle"),
        (partial(done, bytes), RuntimeError, "RuntimeError", "inside in_time"),
    ],
)
def test_error_of_the_work_is_raised_by_its_name_kind_and_text(
    fails: Any, kind: type[Exception], name: str, text: str
) -> None:
    before = done(work.process_id, b"")
    with pytest.raises(kind, match=text) as raised:
        done(fails, b"\xff")
    assert type(raised.value).__name__ == name
    assert not is_running(before)


def test_the_process_answers_and_has_a_time_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Here in this process, so that a mutant of its code is noticed."""

    def answer(does: Any, content: Any) -> Any:
        connection = Mock()
        for ends in (EOFError, ConnectionError):
            connection.recv_bytes.side_effect = [request(does, content, 3), ends]
            worker.serve(connection)
        begun, answered = (each.args[0] for each in connection.send_bytes.mock_calls[:2])
        assert begun == b""
        return pickle.loads(answered)  # noqa: S301

    timer, end = Mock(), Mock(side_effect=KeyboardInterrupt)
    monkeypatch.setattr(signal, "setitimer", timer)
    monkeypatch.setattr(os, "_exit", end)
    assert answer(bytes, b"x") == (b"x", None)
    assert [each.args[1] for each in timer.mock_calls] == [6, 0, 6, 0]
    kind, *named = answer(work.worse_row, b"")[1]
    assert (pickle.loads(kind), named) == (work.BadRow, ["WorseRow", "row 7, column 3"])  # noqa: S301
    for code in (3, None, "a"):
        with pytest.raises(KeyboardInterrupt):
            answer(sys.exit, code)
    assert [int(each.args[0]) for each in end.mock_calls] == [3, 0, 1]


def test_a_process_does_the_work_of_many_contents(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_work, "MOST_CONTENTS", 3)
    first, *later = (done(work.process_id, b"") for _ in range(4))
    assert [each == first for each in later] == [True, True, False]


def test_a_crash_counts_only_in_a_new_process() -> None:
    """It may have died while it waited, and what was done before may have damaged it."""
    os.kill(done(work.process_id, b""), signal.SIGKILL)
    for content in (b"1", b"2"):
        assert done(work.fails_the_second_time, content) == content


def test_a_call_that_breaks_off_leaves_no_answer_for_the_next_one() -> None:
    done(bytes, b"")
    with pytest.raises(TypeError):
        in_time(bytes, b"first", "x")  # type: ignore[arg-type]
    assert done(bytes, b"next") == b"next"


def test_work_that_its_process_cannot_import_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("only_here")
    exec("def does(content): return content", module.__dict__)  # noqa: S102
    monkeypatch.setitem(sys.modules, "only_here", module)
    with pytest.raises(ModuleNotFoundError, match="only_here"):
        done(module.does, b"")


def test_work_may_not_start_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Here in this process, so that a mutant of its code is noticed."""
    monkeypatch.setenv(worker.IS_WORKER, "1")
    with pytest.raises(RuntimeError, match="inside in_time"):
        done(bytes, b"")


CALLS_IT_ON_IMPORT = """
import os
from inorder_fence import in_time
def does(content): return content
os.environ["IMPORTS"] += "x"
assert os.environ["IMPORTS"] != "xxx", "each process would start another one, without end"
in_time(does, b"", 60)
"""


def test_a_module_that_is_imported_for_the_work_may_not_start_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IMPORTS", "")
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "calls_it_on_import.py").write_text(CALLS_IT_ON_IMPORT)
    with pytest.raises(RuntimeError, match="call it in the handler"):
        import_module("calls_it_on_import")


def test_a_process_that_does_not_start_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(ConnectionError, match="status 1"):
        done(bytes, b"")


def test_calls_of_several_threads_get_their_own_answers() -> None:
    contents = [b"%d" % number for number in range(50)]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(partial(done, bytes), contents)) == contents


def test_what_the_work_has_started_ends_with_it(tmp_path: Path) -> None:
    with ThreadPoolExecutor() as pool:
        call = pool.submit(done, work.starts_another, str(tmp_path))
        file = tmp_path / "started"
        wait_until(file.exists, LONG, "the work")
        process, program = (int(each) for each in file.read_text().split())
        os.kill(process, signal.SIGKILL)
        with pytest.raises(WorkCrashed, match="Signal 9 "):
            call.result()
    wait_until(lambda: not is_running(program), LONG, "the program to end")


def test_the_process_ends_without_the_one_that_has_started_it() -> None:
    """When that dies, its end of the connection is closed, and nobody else stops the work."""
    waits, works = bounded_work._Process(), bounded_work._Process()
    waits._connection.close()
    assert waits._process.wait() == 0
    works._connection.send_bytes(request(time.sleep, LONG, 0.1))
    assert works._process.wait() == -signal.SIGALRM


def test_a_fork_neither_asks_nor_ends_its_parents_process(monkeypatch: pytest.MonkeyPatch) -> None:
    parents = done(work.process_id, b"")
    [(owner, process)] = bounded_work._idle.items()
    with monkeypatch.context() as fork:
        fork.setattr(os, "getpid", lambda: -1)
        assert done(work.process_id, b"") != parents
        bounded_work._idle.pop(-1).end()
        bounded_work._end(process._process, owner)
    assert done(work.process_id, b"") == parents


def run(code: str, folder: Path, *arguments: str) -> str:
    """Run a program of Python's in a folder, and give what it prints."""
    return subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "-c", code, *arguments],
        cwd=folder,
        check=True,
        capture_output=True,
        text=True,
    ).stdout


def test_windows_imports_the_fence_and_hears_what_it_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    run("import os; del os.fork, os.killpg\nimport inorder_fence", PROJECT / "functions")
    monkeypatch.delattr(os, "killpg")
    with pytest.raises(NotImplementedError, match="needs Linux, macOS or WSL"):
        done(bytes, b"")


# Prints the bytes of memory that the work, and the process that receives its result, need at most.
MEASURE = """
import resource, sys
from functools import partial
from importlib import import_module
from pathlib import Path
from inorder_fence import in_time
from invert_image.inversion import invert
content, work = Path(sys.argv[1]).read_bytes(), partial(invert, maximum_pixels=10**9)
most = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
before = most()
in_time(work, content, 60)
of_this_process = most() - before
work(content)
print(of_this_process + most() - before)
"""


@pytest.mark.parametrize("file_format", ["JPEG", "PNG", "WEBP", "lossless WEBP"])
def test_the_largest_image_fits_into_the_functions_memory(tmp_path: Path, file_format: str) -> None:
    """Measure a part of the pixels: memory is proportional to them."""
    side = 1000
    noise = Image.effect_noise((side, side), 100).convert("RGB")
    file = tmp_path / "image"
    lossless = file_format.startswith("lossless")
    options = {"lossless": True, "method": 0, "quality": 20} if lossless else {}
    noise.save(file, file_format.removeprefix("lossless "), **options)
    measured = run(MEASURE, PROJECT / "functions", str(file))
    parameters = template()["Parameters"]
    function = template()["Resources"]["InvertImageFunction"]["Properties"]
    largest = parameters["MaximumPixels"]["Default"] / side**2 * int(measured)
    source = int(function["Environment"]["Variables"]["MAXIMUM_BYTES"])
    of_the_rest = 170 * 2**20  # Python in both processes, boto3, and what Lambda itself needs
    memory = parameters["FunctionMemorySize"]["Default"] * 2**20
    assert largest + source + of_the_rest < memory
