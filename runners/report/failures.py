"""Table 7: why interests are not verified."""

import numpy as np
import pandas as pd
import pyarrow.compute as pc

from .analysis import Analysis, FigureSpec, Layout, Options, analysis
from .frames import KEY, typed
from .load import Run, Runs
from .published import published

__all__ = ["table_7"]

REASONS = {
    "insufficient_implicit_positive": "Ins. Imp+",
    "insufficient_explicit_positive": "Ins. Exp+",
    "excessive_negative": "Exc. Neg",
    "no_relevant_items": "",
}
"""By name in the tables; with the page's label."""


def _counts(run: Run) -> dict[str, int]:
    """Return how many interests of a run are not verified, and how many for each reason."""
    table = run.table("interests", ["verified", "failure_reasons"])
    unverified = table.filter(pc.invert(table["verified"]))
    reasons = pc.value_counts(pc.list_flatten(unverified["failure_reasons"])).to_pylist()
    by_reason = {found["values"]: found["counts"] for found in reasons}
    return {"n_unverified": len(unverified), "n_interests": len(table)} | {
        f"n_{name}": by_reason.get(name, 0) for name in REASONS
    }


@analysis("table_7", "Why interests are not verified")
def table_7(runs: Runs, options: Options) -> Analysis:
    """Failure modes among unverified interests, over all data sets and by data set (Table 7)."""
    by_dataset = pd.DataFrame(
        [{**group.key, "model": run.model, **_counts(run)} for group in runs.groups for run in group.runs]
    )
    counted = [name for name in by_dataset.columns if name.startswith("n_")]
    whole = by_dataset.groupby(["judge", "setting", "model"], sort=False)[counted].sum().reset_index()
    n_datasets = by_dataset.groupby(["judge", "setting", "model"], sort=False)["dataset"].nunique()
    whole["n_datasets"] = n_datasets.to_numpy()
    for frame in (by_dataset, whole):
        for name in REASONS:
            n = frame["n_unverified"].astype(float).replace(0, np.nan)
            frame[name] = frame[f"n_{name}"] / n
        frame["verified_share"] = 1 - frame["n_unverified"] / frame["n_interests"].astype(float).replace(0, np.nan)
    for name, label in REASONS.items():
        if label:
            whole[f"published_{name}"] = [published("Table 7", model, label) for model in whole["model"]]
    long = whole.melt(["judge", "setting", "model"], list(REASONS), var_name="reason", value_name="reason_share")
    long["reason"] = long["reason"].str.replace("_", " ")
    figure = FigureSpec(
        "bar", "shares", "Why interests are not verified", "Bars are shares of all unverified interests; an interest "
        "may have several reasons. High bars for positive signals: too little evidence, not contrary evidence.",
        x="reason_share", y="model", group="reason",
    )  # fmt: skip
    lacking = {
        run.dataset: [name for name in ("explicit_positive", "implicit_positive") if name not in run.signals]
        for run in runs.all
    }
    notes = [
        f"{dataset} has no {' and no '.join(names)} signal, so no interest there lacks it."
        for dataset, names in lacking.items()
        if names
    ]
    notes.append(
        "The clauses are alternatives: where a data set has both positive signals, an interest with enough of either "
        "is unverified only by negatives, so that 100 % minus either positive share can be no more than the negative "
        "share. The page's rows of DeepSeek-R1 (13.3 against 1.8), GPT-OSS-120B, Qwen3-32B and Qwen2.5-72B break "
        "this; they fit if a signal that a data set lacks (implicit positives in MIND) is never flagged, as it is here."
    )
    key = ["judge", "setting", "model"]
    order = [*REASONS, *(f"n_{name}" for name in REASONS), "n_unverified", "n_interests", "verified_share"]
    printed = [f"published_{name}" for name, label in REASONS.items() if label]
    return Analysis(
        "table_7",
        "Why interests are not verified",
        "Shares of all unverified interests, over all data sets. Reasons do not exclude one another.",
        {
            "failure_modes": typed(whole[[*key, "n_datasets", *order, *printed]]),
            "by_dataset": typed(by_dataset[[*KEY, "model", *order]]),
            "shares": typed(long),
        },
        {"table_7": figure},
        {"failure_modes": Layout(("model",), (), ("insufficient_implicit_positive", "insufficient_explicit_positive",
                                                  "excessive_negative"))},
        {"denominator": "all unverified interests", "lacking_signal": "one that a data set lacks is never flagged"},
        tuple(notes),
    )  # fmt: skip
