"""What the paper leaves out, from the same grades: calibration, prediction-powered estimates, circularity, validations,
and what is not judged.

Each is an analysis as the experiments are. No model is called.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from ...hf_datasets.errors import DataError
from ..draw import hash_strings, order, salt
from ..report.analysis import Analysis, FigureSpec, Reference
from ..report.figures_style import short
from ..stages.grade import Condition
from .calibrate import calibrate
from .experiments import LABELS, METRICS, PLOTS, mean_absolute_error, shown_as
from .families import agreement_by_family, family_of
from .holes import holes
from .judged import Part, graded_parts
from .powered import MIN_LABELLED, prediction_powered
from .setting import Setting, score_setting
from .validate import read_validations
from .work import Work

__all__ = ["beyond"]

LABELLED_SHARE = 0.25


def beyond(
    work: Work,
    parts: Sequence[Part] | None = None,
    *,
    n_resamples: int = 1000,
    seed: int = 0,
    relevance_threshold: float = 4.0,
) -> list[Analysis]:
    """Compute what goes beyond the paper.

    Args:
        work: a folder with a pool.
        parts: judges and conditions; None: all that were graded for this pool.
        n_resamples: of the bootstrap over users.
        seed: of the folds, of the users taken for judged, and of the bootstrap.
        relevance_threshold: the lowest rating that is relevant for AP.
    """
    setting = Setting.read(work)
    parts = graded_parts(work) if parts is None else parts
    graded, pooled = (list(_graded(parts, but=pairs)) for pairs in ("pool", "test"))
    options = {"n_resamples": 0, "relevance_threshold": relevance_threshold}
    return [
        _calibration(setting, graded, seed, options),
        _powered(setting, graded, seed, options),
        _circularity(setting, graded, seed, n_resamples),
        _validations(work, setting, pooled, seed, n_resamples, options),
        *holes(setting, pooled, relevance_threshold=relevance_threshold),
    ]


def _graded(parts: Sequence[Part], *, but: str) -> Iterator[tuple[dict[str, Any], Any]]:
    """Yield key and grades of each judge and condition, but of those who graded such pairs alone."""
    for judged, condition in parts:
        if judged.record(condition.name)["settings"]["pairs"] != but:
            yield _key(judged.name, condition), judged.grades(condition)


def _key(name: str, condition: Condition) -> dict[str, Any]:
    return {"judge": name, "mode": LABELS[condition.mode], "plot": PLOTS[condition.plot]}


def _calibration(setting: Setting, graded: Sequence[Any], seed: int, options: dict[str, Any]) -> Analysis:
    rows = []
    notes = []
    for key, grades in graded:
        try:
            found = calibrate(grades, setting.human, seed=seed)
        except DataError as error:
            notes.append(f"{', '.join(key.values())}: {error}")
            continue
        before, after = (score_setting(setting, table, **options) for table in (grades, found.grades))
        rows.append(
            {
                **key,
                "n_pairs": found.n_pairs,
                "mae_before": found.mae_before,
                "mae_after": found.mae_after,
                "bias_before": found.bias_before,
                "bias_after": found.bias_after,
                **{f"mean_rating_{grade}": float(found.mapping[:, grade].mean()) for grade in range(6)},
                "tau_ndcg_before": before["rankings"]["matched"]["ndcg"]["tau"],
                "tau_ndcg_after": after["rankings"]["matched"]["ndcg"]["tau"],
                "delta_tau_ndcg_before": before["popularity"]["augmented"]["ndcg"]["delta_tau"],
                "delta_tau_ndcg_after": after["popularity"]["augmented"]["ndcg"]["delta_tau"],
            }
        )
    return _analysis(
        "calibration",
        "Grades calibrated to people's ratings",
        "Isotonic, learned on the held-out pairs of other users: the rating that each grade stands for. NDCG alone: an "
        "expected rating is seldom 4 or more, so AP's threshold does not suit it.",
        pd.DataFrame(rows),
        notes=tuple(notes),
    )


def _powered(setting: Setting, graded: Sequence[Any], seed: int, options: dict[str, Any]) -> Analysis:
    """Take a quarter of the users for judged by people, and look whether the estimates hold the mean over all."""
    rows = []
    for key, grades in graded:
        scores = score_setting(setting, grades, "runs", per_user=True, **{**options, "parts": []})["per_user"]
        systems, users = (list(dict.fromkeys(scores[name])) for name in ("system", "user"))
        n_labelled = max(MIN_LABELLED, round(LABELLED_SHARE * len(users)))
        if n_labelled >= len(users):
            continue
        labelled = order(hash_strings(users), salt(seed, "labelled"))[:n_labelled]
        for metric, label in METRICS.items():
            human, judge = (
                np.array(scores[f"{metric}_{name}"], dtype=float).reshape(len(systems), len(users))
                for name in ("human", "matched")
            )
            known = np.full(human.shape, np.nan)
            known[:, labelled] = human[:, labelled]
            found = prediction_powered(judge, known)
            truth = human.mean(axis=1)
            for at, system in enumerate(systems):
                rows.append(
                    {
                        **key,
                        "metric": label,
                        "system": system,
                        "value": float(found.estimate[at]),
                        "ci_value_low": float(found.low[at]),
                        "ci_value_high": float(found.high[at]),
                        "weight": float(found.weight[at]),
                        "people_alone": float(found.classical[at]),
                        "people_alone_low": float(found.classical_low[at]),
                        "people_alone_high": float(found.classical_high[at]),
                        "judge_alone": float(found.judge_alone[at]),
                        "all_people": float(truth[at]),
                        "n_labelled": found.n_labelled,
                        "n_unlabelled": found.n_unlabelled,
                    }
                )
    frame = pd.DataFrame(rows)
    tables = {}
    if len(frame):
        held = (frame["ci_value_low"] <= frame["all_people"]) & (frame["all_people"] <= frame["ci_value_high"])
        width = (frame["ci_value_high"] - frame["ci_value_low"]) / (
            frame["people_alone_high"] - frame["people_alone_low"]
        )
        summary = frame.assign(held_share=held.astype(float), relative_width=width)
        by = ["judge", "mode", "plot", "metric"]
        tables["summary"] = (
            summary.groupby(by, sort=False)[["held_share", "relative_width", "weight"]].mean().reset_index()
        )
    return _analysis(
        "powered",
        "Prediction-powered estimates",
        "As if people had judged a quarter of the users only: estimates of the mean over all users on held-out pairs. "
        "Intervals that hold: systems whose interval holds the true mean; relative width: of the interval, against "
        "that of people's judgements alone.",
        frame,
        more=tables,
    )


def _circularity(setting: Setting, graded: Sequence[Any], seed: int, n_resamples: int) -> Analysis:
    families = {system: family_of(algorithm) for system, algorithm in setting.algorithms.items()}
    frames = [
        agreement_by_family(setting.runs, families, setting.human, grades, n_resamples=n_resamples, seed=seed).assign(
            **key
        )
        for key, grades in graded
    ]
    frame = pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()
    figures = {
        shown_as(key): FigureSpec(
            "forest", "values", f"Favour of {short(key['judge'], 20)}, {key['mode']}, {key['plot']}",
            "Right of 0: more generous than people are, to what the family lists.", x="favour", y="family",
            low="ci_favour_low", high="ci_favour_high", references=(Reference("vertical", 0.0, "no favour"),),
        )
        for key, _ in graded
    }  # fmt: skip
    return _analysis(
        "circularity",
        "Judge and people by family of recommenders",
        "Favour: grade minus rating on held-out pairs that the family lists, less the same on those that it does not.",
        frame[["judge", "mode", "plot", *(c for c in frame if c not in ("judge", "mode", "plot"))]]
        if len(frame)
        else frame,
        figures=figures,
    )


def _validations(
    work: Work, setting: Setting, graded: Sequence[Any], seed: int, n_resamples: int, options: dict[str, Any]
) -> Analysis:
    """Compare grades with what people said of the same pooled pairs, and score with these among people's judgements."""
    validated = read_validations(work)
    if validated is not None:
        table = validated.join(setting.pool.select(["user", "item"]), ["user", "item"], join_type="inner")
        table = table.join(setting.human.select(["user", "item"]), ["user", "item"], join_type="left anti")
        table = table.select(["user", "item", "grade"]).rename_columns(["user", "item", "rating"])
        validated = table.sort_by([("user", "ascending"), ("item", "ascending")])
    if validated is None or not validated.num_rows:
        why = "People validated no pooled pairs: `gistbench qrels uncertain` lists some for them."
        return Analysis("validations", "Grades that people validated", "", missing=why)
    human = pa.concat_tables([setting.human.select(["user", "item", "rating"]).cast(validated.schema), validated])
    rows = []
    for key, grades in graded:
        mae, low, high, n_pairs = mean_absolute_error(validated, grades, n_resamples=n_resamples, seed=seed)
        before, after = (
            score_setting(one, grades, **options)["rankings"]["augmented"]
            for one in (setting, replace(setting, human=human))
        )
        rows.append(
            {
                **key,
                "n_validated": validated.num_rows,
                "n_pairs": n_pairs,
                "mae": mae,
                "ci_mae_low": low,
                "ci_mae_high": high,
                **{f"tau_{metric}_before": before[metric]["tau"] for metric in METRICS},
                **{f"tau_{metric}_after": after[metric]["tau"] for metric in METRICS},
            }
        )
    return _analysis(
        "validations",
        "Grades that people validated",
        "MAE of the judge on these pairs; tau of the augmented ranking with that of people, whose judgements are the "
        "ratings alone (before), and the ratings and the validated grades (after). Uncertain pairs are no random ones.",
        pd.DataFrame(rows),
    )


def _analysis(
    id: str,
    title: str,
    caption: str,
    frame: pd.DataFrame,
    *,
    more: dict[str, pd.DataFrame] | None = None,
    figures: Mapping[str, FigureSpec] | None = None,
    notes: tuple[str, ...] = (),
) -> Analysis:
    if not len(frame):
        return Analysis(id, title, caption, notes=notes, missing="No judge graded held-out pairs.")
    return Analysis(id, title, caption, {**(more or {}), "values": frame}, figures or {}, notes=notes)
