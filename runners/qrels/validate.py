"""Pairs that people should look at, and what they say of them.

A pair is uncertain when repeated grades of a judge, or grades of several judges, lie apart. The list goes out as csv
with an empty column ``grade``; filled in, it comes back as judgements of people, which go before any judge's.
"""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from ...hf_datasets._atomic import replacing
from ...hf_datasets.errors import DataError
from ..rated import ItemTexts
from .judged import PAIR_SEPARATOR, pair_keys
from .work import Work, write_table

__all__ = ["VALIDATED", "import_validations", "list_uncertain", "read_validations", "write_uncertain"]

VALIDATED = pa.schema(
    [("user", pa.string()), ("item", pa.string()), ("grade", pa.float64()), ("validated_by", pa.string())]
)
_HIGHEST = 5.0


def list_uncertain(
    grades: Mapping[str, pa.Table], human: pa.Table, pool: pa.Table, *, n: int | None = None, min_range: int = 1
) -> pa.Table:
    """List pooled pairs without a human judgement on which grades lie apart, the farthest first.

    Args:
        grades: by judge (or condition), one row per pair: ``user``, ``item``, ``grade``, ``lowest``, ``highest``.
        human: ``user``, ``item`` that people rated.
        pool: ``user``, ``item``, ``n_systems``, ``depth``: among equals, what more systems list, and higher, is first.
        n: how many at most.
        min_range: the least range that counts as uncertain.

    Returns:
        ``user``, ``item``, ``lowest``, ``highest``, ``range``, ``n_systems``, ``depth``.
    """
    pooled, rated = pair_keys(pool), pair_keys(human)
    lowest = np.full(len(pooled), np.inf)
    highest = np.full(len(pooled), -np.inf)
    for table in grades.values():
        at = pc.index_in(pooled, value_set=pair_keys(table)).fill_null(-1).to_numpy().astype(np.int64)
        found = at >= 0
        for name, bounds, better in (("lowest", lowest, np.minimum), ("highest", highest, np.maximum)):
            values = table[name].to_numpy().astype(np.float64)[at[found]]
            bounds[found] = np.where(np.isnan(values), bounds[found], better(bounds[found], values))
    spread = np.where(np.isfinite(lowest), highest - lowest, -1.0)
    is_rated = pc.is_in(pooled, value_set=rated).to_numpy(zero_copy_only=False)
    wanted = np.flatnonzero((spread >= min_range) & ~is_rated)
    n_systems, depth = (pool[name].to_numpy() for name in ("n_systems", "depth"))
    order = np.lexsort((depth[wanted], -n_systems[wanted], -spread[wanted]))
    chosen: npt.NDArray[np.int64] = wanted[order][:n]
    kept = pool.select(["user", "item", "n_systems", "depth"]).take(pa.array(chosen))
    for name, values in (("lowest", lowest), ("highest", highest), ("range", spread)):
        kept = kept.append_column(name, pa.array(values[chosen].astype(np.int64)))
    return kept.select(["user", "item", "lowest", "highest", "range", "n_systems", "depth"])


def write_uncertain(work: Work, table: pa.Table, path: Path) -> None:
    """Write uncertain pairs as csv with each item's text and an empty ``grade``."""
    items = work.read("items") if "items" in work.record("split")["tables"] else None
    texts = ItemTexts(items)
    shown = [texts.text(item, plot=True) for item in table["item"].to_pylist()]
    table = table.append_column("text", pa.array(shown, pa.string()))
    table = table.append_column("grade", pa.array([""] * table.num_rows, pa.string()))
    with replacing(path) as temporary:
        pacsv.write_csv(table, temporary)


def import_validations(work: Work, path: Path, *, by: str = "") -> dict[str, int]:
    """Take people's grades in from a csv with ``user``, ``item``, ``grade``; rows without a grade are counted.

    A pair that is validated again has the new grade.

    Args:
        work: the folder.
        path: of the csv.
        by: who validated.

    Raises:
        DataError: the file cannot be read, a grade is none, a pair stands there twice or is not in the pool.
    """
    names = ("user", "item", "grade")
    options = pacsv.ConvertOptions(
        column_types=dict.fromkeys(names, pa.string()), include_columns=list(names), strings_can_be_null=False
    )
    try:
        table = pacsv.read_csv(path, convert_options=options)
    except (pa.ArrowException, OSError, KeyError) as error:
        raise DataError(f"{path} is no csv with the columns {', '.join(names)}: {error}") from error
    given = pc.utf8_trim_whitespace(table["grade"])
    n_empty = int(pc.sum(pc.equal(given, "")).as_py() or 0)
    rows = [row for row in table.to_pylist() if row["grade"].strip()]
    pooled = set(pair_keys(work.read("pool", ["user", "item"])).to_pylist())
    found: dict[tuple[str, str], float] = {}
    for number, row in enumerate(rows, start=1):
        place = f"{path}, graded row {number} (user {row['user']}, item {row['item']})"
        try:
            grade = float(row["grade"])
        except ValueError:
            grade = float("nan")
        if not 0 <= grade <= _HIGHEST:
            raise DataError(f"{place}: the grade is {row['grade']!r}; it must be a number from 0 to 5, or empty.")
        if (row["user"], row["item"]) in found:
            raise DataError(f"{place}: the pair stands there twice. Keep one row.")
        if f"{row['user']}{PAIR_SEPARATOR}{row['item']}" not in pooled:
            raise DataError(f"{place}: the pair is not in the pool of {work.path}.")
        found[row["user"], row["item"]] = grade
    before = read_validations(work)
    old = {} if before is None else {(row["user"], row["item"]): row for row in before.to_pylist()}
    merged = old | {
        pair: {"user": pair[0], "item": pair[1], "grade": grade, "validated_by": by} for pair, grade in found.items()
    }
    write_table(_path(work), pa.Table.from_pylist([merged[pair] for pair in sorted(merged)], VALIDATED))
    return {"n_imported": len(found), "n_replaced": len(old.keys() & found.keys()), "n_empty": n_empty}


def read_validations(work: Work) -> pa.Table | None:
    """Return what people said of pairs afterwards; None where nobody did."""
    path = _path(work)
    return pq.ParquetFile(path).read() if path.exists() else None


def _path(work: Work) -> Path:
    return work.path / "judged" / "validated.parquet"
