"""Work in a process of its own: what it gives, and how it ends when it takes too long or dies."""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterator
from functools import partial

import pytest
from PIL import Image

from inorder_fence.bounded_work import TooSlow, WorkCrashed, in_time
from inorder_fence.fenced_output import Result
from invert_image.inversion import InvalidImage, InvertedImage, invert
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


def bomb(file_format: str, scans: int = 100) -> bytes:
    """Give a valid picture of which Pillow's C code has work for half a second or more."""
    if file_format == "JPEG":  # each scan takes few bytes, and a pass over all pixels
        content = encoded(Image.new("L", (3000, 3000)), "JPEG", progressive=True)
        scan = content[content.rindex(b"\xff\xda") : -2]
        return content[:-2] + scans * scan + content[-2:]
    return encoded(noise(size=(1000, 1000)), "TIFF", compression="lzma")


@pytest.mark.parametrize("file_format", ["JPEG", "TIFF"])
def test_picture_that_takes_too_long_is_rejected(file_format: str) -> None:
    with pytest.raises(TooSlow, match=r"not done after 0.1 seconds"):
        in_time(invert_any, bomb(file_format), 0.1)


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
