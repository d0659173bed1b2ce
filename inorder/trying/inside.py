"""Runs in the local function, around the handler of one's own.

Each invocation writes to the journal what the handler answered, and after how many seconds. The
answers to some keys get lost or come too late, and some invocations stall before they write.
"""

import json
import os
import sys
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
READS = ("BatchGet", "Describe", "Get", "Head", "List", "Query", "Scan", "Select")

Handler = Callable[[Any, Any], Any]


def load() -> Handler:
    """Import the handler that the environment names, from its folder; AttributeError without it."""
    file = Path(os.environ[FILE])
    sys.path[:0] = [str(file.parent), os.environ[PACKAGES]]
    found: Handler = getattr(import_module(file.stem), os.environ[FUNCTION])
    return found


def deployed() -> Handler:
    """Give what the local AWS invokes."""
    if RELEASE in os.environ:
        # Before the handler's module makes a client: each session copies them.
        import botocore.handlers  # noqa: PLC0415

        botocore.handlers.BUILTIN_HANDLERS.append(("before-call", stall))
    return observed(load()) if JOURNAL in os.environ else load()


def observed(handle: Handler) -> Handler:
    """Let a handler write to the journal, and lose answers as the trial says."""

    def handler(payload: Any, context: Any) -> Any:
        described = payload["event"]["detail"]["object"]
        _entry.clear()
        _write(id=str(uuid4()), began=time.time(), stalled="")
        _write(key=described["key"], sequencer=described["sequencer"])
        began = time.monotonic()
        try:
            answer = handle(payload, context)
        except Exception as error:
            _write(seconds=time.monotonic() - began, error=_said(error))
            raise
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


def _write(**more: Any) -> None:
    """Add to the entry of this invocation; without `seconds`, the handler has not ended."""
    _entry.update(more)
    file = Path(os.environ[JOURNAL], f"{_entry['id']}.json")
    written = file.with_suffix(".new")
    written.write_text(json.dumps(_entry))
    written.rename(file)


def stall(model: Any, **_: Any) -> None:
    """Stall before a call of AWS that writes, until the trial goes on."""
    release = Path(os.environ[RELEASE])
    if _entry and not release.exists() and not model.name.startswith(READS):
        _write(stalled=model.name)
        while not release.exists():
            time.sleep(0.05)


def why_not() -> dict[str, Any]:
    """Say why the handler cannot be loaded; empty if it can."""
    try:
        load()
    except Exception as error:
        wrong: dict[str, Any] = {"said": _said(error)}
        if isinstance(error, ModuleNotFoundError):
            wrong["module"] = error.name
        return wrong
    return {}


def _said(error: BaseException) -> str:
    """Say what an error is, and in which line of the handler's folder it was raised."""
    folder = Path(os.environ[FILE]).parent
    frames = traceback.extract_tb(error.__traceback__)
    own = [each for each in frames if Path(each.filename).is_relative_to(folder)]
    place = f" ({Path(own[-1].filename).name}, line {own[-1].lineno})" if own else ""
    return f"{type(error).__name__}: {error}{place}"


if __name__ == "__main__":
    sys.stdout.write(f"\n{json.dumps(why_not())}")  # below what the module prints
