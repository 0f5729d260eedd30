"""What is in a dataset, measured: users, objects, signals, histories, texts and repeats.

Works on codes and counts, not on rows, so that a table that is mapped from disk stays there: besides the distinct ids,
about 30 bytes are held for each row. Counts mean the same as in
:func:`~gistbench.hf_datasets.schema.describe_engagements`; this adds what takes longer. Knows nothing about names,
licences or how a table is shown.

A token is a word (a run of letters, marks, digits and underscores), a single Chinese or Japanese character, or any
other visible character: what a text's length is, whichever model reads it. Model tokenizers count differently.
"""

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from .errors import ConfigError
from .schema import INTERACTION_TYPES

__all__ = ["DatasetStatistics", "Distribution", "UserCounts", "count_by_user", "count_tokens", "measure_engagements"]

MIN_ENGAGEMENTS = 100
"""How many engagements paper A's Table 1 takes for a sufficient history (20 for music)."""

_IDEOGRAPH = r"[\p{Han}\p{Hiragana}\p{Katakana}]"
_WORD_OR_SIGN = r"[\p{L}\p{M}\p{N}_]+|[^\p{L}\p{M}\p{N}_\s\p{Z}\p{C}]"
_BATCH_ROWS = 1 << 18

Integers = npt.NDArray[np.int64]


class Distribution(NamedTuple):
    """The five-number summary of some counts, and their mean."""

    minimum: float
    lower_quartile: float
    median: float
    upper_quartile: float
    maximum: float
    mean: float

    @classmethod
    def of(cls, values: npt.NDArray[Any]) -> "Distribution":
        """Summarise ``values``; of none, everything is 0."""
        if not len(values):
            return cls(0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
        summary = [*np.quantile(values, [0, 0.25, 0.5, 0.75, 1]).tolist(), float(values.mean())]
        return cls._make(summary)


@dataclass(frozen=True)
class UserCounts:
    """How many engagements of each type each user has."""

    user_ids: tuple[str, ...]
    """In the order of their first rows."""
    counts: Integers
    """(users, 4), the types in the order of :data:`~gistbench.hf_datasets.schema.INTERACTION_TYPES`."""

    @property
    def signals(self) -> tuple[str, ...]:
        """The interaction types that occur."""
        return tuple(name for name in INTERACTION_TYPES if self.of(name).any())

    def of(self, interaction_type: str) -> Integers:
        """Return the counts of one type, (users,)."""
        counts: Integers = self.counts[:, INTERACTION_TYPES.index(interaction_type)]
        return counts


@dataclass(frozen=True)
class DatasetStatistics:
    """What is in a dataset; see :func:`measure_engagements`."""

    n_rows: int
    n_users: int
    n_objects: int
    counts: Mapping[str, int]
    """Rows per interaction type that occurs."""
    n_duplicates: int
    """Rows beyond the first with the same user, object and interaction type."""
    n_objects_with_conflicting_text: int
    """Objects that appear with more than one text."""
    n_missing_times: int
    min_engagements: int
    share_of_users_with_min_engagements: float
    """The share of users with at least ``min_engagements`` rows."""
    engagements_per_user: Mapping[str, Distribution]
    """Over all users, under ``all`` and under each interaction type that occurs; users without it count 0."""
    tokens_per_text: Distribution
    """Over distinct objects, of the text in the object's first row."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, for JSON."""
        plain = dataclasses.asdict(self)
        plain["counts"] = dict(self.counts)
        plain["engagements_per_user"] = {name: d._asdict() for name, d in self.engagements_per_user.items()}
        plain["tokens_per_text"] = self.tokens_per_text._asdict()
        return plain

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> "DatasetStatistics":
        """Make what :meth:`to_dict` returned.

        Raises:
            KeyError, TypeError: it is something else.
        """
        per_user = {name: Distribution(**d) for name, d in plain["engagements_per_user"].items()}
        texts = Distribution(**plain["tokens_per_text"])
        return cls(**{**plain, "engagements_per_user": per_user, "tokens_per_text": texts})


def measure_engagements(table: pa.Table, *, min_engagements: int = MIN_ENGAGEMENTS) -> DatasetStatistics:
    """Measure a table of engagements.

    Args:
        table: (rows, 5) in :data:`~gistbench.hf_datasets.schema.ENGAGEMENT_SCHEMA`, in any order.
        min_engagements: which histories count as sufficient.

    Raises:
        ConfigError: ``min_engagements`` is not positive.
    """
    if min_engagements < 1:
        raise ConfigError(f"min_engagements is {min_engagements}; it must be 1 or more.")
    user_ids, users = _encode(table["user_id"])
    object_ids, objects = _encode(table["object_id"])
    kinds = _kinds(table)
    by_type = _count(users, kinds, len(user_ids))
    per_user = by_type.sum(axis=1)
    present = [i for i in range(len(INTERACTION_TYPES)) if by_type[:, i].any()]
    tokens, n_conflicting = _measure_texts(table["object_text"], objects, len(object_ids))
    return DatasetStatistics(
        n_rows=table.num_rows,
        n_users=len(user_ids),
        n_objects=len(object_ids),
        counts={INTERACTION_TYPES[i]: int(by_type[:, i].sum()) for i in present},
        n_duplicates=_count_repeats(users, objects, kinds, len(object_ids)),
        n_objects_with_conflicting_text=n_conflicting,
        n_missing_times=table["interaction_time"].null_count,
        min_engagements=min_engagements,
        share_of_users_with_min_engagements=float((per_user >= min_engagements).mean()) if len(per_user) else 0.0,
        engagements_per_user={
            "all": Distribution.of(per_user),
            **{INTERACTION_TYPES[i]: Distribution.of(by_type[:, i]) for i in present},
        },
        tokens_per_text=Distribution.of(tokens),
    )


def count_by_user(table: pa.Table) -> UserCounts:
    """Count each user's engagements by type.

    Args:
        table: (rows, 5) in :data:`~gistbench.hf_datasets.schema.ENGAGEMENT_SCHEMA`.
    """
    user_ids, users = _encode(table["user_id"])
    return UserCounts(tuple(user_ids.to_pylist()), _count(users, _kinds(table), len(user_ids)))


def count_tokens(texts: pa.ChunkedArray | pa.Array) -> npt.NDArray[np.int64]:
    """Count the tokens of each text (see the module), (texts,).

    >>> count_tokens(pa.array(["Café #1, open_now!", "iPhone手机"])).tolist()
    [6, 3]
    """
    ideographs = pc.count_substring_regex(texts, _IDEOGRAPH)
    others = pc.count_substring_regex(pc.replace_substring_regex(texts, _IDEOGRAPH, " "), _WORD_OR_SIGN)
    return np.asarray(pc.add(ideographs, others), dtype=np.int64)


def _encode(column: pa.ChunkedArray) -> tuple[pa.Array, npt.NDArray[np.int32]]:
    """Return the distinct values in the order of their first rows, and the place among them of each row's value."""
    values = pc.unique(column)
    codes = np.empty(len(column), np.int32)
    for start, batch in _batches(column):
        codes[start : start + len(batch)] = pc.index_in(batch, value_set=values).to_numpy()
    return values, codes


def _kinds(table: pa.Table) -> npt.NDArray[np.int8]:
    places = pc.index_in(table["interaction_type"], value_set=pa.array(INTERACTION_TYPES))
    kinds: npt.NDArray[np.int8] = places.cast(pa.int8()).to_numpy()
    return kinds


def _count(users: npt.NDArray[np.int32], kinds: npt.NDArray[np.int8], n_users: int) -> Integers:
    n_kinds = len(INTERACTION_TYPES)
    counted = np.bincount(users.astype(np.int64) * n_kinds + kinds, minlength=n_users * n_kinds)
    return counted.reshape(n_users, n_kinds).astype(np.int64)


def _count_repeats(
    users: npt.NDArray[np.int32], objects: npt.NDArray[np.int32], kinds: npt.NDArray[np.int8], n_objects: int
) -> int:
    keys = users.astype(np.int64)
    keys *= n_objects
    keys += objects
    keys *= len(INTERACTION_TYPES)
    keys += kinds
    keys.sort()
    return int((keys[1:] == keys[:-1]).sum())


def _measure_texts(texts: pa.ChunkedArray, objects: npt.NDArray[np.int32], n_objects: int) -> tuple[Integers, int]:
    """Return the tokens of each object's first text, and how many objects have another text in a later row."""
    import pandas as pd  # only here, and slow to import

    tokens = np.zeros(n_objects, np.int64)
    first_hash = np.zeros(n_objects, np.uint64)
    seen = np.zeros(n_objects, bool)
    conflicting = np.zeros(n_objects, bool)
    for start, batch in _batches(texts):
        codes = objects[start : start + len(batch)]
        hashes = pd.util.hash_array(batch.to_numpy(zero_copy_only=False), categorize=False)
        fresh, rows = np.unique(codes, return_index=True)
        fresh, rows = fresh[~seen[fresh]], rows[~seen[fresh]]
        if len(rows):
            tokens[fresh] = count_tokens(batch.take(pa.array(rows)))
            first_hash[fresh] = hashes[rows]
            seen[fresh] = True
        conflicting[codes[hashes != first_hash[codes]]] = True
    return tokens, int(conflicting.sum())


def _batches(column: pa.ChunkedArray) -> Iterator[tuple[int, pa.Array]]:
    """Cut a column into arrays of bounded length, each with the row that it starts at."""
    start = 0
    for chunk in column.chunks:
        for offset in range(0, len(chunk), _BATCH_ROWS):
            batch = chunk.slice(offset, _BATCH_ROWS)
            yield start, batch
            start += len(batch)
