"""The work folder: the tables and records of the steps, each replaced whole, a step's record last."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from ...hf_datasets._atomic import replacing
from ...hf_datasets.errors import StoreError
from ..runfolder import read_json, write_json

__all__ = ["FORMAT", "STEPS", "Progress", "Silent", "Step", "Work", "fingerprint", "write_table"]

FORMAT = 1


@dataclass(frozen=True)
class Step:
    """A step: the one it builds on, and the tables that it leaves."""

    after: str | None
    tables: tuple[str, ...]


STEPS: dict[str, Step] = {
    "split": Step(None, ("ratings", "items")),
    "recommend": Step("split", ()),
    "sample": Step("recommend", ("scores", "sampling", "sampling_tests", "users")),
    "pool": Step("sample", ("pool", "pool_systems")),
}
"""In their order. The runs of `recommend` stand in a folder of their own, each with a record."""


class Progress(Protocol):
    """What a step tells of its progress; the command line shows it as a bar."""

    def start(self, description: str, total: int) -> None:
        """Begin with so many parts."""

    def advance(self, *, stored: bool) -> None:
        """End one part, which was there already or not."""

    def finish(self) -> None:
        """End."""


class Silent:
    """Progress that nobody sees."""

    def start(self, description: str, total: int) -> None:
        """Do nothing."""

    def advance(self, *, stored: bool) -> None:
        """Do nothing."""

    def finish(self) -> None:
        """Do nothing."""


def fingerprint(*parts: Any) -> str:
    """Return a hash (hex) of values that JSON can hold."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()


def write_table(path: Path, table: pa.Table) -> None:
    """Write a table as Parquet, whole or not at all."""
    with replacing(path) as temporary:
        pq.write_table(table, temporary, compression="zstd")


class Work:
    """A work folder on disk."""

    def __init__(self, path: Path | str) -> None:
        """Name the folder; nothing is read or made yet."""
        self.path = Path(path)

    def has(self, step: str) -> bool:
        """Return whether a step has been completed."""
        return (self.path / f"{step}.json").exists()

    def record(self, step: str) -> dict[str, Any]:
        """Return the record of a completed step.

        Raises:
            StoreError: the step has not been completed, or with what is no longer there.
        """
        path = self.path / f"{step}.json"
        command = f"gistbench qrels {step} --work {self.path}"
        if not path.exists():
            raise StoreError(f"{self.path} has no {step}.json: run `{command}` first.")
        record = read_json(path)
        if not isinstance(record, dict) or record.get("step") != step or "fingerprint" not in record:
            raise StoreError(f"{path} is no record of {step}. Move it away and run `{command}` again.")
        if record.get("format") != FORMAT:
            raise StoreError(f"{path} has format {record.get('format')!r}; this version reads format {FORMAT}.")
        before = STEPS[step].after
        if before is not None and record.get("built_on") != self.record(before)["fingerprint"]:
            raise StoreError(f"{path} was made from another {before}. Run `{command}` again.")
        return dict(record)

    def is_done(self, step: str, made_by: str) -> bool:
        """Return whether a step has been completed with the same fingerprint, and all its tables are there."""
        try:
            record = self.record(step)
        except StoreError:
            return False
        return record["fingerprint"] == made_by and all(
            (self.path / f"{name}.parquet").exists() for name in record["tables"]
        )

    def write(self, step: str, tables: Mapping[str, pa.Table], record: Mapping[str, Any], made_by: str) -> None:
        """Write the tables of a step, then its record.

        The step and all that build on it are unmade first: a killed process leaves no tables of two makings.

        Args:
            step: one of :data:`STEPS`.
            tables: by name; those of the step that are not given are removed.
            record: what the step says of itself, for JSON.
            made_by: the fingerprint of all that determines the tables.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        self.unmake(step)
        for name, table in tables.items():
            write_table(self.path / f"{name}.parquet", table)
        before = STEPS[step].after
        head = {
            "format": FORMAT,
            "step": step,
            "fingerprint": made_by,
            "built_on": None if before is None else self.record(before)["fingerprint"],
            "tables": sorted(tables),
        }
        write_json(self.path / f"{step}.json", {**head, **record})

    def unmake(self, step: str) -> None:
        """Remove the records of a step and of all that build on it, then their tables."""
        gone = [step]
        for name, other in STEPS.items():
            if other.after in gone:
                gone.append(name)
        for name in reversed(gone):
            (self.path / f"{name}.json").unlink(missing_ok=True)
        for name in gone:
            for table in STEPS[name].tables:
                (self.path / f"{table}.parquet").unlink(missing_ok=True)

    def read(self, table: str, columns: Sequence[str] | None = None, *, encoded: Sequence[str] = ()) -> pa.Table:
        """Read a table.

        Args:
            table: its name.
            columns: only these.
            encoded: columns of text to read as dictionaries, which take less memory.

        Raises:
            StoreError: it is not there, or cannot be read.
        """
        path = self.path / f"{table}.parquet"
        if not path.exists():
            step = next((name for name, one in STEPS.items() if table in one.tables), "recommend")
            raise StoreError(f"{path} is not there: run `gistbench qrels {step} --work {self.path}` again.")
        try:
            with pq.ParquetFile(path, read_dictionary=list(encoded)) as file:
                return file.read(None if columns is None else list(columns))
        except (pa.ArrowException, OSError) as error:
            raise StoreError(f"{path} cannot be read: {error}. Run the step that writes it again.") from error
