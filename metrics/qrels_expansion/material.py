"""All that a call scores, read and numbered together: users, items, lists, judgements, the pool, popularity."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from .judgements import Judgements, conditions, in_sorted, read_judgements, read_pairs
from .lists import Lists, make_lists
from .measures import Graded
from .options import Options, choose_systems
from .pools import Listed
from .tables import Coded, code, codes_of, numbers, read_columns

__all__ = ["Material", "read_material"]

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Material:
    """What is scored, and what is known about it."""

    lists: Lists
    """Of the systems that are reported, cut at k; with ties="expected" after the rows that tie with rank k."""
    ranked: Lists
    """The same cut at k, ties in trec_eval's order with ties="expected"."""
    human: Judgements
    llm: Judgements | None
    judged: dict[str, Graded]
    """By condition."""
    listed: Listed | None
    """The pairs of the lists of all systems; None where nothing needs them."""
    pool: IntArray
    given_pool: bool
    candidates: IntArray
    """Pairs of the pool or of the lists."""
    of_row: IntArray
    """The place of each row of ``ranked`` in ``listed``."""
    count: FloatArray | None
    """Popularity by item; NaN where there is none."""
    counts: dict[str, Any]
    """What was read, left out or merged."""

    @cached_property
    def within(self) -> npt.NDArray[np.bool_]:
        """Which rows of ``lists`` are those of ``ranked``."""
        within: npt.NDArray[np.bool_] = self.lists.rank <= self.ranked.length[self.lists.list_of]
        return within

    def find(self, judgements: Judgements) -> IntArray:
        """Return the judgement of each row of ``lists``, -1 where there is none."""
        if self.listed is None or self.lists is not self.ranked:
            return judgements.at(self.lists.key)
        return judgements.at(self.listed.pair)[self.of_row]

    @cached_property
    def rows(self) -> dict[str, IntArray]:
        """The judgement of each row of ``lists``, by condition."""
        return {name: self.find(judged.judgements) for name, judged in self.judged.items()}

    @cached_property
    def ranked_rows(self) -> dict[str, IntArray]:
        """The judgement of each row of ``ranked``, by condition."""
        return {name: at[self.within] for name, at in self.rows.items()}

    @cached_property
    def alone(self) -> npt.NDArray[np.bool_]:
        """Which rows of ``lists`` hold pairs that only their system adds to the pool."""
        assert self.listed is not None
        alone = self.within.copy()
        alone[self.within] = self.listed.n_systems[self.of_row] == 1
        return alone

    def holes(self, condition: str) -> IntArray:
        """Return the candidates that are not judged."""
        return self.candidates[~in_sorted(self.candidates, self.judged[condition].judgements.key)]


def read_material(
    options: Options, runs: Any, human_qrels: Any, llm_qrels: Any, pool: Any, popularity: Any, systems: Any
) -> Material:
    """Read the tables of a call.

    Raises:
        ValueError: If something cannot be scored; the message names its place.
    """
    k = options.conventions.k
    raw_human = read_judgements(human_qrels, "human_qrels", unparsed=False)
    raw_llm = None if llm_qrels is None else read_judgements(llm_qrels, "llm_qrels", unparsed=True)
    raw_pool = None if pool is None else read_pairs(pool, "pool")
    raw_popularity = None if popularity is None else _popularity(popularity)
    if not len(raw_human.rating):
        raise ValueError("human_qrels is empty: there is no user to score.")
    users = pa.array(sorted(raw_human.user.texts.take(pa.array(np.unique(raw_human.user.codes))).to_pylist()))
    named = [raw_human.item.texts]
    named += [] if raw_llm is None else [raw_llm.item.texts]
    named += [] if raw_pool is None else [raw_pool[1].texts]
    everything = make_lists(runs, users, named, k, options.conventions.ties)
    chosen = choose_systems(systems, everything.systems)
    items = everything.items
    human, _, n_human_again = raw_human.pairs(users, items)
    llm, n_llm_unknown, n_llm_again = (None, 0, 0) if raw_llm is None else raw_llm.pairs(users, items)
    lists = everything.of_systems(chosen)
    _check_users(lists)
    ranked = lists.cut(k)

    listed: Listed | None = None
    of_row = pairs = candidates = np.empty(0, np.int64)
    n_pool_unknown = 0
    parts = {"judged", "bounds", "holes"} | ({"pool_bias", "pool_depths"} if options.human_from == "pool" else set())
    needed = llm is not None or raw_pool is not None or bool(parts & set(options.parts))
    if needed:
        listed = Listed.of(everything.check().cut(k))
        pairs = candidates = listed.pair
        if everything.group is not None:
            candidates = np.unique(everything.key)
        whole = len(chosen) == len(everything.systems) and chosen == sorted(chosen)
        of_row = listed.of_row if whole else np.searchsorted(listed.pair, ranked.key)
        if raw_pool is not None:
            user, item = (
                codes_of(c, t).astype(np.int64)[c.codes] for c, t in zip(raw_pool, (users, items), strict=True)
            )
            n_pool_unknown = int((user < 0).sum())
            pairs = np.unique((user * len(items) + item)[user >= 0])
            candidates = np.union1d(candidates, pairs)
    judged = {name: Graded.of(q, options.conventions) for name, q in conditions(human, llm, pairs).items()}

    count, n_without_count = None, None
    if raw_popularity is not None:
        item_of = codes_of(raw_popularity[0], items)[raw_popularity[0].codes]
        count = np.full(len(items), np.nan)
        count[item_of[item_of >= 0]] = raw_popularity[1][item_of >= 0]
        n_without_count = int(np.isnan(count[np.unique(ranked.item)]).sum())
    n_holes = {name: int((~in_sorted(candidates, q.judgements.key)).sum()) for name, q in judged.items()}
    counts = {
        "n_users": len(users),
        "n_systems": len(chosen),
        "n_systems_in_runs": len(everything.systems),
        "n_rows": everything.n_rows,
        "n_tied_rows": everything.n_ties,
        "n_unknown_users": everything.n_unknown_users,
        "n_lists_of_unknown_users": everything.n_lists_unknown_user,
        "n_human": len(human.key),
        "n_human_not_judged": raw_human.n_unjudged,
        "n_human_repeated": n_human_again,
        "n_llm": None if llm is None else len(llm.key),
        "n_llm_unparsed": None if raw_llm is None else raw_llm.n_unjudged,
        "n_llm_repeated": n_llm_again,
        "n_llm_of_unknown_users": n_llm_unknown,
        "n_llm_outside_pool": None if llm is None else int((~in_sorted(llm.key, pairs)).sum()),
        "n_pool": len(pairs) if needed else None,
        "n_pool_of_unknown_users": n_pool_unknown,
        "n_holes": n_holes if needed else None,
        "n_items_without_popularity": n_without_count,
    }
    return Material(
        lists=lists,
        ranked=ranked,
        human=human,
        llm=llm,
        judged=judged,
        listed=listed,
        pool=pairs,
        given_pool=raw_pool is not None,
        candidates=candidates,
        of_row=of_row,
        count=count,
        counts=counts,
    )


def _check_users(lists: Lists) -> None:
    has_list = np.bincount(lists.system, minlength=len(lists.systems)) > 0
    if not has_list.all():
        raise ValueError(
            f"runs: system {lists.systems[int(np.argmin(has_list))]!r} has no list for any of the {len(lists.users)} "
            f"users of human_qrels. Are the user ids of the same kind?"
        )


def _popularity(table: Any) -> tuple[Coded, FloatArray]:
    columns = read_columns(table, "popularity", ("item", "count"))
    count = numbers(columns["count"], "popularity", "count").astype(np.float64)
    item = code(columns["item"], "popularity", "item")
    wrong = ~np.isfinite(count) | (count < 0)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise ValueError(
            f"popularity row {row}: the count of item {item.row(row)!r} is {float(count[row])!r}; it must be >= 0."
        )
    order = np.argsort(item.codes, kind="stable")
    codes, in_order = item.codes[order], count[order]
    differs = (codes[1:] == codes[:-1]) & (in_order[1:] != in_order[:-1])
    if differs.any():
        at = int(np.argmax(differs))
        raise ValueError(
            f"popularity: item {item.row(int(order[at]))!r} is counted twice, as {float(in_order[at])!r} and as "
            f"{float(in_order[at + 1])!r}. Sum the counts, or keep one."
        )
    return item, count
