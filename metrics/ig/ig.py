# `evaluate` reads the imports below line by line: one name per line, no comments on them.
"""Interest Groundedness (GISTBench, Section 4.2): are the interests a model predicts backed by what the user did?

Scores records that exist: it calls no model, draws no items and maps nothing to categories. An interest is verified if
enough of its relevant items were engaged with; verified interests per category give precision, recall and F1 per user.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import replace
from itertools import chain
from itertools import pairwise
from typing import Any

import datasets
import evaluate
import numpy as np
import numpy.typing as npt

from .common import INTERACTION_TYPES
from .common import UNMAPPED
from .common import Groups
from .common import Resampling
from .common import Rows
from .common import clean_id
from .common import codes_in
from .common import encode_ids
from .common import engagement_columns
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
Interest Groundedness (IG) of the interests that a model predicts for users: an interest is verified if enough of the
items it cites, and a judge kept as relevant, were engaged with in the user's history. Per user ig_precision, ig_recall
and ig_f1 over categories; over users their medians, means and bootstrap intervals.
"""

_KWARGS_DESCRIPTION = """
Args:
    predictions: one list of records per user. A record is a dict with
        `interest` (str), `category_id` (int, 0 = unmapped; or None in all records: each interest is its own category),
        `item_ids` (the cited ids) and `relevant_item_ids` (those the judge kept; None or left out: all count).
    references: the user ids, in the same order.
    history: the users' engagements: an Arrow table, datasets.Dataset, DataFrame or dict of columns with `user_id`,
        `object_id` and `interaction_type` (explicit_positive, implicit_positive, implicit_negative, explicit_negative).
    oracle: {user_id: [category_id, ...]}, the categories that any evaluated model verified. Without it only precision.
    thresholds: "base" (the paper), "lenient", "strict", or a dict that overrides parts of "base".
    signals: the interaction types that the data set has. None: those that occur anywhere in the history.
    n_resamples, confidence_level, seed: of the bootstrap intervals; n_resamples=0 leaves them out.
Returns:
    ig_precision, ig_recall, ig_f1: medians over users; mean_*: means; ci_* and ci_mean_*: their intervals [low, high];
    n_users; per_user and per_interest: dicts of columns; policy: every convention that was used.
Examples:
    >>> ig = evaluate.load("gistbench/ig")
    >>> history = {
    ...     "user_id": ["7", "7", "7"],
    ...     "object_id": ["a", "b", "c"],
    ...     "interaction_type": ["explicit_positive", "explicit_positive", "implicit_positive"],
    ... }
    >>> records = [
    ...     {"interest": "NBA", "category_id": 3, "item_ids": ["a", "b"], "relevant_item_ids": ["a", "b"]},
    ...     {"interest": "Golf", "category_id": 5, "item_ids": ["c"], "relevant_item_ids": ["c"]},
    ... ]
    >>> results = ig.compute(predictions=[records], references=["7"], history=history, oracle={"7": [3, 9]})
    >>> results["ig_precision"], results["ig_recall"], results["ig_f1"]
    (0.5, 0.5, 0.5)
"""

REASONS = (
    "no_relevant_items",
    "insufficient_explicit_positive",
    "insufficient_implicit_positive",
    "excessive_negative",
)

BoolArray = npt.NDArray[np.bool_]
IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Thresholds:
    """How much evidence verifies an interest (Table 20); None switches a clause or a cap off."""

    explicit_positive: int | None = 2
    implicit_positive: int | None = 3
    hybrid_explicit_positive: int | None = 1
    hybrid_implicit_positive: int | None = 2
    max_implicit_negative: int | None = 3
    max_explicit_negative: int | None = 2
    """Not in the paper: the published implementation's cap, shifted by one in the other presets."""

    def __post_init__(self) -> None:
        """Refuse thresholds that mean nothing, or that every interest passes."""
        for name, value in vars(self).items():
            least = 0 if name.startswith("max_") else 1
            if value is None:
                continue
            if not isinstance(value, (int, np.integer)) or isinstance(value, bool) or value < least:
                raise ValueError(f"thresholds: {name} must be an integer >= {least} or None, found {value!r}.")
        if (self.hybrid_explicit_positive is None) != (self.hybrid_implicit_positive is None):
            raise ValueError(
                "thresholds: give both hybrid_explicit_positive and hybrid_implicit_positive, or None for both."
            )
        if self.explicit_positive is self.implicit_positive is self.hybrid_explicit_positive is None:
            raise ValueError("thresholds: every positive clause is None, so that nothing could be verified.")


PRESETS = {
    "base": Thresholds(),
    "lenient": Thresholds(1, 1, None, None, 4, 3),
    "strict": Thresholds(3, 4, 2, 3, 2, 1),
}


def _thresholds(given: Any) -> tuple[str, Thresholds]:
    """Return the name and the numbers of a preset, or of "base" with some values replaced."""
    if isinstance(given, str):
        if given not in PRESETS:
            raise ValueError(f"thresholds: no preset {given!r}; there are {', '.join(PRESETS)}, or give a dict.")
        return given, PRESETS[given]
    if not isinstance(given, Mapping):
        raise ValueError(f"thresholds must be one of {', '.join(PRESETS)} or a dict, found {given!r}.")
    known = list(vars(PRESETS["base"]))
    if unknown := [str(key) for key in given if key not in known]:
        raise ValueError(f"thresholds: unknown key(s) {', '.join(unknown)}; the keys are {', '.join(known)}.")
    return "custom: base with what the call gave", replace(PRESETS["base"], **given)


def _signals(given: Any, types: npt.NDArray[np.int8]) -> list[str]:
    """Return the interaction types that the data set has, in their fixed order."""
    if given is None:
        if not len(types):
            raise ValueError(
                "history has no rows, so it does not show the data set's signals. Pass its rows, or signals=[...]."
            )
        present = np.bincount(types, minlength=len(INTERACTION_TYPES)) > 0
        return [name for name, there in zip(INTERACTION_TYPES, present.tolist(), strict=True) if there]
    if isinstance(given, str) or not isinstance(given, (Sequence, set, frozenset, np.ndarray)):
        raise ValueError(f"signals must be a list of interaction types or None, found {given!r}.")
    if unknown := [str(name) for name in given if name not in INTERACTION_TYPES]:
        raise ValueError(f"signals: unknown {', '.join(unknown)}; the types are {', '.join(INTERACTION_TYPES)}.")
    return [name for name in INTERACTION_TYPES if name in given]


# --- evidence -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Evidence:
    """What the user's history says about each interest."""

    counts: IntArray
    """Distinct relevant objects per interest and interaction type, in the order of `INTERACTION_TYPES`."""
    n_relevant: IntArray
    """Distinct relevant objects that are in the user's history."""
    unknown: list[list[str]]
    """Distinct cited ids that are not."""


def _evidence(
    rows: Rows, cited: list[list[str]], relevant: list[list[str] | None], users: Any, objects: Any, types: Any
) -> Evidence:
    """Look every cited id up in its user's history and count the relevant ones by interaction type.

    An (id, user) pair is one integer key, so that the history is read once, column by column.
    """
    judged = [k for k, ids in enumerate(relevant) if ids is not None]
    kept: list[Any] = [relevant[k] for k in judged]
    flat = list(chain.from_iterable(cited))
    flat_kept = list(chain.from_iterable(kept))
    interest = np.repeat(np.arange(len(cited)), [len(ids) for ids in cited])
    interest_kept = np.repeat(np.array(judged, dtype=np.int64), [len(ids) for ids in kept])

    codes, clean_codes, texts = encode_ids(flat + flat_kept)
    base = rows.user_of[np.concatenate([interest, interest_kept])] * len(texts)
    n = len(flat)
    raw, cleaned = base + codes, base + clean_codes
    everything = (raw[:n], raw[n:]) if clean_codes is codes else (raw[:n], raw[n:], cleaned[:n], cleaned[n:])
    keys, index = np.unique(np.concatenate(everything), return_inverse=True)
    at, at_kept, *of_clean = np.split(index, np.cumsum([len(part) for part in everything])[:-1])
    at_clean, at_clean_kept = of_clean or (at, at_kept)

    seen = _types_seen(keys, rows.users, texts, users, objects, types)
    at = np.where(seen[at] > 0, at, at_clean)
    at_kept = np.where(seen[at_kept] > 0, at_kept, at_clean_kept)
    _check_relevant_are_cited(rows, interest, at, interest_kept, at_kept, flat_kept, len(keys))

    # Distinct relevant objects: what the judge kept, or all cited ones where there was no judge.
    unjudged = np.ones(len(cited), dtype=np.bool_)
    unjudged[judged] = False
    by_default = unjudged[interest]
    pairs = np.unique(
        np.concatenate([interest_kept, interest[by_default]]) * max(len(keys), 1)
        + np.concatenate([at_kept, at[by_default]])
    )
    owner, key = np.divmod(pairs, max(len(keys), 1))
    bits = seen[key]
    counts = [np.bincount(owner[bits >> t & 1 == 1], minlength=len(cited)) for t in range(len(INTERACTION_TYPES))]

    unknown: list[list[str]] = [[] for _ in cited]
    for i in np.flatnonzero(seen[at] == 0).tolist():
        text, ids = clean_id(flat[i]), unknown[interest[i]]
        if text not in ids:
            ids.append(text)
    return Evidence(
        counts=np.stack(counts, axis=1),
        n_relevant=np.bincount(owner[bits > 0], minlength=len(cited)),
        unknown=unknown,
    )


def _types_seen(
    keys: IntArray, user_ids: list[str], texts: Any, users: Any, objects: Any, types: Any
) -> npt.NDArray[np.uint8]:
    """Return, for each (user, id) key, the interaction types it occurs with, one bit per type."""
    user = codes_in(users, user_ids)
    item = codes_in(objects, texts)
    rows = np.flatnonzero((user >= 0) & (item >= 0))
    wanted = user[rows].astype(np.int64) * len(texts) + item[rows]
    types = types[rows]
    at = np.searchsorted(keys, wanted)
    there = at < len(keys)
    there[there] = keys[at[there]] == wanted[there]
    at, types = at[there], types[there]
    seen = np.zeros(len(keys), dtype=np.uint8)
    for t in range(len(INTERACTION_TYPES)):
        seen[at[types == t]] |= np.uint8(1 << t)
    return seen


def _check_relevant_are_cited(
    rows: Rows,
    interest: IntArray,
    at: IntArray,
    interest_kept: IntArray,
    at_kept: IntArray,
    kept: list[str],
    n_keys: int,
) -> None:
    extra = ~np.isin(interest_kept * n_keys + at_kept, interest * n_keys + at)
    if extra.any():
        i = int(np.argmax(extra))
        raise ValueError(
            f"{rows.place(int(interest_kept[i]), 'relevant_item_ids')} holds {kept[i]!r}, which is not among its "
            f"item_ids. A judge keeps cited items, it adds none."
        )


def verify(evidence: Evidence, thresholds: Thresholds, signals: list[str]) -> tuple[BoolArray, list[list[str]]]:
    """Decide which interests are verified, and why the others are not (Tables 7 and 20).

    A clause or cap counts only if the data set has its signals.
    """
    has = [name in signals for name in INTERACTION_TYPES]
    e_pos, i_pos, i_neg, e_neg = evidence.counts.T
    none = np.zeros(len(e_pos), dtype=np.bool_)

    def reached(count: IntArray, least: int | None, present: bool) -> BoolArray:
        return none if least is None or not present else count >= least

    def exceeded(count: IntArray, most: int | None, present: bool) -> BoolArray:
        return none if most is None or not present else count > most

    explicit = reached(e_pos, thresholds.explicit_positive, has[0])
    implicit = reached(i_pos, thresholds.implicit_positive, has[1])
    hybrid = reached(e_pos, thresholds.hybrid_explicit_positive, has[0] and has[1]) & reached(
        i_pos, thresholds.hybrid_implicit_positive, has[0] and has[1]
    )
    negative = exceeded(i_neg, thresholds.max_implicit_negative, has[2]) | exceeded(
        e_neg, thresholds.max_explicit_negative, has[3]
    )
    empty = evidence.n_relevant == 0
    verified = ~empty & (explicit | implicit | hybrid) & ~negative
    failures = (
        empty,
        ~explicit if has[0] and thresholds.explicit_positive is not None else none,
        ~implicit if has[1] and thresholds.implicit_positive is not None else none,
        negative,
    )
    code = sum((np.int64(1 << bit) * holds for bit, holds in enumerate(failures)), np.zeros(len(empty), dtype=np.int64))
    lists = [[reason for bit, reason in enumerate(REASONS) if code >> bit & 1] for code in range(1 << len(REASONS))]
    return verified, [lists[c].copy() for c in np.where(verified, 0, code).tolist()]


# --- scores ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Oracle:
    """The categories that count for recall, per user; `given` is False where the call had none."""

    given: bool
    categories: list[frozenset[Any]]
    """Per reference user, without category 0."""
    zeros_dropped: int = 0
    not_scored: int = 0
    """Users of the oracle that are not among the references."""


def _oracle(given: Any, users: list[str], by_name: bool | None) -> Oracle:
    """Read an oracle; ``by_name`` says whether categories are interest names (None: nothing to compare with)."""
    if given is None:
        return Oracle(False, [frozenset()] * len(users))
    by_user = mapping_by_user(given, "oracle")
    zeros = 0
    read: dict[str, frozenset[Any]] = {}
    for user, categories in by_user.items():
        if isinstance(categories, (str, Mapping)) or not isinstance(categories, (Sequence, set, frozenset, np.ndarray)):
            raise ValueError(f"oracle[{user!r}] must be a list of categories, found {categories!r}.")
        labels: set[Any] = set(categories) if not by_name and set(map(type, categories)) <= {int} else set()
        for category in categories if not labels or min(labels) < UNMAPPED else ():
            if isinstance(category, str) and category.strip() and by_name is not False:
                labels.add(category.strip())
            elif isinstance(category, (int, np.integer)) and not isinstance(category, bool) and not by_name:
                if category < UNMAPPED:
                    raise ValueError(f"oracle[{user!r}] holds {category!r}; category ids are positive.")
                labels.add(int(category))
            else:
                wanted = "interest names, because category_id is None everywhere" if by_name else "integer category ids"
                raise ValueError(f"oracle[{user!r}] holds {category!r}; it must hold {wanted}.")
        zeros += UNMAPPED in labels
        read[user] = frozenset(labels - {UNMAPPED})
    return Oracle(
        given=True,
        categories=[read.get(user, frozenset()) for user in users],
        zeros_dropped=zeros,
        not_scored=len(read.keys() - set(users)),
    )


@dataclass(frozen=True)
class UserScores:
    """Per user: precision, recall and F1 (NaN where undefined), and counts."""

    precision: FloatArray
    recall: FloatArray
    f1: FloatArray
    n_categories: IntArray
    n_verified_categories: IntArray
    n_oracle: IntArray
    n_gaps: int
    """Users without an oracle for whom a category other than 0 is verified all the same."""


def score_users(groups: Groups, verified: BoolArray, oracle: Oracle, users: list[str]) -> UserScores:
    """Average the share of verified interests, G_c, over categories (Section 4.2).

    Raises:
        ValueError: If an oracle lacks a category that was verified for the user: recall could exceed 1.
    """
    n = len(users)
    size = np.bincount(groups.of_interest, minlength=len(groups))
    share = np.bincount(groups.of_interest, weights=verified, minlength=len(groups)) / np.maximum(size, 1)
    unmapped = groups.unmapped if len(groups) else np.zeros(0, dtype=np.bool_)
    n_oracle = np.array([len(categories) for categories in oracle.categories], dtype=np.int64)
    for g in np.flatnonzero((share > 0) & ~unmapped & (n_oracle[groups.user] > 0)).tolist():
        user, category = int(groups.user[g]), groups.category[g]
        if category not in oracle.categories[user]:
            raise ValueError(
                f"oracle[{users[user]!r}] lacks category {category!r}, verified for user {users[user]!r} in this call, "
                f"so that recall could exceed 1. An oracle holds what any evaluated model verified: add this model's "
                f"categories to it first."
            )
    n_categories = np.bincount(groups.user, minlength=n)
    precision = np.bincount(groups.user, weights=share, minlength=n) / np.maximum(n_categories, 1)
    found = np.bincount(groups.user[~unmapped], weights=share[~unmapped], minlength=n)
    recall = np.divide(found, n_oracle, out=np.full(n, np.nan), where=n_oracle > 0)
    return UserScores(
        precision=precision,
        recall=recall,
        f1=harmonic_mean(precision, recall),
        n_categories=n_categories,
        n_verified_categories=np.bincount(groups.user[share > 0], minlength=n),
        n_oracle=n_oracle,
        n_gaps=int(((n_oracle == 0) & (found > 0)).sum()),
    )


def score(
    predictions: Any,
    references: Any,
    history: Any = None,
    oracle: Any = None,
    thresholds: Any = "base",
    signals: Any = None,
    n_resamples: int = 1000,
    confidence_level: float = 0.95,
    seed: int = 0,
) -> dict[str, Any]:
    """Score the interests of all users; arguments and result as in the module's description."""
    resampling = Resampling(n_resamples, confidence_level, seed)
    preset, limits = _thresholds(thresholds)
    rows = _read(predictions, references)
    names = rows.names()
    category_ids = rows.categories()
    cited: list[Any] = rows.id_lists("item_ids")
    relevant = rows.id_lists("relevant_item_ids", nullable=True)
    by_name = None if not rows.records else category_ids is None
    reference = _oracle(oracle, rows.users, by_name)
    user_column, object_column, types = engagement_columns(history)
    present = _signals(signals, types)

    evidence = _evidence(rows, cited, relevant, user_column, object_column, types)
    verified, reasons = verify(evidence, limits, present)
    groups = group_by_category(rows, names, category_ids)
    scores = score_users(groups, verified, reference, rows.users)

    n = len(rows.users)
    n_unknown = np.array([len(ids) for ids in evidence.unknown], dtype=np.int64)
    metrics = {
        "ig_precision": optional_floats(scores.precision),
        "ig_recall": optional_floats(scores.recall),
        "ig_f1": optional_floats(scores.f1),
    }
    without_recall = np.isnan(scores.recall)
    return {
        **summarise(metrics, resampling),
        "n_users": n,
        "per_user": {
            "user_id": list(rows.users),
            **metrics,
            "n_interests": np.diff(rows.first).tolist(),
            "n_verified": np.bincount(rows.user_of, weights=verified, minlength=n).astype(int).tolist(),
            "n_categories": scores.n_categories.tolist(),
            "n_verified_categories": scores.n_verified_categories.tolist(),
            "n_oracle_categories": scores.n_oracle.tolist() if reference.given else [None] * n,
            "n_unknown_item_ids": np.bincount(rows.user_of, weights=n_unknown, minlength=n).astype(int).tolist(),
        },
        "per_interest": {
            "user_id": [rows.users[user] for user in rows.user_of.tolist()],
            "interest": names,
            "category_id": [None] * len(names) if category_ids is None else category_ids.tolist(),
            **{f"n_{name}": evidence.counts[:, t].tolist() for t, name in enumerate(INTERACTION_TYPES)},
            "verified": verified.tolist(),
            "failure_reasons": reasons,
            "unknown_item_ids": evidence.unknown,
        },
        "policy": {
            "metric": "ig",
            "module_version": __version__,
            "thresholds": {
                "preset": preset,
                **{name: None if value is None else int(value) for name, value in vars(limits).items()},
            },
            "signals": present,
            "signals_from": "history" if signals is None else "argument",
            "counts": "distinct relevant objects per interaction type; an object with two types counts in both",
            "no_judge": "where relevant_item_ids is None, all cited items are relevant",
            "n_interests_judged": sum(ids is not None for ids in relevant),
            "n_interests_not_judged": sum(ids is None for ids in relevant),
            "ids": "compared as strings; one that is not in the user's history is tried without the space, brackets "
            "and quotes around it, else it is unknown: counted, never evidence",
            "category": "interest (trimmed name)" if by_name else "category_id",
            "unmapped": "category 0 counts in ig_precision, never in ig_recall or in the oracle",
            "no_interests": "a user without interests scores 0",
            "no_oracle": "a user with an empty or missing oracle has no ig_recall and no ig_f1: left out of both",
            "n_users_without_recall": int(without_recall.sum()),
            "n_users_without_recall_but_verified": scores.n_gaps if reference.given else 0,
            "n_oracle_zeros_dropped": reference.zeros_dropped,
            "n_oracle_users_not_scored": reference.not_scored,
            "aggregation": "median over users (ig_*), mean over users (mean_*)",
            "interval": resampling.policy(),
        },
    }


def _read(predictions: Any, references: Any) -> Rows:
    return read_rows(
        predictions, references, required=("interest", "category_id", "item_ids"), optional=("relevant_item_ids",)
    )


def _plain(predictions: Any, references: Any) -> dict[str, Any]:
    """Check a batch and bring it into the shape of the features that `evaluate` stores."""
    rows = _read(predictions, references)
    categories = rows.categories()
    records = [
        {"interest": name, "category_id": category, "item_ids": cited, "relevant_item_ids": kept}
        for name, category, cited, kept in zip(
            rows.names(),
            [None] * len(rows.records) if categories is None else categories.tolist(),
            rows.id_lists("item_ids"),
            rows.id_lists("relevant_item_ids", nullable=True),
            strict=True,
        )
    ]
    first = rows.first.tolist()
    return {
        "predictions": [records[start:end] for start, end in pairwise(first)],
        "references": rows.users,
    }


class IG(evaluate.Metric):  # type: ignore[misc]
    """Interest Groundedness as an `evaluate` module."""

    def _info(self) -> evaluate.MetricInfo:
        ids = [datasets.Value("string")]
        record = {
            "interest": datasets.Value("string"),
            "category_id": datasets.Value("int64"),
            "item_ids": ids,
            "relevant_item_ids": ids,
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
