"""`gistbench/qrels_expansion`: values computed by hand, every way to call it, and what the result says."""

import json
from pathlib import Path

import datasets
import evaluate
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy import stats

FOLDER = Path(__file__).resolve().parents[2] / "metrics" / "qrels_expansion"


@pytest.fixture(scope="module")
def module():
    return evaluate.load(str(FOLDER))


# Two users. A ranks what people liked, B what they did not rate; the model likes y, which no person judged.
RUNS = {
    "system": ["A", "A", "A", "B", "B", "B", "A", "B"],
    "user": ["1", "1", "1", "1", "1", "1", "2", "2"],
    "item": ["x", "y", "z", "y", "w", "x", "z", "x"],
    "score": [3.0, 2.0, 1.0, 3.0, 2.0, 1.0, 1.0, 1.0],
}
HUMAN = {"user": ["1", "1", "2"], "item": ["x", "q", "z"], "rating": [5.0, 4.0, 4.5]}
LLM = {
    "user": ["1", "1", "1", "1", "2", "2"],
    "item": ["x", "y", "w", "q", "z", "x"],
    "rating": [4, 5, None, 2, 4, 1],
}
POPULARITY = {"item": ["x", "y", "z"], "count": [10, 2, 4]}
CALL = {"runs": RUNS, "human_qrels": HUMAN, "llm_qrels": LLM, "popularity": POPULARITY, "n_resamples": 0}


def dcg(*gains):
    return sum(gain / np.log2(rank + 1) for rank, gain in enumerate(gains, 1))


def test_the_four_conditions_by_hand(module):
    table = module.compute(**CALL)["per_system"]
    assert table["system"] == ["A", "B"]
    # human: user 1 has x and q relevant, user 2 has z.
    assert table["ap_human"] == pytest.approx([(1 / 2 + 1) / 2, (1 / 3 / 2 + 0) / 2])
    ideal = dcg(5, 4)
    assert table["ndcg_human"] == pytest.approx([(5 / ideal + 1) / 2, dcg(0, 0, 5) / ideal / 2])
    # matched: the model's x=4, q=2, z=4, on the pairs that people judged.
    assert table["ap_matched"] == pytest.approx([1, 1 / 3 / 2])
    assert table["ndcg_matched"] == pytest.approx([(4 / dcg(4, 2) + 1) / 2, dcg(0, 0, 4) / dcg(4, 2) / 2])
    # synthetic: q was never recommended, so its judgement is not in the pool; w was not parsed.
    assert table["ap_synthetic"] == pytest.approx([1, ((1 + 2 / 3) / 2 + 0) / 2])
    assert table["ndcg_synthetic"] == pytest.approx(
        [(dcg(4, 5) / dcg(5, 4) + 4 / dcg(4, 1)) / 2, (dcg(5, 0, 4) / dcg(5, 4) + 1 / dcg(4, 1)) / 2]
    )
    # augmented: people's x=5, q=4, z=4.5 and the model's y=5, x=1 (user 2).
    assert table["ap_augmented"] == pytest.approx([(2 / 3 + 1) / 2, ((1 + 2 / 3) / 3 + 0) / 2])
    assert table["ndcg_augmented"] == pytest.approx(
        [(dcg(5, 5) / dcg(5, 5, 4) + 4.5 / dcg(4.5, 1)) / 2, (dcg(5, 0, 5) / dcg(5, 5, 4) + 1 / dcg(4.5, 1)) / 2]
    )
    assert table["arp"] == pytest.approx([(16 / 3 + 4) / 2, (12 / 3 + 10) / 2])
    assert table["judged_human"] == pytest.approx([(1 / 3 + 1) / 2, (1 / 3) / 2])
    assert table["judged_llm"] == pytest.approx([(1 / 3) / 2, (1 / 3 + 1) / 2])
    assert table["judged_none"] == pytest.approx([(1 / 3) / 2, (1 / 3) / 2])


def test_counts_and_agreement_by_hand(module):
    result = module.compute(**CALL)
    counts, found = result["counts"], result["agreement"]
    assert counts["n_users"] == 2
    assert counts["n_pool"] == 6
    assert counts["n_holes"] == {"human": 4, "matched": 4, "synthetic": 2, "augmented": 2}
    assert counts["n_llm_outside_pool"] == 1
    assert counts["n_items_without_popularity"] == 1
    assert found["n_pairs"] == 3
    assert found["n_unparsed"] == 1
    assert found["mae"] == pytest.approx((1 + 2 + 0.5) / 3)
    assert found["bias"] == pytest.approx(-(1 + 2 + 0.5) / 3)
    # 4.5 is rounded half up to 5.
    assert found["confusion"] == {"labels": [2, 4, 5], "counts": [[0, 0, 0], [1, 0, 0], [0, 2, 0]]}


def test_kappas_equal_their_definition(module):
    rng = np.random.default_rng(0)
    person = rng.choice(np.arange(0.5, 5.5, 0.5), 400)
    machine = np.clip(np.round(person + rng.normal(0, 1, 400)), 0, 5)
    ids = [f"i{i}" for i in range(400)]
    runs = {"system": ["s"] * 400, "user": ["u"] * 400, "item": ids, "score": np.arange(400.0)}
    result = module.compute(
        runs=runs,
        human_qrels={"user": ["u"] * 400, "item": ids, "rating": person},
        llm_qrels={"user": ["u"] * 400, "item": ids, "rating": machine},
        n_resamples=0,
    )
    rounded = np.floor(person + 0.5)
    labels = np.arange(6)
    observed = np.array([[((rounded == a) & (machine == b)).mean() for b in labels] for a in labels])
    chance = np.outer(observed.sum(axis=1), observed.sum(axis=0))
    plain = (np.trace(observed) - np.trace(chance)) / (1 - np.trace(chance))
    distance = (labels[:, None] - labels) ** 2
    found = result["agreement"]
    assert found["kappa"] == pytest.approx(plain, abs=1e-12)
    assert found["kappa_quadratic"] == pytest.approx(1 - (distance * observed).sum() / (distance * chance).sum())
    assert found["mae"] == pytest.approx(np.abs(person - machine).mean(), abs=1e-12)


def test_rankings_and_popularity_by_hand(module):
    result = module.compute(**CALL)
    entry = result["rankings"]["synthetic"]["ap"]
    assert (entry["tau"], entry["n"], entry["n_tied_pairs"], entry["rbo"]) == (1.0, 2, 0, pytest.approx(1))
    popularity = result["popularity"]
    assert popularity["human"]["ap"]["phi"] == -1.0
    assert "delta_tau" not in popularity["human"]["ap"]
    assert popularity["augmented"]["ndcg"]["delta_tau"] == 0.0


def test_ties_between_systems_are_counted_and_a_constant_ranking_has_no_tau(module):
    runs = {"system": ["A", "B", "C"], "user": ["1"] * 3, "item": ["x", "x", "y"], "score": [1.0] * 3}
    call = {"runs": runs, "human_qrels": {"user": ["1"], "item": ["x"], "rating": [5]}}
    result = module.compute(**call, llm_qrels={"user": ["1"], "item": ["y"], "rating": [0]}, n_resamples=20)
    entry = result["rankings"]["matched"]["ap"]
    assert (entry["tau"], entry["p"], entry["ci_tau"]) == (None, None, None)
    assert (entry["n_tied_pairs_human"], entry["n_tied_pairs"]) == (1, 3)


def test_rank_biased_overlap_equals_its_series(module):
    rng = np.random.default_rng(2)
    n, p = 7, 0.8
    runs = {
        "system": [f"s{s}" for s in range(n) for _ in range(4)],
        "user": [f"u{u}" for _ in range(n) for u in range(4)],
        "item": [f"i{i}" for i in rng.integers(0, 5, 4 * n)],
        "score": [1.0] * (4 * n),
    }
    pairs = [(f"u{u}", f"i{i}") for u in range(4) for i in range(5)]
    human, llm = (
        {"user": [u for u, _ in pairs], "item": [i for _, i in pairs], "rating": rng.random(20) * 5} for _ in range(2)
    )
    result = module.compute(runs=runs, human_qrels=human, llm_qrels=llm, n_resamples=0, rbo_p=p)
    table = result["per_system"]
    one, two = (sorted(range(n), key=lambda s, c=c: -table[f"ndcg_{c}"][s]) for c in ("human", "matched"))
    share = [len(set(one[:d]) & set(two[:d])) / d for d in range(1, n + 1)]
    wanted = share[-1] * p**n + (1 - p) / p * sum(x * p**d for d, x in enumerate(share, 1))
    assert result["rankings"]["matched"]["ndcg"]["rbo"] == pytest.approx(wanted, abs=1e-12)


# --- ways to call ---------------------------------------------------------------------------------------------------


def same(result):
    result = json.loads(json.dumps(result, allow_nan=False))
    return {name: value for name, value in result.items() if name != "policy"}


@pytest.fixture(scope="module")
def wanted(module):
    return same(module.compute(**CALL))


def dictionaries(table):
    return pa.table(
        {
            n: v.dictionary_encode() if pa.types.is_string(v.type) else v
            for n, v in zip(table.column_names, table.columns, strict=True)
        }
    )


def chunks(table):
    parts = [dictionaries(table.slice(at, 1)) for at in range(table.num_rows)]
    return pa.concat_tables(parts)


FORMS = {
    "arrow": pa.table,
    "dictionaries": lambda table: dictionaries(pa.table(table)),
    "chunks with dictionaries of their own": lambda table: chunks(pa.table(table)),
    "large strings": lambda table: pa.table(
        {
            n: v.cast(pa.large_string()) if pa.types.is_string(v.type) else v
            for n, v in zip(table, pa.table(table).columns, strict=True)
        }
    ),
    "string views": lambda table: pa.table(
        {
            n: v.cast(pa.string_view()) if pa.types.is_string(v.type) else v
            for n, v in zip(table, pa.table(table).columns, strict=True)
        }
    ),
    "pandas": pd.DataFrame,
    "data set": datasets.Dataset.from_dict,
    "batch": lambda table: pa.RecordBatch.from_pydict(table),
    "numpy": lambda table: {
        name: np.array(values, dtype=float if name in ("rating", "score", "count") else object)
        for name, values in table.items()
    },
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_table_gives_the_same(module, wanted, form):
    given = {name: FORMS[form](value) if isinstance(value, dict) else value for name, value in CALL.items()}
    assert same(module.compute(**given)) == wanted


@pytest.mark.parametrize("kind", ["int8", "int32", "int64", "uint64"])
def test_integer_ids_are_compared_as_text(module, kind):
    number = {"A": 7, "B": 9, "x": 0, "y": 3, "z": 100, "w": 12, "q": 99, "1": 1, "2": 2}
    dtype = np.dtype(kind)

    def numbered(table, as_text):
        return {
            n: v
            if n in ("score", "rating", "count")
            else [str(number[i]) for i in v]
            if as_text
            else np.array([number[i] for i in v], dtype)
            for n, v in table.items()
        }

    texts, integers = (
        {n: numbered(v, t) if isinstance(v, dict) else v for n, v in CALL.items()} for t in (True, False)
    )
    wanted = same(module.compute(**texts))
    assert same(module.compute(**integers)) == wanted
    assert same(module.compute(**{**texts, "runs": integers["runs"]})) == wanted
    assert same(module.compute(**{**integers, "runs": texts["runs"]})) == wanted


def test_integers_far_apart_and_negative(module):
    runs = {"system": [1, 1], "user": [-5, 10**15], "item": [-(2**62), 2**62], "score": [1.0, 1.0]}
    human = {"user": [-5, 10**15], "item": [str(-(2**62)), str(2**62)], "rating": [5, 5]}
    assert module.compute(runs=runs, human_qrels=human, n_resamples=0)["per_system"]["ap_human"] == [1.0]


@pytest.mark.parametrize("step", [1, 10, 1000, 10**9])
def test_integer_ids_of_any_range_give_what_text_gives(module, step):
    rng = np.random.default_rng(step)
    items = np.concatenate([rng.choice(200, 20, replace=False) for _ in range(12)]) * step + 3
    runs = {"system": np.repeat([4, 9, 7], 80), "user": np.tile(np.repeat([3, 11, 5, 2], 20), 3) * step, "item": items}
    runs["score"] = rng.integers(0, 5, 240).astype(float)
    human = {"user": np.repeat([3, 11, 5, 2], 50) * step, "item": np.tile(np.arange(50) * 4 * step + 3, 4)}
    human["rating"] = rng.integers(0, 6, 200)
    texts = [{n: v.astype(str) if n in ("system", "user", "item") else v for n, v in t.items()} for t in (runs, human)]
    one, two = (module.compute(runs=r, human_qrels=h, n_resamples=0) for r, h in ((runs, human), texts))
    assert same(one) == same(two)


def test_mixed_ids_are_read_as_text(module):
    runs = {"system": ["A", "A"], "user": ["1", 1], "item": ["x", 3], "score": [2.0, 1.0]}
    human = {"user": ["1"], "item": ["3"], "rating": [5]}
    assert module.compute(runs=runs, human_qrels=human, n_resamples=0)["per_system"]["ap_human"] == [0.5]


def per_system_runs():
    return [
        {
            name: [v for s, v in zip(RUNS["system"], RUNS[name], strict=True) if s == system]
            for name in ("user", "item", "score")
        }
        for system in ("A", "B")
    ]


def test_predictions_and_references_and_batches_give_the_same(module, wanted):
    rest = {name: value for name, value in CALL.items() if name != "runs"}
    a, b = per_system_runs()
    assert same(module.compute(predictions=[a, b], references=["A", "B"], **rest)) == wanted
    module.add_batch(predictions=[b], references=["B"])
    module.add(prediction=a, reference="A")
    assert same(module.compute(**rest)) == wanted
    assert same(module.compute(predictions=[a, b], references=["A", "B"], **rest)) == wanted


def test_two_instances_collect_at_once():
    one, two = (evaluate.load(str(FOLDER), experiment_id=f"qrels{i}", keep_in_memory=True) for i in range(2))
    a, b = per_system_runs()
    one.add(prediction=a, reference="A")
    two.add(prediction=b, reference="B")
    rest = {"human_qrels": HUMAN, "n_resamples": 0}
    assert two.compute(**rest)["per_system"]["system"] == ["B"]
    assert one.compute(**rest)["per_system"]["system"] == ["A"]


def test_combine_and_save(module, wanted, tmp_path):
    rest = {name: value for name, value in CALL.items() if name != "runs"}
    combined = evaluate.combine([module])
    result = combined.compute(predictions=per_system_runs(), references=["A", "B"], **rest)
    assert same(result) == wanted
    path = evaluate.save(tmp_path, **module.compute(**CALL))
    assert json.loads(path.read_text())["per_system"] == wanted["per_system"]


# --- options --------------------------------------------------------------------------------------------------------


def test_only_people(module):
    result = module.compute(runs=RUNS, human_qrels=HUMAN, n_resamples=10)
    assert result["agreement"] is result["rankings"] is result["popularity"] is result["by_pool_depth"] is None
    assert result["per_system"]["ap_augmented"] == [None, None]
    assert result["per_system"]["ap_human_upper"][0] > result["per_system"]["ap_human"][0]


def test_per_user_values_have_the_systems_means(module):
    result = module.compute(**CALL, per_user=True)
    table = result["per_user"]
    assert (table["system"], table["user"]) == (["A", "A", "B", "B"], ["1", "2", "1", "2"])
    for name, values in table.items():
        if name not in ("system", "user"):
            assert result["per_system"][name] == pytest.approx([np.mean(values[:2]), np.mean(values[2:])]), name


def test_relevant_is_a_rating_above_zero_beside_the_threshold(module):
    human = {**HUMAN, "rating": [3.0, 0.0, 5.0]}
    table = module.compute(**{**CALL, "human_qrels": human})["per_system"]
    assert table["ap_human"] == pytest.approx([1 / 2, 0])
    assert table["ap_positive_human"] == pytest.approx([1, 1 / 3 / 2])


def test_parts_leave_things_out(module):
    whole = module.compute(**CALL)
    bare = module.compute(**CALL, parts=[])
    assert set(bare["per_system"]) == {"system", "arp", "n_users"} | {
        f"{m}_{c}" for m in ("ap", "ndcg") for c in ("human", "matched", "synthetic", "augmented")
    }
    assert all(
        whole["per_system"][name] == pytest.approx(v) for name, v in bare["per_system"].items() if name != "system"
    )
    assert bare["rankings"] is bare["by_pool_depth"] is None


def test_a_given_pool(module):
    pool = {"user": ["1", "2", "nobody"], "item": ["q", "x", "x"]}
    result = module.compute(**CALL, pool=pool)
    assert result["counts"]["n_pool"] == 2
    assert result["counts"]["n_pool_of_unknown_users"] == 1
    assert result["per_system"]["ap_synthetic"] == [0.0, 0.0]
    assert result["policy"]["pool"] == "given"


def test_scores_of_float32_tie_as_such(module):
    close = [1.0, 1.0 + 1e-12]
    runs = {"system": ["A", "A"], "user": ["1", "1"], "item": ["y", "x"]}
    human = {"user": ["1"], "item": ["x"], "rating": [5]}
    for kind, ap in ((np.float64, 1.0), (np.float32, 0.5)):
        table = {**runs, "score": np.array(close, kind)}
        assert module.compute(runs=table, human_qrels=human, n_resamples=0)["per_system"]["ap_human"] == [ap]


def test_policy_names_every_convention(module):
    policy = module.compute(**CALL, gain={0: 0, 1: 0, 2: 1, 4: 3, 4.5: 3, 5: 4, 3: 2}, k=7)["policy"]
    for name in ("k", "relevance_threshold", "gain", "discount", "ideal", "ap_denominator", "ties", "users"):
        assert policy[name] is not None
    assert policy["gain"]["4.5"] == 3.0
    assert policy["bounds"]["tight"]["human"] == {"ap": True, "ndcg": True}


# --- significance ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def compared(module):
    rng = np.random.default_rng(5)
    n_users = 40
    rows = [
        (f"s{s}", f"u{u}", f"i{i}", float(rng.random() + 0.2 * s * (i == 0)))
        for s in range(3)
        for u in range(n_users)
        for i in range(6)
    ]
    runs = dict(zip(("system", "user", "item", "score"), map(list, zip(*rows, strict=True)), strict=True))
    human = {"user": [f"u{u}" for u in range(n_users)], "item": ["i0"] * n_users, "rating": [5] * n_users}
    tests = ["wilcoxon", "t", "permutation", "tukey_hsd"]
    result = module.compute(runs=runs, human_qrels=human, per_user=True, n_resamples=2000, significance=tests)
    return result, pd.DataFrame(result["significance"])


def test_tests_equal_scipys(compared):
    result, table = compared
    values = np.array(result["per_user"]["ndcg_human"]).reshape(3, -1)
    table = table[(table.metric == "ndcg") & (table.condition == "human")]
    for row in table.itertuples():
        difference = values[int(row.system_a[1])] - values[int(row.system_b[1])]
        assert row.difference == pytest.approx(difference.mean())
        if row.test == "t":
            assert row.p == pytest.approx(stats.ttest_1samp(difference, 0).pvalue)
        if row.test == "wilcoxon":
            drawn = stats.PermutationMethod(n_resamples=5000, rng=1)
            kept = np.round(difference, 12)
            peer = stats.wilcoxon(kept[kept != 0], method=drawn)  # ties included, as ours
            assert row.p == pytest.approx(peer.pvalue, abs=0.02)
        if row.test == "permutation":
            peer = stats.permutation_test((difference,), np.mean, permutation_type="samples", n_resamples=2000, rng=1)
            assert row.p == pytest.approx(peer.pvalue, abs=0.02)
        if row.test == "tukey_hsd":
            t = table[(table.test == "t") & (table.system_a == row.system_a) & (table.system_b == row.system_b)]
            assert row.p >= t.p.iloc[0] - 0.02
            assert row.p == row.p_adjusted
    assert (table.p_adjusted >= table.p).all()


def test_effect_sizes_and_intervals_of_differences(compared):
    result, table = compared
    values = np.array(result["per_user"]["ap_human"]).reshape(3, -1)
    table = table[(table.metric == "ap") & (table.test == "t")]
    for row in table.itertuples():
        difference = values[int(row.system_a[1])] - values[int(row.system_b[1])]
        assert row.effect_size == pytest.approx(difference.mean() / difference.std(ddof=1))
        peer = stats.bootstrap((difference,), np.mean, n_resamples=2000, method="percentile", rng=0)
        low, high = row.ci_difference
        assert low <= row.difference <= high
        assert (low, high) == pytest.approx(tuple(peer.confidence_interval), abs=0.02)
        assert (row.p < 0.03) <= (not low <= 0 <= high)


def test_users_whom_a_system_lacks_count_in_no_pair_of_it(module):
    runs = {"system": ["A", "A", "A", "B", "B"], "user": ["1", "2", "3", "1", "2"]}
    runs |= {"item": ["x", "x", "x", "y", "x"], "score": [1.0] * 5}
    human = {"user": ["1", "2", "3"], "item": ["x"] * 3, "rating": [5] * 3}
    call = {"runs": runs, "human_qrels": human, "significance": "t", "missing_users": "drop"}
    found = module.compute(**call, n_resamples=200)["significance"]
    assert (found["n"][0], found["difference"][0], found["ci_difference"][0]) == (2, 0.5, [0.0, 1.0])
    assert module.compute(**call, n_resamples=0)["significance"]["ci_difference"] == [None, None]


def test_corrections(module, compared):
    _, table = compared
    t = table[(table.metric == "ap") & (table.test == "t")]
    p = np.sort(t.p.to_numpy())
    assert np.sort(t.p_adjusted.to_numpy()) == pytest.approx(np.maximum.accumulate(np.minimum(p * [3, 2, 1], 1)))
    assert np.allclose(stats.false_discovery_control(p), _benjamini(p))


def _benjamini(p):
    n = len(p)
    return np.minimum(np.minimum.accumulate((p * n / np.arange(1, n + 1))[::-1])[::-1], 1)


def test_identical_systems_do_not_differ(module):
    runs = {"system": ["A", "B"] * 3, "user": ["1", "1", "2", "2", "3", "3"], "item": ["x"] * 6, "score": [1.0] * 6}
    human = {"user": ["1", "2", "3"], "item": ["x"] * 3, "rating": [5] * 3}
    for correction in ("holm", "benjamini-hochberg", "none"):
        result = module.compute(
            runs=runs,
            human_qrels=human,
            n_resamples=50,
            significance=["wilcoxon", "t", "permutation", "tukey_hsd"],
            correction=correction,
        )
        assert set(result["significance"]["p_adjusted"]) == {1.0}
