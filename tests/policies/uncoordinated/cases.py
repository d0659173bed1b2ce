"""The cases of uncoordinated.asl.json."""

from __future__ import annotations

from tests.policies.common import CREATED, PROCESSED, Cases, Output, answer, paths

CASES = Cases(
    data=CREATED,
    choices=[],
    outputs=[Output("Processed", answer(PROCESSED), {"outcome": "Processed", "result": PROCESSED})],
    writes=[],
    paths=paths(
        {
            "Processed": ["Invert Image: Processed", "Processed"],
            "ProcessedAfterRetry": ["Invert Image: FunctionFailed, Processed", "Processed"],
            "FunctionFailedLost": ["Invert Image: FunctionFailed*3", "Lost"],
        }
    ),
    event=CREATED,
)
