"""What every parser of answers shares: the result record, and the removal of reasoning and code fences.

It does not know what an answer is about.
"""

import re
from dataclasses import dataclass
from typing import Generic, Literal, TypeAlias, TypeVar

__all__ = [
    "THINK_TAGS",
    "ParseStatus",
    "Parsed",
    "answer_of",
    "clean_text",
    "excerpt",
    "strip_fence",
    "strip_reasoning",
]

T = TypeVar("T")

ParseStatus: TypeAlias = Literal["ok", "truncated", "invalid"]

THINK_TAGS = ("<think>", "</think>")
"""The delimiters of reasoning that most model families write into their text."""

_OPENING_FENCE = re.compile(r"(?:```|~~~)[A-Za-z][\w+-]*(?=\s)|```|~~~")
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Parsed(Generic[T]):
    """What a parser made of one answer."""

    status: ParseStatus
    """ok; truncated: the value is the readable part of an answer that was cut off; invalid: ask again."""

    value: T | None
    """None when the status is invalid, and only then."""

    problem: str = ""
    """One plain sentence on what was found; empty when the status is ok."""


def strip_reasoning(text: str, *, open_tag: str = THINK_TAGS[0], close_tag: str = THINK_TAGS[1]) -> tuple[str, str]:
    """Split an answer into its reasoning and the answer proper, both trimmed.

    A closing tag without an opening one ends reasoning that the chat template had opened: all before it is reasoning.
    An opening tag without a closing one is reasoning that was cut off: all after it is reasoning. Tags are compared
    case by case as given. Parts that were apart are joined by a line break.

    Raises:
        ValueError: a tag is empty.

    >>> strip_reasoning("<think>7? no</think>item_1")
    ('7? no', 'item_1')
    >>> strip_reasoning("7? no</think>item_1")
    ('7? no', 'item_1')
    >>> strip_reasoning("<think>7? per")
    ('7? per', '')
    """
    if not open_tag or not close_tag:
        raise ValueError(f"reasoning tags must not be empty: found {open_tag!r} and {close_tag!r}")
    reasoning: list[str] = []
    answer: list[str] = []
    position = 0
    thinking = False
    for tag in re.finditer(f"{re.escape(open_tag)}|{re.escape(close_tag)}", text):
        closes = tag.group() == close_tag
        if thinking and not closes:
            continue  # reasoning that talks about its own tag
        (reasoning if thinking else answer).append(text[position : tag.start()])
        if closes and not thinking:
            reasoning += answer
            answer = []
        thinking = not closes
        position = tag.end()
    (reasoning if thinking else answer).append(text[position:])
    return _join(reasoning), _join(answer)


def answer_of(text: str, reasoning_tags: tuple[str, str] | None) -> str:
    """Return the answer proper, trimmed; with None for the tags, the text is taken to hold no reasoning."""
    if reasoning_tags is None:
        return text.strip()
    return strip_reasoning(text, open_tag=reasoning_tags[0], close_tag=reasoning_tags[1])[1]


def strip_fence(answer: str) -> str:
    """Return the inside of an answer that is one code fence, closed or cut off; any other answer as it is."""
    fence = _OPENING_FENCE.match(answer)
    if fence is None:
        return answer
    return answer[fence.end() :].rstrip().removesuffix(fence.group()[:3]).strip()


def clean_text(text: str) -> str:
    """Trim, and replace lone surrogates, which JSON can spell but neither Parquet nor SQLite can hold."""
    return _LONE_SURROGATE.sub("\ufffd", text).strip()


def excerpt(text: str, limit: int = 80) -> str:
    """Quote the beginning of a text for a message."""
    return repr(text if len(text) <= limit else text[:limit] + "...")


def _join(parts: list[str]) -> str:
    return "\n".join(part for part in parts if part.strip()).strip()
