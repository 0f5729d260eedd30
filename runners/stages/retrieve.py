"""Retrieve: backing items among distractors -> what the judge picks for the interest. Asked of the judge.

For every interest with a cited item in the history, verified or not: up to 5 of those items (the backing) are mixed
with distractors from the user's shortlist to a test set of 50, and the judge picks as many as there are backing items.
"""

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from ..draw import hash_strings, order, salt
from ..histories import Histories, ObjectPool
from ..parsing import Parsed, SelectedIndices, parse_indices
from ..prompts import item_name, render_lines
from ..requests import Outcome, Request
from ..retries import FIRST, Retry
from .base import Answered, Asker, items_schema, shown_name
from .ground import Claim

__all__ = ["RETRIEVALS", "Retrieve", "TestSet"]

N_BACKING = 5
N_ITEMS = 50

RETRIEVALS = pa.schema(
    [
        ("user_id", pa.string()),
        ("interest", pa.string()),
        ("backing_item_ids", pa.list_(pa.string())),
        ("shown_item_ids", pa.list_(pa.string())),
        ("selected_item_ids", pa.list_(pa.string())),
        ("n_over_selected", pa.int64()),
        ("n_distractors", pa.int64()),
        ("few_distractors", pa.bool_()),
        ("status", pa.string()),
        ("request_keys", pa.list_(pa.string())),
    ]
)


@dataclass(frozen=True, slots=True)
class TestSet:
    """The items among which the judge looks for an interest's backing."""

    __test__ = False  # not a test case, whatever its name

    user: str
    interest: str
    backing: tuple[str, ...]
    shown: tuple[str, ...]
    """Backing and distractors in drawn order; no distractors when the shortlist left none."""

    @property
    def n_distractors(self) -> int:
        """How many of the shown items are distractors."""
        return len(self.shown) - len(self.backing)

    def __str__(self) -> str:
        return f"user {self.user}, interest {self.interest!r}"


class Retrieve:
    """The retrieve stage of one candidate."""

    name = "retrieve"

    def __init__(
        self,
        asker: Asker,
        histories: Histories,
        claims: Sequence[Claim],
        pool: ObjectPool,
        shortlists: Mapping[str, Sequence[str]],
        *,
        unanswered: Container[str] = (),
        seed: int,
    ) -> None:
        """Draw every interest's test set.

        Args:
            asker: of the judge.
            histories: of the users.
            claims: every interest with its known items.
            pool: the data set's sample of objects.
            shortlists: each user's objects that overlap none of the interests.
            unanswered: users a part of whose shortlist has no readable answer.
            seed: of the draws.
        """
        self._asker = asker
        self._histories = histories
        self._unanswered = unanswered
        self._pool_texts = dict(zip(pool.object_ids, pool.texts, strict=True))
        positions = {object_id: i for i, object_id in enumerate(pool.object_ids)}
        distractors: dict[str, tuple[list[str], Any]] = {}
        for user, object_ids in shortlists.items():
            own = histories.objects_of(user)
            ids = [object_id for object_id in object_ids if object_id not in own]
            distractors[user] = ids, pool.hashes[[positions[object_id] for object_id in ids]]
        self._test_sets = [_draw(claim, *distractors.get(claim.user, ([], [])), seed=seed) for claim in claims]

    def subjects(self) -> Sequence[TestSet]:
        """Return every test set that can be asked about."""
        return [test_set for test_set in self._test_sets if test_set.backing and test_set.n_distractors]

    def request(self, subject: TestSet, retry: Retry = FIRST) -> Request:
        """Render the request for one interest."""
        lines = render_lines((item_name(i), self._text(subject, item)) for i, item in enumerate(subject.shown))
        k = len(subject.backing)
        schema = items_schema(len(subject.shown), k)
        return self._asker.ask(subject, retry, schema, items=lines, interest=shown_name(subject.interest), k=k)

    def _text(self, subject: TestSet, object_id: str) -> str:
        if object_id in subject.backing:
            return self._histories.text_of(object_id)
        return self._pool_texts[object_id]

    def parse(self, subject: TestSet, outcome: Outcome) -> Parsed[SelectedIndices]:
        """Read all of the judge's picks, in its order; the metric counts the first k."""
        return parse_indices(outcome.text, len(subject.shown), finish_reason=outcome.finish_reason)

    def follow_up(self, subject: TestSet, parsed: Parsed[SelectedIndices]) -> TestSet | None:
        """Ask again when the answer could not be read."""
        return subject if parsed.value is None else None

    def records(self, answers: Iterable[Answered[Any, SelectedIndices]]) -> pa.Table:
        """Return the table `RETRIEVALS`: every interest, in order.

        ``status`` is ``ok``, ``no_backing`` (no cited item is in the history: scores 0), ``no_distractors`` (everything
        overlapped: not scored), ``shortlist_failed`` (nothing is left, for want of readable answers: not scored) or
        ``failed`` (no readable answer: not scored). Selected items are null unless ``ok``.
        """
        last = {(answer.subject.user, answer.subject.interest): answer for answer in answers if not answer.followed_up}
        rows = []
        for test_set in self._test_sets:
            answer = last.get((test_set.user, test_set.interest))
            value = answer.parsed.value if answer else None
            if answer is not None:
                status = "ok" if value else "failed"
            elif not test_set.backing:
                status = "no_backing"
            else:
                status = "shortlist_failed" if test_set.user in self._unanswered else "no_distractors"
            rows.append(
                {
                    "user_id": test_set.user,
                    "interest": test_set.interest,
                    "backing_item_ids": list(test_set.backing),
                    "shown_item_ids": list(test_set.shown),
                    "selected_item_ids": [test_set.shown[i] for i in value.indices] if value else None,
                    "n_over_selected": max(len(value.indices) - len(test_set.backing), 0) if value else 0,
                    "n_distractors": test_set.n_distractors,
                    "few_distractors": bool(test_set.backing) and test_set.n_distractors < N_ITEMS - N_BACKING,
                    "status": status,
                    "request_keys": [answer.key] if answer else [],
                }
            )
        return pa.Table.from_pylist(rows, RETRIEVALS)


def _draw(claim: Claim, distractor_ids: Sequence[str], distractor_hashes: Any, *, seed: int) -> TestSet:
    """Draw the backing and the distractors of one interest, and mix them."""
    # Sorted first, so that the order in which a model cites does not decide the draw.
    items = sorted(claim.item_ids)
    item_hashes = hash_strings(items)
    backing = order(item_hashes, salt(seed, "backing", claim.user, claim.interest))[:N_BACKING]
    n_distractors = N_ITEMS - len(backing) if len(backing) else 0
    hashes = np.asarray(distractor_hashes, dtype=np.uint64)
    candidates = order(hashes, salt(seed, "distractors", claim.user, claim.interest))
    nearly = candidates[: n_distractors + len(claim.unknown_item_ids)]
    drawn = [int(i) for i in nearly if distractor_ids[i] not in claim.unknown_item_ids][:n_distractors]
    shown = [items[i] for i in backing] + [distractor_ids[i] for i in drawn]
    all_hashes = np.concatenate([item_hashes[backing], hashes[drawn]])
    mixed = order(all_hashes, salt(seed, "mix", claim.user, claim.interest))
    return TestSet(claim.user, claim.interest, tuple(items[i] for i in backing), tuple(shown[i] for i in mixed))
