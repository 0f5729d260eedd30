"""What every recommender is: parameters, an estimate of the memory it needs, and ``fit``."""

import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from ...hf_datasets.errors import ConfigError

__all__ = [
    "BLOCK_CELLS",
    "Fitting",
    "FloatArray",
    "IntArray",
    "ItemLimited",
    "Recommender",
    "Scorer",
    "Size",
    "block_users",
    "needs",
    "only_positive",
]

IntArray = NDArray[np.int64]
FloatArray = NDArray[Any]
Scorer = Callable[[IntArray], FloatArray]
"""From the rows of users to their scores, (users, items); ``-inf``: this item is not recommended."""

BLOCK_CELLS = 1 << 22
"""Scores held at once."""


@dataclass(frozen=True)
class Size:
    """Of a training matrix."""

    n_users: int
    n_items: int
    n_ratings: int


@dataclass(frozen=True)
class Fitting:
    """What a fit depends on besides its parameters."""

    seed: int = 0
    n_threads: int = 2
    """Of BLAS and of the libraries that have threads of their own and give the same result with any number."""


def block_users(n_items: int) -> int:
    """Return how many users are scored at once, so that memory is bounded."""
    return max(1, BLOCK_CELLS // max(n_items, 1))


class Recommender(BaseModel, ABC):
    """A recommender with its parameters."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    algorithm: ClassVar[str]
    """Its name in the registry."""
    version: ClassVar[int] = 1
    """Raised where the same parameters give other scores: finished runs are then made again."""
    libraries: ClassVar[tuple[str, ...]] = ("numpy", "scipy")
    """The distributions whose versions determine the scores."""

    @abstractmethod
    def fit(self, train: Any, fitting: Fitting) -> Scorer:
        """Fit on training ratings and return what scores users.

        Args:
            train: (users, items) csr_matrix of ratings > 0, float64, column indices sorted. It is not changed.
            fitting: seed and threads.
        """

    @abstractmethod
    def fit_bytes(self, size: Size) -> int:
        """Estimate the most memory, in bytes, that fitting and scoring take beyond ``train`` and a block of scores."""


class ItemLimited(Recommender):
    """A recommender over pairs of items: memory grows with the square of their number, so it can be cut."""

    max_items: int | None = Field(default=None, ge=1)
    """Only so many items, those with the most ratings (equal: the last column), are modelled and recommended."""

    @abstractmethod
    def bytes_of_items(self, n_items: int, size: Size) -> int:
        """Estimate the memory for so many items."""

    def fit_bytes(self, size: Size) -> int:
        """Estimate the memory for the items that are left."""
        return self.bytes_of_items(min(size.n_items, self.max_items or size.n_items), size)

    def largest_fit(self, size: Size, n_bytes: int) -> int:
        """Return the most items that fit into so many bytes."""
        low, high = 0, size.n_items
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if self.bytes_of_items(middle, size) <= n_bytes else (low, middle - 1)
        return low

    def kept_items(self, train: Any) -> IntArray:
        """Return the columns that are modelled, in order."""
        n_items = train.shape[1]
        if self.max_items is None or self.max_items >= n_items:
            return np.arange(n_items)
        counts = np.bincount(train.indices, minlength=n_items)
        return np.sort(np.argsort(counts, kind="stable")[n_items - self.max_items :])

    def spread(self, scorer: Scorer, kept: IntArray, n_items: int) -> Scorer:
        """Return a scorer of all items from one of the kept ones."""
        if len(kept) == n_items:
            return scorer

        def scores(users: IntArray) -> FloatArray:
            of_kept = scorer(users)
            out = np.full((len(users), n_items), -np.inf, dtype=of_kept.dtype)
            out[:, kept] = of_kept
            return out

        return scores


def only_positive(scores: FloatArray) -> FloatArray:
    """Return scores with -inf where there is no evidence for an item (score 0)."""
    return np.where(scores > 0, scores, -np.inf)


def needs(module: str, distribution: str) -> ModuleType:
    """Import a library of the extra ``recsys``.

    Raises:
        ConfigError: it is not installed.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise ConfigError(f"{distribution} is not installed ({error}): pip install 'gistbench[recsys]'.") from error
