"""Measure `metrics/ig` against a plain per-user loop, on a full data set: 1,000 users, 60 interests, 3 M engagements.

Prints one JSON line per figure: seconds of ours and of the peer (best of the repeats), their ratio, and whether both
gave the same verdicts, precision, recall and F1 for every user. The peer does what one would write without thinking of
speed: a dict of objects per user, filled row by row, and a loop over interests. Imports and making data are not timed.

    python benchmarks/score_ig.py [--users 1000] [--engagements 3000] [--repeats 3]
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import evaluate
import numpy as np
import pyarrow as pa

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


def _best(call: Callable[[], Any], repeats: int) -> tuple[float, Any]:
    seconds, result = [], None
    for _ in range(repeats):
        start = time.perf_counter()
        result = call()
        seconds.append(time.perf_counter() - start)
    return min(seconds), result


def _equal(ours: dict[str, Any], peer: dict[str, Any]) -> bool:
    return ours["per_interest"]["verified"] == peer["verified"] and all(
        np.allclose(ours["per_user"][name], peer["per_user"][name], rtol=0, atol=1e-12)
        and abs(ours[name] - peer[name]) < 1e-12
        for name in peer["per_user"]
    )


def main(arguments: list[str] | None = None) -> int:
    """Run the comparison and print its figures; exit 1 if the results differ."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--users", type=int, default=1000)
    parser.add_argument("--engagements", type=int, default=3000, help="per user")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args(arguments)
    call = make_call(options.users, options.engagements)
    ig = evaluate.load(str(Path(__file__).resolve().parents[1] / "metrics" / "ig"))
    seconds_peer, peer = _best(lambda: plain_loop(**call), 1)
    all_equal = True
    for figure, extra in (("score_ig", {}), ("score_ig_without_intervals", {"n_resamples": 0})):
        seconds_ours, ours = _best(lambda extra=extra: ig.compute(**call, **extra), options.repeats)
        equal = _equal(ours, peer)
        all_equal &= equal
        line = {
            "figure": figure,
            "users": options.users,
            "engagements": call["history"].num_rows,
            "seconds_ours": round(seconds_ours, 3),
            "seconds_peer": round(seconds_peer, 3),
            "ratio": round(seconds_peer / seconds_ours, 1),
            "equal": equal,
        }
        print(json.dumps(line))
    return 0 if all_equal else 1


if __name__ == "__main__":
    sys.exit(main())
