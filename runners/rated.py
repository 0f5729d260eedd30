"""Rated histories: what each user rated in training, as lines of a prompt, and the text of a candidate item.

It reads tables of ratings and of metadata. It knows nothing of models, stages or work folders.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from .prompts import clean

__all__ = ["METADATA", "ItemTexts", "RatedHistories", "RatedUser", "choose_shown"]

METADATA: Mapping[str, tuple[str, ...]] = {
    "title": ("title", "original_title", "movie_title:token_seq", "name"),
    "authors": ("authors", "author", "artist"),
    "year": ("year", "original_publication_year", "release_year:token"),
    "genres": ("genres", "genre", "class:token_seq", "category", "tags"),
    "plot": ("plot", "overview", "description"),
}
"""What is shown of an item, and the names under which a column is found in a file."""
MAX_FIELD_CHARS = 200
MAX_PLOT_CHARS = 1000
SEPARATOR = " | "


class ItemTexts:
    """What is known of each item, as text."""

    def __init__(self, items: pa.Table | None) -> None:
        """Read metadata.

        Args:
            items: ``item`` and some of the columns of :data:`METADATA`; None: nothing is known but ids.
        """
        self._place: dict[str, int] = {}
        self._fields: dict[str, list[str]] = {}
        if items is None:
            return
        self._place = {item: at for at, item in enumerate(items["item"].to_pylist())}
        for field, names in METADATA.items():
            name = next((name for name in names if name in items.column_names), None)
            if name is not None:
                longest = MAX_PLOT_CHARS if field == "plot" else MAX_FIELD_CHARS
                self._fields[field] = [_shown(value, field, longest) for value in items[name].to_pylist()]

    @property
    def has_plots(self) -> bool:
        """Whether any item has a plot."""
        return any(self._fields.get("plot", ()))

    def known(self, item: str) -> bool:
        """Return whether an item has a title; one without is shown by its id."""
        return bool(self._value(item, "title"))

    def text(self, item: str, *, plot: bool = False) -> str:
        """Return an item's line: title, authors, year, genres and, where it is asked for and known, the plot."""
        fields = [self._value(item, "title") or f"(no title, item {clean(item, MAX_FIELD_CHARS)})"]
        fields += [value for field in ("authors", "year", "genres") if (value := self._value(item, field))]
        if plot and (told := self._value(item, "plot")):
            fields.append(f"Plot: {told}")
        return SEPARATOR.join(fields)

    def _value(self, item: str, field: str) -> str:
        place = self._place.get(item)
        return "" if place is None or field not in self._fields else self._fields[field][place]


@dataclass(frozen=True)
class RatedUser:
    """One user's training ratings, newest first."""

    items: tuple[str, ...]
    ratings: npt.NDArray[np.float64]

    @cached_property
    def telling(self) -> npt.NDArray[np.int64]:
        """Places by how far the rating is from the user's mean, farthest first; equal ones newest first."""
        order: npt.NDArray[np.int64] = np.argsort(-np.abs(self.ratings - self.ratings.mean()), kind="stable")
        return order


class RatedHistories:
    """The training histories of some users."""

    def __init__(self, ratings: pa.Table, texts: ItemTexts, users: Sequence[str]) -> None:
        """Take the training ratings.

        Args:
            ratings: ``user``, ``item``, ``rating``, ``time``, ``split``; those of the training side are used. Newest
                first for each user, as the split step writes them.
            texts: of the items.
            users: whose histories are wanted.
        """
        wanted = pa.array(users, pa.string())
        user = ratings["user"].cast(pa.string())
        kept = ratings.filter(pc.and_(pc.equal(ratings["split"], "train"), pc.is_in(user, value_set=wanted)))
        bounds = pc.min_max(ratings["rating"]).as_py()
        self.scale = f"{bounds['min']:g} to {bounds['max']:g}"
        self.highest = float(bounds["max"])
        self.texts = texts
        places = pc.index_in(kept["user"].cast(pa.string()), value_set=wanted).to_numpy()
        by_user = np.argsort(places, kind="stable")
        ends = np.cumsum(np.bincount(places, minlength=len(users)))
        items = kept["item"].cast(pa.string()).take(pa.array(by_user)).to_pylist()
        values = kept["rating"].to_numpy()[by_user].astype(np.float64)
        self._users = {
            name: RatedUser(tuple(items[start:end]), values[start:end])
            for name, start, end in zip(users, [0, *ends[:-1].tolist()], ends.tolist(), strict=True)
        }

    @property
    def users(self) -> Iterable[str]:
        """All users."""
        return self._users

    def of(self, user: str) -> RatedUser:
        """Return one user's ratings."""
        return self._users[user]

    def lines(self, user: str, max_items: int | None = None, max_bytes: float | None = None) -> list[str]:
        """Return the lines of the rated items that are shown, newest first.

        Args:
            user: one of the users.
            max_items: how many at most.
            max_bytes: how long they may be together.
        """
        one = self._users[user]
        lines = [
            f"{rating:g}{SEPARATOR}{self.texts.text(item)}" for item, rating in zip(one.items, one.ratings, strict=True)
        ]
        sizes = np.array([len(line.encode()) + 1 for line in lines], dtype=np.int64)
        shown = choose_shown(sizes, one.telling, max_items, max_bytes) if lines else ()
        return [lines[place] for place in shown]


def choose_shown(
    sizes: npt.NDArray[np.int64],
    telling: npt.NDArray[np.int64],
    max_items: int | None,
    max_bytes: float | None,
) -> list[int]:
    """Choose which of a history's items are shown: the newest and the most telling in turn, while there is room.

    Args:
        sizes: bytes of each item's line, newest first, (items,).
        telling: places, the most telling first, (items,).
        max_items, max_bytes: what is shown has at most so many; None: no limit.

    Returns:
        Places, ascending.

    >>> choose_shown(np.full(6, 10), np.array([5, 4, 0, 1, 2, 3]), max_items=4, max_bytes=None)
    [0, 1, 4, 5]
    """
    n = len(sizes)
    most = n if max_items is None else min(n, max_items)
    room = float(sizes.sum()) if max_bytes is None else max_bytes
    if most == n and sizes.sum() <= room:
        return list(range(n))
    chosen: set[int] = set()
    queues = [iter(range(n)), iter(telling.tolist())]
    turn = 0
    while len(chosen) < most:
        place = next((place for place in queues[turn % 2] if place not in chosen), None)
        turn += 1
        if place is None or sizes[place] > room:
            break
        chosen.add(place)
        room -= float(sizes[place])
    return sorted(chosen)


def _shown(value: object, field: str, longest: int) -> str:
    """Return a field on one line; separators within genres become commas."""
    if value is None or value != value:  # NaN
        return ""
    if isinstance(value, (list, tuple)):
        value = ", ".join(map(str, value))
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    text = str(value)
    if field == "year":
        text = text.removesuffix(".0")
    if field == "genres":
        text = text.replace("|", ", ")
    return clean(text.replace(SEPARATOR, " / "), longest)
