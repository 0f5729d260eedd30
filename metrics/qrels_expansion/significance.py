"""Paired tests of systems over users, with corrections for testing many pairs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import stats

from .common import DIGITS, Resampling, adjusted, signed_rank_test
from .correlation import resampled_means

__all__ = ["TESTS", "compare"]

FloatArray = npt.NDArray[np.float64]

TESTS = ("wilcoxon", "t", "permutation", "tukey_hsd")
_CELLS_AT_ONCE = 4_000_000
_COLUMNS = (
    "condition",
    "metric",
    "test",
    "system_a",
    "system_b",
    "difference",
    "ci_difference",
    "effect_size",
    "n",
    "p",
    "p_adjusted",
)


def _t(difference: FloatArray) -> float:
    if len(difference) < 2 or np.ptp(difference) == 0:
        return 1.0 if len(difference) < 2 or difference[0] == 0 else 0.0
    return float(stats.ttest_1samp(difference, 0).pvalue)


def _effect_size(difference: FloatArray) -> float | None:
    """Return the mean difference in standard deviations; None where there is no spread to measure it by."""
    if len(difference) < 2 or np.ptp(difference) < 1e-12:
        return None
    return float(difference.mean() / difference.std(ddof=1))


def _intervals(differences: FloatArray, resampling: Resampling) -> list[list[float] | None]:
    """Return the interval of each pair's mean difference."""
    if resampling.n_resamples < 2 or differences.shape[1] < 2:
        return [None] * len(differences)
    drawn = np.concatenate([draw["difference"] for draw in resampled_means({"difference": differences}, resampling)])
    # Some draws hold no user of the pair.
    columns = [column[~np.isnan(column)] for column in drawn.T]
    return [resampling.interval(column) if len(column) > 1 else None for column in columns]


def _permutation(difference: FloatArray, n_resamples: int, seed: int) -> float:
    """Flip signs at random; the observed assignment counts as one of the draws."""
    rng = np.random.default_rng(seed)
    observed = abs(float(difference.sum()))
    reached, at_once = 0, max(1, _CELLS_AT_ONCE // len(difference))
    for done in range(0, n_resamples, at_once):
        rows = min(at_once, n_resamples - done)
        signs = rng.integers(0, 2, size=(rows, len(difference)), dtype=np.int8) * 2.0 - 1
        reached += int((np.abs(signs @ difference) >= observed - 1e-12).sum())
    return (reached + 1) / (n_resamples + 1)


def _tukey_hsd(values: FloatArray, n_resamples: int, seed: int) -> FloatArray:
    """Randomised Tukey HSD (Carterette, 2012): shuffle each user's values over the systems, keep the widest range."""
    n_systems, n_users = values.shape
    rng = np.random.default_rng(seed)
    widest = np.empty(n_resamples)
    at_once = max(1, _CELLS_AT_ONCE // max(values.size, 1))
    for done in range(0, n_resamples, at_once):
        rows = min(at_once, n_resamples - done)
        shuffled = rng.permuted(np.broadcast_to(values.T, (rows, n_users, n_systems)), axis=2)
        average = shuffled.mean(axis=1)
        widest[done : done + rows] = average.max(axis=1) - average.min(axis=1)
    one, other = np.triu_indices(n_systems, 1)
    average = values.mean(axis=1)
    difference = np.abs(average[one] - average[other])
    reached = len(widest) - np.searchsorted(np.sort(widest), difference - 1e-12, side="left")
    p: FloatArray = (reached + 1) / (n_resamples + 1)
    return p


def compare(
    values: Mapping[tuple[str, str], FloatArray],
    systems: Sequence[str],
    tests: Sequence[str],
    correction: str,
    resampling: Resampling,
) -> dict[str, list[Any]]:
    """Test every pair of systems.

    Args:
        values: (system, user) per (condition, metric); users that are NaN for one of the two are left out of a pair.
        systems: Their names.
        tests: Some of `TESTS`.
        correction: One of `CORRECTIONS`, within each (condition, metric, test). Tukey HSD corrects by itself.
        resampling: Of the permutation tests, Tukey HSD and the intervals of the differences.
    """
    n_resamples, seed = int(resampling.n_resamples), int(resampling.seed)
    table: dict[str, list[Any]] = {name: [] for name in _COLUMNS}
    one, other = np.triu_indices(len(systems), 1)
    for (condition, metric), matrix in values.items():
        differences = np.round(matrix[one] - matrix[other], DIGITS)
        kept = [row[~np.isnan(row)] for row in differences]
        intervals, effects = _intervals(differences, resampling), list(map(_effect_size, kept))
        for test in tests:
            if test == "tukey_hsd":
                whole = matrix[:, ~np.isnan(matrix).any(axis=0)]
                p = _tukey_hsd(whole, n_resamples, seed) if whole.shape[1] else np.ones(len(one))
                final, counts = p, [whole.shape[1]] * len(one)
            else:
                run: Callable[[FloatArray], float] = {
                    "wilcoxon": lambda difference: signed_rank_test(difference)[1],
                    "t": _t,
                    "permutation": lambda row: _permutation(row, n_resamples, seed),
                }[test]
                p = np.array([run(row) if len(row) else 1.0 for row in kept])
                final, counts = adjusted(p, correction), [len(row) for row in kept]
            for at, (a, b) in enumerate(zip(one.tolist(), other.tolist(), strict=True)):
                table["condition"].append(condition)
                table["metric"].append(metric)
                table["test"].append(test)
                table["system_a"].append(systems[a])
                table["system_b"].append(systems[b])
                table["difference"].append(float(kept[at].mean()) if len(kept[at]) else None)
                table["ci_difference"].append(intervals[at] if len(kept[at]) > 1 else None)
                table["effect_size"].append(effects[at])
                table["n"].append(int(counts[at]))
                table["p"].append(float(p[at]))
                table["p_adjusted"].append(float(final[at]))
    return table
