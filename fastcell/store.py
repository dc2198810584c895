"""The result store: one SQLite file that keeps every result the moment it is there.

    results (cell_key, task, protocol_key, seed, record)    a row for each result, `record` as JSON
    plan    (name, value)                                   what a search does, as JSON values

Write-ahead logging, a transaction for each write: a process that is killed loses the run in hand
and nothing else, and several may read and write at once. The first result of an id stays.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn

from .errors import StoreError
from .results import Result, ResultId

SCHEMA_VERSION = 1
"""Kept in the file as its user_version; 0 is a new file."""

BUSY_SECONDS = 30.0
"""How long a write waits for another process to finish its own."""

_SCHEMA = f"""
BEGIN IMMEDIATE;
CREATE TABLE IF NOT EXISTS results (
    cell_key TEXT NOT NULL, task TEXT NOT NULL, protocol_key TEXT NOT NULL, seed INTEGER NOT NULL,
    record TEXT NOT NULL,
    PRIMARY KEY (cell_key, task, protocol_key, seed)
) STRICT;
CREATE TABLE IF NOT EXISTS plan (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
PRAGMA user_version = {SCHEMA_VERSION};
COMMIT;
"""

_MENDS = {
    sqlite3.SQLITE_READONLY: "make the file and its folder writable, or choose another folder",
    sqlite3.SQLITE_FULL: "free some disk space and run again: what was recorded is kept",
    sqlite3.SQLITE_NOTADB: "expected a fastcell result store; choose another folder",
    sqlite3.SQLITE_CORRUPT: "the file is damaged; restore a copy or choose another folder",
    sqlite3.SQLITE_BUSY: f"another process held it for {BUSY_SECONDS:g} s; run again when it ends",
    sqlite3.SQLITE_CANTOPEN: "expected a writable folder that exists",
    sqlite3.SQLITE_IOERR: "check the disk and run again: what was recorded is kept",
}


class Store:
    """Results by id, and the plan of the search they belong to. A context manager.

    Raises StoreError, here and in every method, for a missing folder, a file that is something
    else or has another schema, and whatever keeps SQLite from reading or writing.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        with self._errors():
            # No implicit transactions: each statement is one, whole or not at all.
            self._database = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None)
        try:
            with self._errors():
                self._prepare()
        except StoreError:
            self.close()
            raise

    def _prepare(self) -> None:
        """Checks what the file is, and makes a new one a store."""
        # Both at one moment: another process may be filling the same new file.
        self._database.execute("BEGIN")
        (schema,) = self._database.execute("PRAGMA user_version").fetchone()
        filled = self._database.execute("SELECT 1 FROM sqlite_schema").fetchone()
        self._database.execute("COMMIT")
        if schema == 0 and filled:
            self._refuse("another SQLite database: choose another folder")
        if schema > SCHEMA_VERSION:
            self._refuse(f"the newer schema version {schema}: update fastcell")
        if schema not in (0, SCHEMA_VERSION):
            self._refuse(f"the older schema version {schema}: choose another folder")
        self._write_ahead()
        if schema == 0:
            self._database.executescript(_SCHEMA)

    def _write_ahead(self) -> None:
        """Turns write-ahead logging on. SQLite's timeout does not hold here, so it is kept here."""
        end = time.monotonic() + BUSY_SECONDS
        while True:
            try:
                self._database.execute("PRAGMA journal_mode = WAL")
                return
            except sqlite3.OperationalError as error:
                busy = error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY
                if not busy or time.monotonic() > end:
                    raise
                time.sleep(0.01)

    def _refuse(self, found: str) -> NoReturn:
        expected = f"a fastcell result store of schema version {SCHEMA_VERSION}"
        raise StoreError(f"{self.path}: expected {expected}, found {found}")

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """SQLite's errors as StoreErrors that name the mend."""
        try:
            yield
        except sqlite3.Error as error:
            code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
            mend = _MENDS.get(code & 0xFF, "choose another folder")
            raise StoreError(f"{self.path}: {error}; {mend}") from error

    def add(self, result: Result) -> bool:
        """Records the result, whole; False when its id has one already, which stays."""
        row = (*result.id, result.to_json())
        with self._errors():
            cursor = self._database.execute(
                "INSERT OR IGNORE INTO results VALUES (?, ?, ?, ?, ?)", row
            )
        return cursor.rowcount == 1

    def get(self, id: ResultId) -> Result | None:
        """The result of that id, None when there is none."""
        with self._errors():
            row = self._database.execute(
                "SELECT record FROM results"
                " WHERE (cell_key, task, protocol_key, seed) = (?, ?, ?, ?)",
                id,
            ).fetchone()
        return None if row is None else self._result(row[0])

    def results(self) -> list[Result]:
        """All of them, in order of their ids."""
        with self._errors():
            rows = self._database.execute(
                "SELECT record FROM results ORDER BY cell_key, task, protocol_key, seed"
            ).fetchall()
        return [self._result(record) for (record,) in rows]

    def _result(self, record: str) -> Result:
        try:
            return Result.from_json(record)
        except (ValueError, TypeError) as error:
            mend = _MENDS[sqlite3.SQLITE_CORRUPT]
            raise StoreError(f"{self.path}: unreadable result ({error}); {mend}") from error

    def plan(self) -> dict[str, Any]:
        """What `set_plan` recorded; empty when it did not."""
        with self._errors():
            rows = self._database.execute("SELECT name, value FROM plan ORDER BY name").fetchall()
        return {name: json.loads(value) for name, value in rows}

    def set_plan(self, plan: Mapping[str, Any]) -> dict[str, Any]:
        """Records JSON values by name, all or none, unless there is a plan. The one that holds."""
        rows = [(name, json.dumps(value)) for name, value in plan.items()]
        with self._errors(), self._database:
            self._database.execute("BEGIN IMMEDIATE")
            if not self._database.execute("SELECT 1 FROM plan").fetchone():
                self._database.executemany("INSERT INTO plan VALUES (?, ?)", rows)
        return self.plan()

    def close(self) -> None:
        """Closes the file; the store is of no use afterwards."""
        self._database.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
