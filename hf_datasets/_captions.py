"""Sentences that fill the texts of generated objects, as captions and posts have them around what they are about.

Made of four parts each, which say nothing of any topic. Knows nothing about objects.
"""

from collections.abc import Callable
from itertools import product

__all__ = ["sentences"]

_STARTS = (
    "Honestly, I", "After three tries we", "Somehow my sister", "Nobody told me that I", "Yesterday at noon they",
    "To be fair, he", "Between two calls I", "For once everybody", "Without a plan we", "As always she",
    "Two weeks ago I", "If you ask me, they", "Long story cut in half: we", "Believe it or not, my uncle",
    "Around nine o'clock I", "With both hands full she",
)  # fmt: skip
_VERBS = (
    "kept", "nearly gave away", "found", "forgot about", "borrowed", "finished", "carried", "put back", "asked for",
    "laughed at", "counted", "waited for", "measured", "showed off", "almost missed", "started over with",
)  # fmt: skip
_OBJECTS = (
    "the whole thing", "everything in the box", "that one piece", "the part no one sees", "a second one",
    "the wrong half of it", "all twelve of them", "what was left", "the version you asked about", "the big one",
    "more than we needed", "the ugly but useful one", "exactly the same thing again", "the note on the door",
    "whatever fell out", "the last bit",
)  # fmt: skip
_ENDS = (
    ".", ", and it was worth it.", ", so do not rush.", "; tell me below what you would do.", " before anyone noticed.",
    ", which took forever.", " and nobody complained.", ", then rain came.", " while the kettle boiled.",
    " for less than ten dollars.", ", no regrets!", " until my phone died.", ", more of that tomorrow.",
    ", swipe for the before and after.", " as if nothing had happened.", " and I would do it again.",
)  # fmt: skip


def sentences(is_usable: Callable[[str], bool]) -> list[str]:
    """Return all sentences of usable parts, at most 65,536 of about 70 characters each, in a fixed order.

    Args:
        is_usable: tells of a part whether its words may occur.

    >>> sentences(lambda part: True)[0]
    'Honestly, I kept the whole thing.'
    """
    starts, verbs, objects, ends = ([p for p in parts if is_usable(p)] for parts in (_STARTS, _VERBS, _OBJECTS, _ENDS))
    return [f"{a} {b} {c}{d}" for a, b, c, d in product(starts, verbs, objects, ends)]
