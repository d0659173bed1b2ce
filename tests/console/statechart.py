"""Draws the statechart of latest-wins as the console's page draws it, for README.

`python -m tests.console.statechart` writes docs/images/statechart.svg, in which the path of an
event whose key is free is green. Each letter counts as equally wide, so that the file does not
depend on the fonts and the browser of a machine.
"""

import json
import re
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from playwright.sync_api import Browser, Route, sync_playwright

from inorder import PROJECT
from inorder.console import page
from inorder.model.policies import definition
from tests.support.browser import launch

FILE = PROJECT / "docs" / "images" / "statechart.svg"
POLICY = "latest-wins"
TITLE = (
    "The state machine of latest-wins. The path of an event whose key is free is green:"
    " it claims the key, inverts the image, releases the lock, and is processed."
)
PATH = [
    "S3 Object Event?",
    "Prepare Event",
    "Sequencer?",
    "Claim Key",
    "Invert Image",
    "Outcome?",
    "Release Lock",
    "Processed",
]
NAMESPACE = "http://www.w3.org/2000/svg"
ORIGIN = "http://statechart.invalid"
LETTERS = (
    "HTMLCanvasElement.prototype.getContext ="
    " () => ({ measureText: (text) => ({ width: 7.4 * text.length }) });"
)
SCRIPT = """
import { Graph } from "inorder/graph";
import { html, render } from "inorder/html";
const { definition, execution } = JSON.parse(document.getElementById("data").textContent);
render(html`<${Graph} definition=${definition} execution=${execution} all=${true} room=${9999}
  parameters=${{}} />`, document.getElementById("app"));
"""
# Of the page's style what the graph needs, with colours that every program knows.
STYLE = """
text { font: 12.5px sans-serif; fill: #171c24 }
.what { font-size: 11.5px }
.card { fill: #ffffff; stroke: #d1d9e0 }
.edge { fill: none; stroke: #8a94a3; stroke-width: 1.2 }
.edge.catch { stroke-dasharray: 4 4 }
.edge.good { stroke: #0b6b47; stroke-width: 2.4 }
marker { fill: #8a94a3 }
marker.good, .good .what, .good circle { fill: #0b6b47 }
.start { fill: #171c24 }
.end { fill: none; stroke: #171c24; stroke-width: 2 }
.shape { fill: #ffffff; stroke: #8a94a3 }
.good .shape { fill: #e5f6ee; stroke: #0b6b47; stroke-width: 1.8 }
.good .name { font-weight: bold }
.none .what, .none .name { fill: #485363 }
.none circle { fill: #eff1f4 }
.sign path { fill: none; stroke: #485363; stroke-width: 1.7; stroke-linecap: round }
.good .sign path { stroke: #ffffff }
@media (prefers-color-scheme: dark) {
text { fill: #e6eaf0 }
.card { fill: #0d1117; stroke: #3d444d }
.edge { stroke: #6b7788 }
.edge.good { stroke: #5fd6a2 }
marker { fill: #6b7788 }
marker.good, .good .what, .good circle { fill: #5fd6a2 }
.start { fill: #e6eaf0 }
.end { stroke: #e6eaf0 }
.shape { fill: #161b22; stroke: #6b7788 }
.good .shape { fill: #11302a; stroke: #5fd6a2 }
.none .what, .none .name { fill: #9aa6b6 }
.none circle { fill: #262e39 }
.sign path { stroke: #9aa6b6 }
.good .sign path { stroke: #0d1117 }
}
"""


def drawn(browser: Browser) -> str:
    """Draw the statechart."""
    execution = {"arn": "", "status": "SUCCEEDED", "steps": [{"state": state} for state in PATH]}
    data = json.dumps({"definition": definition(POLICY), "execution": execution})
    html = page.index({name: f"/page/{file}" for name, file in page.modules().items()})
    scripts = (
        f'<script type="application/json" id="data">{data}</script>'
        f'<script type="module">{SCRIPT}</script>'
    )
    head, tail = html.split('<script type="module" src="/page/app.js"></script>')
    html = f"{head}{tail.partition('</body>')[0]}{scripts}"

    def answer(route: Route) -> None:
        path = route.request.url.removeprefix(ORIGIN)
        if path == "/":
            route.fulfill(body=html, content_type="text/html")
        else:
            route.fulfill(path=page.FOLDER / path.removeprefix("/page/"))

    context = browser.new_context()
    context.add_init_script(LETTERS)
    context.route("**/*", answer)
    view = context.new_page()
    view.goto(f"{ORIGIN}/")
    view.wait_for_selector("svg[role=group] .node")
    text = view.evaluate(
        "new XMLSerializer().serializeToString(document.querySelector('svg[role=group]'))"
    )
    context.close()
    return standing_alone(text)


def standing_alone(text: str) -> str:
    """Turn a graph of the page into a picture: without links, and with a style and a title."""
    ElementTree.register_namespace("", NAMESPACE)
    graph = ElementTree.fromstring(text)  # noqa: S314 - of our own page
    for element in graph.iter():
        is_link = element.tag == f"{{{NAMESPACE}}}a"
        if is_link:
            element.tag = f"{{{NAMESPACE}}}g"
        for child in list(element):
            if is_link and child.tag == f"{{{NAMESPACE}}}title":
                element.remove(child)
        kept = {
            name: re.sub(r"\d+\.\d+", lambda number: f"{float(number[0]):.1f}", value)
            for name, value in element.attrib.items()
            if name not in {"href", "aria-label", "aria-current", "role"}
        }
        element.attrib.clear()
        element.attrib.update(kept)
    left, top, width, height = graph.attrib["viewBox"].split()
    graph.attrib.update({"role": "img", "width": width, "height": height})
    card = {"class": "card", "x": left, "y": top, "width": width, "height": height, "rx": "8"}
    title, style = Element(f"{{{NAMESPACE}}}title"), Element(f"{{{NAMESPACE}}}style")
    title.text, style.text = TITLE, STYLE
    for element in (Element(f"{{{NAMESPACE}}}rect", card), style, title):
        graph.insert(0, element)
    return ">\n<".join(ElementTree.tostring(graph, encoding="unicode").split("><")) + "\n"


if __name__ == "__main__":
    with sync_playwright() as playwright:
        FILE.write_text(drawn(launch(playwright)), encoding="utf-8")
