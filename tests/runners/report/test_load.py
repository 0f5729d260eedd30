import numpy as np
import pytest
from gistbench.hf_datasets.errors import StoreError
from gistbench.runners.report import Runs, run_analyses
from gistbench.runners.report.rescoring import rescore
from gistbench.runners.report.results import scores_frame
from gistbench.runners.results import ResultsFolder


@pytest.fixture
def two(interest):
    """A verifies categories 1 and 2 of u and 1 of v; B verifies 3 of u, and makes up category 1."""
    return {
        "org/a": {
            "u": [interest("jazz", 1, e=2), interest("tea", 2, i=3), interest("golf", 4, e=1)],
            "v": [interest("jazz", 1, e=2)],
        },
        "org/b": {"u": [interest("chess", 3, e=1, i=2), interest("swing", 1, n=4)], "v": []},
    }


def test_scores_and_verdicts_as_stored(opened, two):
    runs = opened(two)
    a, b = runs.groups[0].runs
    assert (a.model, a.dataset, a.judge, a.signals[0]) == ("org/a", "demo", "org/judge@2", "explicit_positive")
    assert a.scores["ig_precision"].tolist() == [2 / 3, 1.0]
    assert a.scores["ig_recall"].tolist() == [2 / 3, 1.0]  # u's oracle is 1, 2, 3
    assert b.scores["ig_recall"].tolist() == [1 / 3, 0.0]
    assert b.interests["verified"].tolist() == [True, False]
    assert a.categories.to_numpy().tolist() == [["u", 1], ["u", 2], ["v", 1]]
    assert a.oracle == {"u": [1, 2, 3], "v": [1]}


def test_rescoring_gives_what_is_stored(opened, two):
    for run in opened(two).all:
        again = scores_frame(*rescore(run, oracle=run.oracle))
        assert again.equals(run.scores[list(again.columns)])


def test_rescoring_against_what_a_run_verifies_itself(opened, two):
    run = opened(two).all[0]
    assert scores_frame(*rescore(run))["ig_recall"].tolist() == [1.0, 1.0]


def test_by_user_holds_everyone_who_was_asked_for(opened, two):
    group = opened(two, unscored=("w",)).groups[0]
    wide = group.by_user("ig_f1")
    assert list(wide.index) == ["u", "v", "w"]
    assert np.isnan(wide.loc["w"]).all()


def test_suites_with_other_oracles_are_not_mixed(suite, two):
    paths = [suite("one", {"org/a": two["org/a"]}), suite("two", {"org/b": two["org/b"]})]
    with pytest.raises(StoreError, match=r"do not compare \(oracle: .* common oracle"):
        _ = Runs.open(paths).groups
    group = Runs.open(paths, common_oracle=True).groups[0]
    assert group.models == ["org/a", "org/b"]
    assert group.runs[0].scores["ig_recall"].tolist() == [2 / 3, 1.0]
    assert group.runs[0].score["ig_recall"] == pytest.approx((2 / 3 + 1) / 2)
    assert group.runs[0].score["oracle"]["version"] == group.runs[1].score["oracle"]["version"]


def test_suites_with_other_thresholds_are_not_mixed(suite, two):
    paths = [suite("one", two), suite("two", {"org/c": two["org/a"]}, thresholds="strict")]
    with pytest.raises(StoreError, match=r"thresholds: base and strict.*Report them apart"):
        _ = Runs.open(paths, common_oracle=True).groups


def test_the_same_candidate_twice_is_refused(suite, two):
    paths = [suite("one", two), suite("two", two)]
    with pytest.raises(StoreError, match="org/a is there 2 times"):
        _ = Runs.open(paths).groups


def test_a_folder_named_twice_counts_once(suite, two):
    path = suite("one", two)
    assert len(Runs.open([path, path / "org--a"]).all) == 2


def test_other_judges_data_and_lengths_are_other_groups(suite, two):
    paths = [
        suite("one", two),
        suite("two", two, judge="org/other"),
        suite("three", two, dataset="films"),
        suite("four", two, history_length=50),
    ]
    groups = Runs.open(paths).groups
    assert [(g.dataset, g.judge, g.setting) for g in groups] == [
        ("demo", "org/judge@2", "history length whole"),
        ("demo", "org/other@2", "history length whole"),
        ("films", "org/judge@2", ""),
        ("demo", "org/judge@2", "history length 50"),
    ]


def test_without_a_taxonomy_interests_are_categories(opened, two):
    run = opened(two, categories=False).all[0]
    assert run.by_name
    assert run.categories.to_numpy().tolist() == [["u", "jazz"], ["u", "tea"], ["v", "jazz"]]
    again = scores_frame(*rescore(run, oracle=run.oracle))
    assert again.equals(run.scores[list(again.columns)])


def test_runs_without_scores_are_refused(suite, two):
    path = suite("one", two)
    from gistbench.runners.runfolder import RunFolder

    folder = RunFolder(path / "org--a")
    manifest = folder.manifest
    manifest["phases"].pop("score")
    folder.write({}, manifest)
    with pytest.raises(StoreError, match="no scores yet"):
        Runs.open([path])


def test_a_record_among_results_finds_its_oracle(suite, interest, tmp_path):
    path = suite("one", {name: {"u": [interest("jazz", n + 1, e=2)]} for n, name in enumerate(("org/a", "org/b"))})
    records = ResultsFolder(tmp_path / "results").add(path)
    runs = Runs.open([tmp_path / "results" / record for record in records])
    assert [run.oracle for run in runs.all] == [{"u": [1, 2]}] * 2
    assert run_analyses(runs, ["table_15"])[0].tables
