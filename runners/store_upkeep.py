"""What is done to a response store besides running: to measure it, check it, thin it out, and write it elsewhere."""

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ..hf_datasets._atomic import replacing
from ..hf_datasets.errors import ConfigError, StoreError
from .accounting import record_batch, write_batches
from .requests import STATUSES
from .store import ResponseStore, StoredAttempt, checksum
from .suitefolder import SuiteFolder, run_folders

__all__ = [
    "StoreStatistics",
    "count_removable",
    "keys_named",
    "measure",
    "only",
    "problems",
    "refuse_unknown",
    "remove",
    "write_jsonl",
    "write_parquet",
    "write_store",
]

_COUNTS = ("n_attempts", "n_prompt_tokens", "n_cached_tokens", "n_output_tokens", "n_reasoning_tokens")
_SUMS = """SELECT o.model, o.stage, COUNT(*), SUM(n_prompt_tokens), SUM(n_cached_tokens), SUM(n_output_tokens),
    SUM(n_reasoning_tokens), SUM(seconds), SUM(length(CAST(text AS BLOB)) + length(CAST(reasoning AS BLOB))),
    strftime('%Y-%m-%dT%H:%M:%SZ', MIN(finished_ms) / 1000, 'unixepoch'),
    strftime('%Y-%m-%dT%H:%M:%SZ', MAX(finished_ms) / 1000, 'unixepoch')
    FROM attempts AS a LEFT JOIN origins AS o ON o.id = a.origin GROUP BY o.model, o.stage ORDER BY o.model, o.stage"""
# SQLite takes the other columns from the row of the minimum: the attempt that is served, else the first one.
_STANDING = """SELECT o.model, o.stage, CASE WHEN place < 3000000000 THEN status ELSE 'error' END, COUNT(*)
    FROM (SELECT origin, status, MIN(attempt + 1000000000 * CASE
            WHEN NOT final OR status = 'error' THEN 3 WHEN status = 'ok' THEN 0 WHEN status = 'truncated' THEN 1 ELSE 2
        END) AS place FROM attempts GROUP BY key) AS a
    LEFT JOIN origins AS o ON o.id = a.origin GROUP BY 1, 2, 3"""
_WRITTEN = "SELECT lower(hex(key)), status, text, reasoning, checksum FROM attempts"
_KNOWN = ", ".join(map(repr, STATUSES))
_INVARIANTS = {
    f"of an unknown status (there are: {', '.join(STATUSES)})": f"status NOT IN ({_KNOWN})",
    "with a negative count of tokens or seconds": "MIN(n_prompt_tokens, n_cached_tokens, n_output_tokens, "
    "n_reasoning_tokens, seconds) < 0",
    "whose mark of being final is neither 0 nor 1": "final NOT IN (0, 1)",
    "whose key is no sha256": "typeof(key) != 'blob' OR length(key) != 32",
    "whose stage and model are not recorded": "origin NOT IN (SELECT id FROM origins)",
}


@dataclass(frozen=True)
class StoreStatistics:
    """What one model was asked in one stage, over all attempts."""

    model: str
    stage: str
    n_requests: int
    outcomes: dict[str, int]
    """Requests by what stands for them: the outcome that is served, or ``error`` where none is."""
    n_attempts: int
    n_prompt_tokens: int
    n_cached_tokens: int
    n_output_tokens: int
    n_reasoning_tokens: int
    request_seconds: float
    """Of requests that ran at once, each its own."""
    text_bytes: int
    """Of answers and reasoning."""
    first_at: str
    last_at: str
    rates: dict[str, float] = field(default_factory=dict)
    """Shares of the requests that are not ``ok``."""


def measure(store: ResponseStore) -> list[StoreStatistics]:
    """Return what was asked, by model and stage."""
    standing: dict[tuple[str | None, str | None], dict[str, int]] = {}
    for model, stage, status, n in store.query(_STANDING):
        standing.setdefault((model, stage), dict.fromkeys(STATUSES, 0))[status] = n
    found = []
    for model, stage, *counts, seconds, text_bytes, first_at, last_at in store.query(_SUMS):
        # A request of two stages stands where it was answered: there may be attempts and no request.
        outcomes = standing.get((model, stage), dict.fromkeys(STATUSES, 0))
        n_requests = sum(outcomes.values())
        rates = {status: n / n_requests if n_requests else 0.0 for status, n in outcomes.items() if status != "ok"}
        summed = dict(zip(_COUNTS, counts, strict=True))
        found.append(
            StoreStatistics(
                model=model or "",
                stage=stage or "",
                n_requests=n_requests,
                outcomes=outcomes,
                request_seconds=round(seconds, 3),
                text_bytes=text_bytes,
                first_at=first_at,
                last_at=last_at,
                rates=rates,
                **summed,
            )
        )
    return found


def problems(store: ResponseStore, suites: Iterable[Path] = ()) -> list[str]:
    """Return what is wrong with a store; nothing, when it is whole.

    Args:
        store: to check.
        suites: suite or run folders whose requests must all be there.
    """
    try:
        found = [f"SQLite: {line}" for (line,) in store.query("PRAGMA integrity_check(20)") if line != "ok"]
        for what, condition in _INVARIANTS.items():
            ((n,),) = store.query(f"SELECT COUNT(*) FROM attempts WHERE {condition}")
            found += [f"{n:,} attempts {what}"] if n else []
        ((n,),) = store.query(
            "SELECT COUNT(*) FROM (SELECT 1 FROM attempts GROUP BY key HAVING MIN(attempt) OR MAX(attempt) >= COUNT(*))"
        )
        found += [f"{n:,} requests whose attempts are not numbered 0, 1, 2, ..."] if n else []
        n = sum(1 for row in store.each(_WRITTEN) if checksum(*row[:4]) != row[4])
        found += [f"{n:,} attempts are not what was written"] if n else []
        for suite in suites:
            store.mark(keys_named([suite]))
            ((n, first),) = store.query(
                "SELECT COUNT(*), lower(hex(MIN(key))) FROM marked WHERE key NOT IN (SELECT key FROM attempts)"
            )
            found += [f"{n:,} requests of {suite} are not in it, such as {first}"] if n else []
    except StoreError as error:
        if not isinstance(error.__cause__, sqlite3.DatabaseError):
            raise
        return [str(error.__cause__)]
    return found


def keys_named(suites: Iterable[Path]) -> set[str]:
    """Return the request keys that stand in the tables of suite or run folders.

    Raises:
        StoreError: a folder is none of these, or a table cannot be read.
    """
    keys: set[str] = set()
    for suite in suites:
        for run in run_folders(suite):
            for table in sorted(path.stem for path in run.path.glob("*.parquet")):
                columns = run.read(table)
                if "request_key" in columns.column_names:
                    keys.update(columns["request_key"].unique().to_pylist())
                if "request_keys" in columns.column_names:
                    keys.update(columns["request_keys"].combine_chunks().flatten().unique().to_pylist())
    return keys


def count_removable(store: ResponseStore, keep: Iterable[Path] | None = None) -> dict[str, int]:
    """Return how many attempts of each status `remove` would take away; nothing is changed.

    Args:
        store: opened to read, or alone.
        keep: suite or run folders whose requests stay, while all others go. None: failed attempts at requests that
            have an ``ok`` answer go.

    Raises:
        StoreError: a suite has asked for more than its tables name.
    """
    where = _removable(store, keep)
    return dict(
        store.query(f"SELECT status, COUNT(*) FROM attempts AS a WHERE {where} GROUP BY status ORDER BY status")
    )


def remove(store: ResponseStore, keep: Iterable[Path] | None = None) -> int:
    """Take attempts away, all or none, and give their room back; return how many they were.

    Args:
        store: opened alone.
        keep: as of `count_removable`.
    """
    where = _removable(store, keep)
    store.query("BEGIN IMMEDIATE")
    try:
        store.query(f"CREATE TEMP TABLE removed AS SELECT id, key FROM attempts AS a WHERE {where}")
        store.query("DELETE FROM attempts WHERE id IN (SELECT id FROM removed)")
        # Through negative numbers: no two attempts may have one number, not even on the way.
        for number in ("-1 - (SELECT COUNT(*) FROM attempts AS b WHERE b.key = a.key AND b.id < a.id)", "-1 - attempt"):
            store.query(f"UPDATE attempts AS a SET attempt = {number} WHERE key IN (SELECT key FROM removed)")
        ((n_removed,),) = store.query("SELECT COUNT(*) FROM removed")
        store.query("DROP TABLE removed")
        store.query("COMMIT")
    except StoreError:
        store.rollback()
        raise
    store.query("VACUUM")
    return int(n_removed)


def _removable(store: ResponseStore, keep: Iterable[Path] | None) -> str:
    """Return the condition on an attempt that is to go."""
    if keep is None:
        return (
            "NOT (a.final AND a.status = 'ok') AND EXISTS "
            "(SELECT 1 FROM attempts AS c WHERE c.key = a.key AND c.final AND c.status = 'ok')"
        )
    suites = list(keep)
    _refuse_unfinished(suites)
    # Candidates that are no longer part of a suite too: their folders are kept.
    store.mark(keys_named(one.parent for suite in suites for one in sorted(suite.rglob("manifest.json"))))
    return "a.key NOT IN (SELECT key FROM marked)"


def _refuse_unfinished(suites: Iterable[Path]) -> None:
    """Refuse suites that have asked for more than their tables say."""
    for suite in suites:
        runs = run_folders(suite)
        unjudged = [str(run.path) for run in runs if not run.has("judge")]
        is_suite = not (suite / "manifest.json").exists()
        if unjudged or not runs or (is_suite and SuiteFolder(suite).recorded.get("unfinished")):
            raise StoreError(
                f"{', '.join(unjudged) or suite}: not judged yet, so its tables do not name all that was asked, and "
                "answers that were paid for would be removed. Finish the run first."
            )


def only(
    chunks: Iterable[list[StoredAttempt]], *, model: str | None, stage: str | None, status: str | None
) -> Iterator[list[StoredAttempt]]:
    """Leave out other attempts.

    Args:
        chunks: lists of attempts.
        model: ``NAME`` or ``NAME@REVISION``; None is any.
        stage: None is any.
        status: None is any.
    """
    for chunk in chunks:
        kept = [
            one
            for one in chunk
            if (model is None or _is_model(one.model, model))
            and stage in (None, one.stage)
            and status in (None, one.status)
        ]
        if kept:
            yield kept


def refuse_unknown(chunks: Iterable[list[StoredAttempt]], *, model: str | None, stage: str | None) -> None:
    """Make sure that attempts of a model and of a stage are there.

    Args:
        chunks: lists of attempts.
        model: as of `only`.
        stage: as of `only`.

    Raises:
        ConfigError: there are none; the message lists what there is.
    """
    found = {(one.model, one.stage) for chunk in chunks for one in chunk}
    models, stages = (sorted(set(names)) for names in zip(*found, strict=True)) if found else ([], [])
    if model is not None and not any(_is_model(one, model) for one in models):
        raise ConfigError(f"The store has no answers of the model {model!r}. It has: {', '.join(models) or 'none'}.")
    if stage is not None and stage not in stages:
        raise ConfigError(f"The store has no answers of the stage {stage!r}. It has: {', '.join(stages) or 'none'}.")


def _is_model(stored: str, name: str) -> bool:
    """Return whether a stored ``NAME@REVISION`` is meant by a name with or without a revision."""
    return stored == name or stored.startswith(f"{name}@")


def write_parquet(chunks: Iterable[list[StoredAttempt]], path: Path) -> int:
    """Write attempts to a Parquet file, whole or not at all; return how many they are."""
    with replacing(path) as temporary:
        return write_batches(map(record_batch, chunks), temporary)


def write_jsonl(chunks: Iterable[list[StoredAttempt]], path: Path) -> int:
    """Write attempts to a file of one JSON object a line, whole or not at all; return how many they are."""
    n_lines = 0
    with replacing(path) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
        for chunk in chunks:
            for one in chunk:
                file.write(json.dumps(one._asdict(), ensure_ascii=False) + "\n")
            n_lines += len(chunk)
    return n_lines


def write_store(chunks: Iterable[list[StoredAttempt]], engines: Mapping[str, str], path: Path) -> int:
    """Add attempts to another store, which is made when it is not there; return how many were new.

    Args:
        chunks: lists of attempts.
        engines: descriptions as JSON, by ``made_by``.
        path: of the other store.
    """
    with ResponseStore(path) as store:
        return sum(store.add(chunk, engines) for chunk in chunks)
