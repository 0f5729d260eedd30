"""Tables 24 to 27: tokens and GPU hours, from the manifests."""

from typing import Any

import pandas as pd

from ..cost import cost_table
from .analysis import Analysis, FigureSpec, Layout, Options, analysis
from .frames import typed
from .load import Runs
from .published import paper_dataset, published, value

__all__ = ["table_24", "table_25", "table_27"]

_STAGES = {
    "ground": "IG evidence relevance",
    "shortlist": "IS distractor filtering",
    "retrieve": "IS retrieval",
    "map": "Taxonomy mapping",
}
_SUMMED = ["n_prompts", "n_attempts", "tokens_in", "tokens_cached", "tokens_out", "tokens_reasoning", "seconds",
           "gpu_hours", "usd"]  # fmt: skip


def _stages(runs: Runs) -> pd.DataFrame:
    """Return `cost_table` of each run, with its data set, candidate and judge; rows of stages, without totals.

    ``place`` tells runs apart: their folders are called alike in every suite.
    """
    frames = []
    for place, run in enumerate(runs.all):
        found = cost_table([run.folder])
        n_interests = found.loc[(found["run"] == run.path.name) & (found["stage"] == "total"), "n_interests"]
        own = found.loc[(found["stage"] != "total") & (found["run"] != "total")]
        frames.append(
            own.assign(
                place=place, dataset=run.dataset, judge=run.judge, candidate=run.model,
                run_interests=n_interests.iloc[0],
            )
        )  # fmt: skip
    return pd.concat(frames, ignore_index=True)


def _sums(frame: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Return sums by group; a sum of nothing known is missing."""
    return frame.groupby(by, sort=False)[_SUMMED].sum(min_count=1).reset_index()


@analysis("table_24", "What the candidates' answers cost")
def table_24(runs: Runs, options: Options) -> Analysis:
    """Prompts and tokens of extraction by candidate and data set (Table 24)."""
    stages = _stages(runs)
    frame = _sums(stages.loc[stages["stage"] == "extract"], ["candidate", "dataset"]).rename(
        columns={"candidate": "model"}
    )
    reference = [model.casefold().endswith("llama-3.1-8b-instruct") for model in frame["model"]]
    for name, label in (("n_prompts", "Prompts"), ("tokens_in", "Input tok."), ("tokens_out", "Output tok.")):
        frame[f"published_{name}"] = [
            value("Table 24", paper_dataset(dataset), label) if own else float("nan")
            for dataset, own in zip(frame["dataset"], reference, strict=True)
        ]
    return Analysis(
        "table_24",
        "What the candidates' answers cost",
        "Extraction only. Cached input tokens are part of the input, reasoning tokens of the output.",
        {"candidates": typed(frame)},
        layouts={"candidates": Layout(("model",), ("dataset",), ("n_prompts", "tokens_in", "tokens_out"))},
        policy=_POLICY,
    )


@analysis("table_25", "What the judge costs, by pass")
def table_25(runs: Runs, options: Options) -> Analysis:
    """Prompts, tokens and GPU hours of the judge's passes, over candidates and data sets (Tables 25 and 26)."""
    stages = _stages(runs)
    frame = _sums(stages.loc[stages["stage"].isin(list(_STAGES))], ["judge", "stage"])
    figure = FigureSpec(
        "bar", "passes", "Tokens that the judge reads", "The longest bar is where shorter prompts or a cache pay most.",
        x="tokens_in", y="stage", group="judge",
    )  # fmt: skip
    note = (
        "The page's Table 26 attributes about 380, 115, 245 and 20 H100-hours to these passes, 760 in all; its hours "
        "are of one judge on 64 GPUs, and compare only where hardware and judge are the same."
    )
    return Analysis(
        "table_25",
        "What the judge costs, by pass",
        "Summed over candidates and data sets. GPU hours are wall seconds times GPUs; empty where none was used.",
        {"passes": typed(frame)},
        {"table_25": figure},
        {"passes": Layout(("stage",), ("judge",), ("n_prompts", "tokens_in", "tokens_out", "gpu_hours"))},
        _POLICY,
        (note,),
    )


@analysis("table_27", "What judging each candidate costs")
def table_27(runs: Runs, options: Options) -> Analysis:
    """Interests, tokens and GPU hours of judging by candidate (Table 27)."""
    stages = _stages(runs)
    judged = _sums(stages.loc[stages["stage"].isin(list(_STAGES))], ["candidate", "judge"])
    named = stages.drop_duplicates("place")
    interests = named.groupby(["candidate", "judge"])["run_interests"].sum()
    frame: Any = judged.merge(interests.rename("n_interests").reset_index(), on=["candidate", "judge"])
    frame = frame.rename(columns={"candidate": "model"})
    per = frame["n_interests"].astype(float)
    frame["tokens_per_interest"] = (frame["tokens_in"] + frame["tokens_out"]).astype(float) / per.where(per > 0)
    frame["published_n_interests"] = [published("Table 27", model, "Generated interests") for model in frame["model"]]
    frame["published_gpu_hours"] = [
        published("Table 27", model, "Benchmark computation H100-hr") for model in frame["model"]
    ]
    figure = FigureSpec(
        "scatter", "candidates", "Judging costs by what is named", "Points on a rising line: cost follows the number "
        "of interests; a model far above it cites more per interest.", x="n_interests", y="tokens_in", label="model",
    )  # fmt: skip
    return Analysis(
        "table_27",
        "What judging each candidate costs",
        "Cost of the judge's passes follows the number of interests that a candidate names.",
        {"candidates": typed(frame)},
        {"table_27": figure},
        {"candidates": Layout(("model",), (), ("n_interests", "tokens_in", "tokens_out", "gpu_hours"))},
        _POLICY,
    )


_POLICY = {
    "tokens": "of every attempt, over all sessions; a shared store's answers count in each run that used them",
    "seconds": "wall time; shared out over the stages by their requests' time where a manifest has it by phase only",
    "gpu_hours": "seconds times GPUs / 3600",
    "usd": "from the price table of served models",
}
