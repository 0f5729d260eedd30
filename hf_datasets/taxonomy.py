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
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pyarrow as pa

from ._columns import suggestion
from ._pinned import PinnedFile
from .errors import ConfigError, DataError

__all__ = [
    "OFFICIAL_SHA256",
    "OFFICIAL_TAXONOMY_VARIABLE",
    "OFFICIAL_URL",
    "TAXONOMY_NAMES",
    "Taxonomy",
    "load_taxonomy",
    "taxonomy_table",
]

TAXONOMY_NAMES = ("open", "official")
OFFICIAL_URL = "https://raw.githubusercontent.com/facebookresearch/GISTBench/0d7e033/gistbench/assets/categories.csv"
OFFICIAL_SHA256 = "6067fd464d39305ba443b2a2c6aa611158e267e75d1bec61ee20a1a50a834962"
OFFICIAL_TAXONOMY_VARIABLE = "GISTBENCH_OFFICIAL_TAXONOMY"
"""Environment variable that names a local copy of the official file."""

_OPEN_PATH = Path(__file__).parent / "data" / "taxonomy_open.csv"
_OFFICIAL = PinnedFile(
    what="official taxonomy",
    url=OFFICIAL_URL,
    sha256=OFFICIAL_SHA256,
    variable=OFFICIAL_TAXONOMY_VARIABLE,
    file_name="categories.csv",
    option="--taxonomy-source PATH of a run, --source PATH of `datasets build`",
    otherwise=" A taxonomy of your own loads by its path instead of the name 'official'.",
)


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
        content = _OFFICIAL.content(source, cache_dir=cache_dir, url=url)
        return _parse(content, "official", "official taxonomy")
    if source is not None:
        raise ConfigError(f"source={os.fspath(source)!r} goes with taxonomy 'official', not with {name!r}.")
    if name == "open":
        return _read(_OPEN_PATH, "open")
    path = Path(name).expanduser()
    if not path.is_file():
        raise ConfigError(
            f"No taxonomy and no file is called {name!r}. Known: {', '.join(TAXONOMY_NAMES)} (and, for a run, "
            "none); or give the path of a CSV file with category_id, category_name and, as an option, domain."
            f"{suggestion(name, TAXONOMY_NAMES)}"
        )
    return _read(path, path.stem)


def taxonomy_table(taxonomy: Taxonomy) -> pa.Table:
    """Return the categories as rows: ``category_id``, ``category_name``, ``domain`` (null in a flat taxonomy)."""
    domains = taxonomy.domains or [None] * len(taxonomy)
    columns = [
        pa.array(taxonomy.ids, pa.int64()),
        pa.array(taxonomy.names, pa.string()),
        pa.array(domains, pa.string()),
    ]
    return pa.table(columns, names=["category_id", "category_name", "domain"])


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
