"""Beyond the paper: what changed between two runs of a candidate, and how much of a score's change each part explains.

Every part that differs (interests, judgements, mapping, retrievals, thresholds, oracle) is swapped from one run's to
the other's, and the records are scored once more. Parts interact, so each is credited with its mean effect over all
orders in which parts can be swapped (Shapley values), which add up to the whole change.
"""

from itertools import combinations, permutations
from math import factorial
from typing import Any

import pandas as pd

from ...hf_datasets.errors import StoreError
from ..score import METRICS
from .analysis import Analysis, FigureSpec, Options, Unavailable, analysis
from .frames import typed
from .load import Run, Runs
from .results import COUNTS, ig_result, is_result, rescore_results, scores_frame

__all__ = ["explain_change", "list_differences"]

MAX_PAIRS = 12
_GROUNDING = [*COUNTS, "verified"]
_RETRIEVAL = ["n_backing", "n_correct", "n_over_selected"]


def list_differences(a: Run, b: Run) -> pd.DataFrame:
    """Return what two runs' manifests say differently: ``what``, ``in_a``, ``in_b``."""
    rows = []
    there, here = _facts(a), _facts(b)
    for what in dict.fromkeys([*there, *here]):
        if there.get(what) != here.get(what):
            rows.append({"what": what, "in_a": str(there.get(what, "")), "in_b": str(here.get(what, ""))})
    return typed(rows, ["what", "in_a", "in_b"])


def _facts(run: Run) -> dict[str, str]:
    phases = run.manifest["phases"]
    facts: dict[str, Any] = {"candidate": run.model, "judge": run.judge, **run.conditions, **run.asked}
    facts.pop("prompts")  # of all together; each is named below
    for name in ("extract", "judge"):
        role = "candidate" if name == "extract" else "judge"
        model = phases[name]["model"]
        facts |= {f"{role} {key}": model.get(key) for key in ("revision", "profile", "structured", "engine")}
        facts |= {f"{role} {key}": found for key, found in (model.get("sampling") or {}).items()}
        facts |= {f"prompt {key}": found["sha256"][:12] for key, found in phases[name].get("prompts", {}).items()}
        facts |= {f"version of {key}, {name}": found for key, found in phases[name].get("versions", {}).items()}
    facts |= {f"module {name}": run.score["policy"][name]["module_version"] for name in ("ig", "is")}
    facts["scored users"] = run.score["n_users"]
    return {name: str(value) for name, value in facts.items()}


def explain_change(a: Run, b: Run) -> dict[str, pd.DataFrame]:
    """Return what a change of scores comes from.

    Args:
        a: scored, before.
        b: scored on the same data set, after.

    Returns:
        ``scores``: medians over all scored users of each, over the common ones, and their change; ``parts``: for each
        part that differs and each metric, its share of the change over common users (``effect``), and its effect when
        it alone is swapped (``effect_alone``); ``differences``: see `list_differences`.

    Raises:
        StoreError: the runs are on other data, or share no scored user.
    """
    if a.dataset != b.dataset:
        raise StoreError(f"{a.path} is a run on {a.dataset}, {b.path} on {b.dataset}: a change cannot be explained.")
    users = sorted(set(a.scores["user_id"]) & set(b.scores["user_id"]))
    if not users:
        raise StoreError(f"{a.path} and {b.path} share no scored user.")
    mixer = _Mixer(a, b, users)
    parts = mixer.parts
    values = {
        frozenset(chosen): mixer.score(frozenset(chosen))
        for k in range(len(parts) + 1)
        for chosen in combinations(parts, k)
    }
    start, end = values[frozenset()], values[frozenset(parts)]
    rows = []
    for part in parts:
        effects = pd.Series(0.0, index=list(METRICS))
        for order in permutations(parts):
            before = frozenset(order[: order.index(part)])
            effects += values[before | {part}] - values[before]
        alone = values[frozenset({part})] - start
        rows += [
            {"part": part, "metric": metric, "effect": effects[metric] / factorial(len(parts)),
             "effect_alone": alone[metric]}
            for metric in METRICS
        ]  # fmt: skip
    scores = [
        {"metric": metric, "score_a": a.score[metric], "score_b": b.score[metric], "n_users": len(users),
         "score_a_common": start[metric], "score_b_common": end[metric], "change": end[metric] - start[metric]}
        for metric in METRICS
    ]  # fmt: skip
    return {
        "scores": typed(scores),
        "parts": typed(rows, ["part", "metric", "effect", "effect_alone"]),
        "differences": list_differences(a, b),
    }


class _Mixer:
    """Two runs' records over common users, any part of which can be taken from either."""

    def __init__(self, a: Run, b: Run, users: list[str]) -> None:
        self._runs, self._users = (a, b), users
        frames = [
            run.interests.loc[run.interests["user_id"].isin(users)].sort_values(
                ["user_id", "interest"], ignore_index=True
            )
            for run in (a, b)
        ]
        self._frames = frames
        same_names = frames[0][["user_id", "interest"]].equals(frames[1][["user_id", "interest"]])
        same_taxonomy = (a.taxonomy or {}).get("sha256") == (b.taxonomy or {}).get("sha256")
        oracles = [_of(run.oracle, users) for run in (a, b)]
        self._oracles = oracles

        def differ(columns: list[str]) -> bool:
            return not same_names or not frames[0][columns].equals(frames[1][columns])

        grounding, mapping, retrieval = differ(list(COUNTS)), differ(["category_id"]), differ(_RETRIEVAL)
        oracle = oracles[0] != oracles[1]
        conditions = [run.conditions for run in (a, b)]
        found: list[str] = []
        self._taken: dict[str, tuple[str, ...]] = {}
        records = [name for name, changed in (("grounding", grounding), ("mapping", mapping), ("retrieval", retrieval))
                   if changed]  # fmt: skip
        if not same_names or not same_taxonomy:
            # Records that name other interests, or other categories, cannot be mixed one by one.
            bundle = (*records, *(("oracle",) if not same_taxonomy else ()))
            name = "interests and judgements" if same_taxonomy else "taxonomy, judgements and oracle"
            if bundle:
                found.append(name)
                self._taken[name] = ("grounding", "mapping", "retrieval", *bundle)
        else:
            found += records
        if conditions[0]["thresholds"] != conditions[1]["thresholds"]:
            found.append("thresholds")
        if oracle and same_taxonomy:
            found.append("oracle")
        if conditions[0]["is_scope"] != conditions[1]["is_scope"]:
            found.append("is_scope")
        self.parts = tuple(found)
        self._whole = not same_names or not same_taxonomy

    def score(self, of_b: frozenset[str]) -> "pd.Series[Any]":
        """Return the medians when these parts are B's and the others A's."""
        names = {name for part in of_b for name in self._taken.get(part, (part,))}

        def side(part: str) -> int:
            return int(part in names)

        frame = self._frames[side("grounding")]
        if not self._whole:
            columns = {name: self._frames[side("retrieval")][name] for name in _RETRIEVAL}
            frame = frame.assign(**columns, category_id=self._frames[side("mapping")]["category_id"])
        run = self._runs[side("grounding") if self._whole else side("mapping")]
        policy = self._runs[side("thresholds")].score["policy"]["ig"]
        limits = {name: value for name, value in policy["thresholds"].items() if name != "preset"}
        ig = ig_result(frame, self._users, run.by_name, {**policy, "signals": list(run.signals)})
        specificity = is_result(frame, ig, self._runs[side("is_scope")].score["policy"]["is"])
        found = rescore_results(ig, specificity, oracle=self._oracles[side("oracle")], thresholds=limits)
        medians: pd.Series[Any] = scores_frame(*found)[list(METRICS)].median()
        return medians


def _of(oracle: dict[str, Any], users: list[str]) -> dict[str, Any]:
    return {user: sorted(oracle[user]) for user in users if oracle.get(user)}


@analysis("changes", "What changed between two runs")
def changes(runs: Runs, options: Options) -> Analysis:
    """All pairs of runs of one candidate on one data set: what differs, and what explains the change of scores."""
    pairs = [
        (a, b) for a, b in combinations(runs.all, 2)
        if a.dataset == b.dataset and a.model.split("@")[0] == b.model.split("@")[0]
        and set(a.scores["user_id"]) & set(b.scores["user_id"])
    ]  # fmt: skip
    if not pairs:
        raise Unavailable("Needs two runs of one candidate on one data set, asked, judged or scored differently.")
    tables: dict[str, list[pd.DataFrame]] = {"scores": [], "parts": [], "differences": []}
    for a, b in pairs[:MAX_PAIRS]:
        key = {"dataset": a.dataset, "run_a": _label(a), "run_b": _label(b)}
        for name, frame in explain_change(a, b).items():
            tables[name].append(frame.assign(**key)[[*key, *frame.columns]])
    figure = FigureSpec(
        "bar", "parts", "What the change of a score comes from", "Bars of one metric add up to its change over common "
        "users. The longest bar is what to look into.", x="effect", y="part", group="metric", facet="run_b",
    )  # fmt: skip
    skipped = len(pairs) - MAX_PAIRS
    return Analysis(
        "changes",
        "What changed between two runs",
        "Differences of the manifests, and the effect of each part that differs on the medians over common users.",
        {name: typed(pd.concat(frames)) for name, frames in tables.items()},
        {"changes": figure},
        policy={
            "effect": "mean over all orders of swapping (Shapley value); effects add up to the change",
            "oracle": "a verified category that a swapped oracle lacks does not count",
        },
        notes=(f"{skipped} more pairs are not shown.",) if skipped > 0 else (),
    )


def _label(run: Run) -> str:
    return f"{run.path.parent.name}/{run.path.name}"
