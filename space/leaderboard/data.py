"""The results that the page shows: one snapshot at a time, from a folder or from a data set on the Hub.

A snapshot never changes. The store asks for a newer one from time to time and, where the source is away or broken,
keeps the last good one and says so. Records are read when somebody looks at one.
"""

import json
import logging
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property, lru_cache
from pathlib import Path, PurePosixPath
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

__all__ = [
    "METRICS",
    "FolderSource",
    "HubSource",
    "NotInResultsError",
    "Snapshot",
    "Source",
    "SourceError",
    "Store",
    "open_store",
    "records",
]

logger = logging.getLogger(__name__)

METRICS = {"ig_precision": "Precision", "ig_recall": "Recall", "ig_f1": "IG F1", "is": "IS", "hm": "HM"}
NEEDED = {"id", "origin", "model", "revision", "dataset", "judge", "record", "not_ranked", *METRICS}
REFRESH_SECONDS = 300
_INDEX_FILES = ("index.parquet", "published.parquet", "categories.parquet", "results.json")


class SourceError(Exception):
    """Results cannot be had: the source is away, or what it holds is no results folder."""


class NotInResultsError(SourceError):
    """The source was asked, and the results do not hold this."""


class Source:
    """Where results come from."""

    name: str

    def revision(self) -> str:
        """Return what changes whenever the results do.

        Raises:
            SourceError: the source cannot be asked.
        """
        raise NotImplementedError

    def fetch(self, place: str, revision: str) -> Path:
        """Return a file of the results on this machine.

        Raises:
            SourceError: it cannot be had.
        """
        raise NotImplementedError

    def qrels(self, revision: str) -> list[str]:
        """Return the places of the csv tables of qrels expansions."""
        raise NotImplementedError


@dataclass(frozen=True)
class FolderSource(Source):
    """A results folder on this machine."""

    path: Path

    @property
    def name(self) -> str:  # type: ignore[override]
        """How the page calls it."""
        return self.path.name

    def revision(self) -> str:
        """Return the index's time and size."""
        try:
            found = (self.path / "index.parquet").stat()
        except OSError as error:
            raise SourceError(f"There is no results folder {self.name}: {error.strerror}.") from error
        return f"{found.st_mtime_ns}-{found.st_size}"

    def fetch(self, place: str, revision: str) -> Path:
        """Return the file's path."""
        path = self.path / _inside(place)
        if not path.is_file():
            raise NotInResultsError(f"The results have no {place}.")
        return path

    def qrels(self, revision: str) -> list[str]:
        """Return the csv files of the folder ``qrels``."""
        return [path.relative_to(self.path).as_posix() for path in sorted(self.path.glob("qrels/*/*.csv"))]


@dataclass(frozen=True)
class HubSource(Source):
    """A data set on the Hub."""

    name: str
    token: str | None = field(default=None, repr=False)

    def revision(self) -> str:
        """Return the commit that ``main`` stands at."""
        from huggingface_hub import HfApi

        return str(self._ask(lambda: HfApi(token=self.token).dataset_info(self.name, timeout=20).sha))

    def fetch(self, place: str, revision: str) -> Path:
        """Download a file, or take it from the cache."""
        from huggingface_hub import hf_hub_download

        inside = _inside(place)
        return Path(
            self._ask(
                lambda: hf_hub_download(
                    self.name, inside, repo_type="dataset", revision=revision, token=self.token, etag_timeout=20
                )
            )
        )

    def qrels(self, revision: str) -> list[str]:
        """Return the csv files of the folder ``qrels``."""
        from huggingface_hub import HfApi

        def listed() -> list[str]:
            return HfApi(token=self.token).list_repo_files(self.name, repo_type="dataset", revision=revision)

        return sorted(name for name in self._ask(listed) if name.startswith("qrels/") and name.endswith(".csv"))

    def _ask(self, call: Any) -> Any:
        import httpx2
        from huggingface_hub.errors import (
            EntryNotFoundError,
            HfHubHTTPError,
            HFValidationError,
            LocalEntryNotFoundError,
            OfflineModeIsEnabled,
        )

        kinds = (HfHubHTTPError, HFValidationError, OfflineModeIsEnabled, httpx2.HTTPError, OSError, RuntimeError)
        try:
            return call()
        except kinds as error:
            there = not isinstance(error, EntryNotFoundError) or isinstance(error, LocalEntryNotFoundError)
            kind = SourceError if there else NotInResultsError
            raise kind(f"The Hub does not give {self.name} ({type(error).__name__}).") from error


def _inside(place: str) -> str:
    """Return a place within the results, or refuse one that is not."""
    path = PurePosixPath(place)
    if path.is_absolute() or ".." in path.parts or "\\" in place or not path.parts:
        raise SourceError(f"{place!r} is no place in the results.")
    return str(path)


@dataclass(frozen=True, eq=False)
class Snapshot:
    """The results at one revision."""

    source: Source
    revision: str
    index: pd.DataFrame
    """One row for each result, numbered in their order; lists of values are JSON."""
    texts: tuple[str, ...]
    """What a search looks at, by row."""
    published: pd.DataFrame
    categories: Mapping[tuple[str, int], str]
    """Names of categories, by the taxonomy's hash and the id."""
    oracles: Mapping[str, str]
    """The version of the oracle that submissions for each data set are scored against."""
    loaded: datetime
    qrels_places: tuple[str, ...] = ()

    @classmethod
    def load(cls, source: Source) -> "Snapshot":
        """Read the newest results.

        Raises:
            SourceError: they cannot be had, or are none.
        """
        revision = source.revision()
        paths = {name: source.fetch(name, revision) for name in _INDEX_FILES}
        try:
            index = _read(paths["index.parquet"]).to_pandas()
            published = _read(paths["published.parquet"]).to_pandas()
            rows = _read(paths["categories.parquet"]).to_pylist()
            settings = json.loads(paths["results.json"].read_text(encoding="utf-8"))
            oracles = {str(name): str(version) for name, version in settings["oracles"].items()}
        except (pa.ArrowException, OSError, ValueError, KeyError, AttributeError) as error:
            raise SourceError(f"{source.name} holds no results that can be read: {error}") from error
        if missing := sorted(NEEDED - set(index.columns)):
            raise SourceError(f"The index of {source.name} lacks the columns {', '.join(missing)}.")
        # In this order once, so that each view needs one stable sort: among equals, what is ranked stands first.
        unranked = index["not_ranked"].fillna("").ne("")
        texts = (index["model"] + " " + index["revision"].fillna("") + " " + index["dataset"]).str.casefold()
        index = index.assign(_unranked=unranked, _text=texts).sort_values(
            ["_unranked", "model", "id"], ignore_index=True
        )
        texts, index = tuple(index["_text"]), index.drop(columns=["_unranked", "_text"])
        names = {(row["taxonomy_sha256"], row["category_id"]): row["category_name"] for row in rows}
        return cls(
            source, revision, index, texts, published, names, oracles, datetime.now(UTC), tuple(source.qrels(revision))
        )

    def row(self, id: str | None) -> dict[str, Any] | None:
        """Return a row by its id; None where there is none."""
        return self._by_id.get(id)

    def rows(self, some: pd.DataFrame) -> list[dict[str, Any]]:
        """Return rows of the index as dicts by column; missing values are None. They are not to be changed."""
        return [self._rows[at] for at in some.index]

    @cached_property
    def _rows(self) -> list[dict[str, Any]]:
        """Made once: pandas takes longer for a page of them than all else that an answer needs."""
        return [_plain(row) for row in self.index.to_dict("records")]

    @cached_property
    def _by_id(self) -> dict[str | None, dict[str, Any]]:
        return {row["id"]: row for row in self._rows}

    @cached_property
    def measured(self) -> pd.DataFrame:
        """The rows that have records."""
        return self.index[self.index["origin"] != "published"]

    def record(self, row: Mapping[str, Any], table: str) -> pd.DataFrame:
        """Return a table of a row's record.

        Raises:
            SourceError: it is not there, as where a data set may not be passed on.
        """
        return _cached_table(self, f"{row['record']}/{table}.parquet")

    def manifest(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """Return the manifest of a row's record.

        Raises:
            SourceError: it is not there, or is none.
        """
        path = self.source.fetch(f"{row['record']}/manifest.json", self.revision)
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise SourceError(f"The manifest of {row['record']} cannot be read: {error}") from error
        if not isinstance(found, dict):
            raise SourceError(f"The manifest of {row['record']} is none.")
        return found


@lru_cache(maxsize=64)
def _cached_table(snapshot: Snapshot, place: str) -> pd.DataFrame:
    path = snapshot.source.fetch(place, snapshot.revision)
    try:
        found: pd.DataFrame = _read(path).to_pandas()
    except (pa.ArrowException, OSError) as error:
        raise SourceError(f"{place} cannot be read: {error}") from error
    return found


def records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return a frame's rows as dicts by column."""
    return [{str(name): value for name, value in row.items()} for row in frame.to_dict("records")]


def _read(path: Path) -> pa.Table:
    # Not read_table: it opens the file twice, and another process may replace it in between.
    with pq.ParquetFile(path) as file:
        return file.read()


def _plain(row: Mapping[Any, Any]) -> dict[str, Any]:
    """Return a row whose missing values are None."""
    return {str(name): None if value is None or value != value else value for name, value in row.items()}


class Store:
    """Holds the current snapshot, and asks for a newer one from time to time."""

    def __init__(self, source: Source, refresh_seconds: float = REFRESH_SECONDS) -> None:
        """Load the first snapshot; a source that is away at the start is asked again later."""
        self.source = source
        self.problem = ""
        """Why the newest results cannot be shown; empty where they are."""
        self._seconds = refresh_seconds
        self._snapshot: Snapshot | None = None
        self._stopped = threading.Event()
        self.refresh()
        self._thread = threading.Thread(target=self._keep_fresh, name="refresh", daemon=True)

    @property
    def snapshot(self) -> Snapshot | None:
        """The last good results; None where there never were any."""
        return self._snapshot

    def start(self) -> None:
        """Begin to ask for newer results."""
        self._thread.start()

    def stop(self) -> None:
        """Ask no more."""
        self._stopped.set()

    def refresh(self) -> bool:
        """Load the newest results if they are others; tell whether they are."""
        try:
            if self._snapshot is not None and self.source.revision() == self._snapshot.revision:
                self.problem = ""
                return False
            self._snapshot = Snapshot.load(self.source)
        except SourceError as error:
            self.problem = str(error)
            logger.warning("%s", error)
            return False
        self.problem = ""
        return True

    def _keep_fresh(self) -> None:
        while not self._stopped.wait(self._seconds):
            self.refresh()


def open_store(results: str, token: str | None = None, refresh_seconds: float = REFRESH_SECONDS) -> Store:
    """Open results by the path of a folder, or by the name of a data set on the Hub."""
    path = Path(results)
    source: Source = FolderSource(path) if path.is_dir() else HubSource(results, token)
    return Store(source, refresh_seconds)
