"""Data frames whose columns have the types that their units call for, and what several analyses compute alike."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from ..comparison import Comparison
from .analysis import QUANTILES
from .columns import KEY, describe_column
from .load import Group, Runs

__all__ = ["KEY", "letters", "medians", "quantiles", "spearman", "typed", "wilson"]

FloatArray = npt.NDArray[np.float64]
_DTYPES = {"text": "str", "flag": "bool", "count": "Int64"}


def typed(rows: Iterable[Mapping[str, Any]] | pd.DataFrame, columns: Sequence[str] | None = None) -> pd.DataFrame:
    """Return a data frame with one type per column: text, flag, nullable integers for counts, else floats.

    Args:
        rows: records, or a frame.
        columns: their names in order; needed where there may be no rows.

    Raises:
        KeyError: a column is unknown to :data:`~gistbench.runners.report.columns.COLUMNS`.
    """
    frame = rows if isinstance(rows, pd.DataFrame) else pd.DataFrame(list(rows), columns=columns)  # type: ignore[arg-type]
    frame = frame if columns is None else frame[list(columns)]
    kinds = {name: _DTYPES.get(describe_column(name).unit, "float64") for name in frame.columns}
    texts = [name for name, kind in kinds.items() if kind == "str"]
    filled = frame.assign(**{name: frame[name].astype(object).where(frame[name].notna(), "") for name in texts})
    return filled.astype(kinds).reset_index(drop=True)


def letters(groups: Sequence[Sequence[str]]) -> dict[str, str]:
    """Return, for each model, the letters of the groups it is in: models that share one are not told apart.

    >>> letters([["x", "y"], ["y", "z"]])
    {'x': 'a', 'y': 'ab', 'z': 'b'}
    """
    found: dict[str, str] = {}
    for place, group in enumerate(groups):
        for model in group:
            found[model] = found.get(model, "") + (chr(ord("a") + place) if place < 26 else f"[{place + 1}]")
    return found


def medians(runs: Runs, metrics: Sequence[str], significance_level: float) -> pd.DataFrame:
    """Return medians per group and model, with intervals, ranks and rank groups (Tables 3 and 4).

    Args:
        runs: scored.
        metrics: of the five.
        significance_level: of the rank groups.

    Returns:
        One row for each run: `KEY`, ``model``, for each metric its median, ``ci_*``, ``best_*``, ``rank_*``,
        ``group_*``; counts, ``coverage`` and ``not_ranked``.
    """
    rows = []
    for group in runs.groups:
        compared = Comparison.of_runs(run.folder for run in group.runs).rows
        unranked = {run.model: row["not_ranked"] for run, row in zip(group.runs, compared, strict=True)}
        ranks = {
            metric: _ranks(group, metric, [model for model, why in unranked.items() if not why], significance_level)
            for metric in metrics
        }
        for run in group.runs:
            score = run.score
            row: dict[str, Any] = {**group.key, "model": run.model}
            for metric in metrics:
                low, high = score[f"ci_{metric}"] or (None, None)
                row |= {metric: score[metric], f"ci_{metric}_low": low, f"ci_{metric}_high": high}
                row |= {f"{name}_{metric}": value for name, value in ranks[metric].get(run.model, _UNRANKED).items()}
                row[f"n_users_{metric}"] = int(run.scores[metric].notna().sum())
            row |= {name: score[name] for name in ("n_users", "n_requested", "coverage", "interests_per_user")}
            rows.append(row | {"not_ranked": unranked[run.model]})
    return typed(rows)


_UNRANKED = {"best": False, "rank": None, "group": ""}


def _ranks(group: Group, metric: str, models: Sequence[str], significance_level: float) -> dict[str, dict[str, Any]]:
    values = {run.model: run.score[metric] for run in group.runs if run.model in models}
    known = [value for value in values.values() if value is not None]
    best = {model: len(known) > 1 and value is not None and value == max(known) for model, value in values.items()}
    ranks, marks = dict.fromkeys(models, None), dict.fromkeys(models, "")
    ranked = group
    if len(models) < len(group.runs):
        ranked = Group(group.dataset, group.judge, group.setting, tuple(r for r in group.runs if r.model in models))
    found = ranked.rank_groups(metric, significance_level)
    if found is not None and found["n_users"]:
        ranks = dict(zip(found["models"]["model"], found["models"]["rank"], strict=True))
        marks = letters(found["groups"])
    return {model: {"best": best[model], "rank": ranks[model], "group": marks[model]} for model in models}


def quantiles(frame: pd.DataFrame, by: Sequence[str], metric: str) -> pd.DataFrame:
    """Return the five-number summary of a metric by group, and how many users it is of: what a box plot draws."""
    known = frame.dropna(subset=metric)
    if not len(known):
        return pd.DataFrame(columns=[*by, *QUANTILES, "n_users"])
    found = known.groupby(list(by), sort=False)[metric].quantile(np.array([0.0, 0.25, 0.5, 0.75, 1.0])).unstack()
    found.columns = pd.Index(QUANTILES)
    found["n_users"] = known.groupby(list(by), sort=False)[metric].size()
    return found.reset_index()


def spearman(a: Any, b: Any) -> float:
    """Return Spearman's rho over the places where both have a value; NaN for fewer than two, or without variation."""
    from scipy.stats import rankdata

    x, y = np.asarray(a, dtype=float), np.asarray(b, dtype=float)
    both = ~np.isnan(x) & ~np.isnan(y)
    if both.sum() < 2:
        return float("nan")
    x, y = rankdata(x[both]), rankdata(y[both])
    if x.std() == 0 or y.std() == 0:
        return float("nan")
    return round(float(np.clip(np.corrcoef(x, y)[0, 1], -1, 1)), 12)


def wilson(n_hits: Any, n: Any, confidence_level: float = 0.95) -> tuple[FloatArray, FloatArray]:
    """Return Wilson's score intervals of shares; NaN where n is 0.

    Args:
        n_hits: counts of any shape.
        n: out of how many, of the same shape.
        confidence_level: of the intervals.
    """
    from scipy.stats import norm

    k, n = np.asarray(n_hits, dtype=float), np.asarray(n, dtype=float)
    z = float(norm.ppf(0.5 + confidence_level / 2))
    with np.errstate(invalid="ignore", divide="ignore"):
        share = k / n
        centre = (share + z**2 / (2 * n)) / (1 + z**2 / n)
        half = z / (1 + z**2 / n) * np.sqrt(share * (1 - share) / n + z**2 / (4 * n**2))
    return np.clip(centre - half, 0, 1), np.clip(centre + half, 0, 1)
