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
    keys = sorted({row["key"] for row in rows} - {None})
    parked_events = answers.parked_events()  # once, as each time takes seconds
    stories = {key: answers.story(key, parked_events=parked_events) for key in keys}
    whole = {run["arn"]: run for story in stories.values() for run in story["executions"]}
    for story in stories.values():  # a second copy would double the file
        story["executions"] = [run["arn"] for run in story["executions"]]
    return {
        "saved": datetime.now(UTC),
        "/api/stack": answers.stack(),
        "/api/definition": answers.definition(),
        "/api/executions": executions,
        "/api/execution": {
            arn: whole.get(arn) or answers.execution(arn) for arn in (row["arn"] for row in rows)
        },
        "/api/story": stories,
    }


def write(file: Path, data: Mapping[str, Any]) -> None:
    """Write the page with its scripts, its style and the answers in it."""
    _write(file, _page({"saved": data}, 'import "inorder/app";'))


def write_report(
    file: Path, title: str, report: str, style: str, stacks: Mapping[str, Mapping[str, Any]]
) -> None:
    """Write a page that shows a report, and the executions of several stacks behind its links.

    A link such as ``?on#/key/cat.jpg`` leads to a view of the stack ``on``. The report needs no
    script. Its title and its HTML are written as they are.
    """
    queries = {f"?{name}": data for name, data in stacks.items()}
    choose = (
        f"if ({json.dumps([*queries])}.includes(location.search))"
        ' document.documentElement.classList.add("is-console");'
    )
    start = 'if (document.documentElement.matches(".is-console")) import("inorder/app");'
    html = _page({f"saved{query}": data for query, data in queries.items()}, start)
    head = f"<title>{title}</title>\n<script>{choose}</script>"
    html = re.sub("<title>.*?</title>", lambda _: head, html)
    html = html.replace("</style>", f"{style}</style>", 1)
    _write(file, re.sub("<noscript>.*?</noscript>", lambda _: report, html))


def _page(data: Mapping[str, Any], start: str) -> str:
    """Give the page with the data of elements, by their identifier, and the script that starts."""
    names = {name: specifier for specifier, name in page.modules().items()}
    html = page.index({specifier: _script(name) for name, specifier in names.items()})
    html = re.sub(
        r'<link rel="stylesheet" href="/page/([^"]+)">',
        lambda link: f"<style>{_text(link[1])}</style>",
        html,
    )
    scripts = [
        # No text in the data ends the element.
        f'<script type="application/json" id="{identifier}">'
        + to_json(value).replace("<", r"\u003c")
        + "</script>"
        for identifier, value in data.items()
    ]
    scripts.append(f'<script type="module">{start}</script>')
    html = re.sub(r'<script type="module" src="[^"]+"></script>\n', "", html)
    return html.replace("</body>", "\n".join([*scripts, "</body>"]))


def _write(file: Path, html: str) -> None:
    policy = page.content_security_policy(html, script_src="data:")
    policy = f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(html.replace(CHARSET, f"{CHARSET}\n{policy}", 1), encoding="utf-8")


def _script(name: str) -> str:
    encoded = base64.b64encode(_text(name).encode()).decode()
    return f"data:text/javascript;base64,{encoded}"


def _text(name: str) -> str:
    return (page.FOLDER / name).read_text(encoding="utf-8")
