"""Beyond the paper: which pooled pairs to judge when not all can be, without judging popular items more than others.

The share of pairs that are judged, by people or by the judge, is made equal across strata of popularity; within a
stratum the pairs go first that stand high in many lists.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from ...hf_datasets.errors import ConfigError

__all__ = ["Completion", "choose_pairs", "equal_shares", "pair_values"]

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Completion:
    """The pairs to judge, and how the strata stand afterwards."""

    chosen: BoolArray
    """(pairs,) of the pool."""
    strata: list[dict[str, Any]]
    """``lowest`` and ``highest`` count, ``n_pairs``, ``n_rated``, ``n_chosen``, ``share_judged``."""


def choose_pairs(pool: pa.Table, values: FloatArray, n_pairs: int, *, n_strata: int = 5) -> Completion:
    """Choose pairs to judge.

    Args:
        pool: ``rating`` (null: a hole) and ``count`` of each pair.
        values: of each pair; the highest go first, equal ones in the order of the pool.
        n_pairs: how many.
        n_strata: of popularity, each with about as many pairs.

    Raises:
        ConfigError: fewer than one pair or stratum.
    """
    if n_pairs < 1 or n_strata < 1:
        raise ConfigError(f"n_pairs is {n_pairs} and n_strata {n_strata}; both must be 1 or more.")
    count = pool["count"].to_numpy()
    is_rated = ~np.isnan(pool["rating"].to_numpy().astype(np.float64))
    edges = np.unique(np.quantile(count, np.arange(1, n_strata) / n_strata))
    stratum = np.searchsorted(edges, count, side="right")
    n = int(stratum.max()) + 1
    sizes, rated = np.bincount(stratum, minlength=n), np.bincount(stratum[is_rated], minlength=n)
    wanted = equal_shares(sizes, rated, n_pairs)
    chosen = np.zeros(len(count), np.bool_)
    strata = []
    for place in range(n):
        holes = np.flatnonzero((stratum == place) & ~is_rated)
        best = holes[np.argsort(-values[holes], kind="stable")][: wanted[place]]
        chosen[best] = True
        own = count[stratum == place]
        if len(own):
            strata.append(
                {
                    "lowest": int(own.min()),
                    "highest": int(own.max()),
                    "n_pairs": len(own),
                    "n_rated": int(rated[place]),
                    "n_chosen": len(best),
                    "share_judged": (int(rated[place]) + len(best)) / len(own),
                }
            )
    return Completion(chosen, strata)


def equal_shares(sizes: IntArray, rated: IntArray, n_pairs: int) -> IntArray:
    """Return how many holes to fill in each stratum, so that the judged shares are as equal as can be.

    Strata where people judged a greater share already get none; the others are brought to one share.

    Args:
        sizes: pairs of each stratum.
        rated: of them, judged by people.
        n_pairs: to be judged besides; what exceeds the holes is not used.

    >>> equal_shares(np.array([100, 100]), np.array([30, 10]), 40).tolist()
    [10, 30]
    >>> equal_shares(np.array([100, 100]), np.array([90, 10]), 40).tolist()
    [0, 40]
    """
    holes = sizes - rated
    n_pairs = min(n_pairs, int(holes.sum()))
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        if np.maximum(middle * sizes - rated, 0).sum() < n_pairs:
            low = middle
        else:
            high = middle
    exact = np.clip(high * sizes - rated, 0, holes)
    wanted: IntArray = np.floor(exact + 1e-9).astype(np.int64)
    rest = np.argsort(-(exact - wanted), kind="stable")
    for place in rest:
        if wanted.sum() >= n_pairs:
            break
        wanted[place] += int(wanted[place] < holes[place])
    return wanted


def pair_values(runs: pa.Table, pool: pa.Table) -> FloatArray:
    """Return the rank-based value of each pooled pair: the sum over runs of 1 / log2(rank + 1).

    Args:
        runs: ``system``, ``user``, ``item``, best first within each list.
        pool: ``user``, ``item``.
    """
    frame = pd.DataFrame({name: runs[name].cast(pa.string()).to_pandas() for name in ("system", "user", "item")})
    rank = frame.groupby(["system", "user"], sort=False).cumcount() + 1
    frame["value"] = 1 / np.log2(rank.to_numpy() + 1)
    value = frame.groupby(["user", "item"], sort=False)["value"].sum().reset_index()
    shown = pool.select(["user", "item"]).to_pandas()
    found: FloatArray = shown.merge(value, on=["user", "item"], how="left")["value"].fillna(0).to_numpy(np.float64)
    return found
