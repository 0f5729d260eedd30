import json
import shutil

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
import typer
from gistbench.hf_datasets.errors import ConfigError, GistbenchError, StoreError
from gistbench.runners import cli_report
from typer.testing import CliRunner

A, B = "lexical--hashtag@1", "lexical--phrase@1"


@pytest.fixture
def run(monkeypatch):
    """Run a command of its own little application."""
    monkeypatch.setattr(cli_report.out, "_width", 200)
    app = typer.Typer()
    for command in (cli_report.report, cli_report.compare, cli_report.inspect, cli_report.gate):
        app.command()(command)

    def call(*arguments):
        return CliRunner().invoke(app, [str(argument) for argument in arguments])

    return call


@pytest.fixture
def worse(demo_suite, tmp_path):
    """The same suite, with every user's IG F1 of one candidate lower by 0.3."""
    copy = tmp_path / "worse"
    shutil.copytree(demo_suite, copy)
    path = copy / A / "scores.parquet"
    table = pq.read_table(path)
    place = table.column_names.index("ig_f1")
    jitter = pa.array([0.3 + 0.001 * n for n in range(table.num_rows)])
    pq.write_table(table.set_column(place, "ig_f1", pc.subtract(table["ig_f1"], jitter)), path)
    return copy


# report


def test_report_still_compares(run, demo_suite):
    done = run("report", demo_suite)
    assert done.exit_code == 0
    assert "lexical/hashtag" in done.stdout
    rows = json.loads(run("report", demo_suite, "--format", "json").stdout)
    assert [row["candidate"] for row in rows] == ["lexical/hashtag", "lexical/tfidf", "lexical/phrase"]
    assert "extract" in run("report", demo_suite, "--cost").stdout


def test_report_writes_a_folder(run, demo_suite, tmp_path):
    done = run(
        "report", demo_suite, "--out", tmp_path / "r", "--only", "table_3", "--only", "table_17", "--resamples", 20
    )
    assert done.exit_code == 0
    assert "report.html" in done.stdout
    assert "1 analyses" in done.stdout
    assert "Not in it: 1" in done.stdout
    assert (tmp_path / "r" / "tables" / "table_3.medians.tex").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--only", "table_3"), "--out"),
        (("--common-oracle",), "--out"),
        (("--format", "pdf"), "no format 'pdf'"),
        (("--out", "r", "--only", "table_99"), "no analysis 'table_99'"),
    ],
)
def test_report_says_what_it_cannot_do(run, demo_suite, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    done = run("report", demo_suite, *arguments)
    assert isinstance(done.exception, ConfigError)
    assert message in str(done.exception)
    assert list(tmp_path.iterdir()) == []


# compare


def test_compare_names_both_and_every_metric(run, demo_suite):
    done = run("compare", demo_suite / A, demo_suite / B, "--resamples", 20)
    assert done.exit_code == 0
    for text in ("lexical/hashtag (first) and lexical/phrase (second)", "ig_recall", "P (Holm)"):
        assert text in done.stdout


def test_compare_of_suites_goes_candidate_by_candidate(run, demo_suite, worse):
    done = run("compare", demo_suite, worse, "--format", "json", "--resamples", 0)
    rows = json.loads(done.stdout)
    assert len(rows) == 15
    fell = {row["model_a"] for row in rows if row["metric"] == "ig_f1" and row["difference_of_means"] > 0.1}
    assert fell == {"lexical/hashtag"}
    assert run("compare", demo_suite, worse, "--format", "csv", "--resamples", 0).stdout.startswith("metric,")
    assert "| ig_f1 |" in run("compare", demo_suite, worse, "-f", "markdown", "--resamples", 0).stdout.replace(
        "\\_", "_"
    )


def test_compare_of_a_run_with_itself_finds_no_difference(run, demo_suite):
    rows = json.loads(run("compare", demo_suite / A, demo_suite / A, "--format", "json", "--resamples", 0).stdout)
    assert {row["difference_of_means"] for row in rows} == {0.0}


@pytest.fixture
def other_prompts(demo_suite, tmp_path):
    """The suite as other prompts of candidate and judge would leave it, with an oracle of its own that lacks a user."""
    copy = tmp_path / "other"
    shutil.copytree(demo_suite, copy)
    oracle = json.loads((copy / "oracle.json").read_text())
    oracle["oracle"].pop("u06")
    (copy / "oracle.json").write_text(json.dumps({**oracle, "version": "other"}))
    for path in copy.glob("*/manifest.json"):
        manifest = json.loads(path.read_text())
        for phase, prompt in (("extract", "extract"), ("judge", "ground")):
            manifest["phases"][phase]["prompts"][prompt]["sha256"] = "f" * 64
        manifest["phases"]["score"]["oracle"]["version"] = "other"
        path.write_text(json.dumps(manifest))
    return copy


def test_compare_of_other_prompts_takes_the_common_oracle_and_says_what_differs(run, demo_suite, other_prompts):
    rows = json.loads(run("compare", demo_suite, other_prompts, "--format", "json", "--resamples", 0).stdout)
    assert {row["model_a"] for row in rows} == {"lexical/hashtag", "lexical/tfidf", "lexical/phrase"}
    assert {row["difference_of_means"] for row in rows} == {0.0}  # against one oracle, equal records score alike
    shown = run("compare", demo_suite, other_prompts, "--resamples", 0).stdout
    for text in ("What differs", "prompt extract", "prompt ground", "ffffffffffff", "oracle"):
        assert text in shown


def test_compare_of_what_is_no_run_is_an_error(run, demo_suite, tmp_path):
    assert isinstance(run("compare", demo_suite / A, tmp_path).exception, StoreError)


# inspect


def test_inspect_shows_interests_evidence_verdicts_and_tests(run, demo_suite):
    done = run("inspect", demo_suite / B, "--user", "u06")
    assert done.exit_code == 0
    for text in ("Interests and verdicts", "Cited items", "Tests of specificity", "What the oracle holds", "Exp+"):
        assert text in done.stdout


def test_inspect_as_json_holds_the_whole_test_sets(run, demo_suite):
    found = json.loads(run("inspect", demo_suite / B, "--user", "u06", "--format", "json").stdout)
    assert set(found) == {"scores", "verdicts", "evidence", "categories", "tests"}
    verdicts = {row["interest"]: row for row in found["verdicts"]}
    assert verdicts
    for test in found["tests"]:
        picked = [item for item in test["items"] if item["is_picked"] and item["is_backing"]]
        assert len(test["items"]) <= 50
        assert len(picked) == verdicts[test["interest"]]["n_correct"]
    kept = {row["interest"] for row in found["evidence"] if row["relevant"]}
    assert {name for name, row in verdicts.items() if row["verified"]} <= kept


def test_inspect_of_an_interest_shows_only_that_and_all_of_its_test(run, demo_suite):
    everything = json.loads(run("inspect", demo_suite / B, "--user", "u06", "--format", "json").stdout)
    name = everything["verdicts"][0]["interest"]
    found = json.loads(run("inspect", demo_suite / B, "--user", "u06", "--interest", name, "--format", "json").stdout)
    assert {row["interest"] for row in found["evidence"]} == {name}
    assert [test["interest"] for test in found["tests"]] == [name]
    shown = run("inspect", demo_suite / B, "--user", "u06", "--interest", name).stdout
    assert all(item["object_id"] in shown for item in found["tests"][0]["items"])


@pytest.mark.parametrize(
    ("path", "arguments", "message"),
    [
        (B, ("--user", "nobody"), "not asked about user 'nobody'"),
        (B, ("--user", "u06", "--interest", "zzz"), "names no interest"),
        (".", ("--user", "u06"), "holds several runs"),
        (B, ("--user", "u06", "--format", "csv"), "There are: table, json"),
    ],
)
def test_inspect_says_what_it_cannot_show(run, demo_suite, path, arguments, message):
    done = run("inspect", demo_suite / path, *arguments)
    assert isinstance(done.exception, ConfigError)
    assert message in str(done.exception)


# gate


def test_gate_passes_what_has_not_changed(run, demo_suite):
    done = run("gate", demo_suite, demo_suite)
    assert done.exit_code == 0
    assert "Gate: passed" in done.stdout


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("--alpha", "7"), "--alpha 7: give a level between 0 and 1, such as 0.05."),
        (("--tolerance", "-1"), "--tolerance -1: give a fraction, 0 or more, such as 0.02."),
        (("--statistic", "mode"), "--statistic mode: there are median, mean."),
    ],
)
def test_gate_names_the_flag_that_cannot_be_used(run, demo_suite, given, message):
    assert message in str(run("gate", demo_suite, demo_suite, *given).exception)


def test_gate_fails_on_a_drop_that_is_large_and_no_chance(run, demo_suite, worse):
    done = run("gate", demo_suite, worse)
    assert done.exit_code == 4
    assert "lexical/hashtag on demo: the median of ig_f1 fell" in done.stdout
    found = json.loads(run("gate", demo_suite, worse, "--format", "json").stdout)
    assert found["passed"] is False
    assert [check["model"] for check in found["checks"] if check["failed"]] == ["lexical/hashtag"]


def test_gate_decides_over_other_prompts_and_says_so(run, demo_suite, other_prompts):
    done = run("gate", demo_suite, other_prompts)
    assert done.exit_code == 0
    assert "prompt extract" in done.stdout
    found = json.loads(run("gate", demo_suite, other_prompts, "--format", "json").stdout)
    whats = {row["what"] for row in found["differences"] if row["model"] == "lexical/phrase"}
    assert whats == {"oracle", "prompt extract", "prompt ground"}
    assert found["policy"]["oracle"] == "the union of both sides'"


@pytest.mark.parametrize("arguments", [("--tolerance", 0.5), ("--metric", "is"), ("--alpha", 0.000001)])
def test_gate_passes_what_is_allowed_or_may_be_chance(run, demo_suite, worse, arguments):
    assert run("gate", demo_suite, worse, *arguments).exit_code == 0


def test_gate_of_an_improvement_passes(run, demo_suite, worse):
    assert run("gate", worse, demo_suite).exit_code == 0


@pytest.mark.parametrize("arguments", [("--metric", "f1"), ("--alpha", 2), ("--statistic", "mode"), ("-f", "csv")])
def test_gate_of_options_that_mean_nothing_is_an_error(run, demo_suite, arguments):
    done = run("gate", demo_suite, demo_suite, *arguments)
    assert isinstance(done.exception, ConfigError)
    assert done.exit_code not in (0, 4)


def test_gate_that_cannot_be_decided_is_an_error(run, demo_suite):
    done = run("gate", demo_suite, demo_suite / A)
    assert isinstance(done.exception, GistbenchError)
    assert "cannot be decided" in str(done.exception)
    assert done.exit_code not in (0, 4)


@pytest.mark.parametrize("command", ["report", "compare", "inspect", "gate"])
def test_help_shows_examples(run, command):
    done = run(command, "--help")
    assert "Examples:" in done.stdout
    assert f"gistbench {command}" in done.stdout
