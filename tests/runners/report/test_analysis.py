"""The contract: every analysis gives typed tables, figures of columns that are there, and says what it lacks."""

import numpy as np
import pandas as pd
import pytest
from gistbench.hf_datasets.errors import ConfigError
from gistbench.runners.report import COLUMNS, Options, Runs, analysis, analysis_ids, describe_column, run_analyses
from gistbench.runners.report.analysis import KINDS
from gistbench.runners.report.frames import letters, quantiles, spearman, typed, wilson
from gistbench.runners.report.published import paper_dataset, published
from scipy import stats


@pytest.fixture
def everything(suite, interest, tmp_path):
    """Two data sets, three candidates, two judges, two chunk sizes, and every file that can be given."""
    runs = {}
    for shift, model in enumerate(("org/a", "org/b", "org/c")):
        runs[model] = {
            f"u{k}": [
                interest(f"jazz {shift}", 1, e=2 + k % 2, n=shift, correct=k % 2),
                interest(f"tea {shift}", 2 + (k + shift) % 3, i=1 + (k + shift) % 4, dropped=shift % 2),
                interest(f"golf {shift}", 5, x=3, e=2, correct=None),
            ][: 3 - (k + shift) % 2]
            for k in range(14)
        }
    paths = [
        suite("one", runs),
        suite("two", runs, judge="org/other"),
        suite("three", runs, dataset="films", signals=("explicit_positive", "implicit_positive", "explicit_negative")),
        suite("four", {"org/a": runs["org/a"]}, chunk_size=50),
    ]
    (tmp_path / "survey.csv").write_text("user_id,category_id\nu0,1\nu0,2\nu1,5\nu2,1\n")
    (tmp_path / "external.csv").write_text("model,elo\norg/a,1400\norg/b,1300\norg/c,1350\n")
    rows = ["task,annotator,label,user_id,interest,object_id"]
    for k in range(6):
        for annotator in "pqrs":
            label = int((k + ord(annotator)) % 5 > 0)
            rows.append(f"relevance,{annotator},{label},u{k},jazz 0,u{k}/jazz 0/0")
            rows.append(f"association,{annotator},{1 - label},u{k},jazz 0,d/{k % 5}")
            rows.append(f"association,{annotator},{label},u{k},jazz 0,u{k}/jazz 0/0")
    (tmp_path / "labels.csv").write_text("\n".join(rows) + "\n")
    options = Options(
        survey=tmp_path / "survey.csv",
        external=tmp_path / "external.csv",
        annotations=tmp_path / "labels.csv",
        compared_data=("demo", "demo"),
    )
    return Runs.open(paths), options


def test_every_analysis_keeps_the_contract(everything):
    runs, options = everything
    found = run_analyses(runs, options=options)
    assert [one.id for one in found] == list(analysis_ids())
    assert [one.id for one in found if one.missing] == []
    for one in found:
        assert one.title
        assert one.caption
        assert one.tables
        for name, table in one.tables.items():
            assert len(table), (one.id, name)
            for column in table.columns:
                unit = describe_column(column).unit
                kind = {"text": "str", "flag": "bool", "count": "Int64"}.get(unit, "float64")
                assert str(table[column].dtype) == kind, (one.id, name, column)
        for name, figure in one.figures.items():
            assert figure.kind in KINDS
            assert figure.caption
            used = (figure.x, figure.y, figure.group, figure.colour, figure.size, figure.low, figure.high, figure.label)
            missing = {column for column in (*used, figure.facet) if column} - set(one.tables[figure.table].columns)
            assert not missing, (one.id, name)
            if figure.overlay:
                assert {figure.x, figure.y, figure.group} <= set(one.tables[figure.overlay].columns)
        for name, layout in one.layouts.items():
            used = {*layout.rows, *layout.headings, *layout.cells}
            assert used <= set(one.tables[name].columns), (one.id, name)


def test_the_same_runs_give_the_same_tables_in_any_order(everything):
    runs, options = everything
    again = Runs(runs.all)
    which = ["table_3", "table_16", "figure_10", "judge_errors", "calibration"]
    for one, other in zip(run_analyses(runs, which, options), run_analyses(again, which, options), strict=True):
        for name, table in one.tables.items():
            pd.testing.assert_frame_equal(table, other.tables[name])


def test_what_cannot_be_computed_says_what_is_needed(opened, interest):
    runs = opened({"org/a": {"u": [interest("jazz", 1, e=2)]}})
    by_id = {one.id: one for one in run_analyses(runs)}
    assert "--survey" in by_id["table_5"].missing
    assert "--chunk-size" in by_id["table_14"].missing
    assert by_id["table_3"].missing == ""
    assert not by_id["table_5"].tables


def test_an_unknown_analysis_is_an_error(opened, interest):
    runs = opened({"org/a": {"u": [interest("jazz", 1, e=2)]}})
    with pytest.raises(ConfigError, match=r"no analysis 'table_99'\. There are: summary, table_3"):
        run_analyses(runs, ["table_99"])


def test_an_id_is_registered_once():
    analysis_ids()
    with pytest.raises(ValueError, match="two analyses 'table_3'"):
        analysis("table_3", "again")(lambda runs, options: None)


def test_columns_and_prefixes():
    assert describe_column("published_ci_ig_f1_low").heading == "IG F1, 95 % low, published (%)"
    assert describe_column("best_is").unit == "flag"
    assert describe_column("rho_ig_f1").digits == 2
    assert describe_column("gpu_hours").heading == "GPU time (h)"
    assert all(column.label for column in COLUMNS.values())
    with pytest.raises(KeyError, match="unheard_of"):
        describe_column("unheard_of")


def test_typed_frames_keep_their_types_without_rows():
    frame = typed([], ["model", "verified", "n_users", "ig_f1"])
    assert [str(kind) for kind in frame.dtypes] == ["str", "bool", "Int64", "float64"]
    assert typed([{"note": None, "n_users": None}]).iloc[0].tolist() == ["", pd.NA]


def test_letters_of_overlapping_groups():
    assert letters([["x", "y"], ["y", "z"], ["w"]]) == {"x": "a", "y": "ab", "z": "b", "w": "c"}


def test_spearman_as_scipy_has_it():
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 5, 30), rng.integers(0, 5, 30)
    assert spearman(x, y) == pytest.approx(stats.spearmanr(x, y).statistic)
    assert np.isnan(spearman([1, 1], [1, 2]))
    assert spearman([1, np.nan, 2, 3], [3, 5, 2, 1]) == -1.0


def test_wilson_as_scipy_has_it():
    low, high = wilson([7, 0], [10, 0])
    expected = stats.binomtest(7, 10).proportion_ci(method="wilson")
    assert (low[0], high[0]) == pytest.approx((expected.low, expected.high))
    assert np.isnan(low[1])


def test_quantiles_of_users():
    frame = pd.DataFrame({"model": ["a"] * 5 + ["b"], "ig_f1": [0.0, 0.25, 0.5, 0.75, 1.0, np.nan]})
    found = quantiles(frame, ["model"], "ig_f1")
    assert found.drop(columns="model").to_numpy().tolist() == [[0.0, 0.25, 0.5, 0.75, 1.0, 5]]


def test_published_numbers_of_our_models():
    assert published("Table 3", "openai/gpt-oss-120b@abc", "Synthetic / IG F1") == 0.678
    assert published("Table 16", "deepseek-ai/DeepSeek-R1-Distill-Llama-70B", "Verified") == 19696
    assert published("Table 11", "Qwen/Qwen2-7B-Instruct", "Covered") == 318
    assert np.isnan(published("Table 3", "lexical/hashtag", "Synthetic / IG F1"))
    assert paper_dataset("amazon_music") == "Amazon Music"
    assert paper_dataset("mine") == "mine"
