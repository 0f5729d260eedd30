"""Reads which category a judge gave to each interest of a numbered batch.

It does not know a taxonomy beyond the ids and names it is handed. An interest that the answer does not map is absent,
to be asked again: absent is not category 0.
"""

import re
from collections.abc import Container, Iterator, Mapping, Sequence
from functools import lru_cache

from .answers import THINK_TAGS, Parsed, answer_of, excerpt, strip_fence
from .json_values import read_whole

__all__ = ["NO_CATEGORY", "parse_mapping"]

NO_CATEGORY = 0
"""The category of interests that fit no other."""

_NO_CATEGORY_WORDS = ("other", "none")

_SEPARATOR = r"(?:=>|->|→|[:=]|[.)](?=\s)|(?<=\s)[-–](?=\s))"
_KEY = re.compile(rf"(?:interests?\s*+)?(?:#\s*+)?([0-9]{{1,6}})\s*+{_SEPARATOR}\s*+", re.IGNORECASE)
_NAME_SEPARATOR = re.compile(r"\s*(?:=>|->|→|[:=]|\s[-–]\s)\s*")
_NEXT_ENTRY = re.compile(rf"[,;]\s*+(?=(?:interests?\s*+)?(?:#\s*+)?[0-9]{{1,6}}\s*+{_SEPARATOR})", re.IGNORECASE)
_BULLET = re.compile(r"\A[-*•·+]\s++")
_DECORATION = str.maketrans(dict.fromkeys('"“”`*', None))
_CATEGORY_ID = re.compile(r"(?:cat(?:egory)?\.?\s*(?:id)?\s*[#:]?\s*)?([0-9]{1,9})(?![0-9])\s*(.*)", re.IGNORECASE)
_PARENTHESIS = re.compile(r"\(([^()]*)\)")
_AFTER_DASH = re.compile(r"[-–—:]\s*([^0-9]*)")
_NAME_WITH_ID = re.compile(r"(.*\S)\s*[(\[]\s*([0-9]{1,9})\s*[)\]]")


def parse_mapping(
    text: str,
    names: Sequence[str],
    category_ids: Container[int],
    *,
    category_names: Mapping[int, str] | None = None,
    finish_reason: str | None = None,
    reasoning_tags: tuple[str, str] | None = THINK_TAGS,
) -> Parsed[tuple[tuple[str, int], ...]]:
    """Read the categories of interests that were shown numbered from 1.

    An entry is the interest's number (or its name, exactly), a separator and a category: its id, ``Category 16``, or
    its name in any case; category 0, ``OTHER`` and ``NONE`` say that none fits. Entries stand one a line, or separated
    by commas or semicolons, or in a JSON object; lines that are no entry are passed over. As many bare ids, one a
    line, as there are interests are taken in order.

    Args:
        text: the answer, whatever it is.
        names: the interests as shown; the first has number 1.
        category_ids: the ids of the taxonomy, for example ``range(1, 326)``; 0 need not be among them.
        category_names: the taxonomy's names by id, to read and check names.
        finish_reason: as the engine gave it; with "length" the last entry is not read (16 may be all that came of 163).
        reasoning_tags: delimiters of reasoning; None: the text holds none.

    Returns:
        ok: (name, category id) pairs in the order of the names, without those that were not mapped readably;
        truncated: the same of an answer that was cut off; invalid: nothing readable, or two categories for one
        interest.

    >>> dict(parse_mapping("1: 16, 2. Category 31", ["Jazz", "Chess", "Tea"], range(1, 51)).value)
    {'Jazz': 16, 'Chess': 31}
    """
    answer = strip_fence(answer_of(text, reasoning_tags))
    if not answer:
        return Parsed("invalid", None, "The answer is empty." if not text.strip() else "The answer is reasoning only.")
    taxonomy = _Taxonomy(category_ids, category_names or {})
    entries = _json_entries(answer, names)
    cut = entries is None and finish_reason == "length"
    if entries is None:
        entries = list(_line_entries(answer, names))
        entries = entries[:-1] if cut else entries or _bare_entries(answer, names)
    read = [(number, taxonomy.read(_without_echo(value, names[number - 1]))) for number, value in entries]
    found: dict[int, int] = {}
    for number, category in read:
        if category is not None and found.setdefault(number, category) != category:
            problem = f"Interest {number} is mapped to {found[number]} and to {category}."
            return Parsed("invalid", None, problem)
    # An entry that cannot be read, beside one that can, leaves it open which was meant.
    unclear = {number for number, category in read if category is None}
    pairs = tuple((names[number - 1], found[number]) for number in sorted(found.keys() - unclear))
    if not pairs:
        cut_off = " (it was cut off)" if cut else ""
        return Parsed("invalid", None, f"No interest is mapped to a category{cut_off}: {excerpt(answer)}.")
    if cut:
        return Parsed("truncated", pairs, f"The answer was cut off after {len(pairs)} of {len(names)} interests.")
    return Parsed("ok", pairs)


class _Taxonomy:
    """Reads a category as a judge wrote it."""

    def __init__(self, ids: Container[int], names: Mapping[int, str]) -> None:
        self._ids = ids
        self._by_name = _ids_by_name(tuple(names.items()))

    def read(self, text: str) -> int | None:
        """Return the category, or None when it is not in the taxonomy or not clear ("Other" where one is called so)."""
        text = _plain(text.rstrip(" \t,;"))
        text = text if text in self._by_name else text.removesuffix(".")
        named = self._by_name.get(text)
        if text in _NO_CATEGORY_WORDS:
            return NO_CATEGORY if named is None else None
        if named is not None:
            return next(iter(named)) if len(named) == 1 else None
        by_id = _CATEGORY_ID.fullmatch(text)
        if by_id is not None:
            return self._with_comment(int(by_id.group(1)), by_id.group(2))
        with_id = _NAME_WITH_ID.fullmatch(text)
        if with_id is not None and int(with_id.group(2)) in self._by_name.get(with_id.group(1), ()):
            return self._valid(int(with_id.group(2)))
        return None

    def _with_comment(self, category_id: int, comment: str) -> int | None:
        """Check an id against what stands after it: nothing, a remark in parentheses, or its name after a dash."""
        if not comment:
            return self._valid(category_id)
        remark = _PARENTHESIS.fullmatch(comment)
        if remark is not None:
            meant = self._by_name.get(remark.group(1).strip())
            return self._valid(category_id) if meant is None or category_id in meant else None
        after_dash = _AFTER_DASH.fullmatch(comment)
        if after_dash is None:
            return None
        meant = self._by_name.get(after_dash.group(1).strip())
        fits = category_id in meant if meant is not None else not self._by_name
        return self._valid(category_id) if fits else None

    def _valid(self, category_id: int) -> int | None:
        return category_id if category_id == NO_CATEGORY or category_id in self._ids else None


@lru_cache(maxsize=8)
def _ids_by_name(names: tuple[tuple[int, str], ...]) -> Mapping[str, set[int]]:
    """Return the ids of each plain name; made once for a taxonomy, of which every answer is read."""
    by_name: dict[str, set[int]] = {}
    for category_id, name in names:
        by_name.setdefault(_plain(name), set()).add(category_id)
    return by_name


def _json_entries(answer: str, names: Sequence[str]) -> list[tuple[int, str]] | None:
    """Return (number, category as written) of a JSON object, or None when the answer is not one."""
    # Pairs, not a dict: a key that stands twice may be a contradiction.
    whole = read_whole(answer, pairs_hook=_Pairs)
    pairs = whole.value if whole is not None else None
    if isinstance(pairs, _Pairs) and len(pairs) == 1 and isinstance(pairs[0][1], _Pairs):
        pairs = pairs[0][1]
    if not isinstance(pairs, _Pairs):
        return None
    entries: list[tuple[int, str]] = []
    for key, value in pairs:
        number = _number(key, names)
        if number is not None:
            readable = isinstance(value, (int, str)) and not isinstance(value, bool)
            entries.append((number, str(value) if readable else ""))
    return entries


class _Pairs(list[tuple[str, object]]):
    """The pairs of a JSON object, which lists are not."""


def _line_entries(answer: str, names: Sequence[str]) -> Iterator[tuple[int, str]]:
    for line in answer.split("\n"):
        line = _BULLET.sub("", line.strip().strip("{}").strip()).translate(_DECORATION).strip()
        for part in _NEXT_ENTRY.split(line):
            key = _KEY.match(part)
            if key is not None:
                number, value = int(key.group(1)), part[key.end() :]
                if 1 <= number <= len(names):
                    yield number, value
                continue
            for number, name in enumerate(names, start=1):
                value_of_name = _after_name(part, name)
                if value_of_name is not None:
                    yield number, value_of_name


def _bare_entries(answer: str, names: Sequence[str]) -> list[tuple[int, str]]:
    lines = [line.strip() for line in answer.split("\n") if line.strip()]
    if len(lines) == len(names) and all(re.fullmatch(r"[0-9]{1,9}", line) for line in lines):
        return list(enumerate(lines, start=1))
    return []


def _number(key: str, names: Sequence[str]) -> int | None:
    """Return the number of the interest that a key of a JSON object means."""
    as_number = re.fullmatch(r"(?:interest[\s_]*+)?(?:#\s*+)?([0-9]{1,6})[.)]?", key.strip(), re.IGNORECASE)
    if as_number is not None:
        number = int(as_number.group(1))
        return number if 1 <= number <= len(names) else None
    meant = [number for number, name in enumerate(names, start=1) if _plain(name) == _plain(key)]
    return meant[0] if len(meant) == 1 else None


def _without_echo(value: str, name: str) -> str:
    """Remove the interest's own name, where the judge repeated it before the category."""
    after = _after_name(value, name)
    return value if after is None else after


def _after_name(text: str, name: str) -> str | None:
    """Return what follows an interest's name and a separator, or None when the text does not begin so."""
    name = _plain(name)
    if not name or not _plain(text[: 2 * len(name) + 20]).startswith(name):
        return None
    text = _plain(text)
    separator = _NAME_SEPARATOR.match(text, len(name))
    return text[separator.end() :] if separator is not None else None


def _plain(text: str) -> str:
    """Return a text without what does not tell names apart: case, emphasis, double quotes, runs of space."""
    return " ".join(text.translate(_DECORATION).casefold().split())
