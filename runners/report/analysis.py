"""What an analysis is: tables, which figures to draw from them, and what they stand on; and the registry of analyses.

This is the contract between the two halves of the report. The analyses fill it from run folders; the output half draws
and writes it. Nothing here computes, draws or writes, and no model is called.

Tables are plain data frames in long form (one row per data set, model, ...), with one type per column. Scores and
shares are fractions. What each column means, its unit and how many digits it is shown with stands once, in
:data:`~gistbench.runners.report.columns.COLUMNS`.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ...hf_datasets.errors import ConfigError

if TYPE_CHECKING:
    import pandas as pd

    from .load import Runs

__all__ = [
    "KINDS",
    "QUANTILES",
    "Analysis",
    "FigureSpec",
    "Layout",
    "Options",
    "Reference",
    "Unavailable",
    "analysis",
    "analysis_ids",
    "run_analyses",
]

Kind = Literal["scatter", "forest", "box", "heatmap", "line", "bar"]
KINDS: tuple[Kind, ...] = ("scatter", "forest", "box", "heatmap", "line", "bar")
QUANTILES = ("minimum", "lower_quartile", "median", "upper_quartile", "maximum")
"""What a box is drawn from: columns of these names, or of these names behind one prefix."""


@dataclass(frozen=True)
class Reference:
    """A line that readers compare with: drawn behind the data and named."""

    kind: Literal["horizontal", "vertical", "diagonal", "iso_f1"]
    """``diagonal`` is y = x; ``iso_f1`` are the points whose harmonic mean of x and y is ``value``."""
    value: float | None = None
    label: str = ""


@dataclass(frozen=True)
class FigureSpec:
    """Which columns of which table are drawn how. Columns' labels and units are those of the table."""

    kind: Kind
    """``forest``: intervals across rows; ``box``: rows of :data:`QUANTILES`, ``y`` being the median; ``line``: one line
    per ``group``, with a band where ``low`` and ``high`` are given; ``heatmap``: ``x`` and ``y`` are categories,
    ``colour`` the value."""
    table: str
    """A key of :attr:`Analysis.tables`."""
    title: str
    caption: str
    """Says what to see."""
    x: str
    y: str
    group: str | None = None
    """One colour per value, labelled directly."""
    colour: str | None = None
    """A column of numbers on a colour scale."""
    size: str | None = None
    """A column of numbers on a scale of areas (bubbles)."""
    low: str | None = None
    high: str | None = None
    label: str | None = None
    """A column whose text stands beside each mark."""
    facet: str | None = None
    """One panel per value."""
    faint: bool = False
    """Many marks over each other: draw them small and translucent."""
    overlay: str | None = None
    """A second table with the same columns, drawn as large diamonds (medians over points)."""
    references: tuple[Reference, ...] = ()
    x_range: tuple[float, float] | None = None
    y_range: tuple[float, float] | None = None
    log_x: bool = False


@dataclass(frozen=True)
class Layout:
    """How the paper prints a table: what stands in rows, under headings and in cells."""

    rows: tuple[str, ...]
    headings: tuple[str, ...]
    """Columns of the table whose values become headings, outermost first; may be empty."""
    cells: tuple[str, ...]
    """For a cell ``c`` the table may also hold ``best_c`` (mark it), ``ci_c_low`` and ``ci_c_high`` (print them
    smaller), ``group_c`` (letters of tied rank groups) and ``published_c``."""


@dataclass(frozen=True)
class Analysis:
    """One analysis, computed; or the reason why it is not."""

    id: str
    """Such as ``table_3`` or ``figure_10``: the paper's numbers, a word for what the paper leaves out."""
    title: str
    caption: str
    """Says what to see."""
    tables: Mapping[str, "pd.DataFrame"] = field(default_factory=dict)
    figures: Mapping[str, FigureSpec] = field(default_factory=dict)
    layouts: Mapping[str, Layout] = field(default_factory=dict)
    """For some of the tables."""
    policy: Mapping[str, Any] = field(default_factory=dict)
    """Every convention that was used, as plain data."""
    notes: tuple[str, ...] = ()
    """What a reader must know besides, sentence by sentence."""
    missing: str = ""
    """Why there are no tables: which runs or files would be needed. Empty where there are."""


@dataclass(frozen=True)
class Options:
    """What analyses may be given besides runs. Everything has a default."""

    survey: Path | None = None
    """csv: ``user_id``, ``category_id``; one row for each category that a user reported."""
    external: Path | None = None
    """csv: ``model`` and one column for each external score, such as ``elo``."""
    annotations: Path | None = None
    """csv: ``task`` (``relevance`` or ``association``), ``annotator``, ``label`` (0 or 1), and ``item`` or all of
    ``user_id``, ``interest``, ``object_id``. The latter tie labels to records, so that a judge can be checked."""
    compared_data: tuple[str, str] | None = None
    """Two data sets (names or files) whose engagements are compared, the synthetic one first."""
    taxonomy_source: Path | None = None
    """A local copy of the official taxonomy, for names of its categories; nothing is downloaded."""
    user: str | None = None
    """Whose evidence is shown; by default a user with a verified and a failed interest."""
    seed: int = 0
    n_resamples: int = 1000
    significance_level: float = 0.05
    n_subsamples: int = 50
    """Random samples of users of each size (Figure 10)."""
    max_points: int = 4000
    """Users drawn in a scatter plot of each data set; medians are of all."""


class Unavailable(Exception):  # noqa: N818 - not an error: the report says what is missing and goes on
    """An analysis that these runs and files do not allow; the message says what would."""


Compute = Callable[["Runs", Options], Analysis]
_REGISTRY: dict[str, Compute] = {}
_TITLES: dict[str, str] = {}
_MODULES = (
    "summary", "scores", "survey", "failures", "fidelity", "coverage", "evidence", "context", "oracles", "annotators",
    "thresholds", "costs", "stability", "pairs", "judges", "strengths", "calibration", "changes", "arithmetic",
)  # fmt: skip
"""In the order in which a report shows their analyses."""


def analysis(id: str, title: str) -> Callable[[Compute], Compute]:
    """Register a function that computes an analysis; it raises :class:`Unavailable` where it cannot.

    Args:
        id: of the analysis that the function returns.
        title: likewise.
    """

    def register(compute: Compute) -> Compute:
        if id in _REGISTRY:
            raise ValueError(f"There are two analyses {id!r}.")
        _REGISTRY[id], _TITLES[id] = compute, title
        return compute

    return register


def analysis_ids() -> tuple[str, ...]:
    """Return the ids of all analyses, in the order in which a report shows them."""
    _load_all()
    places = {f"{__package__}.{name}": place for place, name in enumerate(_MODULES)}
    # Modules may import one another, so the order of registration is none.
    return tuple(sorted(_REGISTRY, key=lambda id: places.get(_REGISTRY[id].__module__, len(places))))


def run_analyses(runs: "Runs", which: Iterable[str] | None = None, options: Options | None = None) -> list[Analysis]:
    """Compute analyses. No model is called.

    Args:
        runs: scored run folders.
        which: ids; None for all.
        options: files and settings besides.

    Returns:
        One for each id, in the report's order; one that cannot be computed has no tables and says what is ``missing``.

    Raises:
        ConfigError: there is no such analysis, or an option cannot be used.
        StoreError: runs that do not compare, or cannot be read.
    """
    known = analysis_ids()
    chosen = set(known if which is None else which)
    if unknown := sorted(chosen - set(known)):
        raise ConfigError(f"There is no analysis {', '.join(map(repr, unknown))}. There are: {', '.join(known)}.")
    options = options or Options()
    found = []
    for id in known:
        if id in chosen:
            try:
                found.append(_REGISTRY[id](runs, options))
            except Unavailable as reason:
                found.append(Analysis(id, _TITLES[id], "", missing=str(reason)))
    return found


@cache
def _load_all() -> None:
    for name in _MODULES:
        import_module(f".{name}", __package__)
