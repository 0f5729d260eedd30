"""Models compared by per-user scores, against scipy and plain loops."""

import json

import numpy as np
import pytest
from scipy import stats

RNG = np.random.default_rng(0)
USERS = [f"u{i}" for i in range(60)]
BASE = RNG.uniform(0, 1, 60)
CLOSE = np.clip(BASE + RNG.normal(0, 0.02, 60), 0, 1)
WORSE = np.clip(BASE - RNG.uniform(0.05, 0.2, 60), 0, 1)


def by_user(values):
    return dict(zip(USERS, map(float, values), strict=True))


def test_two_models_agree_with_scipy(ig):
    found = ig.compare(by_user(BASE), by_user(WORSE), n_resamples=400, seed=3)
    test = stats.wilcoxon(np.round(BASE - WORSE, 12))
    assert (found["wilcoxon_statistic"], found["p_value"]) == (
        pytest.approx(test.statistic),
        pytest.approx(test.pvalue),
    )
    assert found["difference_of_means"] == pytest.approx(np.mean(BASE - WORSE))
    assert found["difference_of_medians"] == pytest.approx(np.median(BASE) - np.median(WORSE))
    order = np.lexsort(np.array([BASE, WORSE]))
    a, b = BASE[order], WORSE[order]
    interval = stats.bootstrap(
        (a, b),
        lambda x, y, axis: np.mean(x, axis=axis) - np.mean(y, axis=axis),
        paired=True,
        vectorized=True,
        n_resamples=400,
        method="percentile",
        rng=np.random.default_rng(3),
    ).confidence_interval
    assert found["ci_difference_of_means"] == pytest.approx([interval.low, interval.high])
    assert found["n_a_better"] + found["n_b_better"] + found["n_equal"] == 60
    low, high = found["ci_difference_of_medians"]
    assert low <= found["difference_of_medians"] <= high
    assert json.loads(json.dumps(found, allow_nan=False)) == found


def test_the_order_of_users_changes_nothing_and_swapping_models_mirrors(ig):
    one = ig.compare(by_user(BASE), by_user(WORSE))
    mixed = dict(sorted(by_user(BASE).items(), reverse=True))
    assert ig.compare(mixed, by_user(WORSE)) == one
    two = ig.compare(by_user(WORSE), by_user(BASE))
    assert two["difference_of_means"] == pytest.approx(-one["difference_of_means"])
    assert two["p_value"] == one["p_value"]


def test_equal_models_and_few_users(ig):
    same = ig.compare(by_user(BASE), by_user(BASE))
    assert (same["p_value"], same["difference_of_means"], same["n_equal"]) == (1.0, 0.0, 60)
    assert same["ci_difference_of_means"] == [0.0, 0.0]
    one = ig.compare({"a": 1.0, "b": None}, {"a": 0.5, "b": 0.5})
    assert (one["n_users"], one["n_users_left_out"], one["ci_difference_of_means"]) == (1, 1, None)
    none = ig.compare({"a": None}, {"a": 0.5})
    assert (none["n_users"], none["difference_of_means"], none["mean_a"], none["p_value"]) == (0, None, None, 1.0)


def test_groups_hold_models_that_are_not_told_apart(survey):
    scores = {"worse": by_user(WORSE), "base": by_user(BASE), "close": by_user(CLOSE)}
    found = survey.rank_groups(scores, statistic="mean", n_resamples=50)
    rows = found["models"]
    assert rows["model"][2] == "worse"
    assert rows["rank"] == [1, 1, 3]
    assert found["groups"] == [rows["model"][:2], ["worse"]]
    assert rows["mean"] == sorted(rows["mean"], reverse=True)
    assert all(low <= value <= high for value, (low, high) in zip(rows["mean"], rows["ci_mean"], strict=True))
    p = found["pairs"]["p_value"]
    order = sorted(range(3), key=p.__getitem__)
    adjusted = np.minimum(np.maximum.accumulate([(3 - k) * p[i] for k, i in enumerate(order)]), 1)
    assert [found["pairs"]["p_value_holm"][i] for i in order] == pytest.approx(adjusted)
    assert json.loads(json.dumps(found, allow_nan=False)) == found


def test_groups_may_overlap(survey):
    step = np.linspace(0, 0.3, 60)
    noise = np.random.default_rng(1).normal(0, 0.02, 60)
    scores = {
        "a": by_user(0.5 + step),
        "b": by_user(0.5 + step - 0.003 + noise - noise.mean()),
        "c": by_user(0.5 + step - 0.006),
    }
    found = survey.rank_groups(scores, statistic="mean", n_resamples=0)
    assert found["groups"] == [["a", "b"], ["b", "c"]]
    assert found["models"]["rank"] == [1, 1, 2]
    assert found["models"]["ci_mean"] == [None] * 3


def test_users_without_a_score_of_every_model_are_left_out(ig):
    scores = {name: by_user(values) for name, values in (("a", BASE), ("b", WORSE))}
    scores["b"]["u0"] = None
    found = ig.rank_groups(scores, n_resamples=0)
    assert (found["n_users"], found["n_users_left_out"]) == (59, 1)
    assert found["models"]["median"][0] == pytest.approx(np.median(BASE[1:]))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (({"a": 1.0}, [1.0]), r"scores_b must be a dict by user id"),
        (({"a": 1.0, "b": 1.0}, {"a": 1.0}), r"scores_b lacks user 'b', whom scores_a has \(1 such\)"),
        (({"a": 1.0}, {"a": 1.0, "c": 0.5}), r"scores_a lacks user 'c'"),
        (({"a": "1"}, {"a": 1.0}), r"scores_a\['a'\] must be a finite number or None, found '1'"),
        (({"a": float("nan")}, {"a": 1.0}), r"scores_a\['a'\] must be a finite number or None, found nan"),
        (({"a": True}, {"a": 1.0}), r"scores_a\['a'\] must be a finite number or None, found True"),
        (({1: 1.0, "1": 0.5}, {"1": 1.0}), r"scores_a: user '1' stands there twice"),
        (({1.5: 1.0}, {"1": 1.0}), r"a key of scores_a: found the float 1.5"),
    ],
)
def test_errors_of_two_models(ig, call, message):
    with pytest.raises(ValueError, match=message):
        ig.compare(*call)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"scores": {"a": {"u": 1.0}}}, r"scores must be a dict of two or more models"),
        ({"scores": [1, 2]}, r"scores must be a dict of two or more models"),
        ({"scores": {"a": {"u": 1.0}, "b": {"v": 1.0}}}, r"b lacks user 'u', whom a has"),
        ({"scores": {"a": {"u": 1.0}, "b": 3}}, r"b must be a dict by user id"),
        ({"statistic": "mode"}, r"statistic must be one of median, mean, found 'mode'"),
        ({"significance_level": 5}, r"significance_level must be a float between 0 and 1, found 5"),
        ({"n_resamples": -1}, r"n_resamples must be an integer >= 0"),
    ],
)
def test_errors_of_several_models(ig, change, message):
    call = {"scores": {"a": by_user(BASE), "b": by_user(WORSE)}}
    with pytest.raises(ValueError, match=message):
        ig.rank_groups(**{**call, **change})


@pytest.mark.parametrize(("n", "n_resamples"), [(2, 500), (61, 1000), (1000, 999), (3001, 1500)])
def test_intervals_are_those_of_scipy(survey, n, n_resamples):
    """Also where the draws do not fit into one batch."""
    rng = np.random.default_rng(n)
    predictions = [rng.integers(1, 9, 6).tolist() for _ in range(n)]
    references = [[1, 2, 3]] * n
    result = survey.compute(predictions=predictions, references=references, n_resamples=n_resamples, seed=4)
    values = np.sort(result["per_user"]["s_precision"])
    for key, statistic in (("ci_s_precision", np.median), ("ci_mean_s_precision", np.mean)):
        interval = stats.bootstrap(
            (values,),
            statistic,
            n_resamples=n_resamples,
            method="percentile",
            rng=np.random.default_rng(4),
            batch=100,
        ).confidence_interval
        assert result[key] == pytest.approx([interval.low, interval.high], abs=1e-12)


@pytest.mark.parametrize("seed", range(8))
def test_p_values_of_few_tied_differences_are_those_of_all_signs(ig, seed):
    rng = np.random.default_rng(seed)
    difference = rng.integers(-3, 4, 12) / 4
    users = [f"u{k}" for k in range(len(difference))]
    scores = dict(zip(users, difference.tolist(), strict=True))
    found = ig.compare(scores, dict.fromkeys(users, 0.0), n_resamples=0)
    kept = difference[difference != 0]
    expected = stats.wilcoxon(kept, method=stats.PermutationMethod(n_resamples=10**5))
    assert (found["wilcoxon_statistic"], found["p_value"]) == pytest.approx((expected.statistic, expected.pvalue))


@pytest.mark.parametrize("n", [30, 50, 51, 80])
def test_p_values_without_ties_are_those_of_scipy(ig, n):
    difference = np.random.default_rng(n).normal(0.2, 1, n)
    users = [f"u{k}" for k in range(n)]
    scores = dict(zip(users, difference.tolist(), strict=True))
    found = ig.compare(scores, dict.fromkeys(users, 0.0), n_resamples=0)
    expected = stats.wilcoxon(difference, method="exact" if n <= 50 else "asymptotic")
    assert found["p_value"] == pytest.approx(expected.pvalue)


def test_differences_that_are_rounding_errors_are_none(ig):
    noise = np.array([1e-17] * 8 + [0.0] * 52)
    found = ig.compare(by_user(noise), by_user(np.zeros(60)), n_resamples=0)
    assert (found["wilcoxon_statistic"], found["p_value"], found["n_equal"]) == (0.0, 1.0, 60)


def test_corrections_by_hand_and_by_scipy(ig):
    p = np.array([0.01, 0.04, 0.03])
    np.testing.assert_allclose(ig.adjusted(p, "holm"), [0.03, 0.06, 0.06])
    np.testing.assert_allclose(ig.adjusted(p, "none"), p)
    many = np.random.default_rng(0).random(50) ** 3
    np.testing.assert_allclose(ig.adjusted(many, "benjamini-hochberg"), stats.false_discovery_control(many))
