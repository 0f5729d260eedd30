"""Scores a submission from its rows with the published modules, as the runner scores its own runs."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .data import METRICS
from .intake import SubmissionError
from .metrics import load_metric, paired
from .text import excerpt

__all__ = ["comparisons", "score"]

MIN_COVERAGE, MAX_FAILED_SHARE = 0.9, 0.1
N_RESAMPLES = 1000
ENOUGH_DISTRACTORS = 45


@dataclass
class _Judged:
    """A submission's interests in the form of the metrics."""

    records: dict[str, list[dict[str, Any]]]
    """The interests that count, by scored user."""
    n_named: int = 0
    """Interests that the model named for users whom it answered for."""
    n_unjudged: int = 0
    """Users left out since the judge answered for none of their interests."""
    lost: Counter[str] = field(default_factory=Counter)
    """Interests that do not count, by what failed."""
    retrievals: Counter[str] = field(default_factory=Counter)
    """Interests by how their test set went, and those judged among few distractors."""


def score(
    rows: Mapping[str, list[dict[str, Any]]], context: Mapping[str, Any], oracle: Mapping[str, Any]
) -> dict[str, Any]:
    """Score the records with the published modules, as the runner scores its own."""
    judged = _joined(rows, by_name=not context["taxonomy_sha256"])
    ig, specificity = _computed(judged.records, rows["evidence"], context, oracle)
    scores = dict(ig["per_user"]) | {k: v for k, v in specificity["per_user"].items() if k not in ig["per_user"]}
    interests = dict(ig["per_interest"])
    interests |= {
        k: specificity["per_interest"][k] for k in ("n_backing", "n_correct", "n_over_selected", "specificity")
    }
    interests["relevant_item_ids"] = [one["relevant_item_ids"] for found in judged.records.values() for one in found]
    left_out = f"{judged.n_unjudged} users are left out, since the judge answered for none of their interests."
    return {
        "summary": _summary(judged, ig, specificity, context),
        "scores": scores,
        "interests": interests,
        "not_ranked": _why_not_ranked(judged, len(context["users"])),
        "notes": [left_out] if judged.n_unjudged else [],
    }


def _joined(rows: Mapping[str, list[dict[str, Any]]], *, by_name: bool) -> _Judged:
    """Join each interest with what the judge said of it; count what does not count.

    Raises:
        SubmissionError: an interest has no judgement, or no user is left.
    """
    groundings = {(row["user_id"], row["interest"]): row for row in rows["groundings"]}
    retrievals = {(row["user_id"], row["interest"]): row for row in rows["retrievals"]}
    mappings = {row["interest"]: row for row in rows["mappings"]}
    judged = _Judged({row["user_id"]: [] for row in rows["users"] if row["scored"]})
    named = Counter[str]()
    for row in rows["extractions"]:
        user, interest = row["user_id"], row["interest"]
        if user not in judged.records:
            continue
        named[user] += 1
        ground, retrieval = groundings.get((user, interest)), retrievals.get((user, interest))
        mapping = mappings.get(interest)
        if ground is None or retrieval is None or (mapping is None and not by_name):
            raise SubmissionError(f"There is no judgement of the interest {excerpt(interest)} of user {excerpt(user)}.")
        if ground["status"] == "failed":
            judged.lost["grounding"] += 1
            continue
        if not by_name and (mapping is None or mapping["status"] == "failed" or mapping["category_id"] is None):
            judged.lost["mapping"] += 1
            continue
        judged.retrievals[retrieval["status"]] += 1
        n_distractors = len(set(retrieval["shown_item_ids"] or ()) - set(retrieval["backing_item_ids"] or ()))
        judged.retrievals["few"] += retrieval["status"] == "ok" and n_distractors < ENOUGH_DISTRACTORS
        judged.records[user].append(
            {
                "interest": interest,
                "category_id": None if by_name else mapping["category_id"] if mapping else None,
                "item_ids": row["item_ids"],
                "relevant_item_ids": ground["relevant_item_ids"] or [],
                "backing_item_ids": retrieval["backing_item_ids"] or [],
                "selected_item_ids": retrieval["selected_item_ids"],
            }
        )
    unjudged = [user for user, found in judged.records.items() if named[user] and not found]
    for user in unjudged:
        del judged.records[user]
    if not judged.records:
        raise SubmissionError("No user could be scored: the judge answered for none, or none is marked as scored.")
    judged.n_named, judged.n_unjudged = sum(named.values()), len(unjudged)
    return judged


def _computed(
    records: Mapping[str, list[dict[str, Any]]],
    evidence: list[dict[str, Any]],
    context: Mapping[str, Any],
    oracle: Mapping[str, Any],
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the results of the modules `ig` and `is`."""
    users = list(records)
    ig = load_metric("ig").compute(
        predictions=[
            [_only(one, "interest", "category_id", "item_ids", "relevant_item_ids") for one in found]
            for found in records.values()
        ],
        references=users,
        history=_history(evidence),
        oracle={user: oracle["oracle"].get(user, []) for user in users},
        missing_from_oracle="ignore",
        thresholds=context["thresholds"],
        signals=context["signals"],
        n_resamples=N_RESAMPLES,
    )
    flat = iter(ig["per_interest"]["verified"])
    keys = ("interest", "category_id", "backing_item_ids", "selected_item_ids")
    specificity = load_metric("is").compute(
        predictions=[[{**_only(one, *keys), "verified": next(flat)} for one in found] for found in records.values()],
        references=users,
        ig_f1=dict(zip(ig["per_user"]["user_id"], ig["per_user"]["ig_f1"], strict=True)),
        is_scope=context["is_scope"],
        n_resamples=N_RESAMPLES,
    )
    return ig, specificity


def _why_not_ranked(judged: _Judged, n_requested: int) -> str:
    """Return why the scores may not be compared; empty where they may."""
    reasons = []
    coverage = len(judged.records) / n_requested
    if coverage < MIN_COVERAGE:
        reasons.append(
            f"{100 * coverage:.0f} % of the data set's users are scored (less than {100 * MIN_COVERAGE:g} %)."
        )
    failed = sum(judged.lost.values()) + judged.retrievals["failed"] + judged.retrievals["shortlist_failed"]
    if failed > MAX_FAILED_SHARE * max(judged.n_named, 1):
        reasons.append(f"{failed} of {judged.n_named} interests have no usable judgement.")
    return " ".join(reasons)


def _summary(
    judged: _Judged, ig: Mapping[str, Any], specificity: Mapping[str, Any], context: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the scores over users, with intervals and what they stand on, as the runner's manifests hold them."""
    summary: dict[str, Any] = {}
    for metric in METRICS:
        source = specificity if metric in ("is", "hm") else ig
        for key in (metric, f"ci_{metric}", f"mean_{metric}", f"ci_mean_{metric}"):
            summary[key] = source.get(key)
        summary[f"n_users_{metric}"] = sum(value is not None for value in source["per_user"][metric])
    verified = ig["per_interest"]["verified"]
    n_users, n_requested, n_interests = len(judged.records), len(context["users"]), len(verified)
    return summary | {
        "n_users_unjudged": judged.n_unjudged,
        "interests_per_user": judged.n_named / (n_users + judged.n_unjudged),
        "n_interests": n_interests,
        "verified_share": sum(verified) / n_interests if n_interests else None,
        "n_unknown_item_ids": sum(map(len, ig["per_interest"]["unknown_item_ids"])),
        "n_users": n_users,
        "n_requested": n_requested,
        "coverage": n_users / n_requested,
        "left_out": {"grounding": judged.lost["grounding"], "mapping": judged.lost["mapping"]},
        "n_over_selected": sum(specificity["per_interest"]["n_over_selected"]),
        "n_retrieval_failed": judged.retrievals["failed"],
        "n_without_distractors": judged.retrievals["no_distractors"],
        "n_shortlist_failed": judged.retrievals["shortlist_failed"],
        "n_few_distractors": judged.retrievals["few"],
        "policy": {"ig": ig["policy"], "is": specificity["policy"]},
        "oracle": {"version": context["oracle"], "n_candidates": context["n_oracle_models"], "given": None},
        "max_unusable_share": MAX_FAILED_SHARE,
    }


def _only(record: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    return {key: record[key] for key in keys}


def _history(rows: list[dict[str, Any]]) -> dict[str, list[Any]]:
    return {key: [row[key] for row in rows] for key in ("user_id", "object_id", "interaction_type")}


def comparisons(scores: Mapping[str, list[Any]], rivals: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Compare the submission's HM with those of the best rows under the same conditions."""
    own = dict(zip(scores["user_id"], scores["hm"], strict=True))
    found = []
    for name, theirs in rivals.items():
        one = paired(own, dict(theirs))
        found.append(
            {"rival": name, **_only(one, "difference_of_means", "ci_difference_of_means", "p_value", "n_users")}
        )
    return found
