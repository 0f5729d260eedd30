"""The response store: every answer kept once, under the key of its request.

One SQLite file in WAL mode. Each outcome is committed as it arrives, so a process killed at any moment loses at most
the calls in flight; several processes may write at once. Every attempt is kept. What is *served* for a key is its first
``ok`` outcome, else its first ``truncated``, else its first finished one: whoever asks, whenever, gets the same.
An ``error`` is kept for the record and never served.
"""

import sqlite3
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from ..hf_datasets.errors import StoreError
from .requests import FINISHED, Outcome, Request

__all__ = ["ResponseStore"]

FORMAT = 1
_COLUMNS = tuple(field.name for field in fields(Outcome))
_LOOKUP_SIZE = 500
_TOTALS = {
    "n_attempts": "COUNT(*)",
    "n_prompt_tokens": "SUM(n_prompt_tokens)",
    "n_cached_tokens": "SUM(n_cached_tokens)",
    "n_output_tokens": "SUM(n_output_tokens)",
    "n_reasoning_tokens": "SUM(n_reasoning_tokens)",
    "request_seconds": "SUM(seconds)",
}
_MARKS = ", ".join("?" * len(FINISHED))

_SCHEMA = f"""
CREATE TABLE IF NOT EXISTS outcomes (
    key TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    status TEXT NOT NULL,
    text TEXT NOT NULL,
    reasoning TEXT NOT NULL,
    problem TEXT NOT NULL,
    finish_reason TEXT NOT NULL,
    n_prompt_tokens INTEGER NOT NULL,
    n_cached_tokens INTEGER NOT NULL,
    n_output_tokens INTEGER NOT NULL,
    n_reasoning_tokens INTEGER NOT NULL,
    seconds REAL NOT NULL,
    final INTEGER NOT NULL,
    stage TEXT NOT NULL,
    about TEXT NOT NULL,
    model TEXT NOT NULL,
    finished_at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
    PRIMARY KEY (key, attempt)
);
CREATE TABLE IF NOT EXISTS sessions (
    id INTEGER PRIMARY KEY,
    work TEXT NOT NULL,
    seconds REAL NOT NULL,
    started_at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
);
PRAGMA user_version = {FORMAT};
"""


class ResponseStore:
    """Outcomes on disk, by request key.

    Use it as a context manager. One instance belongs to one thread; other processes may have the same file open.
    """

    def __init__(self, path: Path | str, *, timeout_s: float = 60.0) -> None:
        """Open the store, making it when it is not there.

        Args:
            path: the SQLite file.
            timeout_s: how long a write waits for another process's write.

        Raises:
            StoreError: the file is not a response store, or one of another format.
        """
        self.path = Path(path)
        self._session: int | None = None
        self._session_started = self._session_saved = 0.0
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._db = sqlite3.connect(self.path, timeout=timeout_s, isolation_level=None)
            version = self._db.execute("PRAGMA user_version").fetchone()[0]
            if version == 0:
                self._make(timeout_s)
            elif version != FORMAT:
                self._db.close()
                raise StoreError(f"{path} is a response store of format {version}; this version reads format {FORMAT}.")
            # FULL would also survive a power cut at each commit; NORMAL survives every death of the process.
            self._db.execute("PRAGMA synchronous = NORMAL")
        except sqlite3.OperationalError as error:  # locked, read-only, or no room
            raise StoreError(f"The response store {path} cannot be used: {error}.") from error
        except (sqlite3.DatabaseError, OSError) as error:
            raise StoreError(
                f"{path} is not a response store ({error}). Name another file, or move this one."
            ) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def _make(self, timeout_s: float) -> None:
        """Make an empty file a store, whoever else does the same at this moment."""
        tables = self._db.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        if others := [name for (name,) in tables if name not in ("outcomes", "sessions")]:
            raise sqlite3.DatabaseError(f"it is a database with the tables {', '.join(others)}")
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                # The change to WAL is the one thing for which SQLite itself does not wait.
                self._db.execute("PRAGMA journal_mode = WAL")
                break
            except sqlite3.OperationalError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.01)
        # One transaction, so that nobody ever sees a store that is half made.
        self._db.executescript(f"BEGIN IMMEDIATE;{_SCHEMA}COMMIT;")

    def _execute(self, statement: str, values: list[Any] | None = None) -> sqlite3.Cursor:
        try:
            return self._db.execute(statement, values or [])
        except sqlite3.Error as error:  # no room, locked for too long, or a damaged file
            raise StoreError(f"The response store {self.path} cannot be used: {error}.") from error

    def close(self) -> None:
        """Close the file. Nothing needs flushing: every outcome is committed already."""
        self._db.close()

    def commit(self, request: Request, outcome: Outcome) -> Outcome:
        """Keep one outcome, and return what the store serves for its key from now on.

        That is another process's outcome where that one came first; for an attempt that leaves the key unanswered,
        it is the outcome itself.
        """
        values = [getattr(outcome, name) for name in _COLUMNS]
        self._insert(request, outcome.key, values)
        if self._session is not None and time.monotonic() - self._session_saved >= 1:
            self._save_session()
        return self.served([outcome.key]).get(outcome.key, outcome)

    def _insert(self, request: Request, key: str, values: list[Any]) -> None:
        self._execute(
            f"INSERT INTO outcomes ({', '.join(_COLUMNS)}, attempt, stage, about, model) "
            f"SELECT {', '.join('?' * len(_COLUMNS))}, COALESCE(MAX(attempt) + 1, 0), ?, ?, ? "
            "FROM outcomes WHERE key = ?",
            [*values, request.stage, str(request.about), str(request.model), key],
        )

    @contextmanager
    def session(self, work: str) -> Iterator[None]:
        """Keep the wall time of some work, up to the second even where the process is killed.

        Args:
            work: a name; sessions of the same work add up.
        """
        started = time.monotonic()
        self._session = int(
            self._execute("INSERT INTO sessions (work, seconds) VALUES (?, 0) RETURNING id", [work]).fetchone()[0]
        )
        self._session_started = self._session_saved = started
        try:
            yield
        finally:
            self._save_session()
            self._session = None

    def _save_session(self) -> None:
        self._session_saved = time.monotonic()
        elapsed = self._session_saved - self._session_started
        self._execute("UPDATE sessions SET seconds = ? WHERE id = ?", [elapsed, self._session])

    def wall_seconds(self, work: str) -> float:
        """Return the wall time of all sessions of some work."""
        if self._session is not None:
            self._save_session()
        row = self._execute("SELECT SUM(seconds) FROM sessions WHERE work = ?", [work]).fetchone()
        return round(float(row[0] or 0), 3)

    def served(self, keys: Iterable[str]) -> dict[str, Outcome]:
        """Return the outcome served for each key that has been answered; other keys are absent."""
        found: dict[str, Outcome] = {}
        wanted = list(keys)
        for start in range(0, len(wanted), _LOOKUP_SIZE):
            part = wanted[start : start + _LOOKUP_SIZE]
            rows = self._execute(
                f"SELECT {', '.join(_COLUMNS)} FROM outcomes "
                f"WHERE key IN ({', '.join('?' * len(part))}) AND final = 1 AND status IN ({_MARKS}) "
                "ORDER BY key, status != 'ok', status != 'truncated', attempt",
                [*part, *FINISHED],
            )
            for outcome in map(_outcome, rows):
                found.setdefault(outcome.key, outcome)
        return found

    def attempts(self, key: str) -> list[Outcome]:
        """Return every attempt at a request, oldest first."""
        return [_outcome(tuple(row[name] for name in _COLUMNS)) for row in self.rows(key)]

    def rows(self, key: str) -> list[dict[str, Any]]:
        """Return every attempt at a request with what it was about, as plain records, oldest first."""
        columns = (*_COLUMNS, "attempt", "stage", "about", "model", "finished_at")
        found = self._execute(f"SELECT {', '.join(columns)} FROM outcomes WHERE key = ? ORDER BY attempt", [key])
        return [dict(zip(columns, row, strict=True)) for row in found]

    def totals(self, keys: Iterable[str]) -> dict[str, int | float]:
        """Return tokens and seconds summed over every attempt at some requests."""
        sums = dict.fromkeys(_TOTALS, 0)
        wanted = list(keys)
        for start in range(0, len(wanted), _LOOKUP_SIZE):
            part = wanted[start : start + _LOOKUP_SIZE]
            row = self._execute(
                f"SELECT {', '.join(_TOTALS.values())} FROM outcomes WHERE key IN ({', '.join('?' * len(part))})", part
            ).fetchone()
            sums = {name: sums[name] + (value or 0) for name, value in zip(sums, row, strict=True)}
        return {**sums, "request_seconds": round(sums["request_seconds"], 3)}

    def __len__(self) -> int:
        return int(self._execute("SELECT COUNT(*) FROM outcomes").fetchone()[0])


def _outcome(row: tuple[object, ...]) -> Outcome:
    values = dict(zip(_COLUMNS, row, strict=True))
    values["final"] = bool(values["final"])
    return Outcome(**values)  # type: ignore[arg-type]
