"""How a question is asked again, by what became of it.

An answer that was cut at the longest allowed is asked for once more with twice the room, unless it only repeats
itself. An answer that could not be read is asked for again with what was wrong with it, and from then on with a new
seed too. A call that was not answered (a time-out, a broken server) is the engine's to repeat; what it gave up on is an
``error``, asked again by the next run. A model that refuses is not pressed.
"""

import zlib
from dataclasses import replace
from typing import NamedTuple

from .requests import Outcome, Sampling

__all__ = ["FIRST", "Retry", "is_degenerate", "more_room"]

LONGER = 2
"""By how much the longest answer grows when one was cut."""
RESEEDED_TEMPERATURE = 0.7
"""What a temperature of 0 becomes with a new seed, which would change nothing at 0."""
RESEEDED = 1_000_003
"""What a new seed adds: far from the seeds of repeats."""
_TAIL_CHARS = 2000
_DEGENERATE_RATIO = 0.06
"""Size of a text after compression, as a share. Lists of ids, the most regular of answers, stay above 0.15."""


class Retry(NamedTuple):
    """How a question is asked this time."""

    n: int = 0
    """How many answers could not be read so far."""
    problem: str = ""
    """What was wrong with the last of them, which the model is told."""
    max_tokens: int = 0
    """The longest answer allowed from now on, since one was cut; 0: that of the first time."""

    def applied_to(self, sampling: Sampling) -> Sampling:
        """Return the sampling of this time, from that of the first."""
        if self.max_tokens:
            sampling = replace(sampling, max_tokens=self.max_tokens)
        if self.n > 1:  # telling the model what was wrong did not help
            # A model without a temperature refuses one, and draws anyway.
            temperature = RESEEDED_TEMPERATURE if sampling.temperature == 0 else sampling.temperature
            seed = (sampling.seed or 0) + RESEEDED * (self.n - 1)
            sampling = replace(sampling, seed=seed, temperature=temperature)
        return sampling


FIRST = Retry()
"""A question is asked for the first time."""


def more_room(max_tokens: int, outcome: Outcome, context_tokens: int | None) -> int | None:
    """Return the longest answer to allow next, where one was cut at the length asked for and more could complete it.

    Twice as long, or what the context leaves: a server refuses what does not fit into it.

    Args:
        max_tokens: the longest answer that was asked for.
        outcome: the answer.
        context_tokens: the longest prompt and answer together; None where there is no limit.

    >>> cut = Outcome("k", "truncated", finish_reason="length", n_prompt_tokens=600, n_output_tokens=300)
    >>> more_room(300, cut, None), more_room(300, cut, 1000), more_room(300, cut, 900)
    (600, 400, None)
    """
    if outcome.finish_reason != "length" or is_degenerate(outcome.text or outcome.reasoning):
        return None
    if 0 < outcome.n_output_tokens < max_tokens:  # it was the context that ended, and no budget changes that
        return None
    room = LONGER * max_tokens
    if context_tokens is not None and outcome.n_prompt_tokens < context_tokens:
        room = min(room, context_tokens - outcome.n_prompt_tokens)
    return room if room > max_tokens else None


def is_degenerate(text: str) -> bool:
    """Return whether a text ends in nothing but repetition, as small models do when they lose the thread.

    >>> is_degenerate("The person likes films. " + "and films " * 300)
    True
    >>> is_degenerate(", ".join(f"item_{number}" for number in range(300)))
    False
    """
    tail = text[-_TAIL_CHARS:].encode("utf-8", "surrogatepass")
    return len(text) >= _TAIL_CHARS and len(zlib.compress(tail, 9)) < _DEGENERATE_RATIO * len(tail)
