"""The event that repairs an output: newer than all that is known, older than all that comes.

A listing has no sequencer, and a repair needs one. It takes the highest one that is known for the
object, from the record and the output, and makes it longer::

    006A0F5FCE2D7F28B1                                    the newest event that is known
    006A0F5FCE2D7F28B1000000000000001960AA3B2F4C79B2CF535  its repair

The repair has the known one, padded to 32 digits, then the time, then a hash of the source's ETag.
A shorter sequencer counts as if zeros followed, so the repair is newer than the event. Every later
event of S3 differs from the known one within its digits, so it is newer than the repair. The time
makes a later repair newer; if a clock is wrong, a repair is still newer than those that it knows
of. The hash keeps apart what two audits repair in the same millisecond. Without a known event, the
first 32 digits are zeros.

The source is read after the record and the output. Thus it is at least as new as every event that
the repair supersedes. If it changes later, the fence refuses the repair, because its ETag no longer
fits, and the event of that change is newer. tests/proof/simulation/test_repairs.py tries this.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import cmp_to_key
from hashlib import sha256
from typing import Any

from inorder.audit.comparing import Reading, Scope, version_of
from inorder_fence.fenced_output import compare_sequencers
from inorder_fence.object_event import REPAIR_SOURCE, is_sequencer

# S3 documents no length. Its sequencers have 16 or 18 digits.
# https://docs.aws.amazon.com/AmazonS3/latest/userguide/notification-content-structure.html
DIGITS, TIME_DIGITS, HASH_DIGITS = 32, 12, 8
_REPAIR = re.compile(f".{{{DIGITS}}}([0-9A-F]{{{TIME_DIGITS}}})[0-9A-F]{{{HASH_DIGITS}}}")


def known_sequencer(reading: Reading) -> str:
    """Give the highest sequencer that is known of a subject, or "" if none is.

    What is no sequencer does not count: whoever may write to the table or the bucket may forge one.
    The output's sequencer does not count if the bucket has versions: another version's event may
    have written it, and their sequencers do not compare. The fence does not compare them either.
    """
    written_in, output = [reading.record], reading.output.metadata
    if not version_of(reading.subject, reading.source) and "source-version-id" not in output:
        written_in.append(output)
    sequencers = [fields.get("sequencer", "") for fields in written_in]
    return max(filter(is_sequencer, sequencers), key=cmp_to_key(compare_sequencers), default="")


def next_sequencer(highest: str, milliseconds: int, etag: str) -> str:
    """Make the sequencer of a repair: of the highest known one, the time since 1970, the ETag."""
    base, last = highest.ljust(DIGITS, "0"), 0
    if repaired_at(highest):
        base, last = highest[:DIGITS], int(highest[DIGITS:-HASH_DIGITS], 16)
    hashed = sha256(etag.encode()).hexdigest()[:HASH_DIGITS].upper()
    return f"{base}{max(milliseconds, last + 1):0{TIME_DIGITS}X}{hashed}"


def repaired_at(sequencer: str | None) -> datetime | None:
    """Tell when a repair was made; None if the sequencer is not a repair's.

    A forged event or output may have any text, also one of this length.
    """
    repair = _REPAIR.fullmatch(sequencer or "")
    try:
        return datetime.fromtimestamp(int(repair[1], 16) / 1000, UTC) if repair else None
    except (OSError, OverflowError, ValueError):  # as far away as no clock shows
        return None


def repair_event(scope: Scope, reading: Reading, now: datetime) -> dict[str, Any]:
    """Make the event of a repair, which the state machine takes as one of S3's.

    Without a source it is a deletion, after which the fence makes the output what the source says.
    """
    source, subject = reading.source, reading.subject
    milliseconds, etag = int(now.timestamp() * 1000), source.etag if source else ""
    sequencer = next_sequencer(known_sequencer(reading), milliseconds, etag)
    described = {"key": subject.key, "sequencer": sequencer}
    if source:
        described["etag"] = etag
    if version := version_of(subject, source):
        described["version-id"] = version
    return {
        "source": REPAIR_SOURCE,
        "detail-type": "Object Created" if source else "Object Deleted",
        "time": now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "detail": {"bucket": {"name": scope.bucket}, "object": described},
    }
