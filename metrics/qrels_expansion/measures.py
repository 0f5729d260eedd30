"""AP and NDCG of many lists at once, and the measures that are made for incomplete judgements.

Everything is a sum over judged rows; a list without one costs nothing. The conventions that the field's tools disagree
on (gain, discount, what AP is divided by, ties) are arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from .judgements import Judgements
from .lists import Chunk, Lists

__all__ = ["Conventions", "Graded", "Places", "ap_and_ndcg", "hole_measures", "quotients", "sums", "tied_places"]

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]

DISCOUNTS = ("log2(rank+1)", "max(log2(rank),1)")
AP_DENOMINATORS = ("relevant", "min(relevant,k)")
_ROWS_AT_ONCE = 100_000
INFAP_EPSILON = 0.00001  # trec_eval's


@dataclass(frozen=True)
class Conventions:
    """What AP and NDCG mean in a call."""

    k: int | None
    relevance_threshold: float
    gain: str | Mapping[float, float]
    discount: str
    ap_denominator: str
    ties: str

    def gains(self, rating: FloatArray) -> FloatArray:
        """Return the gain of each rating.

        Raises:
            ValueError: If a table of gains lacks a rating.
        """
        if self.gain == "linear":
            return rating
        if self.gain == "exponential":
            exponential: FloatArray = np.exp2(rating) - 1
            return exponential
        assert isinstance(self.gain, Mapping)
        known = np.array(sorted(self.gain))
        at = np.minimum(np.searchsorted(known, rating), len(known) - 1)
        if (lacking := known[at] != rating).any():
            raise ValueError(
                f"gain: the table has no gain for the rating {float(rating[np.argmax(lacking)])!r}; it has gains for "
                f"{', '.join(map(repr, known.tolist()))}."
            )
        gains: FloatArray = np.array([self.gain[rating] for rating in known.tolist()], dtype=np.float64)[at]
        return gains

    def discounts(self, n: int) -> FloatArray:
        """Return the factors of ranks 1 to n."""
        rank = np.arange(1, n + 1, dtype=np.float64)
        factors: FloatArray = 1 / (np.log2(rank + 1) if self.discount == DISCOUNTS[0] else np.maximum(np.log2(rank), 1))
        return factors

    def ap_divisor(self, n_relevant: Any) -> Any:
        """Return what AP is divided by."""
        if self.k is None or self.ap_denominator == "relevant":
            return n_relevant
        return np.minimum(n_relevant, self.k)


@dataclass(frozen=True)
class Graded:
    """Judgements under the conventions, and each user's ideal."""

    judgements: Judgements
    first: IntArray
    item: IntArray
    gain: FloatArray
    relevant: BoolArray
    n_relevant: IntArray
    """Per user."""
    n_judged: IntArray
    ideal: FloatArray
    """Per user: the DCG of the best order of all that is judged."""

    @classmethod
    def of(cls, judgements: Judgements, conventions: Conventions) -> Graded:
        """Grade judgements."""
        gain = conventions.gains(judgements.rating)
        relevant = judgements.rating >= conventions.relevance_threshold
        user, first = judgements.user, judgements.first
        n = judgements.n_users
        n_judged = np.diff(first)
        best = np.lexsort((-gain, user))
        rank = np.arange(len(user)) - first[user]
        discounts = conventions.discounts(int(n_judged.max()) if n else 0)
        within = slice(None) if conventions.k is None else rank < conventions.k
        ideal = _sum(user[within], (gain[best] * discounts[rank])[within], n)
        return cls(
            judgements,
            first,
            judgements.item,
            gain,
            relevant,
            np.bincount(user[relevant], minlength=n),
            n_judged,
            ideal,
        )

    def with_threshold(self, threshold: float) -> Graded:
        """Return the same with another lowest rating that is relevant."""
        relevant = self.judgements.rating >= threshold
        n_relevant = np.bincount(self.judgements.user[relevant], minlength=len(self.n_relevant))
        return replace(self, relevant=relevant, n_relevant=n_relevant)


def _sum(owner: IntArray, values: Any, n: int) -> FloatArray:
    return np.bincount(owner, weights=values, minlength=n).astype(np.float64, copy=False)


def quotients(numerator: Any, denominator: Any) -> FloatArray:
    """Return quotients, 0 where the denominator is not above 0."""
    out: FloatArray = np.divide(numerator, denominator, out=np.zeros(np.shape(numerator)), where=denominator > 0)
    return out


def ap_and_ndcg(
    lists: Lists,
    graded: Mapping[str, Graded],
    conventions: Conventions,
    rows: Mapping[str, IntArray] | None = None,
) -> dict[str, tuple[FloatArray, FloatArray]]:
    """Return AP and NDCG of every list, for each set of judgements; arguments as for `sums`."""
    return {
        name: (
            quotients(precision, conventions.ap_divisor(graded[name].n_relevant)[lists.user]),
            quotients(dcg, graded[name].ideal[lists.user]),
        )
        for name, (precision, dcg) in sums(lists, graded, conventions, rows).items()
    }


def sums(
    lists: Lists,
    graded: Mapping[str, Graded],
    conventions: Conventions,
    rows: Mapping[str, IntArray] | None = None,
) -> dict[str, tuple[FloatArray, FloatArray]]:
    """Return the sum of precisions and the DCG of every list, for each set of judgements.

    Args:
        lists: The lists.
        graded: The judgements.
        conventions: The conventions.
        rows: The judgement of every row, -1 where there is none, per set. None: they are looked up on the way, which
            is quick where few items are judged.
    """
    discounts = conventions.discounts(int(lists.length.max()) if len(lists) else 0)
    found_sums = {name: (np.zeros(len(lists)), np.zeros(len(lists))) for name in graded}
    for part, start, list_of, find in _looked_up(lists, graded) if rows is None else _parts(lists, rows):
        for name, judged in graded.items():
            found_rows, which = find(name)
            owner = list_of.take(found_rows)
            rank = found_rows - start.take(owner) + 1
            gain, relevant = judged.gain.take(which), judged.relevant.take(which)
            if lists.group is None:
                dcg = _sum(owner, gain * discounts.take(rank - 1), len(start))
                owner, rank = owner[relevant], rank[relevant]
                found = np.bincount(owner, minlength=len(start))
                nth = np.arange(1, len(owner) + 1) - (np.cumsum(found) - found)[owner]
                precision = _sum(owner, nth / rank, len(start))
            else:
                first_row = int(lists.start[part.start])
                group = lists.group[first_row : first_row + len(list_of)]
                group = np.cumsum(np.diff(group, prepend=group[0]) != 0)
                dcg, precision = _expected(group, list_of, start, found_rows, gain, relevant, discounts, conventions.k)
            found_sums[name][0][part] = precision
            found_sums[name][1][part] = dcg
    return found_sums


_Find = Callable[[str], tuple[IntArray, IntArray]]


def _looked_up(lists: Lists, graded: Mapping[str, Graded]) -> Iterator[tuple[slice, IntArray, IntArray, _Find]]:
    """Yield lists, the first row and list of their rows, and what finds their judged rows by the items."""
    of_list = {name: (judged.first[lists.user], judged.n_judged[lists.user]) for name, judged in graded.items()}
    for chunk in lists.chunks():

        def find(name: str, chunk: Chunk = chunk) -> tuple[IntArray, IntArray]:
            first, n_judged = of_list[name]
            return chunk.find(first[chunk.lists], n_judged[chunk.lists], graded[name].item)

        yield chunk.lists, chunk.start, chunk.list_of, find


def _parts(lists: Lists, rows: Mapping[str, IntArray]) -> Iterator[tuple[slice, IntArray, IntArray, _Find]]:
    """Yield the same where the judgement of every row is known."""
    at_once = max(1, _ROWS_AT_ONCE // int(lists.length.max())) if len(lists) else 1
    for low in range(0, len(lists), at_once):
        part = slice(low, min(low + at_once, len(lists)))
        first, end = int(lists.start[low]), int(lists.start[part.stop - 1] + lists.length[part.stop - 1])

        def find(name: str, first: int = first, end: int = end) -> tuple[IntArray, IntArray]:
            at = rows[name][first:end]
            found = np.flatnonzero(at >= 0)
            return found, at.take(found)

        list_of = np.repeat(np.arange(part.stop - low), lists.length[part])
        yield part, lists.start[part] - first, list_of, find


def _expected(
    group: IntArray,
    list_of: IntArray,
    start: IntArray,
    rows: IntArray,
    gain: FloatArray,
    relevant: BoolArray,
    discounts: FloatArray,
    k: int | None,
) -> tuple[FloatArray, FloatArray]:
    """Return the expected DCG and sum of precisions over all orders of tied rows (McSherry and Najork, 2008)."""
    rank = np.arange(len(group)) - start[list_of] + 1
    places = tied_places(group, rank, discounts, k)
    dcg = _sum(list_of[rows], gain * places.discount[rows], len(start))

    row_relevant = np.zeros(len(group))
    row_relevant[rows] = relevant
    total = np.concatenate([np.zeros(1), np.cumsum(row_relevant)])
    in_group = _sum(group, row_relevant, int(group[-1]) + 1)
    rows = rows[relevant]
    of = list_of[rows]
    before = total[places.first[rows]] - total[start[of]]
    precision = (before + 1) * places.inverse[rows] + (in_group[group[rows]] - 1) * places.others[rows]
    return dcg, _sum(of, precision, len(start))


@dataclass(frozen=True)
class Places:
    """What the place of every row is worth, on average over all orders of the rows that it ties with."""

    discount: FloatArray
    inverse: FloatArray
    """1 / rank."""
    others: FloatArray
    """What a relevant row gains from each other relevant row of its group, on average over both."""
    first: IntArray
    """The first row of its group."""
    last: IntArray


def tied_places(group: IntArray, rank: IntArray, discounts: FloatArray, k: int | None) -> Places:
    """Weigh the places of rows, of which those beyond rank k bring nothing.

    Args:
        group: The group of tied rows that each row belongs to: 0, 1, 2, ... without a gap.
        rank: The rank of each row in its list, from 1.
        discounts: By rank.
        k: Where lists are cut.
    """
    n_groups = int(group[-1]) + 1 if len(group) else 0
    size = np.bincount(group, minlength=n_groups)
    first = np.cumsum(size) - size
    counted = np.ones(len(group), np.bool_) if k is None else rank <= k
    nth = np.arange(len(group)) - first[group]

    def mean(values: FloatArray, n: IntArray) -> FloatArray:
        of_group: FloatArray = _sum(group, np.where(counted, values, 0), n_groups) / np.maximum(n, 1)
        return of_group[group]

    return Places(
        discount=mean(discounts[rank - 1], size),
        inverse=mean(1 / rank, size),
        others=mean(nth / rank, size * (size - 1)),
        first=first[group],
        last=(first + size - 1)[group],
    )


def running(lists: Lists, values: Any) -> FloatArray:
    """Return sums from the top of each list down to every row, that row included."""
    total = np.concatenate([np.zeros(1), np.cumsum(values, dtype=np.float64)])
    sums: FloatArray = total[1:] - total[lists.start][lists.list_of]
    return sums


def hole_measures(
    lists: Lists, judged: Graded, at: IntArray, pooled: BoolArray, conventions: Conventions
) -> dict[str, FloatArray]:
    """Return bpref, infAP and AP and NDCG of condensed lists, per list.

    Args:
        lists: The lists.
        judged: The judgements.
        at: The judgement of every row, -1 where there is none.
        pooled: Whether a row's pair is in the pool or judged; infAP takes the others for not relevant.
        conventions: As for AP and NDCG. The divisor is the number of relevant items, as in trec_eval.
    """
    n, owner = len(lists), lists.list_of
    is_judged = at >= 0
    relevant = is_judged & judged.relevant[at] if len(judged.relevant) else np.zeros(len(at), np.bool_)
    n_relevant = judged.n_relevant[lists.user]
    n_other = judged.n_judged[lists.user] - n_relevant

    rows = np.flatnonzero(relevant)
    of = owner[rows]
    above = running(lists, is_judged & ~relevant)[rows]
    found = running(lists, relevant)[rows]  # this one included
    least = np.minimum(n_relevant, n_other)[of]
    penalty = np.divide(np.minimum(above, n_relevant[of]), least, out=np.zeros(len(rows)), where=above > 0)
    bpref = quotients(_sum(of, 1 - penalty, n), n_relevant)

    rank = lists.rank[rows]
    in_pool = running(lists, pooled)[rows] - 1
    known = found - 1 + above
    share = (found - 1 + INFAP_EPSILON) / (known + 2 * INFAP_EPSILON)
    infap = quotients(_sum(of, (1 + in_pool * share) / rank, n), n_relevant)

    condensed = running(lists, is_judged)
    ap = quotients(_sum(of, found / condensed[rows], n), conventions.ap_divisor(n_relevant))
    rows = np.flatnonzero(is_judged)
    discounts = conventions.discounts(int(lists.length.max()) if n else 0)
    dcg = _sum(owner[rows], judged.gain[at[rows]] * discounts[condensed[rows].astype(np.int64) - 1], n)
    return {
        "bpref": bpref,
        "infap": infap,
        "ap_condensed": ap,
        "ndcg_condensed": quotients(dcg, judged.ideal[lists.user]),
    }
