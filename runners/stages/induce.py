"""Induce: a user's training ratings -> an induced preference profile (paper B, Section 3.2). Asked of the judge."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from ..parsing import Parsed, Taste, parse_taste
from ..parsing.taste import INSTRUCTIONS, MAX_CHARS, NARRATIVE, taste_schema
from ..rated import RatedHistories
from ..requests import Outcome, Request
from ..retries import FIRST, Retry
from .base import BYTES_PER_TOKEN, Answered, Asker

__all__ = ["INDUCED", "Induce", "Inducing", "render_taste"]

INSTRUCTION_TOKENS = 700

INDUCED = pa.schema(
    [
        ("user", pa.string()),
        *((name, pa.string()) for name in (*NARRATIVE, *INSTRUCTIONS)),
        ("n_rated", pa.int64()),
        ("n_shown", pa.int64()),
        ("status", pa.string()),
        ("problem", pa.string()),
        ("request_key", pa.string()),
    ]
)
"""One row per user; ``status`` is ``ok``, ``failed`` (no readable profile: the texts are null) or ``no_ratings``."""

_HEADINGS = {
    "likes": "Likes",
    "dislikes": "Dislikes",
    "themes": "Recurring themes",
    "intensity": "Intensity",
    "exceptions": "Exceptions",
    "high": "Grade 4 or 5",
    "middle": "Grade 2 or 3",
    "low": "Grade 0 or 1",
    "weighing": "How to weigh signals",
    "priorities": "What to look at first",
    "partial_evidence": "When little is known",
}


class Inducing(NamedTuple):
    """One user whose profile is induced."""

    user: str

    def __str__(self) -> str:
        return f"user {self.user}"


class Induce:
    """The induce stage."""

    name = "induce"

    def __init__(
        self,
        asker: Asker,
        histories: RatedHistories,
        users: Sequence[str],
        max_items: int | None = 100,
        max_chars: int = MAX_CHARS,
    ) -> None:
        """Prepare the stage.

        Args:
            asker: of the model that induces.
            histories: of the users.
            users: in the order of the records.
            max_items: rated items in a prompt, fewer where the context is short.
            max_chars: of each text of a profile.
        """
        self._asker = asker
        self._histories = histories
        self._users = users
        self._max_items = max_items
        self._max_chars = max_chars

    def subjects(self) -> Sequence[Inducing]:
        """Return the users with training ratings."""
        return [Inducing(user) for user in self._users if self._histories.of(user).items]

    def request(self, subject: Inducing, retry: Retry = FIRST) -> Request:
        """Render the request for one user."""
        lines = self._lines(subject.user)
        return self._asker.ask(
            subject,
            retry,
            taste_schema(self._max_chars),
            items="\n".join(lines),
            scale=self._histories.scale,
            n_shown=len(lines),
            n_rated=len(self._histories.of(subject.user).items),
            max_chars=self._max_chars,
        )

    def parse(self, subject: Inducing, outcome: Outcome) -> Parsed[Taste]:
        """Read the profile."""
        return parse_taste(outcome.text, finish_reason=outcome.finish_reason)

    def follow_up(self, subject: Inducing, parsed: Parsed[Taste]) -> Inducing | None:
        """Ask again when the answer could not be read."""
        return subject if parsed.value is None else None

    def records(self, answers: Iterable[Answered[Inducing, Taste]]) -> pa.Table:
        """Return the table `INDUCED`: every user, in order."""
        last = {answer.subject.user: answer for answer in answers if not answer.followed_up}
        rows: list[dict[str, Any]] = []
        for user in self._users:
            answer = last.get(user)
            taste = answer.parsed.value if answer else None
            n_rated = len(self._histories.of(user).items)
            rows.append(
                {
                    "user": user,
                    **(dict.fromkeys(Taste._fields) if taste is None else taste._asdict()),
                    "n_rated": n_rated,
                    "n_shown": len(self._lines(user)),
                    "status": "no_ratings" if not n_rated else "failed" if taste is None else "ok",
                    "problem": answer.parsed.problem if answer else "",
                    "request_key": answer.key if answer else None,
                }
            )
        return pa.Table.from_pylist(rows, INDUCED)

    def _lines(self, user: str) -> list[str]:
        context = self._asker.context_tokens
        room = None if context is None else (context - INSTRUCTION_TOKENS - self._asker.answer_tokens) * BYTES_PER_TOKEN
        return self._histories.lines(user, self._max_items, room)


def render_taste(taste: Taste) -> str:
    """Return a profile as a judge and a person read it: a heading and a text on each line."""
    return "\n".join(f"{_HEADINGS[name]}: {' '.join(text.split())}" for name, text in taste._asdict().items())
