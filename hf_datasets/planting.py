"""A seeded generator of users whose interests, and the evidence for them, are known.

A topic is a category of the open taxonomy, and the text of an object of a topic holds the category's name among words
that no category has. So each planted interest has a known name, category, list of items, and verdict under the paper's
base thresholds, and metrics can be checked against the truth at any size:

====================  ===================================================================  =======  ====  ======
reason                evidence                                                             lenient  base  strict
====================  ===================================================================  =======  ====  ======
``strong``            at least 3 explicit or 4 implicit positives; at most 2 implicit and  yes      yes   yes
                      1 explicit negatives
``explicit_minimum``  2 explicit positives, 1 implicit negative                            yes      yes   no
``implicit_minimum``  3 implicit positives                                                 yes      yes   no
``hybrid_minimum``    1 explicit and 2 implicit positives                                  yes      yes   no
``only_negatives``    2 implicit and 2 explicit negatives                                  no       no    no
``too_few``           1 explicit and 1 implicit positive                                   yes      no    no
``over_cap``          3 explicit positives, 4 implicit negatives                           yes      no    no
====================  ===================================================================  =======  ====  ======

The rest of a history is noise: objects of no topic. No object occurs twice in a history. Users are made in blocks that
are seeded on their own, so the first users are the same however many are asked for (up to a million).

Pure: parameters and a taxonomy in, Arrow tables out.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ._captions import sentences
from .errors import ConfigError
from .schema import ENGAGEMENT_SCHEMA, INTERACTION_TYPES
from .taxonomy import Taxonomy

__all__ = ["TRUTH_SCHEMA", "Planting", "PlantingParameters"]

TRUTH_SCHEMA = pa.schema(
    [
        pa.field("user_id", pa.string()),
        pa.field("interest", pa.string()),
        pa.field("category_id", pa.int64()),
        pa.field("item_ids", pa.list_(pa.string())),
        pa.field("verified", pa.bool_()),
        pa.field("reason", pa.string()),
    ]
)
"""One row per planted interest: its items are all objects of its topic in the user's history, negatives too."""

_Ints = npt.NDArray[np.int64]

_EP, _IP, _IN, _EN = range(len(INTERACTION_TYPES))

_MINIMA = {
    "explicit_minimum": (_EP, _EP, _IN),
    "implicit_minimum": (_IP, _IP, _IP),
    "hybrid_minimum": (_EP, _IP, _IP),
}
_FALSE = {
    "only_negatives": (_IN, _IN, _EN, _EN),
    "too_few": (_EP, _IP),
    "over_cap": (_EP, _EP, _EP, _IN, _IN, _IN, _IN),
}
_REASONS = ("strong", *_MINIMA, *_FALSE)
_MINIMUM_SIZE = 3
_STRONG_SIZE = 4
_NOISE_TYPES = (0.1, 0.4, 0.35, 0.15)
"""Shares of the four interaction types among noise."""

_BLOCK_USERS = 1000
_TABLE_ROWS = 262_144
_FIRST_TIME = 1_704_067_200  # 2024-01-01T00:00:00Z
_YEAR_SECONDS = 365 * 86_400
_SPREAD_OF_LENGTHS = 0.7
"""Of the logarithm of the number of sentences in a text."""

_OPENERS = (
    "Honest thoughts about", "What nobody mentions about", "Seven lessons from", "Back again with", "Still learning:",
    "Unboxing my year of", "An afternoon spent on", "The truth behind", "Third attempt at", "A quiet hour of",
    "Why everyone underestimates", "Underrated:", "My cousin explains", "Ranking every kind of",
    "Notes from a beginner in", "The longest thread about",
)  # fmt: skip
_CLOSERS = (
    "in under ten minutes", "before sunrise", "with zero budget", "that surprised us", "explained slowly",
    "you asked for this", "as promised yesterday", "no filter", "told by my neighbour", "while it rained",
    "on a whim", "and what happened next", "worth waiting for", "from the back seat", "twice as hard",
    "filmed in one take",
)  # fmt: skip
_SYLLABLES = (
    "ba",
    "ce",
    "do",
    "fu",
    "gi",
    "ka",
    "le",
    "mo",
    "nu",
    "pi",
    "ra",
    "se",
    "to",
    "vu",
    "wi",
    "xa",
    "ye",
    "zo",
)
_SHORT_WORDS = {"a", "an", "and", "as", "at", "by", "for", "from", "in", "of", "on", "the", "to", "with"}


@dataclass
class PlantingParameters:
    """What a planting is made of; every field has a default."""

    n_users: int = 1000
    n_interests_per_user: int = 5
    """True interests: a third (of two or more, at least one) has the least that verifies, the rest is strong."""
    n_false_interests_per_user: int = 3
    """Interests whose evidence fails: only negatives, too few, over a cap, and again from the start."""
    n_engagements_per_user: int = 300
    noise_share: float = 0.3
    """Share of a history's engagements whose objects belong to no topic."""
    n_topics: int = 40
    """Categories that interests are drawn from."""
    n_sentences_per_text: int = 0
    """Median number of sentences after the title in an object's text; a tenth has more than twice as many. 2 makes
    texts as long as those of captions and posts are: 220 characters in the median, some 1,000 and more."""
    seed: int = 0

    def check(self) -> None:
        """Raise ConfigError where the parameters do not fit together."""
        for name in ("n_users", "n_interests_per_user", "n_engagements_per_user", "n_topics"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} is {getattr(self, name)}; it must be 1 or more.")
        for name in ("n_false_interests_per_user", "n_sentences_per_text", "seed"):
            if getattr(self, name) < 0:
                raise ConfigError(f"{name} is {getattr(self, name)}; it must be 0 or more.")
        if not 0 <= self.noise_share < 1:
            raise ConfigError(f"noise_share is {self.noise_share}; it must be at least 0 and below 1.")
        needed = self.n_interests_per_user + self.n_false_interests_per_user
        if self.n_topics < needed:
            raise ConfigError(f"n_topics is {self.n_topics}, but each user needs {needed} topics, true and false ones.")
        spare = self.n_strong_rows - _STRONG_SIZE * self.n_strong
        if spare < 0:
            raise ConfigError(
                f"n_engagements_per_user={self.n_engagements_per_user} leaves {max(self.n_strong_rows, 0)} for "
                f"{self.n_strong} strong interests, which need {_STRONG_SIZE} each: raise it, or lower noise_share or "
                "the numbers of interests."
            )

    @property
    def n_minimal(self) -> int:
        """True interests per user with the least evidence."""
        return max(1, self.n_interests_per_user // 3) if self.n_interests_per_user > 1 else 0

    @property
    def n_strong(self) -> int:
        """True interests per user with more evidence than any setting asks for."""
        return self.n_interests_per_user - self.n_minimal

    @property
    def false_reasons(self) -> tuple[str, ...]:
        """Why each of a user's false interests fails."""
        return tuple(tuple(_FALSE)[i % len(_FALSE)] for i in range(self.n_false_interests_per_user))

    @property
    def n_noise_rows(self) -> int:
        """Engagements per user with objects of no topic."""
        return round(self.noise_share * self.n_engagements_per_user)

    @property
    def n_strong_rows(self) -> int:
        """Engagements per user that are evidence of strong interests."""
        false_rows = sum(len(_FALSE[reason]) for reason in self.false_reasons)
        return self.n_engagements_per_user - self.n_noise_rows - false_rows - _MINIMUM_SIZE * self.n_minimal


@dataclass(frozen=True)
class Planting:
    """A planting over a taxonomy: its engagements and the truth about them."""

    parameters: PlantingParameters
    taxonomy: Taxonomy

    def __post_init__(self) -> None:
        """Check that the taxonomy has enough categories."""
        self.parameters.check()
        if self.parameters.n_topics > len(self.taxonomy):
            raise ConfigError(
                f"n_topics is {self.parameters.n_topics}, but taxonomy {self.taxonomy.name!r} has only "
                f"{len(self.taxonomy)} categories."
            )

    @property
    def n_blocks(self) -> int:
        """Blocks of users, which can be made apart from one another."""
        return -(-self.parameters.n_users // _BLOCK_USERS)

    def engagement_tables(self, blocks: Iterable[int] | None = None) -> Iterator[pa.Table]:
        """Yield the engagements user by user, in the order of their ids, each user's oldest first.

        Args:
            blocks: which blocks of users to make; None makes all.
        """
        per_table = max(1, _TABLE_ROWS // self.parameters.n_engagements_per_user)
        for users, _, objects, types, _, times in self._blocks(blocks):
            for start in range(0, len(users), per_table):
                part = slice(start, start + per_table)
                order = np.argsort(times[part], axis=1, kind="stable")
                flat_objects = np.take_along_axis(objects[part], order, axis=1).ravel()
                yield pa.table(
                    [
                        _words(np.repeat(np.arange(len(order)), order.shape[1]), users[part]),
                        _words(flat_objects, self._object_ids),
                        _words(flat_objects, self._object_texts),
                        _words(np.take_along_axis(types[part], order, axis=1).ravel(), INTERACTION_TYPES),
                        pa.array(np.take_along_axis(times[part], order, axis=1).ravel().astype(np.float64)),
                    ],
                    schema=ENGAGEMENT_SCHEMA,
                )

    def truth(self) -> pa.Table:
        """Return every planted interest, (users x interests, 6) in :data:`TRUTH_SCHEMA`."""
        sizes = np.array(self._sizes)
        names = [self.taxonomy.names[place] for place in self._topics]
        ids = np.array([self.taxonomy.ids[place] for place in self._topics], dtype=np.int64)
        tables = []
        for users, topics, objects, _, reasons, _ in self._blocks():
            n = len(users)
            offsets = np.concatenate([[0], np.cumsum(np.tile(sizes, n))]).astype(np.int32)
            items = _words(objects[:, : sizes.sum()].ravel(), self._object_ids)
            tables.append(
                pa.table(
                    [
                        _words(np.repeat(np.arange(n), len(sizes)), users),
                        _words(topics.ravel(), names),
                        pa.array(ids[topics.ravel()]),
                        pa.ListArray.from_arrays(pa.array(offsets), items),
                        pa.array(np.tile(np.arange(len(sizes)) < self.parameters.n_interests_per_user, n)),
                        _words(reasons.ravel(), _REASONS),
                    ],
                    schema=TRUTH_SCHEMA,
                )
            )
        return pa.concat_tables(tables)

    @property
    def _sizes(self) -> tuple[int, ...]:
        """Engagements of each of a user's interests: strong, minimal, then false ones."""
        p = self.parameters
        share, rest = divmod(p.n_strong_rows, p.n_strong)
        strong = [share + (i < rest) for i in range(p.n_strong)]
        return (*strong, *[_MINIMUM_SIZE] * p.n_minimal, *(len(_FALSE[reason]) for reason in p.false_reasons))

    @property
    def _objects_per_topic(self) -> int:
        # A prime: any stride then visits all objects before one comes again.
        return _prime_from(max(101, 2 * max(self._sizes)))

    @property
    def _noise_objects(self) -> int:
        return _prime_from(max(1009, 2 * self.parameters.n_noise_rows))

    @cached_property
    def _topics(self) -> list[int]:
        """Places of the topics' categories in the taxonomy: drawn so that, as far as possible, no two share a word."""
        shuffled = self._generator(0).permutation(len(self.taxonomy)).tolist()
        distinct: list[int] = []
        others: list[int] = []
        used: set[str] = set()
        for place in shuffled:
            words = _tokens(self.taxonomy.names[place])
            (others if words & used else distinct).append(place)
            used |= words
        return (distinct + others)[: self.parameters.n_topics]

    @cached_property
    def _object_ids(self) -> list[str]:
        """Ids that tell nothing about the topic, (topics x objects, then noise objects)."""
        total = len(self._topics) * self._objects_per_topic + self._noise_objects
        width = len(str(total))
        return [f"obj_{number:0{width}d}" for number in self._generator(1).permutation(total).tolist()]

    @cached_property
    def _object_texts(self) -> list[str]:
        rng = self._generator(2)
        taken = set().union(*(_tokens(name) for name in self.taxonomy.names))

        def is_usable(phrase: str) -> bool:
            return not _tokens(phrase) & taken

        openers, closers = list(filter(is_usable, _OPENERS)), list(filter(is_usable, _CLOSERS))
        per_topic = self._objects_per_topic
        subjects = [self.taxonomy.names[place] for place in self._topics for _ in range(per_topic)]
        parts = list(range(101, 101 + per_topic)) * len(self._topics)  # no category has such numbers
        syllables = rng.integers(len(_SYLLABLES), size=(self._noise_objects, 2, 4)).tolist()
        for pair in syllables:
            words = ["".join(_SYLLABLES[i] for i in word) for word in pair]
            subjects.append(" ".join(word + "q" if word in taken else word for word in words))
        parts.extend(range(101, 101 + self._noise_objects))
        first = rng.integers(len(openers), size=len(subjects)).tolist()
        last = rng.integers(len(closers), size=len(subjects)).tolist()
        titles = [
            f"{openers[a]} {subject} {closers[b]}, part {part}"
            for a, subject, b, part in zip(first, subjects, last, parts, strict=True)
        ]
        return self._with_sentences(titles, sentences(is_usable)) if self.parameters.n_sentences_per_text else titles

    def _with_sentences(self, titles: list[str], pool: list[str]) -> list[str]:
        rng = self._generator(4)
        spread = rng.lognormal(0, _SPREAD_OF_LENGTHS, size=len(titles))
        numbers = np.rint(self.parameters.n_sentences_per_text * spread).astype(np.int64)
        drawn = iter(rng.integers(len(pool), size=int(numbers.sum())).tolist())
        return [
            " ".join([f"{title}.", *(pool[i] for i in islice(drawn, n))])
            for title, n in zip(titles, numbers.tolist(), strict=True)
        ]

    def _blocks(
        self, blocks: Iterable[int] | None = None
    ) -> Iterator[tuple[list[str], _Ints, _Ints, _Ints, _Ints, _Ints]]:
        """Yield user ids, topics (users, interests), objects and types (users, engagements), reasons, times.

        A user's engagements are in the order of the interests, then noise.
        """
        p = self.parameters
        for block in range(self.n_blocks) if blocks is None else blocks:
            start = block * _BLOCK_USERS
            rng = self._generator(3, block)
            n = min(_BLOCK_USERS, p.n_users - start)
            # Whole blocks are drawn, then cut: the first users must not depend on the number of users.
            drawn = self._block(rng)
            width = max(6, len(str(p.n_users - 1)))
            users = [f"user_{number:0{width}d}" for number in range(start, start + n)]
            topics, objects, types, reasons, times = (array[:n] for array in drawn)
            yield users, topics, objects, types, reasons, times

    def _block(self, rng: np.random.Generator) -> tuple[_Ints, ...]:
        p, n, per_topic = self.parameters, _BLOCK_USERS, self._objects_per_topic
        topics = np.argsort(rng.random((n, len(self._topics))), axis=1)[:, : len(self._sizes)]
        objects, types = [], []
        reasons = np.zeros((n, len(self._sizes)), dtype=np.int64)
        for i, size in enumerate(self._sizes):
            objects.append(topics[:, [i]] * per_topic + _distinct(rng, n, size, per_topic))
            if i < p.n_strong:
                types.append(_strong_types(rng, n, size))
            elif i < p.n_interests_per_user:
                kind = rng.integers(len(_MINIMA), size=n)
                types.append(np.array(list(_MINIMA.values()))[kind])
                reasons[:, i] = 1 + kind
            else:
                reason = p.false_reasons[i - p.n_interests_per_user]
                types.append(np.tile(_FALSE[reason], (n, 1)))
                reasons[:, i] = _REASONS.index(reason)
        noise = (n, p.n_noise_rows)
        objects.append(len(self._topics) * per_topic + _distinct(rng, n, p.n_noise_rows, self._noise_objects))
        types.append(np.searchsorted(np.cumsum(_NOISE_TYPES)[:-1], rng.random(noise), side="right"))
        times = _FIRST_TIME + rng.integers(_YEAR_SECONDS, size=(n, p.n_engagements_per_user))
        return topics, np.concatenate(objects, axis=1), np.concatenate(types, axis=1), reasons, times

    def _generator(self, *purpose: int) -> np.random.Generator:
        return np.random.Generator(np.random.PCG64([self.parameters.seed, *purpose]))


def _strong_types(rng: np.random.Generator, n: int, size: int) -> _Ints:
    types = np.where(rng.random((n, size)) < 0.25, _EP, _IP)
    explicit = rng.random((n, 1)) < 0.5
    types[:, :_STRONG_SIZE] = np.where(explicit, [_EP, _EP, _EP, _IP], [_IP] * _STRONG_SIZE)
    negatives = types[:, _STRONG_SIZE : _STRONG_SIZE + 3]
    negatives[...] = np.where(rng.random(negatives.shape) < 0.5, [_IN, _IN, _EN][: negatives.shape[1]], negatives)
    return types


def _distinct(rng: np.random.Generator, n: int, size: int, prime: int) -> _Ints:
    """Draw (n, size) numbers below ``prime``, without repeats in a row: a random start and a random stride."""
    start, stride = rng.integers(prime, size=(n, 1)), rng.integers(1, prime, size=(n, 1))
    return (start + stride * np.arange(size)) % prime


def _prime_from(number: int) -> int:
    while any(number % divisor == 0 for divisor in range(2, int(number**0.5) + 1)):
        number += 1
    return number


def _tokens(text: str) -> set[str]:
    return set(re.findall(r"[a-z0-9]+", text.casefold())) - _SHORT_WORDS


def _words(codes: _Ints, words: Sequence[str]) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(codes, pa.int32()), pa.array(words, pa.string())).cast(pa.string())
