"""A deployed stack with a history, `inorder console` on it, and a browser."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import psutil
import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, Request, expect, sync_playwright

from inorder import PROJECT
from inorder.aws.executions import wait_until
from inorder.aws.stack import deploy
from inorder.demo.pictures import own_pairs
from tests.stack.conftest import SECONDS, Workflow, serving
from tests.support import held_calls
from tests.support.browser import launch
from tests.support.held_calls import HeldCalls
from tests.support.replacing import replaced

OUT = PROJECT / "out" / "console"
STORY = "gallery/harbour.jpg"
STRANGE = "a/<img src=x onerror=alert(1)>\u202e\u05e9\u05dc\u05d5\u05dd \"'&amp;.png"
SHOWN = replaced(STRANGE, "\u202e", r"\u202e")  # the override of the direction is made visible
PARKED = "inbox/notes.txt"
expect.set_options(timeout=30_000)  # not 5 s: on a busy machine, an answer may take longer


@dataclass(frozen=True)
class Console:
    """A running console: the address that it has printed, with its token, and its stack."""

    address: str
    workflow: Workflow
    held: HeldCalls

    @property
    def origin(self) -> str:
        return self.address.partition("#")[0]

    @property
    def token(self) -> str:
        return self.address.partition("#token=")[2]

    def view(self, name: str, of: str | None = None, **parameters: str) -> str:
        path = f"#/{name}" if of is None else f"#/{name}/{quote(of, safe='')}"
        asked = "&".join(f"{key}={quote(value, safe='')}" for key, value in parameters.items())
        return f"{self.origin}{path}{'?' if asked else ''}{asked}"


@pytest.fixture(scope="session")
def console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Console]:
    """Start a local AWS whose waits take their time: the holder starts the newest event first."""
    with held_calls.running(tmp_path_factory.mktemp("console"), wait_scale=1) as (local, held):
        workflow = Workflow(local, deploy(local, "console", {}))
        seed(workflow, held)
        with served(workflow) as address:
            yield Console(address, workflow, held)


@contextmanager
def served(workflow: Workflow) -> Iterator[str]:
    """Run the command, and give the address that it prints."""
    command = [sys.executable, "-m", "inorder.commands.main", "console"]
    environment = os.environ | workflow.local.environment | {"STACK_NAME": workflow.stack.name}
    with serving(command, PROJECT, environment) as (number, address):
        sockets = psutil.Process(number).net_connections()
        assert {socket.laddr.ip for socket in sockets if socket.status == "LISTEN"} == {"127.0.0.1"}
        yield address


def seed(workflow: Workflow, held: HeldCalls) -> None:
    """Let an event wait, an older one be superseded, a duplicate be dropped, and one be parked."""
    first, second, third, strange = own_pairs(4)
    workflow.upload(STORY, first.old)
    workflow.of_key(STORY, 1)
    [oldest] = workflow.events(STORY, 1)
    machine = workflow.executions

    def waits() -> bool:
        running = map(machine.describe, machine.arns("RUNNING"))
        return any("Wait For Lock" in execution.path for execution in running)

    with held.holding("Invert Image", "after") as reached:
        workflow.upload(STORY, second.new)
        wait_until(reached.exists, SECONDS, "the second picture to be inverted")
        workflow.upload(STORY, third.new)
        wait_until(waits, SECONDS, "the third event to wait")
    workflow.of_key(STORY, 4)
    workflow.run(oldest)
    workflow.run(workflow.events(STORY, 3)[-1])
    for key, content in {STRANGE: strange.new, PARKED: b"no image"}.items():
        workflow.upload(key, content)
        workflow.of_key(key, 1)


@pytest.fixture(scope="module")  # while Playwright runs, this process can run no event loop
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        started = launch(playwright)
        yield started
        started.close()


Opening = Callable[..., Page]


@pytest.fixture
def opening(browser: Browser, console: Console) -> Iterator[Opening]:
    """Give a function that opens pages; none of them may have reported a problem at the end.

    The browser has the token, unless another one or none is given.
    """
    problems: list[str] = []

    def report(message: ConsoleMessage) -> None:
        # A browser reports each answer that is an error. The tests look at what the page shows.
        if message.type in {"error", "warning"} and "Failed to load resource" not in message.text:
            problems.append(message.text)

    def only_here(request: Request) -> None:
        if not request.url.startswith(("http://127.0.0.1:", "file:", "data:", "blob:")):
            problems.append(f"The page asks for {request.url}")

    with ExitStack() as closing:

        def open_page(address: str, token: str | None = console.token) -> Page:
            stored = [{"name": "inorder-token", "value": token}] if token else []
            storage: Any = {"origins": [{"origin": console.origin[:-1], "localStorage": stored}]}
            context = browser.new_context(storage_state=storage, reduced_motion="reduce")
            closing.callback(context.close)
            context.set_default_timeout(30_000)
            page = context.new_page()
            # What a test answers for the server may be asked again as the page closes.
            closing.callback(page.unroute_all, behavior="ignoreErrors")
            page.on("console", report)
            page.on("pageerror", lambda error: problems.append(str(error)))
            page.on("request", only_here)
            page.goto(address)
            page.wait_for_selector("main h1")
            return page

        yield open_page
    assert problems == []


@pytest.fixture
def page(console: Console, opening: Opening) -> Page:
    return opening(console.address)


def settled(page: Page) -> Page:
    """Wait until the view has its data."""
    page.wait_for_selector(".loading", state="detached")
    page.wait_for_load_state("networkidle")
    return page
