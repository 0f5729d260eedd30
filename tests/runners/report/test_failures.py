import pytest
from gistbench.runners.report import Options, Runs, run_analyses


def test_table_7_counts_all_unverified_and_never_flags_a_signal_that_is_lacking(suite, interest):
    films = {
        "org/a": {
            "u": [
                interest("kept", 1, e=2),
                interest("few", 2, e=1),  # too little of both
                interest("contrary", 3, e=1, i=3, n=4),  # enough implicit, too many negatives
                interest("nothing", 4, e=2, dropped=2),  # the judge kept nothing
            ]
        }
    }
    news = {"org/a": {"u": [interest("one", 1, e=1), interest("none", 2, n=5)]}}
    paths = [suite("films", films, dataset="films"), suite("news", news, dataset="mind", signals=("explicit_positive",
             "implicit_negative"))]  # fmt: skip
    (found,) = run_analyses(Runs.open(paths), ["table_7"], Options())
    whole = found.tables["failure_modes"].iloc[0]
    assert (whole["n_interests"], whole["n_unverified"], whole["n_datasets"]) == (6, 5, 2)
    assert whole["insufficient_explicit_positive"] == 1.0  # few, contrary (1), nothing, one, none
    assert whole["insufficient_implicit_positive"] == pytest.approx(2 / 5)  # few and nothing; never in the news
    assert whole["excessive_negative"] == pytest.approx(2 / 5)  # contrary, none
    assert whole["no_relevant_items"] == pytest.approx(1 / 5)
    assert whole["verified_share"] == pytest.approx(1 / 6)
    by_dataset = found.tables["by_dataset"].set_index("dataset")
    assert by_dataset.loc["mind", "insufficient_implicit_positive"] == 0.0
    assert any("mind has no implicit_positive" in note for note in found.notes)
    assert any("DeepSeek-R1 (13.3 against 1.8)" in note for note in found.notes)


def test_table_7_stands_beside_the_page(opened, interest):
    runs = opened({"deepseek-ai/DeepSeek-R1": {"u": [interest("few", 2, e=1)]}})
    frame = run_analyses(runs, ["table_7"], Options())[0].tables["failure_modes"]
    assert frame["published_insufficient_implicit_positive"].tolist() == [0.867]


def test_table_7_without_unverified_interests_has_no_shares(opened, interest):
    runs = opened({"org/a": {"u": [interest("kept", 1, e=2)]}})
    frame = run_analyses(runs, ["table_7"], Options())[0].tables["failure_modes"]
    assert frame["insufficient_explicit_positive"].isna().all()
    assert frame["n_unverified"].tolist() == [0]
