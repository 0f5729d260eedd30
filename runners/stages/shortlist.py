"""Shortlist: the data set's pool of objects, minus those that overlap the user's interests. Asked of the judge.

The pool stands first in the prompt and the interests last, so all users share one long prefix for each part of the
pool; subjects are ordered by part to keep those prefixes adjacent.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from ..histories import ObjectPool
from ..parsing import Parsed, SelectedIndices, parse_indices
from ..prompts import clean, item_name, render_lines
from ..requests import Outcome, Request
from .base import Answered, Asker, items_schema, split_to_budget

__all__ = ["SHORTLISTS", "PoolPart", "Shortlist"]

INSTRUCTION_TOKENS = 1200
"""Of the prompt around the pool, with room for a user's interests."""

SHORTLISTS = pa.schema(
    [
        ("user_id", pa.string()),
        ("object_ids", pa.list_(pa.string())),
        ("n_overlapping", pa.int64()),
        ("n_unanswered", pa.int64()),
        ("request_keys", pa.list_(pa.string())),
    ]
)


class PoolPart(NamedTuple):
    """A part of the pool, for one user."""

    first: int
    last: int
    user: str

    def __str__(self) -> str:
        return f"user {self.user}, pool objects {self.first} to {self.last - 1}"


class Shortlist:
    """The shortlist stage of one candidate."""

    name = "shortlist"

    def __init__(
        self, asker: Asker, pool: ObjectPool, interests: Mapping[str, Sequence[str]], context_tokens: int | None
    ) -> None:
        """Prepare the stage.

        Args:
            asker: of the judge.
            pool: the data set's sample of objects.
            interests: each user's interests; users without any are not asked about.
            context_tokens: of the judge; the pool is split to it.
        """
        self._asker = asker
        self._pool = pool
        self._interests = {user: sorted(names) for user, names in interests.items() if names}
        reserved = INSTRUCTION_TOKENS + asker.config.sampling(asker.prompt.max_tokens).max_tokens
        self._parts = list(split_to_budget(pool.texts, context_tokens, reserved))
        self._lines = {
            part.start: render_lines((item_name(i), text) for i, text in enumerate(pool.texts[part]))
            for part in self._parts
        }

    def subjects(self) -> Sequence[PoolPart]:
        """Return every user for the first part of the pool, then every user for the next."""
        return [PoolPart(part.start, part.stop, user) for part in self._parts for user in self._interests]

    def request(self, subject: PoolPart, n_reask: int) -> Request:
        """Render the request for one part of the pool and one user."""
        size = subject.last - subject.first
        interests = [clean(name) for name in self._interests[subject.user]]
        lines = self._lines[subject.first]
        return self._asker.ask(subject, n_reask, items_schema(size, size), items=lines, interests=interests)

    def parse(self, subject: PoolPart, outcome: Outcome) -> Parsed[SelectedIndices]:
        """Read which objects overlap."""
        return parse_indices(outcome.text, subject.last - subject.first, finish_reason=outcome.finish_reason)

    def follow_up(self, subject: PoolPart, parsed: Parsed[SelectedIndices]) -> PoolPart | None:
        """Ask again when the answer could not be read."""
        return subject if parsed.value is None else None

    def records(self, answers: Iterable[Answered[Any, SelectedIndices]]) -> pa.Table:
        """Return the table `SHORTLISTS`: for every user the objects that overlap none of the interests.

        Objects of an unanswered part are kept out, since nobody said that they do not overlap.
        """
        usable = {user: np.ones(len(self._pool), dtype=bool) for user in self._interests}
        overlapping = dict.fromkeys(self._interests, 0)
        unanswered = dict.fromkeys(self._interests, 0)
        keys: dict[str, list[tuple[int, str]]] = {user: [] for user in self._interests}
        for answer in answers:
            if answer.followed_up:
                continue
            first, last, user = answer.subject
            keys[user].append((first, answer.key))
            if answer.parsed.value is None:
                usable[user][first:last] = False
                unanswered[user] += last - first
            else:
                usable[user][first + np.array(answer.parsed.value.indices, dtype=int)] = False
                overlapping[user] += len(answer.parsed.value.indices)
        rows = [
            {
                "user_id": user,
                "object_ids": [self._pool.object_ids[i] for i in np.flatnonzero(usable[user])],
                "n_overlapping": overlapping[user],
                "n_unanswered": unanswered[user],
                "request_keys": [key for _, key in sorted(keys[user])],
            }
            for user in self._interests
        ]
        return pa.Table.from_pylist(rows, SHORTLISTS)
