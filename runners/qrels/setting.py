"""What the experiments score: the runs of the sampled users, people's judgements, the pool, popularity.

Read once, scored under as many judges as there are, always by the `qrels_expansion` module.
"""

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from .judged import held_out_pairs, sampled_users
from .ratings import Ratings
from .recommend import systems
from .runs import read_run_table
from .work import Work

__all__ = ["RANKINGS", "Setting", "score_setting"]

RANKINGS = {"algorithms": "one run per algorithm", "runs": "all runs"}
"""Which systems are ranked. The paper pools 31 runs, and the steps of its tau values fit rankings of its 21 algorithms
(MovieLens) and of 19 systems (Goodbooks)."""


@dataclass(frozen=True)
class Setting:
    """The tables that scores are computed from."""

    runs: pa.Table
    """``system``, ``user``, ``item``, ``score`` of the users of ``human``."""
    human: pa.Table
    """``user``, ``item``, ``rating``."""
    pool: pa.Table
    """``user``, ``item``, ``n_systems``, ``depth``, ``rating``, ``count``, ``head``."""
    popularity: pa.Table
    """``item``, ``count`` in the training ratings of all users (Eq. 2)."""
    systems: dict[str, list[str]]
    """By ranking, see :data:`RANKINGS`."""
    algorithms: dict[str, str]
    """By system."""
    k: int

    @classmethod
    def read(cls, work: Work) -> "Setting":
        """Read a work folder with a pool.

        Raises:
            StoreError: it has none.
        """
        depth = int(work.record("pool")["settings"]["depth"])
        users = pa.array(sampled_users(work), pa.string())
        runs = systems(work)
        tables = []
        for run in runs:
            table = read_run_table(work, run["system"], users)
            table = table.filter(pc.less_equal(table["rank"], depth))
            tables.append(table.select(["system", "user", "item", "score"]))
        ratings = Ratings.read(work)
        return cls(
            runs=pa.concat_tables(tables).unify_dictionaries(),
            human=held_out_pairs(work, users.to_pylist()),
            pool=work.read("pool"),
            popularity=pa.table({"item": ratings.items, "count": ratings.count}),
            systems={
                "algorithms": [run["system"] for run in runs if run["representative"]],
                "runs": [run["system"] for run in runs],
            },
            algorithms={run["system"]: run["algorithm"] for run in runs},
            k=depth,
        )


def score_setting(setting: Setting, grades: pa.Table | None, ranking: str = "algorithms", **options: Any) -> Any:
    """Score the systems of a ranking under people's judgements and a judge's.

    Args:
        setting: what is scored.
        grades: ``user``, ``item``, ``grade`` (null: not parsed) of the judge; None: people's judgements alone.
        ranking: a key of :data:`RANKINGS`.
        options: of the `qrels_expansion` module.

    Returns:
        The module's results.
    """
    from ..score import load_metric

    llm = None
    if grades is not None:
        rating = grades["grade"].cast(pa.float64())
        llm = pa.table({"user": grades["user"], "item": grades["item"], "rating": rating})
    return load_metric("qrels_expansion").compute(
        runs=setting.runs,
        human_qrels=setting.human,
        llm_qrels=llm,
        pool=setting.pool.select(["user", "item"]),
        popularity=setting.popularity,
        systems=setting.systems[ranking],
        **{"k": setting.k, "parts": ["rankings"], **options},
    )
