"""Tables as people read them (Markdown, LaTeX, HTML, terminal) and as programs do (csv, Parquet).

A `Sheet` is a table as it is printed: headings over headings, and beside a value its interval, rank group, published
value and whether it is the best. csv and Parquet hold every row and column of the data frame instead.
"""

import html
import io
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from .analysis import Analysis, Layout
from .columns import KEY, Column, describe_column
from .figures import show_value

__all__ = [
    "Cell", "Heading", "Sheet", "describe_columns", "full_headings", "latex", "markdown", "markdown_text",
    "plain", "sheet", "sidecar", "to_csv", "to_parquet",
]  # fmt: skip

MAX_ROWS = 300
"""Rows of a printed table; csv and Parquet hold all."""
_DECORATIONS = ("best_", "ci_", "group_", "published_")


@dataclass(frozen=True)
class Heading:
    """One heading, over as many columns as it spans."""

    text: str
    span: int = 1
    numeric: bool = False


@dataclass(frozen=True)
class Cell:
    """One value as it is shown, and what stands beside it."""

    text: str
    sort: float | str | None = None
    """What to sort by; None is last."""
    numeric: bool = False
    interval: str = ""
    group: str = ""
    published: str = ""
    best: bool = False


@dataclass(frozen=True)
class Sheet:
    """A table as it is printed."""

    headings: tuple[tuple[Heading, ...], ...]
    """Rows of headings, outermost first; the last has one for each column."""
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""
    """What all rows share, and whether rows or signs need words."""

    @property
    def columns(self) -> tuple[Heading, ...]:
        """The innermost headings."""
        return self.headings[-1]


def sheet(frame: pd.DataFrame, layout: Layout | None = None, max_rows: int = MAX_ROWS) -> Sheet:
    """Lay out a table for print.

    Args:
        frame: in the columns of the report.
        layout: which columns become rows, headings and cells; None for the frame as it is.
        max_rows: that are printed.

    Returns:
        The sheet. Values that all rows share stand in its note.
    """
    layout = layout and _with_what_varies(frame, layout)
    shared, constant = _constants(frame, layout)
    found = _pivoted(frame, layout, constant) if layout is not None and layout.headings else None
    if found is None:
        found = _flat(frame, layout, constant)
    headings, rows = found
    notes = [shared] if shared else []
    if any(cell.best for row in rows for cell in row):
        notes.append("Bold: the best.")
    if any(cell.group for row in rows for cell in row):
        notes.append("Models that share a letter are not told apart.")
    if any(cell.interval for row in rows for cell in row):
        notes.append("In brackets: 95 % intervals.")
    if any(cell.published for row in rows for cell in row):
        notes.append("After “paper”: the published value.")
    if len(rows) > max_rows:
        notes.append(f"The first {max_rows:,} of {len(rows):,} rows; the csv and Parquet files hold all.")
    return Sheet(headings, tuple(rows[:max_rows]), " ".join(notes))


def _with_what_varies(frame: pd.DataFrame, layout: Layout) -> Layout:
    """Return a layout in which rows of several data sets, judges or settings are told apart."""
    placed = (*layout.rows, *layout.headings)
    varying = [name for name in KEY if name in frame and name not in placed and frame[name].nunique() > 1]
    return replace(layout, rows=(*layout.rows, *varying))


def _constants(frame: pd.DataFrame, layout: Layout | None) -> tuple[str, set[str]]:
    """Return a sentence on what all rows share, and the columns that need not be printed."""
    candidates = [name for name in ("dataset", "judge", "setting", "taxonomy", "task") if name in frame]
    if layout is not None:
        candidates = [name for name in candidates if name in (*layout.rows, *layout.headings)]
    constant = {name for name in candidates if frame[name].nunique(dropna=False) == 1 and len(frame) > 1}
    empty = {
        name for name in frame
        if len(frame) and describe_column(str(name)).unit == "text" and (frame[name].astype(str) == "").all()
    }  # fmt: skip
    parts = [
        f"{describe_column(name).label}: {frame[name].iloc[0]}."
        for name in candidates
        if name in constant and str(frame[name].iloc[0])
    ]
    return " ".join(parts), constant | {str(name) for name in empty}


def _flat(
    frame: pd.DataFrame, layout: Layout | None, left_out: set[str]
) -> tuple[tuple[tuple[Heading, ...], ...], list[tuple[Cell, ...]]]:
    names = [str(name) for name in frame] if layout is None else [*layout.rows, *layout.headings, *layout.cells]
    names = [name for name in names if name in frame and name not in left_out and not _decorates(name, frame)]
    names = names or [str(name) for name in frame]
    cells = [_cells(frame, name) for name in names]
    headings = tuple(Heading(_capital(describe_column(name).heading), 1, _numeric(name)) for name in names)
    return (headings,), [tuple(row) for row in zip(*cells, strict=True)] if len(frame) else []


def _pivoted(
    frame: pd.DataFrame, layout: Layout, left_out: set[str]
) -> tuple[tuple[tuple[Heading, ...], ...], list[tuple[Cell, ...]]] | None:
    """Return headings and rows with columns' values as headings; None where a cell would hold several values."""
    levels = [name for name in layout.headings if name not in left_out]
    rows_by = list(layout.rows)
    cells = [name for name in layout.cells if name in frame and name not in left_out]
    if not levels or not cells or not len(frame) or frame.duplicated([*rows_by, *levels]).any():
        return None
    tops = list(dict.fromkeys(frame[levels].itertuples(index=False, name=None)))
    shown = {name: _cells(frame, name) for name in cells}
    places = {
        (row, top): n
        for n, (row, top) in enumerate(
            zip(
                frame[rows_by].itertuples(index=False, name=None), frame[levels].itertuples(index=False, name=None),
                strict=True,
            )
        )
    }  # fmt: skip
    keys = list(dict.fromkeys(row for row, _ in places))
    labels = {name: _cells(frame, name) for name in rows_by}
    body = []
    for key in keys:
        first = next(n for (row, _), n in places.items() if row == key)
        line = [labels[name][first] for name in rows_by]
        for top in tops:
            n = places.get((key, top))
            line += [Cell("", None, True) if n is None else shown[name][n] for name in cells]
        body.append(tuple(line))
    headings = []
    for depth in range(len(levels)):
        spans: list[Heading] = [Heading("", len(rows_by))]
        last: tuple[Any, ...] | None = None
        for top in tops:
            if last == top[: depth + 1]:
                spans[-1] = Heading(spans[-1].text, spans[-1].span + len(cells))
            else:
                text = str(top[depth])
                column = describe_column(levels[depth])
                spans.append(Heading(text if column.unit == "text" else f"{column.label} {text}", len(cells)))
            last = top[: depth + 1]
        headings.append(tuple(spans))
    inner = [Heading(_capital(describe_column(name).heading), 1, _numeric(name)) for name in rows_by]
    inner += [Heading(_capital(describe_column(name).heading), 1, _numeric(name)) for _ in tops for name in cells]
    return (*headings, tuple(inner)), body


def _decorates(name: str, frame: pd.DataFrame) -> bool:
    """Return whether a column stands beside another one's values."""
    for prefix in _DECORATIONS:
        if name.startswith(prefix):
            rest = name.removeprefix(prefix)
            return any(base in frame for base in (rest, rest.removesuffix("_low"), rest.removesuffix("_high")))
    return False


def _cells(frame: pd.DataFrame, name: str) -> list[Cell]:
    column, numeric = describe_column(name), _numeric(name)
    values = frame[name].tolist()

    def beside(other: str) -> list[Any]:
        return frame[other].tolist() if other in frame else [None] * len(values)

    lows, highs = beside(f"ci_{name}_low"), beside(f"ci_{name}_high")
    groups, bests, published = beside(f"group_{name}"), beside(f"best_{name}"), beside(f"published_{name}")
    cells = []
    for value, low, high, group, best, printed in zip(values, lows, highs, groups, bests, published, strict=True):
        missing = _missing(value)
        interval = "" if _missing(low) or _missing(high) else f"{show_value(low, column)}–{show_value(high, column)}"
        sort = None if missing else (float(value) if numeric else str(value))
        cells.append(
            Cell(
                show_value(value, column), sort, numeric, interval, "" if _missing(group) else str(group),
                "" if _missing(printed) else show_value(printed, column), bool(best) and not _missing(best),
            )
        )  # fmt: skip
    return cells


def markdown(found: Sheet) -> str:
    """Return a sheet as a Markdown table, with outer headings written into the inner ones; its note beneath."""
    names = [markdown_text(name) for name in full_headings(found)]
    lines = ["| " + " | ".join(names) + " |"]
    lines.append("|" + "|".join(" ---: " if heading.numeric else " --- " for heading in found.columns) + "|")
    for row in found.rows:
        lines.append("| " + " | ".join(_markdown_cell(cell) for cell in row) + " |")
    return "\n".join(lines) + "\n" + (f"\n{markdown_text(found.note)}\n" if found.note else "")


def latex(found: Sheet, caption: str, label: str, header: str = "") -> str:
    """Return a sheet as a LaTeX table in the style of booktabs.

    Args:
        found: the sheet.
        caption: plain text.
        label: of the table.
        header: lines that go first, as comments.
    """
    columns = "".join("r" if heading.numeric else "l" for heading in found.columns)
    comments = [f"% {line}" for line in header.splitlines()]
    lines = [*comments, "% Needs \\usepackage{booktabs}, and LuaLaTeX or XeLaTeX where names hold other scripts."]
    lines += ["\\begin{table}", "\\centering", f"\\caption{{{latex_text(caption)}}}", f"\\label{{tab:{label}}}"]
    lines += [f"\\begin{{tabular}}{{{columns}}}", "\\toprule"]
    for headings in found.headings[:-1]:
        parts, rules, place = [], [], 1
        for heading in headings:
            parts.append(f"\\multicolumn{{{heading.span}}}{{c}}{{{latex_text(heading.text)}}}")
            if heading.text:
                rules.append(f"\\cmidrule(lr){{{place}-{place + heading.span - 1}}}")
            place += heading.span
        lines += [" & ".join(parts) + " \\\\", *rules]
    lines += [" & ".join(latex_text(heading.text) for heading in found.columns) + " \\\\", "\\midrule"]
    lines += [" & ".join(_latex_cell(cell) for cell in row) + " \\\\" for row in found.rows]
    lines += ["\\bottomrule", "\\end{tabular}"]
    if found.note:
        lines.append(f"\\par\\smallskip{{\\footnotesize {latex_text(found.note)}}}")
    return "\n".join([*lines, "\\end{table}", ""])


_LATEX = {
    "\\": "\\textbackslash{}", "{": "\\{", "}": "\\}", "$": "\\$", "&": "\\&", "#": "\\#", "%": "\\%", "_": "\\_",
    "~": "\\textasciitilde{}", "^": "\\textasciicircum{}", "<": "\\textless{}", ">": "\\textgreater{}",
    "|": "\\textbar{}", "−": "$-$", "–": "--", "—": "---", "…": "\\ldots{}", "×": "$\\times$", "≥": "$\\geq$",
    "≤": "$\\leq$", "∞": "$\\infty$", "“": "``", "”": "''", '"': "\\textquotedbl{}", "[": "{[}", "]": "{]}",
}  # fmt: skip


def latex_text(text: str) -> str:
    """Return a text as LaTeX shows it as it is, on one line.

    >>> latex_text("R&D_50% {x}")
    'R\\\\&D\\\\_50\\\\% \\\\{x\\\\}'
    """
    return "".join(_LATEX.get(mark, mark) for mark in " ".join(_printable(text).split()))


def to_csv(frame: pd.DataFrame) -> str:
    """Return a table as csv: every row and column, values unrounded."""
    return frame.to_csv(index=False, lineterminator="\n")


def to_parquet(frame: pd.DataFrame, about: Mapping[str, Any]) -> bytes:
    """Return a table as a Parquet file's content, which carries policy and versions in its metadata."""
    table = pa.Table.from_pandas(frame, preserve_index=False)
    metadata = {**(table.schema.metadata or {}), b"gistbench": json.dumps(about, ensure_ascii=False).encode()}
    file = io.BytesIO()
    pq.write_table(table.replace_schema_metadata(metadata), file)
    return file.getvalue()


def sidecar(found: Analysis, versions: Mapping[str, Any]) -> dict[str, Any]:
    """Return what an analysis' files stand on: caption, notes, policy, versions, and what each column means."""
    return {
        "analysis": found.id,
        "title": found.title,
        "caption": found.caption,
        "notes": list(found.notes),
        "policy": plain(found.policy),
        "versions": plain(versions),
        "tables": {
            name: {"rows": len(frame), "columns": describe_columns(frame)} for name, frame in found.tables.items()
        },
    }


def describe_columns(frame: pd.DataFrame) -> dict[str, dict[str, Any]]:
    """Return label, unit and digits of a table's columns."""
    columns: Iterable[tuple[str, Column]] = ((str(name), describe_column(str(name))) for name in frame)
    return {name: {"label": c.label, "unit": c.unit, "digits": c.digits} for name, c in columns}


def plain(value: Any) -> Any:
    """Return a value as plain JSON data."""
    if isinstance(value, Mapping):
        return {str(name): plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(inner) for inner in (sorted(value, key=str) if isinstance(value, set | frozenset) else value)]
    if isinstance(value, Path):
        return value.name
    if hasattr(value, "item") and not isinstance(value, str):
        value = value.item()
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return None
    return value if isinstance(value, str | int | float | bool) or value is None else str(value)


def full_headings(found: Sheet) -> list[str]:
    """Return the innermost headings, led by those above them."""
    above: list[list[str]] = [[] for _ in found.columns]
    for headings in found.headings[:-1]:
        place = 0
        for heading in headings:
            for column in range(place, place + heading.span):
                above[column] += [heading.text] if heading.text else []
            place += heading.span
    return [": ".join([" / ".join(parts), heading.text]) if parts else heading.text
            for parts, heading in zip(above, found.columns, strict=True)]  # fmt: skip


def _markdown_cell(cell: Cell) -> str:
    text = markdown_text(cell.text)
    text = f"**{text}**" if cell.best else text
    text += f" ({cell.interval})" if cell.interval else ""
    text += f" {markdown_text(cell.group)}" if cell.group else ""
    return text + (f" paper {cell.published}" if cell.published else "")


def markdown_text(text: str) -> str:
    """Return a text as Markdown shows it as it is, on one line.

    >>> markdown_text("<b> [x](y)")
    '&lt;b&gt; \\\\[x\\\\](y)'
    """
    text = html.escape(" ".join(_printable(text).split()), quote=False)
    for mark in "\\`*_[]|~#":
        text = text.replace(mark, f"\\{mark}")
    return text


def _latex_cell(cell: Cell) -> str:
    text = latex_text(cell.text)
    text = f"\\textbf{{{text}}}" if cell.best else text
    text += f"\\textsuperscript{{{latex_text(cell.group)}}}" if cell.group else ""
    text += f" {{\\scriptsize [{latex_text(cell.interval)}]}}" if cell.interval else ""
    return text + (f" {{\\scriptsize paper {latex_text(cell.published)}}}" if cell.published else "")


def _printable(text: str) -> str:
    return "".join(mark if mark.isprintable() or mark in "\n\t" else " " for mark in text)


def _capital(text: str) -> str:
    return text if text.startswith("rho") else text[:1].upper() + text[1:]


def _numeric(name: str) -> bool:
    return describe_column(name).unit not in ("text", "flag")


def _missing(value: Any) -> bool:
    return value is None or value is pd.NA or value == "" or (isinstance(value, float) and value != value)
