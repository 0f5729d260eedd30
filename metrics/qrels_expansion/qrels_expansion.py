# `evaluate` reads the imports below line by line: one name per line, no comments on them.
"""Offline top-N evaluation with relevance judgements that a language model expands.

Scores runs under four sets of judgements: people's, a language model's on the same pairs, the model's on the pool, and
people's with the model's where there is none (Eq. 1). Tells how far rankings of systems agree, and how much they owe
to popularity. It calls no model and draws no users.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from collections.abc import Sequence
from itertools import chain
from typing import Any

import datasets
import evaluate
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from .agreement import agreement
from .bounds import bounds
from .common import CheckedMetric
from .common import optional_floats
from .common import shown
from .correlation import means
from .correlation import popularity_coupling
from .correlation import rank_agreement
from .correlation import resampled_means
from .judgements import CONDITIONS
from .judgements import in_sorted
from .lists import Lists
from .material import Material
from .material import read_material
from .measures import ap_and_ndcg
from .measures import hole_measures
from .options import Options
from .pools import POOLED
from .pools import by_depth
from .pools import without_own
from .significance import compare
from .tables import code
from .tables import numbers
from .tables import read_columns
from .trec import read_qrels
from .trec import read_run
from .trec import write_qrels
from .trec import write_run

__version__ = "0.1.0"

_CITATION = """\
@misc{preferenceinduction2026,
    title = {User Preference Induction with {LLMs} for Offline Top-N Recommendation Evaluation},
    year  = {2026},
}
"""

_DESCRIPTION = """\
AP and NDCG of recommenders under people's judgements and under judgements that a language model adds to them: matched,
synthetic and augmented (Eq. 1). With agreement of the judgements, Kendall's tau of the rankings of systems, their
coupling with popularity (Eqs. 3-5), bounds over the judgements that are still missing, and what the pool is worth.
"""

_KWARGS_DESCRIPTION = """
Args:
    runs: a table (Arrow, datasets.Dataset, DataFrame, dict of columns, or paths of TREC runs or Parquet files) with the
        columns `system`, `user`, `item`, `score`. Or, for small data, predictions and references:
    predictions: one dict of columns per system: {"user": [...], "item": [...], "score": [...]}.
    references: the systems' names, in the same order.
    human_qrels: a table with `user`, `item`, `rating` (negative: not judged). Its users are those who are scored.
    llm_qrels: the same, by a language model (missing or negative: not parsed). None: only people's judgements.
    pool: a table with `user`, `item`. None: the union of the top k of all runs.
    popularity: a table with `item`, `count`, the ratings of each item in the training data. None: no ARP.
    k: depth to which lists are scored; None: all of them.
    relevance_threshold: the lowest rating that is relevant for AP.
    gain: of NDCG: "linear", "exponential" (2^rating - 1) or a dict from ratings to gains.
    discount: "log2(rank+1)" or "max(log2(rank),1)".
    ap_denominator: "relevant" or "min(relevant,k)".
    ties: "trec" (item descending), "order" (as the rows stand) or "expected" (the mean over all orders).
    missing_users: "zero" or "drop": what a user without a list counts for a system.
    human_from: "ratings" (people rated what they chose) or "pool" (people judged a pool of runs, as at TREC; pool bias
        and values by pool depth then take their judgements away too).
    systems: the names to report and rank; the others only add to the pool. None: all.
    n_resamples, confidence_level, seed: of the bootstrap over users; n_resamples=0 leaves intervals out.
    per_user: whether to return the values of every user.
    parts: which of "positive", "judged", "bounds", "holes", "pool_bias", "pool_depths" and "rankings" to add to
        AP, NDCG and ARP. None: all.
    hole_grades: the grades that a missing judgement could have, for the bounds. None: 0 to 5, or those with a gain.
    pool_depths: depths of the pool to score with. None: a tenth, a fifth and a half of k, and k.
    significance: tests of system pairs: some of "wilcoxon", "t", "permutation", "tukey_hsd". None: none.
    correction: "holm", "benjamini-hochberg" or "none".
    rbo_p: persistence of rank-biased overlap.
Returns:
    per_system: a dict of columns; agreement; rankings; popularity; pool; by_pool_depth; significance; per_user; counts;
    policy: every convention that was used.
Examples:
    >>> qrels_expansion = evaluate.load("gistbench/qrels_expansion")
    >>> runs = {
    ...     "system": ["A", "A", "B", "B"],
    ...     "user": ["7", "7", "7", "7"],
    ...     "item": ["x", "y", "y", "z"],
    ...     "score": [2.0, 1.0, 2.0, 1.0],
    ... }
    >>> human = {"user": ["7"], "item": ["x"], "rating": [5.0]}
    >>> llm = {"user": ["7", "7", "7"], "item": ["x", "y", "z"], "rating": [4, 5, 0]}
    >>> results = qrels_expansion.compute(runs=runs, human_qrels=human, llm_qrels=llm)
    >>> results["per_system"]["system"], results["per_system"]["ap_human"], results["per_system"]["ap_augmented"]
    (['A', 'B'], [1.0, 0.0], [1.0, 0.5])
"""

METRICS = ("ap", "ndcg")
IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]


# --- scores ---------------------------------------------------------------------------------------------------------


class _Columns:
    """Values of lists as (system, user) matrices, and the means of the systems, by column."""

    def __init__(self, lists: Lists, missing: float) -> None:
        self._lists = lists
        self._missing = missing
        self.matrices: dict[str, FloatArray] = {}
        self.means: dict[str, FloatArray] = {}

    def add(self, name: str, values: FloatArray, left_out: bool = False) -> None:
        """Add one value per list; users without a list count what the call says, or are left out."""
        shape = (len(self._lists.systems), len(self._lists.users))
        matrix = np.full(shape, np.nan if left_out else self._missing)
        matrix[self._lists.system, self._lists.user] = values
        self.matrices[name] = matrix
        self.means[name] = means(matrix)

    def add_share(self, name: str, lists: Lists, rows: Any) -> None:
        """Add the mean over each list's rows; users without a list are left out."""
        total = np.bincount(lists.list_of, weights=rows, minlength=len(lists))
        self.add(name, total / lists.length, left_out=True)


def _add_scores(columns: _Columns, material: Material, options: Options) -> None:
    """AP and NDCG under each condition; AP with every rating above 0 relevant; ARP."""
    known = None if material.listed is None else material.rows
    for name, values in ap_and_ndcg(material.lists, material.judged, options.conventions, known).items():
        for metric, of_lists in zip(METRICS, values, strict=True):
            columns.add(f"{metric}_{name}", of_lists)
    if "positive" in options.parts:
        above_zero = float(np.nextafter(0, 1))
        positive = {name: judged.with_threshold(above_zero) for name, judged in material.judged.items()}
        for name, values in ap_and_ndcg(material.lists, positive, options.conventions, known).items():
            columns.add(f"ap_positive_{name}", values[0])
    if material.count is not None:
        columns.add_share("arp", material.ranked, np.nan_to_num(material.count)[material.ranked.item])


def _llm_rows(material: Material, condition: str) -> Any:
    """Tell which rows a language model judged, under a condition of which its judgements are a part."""
    at, by_llm = material.rows[condition], material.judged[condition].judgements.by_llm
    if by_llm is None or not len(by_llm):
        return at >= 0
    return (at >= 0) & by_llm[at]


def _add_judged(columns: _Columns, material: Material) -> None:
    human = material.ranked_rows["human"] >= 0
    llm = np.zeros(len(human), np.bool_)
    if "augmented" in material.judged:
        llm = _llm_rows(material, "augmented")[material.within]
    for name, flags in (("human", human), ("llm", llm), ("none", ~human & ~llm)):
        columns.add_share(f"judged_{name}", material.ranked, flags)


def _add_bounds(columns: _Columns, material: Material, options: Options) -> dict[str, dict[str, bool]]:
    """Add the bounds; return which are tight."""
    tight = {}
    lists = material.lists
    for name, judged in material.judged.items():
        n_holes = np.bincount(material.holes(name) // len(lists.items), minlength=len(lists.users))
        found = bounds(lists, judged, material.rows[name], n_holes, options.hole_grades, options.conventions)
        tight[name] = {"ap": found.ap_tight, "ndcg": found.ndcg_tight}
        columns.add(f"ap_{name}_lower", found.ap_lower)
        columns.add(f"ap_{name}_upper", found.ap_upper)
        columns.add(f"ndcg_{name}_lower", found.ndcg_lower)
        columns.add(f"ndcg_{name}_upper", found.ndcg_upper)
    return tight


def _add_hole_measures(columns: _Columns, material: Material, options: Options) -> None:
    pooled = in_sorted(material.ranked.key, material.pool)
    for name, judged in material.judged.items():
        at = material.ranked_rows[name]
        found = hole_measures(material.ranked, judged, at, pooled | (at >= 0), options.conventions)
        for measure, of_lists in found.items():
            columns.add(f"{measure}_{name}", of_lists)


def _add_pool_bias(columns: _Columns, material: Material, options: Options) -> None:
    for name in material.judged:
        if name not in POOLED[options.human_from]:
            continue
        at, judged = material.rows[name], material.judged[name]
        own = material.alone & (at >= 0 if options.human_from == "pool" else _llm_rows(material, name))
        full = without_own(material.lists, judged, at, np.zeros_like(own), options.conventions)
        left = without_own(material.lists, judged, at, own, options.conventions)
        for metric, whole, reduced in zip(METRICS, full, left, strict=True):
            columns.add(f"{metric}_{name}_left_out", reduced)
            columns.add(f"{metric}_{name}_pool_bias", whole - reduced)


def _by_depth(material: Material, options: Options) -> dict[str, list[Any]]:
    assert material.listed is not None
    lists = material.lists
    table: dict[str, list[Any]] = {name: [] for name in ("depth", "n_pairs", "system")}
    found = by_depth(
        lists,
        material.find,
        material.listed,
        material.human,
        material.llm,
        material.pool if material.given_pool else None,
        options.depths(int(lists.length.max())),
        options.conventions,
        options.human_from,
    )
    for depth, n_pairs, by_condition in found:
        table["depth"] += [depth] * len(lists.systems)
        table["n_pairs"] += [n_pairs] * len(lists.systems)
        table["system"] += lists.systems
        columns = _Columns(lists, options.missing)
        for name, values in by_condition.items():
            for metric, of_lists in zip(METRICS, values, strict=True):
                columns.add(f"{metric}_{name}", of_lists)
        for column, of_systems in columns.means.items():
            table.setdefault(column, []).extend(optional_floats(of_systems))
    return table


def _rankings(columns: _Columns, material: Material, options: Options) -> tuple[Any, Any]:
    """Compare the conditions' rankings of systems with the human one, and with that by popularity."""
    scores = {name: {metric: columns.means[f"{metric}_{name}"] for metric in METRICS} for name in material.judged}
    names = [f"{metric}_{name}" for name in material.judged for metric in METRICS]
    names += ["arp"] if material.count is not None else []
    n_systems, n_users = columns.matrices["ap_human"].shape
    draws: list[dict[str, FloatArray]] = []
    if options.resampling.n_resamples > 1 and n_users > 1 and n_systems > 1 and len(names) > len(METRICS):
        draws = list(resampled_means({name: columns.matrices[name] for name in names}, options.resampling))
    level = float(options.resampling.confidence_level)
    agreeing = rank_agreement(scores, draws, level, options.rbo_p) if material.llm is not None else None
    coupled = popularity_coupling(scores, columns.means["arp"], draws, level) if material.count is not None else None
    return agreeing, coupled


def score(
    runs: Any,
    human_qrels: Any = None,
    llm_qrels: Any = None,
    pool: Any = None,
    popularity: Any = None,
    systems: Any = None,
    **options: Any,
) -> dict[str, Any]:
    """Score runs; arguments and result as in the module's description."""
    if human_qrels is None:
        raise ValueError("human_qrels is required: a table with the columns user, item, rating.")
    asked = Options.read(**options)
    material = read_material(asked, runs, human_qrels, llm_qrels, pool, popularity, systems)
    lists, parts = material.lists, asked.parts
    columns = _Columns(lists, asked.missing)
    tight: dict[str, dict[str, bool]] = {}
    depths = rankings = coupling = compared = None
    _add_scores(columns, material, asked)
    if "judged" in parts:
        _add_judged(columns, material)
    if "bounds" in parts:
        tight = _add_bounds(columns, material, asked)
    if "holes" in parts:
        _add_hole_measures(columns, material, asked)
    depends = material.llm is not None or asked.human_from == "pool"
    if depends and "pool_bias" in parts:
        _add_pool_bias(columns, material, asked)
    if depends and "pool_depths" in parts:
        depths = _by_depth(material, asked)
    if "rankings" in parts:
        rankings, coupling = _rankings(columns, material, asked)
    if asked.tests:
        values = {
            (name, metric): columns.matrices[f"{metric}_{name}"] for name in material.judged for metric in METRICS
        }
        compared = compare(values, lists.systems, asked.tests, asked.correction, asked.resampling)

    absent = [f"{metric}_{name}" for name in CONDITIONS if name not in material.judged for metric in METRICS]
    absent += ["arp"] if material.count is None else []
    judged = None
    if material.llm is not None:
        judged = agreement(material.human, material.llm, asked.conventions.relevance_threshold)
        judged["n_unparsed"] = material.counts["n_llm_unparsed"]
    return {
        "per_system": {
            "system": lists.systems,
            **{name: optional_floats(values) for name, values in columns.means.items()},
            **{name: [None] * len(lists.systems) for name in absent},
            "n_users": np.bincount(lists.system, minlength=len(lists.systems)).tolist(),
        },
        "agreement": judged,
        "rankings": rankings,
        "popularity": coupling,
        "by_pool_depth": depths,
        "significance": compared,
        "per_user": _per_user(lists, columns.matrices) if asked.per_user else None,
        "counts": material.counts,
        "policy": _policy(asked, material, systems, tight),
    }


def _per_user(lists: Lists, matrices: dict[str, FloatArray]) -> dict[str, list[Any]]:
    n_systems, n_users = len(lists.systems), len(lists.users)
    return {
        "system": [name for name in lists.systems for _ in range(n_users)],
        "user": lists.users * n_systems,
        **{name: optional_floats(values.ravel()) for name, values in matrices.items()},
    }


def _policy(asked: Options, material: Material, systems: Any, tight: dict[str, dict[str, bool]]) -> dict[str, Any]:
    conventions = asked.conventions
    gain = conventions.gain
    return {
        "metric": "qrels_expansion",
        "module_version": __version__,
        "k": conventions.k,
        "relevance_threshold": conventions.relevance_threshold,
        "relevance": "AP: rating >= relevance_threshold; ap_positive_*: rating > 0; NDCG: every gain",
        "gain": gain if isinstance(gain, str) else {str(rating): value for rating, value in gain.items()},
        "discount": conventions.discount,
        "ideal": "all judged items of the user, those outside runs and pool too, cut at k",
        "ap_denominator": conventions.ap_denominator,
        "ties": {
            "trec": "score descending, then item id descending (bytes)",
            "order": "score descending, then as the rows stand",
            "expected": "expectation over all orders of tied items (AP, NDCG, their bounds, pool bias and values by "
            "pool depth); the pool and all else: trec",
        }[conventions.ties],
        "scores": "compared in the precision in which they are given",
        "users": "all users of human_qrels, the same in every condition",
        "missing_users": asked.missing_users,
        "no_relevant": "a user without relevant items scores 0",
        "negative_rating": "not judged (human), not parsed (llm)",
        "conditions": {
            "human": "human_qrels",
            "matched": "llm_qrels on the pairs of human_qrels",
            "synthetic": "llm_qrels on the pool",
            "augmented": "human_qrels, else llm_qrels on the pool (Eq. 1)",
        },
        "pool": "given" if material.given_pool else "union of the top k of all runs, those not in systems too",
        "arp": "mean count over the list to depth k, a short list by its length, an unknown item counts 0; mean "
        "over the users with a list",
        "judged": "shares of the list to depth k, mean over the users with a list",
        "bounds": {
            "holes": "pairs of the pool and of the lists without a judgement (ties='expected': of all rows that can "
            "stand in the list to depth k)",
            "grades": asked.hole_grades.tolist(),
            "tight": tight,
        },
        "hole_measures": "bpref, infAP: as in trec_eval; condensed lists: the judged items of the list to depth k",
        "human_from": asked.human_from,
        "pool_bias": "value minus that without the judgements of pairs that only this system lists"
        + (": llm judgements; people's do not come from the pool" if asked.human_from == "ratings" else ""),
        "pool_depths": "the pool of the top d of all runs, scored at k"
        + ("; human and matched do not depend on it" if asked.human_from == "ratings" else "; people judged it alone"),
        "agreement": "pairs judged by both; MAE, RMSE and bias on the raw scales, kappa on ratings rounded half up",
        "tau": "Kendall's tau-b over systems (scipy.stats.kendalltau)",
        "rbo": {"p": asked.rbo_p, "variant": "extrapolated; ties in the order of the systems"},
        "systems": "all, by name" if systems is None else "as given",
        "significance": {
            "tests": asked.tests,
            "correction": asked.correction,
            "family": "condition, metric and test",
            "effect_size": "mean difference over its standard deviation over users (Cohen's d_z)",
            "ci_difference": "percentile bootstrap of the mean difference, users of the pair",
        },
        "parts": asked.parts,
        "interval": {**asked.resampling.policy(), "method": "percentile bootstrap over users, the same draws for all"},
    }


# --- the module -----------------------------------------------------------------------------------------------------


def _batch(predictions: Any, references: Any) -> dict[str, Any]:
    """Check one dict of columns per system, and bring ids to text."""
    for name, value in (("predictions", predictions), ("references", references)):
        if not isinstance(value, Sequence) or isinstance(value, (str, bytes)):
            raise ValueError(f"{name} must be a list with one entry per system, found {shown(value)}.")
    predictions, references = list(predictions), list(references)
    if len(predictions) != len(references):
        raise ValueError(
            f"predictions has {len(predictions)} entries and references {len(references)}; give one dict of columns "
            f"and one name per system."
        )
    plain = []
    for at, (run, system) in enumerate(zip(predictions, references, strict=True)):
        if not isinstance(system, str):
            raise ValueError(f"references[{at}] must be the name of a system, found {shown(system)}.")
        place = f"predictions[{at}] (system {system!r})"
        if not isinstance(run, Mapping):
            raise ValueError(f"{place} must be a dict with the columns user, item and score, found {shown(run)}.")
        if unknown := [str(key) for key in run if key not in ("user", "item", "score")]:
            raise ValueError(f"{place}: unknown column(s) {', '.join(unknown)}; a run has user, item and score.")
        columns = read_columns(run, place, ("user", "item", "score"))
        if not len(columns["user"]):
            raise ValueError(f"{place} is empty: the run has no list.")
        texts = {name: code(columns[name], place, name) for name in ("user", "item")}
        score = numbers(columns["score"], place, "score", nullable=True)
        if (broken := np.isnan(score)).any():
            row = int(np.argmax(broken))
            raise ValueError(
                f"{place}: the score of user {texts['user'].row(row)!r}, item {texts['item'].row(row)!r} is missing or "
                f"NaN. A list cannot be put in order without scores."
            )
        plain.append(
            {
                **{name: c.texts.take(pa.array(c.codes)).to_pylist() for name, c in texts.items()},
                "score": score.astype(np.float64).tolist(),
            }
        )
    return {"predictions": plain, "references": references}


def _joined(predictions: Any, references: Any) -> pa.Table:
    """Put the runs of all systems into one table."""
    plain = _batch(predictions, references)
    if not plain["references"]:
        raise ValueError("predictions and references are empty: there is no system to score.")
    names = plain["references"]
    if twice := [name for at, name in enumerate(names) if name in names[:at]]:
        raise ValueError(f"references names system {twice[0]!r} twice. Put all lists of a system into one entry.")
    sizes = [len(run["user"]) for run in plain["predictions"]]
    table = {"system": [name for name, size in zip(names, sizes, strict=True) for _ in range(size)]}
    for column in ("user", "item", "score"):
        table[column] = list(chain.from_iterable(run[column] for run in plain["predictions"]))
    return pa.table(table)


def _score(predictions: Any, references: Any, runs: Any = None, **arguments: Any) -> dict[str, Any]:
    return score(_joined(predictions, references) if runs is None else runs, **arguments)


class QrelsExpansion(CheckedMetric, evaluate.Metric):  # type: ignore[misc]
    """Evaluation with expanded judgements as an `evaluate` module."""

    _name = "qrels_expansion"
    _score = staticmethod(_score)
    _plain = staticmethod(_batch)
    _table = "runs"

    read_run = staticmethod(read_run)
    read_qrels = staticmethod(read_qrels)
    write_run = staticmethod(write_run)
    write_qrels = staticmethod(write_qrels)

    def _info(self) -> evaluate.MetricInfo:
        text = [datasets.Value("string")]
        run = {"user": text, "item": text, "score": [datasets.Value("float64")]}
        return evaluate.MetricInfo(
            description=_DESCRIPTION,
            citation=_CITATION,
            inputs_description=_KWARGS_DESCRIPTION,
            features=datasets.Features({"predictions": run, "references": datasets.Value("string")}),
        )

    def _arguments(self) -> list[str]:
        """Return the names of the arguments of `compute`."""
        names = [name for function in (score, Options.read) for name in inspect.signature(function).parameters]
        return ["predictions", "references", *(name for name in names if name != "options")]
