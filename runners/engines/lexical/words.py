"""Words of a text: folded, split, stemmed."""

import re
import unicodedata
from functools import lru_cache
from itertools import pairwise

import snowballstemmer
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

__all__ = ["compounds", "labels", "phrase_words", "readable_label", "stems", "words"]

_WORD = re.compile(r"[^\W_]+")
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|(?<=[A-Za-z])(?=\d)")
_HASHTAG = re.compile(r"#([^\W_]\w*)")
_STEMMER = snowballstemmer.stemmer("english")
STOP_WORDS = ENGLISH_STOP_WORDS | {"fyp", "viral", "foryou", "foryoupage", "trending", "vs", "new", "tags", "video"}


@lru_cache(maxsize=200_000)
def words(text: str) -> tuple[str, ...]:
    """Return a text's words in order, lower case, accents folded, hashtags split at their capitals.

    >>> words("LeBron's café run #NBAPlayoffs")
    ('le', 'bron', 's', 'cafe', 'run', 'nba', 'playoffs')
    """
    folded = unicodedata.normalize("NFKD", _CAMEL.sub(" ", text))
    folded = "".join(mark for mark in folded if not unicodedata.combining(mark))
    return tuple(_WORD.findall(folded.lower()))


@lru_cache(maxsize=200_000)
def _stem(word: str) -> str:
    return str(_STEMMER.stemWord(word))


@lru_cache(maxsize=200_000)
def stems(text: str) -> frozenset[str]:
    """Return the stems of a text's words, stop words and single letters left out.

    >>> sorted(stems("Running the marathons"))
    ['marathon', 'run']
    """
    return frozenset(_stem(word) for word in phrase_words(text))


@lru_cache(maxsize=200_000)
def compounds(text: str) -> frozenset[str]:
    """Return the stems of each two neighbouring words written as one, the way hashtags write them.

    >>> sorted(compounds("K-Pop Street Food"))
    ['kpop', 'popstreet', 'streetfood']
    """
    return frozenset(_stem(first + second) for first, second in pairwise(words(text)))


def phrase_words(text: str) -> tuple[str, ...]:
    """Return a text's words that carry meaning."""
    return tuple(word for word in words(text) if len(word) > 1 and word not in STOP_WORDS and not word.isdigit())


def labels(text: str) -> tuple[str, ...]:
    """Return the labels that a text carries: its hashtags, or the list after its first full stop where it has none.

    >>> labels("Buzzer beater #NBA #basketball")
    ('NBA', 'basketball')
    >>> labels("Toy Story (1995). Animation, Children. Tags: pixar")
    ('Animation', 'Children', 'pixar')
    """
    found = _HASHTAG.findall(text)
    if not found and ". " in text:
        listed = text.split(". ", 1)[1].replace("Tags: ", ",").replace(".", ",")
        found = [label.strip() for label in listed.split(",") if len(label.split()) <= 3]
    return tuple(dict.fromkeys(label for label in found if label))


def readable_label(label: str) -> str:
    """Return a label as words: ``NBAPlayoffs`` becomes ``NBA Playoffs``."""
    return " ".join(_CAMEL.sub(" ", label).replace("_", " ").split())
