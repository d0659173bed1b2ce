"""What a work function may answer: docs/function.md, as a check of one answer."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from typing import Any

from inorder.asl.size import MOST_BYTES

OUTCOMES = ("Processed", "Superseded", "Rejected")
SHOWN = 200  # characters
LEAST_SECONDS = 2 * 86_400  # EventBridge may deliver an event again for one day
EXAMPLE = "return seconds since 1970 as digits, such as str(int(time.time()) + 7 * 86_400)."


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
