"""Tables of runs and judgements, read with checks into integer codes and numbers; it knows no metric.

Ids are compared as text, whatever the column's type. Columns of long repeats (systems, users) are read by their runs
of equal values, the others through Arrow's dictionary encoding; dictionary-encoded and integer columns cost next to
nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from .common import is_text, shown
from .trec import is_path, read_table

__all__ = ["Coded", "code", "codes_of", "numbers", "read_columns"]

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]

# Integer ids are numbered by their distance to the lowest; in a wider range only those that occur get a number.
_SHORT_RANGE = 1 << 15
_LONGEST_RANGE = 1 << 22


@dataclass(frozen=True)
class Coded:
    """A column of ids: the text of every id and the code of every row, or of every stretch of equal rows."""

    codes: npt.NDArray[Any]
    texts: pa.Array
    """Text by code; a text may be unused, none stands twice."""
    starts: IntArray | None = None
    """The first row of each stretch, where ``codes`` are of stretches."""

    def row(self, row: int) -> str:
        """Return the id of a row."""
        at = row if self.starts is None else int(np.searchsorted(self.starts, row, side="right")) - 1
        return str(self.texts[int(self.codes[at])].as_py())


def read_columns(table: Any, name: str, columns: tuple[str, ...]) -> dict[str, pa.ChunkedArray]:
    """Return columns of an Arrow table, data set, DataFrame, dict of columns, or file(s).

    Raises:
        ValueError: If it is none of these, lacks a column, or its columns differ in length.
    """
    wanted = ", ".join(columns)
    if is_path(table):
        table = read_table(table, columns, name)
    if isinstance(table, Mapping):
        present = list(table)
        if present and "user" not in present and all(hasattr(value, "column_names") for value in table.values()):
            raise ValueError(f"{name} is a dict of data sets ({', '.join(map(str, present))}): pass one split of it.")
        get: Callable[[str], Any] = table.__getitem__
    elif hasattr(table, "select_columns") and hasattr(table, "with_format"):  # datasets.Dataset
        present = list(table.column_names)
        get = table.with_format("arrow")[:].column if set(columns) <= set(present) else table.__getitem__
    elif hasattr(table, "columns") and hasattr(table, "iloc"):
        present = list(table.columns)
        get = table.__getitem__
    elif hasattr(table, "schema") or hasattr(table, "__arrow_c_stream__"):
        table = table if isinstance(table, pa.Table) else pa.table(table)
        present = table.column_names
        get = table.column
    else:
        raise ValueError(
            f"{name} must be a table with the columns {wanted} (an Arrow table, datasets.Dataset, DataFrame, dict of "
            f"columns or path), found {shown(table)}."
        )
    if missing := [column for column in columns if column not in present]:
        raise ValueError(f"{name} lacks the column(s) {', '.join(missing)}; it has {', '.join(map(str, present))}.")
    read = {column: _column(get(column), name, column) for column in columns}
    if len({len(values) for values in read.values()}) > 1:
        sizes = ", ".join(f"{column} {len(values)}" for column, values in read.items())
        raise ValueError(f"{name}'s columns differ in length: {sizes}.")
    return read


def _column(values: Any, name: str, column: str) -> pa.ChunkedArray:
    if isinstance(values, pa.ChunkedArray):
        return values
    if isinstance(values, pa.Array):
        return pa.chunked_array([values])
    if isinstance(values, (str, bytes)) or not hasattr(values, "__len__"):
        raise ValueError(f"{name}'s column {column} must hold one value per row, found {shown(values)}.")
    try:
        if column in ("score", "rating", "count"):
            # NaN stays NaN, so that a missing score is told from a broken one.
            values = pa.array(values, from_pandas=False) if not _is_pandas(values) else pa.array(values)
        else:
            values = pa.array(values, from_pandas=True)
    except (pa.ArrowException, UnicodeEncodeError, TypeError):
        values = _mixed(list(values), name, column)
    return values if isinstance(values, pa.ChunkedArray) else pa.chunked_array([values])


def _is_pandas(values: Any) -> bool:
    return hasattr(values, "iloc")


def _mixed(values: list[Any], name: str, column: str) -> pa.Array:
    """Read what Arrow takes for mixed types: integers beside strings are ids; anything else is named by its row."""
    texts: list[Any] = []
    for row, value in enumerate(values):
        if column in ("score", "rating", "count"):
            if value is not None and (isinstance(value, bool) or not isinstance(value, (int, float, np.number))):
                raise ValueError(f"{name} row {row}: {column} must be a number, found {shown(value)}.")
            texts.append(None if value is None else float(value))
        elif isinstance(value, str):
            texts.append(value.encode("utf-8", "backslashreplace").decode())
        elif isinstance(value, (int, np.integer)) and not isinstance(value, bool):
            texts.append(str(int(value)))
        elif value is None:
            texts.append(None)
        else:
            raise ValueError(f"{name} row {row}: {column} must be a string or an integer, found {shown(value)}.")
    return pa.array(texts, pa.float64() if column in ("score", "rating", "count") else pa.string())


def numbers(values: pa.ChunkedArray, name: str, column: str, nullable: bool = False) -> FloatArray:
    """Return a column of numbers as floats; a missing value is NaN if ``nullable``, else an error.

    A column of float32 stays one, so that its ties stay ties.
    """
    kind = values.type
    if pa.types.is_null(kind) and (nullable or not len(values)):
        return np.full(len(values), np.nan)
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
        shows = f" ({shown(values[0].as_py())} in row 0)" if len(values) else ""
        if not len(values) and pa.types.is_null(kind):
            return np.empty(0)
        raise ValueError(f"{name}'s column {column} must hold numbers, found the type {kind}{shows}.")
    if values.null_count and not nullable:
        row = values.is_null().index(True).as_py()
        raise ValueError(f"{name} row {row}: {column} is missing.")
    if pa.types.is_decimal(kind) or pa.types.is_float16(kind):
        values = values.cast(pa.float64())
    array: FloatArray = (values.chunk(0) if values.num_chunks == 1 else values).to_numpy(
        **({"zero_copy_only": False} if values.num_chunks == 1 else {})
    )
    return array if array.dtype == np.float32 else np.asarray(array, dtype=np.float64)


def _check_ids(values: pa.ChunkedArray, name: str, column: str) -> None:
    kind = values.type.value_type if pa.types.is_dictionary(values.type) else values.type
    if values.null_count:
        row = values.is_null().index(True).as_py()
        raise ValueError(f"{name} row {row}: {column} is missing. Drop or complete such rows before scoring.")
    if is_text(kind) or pa.types.is_integer(kind) or not len(values):
        return
    if pa.types.is_floating(kind):
        raise ValueError(
            f"{name} row 0: {column} is the float {values[0].as_py()!r}; ids are strings or integers, and a float may "
            f"have lost digits or stand for a missing id. Convert the ids to str before scoring."
        )
    raise ValueError(f"{name}'s column {column} has the type {kind}; ids are strings or integers.")


def code(values: pa.ChunkedArray, name: str, column: str, stretches: bool = False) -> Coded:
    """Number the ids of a column.

    Args:
        stretches: The column repeats its values over many rows in a row: number the stretches, not the rows.

    Raises:
        ValueError: If an id is missing, a float, or of another type that is no id.
    """
    _check_ids(values, name, column)
    if not len(values):
        return Coded(np.empty(0, np.int64), pa.array([], pa.string()), np.empty(0, np.int64) if stretches else None)
    kind = values.type
    if pa.types.is_string_view(kind):
        values = values.cast(pa.large_string())
        kind = values.type
    if pa.types.is_integer(kind):
        return _code_integers(values, stretches)
    if not pa.types.is_dictionary(kind):
        chunk = values.chunk(0) if values.num_chunks == 1 else values.combine_chunks()
        if isinstance(chunk, pa.ChunkedArray):  # too long for one array
            chunk = values.cast(pa.large_string()).combine_chunks()
        if stretches:
            runs = pc.run_end_encode(chunk, run_end_type=pa.int64())
            encoded = runs.values.dictionary_encode()
            ends = runs.run_ends.to_numpy(zero_copy_only=False)
            starts = np.concatenate([np.zeros(1, np.int64), ends[:-1]])
            return Coded(encoded.indices.to_numpy(zero_copy_only=False), _texts(encoded.dictionary), starts)
        encoded = chunk.dictionary_encode()
        return Coded(encoded.indices.to_numpy(zero_copy_only=False), _texts(encoded.dictionary))
    encoded = values.chunk(0) if values.num_chunks == 1 else values.unify_dictionaries().combine_chunks()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.chunk(0)
    codes = encoded.indices.to_numpy(zero_copy_only=False)
    if stretches:
        starts = np.concatenate([np.zeros(1, np.int64), np.flatnonzero(codes[1:] != codes[:-1]) + 1])
        return _distinct(codes[starts], encoded.dictionary, starts, name, column)
    return _distinct(codes, encoded.dictionary, None, name, column)


def _texts(dictionary: pa.Array) -> pa.Array:
    return dictionary.cast(pa.string())


def _distinct(codes: Any, dictionary: pa.Array, starts: IntArray | None, name: str, column: str) -> Coded:
    """Let no text of a dictionary stand twice, which Arrow allows."""
    texts = _texts(dictionary)
    again = texts.dictionary_encode()
    if texts.null_count:
        raise ValueError(f"{name}: {column} has a dictionary with a missing value in it.")
    if len(again.dictionary) < len(texts):
        return Coded(again.indices.to_numpy(zero_copy_only=False)[codes], again.dictionary, starts)
    return Coded(codes, texts, starts)


def _code_integers(values: pa.ChunkedArray, stretches: bool) -> Coded:
    array = values.chunk(0).to_numpy(zero_copy_only=False) if values.num_chunks == 1 else values.to_numpy()
    starts = None
    if stretches:
        starts = np.concatenate([np.zeros(1, np.int64), np.flatnonzero(array[1:] != array[:-1]) + 1])
        array = array[starts]
    low, high = int(array.min()), int(array.max())
    if high - low < max(_LONGEST_RANGE, len(array)):
        unsigned = array.dtype == np.uint64
        base = np.uint64(low) if unsigned else np.int64(low)
        codes = array if low == 0 and not unsigned else (array.astype(base.dtype) - base).astype(np.int64)
        found = np.arange(high - low + 1, dtype=base.dtype)
        if high - low >= _SHORT_RANGE:
            present = np.zeros(high - low + 1, np.bool_)
            present[codes] = True
            found = np.flatnonzero(present).astype(base.dtype)
            number = np.empty(high - low + 1, np.int32)
            number[found] = np.arange(len(found), dtype=np.int32)
            codes = number[codes]
        found = found + base
    else:
        found, codes = np.unique(array, return_inverse=True)
    return Coded(codes, pa.array(found).cast(pa.string()), starts)


def codes_of(coded: Coded, vocabulary: pa.Array) -> npt.NDArray[Any]:
    """Return each code's position in another list of texts, -1 where it is not in it."""
    found: npt.NDArray[Any] = pc.index_in(coded.texts, value_set=vocabulary).fill_null(-1).to_numpy()
    return found
