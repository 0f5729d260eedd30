import numpy as np
import pytest
from gistbench.runners.agreement import krippendorff_alpha
from gistbench.runners.qrels.judge import sample_agreement


def test_alpha_for_intervals_by_hand():
    # Within pairs: (1 - 2)^2 twice, once in either order; over all ordered pairs of 4, 4, 1, 2: 2 (9 + 4 + 9 + 4 + 1).
    observed, expected = (0 + 2) / 4, 54 / 12
    assert krippendorff_alpha([[4, 4], [1, 2], [0, np.nan]]) == pytest.approx(1 - observed / expected)


def test_alpha_says_nothing_where_all_are_alike_or_nobody_repeats():
    for ratings in ([[3.1, 3.1], [3.1, 3.1]], [[1, np.nan], [2, np.nan]], np.empty((0, 2))):
        assert np.isnan(krippendorff_alpha(ratings))


def test_alpha_does_not_hang_on_where_0_lies():
    grades = np.random.default_rng(0).integers(0, 5, (30, 4)).astype(float)
    assert krippendorff_alpha(grades + 1e6) == pytest.approx(krippendorff_alpha(grades))


def test_repeated_grades_of_the_judge_are_measured_alike():
    grades = np.random.default_rng(1).integers(0, 5, (40, 3)).astype(float)
    grades[3, 1] = grades[5] = np.nan
    assert sample_agreement(grades)["alpha"] == pytest.approx(krippendorff_alpha(grades))
