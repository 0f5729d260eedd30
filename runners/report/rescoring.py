"""Runs scored once more from their stored records: under another oracle, other thresholds, another scope of IS."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pandas as pd

from ..oracle import Category
from ..score import METRICS
from .results import rescore_results, scores_frame, unite_oracles
from .run import Run, short_hash

__all__ = ["rescore", "with_common_oracles"]


def rescore(
    run: Run,
    *,
    oracle: Mapping[str, Sequence[Category]] | None = None,
    thresholds: Any = None,
    is_scope: str | None = None,
    n_resamples: int = 0,
    seed: int = 0,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Score a run once more, through the modules `ig` and `is`.

    Args:
        run: its interests, with counts and retrievals.
        oracle: each user's categories; None: what this run verifies. A verified category that it lacks does not count.
        thresholds: None: the verdicts stand.
        is_scope: None: as stored.
        n_resamples: of the intervals; 0 leaves them out.
        seed: of the bootstrap.

    Returns:
        The results of `ig` and `is`.
    """
    options = {"thresholds": thresholds, "is_scope": is_scope, "n_resamples": n_resamples, "seed": seed}
    return rescore_results(run.ig, run.specificity, oracle=oracle, **options)


@dataclass(frozen=True, eq=False)
class _Rescored(Run):
    """A run whose scores are measured against another oracle than the stored ones."""

    common: Mapping[str, list[Category]]
    version: str

    @cached_property
    def _again(self) -> tuple[dict[str, Any], dict[str, Any]]:
        policy = super().score["policy"]["ig"].get("interval", {})
        given = {name: policy[name] for name in ("n_resamples", "seed") if name in policy}
        return rescore(self, oracle=self.common, **given)

    @property
    def score(self) -> dict[str, Any]:
        stored = super().score
        ig, specificity = self._again
        changed = {
            f"{prefix}{metric}": (specificity if metric in ("is", "hm") else ig)[f"{prefix}{metric}"]
            for metric in METRICS
            for prefix in ("", "ci_", "mean_", "ci_mean_")
        }
        return {**stored, **changed, "oracle": {**stored["oracle"], "version": self.version}}

    @cached_property
    def scores(self) -> pd.DataFrame:
        stored = Run(self.folder, self.model).scores
        again = scores_frame(*self._again)
        return stored.drop(columns=[*METRICS]).merge(again, on="user_id").sort_values("user_id", ignore_index=True)

    @property
    def oracle(self) -> dict[str, list[Category]]:
        return dict(self.common)

    @cached_property
    def ig(self) -> dict[str, Any]:
        return Run(self.folder, self.model).ig

    @cached_property
    def specificity(self) -> dict[str, Any]:
        return Run(self.folder, self.model).specificity


def with_common_oracles(runs: Sequence[Run], settings: Sequence[str]) -> list[Run]:
    """Return runs that compare but for their oracles scored once more against the union of these; others as they are.

    Args:
        runs: of one side or several.
        settings: one label for each run; runs under different ones do not share an oracle.
    """
    keys = [
        (run.dataset, run.judge, setting, *(v for k, v in run.conditions.items() if k != "oracle"))
        for run, setting in zip(runs, settings, strict=True)
    ]
    result = list(runs)
    for key in dict.fromkeys(keys):
        mine = [i for i, other in enumerate(keys) if other == key]
        if len({runs[i].conditions["oracle"] for i in mine}) == 1:
            continue
        union = unite_oracles(runs[i].oracle for i in mine)
        version = short_hash(sorted({runs[i].conditions["oracle"] for i in mine}))
        for i in mine:
            result[i] = _Rescored(runs[i].folder, runs[i].model, union, version)
    return result
