"""Run folders: what one candidate, one data set and one judge gave, as Parquet tables and a manifest.

Every table loads with ``datasets.load_dataset("parquet", data_files=...)``. Files are written beside their place and
renamed into it, the manifest last: a folder whose manifest names a phase holds that phase's tables whole.
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ..hf_datasets._atomic import replacing
from ..hf_datasets.errors import StoreError
from .requests import ModelRef

__all__ = ["FORMAT", "TABLES", "RunFolder", "read_json", "slug", "write_json", "write_text"]

FORMAT = 1
MAX_SLUG_CHARS = 100
PHASES = {
    "extract": ("users", "extractions", "evidence", "answers"),
    "judge": ("groundings", "shortlists", "retrievals", "mappings"),
    "score": ("interests", "scores"),
}
"""The tables that each phase completes; judging also adds to the answers."""
TABLES = {
    "users": "every user: how much of the history was answered, and whether the user is scored",
    "extractions": "what the candidate said: interests with all cited ids",
    "evidence": "the engagements with cited items",
    "groundings": "what the judge kept of the cited items",
    "shortlists": "the pool objects that overlap none of a user's interests",
    "retrievals": "the test set of each interest, and what the judge picked",
    "mappings": "the category of each interest",
    "answers": "every attempt at every request: raw answer, outcome, tokens, seconds",
    "interests": "each interest with its verdict, counts, category and specificity",
    "scores": "each user's scores",
}


class RunFolder:
    """One run folder on disk."""

    def __init__(self, path: Path | str) -> None:
        """Name the folder; nothing is read or made yet."""
        self.path = Path(path)

    @property
    def manifest(self) -> dict[str, Any]:
        """The manifest.

        Raises:
            StoreError: there is none, so the folder is no run folder or its first phase has not ended.
        """
        path = self.path / "manifest.json"
        if not path.exists():
            raise StoreError(f"{self.path} has no manifest.json: it is no run folder, or its extraction has not ended.")
        advice = "Move it away and run the same command again to have it made anew."
        manifest: dict[str, Any] = read_json(path, advice)
        if not isinstance(manifest, dict) or not isinstance(manifest.get("phases"), dict):
            raise StoreError(f"{path} is no manifest. {advice}")
        if manifest.get("format") != FORMAT:
            raise StoreError(f"{path} has format {manifest.get('format')!r}; this version reads format {FORMAT}.")
        return manifest

    def has(self, phase: str) -> bool:
        """Return whether a phase (extract, judge, score) has been completed."""
        return (self.path / "manifest.json").exists() and phase in self.manifest["phases"]

    def write(
        self,
        tables: Mapping[str, pa.Table | Callable[[Path], object]],
        manifest: dict[str, Any],
        *,
        phase: str | None = None,
    ) -> None:
        """Write tables, then the manifest.

        Args:
            tables: by name; one that is too large to hold is a function that writes it to a Parquet file.
            manifest: the whole of it.
            phase: the phase that the tables complete. It and all after it are unmade first, so that neither a killed
                process nor a changed answer leaves tables that do not belong together. None where no content changes.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        if phase is not None and (self.path / "manifest.json").exists():
            self._unmake(phase)
        for name, table in tables.items():
            with replacing(self.path / f"{name}.parquet") as temporary:
                if isinstance(table, pa.Table):
                    pq.write_table(table, temporary)
                else:
                    table(temporary)
        write_json(self.path / "manifest.json", {"format": FORMAT, **manifest})

    def _unmake(self, phase: str) -> None:
        """Take a phase and all after it out of the manifest, then remove the tables of those after it."""
        names = list(PHASES)
        kept, later = names[: names.index(phase)], names[names.index(phase) + 1 :]
        manifest = self.manifest
        phases = {name: manifest["phases"][name] for name in kept if name in manifest["phases"]}
        write_json(self.path / "manifest.json", {**manifest, "phases": phases})
        for name in later:
            for table in PHASES[name]:
                (self.path / f"{table}.parquet").unlink(missing_ok=True)

    def read(self, table: str, columns: Sequence[str] | None = None) -> pa.Table:
        """Read a table, or some of its columns.

        Raises:
            StoreError: the folder has no such table yet.
        """
        path = self.path / f"{table}.parquet"
        if not path.exists():
            raise StoreError(
                f"{self.path} has no {table}.parquet ({TABLES[table]}): the phase that writes it has not ended."
            )
        # Not read_table: it opens the file twice, and another process may replace it in between.
        try:
            with pq.ParquetFile(path) as file:
                return file.read(columns)
        except (pa.ArrowException, OSError) as error:
            raise StoreError(
                f"{path} cannot be read: {error} Run the phase that writes it again ({TABLES[table]})."
            ) from error


def slug(model: ModelRef) -> str:
    """Return a folder name for a model revision: readable, and different for different revisions.

    >>> slug(ModelRef("openai/gpt-oss-120b", "b5c939de8f754692c1647ca79fbf85e8c1e70f8a", "default/1"))
    'openai--gpt-oss-120b@b5c939de8f75'
    """
    plain = "".join(mark if mark.isalnum() or mark in "-_." else "-" for mark in model.name.replace("/", "--"))
    name = plain.lstrip(".")[:MAX_SLUG_CHARS]
    # Only where the name had to be changed by more than its slash: two models must not share a folder.
    if name != model.name.replace("/", "--") or "--" in model.name:
        name += "-" + hashlib.sha256(model.name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    # A model that thinks and the same that does not are two candidates.
    name += f"+{model.variant}" if model.variant else ""
    return f"{name}@{plain_revision(model.revision)}" if model.revision else name


def plain_revision(revision: str) -> str:
    """Return the beginning of a revision, as it can stand in a folder's name."""
    return "".join(mark if mark.isalnum() or mark in "-_." else "-" for mark in revision[:12])


def write_json(path: Path, value: Any) -> None:
    """Write a value as indented JSON, whole or not at all."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def write_text(path: Path, text: str) -> None:
    """Write a text file, whole or not at all."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def read_json(path: Path, advice: str = "") -> Any:
    """Read a JSON file.

    Args:
        path: the file.
        advice: what to do where it is damaged.

    Raises:
        StoreError: the file cannot be read, or is not JSON.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, OSError, RecursionError) as error:
        raise StoreError(f"{path} cannot be read as JSON: {error}. {advice}".rstrip()) from error
