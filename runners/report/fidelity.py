"""Table 10 and Figure 2: do the users of two data sets engage alike? From the data sets, not from runs."""

import numpy as np
import pandas as pd

from ...hf_datasets import load_engagements
from ...hf_datasets.fidelity import Fidelity, compare_engagements
from .analysis import QUANTILES, Analysis, FigureSpec, Options, Unavailable, analysis
from .frames import typed
from .load import Runs
from .published import value

__all__ = ["fidelity_tables", "table_10"]

_TYPES = {
    "implicit_negative": "Implicit Negative",
    "implicit_positive": "Implicit Positive",
    "explicit_positive": "Explicit Positive",
}
"""With the page's labels of Table 10's rows."""
_GRID = 200


def fidelity_tables(found: Fidelity) -> dict[str, pd.DataFrame]:
    """Return a comparison as the tables ``tests``, ``densities`` and ``boxes``."""
    printed = {"t": "t-stat", "p_value": "p-value", "mean_a": "Syn. Mean", "mean_b": "Real Mean"}
    rows, densities, boxes = [], [], []
    for row, pair in zip(found.rows, found.counts, strict=True):
        record = {
            "interaction_type": row.interaction_type, "t": row.t, "df": row.df, "p_value": row.p, "mean_a": row.mean_a,
            "mean_b": row.mean_b, "share_a": row.share_a, "share_b": row.share_b, "n_users_a": row.n_users_a,
            "n_users_b": row.n_users_b, "note": row.note,
        }  # fmt: skip
        label = _TYPES.get(row.interaction_type, "")
        rows.append(
            record | {f"published_{name}": value("Table 10", label, column) for name, column in printed.items()}
        )
        known = [counts for counts in pair if counts is not None]
        top = max(float(np.quantile(counts, 0.99)) for counts in known)
        for name, counts in zip((found.name_a, found.name_b), pair, strict=True):
            if counts is None:
                continue
            box = dict(zip(QUANTILES, np.quantile(counts, [0, 0.25, 0.5, 0.75, 1]).tolist(), strict=True))
            boxes.append(
                {"interaction_type": row.interaction_type, "dataset": name,
                 **{f"engagements_{place}": found for place, found in box.items()}, "n_users": len(counts)}
            )  # fmt: skip
            if len(counts) > 1 and counts.var() > 0:
                from scipy import stats

                grid = np.linspace(0, max(top, 1.0), _GRID)
                density = stats.gaussian_kde(counts.astype(float))(grid)
                densities.append(
                    pd.DataFrame({"interaction_type": row.interaction_type, "dataset": name, "engagements": grid,
                                  "density": density})
                )  # fmt: skip
    empty = pd.DataFrame(columns=["interaction_type", "dataset", "engagements", "density"])
    return {
        "tests": typed(rows),
        "densities": typed(pd.concat(densities) if densities else empty),
        "boxes": typed(boxes),
    }


@analysis("table_10", "Do two data sets' users engage alike?")
def table_10(runs: Runs, options: Options) -> Analysis:
    """t-tests of engagements per user by type, with Figure 2's densities and boxes (Table 10)."""
    if options.compared_data is None:
        raise Unavailable("Needs two data sets, the synthetic one first: --compare-data A B. Run folders hold neither.")
    a, b = options.compared_data
    found = compare_engagements(load_engagements(a), load_engagements(b), name_a=str(a), name_b=str(b))
    order = {True: "in the same order", False: "in another order", None: "not comparable"}[found.same_order]
    figures = {
        "figure_2_a": FigureSpec(
            "line", "densities", "Engagements per user", "Like shapes, at another place: users differ in how much they "
            "engage, not in how.", x="engagements", y="density", group="dataset", facet="interaction_type",
        ),
        "figure_2_b": FigureSpec(
            "box", "boxes", "Engagements per user by type", "Boxes hold the middle half of the users. Compare the "
            "order of the types, not the heights.", x="dataset", y="engagements_median", facet="interaction_type",
        ),
    }  # fmt: skip
    return Analysis(
        "table_10",
        "Do two data sets' users engage alike?",
        f"Two-tailed tests of engagements per user. Types come {order} in both.",
        fidelity_tables(found),
        figures,
        policy={"test": found.test, "users": found.users, "densities": "Gaussian kernel, up to the 99 % quantile"},
        notes=(
            "The degrees of freedom that the page's t and p imply are about 1,917, 1,997 and 1,648: with Student's "
            "test over the same users they would be equal, so the page fits Welch's test, or users without a type "
            "left out.",
        ),
    )
