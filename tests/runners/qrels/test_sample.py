import numpy as np
import pytest
from gistbench.hf_datasets.errors import ConfigError, StoreError
from gistbench.runners.qrels.evaluate import evaluate_runs
from gistbench.runners.qrels.pool import pool
from gistbench.runners.qrels.ratings import Ratings
from gistbench.runners.qrels.runs import run_path
from gistbench.runners.qrels.sample import _p_values, draw_sample, equivalence, sample, strata, welch
from scipy import stats


class TestStrata:
    def test_quantiles_of_equal_size(self):
        lengths = np.random.default_rng(0).permutation(1000)
        found = strata(lengths, 10)
        assert np.bincount(found).tolist() == [100] * 10
        assert all(lengths[found == s].max() < lengths[found == s + 1].min() for s in range(9))

    def test_equal_lengths_stay_together(self):
        assert strata(np.array([3, 3, 3, 3]), 10).tolist() == [0, 0, 0, 0]
        lengths = np.repeat([1, 2, 50], [90, 5, 5])
        found = strata(lengths, 4)
        assert all(len(set(found[lengths == n].tolist())) == 1 for n in (1, 2, 50))


class TestDraw:
    def test_shares_by_largest_remainders(self):
        of_stratum = np.repeat([0, 1, 2], [50, 30, 20])
        drawn = np.random.default_rng(0).permutation(100)
        taken = draw_sample(of_stratum, drawn, 17)  # 8.5, 5.1, 3.4
        assert np.bincount(of_stratum[taken]).tolist() == [9, 5, 3]
        assert sorted(set(taken.tolist())) == taken.tolist()

    def test_the_first_drawn_of_each_stratum(self):
        assert draw_sample(np.array([0, 1, 0, 1]), np.array([3, 2, 1, 0]), 2).tolist() == [2, 3]

    def test_everybody(self):
        assert draw_sample(np.array([0, 1, 1, 2]), np.array([3, 2, 1, 0]), 4).tolist() == [0, 1, 2, 3]


class TestTests:
    rng = np.random.default_rng(1)
    one, other = rng.normal(0.3, 0.2, (5, 40)), rng.normal(0.32, 0.3, (5, 70))

    def test_welch_is_scipys(self):
        expected = stats.ttest_ind(self.one, self.other, axis=1, equal_var=False).pvalue
        found = _p_values(welch(self.one, self.other), np.zeros(5), "two")
        np.testing.assert_allclose(found, expected, rtol=1e-10)

    def test_equivalence_is_two_one_sided_tests(self):
        margin = np.full(5, 0.1)
        lower = stats.ttest_ind(self.one + 0.1, self.other, axis=1, equal_var=False, alternative="greater").pvalue
        upper = stats.ttest_ind(self.one - 0.1, self.other, axis=1, equal_var=False, alternative="less").pvalue
        found = equivalence(welch(self.one, self.other), margin)
        np.testing.assert_allclose(found, np.maximum(lower, upper), rtol=1e-10)

    def test_without_spread(self):
        same = welch(np.zeros((1, 3)), np.zeros((1, 4)))
        assert _p_values(same, np.zeros(1), "two").tolist() == [1.0]
        assert equivalence(same, np.full(1, 0.1)).tolist() == [0.0]
        apart = welch(np.ones((1, 3)), np.zeros((1, 4)))
        assert _p_values(apart, np.zeros(1), "two").tolist() == [0.0]
        assert equivalence(apart, np.full(1, 0.1)).tolist() == [1.0]


def test_scores_are_those_of_trec_eval(work):
    pytrec_eval = pytest.importorskip("pytrec_eval")
    ratings = Ratings.read(work)
    found = evaluate_runs(work, ratings, ["ease", "kld"], k=10)
    rows = ratings.qrels().to_pylist()
    judged = {}
    for row in rows:
        judged.setdefault(row["user"], {})[row["item"]] = int(row["rating"])
    measures = pytrec_eval.RelevanceEvaluator(judged, {"map_cut.10"}, relevance_level=4)
    gains = pytrec_eval.RelevanceEvaluator(judged, {"ndcg_cut.10"})
    for at, system in enumerate(found.systems):
        run = {}
        for line in run_path(work, system, "run").read_text().splitlines():
            user, _, item, _, score, _ = line.split()
            run.setdefault(user, {})[item] = float(score)
        ap, ndcg = measures.evaluate(run), gains.evaluate(run)
        for place, row in enumerate(found.users.tolist()):
            user = ratings.users[row].as_py()
            assert found.values["ap"][at, place] == pytest.approx(ap[user]["map_cut_10"], abs=1e-9)
            assert found.values["ndcg"][at, place] == pytest.approx(ndcg[user]["ndcg_cut_10"], abs=1e-9)


class TestSample:
    def test_the_smallest_size_that_meets_both_criteria_is_kept(self, work):
        record = sample(work, sizes=(10, 40, 80), n_strata=4, n_repeats=5, min_tau=0.5)
        rows = work.read("sampling").to_pylist()
        first = {row["n_users"]: row for row in rows if row["repeat"] == 0}
        met = [
            n for n, row in first.items() if min(row["tau_ap"], row["tau_ndcg"]) >= 0.5 and row["n_significant"] == 0
        ]
        assert record["chosen"] == min(met)
        users = work.read("users")
        assert users.num_rows == record["chosen"]
        assert len(rows) == 15
        assert [row["n_users"] for row in record["table3"]] == [10, 40, 80]
        for row in record["table3"]:
            low, high = row["interval_tau_ap"]
            assert low <= high
            assert row["n_tests"] == 16
        assert record["n_systems"] == {"all": 8, "representative": 7}

    def test_tau_and_tests_by_scipy(self, work):
        sample(work, sizes=(40,), n_repeats=1, take=40)
        scores = work.read("scores").to_pandas()
        kept = set(work.read("users")["user"].to_pylist())
        scores["in"] = scores["user"].astype(str).isin(kept)
        names = [one["system"] for one in work.record("recommend")["runs"]]
        means = [scores.groupby("system", observed=True)["ndcg"].mean()[names]]
        means.append(scores[scores["in"]].groupby("system", observed=True)["ndcg"].mean()[names])
        (row,) = work.read("sampling").to_pylist()
        assert row["tau_ndcg_all"] == pytest.approx(stats.kendalltau(means[0], means[1]).statistic)
        one_each = [name for name in names if name != "wsr-ub-50"]
        assert row["tau_ndcg"] == pytest.approx(stats.kendalltau(means[0][one_each], means[1][one_each]).statistic)
        for test in work.read("sampling_tests").to_pylist():
            mine = scores[scores["system"] == test["system"]]
            inside, outside = (mine.loc[mine["in"] == side, test["metric"]] for side in (True, False))
            assert len(inside) == 40
            assert test["p"] == pytest.approx(stats.ttest_ind(inside, outside, equal_var=False).pvalue)
            assert test["margin"] == pytest.approx(0.1 * test["mean_all"])

    def test_samples_keep_the_profile_lengths(self, work):
        sample(work, sizes=(60,), n_strata=4, take=60, n_repeats=1)
        ratings = Ratings.read(work)
        lengths = ratings.n_train[ratings.evaluated]
        users = work.read("users").to_pandas()
        assert abs(users["n_train"].mean() / lengths.mean() - 1) < 0.05
        sizes = np.bincount(strata(lengths, 4))
        assert abs(users["stratum"].value_counts(sort=False).sort_index().to_numpy() - sizes / 2).max() <= 0.5

    def test_the_same_again_changes_nothing_and_another_seed_draws_others(self, work):
        sample(work, sizes=(40,), take=40, n_repeats=2)
        before, users = (work.path / "sample.json").read_bytes(), work.read("users")["user"].to_pylist()
        sample(work, sizes=(40,), take=40, n_repeats=2)
        assert (work.path / "sample.json").read_bytes() == before
        sample(work, sizes=(40,), take=40, n_repeats=2, seed=1)
        assert work.read("users")["user"].to_pylist() != users

    def test_none_meets_them(self, work):
        record = sample(work, sizes=(5, 500), min_tau=1.0, n_repeats=1, n_strata=2)
        assert (record["chosen"], record["chosen_meets_criteria"]) == (None, None)
        assert record["sizes_left_out"] == [500]
        assert not (work.path / "users.parquet").exists()
        with pytest.raises(StoreError, match="no sample met the criteria"):
            pool(work)
        taken = sample(work, sizes=(5,), min_tau=1.0, n_repeats=1, take=5)
        assert (taken["chosen"], taken["chosen_meets_criteria"]) == (5, False)

    def test_no_size_fits(self, work):
        record = sample(work, sizes=(500,))
        assert (record["chosen"], record["table3"], record["sizes_left_out"]) == (None, [], [500])

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"sizes": (1,)}, "sample of 1 users"),
            ({"n_strata": 0}, "n_strata is 0"),
            ({"n_repeats": 0}, "n_repeats is 0"),
            ({"min_tau": 2}, "min_tau is 2"),
            ({"alpha": 0}, "alpha is 0"),
            ({"margin": 0}, "margin is 0"),
            ({"correction": "bh"}, "correction is 'bh'"),
            ({"take": 119}, "take is 119"),
        ],
    )
    def test_bad_options(self, work, options, message):
        with pytest.raises(ConfigError, match=message):
            sample(work, **options)
