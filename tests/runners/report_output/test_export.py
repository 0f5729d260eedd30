import io
import json
import re

import pandas as pd
import pyarrow.parquet as pq
import pytest
from gistbench.runners.report.analysis import Analysis, Layout
from gistbench.runners.report.export import latex, latex_text, markdown, plain, sheet, sidecar, to_csv, to_parquet
from hypothesis import given
from hypothesis import strategies as st

SCORES = pd.DataFrame(
    {
        "dataset": ["demo", "demo", "yelp", "yelp"],
        "judge": ["j"] * 4,
        "setting": [""] * 4,
        "model": ["a", "b", "a", "b"],
        "ig_f1": [0.5, 0.25, 0.125, float("nan")],
        "ci_ig_f1_low": [0.4, 0.2, 0.1, float("nan")],
        "ci_ig_f1_high": [0.6, 0.3, 0.2, float("nan")],
        "best_ig_f1": [True, False, True, False],
        "group_ig_f1": ["a", "b", "a", ""],
        "published_ig_f1": [0.61, float("nan"), float("nan"), float("nan")],
        "n_users": pd.array([12, 12, 9, 9], dtype="Int64"),
    }
)
LAYOUT = Layout(("model",), ("dataset", "judge", "setting"), ("ig_f1",))


def test_rows_of_two_judges_are_told_apart():
    two = pd.concat([SCORES, SCORES.assign(judge="k", ig_f1=0.75)], ignore_index=True)
    found = sheet(two, Layout(("model",), ("dataset",), ("ig_f1",)))
    assert [heading.text for heading in found.columns[:2]] == ["Model", "Judge"]
    assert [[cell.text for cell in row] for row in found.rows] == [
        ["a", "j", "50.0", "12.5"], ["b", "j", "25.0", "–"], ["a", "k", "75.0", "75.0"], ["b", "k", "75.0", "75.0"],
    ]  # fmt: skip


def test_values_of_columns_become_headings():
    found = sheet(SCORES, LAYOUT)
    assert [[(h.text, h.span) for h in row] for row in found.headings] == [
        [("", 1), ("demo", 1), ("yelp", 1)],
        [("Model", 1), ("IG F1 (%)", 1), ("IG F1 (%)", 1)],
    ]
    assert [[cell.text for cell in row] for row in found.rows] == [["a", "50.0", "12.5"], ["b", "25.0", "–"]]
    assert found.note.startswith("Judge: j.")


def test_what_stands_beside_a_value_is_in_its_cell():
    cell = sheet(SCORES, LAYOUT).rows[0][1]
    assert (cell.interval, cell.group, cell.published, cell.best, cell.sort) == ("40.0–60.0", "a", "61.0", True, 0.5)


def test_without_a_layout_columns_stay_and_what_stands_beside_them_is_merged():
    found = sheet(SCORES)
    assert [heading.text for heading in found.columns] == ["Data set", "Model", "IG F1 (%)", "Users"]
    assert len(found.rows) == 4


def test_spans_add_up_to_the_columns_at_each_level():
    frame = SCORES.assign(is_scope="x", hm=0.1)
    found = sheet(
        pd.concat([frame, frame.assign(judge="k")]), Layout(("model",), ("dataset", "judge"), ("ig_f1", "hm"))
    )
    assert len(found.headings) == 3
    assert {sum(heading.span for heading in row) for row in found.headings} == {9}
    assert {len(row) for row in found.rows} == {9}


def test_a_cell_of_several_rows_is_no_cell():
    twice = pd.concat([SCORES, SCORES])
    assert len(sheet(twice, LAYOUT).rows) == 8


def test_a_column_of_shares_is_not_merged_into_another():
    frame = pd.DataFrame({"model": ["a"], "published_ig_f1": [0.3]})
    assert [heading.text for heading in sheet(frame).columns] == ["Model", "IG F1, published (%)"]


def test_long_tables_say_that_they_are_cut():
    frame = pd.DataFrame({"model": [f"m{n}" for n in range(20)], "ig_f1": 0.5})
    found = sheet(frame, max_rows=5)
    assert len(found.rows) == 5
    assert "first 5 of 20 rows" in found.note


def test_an_empty_table_has_headings_and_no_rows():
    found = sheet(SCORES.iloc[:0], LAYOUT)
    assert found.rows == ()
    assert found.columns
    assert markdown(found).count("\n") == 2
    assert "\\bottomrule" in latex(found, "c", "l")


# Markdown


@given(st.lists(st.text(max_size=40), min_size=1, max_size=5))
def test_markdown_has_its_columns_whatever_names_hold(names):
    frame = pd.DataFrame({"model": names, "ig_f1": 0.5})
    lines = markdown(sheet(frame)).splitlines()
    table = [line for line in lines if line.startswith("|")]
    assert len(table) == 2 + len(names)
    assert {len(re.findall(r"(?<!\\)(?:\\\\)*\|", line)) for line in table} == {3} or not any(names)


def test_markdown_shows_markup_as_it_is():
    text = markdown(sheet(pd.DataFrame({"model": ["<b>*x*</b> [a](b)"], "ig_f1": [0.5]})))
    assert "<b>" not in text
    assert "\\*x\\*" in text
    assert "\\[a\\](b)" in text


def test_markdown_writes_outer_headings_into_inner_ones():
    assert "demo: IG F1 (%)" in markdown(sheet(SCORES, LAYOUT))
    assert "**50.0** (40.0–60.0) a paper 61.0" in markdown(sheet(SCORES, LAYOUT))


# LaTeX


@given(st.text(max_size=60))
def test_latex_of_any_text_is_balanced_and_escaped(text):
    found = latex_text(text)
    plain_text = re.sub(r"\\[a-zA-Z]+\{\}|\\.|\$(-|\\[a-z]+|-)\$", "", found)
    assert not set(plain_text) & set("$&#%_^~\\<>|")
    bare = re.sub(r"\\[{}]", "", found)
    assert bare.count("{") == bare.count("}")
    assert "\n" not in found


def test_latex_is_a_booktabs_table():
    text = latex(sheet(SCORES, LAYOUT), "100 % of R&D", "table_3", "policy a\nrun b")
    assert text.startswith("% policy a\n% run b\n")
    assert [text.count(f"\\{rule}") for rule in ("toprule", "midrule", "bottomrule")] == [1, 1, 1]
    assert "\\caption{100 \\% of R\\&D}" in text
    assert "\\begin{tabular}{lrr}" in text
    assert "\\cmidrule(lr){2-2}" in text
    assert "\\textbf{50.0}\\textsuperscript{a} {\\scriptsize [40.0--60.0]}" in text
    rows = [line for line in text.splitlines() if line.endswith("\\\\") and "multicolumn" not in line]
    assert {line.count(" & ") for line in rows} == {2}


# csv, Parquet, sidecar


def test_csv_holds_every_row_and_column_unrounded():
    frame = SCORES.assign(ig_f1=[1 / 3, 0.25, 0.125, float("nan")], model=['a,"b"', "<b>", "x\ny", ""])
    back = pd.read_csv(io.StringIO(to_csv(frame)), keep_default_na=False, na_values={"ig_f1": [""]})
    assert list(back.columns) == list(frame.columns)
    assert back["model"].tolist() == frame["model"].tolist()
    assert back["ig_f1"].tolist()[:3] == [1 / 3, 0.25, 0.125]


def test_parquet_holds_types_and_what_it_stands_on():
    content = to_parquet(SCORES, {"policy": {"thresholds": "base"}})
    table = pq.read_table(io.BytesIO(content))
    pd.testing.assert_frame_equal(table.to_pandas()[["ig_f1", "n_users"]], SCORES[["ig_f1", "n_users"]])
    assert json.loads(table.schema.metadata[b"gistbench"]) == {"policy": {"thresholds": "base"}}


def test_the_sidecar_says_what_columns_mean_and_which_policy_was_used():
    found = sidecar(Analysis("table_3", "t", "c", {"medians": SCORES}, policy={"a": (1, 2)}), {"gistbench": "1"})
    json.dumps(found, allow_nan=False)
    assert found["policy"] == {"a": [1, 2]}
    assert found["versions"] == {"gistbench": "1"}
    assert found["tables"]["medians"]["columns"]["ig_f1"] == {"label": "IG F1", "unit": "fraction", "digits": 1}


@pytest.mark.parametrize("value", [float("nan"), pd.NA, {1, "a"}, (pd.Timestamp(0),), {1: {2: float("inf")}}])
def test_policy_is_plain_json_whatever_it_holds(value):
    json.dumps(plain(value), allow_nan=False)
