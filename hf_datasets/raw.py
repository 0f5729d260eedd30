"""The raw files of a source: found in a folder or zip, read in batches, every broken row an error or counted.

Delimited text (with or without a header, quoted or not, UTF-8 or a single-byte encoding) and JSON Lines, plain or
gzipped. Arrow parses blocks of whole rows; a block that it refuses is read again row by row, which finds the broken
lines. What to do with one is a :class:`BadRows`'s to say: raise, or skip and count. A file that is cut off is an error
in any case, since nobody knows what is missing. Knows nothing about what the rows mean.

Each batch has the columns asked for and, last, :data:`LINE`: the line of the file on which the row starts.
"""

import csv
import fnmatch
import gzip
import hashlib
import io
import json
import logging
import re
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.json as pa_json

from .errors import DataError

__all__ = [
    "LINE",
    "ON_ERROR",
    "BadRows",
    "Layout",
    "RawFile",
    "find_layout",
    "hash_files",
    "keep_rows",
    "open_file",
    "read_delimited",
    "read_header",
    "read_json_lines",
    "read_whole",
    "unique_rows",
]

logger = logging.getLogger(__name__)

ON_ERROR = ("raise", "skip")
LINE = "line"
"""Name of the column of line numbers (int64, from 1)."""

Opener = Callable[[], IO[bytes]]
"""Opens the same bytes from their start each time it is called."""

_BLOCK_BYTES = 16 << 20
_LONGEST_ROW_BYTES = 256 << 20
_UNREADABLE = (OSError, EOFError, zlib.error, zipfile.BadZipFile)
_QUOTED = r'(?<![^%s\n\r])"(?:[^"]++|"")*+("?)'
"""A quoted field: a quote at the start of a field, to the quote that closes it (the group is empty where none does)."""
_EXAMPLES = 5


@dataclass
class BadRows:
    """What happens to broken rows, and what has happened so far."""

    on_error: str = "raise"
    """``raise`` or ``skip``."""
    counts: dict[str, int] = field(default_factory=dict)
    """Rows skipped, by file."""
    examples: list[str] = field(default_factory=list)
    """The first few messages."""

    def reject(self, source: str, line: int, problem: str, unit: str = "line") -> None:
        """Raise a DataError about a row, or count it.

        Args:
            source: the file.
            line: on which the row starts.
            problem: what was found and what was expected, a sentence.
            unit: what ``line`` counts; ``row`` in files that have no lines.
        """
        message = f"{source}: {unit} {line}: {problem}"
        if self.on_error != "skip":
            raise DataError(message)
        self.counts[source] = self.counts.get(source, 0) + 1
        if len(self.examples) < _EXAMPLES:
            self.examples.append(message)
            logger.warning("Skipped: %s", message)

    @property
    def n_skipped(self) -> int:
        """Rows skipped in all files."""
        return sum(self.counts.values())


@dataclass(frozen=True)
class RawFile:
    """A raw file and how it is written."""

    opener: Opener
    """Opens the (decompressed) bytes from their start."""
    source: str
    """How messages call the file."""
    delimiter: str = ","
    names: tuple[str, ...] | None = None
    """The columns of a file without a header; None: the first row names them."""
    quoted: bool = True
    """Fields may be quoted with ``"``, and then hold delimiters, line breaks and doubled quotes."""
    encoding: str = "utf-8"
    """``utf-8``, or a single-byte encoding such as ``latin-1``."""


def read_delimited(
    file: RawFile, columns: Mapping[str, pa.DataType], bad_rows: BadRows | None = None
) -> Iterator[pa.Table]:
    """Read columns of a delimited file in batches.

    Args:
        file: the file and how it is written.
        columns: the columns to read, in this order: text (``string``) or numbers (``int64``, ``float64``). An empty
            field is null among numbers and the empty text among texts; nothing else is taken for null.
        bad_rows: what to do with rows that have another number of fields than the header, whose numbers are none, or
            that are not text in the encoding; default: raise.

    Yields:
        Tables of the columns and :data:`LINE`; none where there are no rows.

    Raises:
        DataError: the file is empty or cut off, or lacks a column; or a row is broken.
    """
    bad = bad_rows or BadRows()
    header = list(file.names or ())
    empty = True
    for block, line in _blocks(file, partial(_end_of_rows, file)):
        empty = empty and not block.strip(b"\r\n")
        if not header:
            header, block, line = _take_header(file, block, line)
            if header:
                _check_header(header, columns, file)
        elif file.names and line == 1:
            _check_header(header, columns, file)
        if header and block.strip(b"\r\n"):
            batch = _parse_delimited(file, block, line, header, columns, bad)
            if batch.num_rows:
                yield batch
    if empty:
        expected = "rows" if file.names else "a header and rows"
        raise DataError(f"{file.source}: the file is empty; {expected} were expected.")


def read_header(file: RawFile) -> list[str]:
    """Return the columns of a delimited file.

    Raises:
        DataError: the file is empty or cut off, or names a column twice.
    """
    header = list(file.names or ())
    if not header:
        for block, line in _blocks(file, partial(_end_of_rows, file)):
            header = _take_header(file, block, line)[0]
            if header:
                break
    if not header:
        raise DataError(f"{file.source}: the file is empty; a header and rows were expected.")
    _check_header(header, {}, file)
    return header


def read_json_lines(
    file: RawFile, columns: Mapping[str, pa.DataType], bad_rows: BadRows | None = None
) -> Iterator[pa.Table]:
    """Read fields of a file with one JSON object per line, in batches.

    Args:
        file: the file; only ``opener`` and ``source`` count.
        columns: the fields to read and their types, lists and structs too; a missing field is null. A text may be
            an integer in the file. Others than these are ignored. A type that many lines do not have is slow: ask for
            another field.
        bad_rows: what to do with lines that are not JSON objects, or whose fields have other types; default: raise.

    Yields:
        Tables of the columns and :data:`LINE`.

    Raises:
        DataError: the file is empty or cut off, or a line is broken.
    """
    bad = bad_rows or BadRows()
    empty = True
    for block, line in _blocks(file, _end_of_lines):
        empty = empty and not block.strip()
        if block.strip():
            batch = _parse_json_lines(file, block, line, columns, bad)
            if batch.num_rows:
                yield batch
    if empty:
        raise DataError(f"{file.source}: the file is empty; one JSON object per line was expected.")


def read_whole(batches: Iterator[pa.Table], source: str) -> pa.Table:
    """Join batches to one table, for files that fit into memory.

    Raises:
        DataError: there are no rows.
    """
    tables = list(batches)
    if not tables:
        raise DataError(f"{source}: the file has a header but no rows.")
    return pa.concat_tables(tables)


def keep_rows(
    table: pa.Table, good: pa.ChunkedArray | pa.Array, problem: str, column: str, source: str, bad_rows: BadRows
) -> pa.Table:
    """Keep the rows for which ``good`` is true; the others (false or null) are broken.

    Args:
        table: with :data:`LINE`.
        good: one boolean per row.
        problem: what was expected, after the value: ``"a rating from 0.5 to 5 was expected"``.
        column: whose value is shown.
        source: the file.
        bad_rows: what to do.
    """
    good = pc.fill_null(good, False)
    if pc.all(good, min_count=0).as_py():
        return table
    broken = table.filter(pc.invert(good)).select([LINE, column])
    for line, value in zip(broken[LINE].to_pylist(), broken[column].to_pylist(), strict=True):
        bad_rows.reject(source, line, f"{column} is {value!r}; {problem}.")
    return table.filter(good)


def unique_rows(table: pa.Table, column: str, source: str, bad_rows: BadRows) -> pa.Table:
    """Keep the first row of each value of ``column``; a repeated value is a broken row."""
    ids = table[column].combine_chunks().dictionary_encode()
    codes = ids.indices.to_numpy(zero_copy_only=False)
    if len(ids.dictionary) == len(codes):
        return table
    _, first = np.unique(codes, return_index=True)
    good = np.zeros(len(codes), dtype=bool)
    good[first] = True
    lines = table[LINE].to_numpy()
    first_line = lines[first]
    for row in np.flatnonzero(~good):
        value = ids.dictionary[int(codes[row])].as_py()
        bad_rows.reject(
            source,
            int(lines[row]),
            f"{column} {value!r} is already on line {first_line[codes[row]]}; it must be unique.",
        )
    return table.filter(pa.array(good))


# Finding files


@dataclass(frozen=True)
class Layout:
    """The files that a source comes as. A name may be a pattern (``*.inter``); each may be gzipped (``.gz``) too."""

    name: str
    required: tuple[str, ...]
    optional: tuple[str, ...] = ()


def find_layout(
    source: Path, layouts: Sequence[Layout], needs: str
) -> tuple[Layout, dict[str, tuple[Opener, Path, str]]]:
    """Find which layout is in a folder, one folder below it, or a zip file.

    Args:
        source: folder or zip file.
        layouts: those known; the first whose required files are all there is taken.
        needs: what is needed, in words, for messages.

    Returns:
        The layout, and for each of its names that is there: how to open it, the file it stands in, its name there.

    Raises:
        DataError: no layout is there, or several places hold one.
    """
    if source.is_dir():
        folders = {
            f"{folder}/": {path.name for path in folder.iterdir() if path.is_file()}
            for folder in [source, *sorted(path for path in source.iterdir() if path.is_dir())]
        }
    elif source.is_file():
        folders = _zip_folders(source, needs)
    else:
        raise DataError(f"{source}: no such file or folder. Needed: {needs}.")
    for layout in layouts:
        places = [folder for folder, names in folders.items() if _matches(layout, names, folder)]
        if len(places) > 1:
            raise DataError(f"{source}: holds {layout.name} several times ({', '.join(places)}). Name one of them.")
        if places:
            found = _matches(layout, folders[places[0]], places[0])
            if source.is_dir():
                paths = {name: Path(places[0]) / real for name, real in found.items()}
                return layout, {name: (partial(open_file, path), path, path.name) for name, path in paths.items()}
            return layout, {
                name: (partial(_open_member, source, places[0] + real), source, real) for name, real in found.items()
            }
    known = "; ".join(f"{layout.name}: {', '.join(layout.required)}" for layout in layouts)
    raise DataError(
        f"{source}: no known set of files was found together, neither there nor one folder below. Known: {known}. "
        f"Needed: {needs}."
    )


def hash_files(files: Mapping[str, tuple[Opener, Path, str]]) -> str:
    """Return a hash (hex) of the content of found files; of a zip file as a whole. Neither paths nor times count."""
    hashes = {}
    for name, (_, path, _) in sorted(files.items()):
        with path.open("rb") as file:
            hashes[name] = hashlib.file_digest(file, "sha256").hexdigest()
        if zipfile.is_zipfile(path):
            return str(hashes[name])
    return hashlib.sha256(json.dumps(hashes).encode()).hexdigest()


def open_file(path: Path) -> IO[bytes]:
    """Open a file's bytes, decompressed where it is gzipped, whatever its name."""
    with path.open("rb") as file:
        gzipped = file.read(2) == b"\x1f\x8b"
    return cast(IO[bytes], gzip.open(path)) if gzipped else path.open("rb")


def _matches(layout: Layout, names: Collection[str], place: str) -> dict[str, str]:
    """Return the files of a layout among names: empty where a required one is missing."""
    found: dict[str, str] = {}
    for pattern in (*layout.required, *layout.optional):
        real = sorted(name for name in names if fnmatch.fnmatchcase(name.removesuffix(".gz"), pattern))
        if len(real) > 1:
            raise DataError(f"{place}: several files are {pattern} ({', '.join(real)}). Keep one of them there.")
        if real:
            found[pattern] = real[0]
    return found if all(pattern in found for pattern in layout.required) else {}


def _zip_folders(source: Path, needs: str) -> dict[str, set[str]]:
    try:
        with zipfile.ZipFile(source) as archive:
            members = [name for name in archive.namelist() if not name.startswith("__MACOSX/")]
    except zipfile.BadZipFile as error:
        raise DataError(f"{source}: not a zip file ({error}). Needed: {needs}.") from error
    folders: dict[str, set[str]] = {}
    for member in members:
        folder, slash, name = member.rpartition("/")
        if name:
            folders.setdefault(folder + slash, set()).add(name)
    return folders


def _open_member(archive: Path, member: str) -> IO[bytes]:
    with zipfile.ZipFile(archive) as opened:
        stream = opened.open(member)
    return cast(IO[bytes], gzip.open(stream)) if member.endswith(".gz") else stream


# Blocks of whole rows


def _blocks(file: RawFile, end_of_rows: Callable[[bytes], int]) -> Iterator[tuple[bytes, int]]:
    """Yield blocks of whole rows with the number of their first line; the last one may lack its line end."""
    line = 1
    rest = b""
    try:
        with file.opener() as stream:
            start = True
            while chunk := stream.read(_BLOCK_BYTES):
                if start and chunk.startswith(b"\xef\xbb\xbf"):
                    chunk = chunk[3:]
                start = False
                rest += chunk
                end = end_of_rows(rest)
                if end:
                    block, rest = rest[:end], rest[end:]
                    yield block, line
                    line += block.count(b"\n")
                elif len(rest) > _LONGEST_ROW_BYTES:
                    raise DataError(
                        f"{file.source}: line {line}: the row is longer than {_LONGEST_ROW_BYTES >> 20} MiB. Is a "
                        "quote not closed, or is this another kind of file?"
                    )
    except _UNREADABLE as error:
        line += rest.count(b"\n")
        raise DataError(
            f"{file.source}: line {line}: the file cannot be read any further ({error}). Is it cut off? Get it again."
        ) from error
    if rest:
        yield rest, line


def _end_of_lines(block: bytes) -> int:
    return block.rfind(b"\n") + 1


def _end_of_rows(file: RawFile, block: bytes) -> int:
    """Return where the last whole row ends: line breaks in quoted fields end none."""
    if not file.quoted or b'"' not in block:
        return _end_of_lines(block)
    last = 0
    position = 0
    for match in _quoted_field(file.delimiter).finditer(block):
        newline = block.rfind(b"\n", position, match.start())
        last = newline + 1 if newline >= 0 else last
        if not match[1]:
            return last
        position = match.end()
    newline = block.rfind(b"\n", position)
    return newline + 1 if newline >= 0 else last


def _quoted_field(delimiter: str) -> re.Pattern[bytes]:
    return re.compile((_QUOTED % re.escape(delimiter)).encode())


# Delimited text


def _take_header(file: RawFile, block: bytes, line: int) -> tuple[list[str], bytes, int]:
    """Take the header off the first block that is not blank."""
    blank = len(block) - len(block.lstrip(b"\r\n"))
    line += block[:blank].count(b"\n")
    block = block[blank:]
    if not block:
        return [], b"", line
    end = len(block)
    position = 0
    while (newline := block.find(b"\n", position)) >= 0:
        if _end_of_rows(file, block[: newline + 1]) == newline + 1:
            end = newline + 1
            break
        position = newline + 1
    try:
        text = block[:end].decode(file.encoding)
    except UnicodeDecodeError as error:
        raise DataError(f"{file.source}: line {line}: {_not_text(file, error)}") from error
    header = next(_rows(file, text), [])
    return header, block[end:], line + block[:end].count(b"\n")


def _check_header(header: Sequence[str], columns: Mapping[str, pa.DataType], file: RawFile) -> None:
    if repeated := sorted({name for name in header if header.count(name) > 1}):
        raise DataError(f"{file.source}: the header has {', '.join(repeated)} more than once. Keep one of each.")
    missing = [name for name in columns if name not in header]
    if missing:
        others = [d for d in ",\t;|" if d != file.delimiter and any(d in name for name in header)]
        hint = f" Is the delimiter {others[0]!r} instead of {file.delimiter!r}?" if others else ""
        raise DataError(
            f"{file.source}: missing columns: {', '.join(missing)}. Found: {', '.join(header)}. "
            f"Needed: {', '.join(columns)}.{hint}"
        )


def _parse_delimited(
    file: RawFile, block: bytes, line: int, header: list[str], columns: Mapping[str, pa.DataType], bad: BadRows
) -> pa.Table:
    if file.encoding != "utf-8":
        block = block.decode(file.encoding).encode()
    try:
        table = pa_csv.read_csv(
            pa.BufferReader(block),
            read_options=pa_csv.ReadOptions(column_names=header, block_size=len(block) + 1),
            parse_options=pa_csv.ParseOptions(
                delimiter=file.delimiter, quote_char='"' if file.quoted else False, newlines_in_values=file.quoted
            ),
            convert_options=pa_csv.ConvertOptions(
                column_types=dict(columns), include_columns=list(columns), null_values=[""], strings_can_be_null=False
            ),
        )
    except pa.ArrowException:
        return _parse_row_by_row(file, block, line, header, columns, bad)
    lines = block.count(b"\n") + (not block.endswith(b"\n"))
    if lines == table.num_rows:
        numbers = np.arange(line, line + lines)
    else:
        text = block.decode("utf-8", errors="surrogateescape")
        numbers = np.array([number for number, _ in _numbered_rows(file, text, line)], dtype=np.int64)
        if len(numbers) != table.num_rows:  # Arrow and the standard library read the rows differently
            return _parse_row_by_row(file, block, line, header, columns, bad)
    return table.append_column(LINE, pa.array(numbers, pa.int64()))


def _parse_row_by_row(
    file: RawFile, block: bytes, line: int, header: list[str], columns: Mapping[str, pa.DataType], bad: BadRows
) -> pa.Table:
    places = [header.index(name) for name in columns]
    values: list[list[Any]] = [[] for _ in columns]
    lines: list[int] = []
    while block:
        unclosed = _unclosed(file, block)
        text = (block if unclosed is None else block[:unclosed]).decode("utf-8", errors="surrogateescape")
        for number, row in _numbered_rows(file, text, line):
            problem, converted = _convert_row(file, row, header, columns, places)
            if problem:
                bad.reject(file.source, number, problem)
                continue
            lines.append(number)
            for held, value in zip(values, converted, strict=True):
                held.append(value)
        if unclosed is None:
            break
        line += block[:unclosed].count(b"\n")
        block = block[unclosed:]
        row = next(_rows(file, block.decode("utf-8", errors="surrogateescape")))
        bad.reject(file.source, line, _wrong_length(row, header, file))
        # Only the line with the quote is given up, not all that follows it.
        end = _end_of_lines(block[: block.find(b"\n") + 1])
        line, block = line + 1, block[end:] if end else b""
    columns_read = [pa.array(held, kind) for held, kind in zip(values, columns.values(), strict=True)]
    return pa.table([*columns_read, pa.array(lines, pa.int64())], names=[*columns, LINE])


def _unclosed(file: RawFile, block: bytes) -> int | None:
    """Return the start of the row whose quote is not closed before the end of the block, if there is one."""
    if not file.quoted or b'"' not in block:
        return None
    last = position = 0
    for match in _quoted_field(file.delimiter).finditer(block):
        newline = block.rfind(b"\n", position, match.start())
        last = newline + 1 if newline >= 0 else last
        if not match[1]:
            return last
        position = match.end()
    return None


def _convert_row(
    file: RawFile, row: list[str], header: list[str], columns: Mapping[str, pa.DataType], places: list[int]
) -> tuple[str, list[Any]]:
    """Return what is wrong with a row, and its values where nothing is."""
    if len(row) != len(header):
        return _wrong_length(row, header, file), []
    values: list[Any] = []
    for place, (name, kind) in zip(places, columns.items(), strict=True):
        written = row[place]
        if any("\udc80" <= character <= "\udcff" for character in written):
            shown = written.encode(errors="surrogateescape").decode(errors="backslashreplace")[:80]
            return f"{name} is not {file.encoding.upper()} text ({shown}). Save the file as UTF-8.", []
        if pa.types.is_string(kind):
            values.append(written)
        elif not written:
            values.append(None)
        else:
            try:
                if "_" in written:
                    raise ValueError
                values.append(int(written) if pa.types.is_integer(kind) else float(written))
            except ValueError:
                wanted = "an integer" if pa.types.is_integer(kind) else "a number"
                return f"{name} is {written!r}, not {wanted}.", []
    return "", values


def _wrong_length(row: Sequence[str], header: Sequence[str], file: RawFile) -> str:
    hint = (
        "Is a field with a delimiter, quote or line break not quoted, or a quote not closed?"
        if file.quoted
        else f"Is the delimiter {file.delimiter!r}?"
    )
    expected = f"{len(header)} ({', '.join(header)})" if file.names else f"as many as the header has: {len(header)}"
    return f"{len(row)} fields, expected {expected}. {hint} Row: {_shortened(row)}"


def _numbered_rows(file: RawFile, text: str, line: int) -> Iterator[tuple[int, list[str]]]:
    """Yield each row that is not blank with the number of its first line."""
    reader = _reader(file, text)
    limit = csv.field_size_limit(2**31 - 1)
    try:
        start = line
        for row in reader:
            if row:
                yield start, row
            start = line + reader.line_num
    finally:
        csv.field_size_limit(limit)


def _rows(file: RawFile, text: str) -> Iterator[list[str]]:
    return (row for _, row in _numbered_rows(file, text, 1))


def _reader(file: RawFile, text: str) -> Any:
    lines = io.StringIO(text, newline="")
    if file.quoted:
        return csv.reader(lines, delimiter=file.delimiter)
    return csv.reader(lines, delimiter=file.delimiter, quoting=csv.QUOTE_NONE, quotechar=None)


def _not_text(file: RawFile, error: UnicodeDecodeError) -> str:
    return f"this is not {file.encoding.upper()} text ({error.reason}). Save the file as UTF-8."


def _shortened(row: object, shown: int = 120) -> str:
    text = repr(row).encode(errors="replace").decode()
    return text if len(text) <= shown else text[:shown] + " ..."


# JSON lines


def _parse_json_lines(
    file: RawFile, block: bytes, line: int, columns: Mapping[str, pa.DataType], bad: BadRows
) -> pa.Table:
    schema = pa.schema(list(columns.items()))
    try:
        table = pa_json.read_json(
            pa.BufferReader(block),
            read_options=pa_json.ReadOptions(block_size=len(block) + 1),
            parse_options=pa_json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore"),
        )
        table.validate(full=True)  # Arrow does not look at the bytes of JSON texts
    except pa.ArrowException:
        return _parse_line_by_line(file, block, line, schema, bad)
    lines = block.count(b"\n") + (not block.endswith(b"\n"))
    if lines != table.num_rows:  # blank lines, or several objects on a line
        return _parse_line_by_line(file, block, line, schema, bad)
    return table.append_column(LINE, pa.array(np.arange(line, line + lines), pa.int64()))


def _parse_line_by_line(file: RawFile, block: bytes, line: int, schema: pa.Schema, bad: BadRows) -> pa.Table:
    values: list[list[Any]] = [[] for _ in schema]
    lines: list[int] = []
    for number, text in enumerate(block.split(b"\n"), start=line):
        if not text.strip():
            continue
        problem, converted = _convert_object(text, schema)
        if problem:
            bad.reject(file.source, number, problem)
            continue
        lines.append(number)
        for held, value in zip(values, converted, strict=True):
            held.append(value)
    columns = [
        pa.concat_arrays(held) if held else pa.array([], field.type) for held, field in zip(values, schema, strict=True)
    ]
    return pa.table([*columns, pa.array(lines, pa.int64())], names=[*schema.names, LINE])


def _convert_object(text: bytes, schema: pa.Schema) -> tuple[str, list[pa.Array]]:
    try:
        record = json.loads(text)
    except UnicodeDecodeError as error:
        return f"this is not UTF-8 text ({error.reason}).", []
    except json.JSONDecodeError as error:
        return f"not JSON ({error.msg}, column {error.colno}); one JSON object per line was expected.", []
    if not isinstance(record, dict):
        return f"a JSON object {{...}} was expected, found {_shortened(record)}.", []
    values = []
    for wanted in schema:
        value = record.get(wanted.name)
        if pa.types.is_string(wanted.type) and isinstance(value, int) and not isinstance(value, bool):
            value = str(value)
        try:
            if isinstance(value, bool) and not pa.types.is_boolean(wanted.type):
                raise pa.ArrowInvalid("a boolean")
            if isinstance(value, str) and not pa.types.is_string(wanted.type):
                raise pa.ArrowInvalid("a text, which Arrow would take for a list of letters")
            values.append(pa.array([value], wanted.type))
        except (pa.ArrowException, UnicodeEncodeError, TypeError, ValueError, OverflowError):
            return f"{wanted.name} is {_shortened(value)}; a JSON value of type {wanted.type} was expected.", []
    return "", values
