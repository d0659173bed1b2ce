"""Lists both buckets side by side, in files of SQLite: millions of keys need little memory."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from inorder.audit.comparing import Subject
from inorder_fence.fenced_output import OutputState

ROWS = 1_000  # of a page, as S3 lists them
_CREATE = """
PRAGMA journal_mode = OFF;
PRAGMA synchronous = OFF;
CREATE TABLE listed (
    key TEXT, version TEXT, etag TEXT, modified TEXT, size INTEGER, PRIMARY KEY (key, version)
) WITHOUT ROWID;
"""
_BOTH = """
SELECT key, version, source.etag, source.modified, source.size, output.etag, output.modified
FROM sources.listed AS source LEFT JOIN outputs.listed AS output USING (key, version)
"""
_OUTPUTS_ALONE = """
SELECT key, version FROM outputs.listed EXCEPT SELECT key, version FROM sources.listed
"""


class Listed(NamedTuple):
    """An object as S3 lists it: a source, or an output under the key and version of its source."""

    key: str
    version: str  # "" if the policy keeps one output of a key: such a listing names no versions
    etag: str  # without quotes
    modified: str  # when it was written, in the form of ISO 8601
    size: int  # in bytes


class Pair(NamedTuple):
    """A listed source and its output, whose ETag and time are None if none is listed."""

    key: str
    version: str
    etag: str
    modified: str
    size: int
    output_etag: str | None
    output_modified: str | None

    @property
    def subject(self) -> Subject:
        """What the source is the source of."""
        return Subject(self.key, self.version or None)

    def stays(self, output: OutputState, before: datetime) -> bool:
        """Tell whether this is the output that was read, and both are older than a time.

        Then a later listing shows whether either has changed. S3's times have seconds only.
        """
        if not self.output_modified or not output.written:
            return False
        written = datetime.fromisoformat(self.output_modified).replace(microsecond=0)
        is_same = (output.etag or "").strip('"') == self.output_etag and output.written == written
        return is_same and max(written, datetime.fromisoformat(self.modified)) < before


class Listing:
    """What both buckets had when they were listed."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database
        [[self.sources]] = database.execute("SELECT count(*) FROM sources.listed")

    def pairs(self) -> Iterator[list[Pair]]:
        """List all sources, each with its output, by pages."""
        rows = self._database.execute(_BOTH)
        while page := rows.fetchmany(ROWS):
            yield [Pair(*row) for row in page]

    def outputs_alone(self) -> Iterator[list[Subject]]:
        """List the subjects of the outputs whose source is not listed, by pages."""
        rows = self._database.execute(_OUTPUTS_ALONE)
        while page := rows.fetchmany(ROWS):
            yield [Subject(key, version or None) for key, version in page]


@contextmanager
def listing(
    sources: Iterable[list[Listed]],
    outputs: Iterable[list[Listed]],
    progress: Callable[[int], None],
) -> Iterator[Listing]:
    """List both buckets at once, and tell `progress` how many more objects are listed."""
    with TemporaryDirectory() as folder:
        files = {name: Path(folder, name) for name in ("sources", "outputs")}
        with ThreadPoolExecutor(2) as pool:
            for stored in [
                pool.submit(_store, files["sources"], sources, progress),
                pool.submit(_store, files["outputs"], outputs, progress),
            ]:
                stored.result()
        with closing(sqlite3.connect(":memory:")) as database:
            for name, file in files.items():
                database.execute(f"ATTACH ? AS {name}", [str(file)])
            yield Listing(database)


def _store(file: Path, pages: Iterable[list[Listed]], progress: Callable[[int], None]) -> None:
    with closing(sqlite3.connect(file)) as database:
        database.executescript(_CREATE)
        for page in pages:
            database.executemany("INSERT OR REPLACE INTO listed VALUES (?, ?, ?, ?, ?)", page)
            progress(len(page))
        database.commit()
