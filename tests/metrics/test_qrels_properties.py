"""Laws of `gistbench/qrels_expansion` that hold for any input, and a slow and plain second implementation."""

import json
import math
import random
from collections import defaultdict
from itertools import permutations, product
from pathlib import Path

import evaluate
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

quick = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
seeds = st.integers(0, 10**6)
MODULE = evaluate.load(str(Path(__file__).resolve().parents[2] / "metrics" / "qrels_expansion"))


def compute(call, **more):
    return MODULE.compute(**{"n_resamples": 0, **call, **more})


def columns(names, rows):
    return dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)) if rows else {name: [] for name in names}


def tables(runs, human, llm=None, popularity=None):
    """Turn {system: {user: [(item, score), ...]}} and {(user, item): rating} into a call."""
    rows = [(s, u, i, x) for s, users in runs.items() for u, ranked in users.items() for i, x in ranked]
    call = {
        "runs": columns(("system", "user", "item", "score"), rows),
        "human_qrels": columns(("user", "item", "rating"), [(u, i, r) for (u, i), r in human.items()]),
    }
    if llm is not None:
        call["llm_qrels"] = columns(("user", "item", "rating"), [(u, i, r) for (u, i), r in llm.items()])
    if popularity is not None:
        call["popularity"] = columns(("item", "count"), list(popularity.items()))
    return call


def random_case(seed, n_systems=4, n_users=5, n_items=9, ties=True):
    """Make runs with ties, missing lists and lists of unknown users, and judgements with holes and unparsed answers."""
    rng = random.Random(seed)
    users = [f"u{u}" for u in range(n_users)]
    runs = {}
    for s in range(n_systems):
        runs[f"s{s}"] = lists = {}
        for user in [*users, "stranger"]:
            items = rng.sample(range(n_items), rng.randrange(1, n_items))
            if user == users[s % n_users] or rng.random() < 0.85:
                lists[user] = [(f"i{i}", float(rng.randrange(4)) if ties else rng.random()) for i in items]
    human = {(u, f"i{i}"): rng.choice((0.5, 2, 3.5, 4, 5)) for u in users for i in rng.sample(range(n_items + 3), 3)}
    human[users[0], "i0"] = -1
    llm = {
        (u, f"i{i}"): rng.choice((-1, 0, 1, 2, 3, 4, 5))
        for u in [*users, "nobody"]
        for i in range(n_items + 2)
        if rng.random() < 0.7
    }
    popularity = {f"i{i}": rng.randrange(50) for i in range(n_items - 2)}
    return runs, human, llm, popularity


# --- a second implementation ----------------------------------------------------------------------------------------


def plain_gain(rating, gain):
    if isinstance(gain, dict):
        return gain[rating]
    return 2**rating - 1 if gain == "exponential" else rating


def plain_order(ranked, ties):
    if ties == "order":
        return [item for item, _ in sorted(ranked, key=lambda pair: -pair[1])]
    return [item for _, item in sorted(((score, item) for item, score in ranked), reverse=True)]


def plain_scores(order, judged, k, threshold, gain, discount, denominator):
    """Score one ordered list against one user's judgements {item: rating}."""
    weigh = (lambda r: 1 / math.log2(r + 1)) if discount == "log2(rank+1)" else (lambda r: 1 / max(math.log2(r), 1))
    order = order[:k]
    total = sum(rating >= threshold for rating in judged.values())
    found = precision = 0
    for rank, item in enumerate(order, 1):
        if judged.get(item, -1) >= threshold:
            found += 1
            precision += found / rank
    divisor = total if denominator == "relevant" or k is None else min(total, k)
    dcg = sum(plain_gain(judged[i], gain) * weigh(r) for r, i in enumerate(order, 1) if i in judged)
    best = sorted((plain_gain(rating, gain) for rating in judged.values()), reverse=True)[:k]
    ideal = sum(value * weigh(r) for r, value in enumerate(best, 1))
    return precision / divisor if divisor else 0.0, dcg / ideal if ideal else 0.0


def plain_conditions(runs, human, llm, k, ties):
    users = sorted({user for user, _ in human})
    human = {pair: rating for pair, rating in human.items() if rating >= 0}
    llm = {pair: rating for pair, rating in llm.items() if rating >= 0 and pair[0] in users}
    pool = {(u, i) for lists in runs.values() for u, ranked in lists.items() for i in plain_order(ranked, ties)[:k]}
    synthetic = {pair: rating for pair, rating in llm.items() if pair in pool}
    return (
        users,
        pool,
        {
            "human": human,
            "matched": {pair: rating for pair, rating in llm.items() if pair in human},
            "synthetic": synthetic,
            "augmented": {**synthetic, **human},
        },
    )


def of_user(judgements, user):
    return {item: rating for (owner, item), rating in judgements.items() if owner == user}


OPTIONS = st.fixed_dictionaries(
    {
        "k": st.sampled_from((None, 1, 2, 3, 5, 100)),
        "relevance_threshold": st.sampled_from((1, 3.5, 4, 6)),
        "gain": st.sampled_from(("linear", "exponential", {r / 2: (r * r) % 7 for r in range(11)})),
        "discount": st.sampled_from(("log2(rank+1)", "max(log2(rank),1)")),
        "ap_denominator": st.sampled_from(("relevant", "min(relevant,k)")),
        "ties": st.sampled_from(("trec", "order")),
        "missing_users": st.sampled_from(("zero", "drop")),
    }
)


@quick
@given(seeds, OPTIONS)
def test_equals_a_plain_loop(seed, options):
    runs, human, llm, popularity = random_case(seed)
    result = compute(tables(runs, human, llm, popularity), per_user=True, **options)
    json.dumps(result, allow_nan=False)
    k, ties = options["k"], options["ties"]
    users, pool, made = plain_conditions(runs, human, llm, k, ties)
    settings_ = {"threshold": options["relevance_threshold"], "denominator": options["ap_denominator"]}
    settings_ |= {name: options[name] for name in ("gain", "discount")}
    table = result["per_system"]
    for at, (_, lists) in enumerate(sorted(runs.items())):
        counted = [user for user in users if user in lists or options["missing_users"] == "zero"]
        for condition, judgements in made.items():
            values = [
                plain_scores(plain_order(lists.get(u, []), ties), of_user(judgements, u), k, **settings_)
                for u in counted
            ]
            for metric, column in zip(("ap", "ndcg"), zip(*values, strict=True), strict=True):
                assert table[f"{metric}_{condition}"][at] == pytest.approx(sum(column) / len(column), abs=1e-12)
        listed = {u: plain_order(lists[u], ties)[:k] for u in users if u in lists}
        arp = [sum(popularity.get(item, 0) for item in order) / len(order) for order in listed.values()]
        assert table["arp"][at] == pytest.approx(sum(arp) / len(arp), abs=1e-12)
        shares = [sum((u, i) in made["human"] for i in order) / len(order) for u, order in listed.items()]
        assert table["judged_human"][at] == pytest.approx(sum(shares) / len(shares), abs=1e-12)
        total = table["judged_human"][at] + table["judged_llm"][at] + table["judged_none"][at]
        assert total == pytest.approx(1, abs=1e-12)
    assert result["counts"]["n_pool"] == len({pair for pair in pool if pair[0] in users})
    assert result["counts"]["n_unknown_users"] == any("stranger" in lists for lists in runs.values())


@quick
@given(seeds, st.sampled_from(("trec", "order", "expected")), st.sampled_from(("ratings", "pool")))
def test_leaving_a_run_out_and_shallow_pools_equal_pools_built_anew(seed, ties, human_from):
    runs, human, llm, _ = random_case(seed)
    k = 3
    result = compute(tables(runs, human, llm), k=k, ties=ties, pool_depths=[1, 2, 3], human_from=human_from)
    table, depths = result["per_system"], result["by_pool_depth"]
    conditions = ("human", "matched", "synthetic", "augmented")[0 if human_from == "pool" else 2 :]
    names = [f"{metric}_{condition}" for condition in conditions for metric in ("ap", "ndcg")]
    assert {name.removesuffix("_pool_bias") for name in table if name.endswith("_pool_bias")} == set(names)
    assert set(depths) == {"depth", "n_pairs", "system", *names}

    def top(lists, depth):
        return {(u, i) for u in lists for i in plain_order(lists[u], ties)[:depth]}

    def again(pairs, kept):
        """Score with a pool, and with some of people's judgements; a user whose judgements all go stays."""
        people = {pair: rating for pair, rating in human.items() if human_from == "ratings" or kept(pair)}
        people |= {(user, "none"): -1 for user, _ in human}
        call = tables(runs, people, llm)
        return compute(call, k=k, ties=ties, pool=columns(("user", "item"), sorted(pairs)), parts=[])["per_system"]

    tops = {system: top(lists, k) for system, lists in runs.items()}
    for at, system in enumerate(sorted(runs)):
        others = set().union(*(pairs for name, pairs in tops.items() if name != system))
        alone = again(others, lambda pair, own=tops[system] - others: pair not in own)
        for column in names:
            assert table[f"{column}_left_out"][at] == pytest.approx(alone[column][at], abs=1e-12)
            wanted = table[column][at] - alone[column][at]
            assert table[f"{column}_pool_bias"][at] == pytest.approx(wanted, abs=1e-12)
    for depth in (1, 2, 3):
        pairs = set().union(*(top(lists, depth) for lists in runs.values()))
        alone = again(pairs, pairs.__contains__)
        rows = [at for at, found in enumerate(depths["depth"]) if found == depth]
        for column in names:
            assert [depths[column][at] for at in rows] == pytest.approx(alone[column], abs=1e-12)


def test_people_who_judged_a_pool_need_no_model():
    runs, human, _, _ = random_case(8)
    result = compute(tables(runs, human), human_from="pool")
    assert set(result["by_pool_depth"]) == {"depth", "n_pairs", "system", "ap_human", "ndcg_human"}
    assert result["per_system"]["ap_human_pool_bias"]
    rated = compute(tables(runs, human))
    assert rated["by_pool_depth"] is None
    assert "ap_human_pool_bias" not in rated["per_system"]


@quick
@given(seeds, st.sampled_from((2, 5, None)))
def test_measures_for_holes_equal_plain_loops_in_every_condition(seed, k):
    runs, human, llm, _ = random_case(seed)
    table = compute(tables(runs, human, llm), k=k, parts=["holes"], per_user=True)["per_user"]
    _, pool, made = plain_conditions(runs, human, llm, k, "trec")
    place = {pair: at for at, pair in enumerate(zip(table["system"], table["user"], strict=True))}
    for system, user in place:
        order = plain_order(runs[system].get(user, []), "trec")[:k]
        for condition, judgements in made.items():
            judged = of_user(judgements, user)
            relevant = {item for item, rating in judged.items() if rating >= 4}
            least = min(len(relevant), len(judged) - len(relevant))
            bpref = infap = 0.0
            for at, item in enumerate(order):
                if item not in relevant:
                    continue
                above = order[:at]
                other = sum(i in judged and i not in relevant for i in above)
                bpref += 1 - min(other, len(relevant)) / least if other else 1
                known = sum(i in relevant for i in above)
                pooled = sum((user, i) in pool or i in judged for i in above)
                infap += (1 + pooled * (known + 1e-5) / (known + other + 2e-5)) / (at + 1)
            n = len(relevant) or 1
            condensed = [item for item in order if item in judged]
            ap, ndcg = plain_scores(condensed, judged, k, 4, "linear", "log2(rank+1)", "relevant")
            wanted = {"bpref": bpref / n, "infap": infap / n, "ap_condensed": ap, "ndcg_condensed": ndcg}
            for name, value in wanted.items():
                assert table[f"{name}_{condition}"][place[system, user]] == pytest.approx(value, abs=1e-12), name


@quick
@given(seeds, st.sampled_from((1, 2, 3, 5, None)))
def test_expected_ties_are_the_mean_over_all_orders(seed, k):
    rng = random.Random(seed)
    items = [f"i{i}" for i in range(5)]
    ranked = [(item, float(rng.randrange(3))) for item in items]
    human = {("u", item): rng.choice((0, 2, 4, 5)) for item in rng.sample(items, 3)} | {("u", "other"): 4}
    result = compute(tables({"s": {"u": ranked}}, human), k=k, ties="expected", parts=[])["per_system"]
    values = []
    for order in permutations(ranked):
        in_order = [item for item, _ in sorted(order, key=lambda pair: -pair[1])]
        judged = of_user(human, "u")
        values.append(plain_scores(in_order, judged, k, 4, "linear", "log2(rank+1)", "relevant"))
    for metric, column in zip(("ap_human", "ndcg_human"), zip(*values, strict=True), strict=True):
        assert result[metric][0] == pytest.approx(sum(column) / len(column), abs=1e-12)


def test_expected_equals_trec_where_nothing_ties():
    runs, human, llm, popularity = random_case(5, ties=False)
    call = tables(runs, human, llm, popularity)
    trec, expected = (compute(call, ties=ties)["per_system"] for ties in ("trec", "expected"))
    for name, values in expected.items():
        assert values == pytest.approx(trec[name], abs=1e-12), name


# --- bounds ---------------------------------------------------------------------------------------------------------


@quick
@given(
    seeds,
    st.sampled_from((1, 2, 3, None)),
    st.sampled_from(("relevant", "min(relevant,k)")),
    st.sampled_from(((0, 1, 2, 3, 4, 5), (0, 5), (0, 2, 4), (0, 1), (4, 5), (2, 3))),
    st.sampled_from(("linear", "exponential")),
)
def test_bounds_are_the_extremes_over_all_fillings(seed, k, denominator, grades, gain):
    rng = random.Random(seed)
    items = [f"i{i}" for i in range(6)]
    runs = {s: {"u": [(i, rng.random()) for i in rng.sample(items, rng.randrange(1, 5))]} for s in ("a", "b")}
    human = {("u", item): rng.choice((0, 1.5, 3, 4, 5)) for item in rng.sample(items, 3)}
    result = compute(tables(runs, human), k=k, ap_denominator=denominator, gain=gain, hole_grades=list(grades))
    table = result["per_system"]
    pool = {i for lists in runs.values() for i in plain_order(lists["u"], "trec")[:k]}
    holes = sorted(pool - {item for _, item in human})
    for at, system in enumerate(("a", "b")):
        order = plain_order(runs[system]["u"], "trec")
        values = [
            plain_scores(
                order,
                of_user(human, "u") | dict(zip(holes, filling, strict=True)),
                k,
                4,
                gain,
                "log2(rank+1)",
                denominator,
            )
            for filling in product(grades, repeat=len(holes))
        ]
        tight = result["policy"]["bounds"]["tight"]["human"]
        for metric, column in zip(("ap", "ndcg"), zip(*values, strict=True), strict=True):
            lower, upper = table[f"{metric}_human_lower"][at], table[f"{metric}_human_upper"][at]
            assert lower <= min(column) + 1e-12
            assert upper >= max(column) - 1e-12
            if tight[metric]:
                assert lower == pytest.approx(min(column), abs=1e-12)
                assert upper == pytest.approx(max(column), abs=1e-12)
    assert tight == {"ap": grades != (4, 5), "ndcg": grades[0] == 0}


@quick
@given(seeds, st.sampled_from((1, 2, 3, None)), st.sampled_from(((0, 2, 5), (0, 1), (4, 5), (2, 3))))
def test_bounds_of_expectations_are_the_extremes_over_all_fillings(seed, k, grades):
    rng = random.Random(seed)
    items = [f"i{i}" for i in range(6)]
    runs = {
        s: {"u": [(i, float(rng.randrange(2))) for i in rng.sample(items, rng.randrange(1, 5))]} for s in ("a", "b")
    }
    human = {("u", item): rng.choice((0, 1.5, 4, 5)) for item in rng.sample(items, 3)}
    result = compute(tables(runs, human), k=k, hole_grades=list(grades), ties="expected")
    tight = result["policy"]["bounds"]["tight"]["human"]
    assert tight == {"ap": grades != (4, 5), "ndcg": grades[0] == 0}

    def reach(ranked):
        """Return the items that stand among the first k in some order of the ties."""
        scores = sorted((score for _, score in ranked), reverse=True)[:k]
        return {item for item, score in ranked if score >= scores[-1]}

    holes = sorted(set().union(*(reach(lists["u"]) for lists in runs.values())) - {item for _, item in human})
    for at, (_, lists) in enumerate(sorted(runs.items())):
        orders = [[i for i, _ in sorted(order, key=lambda pair: -pair[1])] for order in permutations(lists["u"])]
        values = []
        for filling in product(grades, repeat=len(holes)):
            judged = of_user(human, "u") | dict(zip(holes, filling, strict=True))
            scored = [plain_scores(o, judged, k, 4, "linear", "log2(rank+1)", "relevant") for o in orders]
            values.append([sum(column) / len(column) for column in zip(*scored, strict=True)])
        for metric, column in zip(("ap", "ndcg"), zip(*values, strict=True), strict=True):
            lower, upper = (result["per_system"][f"{metric}_human_{end}"][at] for end in ("lower", "upper"))
            assert lower <= min(column) + 1e-12
            assert upper >= max(column) - 1e-12
            if tight[metric]:
                assert (lower, upper) == pytest.approx((min(column), max(column)), abs=1e-12)


@quick
@given(seeds, OPTIONS, st.booleans())
def test_bounds_enclose_every_condition(seed, options, expected):
    runs, human, llm, _ = random_case(seed)
    options |= {"ties": "expected"} if expected else {}
    table = compute(tables(runs, human, llm), **options)["per_system"]
    for condition, metric in product(("human", "matched", "synthetic", "augmented"), ("ap", "ndcg")):
        lower, value, upper = (table[f"{metric}_{condition}{end}"] for end in ("_lower", "", "_upper"))
        if metric == "ndcg" and isinstance(options["gain"], dict):
            continue  # the value for all-zero grades is enclosed only if grade 0 brings no gain, as it does here
        for at in range(len(value)):
            assert lower[at] - 1e-12 <= value[at] <= upper[at] + 1e-12


def test_many_distinct_ratings_widen_the_bounds_but_they_enclose():
    rng = random.Random(3)
    items = [f"i{i:03}" for i in range(200)]
    runs = {s: {"u": [(i, rng.random()) for i in rng.sample(items, 60)]} for s in ("a", "b")}
    human = {("u", item): rng.random() * 5 for item in items[:120]}
    result = compute(tables(runs, human))
    assert result["policy"]["bounds"]["tight"]["human"] == {"ap": True, "ndcg": False}
    table = result["per_system"]
    holes = {i for lists in runs.values() for i, _ in lists["u"]} - set(items[:120])
    for _ in range(30):
        filled = human | {("u", item): rng.randrange(6) for item in holes}
        value = compute(tables(runs, filled), parts=[])["per_system"]["ndcg_human"]
        for at in range(2):
            assert table["ndcg_human_lower"][at] <= value[at] <= table["ndcg_human_upper"][at]


def test_all_zero_filling_is_not_the_minimum_of_ap():
    runs = {"a": {"u": [("x", 2.0), ("y", 1.0)]}}
    table = compute(tables(runs, {("u", "x"): 5}))["per_system"]
    assert (table["ap_human"], table["ap_human_lower"], table["ap_human_upper"]) == ([1.0], [1.0], [1.0])
    runs = {"a": {"u": [("y", 2.0), ("x", 1.0)]}, "b": {"u": [("z", 1.0)]}}
    table = compute(tables(runs, {("u", "x"): 5}))["per_system"]
    assert table["ap_human"][0] == 0.5
    assert table["ap_human_lower"][0] == 0.25  # y is not relevant, z is, and a does not list it
    assert table["ap_human_upper"][0] == 1.0


# --- laws -----------------------------------------------------------------------------------------------------------


def shuffled(table, rng):
    order = list(range(len(next(iter(table.values())))))
    rng.shuffle(order)
    return {name: [values[at] for at in order] for name, values in table.items()}


@quick
@given(seeds, st.sampled_from(("trec", "expected")))
def test_the_order_of_rows_changes_nothing(seed, ties):
    rng = random.Random(seed)
    call = tables(*random_case(seed))
    result = compute(call, ties=ties, n_resamples=30, per_user=True)
    again = compute(
        {name: shuffled(table, rng) for name, table in call.items()}, ties=ties, n_resamples=30, per_user=True
    )
    assert again == result


@quick
@given(seeds)
def test_the_names_of_users_and_systems_change_nothing(seed):
    runs, human, llm, popularity = random_case(seed)
    result = compute(tables(runs, human, llm, popularity))
    users = {f"u{u}": f"{9 - u}x" for u in range(5)} | {"stranger": "0", "nobody": "z"}
    systems = {f"s{s}": f"{9 - s}" for s in range(4)}
    renamed = tables(
        {systems[s]: {users[u]: ranked for u, ranked in lists.items()} for s, lists in runs.items()},
        {(users[u], i): r for (u, i), r in human.items()},
        {(users[u], i): r for (u, i), r in llm.items()},
        popularity,
    )
    again = compute(renamed)
    assert again["per_system"]["system"] == sorted(systems.values())
    for name, values in result["per_system"].items():
        if name != "system":
            assert again["per_system"][name][::-1] == values, name
    for condition, by_metric in result["rankings"].items():
        for metric, entry in by_metric.items():
            assert again["rankings"][condition][metric]["tau"] == pytest.approx(entry["tau"], abs=1e-12)


@quick
@given(seeds)
def test_judgements_outside_pool_and_test_pairs_change_nothing(seed):
    runs, human, llm, popularity = random_case(seed)
    more = {(f"u{u}", f"far{i}"): 5 for u in range(5) for i in range(3)} | {("foreign", "i1"): 5}
    one, two = (compute(tables(runs, human, given, popularity), n_resamples=20) for given in (llm, llm | more))
    for name in ("per_system", "rankings", "popularity", "by_pool_depth"):
        assert one[name] == two[name]
    assert two["counts"]["n_llm_outside_pool"] == one["counts"]["n_llm_outside_pool"] + 15


@quick
@given(seeds)
def test_augmented_is_human_where_nothing_is_missing(seed):
    runs, _, llm, _ = random_case(seed)
    rng = random.Random(seed)
    human = {(f"u{u}", f"i{i}"): rng.randrange(6) for u in range(5) for i in range(9)}
    table = compute(tables(runs, human, llm))["per_system"]
    for metric in ("ap", "ndcg"):
        assert table[f"{metric}_augmented"] == table[f"{metric}_human"]
        assert table[f"{metric}_human_lower"] == pytest.approx(table[f"{metric}_human"], abs=1e-12)
        assert table[f"{metric}_human_upper"] == pytest.approx(table[f"{metric}_human"], abs=1e-12)
        assert table[f"{metric}_condensed_human"] == pytest.approx(table[f"{metric}_human"], abs=1e-12)
        assert table[f"{metric}_condensed_augmented"] == table[f"{metric}_condensed_human"]


@quick
@given(seeds)
def test_augmented_is_synthetic_where_no_human_judged(seed):
    runs, _, llm, _ = random_case(seed)
    table = compute(tables(runs, {(f"u{u}", "i0"): -1 for u in range(5)}, llm))["per_system"]
    for metric in ("ap", "ndcg"):
        assert table[f"{metric}_augmented"] == table[f"{metric}_synthetic"]
        assert set(table[f"{metric}_human"]) == {0.0}


@quick
@given(seeds)
def test_systems_that_are_only_pooled_add_to_the_pool_alone(seed):
    runs, human, llm, popularity = random_case(seed)
    call = tables(runs, human, llm, popularity)
    everything, two = compute(call), compute(call, systems=["s2", "s0"])
    for name, values in two["per_system"].items():
        wanted = [everything["per_system"][name][2], everything["per_system"][name][0]]
        assert values == (wanted if name == "system" else pytest.approx(wanted, abs=1e-12)), name
    assert two["rankings"]["matched"]["ap"]["n"] == 2
    assert two["counts"]["n_pool"] == everything["counts"]["n_pool"]


# --- resampling -----------------------------------------------------------------------------------------------------


def test_intervals_of_tau_equal_a_plain_bootstrap():
    from scipy import stats

    runs, human, llm, popularity = random_case(11, n_systems=6, n_users=12)
    result = compute(tables(runs, human, llm, popularity), n_resamples=200, seed=4, per_user=True)
    table, n = result["per_user"], 12
    matrices = {
        name: np.array(table[name], dtype=float).reshape(6, n)
        for name in ("ap_human", "ap_augmented", "ndcg_human", "arp")
    }
    draws = np.random.default_rng(4).integers(0, n, size=(200, n))
    drawn = {name: np.round([np.nanmean(m[:, d], axis=1) for d in draws], 12) for name, m in matrices.items()}
    taus = [stats.kendalltau(a, b).statistic for a, b in zip(drawn["ap_human"], drawn["ap_augmented"], strict=True)]
    assert result["rankings"]["augmented"]["ap"]["ci_tau"] == pytest.approx(
        np.quantile(taus, [0.025, 0.975]), abs=1e-12
    )
    phi = defaultdict(list)
    for name in ("ap_human", "ap_augmented"):
        phi[name] = [stats.kendalltau(a, b).statistic for a, b in zip(drawn[name], drawn["arp"], strict=True)]
    shift = np.array(phi["ap_augmented"]) - np.array(phi["ap_human"])
    found = result["popularity"]["augmented"]["ap"]
    assert found["ci_phi"] == pytest.approx(np.quantile(phi["ap_augmented"], [0.025, 0.975]), abs=1e-12)
    assert found["ci_delta_tau"] == pytest.approx(np.quantile(shift, [0.025, 0.975]), abs=1e-12)
