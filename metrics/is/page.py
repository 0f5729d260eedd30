"""What the demos of the metrics share: input that is pasted or uploaded, the tables of a result, and the page itself.

It knows no metric. It stands once as ``metrics/page.py`` and is copied beside each ``app.py`` by ``make sync-metrics``;
a demo imports it as ``page``, since a Space runs ``app.py`` as a script.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

__all__ = [
    "Bars",
    "Input",
    "Source",
    "Table",
    "as_table",
    "bars_by_user",
    "build",
    "read_by_user",
    "read_csv",
    "read_json",
    "read_table",
    "summary",
]

Source = str | Path
"""Pasted text, or an uploaded file."""
Table = list[list[Any]]
"""The header row first."""


# --- input ----------------------------------------------------------------------------------------------------------


def _text(source: Source) -> str:
    return source if isinstance(source, str) else source.read_text(encoding="utf-8-sig")


def _is_parquet(source: Source) -> bool:
    return isinstance(source, Path) and source.suffix == ".parquet"


def read_json(source: Source, name: str) -> dict[str, Any]:
    """Read a JSON object by user id."""
    try:
        value = json.loads(_text(source))
    except json.JSONDecodeError as error:
        raise ValueError(f"{name}: line {error.lineno} is no valid JSON: {error.msg}.") from None
    if not isinstance(value, dict):
        raise ValueError(f"{name} must be a JSON object by user id.")
    return value


def _read_parquet(path: Path, name: str) -> pa.Table:
    try:
        return pq.read_table(path)
    except pa.ArrowException as error:
        raise ValueError(f"{name}: {path.name} is no Parquet file: {error}") from None


def read_by_user(source: Source, name: str, keys: Sequence[str]) -> dict[str, list[Any]]:
    """Read records by user: a JSON object, or Parquet with a row for each record: ``user_id`` and these keys."""
    if not _is_parquet(source):
        return read_json(source, name)
    table = _read_parquet(Path(source), name)
    if "user_id" not in table.column_names:
        raise ValueError(f"{name}: the Parquet file lacks the column user_id; it has {', '.join(table.column_names)}.")
    by_user: dict[str, list[Any]] = {}
    for row in table.select(["user_id", *(key for key in keys if key in table.column_names)]).to_pylist():
        by_user.setdefault(str(row.pop("user_id")), []).append(row)
    return by_user


def read_csv(source: Source, name: str, required: Sequence[str] = ()) -> dict[str, list[Any]]:
    """Read CSV with a header as a dict of columns of text."""
    rows = list(csv.DictReader(io.StringIO(_text(source).strip())))
    found = list(rows[0]) if rows else []
    if missing := [column for column in required if column not in found]:
        raise ValueError(f"{name}: the first line must name the columns {', '.join(required)}; {missing} missing.")
    return {column: [row.get(column) for row in rows] for column in found if column is not None}


def read_table(source: Source, name: str) -> Any:
    """Read a table: CSV with a header, or Parquet."""
    return _read_parquet(Path(source), name) if _is_parquet(source) else read_csv(source, name)


# --- output ---------------------------------------------------------------------------------------------------------


def summary(result: Mapping[str, Any], metrics: Sequence[str]) -> Table:
    """Return the metrics over users with their intervals."""
    rows: Table = [["metric", "median", "95 % interval", "mean", "95 % interval of the mean"]]
    for name in metrics:
        if name in result:
            intervals = [_interval(result[key]) for key in (f"ci_{name}", f"ci_mean_{name}")]
            rows.append([name, _round(result[name]), intervals[0], _round(result[f"mean_{name}"]), intervals[1]])
    return rows


def _round(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def _interval(ends: list[float] | None) -> str:
    return f"{ends[0]:.3f} to {ends[1]:.3f}" if ends else "needs two users"


def as_table(columns: Mapping[str, list[Any]]) -> Table:
    """Turn a dict of columns into rows; lists become text, floats are rounded."""
    rows = zip(*columns.values(), strict=True)
    return [list(columns), *(list(map(_cell, row)) for row in rows)]


def _cell(value: Any) -> Any:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return _round(value) if isinstance(value, float) else value


Bars = dict[str, list[Any]]
"""Columns of a bar plot: along, colour, height."""


def bars_by_user(users: Table, metrics: Sequence[str]) -> Bars:
    """Return the table of users as columns of a bar plot: one bar for each user and metric."""
    header, *rows = users
    found = [(row[0], name, row[header.index(name)]) for row in rows for name in metrics if name in header]
    bars = [one for one in found if one[2] is not None]
    return {column: [one[at] for one in bars] for at, column in enumerate(("user", "metric", "value"))}


# --- the page -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Input:
    """Something to paste or upload."""

    label: str
    text: str
    """What stands there at first: data to try."""
    files: tuple[str, ...] = ()
    """Endings of files that can be uploaded instead."""
    lines: int = 8


def build(
    title: str,
    about: str,
    inputs: Sequence[Input],
    options: Callable[[Any], Sequence[Any]],
    score: Callable[..., dict[str, Table]],
    outputs: Sequence[str],
    bars: Callable[[dict[str, Table]], Bars],
    bar_columns: tuple[str, str, str],
) -> Any:
    """Build the page.

    Args:
        title: Its heading.
        about: One or two sentences beneath.
        inputs: What `score` takes first, each as a `Source`.
        options: Makes the components, given the module `gradio`, whose values `score` takes after that.
        score: Returns the tables by label; a ValueError is shown to the reader.
        outputs: Their labels.
        bars: Turns the tables into the columns of the plot.
        bar_columns: Their names.
    """
    import gradio as gr
    import pandas as pd

    def show(*values: Any) -> list[Any]:
        texts, files, rest = values[: len(inputs)], values[len(inputs) : 2 * len(inputs)], values[2 * len(inputs) :]
        sources = [Path(file) if file else text for text, file in zip(texts, files, strict=True)]
        try:
            tables = score(*sources, *rest)
        except ValueError as error:
            raise gr.Error(str(error)) from None
        frames = [pd.DataFrame(tables[label][1:], columns=tables[label][0]) for label in outputs]
        return [pd.DataFrame(bars(tables), columns=list(bar_columns)), *frames]

    with gr.Blocks(title=title) as page:
        gr.Markdown(f"# {title}\n{about} The card of this Space explains the formula.")
        boxes, uploads = [], []
        with gr.Row():
            for one in inputs:
                with gr.Column():
                    boxes.append(gr.Textbox(one.text, lines=one.lines, max_lines=one.lines, label=one.label))
                    label = f"or a file, which then counts: {', '.join(one.files)}"
                    types, shown = list(one.files) or None, bool(one.files)
                    uploads.append(gr.File(label=label, file_types=types, type="filepath", height=90, visible=shown))
        with gr.Row():
            components = [*boxes, *uploads, *options(gr)]
        button = gr.Button("Score", variant="primary")
        along, colour, height = bar_columns
        plot = gr.BarPlot(x=along, y=height, color=colour, y_lim=[0, 1], title="Scores", x_title=along, y_title=height)
        results = [plot, *(gr.Dataframe(label=label) for label in outputs)]
        button.click(show, components, results)
        page.load(show, components, results)
    return page
