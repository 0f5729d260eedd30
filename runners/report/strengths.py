"""Beyond the paper: in which categories and domains a candidate is strong or weak."""

from typing import Any

import numpy as np
import pandas as pd

from .analysis import Analysis, FigureSpec, Options, Unavailable, analysis
from .frames import KEY, typed, wilson
from .load import Group, Runs

__all__ = ["strengths"]


def _places(group: Group, options: Options) -> pd.DataFrame | None:
    """Return ``category_id``, ``category`` and ``domain``; None without a taxonomy."""
    if group.runs[0].taxonomy is None:
        return None
    taxonomy = group.taxonomy(options.taxonomy_source)
    if taxonomy is None:
        ids = sorted(set(group.interests["category_id"].dropna().astype(int)) - {0})
        return pd.DataFrame({"category_id": ids, "category": [f"category {i}" for i in ids], "domain": ""})
    domains = taxonomy.domains or [""] * len(taxonomy)
    return pd.DataFrame(
        {"category_id": list(taxonomy.ids), "category": list(taxonomy.names), "domain": [d or "" for d in domains]}
    )


def _strengths(group: Group, places: pd.DataFrame, by: str, options: Options) -> pd.DataFrame:
    """Return shares by model and category or domain, with tests against the other models together."""
    at = pd.Series(places[by].to_numpy(), index=places["category_id"].to_numpy())
    frames = []
    for run in group.runs:
        own = run.interests[["category_id", "verified", "specificity"]].assign(
            user=run.interests["user_id"].factorize()[0], **{by: run.interests["category_id"].map(at)}
        )
        found = own.groupby(by).agg(
            n_interests=("verified", "size"), n_verified=("verified", "sum"), n_users=("user", "nunique"),
            mean_specificity=("specificity", "mean"),
        )  # fmt: skip
        found["n_found"] = run.categories["category"].map(at).value_counts()
        frames.append(found.reset_index().assign(model=run.model))
    rows = pd.concat(frames, ignore_index=True)
    held = pd.Series([category for found in group.runs[0].oracle.values() for category in found], dtype="int64")
    n_oracle = held.map(at).value_counts()
    rows["n_found"] = rows["n_found"].fillna(0)
    rows["n_oracle_pairs"] = rows[by].map(n_oracle).fillna(0).astype(int)
    rows["found_share"] = rows["n_found"] / rows["n_oracle_pairs"].replace(0, np.nan)
    rows["verified_share"] = rows["n_verified"] / rows["n_interests"]
    low, high = wilson(rows["n_verified"], rows["n_interests"])
    rows = rows.assign(ci_verified_share_low=low, ci_verified_share_high=high)
    others = rows.groupby(by)[["n_interests", "n_verified"]].transform("sum") - rows[["n_interests", "n_verified"]]
    rows["others_verified_share"] = others["n_verified"] / others["n_interests"].replace(0, np.nan)
    rows["difference_verified_share"] = rows["verified_share"] - rows["others_verified_share"]
    rows["p_value_fdr"] = _fdr(rows, others)
    rows["differ"] = rows["p_value_fdr"] < options.significance_level
    return rows.assign(**group.key)


def _fdr(rows: pd.DataFrame, others: pd.DataFrame) -> pd.Series:
    """Return p-values of two shares being alike (pooled z-test), adjusted by Benjamini and Hochberg."""
    from scipy import stats

    n, m = rows["n_interests"].astype(float), others["n_interests"].astype(float)
    pooled = (rows["n_verified"] + others["n_verified"]) / (n + m)
    with np.errstate(invalid="ignore", divide="ignore"):
        error = np.sqrt(pooled * (1 - pooled) * (1 / n + 1 / m))
        z = (rows["verified_share"] - rows["others_verified_share"]) / error
    p = pd.Series(2 * stats.norm.sf(np.abs(z.to_numpy(dtype=float))), index=rows.index)
    p = p.where((m > 0) & (error > 0))
    known = p.dropna()
    if len(known):
        p.loc[known.index] = stats.false_discovery_control(known.to_numpy())
    return p


@analysis("strengths", "Strengths by domain and category")
def strengths(runs: Runs, options: Options) -> Analysis:
    """Verified and found shares by domain and category of each model."""
    domains, categories = [], []
    for group in runs.groups:
        places = _places(group, options)
        if places is None or not len(places):
            continue
        by_category = _strengths(group, places, "category", options)
        categories.append(by_category.merge(places[["category", "domain"]], on="category"))
        if (places["domain"] != "").any():
            domains.append(_strengths(group, places, "domain", options))
    if not categories:
        raise Unavailable("Needs runs with a taxonomy, and interests that are mapped to it.")
    columns: list[str] = ["n_interests", "n_verified", "n_users", "verified_share", "ci_verified_share_low",
                          "ci_verified_share_high", "others_verified_share", "difference_verified_share", "p_value_fdr",
                          "differ", "mean_specificity", "n_oracle_pairs", "found_share"]  # fmt: skip
    tables: dict[str, pd.DataFrame] = {}
    figures: dict[str, FigureSpec] = {}
    if domains:
        tables["domains"] = typed(pd.concat(domains)[[*KEY, "model", "domain", *columns]])
        figures["strengths"] = FigureSpec(
            "heatmap", "domains", "Share of verified interests by domain", "Rows that are pale throughout: domains "
            "that are hard for all. A pale cell in a dark row: that model's own weakness.", x="model", y="domain",
            colour="verified_share", facet="dataset",
        )  # fmt: skip
    tables["categories"] = typed(pd.concat(categories)[[*KEY, "model", "domain", "category", *columns]])
    policy: dict[str, Any] = {
        "verified_share": "verified of the model's interests of the category, with Wilson's interval; interests of one "
        "user are counted as independent, so tests are somewhat too confident",
        "found_share": "verified (user, category) pairs of those in the oracle",
        "test": "against all other models together, pooled z-test, Benjamini-Hochberg over the models and categories "
        "of a data set",
    }
    return Analysis(
        "strengths",
        "Strengths by domain and category",
        "How much of what a model names in a domain is backed, and how much of what there is it finds.",
        tables,
        figures,
        policy=policy,
    )
