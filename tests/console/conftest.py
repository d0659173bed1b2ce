"""A deployed stack with a history, `inorder console` on it, and a browser."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, Route, expect, sync_playwright

from bench.browser import launch
from inorder import PROJECT, local_aws
from inorder.aws.stack import deploy
from inorder.demo.pictures import own_pairs
from inorder.local_aws import LocalAws
from tests.end_to_end.conftest import Workflow

OUT = PROJECT / "out" / "console"
STORY = "gallery/harbour.jpg"
STRANGE = "a/<img src=x onerror=alert(1)>\u202e\u05e9\u05dc\u05d5\u05dd \"'&amp;.png"
SHOWN = STRANGE.replace("\u202e", r"\u202e")  # the override of the direction is made visible
PARKED = ("inbox/broken-1.jpg", "inbox/broken-2.jpg", "inbox/notes.txt")
SLOW: dict[str, str | float] = {"SlowMark": "slow", "SlowSeconds": 6}  # only what ends in this mark
MARK = b"slow"
expect.set_options(timeout=30_000)  # not 5 s: on a busy machine, an answer may take longer


@dataclass(frozen=True)
class Console:
    """A running console: the address with the token that it has printed, and its stack."""

    address: str
    workflow: Workflow

    @property
    def origin(self) -> str:
        """The address without the token."""
        return self.address.partition("#")[0]

    @property
    def token(self) -> str:
        """The token of the address."""
        return self.address.partition("#token=")[2]

    def view(self, name: str, of: str | None = None, **parameters: str) -> str:
        """Give the address of a view."""
        path = f"#/{name}" if of is None else f"#/{name}/{quote(of, safe='')}"
        asked = "&".join(f"{key}={quote(value, safe='')}" for key, value in parameters.items())
        return f"{self.origin}{path}{'?' if asked else ''}{asked}"


@pytest.fixture(scope="session")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalAws]:
    """Start a local AWS whose waits take their time: the holder starts the newest event first."""
    with local_aws.running(tmp_path_factory.mktemp("console-aws"), wait_scale=1) as server:
        yield server


@pytest.fixture(scope="session")
def console(local: LocalAws) -> Iterator[Console]:
    stack = deploy(local, "console", SLOW)
    workflow = Workflow(local, stack)
    seed(workflow)
    serving = subprocess.Popen(
        [sys.executable, "-m", "inorder.commands.main", "console"],
        cwd=PROJECT,
        env=os.environ | local.environment | {"STACK_NAME": stack.name},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert serving.stdout
        yield Console(serving.stdout.readline().strip(), workflow)
    finally:
        serving.terminate()
        serving.wait(30)
        if serving.stdout:
            serving.stdout.close()


def seed(workflow: Workflow) -> None:
    """Let an event wait, an older one be superseded, a duplicate be dropped, and some be parked."""
    first, second, third, strange = own_pairs(4)
    workflow.upload(STORY, first.old)
    workflow.of_key(STORY, 1)
    [oldest] = workflow.events(STORY, 1)
    workflow.upload(STORY, second.new + MARK)
    workflow.wait_for_lock(STORY)
    time.sleep(3)  # the function has read the second picture, and not written yet
    workflow.upload(STORY, third.new)
    workflow.events(STORY, 3)
    workflow.deliver(oldest)
    workflow.of_key(STORY, 4)
    workflow.run(workflow.events(STORY, 3)[-1])
    workflow.upload(STRANGE, strange.new)
    for key in PARKED:
        workflow.upload(key, b"no image")
    for key in (STRANGE, *PARKED):
        workflow.of_key(key, 1)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        started = launch(playwright)
        yield started
        started.close()


Opening = Callable[..., Page]


@pytest.fixture
def opening(browser: Browser, console: Console) -> Iterator[Opening]:
    """Give a function that opens pages; none of them may have reported a problem at the end.

    The browser has the token from an earlier visit, unless another one or none is given.
    """
    problems: list[str] = []
    contexts = []

    def report(message: ConsoleMessage) -> None:
        # A browser reports each answer that is an error. The tests look at what the page shows.
        if message.type in {"error", "warning"} and "Failed to load resource" not in message.text:
            problems.append(message.text)

    def only_here(route: Route) -> None:
        if not route.request.url.startswith(("http://127.0.0.1:", "file:")):
            problems.append(f"The page asks for {route.request.url}")
        route.fallback()

    def open_page(
        address: str,
        width: int = 1280,
        scheme: Any = "light",
        token: str | None = console.token,
        **more: Any,
    ) -> Page:
        stored = [{"name": "inorder-token", "value": token}] if token else []
        storage: Any = {"origins": [{"origin": console.origin[:-1], "localStorage": stored}]}
        size: Any = {"width": width, "height": 800 if width > 500 else 640}
        context = browser.new_context(
            viewport=size, color_scheme=scheme, storage_state=storage, **more
        )
        contexts.append(context)
        context.set_default_timeout(30_000)
        context.route("**/*", only_here)
        page = context.new_page()
        page.on("console", report)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.goto(address)
        page.wait_for_selector("main h1")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert problems == []


@pytest.fixture
def page(console: Console, opening: Opening) -> Page:
    return opening(console.address)


def settled(page: Page) -> Page:
    """Wait until the view has its data."""
    page.wait_for_selector(".loading", state="detached")
    page.wait_for_load_state("networkidle")
    return page


def screenshot(page: Page, name: str) -> Path:
    """Keep a picture of the whole page under out/."""
    file = OUT / f"{name}.png"
    page.screenshot(path=file, full_page=True)
    return file
