"""What a drawing is made of: panels, axes, and marks at places. Plain data, the same for every backend.

Categories stand at 0, 1, 2, ... Sizes are in pixels.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from .figures_style import blend

__all__ = [
    "Axis",
    "Bars",
    "Boxes",
    "Cells",
    "Drawing",
    "Floats",
    "Key",
    "Line",
    "Mark",
    "Panel",
    "Points",
    "Scale",
    "Side",
    "Text",
    "Texts",
]

Floats = tuple[float, ...]
Texts = tuple[str, ...]
Side = Literal["left", "center", "right"]


@dataclass(frozen=True)
class Axis:
    """One axis of a panel."""

    label: str
    range: tuple[float, float]
    """Upside down where the first is the greater; of the values, also where ``log``."""
    percent: bool = False
    log: bool = False
    whole: bool = False
    """Only whole numbers have ticks."""
    categories: Texts = ()
    """Labels at 0, 1, 2, ..."""
    full: Texts = ()
    """The same, uncut."""
    rotated: bool = False
    ticks: tuple[tuple[float, str], ...] = ()
    """Where the ticks stand, where that cannot be left to the backend."""


@dataclass(frozen=True)
class Points:
    """Marks at places."""

    x: Floats
    y: Floats
    colours: Texts
    sizes: Floats
    shape: str = "circle"
    opacity: float = 1.0
    hover: Texts = ()
    low: Floats = ()
    """Where intervals begin and end, along ``along``; empty for none."""
    high: Floats = ()
    along: Literal["x", "y"] = "x"


@dataclass(frozen=True)
class Line:
    """A line through places, with a band where ``low`` and ``high`` are given."""

    x: Floats
    y: Floats
    colour: str
    dash: str = "solid"
    width: float = 2.0
    hover: Texts = ()
    low: Floats = ()
    high: Floats = ()
    dots: bool = False


@dataclass(frozen=True)
class Bars:
    """Bars from 0."""

    at: Floats
    values: Floats
    thickness: float
    colour: str
    horizontal: bool
    texts: Texts
    """Beyond their ends; may be empty texts."""
    hover: Texts = ()


@dataclass(frozen=True)
class Boxes:
    """Boxes of quantiles."""

    at: Floats
    quantiles: tuple[Floats, ...]
    """Five for each: least, lower quartile, median, upper quartile, greatest."""
    colour: str
    hover: Texts = ()


@dataclass(frozen=True)
class Scale:
    """What colours of a scale mean."""

    label: str
    low: str
    high: str
    stops: tuple[tuple[float, str], ...]


@dataclass(frozen=True)
class Cells:
    """A matrix of coloured cells; NaN is left empty."""

    values: tuple[Floats, ...]
    """Rows from y = 0 upwards in index."""
    range: tuple[float, float]
    stops: tuple[tuple[float, str], ...]
    texts: tuple[Texts, ...]
    hover: tuple[Texts, ...]

    def ink(self, row: int, column: int) -> str:
        """Return black or white, whichever can be read on a cell."""
        low, high = self.range
        colour = blend(self.stops, (self.values[row][column] - low) / ((high - low) or 1.0))
        red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
        return "#1F2328" if 0.299 * red + 0.587 * green + 0.114 * blue > 140 else "#FFFFFF"


@dataclass(frozen=True)
class Text:
    """A short text beside a place."""

    x: float
    y: float
    text: str
    right: float = 0.0
    """Pixels from the place to the text's anchor."""
    up: float = 0.0
    anchor: Side = "left"
    colour: str = "@@ink"
    small: bool = False
    haloed: bool = False
    """Paper behind it, since marks lie there."""
    beside_line: bool = False
    """It names a horizontal line, and may stand anywhere along it."""


Mark = Points | Line | Bars | Boxes | Cells | Text


@dataclass(frozen=True)
class Panel:
    """One pair of axes."""

    title: str
    x: Axis
    y: Axis
    marks: tuple[Mark, ...]
    width: float
    """Of the plotted area, where nothing else says."""
    height: float
    left: float
    """Room for what stands outside of the area."""
    right: float
    bottom: float
    top: float


@dataclass(frozen=True)
class Key:
    """What a colour and shape stand for."""

    text: str
    colour: str
    shape: str = "square"


@dataclass(frozen=True)
class Drawing:
    """A figure, ready to be drawn."""

    title: str
    caption: str
    panels: tuple[Panel, ...]
    keys: tuple[Key, ...] = ()
    """Only where labels at the marks would not do."""
    scale: Scale | None = None
    notes: Texts = ()
    meta: Mapping[str, Any] = field(default_factory=dict)
    """Policy and versions."""
