"""From what an analysis asks to be drawn to marks at places: the same for every backend.

`draw` decides all that a reader sees: panels, colours, ticks, where labels stand. Categories stand at 0, 1, 2, ...
The backends (`figures_plotly`, `figures_static`) only turn marks into their own. Sizes are in pixels.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pandas as pd

from .analysis import QUANTILES, FigureSpec
from .columns import KEY, Column, describe_column
from .figures_labels import end_labels, place_labels
from .figures_marks import (
    Axis,
    Bars,
    Boxes,
    Cells,
    Drawing,
    Key,
    Line,
    Mark,
    Panel,
    Points,
    Scale,
    Text,
    Texts,
)
from .figures_panel import floats, log_ticks, panel_of, reference_line, row_height, rows_height
from .figures_style import (
    BUBBLE,
    COLOURS,
    DASHES,
    DIVERGING,
    MARKS,
    SEQUENTIAL,
    SHAPES,
    SMALL,
    blend,
    short,
    short_names,
    text_width,
)

__all__ = ["draw", "show_value"]

MAX_LINE_LABELS = 21
MAX_CELL_TEXTS = 900


def show_value(value: Any, column: Column) -> str:
    """Return a value as people read it, without its unit: fractions in per cent.

    >>> show_value(0.4567, describe_column("ig_f1"))
    '45.7'
    """
    if value is None or value is pd.NA or (isinstance(value, float) and math.isnan(value)):
        return "–"
    if column.unit == "text":
        return str(value)
    if column.unit == "flag":
        return "yes" if value else "no"
    number = float(value) * (100 if column.percent else 1)
    if math.isinf(number):
        return "∞" if number > 0 else "−∞"
    if column.unit == "p" and number < 10**-column.digits:
        return f"<{10**-column.digits:g}"
    digits = max(column.digits, 1) if column.percent and 0 < abs(number) < 1 else column.digits
    if column.unit == "number" and number and abs(number) < 10**-digits:
        return f"{number:.2g}".replace("-", "−")
    shown = f"{number:,.{digits}f}"
    return shown.replace("-", "−" if shown.strip("-0.,") else "")


def draw(spec: FigureSpec, tables: Mapping[str, pd.DataFrame], meta: Mapping[str, Any] | None = None) -> Drawing | None:
    """Lay out a figure.

    Args:
        spec: what to draw.
        tables: of the analysis.
        meta: policy and versions, to be kept with the figure.

    Returns:
        The drawing; None where the table has nothing to draw.

    Raises:
        KeyError: the spec names a table or column that is not there.
    """
    frame = tables[spec.table]
    if not len(frame):
        return None
    needed = [spec.x, spec.colour if spec.kind == "heatmap" else spec.y]
    frame = frame.dropna(subset=[name for name in needed if name])
    if not len(frame):
        return None
    work = _Work(spec, frame, tables[spec.overlay] if spec.overlay else None)
    values = frame[work.facets].drop_duplicates() if work.facets else pd.DataFrame([{}])
    panels = [
        work.panel({name: row[name] for name in work.facets}, n_panels=len(values)) for _, row in values.iterrows()
    ]
    keys = work.keys() if any(panel is not None for panel in panels) else ()
    return Drawing(
        spec.title, spec.caption, tuple(p for p in panels if p), keys, work.scale(), work.notes(), dict(meta or {})
    )


class _Work:
    """What is the same for all panels of a figure."""

    def __init__(self, spec: FigureSpec, frame: pd.DataFrame, overlay: pd.DataFrame | None) -> None:
        self.spec, self.frame, self.overlay = spec, frame, overlay
        roles = {spec.x, spec.y, spec.group, spec.colour, spec.size, spec.label}
        # What tells rows apart but is not drawn: its rows would lie over each other.
        varying = [
            name
            for name in (*KEY, *(("metric",) if spec.kind != "heatmap" else ()))
            if name not in roles and name != spec.facet and name in frame and frame[name].nunique() > 1
        ]
        self.facets = ([spec.facet] if spec.facet and spec.facet in frame else []) + varying
        groups = frame[spec.group].astype(str).unique().tolist() if spec.group else [""]
        self.groups: list[str] = groups
        plain = {group: _plain(spec.group or "", group) for group in groups}
        shown = short_names(plain.values())
        self.names = {group: shown[plain[group]] for group in groups}
        self.n_unlabelled = 0
        self.x_column, self.y_column = describe_column(spec.x), describe_column(spec.y)

    def style(self, group: str) -> tuple[str, str, str]:
        """Return colour, shape and dash of a group."""
        place = self.groups.index(group)
        turn = place // len(COLOURS)
        return COLOURS[place % len(COLOURS)], SHAPES[place % len(SHAPES)], DASHES[turn % len(DASHES)]

    def keys(self) -> tuple[Key, ...]:
        spec = self.spec
        if not spec.group or len(self.groups) < 2:
            return ()
        direct = (spec.kind == "line" and len(self.groups) <= MAX_LINE_LABELS) or (
            self.overlay is not None and len(self.groups) <= MAX_LINE_LABELS
        )
        if direct:
            return ()
        shapes = (self.style(group)[1] if spec.kind in ("scatter", "forest") else "square" for group in self.groups)
        return tuple(
            Key(self.names[group], self.style(group)[0], shape)
            for group, shape in zip(self.groups, shapes, strict=True)
        )

    def scale(self) -> Scale | None:
        spec = self.spec
        if spec.colour is None or (spec.kind == "heatmap" and self._cell_texts()):
            return None
        column = describe_column(spec.colour)
        low, high, stops = self._colour_range()
        unit = " %" if column.percent else ""
        return Scale(column.label, show_value(low, column) + unit, show_value(high, column) + unit, stops)

    def notes(self) -> Texts:
        spec, notes = self.spec, []
        values = self.frame[spec.size].dropna().astype(float) if spec.size else pd.Series(dtype=float)
        if spec.size and len(values) and values.min() < values.max():
            column = describe_column(spec.size)
            least, most = show_value(values.min(), column), show_value(values.max(), column)
            notes.append(f"Size of bubbles: {column.heading[:1].lower()}{column.heading[1:]}, {least} to {most}")
        if self.n_unlabelled:
            marks = "1 mark has" if self.n_unlabelled == 1 else f"{self.n_unlabelled} marks have"
            notes.append(f"{marks} no room for a label; the table names all")
        return tuple(notes)

    def _colour_range(self) -> tuple[float, float, tuple[tuple[float, str], ...]]:
        values = self.frame[str(self.spec.colour)].astype(float).dropna()
        values = values[np.isfinite(values)]
        if not len(values):
            return 0.0, 1.0, SEQUENTIAL
        low, high = float(values.min()), float(values.max())
        if low < 0 < high or str(self.spec.colour).startswith("difference"):
            most = max(abs(low), abs(high)) or 1.0
            return -most, most, DIVERGING
        if self.spec.kind == "heatmap" and describe_column(str(self.spec.colour)).percent and low >= 0:
            low = 0.0
        return low, high if high > low else low + 1.0, SEQUENTIAL if self.spec.kind == "heatmap" else MARKS

    def _cell_texts(self) -> bool:
        return len(self.frame) <= MAX_CELL_TEXTS

    def panel(self, facet: Mapping[str, Any], n_panels: int) -> Panel | None:
        frame, overlay = self.frame, self.overlay
        for name, value in facet.items():
            frame = frame.loc[frame[name] == value]
            if overlay is not None and name in overlay:
                overlay = overlay.loc[overlay[name] == value]
        title = " · ".join(short(_plain(name, value), 44) for name, value in facet.items() if str(value))
        width = 560.0 if n_panels == 1 else 400.0 if n_panels in (2, 4) else 300.0
        drawers = {
            "scatter": self._scatter, "forest": self._forest, "box": self._box, "heatmap": self._heatmap,
            "line": self._line, "bar": self._bar,
        }  # fmt: skip
        return drawers[self.spec.kind](frame, overlay, title, width)

    # Kinds

    def _scatter(self, frame: pd.DataFrame, overlay: pd.DataFrame | None, title: str, width: float) -> Panel:
        spec, height = self.spec, min(width * 0.8, 420.0)
        x, y = self._number_axis("x", frame, overlay), self._number_axis("y", frame, overlay)
        under, over = self._references(x, y)
        marks: list[Mark] = list(under)
        sizes = self._sizes(frame)
        low, high, stops = self._colour_range() if spec.colour else (0.0, 1.0, SEQUENTIAL)
        labels: list[tuple[float, float, float, str]] = []
        for group in self.groups:
            own = frame.loc[frame[spec.group].astype(str) == group] if spec.group else frame
            if not len(own):
                continue
            colour, shape, _ = self.style(group)
            colours = [colour] * len(own)
            if spec.colour:
                numbers = own[spec.colour].astype(float)
                colours = ["#808080" if math.isnan(v) else blend(stops, (v - low) / (high - low)) for v in numbers]
            marks.append(
                Points(
                    floats(own[spec.x]), floats(own[spec.y]), tuple(colours),
                    tuple(sizes.loc[own.index].tolist()), shape, 0.3 if spec.faint else 0.9, self._hover(own),
                )
            )  # fmt: skip
            if spec.label:
                names = short_names(frame[spec.label].astype(str))
                labels += [
                    (float(row[spec.x]), float(row[spec.y]), float(size), names[str(row[spec.label])])
                    for (_, row), size in zip(own.iterrows(), sizes.loc[own.index], strict=True)
                ]
        if overlay is not None:
            marks += self._diamonds(overlay, labels)
        if self.groups != [""] and not spec.label and overlay is None and len(self.groups) == 1:
            title = title or self.names[self.groups[0]]
        marks += over
        placed = place_labels(labels, x, y, width, height, bool(spec.faint))
        self.n_unlabelled += len(labels) - len(placed)
        marks += placed
        return panel_of(title, x, y, marks, width, height, right=20.0)

    def _diamonds(self, overlay: pd.DataFrame, labels: list[tuple[float, float, float, str]]) -> list[Mark]:
        spec, marks = self.spec, []
        overlay = overlay.dropna(subset=[spec.x, spec.y])
        direct = len(self.groups) <= MAX_LINE_LABELS
        for group in self.groups:
            own = overlay.loc[overlay[spec.group].astype(str) == group] if spec.group else overlay
            if len(own):
                colour = self.style(group)[0]
                n = len(own)
                marks.append(
                    Points(floats(own[spec.x]), floats(own[spec.y]), (colour,) * n, (15.0,) * n, "diamond",
                           hover=self._hover(own))
                )  # fmt: skip
                if group and direct:
                    places = zip(floats(own[spec.x]), floats(own[spec.y]), strict=True)
                    labels += [(x, y, 20.0, self.names[group]) for x, y in places]
        return list(marks)

    def _forest(self, frame: pd.DataFrame, overlay: pd.DataFrame | None, title: str, width: float) -> Panel:
        spec = self.spec
        # The first row is on top.
        y, places = self._category_axis("y", frame)
        y = self._with_room_for_names(y)
        x = self._number_axis("x", frame, None, [spec.low, spec.high])
        under, over = self._references(x, y)
        marks: list[Mark] = list(under)
        shift = _spread(len(self.groups))
        for n, group in enumerate(self.groups):
            own = frame.loc[frame[spec.group].astype(str) == group] if spec.group else frame
            if not len(own):
                continue
            colour, shape, _ = self.style(group)
            low = floats(own[spec.low]) if spec.low else ()
            high = floats(own[spec.high]) if spec.high else ()
            at = tuple(places[_category(v)] + shift[n] for v in own[spec.y])
            marks.append(
                Points(floats(own[spec.x]), at, (colour,) * len(own), (9.0,) * len(own), shape, hover=self._hover(own),
                       low=low, high=high)
            )  # fmt: skip
            if not spec.group:
                ends = (v if math.isnan(h) else h for v, h in zip(own[spec.x], high or own[spec.x], strict=True))
                marks += [
                    Text(float(end), place, show_value(value, self.x_column), right=8, small=True)
                    for end, place, value in zip(ends, at, own[spec.x], strict=True)
                ]
        marks += over
        right = 10 if spec.group else 10 + text_width("99.9", SMALL)
        return panel_of(title, x, y, marks, width, rows_height(y, len(self.groups)), right=right)

    def _box(self, frame: pd.DataFrame, overlay: pd.DataFrame | None, title: str, width: float) -> Panel:
        spec = self.spec
        prefix = spec.y.removesuffix("median")
        names = [prefix + name for name in QUANTILES]
        x, places = self._category_axis("x", frame, width)
        y, column = self._number_axis("y", frame, None, names), self.y_column
        under, over = self._references(x, y)
        quantiles = tuple(floats(row) for row in frame[names].to_numpy(dtype=float))
        hover = tuple(
            f"{row[spec.x]}: " + ", ".join(
                f"{describe_column(name).label.lower()} {show_value(float(row[name]), column)}"
                f"{' %' if column.percent else ''}"
                for name in names
            )
            for _, row in frame.iterrows()
        )  # fmt: skip
        at = tuple(places[_category(v)] for v in frame[spec.x])
        texts: list[Mark] = [
            Text(place + 0.2, values[2], show_value(values[2], column), right=5, small=True)
            for place, values in zip(at, quantiles, strict=True)
        ]
        marks: list[Mark] = [*under, Boxes(at, quantiles, COLOURS[0], hover), *over, *texts]
        return panel_of(title, x, y, marks, width, 320.0, right=34.0)

    def _heatmap(self, frame: pd.DataFrame, overlay: pd.DataFrame | None, title: str, width: float) -> Panel:
        spec, name = self.spec, str(self.spec.colour)
        column = describe_column(name)
        y, rows = self._category_axis("y", frame)
        x, columns = self._category_axis("x", frame, width)
        values = np.full((len(rows), len(columns)), np.nan)
        texts = [[""] * len(columns) for _ in rows]
        hover = [[""] * len(columns) for _ in rows]
        sentences = self._hover(frame)
        for sentence, (_, row) in zip(sentences, frame.iterrows(), strict=True):
            place = int(rows[_category(row[spec.y])]), int(columns[_category(row[spec.x])])
            values[place] = float(row[name])
            hover[place[0]][place[1]] = sentence
            if self._cell_texts():
                texts[place[0]][place[1]] = show_value(row[name], column)
        low, high, stops = self._colour_range()
        cells = Cells(
            tuple(map(tuple, values.tolist())), (low, high), stops, tuple(map(tuple, texts)), tuple(map(tuple, hover))
        )
        # Numbers must fit into their cells.
        longest = max((text_width(text, SMALL) for row in texts for text in row), default=0)
        width = min(max(width, len(columns) * (longest + 8)), 1100.0) if len(columns) > 3 else min(width, 420.0)
        return panel_of(title, x, y, [cells], width, max(len(rows) * 30.0, 60.0), frame=False)

    def _line(self, frame: pd.DataFrame, overlay: pd.DataFrame | None, title: str, width: float) -> Panel:
        spec, n_groups = self.spec, len(self.groups)
        height = max(300.0, 16.0 * n_groups) if n_groups <= MAX_LINE_LABELS else 300.0
        if self.x_column.unit in ("text", "flag"):
            x, places = self._category_axis("x", frame, width, ends=0.25)
            frame = frame.assign(**{spec.x: [places[_category(v)] for v in frame[spec.x]]})
        else:
            x = self._number_axis("x", frame, None)
        y = self._number_axis("y", frame, None, [spec.low, spec.high])
        under, over = self._references(x, y)
        marks: list[Mark] = list(under)
        ends: list[tuple[float, float, str]] = []
        for group in self.groups:
            own = frame.loc[frame[spec.group].astype(str) == group] if spec.group else frame
            if not len(own):
                continue
            if not x.categories:
                own = own.sort_values(spec.x, kind="stable")
            colour, _, dash = self.style(group)
            low = floats(own[spec.low]) if spec.low else ()
            high = floats(own[spec.high]) if spec.high else ()
            marks.append(
                Line(floats(own[spec.x]), floats(own[spec.y]), colour, dash, hover=self._hover(own), low=low,
                     high=high, dots=len(own) <= 20)
            )  # fmt: skip
            if len(self.groups) > 1 and len(self.groups) <= MAX_LINE_LABELS:
                last = own.iloc[-1]
                ends.append((float(last[spec.x]), float(last[spec.y]), self.names[group]))
        marks += over
        labels = end_labels(ends, y, height)
        marks += labels
        right = 14 + max((text_width(label.text) for label in labels), default=0)
        return panel_of(title, x, y, marks, width, height, right=right)

    def _bar(self, frame: pd.DataFrame, overlay: pd.DataFrame | None, title: str, width: float) -> Panel:
        spec = self.spec
        horizontal = self.y_column.unit in ("text", "flag")
        along, across = (spec.x, spec.y) if horizontal else (spec.y, spec.x)
        if horizontal:
            category_axis, places = self._category_axis("y", frame)
            category_axis = self._with_room_for_names(category_axis)
        else:
            category_axis, places = self._category_axis("x", frame, width)
        value_axis = self._number_axis("x" if horizontal else "y", frame, None, zero=True)
        x, y = (value_axis, category_axis) if horizontal else (category_axis, value_axis)
        under, over = self._references(x, y)
        marks: list[Mark] = list(under)
        # The first group is on top, or at the left.
        shift = [place if horizontal else -place for place in _spread(len(self.groups))]
        thickness = 0.72 / len(self.groups)
        column = self.x_column if horizontal else self.y_column
        for n, group in enumerate(self.groups):
            own = frame.loc[frame[spec.group].astype(str) == group] if spec.group else frame
            if not len(own):
                continue
            at = tuple(places[_category(v)] + shift[n] for v in own[across])
            room = thickness * (row_height(len(self.groups)) if horizontal else width / max(len(places), 1))
            texts = tuple(show_value(v, column) for v in own[along])
            if room < (8 if horizontal else 18):
                texts = ("",) * len(texts)
            marks.append(
                Bars(at, floats(own[along]), thickness * 0.94, self.style(group)[0], horizontal, texts,
                     self._hover(own))
            )  # fmt: skip
        marks += over
        height = rows_height(y, len(self.groups)) if horizontal else 300.0
        longest = max((text_width(show_value(v, column), SMALL) for v in frame[along]), default=0.0)
        return panel_of(title, x, y, marks, width, height, right=12 + longest if horizontal else 12)

    # Axes

    def _number_axis(
        self,
        side: Literal["x", "y"],
        frame: pd.DataFrame,
        overlay: pd.DataFrame | None,
        besides: Sequence[str | None] = (),
        zero: bool = False,
    ) -> Axis:
        spec = self.spec
        name = spec.x if side == "x" else spec.y
        column = describe_column(name)
        label = spec.title if spec.kind == "box" else _axis_label(column)
        log = spec.log_x and side == "x"
        given = spec.x_range if side == "x" else spec.y_range
        frames = [self.frame if self._shared_range() else frame] + ([overlay] if overlay is not None else [])
        numbers = np.concatenate(
            [one[c].astype(float).to_numpy() for one in frames for c in {name, *besides} if c and c in one]
        )
        numbers = numbers[np.isfinite(numbers)]
        whole = column.unit in ("count", "tokens")
        if given is not None:
            # Marks on the very edge shall be whole.
            pad = 0.02 * (given[1] - given[0]) if not log else 0.0
            low, high = given[0] - pad, given[1] + pad
        else:
            kind = "vertical" if side == "x" else "horizontal"
            lines = [r.value for r in spec.references if r.kind == kind and r.value is not None]
            values = [*numbers.tolist(), *lines]
            low, high = (min(values), max(values)) if values else (0.0, 1.0)
            if log:
                low, high = max(low, 1e-9) / 1.15, max(high, 1e-9) * 1.15
            else:
                pad = 0.07 * (high - low) or 0.1 * abs(high) or 1.0
                pad = 2.2 * pad if zero and low < 0 else pad  # what bars below 0 are labelled with
                start = 0.0 if (zero or spec.kind == "box") and low >= 0 else low - pad
                # A count or share is never below 0, so neither is its axis.
                start = max(start, 0.0 if zero else -0.02 * high) if low >= 0 else start
                end = 0.0 if zero and low < 0 and high <= 0 else high + pad
                low, high = start, end
            most_is_1 = column.unit in ("fraction", "share", "rho", "kappa")
            if most_is_1 and high <= 1.3 and numbers.size and numbers.max() <= 1.0 and not log:
                high = min(high, 1.04)
        if name == "rank" or name.startswith("rank_"):
            low, high = high, low
        ticks: tuple[tuple[float, str], ...] = ()
        if whole and not log and abs(high - low) <= 13:
            whole_numbers = range(math.ceil(min(low, high)), math.floor(max(low, high)) + 1)
            ticks = tuple((float(n), str(n)) for n in whole_numbers if n >= 0)
        if log:
            ticks = log_ticks(sorted(set(numbers.tolist())), low, high)
        return Axis(label, (float(low), float(high)), column.percent, log, whole, ticks=ticks)

    def _shared_range(self) -> bool:
        """Whether panels compare at sight: scores do; other metrics, and counts of different data sets, need not."""
        if self.spec.kind == "forest" and self.spec.facet == "metric":
            return False
        return describe_column(self.spec.x).percent or describe_column(self.spec.y).percent

    def _category_axis(
        self, side: Literal["x", "y"], frame: pd.DataFrame, width: float = 0.0, ends: float = 0.5
    ) -> tuple[Axis, dict[str, float]]:
        name = self.spec.x if side == "x" else self.spec.y
        column = describe_column(name)
        values = frame[name]
        other = self.spec.x if side == "y" else self.spec.y
        if self.spec.kind == "heatmap" and set(values) & set(frame[other]):
            # The same things on both axes stand in the same order.
            values = pd.concat([frame[self.spec.y], frame[self.spec.x]])
        elif column.unit not in ("text", "flag"):
            values = values.sort_values()
        found = list(dict.fromkeys(_category(value) for value in values))
        names = short_names(_plain(name, value) for value in found)
        shown = [names[_plain(name, value)] for value in found]
        if side == "y":
            found, shown = found[::-1], shown[::-1]
        places = {value: float(place) for place, value in enumerate(found)}
        longest = max((text_width(text) for text in shown), default=0)
        rotated = side == "x" and longest + 6 > width / max(len(found), 1)
        plain = name in ("model", "dataset", "interaction_type", "annotator_a", "annotator_b", "what", "part", "stage")
        label = "" if plain else _axis_label(column)
        full = tuple(_plain(name, value) for value in found)
        return Axis(label, (-ends, len(found) - 1 + ends), categories=tuple(shown), full=full, rotated=rotated), places

    def _with_room_for_names(self, y: Axis) -> Axis:
        """Make room above the first row for the names of vertical lines, which would lie over bars and intervals."""
        if any(reference.kind == "vertical" and reference.label for reference in self.spec.references):
            return replace(y, range=(y.range[0], y.range[1] + 0.7))
        return y

    def _sizes(self, frame: pd.DataFrame) -> "pd.Series[float]":
        spec = self.spec
        if spec.size is None:
            return pd.Series(5.0 if spec.faint else 11.0, index=frame.index)
        values = frame[spec.size].astype(float)
        most = float(self.frame[spec.size].astype(float).max())
        if not most > 0:
            return pd.Series(11.0, index=frame.index)
        # Areas are in proportion; what would be too small to see is not.
        return (values.clip(lower=0) / most).pow(0.5).mul(BUBBLE[1]).clip(lower=BUBBLE[0]).fillna(BUBBLE[0])

    def _hover(self, frame: pd.DataFrame) -> Texts:
        spec = self.spec
        named = dict.fromkeys(
            name
            for name in (spec.label, spec.group, spec.y, spec.x, spec.colour, spec.size, spec.low, spec.high)
            if name and name in frame
        )
        parts = []
        for name in named:
            column = describe_column(name)
            unit = " %" if column.percent else ""
            values = frame[name].tolist()
            if name == spec.x and spec.kind == "line" and column.unit in ("text", "flag"):
                continue
            parts.append([
                f"{value}" if column.unit == "text" else f"{column.label} {show_value(value, column)}{unit}"
                for value in values
            ])  # fmt: skip
        if "user_id" in frame and spec.faint:
            parts.insert(0, [f"user {user}" for user in frame["user_id"]])
        return tuple("\n".join(part) for part in zip(*parts, strict=True)) if parts else ()

    def _references(self, x: Axis, y: Axis) -> tuple[list[Mark], list[Mark]]:
        lines: list[Mark] = []
        texts: list[Mark] = []
        for reference in self.spec.references:
            found = reference_line(reference, x, y)
            if found:
                lines.append(found[0])
                texts += [found[1]] if found[1].text else []
        return lines, texts


def _spread(n: int) -> list[float]:
    """Return where n groups stand around a category's place: the first on top."""
    return [0.0] if n == 1 else [-(0.72 * ((i + 0.5) / n - 0.5)) for i in range(n)]


def _category(value: Any) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _plain(name: str, value: Any) -> str:
    """Return a category as people read it: names of metrics and stages are spelled as everywhere."""
    text = _category(value)
    if name == "interaction_type":  # the columns of these names are thresholds
        return text.replace("_", " ")
    if name in ("metric", "reason"):
        try:
            return describe_column(text).label
        except KeyError:
            return text.replace("_", " ")
    return text


def _axis_label(column: Column) -> str:
    return column.label[:1].upper() + column.label[1:] if column.percent else column.heading
