"""The oracle of several models: what any of them verified for a user, and who found it (Tables 15 and 16).

Works on verdicts that exist; reads no history and verifies nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from .common import distinct
from .common import pick

__all__ = ["Found", "Union", "unite"]

IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Found:
    """The distinct (user, category) pairs that one source holds."""

    users: Sequence[str]
    """All users of the source, those with nothing found too."""
    user_of: IntArray
    """The user of each pair, a position in ``users``."""
    code: IntArray
    """The category of each pair, a position in ``labels``."""
    labels: Sequence[Any]
    """Distinct categories: ids, or names of interests; no pair has category 0."""


@dataclass(frozen=True)
class Union:
    """The pairs of all sources together."""

    sources: list[str]
    users: list[str]
    user_of: IntArray
    code: IntArray
    labels: list[Any]
    found_by: BoolArray
    """One row for each source: which pairs it holds."""

    @property
    def n_sources(self) -> IntArray:
        """How many sources hold each pair."""
        n: IntArray = self.found_by.sum(axis=0)
        return n

    def by_user(self, min_models: int = 1) -> dict[str, list[Any]]:
        """Return each user's categories that at least so many sources hold, sorted."""
        oracle: dict[str, list[Any]] = {user: [] for user in self.users}
        for i in np.flatnonzero(self.n_sources >= min_models).tolist():
            oracle[self.users[self.user_of[i]]].append(self.labels[self.code[i]])
        return oracle

    def n_by_user(self, users: Sequence[str]) -> IntArray:
        """Return how many categories each of these users has."""
        n = dict(zip(self.users, np.bincount(self.user_of, minlength=len(self.users)).tolist(), strict=True))
        return np.array([n.get(user, 0) for user in users], dtype=np.int64)

    def describe(self) -> dict[str, Any]:
        """Return the counts of Table 15 (by how many sources) and of Table 16 (without each source)."""
        n, total = self.n_sources, len(self.code)
        by_k = [int((n == k).sum()) for k in range(1, len(self.sources) + 1)]
        verified = self.found_by.sum(axis=1).tolist()
        sole = (self.found_by & (n == 1)).sum(axis=1).tolist()
        return {
            "n_pairs": total,
            "by_k": {
                "n_models": list(range(1, len(self.sources) + 1)),
                "n_pairs": by_k,
                "share": [_share(count, total) for count in by_k],
            },
            "by_model": {
                "model": self.sources,
                "n_verified": verified,
                "n_sole_provider": sole,
                "share_of_oracle": [_share(count, total) for count in sole],
                "n_pairs_without": [total - count for count in sole],
            },
        }

    def pairs(self) -> dict[str, list[Any]]:
        """Return the pairs as a dict of columns, with the sources that hold each."""
        kinds, kind = np.unique(self.found_by.T, axis=0, return_inverse=True)
        models = [[source for source, holds in zip(self.sources, row, strict=True) if holds] for row in kinds.tolist()]
        return {
            "user_id": pick(self.users, self.user_of),
            "category": pick(self.labels, self.code),
            "n_models": self.n_sources.tolist(),
            "models": list(map(list.copy, pick(models, kind))),
        }


def unite(found: Mapping[str, Found]) -> Union:
    """Unite sources; users and categories come out sorted, whatever the order of the sources."""
    users = sorted(set().union(*(one.users for one in found.values())))
    labels: list[Any] = sorted(set().union(*(one.labels for one in found.values())))
    user_code = {user: code for code, user in enumerate(users)}
    label_code = {label: code for code, label in enumerate(labels)}
    width = max(len(labels), 1)
    keys = []
    for one in found.values():
        user = np.array([user_code[user] for user in one.users], dtype=np.int64)[one.user_of]
        label = np.array([label_code[label] for label in one.labels], dtype=np.int64)[one.code]
        keys.append(user * width + label)
    united = distinct(np.concatenate([np.empty(0, np.int64), *keys]))
    found_by = np.zeros((len(keys), len(united)), dtype=np.bool_)
    for row, own in zip(found_by, keys, strict=True):
        row[np.searchsorted(united, own)] = True
    user_of, code = np.divmod(united, width)
    return Union(
        sources=list(found),
        users=users,
        user_of=user_of,
        code=code,
        labels=labels,
        found_by=found_by,
    )


def _share(count: int, total: int) -> float | None:
    return count / total if total else None
