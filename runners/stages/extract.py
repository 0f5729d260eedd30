"""Extract: a person's history, newest first, in chunks -> interests with cited items. Asked of the candidate."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from ...hf_datasets import INTERACTION_TYPES
from ..histories import Histories
from ..parsing import ExtractedInterests, Parsed, parse_interests, unwrap_id
from ..prompts import identifier, render_lines
from ..requests import Outcome, Request
from ..retries import FIRST, Retry
from .base import Answered, Asker

__all__ = ["EXTRACTIONS", "MIN_ANSWERED", "USERS", "Chunk", "Extract"]

MIN_ANSWERED = 0.9
"""The share of a user's chunks that must be answered for the user to count for a candidate."""

USERS = pa.schema(
    [
        ("user_id", pa.string()),
        ("n_engagements", pa.int64()),
        ("n_chunks", pa.int64()),
        ("n_chunks_answered", pa.int64()),
        ("n_members_dropped", pa.int64()),
        ("n_ids_dropped", pa.int64()),
        ("scored", pa.bool_()),
    ]
)
EXTRACTIONS = pa.schema(
    [
        ("user_id", pa.string()),
        ("interest", pa.string()),
        ("item_ids", pa.list_(pa.string())),
        ("chunks", pa.list_(pa.int64())),
        ("request_keys", pa.list_(pa.string())),
    ]
)


class Chunk(NamedTuple):
    """One chunk of one user's history."""

    user: str
    position: int
    n_chunks: int

    def __str__(self) -> str:
        return f"user {self.user}, chunk {self.position + 1} of {self.n_chunks}"


class Extract:
    """The extract stage of one candidate."""

    name = "extract"

    def __init__(
        self, asker: Asker, histories: Histories, *, chunk_size: int = 100, history_length: int | None = None
    ) -> None:
        """Prepare the stage.

        Args:
            asker: of the candidate.
            histories: of the users.
            chunk_size: engagements in one prompt.
            history_length: how many of the newest engagements are shown in all; None shows every one.
        """
        self._asker = asker
        self._histories = histories
        self._chunk_size = chunk_size
        self._history_length = history_length
        self._ids = [identifier(object_id) for object_id in histories.object_ids]
        known = set(histories.object_ids)
        bare = {unwrap_id(object_id): object_id for object_id in histories.object_ids}
        self._wrapped = {short: own for short, own in bare.items() if short not in known}

    def subjects(self) -> Sequence[Chunk]:
        """Return every chunk of every user."""
        chunks = []
        for user in self._histories.users:
            n_shown = self._histories.n_engagements(user)
            if self._history_length is not None:
                n_shown = min(n_shown, self._history_length)
            n_chunks = -(-n_shown // self._chunk_size)
            chunks += [Chunk(user, index, n_chunks) for index in range(n_chunks)]
        return chunks

    def request(self, subject: Chunk, retry: Retry = FIRST) -> Request:
        """Render the request for one chunk."""
        first = subject.position * self._chunk_size
        last = first + self._chunk_size
        if self._history_length is not None:
            last = min(last, self._history_length)
        objects, types = (column[first:last] for column in self._histories.engagements_of(subject.user))
        texts = self._histories.texts
        lines = render_lines(
            (self._ids[o], INTERACTION_TYPES[t], texts[o]) for o, t in zip(objects, types, strict=True)
        )
        schema = _schema([self._histories.object_ids[number] for number in objects])
        return self._asker.ask(subject, retry, schema, signals=self._histories.signals, items=lines)

    def parse(self, subject: Chunk, outcome: Outcome) -> Parsed[ExtractedInterests]:
        """Read the interests of one chunk."""
        return parse_interests(outcome.text, finish_reason=outcome.finish_reason)

    def follow_up(self, subject: Chunk, parsed: Parsed[ExtractedInterests]) -> Chunk | None:
        """Ask again for a chunk whose answer could not be read."""
        return subject if parsed.value is None else None

    def _own_form(self, item_id: str) -> str:
        """Return an id as the data has it, where it has brackets or quotes of its own that parsing takes off."""
        return self._wrapped.get(item_id, item_id)

    def records(self, answers: Iterable[Answered[Any, ExtractedInterests]]) -> tuple[pa.Table, pa.Table]:
        """Merge the answers of each user's chunks.

        Same-named interests of one user merge, their ids united in first-seen order.

        Returns:
            The tables `USERS` (every user, answered or not) and `EXTRACTIONS`.
        """
        by_user: dict[str, list[Answered[Chunk, ExtractedInterests]]] = {user: [] for user in self._histories.users}
        for answer in answers:
            if not answer.followed_up:
                by_user[answer.subject.user].append(answer)
        users, extractions = [], []
        for user, answered in by_user.items():
            answered.sort(key=lambda answer: answer.subject.position)
            readable = [(answer, answer.parsed.value) for answer in answered if answer.parsed.value is not None]
            merged: dict[str, dict[str, Any]] = {}
            for answer, value in readable:
                for interest in value.interests:
                    row = merged.setdefault(
                        interest.name,
                        {"user_id": user, "interest": interest.name, "item_ids": {}, "chunks": [], "request_keys": []},
                    )
                    row["item_ids"] |= dict.fromkeys(map(self._own_form, interest.item_ids))
                    row["chunks"].append(answer.subject.position)
                    row["request_keys"].append(answer.key)
            n_chunks = len(answered)
            users.append(
                {
                    "user_id": user,
                    "n_engagements": self._histories.n_engagements(user),
                    "n_chunks": n_chunks,
                    "n_chunks_answered": len(readable),
                    "n_members_dropped": sum(value.n_dropped for _, value in readable),
                    "n_ids_dropped": sum(value.n_ids_dropped for _, value in readable),
                    "scored": len(readable) >= MIN_ANSWERED * n_chunks,
                }
            )
            if users[-1]["scored"]:
                extractions += [{**row, "item_ids": list(row["item_ids"])} for row in merged.values()]
        return pa.Table.from_pylist(users, USERS), pa.Table.from_pylist(extractions, EXTRACTIONS)


def _schema(shown_ids: Sequence[str]) -> dict[str, Any]:
    """Return the schema of a list of interests that cites only what was shown, for candidates that are held to one."""
    ids = list(dict.fromkeys(shown_ids))
    # Nothing shorter than all that was shown would be fair; nothing longer keeps a small model from citing for ever.
    item_ids = {"type": "array", "items": {"enum": ids}, "minItems": 1, "maxItems": len(ids)}
    name = {"type": "string", "minLength": 1, "maxLength": 80}
    interest = {
        "type": "object",
        "properties": {"interest": name, "item_ids": item_ids},
        "required": ["interest", "item_ids"],
        "additionalProperties": False,
    }
    return {"json": {"type": "array", "items": interest, "maxItems": 100}}
