"""Weighted sum recommender (WSR), with cosine or language models for the neighbourhoods (Valcarce et al., 2016b).

UB: sum over the neighbours v of u of s(u, v) r_vi. IB: sum over the neighbours j of i of s(i, j) r_uj. No denominator
and no bias. The formulas are recalled from the literature and were not read again; what is open is a parameter.
Items that no neighbour speaks for are not recommended, so lists can be shorter than asked for.
"""

from typing import Any, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from .base import Fitting, FloatArray, IntArray, Recommender, Scorer, Size, only_positive
from .neighbours import Similarities, cosine, nearest, nearest_bytes
from .registry import recommender

__all__ = ["LMWSRIB", "LMWSRUB", "WSRIB", "WSRUB", "item_based", "language_model", "user_based"]

Smoothing = Literal["jelinek-mercer", "dirichlet", "absolute-discounting"]


def user_based(train: Any, neighbours: Any) -> Scorer:
    """Return the scorer of a weighted sum over users: N R."""
    return lambda users: only_positive((neighbours[users] @ train).toarray())


def item_based(train: Any, neighbours: Any) -> Scorer:
    """Return the scorer of a weighted sum over items: R N^T."""
    transposed = neighbours.T.tocsr()
    return lambda users: only_positive((train[users] @ transposed).toarray())


class _WSR(Recommender):
    n_neighbours: int = Field(default=100, ge=1)

    def similarities(self, matrix: Any) -> Similarities:
        """Return what finds the neighbours among the rows of a matrix."""
        return cosine(matrix)


class _UserBased(_WSR):
    def fit(self, train: Any, fitting: Fitting) -> Scorer:
        """Find the neighbours of all users."""
        return user_based(train, nearest(self.similarities(train), train.shape[0], self.n_neighbours))

    def fit_bytes(self, size: Size) -> int:
        """Neighbours of users."""
        return nearest_bytes(size.n_users, self.n_neighbours, size.n_ratings)


class _ItemBased(_WSR):
    def fit(self, train: Any, fitting: Fitting) -> Scorer:
        """Find the neighbours of all items."""
        by_item = train.T.tocsr()
        return item_based(train, nearest(self.similarities(by_item), train.shape[1], self.n_neighbours))

    def fit_bytes(self, size: Size) -> int:
        """Neighbours of items."""
        return nearest_bytes(size.n_items, self.n_neighbours, size.n_ratings) + 12 * size.n_ratings


@recommender("wsr-ub")
class WSRUB(_UserBased):
    """WSR over users, by the cosine of their ratings."""


@recommender("wsr-ib")
class WSRIB(_ItemBased):
    """WSR over items, by the cosine of their ratings."""


def language_model(matrix: Any, smoothing: Smoothing, weight: float) -> Similarities:
    """Return how likely each row's language model makes the ratings of another: sum_i r_ui log p(i|v).

    p is smoothed with pC, the share of a column in all ratings: p(i|v) = lambda_v pC(i) where v has no rating, and more
    where it has one. Neighbours are ordered by the likelihood, exactly; their weight is what v's ratings add to it,
    sum_i r_ui log(p(i|v) / (lambda_v pC(i))): sparse and never negative, where raw log p would turn the sum around.

    Args:
        matrix: (rows, columns) of ratings.
        smoothing: ``jelinek-mercer``: (1 - w) r_vi / |v| + w pC; ``dirichlet``: (r_vi + w pC) / (|v| + w);
            ``absolute-discounting``: (max(r_vi - w, 0) + w |I_v| pC) / |v|.
        weight: w.
    """
    from scipy import sparse

    n_rows = matrix.shape[0]
    lengths = np.asarray(matrix.sum(axis=1)).ravel()
    collection = np.asarray(matrix.sum(axis=0)).ravel() / matrix.sum()
    counts = np.diff(matrix.indptr)
    of_row = np.repeat(np.arange(n_rows), counts)
    rating, background = matrix.data, collection[matrix.indices]
    with np.errstate(divide="ignore", invalid="ignore"):  # empty rows, which are nobody's neighbour
        if smoothing == "jelinek-mercer":
            added = (1 - weight) / weight * rating / (lengths[of_row] * background)
            share = np.full(n_rows, weight)
        elif smoothing == "dirichlet":
            added = rating / (weight * background)
            share = weight / (lengths + weight)
        else:
            added = np.maximum(rating - weight, 0) / (weight * counts[of_row] * background)
            share = weight * counts / lengths
        log_share = np.where(counts > 0, np.log(share), 0.0)
    gains = sparse.csr_matrix((np.log1p(added), matrix.indices, matrix.indptr), shape=matrix.shape).T.tocsr()

    def similarities(at: IntArray) -> tuple[FloatArray, FloatArray]:
        weights = (matrix[at] @ gains).toarray()
        return weights + np.outer(lengths[at], log_share), weights

    return similarities


_DEFAULT_WEIGHTS = {"jelinek-mercer": 0.5, "dirichlet": 100.0, "absolute-discounting": 0.1}
_WEIGHTS_BELOW = {"jelinek-mercer": 1.0, "absolute-discounting": 0.5}
"""1 leaves no weight to the ratings; the lowest ratings are 0.5, and discounting may not take all of one."""


class _LanguageModel(_WSR):
    smoothing: Smoothing = "jelinek-mercer"
    smoothing_weight: float | None = Field(default=None, gt=0)
    """w; None: 0.5 (Jelinek-Mercer, below 1), 100 (Dirichlet), 0.1 (absolute discounting, below 0.5)."""

    @model_validator(mode="after")
    def _check_weight(self) -> Self:
        below = _WEIGHTS_BELOW.get(self.smoothing)
        if self.smoothing_weight is not None and below is not None and self.smoothing_weight >= below:
            raise ValueError(
                f"smoothing_weight is {self.smoothing_weight:g}; {self.smoothing} needs one below {below:g}"
            )
        return self

    def similarities(self, matrix: Any) -> Similarities:
        """Return the language models of the rows."""
        return language_model(matrix, self.smoothing, self.smoothing_weight or _DEFAULT_WEIGHTS[self.smoothing])


@recommender("lm-wsr-ub")
class LMWSRUB(_LanguageModel, _UserBased):
    """WSR over users whose language models make the user's ratings likely."""


@recommender("lm-wsr-ib")
class LMWSRIB(_LanguageModel, _ItemBased):
    """WSR over items whose language models make the item's ratings likely."""
