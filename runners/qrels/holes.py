"""Beyond the paper: what the pairs that nobody judged may do to the scores, and what the pool does.

Bounds of every score over all ways to fill the holes; bpref, infAP and condensed lists, the classical answers to
incomplete judgements; each system scored without the judge's grades of what it alone brought to the pool; and the
ranking by shallower pools. All by the `qrels_expansion` module.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from scipy import stats

from ..report.analysis import Analysis
from .setting import Setting, score_setting

__all__ = ["holes"]

PARTS = ("bounds", "holes", "pool_bias", "pool_depths")
MEASURES = ("ap", "ndcg", "bpref", "infap", "ap_condensed", "ndcg_condensed")


def holes(
    setting: Setting, graded: Sequence[tuple[Mapping[str, Any], pa.Table]], *, relevance_threshold: float = 4.0
) -> list[Analysis]:
    """Look at what is not judged, under people's judgements and under those that each judge expanded.

    Args:
        setting: what is scored.
        graded: key (``judge``, ``mode``, ``plot``) and grades of each judge and condition.
        relevance_threshold: the lowest rating that is relevant for AP.

    Returns:
        ``holes``: bounds and classical baselines, which need no judge; ``pool_bias`` and ``pool_depths``, which do.
    """
    options = {"n_resamples": 0, "relevance_threshold": relevance_threshold}
    nobody = {"judge": "", "mode": "", "plot": ""}
    alone = score_setting(setting, None, "runs", parts=["bounds", "holes"], **options)["per_system"]
    scores, rankings = [_scores(alone, "human").assign(**nobody)], [_taus(alone, "human", alone).assign(**nobody)]
    biases, depths = [], []
    for key, grades in graded:
        found = score_setting(setting, grades, "runs", parts=list(PARTS), **options)
        systems = found["per_system"]
        scores.append(_scores(systems, "augmented").assign(**key))
        rankings.append(_taus(systems, "augmented", alone).assign(**key))
        biases.append(_bias(systems).assign(**key))
        depths.append(_by_depth(pd.DataFrame(found["by_pool_depth"])).assign(**key))
    analyses = [
        Analysis(
            "holes",
            "What is not judged",
            "Bounds of AP and NDCG over all ways to grade pooled pairs without a judgement; bpref, infAP and condensed "
            "lists; tau of the ranking by each measure with those by AP and NDCG under the ratings.",
            {"rankings": _keyed(rankings), "systems": _keyed(scores)},
        )
    ]
    missing = "" if graded else "No judge graded pooled pairs."
    for id, title, caption, frames in (
        (
            "pool_bias",
            "Pool bias",
            "Scores of each system without the judge's grades of pairs that only it brought to the pool, what it loses "
            "by that (pool bias), and its places.",
            biases,
        ),
        (
            "pool_depths",
            "Shallower pools",
            "Tau of the augmented ranking by a shallower pool with that by the whole one.",
            depths,
        ),
    ):
        analyses.append(Analysis(id, title, caption, {"values": _keyed(frames)} if frames else {}, missing=missing))
    return analyses


def _scores(systems: Mapping[str, Any], condition: str) -> pd.DataFrame:
    names = {"ap": f"ap_{condition}", "ndcg": f"ndcg_{condition}"}
    bounds = {f"{one}_{end}": f"{names[one]}_{end}" for one in names for end in ("lower", "upper")}
    others = {one: f"{one}_{condition}" for one in MEASURES[2:]}
    found = {one: systems[column] for one, column in (names | bounds | others).items()}
    return pd.DataFrame({"condition": condition, "system": systems["system"], **found})


def _taus(systems: Mapping[str, Any], condition: str, human: Mapping[str, Any]) -> pd.DataFrame:
    rows = [
        {
            "condition": condition,
            "measure": one,
            "tau_ap_human": _tau(systems[f"{one}_{condition}"], human["ap_human"]),
            "tau_ndcg_human": _tau(systems[f"{one}_{condition}"], human["ndcg_human"]),
            "n_systems": len(systems["system"]),
        }
        for one in MEASURES
    ]
    return pd.DataFrame(rows)


def _bias(systems: Mapping[str, Any]) -> pd.DataFrame:
    frame = pd.DataFrame({"system": systems["system"]})
    for metric in ("ap", "ndcg"):
        whole, left_out = (
            pd.Series(systems[f"{metric}_augmented{end}"], dtype=float).round(12) for end in ("", "_left_out")
        )
        frame[metric], frame[f"{metric}_left_out"], frame[f"{metric}_bias"] = whole, left_out, whole - left_out
        frame[f"{metric}_place"] = whole.rank(ascending=False)
        # A system that is left out is ranked among the others as they are.
        frame[f"{metric}_place_left_out"] = [
            pd.Series(np.where(whole.index == at, left_out, whole)).rank(ascending=False)[at] for at in whole.index
        ]
    return frame


def _by_depth(table: pd.DataFrame) -> pd.DataFrame:
    deepest = table[table["depth"] == table["depth"].max()]
    rows = [
        {
            "depth": depth,
            "n_pairs": int(one["n_pairs"].iloc[0]),
            **{f"tau_{name}": _tau(one[f"{name}_augmented"], deepest[f"{name}_augmented"]) for name in ("ap", "ndcg")},
            "n_systems": len(one),
        }
        for depth, one in table.groupby("depth")
    ]
    return pd.DataFrame(rows)


def _tau(one: Any, other: Any) -> float:
    return float(stats.kendalltau(np.round(np.array(one, float), 12), np.round(np.array(other, float), 12)).statistic)


def _keyed(frames: Sequence[pd.DataFrame]) -> pd.DataFrame:
    key = ["judge", "mode", "plot"]
    frame = pd.concat(frames, ignore_index=True)
    return frame[[*key, *(name for name in frame if name not in key)]]
