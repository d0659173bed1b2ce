"""The local AWS: a ministack server of this project's own, on the loopback address only."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import boto3
import psutil
from botocore.config import Config

from inorder.errors import Failure
from inorder.loopback import HOST, bound

REGION = "us-east-1"
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}
SERVER, START_SECONDS = "inorder.local_server", 60
# A process seems to have started at another time when the machine's clock is set.
CLOCK_STEP_SECONDS = 600


@dataclass(frozen=True)
class LocalAws:
    """A running local AWS."""

    port: int
    pid: int
    # When that process started, in seconds since 1970: with the pid, it tells it from others.
    started: float
    folder: str  # its own files: log, temporary files of the functions
    server: str = SERVER  # the module that runs

    @property
    def endpoint_url(self) -> str:
        """Address of the server."""
        return f"http://{HOST}:{self.port}"

    @property
    def environment(self) -> dict[str, str]:
        """Variables that point the AWS CLI, boto3 and SAM at the server."""
        return {"AWS_ENDPOINT_URL": self.endpoint_url, "AWS_DEFAULT_REGION": REGION, **CREDENTIALS}

    @cached_property
    def session(self) -> boto3.Session:
        """Session with the server's credentials, whatever the user's own are."""
        return boto3.Session(**self.named)

    @property
    def named(self) -> dict[str, Any]:
        """What a session takes as the server's credentials and region."""
        keys = {name.lower(): value for name, value in CREDENTIALS.items()}
        return keys | {"region_name": REGION}

    @cached_property
    def _clients(self) -> dict[str, Any]:
        return {}

    def client(self, service: str) -> Any:
        """Give a boto3 client of the server, the same one each time."""
        if service not in self._clients:
            config = Config(
                inject_host_prefix=False,  # there is no sync-127.0.0.1
                max_pool_connections=50,
                retries={"mode": "standard", "total_max_attempts": 3},
            )
            # boto3's overloads know literal service names only.
            self._clients[service] = self.session.client(  # type: ignore[call-overload]
                service, endpoint_url=self.endpoint_url, config=config
            )
        return self._clients[service]

    @property
    def process(self) -> psutil.Process | None:
        """The server's process, or None if it has ended."""
        try:
            process = psutil.Process(self.pid)
            is_server = self.server in process.cmdline()
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            return None
        is_same = abs(process.create_time() - self.started) < CLOCK_STEP_SECONDS
        return process if is_server and is_same else None

    def __enter__(self) -> Self:
        """Leave it running for a block, whose end stops it."""
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Stop it, whatever has happened."""
        # Killed processes end by themselves, and who interrupts waits for that.
        self.stop(0.2 if kind is KeyboardInterrupt else 5)

    def stop(self, seconds: float = 5) -> None:
        """End the server and its functions' processes, in so many seconds, and remove its files."""
        process = self.process
        if process:
            _signal(process, psutil.Process.suspend)  # so that it starts no other one
            family = [*process.children(recursive=True), process]
            for member in family:
                _signal(member, psutil.Process.kill)  # it has nothing to save
            psutil.wait_procs(family, timeout=seconds)
        shutil.rmtree(self.folder, ignore_errors=True)


def start(
    folder: Path,
    port: int | None = None,
    wait_scale: float = 1,
    settings: Mapping[str, str] | None = None,
    server: str = SERVER,
) -> LocalAws:
    """Start a local AWS, whose log and temporary files are in a folder that is made anew.

    The scale applies to the state machines' waits and retry delays, below 1 for tests. The settings
    are variables for the server, which its functions inherit; the server is a module to run. If the
    port is taken, or the server does not start, that is a Failure.
    """
    with bound(port) as probe:
        port = int(probe.getsockname()[1])
    shutil.rmtree(folder, ignore_errors=True)
    temporary = folder / "tmp"
    temporary.mkdir(parents=True)
    log = folder / "ministack.log"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    environment |= CREDENTIALS | {
        "AWS_DEFAULT_REGION": REGION,
        "BIND_HOST": HOST,
        "MINISTACK_HOST": HOST,
        "GATEWAY_PORT": str(port),
        "IOT_MTLS_ENABLED": "0",
        "SFN_WAIT_SCALE": str(wait_scale),
        "LOG_LEVEL": "WARNING",
        "TMPDIR": str(temporary.resolve()),
        **(settings or {}),
    }
    local = None
    try:
        with log.open("wb") as output, _signals_held():
            # In a session of its own, Ctrl-C in a terminal does not reach it: this process ends it.
            started = subprocess.Popen(  # noqa: S603 - our own interpreter
                [sys.executable, "-m", server],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            process = psutil.Process(started.pid)
            local = LocalAws(port, started.pid, process.create_time(), str(folder), server)
        _wait_until_healthy(local, started, log)
    except BaseException:  # an interrupt too must leave nothing running
        if local:
            local.stop()
        raise
    return local


def remember(local: LocalAws, file: Path) -> None:
    """Write to a file which local AWS outlives this process, for `recall`."""
    file.write_text(json.dumps(asdict(local)))


def recall(file: Path) -> LocalAws | None:
    """Find the local AWS that an earlier process remembered; None if it has ended."""
    try:
        local = LocalAws(**json.loads(file.read_text()))
    except (FileNotFoundError, ValueError, TypeError):
        return None
    return local if local.process else None


@contextmanager
def _signals_held() -> Iterator[None]:
    """Handle an interrupt only after the block: within it, the new process is not known yet."""
    received: list[int] = []
    signals = (signal.SIGINT, signal.SIGTERM)
    handlers = [signal.signal(name, lambda number, _: received.append(number)) for name in signals]
    try:
        yield
    finally:
        for name, handler in zip(signals, handlers, strict=True):
            signal.signal(name, handler)
    for number in received:
        signal.raise_signal(number)


def _wait_until_healthy(local: LocalAws, server: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not _is_healthy(local):
        if server.poll() is not None or time.monotonic() > deadline:
            end = log.read_text(errors="replace").strip()[-2000:]
            raise Failure(f"The local AWS did not start. Its log ends:\n{end}")
        time.sleep(0.1)


def _is_healthy(local: LocalAws) -> bool:
    try:
        with urllib.request.urlopen(  # noqa: S310 - http on loopback
            f"{local.endpoint_url}/_ministack/health", timeout=2
        ) as answer:
            return bool(answer.status == 200)  # noqa: PLR2004
    except (urllib.error.URLError, OSError):
        return False


def _signal(process: psutil.Process, action: Any) -> None:
    with suppress(psutil.NoSuchProcess):
        action(process)
