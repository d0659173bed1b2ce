"""Work in a process of its own: what it gives, how it ends, and how much memory it takes."""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from PIL import Image

from inorder import PROJECT
from inorder_fence.bounded_work import TooSlow, WorkCrashed, in_time
from inorder_fence.fenced_output import Result
from invert_image.inversion import InvalidImage, InvertedImage, invert
from tests.support.resolved_template import template
from tests.unit.test_inversion import encoded, noise

LONG = 60.0  # seconds, which no work here takes on any machine
invert_any = partial(invert, maximum_pixels=10**9)


@pytest.fixture(autouse=True)
def no_process_is_left() -> Iterator[None]:
    yield
    assert not multiprocessing.active_children()


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


def test_picture_that_takes_too_long_is_rejected() -> None:
    with pytest.raises(TooSlow, match=r"not done after 0.1 seconds"):
        in_time(invert_any, bomb(), 0.1)


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGSEGV, signal.SIGKILL])
def test_work_that_a_signal_kills_is_rejected(number: int) -> None:
    def crash(_content: bytes) -> Result:
        faulthandler.disable()  # pytest's would print all frames
        if number != signal.SIGKILL:
            signal.signal(number, signal.SIG_DFL)  # nohup ignores SIGHUP
        os.kill(os.getpid(), number)
        time.sleep(LONG)
        raise AssertionError

    with pytest.raises(WorkCrashed, match=f"Signal {number:d} "):
        in_time(crash, b"", LONG)


def fails(_content: bytes) -> Result:
    raise InvalidImage("too large")


def ends_its_process(content: bytes) -> Result:
    os._exit(len(content))


def cannot_be_pickled(_content: bytes) -> Result:
    return InvertedImage(b"", lambda: "")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("work", "content", "error", "text"),
    [
        (fails, b"", InvalidImage, "too large"),
        # Without a signal or a result, it is a fault.
        (ends_its_process, b"", EOFError, None),
        (ends_its_process, b"1", EOFError, None),
        (cannot_be_pickled, b"", AttributeError, "pickle"),
    ],
)
def test_error_of_the_work_is_raised(
    work: Callable[[bytes], Result], content: bytes, error: type[Exception], text: str | None
) -> None:
    with pytest.raises(error, match=text):
        in_time(work, content, LONG)


def test_work_that_never_ends_is_ended() -> None:
    def never_ends(_content: bytes) -> Result:
        while True:
            time.sleep(LONG)

    with pytest.raises(TooSlow):
        in_time(never_ends, b"", 0.1)


def test_a_call_names_what_a_machine_lacks_that_cannot_fork(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(multiprocessing, "get_all_start_methods", lambda: ["spawn"])
    with pytest.raises(NotImplementedError, match="it needs Linux, macOS or WSL"):
        in_time(fails, b"", LONG)


def test_the_fence_is_imported_on_a_machine_that_cannot_fork() -> None:
    code = "import multiprocessing as m; m.get_context = None; import inorder_fence"
    subprocess.run([sys.executable, "-c", code], check=True)  # noqa: S603 - our own interpreter


# Prints the bytes of memory that the work, and the process that receives its result, need at most.
MEASURE = """
import resource, sys
from functools import partial
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
    measured = subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "-c", MEASURE, str(file)],
        cwd=PROJECT / "functions",
        check=True,
        capture_output=True,
        text=True,
    )
    parameters = template()["Parameters"]
    function = template()["Resources"]["InvertImageFunction"]["Properties"]
    largest = parameters["MaximumPixels"]["Default"] / side**2 * int(measured.stdout)
    source = int(function["Environment"]["Variables"]["MAXIMUM_BYTES"])
    of_the_rest = 150 * 2**20  # Python, boto3 and what Lambda itself needs
    memory = parameters["FunctionMemorySize"]["Default"] * 2**20
    assert largest + source + of_the_rest < memory
