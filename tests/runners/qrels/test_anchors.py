"""All 31 runs on real data: they finish, and the order of the systems stands beside the published one.

The anchors are NDCG@100 on MovieLens-1M by the research group of the paper, other data and other settings: the order
agrees with ours in the main. Nothing is tuned towards it, so the bounds here are wide. BPRMF is left out
(see docs/qrels.md).
"""

import statistics

import pytest
from gistbench.runners.qrels.recommend import recommend
from gistbench.runners.qrels.sample import sample
from gistbench.runners.qrels.split import split
from gistbench.runners.qrels.work import Work
from gistbench.runners.recommenders.registry import load_settings
from scipy.stats import kendalltau

ANCHORS = {
    "slim": 0.453,
    "wrmf": 0.427,
    "lm-wsr-ub": 0.423,
    "puresvd": 0.421,
    "lm-wsr-ib": 0.411,
    "lda": 0.410,
    "kld": 0.407,
    "plsa": 0.401,
    "rsv": 0.385,
    "chi2": 0.377,
    "popularity": 0.220,
    "nncosngbr-ub": 0.100,
    "svd": 0.091,
    "nncosngbr-ib": 0.064,
    "random": 0.017,
}


@pytest.fixture
def source(request, shared, ml_100k):
    return {"ml-latest-small": shared / "data" / "ml-latest-small", "ml-100k": ml_100k}[request.param]


def ndcg(work, source, seed, settings):
    split(work, "movielens_ratings", source=str(source), seed=seed)
    record = recommend(work, settings=settings, seed=seed, trec=False)
    means = sample(work, sizes=(100, 200, 300, 400, 500), seed=seed)["means"]["ndcg"]
    return record, means


@pytest.mark.slow
@pytest.mark.parametrize("source", ["ml-latest-small", "ml-100k"], indirect=True)
def test_order_of_systems(source, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    few = [one for one in load_settings() if one.name in ANCHORS]
    taus = []
    for seed in range(3):
        work = Work(tmp_path / str(seed))
        record, means = ndcg(work, source, seed, load_settings() if seed == 0 else few)
        if seed == 0:
            assert len(record["runs"]) == 31
            assert all(one["n_users"] == record["n_users"] for one in record["runs"])
            # With the best of a few settings, measured before: .203/.292 and .360/.507 for the first two.
            assert means["random"] < 0.05 < means["svd"] < means["popularity"] < means["puresvd"]
            assert min(means["ease"], means["slim"], means["wsr-ub"], means["wsr-ib"]) > means["popularity"] + 0.1
            table = work.record("sample")["table3"]
            assert all(row["tau_ap"] > 0.7 and row["tau_ndcg"] > 0.7 for row in table if row["n_users"] >= 300)
        taus.append(kendalltau([means[name] for name in ANCHORS], list(ANCHORS.values())).statistic)
    assert 0.4 < statistics.mean(taus) < 0.9, taus
