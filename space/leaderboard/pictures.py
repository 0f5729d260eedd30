"""Pictures of the rows that a view shows, as Plotly figures, each with the sentence that says what it shows."""

import json
from collections.abc import Callable
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from .data import METRICS
from .text import plain

__all__ = ["PICTURES", "distribution", "draw"]

Figure = Any
PALETTE = ("#2a6fbb", "#d1495b", "#2e933c", "#8e5572", "#c77d17", "#00798c", "#6b6b6b", "#5f0f40")
"""Told apart in light and dark, and by readers who do not see all colours: marks differ in shape too."""
SYMBOLS = ("circle", "square", "diamond", "cross", "triangle-up", "star", "x", "hexagon")
MAX_LABELS = 12
MAX_FOREST = 40
REASONS = {
    "no_relevant_items": "no relevant item",
    "insufficient_explicit_positive": "too few explicit positives",
    "insufficient_implicit_positive": "too few implicit positives",
    "excessive_negative": "too many negatives",
}


def draw(name: str, rows: pd.DataFrame, metric: str) -> tuple[Figure, str]:
    """Return a picture of rows, and its sentence.

    Args:
        name: one of :data:`PICTURES`.
        rows: of the index.
        metric: what the picture shows, where it shows one.
    """
    return PICTURES[name][1](rows, metric)


def _scatter(rows: pd.DataFrame, metric: str) -> tuple[Figure, str]:
    rows = rows.dropna(subset=["ig_precision", "ig_recall"])
    figure = _figure("Recall in %", "Precision in %")
    for f1 in (20, 40, 60, 80):
        least = 100 * f1 / (200 - f1)  # the recall that precision 100 goes with
        along = [least + (100 - least) * (step / 60) ** 2 for step in range(61)]
        points = [(x, f1 * x / (2 * x - f1)) for x in along]
        figure.add_trace(
            go.Scatter(
                x=[x for x, _ in points],
                y=[y for _, y in points],
                mode="lines",
                line={"dash": "dot", "width": 1, "color": "#888888"},
                hoverinfo="skip",
                showlegend=False,
            )
        )
        figure.add_annotation(
            x=100, y=points[-1][1], text=f"F1 {f1}", showarrow=False, xanchor="left", font={"size": 10}
        )
    for at, (dataset, some) in enumerate(rows.groupby("dataset")):
        figure.add_trace(
            go.Scatter(
                x=100 * some["ig_recall"],
                y=100 * some["ig_precision"],
                mode="markers+text" if len(rows) <= MAX_LABELS else "markers",
                text=_names(some),
                textposition="top center",
                name=plain(dataset),
                marker=_marker(at, some),
            )
        )
    figure.update_xaxes(range=[0, 108])
    figure.update_yaxes(range=[0, 104])
    return figure, (
        f"Each of {len(rows)} marks is a result. To the right a model finds more of what there is to find about its "
        "users; higher up more of what it says is backed. Results on one dotted line have the same F1 of these two "
        "medians; hollow marks are published numbers, obtained with other prompts."
    )


def _forest(rows: pd.DataFrame, metric: str) -> tuple[Figure, str]:
    rows = rows.dropna(subset=[metric]).sort_values(metric, ascending=False)
    n_all = len(rows)
    rows = rows.head(MAX_FOREST)[::-1]
    figure = _figure(f"{METRICS[metric]} in %", "")
    labels = [f"{model} · {data}" for model, data in zip(_names(rows), map(plain, rows["dataset"]), strict=True)]
    low = 100 * (rows[metric] - rows[f"{metric}_low"])
    high = 100 * (rows[f"{metric}_high"] - rows[metric])
    figure.add_trace(
        go.Scatter(
            x=100 * rows[metric],
            y=_distinct(labels),
            mode="markers",
            error_x={"type": "data", "symmetric": False, "array": high.fillna(0), "arrayminus": low.fillna(0)},
            marker=_marker(0, rows),
            showlegend=False,
        )
    )
    figure.update_layout(height=max(260, 26 * len(rows) + 120))
    figure.update_yaxes(automargin=True)
    cut = f" The best {MAX_FOREST} of {n_all} are shown." if n_all > MAX_FOREST else ""
    return figure, (
        f"Medians of {METRICS[metric]} over users with their 95 % intervals.{cut} Where intervals overlap widely, "
        "the order of two models says little; the ranks of the leaderboard test each pair over the same users."
    )


def _cost(rows: pd.DataFrame, metric: str) -> tuple[Figure, str]:
    rows = rows.dropna(subset=[metric])
    priced = rows.dropna(subset=["cost_usd"])
    priced = priced[(priced["cost_usd"] > 0) & (priced["n_requested"] > 0)]
    by_cost = not priced.empty
    if by_cost:
        rows, x, title = priced, priced["cost_usd"] / priced["n_requested"], "US dollars per user (list prices)"
    else:
        rows = rows[(rows["n_output_tokens"] > 0) & (rows["n_requested"] > 0)]
        x, title = rows["n_output_tokens"] / rows["n_requested"], "Tokens of answers per user"
    figure = _figure(title, f"{METRICS[metric]} in %")
    for at, (dataset, some) in enumerate(rows.groupby("dataset")):
        figure.add_trace(
            go.Scatter(
                x=x[some.index],
                y=100 * some[metric],
                mode="markers+text" if len(rows) <= MAX_LABELS else "markers",
                text=_names(some),
                textposition="top center",
                name=plain(dataset),
                marker=_marker(at, some),
            )
        )
    figure.update_xaxes(type="log")
    if rows.empty:
        return figure, "None of these results records tokens or has a known price, so there is no cost to show."
    what = "what its answers cost at list prices" if by_cost else "how much it writes, since no price is known"
    return (
        figure,
        f"Each mark is a model: the further to the left, the less it costs, by {what}; the axis is logarithmic.",
    )


def _failures(rows: pd.DataFrame, metric: str) -> tuple[Figure, str]:
    rows = rows[rows["failure_modes"].fillna("{}").ne("{}")].head(MAX_FOREST)
    figure = _figure("Share of unverified interests in %", "")
    shares = [json.loads(text) for text in rows["failure_modes"]]
    labels = _distinct([f"{m} · {d}" for m, d in zip(_names(rows), map(plain, rows["dataset"]), strict=True)])
    for at, (reason, words) in enumerate(REASONS.items()):
        values = [100 * share.get(reason, 0.0) for share in shares]
        figure.add_trace(go.Bar(x=values, y=labels, orientation="h", name=words, marker={"color": PALETTE[at]}))
    figure.update_layout(barmode="group", height=max(280, 48 * len(rows) + 140))
    figure.update_yaxes(automargin=True, autorange="reversed")
    if rows.empty:
        return figure, "None of these results has an interest that failed, or none says why."
    return figure, (
        "Why interests are not verified, as shares of those that are not. One interest can fail for several reasons, "
        "so the bars of a model add up to more than 100 %."
    )


def _domains(rows: pd.DataFrame, metric: str) -> tuple[Figure, str]:
    rows = rows[rows["domains"].fillna("{}").ne("{}")].head(MAX_FOREST)
    found = [json.loads(text) for text in rows["domains"]]
    names = sorted(set().union(*found)) if found else []
    value = "is" if metric == "is" else "verified"
    grid = [
        [None if (d := one.get(name)) is None or d[value] is None else 100 * d[value] for name in names]
        for one in found
    ]
    counts = [[one.get(name, {}).get("n", 0) for name in names] for one in found]
    labels = _distinct([f"{m} · {d}" for m, d in zip(_names(rows), map(plain, rows["dataset"]), strict=True)])
    figure = _figure("", "")
    figure.add_trace(
        go.Heatmap(
            z=grid,
            x=list(map(plain, names)),
            y=labels,
            customdata=counts,
            colorscale="Cividis",
            zmin=0,
            zmax=100,
            colorbar={"title": "%"},
            hovertemplate="%{y}<br>%{x}: %{z:.0f} %% of %{customdata} interests<extra></extra>",
        )
    )
    figure.update_layout(height=max(320, 28 * len(rows) + 260))
    figure.update_xaxes(tickangle=-45, automargin=True)
    figure.update_yaxes(automargin=True)
    if rows.empty:
        return figure, "None of these results was mapped to a taxonomy with domains."
    what = "the mean IS of its interests" if value == "is" else "the share of its interests that are verified"
    return (
        figure,
        f"For each model and domain of the taxonomy, {what}: bright is strong, an empty field was never named.",
    )


def _history(rows: pd.DataFrame, metric: str) -> tuple[Figure, str]:
    rows = rows.dropna(subset=[metric, "history_length"])
    figure = _figure("Newest engagements of each user that the model saw", f"{METRICS[metric]} in %")
    for at, ((model, dataset), some) in enumerate(rows.groupby(["model", "dataset"])):
        some = some.sort_values("history_length")
        figure.add_trace(
            go.Scatter(
                x=some["history_length"],
                y=100 * some[metric],
                mode="lines+markers",
                name=f"{plain(model)} · {plain(dataset)}",
                marker=_marker(at, some),
                line={"color": PALETTE[at % len(PALETTE)]},
            )
        )
    if rows.empty:
        return figure, "All of these results were obtained on whole histories; runs with --history-length appear here."
    return figure, "How a score changes with the length of the history that a model sees."


def _thresholds(rows: pd.DataFrame, metric: str) -> tuple[Figure, str]:
    columns = {"lenient": "verified_share_lenient", "base": "verified_share", "strict": "verified_share_strict"}
    rows = rows.dropna(subset=list(columns.values())).head(MAX_FOREST)
    figure = _figure("", "Verified interests in %")
    for at, (_, row) in enumerate(rows.iterrows()):
        figure.add_trace(
            go.Scatter(
                x=list(columns),
                y=[100 * row[column] for column in columns.values()],
                mode="lines+markers",
                name=f"{_names(rows.iloc[[at]])[0]} · {plain(row['dataset'])}",
                line={"color": PALETTE[at % len(PALETTE)]},
                marker={"symbol": SYMBOLS[at % len(SYMBOLS)], "size": 9},
            )
        )
    if rows.empty:
        return figure, "None of these results can be verified again under other thresholds."
    return figure, (
        "The share of interests that count as verified when less or more evidence is asked for. Lines that cross are "
        "models whose order depends on the setting."
    )


PICTURES: dict[str, tuple[str, Callable[[pd.DataFrame, str], tuple[Figure, str]]]] = {
    "scatter": ("Precision and recall", _scatter),
    "forest": ("Forest plot", _forest),
    "cost": ("Cost and score", _cost),
    "failures": ("Failure modes", _failures),
    "domains": ("Domains", _domains),
    "history": ("History length", _history),
    "thresholds": ("Threshold settings", _thresholds),
}


def distribution(scores: pd.DataFrame, metrics: tuple[str, ...] = ("ig_f1", "is", "hm")) -> Figure:
    """Return how a model's scores are spread over users."""
    figure = _figure("Score in %", "Users")
    for at, metric in enumerate(metrics):
        figure.add_trace(
            go.Histogram(
                x=(100 * scores[metric].dropna()).clip(upper=99.999),  # a full score belongs to the last bar
                name=METRICS[metric],
                xbins={"start": 0, "end": 100, "size": 5},
                marker={"color": PALETTE[at]},
                opacity=0.65,
            )
        )
    figure.update_layout(barmode="overlay", height=320)
    figure.update_xaxes(range=[0, 100])
    return figure


def _figure(x: str, y: str) -> Figure:
    grid = {"gridcolor": "rgba(128,128,128,.25)", "zerolinecolor": "rgba(128,128,128,.4)", "linecolor": "#999999"}
    # In one go, and with an empty template: ten times as fast as one property after the other.
    return go.Figure(
        layout={
            "template": {},
            "paper_bgcolor": "rgba(0,0,0,0)",
            "plot_bgcolor": "rgba(0,0,0,0)",
            "font": {"family": "system-ui, sans-serif", "color": "#7a7a7a", "size": 12},
            "margin": {"l": 60, "r": 40, "t": 56, "b": 60},
            "legend": {"orientation": "h", "y": 1.01, "yanchor": "bottom", "x": 0},
            "height": 460,
            "modebar": {"remove": ["sendDataToCloud", "lasso2d", "select2d"]},
            "xaxis": {"title": {"text": x}, **grid},
            "yaxis": {"title": {"text": y}, **grid},
        }
    )


def _names(rows: pd.DataFrame) -> list[str]:
    return [
        plain(name) + (" (published)" if origin == "published" else " (self-judged)" if origin == "self-judged" else "")
        for name, origin in zip(rows["model"], rows["origin"], strict=True)
    ]


def _distinct(labels: list[str]) -> list[str]:
    """Return labels of which no two are the same: rows of one name must not fall on one line."""
    seen: dict[str, int] = {}
    found = []
    for label in labels:
        seen[label] = seen.get(label, 0) + 1
        found.append(label if seen[label] == 1 else f"{label} ({seen[label]})")
    return found


def _marker(at: int, rows: pd.DataFrame) -> dict[str, Any]:
    symbol = SYMBOLS[at % len(SYMBOLS)]
    symbols = [symbol + ("-open" if origin == "published" else "") for origin in rows["origin"]]
    return {"color": PALETTE[at % len(PALETTE)], "symbol": symbols, "size": 10}
