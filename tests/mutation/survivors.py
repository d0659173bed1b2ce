"""The mutants that no test can kill, each with the reason."""

from __future__ import annotations

EXPECTED: dict[str, str] = {}
