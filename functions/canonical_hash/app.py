"""Lambda handler: hashes an event's content, whatever the order of its fields.

JSONPath can neither sort keys nor compute times, so the state machine calls this function.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from typing import Any

RECORD_RETENTION_SECONDS = int(os.environ["RECORD_RETENTION_DAYS"]) * 86_400


def handler(event: dict[str, Any], context: Any) -> dict[str, str]:  # noqa: ARG001
    """Hash an event's detail.

    Parameters
    ----------
    event : dict
        ``detail``: any JSON.

    Returns
    -------
    dict
        ``hash``; ``now``; and ``expires_at``, the time until which the table keeps the record. Both
        times are seconds since 1970, as text.
    """
    now = int(time.time())
    return {
        "hash": hashlib.sha256(canonical_json(event["detail"])).hexdigest(),
        "now": str(now),
        "expires_at": str(now + RECORD_RETENTION_SECONDS),
    }


def canonical_json(value: Any) -> bytes:
    """Write a value as JSON, always with the same bytes for equal values.

    Keys are sorted, there is no white space, 1.0 is 1, and each text has one spelling, in UTF-8.
    This is RFC 8785 with three exceptions: integers beyond 2**53 keep all their digits, Python
    writes some fractions with an exponent, and keys with characters beyond U+FFFF are sorted
    differently. Differences that a parser drops do not count, such as the first of two equal keys
    or the 18th digit of a fraction.

    Raises
    ------
    ValueError
        A number is too large for a float: its digits are lost, so two such numbers would be equal.
    """
    whole = json.loads(json.dumps(value), parse_float=_number)
    text = json.dumps(
        whole, ensure_ascii=False, allow_nan=False, separators=(",", ":"), sort_keys=True
    )
    return text.encode(errors="surrogatepass")  # JSON may escape half a character


def _number(text: str) -> int | float:
    number = float(text)
    return int(number) if number.is_integer() else number
