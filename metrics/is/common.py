"""What several metric modules need: records and tables read with checks, ids, categories, intervals.

It knows no metric. It stands once as ``metrics/common.py`` and is copied into each module's folder by ``make
sync-metrics``, because `evaluate` deploys every folder alone; a test requires the copies to be identical.

Records are checked in bulk (a set of types, a set of keys), so that a call with millions of ids stays fast. Only when a
bulk check fails is the offender looked for, and the error names its place: ``predictions[3][1] (user '7', ...)``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from scipy import stats

__all__ = [
    "INTERACTION_TYPES",
    "UNMAPPED",
    "Groups",
    "Resampling",
    "Rows",
    "clean_id",
    "codes_in",
    "encode_ids",
    "engagement_columns",
    "group_by_category",
    "harmonic_mean",
    "mapping_by_user",
    "optional_floats",
    "read_rows",
    "summarise",
]

INTERACTION_TYPES = ("explicit_positive", "implicit_positive", "implicit_negative", "explicit_negative")
UNMAPPED = 0  # the category of an interest that the taxonomy has no place for

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]

_AROUND_AN_ID = " \t\r\n[](){}<>\"'`"
_DRAWS_AT_ONCE = 10_000_000  # resampled values held at once: 80 MB


# --- ids ------------------------------------------------------------------------------------------------------------


def clean_id(text: str) -> str:
    """Strip the space, brackets and quotes that models put around ids.

    >>> clean_id("[12]"), clean_id(" '12' "), clean_id("[]")
    ('12', '12', '[]')
    """
    return text.strip(_AROUND_AN_ID) or text


def _as_id(value: Any, place: str) -> str:
    if isinstance(value, str):
        return str(value)
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        return str(int(value))
    if isinstance(value, (float, np.floating)):
        raise ValueError(
            f"{place}: found the float {float(value)!r}; ids are strings or integers, and a float may have lost digits "
            f"or stand for a missing id. Convert the ids to str before scoring."
        )
    raise ValueError(f"{place}: found {_shown(value)}; ids are strings or integers.")


def _encodable(texts: list[str]) -> pa.Array:
    """Put strings into an Arrow array; lone surrogates, which models can emit, are escaped (no history holds them)."""
    try:
        return pa.array(texts, pa.string())
    except UnicodeEncodeError:
        return pa.array([text.encode("utf-8", "backslashreplace").decode() for text in texts], pa.string())


def encode_ids(ids: list[str]) -> tuple[IntArray, IntArray, pa.Array]:
    """Number distinct ids: a code for each id, one for its cleaned form (see `clean_id`), and the texts by code.

    Where cleaning changes nothing, both arrays are the same object.
    """
    encoded = _encodable(ids).dictionary_encode()
    codes: IntArray = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    texts = encoded.dictionary
    trimmed = pc.utf8_trim(texts, characters=_AROUND_AN_ID)
    cleaned = pc.if_else(pc.equal(trimmed, ""), texts, trimmed)
    if cleaned.equals(texts):
        return codes, codes, texts
    both = pa.concat_arrays([texts, cleaned]).dictionary_encode()
    clean_code_of = both.indices.to_numpy(zero_copy_only=False)[len(texts) :].astype(np.int64)
    return codes, clean_code_of[codes], both.dictionary


def _shown(value: Any) -> str:
    text = repr(value)
    return f"{text if len(text) <= 80 else text[:77] + '...'} ({type(value).__name__})"


# --- records --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Rows:
    """The records of all users, flattened: record ``k`` belongs to ``users[user_of[k]]``."""

    users: list[str]
    records: list[Mapping[str, Any]]
    user_of: IntArray
    first: IntArray
    """Index of each user's first record, and one more for the end."""

    def place(self, k: int, key: str | None = None) -> str:
        """Say where record ``k`` stands in the caller's data."""
        user = int(self.user_of[k])
        name = self.records[k].get("interest")
        named = f", interest {name!r}" if isinstance(name, str) else ""
        where = f"predictions[{user}][{k - int(self.first[user])}] (user {self.users[user]!r}{named})"
        return f"{where}: {key}" if key else where

    def values(self, key: str) -> list[Any]:
        """Return one key of every record; None where a record lacks it."""
        return [record.get(key) for record in self.records]

    def names(self, key: str = "interest") -> list[str]:
        """Return a key that holds text which is not blank."""
        values = self.values(key)
        if not set(map(type, values)) <= {str} or not all(map(str.strip, values)):
            for k, value in enumerate(values):
                if not isinstance(value, str):
                    raise ValueError(f"{self.place(k, key)} must be a string, found {_shown(value)}.")
                if not value.strip():
                    raise ValueError(f"{self.place(k, key)} is empty. Drop records without a name before scoring.")
            values = [str(value) for value in values]
        return values

    def flags(self, key: str) -> npt.NDArray[np.bool_]:
        """Return a key that holds booleans."""
        values = self.values(key)
        for k, value in enumerate(values if not set(map(type, values)) <= {bool, np.bool_} else ()):
            if not isinstance(value, (bool, np.bool_)):
                raise ValueError(f"{self.place(k, key)} must be True or False, found {_shown(value)}.")
        return np.fromiter(map(bool, values), dtype=np.bool_, count=len(values))

    def categories(self, key: str = "category_id") -> IntArray | None:
        """Return category ids, or None where no record has one: then each interest is a category of its own."""
        values = self.values(key)
        kinds = set(map(type, values))
        if kinds <= {type(None)}:
            return None
        for k, value in enumerate(values if not kinds <= {int} or min(values) < UNMAPPED else ()):
            if value is None:
                raise ValueError(
                    f"{self.place(k, key)} is None, while other records of this call have one. Give every interest a "
                    f"category (0 = unmapped), or none of them (then each interest is a category of its own)."
                )
            if not isinstance(value, (int, np.integer)) or isinstance(value, bool):
                raise ValueError(f"{self.place(k, key)} must be an integer or None, found {_shown(value)}.")
            if value < UNMAPPED:
                raise ValueError(f"{self.place(k, key)} must not be negative, found {int(value)}; 0 means unmapped.")
        return np.array([int(value) for value in values], dtype=np.int64)

    def id_lists(self, key: str, nullable: bool = False) -> list[list[str] | None]:
        """Return lists of ids as strings; with ``nullable`` a record may hold None instead of a list."""
        lists: list[Any] = self.values(key)
        if set(map(type, lists)) <= ({list, tuple, type(None)} if nullable else {list, tuple}) and set(
            map(type, chain.from_iterable(ids for ids in lists if ids))
        ) <= {str}:
            return lists
        return [self._ids(k, key, ids, nullable) for k, ids in enumerate(lists)]

    def _ids(self, k: int, key: str, ids: Any, nullable: bool) -> list[str] | None:
        if ids is None and nullable:
            return None
        if not isinstance(ids, (list, tuple, np.ndarray)):
            hint = " or None" if nullable else " (an empty one where there are none)"
            raise ValueError(f"{self.place(k, key)} must be a list of ids{hint}, found {_shown(ids)}.")
        return [_as_id(value, f"{self.place(k, key)}[{i}]") for i, value in enumerate(ids)]


def read_rows(predictions: Any, references: Any, required: Iterable[str], optional: Iterable[str] = ()) -> Rows:
    """Flatten ``predictions`` (one list of records per user) and check shapes, keys and users.

    Raises:
        ValueError: If the two do not pair up, a user stands twice, or a record is not a dict of just these keys.
    """
    for name, value in (("predictions", predictions), ("references", references)):
        if not isinstance(value, (Sequence, np.ndarray)) or isinstance(value, (str, bytes)):
            raise ValueError(f"{name} must be a list with one entry per user, found {_shown(value)}.")
    predictions, references = list(predictions), list(references)  # columns of a data set read slowly by index
    if len(predictions) != len(references):
        raise ValueError(
            f"predictions has {len(predictions)} entries and references {len(references)}; give one list of records "
            f"and one user id per user (an empty list for a user without interests)."
        )
    if not len(references):
        raise ValueError("predictions and references are empty: there is no user to score.")
    users = [_as_id(user, f"references[{i}]") for i, user in enumerate(references)]
    if len(set(users)) < len(users):
        i, user = next((i, user) for i, user in enumerate(users) if user in users[:i])
        raise ValueError(
            f"references[{i}]: user {user!r} was given before, as references[{users.index(user)}]. Put all records of "
            f"a user into one entry; score each candidate in a call of its own."
        )
    for i, row in enumerate(predictions):
        if not isinstance(row, (list, tuple, np.ndarray)):
            raise ValueError(f"predictions[{i}] (user {users[i]!r}) must be a list of records, found {_shown(row)}.")
    lengths = np.fromiter(map(len, predictions), dtype=np.int64, count=len(predictions))
    rows = Rows(
        users=users,
        records=list(chain.from_iterable(predictions)),
        user_of=np.repeat(np.arange(len(users), dtype=np.int64), lengths),
        first=np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(lengths)]),
    )
    _check_keys(rows, set(required), set(optional))
    return rows


def _check_keys(rows: Rows, required: set[str], optional: set[str]) -> None:
    full = required | optional
    for k, record in enumerate(rows.records):
        if not isinstance(record, Mapping):
            user = int(rows.user_of[k])
            place = f"predictions[{user}][{k - int(rows.first[user])}] (user {rows.users[user]!r})"
            raise ValueError(f"{place} must be a dict, found {_shown(record)}.")
        if record.keys() == full:
            continue
        if missing := sorted(required - record.keys()):
            raise ValueError(f"{rows.place(k)}: missing key(s) {missing}; a record has {sorted(full)}.")
        if unknown := sorted(map(str, record.keys() - full)):
            raise ValueError(f"{rows.place(k)}: unknown key(s) {unknown}; a record has {sorted(full)}.")


def mapping_by_user(values: Any, name: str) -> dict[str, Any]:
    """Return a mapping whose keys are user ids, with the ids as strings.

    Raises:
        ValueError: If it is no mapping, or names one user twice (7 and "7").
    """
    if not isinstance(values, Mapping):
        raise ValueError(f"{name} must be a dict by user id, found {_shown(values)}.")
    by_user: dict[str, Any] = {}
    for key, value in values.items():
        user = _as_id(key, f"a key of {name}")
        if user in by_user:
            raise ValueError(f"{name}: user {user!r} stands there twice, as a string and as an integer.")
        by_user[user] = value
    return by_user


# --- categories -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Groups:
    """The (user, category) pairs of a call, sorted, so that sums over them do not depend on the order of the input."""

    of_interest: IntArray
    """The pair that each interest belongs to."""
    user: IntArray
    """The user of each pair, as an index."""
    category: list[Any]
    """The category of each pair: an id, or the interest's trimmed name."""

    def __len__(self) -> int:
        """Return the number of pairs."""
        return len(self.user)

    @property
    def unmapped(self) -> npt.NDArray[np.bool_]:
        """Tell which pairs are of category 0."""
        return np.array([category == UNMAPPED for category in self.category], dtype=np.bool_)


def group_by_category(rows: Rows, names: list[str], categories: IntArray | None) -> Groups:
    """Group interests by user and category; without category ids by user and trimmed name."""
    labels: list[Any] = [name.strip() for name in names] if categories is None else categories.tolist()
    distinct = sorted(set(labels))
    code_of = {label: code for code, label in enumerate(distinct)}
    codes = np.fromiter(map(code_of.__getitem__, labels), dtype=np.int64, count=len(labels))
    pairs, of_interest = np.unique(rows.user_of * max(len(distinct), 1) + codes, return_inverse=True)
    user, code = np.divmod(pairs, max(len(distinct), 1))
    return Groups(of_interest=of_interest.astype(np.int64), user=user, category=[distinct[c] for c in code])


# --- tables ---------------------------------------------------------------------------------------------------------


def engagement_columns(history: Any) -> tuple[pa.ChunkedArray, pa.ChunkedArray, npt.NDArray[np.int8]]:
    """Return the users, objects and interaction types (as indices into `INTERACTION_TYPES`) of a history.

    Args:
        history: An Arrow table or batch, a `datasets.Dataset`, a DataFrame or a dict of columns, with at least the
            columns ``user_id``, ``object_id`` (strings or integers) and ``interaction_type``; others are not read.

    Raises:
        ValueError: If a column is missing, or holds a missing value, a float id or an unknown type; the row is named.
    """
    users, objects, types = _columns(history, ("user_id", "object_id", "interaction_type"))
    _check_ids(users, "user_id")
    _check_ids(objects, "object_id")
    codes = codes_in(types, list(INTERACTION_TYPES)) if _is_text(types.type) else np.full(len(types), -1, np.int32)
    if len(codes) and codes.min() < 0:
        row = int(np.argmin(codes))
        found = types[row].as_py()
        raise ValueError(
            f"history row {row}: unknown interaction_type {found!r}; the types are {', '.join(INTERACTION_TYPES)}."
        )
    return users, objects, codes.astype(np.int8)


def _columns(table: Any, names: Sequence[str]) -> list[pa.ChunkedArray]:
    if table is None:
        raise ValueError(f"history is required: a table with the columns {', '.join(names)}.")
    if isinstance(table, Mapping):
        present = list(table)
        if all(hasattr(value, "column_names") for value in table.values()) and present and "user_id" not in present:
            raise ValueError(f"history is a dict of data sets ({', '.join(map(str, present))}): pass one split of it.")
        get: Callable[[str], Any] = table.__getitem__
    elif hasattr(table, "select_columns"):  # datasets.Dataset: its Arrow format applies select, shuffle and filter
        present = list(table.column_names)
        get = table.with_format("arrow")[:].column if set(names) <= set(present) else table.__getitem__
    elif hasattr(table, "columns") and hasattr(table, "iloc"):
        present = list(table.columns)
        get = table.__getitem__
    elif hasattr(table, "schema") or hasattr(table, "__arrow_c_stream__"):
        table = table if isinstance(table, pa.Table) else pa.table(table)
        present = table.column_names
        get = table.column
    else:
        raise ValueError(
            f"history must be an Arrow table, datasets.Dataset, DataFrame or dict of columns, found {_shown(table)}."
        )
    if missing := [name for name in names if name not in present]:
        raise ValueError(f"history lacks the column(s) {', '.join(missing)}; it has {', '.join(map(str, present))}.")
    columns = [_column(get(name), name) for name in names]
    if len({len(column) for column in columns}) > 1:
        sizes = ", ".join(f"{name} {len(column)}" for name, column in zip(names, columns, strict=True))
        raise ValueError(f"history's columns differ in length: {sizes}.")
    for name, column in zip(names, columns, strict=True):
        if column.null_count:
            row = column.is_null().index(True).as_py()
            raise ValueError(f"history row {row}: {name} is missing. Drop or complete such rows before scoring.")
    return columns


def _column(values: Any, name: str) -> pa.ChunkedArray:
    if isinstance(values, pa.ChunkedArray):
        return values
    if not isinstance(values, pa.Array):
        try:
            values = pa.array(values, from_pandas=True)
        except (pa.ArrowException, UnicodeEncodeError):  # mixed types: say which value, or take the integers as text
            if name == "interaction_type":
                row = next(i for i, value in enumerate(values) if not isinstance(value, str))
                raise ValueError(f"history row {row}: interaction_type must be a string.") from None
            values = _encodable([_as_id(value, f"history row {i}: {name}") for i, value in enumerate(values)])
    return values if isinstance(values, pa.ChunkedArray) else pa.chunked_array([values])


def _is_text(kind: pa.DataType) -> bool:
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _check_ids(column: pa.ChunkedArray, name: str) -> None:
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if _is_text(kind) or pa.types.is_integer(kind) or not len(column):
        return
    if pa.types.is_floating(kind):
        _as_id(float(column[0].as_py()), f"history row 0: {name}")
    raise ValueError(f"history's column {name} has the type {kind}; ids are strings or integers.")


def codes_in(column: pa.ChunkedArray, values: pa.Array | list[str]) -> npt.NDArray[np.int32]:
    """Return the position in ``values`` (distinct texts) of every entry of a column, -1 where it is not there.

    A column of integers is compared as its decimal text, without being written out.
    """
    values = _encodable(values) if isinstance(values, list) else values
    parts = [_chunk_codes(chunk, values) for chunk in column.chunks]
    return np.concatenate(parts) if parts else np.empty(0, np.int32)


def _chunk_codes(chunk: pa.Array, values: pa.Array) -> npt.NDArray[np.int32]:
    if not len(chunk):
        return np.empty(0, np.int32)
    if pa.types.is_dictionary(chunk.type):
        of_value = np.append(_chunk_codes(chunk.dictionary, values), np.int32(-1))
        codes: npt.NDArray[np.int32] = of_value[chunk.indices.to_numpy(zero_copy_only=False)]
        return codes
    positions: IntArray | None = None
    if pa.types.is_integer(chunk.type):
        low, high = -(2**63), 2**63 - 1
        if pa.types.is_uint64(chunk.type):
            low, high = 0, 2**64 - 1
        else:
            chunk = chunk.cast(pa.int64())
        kept = [(i, number) for i, number in enumerate(map(_canonical, values.to_pylist())) if number is not None]
        kept = [(i, number) for i, number in kept if low <= number <= high]
        positions = np.array([i for i, _ in kept] + [-1], dtype=np.int64)
        value_set = pa.array([number for _, number in kept], chunk.type)
    else:
        chunk = chunk.cast(pa.string()) if pa.types.is_string_view(chunk.type) else chunk
        value_set = values.cast(chunk.type)
    found: npt.NDArray[np.int32] = pc.index_in(chunk, value_set=value_set).fill_null(-1).to_numpy(zero_copy_only=False)
    return found if positions is None else positions[found].astype(np.int32)


def _canonical(text: str) -> int | None:
    """Return the integer that a text is the plain decimal form of ("7", "-7"; not "07", "+7" or "7.0")."""
    if len(text) <= 20 and text.removeprefix("-").isdecimal() and text.isascii() and str(int(text)) == text:
        return int(text)
    return None


# --- numbers --------------------------------------------------------------------------------------------------------


def harmonic_mean(a: FloatArray, b: FloatArray) -> FloatArray:
    """Return the elementwise harmonic mean; 0 where both are 0, NaN where one is NaN."""
    total = a + b
    out = np.where(np.isnan(total), np.nan, 0.0)
    np.divide(2 * a * b, total, out=out, where=total > 0)
    return out


def optional_floats(values: FloatArray) -> list[float | None]:
    """Return plain floats, None for NaN."""
    return [None if math.isnan(value) else value for value in values.tolist()]


@dataclass(frozen=True)
class Resampling:
    """How intervals are made: percentile bootstrap over users."""

    n_resamples: int = 1000
    """0 leaves the intervals out; so does 1, of which no spread can be told."""
    confidence_level: float = 0.95
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse settings that give no interval."""
        for name in ("n_resamples", "seed"):
            value = getattr(self, name)
            if not isinstance(value, (int, np.integer)) or isinstance(value, bool) or value < 0:
                raise ValueError(f"{name} must be an integer >= 0, found {_shown(value)}.")
        level = self.confidence_level
        if not isinstance(level, (float, np.floating)) or not 0 < level < 1:
            raise ValueError(f"confidence_level must be a float between 0 and 1, found {_shown(level)}.")

    def policy(self) -> dict[str, Any]:
        """Return the settings as plain data, for a result's policy block."""
        return {
            "method": "percentile bootstrap over users (scipy.stats.bootstrap)",
            "n_resamples": int(self.n_resamples),
            "confidence_level": float(self.confidence_level),
            "seed": int(self.seed),
        }

    def intervals(self, values: FloatArray) -> tuple[list[float] | None, list[float] | None]:
        """Return the intervals of the median and of the mean; None with fewer than 2 users."""
        if len(values) < 2 or self.n_resamples < 2:
            return None, None
        if values[0] == values[-1]:  # sorted, so constant: a mean of draws would add rounding errors
            return [float(values[0])] * 2, [float(values[0])] * 2
        interval = stats.bootstrap(
            (values,),
            _median_and_mean,
            n_resamples=int(self.n_resamples),
            batch=max(1, min(int(self.n_resamples), _DRAWS_AT_ONCE // len(values))),
            vectorized=True,
            method="percentile",
            confidence_level=float(self.confidence_level),
            rng=np.random.default_rng(int(self.seed)),
        ).confidence_interval
        median, mean = zip(interval.low.tolist(), interval.high.tolist(), strict=True)
        return list(median), list(mean)


def _median_and_mean(sample: FloatArray, axis: int) -> FloatArray:
    return np.stack([np.median(sample, axis=axis), np.mean(sample, axis=axis)])


def summarise(metrics: Mapping[str, Sequence[float | None]], resampling: Resampling) -> dict[str, Any]:
    """Return median, mean and their intervals over users; users whose value is None are left out.

    Values are sorted first: the order of the users changes nothing, not even the draws.
    """
    summary: dict[str, Any] = {}
    for name, column in metrics.items():
        values = np.sort(np.array([value for value in column if value is not None], dtype=np.float64))
        median, mean = resampling.intervals(values)
        constant = len(values) > 0 and values[0] == values[-1]
        summary[name] = float(np.median(values)) if len(values) else None
        summary[f"mean_{name}"] = (
            (float(values[0]) if constant else math.fsum(values) / len(values)) if len(values) else None
        )
        summary[f"ci_{name}"] = median
        summary[f"ci_mean_{name}"] = mean
    return summary
