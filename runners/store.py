"""The response store: every answer kept once, under the key of its request.

One SQLite file in WAL mode. Each outcome is committed as it arrives, so a process killed at any moment loses at most
the calls in flight; several processes may write at once. Every attempt is kept. What is *served* for a key is its first
``ok`` outcome, else its first ``truncated``, else its first finished one: whoever asks, whenever, gets the same.
An ``error`` is kept for the record and never served. Which engine made an attempt is recorded and never asked for.

The table ``attempts`` is built for size: keys are 32 bytes, and what attempts share (stage, model, engine) stands once,
in ``origins``. The view ``outcomes`` shows both in plain text. This module knows nothing of engines or tables of a run.
"""

import hashlib
import json
import os
import sqlite3
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import fields
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, NamedTuple, Self

from ..hf_datasets.errors import StoreError
from .requests import FINISHED, Outcome, Request, canonical_json

__all__ = ["FORMAT", "LAST_MS", "STORE_NAME", "ResponseStore", "StoredAttempt", "checksum", "engine_id", "store_error"]

STORE_NAME = "responses.sqlite"
"""What a store is called where nobody names it."""
FORMAT = 2
_OUTCOME = tuple(field.name for field in fields(Outcome))
_LOOKUP_SIZE = 500
_CHUNK_ROWS = 16_384
_CHUNK_CHARS = 2**24
_READ_CACHE_KIB = 2**15
_TOTALS = {
    "n_attempts": "COUNT(*)",
    "n_prompt_tokens": "SUM(n_prompt_tokens)",
    "n_cached_tokens": "SUM(n_cached_tokens)",
    "n_output_tokens": "SUM(n_output_tokens)",
    "n_reasoning_tokens": "SUM(n_reasoning_tokens)",
    "request_seconds": "SUM(seconds)",
}

_SCHEMA = (
    # UNIQUE through an index of its own: rows in the order of their arrival fill their pages, rows in the order of a
    # hash leave a third of each empty, and every commit would touch another place of the file.
    """CREATE TABLE attempts (
        id INTEGER PRIMARY KEY,
        key BLOB NOT NULL,
        attempt INTEGER NOT NULL,
        origin INTEGER NOT NULL,
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
        about TEXT NOT NULL,
        finished_ms INTEGER NOT NULL,
        checksum INTEGER NOT NULL,
        UNIQUE (key, attempt)
    )""",
    """CREATE TABLE origins (
        id INTEGER PRIMARY KEY,
        stage TEXT NOT NULL,
        model TEXT NOT NULL,
        engine TEXT NOT NULL,
        UNIQUE (stage, model, engine)
    )""",
    """CREATE TABLE IF NOT EXISTS sessions (
        id INTEGER PRIMARY KEY,
        work TEXT NOT NULL,
        seconds REAL NOT NULL,
        started_at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
    )""",
    """CREATE VIEW outcomes AS SELECT
        lower(hex(a.key)) AS key, attempt, status, text, reasoning, problem, finish_reason, n_prompt_tokens,
        n_cached_tokens, n_output_tokens, n_reasoning_tokens, seconds, final, o.stage, about, o.model,
        strftime('%Y-%m-%dT%H:%M:%fZ', finished_ms / 1000.0, 'unixepoch') AS finished_at, o.engine
    FROM attempts AS a LEFT JOIN origins AS o ON o.id = a.origin""",
    f"PRAGMA user_version = {FORMAT}",
)

_FROM_FORMAT_1 = (
    "ALTER TABLE outcomes RENAME TO outcomes_1",
    *_SCHEMA,
    "INSERT INTO origins (stage, model, engine) SELECT DISTINCT stage, model, '' FROM outcomes_1",
    """INSERT INTO attempts SELECT
        NULL, packed(key), attempt, origins.id, status, text, reasoning, problem, finish_reason, n_prompt_tokens,
        n_cached_tokens, n_output_tokens, n_reasoning_tokens, seconds, final, about,
        CAST(strftime('%s', finished_at) AS INTEGER) * 1000 + CAST(substr(finished_at, 21, 3) AS INTEGER),
        checksum(key, status, text, reasoning)
    FROM outcomes_1 JOIN origins USING (stage, model) ORDER BY outcomes_1.rowid""",
    "DROP TABLE outcomes_1",
)

LAST_MS = 253_402_300_799_000
"""The last second of the year 9999, as milliseconds since 1970."""
_STORED = (*_OUTCOME, "about", "origin", "finished_ms", "checksum")
_INSERT = (
    f"INSERT INTO attempts ({', '.join(_STORED)}, attempt) "
    f"SELECT {', '.join(f'?{n + 1}' for n in range(len(_STORED)))}, COALESCE(MAX(attempt) + 1, 0) "
    "FROM attempts WHERE key = ?1 RETURNING attempt"
)
_SERVED = (
    f"final = 1 AND status IN ({', '.join(map(repr, FINISHED))})",
    "status != 'ok', status != 'truncated', attempt",
)
_ADVICE = {
    sqlite3.SQLITE_FULL: "The disk is full. What was committed is kept: make room and run the same command again.",
    sqlite3.SQLITE_IOERR: "The disk is full, over a quota, or failing. What was committed is kept: put that right and "
    "run the same command again.",
    sqlite3.SQLITE_READONLY: "The file or its folder is read-only. Make it writable, or use another --store.",
    sqlite3.SQLITE_CANTOPEN: "It is a folder, or this user may not write there. Name another --store.",
    sqlite3.SQLITE_BUSY: "Another process is at work in it. Wait for that to end, then run the same command again.",
    sqlite3.SQLITE_CORRUPT: "It is damaged. `gistbench store verify {path}` says how; `gistbench store export {path} "
    "--recover --to NEW.sqlite` saves every answer that can still be read.",
}


class StoredAttempt(NamedTuple):
    """One attempt at a request, with what was asked and by whom it was answered."""

    key: str
    stage: str
    about: str
    model: str
    attempt: int
    """From 0, in the order of arrival."""
    status: str
    text: str
    reasoning: str
    problem: str
    finish_reason: str
    n_prompt_tokens: int
    n_cached_tokens: int
    n_output_tokens: int
    n_reasoning_tokens: int
    seconds: float
    final: bool
    finished_at: str
    """UTC, to the millisecond: ``2026-01-31T12:00:00.000Z``."""
    made_by: str
    """Id of the engine's description, as of ``engines_of``; empty where none was recorded."""


_SELECTED = (
    "lower(hex(a.key))",
    "a.origin",
    *(f"a.{name}" for name in StoredAttempt._fields[4:-3]),
    "a.about",
    "a.final",
    # A time that was damaged is no reason to fail.
    f"strftime('%Y-%m-%dT%H:%M:%fZ', MAX(0, MIN(a.finished_ms, {LAST_MS})) / 1000.0, 'unixepoch')",
    "a.checksum",
)
_ROW = ", ".join(_SELECTED)


class ResponseStore:
    """Outcomes on disk, by request key.

    Use it as a context manager. One instance belongs to one thread; other processes may have the same file open.
    """

    def __init__(
        self, path: Path | str, *, mode: Literal["write", "read", "alone"] = "write", timeout_s: float = 60.0
    ) -> None:
        """Open the store.

        A store of an older format is brought up to date in one transaction, whole or not at all.

        Args:
            path: the SQLite file.
            mode: ``write`` makes the store when it is not there; ``read`` does not, and works where nothing may be
                written; ``alone`` keeps every other process out, and refuses while one is in.
            timeout_s: how long a write waits for another process's write.

        Raises:
            StoreError: the file cannot be used, is not a response store, or is one of a newer format.
        """
        self.path = Path(path)
        self._mode = mode
        self._timeout_s = timeout_s
        self._session: int | None = None
        self._session_started = self._session_saved = 0.0
        self._origins: dict[tuple[str, str, str], int] = {}
        self._engine = ""
        self._describe: Callable[[], Mapping[str, Any]] | None = None
        self._how = ""
        if mode != "write" and not self.path.is_file():
            raise StoreError(f"There is no response store {path}.")
        try:
            if mode == "write":
                self.path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            reason = f"{error.filename}: {error.strerror}"
            raise StoreError(f"The response store {path} cannot be used: {reason}. Name another --store.") from error
        self._db = self._connect()
        try:
            self._begin()
        except sqlite3.Error as error:
            self.close()
            raise store_error(self.path, error) from error
        except StoreError:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def _connect(self) -> sqlite3.Connection:
        access = self._how or ("mode=rwc" if self._mode == "write" else "mode=rw")
        try:
            return sqlite3.connect(
                f"{self.path.resolve().as_uri()}?{access}", uri=True, timeout=self._timeout_s, isolation_level=None
            )
        except sqlite3.Error as error:
            raise store_error(self.path, error) from error

    def _begin(self) -> None:
        """Make an empty file a store, bring an old one up to date, refuse all that is none."""
        if self._mode == "alone":
            # Takes every lock with the first read, and keeps them.
            self._db.execute("PRAGMA locking_mode = EXCLUSIVE")
        try:
            version = self._version()
        except sqlite3.OperationalError as error:
            log = self.path.with_name(self.path.name + "-wal")
            may_not_write = error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY)
            if self._mode != "read" or not may_not_write or (log.exists() and log.stat().st_size):
                raise
            # No log can be made beside it, and nobody writes one: the file alone is all there is.
            self._db.close()
            self._how = "immutable=1"
            self._db = self._connect()
            version = self._version()
        if version > FORMAT or version < 0:
            raise StoreError(
                f"{self.path} is a response store of format {version}; this version reads format {FORMAT} and older. "
                "Install the gistbench that made it, or name another --store."
            )
        if version == 0:
            found = [name for (name,) in self._db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            if self._mode != "write" or not {"attempts", "origins", "sessions"}.issuperset(found):
                holds = f"it is a database with the tables {', '.join(found)}" if found else "it is empty"
                raise StoreError(f"{self.path} is not a response store ({holds}). Name another file, or move this one.")
        if version < FORMAT:
            self._set_up()
        elif self._mode == "write":
            self._log_ahead()
        # FULL would also survive a power cut at each commit; NORMAL survives every death of the process.
        self._db.execute("PRAGMA synchronous = NORMAL")

    def _version(self) -> int:
        return int(self._db.execute("PRAGMA user_version").fetchone()[0])

    def _log_ahead(self) -> None:
        """Have writers append to a log, whoever else does the same at this moment."""
        deadline = time.monotonic() + self._timeout_s
        while self._db.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
            try:
                # The change to WAL is the one thing for which SQLite itself does not wait.
                self._db.execute("PRAGMA journal_mode = WAL").fetchall()
                break
            except sqlite3.OperationalError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.01)

    def _set_up(self) -> None:
        """Make the tables of this format, in one transaction: nobody ever sees a store that is half made."""
        self._log_ahead()
        self._db.create_function("packed", 1, _packed, deterministic=True)
        self._db.create_function("checksum", 4, checksum, deterministic=True)
        self._db.execute("BEGIN IMMEDIATE")
        try:
            version = self._version()  # another process may have been first
            for statement in {0: _SCHEMA, 1: _FROM_FORMAT_1}.get(version, ()):
                self._db.execute(statement)
            self._db.execute("COMMIT")
        except sqlite3.Error:
            self.rollback()
            raise

    def query(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run one statement of SQL to its end, since a write is committed with its last row; return all rows.

        Raises:
            StoreError: SQLite cannot do it; the message says what to do.
        """
        try:
            return self._db.execute(statement, values).fetchall()
        except sqlite3.Error as error:
            raise store_error(self.path, error) from error

    def try_writing(self) -> None:
        """Make sure that outcomes can be kept; nothing is.

        Raises:
            StoreError: they cannot; the message says what to do.
        """
        self.query("BEGIN IMMEDIATE")
        self.rollback()

    def close(self) -> None:
        """Close the file. Nothing needs flushing: every outcome is committed already."""
        self._db.close()

    def commit(self, request: Request, outcome: Outcome) -> Outcome:
        """Keep one outcome, and return what the store serves for its key from now on.

        That is another process's outcome where that one came first; for an attempt that leaves the key unanswered,
        it is the outcome itself.

        Raises:
            StoreError: the outcome could not be kept: no room, a damaged file, another process that does not let go.
        """
        row = (
            _packed(outcome.key),
            *(getattr(outcome, name) for name in _OUTCOME[1:]),
            str(request.about),
            self._origin(request.stage, str(request.model), self._made_by()),
            time.time_ns() // 1_000_000,
            checksum(outcome.key, outcome.status, outcome.text, outcome.reasoning),
        )
        ((attempt,),) = self.query(_INSERT, row)
        if self._session is not None and time.monotonic() - self._session_saved >= 1:
            self._save_session()
        if attempt == 0:  # nobody else said anything
            return outcome
        return self.served([outcome.key]).get(outcome.key, outcome)

    @contextmanager
    def engine(self, describe: Callable[[], Mapping[str, Any]]) -> Iterator[None]:
        """Record with every outcome committed meanwhile what it was made by.

        Args:
            describe: gives what does not decide an answer but may change it: engine, versions, dtype, hardware,
                parallelism. Called once, at the first commit, when the model has been loaded.
        """
        before = self._describe, self._engine
        self._describe, self._engine = describe, ""
        try:
            yield
        finally:
            self._describe, self._engine = before

    def _made_by(self) -> str:
        if self._describe is not None:
            self._engine = canonical_json(self._describe()).decode()
            self._describe = None
        return self._engine

    def _origin(self, stage: str, model: str, engine: str) -> int:
        """Return the number that stands for a stage, a model and an engine."""
        origin = (stage, model, engine)
        if origin not in self._origins:
            self.query("INSERT OR IGNORE INTO origins (stage, model, engine) VALUES (?, ?, ?)", origin)
            ((number,),) = self.query("SELECT id FROM origins WHERE (stage, model, engine) = (?, ?, ?)", origin)
            self._origins[origin] = number
        return self._origins[origin]

    def add(self, attempts: Iterable[StoredAttempt], engines: Mapping[str, str]) -> int:
        """Keep attempts of another store, in their order, in one transaction; return how many were new.

        What is there already (same request, time, status and text) is left out, so that adding twice adds nothing.

        Args:
            attempts: of the other store.
            engines: descriptions as JSON, by ``made_by``.
        """
        n_new = 0
        self.query("BEGIN IMMEDIATE")
        try:
            for one in attempts:
                key, ms = _packed(one.key), _milliseconds(one.finished_at)
                known = "SELECT 1 FROM attempts WHERE key = ? AND (finished_ms, status, text) = (?, ?, ?)"
                if self.query(known, (key, ms, one.status, one.text)):
                    continue
                origin = self._origin(one.stage, one.model, engines.get(one.made_by, ""))
                outcome = (getattr(one, name) for name in _OUTCOME[1:])
                whole = checksum(one.key, one.status, one.text, one.reasoning)
                self.query(_INSERT, (key, *outcome, one.about, origin, ms, whole))
                n_new += 1
            self.query("COMMIT")
        except BaseException:
            self.rollback()
            raise
        return n_new

    def rollback(self) -> None:
        """Undo a transaction, where SQLite has not done so already."""
        self._origins.clear()  # some may have been made in it
        if self._db.in_transaction:
            self._db.execute("ROLLBACK")

    @contextmanager
    def session(self, work: str) -> Iterator[None]:
        """Keep the wall time of some work, up to the second even where the process is killed.

        Args:
            work: a name; sessions of the same work add up.
        """
        started = time.monotonic()
        self._session = int(self.query("INSERT INTO sessions (work, seconds) VALUES (?, 0) RETURNING id", [work])[0][0])
        self._session_started = self._session_saved = started
        try:
            yield
        finally:
            self._save_session()
            self._session = None

    def _save_session(self) -> None:
        self._session_saved = time.monotonic()
        elapsed = self._session_saved - self._session_started
        self.query("UPDATE sessions SET seconds = ? WHERE id = ?", [elapsed, self._session])

    def wall_seconds(self, work: str) -> float:
        """Return the wall time of all sessions of some work."""
        if self._session is not None:
            self._save_session()
        ((seconds,),) = self.query("SELECT SUM(seconds) FROM sessions WHERE work = ?", [work])
        return round(float(seconds or 0), 3)

    def served(self, keys: Iterable[str]) -> dict[str, Outcome]:
        """Return the outcome served for each key that has been answered; other keys are absent."""
        columns = f"lower(hex(key)), {', '.join(_OUTCOME[1:])}, checksum"
        found = {}
        for key, (*values, written) in self._select_served(keys, columns):
            found[key] = _outcome(tuple(values))
            if checksum(key, *values[1:4]) != written:
                raise self._changed(key)
        return found

    def _select_served(self, keys: Iterable[str], columns: str) -> Iterator[tuple[str, tuple[Any, ...]]]:
        """Yield each answered key with columns of the attempt that is served for it; the first must be the key."""
        finished, order = _SERVED
        for part in _parts(keys):
            last = None
            for row in self.query(
                f"SELECT {columns} FROM attempts WHERE key IN ({_marks(part)}) AND {finished} ORDER BY key, {order}",
                part,
            ):
                if row[0] != last:
                    last = row[0]
                    yield last, row

    def engines_of(self, keys: Iterable[str]) -> list[dict[str, Any]]:
        """Return which engines gave the answers that are served for some requests, the one with most first.

        Returns:
            For each engine ``made_by`` (a short id, the same in every store), ``n_answers``, and ``engine``, its
            description; None where none was recorded. More than one entry: the answers are mixed.
        """
        counts: dict[int, int] = {}
        for _, (_, origin) in self._select_served(dict.fromkeys(keys), "lower(hex(key)), origin"):
            counts[origin] = counts.get(origin, 0) + 1
        found: dict[str, int] = {}
        for number, _, _, engine in self._all_origins():
            if number in counts:
                found[engine] = found.get(engine, 0) + counts[number]
        ordered = sorted(found.items(), key=lambda one: (-one[1], one[0]))
        return [
            {"made_by": engine_id(engine), "n_answers": n, "engine": json.loads(engine) if engine else None}
            for engine, n in ordered
        ]

    def engines(self) -> dict[str, str]:
        """Return the descriptions of all engines as JSON, by ``made_by``."""
        return {engine_id(engine): engine for _, _, _, engine in self._all_origins()}

    def _all_origins(self) -> list[tuple[Any, ...]]:
        return self.query("SELECT id, stage, model, engine FROM origins ORDER BY id")

    def attempts(self, key: str) -> list[Outcome]:
        """Return every attempt at a request, oldest first."""
        return [_outcome(tuple(row[name] for name in _OUTCOME)) for row in self.rows(key)]

    def rows(self, key: str) -> list[dict[str, Any]]:
        """Return every attempt at a request with what it was about, as plain records, oldest first."""
        found = self.query(f"SELECT {_ROW}, '' FROM attempts AS a WHERE a.key = ? ORDER BY a.attempt", [_packed(key)])
        return [row._asdict() for chunk in self._chunks(found) for row in chunk]

    def rows_of(self, asked: Iterable[tuple[str, str]]) -> Iterator[list[StoredAttempt]]:
        """Yield every attempt at some requests in lists of bounded size, sorted by stage, subject, key and attempt.

        All are of one moment, whatever is committed meanwhile.

        Args:
            asked: (request key, stage) pairs, repeats allowed. The stage stands in the rows, whoever asked first.
        """
        with self._reader() as db:
            db.execute("BEGIN")
            db.execute("CREATE TEMP TABLE asked (stage TEXT, key BLOB)")
            db.executemany("INSERT INTO asked VALUES (?, ?)", ((stage, _packed(key)) for key, stage in asked))
            # Repeats go by sorting, which also brings the keys into the order of their index. Only places are sorted
            # for the rows, not texts. CROSS: in this order.
            db.execute("CREATE TEMP TABLE sorted (place INTEGER PRIMARY KEY, id INTEGER, stage TEXT)")
            db.execute(
                "INSERT INTO sorted (id, stage) SELECT a.id, s.stage FROM (SELECT stage, key FROM asked GROUP BY 1, 2) "
                "AS s CROSS JOIN attempts AS a ON a.key = s.key ORDER BY s.stage, a.about, s.key, a.attempt"
            )
            yield from self._chunks(
                db.execute(
                    f"SELECT {_ROW}, s.stage FROM sorted AS s CROSS JOIN attempts AS a ON a.id = s.id ORDER BY s.place"
                )
            )

    def scan(self) -> Iterator[list[StoredAttempt]]:
        """Yield all attempts of one moment in the order of arrival, in lists of bounded size."""
        with self._reader() as db:
            yield from self._chunks(
                db.execute(f"SELECT {_ROW}, '' FROM attempts AS a ORDER BY a.id"),
            )

    def each(self, statement: str) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of one statement of SQL that reads, however many, as of one moment."""
        with self._reader() as db:
            yield from db.execute(statement)

    def mark(self, keys: Iterable[str]) -> None:
        """Make ``marked (key)`` a temporary table of these keys, for statements about many."""
        self.query("CREATE TEMP TABLE IF NOT EXISTS marked (key BLOB PRIMARY KEY) WITHOUT ROWID")
        self.query("DELETE FROM marked")
        try:
            self._db.execute("BEGIN")
            self._db.executemany("INSERT OR IGNORE INTO marked VALUES (?)", ((_packed(key),) for key in keys))
        except sqlite3.Error as error:
            raise store_error(self.path, error) from error
        finally:
            if self._db.in_transaction:
                self._db.execute("COMMIT")

    @contextmanager
    def _reader(self) -> Iterator[sqlite3.Connection]:
        """Open the file once more: a long read must not hold back a commit of this instance."""
        with closing(self._connect()) as db:
            try:
                db.execute(f"PRAGMA cache_size = -{_READ_CACHE_KIB}")
                db.execute("PRAGMA temp_store = FILE")
                yield db
            except sqlite3.Error as error:
                raise store_error(self.path, error) from error

    def _chunks(self, rows: Iterable[tuple[Any, ...]]) -> Iterator[list[StoredAttempt]]:
        origins = {n: (stage, model, engine_id(engine)) for n, stage, model, engine in self._all_origins()}
        chunk: list[StoredAttempt] = []
        n_chars = 0
        for key, origin, *middle, about, final, finished_at, written, asked_by in rows:
            if checksum(key, *middle[1:4]) != written:
                raise self._changed(key)
            stage, model, made_by = origins.get(origin, ("", "", ""))
            values = (key, asked_by or stage, about, model, *middle, bool(final), finished_at, made_by)
            chunk.append(StoredAttempt._make(values))
            n_chars += len(middle[2]) + len(middle[3])
            if len(chunk) >= _CHUNK_ROWS or n_chars >= _CHUNK_CHARS:
                yield chunk
                chunk, n_chars = [], 0
        if chunk:
            yield chunk

    def _changed(self, key: str) -> StoreError:
        advice = _ADVICE[sqlite3.SQLITE_CORRUPT].format(path=self.path)
        return StoreError(
            f"The response store {self.path} cannot be used: an answer to request {key} was changed since. {advice}"
        )

    def totals(self, keys: Iterable[str]) -> dict[str, int | float]:
        """Return tokens and seconds summed over every attempt at some requests."""
        sums = dict.fromkeys(_TOTALS, 0)
        for part in _parts(keys):
            (row,) = self.query(
                f"SELECT {', '.join(_TOTALS.values())} FROM attempts WHERE key IN ({_marks(part)})", part
            )
            sums = {name: sums[name] + (value or 0) for name, value in zip(sums, row, strict=True)}
        return {**sums, "request_seconds": round(sums["request_seconds"], 3)}

    def __len__(self) -> int:
        return int(self.query("SELECT COUNT(*) FROM attempts")[0][0])


def store_error(path: Path, error: sqlite3.Error) -> StoreError:
    """Return what to tell about an error of SQLite: what happened, and what to do."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # the rest says which call it was
    if code == sqlite3.SQLITE_NOTADB:
        return StoreError(
            f"{path} is not a response store ({error}). Name another file, or move this one. If it was one, its header "
            f"is damaged: `gistbench store export {path} --recover --to NEW.sqlite` saves what can still be read."
        )
    if code == sqlite3.SQLITE_IOERR and path.exists() and not os.access(path, os.W_OK):
        code = sqlite3.SQLITE_READONLY  # a lock on a file that was opened to read
    found = str(error)
    if found.startswith("Could not decode"):  # damage that SQLite itself does not notice; the rest is the answer
        code, found = sqlite3.SQLITE_CORRUPT, "a text in it is none"
    advice = _ADVICE.get(code, "").format(path=path)
    return StoreError(f"The response store {path} cannot be used: {found}. {advice}".rstrip())


def _packed(key: str) -> bytes | str:
    """Return a sha256 in 32 bytes; what is none is a key that nothing has."""
    try:
        return bytes.fromhex(key) if len(key) == 64 else key
    except ValueError:
        return key


def checksum(key: str, status: str, text: str, reasoning: str) -> int:
    """Return what shows that an answer is as it was written: SQLite notices damage to its own structures only."""
    return zlib.crc32("\n".join((key, status, text, reasoning)).encode())


def engine_id(engine: str) -> str:
    """Return the short id of an engine's description."""
    return hashlib.sha256(engine.encode()).hexdigest()[:12] if engine else ""


def _milliseconds(utc: str) -> int:
    return round(datetime.fromisoformat(utc).timestamp() * 1000)


def _parts(keys: Iterable[str]) -> Iterator[list[bytes | str]]:
    packed = [_packed(key) for key in keys]
    for start in range(0, len(packed), _LOOKUP_SIZE):
        yield packed[start : start + _LOOKUP_SIZE]


def _marks(values: Sequence[Any]) -> str:
    return ", ".join("?" * len(values))


def _outcome(row: tuple[Any, ...]) -> Outcome:
    values = dict(zip(_OUTCOME, row, strict=True))
    values["final"] = bool(values["final"])
    return Outcome(**values)
