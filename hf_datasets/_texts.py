"""How the parts of an object's description become one line of text.

Knows nothing about files or datasets: a builder says which parts there are and in what order.
"""

from collections.abc import Iterable

__all__ = ["clean", "first_words", "joined", "listed"]


def clean(text: object) -> str:
    """Return a text with every run of white space, line breaks included, as one space; what is not a text is empty.

    >>> clean("  Toy\\n Story ")
    'Toy Story'
    """
    return " ".join(text.split()) if isinstance(text, str) else ""


def first_words(text: str, n: int) -> str:
    """Return the first ``n`` words, with an ellipsis where more follow.

    >>> first_words("one two three", 2)
    'one two …'
    """
    words = text.split(None, n)
    return text if len(words) <= n else " ".join([*words[:n], "…"]) if n else ""


def listed(label: str, names: Iterable[str]) -> str:
    """Return ``label: a, b`` without repeats (case does not count), or an empty text where there are no names.

    >>> listed("Tags", ["rock", "Rock", "pop"])
    'Tags: rock, pop'
    """
    distinct: dict[str, str] = {}
    for name in names:
        distinct.setdefault(name.casefold(), name)
    distinct.pop("", None)
    return f"{label}: {', '.join(distinct.values())}" if distinct else ""


def joined(parts: Iterable[str]) -> str:
    """Join the parts that are not empty to sentences; a part that ends a sentence by itself gets no second full stop.

    >>> joined(["Is this it?", "", "By The Strokes", "Indie"])
    'Is this it? By The Strokes. Indie'
    """
    present = [part for part in parts if part]
    ended = [part if part[-1] in ".!?…。！？" else f"{part}." for part in present[:-1]]
    return " ".join([*ended, *present[-1:]])
