"""Lambda handler: names an event by what it says: JSONPath can neither sort keys nor tell times."""

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
    context : LambdaContext
        Lambda's.

    Returns
    -------
    dict
        ``hash``, and in seconds since 1970 as text ``now`` and ``expires_at``, the time until which
        the table keeps the record.
    """
    now = int(time.time())
    return {
        "hash": hashlib.sha256(canonical_json(event["detail"])).hexdigest(),
        "now": str(now),
        "expires_at": str(now + RECORD_RETENTION_SECONDS),
    }


def canonical_json(value: Any) -> bytes:
    """Write a value as everybody who means the same would.

    Keys are sorted, white space is left out, 1.0 is 1, and each text has one spelling, in UTF-8.
    Equal to RFC 8785 but for integers beyond 2**53, which keep all their digits, for fractions that
    Python writes with an exponent, and for the order of keys with characters beyond U+FFFF. What
    the parser drops, such as the first of two equal keys or a float's 18th digit, is not seen.

    Parameters
    ----------
    value : object
        What a JSON text was parsed to.

    Raises
    ------
    ValueError
        A number is too large for a float: its digits are lost, so it could equal another one.
    """
    whole = json.loads(json.dumps(value), parse_float=_number)
    text = json.dumps(
        whole, ensure_ascii=False, allow_nan=False, separators=(",", ":"), sort_keys=True
    )
    return text.encode(errors="surrogatepass")  # JSON may escape half a character


def _number(text: str) -> int | float:
    number = float(text)
    return int(number) if number.is_integer() else number
