"""Table 11 and Figures 6 to 8: how much of the taxonomy candidates name, alone and together, and how evenly."""

from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from .analysis import Analysis, FigureSpec, Layout, Options, Reference, Unavailable, analysis
from .frames import typed
from .load import Group, Runs
from .published import published, value

__all__ = ["concentration", "figure_8", "table_11"]

_MAX_SUBSETS = 20_000
BoolArray = npt.NDArray[np.bool_]


def _mapped(group: Group) -> pd.DataFrame:
    """Return the named interests of a group that are mapped to a category: ``model``, ``interest``, ``category``.

    One row for each interest of each user, judged or not.
    """
    return group.once("mapped", lambda: _map(group))


def _map(group: Group) -> pd.DataFrame:
    frames = []
    for run in group.runs:
        named: pd.DataFrame = run.table("extractions", ["user_id", "interest"]).to_pandas()
        mappings = run.table("mappings", ["interest", "category_id"]).to_pandas()
        merged = named.merge(mappings, on="interest", how="left")
        category = merged["category_id"].fillna(0).astype("int64")
        frames.append(pd.DataFrame({"model": run.model, "interest": merged["interest"], "category": category}))
    return pd.concat(frames, ignore_index=True)


def _by_taxonomy(runs: Runs) -> dict[tuple[str, str, str], list[Group]]:
    """Return groups by taxonomy, judge and setting: coverage adds up over data sets of one taxonomy only."""
    found: dict[tuple[str, str, str], list[Group]] = {}
    for group in runs.groups:
        taxonomy = group.runs[0].taxonomy
        if taxonomy is not None and group.taxonomy_size:
            found.setdefault((taxonomy["name"], group.judge, group.setting), []).append(group)
    if not found:
        raise Unavailable("Needs runs with a taxonomy whose categories are at hand.")
    return found


def concentration(counts: Any, n_categories: int, share: float) -> tuple[int, float]:
    """Return how many of the largest categories hold a share of the interests, and what share of all they are.

    >>> concentration([50, 30, 15, 5], 10, 0.8)
    (2, 0.2)
    """
    sizes = np.sort(np.asarray(counts))[::-1]
    total = sizes.sum()
    if not total:
        return 0, 0.0
    n = int(np.searchsorted(np.cumsum(sizes), share * total - 1e-9) + 1)
    return n, n / n_categories


@analysis("table_11", "Taxonomy coverage")
def table_11(runs: Runs, options: Options) -> Analysis:
    """Coverage by model over all data sets, Figure 6, and the concentration of Figure 7 (Table 11)."""
    models, curves, shares = [], [], []
    for (taxonomy, judge, setting), groups in _by_taxonomy(runs).items():
        size = int(groups[0].taxonomy_size or 0)
        mapped = pd.concat([_mapped(group) for group in groups], ignore_index=True)
        known = mapped.loc[mapped["category"] != 0]
        if not len(known):
            continue
        named = {"taxonomy": taxonomy, "judge": judge, "setting": setting}
        official = taxonomy == "official"  # the page's numbers are of no other
        per_model = known.groupby("model", sort=False).agg(
            n_unique_interests=("interest", "nunique"), n_covered=("category", "nunique")
        )
        for model, row in per_model.sort_values(["n_covered", "n_unique_interests"], ascending=False).iterrows():
            models.append(
                {**named, "model": model, "n_unique_interests": row["n_unique_interests"],
                 "n_covered": row["n_covered"],
                 "covered_share": row["n_covered"] / size, "n_categories": size,
                 "published_n_unique_interests": published("Table 11", str(model), "Unique Int.") if official else None,
                 "published_n_covered": published("Table 11", str(model), "Covered") if official else None}
            )  # fmt: skip
        counts = known["category"].value_counts().to_numpy()
        sizes = np.concatenate([counts, np.zeros(max(size - len(counts), 0), dtype=counts.dtype)])
        cumulative = np.cumsum(sizes) / max(sizes.sum(), 1)
        curve = {"rank": np.arange(1, len(sizes) + 1), "category_share": np.arange(1, len(sizes) + 1) / size}
        curves.append(pd.DataFrame({**named, **curve, "cumulative_share": cumulative}))
        for share, label in ((0.5, "50%"), (0.8, "80%")):
            n, of_all = concentration(counts, size, share)
            printed = value("Figure 7", "caption", f"categories that hold {label} of interests") if official else None
            shares.append(
                {**named, "interest_share": share, "n_categories_needed": n, "category_share": of_all,
                 "published_category_share": printed, "n_interests": int(counts.sum())}
            )  # fmt: skip
    if not models:
        raise Unavailable("Needs interests that are mapped to a category: no candidate named one here.")
    total = sorted({int(row["n_categories"]) for row in models})
    lines = tuple(Reference("vertical", float(n), f"all {n} categories") for n in total)
    halves = tuple(Reference("horizontal", share, f"{share:.0%} of interests") for share in (0.5, 0.8))
    figures = {
        "figure_6": FigureSpec(
            "bar", "models", "Categories named at least once", "Bars that nearly reach the line: over many users even "
            "narrow models touch almost everything.", x="n_covered", y="model", facet="taxonomy", references=lines,
        ),
        "figure_7": FigureSpec(
            "line", "concentration", "How interests crowd into few categories", "The steeper the start, the fewer "
            "categories hold most interests.", x="category_share", y="cumulative_share", group="taxonomy",
            references=halves, x_range=(0, 1), y_range=(0, 1),
        ),
    }  # fmt: skip
    return Analysis(
        "table_11",
        "Taxonomy coverage",
        "Categories with at least one named interest, over all data sets of one taxonomy; and how few categories hold "
        "half of the interests and four fifths of them.",
        {"models": typed(models), "concentration": typed(pd.concat(curves)), "shares": typed(shares)},
        figures,
        {"models": Layout(("model",), ("taxonomy",), ("n_unique_interests", "n_covered", "covered_share"))},
        {
            "n_unique_interests": "distinct names mapped to a category other than 0, over data sets",
            "concentration": "named interests of users, category 0 left out; shares are of the whole taxonomy",
            "published": "Figure 7's 10.1 % and 29.4 % fit 33 and 96 of 326 categories: the official 325 and one more, "
            "which may be category 0",
        },
    )


@analysis("figure_8", "Coverage by data set and ensemble")
def figure_8(runs: Runs, options: Options) -> Analysis:
    """Coverage of each data set by each model and by models together (Figure 8)."""
    rows, sizes = [], []
    for groups in _by_taxonomy(runs).values():
        for group in groups:
            size = int(group.taxonomy_size or 0)
            mapped = _mapped(group)
            pairs = mapped.loc[mapped["category"] != 0, ["model", "category"]].drop_duplicates()
            held = pd.crosstab(pairs["category"], pairs["model"]).reindex(columns=group.models, fill_value=0)
            covers = held.to_numpy().T.astype(bool)
            own = [
                *zip(group.models, covers.sum(axis=1).tolist(), strict=True),
                ("all models", int(covers.any(0).sum())),
            ]
            for name, n in own:
                rows.append({**group.key, "model": name, "n_covered": int(n), "covered_share": n / size})
            for k, best, mean, members in _ensembles(covers, group.models):
                sizes.append({**group.key, "n_models": k, "covered_share": best / size,
                              "mean_covered_share": mean / size, "models": members})  # fmt: skip
    figures = {
        "figure_8": FigureSpec(
            "bar", "models", "Taxonomy coverage by data set", "Where all models together cover much more than the best "
            "one, ensembles pay; where data is thin, nothing does.", x="covered_share", y="model", facet="dataset",
            x_range=(0, 1),
        ),
        "figure_8_ensembles": FigureSpec(
            "line", "ensembles", "Coverage of the best ensemble of each size", "Where the line flattens, further "
            "models add nothing new.", x="n_models", y="covered_share", group="dataset", y_range=(0, 1),
        ),
    }  # fmt: skip
    return Analysis(
        "figure_8",
        "Coverage by data set and ensemble",
        "Share of the taxonomy that a model, all models, and the best ensemble of each size name on a data set.",
        {"models": typed(rows), "ensembles": typed(sizes)},
        figures,
        policy={
            "ensembles": "the best of all subsets of a size; greedily grown where there are more than "
            f"{_MAX_SUBSETS:,} subsets",
            "published": "MIND 53 % alone and 75 % together, Goodreads 59 % and 76 %",
        },
    )


def _ensembles(covers: BoolArray, names: list[str]) -> list[tuple[int, int, float, str]]:
    """Return, for each size, the most categories that so many models cover, the mean over subsets, and which they are.

    Args:
        covers: (models, categories).
        names: of the models.
    """
    n = len(names)
    found: list[tuple[int, int, float, str]] = []
    if 2**n <= _MAX_SUBSETS:
        for k in range(1, n + 1):
            subsets = list(combinations(range(n), k))
            covered = np.array([int(covers[list(subset)].any(axis=0).sum()) for subset in subsets])
            best = int(covered.argmax())
            found.append((k, int(covered[best]), float(covered.mean()), ", ".join(names[i] for i in subsets[best])))
        return found
    chosen: list[int] = []
    have = np.zeros(covers.shape[1], dtype=bool)
    for k in range(1, n + 1):
        gains = (covers & ~have).sum(axis=1)
        gains[chosen] = -1
        chosen.append(int(gains.argmax()))
        have |= covers[chosen[-1]]
        found.append((k, int(have.sum()), float("nan"), ", ".join(names[i] for i in chosen)))
    return found
