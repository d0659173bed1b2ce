"""The event that repairs an output: newer than all that is known, older than all that comes.

A listing has no sequencer, and a repair needs one. It takes the highest one that is known for the
object, from the record and the output, and makes it longer::

    006A0F5FCE2D7F28B1                              the newest event that is known
    006A0F5FCE2D7F28B10000000000000001960AA3B2F4C7  its repair: padded to 32 digits, then the time

A shorter sequencer counts as if zeros followed. So the repair is newer than the event. Every later
event of S3 differs from the known one within its digits, so it is newer than the repair. The time
distinguishes repairs, and makes a later one newer; if a clock is wrong, a repair is still newer
than those that it knows of. Without a known event, the first 32 digits are zeros.

The source is read after the record and the output. Thus it is at least as new as every event that
the repair supersedes. If it changes later, the fence refuses the repair, because its ETag no longer
fits, and the event of that change is newer. tests/proof/model searches this.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from audit_keys.comparing import Reading
from inorder_fence.fenced_output import compare_sequencers

SOURCE = "inorder.repair"  # of the event; S3's events have aws.s3
# S3 documents no length. Its sequencers have 16 or 18 digits.
# https://docs.aws.amazon.com/AmazonS3/latest/userguide/notification-content-structure.html
DIGITS, TIME_DIGITS = 32, 12


def known_sequencer(reading: Reading) -> str:
    """Give the highest sequencer that is known of a subject, or "" if none is.

    An output of another version does not count, because sequencers of two versions do not compare.
    """
    source = reading.source
    version = source.object_id[0] if source else reading.subject.version_id
    known = reading.record.get("sequencer", "")
    if reading.output.metadata.get("source-version-id") == version:
        of_output = reading.output.metadata.get("sequencer", "")
        known = of_output if compare_sequencers(of_output, known) > 0 else known
    return known


def next_sequencer(known: str, milliseconds: int) -> str:
    """Make the sequencer of a repair from the highest known one and the time since 1970."""
    base, last = known.ljust(DIGITS, "0"), 0
    if len(known) == DIGITS + TIME_DIGITS:  # that of a repair
        base, last = known[:DIGITS], int(known[DIGITS:], 16)
    return f"{base}{max(milliseconds, last + 1):0{TIME_DIGITS}X}"


def repair_event(bucket: str, reading: Reading, now: datetime) -> dict[str, Any]:
    """Make the event of a repair, which the state machine takes as one of S3's.

    Without a source it is a deletion, after which the fence makes the output what the source says.
    """
    source, subject = reading.source, reading.subject
    described = {
        "key": subject.key,
        "sequencer": next_sequencer(known_sequencer(reading), int(now.timestamp() * 1000)),
    }
    version = source.object_id[0] if source else subject.version_id
    if source:
        described["etag"] = source.etag
    if version:
        described["version-id"] = version
    return {
        "source": SOURCE,
        "detail-type": "Object Created" if source else "Object Deleted",
        "time": now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "detail": {"bucket": {"name": bucket}, "object": described},
    }
