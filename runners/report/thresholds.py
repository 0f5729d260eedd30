"""Tables 20 to 22: other thresholds, verified anew from the stored counts, and whether the ranking stands."""

from typing import Any

import pandas as pd

from ..score import METRICS, load_metric
from .analysis import Analysis, FigureSpec, Layout, Options, Unavailable, analysis
from .frames import KEY, spearman, typed
from .load import Group, Runs
from .published import published, value

__all__ = ["scores_under", "table_20", "table_21", "table_22"]

SETTINGS = ("lenient", "base", "strict")
_ROWS = {"lenient": "Lenient (-1)", "base": "Base (paper)", "strict": "Strict (+1)"}
_COLUMNS = {
    "explicit_positive": "Exp+",
    "implicit_positive": "Imp+",
    "hybrid_explicit_positive": "Hybrid / Exp+",
    "hybrid_implicit_positive": "Hybrid / Imp+",
    "max_implicit_negative": "Imp- cap",
}


def scores_under(group: Group, thresholds: Any) -> pd.DataFrame:
    """Return the medians of a group's models under thresholds, against what the models verify together under them.

    Returns:
        One row for each model (the index), one column for each metric.
    """
    return group.once(f"scores under {thresholds}", lambda: _scores_under(group, thresholds))


def _scores_under(group: Group, thresholds: Any) -> pd.DataFrame:
    ig = load_metric("ig").rescore({run.model: run.ig for run in group.runs}, thresholds=thresholds, n_resamples=0)
    found = load_metric("is").rescore({run.model: run.specificity for run in group.runs}, ig=ig, n_resamples=0)
    return pd.DataFrame(
        {
            model: {metric: (found if metric in ("is", "hm") else ig)[model][metric] for metric in METRICS}
            for model in ig
        }
    ).T.astype(float)


@analysis("table_20", "Threshold settings")
def table_20(runs: Runs, options: Options) -> Analysis:
    """The settings themselves, as the module `ig` has them (Table 20)."""
    rows = []
    first = {"run": runs.all[0].ig}
    for name in SETTINGS:
        policy = load_metric("ig").rescore(first, thresholds=name, n_resamples=0)["run"]["policy"]["thresholds"]
        rows.append({"thresholds": policy.pop("preset"), **policy})
        rows[-1] |= {f"published_{clause}": value("Table 20", _ROWS[name], label) for clause, label in _COLUMNS.items()}
    return Analysis(
        "table_20",
        "Threshold settings",
        "How much evidence verifies an interest: at least so many distinct objects of a positive signal, at most so "
        "many of a negative one. An empty cell: no such clause.",
        {"thresholds": typed(rows)},
        layouts={"thresholds": Layout(("thresholds",), (), (*_COLUMNS, "max_explicit_negative"))},
        notes=("The cap on explicit negatives is the reference implementation's, not the paper's.",),
    )


@analysis("table_21", "Other thresholds")
def table_21(runs: Runs, options: Options) -> Analysis:
    """Medians under three settings (Table 21)."""
    rows = []
    for group in runs.groups:
        for setting in SETTINGS:
            scores = scores_under(group, setting)
            for model, row in scores.iterrows():
                printed = published("Table 21", str(model), setting.capitalize())
                rows.append(
                    {**group.key, "model": model, "thresholds": setting, **{metric: row[metric] for metric in METRICS},
                     "published_ig_f1": printed if group.dataset == "synthetic" else None}
                )  # fmt: skip
    figure = FigureSpec(
        "line", "medians", "IG F1 under other thresholds", "Lines that do not cross: the ranking does not hang on the "
        "thresholds.", x="thresholds", y="ig_f1", group="model", facet="dataset", y_range=(0, 1),
    )  # fmt: skip
    return Analysis(
        "table_21",
        "Other thresholds",
        "Medians with every threshold one step lower and one step higher, verified anew from the stored counts.",
        {"medians": typed(rows)},
        {"table_21": figure},
        {"medians": Layout(("model",), ("dataset", "thresholds"), ("ig_f1",))},
        _POLICY,
    )


@analysis("table_22", "Does the ranking stand under other thresholds?")
def table_22(runs: Runs, options: Options) -> Analysis:
    """Spearman's rho of the rankings against the base setting (Table 22)."""
    rows, places = [], []
    names = {"ig_precision": "IG P", "ig_recall": "IG R", "ig_f1": "IG F1", "is": "IS", "hm": ""}
    for group in runs.groups:
        if len(group.runs) < 2:
            continue
        under = {setting: scores_under(group, setting) for setting in SETTINGS}
        for metric in METRICS:
            row: dict[str, Any] = {**group.key, "metric": metric, "n_models": len(group.runs)}
            for other in ("lenient", "strict"):
                row[f"rho_{other}"] = spearman(under["base"][metric], under[other][metric])
                printed = value("Table 22", names[metric], f"Base vs {other.capitalize()}")
                row[f"published_rho_{other}"] = printed if group.dataset == "synthetic" else None
            rows.append(row)
            places += [
                {**group.key, "metric": metric, "thresholds": setting, "model": model, "rank": int(place)}
                for setting, scores in (under.items() if metric in ("ig_f1", "is") else ())
                for model, place in scores[metric].rank(ascending=False, method="min").dropna().items()
            ]
    if not rows:
        raise Unavailable("Needs two or more candidates on one data set.")
    figure = FigureSpec(
        "line", "places", "Places under other thresholds", "Lines that cross are pairs of models whose order hangs on "
        "the thresholds.", x="thresholds", y="rank", group="model", facet="metric",
    )  # fmt: skip
    return Analysis(
        "table_22",
        "Does the ranking stand under other thresholds?",
        "Spearman's rho between the ranking under the base thresholds and under the others; 1: the same order.",
        {"correlations": typed(rows), "places": typed(places, [*KEY, "metric", "thresholds", "model", "rank"])},
        {"table_22": figure},
        layouts={"correlations": Layout(("metric",), ("dataset",), ("rho_lenient", "rho_strict"))},
        policy={**_POLICY, "ties": "average ranks; no variation, no rho"},
    )


_POLICY = {
    "verdicts": "from the stored counts of distinct relevant objects",
    "oracle": "under each setting, what these models verify together under it; a given oracle does not enter, since it "
    "was verified under thresholds of its own",
}
