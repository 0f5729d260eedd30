"""Reads the answers of models: text in, frozen record out.

The parsers are pure and never raise on any text. What cannot be read without guessing is ``invalid``, to be asked
again; it is never an empty answer. They know nothing about engines, prompts, histories or scores.
"""

from .answers import THINK_TAGS, Parsed, ParseStatus, strip_reasoning
from .grades import parse_grade
from .indices import ITEM_WORDS, SelectedIndices, parse_indices
from .interests import ExtractedInterest, ExtractedInterests, parse_interests, unwrap_id
from .mapping import NO_CATEGORY, parse_mapping
from .taste import Taste, parse_taste

__all__ = [
    "ITEM_WORDS",
    "NO_CATEGORY",
    "THINK_TAGS",
    "ExtractedInterest",
    "ExtractedInterests",
    "ParseStatus",
    "Parsed",
    "SelectedIndices",
    "Taste",
    "parse_grade",
    "parse_indices",
    "parse_interests",
    "parse_mapping",
    "parse_taste",
    "strip_reasoning",
    "unwrap_id",
]
