"""Compares models by their per-user scores: two models pair by pair, many in groups that are not told apart.

It knows no metric: scores are numbers by user, such as a column of ``per_user``. It stands once as
``metrics/comparison.py`` and is copied into each module's folder by ``make sync-metrics``.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from .common import DIGITS, N_EXACT, Resampling, adjusted, mapping_by_user, signed_rank_test

__all__ = ["compare", "rank_groups"]

FloatArray = npt.NDArray[np.float64]
STATISTICS = ("median", "mean")


def compare(
    scores_a: Mapping[Any, float | None],
    scores_b: Mapping[Any, float | None],
    n_resamples: int = 1000,
    confidence_level: float = 0.95,
    seed: int = 0,
) -> dict[str, Any]:
    """Compare two models over the same users: paired bootstrap and Wilcoxon's signed-rank test.

    Args:
        scores_a: {user id: score}, as ``dict(zip(per_user["user_id"], per_user["ig_f1"]))``; a user for whom either
            model has None is left out and counted.
        scores_b: of the other model, for the same users.
        n_resamples: of the intervals; 0 leaves them out.
        confidence_level: of the intervals.
        seed: of the bootstrap.

    Returns:
        Medians and means of both, their differences a - b with intervals, how often each is better, the p-value.

    Raises:
        ValueError: The users differ, or a score is no number.

    Examples:
        >>> found = compare({"7": 0.5, "8": 1.0, "9": None}, {"7": 0.25, "8": 0.75, "9": 0.5}, n_resamples=100)
        >>> found["difference_of_means"], found["ci_difference_of_means"], found["p_value"]
        (0.25, [0.25, 0.25], 0.5)
        >>> found["n_users"], found["n_users_left_out"]
        (2, 1)
    """
    resampling = Resampling(n_resamples, confidence_level, seed)
    users, table = _complete({"scores_a": scores_a, "scores_b": scores_b})
    a, b = table[:, np.lexsort(table)]  # so that the order of the users changes nothing, not even the draws
    ci_medians, ci_means = _intervals_of_differences(a, b, resampling)
    difference = np.round(a - b, DIGITS)
    statistic, p_value = signed_rank_test(difference)
    return {
        "n_users": len(a),
        "n_users_left_out": len(users) - len(a),
        "median_a": _number(np.median, a),
        "median_b": _number(np.median, b),
        "difference_of_medians": _number(lambda _: np.median(a) - np.median(b), a),
        "ci_difference_of_medians": ci_medians,
        "mean_a": _number(np.mean, a),
        "mean_b": _number(np.mean, b),
        "difference_of_means": _number(np.mean, difference),
        "ci_difference_of_means": ci_means,
        "n_a_better": int((difference > 0).sum()),
        "n_b_better": int((difference < 0).sum()),
        "n_equal": int((difference == 0).sum()),
        "wilcoxon_statistic": statistic,
        "p_value": p_value,
        "policy": _policy(resampling),
    }


def rank_groups(
    scores: Mapping[str, Mapping[Any, float | None]],
    statistic: str = "median",
    significance_level: float = 0.05,
    n_resamples: int = 1000,
    confidence_level: float = 0.95,
    seed: int = 0,
) -> dict[str, Any]:
    """Rank several models, and say which of them their users' scores do not tell apart.

    Every pair is tested with Wilcoxon's signed-rank test, the p-values adjusted by Holm. A model's rank is 1 more than
    the number of models above it that differ from it significantly.

    Args:
        scores: {model: {user id: score}}, each with the same users; a user for whom a model has None is left out.
        statistic: what the models are sorted by, "median" or "mean".
        significance_level: pairs with a smaller adjusted p-value differ.
        n_resamples: of the intervals; 0 leaves them out.
        confidence_level: of the intervals.
        seed: of the bootstrap.

    Returns:
        ``models``: a dict of columns, best first; ``groups``: the largest runs of neighbours of which no two differ;
        ``pairs``: a dict of columns with the tests.

    Raises:
        ValueError: Fewer than two models, the users differ, or a score is no number.

    Examples:
        >>> users = range(20)
        >>> found = rank_groups(
        ...     {
        ...         "x": {user: 0.5 + user / 100 for user in users},
        ...         "y": {user: 0.5 + user / 100 + (-1) ** user / 100 for user in users},
        ...         "z": {user: 0.1 for user in users},
        ...     },
        ...     n_resamples=0,
        ... )
        >>> found["models"]["model"], found["models"]["rank"], found["groups"]
        (['x', 'y', 'z'], [1, 1, 3], [['x', 'y'], ['z']])
    """
    resampling = Resampling(n_resamples, confidence_level, seed)
    if statistic not in STATISTICS:
        raise ValueError(f"statistic must be one of {', '.join(STATISTICS)}, found {statistic!r}.")
    if not isinstance(significance_level, float) or not 0 < significance_level < 1:
        raise ValueError(f"significance_level must be a float between 0 and 1, found {significance_level!r}.")
    if not isinstance(scores, Mapping) or len(scores) < 2:
        raise ValueError(f"scores must be a dict of two or more models, each a dict by user id, found {scores!r:.80}.")
    users, table = _complete(scores)
    names, n = list(map(str, scores)), table.shape[1]
    values = [_number(getattr(np, statistic), column) for column in table]
    order = sorted(range(len(names)), key=lambda i: (-(values[i] or 0.0), names[i]))
    pairs = list(combinations(order, 2))
    tests = [signed_rank_test(np.round(table[i] - table[j], DIGITS)) for i, j in pairs]
    corrected = adjusted(np.array([p_value for _, p_value in tests]), "holm").tolist()
    differ = {pair for pair, p in zip(pairs, corrected, strict=True) if p < significance_level}
    intervals = [resampling.intervals(np.sort(table[i]))[STATISTICS.index(statistic)] for i in order]
    return {
        "models": {
            "model": [names[i] for i in order],
            "rank": [1 + sum((better, i) in differ for better in order) for i in order],
            statistic: [values[i] for i in order],
            f"ci_{statistic}": intervals,
        },
        "groups": [[names[order[k]] for k in group] for group in _runs(order, differ)],
        "pairs": {
            "model_a": [names[i] for i, _ in pairs],
            "model_b": [names[j] for _, j in pairs],
            "difference_of_means": [_number(np.mean, np.round(table[i] - table[j], DIGITS)) for i, j in pairs],
            "p_value": [p_value for _, p_value in tests],
            "p_value_holm": corrected,
            "differ": [pair in differ for pair in pairs],
        },
        "n_users": n,
        "n_users_left_out": len(users) - n,
        "policy": {
            **_policy(resampling),
            "statistic": statistic,
            "significance_level": significance_level,
            "adjustment": "Holm, over all pairs",
            "rank": "1 + the number of models sorted before it that differ from it",
        },
    }


def _complete(scores: Mapping[str, Any]) -> tuple[list[str], FloatArray]:
    """Return all users, and a row for each model with the scores of those that every model has one for."""
    read = {name: mapping_by_user(values, str(name)) for name, values in scores.items()}
    first, *others = read
    users = sorted(read[first])
    for name in others:
        for here, there, values in ((name, first, read[first]), (first, name, read[name])):
            if missing := sorted(values.keys() - read[here].keys()):
                raise ValueError(
                    f"{here} lacks user {missing[0]!r}, whom {there} has ({len(missing)} such). Give every user of one "
                    f"to the other too, with None where there is no score."
                )
    table = np.array([[_score(values[user], name, user) for user in users] for name, values in read.items()])
    table = table.reshape(len(read), len(users))
    return users, table[:, ~np.isnan(table).any(axis=0)]


def _score(value: Any, name: str, user: str) -> float:
    if value is None:
        return np.nan
    number = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    if not number or not np.isfinite(value):
        raise ValueError(f"{name}[{user!r}] must be a finite number or None, found {value!r}.")
    return float(value)


def _number(statistic: Any, values: FloatArray) -> float | None:
    return float(statistic(values)) if len(values) else None


def _intervals_of_differences(
    a: FloatArray, b: FloatArray, resampling: Resampling
) -> tuple[list[float] | None, list[float] | None]:
    if len(a) < 2 or resampling.n_resamples < 2:
        return None, None
    difference, medians, means = np.round(a - b, DIGITS), [], []
    for drawn, _ in resampling.draws(len(a)):
        medians.append(np.median(a[drawn], axis=1) - np.median(b[drawn], axis=1))
        means.append(np.mean(difference[drawn], axis=1))
    return resampling.interval(np.concatenate(medians)), resampling.interval(np.concatenate(means))


def _runs(order: list[int], differ: set[tuple[int, int]]) -> list[range]:
    """Return the largest runs of neighbours in order of which no two differ."""
    runs: list[range] = []
    for start in range(len(order)):
        end = start + 1
        while end < len(order) and not any((order[k], order[end]) in differ for k in range(start, end)):
            end += 1
        if not runs or end > runs[-1].stop:
            runs.append(range(start, end))
    return runs


def _policy(resampling: Resampling) -> dict[str, Any]:
    return {
        "users": "those for whom every model has a score",
        "test": f"Wilcoxon signed-rank, two-sided, zero differences dropped; exact for up to {N_EXACT} differences, "
        "ties included, beyond that by the normal distribution (scipy.stats.wilcoxon)",
        "differences": f"rounded to {DIGITS} digits",
        "interval": {**resampling.policy(), "paired": "the same users are drawn for every model"},
    }
