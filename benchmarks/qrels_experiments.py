"""Simulated judges in the experiments of paper B: is what was planted recovered?

    python benchmarks/qrels_experiments.py WORK --scratch FOLDER [--seeds 20] [--users 200]

WORK is a work folder with a split and, as far as they were made, runs (`gistbench qrels split`, `recommend`). A judge
sees the truth (ratings where there are some, a matrix factorisation elsewhere) through noise of a known size, and may
favour popular items. The same is done on a head-only catalogue, made of the 10 % most rated items of the same ratings,
with runs of its own. Prints Markdown tables: means over the seeds of the noise, with 95 % t-intervals of the mean, and
of paired differences. The popularity that a judge favours is an item's place among the judged pairs ("biases") or
among all items ("biases-items"). tau_truth: of the synthetic ranking by NDCG with that under a judge without error.
"""

import argparse
import shutil
import sys
import time
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv as pacsv
from gistbench.runners.qrels.pool import pool
from gistbench.runners.qrels.recommend import recommend
from gistbench.runners.qrels.sample import sample
from gistbench.runners.qrels.setting import Setting, score_setting
from gistbench.runners.qrels.simulate import SimulatedJudge, Truth, factorised_truth, head_only
from gistbench.runners.qrels.split import split
from gistbench.runners.qrels.work import Work
from gistbench.runners.recommenders.registry import load_settings
from scipy import stats

ERRORS = (0.0, 0.5, 1.0, 2.0, 4.0)
BIASES = (-2.0, -1.0, 0.0, 1.0, 2.0)
BIASED_ERROR = 1.0
PARTS = ("errors", "biases", "biases-items")
COLUMNS = (
    "mae",
    "tau_ap",
    "tau_ndcg",
    "tau_synthetic",
    "tau_augmented",
    "tau_truth",
    "delta_synthetic",
    "delta_augmented",
)


def main() -> None:
    """Make both folders, and report on each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path)
    parser.add_argument("--scratch", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--users", type=int, default=200)
    parser.add_argument("--part", choices=PARTS, action="append", help="may be repeated; all by default")
    asked = parser.parse_args()
    whole = Work(asked.scratch / "whole")
    if not whole.path.exists():
        shutil.copytree(asked.work, whole.path)
    head = Work(asked.scratch / "head")
    if not head.has("split"):
        head.path.mkdir(parents=True, exist_ok=True)
        kept = head_only(whole.read("ratings", ["user", "item", "rating", "time"]))
        pacsv.write_csv(kept, head.path / "ratings.csv")
        split(head, str(head.path / "ratings.csv"))
    for work in (whole, head):
        recommend(work, settings=load_settings(), trec=False)
    for name, work in (("whole catalogue", whole), ("head only", head)):
        sample(work, sizes=[asked.users], n_repeats=1, take=asked.users)
        pool(work)
        for part in asked.part or PARTS:
            report(f"{name}, {part}", work, range(asked.seeds), part)


def report(name: str, work: Work, seeds: range, part: str) -> None:
    """Print the numbers of every judge, and how they differ."""
    started = time.perf_counter()
    setting = Setting.read(work)
    held_out = setting.human.select(["user", "item"])
    pairs = pa.concat_tables([setting.pool.select(["user", "item"]), held_out]).group_by(["user", "item"]).aggregate([])
    among = "items" if part == "biases-items" else "pairs"
    truth = factorised_truth(work.read("ratings"), pairs, popularity_among=among)
    record = work.record("pool")
    print(
        f"\n### {name}: {record['n_users']} users, {record['n_pairs']:,} pooled pairs, "
        f"{100 * record['popularity']['pool']['share_head']:.0f} % of them of head items, "
        f"{len(setting.systems['algorithms'])} systems, {len(seeds)} seeds\n"
    )
    judges = {f"error {error:g}": SimulatedJudge(error=error) for error in ERRORS}
    if part != "errors":
        named = {"" if not bias else f", popularity {bias:+g}": bias for bias in BIASES}
        judges = {
            f"error {BIASED_ERROR:g}{name}": SimulatedJudge(error=BIASED_ERROR, popularity_bias=bias)
            for name, bias in named.items()
        }
    perfect = score_setting(setting, SimulatedJudge().grades(truth, 0), n_resamples=0)["per_system"]["ndcg_synthetic"]
    values = {
        one: np.array([numbers(setting, judge, truth, seed, perfect) for seed in seeds])
        for one, judge in judges.items()
    }
    print(table(values))
    print("\nPaired differences:\n")
    if part == "errors":
        differences = {f"{b} - {a}": values[b] - values[a] for a, b in pairwise(values)}
    else:
        unbiased = f"error {BIASED_ERROR:g}"
        differences = {f"{one} - {unbiased}": values[one] - values[unbiased] for one in values if one != unbiased}
    print(table(differences))
    sys.stderr.write(f"{name}: {time.perf_counter() - started:.0f} s\n")
    sys.stdout.flush()


def numbers(setting: Setting, judge: SimulatedJudge, truth: Truth, seed: int, perfect: list[float]) -> list[float]:
    """Return the numbers of one judge, in the order of `COLUMNS`."""
    found = score_setting(setting, judge.grades(truth, seed), n_resamples=0)
    rankings, coupling = found["rankings"], found["popularity"]
    return [
        found["agreement"]["mae"],
        rankings["matched"]["ap"]["tau"],
        rankings["matched"]["ndcg"]["tau"],
        rankings["synthetic"]["ndcg"]["tau"],
        rankings["augmented"]["ndcg"]["tau"],
        stats.kendalltau(perfect, found["per_system"]["ndcg_synthetic"]).statistic,
        coupling["synthetic"]["ndcg"]["delta_tau"],
        coupling["augmented"]["ndcg"]["delta_tau"],
    ]


def table(values: dict[str, np.ndarray]) -> str:
    """Return means over seeds with the half-widths of their intervals."""
    rows = []
    for name, drawn in values.items():
        mean, error = drawn.mean(axis=0), drawn.std(axis=0, ddof=1) / np.sqrt(len(drawn))
        half = stats.t.ppf(0.975, len(drawn) - 1) * error
        rows.append([name, *(f"{m:.3f} ± {h:.3f}" for m, h in zip(mean, half, strict=True))])
    frame = pd.DataFrame(rows, columns=["judge", *COLUMNS])
    lines = ["| " + " | ".join(frame.columns) + " |", "|---|" + "---:|" * len(COLUMNS)]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
