"""Tables 3 and 4, Figures 3, 4, 5 and 9 against values that were computed by hand."""

import numpy as np
import pytest
from gistbench.runners.report import Options, run_analyses


@pytest.fixture
def tables(opened, interest):
    """Three users. A: precision 1, 1/2, 1; B: 1/2, 0, 0 (no interest for w); the oracle is {1, 2}, {1}, {1}.

    A finds all: recall 1, 1, 1 and F1 1, 2/3, 1. B finds category 1 of u: recall 1/2, 0, 0.
    """
    good, bad = {"e": 2, "backing": 2}, {"e": 1, "backing": 1}
    runs = opened(
        {
            "openai/gpt-oss-120b": {
                "u": [interest("a", 1, correct=2, **good), interest("b", 2, correct=1, **good)],
                "v": [interest("a", 1, correct=1, **good), interest("c", 3, **bad)],
                "w": [interest("a", 1, correct=0, **good)],
            },
            "org/b": {
                "u": [interest("x", 1, correct=2, **good), interest("y", 4, **bad)],
                "v": [interest("z", 5, **bad)],
                "w": [],
            },
        },
        dataset="synthetic",
    )
    which = ["table_3", "table_4", "figure_3", "figure_4", "figure_5", "figure_9"]
    return {found.id: found for found in run_analyses(runs, which, Options())}


def test_table_3_medians_best_and_published(tables):
    frame = tables["table_3"].tables["medians"].set_index("model")
    assert frame.loc["openai/gpt-oss-120b", ["ig_f1", "is"]].tolist() == [1.0, 0.5]  # F1 1, 2/3, 1; IS 3/4, 1/2, 0
    assert frame.loc["org/b", ["ig_f1", "is"]].tolist() == [0.0, 0.0]  # F1 1/2, 0, 0; IS 1, 0, 0
    assert frame["best_ig_f1"].tolist() == [True, False]
    assert frame["published_ig_f1"].iloc[0] == 0.678
    assert np.isnan(frame["published_ig_f1"].iloc[1])
    assert (frame["ci_ig_f1_low"] <= frame["ig_f1"]).all()
    assert (frame["n_users"] == 3).all()


def test_few_users_do_not_tell_models_apart(tables):
    frame = tables["table_3"].tables["medians"]
    assert frame["group_ig_f1"].tolist() == ["a", "a"]
    assert frame["rank_ig_f1"].tolist() == [1, 1]


def test_table_4_medians_and_which_side_leads(tables):
    frame = tables["table_4"].tables["medians"].set_index("model")
    assert frame["ig_precision"].tolist() == [1.0, 0.0]
    assert frame["ig_recall"].tolist() == [1.0, 0.0]
    assert frame["precision_leads"].tolist() == [False, False]
    assert "0 of 2 rows" in tables["table_4"].notes[-1]
    assert frame.loc["openai/gpt-oss-120b", "published_ig_recall"] == 0.605


def test_figure_3_bubbles(tables):
    frame = tables["figure_3"].tables["models"]
    assert frame["categories_per_user"].tolist() == pytest.approx([5 / 3, 1.0])
    assert tables["figure_3"].figures["figure_3"].size == "categories_per_user"


def test_figure_4_users_and_their_medians(tables):
    found = tables["figure_4"].tables
    assert len(found["users"]) == 6
    assert found["medians"]["precision_leads_share"].tolist() == [0.0, 0.0]
    assert found["medians"]["ig_precision"].tolist() == [1.0, 0.0]


def test_figure_4_shows_a_sample_of_many_users(opened, interest):
    runs = opened({"org/a": {f"u{k}": [interest("a", 1, e=2)] for k in range(9)}})
    found = run_analyses(runs, ["figure_4"], Options(max_points=5))[0].tables
    assert len(found["users"]) == 5
    assert found["medians"]["n_users"].tolist() == [9]


def test_figure_5_means(tables):
    frame = tables["figure_5"].tables["means"]
    assert frame["mean_ig_f1"].tolist() == pytest.approx([8 / 9, 1 / 6])
    assert (frame["ci_mean_ig_f1_high"] >= frame["mean_ig_f1"]).all()


def test_figure_9_boxes(tables):
    boxes, overall = tables["figure_9"].tables["boxes"], tables["figure_9"].tables["overall"]
    assert boxes["minimum"].tolist() == pytest.approx([2 / 3, 0.0])
    assert boxes["upper_quartile"].tolist() == pytest.approx([1.0, 0.25])
    assert boxes["zero_share"].tolist() == pytest.approx([0.0, 2 / 3])
    assert overall["median"].tolist() == pytest.approx([(0.5 + 2 / 3) / 2])


def test_many_users_tell_models_apart(opened, interest):
    users = range(30)
    runs = opened(
        {
            "org/a": {f"u{k}": [interest("a", 1, e=2)] for k in users},
            "org/b": {f"u{k}": [interest("b", 2, e=2 * (k % 5 == 0))] for k in users},
            "org/c": {f"u{k}": [interest("c", 1, e=2)] for k in users},
        }
    )
    frame = run_analyses(runs, ["table_3"], Options())[0].tables["medians"].set_index("model")
    assert frame["rank_ig_f1"].to_dict() == {"org/a": 1, "org/b": 3, "org/c": 1}
    assert frame["group_ig_f1"].to_dict() == {"org/a": "a", "org/b": "b", "org/c": "a"}
    assert frame["best_ig_f1"].to_dict() == {"org/a": True, "org/b": False, "org/c": True}
