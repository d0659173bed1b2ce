"""A proxy before the local AWS that makes calls of functions and of state machines fail.

The functions call S3, DynamoDB, SQS and Step Functions through it. What a state machine calls is
asked for only, because ministack makes these calls within its process (`server.py`).
"""

from __future__ import annotations

import http.client
import random
import re
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

from inorder import local_aws
from inorder.local_aws import LocalAws

# A call that hangs is refused when no task and no function waits any more. A late one has its
# effect when its caller has tried again, or has gone on, and others have written.
KINDS = ["pass", "slow", "refuse", "lose the answer", "hang", "be late"]
SECONDS = {"slow": (1, 1), "hang": (20, 20), "be late": (3, 8)}
HOLD_SECONDS = 300  # longer than a test that stops a call needs on any machine
_SIGNED_FOR = re.compile(r"Credential=[^/]+/\d+/[^/]+/(\w+)/")


class Hold(NamedTuple):
    """Calls that a test stops until it is over: one, and its further attempts."""

    name: str  # a state, or a method and a path of S3
    kind: str  # what becomes of them then, or "hold the answer" after their effect
    reached: threading.Event
    released: threading.Event


class FaultProxy(ThreadingHTTPServer):
    """Forwards requests to the local AWS, whose port is `target`, with faults.

    `weights` say how likely each of `KINDS` is for the calls of a service. Calls of others pass.
    `faults` counts the calls by kind.
    """

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, seed: int) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.target = 0
        self.weights: dict[str, list[int]] = {}
        self.faults = Counter[str]()
        self._hold: Hold | None = None
        self._random = random.Random(seed)  # noqa: S311
        self._lock = threading.Lock()

    @property
    def address(self) -> str:
        return "{}:{}".format(*self.server_address)

    def handle_error(self, request: object, client_address: object) -> None:
        """Do not report a function that was killed while it waited for its answer."""

    @contextmanager
    def holding(self, name: str, kind: str) -> Iterator[Hold]:
        """Stop the calls of a name, for as long as the test needs."""
        hold = self._hold = Hold(name, kind, threading.Event(), threading.Event())
        try:
            yield hold
        finally:
            self._hold = None
            hold.released.set()

    def draw(self, service: str, name: str, is_done: bool = False) -> str:
        """Choose what happens to a call, and wait until it happens."""
        if (hold := self._hold) and hold.name == name:
            if is_done or hold.kind == "refuse":
                hold.reached.set()
                hold.released.wait(HOLD_SECONDS)
            return hold.kind
        with self._lock:
            [kind] = self._random.choices(KINDS, self.weights.get(service, [1, 0, 0, 0, 0, 0]))
            self.faults[kind] += 1
            seconds = self._random.uniform(*SECONDS.get(kind, (0, 0)))
        time.sleep(seconds)
        return "refuse" if kind == "hang" else kind


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: FaultProxy

    def handle_any(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.path.startswith("/_fault/"):  # what happens to a call of a state machine
            service, state, *done = self.path.split("/")[2:]
            kind = self.server.draw(service, unquote(state), is_done=bool(done))
            self._reply(200, [], kind.encode())
            return
        signed_for = _SIGNED_FOR.search(self.headers.get("Authorization", ""))
        name = f"{self.command} {unquote(self.path.partition('?')[0])}"
        kind = self.server.draw(signed_for[1] if signed_for else "", name)
        if kind == "refuse":
            self.send_error(503)
            return
        port = self.server.target
        with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=30)) as target:
            target.request(self.command, self.path, body, dict(self.headers))
            answer = target.getresponse()
            content = answer.read()
        if kind == "lose the answer":
            self.close_connection = True
        else:
            self._reply(answer.status, answer.getheaders(), content)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = handle_any  # noqa: N815

    def _reply(self, status: int, headers: list[tuple[str, str]], content: bytes) -> None:
        self.send_response_only(status)
        for name, value in headers:
            if name.lower() not in {"connection", "transfer-encoding"}:
                self.send_header(name, value)
        if "content-length" not in {name.lower() for name, _ in headers}:
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Write no log."""


@contextmanager
def behind_a_proxy(
    folder: Path, wait_scale: float, seed: int = 1
) -> Iterator[tuple[LocalAws, FaultProxy]]:
    """Run a local AWS whose functions and state machines make their calls through a proxy."""
    with FaultProxy(seed) as proxy:
        threading.Thread(target=proxy.serve_forever, daemon=True).start()
        url = f"http://{proxy.address}"
        settings = {f"AWS_ENDPOINT_URL_{each}": url for each in ("S3", "DYNAMODB", "SQS", "SFN")}
        settings["FAULT_PROXY"] = proxy.address
        server = "tests.proof.soak.server"
        try:
            with local_aws.running(folder, None, wait_scale, settings, server) as local:
                proxy.target = local.port
                yield local, proxy
        finally:
            proxy.shutdown()
