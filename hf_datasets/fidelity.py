"""Paper A's fidelity analysis (Table 10, Figure 2): do two datasets' users engage alike?

Compares how many engagements of each type a user has: two-tailed t-tests between the datasets, type by type; whether
types come in the same order of frequency; and the two panels of Figure 2 as figure specifications (Plotly JSON). The
paper does not say which t-test it used: Welch's is the default here, Student's an option. Nor does it say whether users
without a type count as 0: here they do, or are left out on request (``users="with_type"``). The paper's three synthetic
means add up to 4,984 engagements, its released rows to 4,214 a user, which fits the second reading better.

A difference of means may be intended (the paper oversampled); the shares and the order say whether proportions hold.
"""

import csv
import dataclasses
import io
import json
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from .errors import ConfigError
from .schema import INTERACTION_TYPES
from .statistics import Distribution, UserCounts, count_by_user

__all__ = ["Fidelity", "TypeComparison", "Users", "compare_engagements"]

Users = Literal["all", "with_type"]

_COLOURS = ("#4269d0", "#efb118")
_GRID_POINTS = 200
_GRID_QUANTILE = 0.99
"""Densities are drawn up to this quantile: a single heavy user would flatten them all."""

Counts = npt.NDArray[np.int64]


@dataclass(frozen=True)
class TypeComparison:
    """One row of Table 10: how often users of two datasets engage in one way."""

    interaction_type: str
    n_users_a: int
    """Users behind ``mean_a``."""
    n_users_b: int
    mean_a: float | None
    """Engagements per user; None where the dataset has none of the type."""
    mean_b: float | None
    share_a: float
    """Of all engagements of the dataset."""
    share_b: float
    t: float | None
    """Positive where A has more; None where there is no test, and ``note`` says why."""
    df: float | None
    """Degrees of freedom."""
    p: float | None
    """Two-tailed; 0.0 stands for less than about 1e-308."""
    note: str = ""


@dataclass(frozen=True)
class Fidelity:
    """A comparison of two datasets; see :func:`compare_engagements`."""

    name_a: str
    name_b: str
    test: str
    """``welch`` or ``student``."""
    users: Users
    rows: tuple[TypeComparison, ...]
    """One for each interaction type that occurs in A or B."""
    same_order: bool | None
    """Whether the types that both have come in the same order of means; None where they share fewer than two."""
    counts: tuple[tuple[Counts | None, Counts | None], ...]
    """Engagements per user of A and B for each of ``rows``; None where the dataset has none of the type."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, for JSON."""
        named = {"a": self.name_a, "b": self.name_b, "test": self.test, "users": self.users}
        return {**named, "same_order": self.same_order, "rows": [dataclasses.asdict(row) for row in self.rows]}

    def json(self) -> str:
        """Return the comparison as JSON."""
        return json.dumps(self.to_dict(), indent=2) + "\n"

    def csv(self) -> str:
        """Return the comparison as CSV: one line for each interaction type, None as an empty field."""
        text = io.StringIO(newline="")
        columns = [field.name for field in dataclasses.fields(TypeComparison)]
        writer = csv.DictWriter(text, ["a", "b", "test", "users", *columns], lineterminator="\n")
        writer.writeheader()
        for row in self.rows:
            named = {"a": self.name_a, "b": self.name_b, "test": self.test, "users": self.users}
            writer.writerow(named | dataclasses.asdict(row))
        return text.getvalue()

    def densities(self) -> dict[str, Any]:
        """Return Figure 2 (a) as a Plotly figure: the density of users over engagements, type by type."""
        traces: list[dict[str, Any]] = []
        layout: dict[str, Any] = {
            "title": {"text": f"Engagements per user: {self.name_a} and {self.name_b}"},
            "grid": {"rows": 1, "columns": max(1, len(self.rows)), "pattern": "independent"},
            "annotations": [],
        }
        for place, (row, pair) in enumerate(zip(self.rows, self.counts, strict=True)):
            axis = "" if not place else str(place + 1)
            layout[f"xaxis{axis}"] = {"title": {"text": _label(row.interaction_type)}, "rangemode": "tozero"}
            layout[f"yaxis{axis}"] = {"title": {"text": "" if place else "density of users"}, "rangemode": "tozero"}
            grid = _grid([counts for counts in pair if counts is not None])
            for side, name in enumerate((self.name_a, self.name_b)):
                if (density := _density(pair[side], grid)) is not None:
                    shown = not any(trace["legendgroup"] == f"{side}" for trace in traces)
                    traces.append(
                        {
                            "type": "scatter",
                            "mode": "lines",
                            "fill": "tozeroy",
                            "name": name,
                            "legendgroup": f"{side}",
                            "showlegend": shown,
                            "line": {"color": _COLOURS[side]},
                            "x": grid.tolist(),
                            "y": density.tolist(),
                            "xaxis": f"x{axis}",
                            "yaxis": f"y{axis}",
                        }
                    )
        return {"data": traces, "layout": layout}

    def boxes(self) -> dict[str, Any]:
        """Return Figure 2 (b) as a Plotly figure: engagements per user and type as boxes from minimum to maximum."""
        traces = []
        for side, name in enumerate((self.name_a, self.name_b)):
            shown = [(row, pair[side]) for row, pair in zip(self.rows, self.counts, strict=True)]
            present = [(row, counts) for row, counts in shown if counts is not None]
            boxes = [Distribution.of(counts) for _, counts in present]
            traces.append(
                {
                    "type": "box",
                    "name": name,
                    "marker": {"color": _COLOURS[side]},
                    "x": [_label(row.interaction_type) for row, _ in present],
                    "lowerfence": [box.minimum for box in boxes],
                    "q1": [box.lower_quartile for box in boxes],
                    "median": [box.median for box in boxes],
                    "q3": [box.upper_quartile for box in boxes],
                    "upperfence": [box.maximum for box in boxes],
                    "mean": [box.mean for box in boxes],
                }
            )
        layout = {
            "title": {"text": f"Engagements per user: {self.name_a} and {self.name_b}"},
            "boxmode": "group",
            "yaxis": {"title": {"text": "engagements per user"}, "rangemode": "tozero"},
        }
        return {"data": traces, "layout": layout}


def compare_engagements(
    a: pa.Table,
    b: pa.Table,
    *,
    name_a: str = "A",
    name_b: str = "B",
    equal_variance: bool = False,
    users: Users = "all",
) -> Fidelity:
    """Test, for each interaction type, whether users of A and B engage equally often.

    Args:
        a: (rows, 5) in :data:`~gistbench.hf_datasets.schema.ENGAGEMENT_SCHEMA`.
        b: likewise.
        name_a: how to call A.
        name_b: how to call B.
        equal_variance: Student's t-test, which pools the variances, instead of Welch's.
        users: whose counts enter: ``all`` users of the dataset, 0 where they have none of the type, or those
            ``with_type``.

    Raises:
        ConfigError: ``users`` is neither.
    """
    if users not in get_args(Users):
        raise ConfigError(f"users is {users!r}. Valid are {', '.join(get_args(Users))}.")
    sides = count_by_user(a), count_by_user(b)
    rows, counts = [], []
    for name in INTERACTION_TYPES:
        pair = _counts_of(sides[0], name, users), _counts_of(sides[1], name, users)
        if pair[0] is not None or pair[1] is not None:
            rows.append(_compare(name, pair, sides, (name_a, name_b), equal_variance))
            counts.append(pair)
    test = "student" if equal_variance else "welch"
    return Fidelity(name_a, name_b, test, users, tuple(rows), _same_order(rows), tuple(counts))


def _counts_of(side: UserCounts, interaction_type: str, users: Users) -> Counts | None:
    if interaction_type not in side.signals:
        return None
    counts = side.of(interaction_type)
    return counts[counts > 0] if users == "with_type" else counts


def _compare(
    interaction_type: str,
    pair: tuple[Counts | None, Counts | None],
    sides: tuple[UserCounts, UserCounts],
    names: tuple[str, str],
    equal_variance: bool,
) -> TypeComparison:
    t, df, p, note = None, None, None, ""
    a, b = pair
    if a is None or b is None:
        note = f"{names[0] if a is None else names[1]} has no such engagements"
    elif min(len(a), len(b)) < 2:
        note = f"{names[0] if len(a) < 2 else names[1]} has one user with such engagements; a test needs two"
    else:
        t, df, p = _t_test(a, b, equal_variance)
        if t is None:
            note = "all users of both have the same count; there is no variance to test against"
    return TypeComparison(
        interaction_type,
        n_users_a=0 if a is None else len(a),
        n_users_b=0 if b is None else len(b),
        mean_a=None if a is None else float(a.mean()),
        mean_b=None if b is None else float(b.mean()),
        share_a=float(sides[0].of(interaction_type).sum() / sides[0].counts.sum()),
        share_b=float(sides[1].of(interaction_type).sum() / sides[1].counts.sum()),
        t=t,
        df=df,
        p=p,
        note=note,
    )


def _t_test(a: Counts, b: Counts, equal_variance: bool) -> tuple[float | None, float | None, float | None]:
    from scipy import stats  # slow to import

    if a.var() == 0 and b.var() == 0:
        return None, None, None
    with warnings.catch_warnings():
        # One side alone may be constant, which scipy remarks upon and handles.
        warnings.simplefilter("ignore", RuntimeWarning)
        result = stats.ttest_ind(a.astype(float), b.astype(float), equal_var=equal_variance)
    return float(result.statistic), float(result.df), float(result.pvalue)


def _same_order(rows: Sequence[TypeComparison]) -> bool | None:
    both = [(row.mean_a, row.mean_b) for row in rows if row.mean_a is not None and row.mean_b is not None]
    if len(both) < 2:
        return None
    return bool(np.array_equal(np.argsort([a for a, _ in both]), np.argsort([b for _, b in both])))


def _grid(sides: Sequence[Counts]) -> npt.NDArray[np.float64]:
    top = max(float(np.quantile(counts, _GRID_QUANTILE)) for counts in sides)
    return np.linspace(0, max(top, 1.0), _GRID_POINTS).round(6)


def _density(counts: Counts | None, grid: npt.NDArray[np.float64]) -> npt.NDArray[np.float64] | None:
    """Estimate a density with a Gaussian kernel; None where there is no variance to choose a width from."""
    from scipy import stats

    if counts is None or len(counts) < 2 or counts.var() == 0:
        return None
    density: npt.NDArray[np.float64] = stats.gaussian_kde(counts.astype(float))(grid)
    return density


def _label(interaction_type: str) -> str:
    return interaction_type.replace("_", " ")
