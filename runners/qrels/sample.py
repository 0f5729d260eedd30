"""Step 3, `sample`: few users that stand for all (Experiment 0 and Table 3 of paper B).

Users are stratified by profile length and drawn proportionally. For each size: Kendall's tau-b of the systems' means,
all users against the sample; and for each run a test of the sample's users against *the others*. The paper
compares the sample with all users, of which it is a part: that dilutes a difference, and tests assume independent
groups. No significant difference is no evidence of equality, so an equivalence test stands beside it.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ...hf_datasets.errors import ConfigError
from ..draw import hash_strings, order, salt
from ..score import load_metric
from .evaluate import METRICS, Scores, evaluate_runs
from .ratings import IntArray, Ratings
from .recommend import representatives, systems
from .work import Progress, Work, fingerprint

__all__ = ["SIZES", "draw_sample", "equivalence", "sample", "strata", "welch"]

SIZES = (500, 1_000, 2_000, 3_000, 4_000, 5_000, 6_000, 7_000, 8_000, 9_000, 10_000)
CORRECTIONS = ("benjamini-hochberg", "holm", "none")
_VERSION = 1
FloatArray = npt.NDArray[np.float64]


def strata(lengths: IntArray, n_strata: int) -> IntArray:
    """Return the stratum of each user: quantiles of profile length; users of equal length share one.

    >>> strata(np.array([1, 1, 1, 5, 9, 7]), 3).tolist()
    [0, 0, 0, 1, 2, 2]
    """
    edges = np.quantile(lengths, np.arange(1, n_strata) / n_strata, method="inverted_cdf")
    found: IntArray = np.unique(np.searchsorted(np.unique(edges), lengths, side="left"), return_inverse=True)[1]
    return found


def draw_sample(of_stratum: IntArray, drawn: IntArray, n: int) -> IntArray:
    """Return the places of n users, ascending, as many of each stratum as is its share (largest remainders).

    Args:
        of_stratum: stratum of each user.
        drawn: the users in drawn order: the first of each stratum are taken.
        n: at most the number of users.
    """
    sizes = np.bincount(of_stratum)
    exact = sizes * (n / len(of_stratum))
    quota = np.floor(exact).astype(np.int64)
    remainder = np.round(exact - quota, 9)
    quota[np.argsort(-remainder, kind="stable")[: n - int(quota.sum())]] += 1
    in_order = of_stratum[drawn]
    by_stratum = np.argsort(in_order, kind="stable")
    nth = np.empty(len(drawn), np.int64)
    nth[by_stratum] = np.arange(len(drawn)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    taken: IntArray = np.sort(drawn[nth < quota[in_order]])
    return taken


def welch(one: FloatArray, other: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return difference of means, its standard error and Welch's degrees of freedom, per row.

    Args:
        one: (rows, users).
        other: (rows, other users).
    """
    parts = [values.var(axis=1, ddof=1) / values.shape[1] for values in (one, other)]
    variance = parts[0] + parts[1]
    with np.errstate(divide="ignore", invalid="ignore"):
        freedom = variance**2 / (parts[0] ** 2 / (one.shape[1] - 1) + parts[1] ** 2 / (other.shape[1] - 1))
    difference: FloatArray = one.mean(axis=1) - other.mean(axis=1)
    return difference, np.sqrt(variance), np.where(np.isfinite(freedom), freedom, 1.0)


def _p_values(statistics: tuple[FloatArray, FloatArray, FloatArray], shift: FloatArray, side: str) -> FloatArray:
    from scipy import stats

    difference, error, freedom = statistics
    moved = difference - shift
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.where(error > 0, moved / error, np.where(np.abs(moved) > 1e-15, np.sign(moved) * np.inf, 0.0))
    if side == "two":
        return np.asarray(2 * stats.t.sf(np.abs(t), freedom))
    return np.asarray(stats.t.sf(t, freedom) if side == "greater" else stats.t.cdf(t, freedom))


def equivalence(statistics: tuple[FloatArray, FloatArray, FloatArray], margin: FloatArray) -> FloatArray:
    """Return p of two one-sided tests (TOST, Schuirmann, 1987): small where the means differ by less than the margin.

    Args:
        statistics: of :func:`welch`.
        margin: per row, above 0.
    """
    lower = _p_values(statistics, -margin, "greater")
    upper = _p_values(statistics, margin, "less")
    return np.maximum(lower, upper)


def _tau(one: FloatArray, other: FloatArray) -> float | None:
    from scipy import stats

    if len(one) < 2:
        return None
    tau = float(stats.kendalltau(one, other).statistic)
    return tau if np.isfinite(tau) else None


def sample(
    work: Work,
    *,
    sizes: Sequence[int] = SIZES,
    n_strata: int = 10,
    seed: int = 0,
    n_repeats: int = 20,
    min_tau: float = 0.8,
    alpha: float = 0.05,
    correction: str = "benjamini-hochberg",
    margin: float = 0.1,
    take: int | None = None,
    relevance_threshold: float = 4.0,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Draw samples of several sizes, compare them with all users, and keep the smallest that meets both criteria.

    The criteria: tau of AP and of NDCG over one run per algorithm is at least ``min_tau``, and no run's mean differs
    significantly between the sample and the other users. They are asked of the first repetition; the
    others give the interval of tau and tell how often they are met.

    Args:
        work: a folder with runs.
        sizes: users of the samples; those that leave less than two others are left out and named.
        n_strata: strata of profile length (training ratings).
        seed: of the draws.
        n_repeats: samples of each size.
        min_tau: the lowest tau that counts as high; the lowest that the paper accepts is 0.826.
        alpha: level of both tests.
        correction: of the tests of all runs, for each metric: ``benjamini-hochberg``, ``holm`` or ``none``.
        margin: of the equivalence test, as a share of the run's mean over all users.
        take: keep this size whatever the criteria say.
        relevance_threshold: the lowest rating that is relevant for AP.
        progress: told of the runs that are scored.

    Returns:
        The step's record; ``chosen`` is None where no size meets the criteria, and then no users are kept.

    Raises:
        ConfigError: an option cannot be used.
    """
    _check(sizes, n_strata, n_repeats, min_tau, alpha, correction, margin, take)
    runs, k = systems(work), int(work.record("recommend")["settings"]["k"])
    settings: dict[str, Any] = {
        "sizes": sorted({*sizes, *([take] if take else [])}),
        "n_strata": n_strata,
        "seed": seed,
        "n_repeats": n_repeats,
        "min_tau": min_tau,
        "alpha": alpha,
        "correction": correction,
        "margin": margin,
        "take": take,
        "relevance_threshold": relevance_threshold,
    }
    made_by = fingerprint(_VERSION, work.record("recommend")["fingerprint"], settings)
    if work.is_done("sample", made_by):
        return work.record("sample")
    ratings = Ratings.read(work)
    names = [run["system"] for run in runs]
    scores = evaluate_runs(work, ratings, names, k=k, relevance_threshold=relevance_threshold, progress=progress)
    one_each = representatives(runs)
    lengths = ratings.n_train[ratings.evaluated]
    of_stratum = strata(lengths, n_strata)
    hashes = hash_strings(ratings.users.take(pa.array(ratings.evaluated)).to_pylist())
    possible = [n for n in settings["sizes"] if n <= len(lengths) - 2]
    if take is not None and take not in possible:
        raise ConfigError(
            f"take is {take}; there are {len(lengths)} users with test ratings, of whom two must be left."
        )
    rows: list[dict[str, Any]] = []
    tests: list[dict[str, Any]] = []
    for repeat in range(n_repeats):
        drawn = order(hashes, salt(seed, "sample", str(repeat)))
        for n in possible:
            users = draw_sample(of_stratum, drawn, n)
            row, of_runs = _compare(scores, users, one_each, alpha, correction, margin)
            met = all(row[f"tau_{m}"] is not None and row[f"tau_{m}"] >= min_tau for m in METRICS)
            met = met and row["n_significant"] == 0
            rows.append({"n_users": n, "repeat": repeat, **row, "met": met})
            tests += [{"n_users": n, **test} for test in of_runs] if repeat == 0 else []
    first = [row for row in rows if row["repeat"] == 0]
    chosen = take if take is not None else next((row["n_users"] for row in first if row["met"]), None)
    tables = {"scores": scores.table(ratings.users)}
    if rows:
        tables |= {"sampling": pa.Table.from_pylist(rows, _ROWS), "sampling_tests": pa.Table.from_pylist(tests, _TESTS)}
    if chosen is not None:
        kept = draw_sample(of_stratum, order(hashes, salt(seed, "sample", "0")), chosen)
        tables["users"] = _users(ratings, kept, of_stratum)
    record = {
        "settings": settings,
        "n_users": len(lengths),
        "n_systems": {"all": len(runs), "representative": len(one_each)},
        "sizes_left_out": [n for n in settings["sizes"] if n not in possible],
        "chosen": chosen,
        "chosen_meets_criteria": None if chosen is None else next(r["met"] for r in first if r["n_users"] == chosen),
        "means": {m: dict(zip(names, scores.means(m).tolist(), strict=True)) for m in METRICS},
        "table3": [_summary([row for row in rows if row["n_users"] == n]) for n in possible],
    }
    work.write("sample", tables, record, made_by)
    return work.record("sample")


_ROWS = pa.schema(
    [
        ("n_users", pa.int64()),
        ("repeat", pa.int64()),
        *((f"tau_{m}", pa.float64()) for m in METRICS),
        *((f"tau_{m}_all", pa.float64()) for m in METRICS),
        ("n_significant", pa.int64()),
        ("n_significant_uncorrected", pa.int64()),
        ("n_equivalent", pa.int64()),
        ("n_tests", pa.int64()),
        ("met", pa.bool_()),
    ]
)
_TESTS = pa.schema(
    [
        ("n_users", pa.int64()),
        ("metric", pa.string()),
        ("system", pa.string()),
        ("mean_all", pa.float64()),
        ("mean_sample", pa.float64()),
        ("mean_rest", pa.float64()),
        ("p", pa.float64()),
        ("p_adjusted", pa.float64()),
        ("margin", pa.float64()),
        ("p_equivalence", pa.float64()),
    ]
)


def _compare(
    scores: Scores, users: IntArray, one_each: IntArray, alpha: float, correction: str, margin: float
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Compare a sample with all users (tau) and with the others (tests)."""
    row: dict[str, Any] = {"n_significant": 0, "n_significant_uncorrected": 0, "n_equivalent": 0, "n_tests": 0}
    tests: list[dict[str, Any]] = []
    rest = np.ones(len(scores.users), dtype=bool)
    rest[users] = False
    for metric in METRICS:
        everyone, sampled = scores.means(metric), scores.means(metric, users)
        row[f"tau_{metric}"] = _tau(everyone[one_each], sampled[one_each])
        row[f"tau_{metric}_all"] = _tau(everyone, sampled)
        inside, outside = scores.values[metric][:, users], scores.values[metric][:, rest]
        statistics = welch(inside, outside)
        p = _p_values(statistics, np.zeros(len(everyone)), "two")
        adjusted = load_metric("qrels_expansion").adjusted(p, correction)
        margins = margin * everyone
        equal = np.where(margins > 0, equivalence(statistics, margins), 1.0)
        row["n_significant"] += int((adjusted < alpha).sum())
        row["n_significant_uncorrected"] += int((p < alpha).sum())
        row["n_equivalent"] += int((equal < alpha).sum())
        row["n_tests"] += len(p)
        columns = (everyone, inside.mean(axis=1), outside.mean(axis=1), p, adjusted, margins, equal)
        names = ("mean_all", "mean_sample", "mean_rest", "p", "p_adjusted", "margin", "p_equivalence")
        for at, system in enumerate(scores.systems):
            values = {name: float(column[at]) for name, column in zip(names, columns, strict=True)}
            tests.append({"metric": metric, "system": system, **values})
    return row, tests


def _summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a row of Table 3: the first repetition, and the spread of all."""
    out = {name: value for name, value in rows[0].items() if name != "repeat"}
    for metric in METRICS:
        taus = np.array([row[f"tau_{metric}"] for row in rows if row[f"tau_{metric}"] is not None])
        out[f"interval_tau_{metric}"] = np.quantile(taus, (0.025, 0.975)).tolist() if len(taus) else None
    out["share_met"] = sum(row["met"] for row in rows) / len(rows)
    return out


def _users(ratings: Ratings, kept: IntArray, of_stratum: IntArray) -> pa.Table:
    rows = ratings.evaluated[kept]
    n_test = np.bincount(ratings.test_user, minlength=len(ratings.users))
    return pa.table(
        {
            "user": ratings.users.take(pa.array(rows)),
            "stratum": of_stratum[kept],
            "n_train": ratings.n_train[rows],
            "n_test": n_test[rows],
        }
    )


def _check(
    sizes: Sequence[int],
    n_strata: int,
    n_repeats: int,
    min_tau: float,
    alpha: float,
    correction: str,
    margin: float,
    take: int | None,
) -> None:
    if wrong := [n for n in (*sizes, *([take] if take is not None else [])) if n < 2]:
        raise ConfigError(f"A sample of {wrong[0]} users cannot be compared; sizes are 2 or more.")
    for name, count in (("n_strata", n_strata), ("n_repeats", n_repeats)):
        if count < 1:
            raise ConfigError(f"{name} is {count}; it must be 1 or more.")
    if not -1 <= min_tau <= 1:
        raise ConfigError(f"min_tau is {min_tau}; it must be from -1 to 1.")
    if not 0 < alpha < 1:
        raise ConfigError(f"alpha is {alpha}; it must be between 0 and 1.")
    if not margin > 0:
        raise ConfigError(f"margin is {margin}; it must be above 0.")
    if correction not in CORRECTIONS:
        raise ConfigError(f"correction is {correction!r}; it must be one of {', '.join(CORRECTIONS)}.")
