"""Linear models: SLIM and EASE over items, LRec over users."""

from typing import Any, Literal

import numpy as np
from pydantic import Field

from .base import Fitting, FloatArray, IntArray, ItemLimited, Recommender, Scorer, Size
from .registry import recommender

__all__ = ["EASE", "SLIM", "LRec"]


def _binary(matrix: Any) -> Any:
    binary = matrix.copy()
    binary.data = np.ones_like(binary.data)
    return binary


@recommender("slim")
class SLIM(ItemLimited):
    """Sparse linear methods (Ning and Karypis, 2011): A W with W >= 0, zero diagonal, an elastic net per item.

    Minimises 1/2 ||a_j - A w_j||^2 + l2/2 ||w_j||^2 + l1 ||w_j||_1 for each item j, by scikit-learn. A is 1 where there
    is a rating. Items whose co-ratings with j do not exceed l1 cannot have a weight, so they are left out beforehand.
    """

    libraries = ("scikit-learn", "numpy", "scipy")

    l1: float = Field(default=1.0, ge=0)
    l2: float = Field(default=10.0, gt=0)
    n_iterations: int = Field(default=100, ge=1)
    tolerance: float = Field(default=1e-3, gt=0)

    def fit(self, train: Any, fitting: Fitting) -> Scorer:
        """Fit one elastic net for each item."""
        import warnings

        from scipy import sparse
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.linear_model import ElasticNet

        kept = self.kept_items(train)
        ratings = _binary(train[:, kept]).astype(np.float64)
        by_item = ratings.tocsc()
        transposed = ratings.T.tocsr()
        n_users, n_items = ratings.shape
        model = ElasticNet(
            alpha=(self.l1 + self.l2) / n_users,
            l1_ratio=self.l1 / (self.l1 + self.l2),
            fit_intercept=False,
            positive=True,
            copy_X=False,
            max_iter=self.n_iterations,
            tol=self.tolerance,
        )
        rows, columns, values = [], [], []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            for item in range(n_items):
                target = by_item[:, [item]]
                together = np.asarray((transposed @ target).todense()).ravel()
                together[item] = 0
                candidates = np.flatnonzero(together > self.l1)
                if not len(candidates):
                    continue
                model.fit(by_item[:, candidates], target.toarray().ravel())
                weights = np.asarray(model.coef_).ravel()
                found = np.flatnonzero(weights)
                rows.append(candidates[found])
                columns.append(np.full(len(found), item))
                values.append(weights[found])
        if not rows:
            rows, columns, values = [np.empty(0, np.int64)], [np.empty(0, np.int64)], [np.empty(0)]
        where = (np.concatenate(rows), np.concatenate(columns))
        matrix = sparse.csr_matrix((np.concatenate(values), where), shape=(n_items, n_items))

        def scores(users: IntArray) -> FloatArray:
            found = (ratings[users] @ matrix).toarray()
            return np.where(found > 0, found, -np.inf)

        return self.spread(scores, kept, train.shape[1])

    def bytes_of_items(self, n_items: int, size: Size) -> int:
        """All weights that there could be, 12 bytes each, and two copies of the ratings."""
        return 12 * n_items**2 + 24 * size.n_ratings


@recommender("ease")
class EASE(ItemLimited):
    """Shallow autoencoder (Steck, 2019): P = (X^T X + lambda I)^-1, B_ij = -P_ij / P_jj, zero diagonal, scores X B.

    X is 1 where there is a rating.
    """

    regularisation: float = Field(default=500.0, gt=0)
    """lambda."""

    def fit(self, train: Any, fitting: Fitting) -> Scorer:
        """Invert the Gram matrix of the items, in place."""
        from scipy.linalg import lapack

        kept = self.kept_items(train)
        ratings = _binary(train[:, kept]).astype(np.float64)
        n_items, step = len(kept), 1024
        transposed, by_item = ratings.T.tocsr(), ratings.tocsc()
        gram = np.empty((n_items, n_items), order="F")
        for low in range(0, n_items, step):
            gram[:, low : low + step] = (transposed @ by_item[:, low : low + step]).toarray()
        np.einsum("ii->i", gram)[...] += self.regularisation
        factor, _ = lapack.dpotrf(gram, lower=1, overwrite_a=1)
        inverse, _ = lapack.dpotri(factor, lower=1, overwrite_c=1)  # only its lower triangle
        del gram, factor
        for low in range(0, n_items, step):  # mirrored, a stripe of columns at a time
            high = min(low + step, n_items)
            inverse[low:high, high:] = inverse[high:, low:high].T
            corner = np.tril(inverse[low:high, low:high])
            inverse[low:high, low:high] = corner + np.tril(corner, -1).T
        inverse = inverse.T  # the same matrix, but rows lie together: a product with sparse rows needs no copy
        inverse /= -np.diag(inverse).copy()
        np.fill_diagonal(inverse, 0)

        def scores(users: IntArray) -> FloatArray:
            found: FloatArray = ratings[users] @ inverse
            return found

        return self.spread(scores, kept, train.shape[1])

    def bytes_of_items(self, n_items: int, size: Size) -> int:
        """The Gram matrix, which becomes the weights in place, a stripe of it, and four copies of the ratings."""
        return 8 * n_items**2 + 30 * n_items * 1024 + 48 * size.n_ratings


@recommender("lrec")
class LRec(Recommender):
    """Linear regression over users (Sedhain et al., 2016): for each user one model over items, l2-regularised.

    An item is described by who rated it, and labelled by whether this user did. ``logistic``: scores are its decision
    values, by scikit-learn (liblinear). ``squared`` has the closed form W = K (K + lambda I)^-1, K = R R^T, scores W R.
    """

    libraries = ("scikit-learn", "numpy", "scipy")

    loss: Literal["logistic", "squared"] = "logistic"
    regularisation: float = Field(default=1.0, gt=0)
    """lambda."""

    def fit(self, train: Any, fitting: Fitting) -> Scorer:
        """Fit when users are scored (logistic), or all at once (squared)."""
        ratings = _binary(train).astype(np.float64)
        if self.loss == "logistic":
            return self._logistic(ratings, fitting)
        from scipy.linalg import cho_factor, cho_solve

        gram = (ratings @ ratings.T).toarray()
        ridge = gram.copy()
        ridge.flat[:: len(ridge) + 1] += self.regularisation
        weights = cho_solve(cho_factor(ridge, overwrite_a=True), gram, overwrite_b=True).T
        return lambda users: weights[users] @ ratings

    def _logistic(self, ratings: Any, fitting: Fitting) -> Scorer:
        from sklearn.linear_model import LogisticRegression

        by_item = ratings.T.tocsr()

        def scores(users: IntArray) -> FloatArray:
            out = np.zeros((len(users), ratings.shape[1]))
            for row, user in enumerate(users):
                rated = ratings[[user]].toarray().ravel() > 0
                if rated.all() or not rated.any():
                    continue
                model = LogisticRegression(
                    C=1 / self.regularisation, solver="liblinear", random_state=fitting.seed % (1 << 31)
                )
                out[row] = model.fit(by_item, rated).decision_function(by_item)
            return out

        return scores

    def fit_bytes(self, size: Size) -> int:
        """Two copies of the ratings; with ``squared`` the users' Gram matrix, its factor and the weights."""
        return 30 * size.n_ratings + (0 if self.loss == "logistic" else 24 * size.n_users**2)
