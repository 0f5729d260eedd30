"""Beyond the paper: a judge's grades brought to people's scale, learned on held-out pairs and never on a user's own.

The mapping from grade to rating is isotonic: it keeps the order of grades. It is cross-fitted over users: the grades of
a user are mapped by what the ratings of users in other folds say, so ratings do not leak into the grades that they are
compared with.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ...hf_datasets.errors import ConfigError, DataError
from ..draw import hash_strings, order, salt
from .experiments import mean_absolute_error

__all__ = ["Calibration", "calibrate"]

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
N_GRADES = 6


@dataclass(frozen=True)
class Calibration:
    """Calibrated grades, and what the calibration did on the pairs that people rated."""

    grades: pa.Table
    """``user``, ``item``, ``grade`` on people's scale (float; null stays null)."""
    mapping: FloatArray
    """Rating that each grade stands for, (folds, 6)."""
    n_pairs: int
    """Held-out pairs that it was learned on."""
    mae_before: float
    mae_after: float
    """Out of fold."""
    bias_before: float
    """Mean of grade minus rating."""
    bias_after: float


def calibrate(grades: pa.Table, human: pa.Table, *, n_folds: int = 5, seed: int = 0) -> Calibration:
    """Map grades to people's scale.

    Args:
        grades: ``user``, ``item``, ``grade`` from 0 to 5, null where not parsed.
        human: ``user``, ``item``, ``rating``.
        n_folds: of users.
        seed: of the folds.

    Raises:
        ConfigError: fewer than two folds.
        DataError: some fold leaves no pair that both judged.
    """
    from sklearn.isotonic import IsotonicRegression

    if n_folds < 2:
        raise ConfigError(f"n_folds is {n_folds}; cross-fitting needs 2 or more.")
    users = pc.unique(grades["user"].cast(pa.string()))
    fold_of_user = np.empty(len(users), np.int64)
    fold_of_user[order(hash_strings(users.to_pylist()), salt(seed, "folds"))] = np.arange(len(users)) % n_folds
    fold = fold_of_user[pc.index_in(grades["user"].cast(pa.string()), value_set=users).to_numpy()]
    grade = grades["grade"].to_numpy().astype(np.float64)
    rating = _beside(grades, human)
    both = ~np.isnan(grade) & ~np.isnan(rating)
    mapping = np.empty((n_folds, N_GRADES))
    for held_out in range(n_folds):
        known = both & (fold != held_out)
        if not known.any():
            raise DataError(f"Only one of {n_folds} folds of users has pairs that people rated: nothing to learn from.")
        model = IsotonicRegression(out_of_bounds="clip").fit(grade[known], rating[known])
        mapping[held_out] = model.predict(np.arange(N_GRADES))
    calibrated = np.full(len(grade), np.nan)
    parsed = ~np.isnan(grade)
    calibrated[parsed] = mapping[fold[parsed], grade[parsed].astype(np.int64)]
    table = pa.table({"user": grades["user"], "item": grades["item"], "grade": pa.array(calibrated, mask=~parsed)})
    return Calibration(
        grades=table,
        mapping=mapping,
        n_pairs=int(both.sum()),
        mae_before=mean_absolute_error(human, grades, n_resamples=0)[0],
        mae_after=mean_absolute_error(human, table, n_resamples=0)[0],
        bias_before=float((grade - rating)[both].mean()),
        bias_after=float((calibrated - rating)[both].mean()),
    )


def _beside(grades: pa.Table, human: pa.Table) -> FloatArray:
    """Return the rating of each graded pair, NaN where there is none."""
    rated = human.select(["user", "item", "rating"]).to_pandas()
    shown = grades.select(["user", "item"]).to_pandas()
    found: FloatArray = shown.merge(rated, on=["user", "item"], how="left")["rating"].to_numpy(dtype=np.float64)
    return found
