"""Views: addresses there and back, filters that change no rank, csv without formulas, HTML without data in it."""

import csv
import doctest
import io
import re
from dataclasses import replace

import pandas as pd
import pytest
from gistbench.space.leaderboard import text
from gistbench.space.leaderboard.text import escape, fits_name, to_csv
from gistbench.space.leaderboard.view import View, chosen_rows, leaderboard, view_csv


def test_address_there_and_back():
    view = View(tab="model", q="gpt oss", data="demo", cols=("is", "hm"), sort="is", up=True, page=2, user="u01")
    pairs = dict(pair.split("=") for pair in view.query.replace("+", " ").split("&"))
    assert View.of_query(pairs) == view
    assert View().query == ""


@pytest.mark.parametrize(
    "query",
    [
        {"tab": "<script>"},
        {"page": "-1"},
        {"page": "99999999999"},
        {"page": "²"},
        {"cols": "x.y"},
        {"sort": "__class__"},
        {"size": "huge"},
        {"layout": "3d"},
        {"nothing": "1"},
    ],
)
def test_what_an_address_does_not_know_is_as_if_it_were_not_there(query):
    assert View.of_query(query) == View()


def test_filters_hide_rows_and_change_no_rank(snapshot):
    everything = chosen_rows(snapshot, View()).set_index("id")
    some = chosen_rows(snapshot, View(q="tfidf", data="demo")).set_index("id")
    assert some["model"].tolist() == ["lexical/tfidf"]
    assert (some["rank_hm"] == everything.loc[some.index, "rank_hm"]).all()
    assert some["n_ranked_models"].tolist() == [3]


@pytest.mark.parametrize(
    ("view", "holds"),
    [
        (View(origin="published"), lambda rows: (rows["origin"] == "published").all()),
        (View(weights="open"), lambda rows: (rows["weights"] == "open").all()),
        (View(size="large"), lambda rows: (rows["parameters_b"] > 100).all()),
        (View(size="unknown"), lambda rows: rows["parameters_b"].isna().all()),
        (View(judge="lexical/overlap"), lambda rows: len(rows) == 3),
        (View(q="CLAUDE kuairec"), lambda rows: len(rows) == 1),
    ],
)
def test_filters(snapshot, view, holds):
    rows = chosen_rows(snapshot, view)
    assert len(rows)
    assert holds(rows)


def test_order_has_missing_values_last_whichever_way(snapshot):
    for up in (False, True):
        values = chosen_rows(snapshot, View(sort="hm", up=up))["hm"]
        known = values.dropna()
        assert values.head(len(known)).notna().all()
        assert known.is_monotonic_increasing if up else known.is_monotonic_decreasing


def test_both_layouts_show_each_model(snapshot):
    for view in (View(), View(layout="matrix", metric="ig_f1")):
        html, n_rows, n_pages = leaderboard(snapshot, view)
        assert "lexical/hashtag" in html
        assert n_rows >= 9
        assert n_pages == 1
        assert html.count("<table") == 1
        assert 'scope="row"' in html


def with_rows(snapshot, *changes):
    """Return results of one model's row, and of the same with changes."""
    row = snapshot.index[snapshot.index["model"] == "lexical/tfidf"].iloc[0].to_dict()
    rows = [{**row, **change, "id": f"id{at}"} for at, change in enumerate(changes)]
    return replace(snapshot, index=pd.DataFrame(rows), texts=tuple("" for _ in rows))


def shown_in_matrix(snapshot):
    html, n_rows, _ = leaderboard(snapshot, View(layout="matrix"))
    return re.findall(r"[0-9.]+", " ".join(re.findall(r'<td class="n">([0-9.]+)', html))), n_rows, html


def test_a_matrix_shows_results_of_two_revisions_of_a_judge_apart(snapshot):
    two = [{"hm": 0.3, "judge_revision": "aaa"}, {"hm": 0.9, "judge_revision": "bbb"}]
    for changes in (two, two[::-1]):
        found, n_rows, html = shown_in_matrix(with_rows(snapshot, *changes))
        assert (found, n_rows) == (["90.0", "30.0"], 2)
        assert "@aaa" in html
        assert "@bbb" in html


def test_a_matrix_shows_results_of_two_oracles_whatever_the_order_of_rows(snapshot):
    """Oracles differ from data set to data set, so they are told apart within a cell: today's first."""
    today = snapshot.oracles["demo"]
    other = {"hm": 0.4, "dataset": "other", "oracle": "o1"}
    two = [{"hm": 0.3, "oracle": "0former"}, {"hm": 0.9, "oracle": today}, other]
    shown = set()
    for changes in (two, two[::-1]):
        html, n_rows, _ = leaderboard(with_rows(snapshot, *changes), View(layout="matrix"))
        assert n_rows == 1
        shown.add(html)
        assert html.index("90.0") < html.index("30.0") < html.index("40.0")
        assert "oracle 0former" in html
        assert "oracle o1" not in html
    assert len(shown) == 1


def test_no_rows_is_said(snapshot):
    assert "No row fits" in leaderboard(snapshot, View(q="nothing like this"))[0]


def test_csv_holds_the_rows_in_the_views_order(snapshot):
    rows = list(csv.DictReader(io.StringIO(view_csv(snapshot, View(data="demo")))))
    assert [row["model"] for row in rows] == chosen_rows(snapshot, View(data="demo"))["model"].tolist()


@pytest.mark.parametrize("cell", ["=1+1", "+1", "-1", "@x", "\t=1", " =1", "|x", "%x"])
def test_no_csv_cell_is_a_formula(cell):
    ((found,),) = csv.reader(io.StringIO(to_csv(["a"], [[cell]]).split("\n", 1)[1]))
    assert found == "'" + cell


@pytest.mark.parametrize("text", ["<script>", '"onload="', "${alert(1)}", "{{x}}", "`x`", "a\\x"])
def test_no_mark_of_data_means_anything(text):
    assert not set(escape(text)) & set('<>"${}`\\')


@pytest.mark.parametrize(
    ("name", "fits"),
    [
        ("openai/gpt-oss-120b", True),
        ("Qwen/Qwen3-32B:thinking@abc", True),
        ("../../etc/passwd", False),
        ("a/../b", False),
        ("<img src=x>", False),
        ("=cmd", False),
        ("", False),
        ("a" * 151, False),
        ("a\nb", False),
        (3, False),
        ("а/б", False),  # letters that only look Latin
    ],
)
def test_names_that_can_be_shown_anywhere(name, fits):
    assert fits_name(name) is fits


def test_the_examples_of_texts_are_true():
    assert doctest.testmod(text).failed == 0
