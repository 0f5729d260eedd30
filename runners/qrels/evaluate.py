"""AP and NDCG of every run for every user with test ratings, by the `qrels_expansion` module, run after run."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from .ratings import IntArray, Ratings
from .runs import read_run_table
from .work import Progress, Silent, Work

__all__ = ["METRICS", "Scores", "evaluate_runs"]

METRICS = ("ap", "ndcg")


@dataclass(frozen=True)
class Scores:
    """The scores of all runs."""

    systems: tuple[str, ...]
    users: IntArray
    """Rows of the users, ascending."""
    values: dict[str, npt.NDArray[np.float64]]
    """By metric, (systems, users)."""

    def means(self, metric: str, users: IntArray | slice = slice(None)) -> npt.NDArray[np.float64]:
        """Return each system's mean, over all users or those at some places, rounded so that equal lists tie."""
        found: npt.NDArray[np.float64] = np.round(self.values[metric][:, users].mean(axis=1), 12)
        return found

    def table(self, users: pa.Array) -> pa.Table:
        """Return ``system``, ``user``, ``ap``, ``ndcg``."""
        n_systems, n_users = len(self.systems), len(self.users)
        system = np.repeat(np.arange(n_systems, dtype=np.int32), n_users)
        user = np.tile(self.users.astype(np.int32), n_systems)
        return pa.table(
            {
                "system": pa.DictionaryArray.from_arrays(pa.array(system), pa.array(self.systems)),
                "user": pa.DictionaryArray.from_arrays(pa.array(user), users),
                **{metric: pa.array(self.values[metric].ravel()) for metric in METRICS},
            }
        )


def evaluate_runs(
    work: Work,
    ratings: Ratings,
    systems: Sequence[str],
    *,
    k: int,
    relevance_threshold: float = 4.0,
    progress: Progress | None = None,
) -> Scores:
    """Score runs under the test ratings; one run is in memory at a time.

    Args:
        work: the folder with the runs.
        ratings: its split.
        systems: names of the runs.
        k: depth of AP@k and NDCG@k.
        relevance_threshold: the lowest rating that is relevant for AP.
        progress: told of each run.
    """
    from ..score import load_metric

    progress = progress or Silent()
    metric = load_metric("qrels_expansion")
    qrels = ratings.qrels()
    values = {name: np.zeros((len(systems), len(ratings.evaluated))) for name in METRICS}
    # The module orders users by their ids, as the codes do.
    options: dict[str, Any] = {"k": k, "relevance_threshold": relevance_threshold, "n_resamples": 0, "parts": []}
    progress.start("score", len(systems))
    for row, system in enumerate(systems):
        found = metric.compute(
            runs=read_run_table(work, system).select(["system", "user", "item", "score"]),
            human_qrels=qrels,
            per_user=True,
            **options,
        )["per_user"]
        for name in METRICS:
            values[name][row] = found[f"{name}_human"]
        progress.advance(stored=False)
    progress.finish()
    return Scores(tuple(systems), ratings.evaluated, values)
