"""The page with the facts of a stack, as one file that opens without a server."""

import base64
import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from inorder.console import page
from inorder.console.answers import Answers
from inorder.model.execution import to_json

CHARSET = '<meta charset="utf-8">'


def read(answers: Answers) -> dict[str, Any]:
    """Ask all that the page can ask."""
    executions: dict[str, Any] = {"is_loading": True}
    while executions["is_loading"]:
        executions = json.loads(answers.executions.answer())
    rows = executions["executions"]
    keys = sorted({each["key"] for each in rows} - {None})
    parked_events = answers.parked_events()  # once, as each time takes seconds
    stories = {key: answers.story(key, parked_events=parked_events) for key in keys}
    told = {each["arn"]: each for story in stories.values() for each in story["executions"]}
    for story in stories.values():  # a second copy would double the file
        story["executions"] = [each["arn"] for each in story["executions"]]
    return {
        "saved": datetime.now(UTC),
        "/api/stack": answers.stack(),
        "/api/definition": answers.definition(),
        "/api/executions": executions,
        "/api/execution": {
            arn: told.get(arn) or answers.execution(arn) for arn in (each["arn"] for each in rows)
        },
        "/api/story": stories,
    }


def write(file: Path, data: Mapping[str, Any]) -> None:
    """Write the page with its scripts, its style and the answers in it."""
    names = {name: specifier for specifier, name in page.modules().items()}
    html = page.index({specifier: _script(name) for name, specifier in names.items()})
    html = re.sub(
        r'<link rel="stylesheet" href="/page/([^"]+)">',
        lambda found: f"<style>{_text(found[1])}</style>",
        html,
    )
    answers = to_json(data).replace("<", r"\u003c")  # so that no text in it ends the element
    html = re.sub(
        r'<script type="module" src="/page/([^"]+)"></script>',
        lambda found: (
            f'<script type="application/json" id="saved">{answers}</script>\n'
            f'<script type="module">import "{names[found[1]]}";</script>'
        ),
        html,
    )
    policy = page.content_security_policy(html, script_src="data:")
    policy = f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(html.replace(CHARSET, f"{CHARSET}\n{policy}", 1), encoding="utf-8")


def _script(name: str) -> str:
    encoded = base64.b64encode(_text(name).encode()).decode()
    return f"data:text/javascript;base64,{encoded}"


def _text(name: str) -> str:
    return (page.FOLDER / name).read_text(encoding="utf-8")
