# `evaluate` reads the imports below line by line: one name per line, no comments on them.
"""Survey precision, recall and F1 (GISTBench, Table 5): are predicted interests those that people say they have?

Compares sets of categories: it maps no interest to a category, asks nobody, and knows nothing of engagements.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import datasets
import evaluate
import numpy as np

from .common import UNMAPPED
from .common import CheckedMetric
from .common import Resampling
from .common import harmonic_mean
from .common import optional_floats
from .common import row_ids
from .common import shown
from .common import summarise
from .comparison import compare
from .comparison import rank_groups

__version__ = "0.2.0"

_CITATION = """\
@misc{gistbench2026,
    title  = {{GISTBench}: Evaluating {LLM} User Understanding via Evidence-Based Interest Verification},
    author = {Fostiropoulos, Iordanis and Azhar, Muhammad Rafay and Sawwan, Abdalaziz and Fang, Boyu and Liu, Yuchen and
              Liu, Jiayi and Yu, Hanchao and Guo, Qi},
    year   = {2026},
}
"""

_DESCRIPTION = """\
Survey precision, recall and F1: the interest categories that a model predicts for a person against those that the
person reported. Per person over distinct categories; over persons medians, means and bootstrap intervals.
"""

_KWARGS_DESCRIPTION = """
Args:
    predictions: one list of category ids per person: what the model predicts; 0 = an interest that is in no category.
    references: one list of category ids per person, in the same order: what the person reported.
    user_ids: the persons' ids, to be named in per_user; None: their positions, "0", "1", ...
    n_resamples, confidence_level, seed: of the bootstrap intervals; n_resamples=0 leaves them out.
Returns:
    s_precision, s_recall, s_f1: medians over persons; mean_*: means; ci_* and ci_mean_*: their intervals [low, high];
    n_users; per_user: a dict of columns; policy: every convention that was used.
Examples:
    >>> survey = evaluate.load("gistbench/survey")
    >>> results = survey.compute(predictions=[[3, 5, 9], [2]], references=[[3, 9, 7, 8], [2]])
    >>> results["per_user"]["s_precision"], results["per_user"]["s_recall"]
    ([0.6666666666666666, 1.0], [0.5, 1.0])
    >>> results["s_recall"], results["mean_s_recall"]
    (0.75, 0.75)
"""


def score(
    predictions: Any,
    references: Any,
    user_ids: Any = None,
    n_resamples: int = 1000,
    confidence_level: float = 0.95,
    seed: int = 0,
) -> dict[str, Any]:
    """Score all persons; arguments and result as in the module's description."""
    resampling = Resampling(n_resamples, confidence_level, seed)
    predicted, reported = _read(predictions, references)
    users = list(map(str, range(len(predicted)))) if user_ids is None else row_ids(user_ids, "user_ids")
    if len(users) != len(predicted):
        raise ValueError(f"user_ids has {len(users)} entries and predictions {len(predicted)}; give one id per person.")
    zeros_reported = sum(UNMAPPED in categories for categories in reported)
    reported = [categories - {UNMAPPED} for categories in reported]
    n_predicted, n_reported, n_common = (
        np.array(list(map(len, sets)), dtype=np.int64)
        for sets in (predicted, reported, [a & b for a, b in zip(predicted, reported, strict=True)])
    )
    silent = n_reported == 0
    precision = np.where(silent, np.nan, n_common / np.maximum(n_predicted, 1))
    recall = np.where(silent, np.nan, n_common / np.maximum(n_reported, 1))
    metrics = {
        "s_precision": optional_floats(precision),
        "s_recall": optional_floats(recall),
        "s_f1": optional_floats(harmonic_mean(precision, recall)),
    }
    return {
        **summarise(metrics, resampling),
        "n_users": len(users),
        "per_user": {
            "user_id": users,
            **metrics,
            "n_predicted_categories": n_predicted.tolist(),
            "n_reported_categories": n_reported.tolist(),
            "n_common_categories": n_common.tolist(),
        },
        "policy": {
            "metric": "survey",
            "module_version": __version__,
            "categories": "distinct ones per person",
            "unmapped": "category 0 among the predictions is one category that nobody reports, so it counts against "
            "s_precision; among the reports it is dropped",
            "n_users_with_zero_reported": zeros_reported,
            "no_prediction": "a person for whom nothing was predicted scores 0",
            "no_report": "a person who reported nothing has no scores: left out of all",
            "n_users_without_report": int(silent.sum()),
            "aggregation": "median over persons (s_*), mean (mean_*); Table 5 does not say which it prints",
            "interval": resampling.policy(),
        },
    }


def _read(predictions: Any, references: Any) -> tuple[list[set[int]], list[set[int]]]:
    read = []
    for name, rows in (("predictions", predictions), ("references", references)):
        if not isinstance(rows, (Sequence, np.ndarray)) or isinstance(rows, (str, bytes)):
            raise ValueError(f"{name} must be a list with one list of category ids per person, found {shown(rows)}.")
        read.append([_categories(row, f"{name}[{i}]") for i, row in enumerate(rows)])
    predicted, reported = read
    if len(predicted) != len(reported):
        raise ValueError(
            f"predictions has {len(predicted)} entries and references {len(reported)}; give one list of category ids "
            f"per person in both (an empty one where there are none)."
        )
    if not predicted:
        raise ValueError("predictions and references are empty: there is no person to score.")
    return predicted, reported


def _categories(row: Any, place: str) -> set[int]:
    if not isinstance(row, (list, tuple, set, frozenset, np.ndarray)):
        raise ValueError(f"{place} must be a list of category ids, found {shown(row)}.")
    for k, category in enumerate(row if not set(map(type, row)) <= {int} or min(row, default=0) < UNMAPPED else ()):
        if not isinstance(category, (int, np.integer)) or isinstance(category, bool):
            raise ValueError(f"{place}[{k}] must be an integer category id, found {shown(category)}.")
        if category < UNMAPPED:
            raise ValueError(f"{place}[{k}] must not be negative, found {int(category)}; 0 means unmapped.")
    return set(map(int, row))


def _plain(predictions: Any, references: Any) -> dict[str, Any]:
    """Check a batch and bring it into the shape of the features that `evaluate` stores."""
    predicted, reported = _read(predictions, references)
    return {"predictions": list(map(sorted, predicted)), "references": list(map(sorted, reported))}


class Survey(CheckedMetric, evaluate.Metric):  # type: ignore[misc]
    """Survey precision, recall and F1 as an `evaluate` module."""

    _name = "survey"
    _score = staticmethod(score)
    _plain = staticmethod(_plain)

    compare = staticmethod(compare)
    rank_groups = staticmethod(rank_groups)

    def _info(self) -> evaluate.MetricInfo:
        categories = [datasets.Value("int64")]
        return evaluate.MetricInfo(
            description=_DESCRIPTION,
            citation=_CITATION,
            inputs_description=_KWARGS_DESCRIPTION,
            features=datasets.Features({"predictions": categories, "references": categories}),
        )
