"""Ground: cited items -> relevant items, each object shown once. Asked of the judge."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from ..histories import Histories
from ..parsing import Parsed, SelectedIndices, parse_indices
from ..prompts import item_name, render_lines
from ..requests import Outcome, Request
from ..retries import FIRST, Retry
from .base import Answered, Asker, items_schema, shown_name, split_to_budget

__all__ = ["GROUNDINGS", "Claim", "Evidence", "Ground"]

INSTRUCTION_TOKENS = 400

GROUNDINGS = pa.schema(
    [
        ("user_id", pa.string()),
        ("interest", pa.string()),
        ("shown_item_ids", pa.list_(pa.string())),
        ("relevant_item_ids", pa.list_(pa.string())),
        ("status", pa.string()),
        ("request_keys", pa.list_(pa.string())),
    ]
)


class Claim(NamedTuple):
    """One interest of one user, with its cited items."""

    user: str
    interest: str
    item_ids: tuple[str, ...]
    """Those that are in the user's history."""
    unknown_item_ids: tuple[str, ...] = ()
    """Those that are not: never evidence, and never a distractor either."""


class Evidence(NamedTuple):
    """A part of a claim's items, small enough for one prompt."""

    claim: Claim
    first: int
    last: int

    def __str__(self) -> str:
        return f"user {self.claim.user}, interest {self.claim.interest!r}, cited items {self.first} to {self.last - 1}"


class Ground:
    """The ground stage of one candidate."""

    name = "ground"

    def __init__(self, asker: Asker, histories: Histories, claims: Sequence[Claim]) -> None:
        """Prepare the stage.

        Args:
            asker: of the judge.
            histories: of the users.
            claims: every interest; one whose items are all unknown is not asked about, as it has no evidence.
        """
        self._asker = asker
        self._histories = histories
        self._claims = claims

    def subjects(self) -> Sequence[Evidence]:
        """Return the parts of every claim."""
        reserved, context = INSTRUCTION_TOKENS + self._asker.answer_tokens, self._asker.context_tokens
        return [
            Evidence(claim, part.start, part.stop)
            for claim in self._claims
            for part in split_to_budget(list(map(self._histories.text_of, claim.item_ids)), context, reserved)
        ]

    def request(self, subject: Evidence, retry: Retry = FIRST) -> Request:
        """Render the request for one part of a claim."""
        shown = subject.claim.item_ids[subject.first : subject.last]
        lines = render_lines((item_name(i), self._histories.text_of(item_id)) for i, item_id in enumerate(shown))
        schema = items_schema(len(shown), len(shown))
        return self._asker.ask(subject, retry, schema, items=lines, interest=shown_name(subject.claim.interest))

    def parse(self, subject: Evidence, outcome: Outcome) -> Parsed[SelectedIndices]:
        """Read which items the judge kept."""
        return parse_indices(outcome.text, subject.last - subject.first, finish_reason=outcome.finish_reason)

    def follow_up(self, subject: Evidence, parsed: Parsed[SelectedIndices]) -> Evidence | None:
        """Ask again when the answer could not be read."""
        return subject if parsed.value is None else None

    def records(self, answers: Iterable[Answered[Any, SelectedIndices]]) -> pa.Table:
        """Return the table `GROUNDINGS`: every claim, in order.

        ``status`` is ``ok``, ``no_known_items`` (nothing to ask about), or ``failed`` when any part has no readable
        answer; the relevant items of a failed claim are null, and it is left out of the scores.
        """
        kept: dict[tuple[str, str], list[Answered[Evidence, SelectedIndices]]] = {}
        for answer in answers:
            if not answer.followed_up:
                kept.setdefault(answer.subject.claim[:2], []).append(answer)
        rows = []
        for claim in self._claims:
            parts = sorted(kept.get(claim[:2], []), key=lambda answer: answer.subject.first)
            relevant: list[str] | None = []
            for part in parts:
                if part.parsed.value is None or relevant is None:
                    relevant = None
                else:
                    relevant += [claim.item_ids[part.subject.first + i] for i in sorted(part.parsed.value.indices)]
            rows.append(
                {
                    "user_id": claim.user,
                    "interest": claim.interest,
                    "shown_item_ids": list(claim.item_ids),
                    "relevant_item_ids": relevant,
                    "status": "no_known_items" if not parts else "failed" if relevant is None else "ok",
                    "request_keys": [part.key for part in parts],
                }
            )
        return pa.Table.from_pylist(rows, GROUNDINGS)
