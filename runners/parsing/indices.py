"""Reads which of the shown items a judge selected, under a strict grammar.

What would have to be read between the lines is invalid and asked again: a count taken for an index, or a negation
overlooked, would be a wrong judgement that nobody sees. It does not know what the items are.
"""

import functools
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .answers import THINK_TAGS, Parsed, answer_of, excerpt, strip_fence
from .json_values import read_whole

__all__ = ["ITEM_WORDS", "SelectedIndices", "parse_indices"]

ITEM_WORDS = ("item", "items", "object", "objects", "id", "ids", "index", "indices")
"""The words that may stand before an index, in any case."""

_MAX_DIGITS = 9
"""Longer numbers are out of any range; Python refuses to read very long ones."""

_LEAD_IN = re.compile(r"\A[^\d:\n\[{]{1,100}:\s*+(?=\S)")
_NEGATION = re.compile(
    r"\b(?:no|not|none|non|nor|never|neither|without|but|except\w*|exclud\w*|omit\w*|reject\w*|remov\w*|discard\w*"
    r"|drop\w*|skip\w*|ignor\w*|other\w*|remaining|rest|un[a-z]+|ir[a-z]+|in(?:correct|valid|eligible)\w*|mis[a-z]+"
    r"|wrong\w*|false|\w+n['’]t)\b",
    re.IGNORECASE,
)
_ANSWER_KEYS = ("answer", "output", "result", "selected", "selection")
"""Keys of a JSON object whose string is read like an answer, beside the item words."""

_NONE = re.compile(r"[\s\"'“”‘’`*_\[\](){}]*+none[\s\"'“”‘’`*_\[\](){}.!]*+\Z", re.IGNORECASE)
_BULLET = re.compile(r"^[ \t]*+[-*•·+][ \t]++", re.MULTILINE)
_DECORATION = str.maketrans(dict.fromkeys("\"'“”‘’`*", " "))
_COMMA_NUMBER = re.compile(r"[0-9]+(?:,[0-9]+)+")
_THOUSANDS = re.compile(r"[0-9]{1,3}(?:,[0-9]{3})+")

_RANGE = re.compile(r"[-–—]|\s++[-–—]\s++|\s*+\.\.\.?\s*+|\s++(?:to|through)\s++", re.IGNORECASE)
_SEPARATOR = re.compile(r"\s*+(?:[,;]\s*+(?:(?:and|&)\s++)?|(?:and|&)\s++)|\s++(?:(?:and|&)\s++)?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class SelectedIndices:
    """The items that a judge selected."""

    indices: tuple[int, ...]
    """Each once, in the order given, at most ``limit``; all within the items shown."""

    n_out_of_range: int = 0
    """Items named that were not shown."""

    n_over_selected: int = 0
    """Valid selections beyond the limit."""


def parse_indices(
    text: str,
    n_items: int,
    *,
    limit: int | None = None,
    item_words: Sequence[str] = ITEM_WORDS,
    finish_reason: str | None = None,
    reasoning_tags: tuple[str, str] | None = THINK_TAGS,
) -> Parsed[SelectedIndices]:
    """Read the selection of a judge among items numbered from 0.

    An answer is a list of indices and nothing else, with or without an item word before each, with commas,
    semicolons, spaces, line breaks, bullets or "and" between them, or ranges (``0-3``, ``item_0 to item_2``); or a JSON
    list, alone or as the only list of an object; or ``NONE`` or ``[]``. Around it may stand one code fence, emphasis,
    quotes, brackets, a final period, and a lead-in without digits or negation that ends in a colon.

    Args:
        text: the answer, whatever it is.
        n_items: how many items were shown.
        limit: how many selections count; None: all.
        item_words: words that may stand before an index.
        finish_reason: as the engine gave it; with "length" only a closed JSON answer is read, since a number may have
            lost its last digits.
        reasoning_tags: delimiters of reasoning; None: the text holds none.

    Returns:
        ok or invalid; invalid also when only items out of range are named.

    >>> parse_indices("Item 0, 2, 99 and 4-5", 6).value
    SelectedIndices(indices=(0, 2, 4, 5), n_out_of_range=1, n_over_selected=0)
    >>> parse_indices("I found 3 items: 0, 2, 5", 6).status
    'invalid'
    """
    answer = strip_fence(answer_of(text, reasoning_tags))
    if not answer:
        return Parsed("invalid", None, "The answer is empty." if not text.strip() else "The answer is reasoning only.")
    whole = read_whole(answer)
    if finish_reason == "length" and whole is None:
        return Parsed("invalid", None, f"The answer was cut off: it begins with {excerpt(answer)}.")
    ranges = _ranges(answer, whole.value if whole is not None else None, n_items, tuple(item_words))
    if ranges is None:
        return Parsed("invalid", None, f"Not a plain list of items: {excerpt(answer)}.")
    # A dict keeps the order of first mention; a range is cut to the items before it is spelled out.
    selected: dict[int, None] = {}
    n_out_of_range = 0
    for first, last in dict.fromkeys(ranges):
        selected.update(dict.fromkeys(range(first, min(last + 1, n_items))))
        n_out_of_range += max(0, last - max(first, n_items) + 1)
    if ranges and not selected:
        problem = f"None of the items named was among the {n_items} shown: {excerpt(answer)}."
        return Parsed("invalid", None, problem)
    indices = tuple(selected)
    kept = indices if limit is None else indices[: max(limit, 0)]
    return Parsed("ok", SelectedIndices(kept, n_out_of_range, len(indices) - len(kept)))


def _ranges(answer: str, whole: object, n_items: int, words: tuple[str, ...]) -> list[tuple[int, int]] | None:
    """Return the ranges (first, last) that an answer names, [] for an explicit none, None when it cannot be read."""
    if isinstance(whole, dict):
        if len(whole) > 1:  # a rationale beside the list, not a second list
            whole = {key: held for key, held in whole.items() if isinstance(held, list)}
        if len(whole) != 1:
            return None
        (key, held), *_ = whole.items()
        if _NEGATION.search(re.sub(r"[_-]", " ", key)):
            return None
        if isinstance(held, str) and key.strip().lower() in (*_ANSWER_KEYS, *words):
            return _text_ranges(held.strip(), n_items, words)
        if not isinstance(held, list):
            return None
        whole = held
    if isinstance(whole, list):
        return _list_ranges(whole, n_items, words)
    return _text_ranges(answer, n_items, words)


def _list_ranges(members: list[object], n_items: int, words: tuple[str, ...]) -> list[tuple[int, int]] | None:
    if len(members) == 1 and isinstance(members[0], str) and _NONE.match(members[0]):
        return []
    ranges: list[tuple[int, int]] = []
    for member in members:
        if isinstance(member, str):
            named = _grammar(words).read(member.strip())
            if named is None or len(named) != 1:
                return None
            ranges += named
        elif isinstance(member, int) and not isinstance(member, bool) and member >= 0:
            ranges.append((member, member))
        else:
            return None
    return ranges


def _text_ranges(answer: str, n_items: int, words: tuple[str, ...]) -> list[tuple[int, int]] | None:
    if _AS_ASKED.fullmatch(answer) and "item" in words:
        return [(number, number) for number in map(int, _DIGITS.findall(answer))]
    answer = answer.replace("\\_", "_").strip(" \t\n*`")
    lead_in = _LEAD_IN.match(answer)
    if lead_in is not None:
        if _NEGATION.search(lead_in.group()):
            return None
        answer = answer[lead_in.end() :]
    if _NONE.match(answer):
        return []
    grammar = _grammar(words)
    answer = _BULLET.sub("", grammar.without_list_numbers(answer)).translate(_DECORATION).strip()
    answer = answer.removesuffix(".").rstrip()
    if answer.startswith("(") and answer.endswith(")"):
        answer = answer[1:-1].strip()
    if answer.count("[") != answer.count("]"):
        return None  # cut off
    answer = answer.replace("[", " ").replace("]", " ").strip()
    if not answer:
        return None
    if n_items > 1000 and any(_may_be_one_number(run, n_items) for run in _COMMA_NUMBER.findall(answer)):
        return None
    return grammar.read(answer)


def _may_be_one_number(run: str, n_items: int) -> bool:
    digits = run.replace(",", "")
    return _THOUSANDS.fullmatch(run) is not None and len(digits) <= _MAX_DIGITS and int(digits) < n_items


_AS_ASKED = re.compile(r"item_(?:0|[1-9][0-9]{0,8}+)(?:, item_(?:0|[1-9][0-9]{0,8}+))*+")
"""What most answers are, and answers held to a schema all: read without the grammar, which reads the same."""
_DIGITS = re.compile(r"[0-9]+")


class _Grammar:
    """The grammar of a list of indices, for one set of item words."""

    def __init__(self, words: Iterable[str]) -> None:
        word = "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True)) or r"(?!)"
        # No leading zeros: the "000" of 10,000 is not an index.
        self._element = re.compile(rf"(?P<word>(?:{word})(?:[_-]|\s*+)#?\s?|#)?(?P<n>0|[1-9][0-9]*+)(?!\w)", re.I)
        self._number = re.compile(rf"^\s*+([0-9]{{1,4}})[.)]\s++(?=[*`\"]*+(?:{word})[\s_#-]*+[0-9])", re.I)

    def without_list_numbers(self, answer: str) -> str:
        """Remove the numbering of lines that all begin with their number, counted up, and an item word."""
        lines = [line for line in answer.split("\n") if line.strip()]
        numbers = [self._number.match(line) for line in lines]
        counted = [int(number.group(1)) for number in numbers if number is not None]
        if not lines or len(counted) != len(lines) or counted[0] > 1:
            return answer
        if counted != list(range(counted[0], counted[0] + len(counted))):
            return answer
        return "\n".join(line[number.end() :] for line, number in zip(lines, numbers, strict=True) if number)

    def read(self, answer: str) -> list[tuple[int, int]] | None:
        """Return the ranges of a list that fills the answer, else None."""
        ranges: list[tuple[int, int]] = []
        position = 0
        by_space, had_word = False, False
        while True:
            element = self._element.match(answer, position)
            if element is None:
                return None
            has_word = element["word"] is not None
            if by_space and has_word and not had_word:
                return None  # "3 items 0, 2": the 3 may be a count
            first = last = _index(element["n"])
            position = element.end()
            dash = _RANGE.match(answer, position)
            if dash is not None:
                element = self._element.match(answer, dash.end())
                if element is None:
                    return None
                last = _index(element["n"])
                position = element.end()
                if last < first:
                    return None
            ranges.append((first, last))
            if position == len(answer):
                return ranges
            separator = _SEPARATOR.match(answer, position)
            if separator is None:
                return None
            by_space = not separator.group().strip() and "\n" not in separator.group()
            had_word = has_word
            position = separator.end()


@functools.lru_cache(maxsize=16)
def _grammar(words: tuple[str, ...]) -> _Grammar:
    return _Grammar(words)


def _index(digits: str) -> int:
    return int(digits[: _MAX_DIGITS + 1])
