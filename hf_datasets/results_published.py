"""The numbers that the two papers' pages print, one record per number, and nothing filled in.

A record is a cell of a table, or a number of a caption (``row`` is then ``caption``). Labels are the page's, in ASCII
(Greek letters spelled, no line breaks within a name); columns under a shared heading are ``heading / column``; cells
with two numbers are two columns. The pages cut long tables at seven lines, headings included, and show no plots:
``complete`` tells for which tables every number is here. Where a page disagrees with itself, both numbers stand, and
the ``note`` of each says so. Licence: numbers and labels are facts; no text of the papers is copied.
Knows nothing about what gistbench measures: our prompts are not the papers', so scores do not compare to the digit.

    >>> published_value("Table 3", "GPT-OSS-120B", "Synthetic / IG F1")
    67.8
    >>> published_value("Table 6", "IPP + Profile", "Synthetic Pool / AP", paper="preference-induction")
    -0.2095

As a `datasets` builder: ``ResultsPublished(dataset_name="results_published")``.
"""

import functools
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import datasets
import pyarrow as pa

from ._columns import suggestion
from .errors import DataError
from .files import read_csv_columns
from .registry import DatasetRecord
from .tables import TableBuilder, TableConfig

__all__ = [
    "CITATIONS",
    "DISAGREES",
    "RECORD",
    "RESULTS_FEATURES",
    "RESULTS_SCHEMA",
    "UNITS",
    "ResultsPublished",
    "ResultsPublishedConfig",
    "load_results_published",
    "published_value",
    "validate_results_published",
]

_T = TypeVar("_T")
_Record = dict[str, Any]

CITATIONS: Mapping[str, str] = {
    "gistbench": """\
@misc{gistbench2026,
    title = {{GISTBench}: Evaluating {LLM} User Understanding via Evidence-Based Interest Verification},
    author = {Fostiropoulos, Iordanis and Azhar, Muhammad Rafay and Sawwan, Abdalaziz and Fang, Boyu and Liu, Yuchen and
              Liu, Jiayi and Yu, Hanchao and Guo, Qi},
    year = {2026}
}
""",
    # The page names neither authors nor a year.
    "preference-induction": """\
@misc{preferenceinduction,
    title = {User Preference Induction with {LLMs} for Offline Top-{N} Recommendation Evaluation}
}
""",
}
"""The papers by the name that records give them: paper A, then paper B."""

UNITS: tuple[str, ...] = (
    "percent",
    "percentage points",
    "fraction",
    "count",
    "tokens",
    "H100-hours",
    "rating points",
    "elo",
    "kappa",
    "rho",
    "tau",
    "delta tau",
    "t-statistic",
    "p-value",
    "name",
)
"""What ``value`` is in; a ``name`` (Table 23's model ids) has no value, only ``printed``."""

DISAGREES = "the page disagrees with itself"
"""Stands in the note of each number that another place of its page contradicts."""

RESULTS_SCHEMA: pa.Schema = pa.schema(
    [
        pa.field("paper", pa.string()),
        pa.field("table", pa.string()),
        pa.field("row", pa.string()),
        pa.field("column", pa.string()),
        pa.field("value", pa.float64()),
        pa.field("printed", pa.string()),
        pa.field("unit", pa.string()),
        pa.field("note", pa.string()),
        pa.field("complete", pa.bool_()),
    ]
)
"""``value`` is null where the page prints a dash or a name; ``note`` may be empty. ``printed`` is the page's text
without its markup: ``~56``, ``>= 2``, ``175.3 M`` (whose value is 175300000)."""

RESULTS_FEATURES = datasets.Features.from_arrow_schema(RESULTS_SCHEMA)

_PATH = Path(__file__).parent / "data" / "results_published.csv"
_WITHOUT_VALUE = "—"
_KEY = ("paper", "table", "row", "column")


@functools.cache
def load_results_published() -> pa.Table:
    """Return all published numbers, in the order of papers and tables.

    Returns:
        (rows, 9) in :data:`RESULTS_SCHEMA`, validated.
    """
    types = dict(zip(RESULTS_SCHEMA.names, RESULTS_SCHEMA.types, strict=True))
    table = read_csv_columns(lambda: _PATH.open("rb"), types, source=_PATH.name)
    return validate_results_published(table, source=_PATH.name)


def validate_results_published(table: pa.Table, *, source: str) -> pa.Table:
    """Return the table in :data:`RESULTS_SCHEMA`, or say which record is wrong.

    Args:
        table: any Arrow table with the schema's columns.
        source: how to call the table in messages.

    Raises:
        DataError: columns are missing or of other types; a label is blank; a paper or unit is unknown; a value is
            missing although a number is printed; a table is complete in one record only; the same cell is there twice
            and no note says that the page disagrees with itself.
    """
    if missing := [name for name in RESULTS_SCHEMA.names if name not in table.column_names]:
        raise DataError(f"{source}: missing columns: {', '.join(missing)}. Needed: {', '.join(RESULTS_SCHEMA.names)}.")
    try:
        table = table.select(RESULTS_SCHEMA.names).cast(RESULTS_SCHEMA)
    except pa.ArrowException as error:
        raise DataError(f"{source}: columns are not of the types that results have: {error}") from error
    records: list[_Record] = table.to_pylist()
    complete: dict[tuple[str, str], bool] = {}
    keys = Counter(tuple(record[name] for name in _KEY) for record in records)
    for number, record in enumerate(records, start=1):
        if fault := _fault(record):
            raise DataError(f"{source}, record {number}: {fault}")
        if complete.setdefault((record["paper"], record["table"]), record["complete"]) != record["complete"]:
            raise DataError(f"{source}, record {number}: {record['table']} is both complete and not. Say one.")
        if (n := keys[tuple(record[name] for name in _KEY)]) > 1 and DISAGREES not in record["note"]:
            raise DataError(
                f"{source}, record {number}: {_named(record)} is there {n} times. Keep one, or say in the note of "
                f"each that {DISAGREES}."
            )
    return table


def published_value(table: str, row: str, column: str, *, paper: str = "gistbench") -> float:
    """Return one published number, in the unit that its record names.

    Args:
        table: such as ``Table 3`` or ``Figure 7``.
        row: the row's label, or ``caption`` for a number of the caption.
        column: the column's label, ``heading / column`` where columns share a heading.
        paper: one of :data:`CITATIONS`.

    Raises:
        DataError: no such number is printed (the message suggests the nearest label), it is a dash or a name, or the
            page prints two for the same cell.
    """
    tables = _pick(_by_label(), paper, "paper", "the published results")
    rows = _pick(tables, table, "table", f"the results of {paper!r}")
    columns = _pick(rows, row, "row", f"{table} of {paper!r}")
    found = _pick(columns, column, "column", f"row {row!r} of {table} of {paper!r}")
    values = [record["value"] for record in found]
    if len(values) > 1:
        raise DataError(f"{_named(found[0])}: the page prints {values}. Choose one from load_results_published().")
    if values[0] is None:
        raise DataError(f"{_named(found[0])}: the page prints {found[0]['printed']!r}, which is not a number.")
    return float(values[0])


@dataclass
class ResultsPublishedConfig(TableConfig):
    """There is nothing to choose."""

    def make_table(self) -> pa.Table:
        """Return one row per printed number."""
        return load_results_published()


class ResultsPublished(TableBuilder):
    """Builder of `results_published`: one split, ``train``."""

    VERSION = datasets.Version("1.0.0")
    BUILDER_CONFIG_CLASS = ResultsPublishedConfig


RECORD = DatasetRecord(
    name="results_published",
    title="Published results",
    summary="The numbers that the two papers print, one record per number; tables that the pages cut are marked.",
    signals=(),
    licence="facts of the two papers, no text of theirs; may be passed on",
    redistributable=True,
    builder=ResultsPublished,
    citation="\n\n".join(CITATIONS.values()),
)


@functools.cache
def _by_label() -> dict[str, dict[str, dict[str, dict[str, list[_Record]]]]]:
    """Return the records of each cell by paper, table, row and column."""
    labelled: dict[str, dict[str, dict[str, dict[str, list[_Record]]]]] = {}
    for record in load_results_published().to_pylist():
        rows = labelled.setdefault(record["paper"], {}).setdefault(record["table"], {})
        rows.setdefault(record["row"], {}).setdefault(record["column"], []).append(record)
    return labelled


def _pick(labelled: Mapping[str, _T], label: str, kind: str, place: str) -> _T:
    if label not in labelled:
        known = list(labelled)
        listed = ", ".join(map(repr, known))
        raise DataError(f"There is no {kind} {label!r} in {place}. Printed: {listed}.{suggestion(label, known)}")
    return labelled[label]


def _fault(record: Mapping[str, Any]) -> str:
    """Say what is wrong with a record by itself; empty where nothing is."""
    if blank := [name for name in RESULTS_SCHEMA.names if name != "value" and record[name] is None]:
        return f"{', '.join(blank)} is null."
    if blank := [name for name in (*_KEY, "printed") if not record[name].strip()]:
        return f"{', '.join(blank)} is blank."
    for name, known in (("paper", tuple(CITATIONS)), ("unit", UNITS)):
        if record[name] not in known:
            return f"{name} is {record[name]!r}; known: {', '.join(known)}.{suggestion(record[name], known)}"
    without_value = record["unit"] == "name" or record["printed"] == _WITHOUT_VALUE
    if without_value != (record["value"] is None):
        return f"{_named(record)} prints {record['printed']!r}, its value is {record['value']!r}."
    return ""


def _named(record: Mapping[str, Any]) -> str:
    return f"{record['table']} of {record['paper']!r}, row {record['row']!r}, column {record['column']!r}"
