import pytest
from gistbench.runners.report import Options, run_analyses


@pytest.fixture
def runs(opened, interest):
    """A has e 3 | i 1; B e 2 | i 4 n 3; C e 1 i 2 | i 4: verified under lenient, base and strict as below."""
    return opened(
        {
            "org/a": {"u": [interest("a1", 1, e=3), interest("a2", 2, i=1)]},  # 1 1 | 1 0 | 1 0
            "org/b": {"u": [interest("b1", 3, e=2), interest("b2", 4, i=4, n=3)]},  # 1 1 | 1 1 | 0 0
            "org/c": {"u": [interest("c1", 5, e=1, i=2), interest("c2", 6, i=4)]},  # 1 1 | 1 1 | 0 1
        }
    )


def test_table_20_is_what_the_module_has(runs):
    frame = run_analyses(runs, ["table_20"], Options())[0].tables["thresholds"].set_index("thresholds")
    for name in ("explicit_positive", "implicit_positive", "max_implicit_negative"):
        assert frame[name].tolist() == frame[f"published_{name}"].tolist()
    assert frame.loc["base", ["hybrid_explicit_positive", "hybrid_implicit_positive"]].tolist() == [1, 2]
    assert frame.loc["lenient"].isna()["hybrid_explicit_positive"]


def test_table_21_from_stored_counts(runs):
    frame = run_analyses(runs, ["table_21"], Options())[0].tables["medians"]
    found = frame.pivot(index="model", columns="thresholds", values="ig_precision")
    assert found["lenient"].tolist() == [1.0, 1.0, 1.0]
    assert found["base"].tolist() == [0.5, 1.0, 1.0]
    assert found["strict"].tolist() == [0.5, 0.0, 0.5]
    recall = frame.pivot(index="model", columns="thresholds", values="ig_recall")
    assert recall["base"].tolist() == pytest.approx([1 / 5, 2 / 5, 2 / 5])
    assert recall["strict"].tolist() == pytest.approx([1 / 2, 0.0, 1 / 2])


def test_base_thresholds_give_the_stored_scores(runs):
    frame = run_analyses(runs, ["table_21"], Options())[0].tables["medians"].query("thresholds == 'base'")
    assert frame["ig_f1"].tolist() == [run.score["ig_f1"] for run in runs.all]
    assert frame["hm"].tolist() == [run.score["hm"] for run in runs.all]


def test_table_22_correlations_of_rankings(runs):
    frame = run_analyses(runs, ["table_22"], Options())[0].tables["correlations"].set_index("metric")
    assert frame.loc["ig_precision"].isna()["rho_lenient"]  # all alike under lenient
    assert frame.loc["ig_recall", "rho_strict"] == pytest.approx(-0.5)  # ranks 3, 1.5, 1.5 against 1.5, 3, 1.5


def test_places_under_each_setting(runs):
    found = run_analyses(runs, ["table_22", "table_21"], Options())
    scores = found[0].tables["medians"]
    places = found[1].tables["places"].query("metric == 'ig_f1'").set_index(["thresholds", "model"])["rank"]
    for setting in ("lenient", "base", "strict"):
        own = scores.query("thresholds == @setting").set_index("model")["ig_f1"]
        for model, value in own.items():
            assert places[setting, model] == 1 + (own > value).sum()


def test_one_candidate_has_no_ranking(opened, interest):
    runs = opened({"org/a": {"u": [interest("jazz", 1, e=2)]}})
    assert "two or more" in run_analyses(runs, ["table_22"], Options())[0].missing
