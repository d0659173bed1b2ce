"""What a row of results.json measured: a hash of the code that ran, without what does not run."""

import ast
import json
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from inorder import PROJECT
from inorder.model.policies import asl_file

CONTENDERS = PROJECT / "bench" / "contenders"
# What every contender runs: the work, and the workloads.
SHARED = (
    CONTENDERS / "image.py",
    PROJECT / "bench" / "delivery.py",
    PROJECT / "bench" / "workloads.py",
    PROJECT / "functions" / "invert_image" / "inversion.py",
)
FENCE = tuple(sorted((PROJECT / "functions" / "inorder_fence").glob("*.py")))
PRODUCT = (
    PROJECT / asl_file("latest-wins"),
    *sorted((PROJECT / "functions").glob("i*/*.py")),  # the image function and the fence
    *sorted((PROJECT / "functions" / "retry_events").glob("*.py")),
)


@cache
def fingerprint(contender: str) -> str:
    """Hash what a contender runs; comments, docstrings and formatting change nothing."""
    own = CONTENDERS / f"{contender.replace('-', '_')}.py"
    more = {
        "inorder": PRODUCT,
        "fenced-function": FENCE,
        "fifo-fence": (*FENCE, CONTENDERS / "sqs_fifo.py"),
    }
    files = (*SHARED, own, *more.get(contender, ()))
    return sha256("\n".join(map(_running, files)).encode()).hexdigest()[:12]


def _running(file: Path) -> str:
    text = file.read_text(encoding="utf-8")
    if file.suffix == ".json":
        return json.dumps(json.loads(text, object_hook=_without_comment), sort_keys=True)
    tree = ast.parse(text)
    for node in ast.walk(tree):
        match node:
            case ast.Module(body=body) | ast.ClassDef(body=body) | ast.FunctionDef(body=body):
                if ast.get_docstring(node) is not None:
                    node.body = body[1:]
    return ast.dump(tree)


def _without_comment(found: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in found.items() if name != "Comment"}
