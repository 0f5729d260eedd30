import numpy as np
import pytest
from gistbench.runners.report import Options, run_analyses
from gistbench.runners.report.calibration import _held, median_interval_places


@pytest.mark.parametrize("n", [11, 25, 101])
def test_the_interval_is_that_of_the_percentile_bootstrap(n):
    values = np.arange(n, dtype=float)
    rng = np.random.default_rng(0)
    medians = np.median(values[rng.integers(0, n, (200_000, n))], axis=1)
    low, high = np.percentile(medians, [2.5, 97.5])
    assert median_interval_places(n) == (pytest.approx(low, abs=1), pytest.approx(high, abs=1))


def test_intervals_of_many_users_hold_the_median_as_often_as_promised():
    values = np.sort(np.random.default_rng(0).random(2000))
    rows = {row["n_users"]: row for row in _held(values, seed=0)}
    assert rows[200]["held_share"] == pytest.approx(0.95, abs=0.02)
    assert rows[20]["mean_width"] > rows[200]["mean_width"]
    assert list(rows) == [20, 50, 100, 200, 500, 2000]


def test_bounds_for_users_that_are_left_out(opened, interest):
    runs = opened({"org/a": {f"u{k}": [interest("jazz", 1, e=2)] for k in range(3)}}, unscored=("x", "y", "z", "w"))
    frame = run_analyses(runs, ["calibration"], Options())[0].tables["left_out_users"].set_index("metric")
    row = frame.loc["ig_f1"]
    assert (row["n_users"], row["n_users_missing"], row["score"]) == (3, 4, 1.0)
    assert (row["score_if_missing_0"], row["score_if_missing_1"]) == (0.0, 1.0)
