"""Tells which of the parts that the project uses beside an interface an update has moved.

python -m tests.support.private_parts
"""

from __future__ import annotations

import inspect
import pkgutil
import sys
from collections.abc import Iterator, Mapping
from importlib.metadata import version

from inorder import ministack_parts
from tests.support import moto_parts

Parts = Mapping[str, tuple[str | None, str]]
# The parts of each package, and the module that uses them.
PACKAGES: dict[str, tuple[Parts, str]] = {
    "ministack": (ministack_parts.PARTS, "inorder/ministack_parts.py"),
    "moto": (moto_parts.PARTS, "tests/support/moto_parts.py"),
}


def moved() -> Iterator[str]:
    """Say of each part that is not as it was where it is used, and for what."""
    for package, (parts, file) in PACKAGES.items():
        for name, (parameters, purpose) in parts.items():
            if wrong := _wrong(f"{package}.{name}", parameters):
                yield (
                    f"{package} {version(package)}: {name} {wrong}. {file} needs it to {purpose}."
                )


def _wrong(name: str, parameters: str | None) -> str:
    try:
        found = pkgutil.resolve_name(name)
    except (ImportError, AttributeError):
        return "is not there"
    if parameters is None:
        return ""
    has = ", ".join(inspect.signature(found).parameters)
    return "" if has == parameters else f"has the parameters ({has}), not ({parameters})"


if __name__ == "__main__":
    sys.exit("\n".join(moved()) or 0)
