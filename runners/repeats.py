"""Repeats: the same run several times over, to see how far answers and scores move by themselves.

Every repeat asks everything anew, with seeds of its own; all share one response store. Agreement is taken over pairs of
repeats, on what both were asked: answers to questions that only one of them came to ask say nothing.
"""

from collections.abc import Callable, Sequence
from itertools import combinations
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import pandas as pd
from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

from ..hf_datasets.errors import ConfigError
from .config import RunConfig
from .runfolder import RunFolder, write_json
from .score import METRICS
from .store import STORE_NAME
from .suite import Suite
from .suitefolder import run_folders

__all__ = ["agreement", "repeats_table", "run_repeats"]


def run_repeats(path: Path, config: RunConfig, n: int, **options: Any) -> list[dict[str, Any]]:
    """Run a suite `n` times, each in a folder of its own under `path`, and write ``repeats.json``.

    Args:
        path: of all repeats; ``repeat-0`` and so on are suite folders.
        config: of each; a temperature of 0 makes engines that compute exactly repeat themselves.
        n: how often, at least twice.
        options: of `Suite`.

    Returns:
        For each candidate its name, scores over repeats (mean, standard deviation, least, most) and agreement by stage.

    Raises:
        ConfigError: fewer than two repeats, or repeats that would end before the scores.
    """
    if options.get("until") is not None:
        raise ConfigError("Repeats compare scores, so each is a whole run: leave --stage out.")
    if n < 2:
        raise ConfigError(f"{n} repeats cannot be compared. Ask for 2 or more.")
    store = options.pop("store", None) or path / STORE_NAME
    folders = [path / f"repeat-{number}" for number in range(n)]
    for number, folder in enumerate(folders):
        Suite(folder, config.model_copy(update={"repeat": number}), store=store, **options).run()
    by_candidate = zip(*map(run_folders, folders), strict=True)
    rows = [_spread(runs) | {"agreement": agreement(runs)} for runs in by_candidate]
    write_json(path / "repeats.json", {"n_repeats": n, "candidates": rows})
    return rows


def _spread(runs: Sequence[RunFolder]) -> dict[str, Any]:
    """Return the scores of one candidate over repeats."""
    manifests = [run.manifest for run in runs]
    scores: dict[str, Any] = {}
    for metric in METRICS:
        values = [manifest["phases"]["score"][metric] for manifest in manifests]
        known = [value for value in values if value is not None]
        scores[metric] = {
            "values": values,
            "mean": mean(known) if known else None,
            "sd": stdev(known) if len(known) > 1 else None,
            "min": min(known, default=None),
            "max": max(known, default=None),
        }
    return {"candidate": manifests[0]["candidate"]["name"], "scores": scores}


def agreement(runs: Sequence[RunFolder]) -> dict[str, dict[str, float | int | None]]:
    """Return how far the answers of several repeats of one candidate agree, by stage.

    For each stage ``n`` counts compared answers over all pairs of repeats, ``equal`` is the share of equal ones, and
    ``jaccard`` the mean overlap of the sets that they name (1 where both are empty). None where nothing compares.
    """
    found: dict[str, dict[str, float | int | None]] = {}
    for stage, read in _READERS.items():
        tables = [read(run) for run in runs if (run.path / f"{_TABLES[stage]}.parquet").exists()]
        pairs = [pd.concat(pair, axis=1, join="inner").dropna() for pair in combinations(tables, 2)]
        both = [row for pair in pairs for row in pair.itertuples(index=False, name=None)]
        overlaps = [len(a & b) / len(a | b) if a | b else 1.0 for a, b in both]
        found[stage] = {
            "n": len(both),
            "equal": mean(a == b for a, b in both) if both else None,
            "jaccard": mean(overlaps) if overlaps else None,
        }
    return found


def _extracted(run: RunFolder) -> "pd.Series[Any]":
    """Return the names of each scored user's interests."""
    users = [user for user, scored in _columns(run, "users", "user_id", "scored") if scored]
    named: dict[str, set[str]] = {user: set() for user in users}
    for user, interest in _columns(run, "extractions", "user_id", "interest"):
        named[user].add(interest.casefold())
    return _series(named)


def _grounded(run: RunFolder) -> "pd.Series[Any]":
    columns = _columns(run, "groundings", "user_id", "interest", "shown_item_ids", "relevant_item_ids")
    return _series({(u, i, *sorted(shown)): set(kept) for u, i, shown, kept in columns if kept is not None and shown})


def _shortlisted(run: RunFolder) -> "pd.Series[Any]":
    columns = _columns(run, "shortlists", "user_id", "object_ids", "n_unanswered")
    return _series({user: set(ids) for user, ids, n_unanswered in columns if not n_unanswered})


def _retrieved(run: RunFolder) -> "pd.Series[Any]":
    columns = _columns(run, "retrievals", "user_id", "interest", "shown_item_ids", "selected_item_ids")
    return _series({(u, i, *shown): set(picked) for u, i, shown, picked in columns if picked is not None})


def _mapped(run: RunFolder) -> "pd.Series[Any]":
    return _series({name: {c} for name, c in _columns(run, "mappings", "interest", "category_id") if c is not None})


_READERS: dict[str, Callable[[RunFolder], "pd.Series[Any]"]] = {
    "extract": _extracted,
    "ground": _grounded,
    "shortlist": _shortlisted,
    "retrieve": _retrieved,
    "map": _mapped,
}
_TABLES = {
    "extract": "extractions",
    "ground": "groundings",
    "shortlist": "shortlists",
    "retrieve": "retrievals",
    "map": "mappings",
}


def _columns(run: RunFolder, table: str, *names: str) -> list[tuple[Any, ...]]:
    read = run.read(table)
    return list(zip(*(read[name].to_pylist() for name in names), strict=True))


def _series(values: dict[Any, set[Any]]) -> "pd.Series[Any]":
    """Return sets by what was asked; tuples stay single keys."""
    return pd.Series(list(values.values()), index=[repr(key) for key in values], dtype=object)


def repeats_table(rows: Sequence[dict[str, Any]]) -> Table:
    """Return scores and agreement over repeats as a table for the terminal, in per cent."""
    table = Table(title="Over repeats: mean ± standard deviation, and equal answers by stage, in %", box=SIMPLE_HEAD)
    table.add_column("Candidate", overflow="fold")
    for name in (*METRICS, *_READERS):
        table.add_column(name.replace("_", " "), justify="right", no_wrap=True)
    for row in rows:
        cells = []
        for metric in METRICS:
            value = row["scores"][metric]
            known = value["mean"] is not None
            cells.append(f"{100 * value['mean']:.1f} ± {100 * (value['sd'] or 0):.1f}" if known else "-")
        for stage in _READERS:
            equal = row["agreement"][stage]["equal"]
            cells.append("-" if equal is None else f"{100 * equal:.0f}")
        table.add_row(escape(row["candidate"]), *cells)
    return table
