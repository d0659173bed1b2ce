"""Runs in the local function, around the handler of one's own.

Each invocation writes to the journal what the handler answered, after how many seconds, and to
which stores it has written. The answers to some keys get lost or come too late, and some
invocations stall before they write.
"""

import json
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any
from uuid import uuid4

FILE, FUNCTION, PACKAGES = "INORDER_FILE", "INORDER_FUNCTION", "INORDER_PACKAGES"
JOURNAL, RELEASE = "INORDER_JOURNAL", "INORDER_RELEASE"
FAILS, TIMES_OUT = "fails", "times-out"  # the first parts of the keys whose first answer is lost
BEAT_SECONDS = 0.5
LONGEST_TIMEOUT = 110  # of a function that the shipped policies invoke: docs/function.md
READS = (
    *("AssumeRole", "BatchGet", "Decrypt", "Describe", "Get", "Head", "List", "Query", "Scan"),
    "Select",
)

Handler = Callable[[Any, Any], Any]


def load() -> Handler:
    """Import the handler that the environment names, from its folder; AttributeError without it."""
    file = Path(os.environ[FILE])
    sys.path[:0] = [str(file.parent), os.environ[PACKAGES]]
    handler: Handler = getattr(import_module(file.stem), os.environ[FUNCTION])
    if not callable(handler):
        raise TypeError(f"{os.environ[FUNCTION]} is no function")
    return handler


def deployed() -> Handler:
    """Give what the local AWS invokes."""
    if JOURNAL not in os.environ:
        return load()
    # Before the handler's module makes a client: each session copies them.
    import botocore.handlers  # noqa: PLC0415

    botocore.handlers.BUILTIN_HANDLERS.append(("before-parameter-build", before_call))
    return observed(load())


def observed(handle: Handler) -> Handler:
    """Let a handler write to the journal, and lose answers as the trial says."""

    def handler(payload: Any, context: Any) -> Any:
        described = payload["event"]["detail"]["object"]
        _entry.clear()
        _entry.update(id=str(uuid4()), began=time.time(), process=os.getpid())
        alive, ended = _file(".alive"), threading.Event()
        alive.touch()
        _write(key=described["key"], sequencer=described["sequencer"])
        threading.Thread(target=_beat, args=(alive, ended), daemon=True).start()
        began = time.monotonic()
        try:
            answer = handle(payload, context)
        except BaseException as error:  # also a sys.exit
            _write(seconds=time.monotonic() - began, error=_described(error))
            raise
        finally:
            ended.set()
        try:
            text = json.dumps(answer, ensure_ascii=False)  # as Lambda does
        except (TypeError, ValueError):
            text = repr(answer)
            raise
        finally:
            _write(seconds=time.monotonic() - began, answer=text)
        how, _, _ = described["key"].partition("/")
        mark = Path(os.environ[JOURNAL], how)
        with suppress(FileNotFoundError):  # as this is not the first answer, or not to be lost
            mark.rename(mark.with_suffix(".done"))
            if how == FAILS:
                raise ConnectionError("inorder try lets this answer get lost.")
            time.sleep(context.get_remaining_time_in_millis() / 1000 + 5)
        return answer

    return handler


_entry: dict[str, Any] = {}  # of the journal; a process has one invocation at a time


def _file(suffix: str) -> Path:
    return Path(os.environ[JOURNAL], f"{_entry['id']}{suffix}")


def _write(**more: Any) -> None:
    """Add to the entry of this invocation; without `seconds`, the handler has not ended."""
    _entry.update(more)
    written = _file(".new")
    written.write_text(json.dumps(_entry))
    written.rename(_file(".json"))


def _beat(file: Path, ended: threading.Event) -> None:
    """Touch a file again and again, so that its time tells when a process ended."""
    while not ended.wait(BEAT_SECONDS):
        file.touch()


def before_call(model: Any, params: Any, **_: Any) -> None:
    """Note a call of AWS that writes; stall before it until the trial goes on, if it says so."""
    if not _entry or model.name.startswith(READS):
        return
    service = model.service_model.service_name
    if service != "s3" or params.get("Bucket") != os.environ["OUTPUT_BUCKET"]:
        _write(elsewhere=sorted({*_entry.get("elsewhere", []), f"{service}:{model.name}"}))
    release = Path(os.environ[RELEASE]) if RELEASE in os.environ else None
    if release and not release.exists():
        _write(stalled=model.name)
        while not release.exists():
            time.sleep(0.05)


def why_not() -> dict[str, Any]:
    """Say why the handler cannot be loaded; empty if it can."""
    try:
        load()
    except (Exception, SystemExit) as error:
        wrong: dict[str, Any] = {"error": _described(error)}
        if isinstance(error, ModuleNotFoundError):
            wrong["module"] = error.name
        return wrong
    return {}


def _described(error: BaseException) -> str:
    """Say what an error is, and in which line of the handler's folder it was raised."""
    folder = Path(os.environ[FILE]).parent
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if Path(frame.filename).is_relative_to(folder)]
    place = f" ({Path(own[-1].filename).name}, line {own[-1].lineno})" if own else ""
    return f"{type(error).__name__}: {error}{place}"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(json.dumps(why_not()))  # the module may print what it likes
