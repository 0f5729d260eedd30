"""What a reader looks at: filters, order and columns as one value that stands in the address, and the rows it shows.

Ranks come with the rows. They were computed over everything scored under the same conditions, so a filter hides rows
and changes no rank.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import Any
from urllib.parse import urlencode

import pandas as pd

from .data import METRICS, Snapshot
from .text import MISSING, escape, number, percent, to_csv

__all__ = [
    "COLUMNS",
    "LAYOUTS",
    "ORIGINS",
    "PAGE_ROWS",
    "SIZES",
    "WEIGHTS",
    "View",
    "chosen_rows",
    "leaderboard",
    "view_csv",
]

TABS = ("leaderboard", "pictures", "model", "compare", "qrels", "submit", "about")
SIZES = {"": "any size", "small": "up to 10 B", "medium": "10 to 100 B", "large": "over 100 B", "unknown": "not known"}
WEIGHTS = {"": "any", "open": "open weights", "closed": "closed", "none": "no model (rules)", "unknown": "not known"}
ORIGINS = {
    "": "all",
    "measured": "measured",
    "self-judged": "self-judged",
    "re-judged": "re-judged",
    "published": "published",
}
LAYOUTS = {"rows": "one row per result", "matrix": "models × data sets"}
PAGE_ROWS = 50
MAX_TEXT = 120
TELLING = {
    "oracle": "oracle",
    "thresholds": "thresholds",
    "taxonomy_sha256": "taxonomy",
    "is_scope": "IS over",
    "users_sha256": "users",
    "profile": "profile",
}
"""What several results of a model and judge on one data set may differ in, and how the matrix calls it."""
DEFAULT_COLUMNS = ("ig_f1", "is", "hm", "coverage", "unusable", "judge", "size", "weights")


@dataclass(frozen=True)
class Column:
    """A column of the leaderboard."""

    heading: str
    sort: str
    """The column of the index that it is sorted by."""
    about: str


COLUMNS = {
    **{
        name: Column(heading, name, f"{heading}: median over users in %, with its 95 % interval")
        for name, heading in METRICS.items()
    },
    "recall_2": Column("Recall (2+)", "ig_recall_2", "Recall of categories that at least two models verified, in %"),
    "recall_3": Column("Recall (3+)", "ig_recall_3", "Recall of categories that at least three models verified, in %"),
    "coverage": Column("Coverage", "coverage", "Users that are scored, of those asked about"),
    "unusable": Column("Unusable", "unusable_share", "Largest share of a stage's answers that cannot be used, in %"),
    "truncated": Column("Truncated", "truncated_share", "Largest share of a stage's answers that were cut, in %"),
    "invalid": Column("Invalid", "invalid_share", "Largest share of a stage's answers that cannot be read, in %"),
    "interests": Column("Interests", "interests_per_user", "Interests that the model named for each user"),
    "verified": Column("Verified", "verified_share", "Interests that the history backs, in %"),
    "judge": Column("Judge", "judge", "Who judged, and its revision"),
    "oracle": Column("Oracle", "oracle", "Version of what there is to find, which recall is measured against"),
    "taxonomy": Column("Taxonomy", "taxonomy", "Categories that interests are mapped to, with their version"),
    "thresholds": Column("Thresholds", "thresholds", "How much evidence verifies an interest"),
    "size": Column("Size", "parameters_b", "Parameters in billions, and those at work on a token"),
    "weights": Column("Weights", "weights", "Open or closed"),
    "licence": Column("Licence", "licence", "Licence of the model"),
    "tokens": Column("Tokens out", "n_output_tokens", "Tokens of the model's answers"),
    "cost": Column("Cost", "cost_usd", "What the model's answers cost at list prices, in US dollars"),
    "history": Column("History", "history_length", "Newest engagements of each user that the model saw"),
}


@dataclass(frozen=True)
class View:
    """All that a reader has chosen."""

    tab: str = "leaderboard"
    q: str = ""
    data: str = ""
    judge: str = ""
    size: str = ""
    weights: str = ""
    origin: str = ""
    layout: str = "rows"
    metric: str = "hm"
    cols: tuple[str, ...] = DEFAULT_COLUMNS
    sort: str = "hm"
    up: bool = False
    page: int = 1
    picture: str = "scatter"
    model: str = ""
    user: str = ""
    a: str = ""
    b: str = ""

    @classmethod
    def of_query(cls, query: Mapping[str, str]) -> "View":
        """Read an address; what is unknown or does not fit is as if it were not there."""
        known: dict[str, Any] = {}
        for one in fields(cls):
            text = str(query.get(one.name, ""))[:MAX_TEXT]
            if not text:
                continue
            if one.name == "cols":
                known["cols"] = tuple(name for name in COLUMNS if name in text.split(".")) or DEFAULT_COLUMNS
            elif one.name == "page":
                known["page"] = int(text) if text.isascii() and text.isdigit() and 0 < int(text) < 10_000 else 1
            elif one.name == "up":
                known["up"] = text == "1"
            else:
                known[one.name] = text
        choices: dict[str, Any] = {"tab": TABS, "size": SIZES, "weights": WEIGHTS, "origin": ORIGINS}
        choices |= {"layout": LAYOUTS, "metric": METRICS, "sort": (*COLUMNS, "model", "dataset", "rank")}
        for name, allowed in choices.items():
            if known.get(name) not in (None, *allowed):
                del known[name]
        return cls(**known)

    @property
    def query(self) -> str:
        """The address's query: what differs from the beginning."""
        pairs = []
        for one in fields(self):
            value = getattr(self, one.name)
            if value != one.default:
                text = ".".join(value) if one.name == "cols" else "1" if value is True else str(value)
                pairs.append((one.name, text))
        return urlencode(pairs)

    def but(self, **changes: Any) -> "View":
        """Return this view with changes."""
        return replace(self, **changes)


def chosen_rows(snapshot: Snapshot, view: View) -> pd.DataFrame:
    """Return the rows that a view's filters leave, in its order."""
    return _chosen(snapshot, view.but(tab="", page=1, cols=(), layout="", picture="", model="", user="", a="", b=""))


@lru_cache(maxsize=256)
def _chosen(snapshot: Snapshot, view: View) -> pd.DataFrame:
    rows = snapshot.index
    words = view.q.casefold().split()
    kept = pd.Series([all(word in text for word in words) for text in snapshot.texts], index=rows.index, dtype=bool)
    for column, wanted in (("dataset", view.data), ("judge", view.judge), ("origin", view.origin)):
        if wanted:
            kept &= rows[column] == wanted
    if view.weights:
        kept &= rows["weights"].isna() if view.weights == "unknown" else rows["weights"] == view.weights
    if view.size:
        size = rows["parameters_b"]
        by_size = {"small": size <= 10, "medium": (size > 10) & (size <= 100), "large": size > 100}
        kept &= by_size.get(view.size, size.isna())
    key = COLUMNS[view.sort].sort if view.sort in COLUMNS else {"rank": "rank_hm"}.get(view.sort, view.sort)
    # Missing values last whichever way; among equals in the order of the index.
    return rows[kept].sort_values(key, ascending=view.up, na_position="last", kind="stable")


def view_csv(snapshot: Snapshot, view: View) -> str:
    """Return all rows of a view as csv, with every column of the index that is text or a number."""
    rows = chosen_rows(snapshot, view)
    names = [name for name in rows.columns if name not in ("failure_modes", "domains", "record", "id")]
    return to_csv(names, rows[names].itertuples(index=False, name=None))


@lru_cache(maxsize=512)
def leaderboard(snapshot: Snapshot, view: View) -> tuple[str, int, int]:
    """Return the leaderboard as HTML, the number of rows in all and of pages."""
    rows = chosen_rows(snapshot, view)
    if view.layout == "matrix":
        return _matrix(snapshot.rows(rows), view, snapshot.oracles)
    n_pages = max(1, -(-len(rows) // PAGE_ROWS))
    page = min(view.page, n_pages)
    shown = rows.iloc[(page - 1) * PAGE_ROWS : page * PAGE_ROWS]
    heads = [
        _head("rank", "Rank", "Rank by HM; equal letters: not told apart", view),
        _head("model", "Model", "", view),
    ]
    heads.append(_head("dataset", "Data", "Data set", view))
    heads += [_head(name, COLUMNS[name].heading, COLUMNS[name].about, view) for name in view.cols]
    body = []
    for row in snapshot.rows(shown):
        cells = [_rank_cell(row), _name_cell(row), f'<td class="name">{escape(row["dataset"])}</td>']
        cells += [_cell(name, row) for name in view.cols]
        kind = {"published": ' class="published"', "self-judged": ' class="selfjudged"'}.get(row["origin"], "")
        body.append(f"<tr{kind}>{''.join(cells)}</tr>")
    if not body:
        body = [f'<tr><td colspan="{len(heads)}">No row fits these filters.</td></tr>']
    caption = "Medians over users in per cent, with 95 % intervals. Ranks tie what the data cannot tell apart."
    html = (
        f'<div class="wide" tabindex="0" role="region" aria-label="Leaderboard"><table class="board"><caption>{caption}'
        f"</caption><thead><tr>{''.join(heads)}</tr></thead><tbody>{''.join(body)}</tbody></table></div>"
    )
    return html, len(rows), n_pages


def _head(name: str, heading: str, about: str, view: View) -> str:
    state = ("ascending" if view.up else "descending") if view.sort == name else "none"
    texts = ("model", "dataset", "judge", "oracle", "taxonomy", "thresholds", "weights", "licence")
    kind = "" if name in texts else ' class="n"'
    mark = {"ascending": " ▲", "descending": " ▼", "none": ""}[state]
    return (
        f'<th scope="col"{kind} aria-sort="{state}" title="{escape(about)}">'
        f'<button type="button" data-sort="{escape(name)}">{escape(heading)}<span aria-hidden="true">{mark}</span>'
        "</button></th>"
    )


def _rank_cell(row: Mapping[str, Any]) -> str:
    if _is_missing(row.get("rank_hm")):
        why = row.get("note") or row.get("not_ranked") or "alone under its conditions"
        return f'<td class="n" title="{escape(why)}">{MISSING}</td>'
    return (
        f'<td class="n" title="of {number(row["n_ranked_models"])} over {number(row["n_ranked_users"])} users">'
        f"{int(row['rank_hm'])} <small>{escape(row['group_hm'])}</small></td>"
    )


def _name_cell(row: Mapping[str, Any]) -> str:
    name = escape(row["model"])
    if row["origin"] == "published":
        return f'<th scope="row">{name} <span class="badge" title="{escape(row["note"])}">published</span></th>'
    badge = ""
    if row["origin"] == "self-judged":
        badge = ' <span class="badge self" title="judged by who submitted it; not re-judged yet">self-judged</span>'
    elif row["origin"] == "re-judged":
        badge = (
            ' <span class="badge" title="submitted, and judged again by who looks after the results">re-judged</span>'
        )
    if row["not_ranked"]:
        badge += f' <span class="badge warn" title="{escape(row["not_ranked"])}">not ranked</span>'
    revision = f"<small>@{escape(str(row['revision'])[:12])}</small>" if not _is_missing(row["revision"]) else ""
    return (
        f'<th scope="row"><button type="button" data-model="{escape(row["id"])}">{name}</button>{revision}{badge}</th>'
    )


def _cell(name: str, row: Mapping[str, Any]) -> str:
    if name in METRICS:
        return f'<td class="n">{_with_interval(row, name)}</td>'
    if name == "coverage":
        title = f"{number(row['n_users'])} of {number(row['n_requested'])} users"
        return f'<td class="n" title="{title}">{percent(row["coverage"], 0)}</td>'
    if name in ("unusable", "truncated", "invalid", "verified", "recall_2", "recall_3"):
        return f'<td class="n">{percent(row[COLUMNS[name].sort])}</td>'
    if name == "size":
        active = row["active_parameters_b"]
        more = "" if _is_missing(active) else f" <small>{active:g} active</small>"
        size = MISSING if _is_missing(row["parameters_b"]) else f"{row['parameters_b']:g}"
        return f'<td class="n">{size}{more}</td>'
    if name in ("tokens", "history"):
        value = row[COLUMNS[name].sort]
        return f'<td class="n">{"all" if name == "history" and _is_missing(value) else number(value)}</td>'
    if name in ("cost", "interests"):
        return f'<td class="n">{number(row[COLUMNS[name].sort], 2 if name == "cost" else 1)}</td>'
    value = row[COLUMNS[name].sort]
    text = MISSING if _is_missing(value) else str(value)
    if name == "judge":
        return f"<td>{_judge(text, row.get('judge_revision'))}</td>"
    if name == "taxonomy" and not _is_missing(row.get("taxonomy_sha256")):
        return f"<td>{escape(text)} <small>{escape(row['taxonomy_sha256'][:8])}</small></td>"
    return f"<td>{escape(text)}</td>"


def _with_interval(row: Mapping[str, Any], metric: str) -> str:
    low, high = row[f"{metric}_low"], row[f"{metric}_high"]
    interval = "" if _is_missing(low) else f" <small>{100 * low:.0f}–{100 * high:.0f}</small>"
    return f"{percent(row[metric])}{interval}"


def _judge(name: str, revision: Any) -> str:
    return escape(name) if _is_missing(revision) else f"{escape(name)} <small>@{escape(str(revision)[:8])}</small>"


def _matrix(rows: list[dict[str, Any]], view: View, oracles: Mapping[str, str]) -> tuple[str, int, int]:
    """Return one metric of models by data sets; rows in the order of their means over the data sets shown.

    Each data set has oracles of its own, so what else results differ in is told apart within a cell: the result under
    the oracle that submissions are scored against stands first, and counts for the order.
    """
    datasets = sorted({row["dataset"] for row in rows})
    by_model: dict[tuple[str, ...], dict[str, list[dict[str, Any]]]] = {}
    for row in sorted(rows, key=lambda row: (row["oracle"] != oracles.get(row["dataset"]), row["id"])):
        names = ("model", "revision", "judge", "judge_revision", "origin")
        key = tuple("" if _is_missing(row[name]) else str(row[name]) for name in names)
        by_model.setdefault(key, {}).setdefault(row["dataset"], []).append(row)

    def mean(found: Mapping[str, list[dict[str, Any]]]) -> tuple[int, float]:
        values = [some[0][view.metric] for some in found.values() if not _is_missing(some[0][view.metric])]
        return len(values), sum(values) / len(values) if values else 0.0

    order = sorted(by_model, key=lambda key: (-mean(by_model[key])[0], -mean(by_model[key])[1], key))
    n_pages = max(1, -(-len(order) // PAGE_ROWS))
    page = min(view.page, n_pages)
    body = []
    for key in order[(page - 1) * PAGE_ROWS : page * PAGE_ROWS]:
        found = by_model[key]
        cells = [_matrix_cell(found.get(dataset, []), view.metric) for dataset in datasets]
        kind = ' class="published"' if key[4] == "published" else ""
        judge = f"<td>{_judge(key[2], key[3])}</td>"
        first = next(found[dataset][0] for dataset in datasets if dataset in found)
        body.append(f"<tr{kind}>{_name_cell(first)}{judge}{''.join(cells)}</tr>")
    heads = "".join(f'<th scope="col">{escape(name)}</th>' for name in ("Model", "Judge", *datasets))
    if not body:
        body = ["<tr><td>No row fits these filters.</td></tr>"]
    caption = (
        f"{METRICS[view.metric]}: medians over users in per cent, with 95 % intervals and ranks where there are any."
    )
    html = (
        f'<div class="wide" tabindex="0" role="region" aria-label="Leaderboard"><table class="board"><caption>{caption}'
        f"</caption><thead><tr>{heads}</tr></thead><tbody>{''.join(body)}</tbody></table></div>"
    )
    return html, len(order), n_pages


def _matrix_cell(rows: list[dict[str, Any]], metric: str) -> str:
    """Return a model's results on a data set: one, or several with what they differ in."""
    differing = [name for name in TELLING if len({str(row.get(name)) for row in rows}) > 1]
    shown = []
    for row in rows:
        rank = (
            ""
            if _is_missing(row.get(f"rank_{metric}"))
            else f" <small>#{int(row[f'rank_{metric}'])}{escape(row[f'group_{metric}'])}</small>"
        )
        about = ", ".join(
            f"{TELLING[name]} {MISSING if _is_missing(row.get(name)) else str(row[name])[:16]}" for name in differing
        )
        shown.append(f"{_with_interval(row, metric)}{rank}" + f" <small>{escape(about)}</small>" * bool(about))
    return f'<td class="n">{"<br>".join(shown) or MISSING}</td>'


def _is_missing(value: Any) -> bool:
    return value is None or value != value or value == ""
