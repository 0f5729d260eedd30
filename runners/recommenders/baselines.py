"""Random and Popularity: the floor, and what everything is compared with."""

from typing import Any

import numpy as np

from ...hf_datasets._mixing import mix64
from .base import Fitting, FloatArray, IntArray, Recommender, Scorer, Size
from .registry import recommender

__all__ = ["Popularity", "Random"]


@recommender("random")
class Random(Recommender):
    """Every item has the same chance; a user's scores hang on the seed and on no other user."""

    libraries = ()

    def fit(self, train: Any, fitting: Fitting) -> Scorer:
        """Hash seed, user and item into [0, 1)."""
        salt = mix64(np.array([fitting.seed % (1 << 64)], dtype=np.uint64) ^ np.uint64(0x9E3779B97F4A7C15))
        items = mix64(np.arange(1, train.shape[1] + 1, dtype=np.uint64) ^ salt)

        def scores(users: IntArray) -> FloatArray:
            of_users = mix64(users.astype(np.uint64) + np.uint64(1) + items[:1])
            return (mix64(of_users[:, None] ^ items) >> np.uint64(40)).astype(np.float32) / np.float32(1 << 24)

        return scores

    def fit_bytes(self, size: Size) -> int:
        """One hash for each item."""
        return 8 * size.n_items


@recommender("popularity")
class Popularity(Recommender):
    """The number of training ratings of an item, c(i) of Eq. 2."""

    libraries = ()

    def fit(self, train: Any, fitting: Fitting) -> Scorer:
        """Count columns."""
        counts = np.bincount(train.indices, minlength=train.shape[1]).astype(np.float32)
        counts[counts == 0] = -np.inf
        return lambda users: np.broadcast_to(counts, (len(users), len(counts)))

    def fit_bytes(self, size: Size) -> int:
        """One count for each item."""
        return 8 * size.n_items
