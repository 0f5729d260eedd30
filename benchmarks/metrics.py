"""Speed and memory of the `evaluate` modules, each beside a peer that is measured in the same process.

`qrels_expansion`: AP and NDCG at depth 100, from tables of ids as they come from a file, against `pytrec_eval-terrier`
(trec_eval's C code) on ready-made dicts, whose making is not timed.

`ig` and `is`: 1,000 users with 60 interests each and 3 M engagements against plain dicts and loops; then the same
interests of 8 models, whose verdicts and counts are known, against a fresh oracle of what they verify together, without
and with bootstrap intervals. The peer of that is a loop over the same verdicts and counts.

One JSON line per figure: seconds of ours and of the peer (best of the repeats), their ratio, and whether both gave the
same; where a limit is set, `within` says whether it holds. `seconds_cpu` stands beside the wall clock, which other
processes of the machine disturb. `mb_added_at_peak` is what a call adds to the data. Each case runs in a process of its
own. Exits 1 if results differ; limits of time are printed, not enforced. ``GISTBENCH_BENCH_SCALE=0.1`` (or ``--scale
0.1``) takes a tenth of the users.

    python benchmarks/metrics.py                              # about 4 minutes
    python benchmarks/metrics.py --case interests             # ig and is alone
    python benchmarks/metrics.py --case 31x500 --everything   # qrels_expansion with bounds, pools and intervals too
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

METRICS = Path(__file__).resolve().parents[1] / "metrics"

# --- qrels_expansion ------------------------------------------------------------------------------------------------

CASES = {"31x500": (31, 500), "10x10000": (10, 10_000), "31x10000": (31, 10_000)}
LEAST_RATIO = {"31x500": 3, "10x10000": 4, "31x10000": 4}
"""From strings; from dictionaries and integers 8."""
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


def _peer(runs: pa.Table, qrels: pa.Table, n_systems: int, n_users: int) -> tuple[float, float, dict[str, float]]:
    """Time pytrec_eval run by run, so that only one run's dicts are held at a time."""
    import pytrec_eval

    by_user: dict[str, dict[str, int]] = {}
    for user, item, rating in zip(*(qrels[name].to_pylist() for name in qrels.column_names), strict=True):
        by_user.setdefault(user, {})[item] = rating
    # trec_eval's AP knows one threshold for relevance, so AP and NDCG come from two evaluators: only one is timed.
    both = pytrec_eval.RelevanceEvaluator(by_user, {f"map_cut.{DEPTH}", f"ndcg_cut.{DEPTH}"}, relevance_level=4)
    seconds, seconds_cpu, first = 0.0, 0.0, {}
    rows = n_users * DEPTH
    for system in range(n_systems):
        part = runs.slice(system * rows, rows)
        users, items, scores = (part[name].to_pylist() for name in ("user", "item", "score"))
        run: dict[str, dict[str, float]] = {}
        for at in range(0, rows, DEPTH):
            run[users[at]] = dict(zip(items[at : at + DEPTH], scores[at : at + DEPTH], strict=True))
        start, start_cpu = time.perf_counter(), time.process_time()
        found = both.evaluate(run)
        seconds += time.perf_counter() - start
        seconds_cpu += time.process_time() - start_cpu
        if system == 0:
            for name, metric in (("ap", f"map_cut_{DEPTH}"), ("ndcg", f"ndcg_cut_{DEPTH}")):
                first[name] = sum(of_user[metric] for of_user in found.values()) / len(by_user)
    return seconds, seconds_cpu, first


def run_qrels(name: str, scale: float, repeats: int, everything: bool) -> bool:
    """Run one case and print its figures; return whether the results are the same."""
    import evaluate

    module = evaluate.load(str(METRICS / "qrels_expansion"))
    n_systems, n_users = CASES[name][0], max(10, round(CASES[name][1] * scale))
    forms, qrels = make_tables(n_systems, n_users)
    size = {"systems": n_systems, "users": n_users, "items_per_list": DEPTH}
    ours: dict[str, tuple[float, float, Any]] = {}
    added: dict[str, int | None] = {}
    for form in ("dictionary", "integers", "strings"):
        human = _with_integers(qrels) if form == "integers" else qrels
        call = {"runs": forms[form], "human_qrels": human, "parts": [], "n_resamples": 0}
        added[form] = _added_mb(lambda call=call: module.compute(**call))
        ours[form] = _best(lambda call=call: module.compute(**call), repeats)
    seconds_peer, cpu_peer, peer = _peer(forms["strings"], qrels, n_systems, n_users)
    all_equal = True
    for form, (seconds, seconds_cpu, result) in ours.items():
        table = result["per_system"]
        first = table["system"].index("0" if form == "integers" else "run0")
        equal = all(abs(table[f"{metric}_human"][first] - peer[metric]) < 1e-9 for metric in ("ap", "ndcg"))
        all_equal &= equal
        least = LEAST_RATIO[name] if form == "strings" else 8
        _print(
            f"ap_ndcg_{name}_{form}",
            (seconds, seconds_cpu),
            seconds_peer,
            **size,
            ratio_cpu=round(cpu_peer / seconds_cpu, 1),
            mb_added_at_peak=added[form],
            mb_table=round(forms[form].nbytes / 2**20),
            equal=equal,
            least_ratio=least,
            within=seconds_peer / seconds >= least,
        )
    if everything:
        rng = np.random.default_rng(1)
        pairs = forms["strings"].select(["user", "item"]).group_by(["user", "item"]).aggregate([])
        llm = pairs.append_column("rating", pa.array(rng.integers(0, 6, pairs.num_rows)))
        popularity = {"item": [f"item{i}" for i in range(N_ITEMS)], "count": rng.integers(0, 999, N_ITEMS)}
        call = {"runs": forms["dictionary"], "human_qrels": qrels, "llm_qrels": llm, "popularity": popularity}
        plain, _, _ = _best(lambda: module.compute(**call, n_resamples=0), 1)
        full, _, result = _best(lambda: module.compute(**call), 1)
        line = {
            "figure": f"everything_{name}",
            **size,
            "judged_pairs": result["counts"]["n_llm"],
            "seconds": round(full, 2),
            "seconds_of_intervals": round(full - plain, 2),
        }
        print(json.dumps(line), flush=True)
    return all_equal


# --- ig and is ------------------------------------------------------------------------------------------------------

N_USERS = 1000
N_ENGAGEMENTS = 3000
"""Of each user."""
N_MODELS = 8
TYPES = ("explicit_positive", "implicit_positive", "implicit_negative")
SHARES = (0.05, 0.62, 0.33)  # roughly those of the synthetic data set (Table 10)


def make_call(n_users: int, n_engagements: int, n_interests: int = 60, n_ids: int = 5, seed: int = 0) -> dict[str, Any]:
    """Make the arguments of one call: histories, interests with cited and relevant ids, and a covering oracle."""
    rng = np.random.default_rng(seed)
    objects = 10**12 + rng.integers(0, 500_000, (n_users, n_engagements))
    users = np.repeat(np.arange(n_users), n_engagements)
    history = pa.table(
        {
            "user_id": pa.array(users).cast(pa.string()),
            "object_id": pa.array(objects.ravel()).cast(pa.string()),
            "interaction_type": pa.array(np.array(TYPES)[rng.choice(3, users.size, p=SHARES)]),
        }
    )
    cited = objects[np.arange(n_users)[:, None, None], rng.integers(0, n_engagements, (n_users, n_interests, n_ids))]
    categories = rng.integers(0, 326, (n_users, n_interests))
    predictions = []
    for user in range(n_users):
        ids = [list(map(str, one)) for one in cited[user].tolist()]
        predictions.append(
            [
                {
                    "interest": f"interest {k}",
                    "category_id": category,
                    "item_ids": ids[k],
                    "relevant_item_ids": ids[k][: 5 - k % 2],
                }
                for k, category in enumerate(categories[user].tolist())
            ]
        )
    oracle = {str(user): sorted(set(range(1, 326, 2)) | set(categories[user].tolist())) for user in range(n_users)}
    return {
        "predictions": predictions,
        "references": [str(user) for user in range(n_users)],
        "history": history,
        "oracle": oracle,
    }


def plain_loop(predictions: Any, references: Any, history: pa.Table, oracle: dict[str, list[int]]) -> dict[str, Any]:
    """Score with dicts and loops: the peer (no checks of the input, no intervals)."""
    seen: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for user, item, kind in zip(*(history.column(name).to_pylist() for name in history.column_names), strict=True):
        seen[user][item].add(kind)
    per_user: dict[str, list[float]] = {"ig_precision": [], "ig_recall": [], "ig_f1": []}
    verdicts = []
    for user, records in zip(references, predictions, strict=True):
        by_category: dict[int, list[bool]] = defaultdict(list)
        for record in records:
            counts = dict.fromkeys(TYPES, 0)
            for item in set(record["relevant_item_ids"]):
                for kind in seen[user].get(item, ()):
                    counts[kind] += 1
            e_pos, i_pos, i_neg = (counts[kind] for kind in TYPES)
            verified = (e_pos >= 2 or i_pos >= 3 or (e_pos >= 1 and i_pos >= 2)) and i_neg <= 3
            verdicts.append(verified)
            by_category[record["category_id"]].append(verified)
        shares = {category: sum(found) / len(found) for category, found in by_category.items()}
        precision = sum(shares.values()) / len(shares)
        recall = sum(share for category, share in shares.items() if category) / len(set(oracle[user]) - {0})
        per_user["ig_precision"].append(precision)
        per_user["ig_recall"].append(recall)
        per_user["ig_f1"].append(2 * precision * recall / (precision + recall) if precision + recall else 0.0)
    return {
        "per_user": per_user,
        "verified": verdicts,
        **{name: statistics.median(values) for name, values in per_user.items()},
    }


def make_retrievals(predictions: Any, verified: list[bool]) -> list[list[dict[str, Any]]]:
    """Make the records of `is`: of 5 backing items, the judge finds 2 to 5."""
    verdicts = iter(verified)
    return [
        [
            {
                "interest": record["interest"],
                "category_id": record["category_id"],
                "verified": next(verdicts),
                "backing_item_ids": record["item_ids"],
                "selected_item_ids": [*record["item_ids"][: 2 + k % 4], "d1", "d2", "d3"][:5],
            }
            for k, record in enumerate(records)
        ]
        for records in predictions
    ]


def plain_rescore(models: dict[str, list[list[tuple[int, bool, int, int]]]]) -> dict[str, dict[str, list[float]]]:
    """Make the oracle of all models and score each: the peer; an interest is (category, verified, correct, backing)."""
    n_users = len(next(iter(models.values())))
    oracle: list[set[int]] = [set() for _ in range(n_users)]
    for users in models.values():
        for user, interests in enumerate(users):
            oracle[user] |= {category for category, verified, _, _ in interests if verified and category}
    scored = {}
    for model, users in models.items():
        rows: dict[str, list[float]] = {"ig_f1": [], "is": [], "hm": []}
        for user, interests in enumerate(users):
            verdicts: dict[int, list[bool]] = defaultdict(list)
            found: dict[int, list[float]] = defaultdict(list)
            for category, verified, correct, backing in interests:
                verdicts[category].append(verified)
                found[category].append(correct / backing)
            shares = {category: sum(own) / len(own) for category, own in verdicts.items()}
            precision = sum(shares.values()) / len(shares)
            recall = sum(share for category, share in shares.items() if category) / len(oracle[user])
            f1 = 2 * precision * recall / (precision + recall) if precision + recall else 0.0
            means = [sum(found[category]) / len(found[category]) for category, share in shares.items() if share]
            specificity = sum(means) / len(means) if means else 0.0
            rows["ig_f1"].append(f1)
            rows["is"].append(specificity)
            rows["hm"].append(2 * f1 * specificity / (f1 + specificity) if f1 + specificity else 0.0)
        scored[model] = rows
    return scored


def _equal(ours: dict[str, Any], peer: dict[str, Any]) -> bool:
    return ours["per_interest"]["verified"] == peer["verified"] and all(
        np.allclose(ours["per_user"][name], peer["per_user"][name], rtol=0, atol=1e-12)
        and abs(ours[name] - peer[name]) < 1e-12
        for name in peer["per_user"]
    )


def run_interests(scale: float, repeats: int) -> bool:
    """Run `ig` and `is` and print their figures; return whether the results are the peers'."""
    import evaluate

    ig, specificity = (evaluate.load(str(METRICS / name)) for name in ("ig", "is"))
    n_users = max(10, round(N_USERS * scale))
    call = make_call(n_users, N_ENGAGEMENTS)
    size = {"users": n_users, "interests_per_user": 60, "engagements": call["history"].num_rows}
    made: list[Any] = []
    added = _added_mb(lambda: made.append(ig.compute(**call, n_resamples=0)))
    (first,) = made
    judged = {
        "predictions": make_retrievals(call["predictions"], first["per_interest"]["verified"]),
        "references": call["references"],
        "ig_f1": dict(zip(first["per_user"]["user_id"], first["per_user"]["ig_f1"], strict=True)),
    }

    def both(n_resamples: int, **more: Any) -> tuple[Any, Any]:
        return (
            ig.compute(**{**call, **more}, n_resamples=n_resamples),
            specificity.compute(**judged, n_resamples=n_resamples),
        )

    more_added = _added_mb(lambda: made.append(specificity.compute(**judged, n_resamples=0)))
    added = None if added is None or more_added is None else added + more_added
    made.clear()
    seconds_peer, _, peer = _best(lambda: plain_loop(**call), 1)
    numbers = call["history"]
    for name in ("user_id", "object_id"):
        column = numbers.column(name).cast(pa.int64())
        numbers = numbers.set_column(numbers.column_names.index(name), name, column)
    all_equal = True
    for figure, n_resamples, more in (
        ("ig_and_is", 0, {}),
        ("ig_and_is_integer_ids", 0, {"history": numbers}),
        ("ig_and_is_with_intervals", 1000, {}),
    ):
        ours = _best(lambda n=n_resamples, more=more: both(n, **more), repeats)
        equal = _equal(ours[2][0], peer)
        all_equal &= equal
        limit: dict[str, Any] = {}
        if figure == "ig_and_is":
            within = ours[0] < 0.5 and (added is None or added < 500)
            limit = {"mb_added_at_peak": added, "limits": "0.5 s, 500 MB", "within": within}
        _print(figure, ours, seconds_peer, **size, peer_does="ig only", equal=equal, **limit)
    return _run_models(ig, specificity, call, first, n_users, repeats) and all_equal


def _run_models(ig: Any, specificity: Any, call: Any, first: Any, n_users: int, repeats: int) -> bool:
    """Score several models against a fresh oracle of what they verify together, from their verdicts and counts."""
    results, judged, plain = {}, {}, {}
    for k in range(N_MODELS):
        categories = np.random.default_rng(k).integers(0, 326, (n_users, 60)).tolist()
        predictions = [
            [{**record, "category_id": category} for record, category in zip(records, own, strict=True)]
            for records, own in zip(call["predictions"], categories, strict=True)
        ]
        one = ig.compute(predictions=predictions, references=call["references"], history=call["history"], n_resamples=0)
        retrievals = make_retrievals(predictions, one["per_interest"]["verified"])
        found = specificity.compute(predictions=retrievals, references=call["references"], n_resamples=0)
        results[f"model {k}"], judged[f"model {k}"] = one, found
        users: dict[str, list[Any]] = {user: [] for user in call["references"]}
        table, other = one["per_interest"], found["per_interest"]
        columns = (table["category_id"], table["verified"], other["n_correct"], other["n_backing"])
        for user, *interest in zip(table["user_id"], *columns, strict=True):
            users[user].append(tuple(interest))
        plain[f"model {k}"] = list(users.values())
    seconds_peer, _, peer = _best(lambda: plain_rescore(plain), 1)

    def rescore(n_resamples: int) -> dict[str, Any]:
        scored = ig.rescore(results, n_resamples=n_resamples)
        return specificity.rescore(judged, ig=scored, n_resamples=n_resamples)

    all_equal = True
    for figure, n_resamples, limit in (("models", 0, 0.4), ("models_with_intervals", 1000, 2.0)):
        ours = _best(lambda n=n_resamples: rescore(n), repeats)
        equal = all(
            np.allclose(ours[2][model]["per_user"][name], values, rtol=0, atol=1e-12)
            for model, rows in peer.items()
            for name, values in rows.items()
        )
        all_equal &= equal
        size = {"models": N_MODELS, "users": n_users, "interests_per_user": 60}
        _print(figure, ours, seconds_peer, **size, equal=equal, limits=f"{limit} s", within=ours[0] < limit)
    return all_equal


# --- measuring ------------------------------------------------------------------------------------------------------


def _best(call: Callable[[], Any], repeats: int) -> tuple[float, float, Any]:
    """Return the shortest time by the wall clock and of the CPU, and the result."""
    wall, cpu, result = [], [], None
    for _ in range(repeats):
        result = None  # freeing the last one is not timed
        start, start_cpu = time.perf_counter(), time.process_time()
        result = call()
        wall.append(time.perf_counter() - start)
        cpu.append(time.process_time() - start_cpu)
    return min(wall), min(cpu), result


def _print(figure: str, ours: tuple[Any, ...], peer: float, **more: Any) -> None:
    line = {
        "figure": figure,
        "seconds_ours": round(ours[0], 3),
        "seconds_cpu": round(ours[1], 3),
        "seconds_peer": round(peer, 3),
        "ratio": round(peer / ours[0], 1),
        **more,
    }
    print(json.dumps(line), flush=True)


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


def main(arguments: list[str] | None = None) -> int:
    """Run the cases, each in its own process; exit 1 if ours and a peer's results differ."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    cases = [*CASES, "interests"]
    parser.add_argument("--case", choices=cases, action="append", help="which cases (default: all)")
    parser.add_argument("--scale", type=float, default=float(os.environ.get("GISTBENCH_BENCH_SCALE", "1")))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--everything", action="store_true", help="time qrels_expansion with all its parts too")
    parser.add_argument("--here", action="store_true", help="run the one case in this process")
    options = parser.parse_args(arguments)
    if options.here:
        (case,) = options.case
        if case == "interests":
            return 0 if run_interests(options.scale, options.repeats) else 1
        try:
            import pytrec_eval  # noqa: F401
        except ImportError:
            print(f"benchmarks/metrics.py: {case} skipped, the peer is missing: pip install pytrec_eval-terrier")
            return 0
        return 0 if run_qrels(case, options.scale, options.repeats, options.everything) else 1
    codes = []
    for case in options.case or cases:
        command = [sys.executable, __file__, "--here", "--case", case, "--scale", str(options.scale)]
        command += ["--repeats", str(options.repeats), *(["--everything"] if options.everything else [])]
        codes.append(subprocess.run(command, check=False).returncode)
    return max(codes)


if __name__ == "__main__":
    sys.exit(main())
