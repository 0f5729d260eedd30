"""One normaliser per kind of engagement column: ids, texts, interaction types, times.

Each takes a column as a file or a library delivered it and returns it in the schema's type, or raises a
:class:`DataError` that names the source and the first offending row. Rows are counted from 1, header not included.
Knows nothing about files, datasets or whole tables.
"""

import difflib
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from .errors import DataError

__all__ = ["as_strings", "normalise_ids", "normalise_texts", "normalise_times", "normalise_types", "suggestion"]

_STRING_CHUNK_BYTES = 1 << 30
"""Arrow's ``string`` offsets are 32 bits wide: longer chunks are cut before they are cast to it."""

_NUMERAL = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"
_ISO_DATE = r"^\d{4}-?\d{2}(-?\d{2})?([T ]|$)"


def suggestion(name: str, known: Sequence[str]) -> str:
    """Return `` Did you mean 'x'?`` for the known name nearest to ``name``, or an empty string."""
    folded = {k.casefold(): k for k in reversed(known)}
    close = difflib.get_close_matches(name.casefold(), list(folded), n=1)
    return f" Did you mean {folded[close[0]]!r}?" if close else ""


def as_strings(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Cast a column of any Arrow string type to ``string``, in chunks that 32-bit offsets can address."""
    if pa.types.is_string(column.type):
        return column
    if pa.types.is_string_view(column.type):
        column = column.cast(pa.large_string())
    chunks: list[pa.Array] = []
    for chunk in column.chunks:
        if chunk.nbytes <= _STRING_CHUNK_BYTES:
            chunks.append(chunk.cast(pa.string()))
            continue
        rows = max(1, len(chunk) * _STRING_CHUNK_BYTES // chunk.nbytes)
        for start in range(0, len(chunk), rows):
            # A slice keeps the offsets of the whole, which do not fit either: take copies.
            places = pa.array(range(start, min(start + rows, len(chunk))))
            chunks.append(chunk.take(places).cast(pa.string()))
    return pa.chunked_array(chunks, type=pa.string())


def normalise_ids(column: pa.ChunkedArray, name: str, source: str) -> pa.ChunkedArray:
    """Return ids as non-empty strings without surrounding white space; integers become their decimal digits."""
    column = _plain(column)
    if pa.types.is_null(column.type) or pa.types.is_integer(column.type):
        column = column.cast(pa.string())
    elif pa.types.is_floating(column.type) or pa.types.is_decimal(column.type):
        raise DataError(
            f"{source}: column {name!r} holds decimal numbers ({column.type}), row 1 is {column[0].as_py()!r}. "
            "Decimals are not ids: above 2**53 different ids become the same number, and 12 would be written '12.0'. "
            f"(A missing value among integers has this effect in pandas.) Store {name!r} as integers or as text."
        )
    elif not _is_text(column.type):
        raise DataError(f"{source}: column {name!r} has type {column.type}. Ids are text or integers.")
    trimmed = pc.utf8_trim_whitespace(as_strings(column))
    _reject(
        _blank(trimmed),
        column,
        source,
        f"{name} is missing or blank",
        "Every engagement needs both ids: correct or remove the row.",
    )
    return trimmed


def normalise_texts(column: pa.ChunkedArray, name: str, source: str) -> pa.ChunkedArray:
    """Return texts unchanged, all of them present and not blank."""
    column = _plain(column)
    if pa.types.is_null(column.type):
        column = column.cast(pa.string())
    elif not _is_text(column.type):
        raise DataError(f"{source}: column {name!r} has type {column.type}; it must be text.")
    texts = as_strings(column)
    _reject(
        _blank(texts),
        column,
        source,
        f"{name} is missing or blank",
        "A model cannot judge an object without text: give it a text or remove the row.",
    )
    return texts


def normalise_types(column: pa.ChunkedArray, name: str, source: str, valid: Sequence[str]) -> pa.ChunkedArray:
    """Return interaction types as strings, each one of ``valid``."""
    column = _plain(column)
    if pa.types.is_null(column.type):
        column = column.cast(pa.string())
    elif not _is_text(column.type):
        raise DataError(f"{source}: column {name!r} has type {column.type}. Valid are the texts {', '.join(valid)}.")
    trimmed = pc.utf8_trim_whitespace(as_strings(column))
    unknown = pc.invert(pc.is_in(trimmed, value_set=pa.array(list(valid), pa.string())))
    row, more = _first(unknown)
    if row is not None:
        found = trimmed[row].as_py()
        raise DataError(
            f"{source}: row {row + 1}{_and_more(more)}: {name} is {found!r}. Valid are {', '.join(valid)}."
            f"{suggestion(found or '', valid)}"
        )
    return trimmed


def normalise_times(column: pa.ChunkedArray, name: str, source: str) -> pa.ChunkedArray:
    """Return times as float64 that sort as numbers: numbers stay as they are, dates become seconds since 1970 (UTC).

    Null, NaN and blank text are null. Dates are Arrow dates or timestamps, or ISO 8601 text; those without a zone are
    read as UTC. A column holds numbers or dates, never both: they would not sort together.
    """
    column = _plain(column)
    kind = column.type
    if pa.types.is_null(kind):
        return column.cast(pa.float64())
    if _is_text(kind):
        return _times_from_text(as_strings(column), name, source)
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        micros = column.cast(pa.timestamp("us", tz=getattr(kind, "tz", None)), safe=False).cast(pa.int64())
        return pc.divide(micros.cast(pa.float64(), safe=False), 1e6)
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
        raise DataError(f"{source}: column {name!r} has type {kind}. Times are numbers, dates or ISO 8601 text.")
    return _finite(column.cast(pa.float64(), safe=False), column, name, source)


def _times_from_text(column: pa.ChunkedArray, name: str, source: str) -> pa.ChunkedArray:
    text = pc.utf8_trim_whitespace(column)
    text = pc.if_else(pc.equal(text, ""), None, text)
    present = pc.is_valid(text)
    numeral = pc.fill_null(pc.match_substring_regex(text, _NUMERAL), False)
    other = pc.and_(present, pc.invert(numeral))
    if not pc.any(other, min_count=0).as_py():
        return _finite(text.cast(pa.float64()), column, name, source)
    import pandas as pd  # only here, and slow to import

    looks_like_date = pc.fill_null(pc.match_substring_regex(text, _ISO_DATE), False)
    candidates = pc.if_else(pc.and_(other, looks_like_date), text, None)
    moments = pd.to_datetime(
        pd.Series(candidates.to_pandas(), dtype="str"), format="ISO8601", utc=True, errors="coerce"
    ).dt.as_unit("us")
    dates = pa.chunked_array([pa.Array.from_pandas(moments, type=pa.timestamp("us", tz="UTC"))])
    _reject(
        pc.and_(other, pc.is_null(dates)),
        column,
        source,
        f"{name} is neither a number nor an ISO 8601 date",
        "Write 1717200000 or 2024-06-01 or 2024-06-01T00:00:00Z, or leave it empty.",
    )
    if pc.any(numeral, min_count=0).as_py():
        number_row, date_row = pc.index(numeral, True).as_py(), pc.index(other, True).as_py()
        raise DataError(
            f"{source}: {name} mixes numbers (row {number_row + 1}: {text[number_row].as_py()!r}) and dates "
            f"(row {date_row + 1}: {text[date_row].as_py()!r}), which do not sort together. Use one of the two."
        )
    return pc.divide(dates.cast(pa.int64()).cast(pa.float64(), safe=False), 1e6)


def _finite(numbers: pa.ChunkedArray, column: pa.ChunkedArray, name: str, source: str) -> pa.ChunkedArray:
    numbers = pc.if_else(pc.is_nan(numbers), None, numbers)
    _reject(
        pc.fill_null(pc.invert(pc.is_finite(numbers)), False),
        column,
        source,
        f"{name} is infinite",
        "Give it a number or leave it empty.",
    )
    return numbers


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Decode dictionaries (categories) and unwrap extension types."""
    if isinstance(column.type, pa.BaseExtensionType):
        column = pa.chunked_array([c.storage for c in column.chunks], type=column.type.storage_type)
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return column


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _blank(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return where a text is null, empty or all white space; without a copy, as texts may be gigabytes."""
    return pc.fill_null(pc.or_(pc.equal(pc.binary_length(texts), 0), pc.utf8_is_space(texts)), True)


def _first(offending: pa.ChunkedArray) -> tuple[int | None, int]:
    """Return the 0-based row of the first true value, and how many more there are."""
    row = pc.index(offending, True).as_py()
    return (None, 0) if row < 0 else (row, pc.sum(offending).as_py() - 1)


def _and_more(more: int) -> str:
    return f" (and {more} more {'row' if more == 1 else 'rows'})" if more else ""


def _reject(offending: pa.ChunkedArray, column: pa.ChunkedArray, source: str, problem: str, advice: str) -> None:
    row, more = _first(offending)
    if row is not None:
        raise DataError(f"{source}: row {row + 1}{_and_more(more)}: {problem} ({column[row].as_py()!r}). {advice}")
