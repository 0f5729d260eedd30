"""Beyond the paper: do 95 % intervals hold what they promise, and how much could the users that are left out matter?"""

from typing import Any

import numpy as np
import pandas as pd

from ..score import METRICS
from .analysis import Analysis, FigureSpec, Options, Reference, analysis
from .frames import KEY, typed, wilson
from .load import Runs

__all__ = ["calibration", "median_interval_places"]

SIZES = (20, 50, 100, 200, 500)
N_SAMPLES = 1000


def median_interval_places(n: int, confidence_level: float = 0.95) -> tuple[int, int]:
    """Return which order statistics (from 0) the percentile bootstrap interval of a median ends at.

    The bootstrap's distribution of the (lower) median over the order statistics is binomial, so nothing need be drawn.

    >>> median_interval_places(11)
    (2, 8)
    """
    from scipy.stats import binom

    k = np.arange(1, n + 1)
    # At least half of the n draws stand at or below the k-th value.
    cumulative = binom.sf((n + 1) // 2 - 1, n, k / n)
    tail = (1 - confidence_level) / 2
    low, high = (int(np.searchsorted(cumulative, level - 1e-12)) for level in (tail, 1 - tail))
    return low, min(high, n - 1)


@analysis("calibration", "Do the intervals hold?")
def calibration(runs: Runs, options: Options) -> Analysis:
    """Share of samples whose interval holds the whole's median, and bounds for users that are left out."""
    held, bounds = [], []
    for group in runs.groups:
        for run in group.runs:
            for metric in METRICS:
                values = np.sort(run.scores[metric].dropna().to_numpy(dtype=float))
                if not len(values):
                    continue
                if metric in ("ig_f1", "is"):
                    held += [
                        {**group.key, "model": run.model, "metric": metric, **row}
                        for row in _held(values, options.seed)
                    ]
                missing = int(run.score["n_requested"]) - len(values)
                least = np.median(np.concatenate([np.zeros(missing), values]))
                most = np.median(np.concatenate([values, np.ones(missing)]))
                bounds.append(
                    {**group.key, "model": run.model, "metric": metric, "score": float(np.median(values)),
                     "n_users": len(values), "n_users_missing": missing, "score_if_missing_0": float(least),
                     "score_if_missing_1": float(most)}
                )  # fmt: skip
    columns = [*KEY, "model", "metric", "n_users", "held_share", "ci_held_share_low", "ci_held_share_high",
               "mean_width"]  # fmt: skip
    figure = FigureSpec(
        "line", "intervals", "How often a 95 % interval holds the median", "Lines below the reference: intervals of so "
        "few users promise too much.", x="n_users", y="held_share", group="model", facet="metric", log_x=True,
        references=(Reference("horizontal", 0.95, "promised"),), y_range=(0.7, 1.0),
    )  # fmt: skip
    policy: dict[str, Any] = {
        "intervals": f"percentile bootstrap of the median, in {N_SAMPLES} samples of users with replacement of each "
        "size; exact in the number of resamples",
        "truth": "the median over all users of the run",
        "bounds": "the median if every requested user without a value scored 0, or 1",
    }
    return Analysis(
        "calibration",
        "Do the intervals hold?",
        "Users of the run stand for all there are: how often the interval of a smaller sample holds their median. And "
        "between which values medians lie whatever the users without a score would have scored.",
        {"intervals": typed(pd.DataFrame(held, columns=columns)), "left_out_users": typed(bounds)},
        {"calibration": figure},
        policy=policy,
    )


def _held(values: "np.typing.NDArray[np.float64]", seed: int) -> list[dict[str, Any]]:
    truth = float(np.median(values))
    rows = []
    for size in [*(size for size in SIZES if size < len(values)), len(values)]:
        rng = np.random.default_rng([seed, size])
        samples = np.sort(values[rng.integers(0, len(values), (N_SAMPLES, size))], axis=1)
        low, high = median_interval_places(size)
        hit = (samples[:, low] <= truth + 1e-12) & (truth <= samples[:, high] + 1e-12)
        bounds = wilson([hit.sum()], [N_SAMPLES])
        rows.append(
            {"n_users": size, "held_share": float(hit.mean()), "ci_held_share_low": float(bounds[0][0]),
             "ci_held_share_high": float(bounds[1][0]),
             "mean_width": float((samples[:, high] - samples[:, low]).mean())}
        )  # fmt: skip
    return rows
