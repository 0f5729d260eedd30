"""Engagement histories in the form that the stages read: arrays, and one cleaned text per object.

Knows nothing of prompts or models. Objects are numbered in the order of their ids, so numbers mean the same in every
process that reads the same data.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ..hf_datasets import INTERACTION_TYPES
from ..hf_datasets.schema import order_newest_first
from .draw import hash_strings, order, salt
from .prompts import clean

__all__ = ["Histories", "ObjectPool", "sample_pool"]


@dataclass(frozen=True)
class ObjectPool:
    """Objects drawn from a whole data set, from which distractors are taken."""

    object_ids: tuple[str, ...]
    texts: tuple[str, ...]
    hashes: NDArray[np.uint64]
    """A 64-bit hash of each id, for draws."""

    def __len__(self) -> int:
        return len(self.object_ids)


def sample_pool(engagements: pa.Table, *, size: int, seed: int, max_item_chars: int | None) -> ObjectPool:
    """Draw the seeded sample of a data set's objects that every user's distractors come from.

    Args:
        engagements: the whole data set, not only the users who are scored.
        size: how many objects to draw; a smaller data set gives all it has.
        seed: of the draw. The same data set and seed give the same pool in the same order.
        max_item_chars: where texts are cut.
    """
    objects = _texts_by_object(engagements)
    ids = objects.index.tolist()
    hashes = hash_strings(ids)
    drawn = order(hashes, salt(seed, "pool"))[:size]
    texts = [clean(text, max_item_chars) for text in objects.iloc[drawn]]
    return ObjectPool(tuple(ids[i] for i in drawn), tuple(texts), hashes[drawn])


class Histories:
    """The histories of the users who are scored, newest engagement first.

    Attributes:
        users: their ids, sorted.
        signals: the interaction types that the data set has, in the order of `INTERACTION_TYPES`.
        object_ids: every object's id, sorted; its position is the object's number.
        texts: every object's cleaned text, by number.
    """

    def __init__(self, engagements: pa.Table, *, signals: Iterable[str], max_item_chars: int | None) -> None:
        """Index validated engagements.

        Args:
            engagements: the rows of the users who are scored; see ``gistbench.hf_datasets.ENGAGEMENT_SCHEMA``.
            signals: the interaction types of the whole data set.
            max_item_chars: where texts are cut; None never cuts.
        """
        # Texts stay where they are: most of the memory is theirs, and one of each object is all that is needed.
        rows = pa.array(order_newest_first(engagements))
        ordered = engagements.select(["user_id", "object_id", "interaction_type"]).take(rows)
        self.signals = tuple(name for name in INTERACTION_TYPES if name in set(signals))
        objects = _texts_by_object(engagements)
        self.object_ids: tuple[str, ...] = tuple(objects.index)
        self.texts: tuple[str, ...] = tuple(clean(text, max_item_chars) for text in objects)
        numbers = pc.index_in(ordered["object_id"], value_set=pa.array(self.object_ids, pa.string()))
        types = pc.index_in(ordered["interaction_type"], value_set=pa.array(INTERACTION_TYPES, pa.string()))
        users = ordered["user_id"].combine_chunks().dictionary_encode()
        self.users: tuple[str, ...] = tuple(users.dictionary.to_pylist())
        frame = pd.DataFrame({"user": users.indices.to_numpy(), "object": numbers.to_numpy(), "type": types.to_numpy()})
        # One object engaged with twice in the same way is one piece of evidence: the newest row stands for both.
        frame = frame.drop_duplicates(ignore_index=True)
        self._objects: NDArray[np.int64] = frame["object"].to_numpy(np.int64)
        self._types: NDArray[np.int64] = frame["type"].to_numpy(np.int64)
        bounds = np.searchsorted(frame["user"].to_numpy(), np.arange(len(self.users) + 1))
        self._slices = {user: slice(bounds[i], bounds[i + 1]) for i, user in enumerate(self.users)}
        self._numbers: Mapping[str, int] = {object_id: number for number, object_id in enumerate(self.object_ids)}
        self._users = frame["user"].to_numpy()

    def engagements_of(self, user: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the object numbers and type numbers of a user's engagements, newest first."""
        rows = self._slices[user]
        return self._objects[rows], self._types[rows]

    def n_engagements(self, user: str) -> int:
        """Return the length of a user's history, repeats of the same kind left out."""
        rows = self._slices[user]
        return int(rows.stop - rows.start)

    def objects_of(self, user: str) -> frozenset[str]:
        """Return the ids of all objects in a user's history."""
        return frozenset(self.object_ids[number] for number in np.unique(self._objects[self._slices[user]]))

    def text_of(self, object_id: str) -> str:
        """Return an object's cleaned text."""
        return self.texts[self._numbers[object_id]]

    def evidence(self, cited: pa.Table) -> pa.Table:
        """Return the engagements with cited objects: all that verification needs of the histories.

        Args:
            cited: columns ``user_id`` and ``object_id``; what is not in the user's history gives no row.

        Returns:
            Columns ``user_id``, ``object_id``, ``object_text``, ``interaction_type``, in the order of the histories.
        """
        users = pc.index_in(cited["user_id"], value_set=pa.array(self.users, pa.string())).to_numpy()
        objects = pc.index_in(cited["object_id"], value_set=pa.array(self.object_ids, pa.string())).to_numpy()
        known = ~(np.isnan(users) | np.isnan(objects)) if users.dtype.kind == "f" or objects.dtype.kind == "f" else ...
        width = max(len(self.object_ids), 1)
        wanted = np.unique(users[known].astype(np.int64) * width + objects[known].astype(np.int64))
        rows = np.flatnonzero(np.isin(self._users.astype(np.int64) * width + self._objects, wanted))
        numbers = pa.array(self._objects[rows])
        return pa.table(
            {
                "user_id": pa.array(self.users, pa.string()).take(pa.array(self._users[rows])),
                "object_id": pa.array(self.object_ids, pa.string()).take(numbers),
                "object_text": pa.array(self.texts, pa.string()).take(numbers),
                "interaction_type": pa.array(INTERACTION_TYPES, pa.string()).take(pa.array(self._types[rows])),
            }
        )


def _texts_by_object(engagements: pa.Table) -> "pd.Series[str]":
    """Return each object's first text, indexed by id in the order of ids."""
    ids = engagements["object_id"].combine_chunks().dictionary_encode()
    # A dictionary is in the order of first appearance, and so are the first rows of its entries.
    _, first_rows = np.unique(ids.indices.to_numpy(), return_index=True)
    texts: list[str] = []
    start = 0
    # Chunk by chunk: to take from all of them at once would copy every text first.
    for chunk in engagements["object_text"].chunks:
        rows = first_rows[np.searchsorted(first_rows, start) : np.searchsorted(first_rows, start + len(chunk))]
        texts += chunk.take(pa.array(rows - start)).to_pylist()
        start += len(chunk)
    return pd.Series(texts, index=ids.dictionary.to_pylist(), dtype=object).sort_index()
