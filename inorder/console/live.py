"""A list of executions that is kept up to date while a page is open."""

import threading
import time
from datetime import UTC, datetime
from typing import NamedTuple

from inorder.aws.executions import StateMachine
from inorder.model.execution import BEGINNING, Execution, Filter, to_json

FIELDS = (
    *("arn", "id", "key", "sequencer", "version_id", "record_id", "is_repair"),
    *("ended_as", "status", "error", "cause", "attempt", "seconds", "waited"),
    *("started", "stopped", "seen"),
)
FIRST, MORE = 100, 4  # the executions that are read first; each later read has MORE times as many
MOST = 25_600  # that are listed: a page with more is slow
PATIENCE_SECONDS = 0.5  # for which an answer waits for what is new
PAUSE_SECONDS = 0.5  # between two reads


class Listed(NamedTuple):
    """An execution in the list, with the revision in which it came or changed."""

    revision: int
    execution: Execution
    text: str  # as JSON; to make it takes longer than all the rest of an answer


class LiveList:
    """The newest executions of a state machine, read once, and then only what is new."""

    def __init__(self, machine: StateMachine, since: datetime | None = None) -> None:
        self._machine, self._since = machine, since
        self._pause = max(PAUSE_SECONDS, machine.poll_seconds)
        self._changing = threading.Lock()
        self._reader: threading.Thread | None = None
        self._read_at = 0.0
        self._error: Exception | None = None
        self._is_loading = True
        self._read_to = datetime.now(UTC)  # what has changed since then is to be read
        self._rows: dict[str, Listed] = {}
        self._newest_first: list[Listed] = []
        # Larger than any of a server that had this port before.
        self._first = self._revision = int(time.time() * 1000)

    def answer(self, revision: int | None = None) -> str:
        """List the newest executions, as JSON; or raise what reading has met, if it failed last.

        Given the revision of an earlier answer, only those that have come or changed since.
        """
        reader = self._begin()
        reader.join(PATIENCE_SECONDS)
        with self._changing:
            error, rows, now = self._error, self._newest_first, self._revision
            is_loading = self._is_loading
        if error:
            raise error
        is_whole = revision is None or not self._first <= revision <= now
        since = -1 if is_whole or revision is None else revision
        texts = [row.text for row in rows if row.revision > since]
        facts = {"revision": now, "is_whole": is_whole, "is_loading": is_loading, "most": MOST}
        return f'{to_json(facts)[:-1]}, "executions": [{", ".join(texts)}]}}'

    def _begin(self) -> threading.Thread:
        """Read what is new in a thread, unless one does, or did so just now."""
        with self._changing:
            reader = self._reader
            is_due = time.monotonic() > self._read_at + self._pause
            if reader is None or (is_due and not reader.is_alive()):
                reader = self._reader = threading.Thread(target=self._read, daemon=True)
                reader.start()
            return reader

    def _read(self) -> None:
        error, now = None, datetime.now(UTC)
        try:
            if self._is_loading:
                limit, is_more = FIRST, True
                while is_more:
                    listed = self._machine.select(Filter(since=self._since, limit=limit))
                    is_more = self._learn(listed) == limit < MOST
                    limit *= MORE
            else:
                self._learn(self._machine.changed(self._read_to))
            self._read_to = now
        except Exception as failure:  # `answer` raises it
            error = failure
        with self._changing:
            self._error = error
            self._is_loading = self._is_loading and error is not None
            self._read_at = time.monotonic()

    def _learn(self, executions: list[Execution]) -> int:
        """Note what has come and what has changed, and tell how many were read."""
        revision, has_changed = self._revision + 1, False
        for execution in executions:
            row = self._rows.get(execution.arn)
            if not row or (execution is not row.execution and execution != row.execution):
                shown = to_json({name: getattr(execution, name) for name in FIELDS})
                self._rows[execution.arn] = Listed(revision, execution, shown)
                has_changed = True
        if has_changed:
            newest_first = sorted(
                self._rows.values(), key=lambda row: row.execution.seen or BEGINNING, reverse=True
            )[:MOST]
            self._rows = {row.execution.arn: row for row in newest_first}
            with self._changing:
                self._newest_first, self._revision = newest_first, revision
        return len(executions)
