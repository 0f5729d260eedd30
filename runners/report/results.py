"""Interests as results of the modules `ig` and `is`, and such results scored once more. Knows nothing about folders."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from ..oracle import Category
from ..score import METRICS, load_metric

__all__ = ["COUNTS", "ig_result", "is_result", "optional", "rescore_results", "scores_frame", "unite_oracles"]

COUNTS = ("n_explicit_positive", "n_implicit_positive", "n_implicit_negative", "n_explicit_negative")
"""Distinct relevant objects of an interest by interaction type."""


def ig_result(interests: pd.DataFrame, users: list[str], by_name: bool, policy: Mapping[str, Any]) -> dict[str, Any]:
    """Return interests as a result of the `ig` module, for its ``rescore`` and ``build_oracle``.

    Args:
        interests: in the columns of `Run.interests`.
        users: the scored users.
        by_name: whether each interest is its own category.
        policy: of the result that the verdicts come from.
    """
    n = len(interests)
    columns: dict[str, list[Any]] = {name: interests[name].tolist() for name in ("user_id", "interest", *COUNTS)}
    columns["verified"] = interests["verified"].tolist()
    columns["category_id"] = [None] * n if by_name else interests["category_id"].tolist()
    # Reasons and unknown ids say nothing about scores.
    columns["failure_reasons"] = columns["unknown_item_ids"] = [[]] * n
    per_user = {"user_id": users}
    return {"per_user": per_user, "per_interest": columns, "failure_modes": {}, "evidence": {}, "policy": policy}


def is_result(interests: pd.DataFrame, ig: Mapping[str, Any], policy: Mapping[str, Any]) -> dict[str, Any]:
    """Return the same interests as a result of the `is` module, for its ``rescore``."""
    shared = ig["per_interest"]
    columns = {name: shared[name] for name in ("user_id", "interest", "category_id")}
    columns |= {name: interests[name].tolist() for name in ("n_backing", "n_over_selected")}
    n_correct = interests["n_correct"]
    columns["n_correct"] = n_correct.astype(object).where(n_correct.notna(), None).tolist()
    return {
        "per_user": {"user_id": ig["per_user"]["user_id"], "is": []},
        "per_interest": columns,
        "policy": policy,
    }


def rescore_results(
    ig: Mapping[str, Any],
    specificity: Mapping[str, Any],
    *,
    oracle: Mapping[str, Sequence[Category]] | None = None,
    thresholds: Any = None,
    is_scope: str | None = None,
    n_resamples: int = 0,
    seed: int = 0,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Do as `rescore` with results of the modules."""
    options: dict[str, Any] = {"n_resamples": n_resamples, "seed": seed}
    again = load_metric("ig").rescore(
        {"run": ig}, oracle=oracle, thresholds=thresholds, missing_from_oracle="ignore", **options
    )
    found = load_metric("is").rescore({"run": specificity}, ig=again, is_scope=is_scope, **options)
    return again["run"], found["run"]


def scores_frame(ig: Mapping[str, Any], specificity: Mapping[str, Any]) -> pd.DataFrame:
    """Return per-user scores of two results as ``user_id`` and the five metrics."""
    columns = {name: ig["per_user"][name] for name in ("user_id", "ig_precision", "ig_recall", "ig_f1")}
    columns |= {name: specificity["per_user"][name] for name in ("is", "hm")}
    return pd.DataFrame(columns).astype(dict.fromkeys(METRICS, "float64"))


def unite_oracles(oracles: Iterable[Mapping[str, Iterable[Category]]]) -> dict[str, list[Category]]:
    """Return each user's categories of any of the oracles, sorted."""
    united: dict[str, set[Category]] = {}
    for oracle in oracles:
        for user, categories in oracle.items():
            united.setdefault(user, set()).update(categories)
    return {user: sorted(found) for user, found in sorted(united.items())}


def optional(values: "pd.Series[Any]") -> dict[str, float | None]:
    """Return a column by user, None for NaN."""
    return dict(zip(values.index, values.astype(object).where(values.notna(), None), strict=True))
