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
from ..prompts import item_name, render_lines
from ..requests import Outcome, Request
from ..retries import FIRST, Retry
from .base import Answered, Asker, items_schema, shown_name, split_to_budget

__all__ = ["SHORTLISTS", "PoolPart", "Shortlist"]

INSTRUCTION_TOKENS = 400
INTEREST_TOKENS = 800
"""Room for a user's interests; those of a user with more are asked about in turn."""

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
    batch: int = 0
    """Which of the user's batches of interests."""

    def __str__(self) -> str:
        batch = f", interests part {self.batch + 1}" if self.batch else ""
        return f"user {self.user}, pool objects {self.first} to {self.last - 1}{batch}"


class Shortlist:
    """The shortlist stage of one candidate."""

    name = "shortlist"

    def __init__(self, asker: Asker, pool: ObjectPool, interests: Mapping[str, Sequence[str]]) -> None:
        """Prepare the stage.

        Args:
            asker: of the judge; the pool is split to its context.
            pool: the data set's sample of objects.
            interests: each user's interests; users without any are not asked about.
        """
        self._asker = asker
        self._pool = pool
        self._interests: dict[str, list[list[str]]] = {}
        for user, names in interests.items():
            shown = [shown_name(name) for name in sorted(names)]
            parts = split_to_budget(shown, None if asker.context_tokens is None else INTEREST_TOKENS, 0)
            if shown:
                self._interests[user] = [shown[part] for part in parts]
        reserved = INSTRUCTION_TOKENS + INTEREST_TOKENS + asker.answer_tokens
        self._parts = list(split_to_budget(pool.texts, asker.context_tokens, reserved))
        self._lines = {
            part.start: render_lines((item_name(i), text) for i, text in enumerate(pool.texts[part]))
            for part in self._parts
        }

    def subjects(self) -> Sequence[PoolPart]:
        """Return every user for the first part of the pool, then every user for the next."""
        return [
            PoolPart(part.start, part.stop, user, batch)
            for part in self._parts
            for user, batches in self._interests.items()
            for batch in range(len(batches))
        ]

    def request(self, subject: PoolPart, retry: Retry = FIRST) -> Request:
        """Render the request for one part of the pool and one user."""
        size = subject.last - subject.first
        interests = self._interests[subject.user][subject.batch]
        lines = self._lines[subject.first]
        schema = items_schema(size, size)
        group = f"pool {subject.first}"
        return self._asker.ask(subject, retry, schema, group=group, items=lines, interests=interests)

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
        overlapping = {user: np.zeros(len(self._pool), dtype=bool) for user in self._interests}
        unanswered = {user: np.zeros(len(self._pool), dtype=bool) for user in self._interests}
        keys: dict[str, list[tuple[int, int, str]]] = {user: [] for user in self._interests}
        for answer in answers:
            if answer.followed_up:
                continue
            first, last, user, batch = answer.subject
            keys[user].append((first, batch, answer.key))
            if answer.parsed.value is None:
                unanswered[user][first:last] = True
            else:
                overlapping[user][first + np.array(answer.parsed.value.indices, dtype=int)] = True
        rows = []
        for user in self._interests:
            left = np.flatnonzero(~overlapping[user] & ~unanswered[user])
            rows.append(
                {
                    "user_id": user,
                    "object_ids": [self._pool.object_ids[i] for i in left],
                    "n_overlapping": int(overlapping[user].sum()),
                    "n_unanswered": int(unanswered[user].sum()),
                    "request_keys": [key for _, _, key in sorted(keys[user])],
                }
            )
        return pa.Table.from_pylist(rows, SHORTLISTS)
