"""Reads the answers of models: text in, frozen record out.

The parsers are pure and never raise on any text. What cannot be read without guessing is ``invalid``, to be asked
again; it is never an empty answer. They know nothing about engines, prompts, histories or scores.
"""

from .answers import THINK_TAGS, Parsed, ParseStatus, strip_reasoning
from .indices import ITEM_WORDS, SelectedIndices, parse_indices
from .interests import ExtractedInterest, ExtractedInterests, parse_interests, unwrap_id
from .mapping import NO_CATEGORY, parse_mapping

__all__ = [
    "ITEM_WORDS",
    "NO_CATEGORY",
    "THINK_TAGS",
    "ExtractedInterest",
    "ExtractedInterests",
    "ParseStatus",
    "Parsed",
    "SelectedIndices",
    "parse_indices",
    "parse_interests",
    "parse_mapping",
    "strip_reasoning",
    "unwrap_id",
]
