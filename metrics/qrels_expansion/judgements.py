"""Relevance judgements and pools as sorted (user, item) pairs, and the four conditions made of them (Eq. 1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from .tables import Coded, code, codes_of, numbers, read_columns

__all__ = ["CONDITIONS", "Judgements", "RawJudgements", "conditions", "in_sorted", "read_judgements", "read_pairs"]

CONDITIONS = ("human", "matched", "synthetic", "augmented")

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class RawJudgements:
    """A table of judgements as read, before users and items have their numbers."""

    name: str
    user: Coded
    item: Coded
    rating: FloatArray
    """NaN: not parsed, or not judged."""
    n_unjudged: int

    def pairs(self, users: pa.Array, items: pa.Array) -> tuple[Judgements, int, int]:
        """Number the pairs of known users; return them, and how many rows had another user or stood there again.

        Raises:
            ValueError: If a pair was judged twice, differently.
        """
        user = codes_of(self.user, users).astype(np.int64)[self.user.codes]
        item = codes_of(self.item, items).astype(np.int64)[self.item.codes]
        known = user >= 0
        judged = known & ~np.isnan(self.rating)
        key = user[judged] * len(items) + item[judged]
        rating = self.rating[judged]
        order = np.argsort(key, kind="stable")
        key, rating = key[order], rating[order]
        again = key[1:] == key[:-1]
        differs = again & (rating[1:] != rating[:-1])
        if differs.any():
            at = int(np.argmax(differs))
            found_user, found_item = divmod(int(key[at]), len(items))
            raise ValueError(
                f"{self.name}: user {users[found_user].as_py()!r}, item {items[found_item].as_py()!r} is judged twice, "
                f"as {float(rating[at])!r} and as {float(rating[at + 1])!r}. Keep one judgement per pair."
            )
        first = np.concatenate([np.ones(min(len(key), 1), np.bool_), ~again])
        pairs = Judgements(key[first], rating[first].astype(np.float64), len(users), len(items))
        return pairs, int((~known).sum()), int(again.sum())


@dataclass(frozen=True)
class Judgements:
    """Judged pairs, sorted by user and item, each once."""

    key: IntArray
    """User times number of items, plus item."""
    rating: FloatArray
    n_users: int
    n_items: int
    by_llm: BoolArray | None = None
    """Which ones are a language model's, where both are mixed."""

    @property
    def user(self) -> IntArray:
        """The user of each pair."""
        return self.key // max(self.n_items, 1)

    @property
    def item(self) -> IntArray:
        """The item of each pair."""
        return self.key % max(self.n_items, 1)

    @property
    def first(self) -> IntArray:
        """The first judgement of each user, and the end."""
        return np.searchsorted(self.key, np.arange(self.n_users + 1) * self.n_items)

    def at(self, keys: IntArray) -> IntArray:
        """Return the judgement of each of some sorted pairs, -1 where there is none."""
        if not len(self.key):
            return np.full(len(keys), -1, np.int64)
        found = np.searchsorted(self.key, keys)
        there = self.key.take(np.minimum(found, len(self.key) - 1)) == keys
        return np.where(there, found, -1)

    def only(self, kept: BoolArray) -> Judgements:
        """Return some of the judgements."""
        by_llm = None if self.by_llm is None else self.by_llm[kept]
        return Judgements(self.key[kept], self.rating[kept], self.n_users, self.n_items, by_llm)


def read_judgements(table: Any, name: str, unparsed: bool) -> RawJudgements:
    """Read a table of ``user``, ``item`` and ``rating``.

    Args:
        unparsed: A missing or NaN rating stands for an answer that could not be read, and is left out; else an error.

    Raises:
        ValueError: If a rating is infinite, no number, or missing where it must not be.
    """
    columns = read_columns(table, name, ("user", "item", "rating"))
    rating = numbers(columns["rating"], name, "rating", nullable=True).astype(np.float64)
    user, item = code(columns["user"], name, "user"), code(columns["item"], name, "item")
    wrong = np.isinf(rating) if unparsed else ~np.isfinite(rating)
    if wrong.any():
        row = int(np.argmax(wrong))
        found = "missing" if columns["rating"][row].as_py() is None else repr(float(rating[row]))
        raise ValueError(
            f"{name} row {row}: the rating of user {user.row(row)!r}, item {item.row(row)!r} is {found}; it must be a "
            f"finite number (negative: not judged{'; missing: not parsed' if unparsed else ''})."
        )
    rating = np.where(rating < 0, np.nan, rating)
    return RawJudgements(name, user, item, rating, int(np.isnan(rating).sum()))


def read_pairs(table: Any, name: str) -> tuple[Coded, Coded]:
    """Read a table of ``user`` and ``item``."""
    columns = read_columns(table, name, ("user", "item"))
    return code(columns["user"], name, "user"), code(columns["item"], name, "item")


def in_sorted(values: IntArray, among: IntArray) -> BoolArray:
    """Tell which values are among sorted ones."""
    if not len(among):
        return np.zeros(len(values), np.bool_)
    at = np.minimum(np.searchsorted(among, values), len(among) - 1)
    found: BoolArray = among[at] == values
    return found


def conditions(human: Judgements, llm: Judgements | None, pool: IntArray) -> dict[str, Judgements]:
    """Return the judgements of each condition: human, and with a language model's the other three.

    matched: Q^L on the pairs of Q^H; synthetic: Q^L on the pool; augmented: Q^H, else Q^L of the pool (Eq. 1).
    """
    if llm is None:
        return {"human": human}
    by_human = in_sorted(llm.key, human.key)
    pooled = in_sorted(llm.key, pool)
    added = llm.only(pooled & ~by_human)
    key = np.concatenate([human.key, added.key])
    order = np.argsort(key, kind="stable")
    by_llm = np.arange(len(key)) >= len(human.key)
    augmented = Judgements(
        key[order],
        np.concatenate([human.rating, added.rating])[order],
        human.n_users,
        human.n_items,
        by_llm[order],
    )
    return {"human": human, "matched": llm.only(by_human), "synthetic": llm.only(pooled), "augmented": augmented}
