"""Tables 15 and 16: who found what there is to find, and what the oracle loses without each model."""

from typing import Any

import numpy as np
import pandas as pd

from ..score import load_metric
from .analysis import Analysis, FigureSpec, Layout, Options, analysis
from .frames import spearman, typed
from .load import Group, Runs
from .published import published, value

__all__ = ["shared_pairs"]


def shared_pairs(group: Group) -> dict[str, Any]:
    """Return the oracle of a group's runs as the `ig` module's ``build_oracle`` does; a given one counts as a model."""
    given = group.runs[0].given_oracle or None
    results = {run.model: run.ig for run in group.runs}
    return group.once("shared pairs", lambda: dict(load_metric("ig").build_oracle(results=results, given=given)))


@analysis("table_15", "How many models find each category")
def table_15(runs: Runs, options: Options) -> Analysis:
    """(User, category) pairs of the oracle by how many models verify them (Table 15)."""
    rows = []
    for group in runs.groups:
        found = shared_pairs(group)
        n_pairs, shares = found["by_k"]["n_pairs"], found["by_k"]["share"]
        at_least = np.cumsum(n_pairs[::-1])[::-1]
        for k, n, share, more in zip(found["by_k"]["n_models"], n_pairs, shares, at_least.tolist(), strict=True):
            synthetic = group.dataset == "synthetic"
            rows.append(
                {**group.key, "n_models": k, "n_pairs": n, "pair_share": share,
                 "at_least_share": more / found["n_pairs"] if found["n_pairs"] else None,
                 "published_n_pairs": value("Table 15", str(k), "Count") if synthetic else None,
                 "published_pair_share": value("Table 15", str(k), "%") if synthetic else None}
            )  # fmt: skip
    figure = FigureSpec(
        "bar", "by_k", "How many models find each category", "A tall first bar: much of the oracle rests on one "
        "model's word.", x="n_models", y="pair_share", facet="dataset",
    )  # fmt: skip
    return Analysis(
        "table_15",
        "How many models find each category",
        "Pairs of a user and a category by how many models verify them independently.",
        {"by_k": typed(rows)},
        {"table_15": figure},
        {"by_k": Layout(("n_models",), ("dataset",), ("n_pairs", "pair_share"))},
        {"oracle": "union of verified categories other than 0; a given oracle counts as one more model"},
    )


@analysis("table_16", "The oracle without each model")
def table_16(runs: Runs, options: Options) -> Analysis:
    """What each model verifies, what only it does, and what leaving it out does to the others (Table 16)."""
    rows = []
    for group in runs.groups:
        found = shared_pairs(group)
        columns = found["by_model"]
        moved = _without_each(group, found)
        for model, verified, sole, share, left in zip(*columns.values(), strict=True):
            synthetic = group.dataset == "synthetic"
            rows.append(
                {**group.key, "model": model, "n_verified_pairs": verified, "n_sole_provider": sole,
                 "sole_provider_share": share, "n_pairs_without": left, **moved.get(model, {}),
                 "published_n_verified_pairs": published("Table 16", model, "Verified") if synthetic else None,
                 "published_n_sole_provider": published("Table 16", model, "Sole provider") if synthetic else None,
                 "published_sole_provider_share": published("Table 16", model, "% oracle") if synthetic else None}
            )  # fmt: skip
    frame = pd.DataFrame(rows)
    for name in ("largest_gain_without", "rho_without"):
        frame[name] = frame[name] if name in frame else float("nan")
    figure = FigureSpec(
        "bar", "by_model", "What only one model finds", "Long bars: without this model the oracle shrinks, and the "
        "others look better.", x="sole_provider_share", y="model", facet="dataset",
    )  # fmt: skip
    return Analysis(
        "table_16",
        "The oracle without each model",
        "Pairs that a model verifies, and those that only it does. Without it, the other models' median recall rises "
        "by at most the gain shown, and their order by IG F1 agrees with the order before as rho says.",
        {"by_model": typed(frame)},
        {"table_16": figure},
        {"by_model": Layout(("model",), ("dataset",), ("n_verified_pairs", "n_sole_provider", "sole_provider_share"))},
        {"without": "scores of the other models against the union of their own categories and a given oracle"},
    )


def _without_each(group: Group, found: dict[str, Any]) -> dict[str, dict[str, float]]:
    """Return, for each model, how the others' scores move when what only it found is taken out of the oracle.

    The other models' verified categories all stay, so that recall changes by the number of the user's categories alone.
    """
    if len(group.runs) < 3:
        return {}
    pairs = pd.DataFrame({name: found["pairs"][name] for name in ("user_id", "n_models", "models")})
    sole = pairs.loc[pairs["n_models"] == 1].assign(model=lambda own: own["models"].map(lambda names: names[0]))
    lost: pd.Series[Any] = sole.groupby(["model", "user_id"]).size()
    n_oracle, precision, recall = (
        group.by_user(name) for name in ("n_oracle_categories", "ig_precision", "ig_recall")
    )  # fmt: skip
    moved = {}
    for model in group.models:
        fewer = lost.loc[model] if model in lost.index.get_level_values("model") else pd.Series(dtype=float)
        kept = n_oracle.sub(fewer.reindex(n_oracle.index).fillna(0), axis=0)
        others = [other for other in group.models if other != model]
        after = (recall * n_oracle / kept.where(kept > 0))[others]
        before, f1 = recall[others], [_harmonic(precision[others], r) for r in (recall[others], after)]
        moved[model] = {
            "largest_gain_without": float((after.median() - before.median()).max()),
            "rho_without": spearman(f1[0].median(), f1[1].median()),
        }
    return moved


def _harmonic(a: pd.DataFrame, b: pd.DataFrame) -> pd.DataFrame:
    total = a + b
    return (2 * a * b / total.where(total > 0)).where(total != 0, 0.0)
