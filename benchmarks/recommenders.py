"""The steps of `gistbench qrels` at the size of MovieLens 32M: 200,948 users, 87,585 items, 32,000,204 ratings.

The ratings are generated: profile lengths are log-normal from 20 on, items have a long tail, nothing else is like the
real ones. Each case runs in a process of its own, so that its peak memory is its own, in a work folder that the cases
share. One JSON line per case: seconds, CPU seconds and peak memory of the process.

    split         `qrels split` from a Parquet file: read, split, statistics, written
    popularity    `qrels recommend --run popularity --no-trec`: lists of 100 for all users
    runs          31 generated runs of 100 items for all users, written (no recommender's work; not part of the product)
    evaluate      AP@100 and NDCG@100 of the 31 runs for all users
    pool          `qrels pool` for 500 users over the 31 runs

``GISTBENCH_BENCH_SCALE=0.1`` (or ``--scale 0.1``) takes a tenth of the users and ratings.

    python benchmarks/recommenders.py --scale 0.05
    python benchmarks/recommenders.py --fits 24     # no run: what each of the 31 would need at full size, as a table
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

# Beside this file lies `datasets.py`, a benchmark too, which must not stand for the library of that name.
sys.path[:] = [path for path in sys.path if Path(path or ".").resolve() != Path(__file__).resolve().parent]

N_USERS, N_ITEMS, N_RATINGS = 200_948, 87_585, 32_000_204
N_RUNS, DEPTH, N_SAMPLED = 31, 100, 500
CASES = ("split", "popularity", "runs", "evaluate", "pool")
_GIB = 1 << 30


def make_ratings(path: Path, scale: float) -> int:
    """Write generated ratings and return their number."""
    rng = np.random.default_rng(0)
    n_users, n_wanted = int(N_USERS * scale), int(N_RATINGS * scale)
    lengths = 20 + rng.lognormal(4, 1.2, n_users)
    lengths = np.minimum(lengths / lengths.sum() * n_wanted * 1.1, N_ITEMS // 4).astype(np.int64)
    cdf = np.cumsum(1 / (np.arange(1, N_ITEMS + 1) + 50.0))
    user = np.repeat(np.arange(n_users), lengths)
    item = np.searchsorted(cdf, rng.random(len(user)) * cdf[-1])
    pairs = np.unique(user * N_ITEMS + item)
    pairs = np.sort(rng.permutation(pairs)[:n_wanted])
    user, item = np.divmod(pairs, N_ITEMS)
    rating = rng.integers(1, 11, len(pairs)) / 2
    pq.write_table(pa.table({"user": user, "item": item, "rating": rating, "time": rng.random(len(pairs))}), path)
    return len(pairs)


def make_runs(folder: Path) -> None:
    """Write runs whose lists overlap: items near the head, by a stride that is the run's own."""
    from gistbench.runners.qrels.ratings import Ratings
    from gistbench.runners.qrels.recommend import recommend
    from gistbench.runners.qrels.runs import RunRecord, RunTable, write_run
    from gistbench.runners.qrels.work import Work
    from gistbench.runners.recommenders.registry import load_settings
    from gistbench.runners.runfolder import write_json

    work = Work(folder)
    recommend(work, settings=load_settings(names=["popularity"]), trec=False)
    record = work.record("recommend")
    ratings = Ratings.read(work)
    by_count = np.argsort(-ratings.count, kind="stable")
    ranks = np.arange(DEPTH)
    scores = np.broadcast_to(-ranks.astype(np.float32), (4096, DEPTH))
    runs = []
    for at in range(N_RUNS):
        table = RunTable(f"run{at:02d}", ratings.users, ratings.items)

        def blocks(table: RunTable = table, at: int = at) -> Iterator[pa.Table]:
            for low in range(0, len(ratings.evaluated), 4096):
                users = ratings.evaluated[low : low + 4096]
                first = (users * 7919 + at * 31) % 400
                items = by_count[first[:, None] + ranks * (1 + at % 5)]
                yield table.block(users, items, scores[: len(users)])

        one = RunRecord(f"run{at:02d}", f"run{at:02d}", True, {}, f"generated {at}", 0, 0, 0, 0.0, 0.0, {})
        runs.append(vars(write_run(work, one, blocks(), trec=False, seconds=lambda: (0.0, 0.0))))
    write_json(folder / "recommend.json", {**record, "runs": runs})


def run_case(case: str, folder: Path, scale: float) -> dict[str, object]:
    """Run one case in this process and return its figures."""
    from gistbench.runners.qrels.pool import pool
    from gistbench.runners.qrels.ratings import Ratings
    from gistbench.runners.qrels.recommend import recommend, systems
    from gistbench.runners.qrels.sample import sample
    from gistbench.runners.qrels.split import split
    from gistbench.runners.qrels.work import Work
    from gistbench.runners.recommenders.registry import load_settings

    work = Work(folder / "work")
    more: dict[str, object] = {}
    start, cpu = time.perf_counter(), time.process_time()
    if case == "split":
        more["n_ratings"] = split(work, str(folder / "ratings.parquet"))["statistics"]["n_ratings"]
    elif case == "popularity":
        done = recommend(work, settings=load_settings(names=["popularity"]), trec=False)
        more["n_rows"] = done["runs"][0]["n_rows"]
    elif case == "runs":
        make_runs(work.path)
    elif case == "evaluate":
        taken = min(N_SAMPLED, len(Ratings.read(work).evaluated) // 2)
        done = sample(work, sizes=(taken,), take=taken, n_repeats=1)
        more |= {"n_runs": len(systems(work)), "n_users": done["n_users"]}
    else:
        done = pool(work)
        more |= {"n_pairs": done["n_pairs"], "n_users": done["n_users"]}
    return {
        "case": case,
        "scale": scale,
        "seconds": round(time.perf_counter() - start, 1),
        "cpu_seconds": round(time.process_time() - cpu, 1),
        "peak_gib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / _GIB, 2),
        **more,
    }


def fits(gib: float) -> None:
    """Print what each of the 31 runs would need at full size, by its own estimate."""
    from gistbench.runners.qrels.recommend import _BLOCK_BYTES
    from gistbench.runners.recommenders.base import ItemLimited, Size
    from gistbench.runners.recommenders.registry import load_settings

    size = Size(N_USERS, N_ITEMS, int(0.8 * N_RATINGS))
    matrix = 12 * size.n_ratings + _BLOCK_BYTES
    print(f"| run | GiB | fits {gib:g} GiB | item cut-off that fits |\n|---|---|---|---|")
    for one in load_settings():
        needed = one.recommender.fit_bytes(size) + matrix
        offered = ""
        if needed > gib * _GIB and isinstance(one.recommender, ItemLimited):
            offered = f"{one.recommender.largest_fit(size, int(gib * _GIB) - matrix):,}"
        print(f"| {one.name} | {needed / _GIB:.1f} | {'yes' if needed <= gib * _GIB else 'no'} | {offered} |")


def main() -> None:
    """Run the cases, or one of them where a case is named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=float(os.environ.get("GISTBENCH_BENCH_SCALE", "1")))
    parser.add_argument("--case", choices=CASES)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--fits", type=float, metavar="GIB")
    options = parser.parse_args()
    if options.fits:
        fits(options.fits)
        return
    if options.case:
        print(json.dumps(run_case(options.case, options.folder, options.scale)), flush=True)
        return
    with tempfile.TemporaryDirectory() as name:
        folder = options.folder or Path(name)
        make_ratings(folder / "ratings.parquet", options.scale)
        for case in CASES:
            command = [sys.executable, __file__, "--case", case, "--folder", str(folder), "--scale", str(options.scale)]
            subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
