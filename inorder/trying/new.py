"""A new function of one's own, made from the example."""

import os
import re
import sys
from keyword import iskeyword
from pathlib import Path

from inorder import PROJECT
from inorder.errors import Failure

EXAMPLE = PROJECT / "examples" / "work_function"
FENCE = "./functions/inorder_fence"


def create(name: str, parent: Path) -> list[Path]:
    """Write a function into a folder of its name; or write nothing and fail."""
    if not re.fullmatch(r"[a-z][a-z0-9_]{0,39}", name):
        raise Failure(
            f"{name!r} is no name for a function: lower-case letters, digits and underscores, 40 at"
            " most, such as my_function."
        )
    if name in sys.stdlib_module_names or iskeyword(name):
        raise Failure(
            f"{name} is a word or module of Python: choose another name, such as my_{name}."
        )
    folder = parent / name
    if folder.exists():
        raise Failure(f"{folder} exists already.")
    fence = os.path.relpath(PROJECT / FENCE, parent)
    folder.mkdir()
    for file in sorted(file for file in EXAMPLE.iterdir() if file.is_file()):
        text = file.read_text(encoding="utf-8")
        text = text.replace(FENCE, fence if fence.startswith(".") else f"./{fence}")
        (folder / file.name).write_text(text, encoding="utf-8")
    return sorted(folder.iterdir())
