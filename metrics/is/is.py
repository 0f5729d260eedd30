# `evaluate` reads the imports below line by line: one name per line, no comments on them.
"""Interest Specificity (GISTBench, Section 4.3): can a judge tell the user's items for an interest from other items?

Scores records that exist: it calls no judge, draws no distractors and decides no verification. A judge picked, from a
pool of backing items and distractors, as many items as the interest has backing ones; the share it got right counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import datasets
import evaluate
import numpy as np
import numpy.typing as npt

from .common import Groups
from .common import Resampling
from .common import Rows
from .common import clean_id
from .common import group_by_category
from .common import harmonic_mean
from .common import mapping_by_user
from .common import optional_floats
from .common import read_rows
from .common import summarise

__version__ = "0.1.0"

_CITATION = """\
@misc{gistbench2026,
    title  = {{GISTBench}: Evaluating {LLM} User Understanding via Evidence-Based Interest Verification},
    author = {Fostiropoulos, Iordanis and Azhar, Muhammad Rafay and Sawwan, Abdalaziz and Fang, Boyu and Liu, Yuchen and
              Liu, Jiayi and Yu, Hanchao and Guo, Qi},
    year   = {2026},
}
"""

_DESCRIPTION = """\
Interest Specificity (IS) of the interests that a model predicts for users: from a pool of an interest's backing items
and distractors, the share of the backing items that a judge finds. Per user the mean over categories with a verified
interest; over users the median, the mean and their bootstrap intervals; with ig_f1 also hm, the harmonic mean of both.
"""

_KWARGS_DESCRIPTION = """
Args:
    predictions: one list of records per user. A record is a dict with
        `interest` (str), `category_id` (int, 0 = unmapped; or None in all records: each interest is its own category),
        `verified` (bool), `backing_item_ids` (the user's own items in the pool) and `selected_item_ids` (what the judge
        picked, in its order; empty: it picked nothing, which scores 0; None: not judged, left out and counted).
    references: the user ids, in the same order.
    ig_f1: {user_id: ig_f1 or None}, as per_user of the metric ig gives them; then hm is returned too.
    is_scope: "category" (the mean of a category is over all its interests) or "verified" (over verified ones only).
    n_resamples, confidence_level, seed: of the bootstrap intervals; n_resamples=0 leaves them out.
Returns:
    is (and hm): medians over users; mean_*: means; ci_* and ci_mean_*: their intervals [low, high];
    n_users; per_user and per_interest: dicts of columns; policy: every convention that was used.
Examples:
    >>> specificity = evaluate.load("gistbench/is")
    >>> record = {
    ...     "interest": "NBA",
    ...     "category_id": 3,
    ...     "verified": True,
    ...     "backing_item_ids": ["a", "b", "c", "d"],
    ...     "selected_item_ids": ["a", "x", "c", "b"],
    ... }
    >>> results = specificity.compute(predictions=[[record]], references=["7"], ig_f1={"7": 0.5})
    >>> results["is"], results["hm"]
    (0.75, 0.6)
"""

SCOPES = ("category", "verified")

BoolArray = npt.NDArray[np.bool_]
IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Retrieval:
    """How one interest's items were told from the distractors."""

    n_backing: int
    """Distinct backing items, k."""
    n_correct: int | None
    """Backing items among the first k distinct selections; None where not judged."""
    n_over_selected: int
    """Distinct selections beyond the first k."""

    @property
    def specificity(self) -> float:
        """Share of the backing items that were found; 0 without backing items, NaN where not judged."""
        if not self.n_backing:
            return 0.0
        return np.nan if self.n_correct is None else self.n_correct / self.n_backing


def retrieval(backing: list[str], selected: list[str] | None) -> Retrieval:
    """Count the backing items among the first k distinct selections, in the order given.

    A selection that is no backing item as it stands is tried without the brackets or quotes around it.
    """
    own = set(backing)
    if selected is None:
        return Retrieval(len(own), None, 0)
    distinct = list(dict.fromkeys(item if item in own else clean_id(item) for item in selected))
    return Retrieval(
        n_backing=len(own),
        n_correct=sum(item in own for item in distinct[: len(own)]),
        n_over_selected=max(len(distinct) - len(own), 0),
    )


@dataclass(frozen=True)
class UserScores:
    """Per user: specificity (NaN where undefined), and counts."""

    specificity: FloatArray
    n_categories: IntArray
    n_verified_categories: IntArray
    n_undefined_categories: IntArray
    """Categories with a verified interest, but none whose specificity is known."""


def score_users(groups: Groups, verified: BoolArray, specificity: FloatArray, scope: str, n_users: int) -> UserScores:
    """Average S_c over the categories with a verified interest; a user without one scores 0 (Section 4.3)."""
    n = len(groups)
    counted = ~np.isnan(specificity) & (verified if scope == "verified" else True)
    order = np.lexsort((specificity, groups.of_interest))  # so that rounding does not depend on the order of records
    order = order[counted[order]]
    size = np.bincount(groups.of_interest[order], minlength=n)
    total = np.bincount(groups.of_interest[order], weights=specificity[order], minlength=n)
    grounded = np.bincount(groups.of_interest, weights=verified, minlength=n) > 0
    scored = grounded & (size > 0)

    n_scored = np.bincount(groups.user[scored], minlength=n_users)
    n_grounded = np.bincount(groups.user[grounded], minlength=n_users)
    sums = np.bincount(groups.user[scored], weights=total[scored] / size[scored], minlength=n_users)
    mean = np.divide(sums, n_scored, out=np.zeros(n_users), where=n_scored > 0)
    return UserScores(
        specificity=np.where((n_grounded > 0) & (n_scored == 0), np.nan, mean),
        n_categories=np.bincount(groups.user, minlength=n_users),
        n_verified_categories=n_grounded,
        n_undefined_categories=n_grounded - n_scored,
    )


def _ig_f1(given: Any, users: list[str]) -> FloatArray:
    """Read one ig_f1 per user, NaN for None."""
    by_user = mapping_by_user(given, "ig_f1")
    values = np.full(len(users), np.nan)
    for i, user in enumerate(users):
        if user not in by_user:
            raise ValueError(
                f"ig_f1 lacks user {user!r}. Give every user of references a number, or None where undefined."
            )
        value = by_user[user]
        if value is None:
            continue
        number = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
        if not number or not 0 <= value <= 1:
            raise ValueError(f"ig_f1[{user!r}] must be a number from 0 to 1 or None, found {value!r}.")
        values[i] = value
    return values


def score(
    predictions: Any,
    references: Any,
    ig_f1: Any = None,
    is_scope: str = "category",
    n_resamples: int = 1000,
    confidence_level: float = 0.95,
    seed: int = 0,
) -> dict[str, Any]:
    """Score the interests of all users; arguments and result as in the module's description."""
    resampling = Resampling(n_resamples, confidence_level, seed)
    if is_scope not in SCOPES:
        raise ValueError(f"is_scope must be one of {', '.join(SCOPES)}, found {is_scope!r}.")
    rows = _read(predictions, references)
    names = rows.names()
    category_ids = rows.categories()
    verified = rows.flags("verified")
    backing: list[Any] = rows.id_lists("backing_item_ids")
    selected = rows.id_lists("selected_item_ids", nullable=True)
    n = len(rows.users)
    f1 = None if ig_f1 is None else _ig_f1(ig_f1, rows.users)

    retrievals = [retrieval(own, picked) for own, picked in zip(backing, selected, strict=True)]
    specificity = np.array([one.specificity for one in retrievals], dtype=np.float64)
    n_backing = np.array([one.n_backing for one in retrievals], dtype=np.int64)
    over_selected = np.array([one.n_over_selected for one in retrievals], dtype=np.int64)
    groups = group_by_category(rows, names, category_ids)
    scores = score_users(groups, verified, specificity, is_scope, n)

    def per_user(values: npt.NDArray[Any]) -> list[int]:
        total: list[int] = np.bincount(rows.user_of, weights=values, minlength=n).astype(int).tolist()
        return total

    metrics = {"is": optional_floats(scores.specificity)}
    if f1 is not None:
        metrics |= {"ig_f1": optional_floats(f1), "hm": optional_floats(harmonic_mean(f1, scores.specificity))}
    summarised = {name: column for name, column in metrics.items() if name != "ig_f1"}
    return {
        **summarise(summarised, resampling),
        "n_users": n,
        "per_user": {
            "user_id": list(rows.users),
            **metrics,
            "n_interests": np.diff(rows.first).tolist(),
            "n_verified": per_user(verified),
            "n_not_judged": per_user(np.isnan(specificity)),
            "n_without_backing": per_user(n_backing == 0),
            "n_over_selected": per_user(over_selected),
            "n_categories": scores.n_categories.tolist(),
            "n_verified_categories": scores.n_verified_categories.tolist(),
            "n_undefined_categories": scores.n_undefined_categories.tolist(),
        },
        "per_interest": {
            "user_id": [rows.users[user] for user in rows.user_of.tolist()],
            "interest": names,
            "category_id": [None] * len(names) if category_ids is None else category_ids.tolist(),
            "verified": verified.tolist(),
            "n_backing": n_backing.tolist(),
            "n_correct": [one.n_correct for one in retrievals],
            "n_over_selected": over_selected.tolist(),
            "specificity": optional_floats(specificity),
        },
        "policy": {
            "metric": "is",
            "module_version": __version__,
            "is_scope": is_scope,
            "category_mean": "over the verified interests of the category"
            if is_scope == "verified"
            else "over all interests of the category, unverified ones too",
            "categories": "those with a verified interest, category 0 among them",
            "selections": "the first k distinct ones in the order given count, k = distinct backing items; the rest is "
            "over-selection: reported, not scored",
            "no_backing": "an interest without backing items scores 0, judged or not",
            "no_selection": "an empty selection scores 0",
            "not_judged": "an interest with backing items and no selection (None) is left out of its category",
            "n_interests_not_judged": int(np.isnan(specificity).sum()),
            "undefined_category": "a verified category in which no interest that counts was judged is left out",
            "n_undefined_categories": int(scores.n_undefined_categories.sum()),
            "no_verified_category": "a user without a verified interest scores 0",
            "undefined_user": "a user whose verified categories are all undefined has no is, and is left out",
            "n_users_undefined": int(np.isnan(scores.specificity).sum()),
            "ids": "compared as strings; a selection that is no backing item is tried without the space, brackets and "
            "quotes around it",
            "category": "interest (trimmed name)" if category_ids is None and rows.records else "category_id",
            "hm": None if f1 is None else "harmonic mean of ig_f1 and is per user; none where one of them is undefined",
            "aggregation": "median over users (is, hm), mean over users (mean_*)",
            "interval": resampling.policy(),
        },
    }


def _read(predictions: Any, references: Any) -> Rows:
    return read_rows(
        predictions,
        references,
        required=("interest", "category_id", "verified", "backing_item_ids", "selected_item_ids"),
    )


def _plain(predictions: Any, references: Any) -> dict[str, Any]:
    """Check a batch and bring it into the shape of the features that `evaluate` stores."""
    rows = _read(predictions, references)
    categories = rows.categories()
    columns = {
        "interest": rows.names(),
        "category_id": [None] * len(rows.records) if categories is None else categories.tolist(),
        "verified": rows.flags("verified").tolist(),
        "backing_item_ids": rows.id_lists("backing_item_ids"),
        "selected_item_ids": rows.id_lists("selected_item_ids", nullable=True),
    }
    records = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    return {
        "predictions": [records[start:end] for start, end in pairwise(rows.first.tolist())],
        "references": rows.users,
    }


class IS(evaluate.Metric):  # type: ignore[misc]
    """Interest Specificity as an `evaluate` module."""

    def _info(self) -> evaluate.MetricInfo:
        ids = [datasets.Value("string")]
        record = {
            "interest": datasets.Value("string"),
            "category_id": datasets.Value("int64"),
            "verified": datasets.Value("bool"),
            "backing_item_ids": ids,
            "selected_item_ids": ids,
        }
        return evaluate.MetricInfo(
            description=_DESCRIPTION,
            citation=_CITATION,
            inputs_description=_KWARGS_DESCRIPTION,
            features=datasets.Features({"predictions": [record], "references": datasets.Value("string")}),
        )

    def compute(self, *, predictions: Any = None, references: Any = None, **kwargs: Any) -> dict[str, Any] | None:
        """Score predictions given here at once, or those collected before by `add` and `add_batch`."""
        if len(self) == 0 and self.num_process == 1:
            if predictions is None and references is None:
                raise ValueError("there is nothing to score: pass predictions and references, or call add_batch first.")
            return self._compute(predictions, references, **kwargs)
        result: dict[str, Any] | None = super().compute(predictions=predictions, references=references, **kwargs)
        return result

    def add_batch(self, *, predictions: Any = None, references: Any = None, **kwargs: Any) -> None:
        """Check and store the records of several users."""
        super().add_batch(**_plain(predictions, references), **kwargs)

    def add(self, *, prediction: Any = None, reference: Any = None, **kwargs: Any) -> None:
        """Check and store the records of one user."""
        one = _plain([prediction], [reference])
        super().add(prediction=one["predictions"][0], reference=one["references"][0], **kwargs)

    def _compute(self, predictions: Any, references: Any, **kwargs: Any) -> dict[str, Any]:
        return score(predictions, references, **kwargs)
