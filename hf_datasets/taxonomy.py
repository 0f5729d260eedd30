"""The categories that interests are mapped to.

Two taxonomies have a name: ``open`` is ours and comes with the package, ``official`` is the one of the paper, fetched
from the reference implementation at a pinned commit and never part of this repository. Ids of different taxonomies
overlap, so whatever refers to a category carries the taxonomy's hash too. Category 0 means "not mapped" and is in none.
Knows nothing about interests, models or scores.
"""

import csv
import hashlib
import io
import json
import os
import tempfile
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from ._columns import suggestion
from .errors import ConfigError, DataError

__all__ = [
    "OFFICIAL_SHA256",
    "OFFICIAL_TAXONOMY_VARIABLE",
    "OFFICIAL_URL",
    "TAXONOMY_NAMES",
    "Taxonomy",
    "load_taxonomy",
]

TAXONOMY_NAMES = ("open", "official")
OFFICIAL_URL = "https://raw.githubusercontent.com/facebookresearch/GISTBench/0d7e033/gistbench/assets/categories.csv"
OFFICIAL_SHA256 = "6067fd464d39305ba443b2a2c6aa611158e267e75d1bec61ee20a1a50a834962"
OFFICIAL_TAXONOMY_VARIABLE = "GISTBENCH_OFFICIAL_TAXONOMY"
"""Environment variable that names a local copy of the official file."""

_OPEN_PATH = Path(__file__).parent / "data" / "taxonomy_open.csv"
_DOWNLOAD_SECONDS = 30.0


@dataclass(frozen=True)
class Taxonomy:
    """Categories in ascending order of their ids."""

    name: str
    ids: tuple[int, ...]
    """Unique, 1 or more."""
    names: tuple[str, ...]
    """Unique, one per id."""
    domains: tuple[str | None, ...] | None = None
    """The domain of each category, or None where the taxonomy is flat."""

    @cached_property
    def sha256(self) -> str:
        """Hash of ids, names and domains; neither the taxonomy's name nor how a file wrote it counts."""
        rows = [[i, n, d] for i, n, d in zip(self.ids, self.names, self.domains or [None] * len(self.ids), strict=True)]
        canonical = json.dumps(["gistbench taxonomy 1", rows], ensure_ascii=False, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()

    def __len__(self) -> int:
        """Return the number of categories."""
        return len(self.ids)

    def __contains__(self, category_id: object) -> bool:
        """Return whether ``category_id`` is one of the categories; 0 never is."""
        return category_id in self._places

    def name_of(self, category_id: int) -> str:
        """Return the name of a category.

        Raises:
            DataError: the taxonomy has no such category.
        """
        return self.names[self._place(category_id)]

    def domain_of(self, category_id: int) -> str | None:
        """Return the domain of a category, None where it has none.

        Raises:
            DataError: the taxonomy has no such category.
        """
        place = self._place(category_id)
        return None if self.domains is None else self.domains[place]

    @cached_property
    def _places(self) -> dict[int, int]:
        return {category_id: place for place, category_id in enumerate(self.ids)}

    def _place(self, category_id: int) -> int:
        if category_id not in self._places:
            hint = " 0 stands for an interest that is not mapped." if category_id == 0 else ""
            raise DataError(
                f"Category {category_id!r} is not in taxonomy {self.name!r} ({len(self)} categories).{hint}"
            )
        return self._places[category_id]


def load_taxonomy(
    name_or_path: str | os.PathLike[str] = "open",
    *,
    source: str | os.PathLike[str] | None = None,
    cache_dir: str | os.PathLike[str] | None = None,
    url: str = OFFICIAL_URL,
) -> Taxonomy:
    """Load a taxonomy by name or from a CSV file.

    A file has the columns ``category_id`` (unique integers from 1; 0 is reserved), ``category_name`` (unique) and, as
    an option, ``domain``. ``official`` comes from ``source``, else from the file that the environment variable
    ``GISTBENCH_OFFICIAL_TAXONOMY`` names, else from the cache folder, else it is downloaded once; its bytes are checked
    each time.

    Args:
        name_or_path: ``open``, ``official``, or the path of a CSV file. A name goes before a file of that name.
        source: a local copy of the official file; for ``official`` only.
        cache_dir: where the downloaded file is kept; default ``$GISTBENCH_CACHE`` or ``~/.cache/gistbench``.
        url: where to download the official file from.

    Raises:
        ConfigError: neither a known name nor a file.
        DataError: the file is not a taxonomy, or the official one cannot be had or has other bytes than the
            pinned ones.
    """
    name = os.fspath(name_or_path)
    if name == "official":
        return _parse(_official_bytes(source, cache_dir, url), "official", "official taxonomy")
    if source is not None:
        raise ConfigError(f"source={os.fspath(source)!r} goes with taxonomy 'official', not with {name!r}.")
    if name == "open":
        return _read(_OPEN_PATH, "open")
    path = Path(name).expanduser()
    if not path.is_file():
        raise ConfigError(
            f"No taxonomy and no file is called {name!r}. Known: {', '.join(TAXONOMY_NAMES)}; or give the path of a "
            f"CSV file with category_id, category_name and, as an option, domain.{suggestion(name, TAXONOMY_NAMES)}"
        )
    return _read(path, path.stem)


def _read(path: Path, name: str) -> Taxonomy:
    return _parse(path.read_bytes(), name, str(path))


def _parse(content: bytes, name: str, source: str) -> Taxonomy:
    try:
        reader = csv.DictReader(io.StringIO(content.decode("utf-8-sig"), newline=""), strict=True)
        rows = [(reader.line_num, row) for row in reader]
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise DataError(f"{source}: line {line} is not UTF-8 text. Save the file as UTF-8.") from error
    except csv.Error as error:
        raise DataError(f"{source}: line {reader.line_num}: not a CSV file ({error}).") from error
    found = reader.fieldnames or ()
    if missing := [column for column in ("category_id", "category_name") if column not in found]:
        raise DataError(f"{source}: missing columns: {', '.join(missing)}. Found: {', '.join(found) or 'none'}.")
    if not rows:
        raise DataError(f"{source}: there are no categories (0 rows).")
    records = [_record(row, f"{source}: line {line}") for line, row in rows]
    lines = [line for line, _ in rows]
    _reject_repeats([str(category_id) for category_id, _, _ in records], lines, "category_id", source)
    _reject_repeats([category_name for _, category_name, _ in records], lines, "category_name", source)
    records.sort(key=lambda record: record[0])
    ids, names, domains = zip(*records, strict=True)
    return Taxonomy(name=name, ids=ids, names=names, domains=domains if any(domains) else None)


def _record(row: dict[str, str], place: str) -> tuple[int, str, str | None]:
    if None in row or None in row.values():
        raise DataError(f"{place}: the row has {'more' if None in row else 'fewer'} fields than the header.")
    written, name = row["category_id"].strip(), row["category_name"].strip()
    if not (written.isascii() and written.isdigit()) or int(written) < 1:
        raise DataError(f"{place}: category_id is {written!r}; ids are integers from 1 (0 means 'not mapped').")
    if not name:
        raise DataError(f"{place}: category_name is empty.")
    return int(written), name, row.get("domain", "").strip() or None


def _reject_repeats(values: Sequence[str], lines: Sequence[int], column: str, source: str) -> None:
    first: dict[str, int] = {}
    for value, line in zip(values, lines, strict=True):
        if value in first:
            raise DataError(
                f"{source}: line {line}: {column} {value!r} is already on line {first[value]}; it must be unique."
            )
        first[value] = line


def _official_bytes(source: str | os.PathLike[str] | None, cache_dir: str | os.PathLike[str] | None, url: str) -> bytes:
    given = source if source is not None else os.environ.get(OFFICIAL_TAXONOMY_VARIABLE) or None
    if given is not None:
        path = Path(given).expanduser()
        if not path.is_file():
            raise DataError(f"{path}: no such file. {_how_to_get(url, _cache_path(cache_dir))}")
        return _checked(path.read_bytes(), str(path), url, cache_dir)
    cached = _cache_path(cache_dir)
    if cached.is_file():
        return _checked(cached.read_bytes(), str(cached), url, cache_dir)
    content = _checked(_download(url, cached), url, url, cache_dir)
    _write_atomically(cached, content)
    return content


def _checked(content: bytes, place: str, url: str, cache_dir: str | os.PathLike[str] | None) -> bytes:
    found = hashlib.sha256(content).hexdigest()
    if found != OFFICIAL_SHA256:
        raise DataError(
            f"{place} is not the official taxonomy: its sha256 is {found}, expected {OFFICIAL_SHA256}. "
            f"{_how_to_get(url, _cache_path(cache_dir))} A taxonomy of your own loads by its path instead of the name "
            "'official'."
        )
    return content


def _download(url: str, cached: Path) -> bytes:
    if os.environ.get("HF_HUB_OFFLINE", "").upper() in {"1", "ON", "YES", "TRUE"}:
        raise DataError(f"The official taxonomy is not here and HF_HUB_OFFLINE is set. {_how_to_get(url, cached)}")
    try:
        with urllib.request.urlopen(url, timeout=_DOWNLOAD_SECONDS) as response:
            return bytes(response.read())
    except OSError as error:  # URLError and time-outs are OSErrors
        raise DataError(
            f"The official taxonomy could not be downloaded ({error}). {_how_to_get(url, cached)}"
        ) from error


def _how_to_get(url: str, cached: Path) -> str:
    return (
        f"Get {url} (sha256 {OFFICIAL_SHA256}) and save it as {cached}, or set {OFFICIAL_TAXONOMY_VARIABLE} to its "
        "path, or pass it as source (command line: --taxonomy-source PATH)."
    )


def _cache_path(cache_dir: str | os.PathLike[str] | None) -> Path:
    folder = cache_dir or os.environ.get("GISTBENCH_CACHE") or Path.home() / ".cache" / "gistbench"
    return Path(folder).expanduser() / f"categories-{OFFICIAL_SHA256[:12]}.csv"


def _write_atomically(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
