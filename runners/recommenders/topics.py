"""Topic models of ratings: PLSA and LDA. A user is a document, an item a word, a rating how often it stands there."""

from typing import Any

import numpy as np
from pydantic import Field

from .base import Fitting, FloatArray, Recommender, Scorer, Size
from .registry import recommender

__all__ = ["LDA", "PLSA"]

_CELLS_AT_ONCE = 1 << 22
_TINY = 1e-100


@recommender("plsa")
class PLSA(Recommender):
    """Probabilistic latent semantic analysis (Hofmann, 2004), by EM: scores sum_z P(i|z) P(z|u).

    E step: P(z|u,i) proportional to P(i|z) P(z|u); M step: both factors from these, weighted by r_ui. The
    objective is that of non-negative matrix factorisation with the Kullback-Leibler divergence.
    """

    n_topics: int = Field(default=50, ge=1)
    n_iterations: int = Field(default=50, ge=1)

    def fit(self, train: Any, fitting: Fitting) -> Scorer:
        """Run EM from a seeded start."""
        rng = np.random.default_rng(fitting.seed)
        n_users, n_items = train.shape
        of_users = _normalised(rng.random((n_users, self.n_topics)) + 0.5)  # P(z|u)
        of_topics = _normalised(rng.random((self.n_topics, n_items)) + 0.5)  # P(i|z)
        rows = np.repeat(np.arange(n_users), np.diff(train.indptr))
        ratio = train.astype(np.float64)
        for _ in range(self.n_iterations):
            # r_ui / sum_z P(i|z) P(z|u) of the rated pairs: summed with a factor it is the E and M step in one.
            by_item = np.ascontiguousarray(of_topics.T)
            ratio.data = train.data / np.maximum(_products(of_users, by_item, rows, train.indices), _TINY)
            new_users = of_users * (ratio @ by_item)
            of_topics = _normalised(of_topics * np.asarray(ratio.T @ of_users).T)
            of_users = _normalised(new_users)
        return lambda users: of_users[users] @ of_topics

    def fit_bytes(self, size: Size) -> int:
        """Both factors, old and new, and the ratios by user and by item."""
        return 40 * size.n_ratings + 32 * self.n_topics * (size.n_users + size.n_items)


def _products(of_users: FloatArray, of_items: FloatArray, rows: FloatArray, columns: FloatArray) -> FloatArray:
    """Return the dot product for each (row, column), a part at a time."""
    out = np.empty(len(rows))
    at_once = max(1, _CELLS_AT_ONCE // of_users.shape[1])
    for low in range(0, len(rows), at_once):
        part = slice(low, low + at_once)
        out[part] = np.einsum("nz,nz->n", of_users[rows[part]], of_items[columns[part]])
    return out


def _normalised(rows: FloatArray) -> FloatArray:
    sums = rows.sum(axis=1, keepdims=True)
    out: FloatArray = np.divide(rows, sums, out=np.full_like(rows, 1 / rows.shape[1]), where=sums > 0)
    return out


@recommender("lda")
class LDA(Recommender):
    """Latent Dirichlet allocation (Blei et al., 2003): theta_u . phi_i. By scikit-learn, variational Bayes in batches.

    The priors of users' topics and topics' items are 1 / n_topics, as in scikit-learn.
    """

    libraries = ("scikit-learn", "numpy", "scipy")

    n_topics: int = Field(default=50, ge=1)
    n_iterations: int = Field(default=20, ge=1)

    def fit(self, train: Any, fitting: Fitting) -> Scorer:
        """Fit on all users."""
        from sklearn.decomposition import LatentDirichletAllocation

        model = LatentDirichletAllocation(
            n_components=self.n_topics,
            max_iter=self.n_iterations,
            learning_method="batch",
            random_state=fitting.seed % (1 << 31),
            n_jobs=1,
        )
        of_users = model.fit_transform(train)
        of_topics = _normalised(model.components_)
        return lambda users: of_users[users] @ of_topics

    def fit_bytes(self, size: Size) -> int:
        """A copy of the ratings, and both factors with their statistics."""
        return 24 * size.n_ratings + 40 * self.n_topics * (size.n_users + size.n_items)
