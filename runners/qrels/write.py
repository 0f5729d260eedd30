"""Writes analyses into a folder: tables as csv, Markdown and LaTeX in the paper's layout, figures as SVG and PNG.

It computes nothing; the report's means lay out and draw. A table without a layout is written as it is.
"""

import logging
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path

import pandas as pd

from ...hf_datasets._atomic import replacing
from ..report.analysis import Analysis, FigureSpec
from ..report.export import latex, markdown, sheet
from ..report.figures import draw
from ..report.figures_plotly import INSTALL
from ..report.figures_static import static_images
from .experiments import shown_as

__all__ = ["write_analyses"]

logger = logging.getLogger(__name__)

_MAX_ROWS = 60


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
    page: list[str] = []
    tex: list[str] = []
    paths: list[Path] = []
    for one in analyses:
        page.append(f"## {one.title} ({one.id})\n")
        if one.missing:
            page.append(f"Not computed: {one.missing}\n")
            continue
        if one.caption:
            page.append(f"{one.caption}\n")
        for name, frame in one.tables.items():
            stem = one.id if name in (one.id, "values") else f"{one.id}-{name}"
            paths.append(_write(folder / f"{stem}.csv", frame.to_csv(index=False, lineterminator="\n")))
            layout = one.layouts.get(name)
            if layout is None and len(frame) > _MAX_ROWS:
                page.append(f"{len(frame):,} rows: {stem}.csv\n")
                continue
            found = sheet(frame, layout)
            page.append(markdown(found))
            if layout is not None:
                tex.append(latex(found, f"{one.title}. {one.caption}".strip(), one.id))
                if counts := _counts(frame):
                    page.append(f"{counts}\n")
        for number, (name, figure) in enumerate(one.figures.items() if draws else (), start=1):
            stem = one.id if len(one.figures) == 1 else f"{one.id}-{number}"
            drawing = draw(figure, {figure.table: _rows_of(one, name, figure)}, {"analysis": one.id})
            if drawing is None:
                continue
            for form, content in static_images(drawing).items():
                paths.append(_write(folder / f"{stem}.{form}", content))
            page.append(f"![{figure.title}]({stem}.svg)\n\n{figure.caption}\n")
        page += [f"{note}\n" for note in one.notes]
    paths.append(_write(folder / "tables.md", "\n".join(page)))
    paths.append(_write(folder / "tables.tex", "\n".join(tex)))
    return paths


def _rows_of(one: Analysis, name: str, figure: FigureSpec) -> pd.DataFrame:
    """Return a figure's rows: where a table holds several judges and conditions, those that the figure is named for."""
    frame = one.tables[figure.table]
    if {"judge", "mode", "plot"} <= set(frame.columns):
        frame = frame[[shown_as(row) == name for row in frame.to_dict("records")]]
    return frame


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
    return "; ".join(parts) + "."


def _write(path: Path, content: str | bytes) -> Path:
    with replacing(path) as temporary:
        temporary.write_bytes(content.encode() if isinstance(content, str) else content)
    return path
