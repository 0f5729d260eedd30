"""Tables 5 and 6: what users say about themselves, and scores from elsewhere, against the benchmark's metrics."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ...hf_datasets.errors import DataError
from ..score import load_metric
from .analysis import Analysis, FigureSpec, Layout, Options, Unavailable, analysis
from .frames import spearman, typed
from .load import Group, Runs
from .published import published

__all__ = ["read_csv", "survey_scores"]


def read_csv(path: Path, needed: list[str], what: str) -> pd.DataFrame:
    """Read a csv of texts, and make sure that it has the columns and no empty cells in them.

    Raises:
        DataError: it cannot be read, or does not.
    """
    try:
        frame = pd.read_csv(path, dtype=str, keep_default_na=False)
    except (OSError, ValueError) as error:
        raise DataError(f"{path} cannot be read as {what}: {error}") from error
    if absent := [name for name in needed if name not in frame.columns]:
        raise DataError(
            f"{path} is no {what}: it lacks {', '.join(absent)}. Needed: {', '.join(needed)}; found: "
            f"{', '.join(frame.columns)}."
        )
    empty = (frame[needed] == "").any(axis=1)
    if empty.any():
        raise DataError(f"{path}, row {int(np.flatnonzero(empty)[0]) + 2}: a cell is empty.")
    return frame


def _reported(path: Path) -> dict[str, list[int]]:
    frame = read_csv(path, ["user_id", "category_id"], "survey")
    categories = pd.to_numeric(frame["category_id"], errors="coerce")
    wrong = categories.isna() | (categories % 1 != 0) | (categories < 0)
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise DataError(f"{path}, row {row + 2}: category_id is {frame['category_id'][row]!r}, not a category.")
    return _lists(frame["user_id"], categories.astype(int))


def _lists(users: Any, categories: Any) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for user, category in zip(users.tolist(), categories.tolist(), strict=True):
        found.setdefault(user, []).append(int(category))
    return found


def survey_scores(group: Group, reported: dict[str, list[int]]) -> pd.DataFrame | None:
    """Return survey precision, recall and F1 of each model of a group; None where no user reported anything.

    Args:
        group: of runs with a taxonomy.
        reported: each user's categories.
    """
    rows = []
    for run in group.runs:
        users = [user for user in run.scores["user_id"] if user in reported]
        if not users or run.by_name:
            return None
        named = run.interests[["user_id", "category_id"]].drop_duplicates()
        predicted = _lists(named["user_id"], named["category_id"])
        found = load_metric("survey").compute(
            predictions=[predicted.get(user, []) for user in users],
            references=[reported[user] for user in users],
            n_resamples=0,
        )
        means = {f"mean_{name}": found[f"mean_{name}"] for name in ("s_precision", "s_recall", "s_f1")}
        medians = {name: found[name] for name in ("s_precision", "s_recall", "s_f1")}
        rows.append({**group.key, "model": run.model, **medians, **means, "n_users": len(users)})
    return pd.DataFrame(rows)


@analysis("table_5", "Survey metrics beside IG and IS")
def table_5(runs: Runs, options: Options) -> Analysis:
    """Survey precision and recall beside the proposed metrics (Table 5)."""
    if options.survey is None:
        raise Unavailable("Needs a csv of the categories that users report (user_id, category_id): --survey FILE.")
    reported = _reported(options.survey)
    frames, correlations = [], []
    for group in runs.groups:
        frame = survey_scores(group, reported)
        if frame is None:
            continue
        metrics = ("ig_precision", "ig_recall", "ig_f1", "is")
        scores = pd.DataFrame([{name: run.score[name] for name in metrics} for run in group.runs], dtype=float)
        frame = pd.concat([frame, scores], axis=1)
        frame["geometric_mean"] = np.sqrt(frame["ig_f1"] * frame["is"])
        for name, column in (("s_precision", "Survey-Based / S-Prec"), ("s_recall", "Survey-Based / S-Rec")):
            frame[f"published_{name}"] = [published("Table 5", model, column) for model in frame["model"]]
        frames.append(frame)
        row = {**group.key, "n_models": len(frame), "rho": spearman(frame["s_f1"], frame["geometric_mean"])}
        correlations.append(row | {"rho_ig_f1": spearman(frame["s_f1"], frame["ig_f1"])})
    if not frames:
        raise Unavailable(f"No scored user of these runs is in {options.survey}, or the runs have no taxonomy.")
    figure = FigureSpec(
        "scatter", "models", "Survey F1 against the proposed metrics", "Each point is a model. The closer to a rising "
        "line, the more do users' own words and the metrics agree.", x="geometric_mean", y="s_f1", label="model",
        facet="dataset",
    )  # fmt: skip
    return Analysis(
        "table_5",
        "Survey metrics beside IG and IS",
        "Medians over users who reported something. Rho says whether models that agree with users' own reports also "
        "have high IG F1 and IS.",
        {"models": typed(pd.concat(frames)), "correlations": typed(correlations)},
        {"table_5": figure},
        {"models": Layout(("model",), ("dataset",), ("s_precision", "s_recall", "ig_precision", "ig_recall", "ig_f1",
                                                     "is"))},
        {
            "survey_f1": "median over users of the harmonic mean of survey precision and recall",
            "geometric_mean": "of the medians of IG F1 and IS",
            "aggregation": "the page does not say whether it prints medians or means of survey metrics: both are here",
        },
    )  # fmt: skip


@analysis("table_6", "Scores from elsewhere against IG F1")
def table_6(runs: Runs, options: Options) -> Analysis:
    """An external score, such as Elo, against median ig_f1 (Table 6)."""
    if options.external is None:
        raise Unavailable("Needs a csv with a column model and one for each external score: --external FILE.")
    given = read_csv(options.external, ["model"], "table of external scores")
    names = [name for name in given.columns if name != "model"]
    twice = given["model"].duplicated()
    if twice.any():
        raise DataError(f"{options.external}: {given['model'][twice].iloc[0]!r} is there twice. Keep one row.")
    numbers = given.set_index("model")[names].apply(pd.to_numeric, errors="coerce")
    rows: list[dict[str, Any]] = []
    correlations: list[dict[str, Any]] = []
    for group in runs.groups:
        for name in names:
            own = [
                {**group.key, "model": run.model, "external_name": name, "external": numbers[name].get(run.model),
                 "ig_f1": run.score["ig_f1"], "is": run.score["is"]}
                for run in group.runs if run.model in numbers.index
            ]  # fmt: skip
            rows += own
            found = pd.DataFrame(own, columns=["external", "ig_f1"]).astype(float)
            known = found.dropna()
            row = {**group.key, "external_name": name, "n_models": len(known)}
            correlations.append(row | {"rho": spearman(known["external"], known["ig_f1"]), "p_value": _p(known)})
    if not rows:
        raise Unavailable(f"{options.external} names none of these models: {', '.join(runs.groups[0].models)}.")
    figure = FigureSpec(
        "scatter", "models", "Scores from elsewhere against IG F1", "Each point is a model. No slope: the other score "
        "does not predict who understands users.", x="external", y="ig_f1", label="model", facet="dataset",
    )  # fmt: skip
    return Analysis(
        "table_6",
        "Scores from elsewhere against IG F1",
        "Spearman's rho over models, with the exact p-value of a permutation test. With six models, |rho| must reach "
        "0.89 to be significant at 0.05.",
        {"models": typed(rows), "correlations": typed(correlations)},
        {"table_6": figure},
        {"models": Layout(("model",), ("dataset",), ("external", "ig_f1"))},
        {
            "p_value": "two-sided, over all permutations up to 8 models, else over 10,000 seeded ones and the observed "
            "order"
        },
    )


def _p(known: pd.DataFrame) -> float:
    """Return the permutation p-value of Spearman's rho; NaN where there is none."""
    from itertools import permutations

    from scipy.stats import rankdata

    observed = spearman(known["external"], known["ig_f1"])
    n = len(known)
    if np.isnan(observed) or n < 3:
        return float("nan")
    x, y = rankdata(known["external"]), rankdata(known["ig_f1"])
    sampled = n > 8
    if sampled:
        order = np.random.default_rng(0).permuted(np.tile(np.arange(n), (10_000, 1)), axis=1)
    else:
        order = np.array(list(permutations(range(n))))
    x, y = (x - x.mean()) / x.std(), (y - y.mean()) / y.std()
    n_extreme = int((np.abs(x[order] @ y / n) >= abs(observed) - 1e-9).sum())
    # The order that was observed is one of a sample's, too: no p-value is 0.
    return (n_extreme + sampled) / (len(order) + sampled)
