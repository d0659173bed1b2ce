"""Local tooling of the project: the commands, the checks of ASL files, and a local AWS."""

from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
