"""The page of one model, the browser of its evidence, and two models side by side."""

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import pandas as pd

from .data import METRICS, NotInResultsError, Snapshot, SourceError, records
from .metrics import MetricsError, paired
from .pictures import REASONS
from .text import MISSING, escape, number, percent, table

__all__ = ["compared", "evidence", "model_choices", "model_page", "user_choices"]

MAX_ITEM_CHARS = 240
TYPES = {
    "explicit_positive": "e+",
    "implicit_positive": "i+",
    "implicit_negative": "i−",
    "explicit_negative": "e−",
}
SETTINGS = (
    "dataset",
    "candidates",
    "judge",
    "chunk_size",
    "history_length",
    "pool_size",
    "seed",
    "thresholds",
    "is_scope",
)


@lru_cache(maxsize=2)
def model_choices(snapshot: Snapshot) -> list[tuple[str, str]]:
    """Return what can be picked: label and id of each row that has records."""
    rows = snapshot.measured.sort_values(["model", "dataset", "id"])
    return [
        (f"{row['model']}@{str(row['revision'])[:12]} · {row['dataset']} · judged by {row['judge']}", row["id"])
        for row in snapshot.rows(rows)
    ]


def model_page(snapshot: Snapshot, id: str) -> str:
    """Return the page of a row's model as HTML; where its record is away, what the index says."""
    row = snapshot.row(id)
    if row is None or row["origin"] == "published":
        return "<p>Pick a model above, or press its name on the leaderboard.</p>"
    try:
        return _page_of_record(snapshot, id)
    except SourceError as error:  # not kept: it may be there the next time
        return "".join(_page_of_index(snapshot, row)) + f"<p>{escape(error)}</p>"


@lru_cache(maxsize=256)
def _page_of_record(snapshot: Snapshot, id: str) -> str:
    row = snapshot.row(id)
    assert row is not None
    manifest = snapshot.manifest(row)
    parts = _page_of_index(snapshot, row)
    parts.insert(2, _rejudged(_mapping(manifest.get("rejudged"))))
    return "".join([*parts, _reproduction(row, manifest)])


def _page_of_index(snapshot: Snapshot, row: Mapping[str, Any]) -> list[str]:
    same = (snapshot.measured["model"] == row["model"]) & (snapshot.measured["revision"] == row["revision"])
    rows = snapshot.measured[same].sort_values(["dataset", "judge"])
    parts = [f"<h2>{escape(row['model'])} <small>@{escape(str(row['revision'])[:12])}</small></h2>", _badges(row)]
    parts.append(
        table(
            "Scores: medians over users in per cent, with 95 % intervals",
            ["Data set", "Judge", *METRICS.values(), "Coverage", "Unusable", "Rank by HM"],
            [
                [
                    one["dataset"],
                    f"{one['judge']}@{str(one['judge_revision'])[:8]}",
                    *(_with_interval(one, metric) for metric in METRICS),
                    percent(one["coverage"], 0),
                    percent(one["unusable_share"]),
                    _rank(one),
                ]
                for one in snapshot.rows(rows)
            ],
        )
    )
    return [*parts, _strengths(row), _failures(row)]


def _badges(row: Mapping[str, Any]) -> str:
    size = MISSING if row["parameters_b"] is None else f"{row['parameters_b']:g} B parameters"
    about = [size, f"{row['weights']} weights" if row["weights"] else "weights: not known"]
    about.append(row["licence"] or "licence: not known")
    if row["weights"] == "none":
        about = ["no model: rules that need none"]
    parts = [f"<p>{' · '.join(map(escape, about))}</p>"]
    if row["origin"] == "self-judged":
        parts.append(
            '<p><span class="badge self">self-judged</span> The scores were computed anew from the records, but the '
            "judge's answers came with them. The badge goes when a maintainer has judged the same interests again.</p>"
        )
    if row["not_ranked"]:
        parts.append(f'<p><span class="badge warn">not ranked</span> {escape(row["not_ranked"])}</p>')
    return "".join(parts)


def _rejudged(found: Mapping[str, Any]) -> str:
    """Say what became of a submission whose interests were judged again; empty for other rows."""
    if not found:
        return ""
    scores = _mapping(found.get("scores"))
    shares = {str(one.get("what")): one for one in map(_mapping, found.get("agreement") or ())}
    same = ", ".join(
        f"{percent(shares[what].get('agreement_share'), 0)} % of {number(shares[what].get('n_items'))} {words}"
        for what, words in (("verdict", "verdicts"), ("picks", "picks"))
        if what in shares
    )
    before = ", ".join(f"{heading} {percent(scores.get(name))}" for name, heading in METRICS.items())
    return (
        '<p><span class="badge">re-judged</span> The interests were submitted; who looks after the results judged them '
        f"again. As submitted (judge {escape(found.get('judge'))}): {before}. The same in both: {same}.</p>"
    )


def _with_interval(row: Mapping[str, Any], metric: str) -> str:
    low, high = row[f"{metric}_low"], row[f"{metric}_high"]
    interval = "" if low is None or low != low else f" ({100 * low:.0f}–{100 * high:.0f})"
    return f"{percent(row[metric])}{interval}"


def _rank(row: Mapping[str, Any]) -> str:
    rank = row["rank_hm"]
    if rank is None or rank != rank:
        return MISSING
    return f"{int(rank)} {row['group_hm']} of {int(row['n_ranked_models'])}"


def _strengths(row: Mapping[str, Any]) -> str:
    domains = json.loads(row["domains"] or "{}")
    if not domains:
        return ""
    rows = [
        [name, one["n"], percent(one["verified"], 0), percent(one["is"], 0)]
        for name, one in sorted(domains.items(), key=lambda pair: (-pair[1]["n"], pair[0]))
    ]
    return table(
        f"Strengths by domain on {row['dataset']}: the domains with most interests first",
        ["Domain", "Interests", "Verified %", "IS %"],
        rows,
    )


def _failures(row: Mapping[str, Any]) -> str:
    shares = json.loads(row["failure_modes"] or "{}")
    if not shares:
        return f"<p>Every interest on {escape(row['dataset'])} is verified.</p>"
    rows = [[REASONS.get(name, name), percent(share)] for name, share in sorted(shares.items(), key=lambda p: -p[1])]
    return table(
        "Why interests are not verified; one can fail for several reasons", ["Reason", "% of unverified"], rows
    )


def _reproduction(row: Mapping[str, Any], manifest: Mapping[str, Any]) -> str:
    """Return what is needed to make the run again."""
    config = _mapping(manifest.get("config"))
    candidate, phases = _mapping(manifest.get("candidate")), _mapping(manifest.get("phases"))
    judge = _mapping(_mapping(phases.get("judge")).get("model"))
    command = [
        "gistbench run --output runs/again",
        f"--dataset {config.get('dataset') or row['dataset']}",
        f"--candidate {candidate.get('name')}",
        f"--judge {judge.get('name')}",
    ]
    for key in ("seed", "pool_size", "chunk_size", "history_length", "thresholds", "is_scope"):
        if config.get(key) is not None and not isinstance(config[key], (dict, list)):
            command.append(f"--{key.replace('_', '-')} {config[key]}")
    lines: list[list[Any]] = [
        ["command", " ".join(command)],
        ["candidate", f"{candidate.get('name')}@{candidate.get('revision')}, profile {candidate.get('profile')}"],
        ["judge", f"{judge.get('name')}@{judge.get('revision')}, profile {judge.get('profile')}"],
    ]
    data = _mapping(manifest.get("data"))
    lines.append(["data", f"{data.get('dataset')} {data.get('builder_version') or ''} sha256 {data.get('sha256')}"])
    lines.append(["oracle", f"{row['oracle']}, made of {number(row['n_oracle_models'])} models"])
    for phase in ("extract", "judge"):
        about = _mapping(phases.get(phase))
        for stage, prompt in _mapping(about.get("prompts")).items():
            found = _mapping(prompt)
            lines.append([f"prompt {stage}", f"version {found.get('version')}, sha256 {found.get('sha256')}"])
        versions = ", ".join(f"{name} {version}" for name, version in _mapping(about.get("versions")).items())
        lines.append([f"versions ({phase})", versions])
    sampling = _mapping(_mapping(phases.get("extract")).get("model")).get("sampling")
    lines.append(["sampling", json.dumps(sampling)])
    return table("How to make it again", ["What", "Value"], [[name, str(value)[:600]] for name, value in lines])


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


# --- evidence -------------------------------------------------------------------------------------------------------


def user_choices(snapshot: Snapshot, id: str) -> list[str]:
    """Return the users of a row, in order; none where there are no records."""
    row = snapshot.row(id)
    if row is None or row["origin"] == "published":
        return []
    try:
        return sorted(snapshot.record(row, "interests")["user_id"].unique())
    except SourceError:
        return []


def evidence(snapshot: Snapshot, id: str, user: str) -> str:
    """Return what a model said about a user, what it rests on, and what the judge made of it, as HTML."""
    if snapshot.row(id) is None or not user:
        return "<p>Pick a user to see the interests, their items and the judge's answers.</p>"
    try:
        return _evidence(snapshot, id, user)
    except NotInResultsError:
        return "<p>The licence of this data set does not let us show its items; scores only.</p>"
    except SourceError as error:
        return f"<p>The records cannot be had at the moment. {escape(error)}</p>"


@lru_cache(maxsize=256)
def _evidence(snapshot: Snapshot, id: str, user: str) -> str:
    row = snapshot.row(id)
    assert row is not None
    tables = {name: snapshot.record(row, name) for name in ("interests", "extractions", "groundings", "retrievals")}
    engagements = snapshot.record(row, "evidence")
    texts = dict(zip(engagements["object_id"], engagements["object_text"], strict=True))
    own = engagements[engagements["user_id"] == user]
    kinds: dict[str, list[str]] = {}
    for item, kind in zip(own["object_id"], own["interaction_type"], strict=True):
        kinds.setdefault(item, []).append(TYPES.get(kind, "?"))
    by_interest = {
        name: {one["interest"]: one for one in records(frame[frame["user_id"] == user])}
        for name, frame in tables.items()
    }
    parts = []
    for interest, verdict in by_interest["interests"].items():
        cited = _list(by_interest["extractions"].get(interest, {}).get("item_ids"))
        relevant = set(_list(by_interest["groundings"].get(interest, {}).get("relevant_item_ids")))
        category = snapshot.categories.get((row["taxonomy_sha256"], _whole(verdict["category_id"])))
        parts.append(_interest(interest, verdict, category, cited, relevant, texts, kinds))
        parts.append(_test_set(by_interest["retrievals"].get(interest, {}), texts))
        parts.append("</details>")
    return "".join(parts) or f"<p>The model named no interest of {escape(user)} that was judged.</p>"


def _interest(
    interest: str,
    verdict: Mapping[str, Any],
    category: str | None,
    cited: list[str],
    relevant: set[str],
    texts: Mapping[str, str],
    kinds: Mapping[str, list[str]],
) -> str:
    counts = ", ".join(f"{number(verdict[f'n_{kind}'])} {short}" for kind, short in TYPES.items())
    why = ", ".join(REASONS.get(reason, reason) for reason in _list(verdict["failure_reasons"]))
    state = "verified" if verdict["verified"] else f"not verified: {why}"
    mark = (
        '<span class="yes" aria-hidden="true">✓</span>'
        if verdict["verified"]
        else '<span class="no" aria-hidden="true">✗</span>'
    )
    number_of_category = _whole(verdict["category_id"])
    # Without a taxonomy, each interest is its own category.
    unnamed = "its own category" if number_of_category < 0 else f"category {number_of_category}"
    named = escape(category) if category else unnamed
    items = "".join(
        f'<li class="{"kept" if item in relevant else "dropped"}">{_item(item, texts)} '
        f"<small>{escape(' '.join(kinds.get(item, ['not in the history'])))}, "
        f"{'relevant' if item in relevant else 'not relevant'}</small></li>"
        for item in cited
    )
    return (
        f"<details><summary>{mark} <b>{escape(interest)}</b> <small>{named} · {escape(state)} · relevant items: "
        f"{escape(counts)} · IS {percent(verdict['specificity'], 0)} %</small></summary>"
        f"<h4>Cited items ({len(cited)}), relevant ones as the judge kept them</h4><ul>{items}</ul>"
    )


def _test_set(retrieval: Mapping[str, Any], texts: Mapping[str, str]) -> str:
    shown = _list(retrieval.get("shown_item_ids"))
    if not shown:
        return f"<p>No test set was judged ({escape(retrieval.get('status', 'no record'))}).</p>"
    backing, picked = set(_list(retrieval.get("backing_item_ids"))), set(_list(retrieval.get("selected_item_ids")))
    order = sorted(shown, key=lambda item: (item not in picked, item not in backing))
    items = []
    for item in order:
        state = {(True, True): "backing, picked", (True, False): "backing, missed", (False, True): "distractor, picked"}
        words = state.get((item in backing, item in picked), "distractor")
        kind = "kept" if item in backing and item in picked else "wrong" if words != "distractor" else "dropped"
        items.append(f'<li class="{kind}">{_item(item, texts)} <small>{words}</small></li>')
    return (
        f"<h4>IS test set: {len(backing)} backing items among {len(shown)}; the judge picked {len(picked)}</h4>"
        f"<ul>{''.join(items)}</ul>"
    )


def _item(item: str, texts: Mapping[str, str]) -> str:
    text = texts.get(item)
    name = f"<code>{escape(item[:60])}</code>"
    return name if text is None else f"{name} {escape(text[:MAX_ITEM_CHARS])}"


def _list(value: Any) -> list[str]:
    return [] if value is None or isinstance(value, float) else [str(one) for one in value]


def _whole(value: Any) -> int:
    return -1 if pd.isna(value) else int(value)


# --- two models -----------------------------------------------------------------------------------------------------


def compared(snapshot: Snapshot, a: str, b: str) -> str:
    """Return two rows side by side: paired differences with intervals, and where they differ most."""
    if any(row is None or row["origin"] == "published" for row in map(snapshot.row, (a, b))):
        return "<p>Pick two measured results. Published numbers have no per-user scores to compare.</p>"
    try:
        return _compared(snapshot, a, b)
    except (SourceError, MetricsError) as error:  # not kept: they may be there the next time
        return f"<p>{escape(error)}</p>"


@lru_cache(maxsize=256)
def _compared(snapshot: Snapshot, a: str, b: str) -> str:
    one, two = snapshot.row(a), snapshot.row(b)
    assert one is not None
    assert two is not None
    frames = [snapshot.record(row, "scores") for row in (one, two)]
    notes = [
        f"They differ in {what}: {escape(one[key])} and {escape(two[key])}."
        for key, what in (("dataset", "data set"), ("users_sha256", "users"), ("judge", "judge"), ("oracle", "oracle"))
        if one[key] != two[key]
    ]
    if one["dataset"] != two["dataset"] or one["users_sha256"] != two["users_sha256"]:
        return f"<p>These results are of different users, so no difference can be paired. {' '.join(notes)}</p>"
    lines: list[list[Any]] = []
    for metric, heading in METRICS.items():
        scores = [_by_user(frame, metric) for frame in frames]
        found = paired(*scores)
        lines.append(
            [
                heading,
                percent(found["median_a"]),
                percent(found["median_b"]),
                _signed(found["difference_of_means"]),
                _interval(found["ci_difference_of_means"]),
                f"{found['n_a_better']} / {found['n_b_better']} / {found['n_equal']}",
                f"{found['p_value']:.3g}",
                found["n_users"],
            ]
        )
    names = [f"A: {one['model']}", f"B: {two['model']}"]
    if one["model"] == two["model"]:
        names = [f"{name} ({row['judge']}, {row['revision']})" for name, row in zip(names, (one, two), strict=True)]
    head = [
        "Metric",
        "Median A",
        "Median B",
        "A − B, mean",
        "95 % interval",
        "A better / B better / equal",
        "p",
        "Users",
    ]
    parts = [
        f"<p>{escape(names[0])}<br>{escape(names[1])}</p>",
        "".join(f'<p><span class="badge warn">careful</span> {note}</p>' for note in notes),
        table("Differences over the same users, in percentage points (paired bootstrap, Wilcoxon)", head, lines),
        "<p>Where the interval holds 0, these users do not tell the two apart.</p>",
        _where(one, two),
        _who(frames),
    ]
    return "".join(parts)


def _by_user(frame: pd.DataFrame, metric: str) -> dict[str, float | None]:
    return {u: None if v != v else float(v) for u, v in zip(frame["user_id"], frame[metric].astype(float), strict=True)}


def _signed(value: float | None) -> str:
    return MISSING if value is None else f"{100 * value:+.1f}"


def _interval(ends: list[float] | None) -> str:
    return MISSING if not ends else f"{100 * ends[0]:+.1f} to {100 * ends[1]:+.1f}"


def _where(one: Mapping[str, Any], two: Mapping[str, Any]) -> str:
    domains = [json.loads(row["domains"] or "{}") for row in (one, two)]
    rows = []
    for name in domains[0].keys() & domains[1].keys():
        first, second = domains[0][name], domains[1][name]
        if first["verified"] != second["verified"]:
            rows.append((abs(first["verified"] - second["verified"]), name, first, second))
    if not rows:
        return "<p>In no domain that both name do their shares of verified interests differ.</p>"
    rows.sort(key=lambda row: (-row[0], row[1]))
    return table(
        "Where they differ: verified interests by domain in per cent, the largest differences first",
        ["Domain", "A", "B", "Interests A", "Interests B"],
        [[n, percent(f["verified"], 0), percent(s["verified"], 0), f["n"], s["n"]] for _, n, f, s in rows[:12]],
    )


def _who(frames: list[pd.DataFrame]) -> str:
    both = frames[0].set_index("user_id")["hm"].to_frame("a").join(frames[1].set_index("user_id")["hm"].rename("b"))
    both = both.dropna()
    if both.empty:
        return ""
    order = (both["a"] - both["b"]).sort_values(kind="stable")
    users = list(dict.fromkeys([*order.index[::-1][:5], *order.index[:5]]))
    return table(
        "Users on whom they differ most (HM in per cent)",
        ["User", "A", "B", "A − B"],
        [[u, percent(both["a"][u]), percent(both["b"][u]), _signed(both["a"][u] - both["b"][u])] for u in users],
    )
