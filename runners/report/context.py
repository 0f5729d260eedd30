"""Table 14: how much of a history a candidate reads, at once and in all, under a fixed and a per-setting oracle.

Two run options are meant by "length": ``--history-length``, how many of a user's newest engagements are read, and
``--chunk-size``, how many stand in one prompt.
"""

from typing import Any

import pandas as pd

from ..score import METRICS
from .analysis import Analysis, FigureSpec, Layout, Options, Unavailable, analysis
from .frames import typed
from .load import Run, Runs
from .published import value
from .rescoring import rescore
from .results import scores_frame, unite_oracles

__all__ = ["table_14"]

_PUBLISHED = {
    "ig_precision": "IG P (%)",
    "ig_recall": "IG R (%)",
    "ig_f1": "IG F1 (%)",
    "is": "IS (%)",
    "interests_per_user": "# Interests",
}
READING = (
    "The page's Table 14 has recall above precision at every length, against its Table 4 (60.5 against 78.1 for the "
    "same model and data), and fewer interests with more context. Both fit one reading: the length is that of a prompt "
    "(--chunk-size), so that longer prompts are fewer and name fewer interests, and each setting is scored against "
    "what this model alone verifies in it (oracle 'own'). Then recall divides the same sum by the verified categories "
    "only, and precision by all, so that recall is never the lower one. Under --history-length, or an oracle of "
    "several models (as in Table 4), neither holds."
)


@analysis("table_14", "History length and chunk size")
def table_14(runs: Runs, options: Options) -> Analysis:
    """Scores by history length and chunk size, each under three oracles (Table 14)."""
    series: dict[tuple[Any, ...], list[Run]] = {}
    for run in runs.all:
        fixed = {name: found for name, found in run.conditions.items() if name != "oracle"}
        others = {k: v for k, v in run.asked.items() if k not in ("history_length", "chunk_size")}
        series.setdefault((run.dataset, run.judge, *fixed.values(), *others.values()), []).append(run)
    rows: list[dict[str, Any]] = []
    for (dataset, judge, *_), mine in series.items():
        if len({_lengths(run) for run in mine}) < 2:
            continue
        common = unite_oracles(run.oracle for run in mine)
        for run in mine:
            history_length, chunk_size = _lengths(run)
            key = {"dataset": dataset, "judge": judge, "model": run.model, "history_length": history_length,
                   "chunk_size": chunk_size, "interests_per_user": run.score["interests_per_user"]}  # fmt: skip
            rows.append({**key, "oracle": "per setting", **{metric: run.score[metric] for metric in METRICS}})
            for name, oracle in (("fixed", common), ("own", None)):
                again = scores_frame(*rescore(run, oracle=oracle))[list(METRICS)].median()
                rows.append({**key, "oracle": name, **{metric: again[metric] for metric in METRICS}})
    if not rows:
        raise Unavailable(
            "Needs runs on the same data that differ in --history-length or --chunk-size, such as 50, 100, 150 and 200."
        )
    frame = pd.DataFrame(rows)
    frame["length_option"] = "chunk size"
    for _, own in frame.groupby(["dataset", "judge"]):
        if own["history_length"].nunique(dropna=False) > 1:
            frame.loc[own.index, "length_option"] = "history length"
    varied = frame["length_option"] == "history length"
    frame["length"] = frame["history_length"].where(varied, frame["chunk_size"])
    for name, label in _PUBLISHED.items():
        frame[f"published_{name}"] = [
            value("Table 14", label, f"UIH Length {int(n)}")
            if dataset == "synthetic" and _is_paper(model) and pd.notna(n)
            else float("nan")
            for dataset, model, n in zip(frame["dataset"], frame["model"], frame["length"], strict=True)
        ]
    frame = frame.sort_values(["dataset", "judge", "model", "oracle", "length"], kind="stable")
    columns = ["dataset", "judge", "model", "length_option", "length", "history_length", "chunk_size", "oracle",
               *METRICS, "interests_per_user", *(f"published_{name}" for name in _PUBLISHED)]  # fmt: skip
    figure = FigureSpec(
        "line", "lengths", "IG F1 by length of what is read", "A rising line: more context helps. Compare the panels: "
        "an oracle that grows with the setting moves the line too.", x="length", y="ig_f1", group="model",
        facet="oracle", y_range=(0, 1),
    )  # fmt: skip
    return Analysis(
        "table_14",
        "History length and chunk size",
        "Medians by setting. The oracle decides what recall means: that of each setting's suite, one fixed for all "
        "settings (the union of theirs), or what the run itself verifies.",
        {"lengths": typed(frame[columns])},
        {"table_14": figure},
        {"lengths": Layout(("model", "oracle"), ("length_option", "length"), (*METRICS, "interests_per_user"))},
        {
            "per setting": "the oracle of the run's suite",
            "fixed": "the union of the oracles of all these runs on the data set",
            "own": "what the run alone verifies",
        },
        (READING,),
    )


def _lengths(run: Run) -> tuple[int | None, int | None]:
    return run.asked["history_length"], run.asked["chunk_size"]


def _is_paper(model: str) -> bool:
    return model.split("@")[0].casefold().endswith("gpt-oss-120b")
