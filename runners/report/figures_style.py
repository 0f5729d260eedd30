"""The one style of all figures: colours, sizes, names, and how much room text takes.

Colours are Okabe and Ito's for colour-blind readers, less the two that vanish on white or on black; shapes and dashes
change with them, so that colour is never all that tells groups apart. Those of ink, lines and paper are names
(``@@ink``) until it is known whether the page is light or dark. Knows nothing about what is drawn.
"""

import re
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

__all__ = [
    "BUBBLE", "COLOURS", "DASHES", "DIVERGING", "FONT", "FONT_SIZE", "MARKS",
    "MAX_LABEL", "SEQUENTIAL", "SHAPES", "SMALL", "THEMES",
    "blend", "in_theme", "short", "short_names", "text_width",
]  # fmt: skip

COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#808080")
SHAPES = ("circle", "square", "triangle-up", "diamond", "triangle-down", "cross", "x", "pentagon", "star")
DASHES = ("solid", "dash", "dot", "dashdot")
SEQUENTIAL = ((0.0, "#EAF1F8"), (0.35, "#9FC5E0"), (0.7, "#3A86BC"), (1.0, "#08457A"))
"""Pale is little."""
MARKS = ((0.0, "#A9CFEA"), (0.5, "#3A86BC"), (1.0, "#0B3C66"))
"""The same for marks, which must show on paper."""
DIVERGING = ((0.0, "#A8480A"), (0.25, "#EBA36B"), (0.5, "#F4F4F2"), (0.75, "#7DB3DA"), (1.0, "#08457A"))
"""Pale is nothing, orange below, blue above."""
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', 'DejaVu Sans', Arial, sans-serif"
FONT_SIZE = 12
SMALL = 11
BUBBLE = (8.0, 34.0)
"""Diameters of the least and the greatest bubble."""
MAX_LABEL = 26
_MODEL = re.compile(r"[\w.-]+/[\w.@:+-]+")
THEMES: dict[str, dict[str, str]] = {
    "light": {"@@ink": "#1F2328", "@@muted": "#5F6B76", "@@line": "#AEB6BF", "@@grid": "#E7EAED", "@@paper": "#FFFFFF"},
    "dark": {"@@ink": "#E8EAED", "@@muted": "#A5AEB8", "@@line": "#68727D", "@@grid": "#2E353D", "@@paper": "#15191E"},
}


def in_theme(value: Any, theme: str) -> Any:
    """Return plain data with the names of colours replaced by those of a theme.

    >>> in_theme({"font": {"color": "@@ink"}}, "light")
    {'font': {'color': '#1F2328'}}
    """
    if isinstance(value, dict):
        return {name: in_theme(inner, theme) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [in_theme(inner, theme) for inner in value]
    return THEMES[theme].get(value, value) if isinstance(value, str) else value


def text_width(text: str, size: float = FONT_SIZE) -> float:
    """Return about how many pixels a line of text takes; rather too many."""
    return sum(1.0 if ord(mark) > 0x2E7F else 0.61 for mark in text) * size


def short(text: str, length: int = MAX_LABEL) -> str:
    """Return a text on one line, its middle left out where it is long: beginnings and endings tell names apart.

    >>> short("Llama-3.3-70B-Instruct-quantised", 16)
    'Llama-3.…antised'
    """
    text = " ".join(text.split())
    if len(text) <= length:
        return text
    head = length // 2
    return f"{text[:head]}…{text[len(text) - (length - head - 1) :]}"


def short_names(names: Iterable[str], length: int = MAX_LABEL) -> dict[str, str]:
    """Return labels for names: without the owner of a model where that leaves them different.

    >>> short_names(["openai/gpt-oss-120b", "lexical/tfidf"])
    {'openai/gpt-oss-120b': 'gpt-oss-120b', 'lexical/tfidf': 'tfidf'}
    """
    names = list(dict.fromkeys(names))
    for shortened in (
        {name: short(name.rpartition("/")[2] if _MODEL.fullmatch(name) else name, length) for name in names},
        {name: short(name, length) for name in names},
    ):
        if len(set(shortened.values())) == len(names):
            return shortened
    return {name: name for name in names}


def blend(scale: tuple[tuple[float, str], ...], place: float) -> str:
    """Return the colour at a place (0 to 1) of a scale.

    >>> blend(((0.0, "#000000"), (1.0, "#FFFFFF")), 0.5)
    '#808080'
    """
    place = min(max(place, 0.0), 1.0)
    for (left, one), (right, other) in pairwise(scale):
        if place <= right:
            share = (place - left) / (right - left)
            pairs = ((int(one[i : i + 2], 16), int(other[i : i + 2], 16)) for i in (1, 3, 5))
            return "#" + "".join(f"{round(a + (b - a) * share):02X}" for a, b in pairs)
    return scale[-1][1]
