"""Beyond the paper: does a judge favour what one family of recommenders lists?

The circularity that the paper names as future work: a judge that shares a family's errors finds its lists better than
people do. For each family, the judge's error on the held-out pairs that its runs list is compared with that on the
pairs that they do not list.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

__all__ = ["agreement_by_family", "family_of"]

FloatArray = npt.NDArray[np.float64]
IMPORTED = "imported"


def family_of(algorithm: str) -> str:
    """Return the family of an algorithm: the module of its recommender, or ``imported``."""
    from ..recommenders.registry import list_recommenders

    known = list_recommenders()
    return known[algorithm].__module__.rpartition(".")[2] if algorithm in known else IMPORTED


def agreement_by_family(
    runs: pa.Table,
    families: Mapping[str, str],
    human: pa.Table,
    grades: pa.Table,
    *,
    n_resamples: int = 1000,
    seed: int = 0,
    confidence_level: float = 0.95,
) -> pd.DataFrame:
    """Compare a judge's error between what a family lists and what it does not.

    Args:
        runs: ``system``, ``user``, ``item``.
        families: by system.
        human: ``user``, ``item``, ``rating``.
        grades: ``user``, ``item``, ``grade``.
        n_resamples: of the bootstrap, which draws users.
        seed: of the draws.
        confidence_level: of the interval.

    Returns:
        One row for each family: ``n_pairs`` listed that have both judgements, ``mae`` and ``bias`` (grade minus rating)
        on them, ``bias_elsewhere``, and ``favour``, the difference of the biases, with its interval. Above 0: the judge
        is more generous than people to what the family lists than to other items.
    """
    rated = human.select(["user", "item", "rating"]).to_pandas()
    both = rated.merge(grades.select(["user", "item", "grade"]).to_pandas(), on=["user", "item"]).dropna()
    error = (both["grade"] - both["rating"]).to_numpy(np.float64)
    user = both["user"].astype("category").cat.codes.to_numpy()
    n_users = int(user.max()) + 1 if len(user) else 0
    listed = pd.DataFrame(
        {
            "family": runs["system"].cast(pa.string()).to_pandas().map(families),
            "user": runs["user"].cast(pa.string()).to_pandas(),
            "item": runs["item"].cast(pa.string()).to_pandas(),
        }
    ).drop_duplicates()
    rng = np.random.default_rng(seed)
    drawn = rng.multinomial(n_users, np.full(n_users, 1 / n_users), n_resamples) if n_users else np.empty((0, 0))
    rows: list[dict[str, Any]] = []
    keys = pd.MultiIndex.from_frame(both[["user", "item"]])
    for family, own in listed.groupby("family", sort=True):
        inside = keys.isin(pd.MultiIndex.from_frame(own[["user", "item"]]))
        sums = np.stack(
            [np.bincount(user, weights=error * part, minlength=n_users) for part in (inside, ~inside)]
            + [np.bincount(user, weights=part.astype(float), minlength=n_users) for part in (inside, ~inside)],
            axis=1,
        )
        total = sums.sum(axis=0)
        bias, elsewhere = (total[at] / total[2 + at] if total[2 + at] else np.nan for at in (0, 1))
        low = high = np.nan
        if n_resamples > 1 and total[2] and total[3]:
            with np.errstate(invalid="ignore", divide="ignore"):
                of_draws = drawn @ sums
                favour = of_draws[:, 0] / of_draws[:, 2] - of_draws[:, 1] / of_draws[:, 3]
            tail = (1 - confidence_level) / 2
            low, high = np.nanquantile(favour, [tail, 1 - tail])
        rows.append(
            {
                "family": str(family),
                "n_pairs": int(inside.sum()),
                "mae": float(np.abs(error[inside]).mean()) if inside.any() else np.nan,
                "bias": bias,
                "bias_elsewhere": elsewhere,
                "favour": bias - elsewhere,
                "ci_favour_low": low,
                "ci_favour_high": high,
            }
        )
    return pd.DataFrame(rows)
