"""The best items of many users at once: training items masked, ties in one order, memory bounded.

Scores are rounded to float32 before they are compared, so that the order does not hang on the last bits of a sum. Ties
go to the later column; with items in ascending order of their ids that is trec_eval's order, item id descending.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...hf_datasets.errors import DataError
from .base import FloatArray, IntArray, Scorer, block_users

__all__ = ["Lists", "recommend", "top_k"]

_SIGN = np.uint32(1 << 31)
_NOTHING = np.uint32(0x007FFFFF)  # -inf as a sortable number
_KEYS_AT_ONCE = 1 << 22


@dataclass(frozen=True)
class Lists:
    """Ranked lists of some users."""

    users: IntArray
    """Row of each user, (users,)."""
    items: NDArray[np.int32]
    """Columns, best first, (users, k); -1 where the list has ended."""
    scores: NDArray[np.float32]
    """(users, k)."""


def top_k(scores: FloatArray, k: int) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """Return the columns and scores of the k highest scores of each row.

    Args:
        scores: (rows, columns); -inf is never among them.
        k: at least 1.

    Returns:
        Columns and scores, (rows, min(k, columns)), best first, equal scores by column descending; -1 and -inf where a
        row has fewer scores.

    Raises:
        DataError: a score is NaN or +inf.

    >>> top_k(np.array([[0.5, 2.0, 0.5, -np.inf]]), 3)[0].tolist()
    [[1, 2, 0]]
    """
    n_rows, n_columns = scores.shape
    k = min(k, n_columns)
    columns, values = np.empty((n_rows, k), np.int32), np.empty((n_rows, k), np.float32)
    at_once = max(1, _KEYS_AT_ONCE // max(n_columns, 1))
    for low in range(0, n_rows, at_once):
        rounded = scores[low : low + at_once].astype(np.float32) + np.float32(0)  # -0.0 becomes 0.0
        if not (rounded < np.inf).all():
            raise DataError("A recommender gave a score that is NaN or infinite: its parameters do not fit the data.")
        bits = rounded.view(np.uint32)
        keys = np.where(bits & _SIGN, ~bits, bits | _SIGN).astype(np.uint64)
        keys <<= np.uint64(32)
        keys |= np.arange(n_columns, dtype=np.uint64)
        if k < n_columns:
            keys.partition(n_columns - k, axis=1)
        best = np.sort(keys[:, n_columns - k :], axis=1)[:, ::-1]
        high = (best >> np.uint64(32)).astype(np.uint32)
        there = high > _NOTHING
        columns[low : low + at_once] = np.where(there, (best & np.uint64(0xFFFFFFFF)).astype(np.int64), -1)
        restored = np.where(high & _SIGN, high ^ _SIGN, ~high).astype(np.uint32)
        values[low : low + at_once] = np.where(there, restored.view(np.float32), -np.inf)
    return columns, values


def recommend(scorer: Scorer, train: Any, users: IntArray, k: int) -> Iterator[Lists]:
    """Yield the lists of users, a block at a time; no item of a user's training row is in them.

    Args:
        scorer: a fitted recommender.
        train: (users, items) csr_matrix.
        users: the rows to make lists for.
        k: depth of the lists.
    """
    at_once = block_users(train.shape[1])
    for low in range(0, len(users), at_once):
        rows = users[low : low + at_once]
        scores = np.array(scorer(rows), dtype=np.float32)
        seen = train[rows]
        scores[np.repeat(np.arange(len(rows)), np.diff(seen.indptr)), seen.indices] = -np.inf
        yield Lists(rows, *top_k(scores, k))
