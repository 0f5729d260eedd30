"""Figure 10: how few users give the same ranking; and a certified lite split."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from .analysis import Analysis, FigureSpec, Options, Reference, Unavailable, analysis
from .frames import KEY, typed
from .load import Group, Runs

__all__ = ["lite_split", "ranking_stability"]

SIZES = (10, 20, 50, 100, 150, 200, 300, 500, 700, 1000, 2000, 5000)
N_CERTIFYING = 200
CERTIFIED_SHARE = 0.95
NOTHING_DIFFERS = "no pair of models differs over all users, so there is no order that fewer users could keep"
FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


def _draws(n_users: int, size: int, n_draws: int, rng: np.random.Generator) -> IntArray:
    """Return samples of users without replacement, (draws, size)."""
    keys = rng.random((n_draws, n_users))
    return np.argpartition(keys, size - 1, axis=1)[:, :size] if size < n_users else np.argsort(keys, axis=1)


def _medians(scores: FloatArray, draws: IntArray) -> FloatArray:
    """Return medians of each model over each sample, (draws, models); NaN where no user of it has a value.

    Args:
        scores: (users, models), NaN where a user has none.
        draws: (draws, size).
    """
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a sample in which no user has a value
        if np.isnan(scores).any():
            found: FloatArray = np.nanmedian(scores[draws], axis=1)
        else:
            found = np.median(scores[draws], axis=1)
    return found


def _rhos(medians: FloatArray, whole: FloatArray) -> FloatArray:
    """Return Spearman's rho of each row with the whole; NaN without variation."""
    from scipy.stats import rankdata

    ranks = rankdata(np.round(medians, 12), axis=1)
    target = rankdata(np.round(whole, 12))
    ranks = ranks - ranks.mean(axis=1, keepdims=True)
    target = target - target.mean()
    norm = np.sqrt((ranks**2).sum(axis=1) * (target**2).sum())
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.clip(np.where(norm > 0, ranks @ target / norm, np.nan), -1, 1)


def ranking_stability(scores: pd.DataFrame, *, n_draws: int = 50, seed: int = 0) -> pd.DataFrame:
    """Return how well rankings over samples of users agree with the whole's (Figure 10).

    Args:
        scores: (users, models), NaN where a user has none.
        n_draws: samples of each size.
        seed: of the samples.

    Returns:
        One row for each size: ``n_users``, ``rho`` (mean), ``sd_rho``, ``rho_low`` and ``rho_high`` (one sd around it).
    """
    values = scores.to_numpy(dtype=float)
    whole = _medians(values, np.arange(len(values))[None])[0]
    rows = []
    for size in [*(s for s in SIZES if s < len(values)), len(values)]:
        rng = np.random.default_rng([seed, size])
        rhos = _rhos(_medians(values, _draws(len(values), size, n_draws, rng)), whole)
        rhos = rhos[~np.isnan(rhos)]
        mean, sd = (float(rhos.mean()), float(rhos.std(ddof=1))) if len(rhos) > 1 else (float("nan"), float("nan"))
        rows.append({"n_users": size, "rho": mean, "sd_rho": sd, "rho_low": mean - sd, "rho_high": min(mean + sd, 1.0)})
    return pd.DataFrame(rows)


def lite_split(group: Group, options: Options, metric: str = "ig_f1") -> dict[str, Any] | None:
    """Return the smallest sample of users whose ranking agrees with the whole's, and such a sample.

    A size is certified when at least 95 % of 200 fresh samples of it reverse no pair of models that differ over all
    users (Wilcoxon, Holm), and ``n_users_exact`` when they give the very same order. Sizes are searched by halving, so
    the smallest is exact up to the noise of 200 samples.

    Returns:
        ``n_users``, ``agreeing_share``, ``n_users_exact`` (0 where no size below the whole gives it), ``n_pairs`` that
        differ, and ``users``: the first seeded sample of that size with the very order of the whole where there is one.
        Where no pair differs, any sample would do: then there is neither size nor share nor sample, and ``note`` says
        why. None with fewer than two models, or no users.
    """
    scores = group.by_user(metric).dropna(how="all")
    ranks = group.rank_groups(metric, options.significance_level)
    if ranks is None or len(scores) < 2:
        return None
    values, names = scores.to_numpy(dtype=float), list(scores.columns)
    whole = _medians(values, np.arange(len(values))[None])[0]
    pairs = ranks["pairs"]
    differing = [
        (names.index(a), names.index(b))
        for a, b, differ in zip(pairs["model_a"], pairs["model_b"], pairs["differ"], strict=True)
        if differ and whole[names.index(a)] > whole[names.index(b)]
    ]
    better, worse = (np.array([pair[side] for pair in differing], dtype=int) for side in (0, 1))
    order = np.argsort(-np.round(whole, 12), kind="stable")

    def samples(size: int) -> tuple[IntArray, FloatArray]:
        draws = _draws(len(values), size, N_CERTIFYING, np.random.default_rng([options.seed, size, 1]))
        return draws, np.round(_medians(values, draws), 12)

    def unreversed(medians: FloatArray) -> npt.NDArray[np.bool_]:
        return np.asarray((medians[:, better] > medians[:, worse]).all(axis=1))

    def same(medians: FloatArray) -> npt.NDArray[np.bool_]:
        sorted_ = medians[:, order]
        strict = np.diff(np.round(whole, 12)[order]) < 0
        steps = np.diff(sorted_, axis=1)
        return np.asarray(np.where(strict, steps < 0, steps == 0).all(axis=1))

    def smallest(test: Any) -> tuple[int, float]:
        low, high, share = 1, len(values), 1.0
        while low < high:
            middle = (low + high) // 2
            found = float(test(samples(middle)[1]).mean())
            if found >= CERTIFIED_SHARE:
                high, share = middle, found
            else:
                low = middle + 1
        return high, share

    exact, _ = smallest(same)
    known = {"n_users_exact": exact if exact < len(values) else 0, "n_pairs": len(differing)}
    known |= {"n_users_whole": len(values)}
    if not differing:
        return {"n_users": None, "agreeing_share": None, **known, "note": NOTHING_DIFFERS, "users": []}
    size, share = smallest(unreversed)
    draws, medians = samples(size)
    fits = np.flatnonzero(same(medians))
    fits = fits if len(fits) else np.flatnonzero(unreversed(medians))
    chosen = draws[fits[0]] if len(fits) else np.arange(len(values))
    return {
        "n_users": size,
        "agreeing_share": share,
        **known,
        "note": "",
        "users": sorted(scores.index[chosen]),
    }


@analysis("figure_10", "How few users give the same ranking")
def figure_10(runs: Runs, options: Options) -> Analysis:
    """Ranking stability by sample size, and the certified lite split (Figure 10)."""
    curves, splits, users, notes = [], [], [], []
    for group in runs.groups:
        if len(group.runs) < 3:
            continue
        scores = group.by_user("ig_f1").dropna(how="all")
        if len(scores) < 2:
            continue
        curve = ranking_stability(scores, n_draws=options.n_subsamples, seed=options.seed)
        curves.append(curve.assign(**group.key))
        found = lite_split(group, options)
        if found is not None:
            chosen = found.pop("users")
            users += [pd.DataFrame({**group.key, "user_id": chosen})] if chosen else []
            splits.append({**group.key, **found})
            if found["note"]:
                where = f"{group.dataset} ({group.setting})" if group.setting else group.dataset
                notes.append(f"No lite split of {where}, judged by {group.judge}, is certified: {found['note']}.")
    if not curves:
        raise Unavailable("Needs three or more candidates on one data set, and several users.")
    figure = FigureSpec(
        "line", "stability", "How few users give the same ranking", "Mean and one standard deviation of Spearman's rho "
        "with the ranking over all users. Where the band reaches 1, more users change nothing.", x="n_users", y="rho",
        group="dataset", low="rho_low", high="rho_high", log_x=True,
        references=(Reference("vertical", 200.0, "the paper's 200 users"),),
    )  # fmt: skip
    return Analysis(
        "figure_10",
        figure.title,
        figure.caption,
        {
            "stability": typed(pd.concat(curves)[[*KEY, "n_users", "rho", "sd_rho", "rho_low", "rho_high"]]),
            "lite_splits": typed(splits),
            **({"lite_users": typed(pd.concat(users))} if users else {}),
        },
        {"figure_10": figure},
        policy={
            "samples": f"{options.n_subsamples} of each size, without replacement, seed {options.seed}",
            "ranking": "by median IG F1 over the users of the sample that have one",
            "certified": f"at least {CERTIFIED_SHARE:.0%} of {N_CERTIFYING} other samples reverse no pair of models "
            f"that differ over all users (Wilcoxon, Holm, level {options.significance_level})",
            "published": "rho 0.96 at 10 users, 1.00 by 200, of 982",
        },
        notes=tuple(notes),
    )
