"""NNCosNgbr: neighbourhoods for top-N recommendation on ratings without biases (Cremonesi et al., 2010).

IB: b_ui + sum over the k items j of u that are most similar to i of d_ij (r_uj - b_uj); items as similar as the last of
the k count too. UB: b_ui + sum over the k users v most similar to u among those who rated i of d_uv (r_vi - b_vi).
d = n / (n + 100) cos, with n the ratings in common; no denominator. b_ui = mu + b_u + b_i, shrunk by 10 (users) and 25
(items). The shrinkages are recalled from the literature and were not read again.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from pydantic import Field

from .base import Fitting, FloatArray, IntArray, ItemLimited, Recommender, Scorer, Size
from .linear import _binary
from .neighbours import unit_rows
from .registry import recommender

__all__ = ["Baseline", "NNCosNgbrIB", "NNCosNgbrUB"]


@dataclass(frozen=True)
class Baseline:
    """b_ui = mu + b_u + b_i."""

    mean: float
    of_user: FloatArray
    of_item: FloatArray

    @classmethod
    def of(cls, train: Any, user_shrinkage: float, item_shrinkage: float) -> "Baseline":
        """Estimate items' deviations from the mean, then users' from both, each shrunk by its number of ratings."""
        n_users, n_items = train.shape
        rows = np.repeat(np.arange(n_users), np.diff(train.indptr))
        mean = float(train.data.mean())
        left = train.data - mean
        n = np.bincount(train.indices, minlength=n_items)
        of_item = _shrunk(np.bincount(train.indices, left, n_items), n + item_shrinkage)
        left = left - of_item[train.indices]
        of_user = _shrunk(np.bincount(rows, left, n_users), np.bincount(rows, minlength=n_users) + user_shrinkage)
        return cls(mean, of_user, of_item)

    def of_users(self, users: IntArray) -> FloatArray:
        """Return b_ui, (users, items)."""
        out: FloatArray = self.mean + self.of_user[users][:, None] + self.of_item
        return out

    def residuals(self, train: Any) -> Any:
        """Return r_ui - b_ui of the rated pairs, in the train matrix's own layout."""
        rows = np.repeat(np.arange(train.shape[0]), np.diff(train.indptr))
        left = train.copy()
        left.data = train.data - self.mean - self.of_user[rows] - self.of_item[train.indices]
        return left


def _shrunk(total: FloatArray, n: FloatArray) -> FloatArray:
    out: FloatArray = np.divide(total, n, out=np.zeros_like(total), where=n > 0)
    return out


def _shrunk_cosine(common: FloatArray, cosine: FloatArray, shrinkage: float) -> FloatArray:
    with np.errstate(invalid="ignore"):
        return np.where(common > 0, common / (common + shrinkage) * cosine, 0.0)


@recommender("nncosngbr-ib")
class NNCosNgbrIB(ItemLimited):
    """NNCosNgbr over items."""

    n_neighbours: int = Field(default=100, ge=1)
    similarity_shrinkage: float = Field(default=100.0, ge=0)
    user_shrinkage: float = Field(default=10.0, ge=0)
    item_shrinkage: float = Field(default=25.0, ge=0)

    def fit(self, train: Any, fitting: Fitting) -> Scorer:
        """Compute the similarities of all pairs of items."""
        kept = self.kept_items(train)
        ratings = train[:, kept]
        baseline = Baseline.of(ratings, self.user_shrinkage, self.item_shrinkage)
        residuals = baseline.residuals(ratings)
        n_items = ratings.shape[1]
        rows, rated = unit_rows(ratings.T.tocsr()), _binary(ratings.T.tocsr())
        similar = np.empty((n_items, n_items), np.float32)
        step = max(1, (1 << 22) // n_items)
        for low in range(0, n_items, step):
            part = slice(low, low + step)
            common, cosine = (rated[part] @ rated.T).toarray(), (rows[part] @ rows.T).toarray()
            similar[part] = _shrunk_cosine(common, cosine, self.similarity_shrinkage)

        def scores(users: IntArray) -> FloatArray:
            out = baseline.of_users(users)
            # Which neighbours count differs from pair to pair: one matrix of (items, rated items) for each user.
            for row, user in enumerate(users):
                mine = slice(ratings.indptr[user], ratings.indptr[user + 1])
                of_rated, left = similar[ratings.indices[mine]], residuals.data[mine]
                if len(left) > self.n_neighbours:
                    by_item = np.ascontiguousarray(of_rated.T)
                    least = np.partition(by_item, len(left) - self.n_neighbours, axis=1)[:, [-self.n_neighbours]]
                    out[row] += np.where(by_item >= least, by_item, 0) @ left
                elif len(left):
                    out[row] += left @ of_rated
            return out

        return self.spread(scores, kept, train.shape[1])

    def bytes_of_items(self, n_items: int, size: Size) -> int:
        """One similarity for each pair of items, and those of a long profile."""
        return 4 * n_items**2 + 60 * size.n_ratings + 16 * n_items * min(2000, size.n_items)


@recommender("nncosngbr-ub")
class NNCosNgbrUB(Recommender):
    """NNCosNgbr over users."""

    n_neighbours: int = Field(default=100, ge=1)
    similarity_shrinkage: float = Field(default=100.0, ge=0)
    user_shrinkage: float = Field(default=10.0, ge=0)
    item_shrinkage: float = Field(default=25.0, ge=0)

    def fit(self, train: Any, fitting: Fitting) -> Scorer:
        """Estimate the baseline; similarities follow when users are scored."""
        baseline = Baseline.of(train, self.user_shrinkage, self.item_shrinkage)
        residuals = baseline.residuals(train)
        rows, rated = unit_rows(train), _binary(train)
        n_items = train.shape[1]

        def scores(users: IntArray) -> FloatArray:
            out = baseline.of_users(users)
            step = max(1, (1 << 22) // train.shape[0])
            for low in range(0, len(users), step):
                part = users[low : low + step]
                common, cosine = (rated[part] @ rated.T).toarray(), (rows[part] @ rows.T).toarray()
                similar = _shrunk_cosine(common, cosine, self.similarity_shrinkage)
                similar[np.arange(len(part)), part] = 0
                # Which neighbours count differs from item to item: the raters of each item in order, for each user.
                for row, weights in enumerate(similar, start=low):
                    order = np.lexsort((np.arange(len(weights)), weights))[::-1]
                    order = order[: np.count_nonzero(weights)]
                    ranked = residuals[order].tocsc()
                    item = np.repeat(np.arange(n_items), np.diff(ranked.indptr))
                    first = np.arange(len(item)) - ranked.indptr[item] < self.n_neighbours
                    product = (weights[order][ranked.indices] * ranked.data)[first]
                    out[row] += np.bincount(item[first], product, n_items)
            return out

        return scores

    def fit_bytes(self, size: Size) -> int:
        """Ratings as unit rows, ones and residuals, those residuals reordered, and a block of similarities."""
        return 80 * size.n_ratings + 48 * max(size.n_users, 1 << 22)
