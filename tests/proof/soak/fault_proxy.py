"""A proxy before the local AWS that makes some of the function's calls to S3 fail."""

from __future__ import annotations

import http.client
import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class FaultProxy(ThreadingHTTPServer):
    """Forwards requests, with faults.

    Attributes
    ----------
    target : int
        The port of the local AWS.
    weights : list of int
        How likely a request passes, is slow, is refused, or loses its answer.
    faults : Counter
        The number of requests of each kind.
    """

    daemon_threads = True

    def __init__(self, seed: int) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.target = 0
        self.weights = [82, 8, 6, 4]
        self.faults: Counter[str] = Counter()
        self._random = random.Random(seed)  # noqa: S311
        self._lock = threading.Lock()

    def handle_error(self, request: object, client_address: object) -> None:
        """Do not report a function that was killed while it waited for its answer."""

    def draw(self) -> str:
        """Choose what happens to a request."""
        with self._lock:
            kinds = ["pass", "slow", "refuse", "lose the answer"]
            [kind] = self._random.choices(kinds, self.weights)
            self.faults[kind] += 1
        return kind


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: FaultProxy

    def handle_any(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        kind = self.server.draw()
        if kind == "refuse":
            self.send_error(503)
            return
        if kind == "slow":
            time.sleep(1)
        target = http.client.HTTPConnection("127.0.0.1", self.server.target, timeout=30)
        try:
            target.request(self.command, self.path, body, dict(self.headers))
            answer = target.getresponse()
            content = answer.read()
        finally:
            target.close()
        if kind == "lose the answer":
            self.close_connection = True
            return
        self.send_response_only(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in {"connection", "transfer-encoding"}:
                self.send_header(name, value)
        if "content-length" not in {name.lower() for name, _ in answer.getheaders()}:
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = handle_any  # noqa: N815

    def log_message(self, *_: object) -> None:
        """Write no log."""


@contextmanager
def fault_proxy(seed: int) -> Iterator[FaultProxy]:
    """Run a proxy, whose `target` must be set before the first request."""
    proxy = FaultProxy(seed)
    thread = threading.Thread(target=proxy.serve_forever, daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        proxy.shutdown()
        thread.join()
        proxy.server_close()
