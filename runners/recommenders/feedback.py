"""Rocchio's feedback models as recommenders: RSV, CHI2 and KLD (Valcarce et al., 2016a).

The k nearest users by cosine are the relevant documents: A = N R with N binary, p the row-normalised A, pC(i) the share
of item i in all ratings. Only items with A > 0 are ranked. The formulas are recalled from the literature and were not
read again.
"""

from abc import abstractmethod
from typing import Any

import numpy as np
from pydantic import Field

from .base import Fitting, FloatArray, IntArray, Recommender, Scorer, Size
from .neighbours import cosine, nearest, nearest_bytes
from .registry import recommender

__all__ = ["CHI2", "KLD", "RSV"]


class _Feedback(Recommender):
    n_neighbours: int = Field(default=100, ge=1)

    @staticmethod
    @abstractmethod
    def weight(mean: FloatArray, p: FloatArray, background: FloatArray) -> FloatArray:
        """Return the score of items.

        Args:
            mean: A / |V_u|, (users, items).
            p: their share in the neighbours' ratings, (users, items).
            background: pC, (items,).
        """

    def fit(self, train: Any, fitting: Fitting) -> Scorer:
        """Find the neighbours of all users."""
        neighbours = nearest(cosine(train), train.shape[0], self.n_neighbours)
        neighbours.data = np.ones_like(neighbours.data)
        background = np.asarray(train.sum(axis=0)).ravel() / train.sum()

        def scores(users: IntArray) -> FloatArray:
            chosen = neighbours[users]
            votes = (chosen @ train).toarray()
            n = np.maximum(np.diff(chosen.indptr), 1)[:, None]
            with np.errstate(divide="ignore", invalid="ignore"):  # where there is no vote, and no score
                found = self.weight(votes / n, votes / votes.sum(axis=1, keepdims=True), background)
            return np.where(votes > 0, found, -np.inf)

        return scores

    def fit_bytes(self, size: Size) -> int:
        """Neighbours of users, and some blocks of scores."""
        return nearest_bytes(size.n_users, self.n_neighbours, size.n_ratings) + 32 * max(size.n_items, 1 << 22)


@recommender("rsv")
class RSV(_Feedback):
    """Robertson's selection value: (A / |V_u|) (p - pC)."""

    @staticmethod
    def weight(mean: FloatArray, p: FloatArray, background: FloatArray) -> FloatArray:
        """Return the score of items."""
        out: FloatArray = mean * (p - background)
        return out


@recommender("chi2")
class CHI2(_Feedback):
    """Chi-squared: (p - pC)^2 / pC."""

    @staticmethod
    def weight(mean: FloatArray, p: FloatArray, background: FloatArray) -> FloatArray:
        """Return the score of items."""
        out: FloatArray = (p - background) ** 2 / background
        return out


@recommender("kld")
class KLD(_Feedback):
    """Kullback-Leibler: p log(p / pC)."""

    @staticmethod
    def weight(mean: FloatArray, p: FloatArray, background: FloatArray) -> FloatArray:
        """Return the score of items."""
        out: FloatArray = p * np.log(p / background)
        return out
