import csv
import io
import json

import pytest
from gistbench.hf_datasets.errors import StoreError
from gistbench.runners.comparison import Comparison
from gistbench.runners.runfolder import RunFolder
from rich.console import Console

METRICS = ("ig_precision", "ig_recall", "ig_f1", "is", "hm")


def stage(n_unusable, n_engines=1):
    outcomes = {"ok": 20 - n_unusable, "truncated": n_unusable, "invalid": 0, "refused": 0, "error": 0}
    engines = [{"made_by": str(n)} for n in range(n_engines)]
    return {"unusable_share": n_unusable / 20, "n_requests": 20, "outcomes": outcomes, "engines": engines}


def manifest(name="org/a", dataset="demo", taxonomy="open", n_users=9, n_unusable=0, n_engines=1, **scores):
    values = dict.fromkeys(METRICS, 0.5) | scores
    score = {
        **values,
        **{f"ci_{m}": None if values[m] is None else [values[m] - 0.1, values[m] + 0.1] for m in METRICS},
        **{f"n_users_{m}": 0 if values[m] is None else n_users for m in METRICS},
        **{f"mean_{m}": values[m] for m in METRICS},
        **{f"ci_mean_{m}": None if values[m] is None else [values[m], values[m]] for m in METRICS},
        "interests_per_user": 4.25,
        "n_interests": 38,
        "verified_share": 0.75,
        "n_unknown_item_ids": 3,
        "n_over_selected": 4,
        "n_retrieval_failed": 0,
        "n_without_distractors": 1,
        "n_few_distractors": 2,
        "n_shortlist_failed": 0,
        "n_users_unjudged": 0,
        "n_users": n_users,
        "n_requested": 10,
        "coverage": n_users / 10,
        "left_out": {"grounding": 1, "mapping": 2},
        "policy": {"ig": {"thresholds": {"preset": "base"}}, "is": {"is_scope": "category"}},
        "oracle": {"version": "abc", "n_candidates": 2, "given": None},
        "max_unusable_share": 0.1,
    }
    extract = stage(n_unusable, n_engines)
    return {
        "candidate": {"name": name, "revision": "1", "profile": "p/1"},
        "data": {"dataset": dataset, "taxonomy": {"name": taxonomy, "sha256": "f"} if taxonomy else None},
        "phases": {
            "extract": {"stages": {"extract": extract}},
            "judge": {
                "model": {"name": "org/judge", "revision": "2", "profile": "p/1"},
                "stages": {"ground": stage(0)},
            },
            "score": score,
        },
    }


@pytest.fixture
def compare(tmp_path):
    def make(*manifests):
        runs = [RunFolder(tmp_path / f"run {n}") for n in range(len(manifests))]
        for run, content in zip(runs, manifests, strict=True):
            run.write({}, content)
        return Comparison.of_runs(runs)

    return make


def shown(comparison, width=160):
    file = io.StringIO()
    Console(file=file, width=width).print(comparison.table())
    return file.getvalue()


def test_a_row_holds_names_scores_intervals_and_what_they_stand_on(compare):
    (row,) = compare(manifest(ig_f1=0.8)).rows
    assert (row["candidate"], row["dataset"], row["judge"], row["taxonomy"]) == ("org/a", "demo", "org/judge", "open")
    assert (row["ig_f1"], row["ci_ig_f1"]) == (0.8, [pytest.approx(0.7), pytest.approx(0.9)])
    assert (row["n_users"], row["n_requested"], row["coverage"]) == (9, 10, 0.9)
    assert (row["n_grounding_failed"], row["n_mapping_failed"], row["n_unknown_item_ids"]) == (1, 2, 3)
    assert (row["oracle"], row["thresholds"]) == ("abc", "base")


def test_csv_has_one_number_in_a_cell_and_nothing_where_there_is_none(compare):
    comparison = compare(manifest(), manifest("org/b, c", ig_recall=None, ig_f1=None, hm=None))
    first, second = csv.DictReader(io.StringIO(comparison.csv()))
    assert float(first["ci_hm_low"]) == 0.4
    assert float(first["ci_hm_high"]) == 0.6
    assert second["candidate"] == "org/b, c"
    assert second["ig_recall"] == second["ci_ig_recall_low"] == second["ci_ig_recall_high"] == ""
    assert list(first) == list(second)
    assert None not in first


def test_json_is_the_rows(compare):
    comparison = compare(manifest(), manifest("org/ü", ig_recall=None))
    assert json.loads(comparison.json()) == [dict(row) for row in comparison.rows]
    assert "org/ü" in comparison.json()


def test_markdown_is_a_table(compare):
    lines = compare(manifest("org/a|b"), manifest("org/b", hm=None)).markdown().splitlines()
    assert lines[0].startswith("| Candidate | IG precision | IG recall | IG F1 | IS | HM |")
    assert lines[1] == "|" + " --- |" * 9
    assert lines[2] == (
        "| org/a\\|b | 50.0 40-60 | 50.0 40-60 | 50.0 40-60 | 50.0 40-60 | 50.0 40-60 | 4.2 | 90 % of 10 | 0 % |"
    )
    assert "| - |" in lines[3]
    assert lines[-1] == (
        "Medians over users in %, with 95 % intervals. dataset demo; judge org/judge; judge revision 2; "
        "taxonomy open; thresholds base; is scope category; oracle abc."
    )


def test_the_terminal_shows_every_column_and_marks_up_nothing(compare):
    text = shown(compare(manifest("org/[red]a[/red]"), manifest("org/b", hm=None)))
    for word in ("precision", "recall", "F1", "IS", "HM", "Named", "scored", "[red]a[/red]", "90 %", "9/10"):
        assert word in text
    assert "Data set" not in text


def test_the_terminal_shows_coverage_where_it_is_narrow(compare):
    text = shown(compare(manifest("openai/gpt-oss-120b", n_users=10)), width=80)
    assert "scored" in text
    assert "100 %" in text
    assert "10/10" in text


def test_the_terminal_names_data_sets_where_there_are_several(compare):
    text = shown(compare(manifest(), manifest(dataset="movielens")))
    assert "Dataset" in text
    assert "movielens" in text
    assert "dataset demo" not in text  # what differs stands in the rows, not under the table


def test_without_a_taxonomy_the_row_says_none(compare):
    assert compare(manifest(taxonomy=None)).rows[0]["taxonomy"] == "none"


def test_a_run_without_scores_is_an_error(tmp_path):
    run = RunFolder(tmp_path / "suite" / "run")
    run.write({}, {"phases": {"extract": {}}})
    with pytest.raises(StoreError, match=r"has no scores yet\. Run `gistbench score .*suite` first"):
        Comparison.of_runs([run])


def test_files_are_written_together(compare, tmp_path):
    comparison = compare(manifest())
    comparison.write(tmp_path / "out")
    assert (tmp_path / "out" / "comparison.csv").read_text() == comparison.csv()
    assert (tmp_path / "out" / "comparison.md").read_text() == comparison.markdown()
    assert json.loads((tmp_path / "out" / "comparison.json").read_text()) == list(comparison.rows)


def test_nothing_compares_to_nothing(compare):
    comparison = compare()
    assert comparison.rows == ()
    assert shown(comparison)
    assert json.loads(comparison.json()) == []


def test_a_candidate_with_too_many_unusable_answers_is_not_ranked(compare):
    comparison = compare(manifest("org/a", ig_f1=0.9, n_unusable=7), manifest("org/b", ig_f1=0.2), manifest("org/c"))
    first, second, _ = comparison.rows
    assert first["not_ranked"] == "35 % of the answers of extract cannot be used or were cut (more than 10 %)."
    assert (first["unusable_share_extract"], first["truncated_share_extract"]) == (0.35, 0.35)
    assert second["not_ranked"] == ""
    table = comparison.table()
    cells = list(table.columns[3].cells)  # IG F1
    assert [cell.startswith("[bold]") for cell in cells] == [False, False, True]
    assert "35 %\n[dim]extract" in next(iter(table.columns[-1].cells))
    assert "org/a is not ranked: 35 %" in comparison.markdown()


def test_answers_of_several_engines_are_told(compare):
    comparison = compare(manifest("org/a", n_engines=2), manifest("org/b"))
    (note,) = comparison.notes
    assert note.startswith("org/a: answers of 2 engines, versions or machines are mixed")


def test_names_are_no_html_in_markdown(compare):
    text = compare(manifest("<img src=x>")).markdown()
    assert "<img" not in text
    assert "&lt;img src=x&gt;" in text
