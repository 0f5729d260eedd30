"""Judges with a known error, to see what the experiments make of them. No model, no engine.

The truth of a pair is what people rated, where they did; elsewhere it is what a matrix factorisation of all ratings,
held-out ones included, says. A simulated judge sees the truth through noise, and may favour popular items.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["SimulatedJudge", "Truth", "factorised_truth", "head_only"]

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Truth:
    """What each user thinks of some items."""

    user: pa.Array
    item: pa.Array
    rating: FloatArray
    """From 0 to 5, (pairs,)."""
    popularity: FloatArray
    """Of the item: its place by number of training ratings, from 0 to 1, (pairs,)."""


@dataclass(frozen=True)
class SimulatedJudge:
    """Grades the truth with an error that is known."""

    error: float = 0.0
    """Standard deviation of the noise, in rating points."""
    popularity_bias: float = 0.0
    """What the most popular item gains, in rating points, and the least popular one loses: against the mean of what
    the place is counted among, so that there it is no general kindness."""
    bias: float = 0.0
    """What every item gains, in rating points."""

    def grades(self, truth: Truth, seed: int) -> pa.Table:
        """Return ``user``, ``item``, ``grade`` from 0 to 5.

        Args:
            truth: of the pairs.
            seed: of the noise.

        >>> truth = Truth(pa.array(["u", "u"]), pa.array(["a", "b"]), np.array([4.6, 1.2]), np.array([1.0, 0.0]))
        >>> SimulatedJudge().grades(truth, 0)["grade"].to_pylist()
        [5, 1]
        """
        rng = np.random.default_rng(seed)
        noisy = truth.rating + self.bias + rng.normal(0, 1, len(truth.rating)) * self.error
        noisy = noisy + self.popularity_bias * (2 * truth.popularity - 1)
        grade = np.clip(np.floor(noisy + 0.5), 0, 5).astype(np.int64)
        return pa.table({"user": truth.user, "item": truth.item, "grade": grade})


def factorised_truth(
    ratings: pa.Table,
    pairs: pa.Table,
    *,
    n_factors: int = 20,
    shrinkage: float = 10.0,
    popularity_among: Literal["pairs", "items"] = "pairs",
) -> Truth:
    """Return the truth of pairs, from all ratings.

    Args:
        ratings: ``user``, ``item``, ``rating``, ``split``. Popularity counts those of the training side.
        pairs: ``user``, ``item``; all users are in ``ratings``. An item without ratings has the user's mean.
        n_factors: of the singular value decomposition of what biases leave.
        shrinkage: of the biases: as many ratings of no bias are added.
        popularity_among: what an item's place is counted among. Pooled pairs are mostly of popular items, so counted
            among all items of a catalogue with a long tail nearly all of them stand near 1.
    """
    from scipy import sparse
    from scipy.sparse.linalg import svds

    users, items = (pc.unique(ratings[name].cast(pa.string())) for name in ("user", "item"))
    user, item = (_codes(ratings[name], texts) for name, texts in (("user", users), ("item", items)))
    rating = ratings["rating"].to_numpy().astype(np.float64)
    mean = float(rating.mean())
    of_item = _bias(item, rating - mean, len(items), shrinkage)
    of_user = _bias(user, rating - mean - of_item[item], len(users), shrinkage)
    rest = rating - mean - of_item[item] - of_user[user]
    matrix = sparse.csr_matrix((rest, (user, item)), shape=(len(users), len(items)))
    k = min(n_factors, min(matrix.shape) - 1)
    u, s, v = svds(matrix, k=k, v0=np.ones(min(matrix.shape)))
    pair_user, pair_item = _codes(pairs["user"], users), _codes(pairs["item"], items, missing=True)
    known = pair_item >= 0
    at = np.where(known, pair_item, 0)
    predicted = mean + of_user[pair_user] + known * (of_item[at] + ((u * s)[pair_user] * v.T[at]).sum(axis=1))
    in_training = pc.equal(ratings["split"], "train").to_numpy(zero_copy_only=False)
    count = np.bincount(item[in_training], minlength=len(items))
    own = np.where(known, count[at], 0)
    among = np.sort(own if popularity_among == "pairs" else count)
    # The middle of those with the same count.
    place = (np.searchsorted(among, own, side="left") + np.searchsorted(among, own, side="right")) / (2 * len(among))
    truth = np.clip(predicted, 0.5, 5)
    return Truth(
        pairs["user"].cast(pa.string()).combine_chunks(),
        pairs["item"].cast(pa.string()).combine_chunks(),
        _where_rated(truth, pair_user, pair_item, user, item, rating, len(items)),
        place,
    )


def head_only(ratings: pa.Table, share: float = 0.1) -> pa.Table:
    """Return the ratings of the items that are rated most, as in a catalogue of best-sellers (Experiment 4).

    Args:
        ratings: with a column ``item``.
        share: of the items, rounded up.
    """
    counted = ratings["item"].value_counts()
    items, counts = counted.field("values").cast(pa.string()), counted.field("counts").to_numpy()
    n = int(np.ceil(share * len(counts)))
    kept = items.take(pa.array(np.lexsort((items.to_numpy(zero_copy_only=False), -counts))[:n]))
    return ratings.filter(pc.is_in(ratings["item"].cast(pa.string()), value_set=kept))


def _where_rated(
    truth: FloatArray,
    pair_user: IntArray,
    pair_item: IntArray,
    user: IntArray,
    item: IntArray,
    rating: FloatArray,
    n_items: int,
) -> FloatArray:
    """Put people's ratings in the place of predictions."""
    keys = user * n_items + item
    order = np.argsort(keys)
    wanted = pair_user * n_items + np.where(pair_item >= 0, pair_item, 0)
    at = np.minimum(np.searchsorted(keys[order], wanted), len(keys) - 1)
    hit = (keys[order][at] == wanted) & (pair_item >= 0)
    found: FloatArray = np.where(hit, rating[order][at], truth)
    return found


def _bias(code: IntArray, rest: FloatArray, n: int, shrinkage: float) -> FloatArray:
    sums, counts = np.bincount(code, weights=rest, minlength=n), np.bincount(code, minlength=n)
    bias: FloatArray = sums / (counts + shrinkage)
    return bias


def _codes(column: pa.ChunkedArray, texts: pa.Array, *, missing: bool = False) -> IntArray:
    place = pc.index_in(column.cast(pa.string()), value_set=texts)
    if missing:
        place = place.fill_null(-1)
    return np.asarray(place.to_numpy(), dtype=np.int64)
