"""Counts a stage's answers as they pass by, so that nobody has to keep them."""

from collections.abc import Iterable, Iterator
from typing import Any

from .requests import STATUSES, Status
from .stages.base import Answered
from .store import ResponseStore

__all__ = ["Tally"]


class Tally:
    """What became of one stage's requests."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._statuses: dict[str, Status] = {}
        self._n_subjects = self._n_unreadable = self._n_cut = 0
        self.work = ""
        """What the store calls the sessions that asked."""
        self.first_unreadable: Answered[Any, Any] | None = None

    def over(self, answers: Iterable[Answered[Any, Any]]) -> Iterator[Answered[Any, Any]]:
        """Hand answers through, counting them."""
        for answer in answers:
            self._statuses[answer.key] = answer.outcome.status
            if not answer.followed_up:
                self._n_subjects += 1
                if answer.parsed.value is None:
                    self._n_unreadable += 1
                    self.first_unreadable = self.first_unreadable or answer
                elif answer.parsed.status == "truncated" or answer.outcome.status == "truncated":
                    self._n_cut += 1
            yield answer

    @property
    def keys(self) -> list[str]:
        """The key of every request, once."""
        return list(self._statuses)

    @property
    def n_unreadable(self) -> int:
        """Subjects whose last answer could not be read."""
        return self._n_unreadable

    @property
    def n_subjects(self) -> int:
        """Subjects asked about."""
        return self._n_subjects

    def account(self, store: ResponseStore) -> dict[str, Any]:
        """Return the counts, with tokens and seconds over all attempts, whichever session made them.

        ``unusable_share`` is the share of subjects whose last answer could not be read or was cut. More than one entry
        in ``engines``: the answers are mixed.
        """
        counts = dict.fromkeys(STATUSES, 0)
        for status in self._statuses.values():
            counts[status] += 1
        unusable = self._n_unreadable + self._n_cut
        return {
            "n_subjects": self._n_subjects,
            "n_requests": len(self._statuses),
            "n_unreadable": self._n_unreadable,
            "n_cut": self._n_cut,
            "unusable_share": unusable / self._n_subjects if self._n_subjects else 0.0,
            "outcomes": counts,
            **store.totals(self._statuses),
            "wall_seconds": store.wall_seconds(self.work),
            "engines": store.engines_of(self._statuses),
        }
