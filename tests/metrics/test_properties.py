"""Laws that hold for any input, a slow and plain second implementation, and the bootstrap computed another way."""

import json
import os
import random
import subprocess
import sys
from fractions import Fraction
from statistics import median

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

TYPES = ("explicit_positive", "implicit_positive", "implicit_negative", "explicit_negative")
quick = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def columns(rows):
    return dict(zip(("user_id", "object_id", "interaction_type"), map(list, zip(*rows, strict=True)), strict=True))


def random_call(seed, n_users=8, with_category=True):
    """Make (predictions, references, history rows, is records) with known, repeated, foreign and unknown ids."""
    rng = random.Random(seed)
    users = [f"u{i}" for i in range(n_users)]
    rows = [
        (user, f"o{rng.randrange(25)}", rng.choice(TYPES[: rng.choice((3, 4))]))
        for user in users
        for _ in range(rng.randrange(1, 40))
    ]
    predictions, retrievals = [], []
    for _ in users:
        records, picks = [], []
        for _ in range(rng.randrange(0, 9)):
            cited = [rng.choice(("", "[", " ")) + f"o{rng.randrange(30)}" for _ in range(rng.randrange(0, 9))]
            relevant = rng.choice((None, [one for one in cited if rng.random() < 0.8]))
            name, category = f"interest {rng.randrange(6)}", rng.randrange(5) if with_category else None
            records.append(
                {"interest": name, "category_id": category, "item_ids": cited, "relevant_item_ids": relevant}
            )
            backing = [f"b{rng.randrange(6)}" for _ in range(rng.randrange(0, 6))]
            picked = rng.choice((None, [f"b{rng.randrange(9)}" for _ in range(rng.randrange(0, 9))]))
            picks.append(
                {
                    "interest": name,
                    "category_id": category,
                    "verified": rng.random() < 0.5,
                    "backing_item_ids": backing,
                    "selected_item_ids": picked,
                }
            )
        predictions.append(records)
        retrievals.append(picks)
    return predictions, users, rows, retrievals


def full_oracle(users, with_category=True):
    return {user: list(range(7)) if with_category else [f"interest {i}" for i in range(7)] for user in users[1:]}


# --- a second implementation ----------------------------------------------------------------------------------------


def plain_verified(record, engaged, signals):
    cited = {one if one in engaged else one.strip(" [") for one in record["item_ids"]}
    relevant = record["relevant_item_ids"]
    kept = cited if relevant is None else {one if one in engaged else one.strip(" [") for one in relevant}
    counts = [sum(kind in engaged.get(item, ()) for item in kept) for kind in TYPES]
    e_pos, i_pos, i_neg, e_neg = counts
    has = [kind in signals for kind in TYPES]
    clause = (has[0] and e_pos >= 2) or (has[1] and i_pos >= 3) or (has[0] and has[1] and e_pos >= 1 and i_pos >= 2)
    capped = (has[2] and i_neg > 3) or (has[3] and e_neg > 2)
    return bool(kept) and clause and not capped, counts


def category_of(record):
    return record["interest"] if record["category_id"] is None else record["category_id"]


def plain_ig(predictions, users, rows, oracle, signals):
    """Return per user (precision, recall, f1) as exact fractions, None where undefined."""
    out = []
    for user, records in zip(users, predictions, strict=True):
        engaged = {}
        for owner, item, kind in rows:
            if owner == user:
                engaged.setdefault(item, set()).add(kind)
        shares = {}
        for record in records:
            shares.setdefault(category_of(record), []).append(plain_verified(record, engaged, signals)[0])
        g = {category: Fraction(sum(found), len(found)) for category, found in shares.items()}
        precision = sum(g.values()) / len(g) if g else Fraction(0)
        wanted = set(oracle.get(user, ())) - {0}
        if not wanted:
            out.append((precision, None, None))
            continue
        recall = sum((share for category, share in g.items() if category != 0), Fraction(0)) / len(wanted)
        total = precision + recall
        out.append((precision, recall, 2 * precision * recall / total if total else Fraction(0)))
    return out


def plain_is(predictions, scope):
    """Return IS per user as exact fractions, None where undefined."""
    out = []
    for records in predictions:
        known, grounded = {}, set()
        for record in records:
            category = category_of(record)
            if record["verified"]:
                grounded.add(category)
            backing, picked = set(record["backing_item_ids"]), record["selected_item_ids"]
            if scope == "verified" and not record["verified"]:
                continue
            if not backing:
                known.setdefault(category, []).append(Fraction(0))
            elif picked is not None:
                first = list(dict.fromkeys(picked))[: len(backing)]
                known.setdefault(category, []).append(Fraction(len(backing & set(first)), len(backing)))
        means = [sum(known[category]) / len(known[category]) for category in grounded if category in known]
        out.append(Fraction(0) if not grounded else sum(means) / len(means) if means else None)
    return out


def approx(values):
    return [None if value is None else pytest.approx(float(value), abs=1e-12) for value in values]


@pytest.mark.parametrize("with_category", [True, False])
@pytest.mark.parametrize("seed", range(25))
def test_ig_agrees_with_a_plain_implementation(ig, seed, with_category):
    predictions, users, rows, _ = random_call(seed, with_category=with_category)
    signals = {kind for _, _, kind in rows}
    oracle = full_oracle(users, with_category)
    result = ig.compute(predictions=predictions, references=users, history=columns(rows), oracle=oracle, n_resamples=0)
    expected = list(zip(*plain_ig(predictions, users, rows, oracle, signals), strict=True))
    for name, values in zip(("ig_precision", "ig_recall", "ig_f1"), expected, strict=True):
        assert result["per_user"][name] == approx(values)
        known = [float(value) for value in values if value is not None]
        assert result[name] == pytest.approx(median(known), abs=1e-12)
        assert result[f"mean_{name}"] == pytest.approx(sum(known) / len(known), abs=1e-12)


@pytest.mark.parametrize("scope", ["category", "verified"])
@pytest.mark.parametrize("seed", range(25))
def test_is_agrees_with_a_plain_implementation(specificity, seed, scope):
    _, users, _, retrievals = random_call(seed, with_category=seed % 2)
    result = specificity.compute(predictions=retrievals, references=users, is_scope=scope, n_resamples=0)
    assert result["per_user"]["is"] == approx(plain_is(retrievals, scope))


# --- laws -----------------------------------------------------------------------------------------------------------

SUMMARY = ("ig_precision", "ig_recall", "ig_f1")


@quick
@given(seed=st.integers(0, 10**6), shuffle=st.randoms(use_true_random=False), with_category=st.booleans())
def test_the_order_of_anything_changes_nothing(ig, specificity, seed, shuffle, with_category):
    predictions, users, rows, retrievals = random_call(seed, with_category=with_category)
    oracle = full_oracle(users, with_category)
    order = list(range(len(users)))
    shuffle.shuffle(order)
    shuffled_rows = shuffle.sample(rows, len(rows))
    moved = [shuffle.sample(predictions[i], len(predictions[i])) for i in order]
    moved_retrievals = [shuffle.sample(retrievals[i], len(retrievals[i])) for i in order]
    moved_users = [users[i] for i in order]
    one = ig.compute(predictions=predictions, references=users, history=columns(rows), oracle=oracle, n_resamples=20)
    two = ig.compute(
        predictions=moved, references=moved_users, history=columns(shuffled_rows), oracle=oracle, n_resamples=20
    )
    assert {key: value for key, value in one.items() if not key.startswith("per_")} == {
        key: value for key, value in two.items() if not key.startswith("per_")
    }
    for name, values in one["per_user"].items():
        assert [values[i] for i in order] == two["per_user"][name]
    one = specificity.compute(predictions=retrievals, references=users, n_resamples=20)
    two = specificity.compute(predictions=moved_retrievals, references=moved_users, n_resamples=20)
    assert [one[f"{kind}is"] for kind in ("", "mean_", "ci_", "ci_mean_")] == [
        two[f"{kind}is"] for kind in ("", "mean_", "ci_", "ci_mean_")
    ]
    for name, values in one["per_user"].items():
        assert [values[i] for i in order] == two["per_user"][name]


@quick
@given(seed=st.integers(0, 10**6))
def test_scores_lie_between_0_and_1_and_intervals_hold_what_they_are_of(ig, specificity, seed):
    predictions, users, rows, retrievals = random_call(seed)
    result = ig.compute(
        predictions=predictions, references=users, history=columns(rows), oracle=full_oracle(users), n_resamples=50
    )
    result["is_result"] = specificity.compute(predictions=retrievals, references=users, n_resamples=50)
    for scores, names in ((result, SUMMARY), (result["is_result"], ("is",))):
        for name in names:
            assert all(value is None or 0 <= value <= 1 for value in scores["per_user"][name])
            for kind in ("", "mean_"):
                low, high = scores[f"ci_{kind}{name}"] or (0, 1)
                assert 0 <= low <= high <= 1
                assert 0 <= (scores[f"{kind}{name}"] or 0) <= 1
    f1, p, r = (result["per_user"][name] for name in ("ig_f1", "ig_precision", "ig_recall"))
    assert all(f is None or min(a, b) - 1e-12 <= f <= max(a, b) + 1e-12 for f, a, b in zip(f1, p, r, strict=True))


@quick
@given(seed=st.integers(0, 10**6), category=st.integers(0, 40))
def test_an_unverified_interest_never_raises_precision(ig, seed, category):
    """In a category of its own or in one that exists."""
    predictions, users, rows, _ = random_call(seed)
    more = [
        [*records, {"interest": "no evidence", "category_id": category, "item_ids": [], "relevant_item_ids": None}]
        for records in predictions
    ]
    call = {"references": users, "history": columns(rows), "n_resamples": 0}
    before = ig.compute(predictions=predictions, **call)["per_user"]["ig_precision"]
    after = ig.compute(predictions=more, **call)["per_user"]["ig_precision"]
    assert all(b <= a + 1e-12 for a, b in zip(before, after, strict=True))


@quick
@given(seed=st.integers(0, 10**6))
def test_other_users_and_repeated_rows_change_no_score_of_a_user(ig, seed):
    predictions, users, rows, _ = random_call(seed)
    signals = list(TYPES)
    whole = ig.compute(
        predictions=predictions, references=users, history=columns(rows + rows), signals=signals, n_resamples=0
    )["per_user"]
    for i in (0, len(users) - 1):
        own = [row for row in rows if row[0] == users[i]]
        alone = ig.compute(
            predictions=[predictions[i]],
            references=[users[i]],
            history=columns(own),
            signals=signals,
            n_resamples=0,
        )["per_user"]
        assert {name: values[i] for name, values in whole.items()} == {name: one[0] for name, one in alone.items()}


@quick
@given(seed=st.integers(0, 10**6))
def test_looser_thresholds_verify_more(ig, seed):
    predictions, users, rows, _ = random_call(seed)
    call = {"predictions": predictions, "references": users, "history": columns(rows), "n_resamples": 0}
    lenient, base, strict = (
        ig.compute(**call, thresholds=preset)["per_interest"]["verified"] for preset in ("lenient", "base", "strict")
    )
    assert all(a >= b >= c for a, b, c in zip(lenient, base, strict, strict=True))


# --- intervals ------------------------------------------------------------------------------------------------------


def own_bootstrap(values, statistic, n_resamples, level, seed):
    values = np.sort(np.array(values))
    draws = np.random.default_rng(seed).integers(0, len(values), (n_resamples, len(values)))
    found = np.sort([statistic(values[draw]) for draw in draws])
    return [float(np.quantile(found, q)) for q in ((1 - level) / 2, 1 - (1 - level) / 2)]


@pytest.mark.parametrize(("n_resamples", "level", "seed"), [(1000, 0.95, 0), (999, 0.9, 7), (200, 0.5, 1)])
def test_intervals_agree_with_an_own_bootstrap(ig, n_resamples, level, seed):
    predictions, users, rows, _ = random_call(3, n_users=60)
    result = ig.compute(
        predictions=predictions,
        references=users,
        history=columns(rows),
        oracle=full_oracle(users),
        n_resamples=n_resamples,
        confidence_level=level,
        seed=seed,
    )
    assert result["ci_mean_ig_precision"][0] < result["mean_ig_precision"] < result["ci_mean_ig_precision"][1]
    for name in SUMMARY:
        values = [value for value in result["per_user"][name] if value is not None]
        assert len(values) == (60 if name == "ig_precision" else 59)
        for key, statistic in ((f"ci_{name}", np.median), (f"ci_mean_{name}", np.mean)):
            assert result[key] == pytest.approx(own_bootstrap(values, statistic, n_resamples, level, seed), abs=1e-12)


def test_constant_samples_single_users_and_no_resampling(ig):
    record = {"interest": "a", "category_id": 1, "item_ids": ["x", "y"], "relevant_item_ids": None}
    bad = [{**record, "interest": f"b{i}", "category_id": 2 + i, "item_ids": []} for i in range(9)]
    users = [f"u{i}" for i in range(7)]
    rows = [(user, item, TYPES[0]) for user in users for item in ("x", "y")]
    call = {"history": columns(rows)}
    many = ig.compute(predictions=[[record, *bad]] * 7, references=users, **call)
    assert many["ig_precision"] == many["mean_ig_precision"] == 0.1
    assert many["ci_ig_precision"] == many["ci_mean_ig_precision"] == [0.1, 0.1]
    one = ig.compute(predictions=[[record]], references=["u0"], **call)
    assert one["ig_precision"] == 1.0
    assert one["ci_ig_precision"] is one["ci_mean_ig_precision"] is None
    for n_resamples in (0, 1):
        none = ig.compute(predictions=[[record], []], references=["u0", "u1"], n_resamples=n_resamples, **call)
        assert none["ci_ig_precision"] is None


SCRIPT = """
import json, sys
import evaluate
root, call = sys.argv[1], json.loads(sys.stdin.read())
ig = evaluate.load(root + "/metrics/ig").compute(**call["ig"])
specificity = evaluate.load(root + "/metrics/is").compute(**call["is"])
print(json.dumps([ig, specificity], allow_nan=False))
"""


def test_two_processes_give_the_same_bytes(repo_root):
    predictions, users, rows, retrievals = random_call(11, n_users=40)
    call = {
        "ig": {
            "predictions": predictions,
            "references": users,
            "history": columns(rows),
            "oracle": full_oracle(users),
        },
        "is": {"predictions": retrievals, "references": users, "ig_f1": dict.fromkeys(users, 0.5)},
    }
    outputs = [
        subprocess.run(
            [sys.executable, "-c", SCRIPT, str(repo_root)],
            input=json.dumps(call),
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert outputs[0] == outputs[1]
    assert json.loads(outputs[0])[0]["n_users"] == 40
