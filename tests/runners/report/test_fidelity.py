import csv

import pytest
from gistbench.runners.report import Options, run_analyses
from gistbench.runners.report.export import sheet
from gistbench.runners.report.figures import draw
from scipy import stats


def write(path, counts):
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["user_id", "object_id", "object_text", "interaction_type", "interaction_time"])
        for user, (explicit, implicit) in enumerate(counts):
            for kind, n in (("explicit_positive", explicit), ("implicit_positive", implicit)):
                writer.writerows([f"u{user}", f"{kind}{k}", "text", kind, k] for k in range(n))
    return str(path)


def test_table_10_and_figure_2(opened, interest, tmp_path):
    a = write(tmp_path / "a.csv", [(1, 4), (2, 6), (3, 9)])
    b = write(tmp_path / "b.csv", [(1, 2), (1, 3), (2, 2)])
    runs = opened({"org/a": {"u": [interest("jazz", 1, e=2)]}})
    (found,) = run_analyses(runs, ["table_10"], Options(compared_data=(a, b)))
    tests = found.tables["tests"].set_index("interaction_type")
    expected = stats.ttest_ind([4, 6, 9], [2, 3, 2], equal_var=False)
    row = tests.loc["implicit_positive"]
    assert (row["t"], row["p_value"], row["df"]) == pytest.approx((expected.statistic, expected.pvalue, expected.df))
    assert (row["mean_a"], row["mean_b"]) == pytest.approx((19 / 3, 7 / 3))
    assert row["published_t"] == 21.44
    boxes = found.tables["boxes"].set_index(["interaction_type", "dataset"])
    quantiles = [f"engagements_{place}" for place in ("minimum", "median", "maximum")]
    assert boxes.loc[("explicit_positive", a), quantiles].tolist() == [1, 2, 3]
    # Counts are printed and drawn as counts, not as shares of 1.
    printed = sheet(found.tables["boxes"].query("interaction_type == 'implicit_positive'"))
    texts = [cell.text for cell in printed.rows[0]]
    assert texts[2:] == ["4.0", "5.0", "6.0", "7.5", "9.0", "3"]
    panel = draw(found.figures["figure_2_b"], found.tables).panels[0]
    assert not panel.y.percent
    assert panel.y.range[1] > 3
    assert "in the same order" in found.caption
    density = found.tables["densities"].query("interaction_type == 'implicit_positive'").query("dataset == @a")
    assert density["density"].min() >= 0


def test_table_10_needs_two_data_sets(opened, interest):
    runs = opened({"org/a": {"u": [interest("jazz", 1, e=2)]}})
    assert "two data sets" in run_analyses(runs, ["table_10"], Options())[0].missing
