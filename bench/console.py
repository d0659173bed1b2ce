"""How smooth the page of the console stays with 10,000 executions, in a real Chromium.

    python -m bench.console [EXECUTIONS]

The list is made up and given to the page as the server would give it, so that only the page counts.
A frame of a smooth page takes less than 17 ms, and nobody notices an answer within 100 ms.
"""

from __future__ import annotations

import sys
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from playwright.sync_api import CDPSession, Page, sync_playwright

from bench.browser import launch
from inorder.console.saved import write

FRAMES = 120
# Moves the list by two thirds of a screen in each frame, and gives the time between the frames.
SCROLL = """async count => {
  const scroller = document.querySelector(".scroller");
  const frame = () => new Promise(requestAnimationFrame);
  const times = [];
  let before = await frame();
  for (let number = 0; number < count; number += 1) {
    scroller.scrollTop += 400;
    const now = await frame();
    times.push(now - before);
    before = now;
  }
  return times;
}"""
# Writes into the field, and gives the milliseconds until the next frame has been drawn.
FILTER = """async text => {
  const field = document.getElementById("search");
  const begin = performance.now();
  field.value = text;
  field.dispatchEvent(new Event("input", { bubbles: true }));
  await new Promise(requestAnimationFrame);
  await new Promise((resolve) => setTimeout(resolve));
  return performance.now() - begin;
}"""


def many(count: int) -> dict[str, Any]:
    """Make up executions, the newest first."""
    now = datetime.now(UTC)
    outcomes = ["Processed", "Processed", "Superseded", "Duplicate", "Parked"]
    executions = [
        {
            "arn": f"arn:aws:states:us-east-1:0:execution:m:{number}",
            "id": str(number),
            "key": f"many/{number % 1000:03}/picture-{number:05}.jpg",
            "sequencer": f"{number:018X}",
            "version_id": None,
            "ended_as": outcomes[number % len(outcomes)],
            "status": "SUCCEEDED",
            "attempt": 1,
            "seconds": number % 90 + 0.5,
            "waited": float(number % 7),
            "started": (now - timedelta(seconds=number)).isoformat(),
            "stopped": now.isoformat(),
        }
        for number in range(count)
    ]
    return {"revision": 1, "is_whole": True, "is_loading": False, "executions": executions}


def main(count: int) -> None:
    """Measure, and print a table."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        file = Path(folder) / "console.html"
        write(file, data(count))
        browser = launch(playwright)
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        session = page.context.new_cdp_session(page)
        session.send("Performance.enable")
        page.goto(file.as_uri())
        page.wait_for_selector(".all-rows .row")
        report("until the list is there, ms", page.evaluate("performance.now()"))
        report("script time until then, ms", script_time(session))
        report("rows in the document", page.locator(".all-rows .row").count())
        measure_scrolling(page, session)
        letters = ["p", "pi", "pict", "picture-0", "picture-01", "picture-012", ""]
        before = script_time(session)
        report("filter: slowest letter, ms", max(page.evaluate(FILTER, each) for each in letters))
        report("filter: script time a letter, ms", (script_time(session) - before) / len(letters))
        report("memory of scripts, MB", metric(session, "JSHeapUsedSize") / 1e6)
        browser.close()


def data(count: int) -> dict[str, Any]:
    """Make up what a saved page needs for its list."""
    stack = {"stack": "bench", "policy": "latest-wins", "is_local": True, "notes": []}
    return {
        "saved": "2026-01-01T00:00:00Z",
        "/api/stack": stack,
        "/api/executions": many(count),
    }


def measure_scrolling(page: Page, session: CDPSession) -> None:
    """Scroll through the list, and report how long the frames took."""
    before = script_time(session)
    times = sorted(page.evaluate(SCROLL, FRAMES))
    report("scrolling: median frame, ms", times[len(times) // 2])
    report("scrolling: 95th percentile, ms", times[int(len(times) * 0.95)])
    report("scrolling: script time a frame, ms", (script_time(session) - before) / FRAMES)


def script_time(session: CDPSession) -> float:
    """Give the milliseconds that scripts have run."""
    return metric(session, "ScriptDuration") * 1000


def metric(session: CDPSession, name: str) -> float:
    """Read one of Chromium's own measures."""
    metrics = session.send("Performance.getMetrics")["metrics"]
    return float(next(each["value"] for each in metrics if each["name"] == name))


def report(name: str, value: float) -> None:
    """Print a row."""
    print(f"{name:<36}{value:>10.1f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000)
