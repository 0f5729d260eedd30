"""The k nearest rows of every row of a matrix, as a sparse matrix of weights; a block of rows at a time."""

from collections.abc import Callable
from typing import Any

import numpy as np

from .base import FloatArray, IntArray, block_users
from .topk import top_k

__all__ = ["cosine", "nearest", "nearest_bytes", "unit_rows"]

Similarities = Callable[[IntArray], tuple[FloatArray, FloatArray]]
"""From rows to (what orders their neighbours, the neighbours' weights), both (rows, all rows)."""


def unit_rows(matrix: Any) -> Any:
    """Return a sparse matrix whose rows have length 1 (empty ones stay empty)."""
    from scipy import sparse

    norms = np.sqrt(np.asarray(matrix.multiply(matrix).sum(axis=1)).ravel())
    return (sparse.diags(np.divide(1, norms, out=np.zeros_like(norms), where=norms > 0)) @ matrix).tocsr()


def cosine(matrix: Any) -> Similarities:
    """Return the cosine of rows of raw ratings, missing ones as 0."""
    rows = unit_rows(matrix)
    transposed = rows.T.tocsr()

    def similarities(at: IntArray) -> tuple[FloatArray, FloatArray]:
        found = (rows[at] @ transposed).toarray()
        return found, found

    return similarities


def nearest(similarities: Similarities, n: int, k: int) -> Any:
    """Return the k nearest other rows of each row, (n, n) csr_matrix of their weights.

    Only rows with a weight > 0 are neighbours. Ties go to the later row.
    """
    from scipy import sparse

    columns, weights, counts = [], [], []
    at_once = block_users(n)
    for low in range(0, n, at_once):
        at = np.arange(low, min(low + at_once, n))
        order, weight = similarities(at)
        order = np.where(weight > 0, order, -np.inf)
        order[np.arange(len(at)), at] = -np.inf
        found, _ = top_k(order, k)
        there = found >= 0
        columns.append(found[there])
        weights.append(np.take_along_axis(weight, np.maximum(found, 0), axis=1)[there])
        counts.append(there.sum(axis=1))
    ends = np.concatenate([[0], np.cumsum(np.concatenate(counts))])
    matrix = sparse.csr_matrix((np.concatenate(weights), np.concatenate(columns), ends), shape=(n, n))
    matrix.sort_indices()
    return matrix


def nearest_bytes(n: int, k: int, n_ratings: int) -> int:
    """Estimate the memory of :func:`nearest`: unit rows twice, neighbours twice (when joined), a block of rows."""
    return 24 * n_ratings + 24 * n * min(k, n) + 40 * max(n, 1 << 22)
