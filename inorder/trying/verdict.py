"""What a trial has found out, in sentences; the answers are judged by docs/function.md."""

import json
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import psutil

from inorder.asl.size import MOST_BYTES
from inorder.trying.inside import LONGEST_TIMEOUT
from inorder.wording import counted

OUTCOMES = ("Processed", "Superseded", "Rejected")
SHOWN = 200  # characters
LEAST_SECONDS = 2 * 86_400  # EventBridge may deliver an event again for one day
EXAMPLE = "return seconds since 1970 as digits, such as str(int(time.time()) + 7 * 86_400)."


@dataclass(frozen=True)
class Finding:
    """One thing that the trial has found out, or could not."""

    mark: Literal["kept", "broken", "unknown"]
    text: str


@dataclass(frozen=True)
class Invocation:
    """What the journal has of an invocation."""

    id: str
    began: float  # in seconds since 1970
    process: int = 0
    alive: float = 0  # when its process was seen last, in seconds since 1970
    stalled: str = ""  # the call of AWS before which it stalled
    elsewhere: Sequence[str] = ()  # the calls of AWS that wrote, but not to the output bucket
    key: str = ""
    sequencer: str = ""
    seconds: float | None = None  # of the handler; None if it has not ended
    answer: str = ""  # as JSON, if that can write it
    error: str = ""

    @property
    def rejection(self) -> str:
        """Why the handler has rejected the event; "" if it has not."""
        answer = fields(self.answer) or {}
        is_rejected = answer.get("outcome") == "Rejected"
        return f"{answer.get('error')}: {answer.get('cause')}" if is_rejected else ""

    def fault(self, now: float, timeout: int) -> tuple[str, str]:
        """Say why it has no answer, and what to change; "" if it has one, or may have one yet."""
        if self.error:
            return f"The handler raises {self.error}.", "If no retry helps, answer Rejected."
        if self.seconds is not None or self.stalled:
            return "", ""
        # A process that is stopped at its timeout has lived longer.
        if self.alive < self.began + timeout / 2 and not is_running(self.process):
            return "The handler has ended its process.", "Return an answer, or raise an exception."
        if now < self.began + timeout:
            return "", ""
        return (
            f"The handler has not answered after the {timeout} s of its timeout.",
            f"Give it more seconds, up to {LONGEST_TIMEOUT}, by --timeout and in its template;"
            " or let it reject what takes longer.",
        )


def is_running(process: int) -> bool:
    """Tell whether a process has not ended."""
    with suppress(psutil.NoSuchProcess):
        return bool(psutil.Process(process).status() != psutil.STATUS_ZOMBIE)
    return False


def journal(folder: Path) -> list[Invocation]:
    """Read the journal, the invocation that began first at the beginning."""
    alive = {file.stem: file.stat().st_mtime for file in folder.glob("*.alive")}
    written = (json.loads(file.read_text()) for file in folder.glob("*.json"))
    invocations = (Invocation(**entry, alive=alive.get(entry["id"], 0)) for entry in written)
    return sorted(invocations, key=lambda invocation: invocation.began)


def answers(invocations: Sequence[Invocation]) -> list[Finding]:
    """Judge all answers; each way to break the contract is named once, with its first key."""
    answered = [invocation for invocation in invocations if invocation.answer]
    keys: dict[str, str] = {}
    for invocation in answered:
        if wrong := broken(invocation.answer, invocation.began):
            keys.setdefault(wrong, invocation.key)
    if keys or not answered:
        return [Finding("broken", f"{key}: {wrong}") for wrong, key in keys.items()]
    return [
        Finding("kept", f"{counted(len(answered), 'invocation')} answered as the contract says.")
    ]


def faults(invocations: Sequence[Invocation], now: float, timeout: int) -> list[Finding]:
    """Tell which faults a retry has mended, as it does in a stack."""
    keys: dict[str, str] = {}
    answered = {run.sequencer: run.began for run in invocations if run.answer}
    for run in invocations:
        fault, _ = run.fault(now, timeout)
        if fault and run.began < answered.get(run.sequencer, 0):
            keys.setdefault(fault, run.key)
    return [Finding("kept", f"{key}: {fault} A retry helped.") for fault, key in keys.items()]


def fields(text: str) -> dict[str, Any] | None:
    """Read an answer; None if it is no JSON object."""
    with suppress(ValueError):
        answer = json.loads(text)
        return answer if isinstance(answer, dict) else None
    return None


def broken(text: str, now: float) -> str:
    """Say how an answer breaks the contract and what to change; "" if it keeps it."""
    if (size := len(text.encode())) > MOST_BYTES:
        most = f"a state takes {MOST_BYTES:,}: return the outcome, and write what is large to S3."
        return f"The answer has {size:,} bytes, and {most}"
    answer = fields(text)
    if answer is None or answer.get("outcome") not in OUTCOMES:
        shown = text if len(text) <= SHOWN else f"{text[:SHOWN]} ..."
        wanted = f"an outcome, which is one of {', '.join(OUTCOMES)}"
        return f"The answer is not JSON with {wanted}. It is {shown}"
    expiry = answer.get("expires_at")
    if not isinstance(expiry, str) or not re.fullmatch("[0-9]{1,38}", expiry):
        return f"expires_at is {json.dumps(expiry)}, and no text of digits: {EXAMPLE}"
    if int(expiry) < now + LEAST_SECONDS:
        return f"expires_at is {expiry}, less than two days from now: {EXAMPLE}"
    missing = [name for name in ("error", "cause") if not isinstance(answer.get(name), str)]
    if answer["outcome"] == "Rejected" and missing:
        return f"The outcome is Rejected without the text {' and '.join(missing)}: say why."
    return ""
