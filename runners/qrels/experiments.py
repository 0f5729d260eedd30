"""Step 8, `experiments`: Experiments 0 to 4 of paper B, Tables 1 to 8, and what they are read with.

Rows say how many systems were ranked, how many pairs of them tie, and what the paper printed. No model is called.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from ...hf_datasets.results_published import load_results_published
from ..report.analysis import Analysis, FigureSpec, Layout, Reference
from ..report.figures_style import short
from ..stages.grade import MODES, Condition
from ..stages.induce import render_taste
from .judged import PROFILES, Part, graded_parts
from .setting import RANKINGS, Setting, score_setting
from .work import Work

__all__ = ["PRINTED", "Printed", "experiments", "mean_absolute_error", "published_cell", "shown_as"]

FloatArray = npt.NDArray[np.float64]
LABELS = {"ipp": "IPP", "profile": "Profile", "ipp+profile": "IPP + Profile"}
PLOTS = {False: "w/o plot", True: "w/ plot"}
METRICS = {"ap": "AP", "ndcg": "NDCG"}
POOLS = {"synthetic": "Synthetic pool", "augmented": "Augmented pool"}


class Printed(NamedTuple):
    """What the paper prints of a data set: its name there, and the numbers of its tables."""

    row: str | None = None
    agreement: int | None = None
    stability: int | None = None
    coupling: int | None = None


PRINTED = {
    "movielens_ratings": Printed("MovieLens 32M", 4, 5, 6),
    "goodbooks_ratings": Printed("Goodbooks-10k", 7, None, 8),
}
"""By the data set's name; of any other the paper says nothing."""


def experiments(
    work: Work,
    parts: Sequence[Part] | None = None,
    *,
    n_resamples: int = 1000,
    seed: int = 0,
    relevance_threshold: float = 4.0,
) -> list[Analysis]:
    """Compute all experiments that the work folder allows.

    Args:
        work: a folder with a pool; what no judge graded is said to be missing.
        parts: judges and conditions; None: all that were graded for this pool.
        n_resamples: of the bootstrap over users.
        seed: of the bootstrap.
        relevance_threshold: the lowest rating that is relevant for AP.

    Returns:
        The analyses in the paper's order.

    Raises:
        StoreError: there is no pool, or grades were given for another one.
    """
    parts = graded_parts(work) if parts is None else parts
    printed = PRINTED.get(str(work.record("split")["dataset"]), Printed())
    found = [_table_1(parts), _table_2(work, printed), _table_3(work, printed)]
    scored = _score_all(work, parts, n_resamples, seed, relevance_threshold)
    found.append(_agreement_table(scored, printed))
    found.append(_stability_table(scored, printed))
    found.append(_coupling_table(scored, printed))
    found += [_effectiveness(scored), _rank_shifts(scored), _confusion(scored), _pool_popularity(work)]
    return found


def published_cell(table: int | None, row: str | None, column: str) -> float | None:
    """Return a number of paper B; None where nothing is printed under these labels.

    >>> published_cell(6, "IPP + Profile", "Synthetic Pool / AP")
    -0.2095
    """
    if table is None or row is None:
        return None
    return _published().get((f"Table {table}", row, column))


@cache
def _published() -> Mapping[tuple[str, str, str], float]:
    records = load_results_published().to_pylist()
    return {
        (one["table"], one["row"], one["column"]): one["value"]
        for one in records
        if one["paper"] == "preference-induction" and one["value"] is not None
    }


def mean_absolute_error(
    human: pa.Table, grades: pa.Table, *, n_resamples: int = 1000, seed: int = 0, confidence_level: float = 0.95
) -> tuple[float, float | None, float | None, int]:
    """Return the MAE of grades against ratings on the pairs that have both, and its interval over users.

    Args:
        human: ``user``, ``item``, ``rating``.
        grades: ``user``, ``item``, ``grade``.
        n_resamples: of the bootstrap, which draws users; 0: no interval.
        seed: of the draws.
        confidence_level: of the interval.

    Returns:
        MAE (NaN without pairs), low, high (None without an interval), and the number of pairs.

    >>> human = pa.table({"user": ["u", "u"], "item": ["a", "b"], "rating": [4.5, 2.0]})
    >>> grades = pa.table({"user": ["u", "u"], "item": ["a", "b"], "grade": [4, None]})
    >>> mean_absolute_error(human, grades)
    (0.5, None, None, 1)
    """
    both = _joined(human, grades)
    if not len(both):
        return float("nan"), None, None, 0
    error = (both["grade"] - both["rating"]).abs()
    by_user = error.groupby(both["user"]).agg(["sum", "count"]).to_numpy().astype(np.float64)
    value = float(by_user[:, 0].sum() / by_user[:, 1].sum())
    if n_resamples < 2 or len(by_user) < 2:
        return value, None, None, len(both)
    drawn = np.random.default_rng(seed).multinomial(len(by_user), np.full(len(by_user), 1 / len(by_user)), n_resamples)
    sums = drawn @ by_user
    tail = (1 - confidence_level) / 2
    low, high = np.quantile(sums[:, 0] / sums[:, 1], [tail, 1 - tail])
    return value, float(low), float(high), len(both)


class _Scored:
    """The results of one judge under one condition and one ranking."""

    def __init__(self, judge: str, condition: Condition, ranking: str, results: Any, pairs: str) -> None:
        self.judge = judge
        self.condition = condition
        self.ranking = ranking
        self.results = results
        self.has_pool = pairs != "test"
        self.has_test = pairs != "pool"
        self.mae: tuple[float, float | None, float | None, int] = (float("nan"), None, None, 0)

    @property
    def key(self) -> dict[str, Any]:
        return {
            "judge": self.judge,
            "mode": LABELS[self.condition.mode],
            "plot": PLOTS[self.condition.plot],
            "ranking": RANKINGS[self.ranking],
        }


def _score_all(
    work: Work, parts: Iterable[Part], n_resamples: int, seed: int, relevance_threshold: float
) -> list[_Scored]:
    setting = Setting.read(work)
    options = {"n_resamples": n_resamples, "seed": seed, "relevance_threshold": relevance_threshold}
    found = []
    judges = list(dict.fromkeys(judged.name for judged, _ in parts))
    for judged, condition in sorted(
        parts,
        key=lambda part: (judges.index(part.judged.name), MODES.index(part.condition.mode), part.condition.plot),
    ):
        grades = judged.grades(condition)
        pairs = judged.record(condition.name)["settings"]["pairs"]
        mae = mean_absolute_error(setting.human, grades, n_resamples=n_resamples, seed=seed)
        for ranking in RANKINGS:
            one = _Scored(judged.name, condition, ranking, score_setting(setting, grades, ranking, **options), pairs)
            one.mae = mae
            found.append(one)
    return found


def _table_1(parts: Sequence[Part]) -> Analysis:
    rows = []
    for judged in {judged.name: judged for judged, _ in parts}.values():
        if judged.is_current(PROFILES):
            tastes = judged.tastes()
            if tastes:
                user = next(iter(tastes))
                rows.append({"judge": judged.name, "user": user, "profile": render_taste(tastes[user])})
    if not rows:
        return Analysis("table_1", "An induced profile", "", missing="No profiles were induced.")
    return Analysis(
        "table_1",
        "An induced profile",
        "That of the first user who has one.",
        {"example": pd.DataFrame(rows)},
    )


def _table_2(work: Work, printed: Printed) -> Analysis:
    record = work.record("split")
    s = record["statistics"]
    numbers = {"n_users": "Users", "n_items": "Items", "n_ratings": "Ratings"}
    row: dict[str, Any] = {"dataset": Path(record["dataset"]).name}
    for name, quantity in numbers.items():
        row |= {name: s[name], f"published_{name}": published_cell(2, printed.row, quantity)}
    density = published_cell(2, printed.row, "Density")
    row |= {"rating_density": s["density"], "published_rating_density": None if density is None else density / 100}
    return Analysis(
        "table_2",
        "The data",
        "",
        {"data": _frame([row])},
        layouts={"data": Layout(("dataset",), (), (*numbers, "rating_density"))},
    )


def _table_3(work: Work, printed: Printed) -> Analysis:
    record = work.record("sample")
    chosen = record["chosen"]
    rows = []
    for one in record["table3"]:
        for metric, label in METRICS.items():
            interval = one[f"interval_tau_{metric}"] or (None, None)
            published = published_cell(3, printed.row, f"tau {label}@100")
            rows.append(
                {"n_users": one["n_users"], "chosen": one["n_users"] == chosen, "metric": label,
                 "value": one[f"tau_{metric}"], "ci_value_low": interval[0], "ci_value_high": interval[1],
                 "n_systems": record["n_systems"]["representative"], "n_significant": one["n_significant"],
                 "n_equivalent": one["n_equivalent"], "n_tests": one["n_tests"], "met": one["met"],
                 "published_value": published if one["n_users"] == 500 else None}
            )  # fmt: skip
    return Analysis(
        "table_3",
        "Experiment 0: few users for all",
        "Tau of the rankings by the sample and by all users; tests of the sample against the other users.",
        {"sampling": _frame(rows)},
        layouts={"sampling": Layout(("n_users",), ("metric",), ("value",))},
    )


def _agreement_table(scored: Sequence[_Scored], printed: Printed) -> Analysis:
    """Experiment 1: grades against ratings on the held-out pairs (Tables 4 and 7)."""
    number = printed.agreement
    rows = []
    for one in scored:
        if not one.has_test:
            continue
        plot = PLOTS[one.condition.plot]
        value, low, high, n_pairs = one.mae
        rows.append(
            {**one.key, "metric": "MAE", "value": value, "ci_value_low": low, "ci_value_high": high, "n_pairs": n_pairs,
             "published_value": published_cell(number, one.key["mode"], f"MAE / {plot}")}
        )  # fmt: skip
        for metric, label in METRICS.items():
            rows.append(_tau_row(one, "matched", metric, f"tau {label}", number, f"tau {label} / {plot}"))
    orders = {name: list(dict.fromkeys(row[name] for row in rows)) for name in ("metric", "plot")}
    rows.sort(key=lambda row: [order.index(row[name]) for name, order in orders.items()])  # as the headings nest
    return _or_missing(
        f"table_{number or 4}",
        "Experiment 1: are the grades accurate enough?",
        "MAE on pairs that people rated, and tau of the systems under these grades with that under the ratings.",
        rows,
        Layout(("judge", "ranking", "mode"), ("metric", "plot"), ("value",)),
        "No judge graded held-out pairs.",
    )


def _stability_table(scored: Sequence[_Scored], printed: Printed) -> Analysis:
    """Experiment 2: tau of rankings under expanded judgements with the human one (Table 5)."""
    rows = []
    for one in scored:
        if one.has_pool:
            for condition, label in POOLS.items():
                for metric, name in METRICS.items():
                    row = _tau_row(one, condition, metric, f"tau {name}", printed.stability, f"{label} / tau {name}")
                    if one.condition.plot:
                        row["published_value"] = None
                    rows.append({**row, "pool": label})
    return _or_missing(
        "table_5",
        "Experiment 2: how far do rankings move?",
        "Tau of the systems under expanded judgements with that under the ratings.",
        rows,
        Layout(("judge", "ranking", "mode", "plot"), ("pool", "metric"), ("value",)),
        "No judge graded pooled pairs.",
    )


def _coupling_table(scored: Sequence[_Scored], printed: Printed) -> Analysis:
    """Experiments 3 and 4: change of the tau of effectiveness with popularity (Tables 6 and 8)."""
    number = printed.coupling
    rows = []
    for one in scored:
        if not one.has_pool:
            continue
        coupling, rankings = one.results["popularity"], one.results["rankings"]
        for condition, label in POOLS.items():
            for metric, name in METRICS.items():
                found, agreeing = coupling[condition][metric], rankings[condition][metric]
                low, high = found.get("ci_delta_tau") or (None, None)
                column = f"{label.replace('pool', 'Pool')} / {name}"
                rows.append(
                    {**one.key, "pool": label, "metric": name, "value": found["delta_tau"], "ci_value_low": low,
                     "ci_value_high": high, "phi": found["phi"], "phi_human": coupling["human"][metric]["phi"],
                     "n_systems": agreeing["n"], "n_tied_pairs": agreeing["n_tied_pairs"],
                     "n_tied_pairs_human": agreeing["n_tied_pairs_human"],
                     "published_value": None if one.condition.plot else published_cell(number, one.key["mode"], column)}
                )  # fmt: skip
    return _or_missing(
        f"table_{number or 6}",
        f"Experiment {4 if number == 8 else 3}: does the ranking follow popularity less?",
        "Delta tau (Eq. 5): below 0, effectiveness is coupled less with popularity than under the ratings alone.",
        rows,
        Layout(("judge", "ranking", "mode", "plot"), ("pool", "metric"), ("value",)),
        "No judge graded pooled pairs.",
    )


def _tau_row(one: _Scored, condition: str, metric: str, label: str, number: int | None, column: str) -> dict[str, Any]:
    found = one.results["rankings"][condition][metric]
    low, high = found["ci_tau"] or (None, None)
    return {
        **one.key,
        "metric": label,
        "value": found["tau"],
        "ci_value_low": low,
        "ci_value_high": high,
        "n_systems": found["n"],
        "n_tied_pairs": found["n_tied_pairs"],
        "n_tied_pairs_human": found["n_tied_pairs_human"],
        "published_value": published_cell(number, one.key["mode"], column),
    }


def _effectiveness(scored: Sequence[_Scored]) -> Analysis:
    """Effectiveness of each system against its popularity, by condition."""
    rows = []
    for one in scored:
        if one.ranking != "runs" or not one.has_pool:
            continue
        systems = one.results["per_system"]
        for condition in ("human", *POOLS):
            for at, system in enumerate(systems["system"]):
                rows.append(
                    {**one.key, "condition": condition, "system": system, "arp": systems["arp"][at],
                     "ndcg": systems[f"ndcg_{condition}"][at], "ap": systems[f"ap_{condition}"][at]}
                )  # fmt: skip
    figures = {}
    for shown, own in _shown(rows).items():
        own_rows = [row for row in rows if shown_as(row) == shown]
        figures[shown] = FigureSpec(
            "scatter", "systems", f"Effectiveness against popularity: {own}",
            "Where marks rise to the right, systems that recommend popular items are found to be better.",
            x="arp", y="ndcg", label="system", facet="condition", x_range=_span(own_rows, "arp"),
            y_range=_span(own_rows, "ndcg"),
        )  # fmt: skip
    return _or_missing(
        "effectiveness", "Effectiveness against popularity", "NDCG and AP of every run beside its ARP (Eq. 3).", rows,
        None, "No judge graded pooled pairs.", "systems", figures,
    )  # fmt: skip


def _rank_shifts(scored: Sequence[_Scored]) -> Analysis:
    """Places of the systems under people's judgements and under the expanded ones."""
    rows = []
    for one in scored:
        if one.ranking != "algorithms" or not one.has_pool:
            continue
        systems = one.results["per_system"]
        for condition in ("human", *POOLS):
            scores = pd.Series(systems[f"ndcg_{condition}"])
            ranks = scores.round(12).rank(ascending=False, method="average")
            rows += [
                {**one.key, "condition": condition, "system": system, "rank": float(rank)}
                for system, rank in zip(systems["system"], ranks, strict=True)
            ]
    figures = {}
    for shown, own in _shown(rows).items():
        figures[shown] = FigureSpec(
            "line", "ranks", f"Rank shifts (NDCG): {own}",
            "Lines that cross are systems that change places.", x="condition", y="rank", group="system",
        )  # fmt: skip
    return _or_missing(
        "rank_shifts", "Rank shifts", "Places by NDCG, 1 is best; tied systems share the mean place.", rows,
        None, "No judge graded pooled pairs.", "ranks", figures,
    )  # fmt: skip


def _confusion(scored: Sequence[_Scored]) -> Analysis:
    """Ratings against grades on held-out pairs, rounded half up."""
    rows = []
    for one in scored:
        agreement = one.results["agreement"]
        if one.ranking != "runs" or not agreement["n_pairs"]:
            continue
        labels, counts = agreement["confusion"]["labels"], agreement["confusion"]["counts"]
        rows += [
            {**one.key, "human": str(row), "llm": str(column), "n_pairs": counts[i][j]}
            for i, row in enumerate(labels)
            for j, column in enumerate(labels)
        ]
    figures = {}
    for shown, own in _shown(rows).items():
        figures[shown] = FigureSpec(
            "heatmap", "confusion", f"Ratings and grades: {own}",
            "The diagonal is agreement; below it the judge is stricter than people.",
            x="llm", y="human", colour="n_pairs",
        )  # fmt: skip
    return _or_missing(
        "confusion", "Human ratings and grades", "Held-out pairs; ratings are rounded half up.", rows, None,
        "No judge graded held-out pairs.", "confusion", figures,
    )  # fmt: skip


def _pool_popularity(work: Work) -> Analysis:
    """Share of head items and mean popularity of what each system brought to the pool."""
    table = work.read("pool_systems").to_pandas()
    overall = float(work.record("pool")["popularity"]["pool"]["share_head"] or 0)
    figure = FigureSpec(
        "bar", "systems", "Popularity of the pool", "Beyond the line: more popular items than the pool has.",
        x="share_head", y="system", references=(Reference("vertical", overall, "whole pool"),),
    )  # fmt: skip
    return Analysis(
        "pool_popularity", "Popularity of the pool", "Share of head items among each system's pooled pairs.",
        {"systems": table}, {"pool_popularity": figure},
    )  # fmt: skip


def _or_missing(
    id: str,
    title: str,
    caption: str,
    rows: Sequence[Mapping[str, Any]],
    layout: Layout | None,
    missing: str,
    table: str = "values",
    figures: Mapping[str, FigureSpec] | None = None,
) -> Analysis:
    if not rows:
        return Analysis(id, title, caption, missing=missing)
    layouts = {} if layout is None else {table: layout}
    return Analysis(id, title, caption, {table: _frame(rows)}, figures or {}, layouts)


def _span(rows: Sequence[Mapping[str, Any]], column: str) -> tuple[float, float]:
    """Return the range of a column, the same for all panels of a figure."""
    values = np.array([row[column] for row in rows], dtype=float)
    low, high = np.nanmin(values), np.nanmax(values)
    return float(low), float(high if high > low else low + 1)


def _shown(rows: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Return the judges and conditions that rows are of, with a title for each that has room above a figure."""
    return {shown_as(row): shown_as({**row, "judge": short(row["judge"], 20)}) for row in rows}


def shown_as(row: Mapping[Any, Any]) -> str:
    """Return a row's judge and condition as a title."""
    return f"{row['judge']}, {row['mode']}, {row['plot']}"


def _frame(rows: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    frame = pd.DataFrame(list(rows))
    for column in frame:
        if column == "value" or str(column).startswith(("ci_value_", "published_")):
            frame[column] = frame[column].astype(float)
    return frame


def _joined(human: pa.Table, grades: pa.Table) -> pd.DataFrame:
    one = human.select(["user", "item", "rating"]).to_pandas()
    other = grades.select(["user", "item", "grade"]).to_pandas()
    both: pd.DataFrame = one.merge(other, on=["user", "item"]).dropna(subset=["rating", "grade"])
    return both
