"""What a run was answered and what it ran on: the table of attempts, and versions."""

import platform
import subprocess
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.metadata import version
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from .store import ResponseStore, StoredAttempt

__all__ = [
    "ANSWERS",
    "answer_batches",
    "record_batch",
    "versions",
    "write_answers",
    "write_batches",
]

PACKAGES = ("gistbench", "datasets", "evaluate", "numpy", "scipy", "pandas", "pyarrow", "scikit-learn")

ANSWERS = pa.schema(
    [
        ("request_key", pa.string()),
        ("stage", pa.string()),
        ("about", pa.string()),
        ("model", pa.string()),
        ("attempt", pa.int64()),
        ("status", pa.string()),
        ("text", pa.string()),
        ("reasoning", pa.string()),
        ("problem", pa.string()),
        ("finish_reason", pa.string()),
        ("n_prompt_tokens", pa.int64()),
        ("n_cached_tokens", pa.int64()),
        ("n_output_tokens", pa.int64()),
        ("n_reasoning_tokens", pa.int64()),
        ("seconds", pa.float64()),
        ("finished_at", pa.string()),
        ("made_by", pa.string()),
    ]
)


def write_answers(store: ResponseStore, keys: Iterable[tuple[str, str]], path: Path) -> int:
    """Write every attempt at some requests to a Parquet file, in bounded memory whatever their number.

    Args:
        store: of the run.
        keys: (request key, stage) pairs, repeats allowed.
        path: the file.

    Returns:
        The number of rows, which are sorted by stage, subject, key and attempt.
    """
    return write_batches(answer_batches(store, keys), path)


def answer_batches(store: ResponseStore, keys: Iterable[tuple[str, str]]) -> Iterator[pa.RecordBatch]:
    """Yield what `write_answers` writes, in parts of bounded size; the rows alone decide where they end."""
    return map(record_batch, store.rows_of(keys))


def record_batch(attempts: list[StoredAttempt]) -> pa.RecordBatch:
    """Return attempts in columns."""
    columns = dict(zip(StoredAttempt._fields, zip(*attempts, strict=True), strict=True))
    columns["request_key"] = columns["key"]
    return pa.record_batch([pa.array(columns[field.name], field.type) for field in ANSWERS], ANSWERS)


def write_batches(batches: Iterable[pa.RecordBatch], path: Path) -> int:
    """Write parts of an answers table to a Parquet file, one after the other; return the number of rows."""
    n_rows = 0
    with pq.ParquetWriter(path, ANSWERS) as writer:
        for batch in batches:
            writer.write_batch(batch)
            n_rows += batch.num_rows
    return n_rows


def versions() -> dict[str, str | None]:
    """Return the versions of this program and of the libraries that can change a result."""
    return {"python": platform.python_version(), "commit": _commit(), **{name: version(name) for name in PACKAGES}}


@cache
def _commit() -> str | None:
    """Return the commit of the checkout that this code runs from, with a mark when it was changed; None elsewhere."""
    git = ["git", "-C", str(Path(__file__).parent)]
    try:
        found = subprocess.run([*git, "describe", "--always", "--dirty", "--abbrev=40"], capture_output=True, text=True)
    except OSError:  # no git on this machine
        return None
    inside = "site-packages" not in __file__ and found.returncode == 0
    return found.stdout.strip() if inside else None
