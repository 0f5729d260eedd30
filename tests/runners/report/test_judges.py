import re

import pytest
from gistbench.runners.report import Options, Runs, run_analyses
from gistbench.runners.report.figures import draw
from gistbench.runners.report.figures_marks import Cells


@pytest.fixture
def two_judges(suite, interest):
    """The second judge keeps one item less of A's interests, which are then not verified, and picks no own item."""

    def candidates(dropped, correct):
        def named(model, shift, dropped=0, correct=1):
            return {
                f"u{k}": [interest(f"{model}{k}", 1 + k % 2, e=2, dropped=dropped, correct=correct)]
                for k in range(shift, 6)
            }

        return {"org/a": named("a", 0, dropped, correct), "org/b": named("b", 1), "org/c": named("c", 2)}

    return Runs.open([suite("one", candidates(0, 1)), suite("two", candidates(1, 0), judge="org/other")])


def test_judges_agreement_and_ranks(two_judges):
    (found,) = run_analyses(two_judges, ["judges"], Options())
    frame = found.tables["agreement"].set_index(["model", "what"])
    assert frame.loc[("org/a", "relevance"), "agreement_share"] == 0.5  # one of two items of each interest
    assert frame.loc[("org/a", "relevance"), "n_items"] == 12
    assert frame.loc[("org/a", "verdict"), "agreement_share"] == 0.0
    assert frame.loc[("org/b", "relevance"), "agreement_share"] == 1.0
    assert frame.loc[("org/b", "category"), "kappa"] == 1.0
    assert frame.loc[("org/a", "specificity"), ["share_a", "share_b"]].tolist() == [1.0, 0.0]
    ranks = found.tables["ranks"].set_index("metric")
    assert ranks.loc["ig_f1", "n_models"] == 3
    # Under the first judge all medians are 1 (A), 1 and 1; under the second A's is 0.
    assert ranks.loc["is", "largest_rank_change"] == 2
    places = found.tables["places"].query("metric == 'is'").pivot(index="model", columns="judge", values="rank")
    assert places["org/judge@2"].tolist() == [1, 1, 1]
    assert places["org/other@2"].tolist() == [3, 1, 1]
    panels = {panel.title: panel for panel in draw(found.figures["judges_places"], found.tables).panels}
    assert panels["IS"].y.range[0] > panels["IS"].y.range[1]  # the best on top


@pytest.mark.parametrize(
    ("other", "differs"),
    [
        ({"taxonomy_name": "theirs"}, r"taxonomy: open \(\w+\) and theirs \(\w+\)"),
        ({"categories": False}, r"taxonomy: open \(\w+\) and none"),
        ({"thresholds": "lenient"}, "thresholds: base and lenient"),
        ({"data": "e"}, "data: d-demo and e"),
    ],
)
def test_judges_of_other_data_taxonomies_or_thresholds_are_not_compared(suite, interest, other, differs):
    users = {f"org/{m}": {f"u{k}": [interest(f"{m}{k}", 1 + k % 2, e=2)] for k in range(4)} for m in "ab"}
    one, same = suite("one", users), suite("same", users, judge="org/same")
    unlike = suite("two", users, judge="org/other", **other)
    assert re.search(differs, run_analyses(Runs.open([one, unlike]), ["judges"], Options())[0].missing)
    (found,) = run_analyses(Runs.open([one, same, unlike]), ["judges"], Options())
    assert set(found.tables["agreement"]["judge_b"]) == {"org/same@2"}
    assert set(found.tables["places"]["judge"]) == {"org/judge@2", "org/same@2"}
    assert len(found.notes) == 2
    assert all("org/other@2" in note and re.search(differs, note) for note in found.notes)


@pytest.fixture
def one_judge(suite, interest):
    """Forty users with two explicit positives each, of which the judge drops one for every other user."""
    users = {f"u{k}": [interest("jazz", 1, e=2, dropped=k % 2, correct=k % 2)] for k in range(40)}
    return Runs.open([suite("one", {"org/a": users})])


def labels(path, relevance, association=()):
    rows = ["task,annotator,label,user_id,interest,object_id"]
    rows += [f"relevance,p,{label},u{k},jazz,u{k}/jazz/{item}" for k, item, label in relevance]
    rows += [f"association,p,{label},u{k},jazz,{item}" for k, item, label in association]
    path.write_text("\n".join(rows) + "\n")
    return path


def test_the_judges_confusion(one_judge, tmp_path):
    # Kept: item 0 of all, item 1 of even users. People keep all but item 0 of u0: one false positive; items 1 of odd
    # users that people keep are false negatives.
    relevance = [(k, item, int((k, item) != (0, 0))) for k in range(10) for item in (0, 1)]
    path = labels(tmp_path / "labels.csv", relevance)
    (found,) = run_analyses(one_judge, ["judge_errors"], Options(annotations=path))
    row = found.tables["confusion"].iloc[0]
    counts = [f"n_{side}" for side in ("true_positive", "false_positive", "false_negative", "true_negative")]
    assert row[counts].tolist() == [14, 1, 5, 0]
    assert row["sensitivity"] == pytest.approx(14 / 19)
    assert row["predictive_value"] == pytest.approx(14 / 15)
    assert row["ci_sensitivity_low"] < 14 / 19 < row["ci_sensitivity_high"]
    cells = found.tables["matrix"].pivot(index="judge_says", columns="people_say", values="n_items")
    assert cells.loc["kept", ["kept", "dropped"]].tolist() == [14, 1]
    assert cells.loc["dropped", ["kept", "dropped"]].tolist() == [5, 0]
    (panel,) = draw(found.figures["judge_errors_confusion"], found.tables).panels
    (drawn,) = [mark for mark in panel.marks if isinstance(mark, Cells)]
    assert (panel.y.categories[::-1], panel.x.categories) == (("kept", "dropped"), ("kept", "dropped"))
    assert drawn.values[::-1] == ((14.0, 1.0), (5.0, 0.0))


def test_a_judge_who_drops_what_people_keep_costs_precision_which_correction_gives_back(one_judge, tmp_path):
    everything = [(k, item, 1) for k in range(40) for item in (0, 1)]
    path = labels(tmp_path / "labels.csv", everything)
    tables = run_analyses(one_judge, ["judge_errors"], Options(annotations=path))[0].tables
    row = tables["corrected"].query("metric == 'ig_precision'").iloc[0]
    assert row["score"] == 0.5  # verified for even users only
    assert row["corrected"] == 1.0
    drawn = tables["scores"].query("metric == 'ig_precision'").set_index("what")["score"]
    assert drawn.to_dict() == {"as judged": 0.5, "corrected": 1.0}


def test_a_judge_who_errs_never_stands_corrected(one_judge, tmp_path):
    right = [(k, item, int(item == 0 or k % 2 == 0)) for k in range(40) for item in (0, 1)]
    path = labels(tmp_path / "labels.csv", right)
    (found,) = run_analyses(one_judge, ["judge_errors"], Options(annotations=path))
    row = found.tables["corrected"].query("metric == 'ig_precision'").iloc[0]
    assert row["ci_corrected_low"] <= row["score"] <= row["ci_corrected_high"]
    assert found.tables["confusion"]["agreement_share"].tolist() == [1.0]


def test_a_judge_without_errors_leaves_recall_alone_though_the_suite_knows_more(suite, interest, tmp_path):
    """The suite's oracle also holds what another candidate verifies, which a report on one run cannot correct."""
    users = {
        "org/a": {f"u{k}": [interest("jazz", 1, e=2)] for k in range(40)},
        "org/b": {f"u{k}": [interest("chess", 9, e=2)] for k in range(40)},
    }
    runs = Runs.open([suite("one", users) / "org--a"])
    path = labels(tmp_path / "labels.csv", [(k, item, 1) for k in range(40) for item in (0, 1)])
    frame = run_analyses(runs, ["judge_errors"], Options(annotations=path))[0].tables["corrected"].set_index("metric")
    assert runs.all[0].score["ig_recall"] == 0.5
    assert frame.loc["ig_recall", ["score", "corrected"]].tolist() == [1.0, 1.0]
    assert frame.loc["ig_f1", ["score", "corrected"]].tolist() == [1.0, 1.0]


def test_the_share_of_backing_items_corrected_for_misses_and_alarms(one_judge, tmp_path):
    # The judge picks the backing item of odd users, and a distractor for even ones. People: every backing item of the
    # 20 labelled belongs (10 of 20 picked), 2 of 10 distractors labelled 0 were picked.
    association = [(k, f"u{k}/jazz/0", 1) for k in range(20)]
    association += [(k, "d/0", 0) for k in (0, 2)] + [(k, "d/4", 0) for k in range(1, 17, 2)]
    path = labels(tmp_path / "labels.csv", [], association)
    (found,) = run_analyses(one_judge, ["judge_errors"], Options(annotations=path))
    row = found.tables["corrected"].query("metric == 'backing_picked_share'").iloc[0]
    assert row["score"] == 0.5
    assert row["corrected"] == pytest.approx((0.5 - 0.2) / (0.5 - 0.2))
    assert row["ci_corrected_low"] < 1.0


def test_ties_of_people_are_left_out(one_judge, tmp_path):
    path = tmp_path / "labels.csv"
    rows = [f"relevance,{who},{label},u0,jazz,u0/jazz/0" for who, label in (("p", 0), ("q", 1))]
    rows += ["relevance,p,1,u2,jazz,u2/jazz/0"]
    path.write_text("\n".join(["task,annotator,label,user_id,interest,object_id", *rows]) + "\n")
    frame = run_analyses(one_judge, ["judge_errors"], Options(annotations=path))[0].tables["confusion"]
    assert frame["n_items"].tolist() == [1]


def test_what_is_missing(one_judge, tmp_path):
    assert "two judges" in run_analyses(one_judge, ["judges"], Options())[0].missing
    path = tmp_path / "labels.csv"
    path.write_text("task,annotator,label,item\nrelevance,p,1,x\n")
    assert "ties no label" in run_analyses(one_judge, ["judge_errors"], Options(annotations=path))[0].missing
    path = labels(path, [(99, 0, 1)])
    assert "No label" in run_analyses(one_judge, ["judge_errors"], Options(annotations=path))[0].missing
