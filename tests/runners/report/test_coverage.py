import numpy as np
import pytest
from gistbench.runners.report import Options, Runs, run_analyses
from gistbench.runners.report.coverage import _ensembles, concentration


@pytest.fixture
def runs(suite, interest):
    def named(*categories):
        return {
            "u": [interest(f"i{c}", c, e=2) for c in categories],
            "v": [interest(f"i{categories[0]}", categories[0])],
        }

    return Runs.open(
        [
            suite("one", {"org/a": named(1, 2, 0), "org/b": named(3)}),
            suite("two", {"org/a": named(1, 4), "org/b": named(3)}, dataset="films"),
        ]
    )


def test_table_11_over_data_sets(runs):
    (found,) = run_analyses(runs, ["table_11"], Options())
    frame = found.tables["models"].set_index("model")
    assert frame["n_covered"].to_dict() == {"org/a": 3, "org/b": 1}
    assert frame["n_unique_interests"].to_dict() == {"org/a": 3, "org/b": 1}
    assert frame["covered_share"].tolist() == pytest.approx([3 / 327, 1 / 327])
    # Named and mapped: category 1 four times, 2 once, 4 once, 3 four times.
    shares = found.tables["shares"].set_index("interest_share")
    assert shares["n_categories_needed"].to_dict() == {0.5: 2, 0.8: 2}
    assert shares["n_interests"].tolist() == [10, 10]
    curve = found.tables["concentration"]
    assert curve["cumulative_share"].head(4).tolist() == pytest.approx([0.4, 0.8, 0.9, 1.0])
    assert len(curve) == 327


@pytest.mark.parametrize("taxonomy", ["open", "official"])
def test_published_coverage_stands_beside_the_official_taxonomy_alone(suite, interest, taxonomy):
    named = {"openai/gpt-oss-120b": {"u": [interest("a", 1, e=2)]}}
    tables = run_analyses(Runs.open([suite("one", named, taxonomy_name=taxonomy)]), ["table_11"], Options())[0].tables
    beside = tables["models"][["published_n_unique_interests", "published_n_covered"]].iloc[0]
    shares = tables["shares"]["published_category_share"]
    if taxonomy == "official":
        assert beside.notna().all()
        assert shares.tolist() == pytest.approx([0.101, 0.294])
    else:
        assert beside.isna().all()
        assert shares.isna().all()


def test_figure_8_alone_and_together(runs):
    (found,) = run_analyses(runs, ["figure_8"], Options())
    frame = found.tables["models"].set_index(["dataset", "model"])["n_covered"]
    assert frame["demo"].to_dict() == {"org/a": 2, "org/b": 1, "all models": 3}
    best = found.tables["ensembles"].set_index(["dataset", "n_models"])
    assert best.loc[("demo", 1), "models"] == "org/a"
    assert best.loc[("demo", 1), "mean_covered_share"] == pytest.approx(1.5 / 327)
    assert best.loc[("demo", 2), "covered_share"] == pytest.approx(3 / 327)


def test_concentration_of_even_and_uneven_sizes():
    assert concentration([1] * 10, 10, 0.5) == (5, 0.5)
    assert concentration([97, 1, 1, 1], 4, 0.8) == (1, 0.25)
    assert concentration([0, 0], 2, 0.5) == (0, 0.0)


def test_ensembles_are_the_best_and_greedy_ones_reach_the_union():
    covers = np.array([[1, 1, 1, 0, 0, 0], [1, 1, 0, 1, 0, 0], [0, 0, 1, 1, 1, 0]], dtype=bool)
    found = _ensembles(covers, ["a", "b", "c"])
    assert found[1] == (2, 5, pytest.approx(14 / 3), "a, c")
    many = np.tile(covers, (6, 1))
    greedy = _ensembles(many, [str(k) for k in range(18)])
    assert greedy[0][1] == 3
    assert greedy[-1][1] == 5


def test_without_a_taxonomy_there_is_no_coverage(opened, interest):
    runs = opened({"org/a": {"u": [interest("jazz", 1, e=2)]}}, categories=False)
    assert "taxonomy" in run_analyses(runs, ["table_11"], Options())[0].missing
