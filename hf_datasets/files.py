"""Engagements from files: CSV, TSV, JSON, JSON Lines and Parquet.

Reads what a file says and guesses nothing: text columns are text ("NA", "None" and "007" stay as they are), and what
cannot be read is an error that names file and line. Whether the rows are engagements is for
:func:`~gistbench.hf_datasets.schema.validate_engagements` to say.
"""

import gzip
import json
import os
import zlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, cast

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pa_json
import pyarrow.parquet as pq

from .errors import ConfigError, DataError
from .raw import LINE, Opener, RawFile, read_delimited, read_header
from .schema import ENGAGEMENT_SCHEMA

__all__ = ["FILE_EXTENSIONS", "read_csv_columns", "read_engagements"]

_DELIMITERS = {".csv": ",", ".tsv": "\t"}
_TEXT_EXTENSIONS = (".csv", ".tsv", ".json", ".jsonl", ".ndjson")
FILE_EXTENSIONS = (*_TEXT_EXTENSIONS, *(f"{extension}.gz" for extension in _TEXT_EXTENSIONS), ".parquet")

_BLOCK_BYTES = 32 << 20
"""A row must fit into a block of Arrow's readers; their default of 1 MiB is short for rows with long texts."""

_UNREADABLE = (pa.ArrowException, OSError, EOFError, zlib.error)
"""What readers raise for a file that is cut off, corrupt or not what its name says."""


def read_engagements(path: str | os.PathLike[str]) -> pa.Table:
    """Read a file of engagements, or a folder of Parquet files, as it is.

    ``.csv`` and ``.tsv`` have a header and quote with ``"``; ``.json`` is a list of records, ``.jsonl`` and ``.ndjson``
    have one record per line; all of these may be gzipped (``.csv.gz``). Text is UTF-8. A folder's Parquet files follow
    one another in the order of their paths.

    Returns:
        A table with the file's columns and rows, for :func:`~gistbench.hf_datasets.schema.validate_engagements`.

    Raises:
        ConfigError: there is no such file, or its extension is none that can be read.
        DataError: the file is malformed; the message names it and, for text, the line.
    """
    path = Path(path).expanduser()
    if path.is_dir():
        return _read_parquet_folder(path)
    if not path.exists():
        raise ConfigError(f"{path}: no such file.")
    extension = _extension(path)
    if extension == ".parquet":
        return _read_parquet(path)

    def opener() -> IO[bytes]:
        return cast(IO[bytes], gzip.open(path)) if extension.endswith(".gz") else path.open("rb")

    plain = extension.removesuffix(".gz")
    if plain == ".json":
        return _read_json_list(opener, str(path))
    if plain in _DELIMITERS:
        table = read_csv_columns(opener, None, source=str(path), delimiter=_DELIMITERS[plain])
        _refuse_decimal_ids(table, str(path))
        return table
    return _read_json_lines(opener, str(path))


def read_csv_columns(
    opener: Opener, columns: Mapping[str, pa.DataType] | None, *, source: str, delimiter: str = ","
) -> pa.Table:
    """Read columns of a delimited file with a header, whole.

    Args:
        opener: opens the file's bytes from their start.
        columns: the columns to read and their types, in this order; None reads all of them as text. An empty field is
            null in a column of numbers and the empty text in one of text; nothing else is taken for null.
        source: how to call the file in messages.
        delimiter: what separates fields.

    Raises:
        DataError: a column is missing, or a row does not fit the header or a type; the message names the line.
    """
    file = RawFile(opener, source, delimiter=delimiter)
    types = dict.fromkeys(read_header(file), pa.string()) if columns is None else dict(columns)
    batches = [batch.drop_columns(LINE) for batch in read_delimited(file, types)]
    return pa.concat_tables([pa.schema(list(types.items())).empty_table(), *batches])


def _refuse_decimal_ids(table: pa.Table, source: str) -> None:
    """Refuse integers written as decimals: ``12`` in one file and ``12.0`` in another would be two objects."""
    for name in ("user_id", "object_id"):
        if name not in table.column_names:
            continue
        column = pc.utf8_trim_whitespace(table[name])
        written = column.filter(pc.not_equal(column, ""))
        if len(written) and pc.all(pc.match_substring_regex(written, r"^\d+\.0$")).as_py():
            raise DataError(
                f"{source}: column {name!r} holds integers written as decimals, such as {written[0].as_py()!r}; 12 and "
                "12.0 would be two ids. (A missing value among integers has this effect in pandas.) Remove the rows "
                f"without an id, and write the file again with integers: frame.astype({{{name!r}: 'Int64'}})."
            )


def _read_json_list(opener: Opener, source: str) -> pa.Table:
    try:
        with opener() as stream:
            records = json.load(stream)
    except json.JSONDecodeError as error:
        hint = " One record per line is JSON Lines: name it .jsonl." if error.msg == "Extra data" else ""
        raise DataError(
            f"{source}: line {error.lineno}: not JSON ({error.msg}, column {error.colno}).{hint}"
        ) from error
    except UnicodeDecodeError as error:
        raise DataError(f"{source}: this is not UTF-8 text ({error.reason}). Save the file as UTF-8.") from error
    except _UNREADABLE as error:
        raise DataError(f"{source}: the file cannot be read ({error}).") from error
    if not isinstance(records, list):
        raise DataError(f"{source}: a list of records was expected, found a JSON {_json_kind(records)}.")
    return _table_from_records(records, (f"row {row}" for row in range(1, len(records) + 1)), source)


def _read_json_lines(opener: Opener, source: str) -> pa.Table:
    """Read with Arrow, which is fast; what it refuses or would round is read again line by line."""
    schema = pa.schema([("object_text", pa.string()), ("interaction_type", pa.string())])
    try:
        with opener() as stream:
            table = pa_json.read_json(
                stream,
                read_options=pa_json.ReadOptions(block_size=_BLOCK_BYTES),
                parse_options=pa_json.ParseOptions(explicit_schema=schema),
            )
    except _UNREADABLE:
        return _read_json_line_by_line(opener, source)
    ids = [table[name].type for name in ("user_id", "object_id") if name in table.column_names]
    if all(kind in (pa.int64(), pa.string()) for kind in ids):
        return table
    return _read_json_line_by_line(opener, source)


def _read_json_line_by_line(opener: Opener, source: str) -> pa.Table:
    records, places = [], []
    number = 0
    try:
        with opener() as stream:
            for number, line in enumerate(stream, start=1):
                if line.strip():
                    records.append(json.loads(line))
                    places.append(f"line {number}")
    except json.JSONDecodeError as error:
        raise DataError(f"{source}: line {number}: not JSON ({error.msg}, column {error.colno}).") from error
    except UnicodeDecodeError as error:
        raise DataError(f"{source}: line {number}: this is not UTF-8 text. Save the file as UTF-8.") from error
    except _UNREADABLE as error:
        raise DataError(f"{source}: the file cannot be read after line {number} ({error}).") from error
    return _table_from_records(records, places, source)


def _table_from_records(records: Sequence[Any], places: Iterable[str], source: str) -> pa.Table:
    names: dict[str, None] = {}
    places = list(places)
    for record, place in zip(records, places, strict=True):
        if not isinstance(record, dict):
            raise DataError(f"{source}: {place}: a record {{...}} was expected, found a JSON {_json_kind(record)}.")
        names.update(dict.fromkeys(record))
    columns = {}
    for name in names:
        values = [record.get(name) for record in records]
        if name == "interaction_time":
            columns[name] = _json_times(values, places, source)
        elif name in ENGAGEMENT_SCHEMA.names:
            allowed = (str, int) if name.endswith("_id") else (str,)
            columns[name] = _json_texts(values, allowed, places, name, source)
        else:
            columns[name] = pa.nulls(len(values))
    return pa.table(columns)


def _json_texts(
    values: list[Any], allowed: tuple[type, ...], places: Sequence[str], name: str, source: str
) -> pa.Array:
    kinds = " or ".join({str: "text", int: "an integer"}[kind] for kind in allowed)
    for value, place in zip(values, places, strict=True):
        if value is not None and (not isinstance(value, allowed) or isinstance(value, bool)):
            raise DataError(f"{source}: {place}: {name} is the JSON {_json_kind(value)} {value!r}; it must be {kinds}.")
    try:
        return pa.array([None if value is None else str(value) for value in values], pa.string())
    except UnicodeEncodeError as error:
        raise DataError(f"{source}: {name} holds half of a surrogate pair ({error.object[:40]!a}).") from error


def _json_times(values: list[Any], places: Sequence[str], source: str) -> pa.Array:
    for value, place in zip(values, places, strict=True):
        if isinstance(value, (bool, dict, list)):
            raise DataError(f"{source}: {place}: interaction_time is the JSON {_json_kind(value)} {value!r}.")
    if any(isinstance(value, str) for value in values):
        return pa.array([None if value is None else str(value) for value in values], pa.string())
    return pa.array([None if value is None else float(value) for value in values], pa.float64())


def _json_kind(value: object) -> str:
    names = {dict: "object", list: "list", str: "text", bool: "boolean", int: "number", float: "number"}
    return names.get(type(value), "null")


def _read_parquet(path: Path) -> pa.Table:
    try:
        return pq.ParquetFile(path).read()
    except _UNREADABLE as error:
        raise DataError(f"{path}: not a Parquet file that can be read ({error}).") from error


def _read_parquet_folder(folder: Path) -> pa.Table:
    paths = sorted(folder.rglob("*.parquet"))
    if not paths:
        raise DataError(f"{folder}: the folder holds no .parquet file. Other formats are read one file at a time.")
    tables = [_read_parquet(path) for path in paths]
    expected = {name for name in tables[0].column_names if name in ENGAGEMENT_SCHEMA.names}
    for path, table in zip(paths, tables, strict=True):
        if differing := sorted(expected ^ {name for name in table.column_names if name in ENGAGEMENT_SCHEMA.names}):
            raise DataError(f"{path}: differs from {paths[0].name} in the columns {', '.join(differing)}.")
    try:
        return pa.concat_tables(tables, promote_options="permissive")
    except pa.ArrowException as error:
        raise DataError(f"{folder}: the Parquet files' columns have different types ({error}).") from error


def _extension(path: Path) -> str:
    name = path.name.lower()
    for extension in sorted(FILE_EXTENSIONS, key=len, reverse=True):
        if name.endswith(extension):
            return extension
    raise ConfigError(
        f"{path}: the extension {''.join(path.suffixes[-2:]) or '(none)'!r} is not known. Engagements are read from "
        f"{', '.join(FILE_EXTENSIONS)}, or a folder of .parquet files."
    )
