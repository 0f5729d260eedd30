"""Beyond the paper: how far the judge can be trusted, against other judges and against people.

Two or more judges of the same records: where they agree, and whether candidates change places. Where people labelled
records: the judge's confusion, and the scores that its errors leave when they are taken out, with intervals.
"""

from collections.abc import Iterable
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from ..score import METRICS, load_metric
from .analysis import Analysis, FigureSpec, Options, Unavailable, analysis
from .annotators import RECORD, cohen_kappa, read_annotations
from .frames import spearman, typed, wilson
from .load import Group, Run, Runs
from .results import COUNTS
from .run import differing

__all__ = ["agreement_of", "judge_errors", "judges"]

N_DRAWS = 20
"""Imputations of what the judge should have said; each scores all records once more."""
SHARED = ("data", "users", "taxonomy", "thresholds", "is_scope")
"""Conditions of runs without which a difference would not be the judges'; oracles follow from verdicts."""
_TYPES = [name.removeprefix("n_") for name in COUNTS]
BoolArray = npt.NDArray[np.bool_]
IntArray = npt.NDArray[np.int64]


class _Items(NamedTuple):
    """The items that the judge saw, each once for its interest; texts are numbered, so that none is compared twice."""

    records: pa.Table
    """``user_id`` and ``interest`` of each judged record."""
    objects: pa.Array
    """The distinct ids."""
    record: IntArray
    """The record of each item."""
    object: IntArray
    """The id of each item, as a place in ``objects``."""
    said: BoolArray
    """Whether the judge kept it."""

    def frame(self) -> pd.DataFrame:
        """Return ``user_id``, ``interest``, ``object_id`` and ``said`` (0 or 1)."""
        columns = {name: self.records[name].take(pa.array(self.record)) for name in ("user_id", "interest")}
        found: pd.DataFrame = pa.table(columns | {"object_id": self.objects.take(pa.array(self.object))}).to_pandas()
        return found.assign(said=self.said.astype(float))


def _judged_items(run: Run, task: str, users: Iterable[str] | None = None) -> _Items:
    """Read what the judge saw and kept.

    Args:
        run: judged.
        task: ``relevance`` or ``association``.
        users: these only.
    """
    name, shown, kept = {
        "relevance": ("groundings", "shown_item_ids", "relevant_item_ids"),
        "association": ("retrievals", "shown_item_ids", "selected_item_ids"),
    }[task]
    table = run.table(name, ["user_id", "interest", shown, kept])
    table = table.filter(pc.and_(pc.is_valid(table[shown]), pc.is_valid(table[kept])))
    if users is not None:
        table = table.filter(pc.is_in(table["user_id"], pa.array(sorted(users), pa.string())))
    lists = [table[column].combine_chunks() for column in (shown, kept)]
    objects = pa.concat_arrays([pc.list_flatten(one) for one in lists]).dictionary_encode()
    record = np.concatenate([pc.list_parent_indices(one).to_numpy(zero_copy_only=False) for one in lists])
    width = max(len(objects.dictionary), 1)
    keys = record.astype(np.int64) * width + objects.indices.to_numpy(zero_copy_only=False)
    n_shown = len(pc.list_flatten(lists[0]))
    seen = np.sort(keys[:n_shown])
    seen = seen[np.diff(seen, prepend=-1) > 0]
    of, code = np.divmod(seen, width)
    return _Items(
        table.select(["user_id", "interest"]), objects.dictionary, of, code, _among(seen, np.sort(keys[n_shown:]))
    )


def _among(values: IntArray, in_order: IntArray) -> BoolArray:
    """Tell which values stand among sorted ones."""
    if not len(in_order):
        return np.zeros(len(values), dtype=np.bool_)
    at = np.minimum(np.searchsorted(in_order, values), len(in_order) - 1)
    found: BoolArray = in_order[at] == values
    return found


@analysis("judges", "Do judges agree?")
def judges(runs: Runs, options: Options) -> Analysis:
    """Agreement of two or more judges on the same records, and the candidates' places under each."""
    agreement, ranks, notes = [], [], []
    for a, b in combinations(runs.groups, 2):
        if a.dataset != b.dataset or a.setting != b.setting or a.judge == b.judge:
            continue
        if found := _differing(a, b):
            notes.append(f"{a.judge} and {b.judge} on {a.dataset} are not compared; they differ in {found}.")
            continue
        others = {run.model: run for run in b.runs}
        common = [run for run in a.runs if run.model in others]
        for run in common:
            agreement += [
                {"dataset": a.dataset, "setting": a.setting, "judge_a": a.judge, "judge_b": b.judge, "model": run.model,
                 **row} for row in agreement_of(run, others[run.model])
            ]  # fmt: skip
        for metric in METRICS if len(common) > 1 else ():
            pairs = np.array([[one.score[metric] for one in (run, others[run.model])] for run in common], dtype=float)
            if np.isnan(pairs).any():
                continue
            places = [(-pd.Series(column)).rank(method="min") for column in pairs.T]
            ranks.append(
                {"dataset": a.dataset, "setting": a.setting, "judge_a": a.judge, "judge_b": b.judge, "metric": metric,
                 "n_models": len(common), "rho": spearman(pairs[:, 0], pairs[:, 1]),
                 "largest_rank_change": int((places[0] - places[1]).abs().max())}
            )  # fmt: skip
    if not agreement:
        why = "Needs the same candidates on the same data under two judges: two suites that share a store."
        raise Unavailable(" ".join([why, *notes]))
    frame = typed(agreement)
    columns = ["dataset", "setting", "judge_a", "judge_b", "metric", "n_models", "rho", "largest_rank_change"]
    figures = {
        "judges": FigureSpec(
            "bar", "agreement", "Agreement of two judges", "Short bars: what one judge takes for "
            "evidence the other does not.", x="kappa", y="what", group="model", facet="judge_b",
        ),
        "judges_places": FigureSpec(
            "line", "places", "Places of candidates under each judge", "Lines that do not cross: the ranking does not "
            "hang on the judge.", x="judge", y="rank", group="model", facet="metric",
        ),
    }  # fmt: skip
    return Analysis(
        "judges",
        "Do judges agree?",
        "Over records that both judged. Kappa corrects for chance; rho says whether candidates keep their places.",
        {"agreement": frame, "ranks": typed(ranks, columns), "places": _places(runs)},
        figures,
        policy={
            "relevance": "items shown to both for the same interest of the same user",
            "verdict": "interests that both scored",
            "category": "interests that both mapped; kappa over categories",
            "specificity": "interests with a known specificity of both: mean difference a - b",
            "compared": f"judges with the same {', '.join(SHARED)}; each against the oracle of its own verdicts",
        },
        notes=tuple(notes),
    )


def _differing(a: Group, b: Group) -> str:
    """Return what two groups differ in besides the judge; empty where that is nothing."""
    there, here = ({name: group.runs[0].conditions[name] for name in SHARED} for group in (a, b))
    return "; ".join(differing(there, here).values())


def _places(runs: Runs) -> pd.DataFrame:
    """Return the place of each candidate under each judge, among the candidates that all judges of the data judged."""
    alike: dict[tuple[str, ...], list[Group]] = {}
    for group in runs.groups:
        conditions = group.runs[0].conditions
        key = (group.dataset, group.setting, *(conditions[name] for name in SHARED))
        alike.setdefault(key, []).append(group)
    rows = []
    for groups in alike.values():
        common = set.intersection(*(set(group.models) for group in groups))
        for metric in METRICS if len(groups) > 1 and len(common) > 1 else ():
            scores = [{run.model: run.score[metric] for run in group.runs if run.model in common} for group in groups]
            if any(None in own.values() for own in scores):
                continue
            rows += [
                {**group.key, "model": model, "metric": metric, "score": score,
                 "rank": 1 + sum(other > score for other in own.values())}
                for group, own in zip(groups, scores, strict=True)
                for model, score in own.items()
            ]  # fmt: skip
    return typed(rows, ["dataset", "setting", "judge", "model", "metric", "score", "rank"])


def agreement_of(a: Run, b: Run) -> list[dict[str, Any]]:
    """Return how far two judges of the same records agree: share and Cohen's kappa, for each kind of judgement."""
    from sklearn.metrics import cohen_kappa_score

    one_side, other_side = (_judged_items(run, "relevance").frame() for run in (a, b))
    items = one_side.merge(other_side, on=RECORD, suffixes=("_a", "_b"))
    both = a.interests.merge(b.interests, on=["user_id", "interest"], suffixes=("_a", "_b"))
    rows = []
    for what, one, other in (
        ("relevance", items["said_a"], items["said_b"]),
        ("verdict", both["verified_a"].astype(float), both["verified_b"].astype(float)),
    ):
        rows.append(
            {"what": what, "n_items": len(one), "agreement_share": float((one == other).mean()) if len(one) else None,
             "kappa": cohen_kappa(one, other), "share_a": one.mean(), "share_b": other.mean()}
        )  # fmt: skip
    mapped = both[["category_id_a", "category_id_b"]].dropna().astype(int)
    if len(mapped):
        left, right = mapped["category_id_a"], mapped["category_id_b"]
        several = len(np.unique(mapped.to_numpy())) > 1
        rows.append(
            {"what": "category", "n_items": len(mapped), "agreement_share": float((left == right).mean()),
             "kappa": round(float(cohen_kappa_score(left, right)), 12) if several else None}
        )  # fmt: skip
    known = both[["specificity_a", "specificity_b"]].dropna()
    if len(known):
        same = float((known["specificity_a"] == known["specificity_b"]).mean())
        rows.append(
            {"what": "specificity", "n_items": len(known), "agreement_share": same,
             "share_a": known["specificity_a"].mean(), "share_b": known["specificity_b"].mean()}
        )  # fmt: skip
    return rows


def _human(options: Options) -> pd.DataFrame:
    """Return people's labels tied to records: task, the record's columns, ``label`` (the majority; ties left out)."""
    if options.annotations is None:
        raise Unavailable("Needs a csv of people's labels of records: --annotations FILE.")
    frame = read_annotations(options.annotations)
    if not set(RECORD) <= set(frame.columns):
        raise Unavailable(f"{options.annotations} ties no label to a record: it lacks {', '.join(RECORD)}.")
    votes = frame.groupby(["task", *RECORD])["label"].mean().reset_index()
    votes = votes.loc[votes["label"] != 0.5]
    return votes.assign(label=(votes["label"] > 0.5).astype(float))


@analysis("judge_errors", "The judge against people")
def judge_errors(runs: Runs, options: Options) -> Analysis:
    """The judge's confusion with people's labels, and scores corrected for it."""
    human = _human(options)
    confusion, corrected = [], []
    for group in runs.groups:
        labelled = {}
        for task in ("relevance", "association"):
            own = human.loc[human["task"] == task]
            joined = (
                [_judged_items(run, task, set(own["user_id"])).frame().merge(own, on=RECORD) for run in group.runs]
                if len(own)
                else []
            )
            found = pd.concat(joined).drop_duplicates([*RECORD, "said"]) if joined else pd.DataFrame()
            if len(found):
                labelled[task] = found
                confusion.append({**group.key, "task": task, **_confusion(found["said"], found["label"])})
        if "relevance" in labelled:
            corrected += _corrected_ig(group, labelled["relevance"], options)
        if "association" in labelled:
            corrected += _corrected_is(group, labelled["association"], options)
    if not confusion:
        raise Unavailable(f"No label of {options.annotations} is of a record of these runs.")
    columns = ["dataset", "judge", "setting", "model", "metric", "score", "corrected", "ci_corrected_low",
               "ci_corrected_high"]  # fmt: skip
    frame = pd.DataFrame(corrected, columns=columns)
    figures = {
        "judge_errors_confusion": FigureSpec(
            "heatmap", "matrix", "What the judge and people keep", "Dark cells off the diagonal: the judge keeps what "
            "people drop, or drops what people keep.", x="people_say", y="judge_says", colour="n_items", facet="task",
        ),
        "judge_errors": FigureSpec(
            "forest", "scores", "Scores corrected for the judge's errors", "Where a corrected interval leaves out the "
            "score as judged, the judge's errors matter more than chance.", x="score", y="model", group="what",
            low="ci_score_low", high="ci_score_high", facet="metric",
        ),
    }  # fmt: skip
    return Analysis(
        "judge_errors",
        "The judge against people",
        "How often the judge keeps what people keep, and which scores its errors leave when taken out.",
        {"confusion": typed(confusion), "matrix": _matrix(confusion), "corrected": typed(frame),
         "scores": _as_judged_and_corrected(frame)},
        figures,
        policy={
            "human": "the majority of a record's labels; ties are left out",
            "ig": f"{N_DRAWS} imputations: each cited item is kept with the probability that people keep it given "
            "what the judge said (Beta posterior, uniform prior); counts, verdicts, the models' common oracle and "
            "medians follow. Errors count as independent of item, user and model; the interval is over imputations "
            "and posterior",
            "score": "IG as judged, too, is against what these models verify together: neither a given oracle nor "
            "other candidates enter",
            "is": "share of backing items that belong: (share picked - false positive rate) / (sensitivity - false "
            "positive rate), within 0 and 1, with a parametric bootstrap of both rates; not a median over users",
        },
    )  # fmt: skip


def _matrix(confusion: list[dict[str, Any]]) -> pd.DataFrame:
    """Return the cells of each confusion, row by row."""
    cells = {
        ("kept", "kept"): "n_true_positive", ("kept", "dropped"): "n_false_positive",
        ("dropped", "kept"): "n_false_negative", ("dropped", "dropped"): "n_true_negative",
    }  # fmt: skip
    names = ["dataset", "judge", "setting", "task"]
    return typed(
        {**{name: row[name] for name in names}, "judge_says": judge, "people_say": people, "n_items": row[name]}
        for row in confusion
        for (judge, people), name in cells.items()
    )


def _as_judged_and_corrected(frame: pd.DataFrame) -> pd.DataFrame:
    """Return scores below one another, as a forest plot has them; the score as judged is drawn without an interval."""
    key = ["dataset", "judge", "setting", "model", "metric"]
    judged = frame[[*key, "score"]].assign(what="as judged", ci_score_low=np.nan, ci_score_high=np.nan)
    names = {"corrected": "score", "ci_corrected_low": "ci_score_low", "ci_corrected_high": "ci_score_high"}
    corrected = frame[[*key, *names]].rename(columns=names).assign(what="corrected")
    return typed(pd.concat([judged, corrected], ignore_index=True)[[*key, "what", *names.values()]])


def _confusion(said: Any, label: Any) -> dict[str, Any]:
    s, h = np.asarray(said, dtype=float), np.asarray(label, dtype=float)
    tp, fp = float((s * h).sum()), float((s * (1 - h)).sum())
    fn, tn = float(((1 - s) * h).sum()), float(((1 - s) * (1 - h)).sum())
    row: dict[str, Any] = {"n_items": len(s), "n_true_positive": tp, "n_false_positive": fp, "n_false_negative": fn,
                           "n_true_negative": tn, "kappa": cohen_kappa(s, h),
                           "agreement_share": (tp + tn) / max(len(s), 1)}  # fmt: skip
    shares = {"sensitivity": (tp, tp + fn), "true_negative_rate": (tn, tn + fp), "predictive_value": (tp, tp + fp)}
    for name, (hits, n) in shares.items():
        low, high = wilson([hits], [n])
        row |= {name: hits / n if n else None, f"ci_{name}_low": low[0], f"ci_{name}_high": high[0]}
    return row


def _corrected_ig(group: Group, labelled: pd.DataFrame, options: Options) -> list[dict[str, Any]]:
    """Impute what people would have kept, and score all models of a group anew."""
    said, label = labelled["said"].to_numpy(), labelled["label"].to_numpy()
    rng = np.random.default_rng(options.seed)
    cited = {run.model: _cited_types(run) for run in group.runs}
    draws: dict[str, list[list[float]]] = {run.model: [] for run in group.runs}
    metrics = ("ig_precision", "ig_recall", "ig_f1")
    limits = dict(group.runs[0].score["policy"]["ig"]["thresholds"])
    limits.pop("preset")
    # Against what these runs verify together, as each draw is: the suite's oracle may hold more, which no draw does.
    judged = load_metric("ig").rescore({run.model: run.ig for run in group.runs}, n_resamples=0)
    for _ in range(N_DRAWS):
        rates = [rng.beta(1 + label[said == s].sum(), 1 + (1 - label[said == s]).sum()) for s in (0, 1)]
        results = {}
        for run in group.runs:
            said_of, item, cell = cited[run.model]
            kept = rng.random(len(said_of)) < np.where(said_of, rates[1], rates[0])
            counted = np.bincount(cell[kept[item]], minlength=len(COUNTS) * len(run.interests))
            counts = dict(zip(COUNTS, counted.reshape(len(COUNTS), -1), strict=True))
            results[run.model] = {**run.ig, "per_interest": {**run.ig["per_interest"], **counts}}
        scored = load_metric("ig").rescore(results, thresholds=limits, n_resamples=0)
        for model, found in scored.items():
            draws[model].append([np.nan if found[m] is None else found[m] for m in metrics])
    rows = []
    for run in group.runs:
        table = np.array(draws[run.model], dtype=float)
        for column, metric in enumerate(metrics):
            low, high = np.percentile(table[:, column], [2.5, 97.5])
            rows.append(
                {**group.key, "model": run.model, "metric": metric, "score": judged[run.model][metric],
                 "corrected": float(np.median(table[:, column])), "ci_corrected_low": low, "ci_corrected_high": high}
            )  # fmt: skip
    return rows


def _cited_types(run: Run) -> tuple[BoolArray, IntArray, IntArray]:
    """Return what counts of a run are made of.

    Returns:
        For each item of a scored interest what the judge said of it; and for each type that the user engaged with an
        item by, which item that is, and the cell of a (types, interests) table where it counts.
    """
    items = _judged_items(run, "relevance")
    interests = run.interests[["user_id", "interest"]]
    places = interests.assign(place=np.arange(len(interests)))
    merged = items.records.to_pandas().merge(places, on=["user_id", "interest"], how="left")
    place_of = merged["place"].fillna(-1).to_numpy(dtype=np.int64)
    users = items.records["user_id"].combine_chunks().dictionary_encode()
    user_of = users.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    width = max(len(items.objects), 1)

    evidence = run.table("evidence", ["user_id", "object_id", "interaction_type"])
    values = {"user_id": users.dictionary, "object_id": items.objects, "interaction_type": pa.array(_TYPES)}
    user, object, kind = (
        pc.fill_null(pc.index_in(evidence[name].combine_chunks(), value_set=known), -1)
        .to_numpy(zero_copy_only=False)
        .astype(np.int64)
        for name, known in values.items()
    )
    engaged = np.where((user >= 0) & (object >= 0), user * width + object, -1)

    scored = place_of[items.record] >= 0
    place = place_of[items.record[scored]]
    own = user_of[items.record[scored]] * width + items.object[scored]
    item, cell = [], []
    for t in range(len(_TYPES)):
        found = np.flatnonzero(_among(own, np.sort(engaged[kind == t])))
        item.append(found)
        cell.append(t * len(interests) + place[found])
    return items.said[scored], np.concatenate(item), np.concatenate(cell)


def _corrected_is(group: Group, labelled: pd.DataFrame, options: Options) -> list[dict[str, Any]]:
    """Correct the share of backing items that the judge picks for its rates of error (Rogan and Gladen)."""
    said, label = labelled["said"].to_numpy(), labelled["label"].to_numpy()
    hits, n_positive = float((said * label).sum()), float(label.sum())
    alarms, n_negative = float((said * (1 - label)).sum()), float((1 - label).sum())
    if not n_positive or not n_negative:
        return []
    rng = np.random.default_rng(options.seed)
    sensitivity = np.append(hits / n_positive, rng.beta(1 + hits, 1 + n_positive - hits, 2000))
    alarm = np.append(alarms / n_negative, rng.beta(1 + alarms, 1 + n_negative - alarms, 2000))
    rows = []
    for run in group.runs:
        frame = run.interests.dropna(subset="n_correct")
        backing = float(frame["n_backing"].sum())
        if not backing:
            continue
        share = float(frame["n_correct"].astype(float).sum()) / backing
        width = np.where(sensitivity - alarm > 0.01, sensitivity - alarm, np.nan)
        found = np.clip((share - alarm) / width, 0, 1)
        if np.isnan(found[0]):
            continue
        low, high = np.nanpercentile(found[1:], [2.5, 97.5])
        rows.append(
            {**group.key, "model": run.model, "metric": "backing_picked_share", "score": share,
             "corrected": float(found[0]), "ci_corrected_low": low, "ci_corrected_high": high}
        )  # fmt: skip
    return rows
