"""Runs and judgements from files: TREC's text formats (gzip too) and Parquet, as Arrow tables.

It reads and writes; it knows nothing about scores. Lines may hold more fields than TREC defines; the rest is ignored.
"""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

__all__ = ["is_path", "read_qrels", "read_run", "read_table", "write_qrels", "write_run"]

_RUN = ("user", "Q0", "item", "rank", "score", "system")
_QRELS = ("user", "iteration", "item", "rating")


def is_path(value: Any) -> bool:
    """Tell whether a value names a file, or is a list of such names."""
    if isinstance(value, (list, tuple)):
        return bool(value) and all(map(is_path, value))
    return isinstance(value, (str, os.PathLike))


def _lines(path: str | os.PathLike[str], fields: tuple[str, ...]) -> Iterable[tuple[int, list[str]]]:
    opened = gzip.open if str(path).endswith(".gz") else open
    with opened(path, "rt", encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            values = line.split()
            if not values:
                continue
            if len(values) < len(fields):
                raise ValueError(
                    f"{path}, line {number}: found {len(values)} field(s), expected {len(fields)}: {' '.join(fields)}."
                )
            yield number, values


def _number(text: str, path: Any, line: int, name: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{path}, line {line}: {name} must be a number, found {text!r}.") from None


def read_run(path: str | os.PathLike[str], system: str | None = None) -> pa.Table:
    """Read a TREC run (``user Q0 item rank score system``); ``system`` replaces the name in its last field."""
    columns: tuple[list[str], list[str], list[str], list[float]] = ([], [], [], [])
    for line, values in _lines(path, _RUN):
        columns[0].append(values[5] if system is None else system)
        columns[1].append(values[0])
        columns[2].append(values[2])
        columns[3].append(_number(values[4], path, line, "score"))
    types = (pa.string(), pa.string(), pa.string(), pa.float64())
    arrays = [pa.array(values, kind) for values, kind in zip(columns, types, strict=True)]
    return pa.table(arrays, ["system", "user", "item", "score"])


def read_qrels(path: str | os.PathLike[str]) -> pa.Table:
    """Read TREC judgements (``user iteration item rating``); a negative rating means not judged."""
    columns: tuple[list[str], list[str], list[float]] = ([], [], [])
    for line, values in _lines(path, _QRELS):
        columns[0].append(values[0])
        columns[1].append(values[2])
        columns[2].append(_number(values[3], path, line, "rating"))
    types = (pa.string(), pa.string(), pa.float64())
    arrays = [pa.array(values, kind) for values, kind in zip(columns, types, strict=True)]
    return pa.table(arrays, ["user", "item", "rating"])


def read_table(source: Any, columns: tuple[str, ...], name: str) -> pa.Table:
    """Read one file or several: Parquet by its ending (these columns of it), else TREC's format for the columns."""
    paths = list(source) if isinstance(source, (list, tuple)) else [source]
    tables = []
    for path in paths:
        if not Path(path).is_file():
            raise ValueError(f"{name}: there is no file {os.fspath(path)!r}.")
        if str(path).endswith(".parquet"):
            try:
                present = pq.read_schema(path).names
            except pa.ArrowException as error:
                raise ValueError(f"{name}: {os.fspath(path)!r} is no Parquet file: {error}") from None
            if missing := [column for column in columns if column not in present]:
                raise ValueError(
                    f"{name}: {os.fspath(path)!r} lacks the column(s) {', '.join(missing)}; it has "
                    f"{', '.join(present)}."
                )
            tables.append(pq.read_table(path, columns=list(columns)))
        elif "system" in columns:
            tables.append(read_run(path))
        elif "rating" in columns:
            tables.append(read_qrels(path))
        else:
            raise ValueError(f"{name}: {os.fspath(path)!r} must be a Parquet file; TREC has no format for {name}.")
    try:
        return pa.concat_tables(tables, promote_options="permissive")
    except pa.ArrowException as error:
        raise ValueError(f"{name}: the files' columns do not fit together: {error}") from None


def write_run(table: pa.Table, path: str | os.PathLike[str]) -> None:
    """Write a table with ``system``, ``user``, ``item``, ``score`` as a TREC run; ranks are counted in row order."""
    ranks: dict[tuple[str, str], int] = {}
    with open(path, "w", encoding="utf-8") as file:
        for system, user, item, score in zip(*(table.column(c).to_pylist() for c in _RUN_COLUMNS), strict=True):
            ranks[system, user] = rank = ranks.get((system, user), 0) + 1
            file.write(f"{user} Q0 {item} {rank} {score!r} {system}\n")


def write_qrels(table: pa.Table, path: str | os.PathLike[str]) -> None:
    """Write a table with ``user``, ``item``, ``rating`` as TREC judgements (whole ratings as integers)."""
    with open(path, "w", encoding="utf-8") as file:
        for user, item, rating in zip(*(table.column(c).to_pylist() for c in ("user", "item", "rating")), strict=True):
            whole = int(rating) if float(rating).is_integer() else rating
            file.write(f"{user} 0 {item} {whole}\n")


_RUN_COLUMNS = ("system", "user", "item", "score")
