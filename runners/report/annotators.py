"""Tables 17 to 19: do people agree on what the judge is asked?

Knows nothing about models: it reads labels from a csv, of the tasks ``relevance`` (does the cited item speak for the
interest?) and ``association`` (does the item belong to the interest?).
"""

from collections.abc import Mapping
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from ...hf_datasets.errors import DataError
from ..agreement import krippendorff_alpha
from .analysis import Analysis, FigureSpec, Layout, Options, Unavailable, analysis
from .frames import typed
from .load import Runs
from .published import value
from .survey import read_csv

__all__ = ["TASKS", "cohen_kappa", "fleiss_kappa", "majority", "read_annotations"]

TASKS = {"relevance": "IG", "association": "IS"}
"""With the page's label."""
RECORD = ["user_id", "interest", "object_id"]
FloatArray = npt.NDArray[np.float64]


def read_annotations(path: Path) -> pd.DataFrame:
    """Read labels: ``task``, ``annotator``, ``label`` (0 or 1), ``item``, and the record's columns where it has them.

    Raises:
        DataError: a column is missing, a task or label is unknown, or an annotator labels an item twice.
    """
    frame = read_csv(path, ["task", "annotator", "label"], "file of annotations")
    has_record = set(RECORD) <= set(frame.columns)
    if "item" not in frame and not has_record:
        raise DataError(f"{path} does not say what was labelled: give a column item, or {', '.join(RECORD)}.")
    if unknown := sorted(set(frame["task"]) - set(TASKS)):
        raise DataError(f"{path}: there is no task {', '.join(map(repr, unknown))}. There are: {', '.join(TASKS)}.")
    if unknown := sorted(set(frame["label"]) - {"0", "1"}):
        raise DataError(f"{path}: a label is {unknown[0]!r}. Labels are 0 and 1.")
    if "item" not in frame:
        frame["item"] = frame[RECORD].agg("\x1f".join, axis=1)
    if (twice := frame.duplicated(["task", "annotator", "item"])).any():
        row = int(np.flatnonzero(twice)[0])
        raise DataError(f"{path}, row {row + 2}: {frame['annotator'][row]} labels an item twice. Keep one label.")
    return frame.assign(label=frame["label"].astype(int))


def cohen_kappa(a: Any, b: Any) -> float:
    """Return Cohen's kappa of two annotators' binary labels; NaN where there are none, or chance agreement is certain.

    >>> round(cohen_kappa([1, 1, 0, 0], [1, 0, 0, 0]), 3)
    0.5
    """
    x, y = np.asarray(a, dtype=float), np.asarray(b, dtype=float)
    if not len(x):
        return float("nan")
    observed = float((x == y).mean())
    chance = float(x.mean() * y.mean() + (1 - x.mean()) * (1 - y.mean()))
    # Rounded, so that a kappa of 0 is 0 and no axis shows rounding errors.
    return float("nan") if chance >= 1 else round((observed - chance) / (1 - chance), 12)


def fleiss_kappa(ones: Any, n_annotators: int) -> float:
    """Return Fleiss' kappa of items that all have the same number of labels; NaN where all labels are alike.

    Args:
        ones: how many annotators give label 1, one number per item.
        n_annotators: of each item; at least 2.

    >>> round(fleiss_kappa([3, 0, 2, 1], 3), 3)
    0.333
    """
    k = np.asarray(ones, dtype=float)
    n = float(n_annotators)
    if not len(k) or n < 2:
        return float("nan")
    observed = float(((k * (k - 1) + (n - k) * (n - k - 1)) / (n * (n - 1))).mean())
    share = float(k.mean() / n)
    chance = share**2 + (1 - share) ** 2
    return float("nan") if chance >= 1 else (observed - chance) / (1 - chance)


def majority(labels: FloatArray, share: float = 0.75) -> FloatArray:
    """Return the label that at least a share of an item's annotators give; NaN where neither has so many.

    Args:
        labels: (items, annotators).
        share: of the annotators, above a half.
    """
    ones = np.nanmean(labels, axis=1)
    return np.where(ones >= share - 1e-9, 1.0, np.where(ones <= 1 - share + 1e-9, 0.0, np.nan))


def _wide(frame: pd.DataFrame, task: str) -> pd.DataFrame:
    own = frame.loc[frame["task"] == task]
    return own.pivot(index="item", columns="annotator", values="label").astype(float)


def _tasks(options: Options) -> Mapping[str, pd.DataFrame]:
    if options.annotations is None:
        raise Unavailable("Needs a csv of people's labels (task, annotator, label, item): --annotations FILE.")
    frame = read_annotations(options.annotations)
    wide = {task: _wide(frame, task) for task in TASKS if (frame["task"] == task).any()}
    found = {task: table for task, table in wide.items() if table.shape[1] > 1}
    if not found:
        raise Unavailable(f"{options.annotations} has one annotator for each task: nobody to agree with.")
    return found


@analysis("table_17", "Agreement of annotators")
def table_17(runs: Runs, options: Options) -> Analysis:
    """Pairwise Cohen's kappa, Fleiss' kappa and Krippendorff's alpha (Table 17)."""
    pairs, overall = [], []
    for task, table in _tasks(options).items():
        own = []
        for a, b in combinations(table.columns, 2):
            both = table[[a, b]].dropna()
            kappa = cohen_kappa(both[a], both[b])
            own.append(kappa)
            column = f"{TASKS[task]} / {b}"
            pairs.append(
                {"task": task, "annotator_a": a, "annotator_b": b, "n_items": len(both), "kappa": kappa,
                 "agreement_share": float((both[a] == both[b]).mean()) if len(both) else None,
                 "published_kappa": value("Table 17", str(a), column)}
            )  # fmt: skip
        complete = table.dropna().to_numpy()
        alpha = krippendorff_alpha(table.to_numpy())
        overall.append(
            {"task": task, "n_items": len(table), "n_items_complete": len(complete), "n_annotators": table.shape[1],
             "mean_kappa": float(np.nanmean(own)) if not np.isnan(own).all() else None,
             "fleiss_kappa": fleiss_kappa(complete.sum(axis=1), table.shape[1]), "krippendorff_alpha": alpha}
        )  # fmt: skip
    figure = FigureSpec(
        "heatmap", "pairs", "Cohen's kappa of pairs of annotators", "A pale row is an annotator who sees the task "
        "differently from all others.", x="annotator_b", y="annotator_a", colour="kappa", facet="task",
    )  # fmt: skip
    return Analysis(
        "table_17",
        "Agreement of annotators",
        "Chance-corrected agreement: 0 is what guessing by each annotator's own shares gives, 1 is complete.",
        {"pairs": typed(pairs), "overall": typed(overall)},
        {"table_17": figure},
        {"pairs": Layout(("annotator_a",), ("task", "annotator_b"), ("kappa",))},
        {
            "pairs": "over items that both label",
            "fleiss_kappa": "over items that all label",
            "krippendorff_alpha": "nominal, over all items with two labels or more",
        },
    )


@analysis("table_18", "Annotators against the majority")
def table_18(runs: Runs, options: Options) -> Analysis:
    """Each annotator against the majority of at least three quarters (Table 18)."""
    from sklearn.metrics import f1_score

    rows = []
    for task, table in _tasks(options).items():
        labels = table.dropna().to_numpy()
        vote = majority(labels)
        decided = ~np.isnan(vote)
        counted = np.where(decided, vote, 0.0)
        for place, annotator in enumerate(table.columns):
            own, agreed = labels[decided, place], vote[decided]
            column, name = TASKS[task], str(annotator)
            rows.append(
                {"task": task, "annotator": annotator, "n_items": int(decided.sum()), "n_ties": int((~decided).sum()),
                 "agreement_share": float((own == agreed).mean()) if len(own) else None,
                 "kappa": cohen_kappa(own, agreed),
                 "f1": float(f1_score(agreed, own, zero_division=0.0)) if len(own) else None,
                 "agreement_share_with_ties": float((labels[:, place] == counted).mean()) if len(labels) else None,
                 "published_agreement_share": value("Table 18", name, f"{column} / Agree%"),
                 "published_kappa": value("Table 18", name, f"{column} / kappa"),
                 "published_f1": value("Table 18", name, f"{column} / F1")}
            )  # fmt: skip
    return Analysis(
        "table_18",
        "Annotators against the majority",
        "Agreement with the label that at least three of four annotators give; items without one are left out.",
        {"annotators": typed(rows)},
        layouts={"annotators": Layout(("annotator",), ("task",), ("agreement_share", "kappa", "f1"))},
        policy={
            "majority": "at least 3/4 of the annotators; 2-2 splits are left out (n_ties)",
            "agreement_share_with_ties": "2-2 splits count as label 0, which fewer than three of four gave as 1",
        },
        notes=(
            "A 3-1 split is one annotator's disagreement, so disagreements add up to the share of such splits among "
            "the counted items. The page's Table 18 adds up to 30.8 % (IG) and 7.8 % (IS), and its Table 19 to 15.2 + "
            "2 x 7.8 = 30.8 % and 4.2 + 2 x 1.8 = 7.8 %: it counts 2-2 splits, two disagreements each, which its own "
            "threshold of 3/4 leaves out. Compare it with the column that does the same.",
        ),
    )


@analysis("table_19", "Levels of agreement")
def table_19(runs: Runs, options: Options) -> Analysis:
    """How evenly annotators split over items (Table 19)."""
    printed = {0: "Unanimous (4/4 or 0/4)", 1: "3-1 split", 2: "2-2 split"}
    rows = []
    for task, table in _tasks(options).items():
        labels = table.dropna().to_numpy()
        n = labels.shape[1]
        fewer = np.minimum(labels.sum(axis=1), n - labels.sum(axis=1)).astype(int)
        for minority in range(n // 2 + 1):
            count = int((fewer == minority).sum())
            rows.append(
                {"task": task, "level": f"{n - minority}-{minority}", "n_items": count,
                 "item_share": count / len(labels) if len(labels) else None,
                 "published_item_share": value("Table 19", printed.get(minority, ""), TASKS[task]) if n == 4 else None}
            )  # fmt: skip
    return Analysis(
        "table_19",
        "Levels of agreement",
        "Items by how many annotators stand on either side.",
        {"levels": typed(rows)},
        layouts={"levels": Layout(("level",), ("task",), ("item_share",))},
        policy={"items": "those that all annotators label"},
    )
