"""Beyond the paper: paired comparisons of candidates over the same users, and a gate for continuous integration."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pandas as pd

from ...hf_datasets.errors import StoreError
from ..score import METRICS, load_metric
from .analysis import Analysis, FigureSpec, Options, Unavailable, analysis
from .changes import list_differences
from .frames import typed
from .load import Run, Runs, share_oracle
from .results import optional
from .run import differing

__all__ = ["EXIT_DROPPED", "EXIT_PASSED", "Gate", "compare_runs", "differences_of", "gate"]

EXIT_PASSED = 0
EXIT_DROPPED = 4
"""A decided gate that did not pass. A gate that could not be decided raises, and ends as every error does: 1, or 2 for
a command that cannot be read. 3 and 130 are those of stopped runs."""


@analysis("comparisons", "Which differences are more than chance")
def comparisons(runs: Runs, options: Options) -> Analysis:
    """Paired tests of all pairs of candidates, with Holm's correction."""
    rows, notes = [], []
    for group in runs.groups:
        for metric in METRICS:
            wide = group.by_user(metric).dropna()  # the users of the tests
            found = group.rank_groups(metric, options.significance_level)
            if found is None:
                continue
            if found["n_users_left_out"]:
                notes.append(
                    f"On {group.dataset}{f' ({group.setting})' if group.setting else ''}, judged by {group.judge}, "
                    f"{found['n_users_left_out']} of {found['n_users'] + found['n_users_left_out']} users are left out "
                    f"for {metric}: some model has no score for them."
                )
            pairs = found["pairs"]
            columns = (pairs[name] for name in ("model_a", "model_b", "p_value", "p_value_holm", "differ"))
            for a, b, p, adjusted, differ in zip(*columns, strict=True):
                delta = (wide[a] - wide[b]).round(12)
                rows.append(
                    {**group.key, "metric": metric, "model_a": a, "model_b": b, "n_users": len(wide),
                     "n_users_left_out": found["n_users_left_out"], "score_a": wide[a].median(),
                     "score_b": wide[b].median(), "difference_of_means": delta.mean(),
                     "a_better_share": float((delta > 0).mean()), "b_better_share": float((delta < 0).mean()),
                     "p_value": p, "p_value_holm": adjusted, "differ": differ}
                )  # fmt: skip
    if not rows:
        raise Unavailable("Needs two or more candidates on one data set.")
    frame = typed(rows)
    matrix = frame.loc[frame["metric"] == "ig_f1"].reset_index(drop=True)
    figure = FigureSpec(
        "heatmap", "differences", "Differences of mean IG F1", "The row's model minus the column's. Pale cells: no "
        "difference worth the name.", x="model_b", y="model_a", colour="difference_of_means", facet="dataset",
    )  # fmt: skip
    return Analysis(
        "comparisons",
        "Which differences are more than chance",
        "Each pair of models over the users that all models have a score for.",
        {"pairs": frame, "differences": matrix},
        {"comparisons": figure},
        policy={
            "test": "Wilcoxon signed-rank, two-sided, zero differences dropped, exact for up to 50 differences",
            "users": "those whom every model has a score for, in tests, medians and differences alike",
            "correction": "Holm, over the pairs of a data set and metric",
            "significance_level": options.significance_level,
        },
        notes=tuple(notes),
    )


def compare_runs(a: Run, b: Run, *, n_resamples: int = 1000, seed: int = 0) -> pd.DataFrame:
    """Compare two runs over their common users, metric by metric, with paired intervals and Holm's correction.

    Args:
        a: scored.
        b: scored, on the same data, under the same thresholds and oracle.
        n_resamples: of the intervals.
        seed: of the bootstrap.

    Returns:
        One row for each metric: medians, means, differences a - b with intervals, shares, p-values.

    Raises:
        StoreError: the two do not compare, or share no scored user.
    """
    _refuse(a, b)
    rows = []
    for metric in METRICS:
        one, other = (run.scores.set_index("user_id")[metric] for run in (a, b))
        common = one.index.intersection(other.index)
        if not len(common):
            raise StoreError(f"{a.path} and {b.path} share no scored user.")
        found = load_metric("ig").compare(
            optional(one[common]), optional(other[common]), n_resamples=n_resamples, seed=seed
        )
        medians = found["ci_difference_of_medians"] or (None, None)
        means = found["ci_difference_of_means"] or (None, None)
        n = max(found["n_users"], 1)
        rows.append(
            {"metric": metric, "n_users": found["n_users"], "score_a": found["median_a"], "score_b": found["median_b"],
             "difference_of_medians": found["difference_of_medians"], "ci_difference_of_medians_low": medians[0],
             "ci_difference_of_medians_high": medians[1], "difference_of_means": found["difference_of_means"],
             "ci_difference_of_means_low": means[0], "ci_difference_of_means_high": means[1],
             "a_better_share": found["n_a_better"] / n, "b_better_share": found["n_b_better"] / n,
             "p_value": found["p_value"]}
        )  # fmt: skip
    frame = pd.DataFrame(rows)
    return typed(frame.assign(p_value_holm=holm(frame["p_value"].tolist())))


def holm(p_values: list[float]) -> list[float]:
    """Return p-values adjusted by Holm.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    found: list[float] = load_metric("ig").adjusted(p_values, "holm").tolist()
    return found


def _refuse(a: Run, b: Run) -> None:
    there, here = ({**run.conditions, "judge": run.judge} for run in (a, b))
    found = differing(there, here)
    if not found:
        return
    # Other oracles follow from other conditions.
    found = {name: what for name, what in found.items() if name != "oracle"} or found
    what = "; ".join(found.values())
    hint = (
        "Score both in one suite, or against one oracle (share_oracle)."
        if list(found) == ["oracle"]
        else "Make both alike in this; `gistbench score` takes other thresholds."
    )
    raise StoreError(
        f"{a.path} and {b.path} do not compare ({what}). {hint} How much of a change of scores each part explains: "
        "`gistbench report A B --out DIR --only changes`."
    )


@dataclass(frozen=True)
class Gate:
    """What a gate decided."""

    passed: bool
    checks: pd.DataFrame
    """One row for each candidate and metric: scores, ``drop`` (base - new), ``p_value_holm``, ``failed``."""
    reasons: tuple[str, ...]
    """One sentence for each failed check."""
    differences: pd.DataFrame
    """What the manifests of base and new say differently: ``dataset``, ``model``, ``what``, ``in_a``, ``in_b``."""
    policy: dict[str, Any]

    @property
    def exit_status(self) -> int:
        """`EXIT_PASSED` or `EXIT_DROPPED`."""
        return EXIT_PASSED if self.passed else EXIT_DROPPED


def gate(
    base: Runs,
    new: Runs,
    *,
    metrics: tuple[str, ...] = ("ig_f1", "is"),
    tolerance: float = 0.02,
    significance_level: float = 0.05,
    statistic: str = "median",
) -> Gate:
    """Decide whether new runs are as good as base runs: only a drop that is both large and significant fails.

    The two may differ in how candidates and judge were asked, prompts included, which `Gate.differences` says. Where
    their oracles differ, both are scored once more against the union.

    Args:
        base: with one candidate, or the same candidates as ``new``.
        new: on the same data, by the same judge, under the same taxonomy and thresholds.
        metrics: that are checked.
        tolerance: a drop up to this passes; fractions of 1.
        significance_level: of the Holm-adjusted tests over all checks.
        statistic: ``median`` or ``mean``, of which the drop is.

    Raises:
        StoreError: the gate cannot be decided: runs that do not compare, or candidates that do not match.
        ValueError: an option means nothing.
    """
    if statistic not in ("median", "mean") or not tolerance >= 0 or not 0 < significance_level < 1:
        raise ValueError("statistic is median or mean, tolerance at least 0, significance_level between 0 and 1.")
    if unknown := sorted(set(metrics) - set(METRICS)) or (["none"] if not metrics else []):
        raise ValueError(f"There is no metric {', '.join(unknown)}. There are: {', '.join(METRICS)}.")
    differences = differences_of(_matched(base, new))
    rows = []
    for old, fresh in _matched(*share_oracle(base, new)):
        found = compare_runs(old, fresh, n_resamples=0).set_index("metric").loc[list(metrics)].reset_index()
        drop = found["difference_of_medians" if statistic == "median" else "difference_of_means"]
        rows.append(found.assign(dataset=old.dataset, model=fresh.model, drop=drop))
    checks = pd.concat(rows, ignore_index=True)
    if not len(checks) or checks["n_users"].min() < 2:
        raise StoreError("The gate cannot be decided: some metric has a value for fewer than 2 common users.")
    checks["p_value_holm"] = holm(checks["p_value"].tolist())
    checks["failed"] = (checks["drop"] > tolerance + 1e-12) & (checks["p_value_holm"] < significance_level)
    columns = ["dataset", "model", "metric", "n_users", "score_a", "score_b", "drop", "p_value", "p_value_holm",
               "failed"]  # fmt: skip
    checks = typed(checks[columns])
    failed = checks.loc[checks["failed"]]
    named = zip(
        *(failed[name].tolist() for name in ("model", "dataset", "metric", "drop", "p_value_holm")), strict=True
    )
    reasons = tuple(
        f"{model} on {dataset}: the {statistic} of {metric} fell by {100 * drop:.1f} points (p = {p:.2g})."
        for model, dataset, metric, drop, p in named
    )
    policy = {
        "fails": f"a drop of the {statistic} above {tolerance} whose adjusted p-value is below {significance_level}",
        "test": "Wilcoxon signed-rank over common users, two-sided, Holm over all checks",
        "oracle": "that of both sides" if "oracle" not in set(differences["what"]) else "the union of both sides'",
    }
    return Gate(not reasons, checks, reasons, differences, policy)


def differences_of(pairs: Iterable[tuple[Run, Run]]) -> pd.DataFrame:
    """Return what the manifests of paired runs say differently, in the columns of `Gate.differences`."""
    frames = [list_differences(a, b).assign(dataset=b.dataset, model=b.model) for a, b in pairs]
    return typed(pd.concat(frames, ignore_index=True)[["dataset", "model", "what", "in_a", "in_b"]])


def _matched(base: Runs, new: Runs) -> list[tuple[Run, Run]]:
    """Return the pairs of runs to compare: by data set and candidate, or one candidate each."""
    by_key = [{(run.dataset, run.model): run for run in runs.all} for runs in (base, new)]
    for runs, keyed in zip((base, new), by_key, strict=True):
        if len(keyed) < len(runs.all):
            raise StoreError("The gate cannot be decided: a candidate is there twice on one data set.")
    if by_key[0].keys() == by_key[1].keys():
        return [(run, by_key[1][key]) for key, run in by_key[0].items()]
    if len(base.all) == len(new.all) == 1:
        return [(base.all[0], new.all[0])]
    only = sorted(f"{model} on {dataset}" for dataset, model in by_key[0].keys() ^ by_key[1].keys())
    raise StoreError(
        f"The gate cannot be decided: base and new are of different candidates ({', '.join(only)}). Give the same "
        "candidates on both sides, or one run on each."
    )
