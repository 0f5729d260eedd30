import numpy as np
import pytest
from gistbench.hf_datasets.errors import ConfigError, StoreError
from gistbench.runners.qrels.pool import head_items, pool
from gistbench.runners.qrels.ratings import Ratings
from gistbench.runners.qrels.recommend import recommend
from gistbench.runners.qrels.runs import read_run_table
from gistbench.runners.qrels.sample import sample


@pytest.fixture
def sampled(work):
    sample(work, sizes=(30,), take=30, n_repeats=1)
    return work


def expected_pairs(work, depth, users):
    pairs = {}
    for run in work.record("recommend")["runs"]:
        for row in read_run_table(work, run["system"]).to_pylist():
            if row["rank"] <= depth and row["user"] in users:
                pairs.setdefault((row["user"], row["item"]), []).append((row["rank"], run["system"]))
    return pairs


@pytest.mark.parametrize("depth", [1, 20, 100])
def test_the_pool_is_the_union(sampled, depth):
    record = pool(sampled, depth=depth)
    users = set(sampled.read("users")["user"].to_pylist())
    expected = expected_pairs(sampled, depth, users)
    ratings = Ratings.read(sampled)
    judged = {(row["user"], row["item"]): row["rating"] for row in ratings.qrels().to_pylist()}
    count = dict(zip(ratings.items.to_pylist(), ratings.count.tolist(), strict=True))
    head = {ratings.items[int(i)].as_py() for i in head_items(ratings.count, 0.1)}
    rows = sampled.read("pool").to_pylist()
    assert {(row["user"], row["item"]) for row in rows} == set(expected)
    assert len(rows) == len(expected) == record["n_pairs"]
    for row in rows:
        pair = row["user"], row["item"]
        assert row["n_systems"] == len(expected[pair])
        assert row["depth"] == min(rank for rank, _ in expected[pair])
        assert row["rating"] == judged.get(pair)
        assert (row["count"], row["head"]) == (count[row["item"]], row["item"] in head)
    n_judged = sum(pair in judged for pair in expected)
    assert record["share_judged"] == pytest.approx(n_judged / len(expected))
    assert record["popularity"]["holes"]["n"] == record["n_holes"] == len(expected) - n_judged
    for of_system in sampled.read("pool_systems").to_pylist():
        mine = [systems for systems in expected.values() if any(name == of_system["system"] for _, name in systems)]
        assert of_system["n_pairs"] == len(mine)
        assert of_system["n_only_this"] == sum(len(systems) == 1 for systems in mine)
        assert of_system["mean_systems"] == pytest.approx(np.mean([len(systems) for systems in mine]))


def test_the_metric_takes_it(sampled):
    from gistbench.runners.score import load_metric

    pool(sampled)
    ratings = Ratings.read(sampled)
    users = sampled.read("users")["user"]
    rows = np.flatnonzero(np.isin(ratings.users.to_pylist(), users.to_pylist()))
    table = sampled.read("pool")
    llm = table.select(["user", "item"]).append_column("rating", table["count"].cast("double"))
    result = load_metric("qrels_expansion").compute(
        runs=read_run_table(sampled, "ease").select(["system", "user", "item", "score"]),
        human_qrels=ratings.qrels(rows),
        llm_qrels=llm,
        pool=table.select(["user", "item"]),
        parts=["judged"],
        n_resamples=0,
    )
    assert result["counts"]["n_pool"] == table.num_rows
    assert result["counts"]["n_pool_of_unknown_users"] == 0
    assert result["per_system"]["judged_none"] == [0.0]


def test_everybody(work):
    sample(work, sizes=(500,))
    record = pool(work, all_users=True)
    assert record["n_users"] == 120
    assert record["n_pairs"] == len(expected_pairs(work, 100, set(Ratings.read(work).users.to_pylist())))


def test_items_without_training_ratings_are_tail_and_counted(work, quick, tmp_path):
    path = tmp_path / "mine.run"
    path.write_text("".join(f"u{user:03d} Q0 unheard-of 1 1 mine\n" for user in range(120)))
    recommend(work, settings=quick, imports=[path])
    sample(work, sizes=(30,), take=30, n_repeats=1)
    record = pool(work)
    assert record["n_pairs_of_items_without_training"] == 30
    rows = [row for row in work.read("pool").to_pylist() if row["item"] == "unheard-of"]
    assert {(row["n_systems"], row["count"], row["head"], row["rating"]) for row in rows} == {(1, 0, False, None)}
    mine = next(row for row in work.read("pool_systems").to_pylist() if row["system"] == "mine")
    assert mine["share_only_this"] == 1.0


def test_the_same_again_changes_nothing(sampled):
    pool(sampled)
    before = {path: path.stat().st_mtime_ns for path in sampled.path.glob("pool*")}
    pool(sampled)
    assert {path: path.stat().st_mtime_ns for path in sampled.path.glob("pool*")} == before
    sample(sampled, sizes=(31,), take=31, n_repeats=1)
    assert not (sampled.path / "pool.json").exists()
    assert not (sampled.path / "pool.parquet").exists()


def test_bad_options(sampled):
    with pytest.raises(ConfigError, match="depth is 0"):
        pool(sampled, depth=0)
    with pytest.raises(ConfigError, match="head_share is 1"):
        pool(sampled, head_share=1)


def test_before_the_sample(work):
    with pytest.raises(StoreError, match="run `gistbench qrels sample"):
        pool(work)


def test_a_run_that_is_gone(sampled):
    (sampled.path / "runs" / "ease.parquet").unlink()
    with pytest.raises(StoreError, match="Run `gistbench qrels recommend"):
        pool(sampled)
