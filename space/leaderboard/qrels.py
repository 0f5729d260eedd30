"""Qrels expansion: what the tables of an expansion say of systems under human, synthetic and augmented judgements.

It reads csv tables as it finds them: ranks by condition become a bump chart, popularity beside effectiveness a scatter.
"""

from functools import lru_cache
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from .data import Snapshot, SourceError
from .pictures import PALETTE, SYMBOLS, _figure
from .text import escape, plain, table

__all__ = ["expansions", "qrels_page", "qrels_pictures"]

MAX_BYTES = 5_000_000
MAX_ROWS = 80
CONDITIONS = ("human", "synthetic", "augmented", "matched")
HOW = (
    "<p>There is no qrels expansion among these results. <code>gistbench qrels</code> makes one: split, recommend, "
    "sample, pool, then profiles and judgements. Its tables are shown here with "
    "<code>gistbench space RUNS --qrels TABLES</code>, or published with "
    "<code>gistbench hub push-results --qrels TABLES</code>.</p>"
)
PUBLISHED = {
    "Table 4": "Experiment 1, MovieLens",
    "Table 7": "Experiment 1, Goodbooks",
    "Table 5": "Experiment 2",
    "Table 6": "Experiment 3, delta tau on MovieLens",
    "Table 8": "Experiment 4, delta tau on Goodbooks",
}


def expansions(snapshot: Snapshot) -> list[str]:
    """Return the names of the expansions among the results."""
    return sorted({place.split("/")[1] for place in snapshot.qrels_places})


@lru_cache(maxsize=32)
def _tables(snapshot: Snapshot, name: str) -> dict[str, pd.DataFrame]:
    found = {}
    for place in snapshot.qrels_places:
        if place.split("/")[1] == name:
            path = snapshot.source.fetch(place, snapshot.revision)
            if path.stat().st_size <= MAX_BYTES:
                found[path.stem] = pd.read_csv(path)
    return found


def qrels_page(snapshot: Snapshot, name: str | None) -> str:
    """Return the tables of an expansion as HTML, with the published ones beneath."""
    parts = [HOW] if not name else []
    if name:
        try:
            for title, frame in _tables(snapshot, name).items():
                if len(frame) <= MAX_ROWS:
                    parts.append(table(title.replace("_", " "), list(map(str, frame.columns)), _rows(frame)))
        except (SourceError, ValueError, OSError) as error:
            parts.append(f"<p>{escape(error)}</p>")
    paper = snapshot.published[snapshot.published["paper"] == "preference-induction"]
    for number, title in PUBLISHED.items():
        some = paper[paper["table"] == number]
        if not some.empty:
            wide = some.pivot_table(index="row", columns="column", values="printed", aggfunc="first", sort=False)
            head = ["Mode", *map(str, wide.columns)]
            rows = [[index, *values] for index, *values in wide.itertuples()]
            parts.append(table(f"Published, {number}: {title}; other prompts, not comparable to the digit", head, rows))
    return "".join(parts)


def qrels_pictures(snapshot: Snapshot, name: str | None) -> tuple[Any, str, Any, str]:
    """Return a bump chart and a popularity scatter with their sentences; None where the tables lack them."""
    bump = scatter = None
    about_bump = about_scatter = ""
    try:
        tables = _tables(snapshot, name) if name else {}
    except (SourceError, ValueError, OSError):
        tables = {}
    for frame in tables.values():
        if bump is None and {"condition", "system", "rank"} <= set(frame.columns):
            some, about_bump = _first_setting(frame)
            bump = _bump(some)
            about_bump += (
                "Each line is a system; lines that cross are systems that change places when judgements are added."
            )
        if scatter is None and {"condition", "system", "arp", "ndcg"} <= set(frame.columns):
            some, about_scatter = _first_setting(frame)
            scatter = _scatter(some)
            about_scatter += (
                "Where marks rise to the right, systems that recommend popular items are found to be better."
            )
    return bump, about_bump, scatter, about_scatter


def _first_setting(frame: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    """Return the rows of the first judge, ranking and mode, since one picture shows one of them; and which they are."""
    firsts = []
    for name in ("judge", "ranking", "mode", "plot"):
        if name in frame and len(frame):
            firsts.append(str(frame[name].iloc[0]))
            frame = frame[frame[name].astype(str) == firsts[-1]]
    return frame, f"{', '.join(firsts)}. " if firsts else ""


def _bump(frame: pd.DataFrame) -> Any:
    figure = _figure("", "Place by NDCG (1 is best)")
    order = [one for one in CONDITIONS if one in set(frame["condition"])]
    for at, (system, some) in enumerate(frame.groupby("system")):
        ranks = dict(zip(some["condition"], some["rank"], strict=False))
        figure.add_trace(
            go.Scatter(
                x=order,
                y=[ranks.get(one) for one in order],
                mode="lines+markers",
                name=plain(system),
                line={"color": PALETTE[at % len(PALETTE)]},
                marker={"symbol": SYMBOLS[at % len(SYMBOLS)], "size": 9},
            )
        )
    figure.update_yaxes(autorange="reversed")
    return figure


def _scatter(frame: pd.DataFrame) -> Any:
    figure = _figure("Mean popularity of what is recommended (ARP)", "NDCG")
    for at, condition in enumerate(one for one in CONDITIONS if one in set(frame["condition"])):
        some = frame[frame["condition"] == condition]
        figure.add_trace(
            go.Scatter(
                x=some["arp"],
                y=some["ndcg"],
                mode="markers",
                text=list(map(plain, some["system"])),
                name=condition,
                marker={"color": PALETTE[at], "symbol": SYMBOLS[at], "size": 9},
            )
        )
    return figure


def _rows(frame: pd.DataFrame) -> list[list[Any]]:
    return [
        [None if v != v else f"{v:.4g}" if isinstance(v, float) else str(v)[:200] for v in row]
        for row in frame.itertuples(index=False)
    ]
