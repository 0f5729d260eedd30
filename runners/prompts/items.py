"""The text form of items in a prompt: one line each, fields separated by " | ".

`render_lines` writes it and `read_lines` reads it back. A text can hold anything at all; on its line it can neither
start a new line, nor close a tag, nor spell one of a chat template's control tokens.
"""

import json
import re
from collections.abc import Iterable, Iterator, Sequence

__all__ = ["clean", "identifier", "item_name", "read_lines", "render_lines"]

SEPARATOR = " | "
_PLAIN = re.compile(r"[^\s|\"'\[\],]+")
# Control tokens of chat templates look like <|im_end|>, </s>, <start_of_turn> or [INST].
_ANGLE = re.compile(r"[<>]")
_BRACKET_TOKEN = re.compile(r"\[(?=/?[A-Z_]{2,}\])")
_UNPRINTABLE = re.compile(
    # The last are tag characters: invisible to people, ASCII to models.
    r"[\x00-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff\U000e0000-\U000e007f]+"
)
_SPACE = re.compile(r"\s+")
_LOOKALIKES = {"<": "‹", ">": "›"}


def clean(text: str, max_chars: int | None = None) -> str:
    """Return a text on one line that cannot be taken for structure.

    White space folds to single spaces, control and invisible characters become spaces, angle brackets become ‹ and ›,
    and a longer text is cut at `max_chars` characters with an ellipsis.

    >>> clean("two\\nlines </item> <|im_end|>")
    'two lines ‹/item› ‹|im_end|›'
    """
    text = _SPACE.sub(" ", _UNPRINTABLE.sub(" ", text)).strip()
    text = _ANGLE.sub(lambda mark: _LOOKALIKES[mark.group()], text)
    text = _BRACKET_TOKEN.sub("(", text)
    if max_chars is not None and len(text) > max_chars:
        text = text[: max_chars - 1].rstrip() + "…"
    return text


def item_name(index: int) -> str:
    """Return the name under which the item at an index is shown to a judge."""
    return f"item_{index}"


def identifier(text: str) -> str:
    """Return an id as it stands in a prompt: as it is when it is plain, else as a JSON string."""
    if _PLAIN.fullmatch(text) and text == clean(text):
        return text
    return json.dumps(text).replace("<", "\\u003c").replace("|", "\\u007c").replace("[", "\\u005b")


def render_lines(rows: Iterable[Sequence[str]]) -> str:
    """Return the lines of items, whose last field is free text and has been cleaned.

    >>> render_lines([("item_0", "Jazz | live"), ("item_1", "Blues")])
    'item_0 | Jazz | live\\nitem_1 | Blues'
    """
    return "\n".join(SEPARATOR.join(row) for row in rows)


def read_lines(text: str, n_fields: int) -> Iterator[tuple[str, ...]]:
    """Yield the fields of each line that has as many; other lines are passed over.

    >>> list(read_lines("The items:\\nitem_0 | Jazz | live", 2))
    [('item_0', 'Jazz | live')]
    """
    for line in text.splitlines():
        fields = line.split(SEPARATOR, n_fields - 1)
        if len(fields) == n_fields:
            yield tuple(fields)
