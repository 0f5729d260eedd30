"""Score: records -> ig, is and hm, through the same `evaluate` modules that users load. No model is asked."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any
from uuid import uuid4

import pandas as pd
import pyarrow as pa

from ..hf_datasets import INTERACTION_TYPES
from ..hf_datasets.errors import ConfigError, StoreError
from .config import Thresholds
from .oracle import Category
from .runfolder import RunFolder

__all__ = ["METRICS", "Scored", "Verified", "check_thresholds", "load_metric", "score_run", "verify_run"]

METRICS = ("ig_precision", "ig_recall", "ig_f1", "is", "hm")


@dataclass(frozen=True)
class Verified:
    """A run's interests in the form of the metrics, with the verdicts that do not need an oracle."""

    requested: list[str]
    """The users that the candidate was asked about."""
    users: list[str]
    """The scored users."""
    n_unjudged: int
    """Users left out since the judge answered for none of their interests."""
    n_named: int
    """Interests that the candidate named for the users it answered for."""
    interests: pd.DataFrame
    """One row for each interest that counts, with what the judge said."""
    left_out: dict[str, int]
    """Interests that do not count, by what failed."""
    retrievals: dict[str, int]
    """Interests whose specificity is not known, by why, and those judged among few distractors."""
    ig: dict[str, Any]
    """Result of the `ig` module without an oracle."""

    @property
    def coverage(self) -> float:
        """Scored users as a share of the requested ones."""
        return len(self.users) / len(self.requested) if self.requested else 0.0

    @property
    def categories(self) -> list[tuple[str, Category]]:
        """The verified (user, category) pairs."""
        rows = self.ig["per_interest"]
        key = "interest" if all(category is None for category in rows["category_id"]) else "category_id"
        columns = zip(rows["user_id"], rows[key], rows["verified"], strict=True)
        return [(user, category) for user, category, verified in columns if verified]


@dataclass(frozen=True)
class Scored:
    """A run's scores."""

    verified: Verified
    ig: dict[str, Any]
    specificity: dict[str, Any]
    """Result of the `is` module, with ``hm``."""

    @property
    def summary(self) -> dict[str, Any]:
        """The run's scores over users, with intervals and what they stand on."""
        result: dict[str, Any] = {}
        for metric in METRICS:
            source = self.specificity if metric in ("is", "hm") else self.ig
            for name in (metric, f"ci_{metric}", f"mean_{metric}", f"ci_mean_{metric}"):
                result[name] = source.get(name)
            # A user may have no value: recall without an oracle, specificity without a readable retrieval.
            result[f"n_users_{metric}"] = sum(value is not None for value in source["per_user"][metric])
        n_answered = len(self.verified.users) + self.verified.n_unjudged
        return {
            **result,
            "n_users_unjudged": self.verified.n_unjudged,
            "interests_per_user": self.verified.n_named / n_answered if n_answered else None,
            "n_interests": len(self.verified.interests),
            "verified_share": _share(self.ig["per_interest"]["verified"]),
            "n_unknown_item_ids": sum(map(len, self.ig["per_interest"]["unknown_item_ids"])),
            "n_users": len(self.verified.users),
            "n_requested": len(self.verified.requested),
            "coverage": self.verified.coverage,
            "left_out": self.verified.left_out,
            "n_over_selected": sum(self.specificity["per_interest"]["n_over_selected"]),
            **self.verified.retrievals,
            "policy": {"ig": self.ig["policy"], "is": self.specificity["policy"]},
        }

    @property
    def tables(self) -> dict[str, pa.Table]:
        """The tables ``interests`` and ``scores`` of the run folder."""
        # Both modules give one row for each interest and user in the order in which they were handed in.
        interests = pa.table(_typed(self.ig["per_interest"])).append_column(
            "relevant_item_ids", pa.array(self.verified.interests["relevant_item_ids"].tolist(), pa.list_(pa.string()))
        )
        for name in ("n_backing", "n_correct", "n_over_selected"):
            interests = interests.append_column(name, pa.array(self.specificity["per_interest"][name], pa.int64()))
        values = pa.array(self.specificity["per_interest"]["specificity"], pa.float64())
        interests = interests.append_column("specificity", values)
        scores = dict(self.ig["per_user"])
        for name, values in self.specificity["per_user"].items():
            if name not in scores:
                scores[name] = values
        return {"interests": interests, "scores": pa.table(_typed(scores))}


@cache
def load_metric(name: str) -> Any:
    """Load one of our `evaluate` modules from where it is installed."""
    import evaluate

    # In memory and under a name of its own: a second process must not wait for this one's lock.
    folder = str(files("gistbench.metrics") / name)
    return evaluate.load(folder, keep_in_memory=True, experiment_id=uuid4().hex)


def check_thresholds(thresholds: Thresholds) -> None:
    """Refuse thresholds that the `ig` module cannot use, before anything is asked.

    Raises:
        ConfigError: with the module's own message.
    """
    history = {"user_id": ["u"], "object_id": ["o"], "interaction_type": [INTERACTION_TYPES[0]]}
    try:
        load_metric("ig").compute(
            predictions=[[]], references=["u"], history=history, thresholds=thresholds, n_resamples=0
        )
    except ValueError as error:
        raise ConfigError(f"The thresholds cannot be used: {error}") from error


def verify_run(run: RunFolder, *, signals: list[str], thresholds: Thresholds) -> Verified:
    """Read a run's tables and verify its interests.

    An interest whose grounding or mapping failed is left out and counted, a user who is not scored with all interests.

    Args:
        run: a folder whose judge phase is complete.
        signals: the interaction types of the data set.
        thresholds: for the `ig` module.
    """
    users = run.read("users").to_pandas()
    scored = users.loc[users["scored"], "user_id"].tolist()
    frame = run.read("extractions").to_pandas()[["user_id", "interest", "item_ids"]]
    frame = frame[frame["user_id"].isin(scored)]
    n_named = len(frame)
    groundings = run.read("groundings").to_pandas().rename(columns={"status": "grounding"})
    frame = frame.merge(
        groundings[["user_id", "interest", "relevant_item_ids", "grounding"]], on=["user_id", "interest"], how="left"
    )
    retrievals = run.read("retrievals").to_pandas().rename(columns={"status": "retrieval"})
    frame = frame.merge(
        retrievals[["user_id", "interest", "backing_item_ids", "selected_item_ids", "few_distractors", "retrieval"]],
        on=["user_id", "interest"],
        how="left",
    )
    judged = ["grounding", "retrieval"]
    if run.manifest["phases"]["judge"]["taxonomy"] is not None:
        judged.append("mapping")
        mappings = run.read("mappings").to_pandas().rename(columns={"status": "mapping"})
        mappings["category_id"] = mappings["category_id"].astype("Int64")
        frame = frame.merge(mappings[["interest", "category_id", "mapping"]], on="interest", how="left")
    else:
        frame["category_id"], frame["mapping"] = None, "none"
    unseen = frame[judged].isna().any(axis=1)
    if unseen.any():
        first = frame.loc[unseen].iloc[0]
        raise StoreError(
            f"{run.path}: no judgement of {int(unseen.sum())} interests, such as {first['interest']!r} of user "
            f"{first['user_id']}. Its tables do not belong together: judge again."
        )
    failed = {"grounding": frame["grounding"] == "failed", "mapping": frame["mapping"] == "failed"}
    left_out = {name: int(rows.sum()) for name, rows in failed.items()}
    lost = failed["grounding"] | failed["mapping"]
    # A user with no judged interest at all is missing: what the judge did not answer is no score of the candidate.
    all_lost = lost.groupby(frame["user_id"]).all()
    unjudged = set(all_lost.index[all_lost])
    scored = [user for user in scored if user not in unjudged]
    frame = frame[~lost & ~frame["user_id"].isin(unjudged)].reset_index(drop=True)
    predictions = _by_user(frame, scored, ["interest", "category_id", "item_ids", "relevant_item_ids"])
    ig = _compute(
        "ig",
        predictions,
        scored,
        history=run.read("evidence"),
        thresholds=thresholds,
        signals=signals,
        n_resamples=0,
    )
    retrieved = {
        "n_retrieval_failed": int((frame["retrieval"] == "failed").sum()),
        "n_without_distractors": int((frame["retrieval"] == "no_distractors").sum()),
        "n_shortlist_failed": int((frame["retrieval"] == "shortlist_failed").sum()),
        "n_few_distractors": int(((frame["retrieval"] == "ok") & frame["few_distractors"]).sum()),
    }
    return Verified(users["user_id"].tolist(), scored, len(unjudged), n_named, frame, left_out, retrieved, ig)


def score_run(
    verified: Verified,
    *,
    oracle: Mapping[str, list[Category]],
    is_scope: str,
    n_resamples: int,
    seed: int,
) -> Scored:
    """Score a run against an oracle.

    Args:
        verified: the run, verified.
        oracle: each user's categories.
        is_scope: for the `is` module.
        n_resamples: of the bootstrap.
        seed: of the bootstrap.
    """
    frame = verified.interests
    resampling: dict[str, Any] = {"n_resamples": n_resamples, "seed": seed}
    # The verdicts stand: only the oracle and the intervals are new.
    ig = load_metric("ig").rescore({"run": verified.ig}, oracle=oracle, **resampling)["run"]
    picked = frame.assign(verified=ig["per_interest"]["verified"])
    specificity = _compute(
        "is",
        _by_user(
            picked, verified.users, ["interest", "category_id", "verified", "backing_item_ids", "selected_item_ids"]
        ),
        verified.users,
        ig_f1=dict(zip(ig["per_user"]["user_id"], ig["per_user"]["ig_f1"], strict=True)),
        is_scope=is_scope,
        **resampling,
    )
    return Scored(verified, ig, specificity)


def _compute(metric: str, predictions: list[list[dict[str, Any]]], users: list[str], **options: Any) -> dict[str, Any]:
    """Compute a metric; where no user is scored, give its result with no rows and no values.

    The modules refuse to score nobody. Asked about one user who is then taken out, they still say which columns and
    which policy their result has.
    """
    if users:
        result: dict[str, Any] = load_metric(metric).compute(predictions=predictions, references=users, **options)
        return result
    if "ig_f1" in options:
        options["ig_f1"] = {"nobody": None}
    result = load_metric(metric).compute(predictions=[[]], references=["nobody"], **options)
    values = {name: None for name, value in result.items() if not isinstance(value, dict)}
    per_user: dict[str, list[Any]] = {name: [] for name in result["per_user"]}
    return {**result, **values, "per_user": per_user, "n_users": 0}


def _by_user(frame: pd.DataFrame, users: list[str], columns: list[str]) -> list[list[dict[str, Any]]]:
    """Return each user's rows as records, for users in order; the frame's rows are in the order of its users."""
    plain = {name: [_plain(value) for value in frame[name]] for name in columns}
    records: dict[str, list[dict[str, Any]]] = {user: [] for user in users}
    for user, *values in zip(frame["user_id"], *plain.values(), strict=True):
        records[user].append(dict(zip(columns, values, strict=True)))
    return list(records.values())


def _plain(value: Any) -> Any:
    """Return a cell as a plain Python value: lists as lists, missing ones as None."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    return None if value is None or value is pd.NA or (isinstance(value, float) and value != value) else value


def _typed(columns: Mapping[str, list[Any]]) -> dict[str, pa.Array]:
    """Return columns as Arrow arrays whose type does not depend on which values are missing."""
    types = {"failure_reasons": pa.list_(pa.string()), "unknown_item_ids": pa.list_(pa.string())}
    strings = {"user_id", "interest"}
    result = {}
    for name, values in columns.items():
        if name in types:
            kind = types[name]
        elif name in strings:
            kind = pa.string()
        elif name == "verified":
            kind = pa.bool_()
        elif name == "category_id" or name.startswith("n_"):
            kind = pa.int64()
        else:
            kind = pa.float64()
        result[name] = pa.array(values, kind)
    return result


def _share(flags: list[bool]) -> float | None:
    return sum(flags) / len(flags) if flags else None
