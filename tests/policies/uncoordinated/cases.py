"""The cases of uncoordinated.asl.json."""

from __future__ import annotations

from tests.statemachine.cases.common import DONE, EVENT, Case, error

CASES: list[Case] = [
    ("Invert Image", EVENT, DONE, "Processed"),
    ("Invert Image", EVENT, error("Lambda.Unknown"), "Lost"),
    ("Processed", {}, None, None),
    ("Lost", {}, None, None),
]
