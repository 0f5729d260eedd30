"""Where labels stand, so that they cover neither marks nor each other. Knows nothing about what they say."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from .figures_marks import Axis, Boxes, Line, Mark, Panel, Side, Text
from .figures_style import FONT_SIZE, MAX_LABEL, SMALL, short, text_width

__all__ = ["beside", "end_labels", "place_labels", "share"]


def beside(text: Text, marks: Sequence[Mark], panel: Panel) -> Text:
    """Return the label of a horizontal line where the fewest marks are: at either end, above or below."""
    long = text_width(text.text, SMALL)
    places: list[tuple[float, float]] = []
    for mark in marks:
        if isinstance(mark, Line) and not mark.colour.startswith("@@"):
            xs = [share(v, panel.x) * panel.width for v in mark.x]
            ys = [share(v, panel.y) * panel.height for v in mark.y]
            dense = np.linspace(min(xs), max(xs), 160)
            places += list(zip(dense, np.interp(dense, xs, ys), strict=True)) if np.all(np.diff(xs) >= 0) else []
        elif isinstance(mark, Boxes):
            for at, values in zip(mark.at, mark.quantiles, strict=True):
                x, low, high = share(at, panel.x), share(values[0], panel.y), share(values[4], panel.y)
                half = 0.25 * panel.width / max(len(panel.x.categories), 1)
                places += [
                    (x * panel.width + side, y * panel.height)
                    for side in np.linspace(-half, half, 6)
                    for y in np.linspace(low, high, 40)
                ]
    height = share(text.y, panel.y) * panel.height
    x0, x1 = panel.x.range
    best, fewest = text, None
    ends: tuple[tuple[float, float, Side], ...] = ((x0, 6.0, "left"), (x1, -6.0, "right"))
    for end, right, anchor in ends:
        start = 6.0 if anchor == "left" else panel.width - 6 - long
        for up in (8.0, -9.0):
            n = sum(start <= x <= start + long and abs(y - height - up) < 11 for x, y in places)
            if fewest is None or n < fewest:
                best, fewest = replace(text, x=end, right=right, anchor=anchor, up=up), n
    return best


def place_labels(
    points: list[tuple[float, float, float, str]], x: Axis, y: Axis, width: float, height: float, haloed: bool = False
) -> list[Text]:
    """Return a label beside each point, where it covers neither a point nor another label; none where all places do."""
    placed: list[Text] = []
    at = [(share(px, x) * width, share(py, y) * height, size) for px, py, size, _ in points]
    taken = [(cx - s / 2, cy - s / 2, cx + s / 2, cy + s / 2) for cx, cy, s in at]
    waiting = list(zip(points, at, strict=True))
    for length in (MAX_LABEL, 14):  # what finds no place is tried once more, cut
        left_over = []
        for (px, py, size, whole), (cx, cy, _) in waiting:
            text = short(whole, length)
            long, tall, gap = text_width(text), FONT_SIZE * 1.25, size / 2 + 4
            for right, up, anchor in _sides(gap, tall):
                start = cx + right - {"left": 0.0, "center": long / 2, "right": long}[anchor]
                box = (start, cy + up - tall / 2, start + long, cy + up + tall / 2)
                inside = box[0] >= 0 and box[2] <= width + 8 and box[1] >= 0 and box[3] <= height
                if inside and not any(
                    box[0] < t[2] and t[0] < box[2] and box[1] < t[3] and t[1] < box[3] for t in taken
                ):
                    taken.append(box)
                    placed.append(Text(px, py, text, right, up, anchor, haloed=haloed))
                    break
            else:
                left_over.append(((px, py, size, whole), (cx, cy, size)))
        waiting = left_over
    return placed


def _sides(gap: float, tall: float) -> list[tuple[float, float, Side]]:
    """Return where a label may stand from its point, best first."""
    near, far = gap * 0.8, gap + 2
    return [
        (gap, 0, "left"), (-gap, 0, "right"), (0, gap + tall / 2 - 2, "center"), (0, -gap - tall / 2 + 2, "center"),
        (near, near + 3, "left"), (near, -near - 3, "left"), (-near, near + 3, "right"), (-near, -near - 3, "right"),
        (far, gap + 16, "left"), (far, -gap - 16, "left"), (-far, gap + 16, "right"), (-far, -gap - 16, "right"),
    ]  # fmt: skip


def end_labels(ends: list[tuple[float, float, str]], y: Axis, height: float) -> list[Text]:
    """Return labels at the ends of lines, moved apart where they would overlap."""
    gap = FONT_SIZE * 1.2
    order = sorted(ends, key=lambda end: share(end[1], y))
    wanted = [share(end[1], y) * height for end in order]
    places = list(wanted)
    for _ in range(200):
        moved = False
        for i in range(len(places) - 1):
            lack = gap - (places[i + 1] - places[i])
            if lack > 0.01:
                places[i] -= lack / 2
                places[i + 1] += lack / 2
                moved = True
        if not moved:
            break
    return [
        Text(px, py, text, right=8, up=place - want)
        for (px, py, text), place, want in zip(order, places, wanted, strict=True)
    ]


def share(value: float, axis: Axis) -> float:
    """Return where a value stands on an axis, from 0 to 1."""
    low, high = axis.range
    if axis.log:
        return math.log(max(value, 1e-9) / low) / math.log(high / low)
    return (value - low) / ((high - low) or 1.0)
