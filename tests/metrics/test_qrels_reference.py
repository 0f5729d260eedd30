"""AP and NDCG against what others computed: trec_eval's own expected outputs, pytrec_eval, LensKit for Java."""

import csv
import gzip
from collections import defaultdict
from itertools import combinations
from pathlib import Path

import evaluate
import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

PLAIN = {"parts": [], "n_resamples": 0, "per_user": True}


@pytest.fixture(scope="module")
def module():
    return evaluate.load(str(Path(__file__).resolve().parents[2] / "metrics" / "qrels_expansion"))


def table_of(runs):
    rows = [
        (system, user, item, score)
        for system, users in runs.items()
        for user, of in users.items()
        for item, score in of.items()
    ]
    return dict(zip(("system", "user", "item", "score"), map(list, zip(*rows, strict=True)), strict=True))


def by_user(result, column):
    table = result["per_user"]
    return {(s, u): v for s, u, v in zip(table["system"], table["user"], table[column], strict=True)}


# --- trec_eval ------------------------------------------------------------------------------------------------------

CASES = {  # expected output: judgements, run, lowest relevant grade, lists cut at
    "aq": ("qrels.test", "results.test", 1, None),
    "aqc": ("qrels.test", "results.trunc", 1, None),
    "aqcM": ("qrels.test", "results.trunc", 1, 100),
    "aql": ("qrels.rel_level", "results.test", 2, None),
}
CUTS = (5, 10, 15, 20, 30, 100, 200, 500, 1000)


def expected_values(path):
    values = {}
    for line in path.read_text().splitlines():
        name, topic, value = line.split()
        if name in ("map", "ndcg", "bpref", "infAP") or name.startswith(("map_cut_", "ndcg_cut_")):
            values[name, topic] = float(value)
    return values


def cut_run(table, depth):
    rows = defaultdict(list)
    for system, user, item, score in zip(*(table[name].to_pylist() for name in table.column_names), strict=True):
        rows[system, user].append((score, item))
    kept = [
        (system, user, item, score)
        for (system, user), of in rows.items()
        for score, item in sorted(of, reverse=True)[:depth]
    ]
    return pa.table(dict(zip(table.column_names, map(list, zip(*kept, strict=True)), strict=True)))


@pytest.mark.parametrize("case", CASES)
def test_trec_eval(module, shared, case):
    folder = shared / "reference" / "trec_eval"
    qrels_name, run_name, level, depth = CASES[case]
    qrels, run = module.read_qrels(folder / qrels_name), module.read_run(folder / run_name)
    run = run if depth is None else cut_run(run, depth)
    expected = expected_values(folder / f"out.test.{case}")
    call = {"runs": run, "human_qrels": qrels, "relevance_threshold": level, "per_user": True, "n_resamples": 0}
    n_compared = 0

    def compare(result, name, column):
        nonlocal n_compared
        values = {user: value for (_, user), value in by_user(result, column).items()}
        for topic, value in values.items():
            if (name, topic) in expected:
                assert value == pytest.approx(expected[name, topic], abs=5.0001e-5), (name, topic)
                n_compared += 1
        assert result["per_system"][column][0] == pytest.approx(expected[name, "all"], abs=5.0001e-5), name
        n_compared += 1

    whole = module.compute(**call, k=None, parts=["holes"], pool=qrels.select(["user", "item"]))
    for name, column in {
        "map": "ap_human",
        "ndcg": "ndcg_human",
        "bpref": "bpref_human",
        "infAP": "infap_human",
    }.items():
        compare(whole, name, column)
    for cut in CUTS:
        result = module.compute(**call, k=cut, parts=[])
        compare(result, f"map_cut_{cut}", "ap_human")
        compare(result, f"ndcg_cut_{cut}", "ndcg_human")
    assert n_compared >= 22 * 3


def test_trec_evals_average_without_c_leaves_missing_users_out(module, shared):
    folder = shared / "reference" / "trec_eval"
    qrels, run = module.read_qrels(folder / "qrels.test"), module.read_run(folder / "results.trunc")
    zero = module.compute(runs=run, human_qrels=qrels, relevance_threshold=1, k=None, **PLAIN)
    drop = module.compute(runs=run, human_qrels=qrels, relevance_threshold=1, k=None, missing_users="drop", **PLAIN)
    assert drop["per_system"]["ap_human"][0] == pytest.approx(zero["per_system"]["ap_human"][0] * 3 / 2, abs=1e-15)
    assert by_user(drop, "ap_human")["STANDARD", "302"] is None
    assert by_user(zero, "ap_human")["STANDARD", "302"] == 0


# --- real pools -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def robust(module, shared):
    folder = shared / "reference" / "robust03"
    runs = pa.concat_tables([module.read_run(path) for path in sorted((folder / "runs").glob("*.gz"))])
    return runs, module.read_qrels(folder / "qrels.txt.gz")


def nested(runs, qrels):
    run, judged = defaultdict(lambda: defaultdict(dict)), defaultdict(dict)
    for system, user, item, score in zip(*(runs[name].to_pylist() for name in runs.column_names), strict=True):
        run[system][user][item] = score
    for user, item, rating in zip(*(qrels[name].to_pylist() for name in qrels.column_names), strict=True):
        judged[user][item] = int(rating)
    return run, dict(judged)


def test_robust03_equals_pytrec_eval(module, robust):
    pytrec_eval = pytest.importorskip("pytrec_eval", reason="pip install pytrec_eval-terrier")
    runs, qrels = robust
    run, judged = nested(runs, qrels)
    for level in (1, 2):
        measures = {"map", "ndcg", "bpref", "infAP", "map_cut.10,30,100", "ndcg_cut.10,30,100"}
        peer = pytrec_eval.RelevanceEvaluator(judged, measures, relevance_level=level)
        theirs = {system: peer.evaluate(users) for system, users in run.items()}
        call = {"runs": runs, "human_qrels": qrels, "relevance_threshold": level, "per_user": True, "n_resamples": 0}
        whole = module.compute(**call, k=None, parts=["holes"], pool=qrels.select(["user", "item"]))
        pairs = {"map": "ap_human", "ndcg": "ndcg_human", "bpref": "bpref_human", "infAP": "infap_human"}
        results = [(whole, pairs)]
        for cut in (10, 30, 100):
            pairs = {f"map_cut_{cut}": "ap_human", f"ndcg_cut_{cut}": "ndcg_human"}
            results.append((module.compute(**call, k=cut, parts=[]), pairs))
        for result, pairs in results:
            for name, column in pairs.items():
                ours = by_user(result, column)
                worst = max(
                    abs(ours[system, user] - values[name])
                    for system, users in theirs.items()
                    for user, values in users.items()
                )
                assert worst < 1e-12, (level, name)
                assert len(ours) == 800
    assert whole["counts"]["n_tied_rows"] > 15_000


def test_robust03_kendall_tau_equals_scipy(module, robust):
    runs, qrels = robust
    rng = np.random.default_rng(1)
    noisy = {
        "user": qrels["user"],
        "item": qrels["item"],
        "rating": np.where(rng.random(len(qrels)) < 0.3, rng.integers(0, 3, len(qrels)), qrels["rating"].to_numpy()),
    }
    popularity = {"item": qrels["item"].unique(), "count": rng.integers(0, 99, len(qrels["item"].unique()))}
    result = module.compute(
        runs=runs, human_qrels=qrels, llm_qrels=noisy, popularity=popularity, relevance_threshold=1, n_resamples=0
    )
    table = result["per_system"]
    for condition, metric in [(c, m) for c in ("matched", "synthetic", "augmented") for m in ("ap", "ndcg")]:
        human, other = table[f"{metric}_human"], table[f"{metric}_{condition}"]
        wanted = stats.kendalltau(human, other)
        found = result["rankings"][condition][metric]
        assert (found["tau"], found["p"]) == (wanted.statistic, wanted.pvalue)
        assert found["n"] == 8
        concordant = sum(
            np.sign(human[a] - human[b]) * np.sign(other[a] - other[b]) for a, b in combinations(range(8), 2)
        )
        assert found["tau"] == pytest.approx(concordant / 28, abs=1e-12)
        phi = stats.kendalltau(other, table["arp"]).statistic
        of_human = stats.kendalltau(human, table["arp"]).statistic
        assert result["popularity"][condition][metric]["phi"] == phi
        assert result["popularity"][condition][metric]["delta_tau"] == pytest.approx(phi - of_human, abs=1e-15)
    assert table["ap_augmented"] == table["ap_human"]


# --- LensKit --------------------------------------------------------------------------------------------------------


def test_lenskit_ndcg(module, shared):
    folder = shared / "reference" / "lenskit"

    def read(name):
        with open(folder / name, newline="") as file:
            return list(csv.DictReader(file))

    recommended, truth, expected = (read(f"topn-java-{name}.csv") for name in ("recs", "truth", "metrics"))
    runs = {
        "system": [row["Algorithm"] for row in recommended],
        "user": [row["user"] for row in recommended],
        "item": [row["item"] for row in recommended],
        "score": [-float(row["rank"]) for row in recommended],
    }
    qrels = {
        "user": [row["user"] for row in truth],
        "item": [row["item"] for row in truth],
        "rating": [float(row["rating"]) for row in truth],
    }
    result = module.compute(runs=runs, human_qrels=qrels, k=None, discount="max(log2(rank),1)", ties="order", **PLAIN)
    ours = by_user(result, "ndcg_human")
    assert len(expected) == 100
    for row in expected:
        assert ours[row["Algorithm"], row["user"]] == pytest.approx(float(row["Java.nDCG"]), abs=1e-12), row


def test_files_and_tables_give_the_same(module, robust, shared, tmp_path):
    runs, qrels = robust
    folder = shared / "reference" / "robust03"
    paths = sorted((folder / "runs").glob("*.gz"))
    from_files = module.compute(runs=paths, human_qrels=folder / "qrels.txt.gz", relevance_threshold=1, **PLAIN)
    from_tables = module.compute(runs=runs, human_qrels=qrels, relevance_threshold=1, **PLAIN)
    assert from_files == from_tables
    pa.parquet.write_table(runs, tmp_path / "runs.parquet")
    module.write_qrels(qrels, tmp_path / "qrels.txt")
    again = module.compute(
        runs=str(tmp_path / "runs.parquet"), human_qrels=tmp_path / "qrels.txt", relevance_threshold=1, **PLAIN
    )
    assert again == from_tables
    module.write_run(runs.slice(0, 900), tmp_path / "run.txt")
    assert module.read_run(tmp_path / "run.txt").equals(runs.slice(0, 900))
    with gzip.open(folder / "qrels.txt.gz", "rt") as file, open(tmp_path / "qrels.txt") as written:
        assert file.readline().split() == written.readline().split()
