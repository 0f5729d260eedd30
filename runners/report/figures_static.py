"""Drawings as SVG and PNG, by Matplotlib: plain wheels that draw offline.

Plotly's own way to static images (kaleido) starts a browser, which a plain machine does not have. Texts are drawn as
they are: a dollar sign in a name is no formula.
"""

import io
import json
import math
import warnings
from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

from ...hf_datasets.errors import ConfigError
from .figures_marks import Axis, Bars, Boxes, Cells, Drawing, Line, Panel, Points, Text
from .figures_plotly import GAP, INSTALL, arrange, edge_colour, key_rows
from .figures_style import FONT_SIZE, SMALL, THEMES, text_width

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["static_image", "static_images"]

Form = Literal["svg", "png"]

DPI = 100
PNG_SCALE = 2
"""Pixels of a PNG for each pixel of the drawing."""
FAMILIES = ("DejaVu Sans", "Verdana", "Segoe UI", "Helvetica", "Arial", "sans-serif")
OTHER_SCRIPTS = ("Noto Sans CJK SC", "Noto Sans CJK JP", "WenQuanYi Zen Hei", "PingFang SC", "Microsoft YaHei",
                 "Noto Sans Arabic", "Noto Sans Hebrew", "Noto Sans Devanagari", "Noto Sans Thai")  # fmt: skip
"""Asked for what the first family lacks, where they are installed."""
POINT = 72 / DPI
_SHAPES = {"circle": "o", "square": "s", "triangle-up": "^", "diamond": "D", "triangle-down": "v", "cross": "P",
           "x": "X", "pentagon": "p", "star": "*"}  # fmt: skip
_DASHES: dict[str, Any] = {"solid": "-", "dash": (0, (5, 3)), "dot": (0, (1, 2)), "dashdot": (0, (5, 2, 1, 2))}


def static_image(drawing: Drawing, form: Form) -> bytes:
    """Return a drawing as a file's content, light, with policy and versions in its metadata.

    Args:
        drawing: of any kind.
        form: SVG with text as text, or PNG.

    Raises:
        ConfigError: the extra `report` is not installed.
    """
    return static_images(drawing, (form,))[form]


def static_images(drawing: Drawing, forms: Iterable[Form] = ("svg", "png")) -> dict[Form, bytes]:
    """Do as `static_image` for several forms, and lay out once."""
    try:
        import matplotlib
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ConfigError(f"SVG and PNG figures need matplotlib. {INSTALL}") from error
    described = json.dumps({"caption": drawing.caption, **dict(drawing.meta)}, default=str)
    settings = {
        "svg.fonttype": "none", "svg.hashsalt": "gistbench", "text.parse_math": False, "font.size": FONT_SIZE * POINT,
        "font.family": _fonts(), "axes.unicode_minus": True, "path.simplify": True,
    }  # fmt: skip
    with matplotlib.rc_context(settings), warnings.catch_warnings():
        # In SVG the text is there all the same; in PNG a box stands for a sign that no font here has.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        placed, width, height = arrange(drawing.panels)
        head = _head_height(drawing, width)
        figure = Figure(figsize=(width / DPI, (height + head) / DPI), dpi=DPI, facecolor=_colour("@@paper"))
        FigureCanvasAgg(figure)
        total = height + head
        _draw_head(figure, drawing, width, total)
        for panel, left, top in placed:
            area = (left / width, 1 - (head + top + panel.height) / total, panel.width / width, panel.height / total)
            axes = figure.add_axes(area)
            _draw_panel(axes, panel)
            if panel.title:
                figure.text(
                    area[0] + area[2] / 2, area[1] + area[3] + 14 / total, panel.title, ha="center", va="center",
                    weight="bold", color=_colour("@@ink"),
                )  # fmt: skip
        return {form: _save(figure, form, drawing.title, described) for form in forms}


def _save(figure: "Figure", form: Form, title: str, described: str) -> bytes:
    file = io.BytesIO()
    if form == "png":
        plain = described.encode("ascii", "backslashreplace").decode()
        figure.savefig(file, format="png", dpi=DPI * PNG_SCALE, metadata={"Description": plain, "Software": None})
        return file.getvalue()
    metadata: dict[str, Any] = {"Title": title, "Description": described, "Date": None, "Creator": None}
    figure.savefig(file, format="svg", metadata=metadata)
    families = ", ".join(f"'{name}'" if " " in name else name for name in FAMILIES)
    # Machines without the font that was measured shall take one like it.
    return file.getvalue().replace(b"'DejaVu Sans'", families.encode())


@cache
def _fonts() -> list[str]:
    from matplotlib import font_manager

    installed = set(font_manager.get_font_names())
    return [FAMILIES[0], *(name for name in OTHER_SCRIPTS if name in installed)]


def _head_height(drawing: Drawing, width: float) -> float:
    return 40.0 + 20 * len(key_rows(drawing, width)) + 18 * (len(drawing.notes) + (drawing.scale is not None))


def _draw_head(figure: "Figure", drawing: Drawing, width: float, total: float) -> None:
    def write(left: float, top: float, text: str, **style: Any) -> None:
        figure.text(left / width, 1 - top / total, text, ha="left", va="center", **style)

    write(GAP / 2, 18, drawing.title, weight="bold", size=(FONT_SIZE + 1) * POINT, color=_colour("@@ink"))
    top = 40.0
    for row in key_rows(drawing, width):
        for left, n in row:
            key = drawing.keys[n]
            _swatch(figure, left + 6, top, width, total, key.colour, _SHAPES.get(key.shape, "s"))
            write(left + 16, top, key.text, color=_colour("@@ink"))
        top += 20
    for note in drawing.notes:
        write(GAP / 2, top, note, color=_colour("@@muted"), size=SMALL * POINT)
        top += 18
    if drawing.scale:
        scale = drawing.scale
        label = f"Colour: {scale.label}"
        write(GAP / 2, top, label, color=_colour("@@muted"), size=SMALL * POINT)
        left = GAP / 2 + text_width(label, SMALL) + 12
        write(left, top, scale.low, color=_colour("@@muted"), size=SMALL * POINT)
        left += text_width(scale.low, SMALL) + 8
        strip = figure.add_axes((left / width, 1 - (top + 5) / total, 110 / width, 10 / total))
        strip.imshow([[i / 99 for i in range(100)]], aspect="auto", cmap=_map(scale.stops), vmin=0, vmax=1)
        strip.set_axis_off()
        write(left + 118, top, scale.high, color=_colour("@@muted"), size=SMALL * POINT)


def _swatch(figure: "Figure", left: float, top: float, width: float, total: float, colour: str, shape: str) -> None:
    from matplotlib.lines import Line2D

    figure.add_artist(
        Line2D([left / width], [1 - top / total], marker=shape, color=colour, markersize=9 * POINT, linestyle="none")
    )


def _draw_panel(axes: "Axes", panel: Panel) -> None:
    axes.set_facecolor(_colour("@@paper"))
    axes.set_axisbelow(True)
    for name, spine in axes.spines.items():
        axis = panel.x if name in ("bottom", "top") else panel.y
        spine.set_visible(name in ("bottom", "left") and not axis.categories)
        spine.set_color(_colour("@@line"))
    if panel.x.log:
        axes.set_xscale("log")
    axes.set_xlim(*panel.x.range)
    axes.set_ylim(*panel.y.range)
    for mark in panel.marks:
        if isinstance(mark, Points):
            _points(axes, mark)
        elif isinstance(mark, Line):
            _line(axes, mark)
        elif isinstance(mark, Bars):
            _bars(axes, mark, panel)
        elif isinstance(mark, Boxes):
            _boxes(axes, mark)
        elif isinstance(mark, Cells):
            _cells(axes, mark)
        else:
            _text(axes, mark)
    _ticks(axes, panel.x, "x", panel.width, cells=any(isinstance(mark, Cells) for mark in panel.marks))
    _ticks(axes, panel.y, "y", panel.height, cells=any(isinstance(mark, Cells) for mark in panel.marks))
    axes.set_xlim(*panel.x.range)
    axes.set_ylim(*panel.y.range)


def _ticks(axes: "Axes", axis: Axis, side: Literal["x", "y"], length: float, cells: bool) -> None:
    from matplotlib import ticker

    one = axes.xaxis if side == "x" else axes.yaxis
    style: dict[str, Any] = {"labelsize": FONT_SIZE * POINT, "labelcolor": _colour("@@ink"), "color": _colour("@@line")}
    axes.tick_params(axis=side, which="major", length=0 if axis.categories else 4 * POINT, **style)
    if axis.label:
        one.set_label_text(axis.label, size=FONT_SIZE * POINT, color=_colour("@@ink"))
    if axis.categories:
        one.set_major_locator(ticker.FixedLocator([float(n) for n in range(len(axis.categories))]))
        one.set_major_formatter(ticker.FixedFormatter(list(axis.categories)))
        if axis.rotated:
            for label in one.get_ticklabels():
                label.set(rotation=38, ha="right", rotation_mode="anchor")
        one.set_minor_locator(ticker.NullLocator())
        return
    if not cells:
        axes.grid(axis=side, color=_colour("@@grid"), linewidth=0.8)
    if axis.ticks:
        one.set_major_locator(ticker.FixedLocator([value for value, _ in axis.ticks]))
        one.set_major_formatter(ticker.FixedFormatter([text for _, text in axis.ticks]))
        one.set_minor_locator(ticker.NullLocator())
        return
    n = 6 if length >= 300 else 5
    one.set_major_locator(ticker.MaxNLocator(n, integer=axis.whole, steps=[1, 2, 2.5, 5, 10]))
    one.set_major_formatter(ticker.FuncFormatter(lambda value, _: _tick(value, axis)))


def _tick(value: float, axis: Axis) -> str:
    if axis.percent:
        return f"{round(100 * value, 1):g}%".replace("-", "−")
    most = max(abs(v) for v in axis.range)
    if most >= 10_000 and value:
        power = 2 if most >= 2_000_000 else 1
        return f"{value / 1000**power:,.4g}{'k' if power == 1 else 'M'}".replace("-", "−")
    return f"{value:,.10g}".replace("-", "−")


def _points(axes: "Axes", mark: Points) -> None:
    if mark.low and mark.high:
        centres = mark.x if mark.along == "x" else mark.y
        # A value without an interval has none drawn.
        below = [max(c - v, 0.0) if v == v else 0.0 for v, c in zip(mark.low, centres, strict=True)]
        above = [max(v - c, 0.0) if v == v else 0.0 for v, c in zip(mark.high, centres, strict=True)]
        axes.errorbar(
            mark.x, mark.y, fmt="none", ecolor=mark.colours[0], elinewidth=1.6, capsize=3, zorder=2.5,
            xerr=[below, above] if mark.along == "x" else None, yerr=[below, above] if mark.along == "y" else None,
        )  # fmt: skip
    edge = "none" if mark.opacity < 0.5 else _colour(edge_colour(mark))
    axes.scatter(
        mark.x, mark.y, s=[(size * POINT) ** 2 for size in mark.sizes], c=list(mark.colours), alpha=mark.opacity,
        marker=_SHAPES.get(mark.shape, "o"), edgecolors=edge, linewidths=0 if mark.opacity < 0.5 else 0.8, zorder=3,
        # Thousands of marks as paths would make megabytes of SVG.
        clip_on=False, rasterized=len(mark.x) > 500,
    )  # fmt: skip


def _line(axes: "Axes", mark: Line) -> None:
    behind = mark.colour.startswith("@@")
    if mark.low and mark.high:
        axes.fill_between(mark.x, mark.low, mark.high, color=mark.colour, alpha=0.2, linewidth=0)
    axes.plot(
        mark.x, mark.y, color=_colour(mark.colour), linewidth=mark.width * POINT * 1.2, linestyle=_DASHES[mark.dash],
        marker="o" if mark.dots else None, markersize=4.5, zorder=1.5 if behind else 2.5, solid_capstyle="round",
    )  # fmt: skip


def _bars(axes: "Axes", mark: Bars, panel: Panel) -> None:
    if mark.horizontal:
        axes.barh(mark.at, mark.values, height=mark.thickness, color=mark.colour, zorder=2)
    else:
        axes.bar(mark.at, mark.values, width=mark.thickness, color=mark.colour, zorder=2)
    for at, value, text in zip(mark.at, mark.values, mark.texts, strict=True):
        if text and not math.isnan(value):
            away = 4 * POINT if value >= 0 else -4 * POINT
            place, shift = ((value, at), (away, 0)) if mark.horizontal else ((at, value), (0, away))
            axes.annotate(
                text, place, shift, textcoords="offset points", size=SMALL * POINT, color=_colour("@@ink"),
                ha=("left" if value >= 0 else "right") if mark.horizontal else "center",
                va="center" if mark.horizontal else ("bottom" if value >= 0 else "top"), annotation_clip=False,
            )  # fmt: skip


def _boxes(axes: "Axes", mark: Boxes) -> None:
    names = ("whislo", "q1", "med", "q3", "whishi")
    line = {"color": mark.colour, "linewidth": 1.5}
    axes.bxp(
        [{**dict(zip(names, values, strict=True)), "fliers": []} for values in mark.quantiles],
        positions=list(mark.at), widths=0.4, patch_artist=True, showfliers=False, manage_ticks=False,
        boxprops={"facecolor": mark.colour + "33", "edgecolor": mark.colour, "linewidth": 1.5},
        medianprops={**line, "linewidth": 2}, whiskerprops=line, capprops=line, zorder=2.5,
    )  # fmt: skip


def _cells(axes: "Axes", mark: Cells) -> None:
    axes.pcolormesh(
        [n - 0.5 for n in range(len(mark.values[0]) + 1)], [n - 0.5 for n in range(len(mark.values) + 1)],
        [list(row) for row in mark.values], cmap=_map(mark.stops), vmin=mark.range[0], vmax=mark.range[1],
        edgecolors=_colour("@@paper"), linewidth=2,
    )  # fmt: skip
    for row, texts in enumerate(mark.texts):
        for column, text in enumerate(texts):
            if text:
                axes.text(
                    column, row, text, ha="center", va="center", size=SMALL * POINT, color=mark.ink(row, column)
                )  # fmt: skip


def _text(axes: "Axes", mark: Text) -> None:
    box = {"facecolor": _colour("@@paper"), "alpha": 0.8, "linewidth": 0, "pad": 1} if mark.haloed else None
    axes.annotate(
        mark.text, (mark.x, mark.y), (mark.right * POINT, mark.up * POINT), textcoords="offset points", ha=mark.anchor,
        va="center", size=(SMALL if mark.small else FONT_SIZE) * POINT, color=_colour(mark.colour), zorder=4,
        annotation_clip=False, bbox=box,
    )  # fmt: skip


def _map(stops: tuple[tuple[float, str], ...]) -> Any:
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("gistbench", list(stops))


def _colour(name: str) -> str:
    return THEMES["light"].get(name, name)
