"""Parts of a figure that need only its axes: lines to compare with, ticks, and the room that a panel takes."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from .analysis import Reference
from .figures_labels import beside
from .figures_marks import Axis, Floats, Line, Mark, Panel, Side, Text
from .figures_style import text_width

__all__ = ["floats", "log_ticks", "panel_of", "reference_line", "row_height", "rows_height"]

ROW = 26
"""Height of a category on the y axis."""
NARROW = 180.0
"""What a phone leaves of a panel's plotted width."""


def reference_line(reference: Reference, x: Axis, y: Axis) -> tuple[Line, Text] | None:
    """Return a line to compare with, and its name beside it; None where it lies outside of the axes."""
    (x0, x1), (y0, y1) = sorted(x.range), sorted(y.range)
    value, label = reference.value, reference.label
    style: dict[str, Any] = {"colour": "@@line", "width": 1.2}
    note: dict[str, Any] = {"colour": "@@muted", "small": True}
    if reference.kind == "horizontal" and value is not None and not y.categories:
        if not y0 <= value <= y1:
            return None
        return Line((x0, x1), (value, value), dash="dash", **style), Text(
            x0, value, label, right=6, up=8, haloed=True, beside_line=True, **note
        )
    if reference.kind == "vertical" and value is not None and not x.categories:
        if not x0 <= value <= x1:
            return None
        share = (math.log(value / x0) / math.log(x1 / x0)) if x.log else (value - x0) / ((x1 - x0) or 1)
        anchor: Side = "left" if share < 0.6 else "right"
        right = 5 if anchor == "left" else -5
        return Line((value, value), (y0, y1), dash="dash", **style), Text(
            value, y1, label, right=right, up=-9, anchor=anchor, **note
        )
    if reference.kind == "diagonal":
        low, high = max(x0, y0), min(x1, y1)
        if low >= high:
            return None
        return Line((low, high), (low, high), dash="dash", **style), Text(
            low + 0.12 * (high - low), low + 0.12 * (high - low), label, right=10, up=-8, haloed=True, **note
        )
    if reference.kind == "iso_f1" and value is not None and 0 < value < 1:
        # From the top of the panel to its right edge.
        top, edge = min(y1, 1.0), min(x1, 1.0)
        start = value * top / (2 * top - value)
        if start >= edge:
            return None
        xs = np.linspace(start, edge, 60)
        ys = value * xs / (2 * xs - value)
        end = float(ys[-1])
        if end < y0:
            return None
        line = Line(floats(xs), floats(ys), colour="@@line", width=1.0, dash="dot")
        return line, Text(edge, end, label, right=-2, up=8, anchor="right", **note)
    return None


def panel_of(
    title: str,
    x: Axis,
    y: Axis,
    marks: Sequence[Mark],
    width: float,
    height: float,
    right: float = 12.0,
    frame: bool = True,
) -> Panel:
    """Put a panel together, with the room that its ticks and labels need around the plotted area, in pixels."""
    longest_y = max((text_width(text) for text in y.categories), default=40.0)
    left = longest_y + 12 + (20 if y.label else 0)
    longest_x = max((text_width(text) for text in x.categories), default=0.0)
    ticks = longest_x * 0.62 + 18 if x.rotated else 20
    if x.rotated:  # the first label leans out to the left, further on a narrow page
        half = min(width, NARROW) / (2 * len(x.categories))
        left = max(left, text_width(x.categories[0]) * 0.8 - half + 10)
    bottom = ticks + (26 if x.label else 6)
    panel = Panel(title, x, y, tuple(marks), width, height, left, right, bottom, 30.0 if title else 10.0)
    moved = (beside(m, marks, panel) if isinstance(m, Text) and m.beside_line else m for m in marks)
    return replace(panel, marks=tuple(moved))


def log_ticks(values: list[float], low: float, high: float) -> tuple[tuple[float, str], ...]:
    """Return ticks at the values themselves where they are few, else at 1, 2 and 5 of each power of ten."""
    if len(values) > 8:
        powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        values = [step * 10.0**power for power in powers for step in (1, 2, 5)]
    ticks: list[tuple[float, str]] = []
    for value in values:
        # Labels stand apart by at least a tenth of the axis.
        near = ticks and math.log(value / ticks[-1][0]) < 0.09 * math.log(high / low)
        if low <= value <= high and value > 0 and not near:
            ticks.append((value, f"{value:,.0f}" if value >= 1 else f"{value:g}"))
    return tuple(ticks)


def rows_height(y: Axis, n_groups: int) -> float:
    """Return the height of an axis of categories, each holding so many groups."""
    return max((y.range[1] - y.range[0]) * row_height(n_groups), 60.0)


def row_height(n_groups: int) -> float:
    """Return the height of one category."""
    return max(ROW, 13.0 * n_groups + 8)


def floats(values: Any) -> Floats:
    """Return a column as marks hold it."""
    return tuple(np.asarray(values, dtype=float).tolist())
