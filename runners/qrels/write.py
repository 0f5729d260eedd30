"""Writes analyses into a folder: tables as csv, Markdown and LaTeX in the paper's layout, figures as SVG and PNG.

It computes nothing, and the report's renderer draws. A table without a layout is written as it is.
"""

import logging
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ...hf_datasets._atomic import replacing
from ..report.analysis import Analysis, FigureSpec, Layout
from ..report.figures import draw
from ..report.figures_plotly import INSTALL
from ..report.figures_static import static_images
from .experiments import shown_as

__all__ = ["laid_out", "to_latex", "to_markdown", "write_analyses"]

logger = logging.getLogger(__name__)

_MAX_ROWS = 60
_LATEX = {"&": r"\&", "%": r"\%", "#": r"\#", "_": r"\_", "$": r"\$", "{": r"\{", "}": r"\}",
          "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}  # fmt: skip


def write_analyses(analyses: Iterable[Analysis], folder: Path) -> list[Path]:
    """Write analyses; return the paths.

    Args:
        analyses: with their tables, layouts and figures; where there are none, the reason is written.
        folder: ``tables.md`` and ``tables.tex`` hold all tables; a csv for each table, SVG and PNG for each figure.
            Without the extra `report` there are no figures, and a warning says so.
    """
    draws = find_spec("matplotlib") is not None
    if not draws:
        logger.warning("No figures are written: they need matplotlib. %s", INSTALL)
    folder.mkdir(parents=True, exist_ok=True)
    markdown: list[str] = []
    latex: list[str] = []
    paths: list[Path] = []
    for one in analyses:
        markdown.append(f"## {one.title} ({one.id})\n")
        if one.missing:
            markdown.append(f"Not computed: {one.missing}\n")
            continue
        if one.caption:
            markdown.append(f"{one.caption}\n")
        for name, frame in one.tables.items():
            stem = one.id if name in (one.id, "values") else f"{one.id}-{name}"
            paths.append(_write(folder / f"{stem}.csv", frame.to_csv(index=False, lineterminator="\n")))
            layout = one.layouts.get(name)
            if layout is not None:
                markdown.append(to_markdown(laid_out(frame, layout)) + "\n")
                latex.append(to_latex(laid_out(frame, layout), caption=f"{one.title}. {one.caption}", label=one.id))
                if counts := _counts(frame):
                    markdown.append(f"{counts}\n")
            elif len(frame) <= _MAX_ROWS:
                markdown.append(_plain(frame) + "\n")
            else:
                markdown.append(f"{len(frame):,} rows: {stem}.csv\n")
        for number, (name, figure) in enumerate(one.figures.items() if draws else (), start=1):
            stem = one.id if len(one.figures) == 1 else f"{one.id}-{number}"
            drawing = draw(figure, {figure.table: _rows_of(one, name, figure)}, {"analysis": one.id})
            if drawing is None:
                continue
            for form, content in static_images(drawing).items():
                paths.append(_write(folder / f"{stem}.{form}", content))
            markdown.append(f"![{figure.title}]({stem}.svg)\n\n{figure.caption}\n")
        markdown += [f"{note}\n" for note in one.notes]
    paths.append(_write(folder / "tables.md", "\n".join(markdown)))
    paths.append(_write(folder / "tables.tex", "\n".join(latex)))
    return paths


def laid_out(frame: pd.DataFrame, layout: Layout) -> pd.DataFrame:
    """Bring a table in long form into the paper's layout, cells as text.

    A cell is the value, its interval in brackets and the published number in parentheses.

    >>> frame = pd.DataFrame({"mode": ["IPP"], "metric": ["AP"], "value": [0.77], "published_value": [0.7714]})
    >>> laid_out(frame, Layout(("mode",), ("metric",), ("value",))).iloc[0, 0]
    '0.7700 (0.7714)'
    """
    shown = frame[[*layout.rows, *layout.headings]].copy()
    (cell,) = layout.cells
    shown["cell"] = [_cell(row, cell) for row in frame.to_dict("records")]
    wide = (
        shown.groupby([*layout.rows, *layout.headings], sort=False)["cell"]
        .agg("; ".join)
        .unstack(list(layout.headings))
    )
    rows = list(dict.fromkeys(frame[list(layout.rows)].itertuples(index=False, name=None)))
    columns = _nested(list(dict.fromkeys(frame[list(layout.headings)].itertuples(index=False, name=None))))
    if len(layout.rows) == 1:
        rows = [row[0] for row in rows]
    if len(layout.headings) == 1:
        columns = [column[0] for column in columns]
    return wide.reindex(index=rows, columns=columns).fillna("")


def to_markdown(table: pd.DataFrame) -> str:
    """Return a table of texts as Markdown; headings over several levels are joined."""
    heads = [*map(str, table.index.names), *map(_joined, table.columns)]
    body = [[*map(str, _tuple(index)), *row] for index, row in zip(table.index, table.to_numpy(), strict=True)]
    escaped = [[str(cell).replace("|", "\\|") for cell in row] for row in [heads, *body]]
    lines = ["| " + " | ".join(row) + " |" for row in escaped]
    rule = "|" + "---|" * table.index.nlevels + "---:|" * table.shape[1]
    return "\n".join([lines[0], rule, *lines[1:]])


def to_latex(table: pd.DataFrame, *, caption: str, label: str) -> str:
    """Return a table of texts as a LaTeX table that needs no packages; shared headings span their columns."""
    n_rows, n_columns = table.index.nlevels, table.shape[1]
    lines = [r"\begin{table}", r"\centering", rf"\caption{{{_tex(caption)}}}", rf"\label{{tab:{label}}}"]
    lines += [rf"\begin{{tabular}}{{{'l' * n_rows}{'r' * n_columns}}}", r"\hline"]
    headings = [_tuple(column) for column in table.columns]
    for level in range(len(headings[0]) if headings else 0):
        first = list(map(str, table.index.names)) if level == len(headings[0]) - 1 else [""] * n_rows
        cells = [_tex(text) for text in first]
        start = 0
        while start < n_columns:
            end = start + 1
            while end < n_columns and headings[end][: level + 1] == headings[start][: level + 1]:
                end += 1
            text = _tex(str(headings[start][level]))
            cells.append(text if end - start == 1 else rf"\multicolumn{{{end - start}}}{{c}}{{{text}}}")
            start = end
        lines.append(" & ".join(cells) + r" \\")
    lines.append(r"\hline")
    for index, row in zip(table.index, table.to_numpy(), strict=True):
        lines.append(" & ".join(_tex(str(cell)) for cell in (*_tuple(index), *row)) + r" \\")
    return "\n".join([*lines, r"\hline", r"\end{tabular}", r"\end{table}", ""])


def _rows_of(one: Analysis, name: str, figure: FigureSpec) -> pd.DataFrame:
    """Return a figure's rows: where a table holds several judges and conditions, those that the figure is named for."""
    frame = one.tables[figure.table]
    if {"judge", "mode", "plot"} <= set(frame.columns):
        frame = frame[[shown_as(row) == name for row in frame.to_dict("records")]]
    return frame


def _cell(row: dict[Any, Any], cell: str) -> str:
    value = row[cell]
    if value is None or np.isnan(value):
        return "n/a"
    digits = 0 if float(value).is_integer() and abs(value) >= 10 else 4
    text = f"{value:,.{digits}f}"
    low, high = row.get(f"ci_{cell}_low"), row.get(f"ci_{cell}_high")
    if low is not None and not np.isnan(low):
        text += f" [{low:.3f}, {high:.3f}]"
    published = row.get(f"published_{cell}")
    if published is not None and not np.isnan(published):
        text += f" ({published:,.{digits}f})"
    return text


def _counts(frame: pd.DataFrame) -> str:
    """Say how many systems were ranked, and how many pairs of them tie."""
    if "n_systems" not in frame or "ranking" not in frame:
        return ""
    parts = []
    for ranking, rows in frame.dropna(subset=["n_systems"]).groupby("ranking", sort=False):
        ties = f"{rows['n_tied_pairs'].min():.0f} to {rows['n_tied_pairs'].max():.0f}"
        human = f"{rows['n_tied_pairs_human'].max():.0f}"
        parts.append(
            f"{ranking}: {rows['n_systems'].iloc[0]:.0f} systems, tied pairs {ties} (under the ratings {human})"
        )
    return "; ".join(parts) + ". In parentheses: the paper's numbers."


def _plain(frame: pd.DataFrame) -> str:
    shown = frame.map(lambda value: f"{value:.4g}" if isinstance(value, float) else str(value))
    shown = shown.map(lambda text: text.replace("\n", "<br>"))
    return to_markdown(shown.set_index(shown.columns[0]))


def _nested(headings: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Bring headings that share their beginning together, in the order in which each part first comes up."""
    orders = [list(dict.fromkeys(heading[level] for heading in headings)) for level in range(len(headings[0]))]
    return sorted(
        headings, key=lambda heading: [order.index(part) for order, part in zip(orders, heading, strict=True)]
    )


def _tuple(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def _joined(column: Any) -> str:
    return " / ".join(map(str, _tuple(column)))


def _tex(text: str) -> str:
    return "".join(_LATEX.get(mark, mark) for mark in text)


def _write(path: Path, content: str | bytes) -> Path:
    with replacing(path) as temporary:
        temporary.write_bytes(content.encode() if isinstance(content, str) else content)
    return path
