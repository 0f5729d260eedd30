import pytest
from gistbench.hf_datasets.errors import StoreError
from gistbench.runners.report import Options, Runs, run_analyses
from gistbench.runners.report.changes import explain_change, list_differences


@pytest.fixture
def named(interest):
    return {"org/a": {"u": [interest("a", 1, e=2), interest("b", 2, e=1)], "v": [interest("a", 1, e=3)]}}


def parts(tables, metric):
    frame = tables["parts"].query("metric == @metric")
    return dict(zip(frame["part"], frame["effect"], strict=True))


def change(tables, metric):
    return tables["scores"].set_index("metric").loc[metric, "change"]


def test_thresholds_and_oracle(suite, named):
    a, b = Runs.open([suite("one", named), suite("two", named, thresholds="lenient")]).all
    tables = explain_change(a, b)
    # Precision of u goes from 1/2 to 1: the median from 3/4 to 1, by the thresholds alone. Recall stays 1: under the
    # lenient ones u has two categories, both found; the base ones against that oracle find one of two.
    assert parts(tables, "ig_precision") == pytest.approx({"thresholds": 0.25, "oracle": 0.0})
    assert parts(tables, "ig_recall") == pytest.approx({"thresholds": 0.125, "oracle": -0.125})
    assert change(tables, "ig_recall") == pytest.approx(0.0)
    assert set(tables["differences"]["what"]) == {"thresholds", "oracle"}


def test_the_judge_and_its_prompt(suite, interest):
    def candidates(dropped, correct, category):
        own = [interest("a", 1, e=3), interest("b", category, e=2, dropped=dropped, correct=correct)]
        return {"org/a": {"u": own}, "org/b": {"u": [interest("c", 3, e=2), interest("d", 2, e=2)]}}

    one = suite("one", candidates(0, 1, 2))
    two = suite("two", candidates(1, 0, 2), judge="org/other", prompts="b" * 64)
    a, b = Runs.open([one / "org--a", two / "org--a"]).all
    tables = explain_change(a, b)
    assert set(parts(tables, "ig_f1")) == {"grounding", "retrieval"}
    assert parts(tables, "ig_precision") == pytest.approx({"grounding": -0.5, "retrieval": 0.0})
    # Specificity: 1 before. Without the verdict of b only category 1 counts, so that retrieval matters where b is
    # verified: swapped first it costs 1/2, swapped last nothing; the verdict gives that back, or nothing.
    assert parts(tables, "is") == pytest.approx({"grounding": 0.25, "retrieval": -0.25})
    assert set(tables["differences"]["what"]) == {"judge", "oracle", "prompt ground"}


def test_other_answers_of_the_candidate_are_one_part(suite, interest, named):
    other = {"org/a": {"u": [interest("a", 1, e=2)], "w": []}}
    a, b = Runs.open([suite("one", named), suite("two", other, chunk_size=50)]).all
    tables = explain_change(a, b)
    assert parts(tables, "ig_precision") == pytest.approx({"interests and judgements": 0.5})
    assert tables["scores"]["n_users"].tolist() == [1] * 5  # u alone is scored in both
    assert change(tables, "ig_precision") == 0.5


def test_effects_add_up_to_the_change(suite, named, interest):
    more = {"org/a": named["org/a"], "org/b": {"u": [interest("c", 5, i=4), interest("d", 6, e=1)], "v": []}}
    a, b = Runs.open([suite("one", named) / "org--a", suite("two", more, thresholds="strict") / "org--a"]).all
    tables = explain_change(a, b)
    for metric in ("ig_precision", "ig_recall", "ig_f1", "is", "hm"):
        assert sum(parts(tables, metric).values()) == pytest.approx(change(tables, metric))
    scores = tables["scores"].set_index("metric")
    assert scores["score_a_common"].tolist() == pytest.approx(scores["score_a"].tolist())
    assert scores["score_b_common"].tolist() == pytest.approx(scores["score_b"].tolist())


def test_equal_runs_do_not_differ(suite, named):
    a, b = Runs.open([suite("one", named), suite("two", named)]).all
    tables = explain_change(a, b)
    assert len(tables["parts"]) == 0
    assert len(list_differences(a, b)) == 0
    assert tables["scores"]["change"].tolist() == [0.0] * 5


def test_runs_on_other_data_cannot_be_explained(suite, named, interest):
    films = suite("films", named, dataset="films")
    a, b = Runs.open([suite("one", named), films]).all
    with pytest.raises(StoreError, match=r"on demo, .* on films"):
        explain_change(a, b)
    (c,) = Runs.open([suite("others", {"org/a": {"x": [interest("a", 1, e=2)]}})]).all
    with pytest.raises(StoreError, match="share no scored user"):
        explain_change(a, c)


def test_the_analysis_takes_all_pairs_of_a_candidate(suite, named):
    runs = Runs.open(
        [suite("one", named), suite("two", named, judge="org/other"), suite("films", named, dataset="films")]
    )
    (found,) = run_analyses(runs, ["changes"], Options())
    assert found.tables["scores"]["run_b"].unique().tolist() == ["two/org--a"]
    assert "judge" in found.tables["differences"]["what"].tolist()
