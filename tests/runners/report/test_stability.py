import numpy as np
import pandas as pd
import pytest
from gistbench.runners.report import Options, run_analyses
from gistbench.runners.report.stability import _draws, _medians, _rhos, lite_split, ranking_stability
from scipy import stats


def test_samples_are_distinct_users_of_the_asked_size():
    draws = _draws(20, 7, 50, np.random.default_rng(0))
    assert draws.shape == (50, 7)
    assert all(len(set(row)) == 7 for row in draws.tolist())
    assert set(draws.ravel()) == set(range(20))
    assert sorted(_draws(5, 5, 1, np.random.default_rng(0))[0].tolist()) == [0, 1, 2, 3, 4]


def test_medians_and_rhos_of_samples_as_scipy_has_them():
    rng = np.random.default_rng(0)
    scores = rng.random((30, 4))
    scores[3, 1] = np.nan
    draws = _draws(30, 8, 6, rng)
    medians = _medians(scores, draws)
    assert medians[2] == pytest.approx(np.nanmedian(scores[draws[2]], axis=0))
    whole = np.nanmedian(scores, axis=0)
    assert _rhos(medians, whole)[4] == pytest.approx(stats.spearmanr(medians[4], whole).statistic)
    assert np.isnan(_rhos(np.ones((1, 4)), whole)[0])


def test_a_clear_ranking_needs_few_users_and_a_close_one_many():
    rng = np.random.default_rng(1)
    noise = rng.normal(0, 0.1, (300, 3))
    clear = ranking_stability(pd.DataFrame(noise + np.array([0.2, 0.5, 0.8]))).set_index("n_users")
    close = ranking_stability(pd.DataFrame(noise + np.array([0.5, 0.51, 0.52]))).set_index("n_users")
    assert clear.loc[10, "rho"] == 1.0
    assert close.loc[10, "rho"] < 0.9
    assert close.loc[300, ["rho", "sd_rho"]].tolist() == [1.0, 0.0]
    assert list(clear.index) == [10, 20, 50, 100, 150, 200, 300]


def test_the_same_seed_gives_the_same_curve():
    scores = pd.DataFrame(np.random.default_rng(2).random((60, 4)))
    pd.testing.assert_frame_equal(ranking_stability(scores, seed=3), ranking_stability(scores, seed=3))
    assert not ranking_stability(scores, seed=3).equals(ranking_stability(scores, seed=4))


@pytest.fixture
def runs(opened, interest):
    """A finds category 1 of everybody, B of four in five, C of one in three; nobody else finds anything."""
    users = [f"u{k:02d}" for k in range(40)]

    def found(share):
        return {user: [interest("jazz", 1, e=2 if k % share[1] < share[0] else 1)] for k, user in enumerate(users)}

    return opened({"org/a": found((1, 1)), "org/b": found((4, 5)), "org/c": found((1, 3))})


def test_figure_10_and_the_lite_split(runs):
    (found,) = run_analyses(runs, ["figure_10"], Options())
    split = found.tables["lite_splits"].iloc[0]
    # Medians of A and B are 1 and of C 0: the pairs that differ over all users are A-B, A-C and B-C, but A and B are
    # tied in the median, so that only the latter two can be reversed.
    assert split["n_pairs"] == 2
    assert 1 < split["n_users"] < 40
    assert split["agreeing_share"] >= 0.95
    users = found.tables["lite_users"]["user_id"]
    assert len(users) == split["n_users"]
    group = runs.groups[0]
    medians = group.by_user("ig_f1").loc[users.tolist()].median()
    assert medians["org/a"] > medians["org/c"]
    assert medians["org/b"] > medians["org/c"]
    assert lite_split(group, Options()) == lite_split(group, Options())


def test_two_candidates_have_no_ranking_to_speak_of(opened, interest):
    runs = opened({f"org/{m}": {"u": [interest("a", 1, e=2)], "v": []} for m in "ab"})
    assert "three or more" in run_analyses(runs, ["figure_10"], Options())[0].missing


def test_without_a_pair_that_differs_nothing_is_certified(opened, interest):
    users = {f"u{k:02d}": [interest("jazz", 1, e=2)] for k in range(30)}
    runs = opened({f"org/{m}": users for m in "abc"})
    (found,) = run_analyses(runs, ["figure_10"], Options())
    split = found.tables["lite_splits"].iloc[0]
    assert split["n_pairs"] == 0
    assert split[["n_users", "agreeing_share"]].isna().all()
    assert "no pair of models differs" in split["note"]
    assert "lite_users" not in found.tables
    assert "no pair of models differs" in " ".join(found.notes)
