"""Drawings as Plotly figures: plain data in the form of Plotly's JSON, which needs no library until it is shown.

Colours of ink and paper are names until `in_theme` replaces them; a page with a switch does that itself.
"""

import html
import json
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...hf_datasets.errors import ConfigError
from .figures_marks import Axis, Bars, Boxes, Cells, Drawing, Line, Panel, Points, Text
from .figures_style import FONT, FONT_SIZE, SMALL, in_theme, short, text_width

if TYPE_CHECKING:
    import plotly.graph_objects as go

__all__ = [
    "GLYPHS",
    "INSTALL",
    "edge_colour",
    "figure_json",
    "panel_figures",
    "plotly_figure",
    "plotly_js",
    "whole_figure",
]

INSTALL = "Install it with: pip install 'gistbench[report]'."
GAP = 18.0
GLYPHS = {
    "circle": "●", "square": "■", "triangle-up": "▲", "diamond": "◆", "triangle-down": "▼", "cross": "✚", "x": "✖",
    "pentagon": "⬟", "star": "★",
}  # fmt: skip
"""Characters that look like the marks, for keys."""


def plotly_js() -> str:
    """Return Plotly's JavaScript, which a page of figures holds once.

    Raises:
        ConfigError: the extra `report` is not installed.
    """
    try:
        from plotly.offline import get_plotlyjs
    except ImportError as error:
        raise ConfigError(f"Interactive figures need plotly. {INSTALL}") from error
    return str(get_plotlyjs())


def plotly_figure(drawing: Drawing, theme: str = "light") -> "go.Figure":
    """Return a drawing as a Plotly figure.

    Args:
        drawing: of any kind.
        theme: ``light`` or ``dark``.

    Raises:
        ConfigError: the extra `report` is not installed.
    """
    try:
        import plotly.graph_objects as go
    except ImportError as error:
        raise ConfigError(f"Interactive figures need plotly. {INSTALL}") from error
    return go.Figure(in_theme(whole_figure(drawing), theme))


def figure_json(drawing: Drawing, theme: str = "light") -> str:
    """Return a drawing as Plotly JSON, as a page or a Space renders it; ``layout.meta`` holds policy and versions."""
    return json.dumps(in_theme(whole_figure(drawing), theme), ensure_ascii=False, allow_nan=False)


def panel_figures(drawing: Drawing) -> list[dict[str, Any]]:
    """Return each panel as a figure of its own, for pages that lay panels out themselves; colours are still names."""
    figures = []
    for panel in drawing.panels:
        data, layout = _panel(panel, "", (0.0, 1.0), (0.0, 1.0))
        margin = {"l": panel.left, "r": panel.right, "t": 14, "b": panel.bottom, "pad": 0}
        layout |= _base() | {"margin": margin, "height": panel.height + panel.bottom + 14, "autosize": True}
        figures.append({"data": data, "layout": layout})
    return figures


def whole_figure(drawing: Drawing) -> dict[str, Any]:
    """Return all panels in one figure, with title and keys; colours are still names."""
    placed, width, height = arrange(drawing.panels)
    head, keys = _head(drawing, width)
    data: list[dict[str, Any]] = []
    total = height + head
    margin = {"l": 0, "r": 0, "t": 0, "b": 0, "pad": 0}
    layout = _base() | {"width": width, "height": total, "margin": margin}
    layout["annotations"], layout["shapes"] = keys, []
    for n, (panel, left, top) in enumerate(placed):
        x = (left / width, (left + panel.width) / width)
        y = (1 - (head + top + panel.height) / total, 1 - (head + top) / total)
        marks, own = _panel(panel, str(n + 1) if n else "", x, y)
        data += marks
        layout["annotations"] += own.pop("annotations")
        layout |= own
        if panel.title:
            layout["annotations"].append(
                _paper((left + panel.width / 2) / width, y[1] + 14 / total, f"<b>{_safe(panel.title)}</b>")
            )
    layout["meta"] = {"title": drawing.title, "caption": drawing.caption, **_plain(drawing.meta)}
    return {"data": data, "layout": layout}


def arrange(panels: Sequence[Panel]) -> tuple[list[tuple[Panel, float, float]], float, float]:
    """Return where the plotted area of each panel begins, from left and top, and the size of all, in pixels."""
    columns = {1: 1, 2: 2, 4: 2}.get(len(panels), 3)
    rows = [panels[i : i + columns] for i in range(0, len(panels), columns)]
    lefts = [max(row[c].left for row in rows if c < len(row)) for c in range(columns)]
    widths = [max(row[c].width for row in rows if c < len(row)) for c in range(columns)]
    rights = [max(row[c].right for row in rows if c < len(row)) for c in range(columns)]
    placed, top = [], 0.0
    for row in rows:
        above = max(panel.top for panel in row)
        left = GAP / 2
        for c, panel in enumerate(row):
            placed.append((panel, left + lefts[c], top + above))
            left += lefts[c] + widths[c] + rights[c] + GAP
        top += above + max(panel.height + panel.bottom for panel in row) + 6
    return placed, sum(lefts) + sum(widths) + sum(rights) + GAP * columns, top


def key_rows(drawing: Drawing, width: float) -> list[list[tuple[float, int]]]:
    """Return rows of keys: where each begins, and which it is."""
    rows: list[list[tuple[float, int]]] = [[]]
    left = GAP / 2
    for n, key in enumerate(drawing.keys):
        long = text_width(key.text) + 34
        if rows[-1] and left + long > width:
            rows.append([])
            left = GAP / 2
        rows[-1].append((left, n))
        left += long
    return rows if drawing.keys else []


def _head(drawing: Drawing, width: float) -> tuple[float, list[dict[str, Any]]]:
    """Return the height of title and keys, and the annotations that show them."""
    rows = key_rows(drawing, width)
    lines: list[tuple[float, float, str]] = [(GAP / 2, 18.0, f"<b>{_safe(drawing.title)}</b>")]
    top = 40.0
    for row in rows:
        for left, n in row:
            key = drawing.keys[n]
            lines.append(
                (left, top, f'<span style="color:{key.colour}">{GLYPHS.get(key.shape, "■")}</span> {_safe(key.text)}')
            )
        top += 20
    besides = list(drawing.notes)
    if drawing.scale:
        low, high = drawing.scale.stops[0][1], drawing.scale.stops[-1][1]
        besides.append(
            f'Colour: {drawing.scale.label}, <span style="color:{low}">■</span> {drawing.scale.low} to '
            f'<span style="color:{high}">■</span> {drawing.scale.high}'
        )
    for note in besides:
        lines.append((GAP / 2, top, note))
        top += 18
    _, _, below = arrange(drawing.panels)
    total = below + top
    return top, [
        _paper(
            left / width, 1 - place / total, text, "left", "@@ink" if n == 0 or n <= len(drawing.keys) else "@@muted"
        )
        for n, (left, place, text) in enumerate(lines)
    ]


def _base() -> dict[str, Any]:
    return {
        "font": {"family": FONT, "size": FONT_SIZE, "color": "@@ink"},
        "paper_bgcolor": "@@paper",
        "plot_bgcolor": "@@paper",
        "showlegend": False,
        "hovermode": "closest",
        "hoverlabel": {"align": "left", "namelength": 0, "font": {"family": FONT, "size": FONT_SIZE}},
        "barmode": "overlay",
        "dragmode": False,
    }


def _panel(
    panel: Panel, n: str, x: tuple[float, float], y: tuple[float, float]
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return traces and the part of the layout of one panel, with axes of a number."""
    data: list[dict[str, Any]] = []
    annotations: list[dict[str, Any]] = []
    for mark in panel.marks:
        if isinstance(mark, Text):
            annotations.append(_text(mark, panel, n))
        elif isinstance(mark, Cells):
            data.append(_cells(mark))
            annotations += _cell_texts(mark, n)
        elif isinstance(mark, Line):
            data += _line(mark)
        elif isinstance(mark, Points):
            data.append(_points(mark))
        elif isinstance(mark, Bars):
            data.append(_bars(mark))
        else:
            data.append(_boxes(mark))
    for trace in data:
        trace |= {"xaxis": f"x{n}", "yaxis": f"y{n}", "showlegend": False}
    layout = {
        f"xaxis{n}": _axis(panel.x, list(x), f"y{n}", panel),
        f"yaxis{n}": _axis(panel.y, list(y), f"x{n}", panel, upright=True),
        "annotations": annotations,
    }
    return data, layout


def _axis(axis: Axis, domain: list[float], anchor: str, panel: Panel, upright: bool = False) -> dict[str, Any]:
    cells = any(isinstance(mark, Cells) for mark in panel.marks)
    found: dict[str, Any] = {
        "domain": domain, "anchor": anchor, "range": [_place(v, axis) for v in axis.range], "showgrid": not cells,
        "gridcolor": "@@grid", "zeroline": False, "linecolor": "@@line", "showline": not axis.categories,
        "ticks": "outside", "tickcolor": "rgba(0,0,0,0)" if axis.categories else "@@line", "ticklen": 5,
        "automargin": False,
        "tickfont": {"size": FONT_SIZE}, "fixedrange": False,
    }  # fmt: skip
    if axis.log:
        found["type"] = "log"
    if axis.label:
        found["title"] = {"text": _safe(axis.label), "standoff": 6, "font": {"size": FONT_SIZE}}
    if axis.categories:
        found |= {
            "tickvals": list(range(len(axis.categories))), "ticktext": [_safe(text) for text in axis.categories],
            "showgrid": False,
        }  # fmt: skip
        if axis.rotated:
            found |= {"tickangle": -38, "ticklabeloverflow": "allow"}
    elif axis.ticks:
        found |= {"tickvals": [value for value, _ in axis.ticks], "ticktext": [text for _, text in axis.ticks]}
    elif axis.percent:
        found |= {"tickformat": ".1~%", "nticks": 6}
    else:
        found |= {"nticks": 6, "separatethousands": True}
        most = max(abs(v) for v in axis.range)
        if axis.whole and abs(axis.range[1] - axis.range[0]) <= 8:
            found["dtick"] = 1
        found["tickformat"] = ".3~s" if most >= 10_000 else ""
    if not axis.categories:
        # Fractions and counts are never below 0: nor shall their ticks be.
        low, high = sorted(axis.range)
        found |= {"minallowed": _place(low, axis), "maxallowed": _place(high, axis)} if axis.percent else {}
    return found


def _place(value: float, axis: Axis) -> float:
    return math.log10(value) if axis.log else value


def _points(mark: Points) -> dict[str, Any]:
    marker: dict[str, Any] = {
        "color": list(mark.colours) if len(set(mark.colours)) > 1 else mark.colours[0], "size": list(mark.sizes),
        "symbol": mark.shape, "opacity": mark.opacity,
        "line": {"color": edge_colour(mark),
                 "width": 0 if mark.opacity < 0.5 else 1},
    }  # fmt: skip
    if len(set(mark.sizes)) == 1:
        marker["size"] = mark.sizes[0]
    trace: dict[str, Any] = {
        "type": "scatter", "mode": "markers", "x": _list(mark.x), "y": _list(mark.y), "marker": marker,
        **_hover(mark.hover), "cliponaxis": False,
    }  # fmt: skip
    if mark.low and mark.high:
        centres = mark.x if mark.along == "x" else mark.y
        trace[f"error_{mark.along}"] = {
            "type": "data", "symmetric": False, "thickness": 2, "width": 4, "color": mark.colours[0],
            "array": _list(h - c for h, c in zip(mark.high, centres, strict=True)),
            "arrayminus": _list(c - low for low, c in zip(mark.low, centres, strict=True)),
        }  # fmt: skip
    return trace


def edge_colour(mark: Points) -> str:
    """Return the colour of the rim: what is on a scale may be as pale or as dark as the paper."""
    return "@@ink" if mark.sizes[0] == 15 else "@@muted" if len(set(mark.colours)) > 1 else "@@paper"


def _line(mark: Line) -> list[dict[str, Any]]:
    traces: list[dict[str, Any]] = []
    if mark.low and mark.high:
        traces.append(
            {"type": "scatter", "mode": "lines", "x": [*_list(mark.x), *_list(mark.x)[::-1]],
             "y": [*_list(mark.high), *_list(mark.low)[::-1]], "fill": "toself", "line": {"width": 0},
             "fillcolor": _faint(mark.colour), "hoverinfo": "skip"}
        )  # fmt: skip
    traces.append(
        {"type": "scatter", "mode": "lines+markers" if mark.dots else "lines", "x": _list(mark.x), "y": _list(mark.y),
         "line": {"color": mark.colour, "width": mark.width, "dash": mark.dash},
         "marker": {"size": 6, "color": mark.colour}, **(_hover(mark.hover) if mark.hover else {"hoverinfo": "skip"})}
    )  # fmt: skip
    return traces


def _bars(mark: Bars) -> dict[str, Any]:
    at, values = ("y", "x") if mark.horizontal else ("x", "y")
    return {
        "type": "bar", "orientation": "h" if mark.horizontal else "v", at: _list(mark.at), values: _list(mark.values),
        "width": mark.thickness, "marker": {"color": mark.colour, "line": {"width": 0}}, "text": list(mark.texts),
        "textposition": "outside", "textangle": 0, "cliponaxis": False, "constraintext": "none",
        "textfont": {"size": SMALL, "color": "@@ink"}, **_hover(mark.hover),
    }  # fmt: skip


def _boxes(mark: Boxes) -> dict[str, Any]:
    least, lower, middle, upper, most = (_list(part) for part in zip(*mark.quantiles, strict=True))
    return {
        "type": "box", "x": list(mark.at), "lowerfence": least, "q1": lower, "median": middle, "q3": upper,
        "upperfence": most, "width": 0.4, "line": {"color": mark.colour, "width": 2}, "fillcolor": _faint(mark.colour),
        "hoverinfo": "y",
    }  # fmt: skip


def _cells(mark: Cells) -> dict[str, Any]:
    return {
        "type": "heatmap", "z": [_list(row) for row in mark.values], "zmin": mark.range[0], "zmax": mark.range[1],
        "x": list(range(len(mark.values[0]))), "y": list(range(len(mark.values))),
        "colorscale": [list(stop) for stop in mark.stops], "showscale": False, "xgap": 2, "ygap": 2,
        "text": [[_safe(text) for text in row] for row in mark.hover], "hovertemplate": "%{text}<extra></extra>",
        "hoverongaps": False,
    }  # fmt: skip


def _cell_texts(mark: Cells, n: str) -> list[dict[str, Any]]:
    return [
        {"x": column, "y": row, "xref": f"x{n}", "yref": f"y{n}", "text": _safe(text), "showarrow": False,
         "font": {"size": SMALL, "color": mark.ink(row, column)}}
        for row, texts in enumerate(mark.texts)
        for column, text in enumerate(texts)
        if text
    ]  # fmt: skip


def _text(mark: Text, panel: Panel, n: str) -> dict[str, Any]:
    # What stands beyond the end of a line may be cut on a narrow page.
    # The place of a label beside a point is for the panel's own width, too.
    ends = panel.right > 30 and mark.anchor == "left"
    name = {} if mark.small or (mark.beside_line and not ends) else {"name": "end" if ends else "point"}
    halo = name | {"bgcolor": "@@paper", "opacity": 0.85, "borderpad": 1} if mark.haloed else name
    return halo | {
        "x": _place(mark.x, panel.x), "y": _place(mark.y, panel.y), "xref": f"x{n}", "yref": f"y{n}",
        "text": _safe(mark.text), "xanchor": mark.anchor, "yanchor": "middle", "xshift": round(mark.right, 1),
        "yshift": round(mark.up, 1), "showarrow": False, "align": mark.anchor,
        "font": {"size": SMALL if mark.small else FONT_SIZE, "color": mark.colour},
    }  # fmt: skip


def _paper(x: float, y: float, text: str, anchor: str = "center", colour: str = "@@ink") -> dict[str, Any]:
    return {
        "x": x, "y": y, "xref": "paper", "yref": "paper", "text": text, "xanchor": anchor, "yanchor": "middle",
        "showarrow": False, "font": {"size": FONT_SIZE, "color": colour},
    }  # fmt: skip


def _hover(texts: Sequence[str]) -> dict[str, Any]:
    """Return what is shown under the pointer. Plotly reads markup in texts, and templates in templates."""
    if not texts:
        return {"hoverinfo": "skip"}
    return {"hovertext": [_safe(text) for text in texts], "hoverinfo": "text"}


def _safe(text: str) -> str:
    """Return a text that Plotly shows as it is."""
    lines = [short(html.escape(line, quote=False), 400) for line in text.split("\n")]
    return "<br>".join(lines)


def _faint(colour: str) -> str:
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},0.2)"


def _list(values: Any) -> list[float | None]:
    """Return numbers for JSON, which has neither NaN nor infinity."""
    found = []
    for value in values:
        number = float(value)
        found.append(None if number != number or number in (float("inf"), float("-inf")) else round(number, 6))
    return found


def _plain(value: Any) -> Any:
    return json.loads(json.dumps(value, default=str))
