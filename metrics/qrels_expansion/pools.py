"""What the scores owe to the pool: each system without the judgements that only it brought, and shallower pools."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .judgements import CONDITIONS, Judgements, conditions, in_sorted
from .lists import Lists
from .measures import Conventions, Graded, ap_and_ndcg, quotients, sums

__all__ = ["POOLED", "Listed", "by_depth", "without_own"]

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]

POOLED = {"ratings": ("synthetic", "augmented"), "pool": CONDITIONS}
"""By where people's judgements come from, the conditions that depend on the pool."""


@dataclass(frozen=True)
class Listed:
    """The (user, item) pairs of the lists of all systems."""

    pair: IntArray
    """Sorted, each once."""
    of_row: IntArray
    """The pair of every row of the lists."""
    n_systems: IntArray
    """How many systems list each pair."""
    depth: IntArray
    """The lowest rank of each pair in a list."""

    @classmethod
    def of(cls, lists: Lists) -> Listed:
        """Collect the pairs."""
        pair, of_row, n_systems = np.unique(lists.key, return_inverse=True, return_counts=True)
        depth = np.full(len(pair), np.iinfo(np.int64).max)
        np.minimum.at(depth, of_row, lists.rank)
        return cls(pair, of_row, n_systems, depth)


def without_own(
    lists: Lists, judged: Graded, at: IntArray, own: BoolArray, conventions: Conventions
) -> tuple[FloatArray, FloatArray]:
    """Return AP and NDCG of each list as if its own contributions had not been judged: leave one run out.

    Args:
        lists: The lists.
        judged: The judgements of a condition.
        at: The judgement of every row, -1 where there is none.
        own: The rows whose judgements are taken away: of pairs that no other system lists.
        conventions: As for AP and NDCG.
    """
    n = len(lists)
    precision, dcg = sums(lists, {"": judged}, conventions, {"": np.where(own, -1, at)})[""]
    own_rows = np.flatnonzero(own)
    of_own, judgement = lists.list_of[own_rows], at[own_rows]
    lost = np.bincount(of_own[judged.relevant[judgement]], minlength=n) if len(own_rows) else np.zeros(n, np.int64)
    divisor = conventions.ap_divisor(judged.n_relevant[lists.user] - lost)
    longest = max(int(lists.length.max()) if n else 1, int(judged.n_judged.max()))
    gain = judged.gain[judgement] if len(own_rows) else np.empty(0)
    ideal = _ideal_without(lists, judged, of_own, gain, conventions.discounts(longest), conventions)
    return quotients(precision, divisor), quotients(dcg, ideal)


def _ideal_without(
    lists: Lists, judged: Graded, owner: IntArray, gain: FloatArray, discounts: FloatArray, conventions: Conventions
) -> FloatArray:
    """Return the ideal DCG of each list's user without some gains, level of gain by level of gain."""
    end = len(discounts) if conventions.k is None else min(conventions.k, len(discounts))
    summed = np.concatenate([np.zeros(1), np.cumsum(discounts[:end])])
    levels, level_of = np.unique(judged.gain, return_inverse=True)
    user = judged.judgements.user
    by_level = np.argsort(level_of, kind="stable")
    stops = np.cumsum(np.bincount(level_of, minlength=len(levels)))
    own_level = np.searchsorted(levels, gain)
    own_by_level = np.argsort(own_level, kind="stable")
    own_stops = np.cumsum(np.bincount(own_level, minlength=len(levels)))
    reach = np.zeros(judged.judgements.n_users, np.int64)
    removed = np.zeros(len(lists), np.int64)
    ideal = np.zeros(len(lists))
    for at in range(len(levels) - 1, -1, -1):
        if levels[at] <= 0:
            break
        low = int(stops[at - 1]) if at else 0
        reach += np.bincount(user[by_level[low : stops[at]]], minlength=len(reach))
        low = int(own_stops[at - 1]) if at else 0
        removed += np.bincount(owner[own_by_level[low : own_stops[at]]], minlength=len(removed))
        width = levels[at] - (max(levels[at - 1], 0) if at else 0)
        ideal += width * summed[np.minimum(reach[lists.user] - removed, end)]
    return ideal


def by_depth(
    lists: Lists,
    find: Callable[[Judgements], IntArray],
    listed: Listed,
    human: Judgements,
    llm: Judgements | None,
    pool: IntArray | None,
    depths: Iterable[int],
    conventions: Conventions,
    human_from: str,
) -> Iterator[tuple[int, int, dict[str, tuple[FloatArray, FloatArray]]]]:
    """Yield depth, size of the pool, and AP and NDCG of every list in the conditions that depend on the pool.

    Args:
        lists: The lists to score.
        find: Tells the judgement of every row of the lists, -1 where there is none.
        listed: The pairs of the lists of all systems: they make the pool.
        human: The human judgements.
        llm: All judgements of a language model, if there is one.
        pool: A given pool, which is then cut to the pairs that the lists hold down to the depth.
        depths: The depths.
        conventions: As for AP and NDCG.
        human_from: "pool" if people judged the pool: then only what is in it counts of theirs too.
    """
    allowed = np.ones(len(listed.pair), np.bool_) if pool is None else in_sorted(listed.pair, pool)
    for depth in depths:
        pairs = listed.pair[allowed & (listed.depth <= depth)]
        people = human if human_from == "ratings" else human.only(in_sorted(human.key, pairs))
        made = conditions(people, llm, pairs)
        names = [name for name in made if name in POOLED[human_from]]
        graded = {name: Graded.of(made[name], conventions) for name in names}
        yield depth, len(pairs), ap_and_ndcg(lists, graded, conventions, {name: find(made[name]) for name in names})
