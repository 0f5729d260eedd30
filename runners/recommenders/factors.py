"""Matrix factorisation: PureSVD, SVD, WRMF and BPRMF."""

from typing import Any

import numpy as np
from pydantic import Field

from .base import Fitting, FloatArray, IntArray, Recommender, Scorer, Size, needs
from .registry import recommender
from .threads import limited_threads

__all__ = ["BPRMF", "SVD", "WRMF", "PureSVD"]


def _dot(of_users: FloatArray, of_items: FloatArray) -> Scorer:
    return lambda users: of_users[users] @ of_items.T


@recommender("puresvd")
class PureSVD(Recommender):
    """R V_k V_k^T, with the k leading right singular vectors of R, missing ratings as 0 (Cremonesi et al., 2010)."""

    n_factors: int = Field(default=50, ge=1)
    """k; at most one less than users and items."""

    def fit(self, train: Any, fitting: Fitting) -> Scorer:
        """Decompose with ARPACK, from a fixed start."""
        from scipy.sparse.linalg import svds

        k = min(self.n_factors, min(train.shape) - 1)
        start = np.random.default_rng(fitting.seed).standard_normal(min(train.shape))
        _, _, vectors = svds(train.astype(np.float64), k=k, v0=start, return_singular_vectors="vh")

        def scores(users: IntArray) -> FloatArray:
            projected: FloatArray = (train[users] @ vectors.T) @ vectors
            return projected

        return scores

    def fit_bytes(self, size: Size) -> int:
        """A copy of the ratings and ARPACK's 2k + 1 vectors."""
        return 12 * size.n_ratings + 8 * (3 * self.n_factors + 1) * (size.n_users + size.n_items)


@recommender("svd")
class SVD(Recommender):
    """Biased matrix factorisation for the prediction of ratings (Koren et al., 2009): mu + b_u + b_i + p_u . q_i.

    By scikit-surprise. It predicts ratings of rated items well and ranks all items badly, which is its nature.
    """

    libraries = ("scikit-surprise", "numpy")

    n_factors: int = Field(default=100, ge=1)
    n_epochs: int = Field(default=20, ge=1)
    learning_rate: float = Field(default=0.005, gt=0)
    regularisation: float = Field(default=0.02, ge=0)

    def fit(self, train: Any, fitting: Fitting) -> Scorer:
        """Fit by stochastic gradient descent over the ratings, user by user."""
        surprise = needs("surprise", "scikit-surprise")
        n_users, n_items = train.shape
        pairs = list(zip(train.indices.tolist(), train.data.tolist(), strict=True))
        ends = train.indptr.tolist()
        # Surprise's own builder goes through raw ids row by row; this is the same object from the matrix.
        ratings = surprise.Trainset(
            ur={user: pairs[ends[user] : ends[user + 1]] for user in range(n_users)},
            ir=dict.fromkeys(range(n_items), ()),
            n_users=n_users,
            n_items=n_items,
            n_ratings=train.nnz,
            rating_scale=(float(train.data.min()), float(train.data.max())),
            raw2inner_id_users={},
            raw2inner_id_items={},
        )
        model = surprise.SVD(
            n_factors=self.n_factors,
            n_epochs=self.n_epochs,
            lr_all=self.learning_rate,
            reg_all=self.regularisation,
            random_state=fitting.seed % (1 << 32),
        )
        model.fit(ratings)
        mean, of_user, of_item, p, q = ratings.global_mean, model.bu, model.bi, model.pu, model.qi

        def scores(users: IntArray) -> FloatArray:
            predicted: FloatArray = mean + of_user[users, None] + of_item + p[users] @ q.T
            return predicted

        return scores

    def fit_bytes(self, size: Size) -> int:
        """Ratings as Python pairs, and the factors."""
        return 150 * size.n_ratings + 8 * (self.n_factors + 1) * (size.n_users + size.n_items)


@recommender("wrmf")
class WRMF(Recommender):
    """Implicit alternating least squares (Hu et al., 2008): preference 1 with confidence 1 + alpha r. By implicit."""

    libraries = ("implicit", "numpy")

    n_factors: int = Field(default=50, ge=1)
    alpha: float = Field(default=1.0, gt=0)
    regularisation: float = Field(default=0.1, ge=0)
    n_iterations: int = Field(default=15, ge=1)

    def fit(self, train: Any, fitting: Fitting) -> Scorer:
        """Alternate between users and items."""
        als = needs("implicit.als", "implicit")
        confidence = train.astype(np.float32)
        confidence.data = 1 + np.float32(self.alpha) * confidence.data
        with limited_threads(1):
            model = als.AlternatingLeastSquares(
                factors=self.n_factors,
                regularization=self.regularisation,
                alpha=1.0,
                iterations=self.n_iterations,
                use_gpu=False,
                num_threads=fitting.n_threads,
                random_state=fitting.seed % (1 << 31),
            )
            model.fit(confidence, show_progress=False)
        return _dot(model.user_factors, model.item_factors)

    def fit_bytes(self, size: Size) -> int:
        """Confidences by user and by item, and the factors."""
        return 16 * size.n_ratings + 4 * self.n_factors * (size.n_users + size.n_items)


@recommender("bprmf")
class BPRMF(Recommender):
    """Matrix factorisation for pairwise ranking, every rating a positive (Rendle et al., 2009). By implicit."""

    libraries = ("implicit", "numpy")

    n_factors: int = Field(default=50, ge=1)
    learning_rate: float = Field(default=0.05, gt=0)
    regularisation: float = Field(default=0.01, ge=0)
    n_iterations: int = Field(default=100, ge=1)

    def fit(self, train: Any, fitting: Fitting) -> Scorer:
        """Fit with one thread: several give other factors each time."""
        bpr = needs("implicit.bpr", "implicit")
        with limited_threads(1):
            model = bpr.BayesianPersonalizedRanking(
                factors=self.n_factors,
                learning_rate=self.learning_rate,
                regularization=self.regularisation,
                iterations=self.n_iterations,
                use_gpu=False,
                num_threads=1,
                random_state=fitting.seed % (1 << 31),
            )
            model.fit((train > 0).astype(np.float32).tocsr(), show_progress=False)
        return _dot(model.user_factors, model.item_factors)

    def fit_bytes(self, size: Size) -> int:
        """Positives, their users, and the factors."""
        return 16 * size.n_ratings + 4 * (self.n_factors + 1) * (size.n_users + size.n_items)
