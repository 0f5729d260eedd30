"""The published tables against each other; each number here stands in docs/report.md too."""

import json

import numpy as np
import pytest
from gistbench.hf_datasets.results_published import published_value
from gistbench.runners.report.arithmetic import OFFICIAL_PAIRS, checks
from gistbench.runners.report.published import records


@pytest.fixture(scope="module")
def found():
    return {(check.place, check.what): check for check in checks()}


def test_table_15_leaves_1161_pairs_to_the_cut_row(found):
    check = found["Table 15", "pairs verified by all 7, the cut row"]
    assert (check.printed, check.residual, check.computed) == (None, None, 1161)
    assert pytest.approx(1.275, abs=0.001) == 100 * 1161 / OFFICIAL_PAIRS


def test_table_15_caption_says_36_8_and_the_rows_36_7(found):
    check = found["Table 15", "caption: share verified by 3 or more"]
    assert not check.holds
    assert check.computed == pytest.approx(36.74, abs=0.005)
    assert check.printed - check.computed == pytest.approx(0.06, abs=0.005)


def test_tables_15_and_16_leave_the_cut_model_8300_pairs_and_562_alone(found):
    verified = found["Tables 15, 16", "verified pairs of the model that is cut"].computed
    sole = found["Tables 15, 16", "sole-provider pairs of the model that is cut"].computed
    assert (verified, sole) == (8300, 562)
    # Rows come in descending order, and what all 7 verify the cut model verifies too.
    assert 1161 <= verified <= published_value("Table 16", "Qwen3-32B", "Verified")
    assert sole <= published_value("Table 16", "Qwen3-32B", "Sole provider")


def test_the_official_oracle_holds_so_many_pairs(shared):
    content = json.loads((shared / "reference" / "gistbench" / "oracle_synthetic.json").read_text())
    assert sum(map(len, content["oracle"].values())) == OFFICIAL_PAIRS


def test_printed_shares_of_tables_15_and_16_fit_the_official_oracle(found):
    shares = [c for (place, what), c in found.items() if what.startswith(("share verified by", "% oracle"))]
    assert len(shares) == 12
    assert all(check.holds for check in shares)


def test_table_27_prints_500_of_760_hours(found):
    check = found["Table 27", "printed rows of 760 hours"]
    assert (check.printed, check.computed) == (760, 500)


def test_precision_is_above_recall_in_every_printed_row_of_table_4(found):
    rows = [c for (place, what), c in found.items() if what.startswith("rows with precision above recall")]
    assert [(check.printed, check.computed) for check in rows] == [(5, 5), (5, 5)]


def test_table_14_has_it_the_other_way_round(found):
    gaps = [c.computed for (place, what), c in found.items() if what.startswith("recall above precision")]
    assert gaps == pytest.approx([11.6, 10.1, 8.9, 7.9])


def test_table_7_breaks_the_or_rule_in_four_rows(found):
    rows = {w.rpartition(": ")[2]: c for (place, w), c in found.items() if place == "Table 7"}
    excess = {model: round(check.computed, 1) for model, check in rows.items() if not check.holds}
    assert excess == {"DeepSeek-R1": 11.5, "GPT-OSS-120B": 1.4, "Qwen3-32B": 1.2, "Qwen2.5-72B": 0.8}


def test_table_18_counts_even_splits(found):
    for task, printed, apart, counted in (("IG", 30.8, 16.5, 30.8), ("IS", 7.8, 4.3, 7.8)):
        without = found["Tables 18, 19", f"disagreements, 2-2 splits left out, {task}"]
        twice = found["Tables 18, 19", f"disagreements, 2-2 splits counted twice, {task}"]
        assert (round(without.printed, 1), round(without.computed, 1)) == (printed, apart)
        assert round(twice.computed, 1) == counted
        assert (without.holds, twice.holds) == (False, True)


def test_figure_7_fits_326_categories(found):
    by_size = {size: [c.holds for (_, w), c in found.items() if f"of {size} categories" in w] for size in (325, 326)}
    assert by_size == {325: [False, False], 326: [True, True]}


def test_table_22_follows_from_table_21(found):
    rows = [c for (place, _), c in found.items() if place == "Tables 21, 22"]
    assert [round(check.computed, 3) for check in rows] == [0.821, 0.893]
    assert all(check.holds for check in rows)
    assert not found["Table 22", "rho of IG P, Base vs Lenient, is one of 7 untied models"].holds


def test_totals_of_the_cost_tables(found):
    fits = {w: c.holds for (place, w), c in found.items() if place in ("Table 24", "Table 26")}
    assert all(fits.values())
    rows = {w: round(c.printed - c.computed) for (place, w), c in found.items() if place == "Table 25"}
    assert rows == {
        "rows add up, Prompts": 0,
        "rows add up, Input tok.": 60_000_000,
        "rows add up, Output tok.": 2_600_000,
    }
    hours = [c for (place, w), c in found.items() if w.startswith("hours follow interests")]
    assert all(check.holds for check in hours)


def test_students_test_cannot_have_made_table_10():
    """Student's degrees of freedom would be the same in every row."""
    from scipy import optimize, stats

    rows = records().query("table == 'Table 10'").pivot(index="row", columns="column", values="value")
    implied = [
        10
        ** optimize.brentq(
            lambda power, t=row["t-stat"], p=row["p-value"]: stats.t.logsf(t, 10**power) - np.log(p / 2), 1, 6
        )
        for _, row in rows.iterrows()
    ]
    assert [round(df, -1) for df in implied] == [1650, 1920, 2000]  # explicit positive, implicit negative, positive


def test_checks_are_told_apart():
    names = [(check.place, check.what) for check in checks()]
    assert len(names) == len(set(names))
