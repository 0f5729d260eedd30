"""What AP and NDCG could become, whatever the missing judgements turn out to be.

A hole is a pair of the pool, or of the lists, that is not judged. Its grade can be any of a set of grades. The bounds
of a list hold for every way to fill all of its user's holes, and are reached (see `tight`):

AP. For a number j of holes of the list that are relevant, AP is highest if they are the first j, lowest if they are the
last j; holes outside the list only add to what AP is divided by. So the bounds are the extremes over j.

NDCG is a linear function of the holes' gains over a convex one. Its minimum lies where every gain is an extreme, so
again at the last j. For its maximum the gains are cut into the steps of their scale: in each step the first n of the
holes are raised, and n is chosen so that DCG - x IDCG is largest; x is raised to the ratio that this gives until it no
longer grows (Dinkelbach, 1967).

The same holds of expectations over the orders of tied rows: a hole in a higher group of ties counts for more than one
in a lower group in every order, and holes of one group count alike.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from .lists import Lists
from .measures import Conventions, Graded, quotients, tied_places

__all__ = ["Bounds", "bounds"]

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]

_LEVELS = 64  # distinct gains kept apart; with more, NDCG's bounds still enclose, but are wider
_LISTS_AT_ONCE = 100_000  # rows of lists in one piece


@dataclass(frozen=True)
class Bounds:
    """The bounds of every list."""

    ap_lower: FloatArray
    ap_upper: FloatArray
    ndcg_lower: FloatArray
    ndcg_upper: FloatArray
    ap_tight: bool
    """Some filling reaches the bound of every list; those of the mean are reached too, as users are independent."""
    ndcg_tight: bool


@dataclass(frozen=True)
class _Scale:
    """The gains that occur, as levels; each level is the interval up to it from the one below."""

    level: FloatArray
    step: FloatArray
    """The gains a hole can have, from 0."""
    fewest: IntArray
    """(user, level): judged items whose gain reaches the level."""
    most: IntArray
    """(user, level): judged items whose gain is above the level below; more than `fewest` where levels were merged."""
    exact: bool


def _scale(judged: Graded, hole_gains: FloatArray) -> _Scale:
    step = np.unique(np.concatenate([np.zeros(1), hole_gains]))
    gains = np.unique(judged.gain[judged.gain > 0])
    exact = len(gains) <= _LEVELS
    if not exact:
        gains = gains[np.unique(np.linspace(0, len(gains) - 1, _LEVELS).astype(np.int64))]
    level = np.unique(np.concatenate([gains, step[1:]]))
    n_users, n = judged.judgements.n_users, len(level)
    user = judged.judgements.user

    def count(reached: IntArray) -> IntArray:
        """Count per user, from how many levels each item reaches."""
        cells = np.bincount(user * (n + 1) + reached, minlength=n_users * (n + 1)).reshape(n_users, n + 1)
        return np.cumsum(cells[:, ::-1], axis=1)[:, ::-1][:, 1:].astype(np.int64)

    fewest = count(np.searchsorted(level, judged.gain, side="right"))
    touched = np.searchsorted(np.concatenate([np.zeros(1), level]), judged.gain, side="left")
    return _Scale(level, step, fewest, count(touched), exact)


def bounds(
    lists: Lists, judged: Graded, at: IntArray, n_holes: IntArray, grades: FloatArray, conventions: Conventions
) -> Bounds:
    """Return the bounds of AP and NDCG of every list.

    Args:
        lists: The lists; with groups of ties, the bounds are of the expectation over their orders.
        judged: The judgements.
        at: The judgement of every row, -1 for a hole.
        n_holes: Per user, the holes of the pool and all lists.
        grades: The grades that a hole can have.
        conventions: As for AP and NDCG.
    """
    can_be_relevant = bool((grades >= conventions.relevance_threshold).any())
    can_be_other = bool((grades < conventions.relevance_threshold).any())
    hole_gains = conventions.gains(grades)
    scale = _scale(judged, hole_gains)
    out = [np.zeros(len(lists)) for _ in range(4)]
    longest = int(lists.length.max()) if len(lists) else 1
    at_once = max(1, _LISTS_AT_ONCE // longest)
    n_max = int((judged.n_judged + n_holes).max()) + longest + 1
    discounts = conventions.discounts(max(n_max, longest))
    limit = len(discounts) if conventions.k is None else min(conventions.k, len(discounts))
    summed = np.concatenate([np.zeros(1), np.cumsum(discounts[:limit])])
    # Without ties, or with ties in one order, every row is a group of its own.
    group = np.arange(len(lists.item)) if lists.group is None else np.cumsum(np.diff(lists.group, prepend=0) != 0)
    places = tied_places(group - group[0] if len(group) else group, lists.rank, discounts, conventions.k)
    column = np.arange(longest)
    for low in range(0, len(lists), at_once):
        part = slice(low, min(low + at_once, len(lists)))
        user, start = lists.user[part], lists.start[part][:, None]
        inside = column < lists.length[part][:, None]
        row = np.minimum(start + column, len(at) - 1)
        where = np.where(inside, at[row], -1)
        holes = inside & (where < 0)
        n_out = n_holes[user] - holes.sum(axis=1)
        relevant = (where >= 0) & (judged.relevant[where] if len(judged.relevant) else False)
        gain = np.where(where >= 0, judged.gain[where] if len(judged.gain) else 0.0, 0.0)
        ties = None
        if lists.group is not None:
            ties = tuple(np.where(inside, ends[row] - start, 0) for ends in (places.first, places.last))
        out[0][part], out[1][part] = _ap(
            _Rows(relevant, holes, places.inverse[row], places.others[row], ties),
            judged.n_relevant[user],
            n_out,
            can_be_relevant,
            conventions,
        )
        out[2][part], out[3][part] = _ndcg(gain, holes, places.discount[row], scale, user, n_out, summed)
    return Bounds(
        out[0],
        out[1],
        out[2],
        out[3],
        ap_tight=can_be_other or not can_be_relevant,
        ndcg_tight=scale.exact and bool(hole_gains.min() == 0),
    )


@dataclass(frozen=True)
class _Rows:
    """Lists side by side, (list, rank), filled up with rows that are nothing."""

    relevant: Any
    holes: Any
    inverse: FloatArray
    """As in `Places`."""
    others: FloatArray
    ties: tuple[IntArray, ...] | None
    """The first and the last place of each row's group of ties, from 0; None: each row is its own."""

    def above(self, values: Any) -> Any:
        """Sum over the rows of the groups above each row's."""
        total = np.cumsum(values, axis=1)
        return total - values if self.ties is None else np.take_along_axis(total - values, self.ties[0], axis=1)

    def down_to(self, values: Any) -> Any:
        """Sum over the rows of the groups above each row's, and of its own."""
        total = np.cumsum(values, axis=1)
        return total if self.ties is None else np.take_along_axis(total, self.ties[1], axis=1)


def _ap(
    rows: _Rows, n_relevant: IntArray, n_out: IntArray, can_be_relevant: bool, conventions: Conventions
) -> tuple[FloatArray, FloatArray]:
    relevant, holes = rows.relevant, rows.holes
    before = rows.above(relevant.astype(np.int64))
    own = rows.down_to(relevant.astype(np.int64)) - before
    base = np.where(relevant, (before + 1) * rows.inverse + (own - 1) * rows.others, 0.0).sum(axis=1)

    def ratio(numerator: FloatArray, count: IntArray) -> FloatArray:
        return quotients(*np.broadcast_arrays(numerator, conventions.ap_divisor(count)))

    if not can_be_relevant:
        value = ratio(base, n_relevant)
        return value, value

    def below(flags: Any) -> Any:
        """Sum the inverse ranks of flagged rows in the groups below: what one more relevant row brings each of them."""
        inverse = np.where(flags, rows.inverse, 0.0)
        return inverse.sum(axis=1)[:, None] - rows.down_to(inverse)

    n_above = np.cumsum(holes, axis=1) - holes
    n_before = rows.above(holes.astype(np.int64))
    # The first j holes: all holes above one are relevant, none below.
    added = (before + n_before + 1) * rows.inverse + 2 * (own + n_above - n_before) * rows.others + below(relevant)
    numerator = base[:, None] + np.cumsum(np.where(holes, added, 0.0), axis=1)
    value = ratio(numerator, n_relevant[:, None] + n_above + holes)
    upper = np.maximum(np.where(holes, value, 0.0).max(axis=1), ratio(base, n_relevant))
    # The last j holes: all holes below one are relevant, none above.
    n_below = rows.down_to(holes.astype(np.int64)) - n_above - 1  # in the same group
    added = (before + 1) * rows.inverse + 2 * (own + n_below) * rows.others + below(relevant) + below(holes)
    from_below = np.cumsum(np.where(holes, added, 0.0)[:, ::-1], axis=1)[:, ::-1]
    n_last = holes.sum(axis=1)[:, None] - n_above
    value = ratio(base[:, None] + from_below, (n_relevant + n_out)[:, None] + n_last)
    lower = np.minimum(np.where(holes, value, np.inf).min(axis=1), ratio(base, n_relevant + n_out))
    return lower, upper


def _ndcg(
    gain: FloatArray,
    holes: Any,
    discount: FloatArray,
    scale: _Scale,
    user: IntArray,
    n_out: IntArray,
    summed: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    n_lists = len(gain)
    base = (gain * discount).sum(axis=1)
    n_in = holes.sum(axis=1)
    widest = int(n_in.max()) if n_lists else 0
    # Sums of the discounts of the first n and of the last n holes, n = 0 ... widest; nothing beyond a list's holes.
    owner, place = np.nonzero(holes)
    nth = (np.cumsum(holes, axis=1) - 1)[owner, place]
    first = np.zeros((n_lists, widest + 1))
    first[owner, nth + 1] = discount[owner, place]
    last = np.zeros((n_lists, widest + 1))
    last[owner, n_in[owner] - nth] = discount[owner, place]
    first, last = np.cumsum(first, axis=1), np.cumsum(last, axis=1)
    n = np.arange(widest + 1)
    allowed = n <= n_in[:, None]

    width = np.diff(scale.level, prepend=0.0)
    top = float(scale.step[-1])
    end = len(summed) - 1

    def ideal(levels: Any, counts: IntArray, raised: IntArray | int) -> Any:
        """Sum, over some levels, what the items that reach each level bring to the ideal, with some raised to it."""
        total: Any = 0.0
        for at in np.flatnonzero(levels).tolist():
            reach = counts[user, at]
            reach = reach[:, None] + raised if isinstance(raised, np.ndarray) else reach + raised
            total = total + width[at] * summed[np.minimum(reach, end)]
        return total

    steps = [
        (float(high - low), (scale.level > low) & (scale.level <= high))
        for low, high in zip(scale.step[:-1], scale.step[1:], strict=True)
    ]
    above = scale.level > top

    # Lower: the last j holes and all holes outside the list have the highest gain.
    value = np.broadcast_to(ideal(above, scale.most, 0), (n_lists,))[:, None]
    value = value + ideal(scale.level <= top, scale.most, n_out[:, None] + n)
    value = np.where(allowed, quotients(base[:, None] + top * last, value), np.inf)
    lower = value.min(axis=1)

    # Upper: nothing outside the list has a gain.
    rest = np.broadcast_to(np.asarray(ideal(above, scale.fewest, 0), np.float64), (n_lists,))
    choices = [
        (
            np.where(allowed, size * first, -np.inf),
            np.broadcast_to(ideal(levels, scale.fewest, n[None, :]), first.shape),
        )
        for size, levels in steps
    ]
    rows = np.arange(n_lists)
    upper = quotients(base, rest + sum((costs[:, 0] for _, costs in choices), np.zeros(n_lists)))
    for _ in range(100):
        dcg, best = base.copy(), rest.copy()
        for gains, costs in choices:
            pick = np.argmax(gains - upper[:, None] * costs, axis=1)
            dcg += gains[rows, pick]
            best += costs[rows, pick]
        value = quotients(dcg, best)
        if not (value > upper + 1e-15).any():
            break
        upper = np.maximum(upper, value)
    return np.minimum(lower, upper), upper
