"""The pairs of a source and its output that an earlier audit found right, in the user's cache.

A listing does not show of which source an output was made. So an audit asks S3 about each output,
but about each only once: what is written again has another ETag or time, and a pair that was right
stays right.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from hashlib import blake2b
from pathlib import Path

from inorder.audit.comparing import Scope
from inorder.audit.listing import Pair

FORM = 1  # of what is stored; with another one, nothing of before counts
MOST_STORED = 3  # for each pair that is listed: then most are of objects that have gone
_CREATE = "CREATE TABLE IF NOT EXISTS pairs (subject BLOB PRIMARY KEY, pair BLOB) WITHOUT ROWID"


def cache_file(stack_name: str) -> Path | None:
    """Name a stack's file in the user's cache; None for a user without a home."""
    try:
        folder = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    except RuntimeError:
        return None
    return Path(folder, "inorder", f"audit-{stack_name}.sqlite")


class RightPairs:
    """A list of pairs that were right.

    A pair is stored as a hash, which is its checksum, too: a damaged, an old or a lost list costs
    requests, and changes no verdict. The hash begins with what is compared, so a stack with other
    buckets or another policy has other ones. What SQLite cannot read or write is forgotten. Without
    a file, nothing is kept.
    """

    def __init__(self, file: Path | None, scope: Scope) -> None:
        facts = (FORM, scope.bucket, scope.output_bucket, scope.keeps, scope.handles_deletions)
        self._scope, self._file = repr(facts), file
        self._database = _opened(None)
        with self._forgiving(), suppress(OSError):
            if file:
                file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._database = _opened(file)

    def among(self, pairs: Iterable[Pair]) -> set[Pair]:
        """Give those of some pairs, at most a listing's page, that are stored."""
        wanted = {self._hash(pair): pair for pair in pairs if pair.output_etag}
        places = ", ".join("?" * len(wanted))
        query = f"SELECT pair FROM pairs WHERE subject IN ({places})"  # noqa: S608 - only ?
        with self._forgiving():
            stored = self._database.execute(query, [*map(_subject, wanted.values())]).fetchall()
            return {wanted[pair] for [pair] in stored if pair in wanted}
        return set()

    def add(self, pairs: Iterable[Pair]) -> None:
        """Store pairs that are right, each in the place of its subject's last one."""
        rows = [(_subject(pair), self._hash(pair)) for pair in pairs]
        with self._forgiving(), self._database:
            self._database.executemany("INSERT OR REPLACE INTO pairs VALUES (?, ?)", rows)

    def close(self, listed: int | None) -> None:
        """End; begin anew next time if too few of the pairs are among so many that are listed."""
        stored = 0
        with self._forgiving():
            [[stored]] = self._database.execute("SELECT count(*) FROM pairs")
        self._database.close()
        if self._file and listed is not None and stored > MOST_STORED * listed:
            self._file.unlink(missing_ok=True)

    @contextmanager
    def _forgiving(self) -> Iterator[None]:
        """Go on without the list if SQLite fails, and delete a list that it cannot read."""
        try:
            yield
        except sqlite3.DatabaseError as error:
            self._database.close()
            file, self._file = self._file, None
            # Of other errors, such as that it is locked, nothing is damaged.
            if file and not isinstance(error, sqlite3.OperationalError):
                with suppress(OSError):
                    file.unlink(missing_ok=True)
                    self._file = file
            self._database = _opened(self._file)

    def _hash(self, pair: Pair) -> bytes:
        return _hashed(self._scope, *map(str, pair))


def _opened(file: Path | None) -> sqlite3.Connection:
    """Open a list, without a file an empty one."""
    database = sqlite3.connect(file or ":memory:")
    database.execute(_CREATE)
    return database


def _subject(pair: Pair) -> bytes:
    return _hashed(pair.key, pair.version)


def _hashed(*texts: str) -> bytes:
    return blake2b(repr(texts).encode(), digest_size=16).digest()
