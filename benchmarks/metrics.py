"""AP and NDCG of many runs: `gistbench/qrels_expansion` from tables of ids, against pytrec_eval on ready-made dicts.

The peer is `pytrec_eval-terrier` (trec_eval's C code), timed without the reading and grouping of its input; ours starts
from a table as it comes from a file. Both compute AP and NDCG at the lists' depth, of the same lists, in the same
process; the benchmark fails if they differ by more than 1e-9 on the first system (pytrec_eval holds scores as float32).
One JSON line per figure. Each case runs in a process of its own, so that its peak memory is its own; `MB` is what
computing adds to the table. ``GISTBENCH_BENCH_SCALE=0.1`` (or ``--scale 0.1``) takes a tenth of the users.

    python benchmarks/metrics.py                              # about 2 minutes
    python benchmarks/metrics.py --case 31x500 --everything   # with bounds, pools and intervals
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

# Beside this file lies `datasets.py`, a benchmark too, which must not stand for the library of that name.
sys.path[:] = [path for path in sys.path if Path(path or ".").resolve() != Path(__file__).resolve().parent]

CASES = {"31x500": (31, 500), "10x10000": (10, 10_000), "31x10000": (31, 10_000)}
DEPTH = 100
N_ITEMS = 10_000
N_JUDGED = 30
"""Judged items per user."""


def make_tables(n_systems: int, n_users: int) -> tuple[dict[str, pa.Table], pa.Table]:
    """Return the runs with ids as strings, dictionaries and integers, and the human judgements."""
    rng = np.random.default_rng(0)
    lists = n_systems * n_users
    # Distinct items per list: a stride, coprime with their number, from about where the user's taste is. The lists of
    # a user overlap, so that 31 of them pool about 600 items.
    taste = np.tile((N_ITEMS * rng.random(n_users) ** 2).astype(np.int64), n_systems)
    start = taste + rng.integers(0, 200, lists)
    stride = rng.choice(np.array([1, 3, 7]), lists)
    item = ((start[:, None] + stride[:, None] * np.arange(DEPTH)) % N_ITEMS).astype(np.int32).ravel()
    system = np.repeat(np.arange(n_systems, dtype=np.int32), n_users * DEPTH)
    user = np.tile(np.repeat(np.arange(n_users, dtype=np.int32), DEPTH), n_systems)
    score = pa.array((np.sort(rng.random((lists, DEPTH)), axis=1)[:, ::-1]).ravel())
    names = {
        "system": pa.array([f"run{i}" for i in range(n_systems)]),
        "user": pa.array([f"u{i}" for i in range(n_users)]),
        "item": pa.array([f"item{i}" for i in range(N_ITEMS)]),
    }
    codes = {"system": system, "user": user, "item": item}
    encoded = {name: pa.DictionaryArray.from_arrays(pa.array(codes[name]), names[name]) for name in codes}
    forms = {
        "strings": pa.table({**{name: column.dictionary_decode() for name, column in encoded.items()}, "score": score}),
        "dictionary": pa.table({**encoded, "score": score}),
        "integers": pa.table({**{name: pa.array(values) for name, values in codes.items()}, "score": score}),
    }
    judged = np.stack([rng.choice(N_ITEMS // 4, N_JUDGED, replace=False) for _ in range(n_users)]).ravel()
    rating = rng.integers(0, 6, len(judged))
    qrels = pa.table(
        {
            "user": names["user"].take(pa.array(np.repeat(np.arange(n_users), N_JUDGED))),
            "item": names["item"].take(pa.array(judged)),
            "rating": pa.array(rating),
        }
    )
    return forms, qrels


def _with_integers(qrels: pa.Table) -> pa.Table:
    number = {
        name: [int(text.lstrip("item").lstrip("u")) for text in qrels[name].to_pylist()] for name in ("user", "item")
    }
    return pa.table({**number, "rating": qrels["rating"]})


def _peer(runs: pa.Table, qrels: pa.Table, n_systems: int, n_users: int) -> tuple[float, dict[str, float]]:
    """Time pytrec_eval run by run, so that only one run's dicts are held at a time."""
    import pytrec_eval

    by_user: dict[str, dict[str, int]] = {}
    for user, item, rating in zip(*(qrels[name].to_pylist() for name in qrels.column_names), strict=True):
        by_user.setdefault(user, {})[item] = rating
    # trec_eval's AP knows one threshold for relevance, so AP and NDCG come from two evaluators: only one is timed.
    both = pytrec_eval.RelevanceEvaluator(by_user, {f"map_cut.{DEPTH}", f"ndcg_cut.{DEPTH}"}, relevance_level=4)
    seconds, first = 0.0, {}
    rows = n_users * DEPTH
    for system in range(n_systems):
        part = runs.slice(system * rows, rows)
        users, items, scores = (part[name].to_pylist() for name in ("user", "item", "score"))
        run: dict[str, dict[str, float]] = {}
        for at in range(0, rows, DEPTH):
            run[users[at]] = dict(zip(items[at : at + DEPTH], scores[at : at + DEPTH], strict=True))
        start = time.perf_counter()
        found = both.evaluate(run)
        seconds += time.perf_counter() - start
        if system == 0:
            for name, metric in (("ap", f"map_cut_{DEPTH}"), ("ndcg", f"ndcg_cut_{DEPTH}")):
                first[name] = sum(of_user[metric] for of_user in found.values()) / len(by_user)
    return seconds, first


def _best(call: Callable[[], Any], repeats: int) -> tuple[float, Any]:
    seconds, result = [], None
    for _ in range(repeats):
        start = time.perf_counter()
        result = call()
        seconds.append(time.perf_counter() - start)
    return min(seconds), result


def _added_mb(call: Callable[[], Any]) -> int | None:
    """Return by how much a call raises the memory of this process at its peak; None where the system does not say."""
    try:
        Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew from here
    except OSError:
        return None
    before = _status_kb("VmRSS")
    call()
    return round((_status_kb("VmHWM") - before) / 1024)


def _status_kb(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))


def run_case(name: str, scale: float, repeats: int, everything: bool) -> int:
    """Run one case and print its figures; return 1 if the results differ."""
    import evaluate

    module = evaluate.load(str(Path(__file__).resolve().parents[1] / "metrics" / "qrels_expansion"))
    n_systems, n_users = CASES[name][0], max(10, round(CASES[name][1] * scale))
    forms, qrels = make_tables(n_systems, n_users)
    size = {"systems": n_systems, "users": n_users, "items_per_list": DEPTH}
    ours: dict[str, tuple[float, Any]] = {}
    added: dict[str, int | None] = {}
    for form in ("dictionary", "integers", "strings"):
        human = _with_integers(qrels) if form == "integers" else qrels
        call = {"runs": forms[form], "human_qrels": human, "parts": [], "n_resamples": 0}
        added[form] = _added_mb(lambda call=call: module.compute(**call))
        ours[form] = _best(lambda call=call: module.compute(**call), repeats)
    seconds_peer, peer = _peer(forms["strings"], qrels, n_systems, n_users)
    all_equal = True
    for form, (seconds, result) in ours.items():
        table = result["per_system"]
        first = table["system"].index("0" if form == "integers" else "run0")
        equal = all(abs(table[f"{metric}_human"][first] - peer[metric]) < 1e-9 for metric in ("ap", "ndcg"))
        all_equal &= equal
        line = {
            "figure": f"ap_ndcg_{name}_{form}",
            **size,
            "seconds_ours": round(seconds, 3),
            "seconds_peer": round(seconds_peer, 3),
            "ratio": round(seconds_peer / seconds, 1),
            "mb_added_at_peak": added[form],
            "mb_table": round(forms[form].nbytes / 2**20),
            "equal": equal,
        }
        print(json.dumps(line), flush=True)
    if everything:
        rng = np.random.default_rng(1)
        pairs = forms["strings"].select(["user", "item"]).group_by(["user", "item"]).aggregate([])
        llm = pairs.append_column("rating", pa.array(rng.integers(0, 6, pairs.num_rows)))
        popularity = {"item": [f"item{i}" for i in range(N_ITEMS)], "count": rng.integers(0, 999, N_ITEMS)}
        call = {"runs": forms["dictionary"], "human_qrels": qrels, "llm_qrels": llm, "popularity": popularity}
        plain, _ = _best(lambda: module.compute(**call, n_resamples=0), 1)
        full, result = _best(lambda: module.compute(**call), 1)
        line = {
            "figure": f"everything_{name}",
            **size,
            "judged_pairs": result["counts"]["n_llm"],
            "seconds": round(full, 2),
            "seconds_of_intervals": round(full - plain, 2),
        }
        print(json.dumps(line), flush=True)
    return 0 if all_equal else 1


def main(arguments: list[str] | None = None) -> int:
    """Run the cases, each in its own process; exit 1 if ours and the peer's results differ."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--case", choices=list(CASES), action="append", help="which cases (default: all)")
    parser.add_argument("--scale", type=float, default=float(os.environ.get("GISTBENCH_BENCH_SCALE", "1")))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--everything", action="store_true", help="time the call with all its parts too")
    parser.add_argument("--here", action="store_true", help="run the one case in this process")
    options = parser.parse_args(arguments)
    try:
        import pytrec_eval  # noqa: F401
    except ImportError:
        print("benchmarks/metrics.py: skipped, the peer is missing: pip install pytrec_eval-terrier")
        return 0
    if options.here:
        return run_case(options.case[0], options.scale, options.repeats, options.everything)
    codes = []
    for case in options.case or list(CASES):
        command = [sys.executable, __file__, "--here", "--case", case, "--scale", str(options.scale)]
        command += ["--repeats", str(options.repeats), *(["--everything"] if options.everything else [])]
        codes.append(subprocess.run(command, check=False).returncode)
    return max(codes)


if __name__ == "__main__":
    sys.exit(main())
