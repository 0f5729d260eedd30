"""Measure the data layer: making, building and loading `planted`, per-user access, rendering, and the ratings view.

Prints one JSON line per figure: what ours and a peer took for the same work in the same run, and the peak memory of
each. ``times_faster`` is things per second of ours over those of the peer; short work is the fastest of three repeats.
Each side of a figure runs in a process of its own, so that peaks are its own. What the figures of access compare:

- "load, every history": the copy that the build keeps is opened (memory-mapped: a text is read when somebody asks for
  it), indexed, and cut into every user's history; the peer reads the same rows from Parquet with pandas, groups them by
  user, and takes every group.
- "every history from Parquet": the same, but ours reads the peer's Parquet files too. Both spend their time in Arrow's
  decoder, so the ratio is near 1; what sorted files save is memory, as a row group at a time is enough.

Rendering by the peer, which is slow, is measured on some users and compared by prompts per second. The default is a
tenth of the published size; ``--full`` (or GISTBENCH_BENCH_FULL=1) is the size of the paper's synthetic split (1,000
users, 4.2 M engagements with texts as long as captions, prompts of 100) and of MovieLens 32M (200,948 users, 87,585
items, 32 M ratings).

    python benchmarks/dataset_builders.py [--full] [--only planted|ratings]
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

# This file is called like the library that it measures: its folder must not come first.
sys.path = [path for path in sys.path if Path(path or ".").resolve() != Path(__file__).resolve().parent]

import numpy as np  # noqa: E402
import pyarrow as pa  # noqa: E402

MIB = 1 << 20
FULL = {"users": 1000, "engagements": 4214, "raters": 200_948, "items": 87_585, "ratings": 32_000_204}
TENTH = {"users": 500, "engagements": 840, "raters": 20_094, "items": 8_758, "ratings": 3_200_020}
PEER_USERS = 10
"""Users that the naive renderer is measured on."""


def planted_parameters(size: dict[str, int]) -> dict[str, Any]:
    """Return the parameters of `planted` at a size."""
    return {"n_users": size["users"], "n_engagements_per_user": size["engagements"], "n_sentences_per_text": 2}


# Each task is one side of one figure; it returns how many things it made, and seconds where not all of it counts.


def generate(size: dict[str, int], folder: Path) -> Any:
    """Make the rows, and let them go."""
    from gistbench.hf_datasets import load_taxonomy
    from gistbench.hf_datasets.planting import Planting, PlantingParameters

    planting = Planting(PlantingParameters(**planted_parameters(size)), load_taxonomy("open"))
    return sum(table.num_rows for table in planting.engagement_tables())


def build(size: dict[str, int], folder: Path) -> Any:
    """Make the rows and write them to Parquet, through the builder."""
    from gistbench.hf_datasets.builder import build_report, prepare
    from gistbench.hf_datasets.planted import Planted

    builder = prepare(
        Planted,
        "planted",
        cache_dir=folder / "cache",
        parameters=planted_parameters(size),
        output_dir=str(folder / "built"),
        file_format="parquet",
    )
    return build_report(builder).n_rows


def build_row_by_row(size: dict[str, int], folder: Path) -> Any:
    """The peer: the rows as a generator of dicts, which `datasets` writes; made beforehand, on a tenth of the users."""
    import datasets
    from gistbench.hf_datasets.builder import FEATURES

    table = next(iter(_planting({**size, "users": max(1, size["users"] // 10)})))
    rows = table.to_pylist()
    datasets.disable_progress_bars()
    start = time.perf_counter()
    built = datasets.Dataset.from_generator(
        lambda: iter(rows), features=FEATURES, cache_dir=str(folder / "peer"), fingerprint="peer"
    )
    built.to_parquet(str(folder / "peer.parquet"))
    return len(rows), time.perf_counter() - start


def _planting(size: dict[str, int]) -> Any:
    from gistbench.hf_datasets import load_taxonomy
    from gistbench.hf_datasets.planting import Planting, PlantingParameters

    return Planting(PlantingParameters(**planted_parameters(size)), load_taxonomy("open")).engagement_tables()


def prepare_cache(size: dict[str, int], folder: Path) -> Any:
    """Build the copy in the cache of `datasets`; not timed."""
    return _cached(size, folder).num_rows


def load(size: dict[str, int], folder: Path) -> Any:
    """Load the copy in the cache of `datasets`, as a second run does; imports are not timed."""
    from gistbench.hf_datasets import builder, planted  # noqa: F401

    return best(lambda: _cached(size, folder).num_rows)


def load_pandas(size: dict[str, int], folder: Path) -> Any:
    """Read the same rows with pandas."""
    import pandas as pd

    return best(lambda: sum(len(pd.read_parquet(path)) for path in _built(folder)))


def access(size: dict[str, int], folder: Path) -> Any:
    """Load the cached copy, index it, and take every user's history as Arrow slices."""
    from gistbench.hf_datasets import builder, planted  # noqa: F401

    return best(lambda: _histories(_cached(size, folder)))


def access_parquet(size: dict[str, int], folder: Path) -> Any:
    """Take every history from the same Parquet files as the peer, a row group at a time: they are sorted by user."""
    import pyarrow.parquet as pq
    from gistbench.hf_datasets.schema import user_slices

    def streamed() -> int:
        n_rows = 0
        unfinished = []
        for path in _built(folder):
            file = pq.ParquetFile(path)
            for group in range(file.num_row_groups):
                table = pa.concat_tables([*unfinished, file.read_row_group(group)])
                *whole, last = user_slices(table).values()
                n_rows += sum(table.slice(part.start, part.stop - part.start).num_rows for part in whole)
                unfinished = [table.slice(last.start)]  # goes on in the next group
        return n_rows + sum(table.num_rows for table in unfinished)

    return best(streamed)


def _histories(table: pa.Table) -> int:
    from gistbench.hf_datasets.schema import user_slices

    return sum(table.slice(part.start, part.stop - part.start).num_rows for part in user_slices(table).values())


def access_pandas(size: dict[str, int], folder: Path) -> Any:
    """Read the same rows with pandas, and take every group."""
    import pandas as pd

    def grouped() -> int:
        frame = pd.concat([pd.read_parquet(path) for path in _built(folder)])
        return sum(len(group) for _, group in frame.groupby("user_id"))

    return best(grouped)


def best(work: Callable[[], int], repeats: int = 3) -> tuple[int, float]:
    """Return what the work returns and the least seconds that it took."""
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        n = work()
        seconds.append(time.perf_counter() - start)
    return n, min(seconds)


def lookup(size: dict[str, int], folder: Path) -> Any:
    """One user's history from the indexed table, which stays on disk."""
    from gistbench.hf_datasets.schema import user_slices

    table = _cached(size, folder)
    slices = user_slices(table)
    start = time.perf_counter()
    for part in slices.values():
        table.slice(part.start, part.stop - part.start)
    return len(slices), time.perf_counter() - start


def lookup_pandas(size: dict[str, int], folder: Path) -> Any:
    """Filter some users' rows."""
    import pandas as pd

    frame = pd.concat([pd.read_parquet(path) for path in _built(folder)])
    users = frame["user_id"].unique()[:PEER_USERS]
    start = time.perf_counter()
    for user in users:
        frame[frame["user_id"] == user]
    return len(users), time.perf_counter() - start


def _cached(size: dict[str, int], folder: Path) -> pa.Table:
    from gistbench.hf_datasets import load_engagements

    return load_engagements("planted", cache_dir=folder / "cache", **planted_parameters(size))


def render(size: dict[str, int], folder: Path) -> Any:
    """Render every extraction prompt of 100 engagements from the table, indexing included."""
    table = _cached(size, folder)
    start = time.perf_counter()
    stage = _extract(table)
    n = characters = 0
    for subject in stage.subjects():
        characters += len(_text(stage.request(subject)))
        n += 1
    return n, time.perf_counter() - start


def render_pandas(size: dict[str, int], folder: Path) -> Any:
    """The peer: each user's rows filtered and sorted in pandas, each chunk rendered row by row; the same prompts."""
    import pandas as pd
    from gistbench.runners.prompts import clean, identifier, load_prompt, render_lines

    frame = pd.concat([pd.read_parquet(path) for path in _built(folder)])
    signals = tuple(_types())
    prompt = load_prompt("extract")
    users = frame["user_id"].unique()[:PEER_USERS]
    rendered = []
    start = time.perf_counter()
    for user in users:
        rows: pd.DataFrame = frame[frame["user_id"] == user]
        rows = rows.sort_values("interaction_time", ascending=False, kind="stable")
        for first in range(0, len(rows), 100):
            chunk = rows.iloc[first : first + 100]
            lines = render_lines(
                (identifier(row["object_id"]), row["interaction_type"], clean(row["object_text"], None))
                for _, row in chunk.iterrows()
            )
            rendered.append(prompt.render(signals=signals, items=lines))
    seconds = time.perf_counter() - start
    table = _cached(size, folder)
    stage = _extract(table.filter(pa.compute.is_in(table["user_id"], value_set=pa.array(users, pa.string()))))
    ours = [stage.request(subject).messages for subject in stage.subjects()]
    if list(map(repr, ours)) != list(map(repr, rendered)):
        raise SystemExit("the peer's prompts differ from ours")
    return len(rendered), seconds


def _types() -> tuple[str, ...]:
    from gistbench.hf_datasets import INTERACTION_TYPES

    return INTERACTION_TYPES


def _extract(table: pa.Table) -> Any:
    from gistbench.runners.engines import parse_model
    from gistbench.runners.histories import Histories
    from gistbench.runners.requests import ModelRef
    from gistbench.runners.stages.base import Asker
    from gistbench.runners.stages.extract import Extract

    histories = Histories(table, signals=_types(), max_item_chars=None)
    asker = Asker.of("extract", ModelRef("lexical/hashtag", "1", "lexical/1"), parse_model("lexical/hashtag"))
    return Extract(asker, histories)


def _text(request: Any) -> str:
    return "".join(content for _, content in request.messages)


def _built(folder: Path) -> list[Path]:
    return sorted((folder / "built").glob("*.parquet"))


def make_ratings(size: dict[str, int], folder: Path) -> Any:
    """Write a ratings.csv of MovieLens' shape: users in order, long-tailed, items by popularity; not timed."""
    import pyarrow.csv as pa_csv

    source = folder / "ml"
    source.mkdir(exist_ok=True)
    (source / "movies.csv").write_text("movieId,title,genres\n")
    rng = np.random.default_rng(0)
    weights = rng.lognormal(0, 1.2, size["raters"])
    counts = np.maximum(20, weights / weights.sum() * size["ratings"] * 0.995).astype(np.int64)
    counts = np.minimum(counts, size["items"] // 2)
    ends = np.cumsum(counts)
    schema = pa.schema(
        [("userId", pa.int64()), ("movieId", pa.int64()), ("rating", pa.float64()), ("timestamp", pa.int64())]
    )
    with pa_csv.CSVWriter(source / "ratings.csv", schema) as writer:
        for start in range(0, size["raters"], 20_000):
            part = counts[start : start + 20_000]
            users = np.repeat(np.arange(start + 1, start + 1 + len(part)), part)
            # A stride that is coprime to the number of items: no user rates one twice, and popular ones come often.
            places = np.arange(len(users)) - np.repeat(np.cumsum(part) - part, part)
            first = np.repeat(rng.integers(0, size["items"], len(part)), part)
            items = (first + places * 7919) % size["items"] + 1
            columns = [users, items, rng.integers(1, 11, len(users)) / 2, rng.integers(8e8, 17e8, len(users))]
            writer.write_table(pa.table([pa.array(column) for column in columns], schema=schema))
    return int(ends[-1])


def ratings(size: dict[str, int], folder: Path) -> Any:
    """Build the ratings view from the csv."""
    from gistbench.hf_datasets.builder import build_report, prepare
    from gistbench.hf_datasets.movielens_ratings import MovieLensRatings

    builder = prepare(
        MovieLensRatings,
        "movielens_ratings",
        source=folder / "ml",
        cache_dir=folder / "cache",
        output_dir=str(folder / "ratings"),
        file_format="parquet",
    )
    return build_report(builder).n_rows


def ratings_pandas(size: dict[str, int], folder: Path) -> Any:
    """The peer: read, shuffle by a seeded draw, take a fifth of each user, sort, write."""
    import pandas as pd

    frame = pd.read_csv(folder / "ml" / "ratings.csv", dtype={"userId": "str", "movieId": "str"})
    drawn = np.random.default_rng(0).random(len(frame))
    rank = pd.Series(drawn).groupby(frame["userId"]).rank(method="first")
    n_test = (0.2 * frame.groupby("userId")["movieId"].transform("size") + 0.5).astype(int)
    frame["split"] = np.where(rank <= n_test, "test", "train")
    frame = frame.sort_values(["userId", "timestamp"], ascending=[True, False], kind="stable")
    frame.to_parquet(folder / "peer.parquet")
    return len(frame)


TASKS: dict[str, Callable[[dict[str, int], Path], Any]] = {
    task.__name__: task
    for task in (
        generate, build, build_row_by_row, prepare_cache, load, load_pandas, access, access_parquet,
        access_pandas, lookup, lookup_pandas, render, render_pandas, make_ratings, ratings, ratings_pandas,
    )
}  # fmt: skip


def run_task(name: str, size: dict[str, int], folder: Path) -> None:
    """Run one task in this process and print what it took."""
    start = time.perf_counter()
    done = TASKS[name](size, folder)
    n, seconds = done if isinstance(done, tuple) else (done, time.perf_counter() - start)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"n": n, "seconds": seconds, "peak_mib": round(peak / MIB)}))


def measured(name: str, size: dict[str, int], folder: Path) -> dict[str, Any]:
    """Run one task in a process of its own."""
    command = [sys.executable, __file__, "--task", name, "--size", json.dumps(size), "--folder", str(folder)]
    environment = {**os.environ, "HF_DATASETS_CACHE": str(folder / "cache"), "TMPDIR": str(folder)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode:
        raise SystemExit(f"{name} failed:\n{done.stderr[-3000:]}")
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def figure(name: str, unit: str, ours: dict[str, Any], peer: dict[str, Any], peer_is: str) -> None:
    """Print one figure."""
    speed, peer_speed = ours["n"] / ours["seconds"], peer["n"] / peer["seconds"]
    print(
        json.dumps(
            {
                "figure": name,
                f"n_{unit}": ours["n"],
                "seconds": round(ours["seconds"], 4),
                f"{unit}_per_second": round(speed),
                "peak_mib": ours["peak_mib"],
                "peer": peer_is,
                f"peer_n_{unit}": peer["n"],
                "peer_seconds": round(peer["seconds"], 4),
                "peer_peak_mib": peer["peak_mib"],
                "times_faster": round(speed / peer_speed, 2),
            }
        ),
        flush=True,
    )


def main() -> None:
    """Measure all figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true", default=bool(os.environ.get("GISTBENCH_BENCH_FULL")))
    parser.add_argument("--only", choices=("planted", "ratings"))
    parser.add_argument("--task", choices=TASKS, help=argparse.SUPPRESS)
    parser.add_argument("--size", type=json.loads, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.task:
        return run_task(arguments.task, arguments.size, arguments.folder)
    size = FULL if arguments.full else TENTH
    folder = Path(tempfile.mkdtemp(prefix="gistbench-benchmark-"))
    try:
        if arguments.only != "ratings":
            row_by_row = measured("build_row_by_row", size, folder)
            figure("planted: generate", "rows", measured("generate", size, folder), row_by_row, "rows as dicts")
            figure("planted: generate and build to Parquet", "rows", measured("build", size, folder), row_by_row,
                   "datasets.Dataset.from_generator, rows made beforehand")  # fmt: skip
            measured("prepare_cache", size, folder)
            # fmt: off
            for name, unit, ours, peer, peer_is in (
                ("planted: load", "rows", "load", "load_pandas", "pandas.read_parquet"),
                ("planted: load, every history", "rows", "access", "access_pandas", "pandas: read Parquet, group"),
                ("planted: every history from Parquet", "rows", "access_parquet", "access_pandas",
                 "pandas: read Parquet, group"),
                ("planted: one history", "histories", "lookup", "lookup_pandas", "pandas: filter"),
                ("planted: render extraction prompts", "prompts", "render", "render_pandas", "pandas: filter, sort"),
            ):
                figure(name, unit, measured(ours, size, folder), measured(peer, size, folder), peer_is)
        if arguments.only != "planted":
            measured("make_ratings", size, folder)
            figure("ratings: read, split, sort, write", "rows", measured("ratings", size, folder),
                   measured("ratings_pandas", size, folder), "pandas, all in memory")  # fmt: skip
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
