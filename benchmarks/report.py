"""How long the report takes: every analysis of generated run folders and the written report, and how much memory.

    python benchmarks/report.py                       # 8 models x 1,000 users x 60 interests
    python benchmarks/report.py --models 3 --users 50 --keep runs/generated

Prints one JSON line for each analysis, one for writing pages, tables and figures, then one for the whole. Run folders
are generated and scored first, which is not measured; analyses that need files besides (a survey, labels of people,
scores from elsewhere) get generated ones.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet as pq

N_ITEMS = 6  # cited for each interest
N_SHOWN = 50
STAGES = ("ground", "shortlist", "retrieve", "map")


def generate(folder: Path, n_models: int, n_users: int, n_interests: int, seed: int = 0) -> None:
    """Write a suite of generated records, and score it."""
    from gistbench.hf_datasets import INTERACTION_TYPES, load_taxonomy
    from gistbench.runners.config import RunConfig
    from gistbench.runners.runfolder import RunFolder, write_json
    from gistbench.runners.suite import Suite

    taxonomy = load_taxonomy("open")
    record = {"name": taxonomy.name, "sha256": taxonomy.sha256}
    names = [f"org/model-{k}" for k in range(n_models)]
    n = n_users * n_interests
    user = np.repeat(np.arange(n_users), n_interests)
    users = pa.array([f"u{k:05d}" for k in range(n_users)])
    for place, name in enumerate(names):
        rng = np.random.default_rng([seed, place])
        skill = 0.75 - 0.06 * place
        category = np.minimum(rng.zipf(1.3, n) - 1, len(taxonomy) - 1)
        texts = pa.array(
            [f"interest {c} of kind {k} by {place}" for c, k in zip(category, np.arange(n) % 37, strict=True)]
        )
        users_column = users.take(pa.array(user))
        # An interest's name once per user, as merged extractions have it.
        own = pa.array(np.arange(n).astype(str))
        interests = pa.compute.binary_join_element_wise(texts, pa.compute.utf8_slice_codeunits(own, -2), " ")
        keep = first_of_each(user, interests)
        user_kept, category_kept = user[keep], category[keep]
        interests, users_column = interests.take(pa.array(keep)), users_column.take(pa.array(keep))
        m = len(keep)
        numbers = user_kept[:, None] * 500 + rng.integers(0, 500, (m, N_ITEMS))
        items = np.char.add("o", numbers.astype(str))
        flat = pa.array(items.ravel())
        ids = fixed_lists(flat, N_ITEMS)
        kept_mask = rng.random((m, N_ITEMS)) < 0.6 + 0.3 * skill
        kept = masked_lists(items, kept_mask)
        kinds = pa.array(np.array(INTERACTION_TYPES[:3])[rng.choice(3, m * N_ITEMS, p=[0.25, 0.6, 0.15])])
        evidence = pa.table(
            {
                "user_id": users.take(pa.array(np.repeat(user_kept, N_ITEMS))),
                "object_id": flat,
                "object_text": pa.array(["a text"] * (m * N_ITEMS)),
                "interaction_type": kinds,
            }
        )
        backing = masked_lists(items, np.arange(N_ITEMS)[None] < 5)
        shown = fixed_lists(pa.array(np.char.add("p", rng.integers(0, 1000, m * 10).astype(str))), 10)
        picked = masked_lists(items, (np.arange(N_ITEMS)[None] < 5) & (rng.random((m, N_ITEMS)) < skill))
        keys = {"request_keys": pa.array([[]] * m, pa.list_(pa.string()))}
        text = {"user_id": users_column, "interest": interests}
        ok = pa.array(["ok"] * m)
        unique, first = np.unique(np.array(interests.to_pylist()), return_index=True)
        tables = {
            "users": pa.table(
                {
                    "user_id": users,
                    **{c: pa.array([1000] * n_users) for c in ("n_engagements", "n_chunks", "n_chunks_answered")},
                    "scored": pa.array([True] * n_users),
                }
            ),
            "extractions": pa.table({**text, "item_ids": ids, **keys}),
            "evidence": evidence,
            "groundings": pa.table({**text, "shown_item_ids": ids, "relevant_item_ids": kept, "status": ok, **keys}),
            "retrievals": pa.table(
                {
                    **text,
                    "backing_item_ids": backing,
                    "shown_item_ids": shown,
                    "selected_item_ids": picked,
                    "few_distractors": pa.array([False] * m),
                    "status": ok,
                    **keys,
                }
            ),
            "mappings": pa.table(
                {
                    "interest": pa.array(unique.tolist()),
                    "category_id": pa.array(np.array(taxonomy.ids)[category_kept[first]]),
                    "status": pa.array(["ok"] * len(unique)),
                    "request_keys": pa.array([[]] * len(unique), pa.list_(pa.string())),
                }
            ),
        }
        RunFolder(folder / name.replace("/", "--")).write(tables, manifest(name, record))
    config = RunConfig(candidates=tuple(names), judge="lexical/overlap")
    recorded = {"format": 1, "config": config.model_dump(mode="json"), "identity": {}, "judge": None}
    write_json(folder / "config.json", {**recorded, "runs": [name.replace("/", "--") for name in names]})
    Suite.open(folder).score()


def first_of_each(user: "np.ndarray[Any, Any]", interests: pa.Array) -> "np.ndarray[Any, Any]":
    """Return the first place of each (user, interest), in order."""
    codes = interests.dictionary_encode().indices.to_numpy()
    _, first = np.unique(user.astype(np.int64) * (codes.max() + 1) + codes, return_index=True)
    return np.sort(first)


def fixed_lists(values: pa.Array, size: int) -> pa.Array:
    """Return values as lists of one size."""
    offsets = np.arange(0, len(values) + 1, size, dtype=np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), values)


def masked_lists(items: "np.ndarray[Any, Any]", mask: "np.ndarray[Any, Any]") -> pa.Array:
    """Return the items of each row where the mask holds."""
    mask = np.broadcast_to(mask, items.shape)
    offsets = np.concatenate([[0], np.cumsum(mask.sum(axis=1))]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(items[mask]))


def manifest(name: str, taxonomy: dict[str, str]) -> dict[str, Any]:
    """Return a judged run's manifest."""
    outcomes = {"ok": 1000, "truncated": 0, "invalid": 0, "refused": 0, "error": 0}
    account = {"n_requests": 1000, "n_attempts": 1000, "unusable_share": 0.0, "outcomes": outcomes, "engines": []}
    account |= {f"n_{what}_tokens": 100_000 for what in ("prompt", "cached", "output", "reasoning")}
    account |= {"request_seconds": 10.0}
    model = {"name": name, "revision": "1", "profile": "p", "sampling": {}, "structured": None}
    asked = {"chunk_size": 100, "history_length": None, "max_item_chars": 500}
    extract = {"model": model, "stages": {"extract": account}, "wall_seconds": 10.0, **asked}
    judging = {"model": {**model, "name": "org/judge"}, "stages": dict.fromkeys(STAGES, account), "wall_seconds": 40.0}
    signals = ["explicit_positive", "implicit_positive", "implicit_negative"]
    data = {"dataset": "demo", "sha256": "d", "users_sha256": "u", "signals": signals, "taxonomy": taxonomy}
    return {
        "data": data,
        "candidate": {"name": name, "revision": "1", "profile": "p"},
        "phases": {"extract": extract, "judge": {**judging, "taxonomy": taxonomy}},
    }


def write_files(folder: Path, n_models: int, n_users: int, seed: int = 0) -> dict[str, Path]:
    """Write a survey and scores from elsewhere, and return them by the name of their option."""
    rng = np.random.default_rng(seed)
    survey = [f"u{k:05d},{c}" for k in range(n_users) for c in rng.choice(np.arange(1, 60), 6, replace=False)]
    (folder / "survey.csv").write_text("\n".join(["user_id,category_id", *survey]) + "\n")
    elo = [f"org/model-{k},{1400 - 10 * k}" for k in range(n_models)]
    (folder / "external.csv").write_text("\n".join(["model,elo", *elo]) + "\n")
    labels = []
    for task, table, column in (
        ("relevance", "groundings", "shown_item_ids"),
        ("association", "retrievals", "shown_item_ids"),
    ):
        records = pq.read_table(folder / "suite" / "org--model-0" / f"{table}.parquet").slice(0, 500).to_pylist()
        for record in records:
            place = f"{record['user_id']},{record['interest']},{record[column][0]}"
            labels += [f"{task},a{a},{int(rng.random() < 0.8)},{place}" for a in range(4)]
    header = "task,annotator,label,user_id,interest,object_id"
    (folder / "annotations.csv").write_text("\n".join([header, *labels]) + "\n")
    return {name: folder / f"{name}.csv" for name in ("survey", "external", "annotations")}


def measure(folder: Path, files: dict[str, Path]) -> None:
    """Compute every analysis and write the report, and print what each takes."""
    begin = time.perf_counter()
    from gistbench.runners.report import Options, Runs, analysis_ids, run_analyses
    from gistbench.runners.report.build import Report, versions_of

    runs, options = Runs.open([folder]), Options(**files, compared_data=("demo", "demo"))
    from gistbench.runners.score import load_metric

    load_metric("ig"), load_metric("is"), load_metric("survey")
    took, cpu = round(time.perf_counter() - begin, 2), round(time.process_time(), 2)
    print(json.dumps({"what": "import and open", "seconds": took, "seconds_cpu": cpu}), flush=True)
    analyses = []
    for id in analysis_ids():
        start, start_cpu = time.perf_counter(), time.process_time()
        (found,) = run_analyses(runs, [id], options)
        analyses.append(found)
        rows = {name: len(table) for name, table in found.tables.items()}
        took = round(time.perf_counter() - start, 2)
        cpu = round(time.process_time() - start_cpu, 2)
        line = {"what": id, "seconds": took, "seconds_cpu": cpu, "rows": rows, "missing": found.missing}
        print(json.dumps(line), flush=True)
    start, start_cpu = time.perf_counter(), time.process_time()
    report = Report(tuple(analyses), versions_of(runs))
    with tempfile.TemporaryDirectory() as out:
        report.write(Path(out) / "report")
        n_files = sum(path.is_file() for path in Path(out).rglob("*"))
    took, cpu = round(time.perf_counter() - start, 2), round(time.process_time() - start_cpu, 2)
    line = {"what": "write", "seconds": took, "seconds_cpu": cpu, "figures": len(report.drawings), "files": n_files}
    print(json.dumps(line), flush=True)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    total = round(time.perf_counter() - begin, 2)
    # The wall clock counts what other processes take too.
    cpu = round(time.process_time(), 2)
    line = {"what": "whole report", "seconds": total, "seconds_cpu": cpu, "peak_mib": round(peak)}
    print(json.dumps(line), flush=True)


def main() -> None:
    """Generate, then measure in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=int, default=8)
    parser.add_argument("--users", type=int, default=1000)
    parser.add_argument("--interests", type=int, default=60)
    parser.add_argument("--keep", type=Path, help="generate here, and measure what is here already")
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--generate", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        names = ("survey", "external", "annotations")
        measure(given.measure, {name: given.measure.parent / f"{name}.csv" for name in names})
        return
    if given.generate:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            generate(given.generate, given.models, given.users, given.interests)
        write_files(given.generate.parent, given.models, given.users)
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = (given.keep or Path(temporary)) / "suite"
        if not (folder / "suite.json").exists():
            folder.mkdir(parents=True, exist_ok=True)
            # In a process of its own, whose memory does not count.
            sizes = [f"--{name}={getattr(given, name)}" for name in ("models", "users", "interests")]
            subprocess.run([sys.executable, __file__, *sizes, "--generate", str(folder)], check=True)
        print(json.dumps({"models": given.models, "users": given.users, "interests": given.interests}), flush=True)
        subprocess.run([sys.executable, __file__, "--measure", str(folder)], check=True)


if __name__ == "__main__":
    main()
