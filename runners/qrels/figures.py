"""Draws the four kinds of figures of the experiments as SVG, with no library: scatter, line, heatmap, bar.

The same table gives the same bytes. What is drawn is what the table says; nothing is computed but places.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from xml.sax.saxutils import escape

import numpy as np
import pandas as pd

from ..report.analysis import FigureSpec

__all__ = ["draw"]

WIDTH, HEIGHT = 360, 300
LEFT, RIGHT, TOP, BOTTOM = 58, 14, 44, 48
INK, GRID = "#222222", "#dddddd"
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#999999")
"""Distinct to people who confuse red and green (Okabe and Ito)."""


def draw(figure: FigureSpec, frame: pd.DataFrame) -> str:
    """Return a figure as an SVG document.

    Args:
        figure: what is drawn: a scatter, line, heatmap or bar.
        frame: its rows.

    Raises:
        ValueError: a kind that is not drawn here.
    """
    panels: dict[str, Callable[[FigureSpec, pd.DataFrame], Iterator[str]]] = {
        "scatter": _scatter,
        "line": _lines,
        "heatmap": _heatmap,
        "bar": _bars,
    }
    if figure.kind not in panels:
        raise ValueError(f"A {figure.kind} is not drawn here; there are {', '.join(panels)}.")
    facets = [("", frame)] if figure.facet is None else list(frame.groupby(figure.facet, sort=False))
    if figure.facet is not None:
        figure = _shared_ranges(figure, frame)
    width = WIDTH * len(facets) + (160 if figure.kind == "line" else 0)
    if figure.kind == "bar":
        width = max(width, LEFT + RIGHT + 22 * len(frame))
    height = HEIGHT + (80 if figure.kind == "bar" else 0) + (140 if figure.kind == "line" else 0)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        'font-family="sans-serif" font-size="10">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        _text(LEFT, 16, figure.title, size=12),
    ]
    for place, (name, rows) in enumerate(facets):
        parts.append(f'<g transform="translate({place * WIDTH} 0)">')
        parts += [_text(LEFT, 34, str(name)), *panels[figure.kind](figure, rows)]
        parts.append("</g>")
    return "\n".join([*parts, "</svg>", ""])


def _scatter(figure: FigureSpec, rows: pd.DataFrame) -> Iterator[str]:
    across = _Scale(rows[figure.x], LEFT, WIDTH - RIGHT, figure.x_range)
    up = _Scale(rows[figure.y], HEIGHT - BOTTOM, TOP, figure.y_range)
    yield from _axes(figure, across, up)
    for row in rows.dropna(subset=[figure.x, figure.y]).to_dict("records"):
        x, y = across(row[figure.x]), up(row[figure.y])
        yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{COLOURS[0]}" fill-opacity="0.75">'
        yield f"<title>{escape(str(row.get(figure.label or '', '')))}</title></circle>"
        if figure.label:
            yield _text(x + 5, y + 3, str(row[figure.label]), size=7, colour="#666666")


def _lines(figure: FigureSpec, rows: pd.DataFrame) -> Iterator[str]:
    """A bump chart: categories across, ranks down, one line and two names for each group."""
    columns = list(dict.fromkeys(rows[figure.x]))
    bottom = HEIGHT + 140 - BOTTOM
    across = np.linspace(LEFT + 90, WIDTH + 50, len(columns))
    down = _Scale(rows[figure.y], TOP + 14, bottom, None)
    for x, name in zip(across, columns, strict=True):
        yield _text(x, TOP + 2, str(name), anchor="middle")
    starts: list[tuple[str, float, str]] = []
    ends: list[tuple[str, float, str]] = []
    for number, (name, one) in enumerate(rows.groupby(figure.group, sort=False)):
        values = one.set_index(figure.x)[figure.y].reindex(columns)
        points = [(float(x), down(value)) for x, value in zip(across, values, strict=True)]
        colour = COLOURS[number % len(COLOURS)]
        yield f'<polyline fill="none" stroke="{colour}" stroke-width="1.5" points="{_points(points)}"/>'
        starts.append((str(name), points[0][1], colour))
        ends.append((str(name), points[-1][1], colour))
    for names, at, anchor in ((starts, LEFT + 84, "end"), (ends, WIDTH + 56, "start")):
        for text, y, colour in _spread(names):
            yield _text(at, y + 3, text, size=8, colour=colour, anchor=anchor)


def _heatmap(figure: FigureSpec, rows: pd.DataFrame) -> Iterator[str]:
    across, down = list(dict.fromkeys(rows[figure.x])), list(dict.fromkeys(rows[figure.y]))
    cell = min((WIDTH - LEFT - RIGHT) / len(across), (HEIGHT - TOP - BOTTOM) / len(down))
    most = float(rows[figure.colour].max()) or 1.0
    for row in rows.to_dict("records"):
        x, y = LEFT + across.index(row[figure.x]) * cell, TOP + down.index(row[figure.y]) * cell
        share = float(row[figure.colour]) / most
        yield (
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{cell:.1f}" height="{cell:.1f}" fill="{COLOURS[0]}" '
            f'fill-opacity="{share:.3f}" stroke="{GRID}"/>'
        )
        colour = "white" if share > 0.6 else INK
        yield _text(x + cell / 2, y + cell / 2 + 3, f"{row[figure.colour]:,}", size=8, anchor="middle", colour=colour)
    for place, name in enumerate(across):
        yield _text(LEFT + (place + 0.5) * cell, TOP + len(down) * cell + 12, str(name), anchor="middle")
    for place, name in enumerate(down):
        yield _text(LEFT - 6, TOP + (place + 0.5) * cell + 3, str(name), anchor="end")
    yield _text(LEFT + len(across) * cell / 2, TOP + len(down) * cell + 28, figure.x, anchor="middle")
    yield _text(12, TOP - 6, figure.y)


def _bars(figure: FigureSpec, rows: pd.DataFrame) -> Iterator[str]:
    up = _Scale(rows[figure.y], HEIGHT - BOTTOM, TOP, figure.y_range or (0, None))
    width = 20
    right = LEFT + 22 * len(rows)
    for tick in up.ticks():
        yield f'<line x1="{LEFT}" x2="{right}" y1="{up(tick):.1f}" y2="{up(tick):.1f}" stroke="{GRID}"/>'
        yield _text(LEFT - 6, up(tick) + 3, f"{tick:g}", anchor="end")
    for place, row in enumerate(rows.to_dict("records")):
        value = row[figure.y]
        x = LEFT + 22 * place + 1
        if value is not None and not np.isnan(value):
            top, bottom = sorted((up(0.0), up(value)))
            yield f'<rect x="{x}" y="{top:.1f}" width="{width}" height="{bottom - top:.1f}" fill="{COLOURS[0]}"/>'
        below = HEIGHT - BOTTOM + 8
        name = escape(str(row[figure.x]))
        yield f'<text x="{x + 12}" y="{below}" transform="rotate(60 {x + 8} {below})" fill="{INK}">{name}</text>'
    for line in figure.references:
        if line.kind == "horizontal" and line.value is not None:
            y = up(line.value)
            yield f'<line x1="{LEFT}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}" stroke="{COLOURS[1]}" stroke-width="1.5"/>'
            yield _text(right, y - 4, line.label, anchor="end", colour=COLOURS[1])
    yield _text(12, TOP - 6, figure.y)


class _Scale:
    """Values to places."""

    def __init__(
        self, values: pd.Series, start: float, end: float, bounds: tuple[float | None, float | None] | None
    ) -> None:
        known = values.dropna().astype(float)
        low, high = (float(known.min()), float(known.max())) if len(known) else (0.0, 1.0)
        if bounds is not None:
            low = low if bounds[0] is None else bounds[0]
            high = high if bounds[1] is None else bounds[1]
        self.low, self.high = low, high if high > low else low + 1.0
        self.start, self.end = start, end

    def __call__(self, value: float) -> float:
        return self.start + (float(value) - self.low) / (self.high - self.low) * (self.end - self.start)

    def ticks(self) -> list[float]:
        rough = (self.high - self.low) / 4
        step = 10 ** np.floor(np.log10(rough))
        step *= next(factor for factor in (1, 2, 5, 10) if factor * step >= rough)
        first = np.ceil(self.low / step)
        return [float(tick) for tick in np.arange(first, np.floor(self.high / step) + 1) * step]


def _axes(figure: FigureSpec, across: _Scale, up: _Scale) -> Iterator[str]:
    for tick in across.ticks():
        x = across(tick)
        yield f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}" stroke="{GRID}"/>'
        yield _text(x, HEIGHT - BOTTOM + 14, f"{tick:g}", anchor="middle")
    for tick in up.ticks():
        y = up(tick)
        yield f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="{GRID}"/>'
        yield _text(LEFT - 6, y + 3, f"{tick:g}", anchor="end")
    yield _text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - BOTTOM + 32, figure.x, anchor="middle")
    yield _text(12, TOP - 6, figure.y)


def _shared_ranges(figure: FigureSpec, frame: pd.DataFrame) -> FigureSpec:
    """Give all panels the same ranges, so that they compare."""
    from dataclasses import replace

    if figure.kind != "scatter":
        return figure
    bounds = {name: (float(frame[name].min()), float(frame[name].max())) for name in (figure.x, figure.y)}
    return replace(figure, x_range=figure.x_range or bounds[figure.x], y_range=figure.y_range or bounds[figure.y])


def _spread(names: Sequence[tuple[str, float, str]], apart: float = 9.0) -> list[tuple[str, float, str]]:
    """Move names that would stand over each other apart, downwards."""
    placed = sorted(names, key=lambda one: (one[1], one[0]))
    for at, (before, after) in enumerate(pairwise(list(range(len(placed))))):
        name, y, colour = placed[after]
        placed[at + 1] = (name, max(y, placed[before][1] + apart), colour)
    return placed


def _points(points: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points if not np.isnan(y))


def _text(x: float, y: float, text: str, *, size: int = 10, anchor: str = "start", colour: str = INK) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" fill="{colour}">{escape(text)}</text>'
    )
