"""Rankings of systems compared: Kendall's tau-b, its interval over users, coupling with popularity, overlap."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import stats

from .common import Resampling

__all__ = ["means", "popularity_coupling", "rank_agreement", "rank_biased_overlap", "resampled_means"]

FloatArray = npt.NDArray[np.float64]

_DRAWS_AT_ONCE = 10_000_000


def means(values: FloatArray) -> FloatArray:
    """Return the mean of each row without its NaNs; whatever the order of the columns, to the last bit."""
    kept = ~np.isnan(values)
    whole = bool(kept.all())
    rows = [row if whole else row[there] for row, there in zip(values, kept, strict=True)]
    return np.array([math.fsum(row.tolist()) / len(row) if len(row) else np.nan for row in rows])


def resampled_means(values: Mapping[str, FloatArray], resampling: Resampling) -> Iterator[dict[str, FloatArray]]:
    """Draw users with replacement and yield the systems' means of each draw, (draw, system), some draws at a time.

    Args:
        values: (system, user) per measure, NaN where a user does not count for a system.
        resampling: How many draws, and the seed. All measures share the draws.
    """
    n_users = next(iter(values.values())).shape[1]
    n = int(resampling.n_resamples)
    rng = np.random.default_rng(int(resampling.seed))
    at_once = max(1, _DRAWS_AT_ONCE // n_users)
    zeroed = {name: np.nan_to_num(matrix) for name, matrix in values.items()}
    there = {name: None if not np.isnan(m).any() else (~np.isnan(m)).astype(np.float64) for name, m in values.items()}
    for done in range(0, n, at_once):
        rows = min(at_once, n - done)
        drawn = rng.integers(0, n_users, size=(rows, n_users))
        cells = (drawn + np.arange(rows)[:, None] * n_users).ravel()
        weight = np.bincount(cells, minlength=rows * n_users).reshape(rows, n_users).astype(np.float64)
        result = {}
        for name, matrix in zeroed.items():
            present = there[name]
            count = n_users if present is None else weight @ present.T
            with np.errstate(invalid="ignore", divide="ignore"):
                # Rounded, so that systems which tie in a draw tie whatever the order of summation was.
                result[name] = np.round(weight @ matrix.T / count, 12)
        yield result


def _signs(scores: FloatArray) -> npt.NDArray[np.int8]:
    one, other = np.triu_indices(scores.shape[-1], 1)
    signs: npt.NDArray[np.int8] = np.nan_to_num(np.sign(scores[..., one] - scores[..., other])).astype(np.int8)
    return signs


def _tau(x: npt.NDArray[np.int8], y: npt.NDArray[np.int8]) -> FloatArray:
    """Return tau-b per row, from the signs of all pairs; NaN where one side is constant."""
    agree = np.einsum("ij,ij->i", x, y, dtype=np.float64)
    n = np.count_nonzero(x, axis=1) * np.count_nonzero(y, axis=1).astype(np.float64)
    tau: FloatArray = np.divide(agree, np.sqrt(n), out=np.full(len(x), np.nan), where=n > 0)
    return tau


def _point(x: FloatArray, y: FloatArray) -> tuple[float | None, float | None]:
    if len(x) < 2:
        return None, None
    result = stats.kendalltau(x, y)
    if np.isnan(result.statistic):
        return None, None
    return float(result.statistic), float(result.pvalue)


def _n_ties(scores: FloatArray) -> int:
    return int((_signs(scores[None, :]) == 0).sum())


def _interval(draws: list[FloatArray], level: float) -> list[float] | None:
    values = np.concatenate(draws) if draws else np.empty(0)
    values = values[~np.isnan(values)]
    if len(values) < 2:
        return None
    tail = (1 - level) / 2
    return [float(value) for value in np.quantile(values, [tail, 1 - tail])]


def rank_biased_overlap(x: FloatArray, y: FloatArray, p: float) -> float:
    """Return RBO (extrapolated; Webber et al., 2010) of two rankings of the same systems, best first.

    Tied systems stand in the order in which they are given.
    """
    n = len(x)
    first, second = np.argsort(-x, kind="stable"), np.argsort(-y, kind="stable")
    place = np.empty(n, np.int64)
    place[second] = np.arange(n)
    # A system is shared from the depth at which both rankings have named it.
    overlap = np.cumsum(np.bincount(np.maximum(np.arange(n), place[first]), minlength=n))
    depth = np.arange(1, n + 1)
    share = overlap / depth
    return float(share[-1] * p**n + (1 - p) / p * (share * p**depth).sum())


def rank_agreement(
    scores: Mapping[str, Mapping[str, FloatArray]],
    draws: list[dict[str, FloatArray]],
    level: float,
    rbo_p: float,
) -> dict[str, dict[str, dict[str, Any]]]:
    """Compare the ranking under each condition with that under the human judgements.

    Args:
        scores: Means per condition and metric, one value per system.
        draws: Resampled means, named ``{metric}_{condition}``.
        level: Of the interval.
        rbo_p: Persistence of rank-biased overlap.
    """
    human = scores["human"]
    result: dict[str, dict[str, dict[str, Any]]] = {}
    for condition, by_metric in scores.items():
        if condition == "human":
            continue
        result[condition] = {}
        for metric, values in by_metric.items():
            tau, p_value = _point(human[metric], values)
            drawn = [_tau(_signs(d[f"{metric}_human"]), _signs(d[f"{metric}_{condition}"])) for d in draws]
            result[condition][metric] = {
                "tau": tau,
                "p": p_value,
                "ci_tau": _interval(drawn, level),
                "n": len(values),
                "n_tied_pairs_human": _n_ties(human[metric]),
                "n_tied_pairs": _n_ties(values),
                "rbo": rank_biased_overlap(human[metric], values, rbo_p),
            }
    return result


def popularity_coupling(
    scores: Mapping[str, Mapping[str, FloatArray]],
    arp: FloatArray,
    draws: list[dict[str, FloatArray]],
    level: float,
) -> dict[str, dict[str, dict[str, Any]]]:
    """Return phi (Eq. 4) of each condition and metric, and its difference to the human one, delta_tau (Eq. 5)."""
    result: dict[str, dict[str, dict[str, Any]]] = {}
    drawn: dict[str, list[FloatArray]] = {}
    for condition, by_metric in scores.items():
        result[condition] = {}
        for metric, values in by_metric.items():
            name = f"{metric}_{condition}"
            phi, p_value = _point(values, arp)
            drawn[name] = [_tau(_signs(d[name]), _signs(d["arp"])) for d in draws]
            entry = {
                "phi": phi,
                "p": p_value,
                "ci_phi": _interval(drawn[name], level),
                "n": len(values),
                "n_tied_pairs": _n_ties(values),
                "n_tied_pairs_arp": _n_ties(arp),
            }
            if condition != "human":
                of_human = result["human"][metric]["phi"]
                entry["delta_tau"] = None if phi is None or of_human is None else phi - of_human
                differences = [a - b for a, b in zip(drawn[name], drawn[f"{metric}_human"], strict=True)]
                entry["ci_delta_tau"] = _interval(differences, level)
            result[condition][metric] = entry
    return result
