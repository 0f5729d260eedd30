# `evaluate` reads the imports below line by line: one name per line, no comments on them.
"""Interest Groundedness (GISTBench, Section 4.2): are the interests a model predicts backed by what the user did?

Scores records that exist: it calls no model, draws no items and maps nothing to categories. An interest is verified if
enough of its relevant items were engaged with; verified interests per category give precision, recall and F1 per user.

Beside `compute`, the module has `build_oracle` (what several models verified), `rescore` (results once more, against
another oracle or under other thresholds, without a history), `compare` and `rank_groups` (models by per-user scores).
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence
from concurrent.futures import Future
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from dataclasses import replace
from itertools import chain
from typing import Any

import datasets
import evaluate
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from .common import INTERACTION_TYPES
from .common import UNMAPPED
from .common import CheckedMetric
from .common import Engagements
from .common import Groups
from .common import IdLists
from .common import Resampling
from .common import Rows
from .common import clean_id
from .common import codes_in
from .common import collector_paused
from .common import distinct
from .common import encode_ids
from .common import engagement_columns
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
from .lookup import types_seen
from .oracle import Found
from .oracle import unite

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
    missing_from_oracle: a verified category that a user's oracle lacks is an "error", or the call extends that user's
        oracle by it ("extend", reported in oracle_extension), or it does not count in ig_recall ("ignore").
    thresholds: "base" (the paper), "lenient", "strict", or a dict that overrides parts of "base".
    signals: the interaction types that the data set has. None: those that occur anywhere in the history.
    n_resamples, confidence_level, seed: of the bootstrap intervals; n_resamples=0 leaves them out.
Returns:
    ig_precision, ig_recall, ig_f1: medians over users; mean_*: means; ci_* and ci_mean_*: their intervals [low, high];
    n_users; per_user and per_interest: dicts of columns; failure_modes: why interests are not verified (Table 7);
    evidence: counts of cited, unknown and engaged items; policy: every convention that was used.
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
    >>> results["failure_modes"]["shares"]["insufficient_explicit_positive"]
    1.0
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
        return [name for t, name in enumerate(INTERACTION_TYPES) if (types == t).any()]
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
    unknown: list[list[str]]
    """Distinct cited ids that are not in the user's history."""
    n_cited: int
    """Distinct cited ids, summed over interests."""


def _evidence(
    rows: Rows, citations: IdLists, kept: IdLists, engagements: Engagements, users: Future[npt.NDArray[np.int32]]
) -> Evidence:
    """Look every cited id up in its user's history and count the relevant ones by interaction type.

    A (user, id) pair is one integer key, an (interest, pair) again: sets and counts are those of integers.

    Args:
        rows: the records.
        citations: their cited ids.
        kept: those that the judge kept.
        engagements: the history.
        users: the position among the users of each row of it.
    """
    cited = citations.lists
    n_cited = np.fromiter(map(len, cited), np.int64, len(cited))
    first = np.cumsum(n_cited) - n_cited
    interest = np.repeat(np.arange(len(cited)), n_cited)
    judged: Sequence[int] = range(len(cited))
    relevant = kept.lists
    if None in relevant:
        judged = [k for k, ids in enumerate(kept.lists) if ids is not None]
        relevant = [kept.lists[k] for k in judged]
    n_kept = np.fromiter(map(len, relevant), np.int64, len(judged))
    interest_kept = np.repeat(np.array(judged, dtype=np.int64), n_kept)

    ids = pa.concat_arrays([pa.array([], pa.string()), *citations.texts, *kept.texts])
    codes, clean_codes, texts = encode_ids(ids, citations.brackets or kept.brackets)
    base = rows.user_of[np.concatenate([interest, interest_kept])] * len(texts)
    n = len(interest)
    everything = [base + codes] if clean_codes is codes else [base + codes, base + clean_codes]
    pairs, index = np.unique(np.concatenate(everything), return_inverse=True)
    raw, *cleaned = np.split(index, len(everything))
    seen = types_seen(pairs, texts, users.result(), engagements.objects, engagements.types)
    at = np.where(seen[raw] > 0, raw, cleaned[0]) if cleaned else raw

    width = max(len(pairs), 1)
    cited_keys = distinct(interest * width + at[:n])
    kept_keys = distinct(interest_kept * width + at[n:])
    if not _are_among(kept_keys, cited_keys):
        extra = int(np.argmin(np.isin(interest_kept * width + at[n:], cited_keys)))
        k = int(interest_kept[extra])
        text = kept.lists[k][extra - int(np.searchsorted(interest_kept, k))]
        raise ValueError(
            f"{rows.place(k, 'relevant_item_ids')} holds {text!r}, which is not among its item_ids. A judge keeps "
            f"cited items, it adds none."
        )

    # Distinct relevant objects: what the judge kept, or all cited ones where there was no judge.
    unjudged = np.ones(len(cited), dtype=np.bool_)
    unjudged[np.array(judged, dtype=np.int64)] = False
    owner, key = np.divmod(cited_keys, width)
    default = unjudged[owner]
    owner_kept, key_kept = np.divmod(kept_keys, width)
    owner_relevant, bits = np.concatenate([owner_kept, owner[default]]), seen[np.concatenate([key_kept, key[default]])]
    counts = [
        np.bincount(owner_relevant[bits >> t & 1 == 1], minlength=len(cited)) for t in range(len(INTERACTION_TYPES))
    ]

    unknown: list[list[str]] = [[] for _ in cited]
    absent = np.flatnonzero(seen[at[:n]] == 0)
    for k, i in zip(interest[absent].tolist(), (absent - first[interest[absent]]).tolist(), strict=True):
        text = clean_id(cited[k][i])
        if text not in unknown[k]:
            unknown[k].append(text)
    return Evidence(counts=np.stack(counts, axis=1), unknown=unknown, n_cited=len(cited_keys))


def _are_among(keys: IntArray, others: IntArray) -> bool:
    """Tell whether all keys are among others, both sorted."""
    if not len(others):
        return not len(keys)
    return bool((others[np.minimum(np.searchsorted(others, keys), len(others) - 1)] == keys).all())


@dataclass(frozen=True)
class Verdicts:
    """Which interests are verified, and why the others are not."""

    verified: BoolArray
    reasons: list[list[str]]
    failure_modes: dict[str, Any]
    """Table 7: how many of the unverified interests have each reason; a reason does not exclude another."""


def verify(counts: IntArray, thresholds: Thresholds, signals: list[str]) -> Verdicts:
    """Decide which interests are verified, and why the others are not (Tables 7 and 20).

    A clause or cap counts only if the data set has its signals.
    """
    has = [name in signals for name in INTERACTION_TYPES]
    e_pos, i_pos, i_neg, e_neg = counts.T
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
    empty = counts.sum(axis=1) == 0  # an object of the history has at least one type
    verified = ~empty & (explicit | implicit | hybrid) & ~negative
    failures = (
        empty,
        ~explicit if has[0] and thresholds.explicit_positive is not None else none,
        ~implicit if has[1] and thresholds.implicit_positive is not None else none,
        negative,
    )
    code = sum((np.int64(1 << bit) * holds for bit, holds in enumerate(failures)), np.zeros(len(empty), dtype=np.int64))
    lists = [[reason for bit, reason in enumerate(REASONS) if code >> bit & 1] for code in range(1 << len(REASONS))]
    n_unverified = int((~verified).sum())
    n_of = {reason: int((holds & ~verified).sum()) for reason, holds in zip(REASONS, failures, strict=True)}
    return Verdicts(
        verified=verified,
        reasons=list(map(list.copy, pick(lists, np.where(verified, 0, code)))),
        failure_modes={
            "n_interests": len(verified),
            "n_unverified": n_unverified,
            "counts": n_of,
            "shares": {reason: n / n_unverified if n_unverified else None for reason, n in n_of.items()},
        },
    )


# --- oracles --------------------------------------------------------------------------------------------------------

MISSING = ("error", "extend", "ignore")


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
        if UNMAPPED in labels:
            zeros += 1
            labels.remove(UNMAPPED)
        read[user] = frozenset(labels)
    return Oracle(
        given=True,
        categories=[read.get(user, frozenset()) for user in users],
        zeros_dropped=zeros,
        not_scored=len(read.keys() - set(users)),
    )


def _groups_missing(groups: Groups, counted: BoolArray, oracle: Oracle) -> list[int]:
    """Return the groups, of those that count for recall, whose category their user's oracle lacks."""
    at = np.flatnonzero(counted)
    pairs = zip(at.tolist(), groups.user[at].tolist(), pick(groups.labels, groups.code[at]), strict=True)
    return [g for g, user, category in pairs if category not in oracle.categories[user]]


# --- scores ---------------------------------------------------------------------------------------------------------


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
    outside: dict[str, list[Any]]
    """Per user, verified categories that the oracle lacked."""


def score_users(
    groups: Groups, verified: BoolArray, users: list[str], n_oracle: IntArray, oracle: Oracle | None, missing: str
) -> UserScores:
    """Average the share of verified interests, G_c, over categories (Section 4.2).

    Args:
        groups: the (user, category) pairs.
        verified: per interest.
        users: their ids.
        n_oracle: categories in each user's oracle.
        oracle: what these are; None where they are known to hold every verified one.
        missing: what to do about a verified category that a user's oracle lacks, see `MISSING`.

    Raises:
        ValueError: If there is such a category and it is an error: recall could exceed 1.
    """
    n = len(users)
    size = np.bincount(groups.of_interest, minlength=len(groups))
    share = np.bincount(groups.of_interest, weights=verified, minlength=len(groups)) / np.maximum(size, 1)
    counted = ~groups.unmapped
    outside: dict[str, list[Any]] = {}
    absent = _groups_missing(groups, (share > 0) & counted & (n_oracle[groups.user] > 0), oracle) if oracle else []
    for g in absent:
        user, category = users[groups.user[g]], groups.labels[groups.code[g]]
        if missing == "error":
            raise ValueError(
                f"oracle[{user!r}] lacks category {category!r}, verified for user {user!r} in this call, so that "
                f"recall could exceed 1. An oracle holds what any evaluated model verified: build it with this model "
                f"among them (build_oracle), or say missing_from_oracle='extend' or 'ignore'."
            )
        outside.setdefault(user, []).append(category)
    if absent and missing == "extend":
        n_oracle = n_oracle + np.bincount(groups.user[absent], minlength=n)
    elif absent:
        counted[absent] = False
    n_categories = np.bincount(groups.user, minlength=n)
    precision = np.bincount(groups.user, weights=share, minlength=n) / np.maximum(n_categories, 1)
    found = np.bincount(groups.user[counted], weights=share[counted], minlength=n)
    recall = np.divide(found, n_oracle, out=np.full(n, np.nan), where=n_oracle > 0)
    return UserScores(
        precision=precision,
        recall=recall,
        f1=harmonic_mean(precision, recall),
        n_categories=n_categories,
        n_verified_categories=np.bincount(groups.user[share > 0], minlength=n),
        n_oracle=n_oracle,
        n_gaps=int(((n_oracle == 0) & (found > 0)).sum()),
        outside=outside,
    )


@dataclass(frozen=True)
class Interests:
    """One model's interests with their verdicts: all that scores depend on, and what a result says about them."""

    users: list[str]
    user_of: IntArray
    category_ids: IntArray | None
    verdicts: Verdicts
    user_column: list[str]
    category_column: list[int | None]
    names: list[str]
    counts: Mapping[str, list[int]]
    """One column for each interaction type."""
    unknown: list[list[str]]
    evidence: Mapping[str, Any]
    policy: Mapping[str, Any]
    """The conventions under which the verdicts stand."""

    @property
    def by_name(self) -> bool | None:
        """Whether categories are interest names; None where there is no interest to tell."""
        return self.category_ids is None if self.names else None

    @property
    def groups(self) -> Groups:
        """The (user, category) pairs."""
        return group_by_category(self.user_of, self.names, self.category_ids)

    def found(self, groups: Groups) -> Found:
        """Return the verified pairs, without category 0."""
        n_verified = np.bincount(groups.of_interest, weights=self.verdicts.verified, minlength=len(groups))
        at = np.flatnonzero((n_verified > 0) & ~groups.unmapped)
        return Found(self.users, groups.user[at], groups.code[at], groups.labels)


def _verify(
    predictions: Any, references: Any, history: Any, thresholds: Any, signals: Any, oracle: Any = None
) -> tuple[Interests, Oracle]:
    """Read records and decide which are verified; read the oracle too, which goes with their categories."""
    preset, limits = _thresholds(thresholds)
    with ThreadPoolExecutor(1) as beside:  # columns are read without Python's lock, while records are read with it
        columns = beside.submit(engagement_columns, history)
        rows = _read(predictions, references)
        names = rows.names()
        category_ids = rows.categories()
        cited = rows.id_lists("item_ids", encode=True)
        relevant = rows.id_lists("relevant_item_ids", nullable=True, encode=True)
        read_oracle = _oracle(oracle, rows.users, category_ids is None if rows.records else None)
        engagements = columns.result()
        users = beside.submit(codes_in, engagements.users, rows.users)
        present = _signals(signals, engagements.types)
        evidence = _evidence(rows, cited, relevant, engagements, users)
    verdicts = verify(evidence.counts, limits, present)
    n_unknown, n_not_judged = sum(map(len, evidence.unknown)), relevant.lists.count(None)
    interests = Interests(
        users=rows.users,
        user_of=rows.user_of,
        category_ids=category_ids,
        verdicts=verdicts,
        user_column=pick(rows.users, rows.user_of),
        category_column=[None] * len(names) if category_ids is None else category_ids.tolist(),
        names=names,
        counts={f"n_{name}": evidence.counts[:, t].tolist() for t, name in enumerate(INTERACTION_TYPES)},
        unknown=evidence.unknown,
        evidence={
            "n_item_ids": evidence.n_cited,
            "n_unknown_item_ids": n_unknown,
            "unknown_item_id_rate": n_unknown / evidence.n_cited if evidence.n_cited else None,
            **_mean_counts(evidence.counts, verdicts.verified),
        },
        policy={
            "thresholds": _threshold_policy(preset, limits),
            "signals": present,
            "signals_from": "history" if signals is None else "argument",
            "counts": "distinct relevant objects per interaction type; an object with two types counts in both",
            "no_judge": "where relevant_item_ids is None, all cited items are relevant",
            "n_interests_judged": len(names) - n_not_judged,
            "n_interests_not_judged": n_not_judged,
            "ids": "compared as strings; one that is not in the user's history is tried without the space, brackets "
            "and quotes around it, else it is unknown: counted, never evidence",
        },
    )
    return interests, read_oracle


def _threshold_policy(preset: str, limits: Thresholds) -> dict[str, Any]:
    return {
        "preset": preset,
        **{name: None if value is None else int(value) for name, value in vars(limits).items()},
    }


def _mean_counts(counts: IntArray, verified: BoolArray) -> dict[str, Any]:
    """Return mean numbers of relevant objects per interest, by interaction type, of all and of verified interests."""

    def means(rows: IntArray) -> dict[str, float | None]:
        sums = rows.sum(axis=0).tolist()
        return {name: n / len(rows) if len(rows) else None for name, n in zip(INTERACTION_TYPES, sums, strict=True)}

    return {"mean_objects": means(counts), "mean_objects_verified": means(counts[verified])}


def score(
    predictions: Any,
    references: Any,
    history: Any = None,
    oracle: Any = None,
    thresholds: Any = "base",
    signals: Any = None,
    missing_from_oracle: str = "error",
    n_resamples: int = 1000,
    confidence_level: float = 0.95,
    seed: int = 0,
) -> dict[str, Any]:
    """Score the interests of all users; arguments and result as in the module's description."""
    resampling = Resampling(n_resamples, confidence_level, seed)
    _check_missing(missing_from_oracle)
    interests, reference = _verify(predictions, references, history, thresholds, signals, oracle)
    groups = interests.groups
    n_oracle = np.array([len(categories) for categories in reference.categories], dtype=np.int64)
    scores = score_users(groups, interests.verdicts.verified, interests.users, n_oracle, reference, missing_from_oracle)
    oracle_policy = {
        "n_oracle_zeros_dropped": reference.zeros_dropped,
        "n_oracle_users_not_scored": reference.not_scored,
    }
    return _result(interests, scores, resampling, missing_from_oracle, reference.given, oracle_policy)


def _check_missing(value: Any) -> None:
    if value not in MISSING:
        raise ValueError(f"missing_from_oracle must be one of {', '.join(MISSING)}, found {value!r}.")


def _result(
    interests: Interests,
    scores: UserScores,
    resampling: Resampling,
    missing: str,
    has_oracle: bool,
    oracle_policy: Mapping[str, Any],
) -> dict[str, Any]:
    """Put a result together."""
    n = len(interests.users)
    metrics = {
        "ig_precision": optional_floats(scores.precision),
        "ig_recall": optional_floats(scores.recall),
        "ig_f1": optional_floats(scores.f1),
    }
    verdicts, names = interests.verdicts, interests.names

    def by_user(weights: Any = None) -> list[int]:
        total: list[int] = np.bincount(interests.user_of, weights=weights, minlength=n).astype(int).tolist()
        return total

    return {
        **summarise(metrics, resampling),
        "n_users": n,
        "per_user": {
            "user_id": list(interests.users),
            **metrics,
            "n_interests": by_user(),
            "n_verified": by_user(verdicts.verified),
            "n_categories": scores.n_categories.tolist(),
            "n_verified_categories": scores.n_verified_categories.tolist(),
            "n_oracle_categories": scores.n_oracle.tolist() if has_oracle else [None] * n,
            "n_unknown_item_ids": by_user(np.fromiter(map(len, interests.unknown), np.int64, len(names))),
        },
        "per_interest": {
            "user_id": interests.user_column,
            "interest": names,
            "category_id": interests.category_column,
            **interests.counts,
            "verified": verdicts.verified.tolist(),
            "failure_reasons": verdicts.reasons,
            "unknown_item_ids": interests.unknown,
        },
        "failure_modes": verdicts.failure_modes,
        "evidence": dict(interests.evidence),
        **({"oracle_extension": scores.outside} if missing == "extend" else {}),
        "policy": {
            "metric": "ig",
            "module_version": __version__,
            **interests.policy,
            "category": "interest (trimmed name)" if interests.by_name else "category_id",
            "unmapped": "category 0 counts in ig_precision, never in ig_recall or in the oracle",
            "no_interests": "a user without interests scores 0",
            "no_oracle": "a user with an empty or missing oracle has no ig_recall and no ig_f1: left out of both",
            "missing_from_oracle": {
                "error": "a verified category that a user's oracle lacks is an error",
                "extend": "a verified category that a user's oracle lacks extends it, for this model only",
                "ignore": "a verified category that a user's oracle lacks does not count in ig_recall",
            }[missing],
            "n_categories_missing_from_oracle": sum(map(len, scores.outside.values())),
            "n_users_without_recall": int(np.isnan(scores.recall).sum()),
            "n_users_without_recall_but_verified": scores.n_gaps if has_oracle else 0,
            **oracle_policy,
            "aggregation": "median over users (ig_*), mean over users (mean_*)",
            "interval": resampling.policy(),
        },
    }


# --- several models -------------------------------------------------------------------------------------------------


def build_oracle(
    predictions: Any = None,
    references: Any = None,
    history: Any = None,
    results: Any = None,
    given: Any = None,
    min_models: int = 1,
    thresholds: Any = "base",
    signals: Any = None,
) -> dict[str, Any]:
    """Unite what several models verified for each user: the oracle against which recall is measured.

    Args:
        predictions: {model: one list of records per user}, as for `compute`, with the same references for all models.
        references: the user ids.
        history: as for `compute`.
        results: instead of these three, {model: result of `compute`}.
        given: an oracle to start from; it counts as one more source, named "given".
        min_models: the oracle holds the categories that at least so many sources verify.
        thresholds: as for `compute`; not with results, which have been verified.
        signals: as for `compute`; not with results.

    Returns:
        ``oracle``: {user: [category, ...]}, sorted, to hand to `compute`; ``by_k``: how many (user, category) pairs are
        verified by exactly k models (Table 15); ``by_model``: pairs that each verifies, pairs that only it verifies and
        that would be lost without it (Table 16); ``pairs``: every pair with the models that found it; ``policy``.

    Raises:
        ValueError: Something is missing or cannot be read; the message names model and place.

    Examples:
        >>> liked = ["explicit_positive"] * 3
        >>> history = {"user_id": ["7"] * 3, "object_id": ["a", "b", "c"], "interaction_type": liked}
        >>> def interest(category, items):
        ...     return {"interest": f"i{category}", "category_id": category, "item_ids": items}
        >>> x, y = [interest(3, ["a", "b"])], [interest(3, ["b", "c"]), interest(9, ["a", "c"])]
        >>> found = build_oracle(predictions={"x": [x], "y": [y]}, references=["7"], history=history)
        >>> found["oracle"], found["by_k"]["n_pairs"]
        ({'7': [3, 9]}, [1, 1])
        >>> found["by_model"]["n_sole_provider"]
        [0, 1]
    """
    if (predictions is None) == (results is None):
        raise ValueError("build_oracle takes either predictions (with references and history) or results.")
    if not isinstance(min_models, (int, np.integer)) or isinstance(min_models, bool) or min_models < 1:
        raise ValueError(f"min_models must be an integer >= 1, found {min_models!r}.")
    models = _models(predictions if results is None else results, "predictions" if results is None else "results")
    if results is not None and (history is not None or references is not None):
        raise ValueError("results say their users and verdicts themselves: leave references and history out.")
    with collector_paused():
        if results is None:
            table = engagement_columns(history)
            read = {
                name: _of_model(name, lambda own=own: _verify(own, references, table, thresholds, signals)[0])
                for name, own in models.items()
            }
        else:
            read = {name: _from_result(result, f"results[{name!r}]") for name, result in models.items()}
        kinds = _check_same(read)
        found = {name: one.found(one.groups) for name, one in read.items()}
        if given is not None:
            users = list(mapping_by_user(given, "oracle"))
            start = _oracle(given, users, kinds)
            sizes = np.array([len(categories) for categories in start.categories], dtype=np.int64)
            flat = list(chain.from_iterable(start.categories))
            found["given"] = Found(users, np.repeat(np.arange(len(users)), sizes), np.arange(len(flat)), flat)
        if min_models > len(found):
            raise ValueError(f"min_models is {min_models}, and there are {len(found)} sources.")
        union = unite(found)
        return {
            "oracle": union.by_user(int(min_models)),
            **union.describe(),
            "pairs": union.pairs(),
            "policy": {
                "metric": "ig",
                "module_version": __version__,
                "min_models": int(min_models),
                "unmapped": "category 0 is never in an oracle",
                "given": given is not None,
                "verdicts": {
                    name: {key: one.policy[key] for key in ("thresholds", "signals")} for name, one in read.items()
                },
            },
        }


def rescore(
    results: Any,
    oracle: Any = None,
    thresholds: Any = None,
    missing_from_oracle: str = "error",
    n_resamples: int = 1000,
    confidence_level: float = 0.95,
    seed: int = 0,
) -> dict[str, dict[str, Any]]:
    """Score results of `compute` once more, without a history: against another oracle, or under other thresholds.

    Args:
        results: {model: result of `compute`}; what it says of users and interests is kept, lists shared.
        oracle: as for `compute`; None: what these models verify together.
        thresholds: as for `compute` (Tables 21 and 22); None: the verdicts stand.
        missing_from_oracle: as for `compute`.
        n_resamples: of the intervals; 0 leaves them out.
        confidence_level: of the intervals.
        seed: of the bootstrap.

    Returns:
        {model: result}, as `compute` returns them.

    Raises:
        ValueError: A result is none, or the models' results do not fit together.

    Examples:
        >>> liked = ["explicit_positive"] * 3
        >>> history = {"user_id": ["7"] * 3, "object_id": ["a", "b", "c"], "interaction_type": liked}
        >>> def interest(category, items):
        ...     return {"interest": f"i{category}", "category_id": category, "item_ids": items}
        >>> def result(*records):
        ...     return IG().compute(predictions=[list(records)], references=["7"], history=history)
        >>> results = {"x": result(interest(3, ["a", "b"])), "y": result(interest(3, ["c"]), interest(9, ["a", "c"]))}
        >>> {name: one["ig_recall"] for name, one in rescore(results).items()}
        {'x': 0.5, 'y': 0.5}
        >>> {name: one["ig_recall"] for name, one in rescore(results, thresholds="lenient").items()}
        {'x': 0.5, 'y': 1.0}
    """
    resampling = Resampling(n_resamples, confidence_level, seed)
    _check_missing(missing_from_oracle)
    with collector_paused():
        models = _models(results, "results")
        read = {name: _from_result(result, f"results[{name!r}]", thresholds) for name, result in models.items()}
        kinds = _check_same(read)
        groups = {name: one.groups for name, one in read.items()}
        union = unite({name: one.found(groups[name]) for name, one in read.items()}) if oracle is None else None
        scored = {}
        for name, one in read.items():
            if union is not None:
                policy: dict[str, Any] = {"oracle": f"what these {len(read)} models verify together"}
                n_oracle, reference = union.n_by_user(one.users), None
            else:
                reference = _oracle(oracle, one.users, kinds)
                policy = {
                    "n_oracle_zeros_dropped": reference.zeros_dropped,
                    "n_oracle_users_not_scored": reference.not_scored,
                }
                n_oracle = np.array([len(categories) for categories in reference.categories], dtype=np.int64)
            scores = _of_model(
                name,
                lambda one=one, groups=groups[name], n=n_oracle, reference=reference: score_users(
                    groups, one.verdicts.verified, one.users, n, reference, missing_from_oracle
                ),
            )
            scored[name] = _result(one, scores, resampling, missing_from_oracle, True, policy)
        return scored


def _models(given: Any, name: str) -> Mapping[str, Any]:
    if not isinstance(given, Mapping) or not given:
        raise ValueError(f"{name} must be a dict by model with at least one entry, found {given!r:.80}.")
    return {str(model): value for model, value in given.items()}


def _of_model(name: str, call: Any) -> Any:
    """Call, and say in an error which model it is about."""
    try:
        return call()
    except ValueError as error:
        raise ValueError(f"model {name!r}: {error}") from error


def _check_same(read: Mapping[str, Interests]) -> bool | None:
    """Return whether categories are names, and refuse models that differ in it."""
    kinds = {name: one.by_name for name, one in read.items() if one.by_name is not None}
    if len(set(kinds.values())) > 1:
        named = next(name for name, by_name in kinds.items() if by_name)
        raise ValueError(f"model {named!r} has no category ids, and others have: map its interests first.")
    return next(iter(kinds.values()), None)


_COLUMNS = ("user_id", "interest", "category_id", "verified", "failure_reasons", "unknown_item_ids")


def _from_result(result: Any, place: str, thresholds: Any = None) -> Interests:
    """Read a result of `compute` back; with thresholds, verify its counts anew."""
    keys = ("per_user", "per_interest", "failure_modes", "evidence", "policy")
    counts = tuple(f"n_{name}" for name in INTERACTION_TYPES)
    if not isinstance(result, Mapping) or any(not isinstance(result.get(key), Mapping) for key in keys):
        raise ValueError(f"{place} must be a result of ig.compute, with {', '.join(keys)}, found {result!r:.80}.")
    table, users = result["per_interest"], result["per_user"].get("user_id")
    if users is None or any(key not in table for key in (*_COLUMNS, *counts)):
        raise ValueError(f"{place} lacks columns of a result of ig.compute of version {__version__}.")
    sizes = {name: len(table[name]) for name in (*_COLUMNS, *counts)}
    if len(set(sizes.values())) > 1:
        raise ValueError(f"{place}: the columns of per_interest differ in length: {sizes}.")
    n = sizes["user_id"]
    ids = table["category_id"]
    interests = Interests(
        users=list(users),
        user_of=positions(table["user_id"], users, f"{place}, per_interest"),
        category_ids=integers(ids, f"{place}, category_id") if n and ids[0] is not None else None,
        verdicts=Verdicts(
            flags(table["verified"], f"{place}, verified"), table["failure_reasons"], result["failure_modes"]
        ),
        user_column=table["user_id"],
        category_column=ids,
        names=table["interest"],
        counts={name: table[name] for name in counts},
        unknown=table["unknown_item_ids"],
        evidence=result["evidence"],
        policy={key: result["policy"][key] for key in _VERDICT_POLICY if key in result["policy"]},
    )
    if thresholds is None:
        return interests
    preset, limits = _thresholds(thresholds)
    array = np.stack([integers(table[name], f"{place}, {name}") for name in counts], axis=1)
    verdicts = verify(array, limits, list(interests.policy["signals"]))
    return replace(
        interests,
        verdicts=verdicts,
        evidence={**interests.evidence, **_mean_counts(array, verdicts.verified)},
        policy={**interests.policy, "thresholds": _threshold_policy(preset, limits)},
    )


_VERDICT_POLICY = (
    "thresholds",
    "signals",
    "signals_from",
    "counts",
    "no_judge",
    "n_interests_judged",
    "n_interests_not_judged",
    "ids",
)


# --- the module -----------------------------------------------------------------------------------------------------


def _read(predictions: Any, references: Any) -> Rows:
    return read_rows(
        predictions,
        references,
        required=("interest", "category_id", "item_ids"),
        optional=("relevant_item_ids",),
        unused=("verified", "backing_item_ids", "selected_item_ids"),
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
            rows.id_lists("item_ids").lists,
            rows.id_lists("relevant_item_ids", nullable=True).lists,
            strict=True,
        )
    ]
    return {"predictions": rows.by_row(records), "references": rows.users}


class IG(CheckedMetric, evaluate.Metric):  # type: ignore[misc]
    """Interest Groundedness as an `evaluate` module."""

    _name = "ig"
    _score = staticmethod(score)
    _plain = staticmethod(_plain)
    _unused = ("ig_f1", "is_scope")

    build_oracle = staticmethod(build_oracle)
    rescore = staticmethod(rescore)
    compare = staticmethod(compare)
    rank_groups = staticmethod(rank_groups)

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
