"""Reads an induced profile: one JSON object of eleven texts. A profile of which a part is missing is none."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from .answers import THINK_TAGS, Parsed, answer_of, clean_text, excerpt, strip_fence
from .json_values import find_values, read_whole

__all__ = ["INSTRUCTIONS", "MAX_CHARS", "MIN_CHARS", "NARRATIVE", "Taste", "parse_taste", "taste_schema"]

NARRATIVE = ("likes", "dislikes", "themes", "intensity", "exceptions")
INSTRUCTIONS = ("high", "middle", "low", "weighing", "priorities", "partial_evidence")
MIN_CHARS, MAX_CHARS = 12, 600
"""Of a text: from "No evidence." to three long sentences."""


class Taste(NamedTuple):
    """An induced profile (Section 3.2 and Table 1 of paper B): a narrative, then instructions for a judge."""

    likes: str
    dislikes: str
    themes: str
    intensity: str
    exceptions: str
    high: str
    """What deserves a 4 or 5."""
    middle: str
    """What deserves a 2 or 3."""
    low: str
    """What deserves a 0 or 1."""
    weighing: str
    priorities: str
    partial_evidence: str


def taste_schema(max_chars: int = MAX_CHARS) -> dict[str, Any]:
    """Return the shape of an answer: one object of eleven texts.

    Args:
        max_chars: of each text. An engine that holds answers to their schema ends each text there, so a model that
            would never end one gives a whole profile all the same.
    """
    text = {"type": "string", "minLength": MIN_CHARS, "maxLength": max_chars}
    return {
        "json": {
            "type": "object",
            "properties": dict.fromkeys(Taste._fields, text),
            "required": list(Taste._fields),
            "additionalProperties": False,
        }
    }


def parse_taste(
    text: str, *, finish_reason: str | None = None, reasoning_tags: tuple[str, str] | None = THINK_TAGS
) -> Parsed[Taste]:
    """Read a profile.

    The answer may hold prose and fences around one object. A list of texts in the place of a text is joined by "; ".
    A text without a letter is none. An answer that was cut has no profile, however much of it arrived.

    Args:
        text: the answer.
        finish_reason: why the model stopped.
        reasoning_tags: as of :func:`~.answers.answer_of`.
    """
    answer = strip_fence(answer_of(text, reasoning_tags))
    if not answer:
        return Parsed("invalid", None, "The answer is empty.")
    whole = read_whole(answer)
    values = [whole] if whole else find_values(answer)
    objects = [one.value for one in values if one.state == "complete" and isinstance(one.value, dict)]
    if not objects:
        cut = finish_reason == "length" or any(one.state == "cut" for one in values)
        problem = "The answer was cut off before the object was complete" if cut else "There is no JSON object"
        return Parsed("invalid", None, f"{problem}: {excerpt(answer)}.")
    if len(objects) > 1:
        return Parsed("invalid", None, f"There are {len(objects)} JSON objects where one was asked for.")
    texts = {name: _text(objects[0], name) for name in Taste._fields}
    if missing := [name for name, value in texts.items() if not value]:
        return Parsed("invalid", None, f"The object lacks {', '.join(missing)}.")
    return Parsed("ok", Taste(**{name: value or "" for name, value in texts.items()}))


def _text(read: Mapping[str, object], name: str) -> str | None:
    value = read.get(name)
    if isinstance(value, list) and value and all(isinstance(part, str) for part in value):
        value = "; ".join(part.strip() for part in value)
    if not isinstance(value, str) or not any(mark.isalpha() for mark in value):
        return None
    return clean_text(value)
