"""The report as one HTML page: everything in it, so that it opens offline and asks nobody for anything.

Texts from data are escaped by the template, those in figures by the figures. A content security policy in the page
forbids requests, whatever stands in it.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from .analysis import Analysis
from .export import Sheet, plain, sheet
from .figures_marks import Cells, Drawing, Panel
from .figures_plotly import GLYPHS, panel_figures, plotly_js
from .figures_style import THEMES, text_width

__all__ = ["page"]

MAX_ROWS = 300
SEARCHED = 15
"""Tables of more rows have a field to search them."""


@dataclass(frozen=True)
class _Panel:
    title: str
    json: Any
    height: int
    min_width: int
    max_width: int


@dataclass(frozen=True)
class _Figure:
    name: str
    drawing: Drawing
    panels: tuple[_Panel, ...]


@dataclass(frozen=True)
class _Table:
    name: str
    title: str
    sheet: Sheet
    file: str
    searched: bool


@dataclass(frozen=True)
class _Section:
    id: str
    title: str
    caption: str
    notes: tuple[str, ...]
    figures: tuple[_Figure, ...]
    tables: tuple[_Table, ...]
    policy: tuple[tuple[str, str], ...]


def page(analyses: Sequence[Analysis], drawings: Mapping[str, Drawing], versions: Mapping[str, Any]) -> str:
    """Return the page.

    Args:
        analyses: in the order of the report.
        drawings: by ``analysis`` or ``analysis.figure``.
        versions: that it was made with.

    Raises:
        ConfigError: the extra `report` is not installed.
    """
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    folder = files(__package__) / "templates"
    sources = {
        name: (folder / name).read_text(encoding="utf-8") for name in ("report.html.j2", "report.css", "report.js")
    }
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    runs = list(versions.get("runs", ()))
    return environment.from_string(sources["report.html.j2"]).render(
        sections=[_section(one, drawings) for one in analyses if not one.missing and one.id != "summary"],
        summary=next((one for one in analyses if one.id == "summary" and not one.missing), None),
        missing=[one for one in analyses if one.missing],
        models=list(dict.fromkeys(run["model"] for run in runs)),
        datasets=list(dict.fromkeys(run["dataset"] for run in runs)),
        versions=json.dumps(plain(versions), indent=2, ensure_ascii=False),
        gistbench=versions.get("gistbench", ""),
        glyphs=GLYPHS,
        css=Markup(sources["report.css"]),
        js=Markup(sources["report.js"]),
        themes=Markup(_script_json(THEMES)),
        plotly=Markup(plotly_js()) if drawings else "",
    )


def _section(one: Analysis, drawings: Mapping[str, Drawing]) -> _Section:
    figures = tuple(
        _figure(name, drawing)
        for name, drawing in drawings.items()
        if name == one.id or name.startswith(f"{one.id}.")
    )  # fmt: skip
    tables = tuple(
        _Table(
            f"{one.id}.{name}", name.replace("_", " ").capitalize(), sheet(frame, one.layouts.get(name), MAX_ROWS),
            f"tables/{one.id}.{name}.csv", len(frame) > SEARCHED,
        )
        for name, frame in one.tables.items()
    )  # fmt: skip
    policy = tuple(
        (name.replace("_", " "), value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=1))
        for name, value in plain(one.policy).items()
    )
    # A figure's own caption need not stand twice.
    caption = "" if any(figure.drawing.caption == one.caption for figure in figures) else one.caption
    return _Section(one.id, one.title, caption, one.notes, figures, tables, policy)


def _figure(name: str, drawing: Drawing) -> _Figure:
    panels = tuple(
        _Panel(
            panel.title, _json_markup(figure), round(panel.height + panel.bottom + 14), round(_min_width(panel)),
            round(panel.left + panel.right + panel.width * 1.2),
        )
        for panel, figure in zip(drawing.panels, panel_figures(drawing), strict=True)
    )  # fmt: skip
    return _Figure(name, drawing, panels)


def _min_width(panel: Panel) -> float:
    """Return the width below which a panel is scrolled instead of squeezed."""
    cells = [text for mark in panel.marks if isinstance(mark, Cells) for row in mark.texts for text in row]
    if not panel.x.categories:
        return 0.0
    each = max((text_width(text, 11) for text in cells), default=24.0) + 6
    return panel.left + panel.right + each * len(panel.x.categories)


def _json_markup(value: Any) -> Any:
    from markupsafe import Markup

    return Markup(_script_json(value))


def _script_json(value: Any) -> str:
    """Return JSON that can stand inside a script element: no text in it can end that element."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
