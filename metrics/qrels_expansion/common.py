"""What several metric modules need: calls, records and tables read with checks, ids, categories, intervals, tests.

It knows no metric. It stands once as ``metrics/common.py`` and is copied into each module's folder by ``make
sync-metrics``, because `evaluate` deploys every folder alone; a test requires the copies to be identical.

Records are checked in bulk (a set of types, a set of keys), so that a call with millions of ids stays fast. Only when a
bulk check fails is the offender looked for, and the error names its place: ``predictions[3][1] (user '7', ...)``.
"""

from __future__ import annotations

import gc
import inspect
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain, pairwise
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from scipy import stats

__all__ = [
    "CORRECTIONS",
    "DIGITS",
    "INTERACTION_TYPES",
    "N_EXACT",
    "UNMAPPED",
    "CheckedMetric",
    "Engagements",
    "Groups",
    "IdLists",
    "Resampling",
    "Rows",
    "adjusted",
    "canonical_numbers",
    "clean_id",
    "codes_in",
    "collector_paused",
    "distinct",
    "encode_ids",
    "engagement_columns",
    "flags",
    "group_by_category",
    "harmonic_mean",
    "integers",
    "is_text",
    "mapping_by_user",
    "optional_floats",
    "pick",
    "positions",
    "read_rows",
    "row_ids",
    "shown",
    "signed_rank_test",
    "summarise",
]

INTERACTION_TYPES = ("explicit_positive", "implicit_positive", "implicit_negative", "explicit_negative")
DIGITS = 12  # differences between scores that are rounding errors are none
N_EXACT = 50  # up to so many differences, the null distribution of a test is summed up rather than approximated
CORRECTIONS = ("holm", "benjamini-hochberg", "none")
UNMAPPED = 0  # the category of an interest that the taxonomy has no place for

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]

_AROUND_AN_ID = " \t\r\n[](){}<>\"'`"
_BATCH = 2048  # records read at once: they stay in the processor's cache
_DRAWS_KEPT = 4_000_000  # draws remembered for the next column of as many users, 8 MB; more are made batch by batch


# --- calls ----------------------------------------------------------------------------------------------------------


class CheckedMetric:
    """The calls of a metric that checks what it is given; goes before `evaluate.Metric` among a module's bases.

    It is no `evaluate.Metric` itself: `evaluate` takes the first one that it finds in a module.
    """

    _name: str
    _score: Callable[..., dict[str, Any]]
    """Scores predictions and references; its further arguments are those of `compute`."""
    _plain: Callable[[Any, Any], dict[str, Any]]
    """Checks a batch and brings it into the shape of the features that `evaluate` stores."""
    _table: str | None = None
    """An argument with a table that can stand for predictions and references."""
    _unused: tuple[str, ...] = ()
    """Arguments of the other modules that may stand in a call of `evaluate.combine`; reported in `policy`."""

    def _arguments(self) -> list[str]:
        """Return the names of the arguments of `compute`."""
        return list(inspect.signature(self._score).parameters)

    def compute(self, *, predictions: Any = None, references: Any = None, **kwargs: Any) -> dict[str, Any] | None:
        """Score what is given here at once, or what was collected before by `add` and `add_batch`."""
        known = self._arguments()
        if unknown := [name for name in kwargs if name not in known and name not in self._unused]:
            raise TypeError(
                f"{self._name}.compute has no argument {', '.join(map(repr, unknown))}; it has {', '.join(known)}."
            )
        has_rows = predictions is not None or references is not None
        has_table = self._table is not None and kwargs.get(self._table) is not None
        collected = len(self) > 0  # type: ignore[arg-type]
        if has_table and (has_rows or collected):
            raise ValueError(f"give {self._table}, or predictions and references (add_batch), not both.")
        if has_table or (not collected and self.num_process == 1):  # type: ignore[attr-defined]
            if not has_table and not has_rows:
                table = f"{self._table}, or " if self._table else ""
                raise ValueError(
                    f"there is nothing to score: pass {table}predictions and references, or call add_batch first."
                )
            return self._compute(predictions, references, **kwargs)
        result: dict[str, Any] | None = super().compute(  # type: ignore[misc]
            predictions=predictions, references=references, **kwargs
        )
        return result

    @staticmethod
    def adjusted(p_values: Sequence[float] | FloatArray, correction: str = "holm") -> FloatArray:
        """Return p values adjusted for their number, by one of `CORRECTIONS`."""
        return adjusted(np.asarray(p_values, dtype=np.float64), correction)

    def add_batch(self, *, predictions: Any = None, references: Any = None, **kwargs: Any) -> None:
        """Check and store several rows."""
        super().add_batch(**self._plain(predictions, references), **kwargs)  # type: ignore[misc]

    def add(self, *, prediction: Any = None, reference: Any = None, **kwargs: Any) -> None:
        """Check and store one row."""
        one = self._plain([prediction], [reference])
        super().add(prediction=one["predictions"][0], reference=one["references"][0], **kwargs)  # type: ignore[misc]

    def _compute(self, predictions: Any, references: Any, **kwargs: Any) -> dict[str, Any]:
        unused = sorted(name for name in self._unused if name in kwargs)
        with collector_paused():
            used = {name: value for name, value in kwargs.items() if name not in unused}
            result = self._score(predictions, references, **used)
        if unused:
            result["policy"]["arguments_not_used"] = unused
        return result


@contextmanager
def collector_paused() -> Iterator[None]:
    """Keep the garbage collector from walking over all records again and again while results are made.

    A call makes no cycles, but two lists per interest: the collector would pass over the caller's millions of objects
    several times, which was a third of the time of a call.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


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
    raise ValueError(f"{place}: found {shown(value)}; ids are strings or integers.")


def _encodable(texts: list[str]) -> pa.Array:
    """Put strings into an Arrow array; lone surrogates, which models can emit, are escaped (no history holds them)."""
    try:
        return pa.array(texts, pa.string())
    except UnicodeEncodeError:
        return pa.array([text.encode("utf-8", "backslashreplace").decode() for text in texts], pa.string())


def encode_ids(ids: pa.Array, brackets: bool) -> tuple[IntArray, IntArray, pa.Array]:
    """Number distinct ids: a code for each id, one for its cleaned form (see `clean_id`), and the texts by code.

    Without ``brackets``, cleaning changes nothing; where it does not, both arrays are the same object.
    """
    encoded = ids.dictionary_encode()
    codes: IntArray = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    texts = encoded.dictionary
    if not brackets:
        return codes, codes, texts
    trimmed = pc.utf8_trim(texts, characters=_AROUND_AN_ID)
    cleaned = pc.if_else(pc.equal(trimmed, ""), texts, trimmed)
    if cleaned.equals(texts):
        return codes, codes, texts
    both = pa.concat_arrays([texts, cleaned]).dictionary_encode()
    clean_code_of = both.indices.to_numpy(zero_copy_only=False)[len(texts) :].astype(np.int64)
    return codes, clean_code_of[codes], both.dictionary


def shown(value: Any) -> str:
    """Show a value and its type in a message, shortened."""
    text = repr(value)
    return f"{text if len(text) <= 80 else text[:77] + '...'} ({type(value).__name__})"


# --- records --------------------------------------------------------------------------------------------------------


class IdLists(NamedTuple):
    """Lists of ids, one for each record."""

    lists: list[Any]
    """Each a list of strings, or None."""
    brackets: bool
    """Whether cleaning could change an id (see `clean_id`): whether any of its characters is in any id."""

    texts: list[pa.Array]
    """Where asked for, the ids of all lists, one after the other, in parts."""


@dataclass(frozen=True)
class Rows:
    """The records of all users, flattened: record ``k`` belongs to ``users[user_of[k]]``."""

    users: list[str]
    records: list[Mapping[str, Any]]
    user_of: IntArray
    first: IntArray
    """Index of each user's first record, and one more for the end."""
    columns: Mapping[str, list[Any]]
    """The values of each key; None where a record lacks it."""

    def place(self, k: int, key: str | None = None) -> str:
        """Say where record ``k`` stands in the caller's data."""
        user = int(self.user_of[k])
        name = self.records[k].get("interest")
        named = f", interest {name!r}" if isinstance(name, str) else ""
        where = f"predictions[{user}][{k - int(self.first[user])}] (user {self.users[user]!r}{named})"
        return f"{where}: {key}" if key else where

    def names(self, key: str = "interest") -> list[str]:
        """Return a key that holds text which is not blank."""
        values = self.columns[key]
        if not set(map(type, values)) <= {str} or not all(map(str.strip, values)):
            for k, value in enumerate(values):
                if not isinstance(value, str):
                    raise ValueError(f"{self.place(k, key)} must be a string, found {shown(value)}.")
                if not value.strip():
                    raise ValueError(f"{self.place(k, key)} is empty. Drop records without a name before scoring.")
            values = [str(value) for value in values]
        return values

    def flags(self, key: str) -> npt.NDArray[np.bool_]:
        """Return a key that holds booleans."""
        values = self.columns[key]
        for k, value in enumerate(values if not set(map(type, values)) <= {bool, np.bool_} else ()):
            if not isinstance(value, (bool, np.bool_)):
                raise ValueError(f"{self.place(k, key)} must be True or False, found {shown(value)}.")
        return np.fromiter(map(bool, values), dtype=np.bool_, count=len(values))

    def categories(self, key: str = "category_id") -> IntArray | None:
        """Return category ids, or None where no record has one: then each interest is a category of its own."""
        values = self.columns[key]
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
                raise ValueError(f"{self.place(k, key)} must be an integer or None, found {shown(value)}.")
            if value < UNMAPPED:
                raise ValueError(f"{self.place(k, key)} must not be negative, found {int(value)}; 0 means unmapped.")
        return np.fromiter(values, dtype=np.int64, count=len(values))

    def by_user(self, values: npt.NDArray[Any]) -> list[int]:
        """Sum counts or flags of records over each user's records."""
        total: list[int] = np.bincount(self.user_of, weights=values, minlength=len(self.users)).astype(int).tolist()
        return total

    def by_row(self, records: Sequence[Any]) -> list[list[Any]]:
        """Cut what belongs to records into one list per user."""
        return [list(records[start:end]) for start, end in pairwise(self.first.tolist())]

    def id_lists(self, key: str, nullable: bool = False, encode: bool = False, look: bool = True) -> IdLists:
        """Return lists of ids as strings.

        Args:
            key: of the records.
            nullable: a record may hold None instead of a list.
            encode: return the ids as Arrow arrays too.
            look: tell whether there are brackets.
        """
        lists: list[Any] = self.columns[key]
        if set(map(type, lists)) <= ({list, tuple, type(None)} if nullable else {list, tuple}):
            read = _read_ids(lists, encode, look)
            if read is not None:
                return read
        lists = [self._ids(k, key, ids, nullable) for k, ids in enumerate(lists)]
        return _read_ids(lists, encode, look) or IdLists(lists, False, [])

    def _ids(self, k: int, key: str, ids: Any, nullable: bool) -> list[str] | None:
        if ids is None and nullable:
            return None
        if not isinstance(ids, (list, tuple, np.ndarray)):
            hint = " or None" if nullable else " (an empty one where there are none)"
            raise ValueError(f"{self.place(k, key)} must be a list of ids{hint}, found {shown(ids)}.")
        return [_as_id(value, f"{self.place(k, key)}[{i}]") for i, value in enumerate(ids)]


def read_rows(
    predictions: Any,
    references: Any,
    required: Sequence[str],
    optional: Sequence[str] = (),
    unused: Sequence[str] = (),
) -> Rows:
    """Flatten ``predictions`` (one list of records per user) and check shapes, keys and users.

    A record has the required keys; it may have the optional ones, and those that this metric does not use.

    Raises:
        ValueError: If the two do not pair up, a user stands twice, or a record is not a dict of just these keys.
    """
    for name, value in (("predictions", predictions), ("references", references)):
        if not isinstance(value, (Sequence, np.ndarray)) or isinstance(value, (str, bytes)):
            raise ValueError(f"{name} must be a list with one entry per user, found {shown(value)}.")
    predictions, references = list(predictions), list(references)  # columns of a data set read slowly by index
    if len(predictions) != len(references):
        raise ValueError(
            f"predictions has {len(predictions)} entries and references {len(references)}; give one list of records "
            f"and one user id per user (an empty list for a user without interests)."
        )
    if not len(references):
        raise ValueError("predictions and references are empty: there is no user to score.")
    users = row_ids(references, "references")
    for i, row in enumerate(predictions):
        if not isinstance(row, (list, tuple, np.ndarray)):
            raise ValueError(f"predictions[{i}] (user {users[i]!r}) must be a list of records, found {shown(row)}.")
    lengths = np.fromiter(map(len, predictions), dtype=np.int64, count=len(predictions))
    records = list(chain.from_iterable(predictions))
    columns = _columns_at_once(records, (*required, *optional))
    rows = Rows(
        users=users,
        records=records,
        user_of=np.repeat(np.arange(len(users), dtype=np.int64), lengths),
        first=np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(lengths)]),
        columns={} if columns is None else columns,
    )
    if columns is None:
        _check_keys(rows, set(required), set(optional), set(unused))
        columns = {key: [record.get(key) for record in records] for key in (*required, *optional)}
        rows = replace(rows, columns=columns)
    return rows


def row_ids(given: Any, name: str) -> list[str]:
    """Return the users' ids as strings; each may stand there once."""
    if not isinstance(given, (Sequence, np.ndarray)) or isinstance(given, (str, bytes)):
        raise ValueError(f"{name} must be a list of user ids, found {shown(given)}.")
    users = [_as_id(user, f"{name}[{i}]") for i, user in enumerate(given)]
    if len(set(users)) < len(users):
        i, user = next((i, user) for i, user in enumerate(users) if user in users[:i])
        raise ValueError(
            f"{name}[{i}]: user {user!r} was given before, as {name}[{users.index(user)}]. Put all records of "
            f"a user into one entry; score each candidate in a call of its own."
        )
    return users


def _read_ids(lists: list[list[str] | None], encode: bool, look: bool) -> IdLists | None:
    """Read lists batch by batch, so that objects all over memory are fetched once; None if one is no string."""
    brackets, texts = False, []
    for start in range(0, len(lists), _BATCH):
        ids = list(chain.from_iterable(filter(None, lists[start : start + _BATCH])))
        if not set(map(type, ids)) <= {str}:
            return None
        if look and not brackets:
            joined = "".join(ids)
            brackets = any(character in joined for character in _AROUND_AN_ID)
        if encode:
            texts.append(_encodable(ids))
    return IdLists(lists, brackets, texts)


def _columns_at_once(records: list[Any], keys: Sequence[str]) -> dict[str, list[Any]] | None:
    """Return the values of each key, if all records are plain dicts of just these keys: the common case."""
    if set(map(type, records)) <= {dict} and set(map(len, records)) <= {len(keys)}:
        columns: dict[str, list[Any]] = {key: [] for key in keys}
        try:
            for start in range(0, len(records), _BATCH):
                for key in keys:
                    columns[key] += map(itemgetter(key), records[start : start + _BATCH])
        except KeyError:
            return None
        return columns
    return None


def _check_keys(rows: Rows, required: set[str], optional: set[str], unused: set[str]) -> None:
    full = required | optional
    for k, record in enumerate(rows.records):
        if not isinstance(record, Mapping):
            user = int(rows.user_of[k])
            place = f"predictions[{user}][{k - int(rows.first[user])}] (user {rows.users[user]!r})"
            raise ValueError(f"{place} must be a dict, found {shown(record)}.")
        if record.keys() == full:
            continue
        if missing := sorted(required - record.keys()):
            raise ValueError(f"{rows.place(k)}: missing key(s) {missing}; a record has {sorted(full)}.")
        if unknown := sorted(map(str, record.keys() - full - unused)):
            raise ValueError(f"{rows.place(k)}: unknown key(s) {unknown}; a record has {sorted(full)}.")


def mapping_by_user(values: Any, name: str) -> dict[str, Any]:
    """Return a mapping whose keys are user ids, with the ids as strings.

    Raises:
        ValueError: If it is no mapping, or names one user twice (7 and "7").
    """
    if not isinstance(values, Mapping):
        raise ValueError(f"{name} must be a dict by user id, found {shown(values)}.")
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
    code: IntArray
    """The category of each pair, as an index into `labels`."""
    labels: list[Any]
    """The distinct categories, sorted: ids, or trimmed names of interests."""

    def __len__(self) -> int:
        """Return the number of pairs."""
        return len(self.user)

    @property
    def unmapped(self) -> npt.NDArray[np.bool_]:
        """Tell which pairs are of category 0."""
        unmapped: npt.NDArray[np.bool_] = (self.code == 0) & bool(self.labels and self.labels[0] == UNMAPPED)
        return unmapped


def group_by_category(user_of: IntArray, names: list[str], categories: IntArray | None) -> Groups:
    """Group interests by user and category; without category ids by user and trimmed name."""
    labels: list[Any]
    if categories is None:
        trimmed = list(map(str.strip, names))
        labels = sorted(set(trimmed))
        code_of = {label: code for code, label in enumerate(labels)}
        codes = np.fromiter(map(code_of.__getitem__, trimmed), dtype=np.int64, count=len(trimmed))
    else:
        ids, codes = _numbered(categories)
        labels = ids.tolist()
    pairs, of_interest = _numbered(user_of * max(len(labels), 1) + codes)
    user, code = np.divmod(pairs, max(len(labels), 1))
    return Groups(of_interest=of_interest, user=user, code=code, labels=labels)


def _numbered(keys: IntArray) -> tuple[IntArray, IntArray]:
    """Return the distinct keys (not negative), sorted, and the number of each key among them."""
    if not len(keys) or keys.max() > 8 * len(keys) + (1 << 16):
        return np.unique(keys, return_inverse=True)
    present = np.zeros(int(keys.max()) + 1, dtype=np.bool_)  # a table is faster than sorting, where it is small
    present[keys] = True
    return np.flatnonzero(present), (np.cumsum(present) - 1)[keys]


def distinct(keys: IntArray) -> IntArray:
    """Return the distinct keys, sorted."""
    keys = np.sort(keys)
    found: IntArray = keys[np.concatenate([np.ones(min(len(keys), 1), np.bool_), keys[1:] != keys[:-1]])]
    return found


def integers(values: Sequence[int | None], place: str, none: int | None = None) -> IntArray:
    """Return a column of a result as an array, with ``none`` for None.

    Raises:
        ValueError: If it holds something else; the message names the place.
    """
    try:
        column = pa.array(values, pa.int64())
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise ValueError(f"{place} must hold integers ({error}).") from None
    if column.null_count and none is None:
        raise ValueError(f"{place} holds None at {column.is_null().index(True).as_py()}, where a number belongs.")
    found: IntArray = (column if none is None else column.fill_null(none)).to_numpy(zero_copy_only=False)
    return found


def flags(values: Sequence[bool], place: str) -> npt.NDArray[np.bool_]:
    """Return a column of a result as an array of booleans.

    Raises:
        ValueError: If it holds something else; the message names the place.
    """
    if not set(map(type, values)) <= {bool, np.bool_}:
        raise ValueError(f"{place} must hold True and False only.")
    return np.fromiter(values, dtype=np.bool_, count=len(values))


def positions(values: Sequence[str], among: Sequence[str], place: str) -> IntArray:
    """Return where each value stands among distinct ones.

    Raises:
        ValueError: If one does not stand there; the message names the place.
    """
    at = {value: i for i, value in enumerate(among)}
    try:
        return np.fromiter(map(at.__getitem__, values), dtype=np.int64, count=len(values))
    except KeyError as error:
        raise ValueError(f"{place}: user {error.args[0]!r} is not among the users of per_user.") from None


def pick(values: Sequence[Any], at: IntArray) -> list[Any]:
    """Return the values at these positions."""
    return [values[i] for i in at.tolist()]


# --- tables ---------------------------------------------------------------------------------------------------------


class Engagements(NamedTuple):
    """The columns of a history that count, checked."""

    users: pa.ChunkedArray
    objects: pa.ChunkedArray
    types: npt.NDArray[np.int8]
    """Positions in `INTERACTION_TYPES`."""


def engagement_columns(history: Any) -> Engagements:
    """Return the users, objects and interaction types of a history; one that was read before comes back as it is.

    Args:
        history: An Arrow table or batch, a `datasets.Dataset`, a DataFrame or a dict of columns, with at least the
            columns ``user_id``, ``object_id`` (strings or integers) and ``interaction_type``; others are not read.

    Raises:
        ValueError: If a column is missing, or holds a missing value, a float id or an unknown type; the row is named.
    """
    if isinstance(history, Engagements):
        return history
    users, objects, types = _columns(history, ("user_id", "object_id", "interaction_type"))
    _check_ids(users, "user_id")
    _check_ids(objects, "object_id")
    known = codes_in(types, list(INTERACTION_TYPES)) if is_text(types.type) else np.full(len(types), -1, np.int32)
    codes = known.astype(np.int8)
    if len(codes) and codes.min() < 0:
        row = int(np.argmin(codes))
        found = types[row].as_py()
        raise ValueError(
            f"history row {row}: unknown interaction_type {found!r}; the types are {', '.join(INTERACTION_TYPES)}."
        )
    return Engagements(users, objects, codes)


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
            f"history must be an Arrow table, datasets.Dataset, DataFrame or dict of columns, found {shown(table)}."
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
        # Arrow takes no rows out of a string view.
        return values.cast(pa.large_string()) if pa.types.is_string_view(values.type) else values
    if not isinstance(values, pa.Array):
        try:
            values = pa.array(values, from_pandas=True)
        except (pa.ArrowException, UnicodeEncodeError):  # mixed types: say which value, or take the integers as text
            if name == "interaction_type":
                row = next(i for i, value in enumerate(values) if not isinstance(value, str))
                raise ValueError(f"history row {row}: interaction_type must be a string.") from None
            values = _encodable([_as_id(value, f"history row {i}: {name}") for i, value in enumerate(values)])
    return _column(values if isinstance(values, pa.ChunkedArray) else pa.chunked_array([values]), name)


def is_text(kind: pa.DataType) -> bool:
    """Tell whether a column holds texts, dictionary-encoded ones too."""
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _check_ids(column: pa.ChunkedArray, name: str) -> None:
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if is_text(kind) or pa.types.is_integer(kind) or not len(column):
        return
    if pa.types.is_floating(kind):
        _as_id(float(column[0].as_py()), f"history row 0: {name}")
    raise ValueError(f"history's column {name} has the type {kind}; ids are strings or integers.")


def codes_in(column: pa.ChunkedArray, values: pa.Array | list[str]) -> npt.NDArray[np.int32]:
    """Return the position in ``values`` (distinct texts) of every entry of a column, -1 where it is not there.

    A column of integers is compared as its decimal text, without being written out.
    """
    values = _encodable(values) if isinstance(values, list) else values
    if not len(column):
        return np.empty(0, np.int32)
    if pa.types.is_dictionary(column.type):
        parts, known, of_value = [], None, np.empty(0, np.int32)
        for chunk in column.chunks:
            if known is None or not chunk.dictionary.equals(known):
                known = chunk.dictionary
                of_value = np.append(codes_in(pa.chunked_array([known]), values), np.int32(-1))
            parts.append(of_value[chunk.indices.fill_null(len(known)).to_numpy(zero_copy_only=False)])
        return np.concatenate(parts)
    if pa.types.is_integer(column.type):
        kind = column.type if pa.types.is_uint64(column.type) else pa.int64()
        numbers, positions = canonical_numbers(values, kind)
        found = _index_in(column.cast(kind), numbers)
        return np.append(positions, -1).astype(np.int32)[found]
    if pa.types.is_string_view(column.type):
        column = column.cast(pa.string())
    return _index_in(column, values.cast(column.type))


def _index_in(column: pa.ChunkedArray, values: pa.Array) -> npt.NDArray[np.int32]:
    """Look a whole column up, so that the table of values is made once and not for each of its chunks."""
    found = pc.index_in(column, value_set=values)
    parts = [
        (chunk.fill_null(-1) if chunk.null_count else chunk).to_numpy(zero_copy_only=False) for chunk in found.chunks
    ]
    codes: npt.NDArray[np.int32] = parts[0] if len(parts) == 1 else np.concatenate(parts)
    return codes


def canonical_numbers(texts: pa.Array, kind: pa.DataType) -> tuple[pa.Array, IntArray]:
    """Return the integers whose plain decimal form stands among texts ("7", "-7"; not "07", "+7", "7.0"), and where."""
    least, most = (0, 2**64 - 1) if pa.types.is_uint64(kind) else (-(2**63), 2**63 - 1)
    length = pc.utf8_length(texts)
    plain = pc.and_(
        pc.ascii_is_decimal(texts), pc.or_(pc.equal(length, 1), pc.invert(pc.starts_with(texts, "0")))
    ).to_numpy(zero_copy_only=False)
    small = plain & pc.less(length, 19).to_numpy(zero_copy_only=False)
    others = plain & ~small | pc.starts_with(texts, "-").to_numpy(zero_copy_only=False)
    rare = [
        (i, number) for i in np.flatnonzero(others).tolist() if (number := _canonical(texts[i].as_py())) is not None
    ]
    rare = [(i, number) for i, number in rare if least <= number <= most]
    at = np.flatnonzero(small)
    numbers = [texts.take(pa.array(at)).cast(kind), pa.array([number for _, number in rare], kind)]
    return pa.concat_arrays(numbers), np.concatenate([at, np.array([i for i, _ in rare], dtype=np.int64)])


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
    plain: list[float | None] = values.tolist()
    for i in np.flatnonzero(np.isnan(values)).tolist():
        plain[i] = None
    return plain


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
                raise ValueError(f"{name} must be an integer >= 0, found {shown(value)}.")
        level = self.confidence_level
        if not isinstance(level, (float, np.floating)) or not 0 < level < 1:
            raise ValueError(f"confidence_level must be a float between 0 and 1, found {shown(level)}.")

    def policy(self) -> dict[str, Any]:
        """Return the settings as plain data, for a result's policy block."""
        return {
            "method": "percentile bootstrap over users (as scipy.stats.bootstrap)",
            "n_resamples": int(self.n_resamples),
            "confidence_level": float(self.confidence_level),
            "seed": int(self.seed),
        }

    def intervals(self, values: FloatArray) -> tuple[list[float] | None, list[float] | None]:
        """Return the intervals of the median and of the mean; None with fewer than 2 users.

        Args:
            values: one per user, sorted.
        """
        if len(values) < 2 or self.n_resamples < 2:
            return None, None
        if values[0] == values[-1]:  # sorted, so constant: a mean of draws would add rounding errors
            return [float(values[0])] * 2, [float(values[0])] * 2
        medians, means = zip(
            *(
                ((values[middle[:, 0]] + values[middle[:, 1]]) / 2, np.mean(values[drawn], axis=1))
                for drawn, middle in self.draws(len(values))
            ),
            strict=True,
        )
        return self.interval(np.concatenate(medians)), self.interval(np.concatenate(means))

    def interval(self, statistics: FloatArray) -> list[float]:
        """Return the percentile interval of a statistic's values over the resamples."""
        tail = (1 - float(self.confidence_level)) / 2
        low, high = np.percentile(statistics, [tail * 100, (1 - tail) * 100])
        return [float(low), float(high)]

    def draws(self, n: int) -> Iterable[Draws]:
        """Return batches of resamples of n sorted values, the same for every column of as many users.

        They are the draws that `scipy.stats.bootstrap` makes with ``rng=np.random.default_rng(seed)``.
        """
        total, seed = int(self.n_resamples), int(self.seed)
        return _kept_draws(n, total, seed) if n * total <= _DRAWS_KEPT else _draws(n, total, seed)


Draws = tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32]]
"""Positions drawn, one row per resample; and the two positions in the middle of each row when it is sorted, which are
where the median of sorted values stands (twice the same, where n is odd)."""


def _draws(n: int, n_resamples: int, seed: int) -> Iterator[Draws]:
    rng = np.random.default_rng(seed)
    size = max(1, _DRAWS_KEPT // n)
    low, high = (n - 1) // 2, n // 2
    kind = np.uint16 if n <= 2**16 else np.uint32
    for start in range(0, n_resamples, size):
        drawn = rng.integers(0, n, (min(size, n_resamples - start), n)).astype(kind)
        middle = np.partition(drawn, [low, high], axis=1)[:, [low, high]]
        yield drawn.astype(np.uint32), middle.astype(np.uint32)


@lru_cache(maxsize=2)
def _kept_draws(n: int, n_resamples: int, seed: int) -> list[Draws]:
    return list(_draws(n, n_resamples, seed))


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


# --- tests ----------------------------------------------------------------------------------------------------------


def signed_rank_test(differences: FloatArray) -> tuple[float, float]:
    """Test whether paired differences are symmetric about 0, by Wilcoxon's signed ranks, two-sided.

    Zero differences are dropped; where there are no others, nothing speaks against symmetry. Up to `N_EXACT` the p
    value is exact, ties included; beyond, it is that of the normal distribution (`scipy.stats.wilcoxon`).

    Args:
        differences: one per pair, rounded to `DIGITS`.

    Returns:
        The smaller one of the sums of positive and of negative ranks, and the p value.

    >>> signed_rank_test(np.array([1.0, 2.0, 2.0, 3.0, -1.0, 0.0]))
    (1.5, 0.1875)
    """
    differences = differences[differences != 0]
    if not len(differences):
        return 0.0, 1.0
    if len(differences) > N_EXACT:
        found = stats.wilcoxon(differences, method="asymptotic")
        return float(found.statistic), float(found.pvalue)
    doubled = np.rint(2 * stats.rankdata(np.abs(differences))).astype(np.int64)  # midranks are multiples of 1/2
    positive, total = int(doubled[differences > 0].sum()), int(doubled.sum())
    least = min(positive, total - positive)
    return least / 2, _exact_p_value(doubled, least)


def _exact_p_value(ranks: IntArray, least: int) -> float:
    """Return how likely signs drawn by coins give a sum of ranks as far out as this one; ties among ranks are fine.

    Args:
        ranks: twice the midranks, integers.
        least: the smaller one of the sums of positive and of negative ranks.
    """
    probability = np.zeros(int(ranks.sum()) + 1)
    probability[0] = 1.0
    for rank in ranks.tolist():
        probability[rank:] += probability[: len(probability) - rank].copy()
        probability /= 2
    # The distribution is symmetric: the other side is as likely.
    return min(1.0, 2 * float(probability[: least + 1].sum()))


def adjusted(p: FloatArray, correction: str) -> FloatArray:
    """Return p values adjusted for their number.

    >>> adjusted(np.array([0.01, 0.04, 0.03]), "holm").tolist()
    [0.03, 0.06, 0.06]
    """
    n = len(p)
    if correction == "none" or not n:
        return p
    order = np.argsort(p, kind="stable")
    if correction == "holm":
        steps = np.maximum.accumulate(p[order] * (n - np.arange(n)))
    else:
        steps = np.minimum.accumulate((p[order] * n / np.arange(1, n + 1))[::-1])[::-1]
    out = np.empty(n)
    out[order] = np.minimum(steps, 1)
    return out
