"""The ranked lists of all systems, from a table of scores: checked, put in order, cut at k.

A list is one system's items for one user. Rows of a list that stand together and are in order already, as in any run
that was written by rank, are used where they lie; everything else is sorted first.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from .tables import Coded, code, codes_of, numbers, read_columns

__all__ = ["Chunk", "Lists", "make_lists"]

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]

_ID_COLUMNS = ("system", "user", "item")
_CHUNK_CELLS = 1 << 20  # lists at once times items: the positions of a chunk (int32) stay in the cache


@dataclass(frozen=True)
class Lists:
    """Ranked lists, cut at k, of the users who are scored; rows of a list stand together, best first."""

    systems: list[str]
    users: list[str]
    items: pa.Array
    """The text of every item, of the judgements too; ``item`` holds positions in it."""
    system: IntArray
    user: IntArray
    start: IntArray
    length: IntArray
    item: npt.NDArray[Any]
    group: IntArray | None
    """For ties="expected": of each row, the number of its group of tied rows; those tied with rank k are kept then."""
    n_unknown_users: int
    n_lists_unknown_user: int
    n_rows: int
    n_ties: int
    """Rows whose score equals the one above, in the lists of all users."""
    checked: bool
    """Whether it is known that no item stands twice in a list; if not, `chunks` sees to it."""

    def __len__(self) -> int:
        """Return the number of lists."""
        return len(self.start)

    @cached_property
    def list_of(self) -> IntArray:
        """The list of every row."""
        return np.repeat(np.arange(len(self)), self.length)

    @cached_property
    def rank(self) -> IntArray:
        """The rank of every row in its list, from 1."""
        return np.arange(len(self.item)) - self.start[self.list_of] + 1

    @cached_property
    def key(self) -> IntArray:
        """One number for every row's (user, item) pair."""
        key: IntArray = self.user[self.list_of] * len(self.items) + self.item
        return key

    def of_systems(self, systems: list[int]) -> Lists:
        """Return the lists of some systems, which get the numbers 0, 1, ... in the order given."""
        number = np.full(len(self.systems), -1, np.int64)
        number[systems] = np.arange(len(systems))
        names = [self.systems[system] for system in systems]
        kept = np.flatnonzero(number[self.system] >= 0)
        if len(kept) == len(self):
            return replace(self, systems=names, system=number[self.system])
        return self._of(kept, self.length[kept], systems=names, system=number[self.system[kept]])

    def cut(self, depth: int | None) -> Lists:
        """Return the first items of every list."""
        if depth is None or not len(self) or int(self.length.max()) <= depth:
            return self
        return self._of(np.arange(len(self)), np.minimum(self.length, depth))

    def _of(self, kept: IntArray, length: IntArray, **more: Any) -> Lists:
        rows = _rows(self.start[kept], length)
        return replace(
            self,
            **{
                "system": self.system[kept],
                "user": self.user[kept],
                "start": np.cumsum(length) - length,
                "length": length,
                "item": self.item[rows],
                "group": None if self.group is None else self.group[rows],
                **more,
            },
        )

    def chunks(self) -> Iterator[Chunk]:
        """Go through the lists, a few at a time.

        Raises:
            ValueError: If they were not checked and an item stands twice in a list.
        """
        for chunk in _chunks(self.start, self.length, self.item, len(self.items)):
            if not self.checked and len(rows := chunk.repeated()):
                at = int(np.searchsorted(chunk.start, rows[0], side="right")) - 1 + chunk.lists.start
                item = int(chunk.key[rows[0]]) % len(self.items)
                raise _repeated(self.systems[self.system[at]], self.users[self.user[at]], self.items[item].as_py())
            yield chunk

    def check(self) -> Lists:
        """Go through the lists for the sake of what `chunks` raises."""
        if not self.checked:
            for _ in self.chunks():
                pass
        return replace(self, checked=True)


def _repeated(system: str, user: str, item: str) -> ValueError:
    return ValueError(
        f"runs: system {system!r} lists item {item!r} for user {user!r} more than once. Remove duplicates before "
        f"scoring."
    )


def _rows(start: IntArray, length: IntArray) -> IntArray:
    """Return the rows of lists, list after list."""
    ends = np.cumsum(length)
    total = int(ends[-1]) if len(ends) else 0
    rows: IntArray = np.arange(total) + np.repeat(start - (ends - length), length)
    return rows


@dataclass(frozen=True)
class Chunk:
    """Some lists that stand together, with the position of every item of theirs."""

    lists: slice
    start: IntArray
    """First row of each list, within the chunk."""
    list_of: IntArray
    """The list of each row, within the chunk."""
    key: IntArray
    """Of each row: list within the chunk times number of items, plus item."""
    position: npt.NDArray[np.int32]
    """Row of a key; what an earlier chunk left where there is none."""
    rows: npt.NDArray[np.int32]
    """0, 1, 2, ..."""
    n_items: int

    def repeated(self) -> IntArray:
        """Return rows whose item stands in their list again."""
        at = self.position.take(self.key)
        return np.empty(0, np.int64) if np.array_equal(at, self.rows) else np.flatnonzero(at != self.rows)

    def find(self, first: IntArray, n_judged: IntArray, item: npt.NDArray[Any]) -> tuple[IntArray, IntArray]:
        """Return the judged rows in order, and the judgement of each.

        Args:
            first: The first judgement of each list's user.
            n_judged: How many there are.
            item: The items of all judgements, those of a user together.
        """
        total = int(n_judged.sum())
        n = len(self.key)
        if not total or not n:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        before = np.cumsum(n_judged) - n_judged
        judgement = np.arange(total) + np.repeat(first - before, n_judged)
        key = np.repeat(np.arange(len(first)) * self.n_items, n_judged) + item[judgement]
        row = np.minimum(self.position.take(key), n - 1)
        hit = np.flatnonzero(self.key.take(row) == key)
        found = row.take(hit)
        order = np.argsort(found)
        return found.take(order), judgement.take(hit.take(order))


def _chunks(start: IntArray, length: IntArray, item: npt.NDArray[Any], n_items: int) -> Iterator[Chunk]:
    if not len(start):
        return
    at_once = min(max(1, _CHUNK_CELLS // max(n_items, 1)), len(start))
    position = np.zeros(at_once * max(n_items, 1), np.int32)
    longest = int(length.max())
    count = np.arange(at_once * longest, dtype=np.int32)
    even = bool((length == longest).all())
    list_of = np.repeat(np.arange(at_once), longest) if even else np.empty(0, np.int64)
    offset = list_of * n_items
    for low in range(0, len(start), at_once):
        high = min(low + at_once, len(start))
        first = int(start[low])
        n = int(start[high - 1] + length[high - 1]) - first
        if not even:
            list_of = np.repeat(np.arange(high - low), length[low:high])
            offset = list_of * n_items
        key = item[first : first + n] + offset[:n]
        position[key] = count[:n]
        yield Chunk(slice(low, high), start[low:high] - first, list_of[:n], key, position, count[:n], n_items)


def make_lists(
    runs: Any,
    users: pa.Array,
    more_items: list[pa.Array],
    k: int | None,
    ties: str,
) -> Lists:
    """Read, check and sort the runs.

    Args:
        runs: A table with the columns ``system``, ``user``, ``item`` and ``score``.
        users: The users who are scored; the lists of others are checked, counted and left out.
        more_items: Texts of items that judgements and pools name.
        k: Where the lists are cut; with ties="expected" after the last row that ties with this rank.
        ties: "trec" (item descending), "order" (as the rows stand) or "expected".

    Raises:
        ValueError: If there are no rows, a score is missing or NaN, or an item stands twice in a list.
    """
    columns = read_columns(runs, "runs", ("system", "user", "item", "score"))
    score = numbers(columns["score"], "runs", "score", nullable=True)
    with ThreadPoolExecutor(3) as threads:  # Arrow works outside the interpreter's lock
        reading = [threads.submit(code, columns[name], "runs", name, name != "item") for name in _ID_COLUMNS]
        system, user, item = (future.result() for future in reading)
    if not len(score):
        raise ValueError("runs is empty: there is no list to score.")
    if np.isnan(score.max()):
        row = int(np.argmax(np.isnan(score)))
        raise ValueError(
            f"runs row {row}: the score of system {system.row(row)!r}, user {user.row(row)!r}, item {item.row(row)!r} "
            f"is {'missing' if columns['score'][row].as_py() is None else 'NaN'}. A list cannot be put in order "
            f"without scores."
        )
    items = item.texts
    for texts in more_items:
        new = texts.filter(pc.invert(pc.is_in(texts, value_set=items)))
        items = pa.concat_arrays([items, new.unique()]) if len(new) else items

    start, of_system, of_user = _stretches(system, user, len(score))
    list_system, list_user, start, length, order = _grouped(start, of_system, of_user, len(user.texts), len(score))
    order, group, n_ties = _sorted(start, length, order, score, item.codes, items, ties)
    item_codes = item.codes if order is None else item.codes[order]
    names = system.texts.to_pylist()

    used = np.unique(list_system)
    by_name = sorted(used.tolist(), key=names.__getitem__)
    number = np.zeros(len(names), np.int64)
    number[by_name] = np.arange(len(by_name))
    known = codes_of(user, users).astype(np.int64)[list_user]
    kept = np.flatnonzero(known >= 0)
    dropped = len(known) > len(kept)
    k = int(length.max()) if k is None else k
    n_unknown = len(np.unique(list_user[known < 0])) if dropped else 0
    lengths = _reaching(start[kept], length[kept], group, k)
    checked = dropped or int(length.max()) > k
    if checked:
        for chunk in _chunks(start, length, item_codes, len(items)):
            if len(again := chunk.repeated()):
                row = int(start[chunk.lists.start]) + int(again[0])
                at = int(np.searchsorted(start, row, side="right")) - 1
                raise _repeated(
                    names[list_system[at]],
                    user.texts[int(list_user[at])].as_py(),
                    items[int(item_codes[row])].as_py(),
                )
        rows = _rows(start[kept], lengths)
        item_codes = item_codes[rows]
        group = group if group is None else group[rows]
        starts = np.cumsum(lengths) - lengths
    else:
        starts = start
    return Lists(
        systems=[names[s] for s in by_name],
        users=users.to_pylist(),
        items=items,
        system=number[list_system[kept]],
        user=known[kept],
        start=starts,
        length=lengths,
        item=item_codes,
        group=group,
        n_unknown_users=n_unknown,
        n_lists_unknown_user=len(known) - len(kept),
        n_rows=len(score),
        n_ties=n_ties,
        checked=checked,
    )


def _reaching(start: IntArray, length: IntArray, group: IntArray | None, k: int) -> IntArray:
    """Return how many rows of each list can stand among its first k."""
    cut = np.minimum(length, k)
    return cut if group is None else np.searchsorted(group, group[start + cut - 1], side="right") - start


def _stretches(system: Coded, user: Coded, n: int) -> tuple[IntArray, Any, Any]:
    """Return where the system or the user changes, and both there."""
    assert system.starts is not None
    assert user.starts is not None
    changes = np.zeros(n, np.bool_)
    changes[system.starts] = True
    changes[user.starts] = True
    start = np.flatnonzero(changes)
    of_system = system.codes[np.searchsorted(system.starts, start, side="right") - 1]
    of_user = user.codes[np.searchsorted(user.starts, start, side="right") - 1]
    return start, of_system, of_user


def _grouped(
    start: IntArray, system: Any, user: Any, n_users: int, n: int
) -> tuple[IntArray, IntArray, IntArray, IntArray, IntArray | None]:
    """Bring the rows of each list together, in the order in which they stand; None where they are."""
    key = system.astype(np.int64) * n_users + user
    length = np.diff(start, append=n)
    lists, of_stretch = np.unique(key, return_inverse=True)
    if len(lists) == len(key):
        return system.astype(np.int64), user.astype(np.int64), start, length, None
    by_list = np.argsort(of_stretch, kind="stable")
    order = _rows(start[by_list], length[by_list])
    sizes = np.bincount(of_stretch, weights=length, minlength=len(lists)).astype(np.int64)
    list_system, list_user = np.divmod(lists, n_users)
    return list_system, list_user, np.cumsum(sizes) - sizes, sizes, order


def _sorted(
    start: IntArray,
    length: IntArray,
    order: IntArray | None,
    score: FloatArray,
    item: Any,
    items: pa.Array,
    ties: str,
) -> tuple[IntArray | None, IntArray | None, int]:
    """Sort the lists that are not in order; return the order of all rows (None: as they are), and groups of ties."""
    score = score if order is None else score[order]
    falls = score[1:] < score[:-1]
    falls[start[1:] - 1] = True
    if falls.all():
        return order, np.arange(len(score)) if ties == "expected" else None, 0
    lists = np.unique(np.searchsorted(start, np.flatnonzero(~falls), side="right") - 1)
    rows = _rows(start[lists], length[lists])
    owner = np.repeat(np.arange(len(lists)), length[lists])
    whole = np.arange(len(score)) if order is None else order
    if ties == "order":
        tie = whole[rows]
    else:
        place = np.empty(len(items), np.int64)
        place[pc.sort_indices(items).to_numpy()] = np.arange(len(items))
        tie = -place[item[whole[rows]]]
    by_rank = rows[np.lexsort((tie, -score[rows], owner))]
    order = whole.copy()
    order[rows] = whole[by_rank]
    score = score.copy()
    score[rows] = score[by_rank]
    same = score[1:] == score[:-1]
    same[start[1:] - 1] = False
    group = np.concatenate([np.zeros(1, np.int64), np.cumsum(~same)]) if ties == "expected" else None
    return order, group, int(same.sum())
