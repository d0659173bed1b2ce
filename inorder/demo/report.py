"""The demonstration's report: a table for the terminal, and a page with all outputs."""

import re
from base64 import b64encode
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

from rich.table import Table
from rich.text import Text

from inorder.console import saved
from inorder.wording import counted

TITLE = "The same events, without coordination and with it"
# What each count means, and which of them must be zero.
MEANINGS = {
    "Object keys": "each with an old picture, and a new one over it",
    "Events delivered": "one for each upload, and each a second time",
    "Executions": "one for each event, and more for events that waited or were retried",
    "Processed": "a picture was inverted",
    "Processed again": "although the same event had been processed",
    "Superseded": "dropped, because a newer event had arrived",
    "Duplicates dropped": "the same event had been processed",
    "Retried after a fault": "executions that left their event to another one",
    "Parked": "sent to a queue for a person",
    "Without an outcome": "executions that ended in no way that the policy has",
    "Stale outputs": "not of the new picture",
    "Missing outputs": "there is none",
    "Wrong, says the audit": "inorder audit finds them without a look at the pictures",
}
FAULTS = ("Stale outputs", "Missing outputs", "Without an outcome", "Wrong, says the audit")

SHOWS = {
    "new": "The new picture",
    "old": "The old picture",
    "other": "Neither the old nor the new picture",
}
MARKS = {"old": "stale", "other": "unexpected", "missing": "missing"}


@dataclass(frozen=True)
class FinalOutput:
    """The output of one key when all executions have ended; no content if it is missing."""

    key: str
    content: bytes | None
    state: Literal["new", "old", "missing", "other"]


Counts = Mapping[str, int]  # what was counted in a stack, as the table names it


@dataclass(frozen=True)
class Result:
    """What became of the events in one stack; its executions are as the console saves them."""

    counts: Counts
    outputs: Sequence[FinalOutput]
    executions: Mapping[str, Any]


Results = Mapping[str, Result]  # by coordination: ``off``, ``on``


def console_table(results: Results) -> Table:
    """Tabulate the counts."""
    table = Table("Coordination")
    for name in results:
        table.add_column(name, justify="right")
    for measure in next(iter(results.values())).counts:
        cells = []
        for result in results.values():
            value = result.counts[measure]
            style = ("bold red" if value else "green") if measure in FAULTS else ""
            cells.append(Text(str(value), style))
        table.add_row(measure, *cells)
    return table


def write_report(file: Path, policy: str, results: Results) -> None:
    """Write the page: the counts, and the outputs of each stack, which lead to its timelines."""
    style = Path(__file__).with_name("report.css").read_text(encoding="utf-8")
    stacks = {name: result.executions for name, result in results.items()}
    galleries = "".join(_gallery(name, result.outputs) for name, result in results.items())
    keys = counted(results["on"].counts["Object keys"], "key")
    report = f"""<main id="report">
<h1>{TITLE}</h1>
<p>On a local AWS, {keys} got an old picture and a new one a second later; some old pictures were
slow to process, and each event came twice. One stack had a state machine that only
inverts each picture (coordination off), the other one the policy
<code>{escape(policy)}</code> (coordination on).</p>
{_table(results)}
<p class="quiet-text">Why more executions than events? When a lock's holder ends and a newer event
waits, the holder starts an execution for it at once, and the one that waited ends as a duplicate.
An event that is retried has an execution for each attempt. Below <em>Executions</em>, the table
counts each event once, but timelines show every execution.</p>
<noscript><p class="quiet-text">The timelines need JavaScript.</p></noscript>
<div class="galleries">
{galleries}</div>
</main>"""
    saved.write_report(file, TITLE, report, style, stacks)


def _table(results: Results) -> str:
    heads = "".join(f'<th scope="col">{escape(name)}</th>' for name in results)
    rows = ""
    for measure in next(iter(results.values())).counts:
        cells = ""
        for result in results.values():
            value = result.counts[measure]
            tone = ("bad" if value else "good") if measure in FAULTS else ""
            cells += f'<td class="{tone}">{value:,}</td>'
        meaning = f"<span>{escape(MEANINGS[measure])}</span>"
        rows += f'<tr><th scope="row">{escape(measure)} {meaning}</th>{cells}</tr>\n'
    return f"""<table class="counts"><caption>What became of the events</caption>
<thead><tr><th scope="col">Coordination</th>{heads}</tr></thead>
<tbody>
{rows}</tbody></table>"""


def _gallery(name: str, outputs: Sequence[FinalOutput]) -> str:
    """Show all outputs of a stack, with those that are not the new picture marked and counted."""
    states = Counter(output.state for output in outputs)
    summary = f"{states['old'] or 'none'} of {len(outputs)} stale"
    summary += "".join(
        f", {states[state]} {MARKS[state]}" for state in ("other", "missing") if states[state]
    )
    shown = "".join(_figure(name, output) for output in outputs)
    name = escape(name)
    return f"""<section class="gallery" aria-labelledby="gallery-{name}">
<h2 id="gallery-{name}">Coordination {name}: {summary}</h2>
<p><a href="?{name}#/executions">All executions</a>, or choose a picture to see its timeline.</p>
<ul>
{shown}</ul></section>
"""


def _figure(name: str, output: FinalOutput) -> str:
    key = escape(output.key)
    link = escape(f"?{name}#/key/{quote(output.key, safe='')}")
    if output.content is None:
        image = f'<span class="none">no output<span class="hidden">: {key}</span></span>'
    else:
        content = b64encode(output.content).decode()
        image = f'<img alt="{SHOWS[output.state]}: {key}" src="data:image/*;base64,{content}">'
    # A long key breaks behind its slashes.
    parts = "".join(
        f"<span>{escape(part)}</span>" for part in re.findall("[^/]*/|[^/]+", output.key)
    )
    mark = MARKS.get(output.state)
    badge = f'<strong class="mark">{mark}</strong>' if mark else ""
    return (
        f'<li><figure class="{output.state}"><a href="{link}">{image}</a>'
        f'<figcaption><bdi dir="auto">{parts}</bdi>{badge}</figcaption></figure></li>\n'
    )
