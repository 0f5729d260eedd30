# `evaluate` reads the imports below line by line: one name per line, no comments on them.
"""Interest Specificity (GISTBench, Section 4.3): can a judge tell the user's items for an interest from other items?

Scores records that exist: it calls no judge, draws no distractors and decides no verification. A judge picked, from a
pool of backing items and distractors, as many items as the interest has backing ones; the share it got right counts.

Beside `compute`, the module has `rescore` (results once more, under other verdicts of the module `ig`), `compare` and
`rank_groups` (models by per-user scores).
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import datasets
import evaluate
import numpy as np
import numpy.typing as npt

from .common import CheckedMetric
from .common import Groups
from .common import Resampling
from .common import Rows
from .common import clean_id
from .common import collector_paused
from .common import flags
from .common import group_by_category
from .common import harmonic_mean
from .common import integers
from .common import mapping_by_user
from .common import optional_floats
from .common import pick
from .common import positions
from .common import read_rows
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
class Retrievals:
    """How each interest's items were told from the distractors."""

    n_backing: IntArray
    """Distinct backing items, k."""
    n_correct: IntArray
    """Backing items among the first k distinct selections; -1 where not judged."""
    n_over_selected: IntArray
    """Distinct selections beyond the first k."""

    @property
    def specificity(self) -> FloatArray:
        """Share of the backing items that were found; 0 without backing items, NaN where not judged."""
        found = np.where(self.n_correct < 0, np.nan, self.n_correct / np.maximum(self.n_backing, 1))
        return np.where(self.n_backing == 0, 0.0, found)


def retrievals(backing: Sequence[list[str]], selected: Sequence[list[str] | None], brackets: bool) -> Retrievals:
    """Count, for each interest, the backing items among the first k distinct selections, in the order given.

    A selection that is no backing item as it stands is tried without the brackets or quotes around it, if there are
    brackets at all.
    """
    n_backing, n_correct, n_over_selected = [], [], []
    for items, picked in zip(backing, selected, strict=True):
        own = set(items)
        k = len(own)
        correct, over = -1, 0
        if picked is not None:
            if brackets:
                picked = [item if item in own else clean_id(item) for item in picked]
            if len(picked) > k:  # perhaps over-selection: then the order decides
                distinct = list(dict.fromkeys(picked))
                over = max(len(distinct) - k, 0)
                picked = distinct[:k]
            correct = len(own.intersection(picked))
        n_backing.append(k)
        n_correct.append(correct)
        n_over_selected.append(over)
    return Retrievals(*(np.array(counts, dtype=np.int64) for counts in (n_backing, n_correct, n_over_selected)))


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
    # Sorted by category and value, so that rounding does not depend on the order of records.
    order = np.argsort(groups.of_interest + np.nan_to_num(specificity) / 2)
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
    _check_scope(is_scope)
    rows = _read(predictions, references)
    names, category_ids, verified = rows.names(), rows.categories(), rows.flags("verified")
    selected = rows.id_lists("selected_item_ids", nullable=True)
    interests = Interests(
        users=rows.users,
        user_of=rows.user_of,
        category_ids=category_ids,
        verified=verified,
        user_column=pick(rows.users, rows.user_of),
        names=names,
        category_column=[None] * len(names) if category_ids is None else category_ids.tolist(),
        retrievals=retrievals(rows.id_lists("backing_item_ids", look=False).lists, selected.lists, selected.brackets),
    )
    return _result(interests, ig_f1, is_scope, resampling)


def _check_scope(is_scope: Any) -> None:
    if is_scope not in SCOPES:
        raise ValueError(f"is_scope must be one of {', '.join(SCOPES)}, found {is_scope!r}.")


@dataclass(frozen=True)
class Interests:
    """One model's interests with their retrievals: all that scores depend on."""

    users: list[str]
    user_of: IntArray
    category_ids: IntArray | None
    verified: BoolArray
    user_column: list[str]
    names: list[str]
    category_column: list[int | None]
    retrievals: Retrievals


def _result(interests: Interests, ig_f1: Any, is_scope: str, resampling: Resampling) -> dict[str, Any]:
    """Score interests and put the result together."""
    users, names, category_ids = interests.users, interests.names, interests.category_ids
    verified, found, n = interests.verified, interests.retrievals, len(interests.users)
    f1 = None if ig_f1 is None else _ig_f1(ig_f1, users)
    specificity = found.specificity
    groups = group_by_category(interests.user_of, names, category_ids)
    scores = score_users(groups, verified, specificity, is_scope, n)
    n_correct: list[int | None] = found.n_correct.tolist()
    for k in np.flatnonzero(found.n_correct < 0).tolist():
        n_correct[k] = None

    def per_user(values: Any = None) -> list[int]:
        total: list[int] = np.bincount(interests.user_of, weights=values, minlength=n).astype(int).tolist()
        return total

    metrics = {"is": optional_floats(scores.specificity)}
    if f1 is not None:
        metrics |= {"ig_f1": optional_floats(f1), "hm": optional_floats(harmonic_mean(f1, scores.specificity))}
    summarised = {name: column for name, column in metrics.items() if name != "ig_f1"}
    return {
        **summarise(summarised, resampling),
        "n_users": n,
        "per_user": {
            "user_id": list(users),
            **metrics,
            "n_interests": per_user(),
            "n_verified": per_user(verified),
            "n_not_judged": per_user(np.isnan(specificity)),
            "n_without_backing": per_user(found.n_backing == 0),
            "n_over_selected": per_user(found.n_over_selected),
            "n_categories": scores.n_categories.tolist(),
            "n_verified_categories": scores.n_verified_categories.tolist(),
            "n_undefined_categories": scores.n_undefined_categories.tolist(),
        },
        "per_interest": {
            "user_id": interests.user_column,
            "interest": names,
            "category_id": interests.category_column,
            "verified": verified.tolist(),
            "n_backing": found.n_backing.tolist(),
            "n_correct": n_correct,
            "n_over_selected": found.n_over_selected.tolist(),
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
            "category": "interest (trimmed name)" if category_ids is None and names else "category_id",
            "hm": None if f1 is None else "harmonic mean of ig_f1 and is per user; none where one of them is undefined",
            "aggregation": "median over users (is, hm), mean over users (mean_*)",
            "interval": resampling.policy(),
        },
    }


def rescore(
    results: Any,
    ig: Any,
    is_scope: str | None = None,
    n_resamples: int = 1000,
    confidence_level: float = 0.95,
    seed: int = 0,
) -> dict[str, dict[str, Any]]:
    """Score results of `compute` once more, with the verdicts and the ig_f1 of other results of the module `ig`.

    Args:
        results: {model: result of `compute`}; its retrievals are kept.
        ig: {model: result of `ig`} for the same models, users and interests, as its `rescore` returns them.
        is_scope: as for `compute`; None: as each result was made.
        n_resamples: of the intervals; 0 leaves them out.
        confidence_level: of the intervals.
        seed: of the bootstrap.

    Returns:
        {model: result}, as `compute` returns them, with ``hm``.

    Raises:
        ValueError: A result is none, or the two do not belong together; the message names the model.

    Examples:
        >>> record = {"interest": "NBA", "category_id": 3, "verified": False, "backing_item_ids": ["a", "b"]}
        >>> result = IS().compute(predictions=[[{**record, "selected_item_ids": ["a", "x"]}]], references=["7"])
        >>> verdict = {
        ...     "per_interest": {"user_id": ["7"], "interest": ["NBA"], "verified": [True]},
        ...     "per_user": {"user_id": ["7"], "ig_f1": [1.0]},
        ... }
        >>> once_more = rescore({"x": result}, ig={"x": verdict})["x"]
        >>> result["is"], once_more["is"], round(once_more["hm"], 3)
        (0.0, 0.5, 0.667)
    """
    resampling = Resampling(n_resamples, confidence_level, seed)
    if is_scope is not None:
        _check_scope(is_scope)
    for name, given in (("results", results), ("ig", ig)):
        if not isinstance(given, Mapping) or not given:
            raise ValueError(f"{name} must be a dict by model with at least one entry, found {given!r:.80}.")
    if results.keys() != ig.keys():
        differing = sorted(map(str, results.keys() ^ ig.keys()))
        raise ValueError(f"results and ig must be of the same models; only one of them has {', '.join(differing)}.")
    with collector_paused():
        return {
            str(model): _result(
                _from_results(result, ig[model], str(model)),
                dict(zip(ig[model]["per_user"]["user_id"], ig[model]["per_user"]["ig_f1"], strict=True)),
                is_scope or result["policy"]["is_scope"],
                resampling,
            )
            for model, result in results.items()
        }


_COLUMNS = ("user_id", "interest", "category_id", "n_backing", "n_correct", "n_over_selected")


def _from_results(result: Any, ig: Any, model: str) -> Interests:
    """Read a result of `compute` back, with the verdicts of a result of `ig`."""
    for name, one, metric, columns, metrics in (
        ("results", result, "is", _COLUMNS, ("user_id", "is")),
        ("ig", ig, "ig", ("user_id", "interest", "verified"), ("user_id", "ig_f1")),
    ):
        tables = [one.get(key) if isinstance(one, Mapping) else None for key in ("per_interest", "per_user")]
        for table, needed in zip(tables, (columns, metrics), strict=True):
            if not isinstance(table, Mapping) or any(key not in table for key in needed):
                raise ValueError(f"{name}[{model!r}] must be a result of {metric}.compute, found {one!r:.80}.")
    table, verdicts = result["per_interest"], ig["per_interest"]
    users = result["per_user"]["user_id"]
    for key, ours, theirs in (
        ("users", users, ig["per_user"]["user_id"]),
        ("interests", table["user_id"], verdicts["user_id"]),
        ("interests", table["interest"], verdicts["interest"]),
    ):
        if ours is not theirs and list(ours) != list(theirs):
            raise ValueError(
                f"results[{model!r}] and ig[{model!r}] are of different {key}. Score the same records with both "
                f"modules."
            )
    place, ids = f"results[{model!r}]", table["category_id"]
    return Interests(
        users=list(users),
        user_of=positions(table["user_id"], users, f"{place}, per_interest"),
        category_ids=integers(ids, f"{place}, category_id") if len(ids) and ids[0] is not None else None,
        verified=flags(verdicts["verified"], f"ig[{model!r}], verified"),
        user_column=table["user_id"],
        names=table["interest"],
        category_column=ids,
        retrievals=Retrievals(
            n_backing=integers(table["n_backing"], f"{place}, n_backing"),
            n_correct=integers(table["n_correct"], f"{place}, n_correct", none=-1),
            n_over_selected=integers(table["n_over_selected"], f"{place}, n_over_selected"),
        ),
    )


def _read(predictions: Any, references: Any) -> Rows:
    return read_rows(
        predictions,
        references,
        required=("interest", "category_id", "verified", "backing_item_ids", "selected_item_ids"),
        unused=("item_ids", "relevant_item_ids"),
    )


def _plain(predictions: Any, references: Any) -> dict[str, Any]:
    """Check a batch and bring it into the shape of the features that `evaluate` stores."""
    rows = _read(predictions, references)
    categories = rows.categories()
    columns = {
        "interest": rows.names(),
        "category_id": [None] * len(rows.records) if categories is None else categories.tolist(),
        "verified": rows.flags("verified").tolist(),
        "backing_item_ids": rows.id_lists("backing_item_ids").lists,
        "selected_item_ids": rows.id_lists("selected_item_ids", nullable=True).lists,
    }
    records = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    return {"predictions": rows.by_row(records), "references": rows.users}


class IS(CheckedMetric, evaluate.Metric):  # type: ignore[misc]
    """Interest Specificity as an `evaluate` module."""

    _name = "is"
    _score = staticmethod(score)
    _plain = staticmethod(_plain)
    _unused = ("history", "oracle", "thresholds", "signals", "missing_from_oracle")

    rescore = staticmethod(rescore)
    compare = staticmethod(compare)
    rank_groups = staticmethod(rank_groups)

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
