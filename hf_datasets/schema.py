"""What an engagement is, and what every part of gistbench does with a table of them.

One row says that a user met an object, read its text, and reacted in one of four ways at some time. Rows are in *file
order*, which decides between engagements of the same time and where times are missing. Tables are Arrow tables of
:data:`ENGAGEMENT_SCHEMA`; what comes from outside goes through :func:`validate_engagements` once, and all else
here takes its result. Knows nothing about where a table came from.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ._columns import as_strings, normalise_ids, normalise_texts, normalise_times, normalise_types, suggestion
from .errors import ConfigError, DataError

__all__ = [
    "ENGAGEMENT_SCHEMA",
    "INTERACTION_TYPES",
    "EngagementStats",
    "Quantiles",
    "describe_engagements",
    "filter_users",
    "fingerprint_engagements",
    "newest_first",
    "user_slices",
    "validate_engagements",
]

INTERACTION_TYPES: tuple[str, ...] = (
    "explicit_positive",
    "implicit_positive",
    "implicit_negative",
    "explicit_negative",
)

ENGAGEMENT_SCHEMA: pa.Schema = pa.schema(
    [
        pa.field("user_id", pa.string()),
        pa.field("object_id", pa.string()),
        pa.field("object_text", pa.string()),
        pa.field("interaction_type", pa.string()),
        pa.field("interaction_time", pa.float64()),
    ]
)
"""``interaction_time`` is nullable and sorts as a number; the other columns are never null or blank."""

_IGNORED_KEY = b"gistbench.ignored_columns"


def validate_engagements(table: pa.Table, *, source: str) -> pa.Table:
    """Return the table in :data:`ENGAGEMENT_SCHEMA`, or say what is wrong with which row.

    Integer ids become text, ids lose surrounding white space, numerals and dates become numbers (dates: seconds since
    1970, UTC), an absent ``interaction_time`` becomes null. Other columns are left out and remembered, see
    :attr:`EngagementStats.ignored_columns`.

    Args:
        table: any Arrow table with at least the first four columns of the schema.
        source: how to call the table in messages, such as a file's path.

    Raises:
        DataError: columns are missing or of an unusable type (decimal ids), or a value is; the message names
            ``source``, the first such row (counted from 1) and how many more there are.
    """
    found = table.column_names
    if doubled := sorted({name for name in found if found.count(name) > 1}):
        raise DataError(f"{source}: columns appear more than once: {', '.join(doubled)}. Keep one of each.")
    if missing := [name for name in ENGAGEMENT_SCHEMA.names[:4] if name not in found]:
        raise DataError(
            f"{source}: missing columns: {', '.join(missing)}. Found: {', '.join(found) or 'none'}. Needed: "
            f"{', '.join(ENGAGEMENT_SCHEMA.names[:4])}; optional: interaction_time."
        )
    if not table.num_rows:
        raise DataError(f"{source}: there are no engagements (0 rows).")
    times = table["interaction_time"] if "interaction_time" in found else pa.chunked_array([pa.nulls(table.num_rows)])
    columns = [
        normalise_ids(table["user_id"], "user_id", source),
        normalise_ids(table["object_id"], "object_id", source),
        normalise_texts(table["object_text"], "object_text", source),
        normalise_types(table["interaction_type"], "interaction_type", source, INTERACTION_TYPES),
        normalise_times(times, "interaction_time", source),
    ]
    ignored = [name for name in found if name not in ENGAGEMENT_SCHEMA.names] or _ignored_columns(table)
    metadata = {_IGNORED_KEY: json.dumps(ignored).encode()} if ignored else None
    return pa.table(columns, schema=ENGAGEMENT_SCHEMA.with_metadata(metadata))


class Quantiles(NamedTuple):
    """The five-number summary of a count."""

    minimum: float
    lower_quartile: float
    median: float
    upper_quartile: float
    maximum: float


@dataclass(frozen=True)
class EngagementStats:
    """What is in a table of engagements; see :func:`describe_engagements`."""

    n_rows: int
    n_users: int
    n_objects: int
    signals: tuple[str, ...]
    """The interaction types that occur, in the order of :data:`INTERACTION_TYPES`."""
    counts: Mapping[str, int]
    """Rows per interaction type that occurs, in the same order."""
    n_duplicates: int
    """Rows beyond the first with the same user, object and interaction type."""
    n_objects_with_conflicting_text: int
    """Objects that appear with more than one text."""
    n_missing_times: int
    engagements_per_user: Quantiles
    ignored_columns: tuple[str, ...]
    """Columns of the source that are not part of the schema."""


def describe_engagements(table: pa.Table) -> EngagementStats:
    """Count what is in a validated table.

    Args:
        table: (rows, 5) in :data:`ENGAGEMENT_SCHEMA`.
    """
    found = {row["values"]: row["counts"] for row in pc.value_counts(table["interaction_type"]).to_pylist()}
    counts = {name: found[name] for name in INTERACTION_TYPES if name in found}
    per_user = table.group_by("user_id").aggregate([([], "count_all")])["count_all"].to_numpy()
    distinct = table.group_by(["user_id", "object_id", "interaction_type"]).aggregate([]).num_rows
    texts = table.group_by(["object_id", "object_text"]).aggregate([])
    texts_per_object = texts.group_by("object_id").aggregate([([], "count_all")])["count_all"].to_numpy()
    quantiles = np.quantile(per_user, [0, 0.25, 0.5, 0.75, 1]) if len(per_user) else np.zeros(5)
    return EngagementStats(
        n_rows=table.num_rows,
        n_users=len(per_user),
        n_objects=len(texts_per_object),
        signals=tuple(counts),
        counts=counts,
        n_duplicates=table.num_rows - distinct,
        n_objects_with_conflicting_text=int((texts_per_object > 1).sum()),
        n_missing_times=table["interaction_time"].null_count,
        engagements_per_user=Quantiles(*quantiles.tolist()),
        ignored_columns=tuple(_ignored_columns(table)),
    )


def newest_first(table: pa.Table) -> pa.Table:
    """Sort by user, then from the newest engagement to the oldest.

    Users are in the order of their ids as text. Equal times stay in file order; missing ones come last,
    in file order too.

    Args:
        table: (rows, 5) in :data:`ENGAGEMENT_SCHEMA`, in file order.
    """
    order = order_newest_first(table)
    return table if np.array_equal(order, np.arange(len(order))) else take_rows(table, order)


def order_newest_first(table: pa.Table, user: str = "user_id", time: str = "interaction_time") -> npt.NDArray[np.int64]:
    """Return the places of the rows in the order of :func:`newest_first`, for a table with any such columns."""
    users = pc.unique(table[user])
    in_order = users.take(pc.sort_indices(users))
    codes = pc.index_in(table[user], value_set=in_order).to_numpy()
    times = table[time].to_numpy()  # null becomes NaN, which numpy sorts last, as -NaN too
    order: npt.NDArray[np.int64] = np.lexsort((-times, codes))
    return order


def user_slices(table: pa.Table, column: str = "user_id") -> dict[str, slice]:
    """Return where each user's rows stand: ``table[slices[user]]`` needs no search, whatever the size of the table.

    Args:
        table: rows sorted so that each user's stand together, as builders write them and :func:`newest_first` does.
        column: the users' column.

    Returns:
        The slice of each user, in the order of the table.

    Raises:
        DataError: the rows of a user do not stand together.

    >>> users = pa.table({"user_id": ["a", "a", "b"]})
    >>> user_slices(users)
    {'a': slice(0, 2, None), 'b': slice(2, 3, None)}
    """
    users, n = table[column], table.num_rows
    if not n:
        return {}
    changes = pc.not_equal(users.slice(1), users.slice(0, n - 1)).to_numpy()
    starts = np.concatenate([[0], np.flatnonzero(changes) + 1])
    bounds = [*starts.tolist(), n]
    slices: dict[str, slice] = {}
    for user, start, stop in zip(users.take(pa.array(starts)).to_pylist(), bounds, bounds[1:], strict=False):
        if user in slices:
            raise DataError(
                f"The rows of user {user!r} do not stand together: rows {slices[user].start + 1} to "
                f"{slices[user].stop} and from row {start + 1}. Sort the table with newest_first."
            )
        slices[user] = slice(start, stop)
    return slices


def fingerprint_engagements(table: pa.Table) -> str:
    """Return the sha256 (hex) of the rows in their order, however Arrow has cut them into chunks.

    Args:
        table: (rows, 5) in :data:`ENGAGEMENT_SCHEMA`; metadata does not count.
    """
    digest = hashlib.sha256(json.dumps(["gistbench engagements 1", table.num_rows]).encode())
    for name in ENGAGEMENT_SCHEMA.names[:4]:
        _hash_strings(digest, table[name])
    times = table["interaction_time"]
    digest.update(np.packbits(pc.is_valid(times).to_numpy()).tobytes())
    # Adding zero makes -0.0 equal to 0.0, as it is everywhere else.
    digest.update((pc.fill_null(times, 0.0).to_numpy() + 0.0).astype("<f8").tobytes())
    return digest.hexdigest()


def filter_users(
    table: pa.Table,
    users: Iterable[str] | None = None,
    min_engagements: int | None = None,
    n_users: int | None = None,
    seed: int = 0,
    stratified: bool = False,
) -> pa.Table:
    """Keep the rows of some users, in file order.

    The ``n_users`` users are those with the smallest blake2b digests of seed and user id: the same in every process,
    whatever the order of the rows, and a smaller sample is part of a larger one. A stratified sample takes from each
    tenth of the users, ordered by the length of their histories, as many as its share.

    Args:
        table: (rows, 5) in :data:`ENGAGEMENT_SCHEMA`.
        users: ids to keep; None keeps all.
        min_engagements: fewest rows that a user needs to have.
        n_users: size of the sample, drawn from the users that the other options leave.
        seed: changes which users the sample holds.
        stratified: draw from each tenth of the users by length of history.

    Raises:
        ConfigError: a named user does not occur or has too few engagements, fewer users than ``n_users`` qualify, or no
            user does.
    """
    if isinstance(users, str):
        raise ConfigError(f"users is the text {users!r}; give a list of user ids.")
    for option, value in (("min_engagements", min_engagements), ("n_users", n_users)):
        if value is not None and value < 1:
            raise ConfigError(f"{option} is {value}; it must be 1 or more.")
    counted = table.group_by("user_id").aggregate([([], "count_all")])
    sizes: dict[str, int] = dict(zip(counted["user_id"].to_pylist(), counted["count_all"].to_pylist(), strict=True))
    named = None if users is None else list(dict.fromkeys(str(user) for user in users))
    if named is not None and (missing := [user for user in named if user not in sizes]):
        raise ConfigError(
            f"{len(missing)} of {len(named)} named users are not among the {len(sizes)} users of the data: "
            f"{_shortened(missing)}.{suggestion(missing[0], sorted(sizes))}"
        )
    kept = list(sizes) if named is None else named
    if min_engagements is not None:
        small = [user for user in kept if sizes[user] < min_engagements]
        if named is not None and small:
            raise ConfigError(
                f"{len(small)} of {len(named)} named users have fewer than min_engagements={min_engagements} "
                f"engagements: {_shortened([f'{user} ({sizes[user]})' for user in small])}. Leave them out or lower it."
            )
        kept = [user for user in kept if sizes[user] >= min_engagements]
    limits = f" with min_engagements={min_engagements}" if min_engagements is not None else ""
    if n_users is not None and n_users > len(kept):
        raise ConfigError(
            f"n_users={n_users} was asked for, but only {len(kept)} of {len(sizes)} users qualify{limits}. Ask for "
            f"at most {len(kept)}{' or lower min_engagements' if limits else ''}."
        )
    if not kept:
        raise ConfigError(f"None of {len(sizes)} users qualifies{limits}; no engagement would be left.")
    if n_users is not None:
        drawn = sorted(kept, key=lambda user: (_user_digest(seed, user), user))
        kept = _stratified(drawn, sizes, n_users) if stratified else drawn[:n_users]
    if len(kept) == len(sizes):
        return table
    return table.filter(pc.is_in(table["user_id"], value_set=pa.array(kept, pa.string())))


def _stratified(drawn: list[str], sizes: dict[str, int], n_users: int, n_strata: int = 10) -> list[str]:
    """Return the first of the drawn users in each stratum of history length, as many as its share of the users."""
    by_length = sorted(drawn, key=lambda user: (sizes[user], user))
    stratum = {user: rank * n_strata // len(drawn) for rank, user in enumerate(by_length)}
    # Largest remainders: quotas sum to n_users, and none exceeds its stratum.
    counts = np.bincount(list(stratum.values()), minlength=n_strata)
    exact = counts * n_users / len(drawn)
    quotas = np.floor(exact).astype(int)
    quotas[np.argsort(quotas - exact, kind="stable")[: n_users - quotas.sum()]] += 1
    taken: list[str] = []
    for user in drawn:
        if quotas[stratum[user]]:
            quotas[stratum[user]] -= 1
            taken.append(user)
    return taken


def _user_digest(seed: int, user_id: str) -> bytes:
    return hashlib.blake2b(f"{seed}:{user_id}".encode(), digest_size=16).digest()


def _shortened(names: list[str], shown: int = 5) -> str:
    rest = len(names) - shown
    return ", ".join(names[:shown]) + (f" and {rest} more" if rest > 0 else "")


def _ignored_columns(table: pa.Table) -> list[str]:
    stored = (table.schema.metadata or {}).get(_IGNORED_KEY)
    return [str(name) for name in json.loads(stored)] if stored else []


def take_rows(table: pa.Table, rows: npt.NDArray[np.int64]) -> pa.Table:
    """Take rows even where a text column is longer than the 2 GiB that ``string`` offsets can address."""
    indices = pa.array(rows)
    columns = [
        as_strings(column.cast(pa.large_string()).take(indices))
        if pa.types.is_string(column.type)
        else column.take(indices)
        for column in table.columns
    ]
    return pa.table(columns, schema=table.schema)


def _hash_strings(digest: "hashlib._Hash", column: pa.ChunkedArray) -> None:
    """Feed all bytes of the column, then all lengths: together they tell ["ab", "c"] from ["a", "bc"]."""
    lengths: list[np.ndarray] = []
    for chunk in column.chunks:
        _, offsets_buffer, data = chunk.buffers()
        offsets = np.frombuffer(offsets_buffer, "<i4")[chunk.offset : chunk.offset + len(chunk) + 1]
        if len(chunk):
            digest.update(memoryview(data)[offsets[0] : offsets[-1]] if data is not None else b"")
            lengths.append(np.diff(offsets))
    digest.update(np.concatenate(lengths).astype("<i4").tobytes() if lengths else b"")
