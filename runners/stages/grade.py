"""Grade: a user and an item -> a relevance grade from 0 to 5 (paper B, Section 3.3). Asked of the judge.

What is known of the user stands before the item, so a user's requests share all but their end; they are one group.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from ..parsing import Parsed, Taste, parse_grade
from ..prompts import clean
from ..rated import RatedHistories
from ..requests import Outcome, Request
from ..retries import FIRST, Retry
from .base import BYTES_PER_TOKEN, Answered, Asker
from .induce import render_taste

__all__ = ["GRADED", "MODES", "Condition", "Grade", "Pair"]

MODES = ("ipp", "profile", "ipp+profile")
"""The evidence that the judge is given of the user: the induced profile, the rated items, or both."""
INSTRUCTION_TOKENS = 350
GRADE_SCHEMA = {"regex": "[0-5]"}

GRADED = pa.schema(
    [
        ("user", pa.string()),
        ("item", pa.string()),
        ("sample", pa.int64()),
        ("grade", pa.int64()),
        ("status", pa.string()),
        ("request_key", pa.string()),
    ]
)
"""One row per pair and sample; ``grade`` is null where ``status`` is ``failed`` (no readable answer), ``refused`` or
``no_evidence`` (the user has no induced profile, or no rated items, so nothing was asked)."""


class Condition(NamedTuple):
    """Under which evidence a judge grades."""

    mode: str
    plot: bool = False

    @property
    def name(self) -> str:
        """Such as ``ipp+profile`` or ``ipp-plot``."""
        return self.mode + ("-plot" if self.plot else "")

    @classmethod
    def of(cls, name: str) -> "Condition":
        """Read a name.

        Raises:
            ValueError: there is no such mode.
        """
        mode = name.removesuffix("-plot")
        if mode not in MODES:
            raise ValueError(f"There is no mode {mode!r}. There are: {', '.join(MODES)}.")
        return cls(mode, name.endswith("-plot"))


class Pair(NamedTuple):
    """A pair to be graded."""

    user: str
    item: str

    def __str__(self) -> str:
        return f"user {self.user}, item {self.item}"


class Grade:
    """The grade stage, under one condition."""

    name = "grade"

    def __init__(
        self,
        asker: Asker,
        histories: RatedHistories,
        pairs: Sequence[Pair],
        condition: Condition,
        tastes: Mapping[str, Taste] | None = None,
        max_items: int | None = 100,
    ) -> None:
        """Prepare the stage.

        Args:
            asker: of the judge.
            histories: of the users.
            pairs: what is graded, a user's pairs next to each other.
            condition: what the judge is told.
            tastes: the induced profiles by user, for the modes that show them.
            max_items: rated items in a prompt, fewer where the context is short.
        """
        self._asker = asker
        self._histories = histories
        self._pairs = pairs
        self._condition = condition
        self._tastes = tastes or {}
        self._max_items = max_items
        self._evidence: dict[str, tuple[str, str]] = {}

    def subjects(self) -> Sequence[Pair]:
        """Return the pairs of users about whom there is evidence."""
        return [pair for pair in self._pairs if self._is_known(pair.user)]

    def request(self, subject: Pair, retry: Retry = FIRST) -> Request:
        """Render the request for one pair."""
        ipp, profile = self._of_user(subject.user)
        return self._asker.ask(
            subject,
            retry,
            GRADE_SCHEMA,
            group=f"user {subject.user}",
            ipp=ipp,
            profile=profile,
            scale=self._histories.scale,
            item=self._histories.texts.text(subject.item, plot=self._condition.plot),
        )

    def parse(self, subject: Pair, outcome: Outcome) -> Parsed[int]:
        """Read the grade."""
        return parse_grade(outcome.text, finish_reason=outcome.finish_reason)

    def follow_up(self, subject: Pair, parsed: Parsed[int]) -> Pair | None:
        """Ask again when the answer could not be read."""
        return subject if parsed.value is None else None

    def records(self, answers: Iterable[Answered[Pair, int]], sample: int = 0) -> pa.Table:
        """Return the table `GRADED`: every pair, in order.

        Args:
            answers: to the stage's requests.
            sample: index of this grading among several.
        """
        last: dict[Pair, tuple[int | None, str, str]] = {}
        for answer in answers:
            if not answer.followed_up:
                grade = answer.parsed.value
                status = "ok" if grade is not None else "refused" if answer.outcome.status == "refused" else "failed"
                last[answer.subject] = (grade, status, answer.key)
        missing: tuple[int | None, str, str | None] = (None, "no_evidence", None)
        found = [last.get(pair, missing) for pair in self._pairs]
        columns: dict[str, Any] = {
            "user": [pair.user for pair in self._pairs],
            "item": [pair.item for pair in self._pairs],
            "sample": [sample] * len(self._pairs),
            "grade": [grade for grade, _, _ in found],
            "status": [status for _, status, _ in found],
            "request_key": [key for _, _, key in found],
        }
        return pa.table(columns, GRADED)

    def _is_known(self, user: str) -> bool:
        if self._condition.mode != "profile" and user not in self._tastes:
            return False
        return self._condition.mode == "ipp" or bool(self._histories.of(user).items)

    def _of_user(self, user: str) -> tuple[str, str]:
        """Return the induced profile and the rated items as shown; empty where the mode does without."""
        if user not in self._evidence:
            mode = self._condition.mode
            ipp = "" if mode == "profile" else "\n".join(map(clean, render_taste(self._tastes[user]).split("\n")))
            lines: list[str] = []
            if mode != "ipp":
                lines = self._histories.lines(user, self._max_items, self._room(ipp))
            self._evidence[user] = (ipp, "\n".join(lines))
        return self._evidence[user]

    def _room(self, ipp: str) -> float | None:
        """Return the bytes that rated items may have, beside the longest item text."""
        context = self._asker.context_tokens
        if context is None:
            return None
        item_tokens = 500 if self._condition.plot else 200
        tokens = context - INSTRUCTION_TOKENS - item_tokens - self._asker.answer_tokens
        return tokens * BYTES_PER_TOKEN - len(ipp.encode())
