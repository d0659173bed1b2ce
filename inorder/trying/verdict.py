"""What a trial has found out, in sentences."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from inorder.trying import contract


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
    stalled: str  # the call of AWS before which it stalled
    key: str = ""
    sequencer: str = ""
    seconds: float | None = None  # of the handler; None if it has not ended
    answer: str = ""  # as JSON, if that can write it
    error: str = ""

    @property
    def rejection(self) -> str:
        """Why the handler has rejected the event; "" if it has not."""
        answer = contract.fields(self.answer) or {}
        is_rejected = answer.get("outcome") == "Rejected"
        return f"{answer.get('error')}: {answer.get('cause')}" if is_rejected else ""

    def broken(self, now: float, timeout: int) -> str:
        """Say how it breaks the contract and what to change; "" if it does not, or not yet."""
        if self.seconds is None:
            if self.stalled or now < self.began + timeout:
                return ""
            return (
                f"The handler has not answered after the {timeout} s of its timeout, so the event"
                " would be retried for a day. Give it more seconds, up to 60, by --timeout and in"
                " its template; or let it reject what takes longer."
            )
        if self.error:
            return (
                f"The handler raises {self.error}. Such an event is retried for a day: if no retry"
                " can help, answer Rejected."
            )
        return contract.broken(self.answer, self.began)


def journal(folder: Path) -> list[Invocation]:
    """Read the journal, the invocation that began first at the beginning."""
    written = (json.loads(file.read_text()) for file in folder.glob("*.json"))
    return sorted((Invocation(**each) for each in written), key=lambda each: each.began)


def answers(invocations: Sequence[Invocation], now: float, timeout: int) -> Finding:
    """Judge all answers; the first that breaks the contract is named."""
    for each in invocations:
        if broken := each.broken(now, timeout):
            return Finding("broken", f"{each.key}: {broken}")
    return Finding("kept", f"{len(invocations)} invocations answered as the contract says.")
