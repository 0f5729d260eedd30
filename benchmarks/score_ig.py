"""Measure `metrics/ig` and `metrics/is` against plain loops: 1,000 users, 60 interests, 3 M engagements, 8 models.

Prints one JSON line per figure: seconds of ours and of the peer (best of the repeats), their ratio, and whether both
gave the same. The peer does what one would write without thinking of speed: dicts of objects per user, filled row by
row, and a loop over interests; for 8 models it has their verdicts and counts, as ours has, and makes the oracle and the
scores of all. Imports and making data are not timed. `seconds_cpu` is beside the wall clock, which other processes of
the machine disturb; `megabytes` is by how much the process's peak grew above what it held before the first call.

    python benchmarks/score_ig.py [--users 1000] [--engagements 3000] [--repeats 3]
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

# benchmarks/datasets.py is called like a library: this folder must not come first.
sys.path = [path for path in sys.path if Path(path or ".").resolve() != Path(__file__).resolve().parent]

import evaluate  # noqa: E402
import numpy as np  # noqa: E402
import pyarrow as pa  # noqa: E402

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


def _best(call: Callable[[], Any], repeats: int) -> tuple[float, float, Any]:
    wall, cpu, result = [], [], None
    for _ in range(repeats):
        result = None  # freeing the last one is not timed
        start, start_cpu = time.perf_counter(), time.process_time()
        result = call()
        wall.append(time.perf_counter() - start)
        cpu.append(time.process_time() - start_cpu)
    return min(wall), min(cpu), result


def _equal(ours: dict[str, Any], peer: dict[str, Any]) -> bool:
    return ours["per_interest"]["verified"] == peer["verified"] and all(
        np.allclose(ours["per_user"][name], peer["per_user"][name], rtol=0, atol=1e-12)
        and abs(ours[name] - peer[name]) < 1e-12
        for name in peer["per_user"]
    )


def _peak_megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _held_megabytes() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 2**20


def _print(figure: str, ours: tuple[float, float, Any], peer: float, **more: Any) -> None:
    line = {
        "figure": figure,
        "seconds_ours": round(ours[0], 3),
        "seconds_cpu": round(ours[1], 3),
        "seconds_peer": round(peer, 3),
        "ratio": round(peer / ours[0], 1),
        **more,
    }
    print(json.dumps(line), flush=True)


def main(arguments: list[str] | None = None) -> int:
    """Run the comparison and print its figures; exit 1 if the results differ."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--users", type=int, default=1000)
    parser.add_argument("--engagements", type=int, default=3000, help="per user")
    parser.add_argument("--models", type=int, default=8)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args(arguments)
    metrics = Path(__file__).resolve().parents[1] / "metrics"
    ig, specificity = (evaluate.load(str(metrics / name)) for name in ("ig", "is"))
    call = make_call(options.users, options.engagements)
    rows = {"users": options.users, "engagements": call["history"].num_rows}

    # Memory first: the peer holds far more than ours.
    held = _held_megabytes()
    first = ig.compute(**call, n_resamples=0)
    retrievals = make_retrievals(call["predictions"], first["per_interest"]["verified"])
    judged = {
        "predictions": retrievals,
        "references": call["references"],
        "ig_f1": dict(zip(first["per_user"]["user_id"], first["per_user"]["ig_f1"], strict=True)),
    }
    megabytes = round(_peak_megabytes() - held)

    seconds_peer, _, peer = _best(lambda: plain_loop(**call), 1)
    numbers = call["history"]
    for name in ("user_id", "object_id"):
        column = numbers.column(name).cast(pa.int64())
        numbers = numbers.set_column(numbers.column_names.index(name), name, column)
    all_equal = True
    for figure, extra in (
        ("score_ig", {}),
        ("score_ig_without_intervals", {"n_resamples": 0}),
        ("score_ig_integer_ids_without_intervals", {"n_resamples": 0, "history": numbers}),
    ):
        ours = _best(lambda extra=extra: ig.compute(**{**call, **extra}), options.repeats)
        equal = _equal(ours[2], peer)
        all_equal &= equal
        _print(figure, ours, seconds_peer, **rows, megabytes=megabytes, equal=equal)

    def both() -> tuple[Any, Any]:
        return ig.compute(**call, n_resamples=0), specificity.compute(**judged, n_resamples=0)

    ours = _best(both, options.repeats)
    all_equal &= _equal(ours[2][0], peer)
    _print("score_ig_and_is_without_intervals", ours, seconds_peer, **rows, peer_does="ig only")

    all_equal &= _several_models(ig, specificity, call, options)
    return 0 if all_equal else 1


def _several_models(ig: Any, specificity: Any, call: dict[str, Any], options: argparse.Namespace) -> bool:
    """Score several models against a fresh oracle of what they verify together, from their verdicts and counts."""
    results, judged = {}, {}
    for k in range(options.models):
        own = make_call(options.users, options.engagements, seed=0)["predictions"] if k == 0 else None
        rng = np.random.default_rng(k)
        predictions = own or [
            [{**record, "category_id": int(category)} for record, category in zip(records, ids, strict=True)]
            for records, ids in zip(
                call["predictions"], rng.integers(0, 326, (options.users, 60)).tolist(), strict=True
            )
        ]
        one = ig.compute(predictions=predictions, references=call["references"], history=call["history"], n_resamples=0)
        results[f"model {k}"] = one
        judged[f"model {k}"] = specificity.compute(
            predictions=make_retrievals(predictions, one["per_interest"]["verified"]),
            references=call["references"],
            n_resamples=0,
        )
    plain = {}
    for model, one in results.items():
        table, found = one["per_interest"], judged[model]["per_interest"]
        users: dict[str, list[Any]] = {user: [] for user in call["references"]}
        for user, *interest in zip(
            table["user_id"],
            table["category_id"],
            table["verified"],
            found["n_correct"],
            found["n_backing"],
            strict=True,
        ):
            users[user].append(tuple(interest))
        plain[model] = list(users.values())
    seconds_peer, _, peer = _best(lambda: plain_rescore(plain), 1)

    def rescore(n_resamples: int) -> dict[str, Any]:
        scored = ig.rescore(results, n_resamples=n_resamples)
        return specificity.rescore(judged, ig=scored, n_resamples=n_resamples)

    all_equal = True
    for figure, n_resamples in (("rescore_models", 0), ("rescore_models_with_intervals", 1000)):
        ours = _best(lambda n=n_resamples: rescore(n), options.repeats)
        equal = all(
            np.allclose(ours[2][model]["per_user"][name], values, rtol=0, atol=1e-12)
            for model, rows in peer.items()
            for name, values in rows.items()
        )
        all_equal &= equal
        _print(figure, ours, seconds_peer, models=options.models, users=options.users, interests=60, equal=equal)
    return all_equal


if __name__ == "__main__":
    sys.exit(main())
