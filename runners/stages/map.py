"""Map: interest -> category. Asked of the judge, three names of one candidate in a prompt.

The categories stand first in the prompt, so every request shares that prefix. A name that an answer passes over is
asked again; one that no readable answer gives a category is unmapped (0); one without a readable answer has failed.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa

from ...hf_datasets import Taxonomy
from ..parsing import NO_CATEGORY, Parsed, parse_mapping
from ..requests import Outcome, Request
from ..retries import FIRST, Retry
from .base import Answered, Asker, shown_name

__all__ = ["MAPPINGS", "Map", "Names"]

Pairs: TypeAlias = tuple[tuple[str, int], ...]

MAPPINGS = pa.schema(
    [
        ("interest", pa.string()),
        ("category_id", pa.int64()),
        ("status", pa.string()),
        ("request_keys", pa.list_(pa.string())),
    ]
)


class Names(NamedTuple):
    """A few interest names that share a prompt."""

    names: tuple[str, ...]

    def __str__(self) -> str:
        return f"interests {', '.join(map(repr, self.names))}"


class Map:
    """The map stage of one candidate."""

    name = "map"

    def __init__(self, asker: Asker, taxonomy: Taxonomy, interests: Iterable[str], *, batch_size: int = 3) -> None:
        """Prepare the stage.

        Args:
            asker: of the judge.
            taxonomy: the categories.
            interests: names of one candidate's interests, repeats allowed.
            batch_size: names in one prompt.
        """
        self._asker = asker
        self._taxonomy = taxonomy
        self._names = sorted(set(interests))
        self._batch_size = batch_size
        domains = taxonomy.domains or [None] * len(taxonomy.ids)
        self._lines = [
            f"{category_id} | {domain}: {name}" if domain else f"{category_id} | {name}"
            for category_id, name, domain in zip(taxonomy.ids, taxonomy.names, domains, strict=True)
        ]
        self._by_id = dict(zip(taxonomy.ids, taxonomy.names, strict=True))

    def subjects(self) -> Sequence[Names]:
        """Return the batches of names."""
        size = self._batch_size
        return [Names(tuple(self._names[i : i + size])) for i in range(0, len(self._names), size)]

    def request(self, subject: Names, retry: Retry = FIRST) -> Request:
        """Render the request for one batch of names."""
        names = [shown_name(name) for name in subject.names]
        digits = len(str(max(self._taxonomy.ids)))
        lines = [f"{number}: [0-9]{{1,{digits}}}" for number in range(1, len(names) + 1)]
        return self._asker.ask(subject, retry, {"regex": "\n".join(lines)}, categories=self._lines, interests=names)

    def parse(self, subject: Names, outcome: Outcome) -> Parsed[Pairs]:
        """Read the categories of one batch."""
        return parse_mapping(
            outcome.text,
            subject.names,
            self._taxonomy.ids,
            category_names=self._by_id,
            finish_reason=outcome.finish_reason,
        )

    def follow_up(self, subject: Names, parsed: Parsed[Pairs]) -> Names | None:
        """Ask again for the names that have no category yet."""
        mapped = dict(parsed.value) if parsed.value else {}
        rest = tuple(name for name in subject.names if name not in mapped)
        return Names(rest) if rest else None

    def records(self, answers: Iterable[Answered[Any, Pairs]]) -> pa.Table:
        """Return the table `MAPPINGS`: every name once, sorted.

        ``status`` is ``ok``, ``unmapped`` (0: never named in a readable answer) or ``failed`` (category null).
        """
        categories: dict[str, int] = {}
        keys: dict[str, list[str]] = {name: [] for name in self._names}
        passed_over: set[str] = set()
        for answer in answers:
            mapped = dict(answer.parsed.value) if answer.parsed.value else {}
            categories |= mapped
            for name in answer.subject.names:
                keys[name].append(answer.key)
                if answer.parsed.value and name not in mapped:
                    passed_over.add(name)
        rows = []
        for name in self._names:
            category = categories.get(name, NO_CATEGORY if name in passed_over else None)
            status = "ok" if name in categories else "failed" if category is None else "unmapped"
            rows.append(
                {"interest": name, "category_id": category, "status": status, "request_keys": sorted(keys[name])}
            )
        return pa.Table.from_pylist(rows, MAPPINGS)
