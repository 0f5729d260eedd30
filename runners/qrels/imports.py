"""Runs that other tools made: TREC, Elliot, RecBole and LensKit files, as ranked lists of the split's users.

========== ======================================================================================
trec       ``user Q0 item rank score system``, white space between; ``.gz`` too
elliot     ``user item score`` without header, tabs between: one file, one system, called like it
recbole    tabs and typed headers: ``user_id:token``, ``item_id:token``, ``score:float``
lenskit    csv or Parquet with ``user`` (``user_id``), ``item`` (``item_id``) and ``score`` or ``rank``,
           and ``Algorithm`` where a file holds several; or LensKit's native Parquet, a list of items for each user
========== ======================================================================================

Unknown users and items are no error: lists of users without test ratings are left out and counted, items without
training ratings are kept (they are judged like others) and counted, and so are items that the user rated in training.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ...hf_datasets._columns import normalise_ids
from ...hf_datasets.errors import ConfigError, DataError
from .ratings import Ratings, read_columns_of
from .work import fingerprint

__all__ = ["FORMATS", "ImportedRun", "read_imports"]

FORMATS = ("trec", "elliot", "recbole", "lenskit")

_USER = ("user", "user_id", "user_id:token")
_ITEM = ("item", "item_id", "item_id:token")
_SCORE = ("score", "score:float", "prediction")
_SYSTEM = ("Algorithm", "algorithm", "system", "model")


@dataclass(frozen=True)
class ImportedRun:
    """The lists of one system."""

    system: str
    users: npt.NDArray[np.int64]
    """Code of each list's user, ascending."""
    ranked: npt.NDArray[np.int32]
    """Codes of items, best first, -1 after the end, (lists, k)."""
    scores: npt.NDArray[np.float32]
    items: pa.Array
    """The texts of the codes."""
    origin: dict[str, Any]
    """File and format."""
    counts: dict[str, int]
    content: str
    """Hash (hex) of the lists."""


def read_imports(paths: Sequence[Path], form: str | None, ratings: Ratings, k: int) -> list[ImportedRun]:
    """Read runs from files.

    Args:
        paths: the files.
        form: one of :data:`FORMATS`; None: told by each file's name and beginning.
        ratings: the split.
        k: where lists are cut.

    Raises:
        ConfigError: the format is unknown.
        DataError: a file cannot be read, a score is missing, or an item stands twice in a list.
    """
    if form is not None and form not in FORMATS:
        raise ConfigError(f"There is no format {form!r} of runs. There are: {', '.join(FORMATS)}.")
    runs = []
    for path in paths:
        if not path.is_file():
            raise DataError(f"There is no file {path}.")
        known = form or _format_of(path)
        for system, table in _tables(path, known):
            runs.append(_lists(system, table, ratings, k, path, known))
    return runs


def _format_of(path: Path) -> str:
    plain = path.name.lower().removesuffix(".gz")
    if plain.endswith((".parquet", ".csv")):
        return "lenskit"
    import gzip

    opened: Any = gzip.open if path.name.lower().endswith(".gz") else open
    with opened(path, "rt", encoding="utf-8", errors="replace") as file:
        first = file.readline()
    if ":token" in first:
        return "recbole"
    if len(first.split()) >= 6:
        return "trec"
    if len(first.rstrip("\n").split("\t")) == 3:
        return "elliot"
    raise ConfigError(
        f"{path}: what tool made this run is not clear from its first line ({first.strip()[:80]!r}). Say it with a "
        f"format: {', '.join(FORMATS)}."
    )


def _tables(path: Path, form: str) -> list[tuple[str, pa.Table]]:
    """Return system and rows (user, item, score) of each run of a file."""
    stem = path.name.split(".")[0]
    if form == "trec":
        from ..score import load_metric

        try:
            table = load_metric("qrels_expansion").read_run(path)
        except (ValueError, OSError) as error:
            raise DataError(str(error)) from error
        return _by_system(table, "system")
    table = read_columns_of(path, ["user", "item", "score"] if form == "elliot" else None)
    if form == "lenskit" and "items" in table.column_names and pa.types.is_list(table["items"].type):
        table = _unnested(table, path)
    names = {
        wanted: next((name for name in known if name in table.column_names), None)
        for wanted, known in (("user", _USER), ("item", _ITEM), ("score", _SCORE), ("system", _SYSTEM))
    }
    rank = "rank" if "rank" in table.column_names else None
    if names["user"] is None or names["item"] is None or (names["score"] is None and rank is None):
        raise DataError(
            f"{path} has the columns {', '.join(table.column_names)}; a run of {form} has user, item, "
            "and score or rank."
        )
    score = _numbers(table[names["score"]], path, "score") if names["score"] else None
    score = pc.negate(_numbers(table[rank], path, "rank")) if score is None else score
    columns = {name: normalise_ids(table[names[name]], str(names[name]), str(path)) for name in ("user", "item")}
    flat = pa.table({**columns, "score": score})
    if names["system"] is None:
        return [(stem, flat)]
    return _by_system(flat.append_column("system", table[names["system"]].cast(pa.string())), "system")


def _unnested(table: pa.Table, path: Path) -> pa.Table:
    lists = table["items"].combine_chunks()
    of_list = pc.list_parent_indices(lists)
    fields = pc.list_flatten(lists)
    if not pa.types.is_struct(fields.type):
        raise DataError(f"{path}: items is a list of {fields.type}; LensKit's are lists of item_id, score and rank.")
    flat = {fields.type.field(at).name: fields.field(at) for at in range(fields.type.num_fields)}
    outer = {name: table[name].take(of_list) for name in table.column_names if name != "items"}
    return pa.table({**outer, **flat})


def _by_system(table: pa.Table, column: str) -> list[tuple[str, pa.Table]]:
    if not table.num_rows:
        return []
    systems = sorted(table[column].unique().to_pylist())
    return [(name, table.filter(pc.equal(table[column], name)).drop_columns([column])) for name in systems]


def _numbers(column: pa.ChunkedArray, path: Path, name: str) -> pa.ChunkedArray:
    try:
        return column.cast(pa.float64())
    except pa.ArrowException as error:
        raise DataError(f"{path}: {name} must hold numbers: {error}.") from error


def _lists(system: str, table: pa.Table, ratings: Ratings, k: int, path: Path, form: str) -> ImportedRun:
    where = f"{path}, system {system!r}"
    if not system or "/" in system or system.startswith("."):
        raise DataError(f"{where}: the name cannot stand in the name of a file. Rename the system.")
    items = ratings.items
    texts = table["item"].unique()
    unknown = texts.filter(pc.invert(pc.is_in(texts, value_set=items)))
    every = pa.concat_arrays([items, unknown])
    every = every.take(pc.sort_indices(every))
    user = pc.index_in(table["user"], value_set=ratings.users).fill_null(-1).to_numpy().astype(np.int64)
    item = pc.index_in(table["item"], value_set=every).to_numpy().astype(np.int64)
    score = table["score"].to_numpy()
    if (broken := ~np.isfinite(score)).any():
        row = int(np.argmax(broken))
        raise DataError(
            f"{where}: the score of user {table['user'][row]}, item {table['item'][row]} is missing or not finite. "
            "A list cannot be put in order without scores."
        )
    score = score.astype(np.float32)
    evaluated = np.isin(user, ratings.evaluated)
    n_lists_out = len(pc.unique(table["user"].combine_chunks().filter(pa.array(~evaluated)))) if len(user) else 0
    user, item, score = user[evaluated], item[evaluated], score[evaluated]
    if not len(user):
        raise DataError(
            f"{where}: none of its {n_lists_out} users has test ratings in this split. Are the ids the same?"
        )
    order = np.lexsort((-item, -score, user))
    user, item, score = user[order], item[order], score[order]
    pair = np.sort(user * len(every) + item)
    if (again := pair[1:] == pair[:-1]).any():
        first = divmod(int(pair[int(np.argmax(again))]), len(every))
        raise DataError(f"{where}: item {every[first[1]]} stands twice in the list of user {ratings.users[first[0]]}.")
    found, start = np.unique(user, return_index=True)
    rank = np.arange(len(user)) - np.repeat(start, np.diff(np.append(start, len(user))))
    kept = rank < k
    row = np.searchsorted(found, user)
    ranked = np.full((len(found), k), -1, np.int32)
    scores = np.full((len(found), k), -np.inf, np.float32)
    ranked[row[kept], rank[kept]], scores[row[kept], rank[kept]] = item[kept], score[kept]
    place = pc.index_in(every, value_set=items).fill_null(-1).to_numpy().astype(np.int64)[item[kept]]
    known = place >= 0
    pairs = (user[kept][known], place[known])
    n_rated = int(np.count_nonzero(np.asarray(ratings.train[pairs]))) if known.any() else 0
    counts = {
        "n_lists_of_users_without_test": n_lists_out,
        "n_users_without_list": len(ratings.evaluated) - len(found),
        "n_rows_beyond_k": int((~kept).sum()),
        "n_rows_of_items_without_training": int((~known).sum()),
        "n_rows_rated_in_training": n_rated,
    }
    content = fingerprint(system, ranked.tobytes().hex(), scores.tobytes().hex(), found.tolist(), unknown.to_pylist())
    return ImportedRun(system, found, ranked, scores, every, {"file": str(path), "format": form}, counts, content)
