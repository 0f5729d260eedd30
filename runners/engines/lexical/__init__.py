"""The lexical engine: no model at all. Deterministic rules over the words of the same prompts that models read.

Its candidates and its judge are a floor on the leaderboard, the embedded default, and the fast path of the tests. They
see what a model sees, the messages, and answer in the text form that a model is asked for.
"""

from .engine import LexicalConfig, LexicalEngine

__all__ = ["LexicalConfig", "LexicalEngine"]
