"""The ratings view of a dataset of ratings: user, item, rating, time, and on which side of the split it stands.

Paper B splits each user's ratings 80/20. Which ones go to the test side is drawn by a hash of seed, user and item: the
same in every process and for any order of the rows, and a rating stays on its side when other users come or go. As an
option the newest ones go there (``temporal``). Knows nothing about films or books.
"""

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import datasets
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from datasets.builder import Key

from ._mixing import mix64
from ._sorting import UserSort
from .builder import EngagementBuilder, EngagementConfig
from .errors import ConfigError, DataError
from .raw import BadRows

__all__ = ["RATING_SCHEMA", "RatingsBuilder", "RatingsConfig", "split_ratings"]

RATING_SCHEMA: pa.Schema = pa.schema(
    [
        pa.field("user", pa.string()),
        pa.field("item", pa.string()),
        pa.field("rating", pa.float64()),
        pa.field("time", pa.float64()),
        pa.field("split", pa.string()),
    ]
)
"""Sorted by user, then newest first; ``split`` is ``train`` or ``test``; ``time`` is nullable."""


def split_ratings(
    ratings: pa.Table, *, test_share: float = 0.2, seed: int = 0, temporal: bool = False
) -> pa.ChunkedArray:
    """Split each user's ratings, and return ``train`` or ``test`` for each row.

    Of a user's n ratings ``floor(test_share * n + 0.5)`` go to the test side, but never all of them: those with the
    smallest hashes of seed, user and item, or with ``temporal`` the newest ones (equal times: by the hash).

    Args:
        ratings: (rows, >= 2) with ``user`` and ``item`` (text), no pair twice, all ratings of each user; ``temporal``
            needs ``time`` too.
        test_share: from 0 to below 1.
        seed: of the draw.
        temporal: split by time instead of by chance.

    Raises:
        ConfigError: ``test_share`` is out of range.
        DataError: a pair occurs twice, or ``temporal`` and a time is missing.

    >>> table = pa.table({"user": ["u"] * 5, "item": list("abcde")})
    >>> split_ratings(table).to_pylist()
    ['train', 'train', 'train', 'train', 'test']
    """
    if not 0 <= test_share < 1:
        raise ConfigError(f"test_share is {test_share}; it must be at least 0 and below 1.")
    users, user_hashes = _encoded(ratings["user"], f"{seed}:user:")
    items, item_hashes = _encoded(ratings["item"], f"{seed}:item:")
    hashes = mix64(user_hashes[users] ^ mix64(item_hashes[items]))
    order: npt.NDArray[np.int64] = np.lexsort((hashes, users))
    same = (hashes[order[1:]] == hashes[order[:-1]]) & (users[order[1:]] == users[order[:-1]])  # the same pair
    if same.any():
        row = int(order[np.flatnonzero(same)[0]])
        raise DataError(f"user {ratings['user'][row]} has rated item {ratings['item'][row]} more than once; keep one.")
    if temporal:
        if missing := ratings["time"].null_count:
            raise DataError(f"{missing} of {len(ratings)} ratings have no time: they cannot be split by time.")
        order = np.lexsort((hashes, -ratings["time"].to_numpy(), users))
    counts = np.bincount(users, minlength=len(user_hashes))
    starts = np.cumsum(counts) - counts
    n_test = np.minimum(np.floor(test_share * counts + 0.5).astype(np.int64), np.maximum(counts - 1, 0))
    test = np.zeros(len(users), dtype=bool)
    test[order] = np.arange(len(users)) - starts[users[order]] < n_test[users[order]]
    return pa.chunked_array([pc.if_else(pa.array(test), "test", "train")])


@dataclass
class RatingsConfig(EngagementConfig):
    """How ratings are split; ``min_engagements`` counts ratings."""

    test_share: float = 0.2
    """Share of each user's ratings on the test side."""
    seed: int = 0
    """Of the draw."""
    temporal: bool = False
    """The newest ratings of each user are the test side."""

    def check(self) -> None:
        """Check the share."""
        if not 0 <= self.test_share < 1:
            raise ConfigError(f"test_share is {self.test_share}; it must be at least 0 and below 1.")


class RatingsBuilder(EngagementBuilder):
    """A builder of ratings in :data:`RATING_SCHEMA`, in one split of `datasets`, ``train``, whatever their side."""

    BUILDER_CONFIG_CLASS = RatingsConfig

    def rating_tables(self) -> Iterable[pa.Table]:
        """Yield the ratings, with the columns ``user``, ``item``, ``rating``, ``time`` and others, in file order."""
        raise NotImplementedError

    def item_table(self, bad_rows: BadRows) -> pa.Table:
        """Return what the source says of its items: ``item``, ``title`` and more.

        Args:
            bad_rows: what to do with broken rows.
        """
        raise NotImplementedError

    def _info(self) -> datasets.DatasetInfo:
        names = {str(field.name): str(field.type).replace("double", "float64") for field in RATING_SCHEMA}
        return datasets.DatasetInfo(
            features=datasets.Features({name: datasets.Value(kind) for name, kind in names.items()})
        )

    def _generate_tables(self, **shards: Any) -> Iterator[tuple[Key, pa.Table]]:
        config: RatingsConfig = self.config
        self._begin()
        sort = UserSort(user="user", time="time", min_rows=config.min_engagements)
        columns = RATING_SCHEMA.names[:4]
        tables = (table.select(columns) for table in self.rating_tables())
        n_rows = 0
        for batch, table in enumerate(sort.sorted(tables)):
            table = self._without_repeats(table)
            n_rows += table.num_rows
            split = split_ratings(table, test_share=config.test_share, seed=config.seed, temporal=config.temporal)
            yield Key(0, batch), table.append_column("split", split).cast(RATING_SCHEMA)
        self._finish(sort, n_rows)

    def _without_repeats(self, table: pa.Table) -> pa.Table:
        """Keep each user's newest rating of an item."""
        users, _ = _encoded(table["user"])
        items, _ = _encoded(table["item"])
        pairs = users * (int(items.max(initial=0)) + 1) + items
        in_order = np.sort(pairs)
        if not (in_order[1:] == in_order[:-1]).any():
            return table
        _, first = np.unique(pairs, return_index=True)
        self.leave_out("older ratings of an item that the user rated again", table.num_rows - len(first))
        return table.take(pa.array(np.sort(first)))


def _encoded(column: pa.ChunkedArray, salt: str | None = None) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint64]]:
    """Return a code for each row and, with a salt, the hash of each code's text."""
    encoded = column.combine_chunks().dictionary_encode()
    codes = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    if salt is None:
        return codes, np.empty(0, dtype=np.uint64)
    prefix = salt.encode()
    digests = b"".join(
        hashlib.blake2b(prefix + text.encode(), digest_size=8).digest() for text in encoded.dictionary.to_pylist()
    )
    return codes, np.frombuffer(digests, dtype="<u8").astype(np.uint64)
