"""Reads back from a prompt what a rule needs: the record, the items, the interests, the categories."""

import json
import re
from typing import NamedTuple

from ....hf_datasets import INTERACTION_TYPES
from ...prompts import read_lines

__all__ = ["Entry", "categories", "interests", "items", "picks_wanted", "record"]

_ITEM_NAME = re.compile(r"item_\d+")
_INTEREST = re.compile(r"^Interest: (.*)$", re.MULTILINE)
_PICKS = re.compile(r"^Exactly (\d+) of these items", re.MULTILINE)


class Entry(NamedTuple):
    """One engagement of the record."""

    item_id: str
    interaction_type: str
    text: str


def record(prompt: str) -> list[Entry]:
    """Return the engagements of an extract prompt, newest first."""
    rows = (row for row in read_lines(prompt, 3) if row[1] in INTERACTION_TYPES)
    return [Entry(json.loads(i) if i.startswith('"') else i, kind, text) for i, kind, text in rows]


def items(prompt: str) -> list[str]:
    """Return the texts of the numbered items, in order."""
    return [text for name, text in read_lines(prompt, 2) if _ITEM_NAME.fullmatch(name)]


def interests(prompt: str) -> list[str]:
    """Return the interests that a judge is asked about, in order."""
    if single := _INTEREST.findall(prompt):
        return [single[-1]]
    listed = prompt.rsplit("\nInterests:\n", 1)[1].split("\n\n", 1)[0].splitlines()
    return [re.sub(r"^(- |\d+ \| )", "", line) for line in listed]


def picks_wanted(prompt: str) -> int:
    """Return how many items a retrieve prompt asks for."""
    match = _PICKS.search(prompt)
    assert match is not None, "not a retrieve prompt"
    return int(match.group(1))


def categories(prompt: str) -> list[tuple[str, str, str]]:
    """Return the number, domain (or an empty text) and name of each category of a map prompt."""
    found = []
    for number, label in read_lines(prompt.rsplit("\nInterests:\n", 1)[0], 2):
        if number.isdigit() and number != "0":
            domain, separator, name = label.partition(": ")
            found.append((number, domain, name) if separator else (number, "", label))
    return found
