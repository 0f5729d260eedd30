"""Beyond the paper: how far the judge can be trusted, against other judges and against people.

Two or more judges of the same records: where they agree, and whether candidates change places. Where people labelled
records: the judge's confusion, and the scores that its errors leave when they are taken out, with intervals.
"""

from collections.abc import Iterable
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from ..score import METRICS, load_metric
from .analysis import Analysis, FigureSpec, Options, Unavailable, analysis
from .annotators import RECORD, cohen_kappa, read_annotations
from .frames import spearman, typed, wilson
from .load import COUNTS, Group, Run, Runs

__all__ = ["judge_errors", "judges"]

N_DRAWS = 20
"""Imputations of what the judge should have said; each scores all records once more."""
_TYPES = [name.removeprefix("n_") for name in COUNTS]
FloatArray = npt.NDArray[np.float64]


def _judged_items(run: Run, task: str, users: Iterable[str] | None = None) -> pd.DataFrame:
    """Return one row for each item that the judge saw: ``user_id``, ``interest``, ``object_id``, ``said`` (0 or 1).

    Args:
        run: judged.
        task: ``relevance`` or ``association``.
        users: these only.
    """
    name, shown, kept = {
        "relevance": ("groundings", "shown_item_ids", "relevant_item_ids"),
        "association": ("retrievals", "shown_item_ids", "selected_item_ids"),
    }[task]
    table = run.table(name).select(["user_id", "interest", shown, kept])
    table = table.filter(pc.and_(pc.is_valid(table[shown]), pc.is_valid(table[kept])))
    if users is not None:
        table = table.filter(pc.is_in(table["user_id"], pa.array(sorted(users), pa.string())))
    lists = [table[column].combine_chunks() for column in (shown, kept)]
    objects = pa.concat_arrays([pc.list_flatten(one) for one in lists]).dictionary_encode()
    rows = [pc.list_parent_indices(one).to_numpy(zero_copy_only=False).astype(np.int64) for one in lists]
    # An item of an interest is one number, so that no text is compared twice.
    keys = np.concatenate(rows) * max(len(objects.dictionary), 1) + objects.indices.to_numpy(zero_copy_only=False)
    seen = np.unique(keys[: len(rows[0])])
    row, code = np.divmod(seen, max(len(objects.dictionary), 1))
    columns = {column: table[column].take(pa.array(row)) for column in ("user_id", "interest")}
    columns["object_id"] = objects.dictionary.take(pa.array(code))
    frame: pd.DataFrame = pa.table(columns).to_pandas()
    return frame.assign(said=np.isin(seen, keys[len(rows[0]) :]).astype(float))


@analysis("judges", "Do judges agree?")
def judges(runs: Runs, options: Options) -> Analysis:
    """Agreement of two or more judges on the same records, and the candidates' places under each."""
    agreement, ranks = [], []
    for a, b in combinations(runs.groups, 2):
        if a.dataset != b.dataset or a.setting != b.setting or a.judge == b.judge:
            continue
        others = {run.model: run for run in b.runs}
        common = [run for run in a.runs if run.model in others]
        for run in common:
            agreement += [
                {"dataset": a.dataset, "setting": a.setting, "judge_a": a.judge, "judge_b": b.judge, "model": run.model,
                 **row} for row in _agreement(run, others[run.model])
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
        raise Unavailable("Needs the same candidates on the same data under two judges: two suites that share a store.")
    frame = typed(agreement)
    columns = ["dataset", "setting", "judge_a", "judge_b", "metric", "n_models", "rho", "largest_rank_change"]
    figure = FigureSpec(
        "bar", "agreement", "Agreement of two judges", "Short bars: what one judge takes for "
        "evidence the other does not.", x="kappa", y="what", group="model", facet="judge_b",
    )  # fmt: skip
    return Analysis(
        "judges",
        "Do judges agree?",
        "Over records that both judged. Kappa corrects for chance; rho says whether candidates keep their places.",
        {"agreement": frame, "ranks": typed(ranks, columns)},
        {"judges": figure},
        policy={
            "relevance": "items shown to both for the same interest of the same user",
            "verdict": "interests that both scored",
            "category": "interests that both mapped; kappa over categories",
            "specificity": "interests with a known specificity of both: mean difference a - b",
        },
    )


def _agreement(a: Run, b: Run) -> list[dict[str, Any]]:
    from sklearn.metrics import cohen_kappa_score

    items = _judged_items(a, "relevance").merge(_judged_items(b, "relevance"), on=RECORD, suffixes=("_a", "_b"))
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
             "kappa": float(cohen_kappa_score(left, right)) if several else None}
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
                [_judged_items(run, task, set(own["user_id"])).merge(own, on=RECORD) for run in group.runs]
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
    figure = FigureSpec(
        "forest", "corrected", "Scores corrected for the judge's errors", "Where a corrected interval leaves out the "
        "score, the judge's errors matter more than chance.", x="corrected", y="model", low="ci_corrected_low",
        high="ci_corrected_high", facet="metric",
    )  # fmt: skip
    return Analysis(
        "judge_errors",
        "The judge against people",
        "How often the judge keeps what people keep, and which scores its errors leave when taken out.",
        {"confusion": typed(confusion), "corrected": typed(pd.DataFrame(corrected, columns=columns))},
        {"judge_errors": figure},
        policy={
            "human": "the majority of a record's labels; ties are left out",
            "ig": f"{N_DRAWS} imputations: each cited item is kept with the probability that people keep it given "
            "what the judge said (Beta posterior, uniform prior); counts, verdicts, the models' common oracle and "
            "medians follow. Errors count as independent of item, user and model; the interval is over imputations "
            "and posterior",
            "is": "share of backing items that belong: (share picked - false positive rate) / (sensitivity - false "
            "positive rate), within 0 and 1, with a parametric bootstrap of both rates; not a median over users",
        },
    )


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
    for _ in range(N_DRAWS):
        rates = [rng.beta(1 + label[said == s].sum(), 1 + (1 - label[said == s]).sum()) for s in (0, 1)]
        results = {}
        for run in group.runs:
            place, types, judged = cited[run.model]
            kept = rng.random(len(place)) < np.where(judged == 1, rates[1], rates[0])
            n = len(run.interests)
            counts = {
                name: np.bincount(place[kept], weights=types[kept, t], minlength=n).astype(np.int64)
                for t, name in enumerate(COUNTS)
            }
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
                {**group.key, "model": run.model, "metric": metric, "score": run.score[metric],
                 "corrected": float(np.median(table[:, column])), "ci_corrected_low": low, "ci_corrected_high": high}
            )  # fmt: skip
    return rows


def _cited_types(run: Run) -> tuple[npt.NDArray[np.int64], FloatArray, FloatArray]:
    """Return, for each item that the judge saw, its interest's row, its types (items, 4), and what the judge said."""
    items = _judged_items(run, "relevance")
    keys = run.interests[["user_id", "interest"]].assign(place=np.arange(len(run.interests)))
    items = items.merge(keys, on=["user_id", "interest"])
    seen = run.table("evidence").select(["user_id", "object_id", "interaction_type"]).to_pandas()
    pairs = []
    for column in ("user_id", "object_id"):
        codes, texts = pd.factorize(pd.concat([items[column], seen[column]], ignore_index=True))
        pairs.append((codes.astype(np.int64), len(texts)))
    keys = pairs[0][0] * max(pairs[1][1], 1) + pairs[1][0]
    kind = seen["interaction_type"].map(_TYPES.index).to_numpy(dtype=np.int64)
    own, cited, types = keys[: len(items)], keys[len(items) :], np.zeros((len(items), len(_TYPES)))
    for t in range(len(_TYPES)):
        types[:, t] = np.isin(own, cited[kind == t])
    return items["place"].to_numpy(), types, items["said"].to_numpy()


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
