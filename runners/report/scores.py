"""Tables 3 and 4, Figures 3, 4, 5 and 9: the candidates' scores, in numbers and over users."""

from typing import Any

import numpy as np
import pandas as pd

from ..score import METRICS
from .analysis import QUANTILES, Analysis, FigureSpec, Layout, Options, Reference, Unavailable, analysis
from .frames import KEY, medians, quantiles, typed
from .load import Runs
from .published import paper_dataset, published

__all__ = ["figure_3", "figure_4", "figure_5", "figure_9", "table_3", "table_4"]

_NOTHING_VERIFIED = (
    "Needs a user with something to find: no candidate verified an interest here, and no oracle was given, so no user "
    "has a recall."
)
_ISO = tuple(Reference("iso_f1", level / 10, f"F1 {level / 10:g}") for level in range(1, 10, 2))


def _policy(runs: Runs, options: Options) -> dict[str, Any]:
    first = runs.all[0].score["policy"]
    return {
        "scores": "medians of per-user values",
        "intervals": first["ig"].get("interval", {}),
        "best": "the highest of a data set, judge and setting; no candidate with too many unusable answers is ranked",
        "groups": f"Wilcoxon signed-rank tests of all pairs, Holm, level {options.significance_level}; models that "
        "share a letter are not told apart",
        "module_versions": {name: first[name]["module_version"] for name in ("ig", "is")},
        "published": "the paper's prompts are not ours: numbers do not compare to the digit",
        "conditions": [{**group.key, **group.runs[0].conditions} for group in runs.groups],
    }


def _table(runs: Runs, options: Options, id: str, title: str, caption: str, metrics: dict[str, str]) -> Analysis:
    frame = medians(runs, list(metrics), options.significance_level)
    printed = f"Table {id.rpartition('_')[2]}"
    for metric, label in metrics.items():
        columns = [f"{paper_dataset(dataset)} / {label}" for dataset in frame["dataset"]]
        frame[f"published_{metric}"] = [
            published(printed, model, column) for model, column in zip(frame["model"], columns, strict=True)
        ]
    return Analysis(
        id,
        title,
        caption,
        tables={"medians": typed(frame)},
        layouts={"medians": Layout(("model",), KEY, tuple(metrics))},
        policy=_policy(runs, options),
        notes=tuple(
            f"{model} is not ranked on {dataset}: {why}"
            for model, dataset, why in zip(frame["model"], frame["dataset"], frame["not_ranked"], strict=True)
            if why
        ),
    )


@analysis("table_3", "IG F1 and IS by data set")
def table_3(runs: Runs, options: Options) -> Analysis:
    """Medians of ig_f1 and is (Table 3)."""
    caption = (
        "Median IG F1 and IS with 95 % intervals. The best value of each data set is marked; models that share a "
        "letter are not told apart, so a lead within a letter is none."
    )
    return _table(runs, options, "table_3", "IG F1 and IS by data set", caption, {"ig_f1": "IG F1", "is": "IS"})


@analysis("table_4", "IG precision and recall by data set")
def table_4(runs: Runs, options: Options) -> Analysis:
    """Medians of ig_precision and ig_recall (Table 4)."""
    caption = (
        "Median IG precision and recall with 95 % intervals. Where precision is the higher one, interests are missed "
        "rather than made up."
    )
    names = {"ig_precision": "IG P", "ig_recall": "IG R"}
    found = _table(runs, options, "table_4", "IG precision and recall by data set", caption, names)
    frame = found.tables["medians"]
    n = int((frame["ig_precision"] > frame["ig_recall"]).sum())
    known = int(frame["ig_recall"].notna().sum())
    note = f"Precision is above recall in {n} of {known} rows here, and in all 10 pairs that the page prints."
    tables = {"medians": typed(frame.assign(precision_leads=frame["ig_precision"] > frame["ig_recall"]))}
    return Analysis(found.id, found.title, found.caption, tables, {}, found.layouts, found.policy, (*found.notes, note))


@analysis("figure_3", "Precision against recall")
def figure_3(runs: Runs, options: Options) -> Analysis:
    """Median precision against median recall, bubbles by predicted categories (Figure 3)."""
    rows = []
    for group in runs.groups:
        mean_categories = group.scores.groupby("model")["n_categories"].mean()
        for run in group.runs:
            values = {name: run.score[name] for name in ("ig_precision", "ig_recall", "ig_f1")}
            rows.append(
                {**group.key, "model": run.model, **values, "categories_per_user": mean_categories.get(run.model)}
            )
    figure = FigureSpec(
        "scatter", "models", "Precision against recall", "Each bubble is a model: the further right, the more of the "
        "oracle it found; the higher, the more of what it named is backed. Size: categories named per user; lines: "
        "equal F1.", x="ig_recall", y="ig_precision", colour="ig_f1", size="categories_per_user", label="model",
        facet="dataset", references=_ISO, x_range=(0, 1), y_range=(0, 1),
    )  # fmt: skip
    return Analysis(
        "figure_3",
        "Precision against recall",
        figure.caption,
        {"models": typed(rows)},
        {"figure_3": figure},
        policy={"scores": "medians over users", "categories_per_user": "mean over scored users, category 0 included"},
    )


@analysis("figure_4", "Precision against recall, user by user")
def figure_4(runs: Runs, options: Options) -> Analysis:
    """Per-user precision against recall (Figure 4)."""
    columns = [*KEY, "model", "user_id", "ig_precision", "ig_recall", "ig_f1"]
    users, points = [], []
    for group in runs.groups:
        known = group.scores.dropna(subset="ig_recall").assign(**group.key)[columns]
        if not len(known):
            continue
        leads = (known["ig_precision"] > known["ig_recall"]).groupby(known["model"]).mean()
        middle = known.groupby("model", sort=False)[["ig_precision", "ig_recall", "ig_f1"]].median()
        middle = middle.assign(precision_leads_share=leads, n_users=known.groupby("model").size())
        points.append(middle.reset_index().assign(**group.key))
        if len(known) > options.max_points:
            order = np.random.default_rng(options.seed).permutation(len(known))[: options.max_points]
            known = known.iloc[np.sort(order)]
        users.append(known)
    if not users:
        raise Unavailable(_NOTHING_VERIFIED)
    measured = ["ig_precision", "ig_recall", "ig_f1", "precision_leads_share", "n_users"]
    tables = {"users": typed(pd.concat(users)), "medians": typed(pd.concat(points)[[*KEY, "model", *measured]])}
    figure = FigureSpec(
        "scatter", "users", "Precision against recall, user by user", "Each dot is a user, each diamond a model's "
        "median. Dots above the diagonal: more is backed than is found.", x="ig_recall", y="ig_precision",
        group="model", facet="dataset", faint=True, overlay="medians",
        references=(Reference("diagonal", label="precision = recall"),), x_range=(0, 1), y_range=(0, 1),
    )  # fmt: skip
    policy = {"shown": f"at most {options.max_points} users of each data set, a seeded sample; medians are of all"}
    return Analysis("figure_4", figure.title, figure.caption, tables, {"figure_4": figure}, policy=policy)


@analysis("figure_5", "Means with 95 % intervals")
def figure_5(runs: Runs, options: Options) -> Analysis:
    """Forest plot of means (Figure 5)."""
    rows = []
    for group in runs.groups:
        for run in group.runs:
            row: dict[str, Any] = {**group.key, "model": run.model}
            for metric in METRICS:
                low, high = run.score[f"ci_mean_{metric}"] or (None, None)
                row |= {f"mean_{metric}": run.score[f"mean_{metric}"]}
                row |= {f"ci_mean_{metric}_low": low, f"ci_mean_{metric}_high": high}
            rows.append(row)
    frame = typed(rows).sort_values([*KEY, "mean_ig_f1"], ascending=[True] * 3 + [False], ignore_index=True)
    figure = FigureSpec(
        "forest", "means", "Mean IG F1 with 95 % intervals", "Intervals that overlap much need not differ: see the "
        "paired comparisons, which use that the users are the same.", x="mean_ig_f1", y="model",
        low="ci_mean_ig_f1_low", high="ci_mean_ig_f1_high", facet="dataset",
    )  # fmt: skip
    return Analysis(
        "figure_5",
        figure.title,
        figure.caption,
        {"means": frame},
        {"figure_5": figure},
        policy={"scores": "means over users", "intervals": runs.all[0].score["policy"]["ig"].get("interval", {})},
    )


@analysis("figure_9", "Spread over users")
def figure_9(runs: Runs, options: Options) -> Analysis:
    """Box plots of per-user IG F1 (Figure 9)."""
    boxes, overall = [], []
    for group in runs.groups:
        known = group.scores.dropna(subset="ig_f1")
        if not len(known):
            continue
        frame = quantiles(known, ["model"], "ig_f1")
        zero = (known["ig_f1"] == 0).groupby(known["model"]).mean()
        boxes.append(frame.assign(**group.key, zero_share=frame["model"].map(zero)))
        overall.append({**group.key, "median": known["ig_f1"].median(), "n_users": len(known)})
    if not boxes:
        raise Unavailable(_NOTHING_VERIFIED)
    columns = [*KEY, "model", *QUANTILES, "n_users", "zero_share"]
    tables = {"boxes": typed(pd.concat(boxes)[columns]), "overall": typed(overall)}
    whole = [float(frame["median"]) for frame in tables["overall"].to_dict("records")]
    references = (Reference("horizontal", whole[0], "overall median"),) if len(whole) == 1 else ()
    figure = FigureSpec(
        "box", "boxes", "IG F1 over users", "Boxes hold the middle half of the users. Look at the lower ends: models "
        "with like medians may fail on different shares of users.", x="model", y="median", facet="dataset",
        references=references,
    )  # fmt: skip
    policy = {"whiskers": "least and greatest value", "quartiles": "linear interpolation"}
    return Analysis("figure_9", figure.title, figure.caption, tables, {"figure_9": figure}, policy=policy)
