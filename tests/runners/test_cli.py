import csv
import io
import json
import os
import re
import shutil
import subprocess
import sys
import warnings
from dataclasses import replace

import pytest
import typer
from gistbench.runners import cli
from gistbench.runners.suite import Suite

GROUPS = ("datasets", "hub", "qrels", "store")
COMMANDS = (
    "run",
    "extract",
    "judge",
    "score",
    "report",
    "compare",
    "inspect",
    "gate",
    "plan",
    "profiles",
    "store stats",
    "datasets list",
)

# The command line prints these; here they would be errors.
pytestmark = pytest.mark.filterwarnings("default")


class Done:
    """What a command did."""

    def __init__(self, code, stdout, stderr):
        self.code, self.stdout, self.stderr = code, stdout, stderr

    @property
    def message(self):
        """What standard error says, on one line."""
        return " ".join(self.stderr.split())


@pytest.fixture
def gistbench(monkeypatch, capsys, tmp_path):
    """Run a command in this process, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)
    monkeypatch.setattr(cli.out, "_width", 200)
    monkeypatch.setattr(cli.err, "_width", 200)

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["gistbench", *map(str, arguments)])
        with pytest.raises(SystemExit) as done:
            cli.main()
        stdout, stderr = capsys.readouterr()
        return Done(done.value.code or 0, stdout, stderr)

    return run


@pytest.fixture
def small(own_file):
    return ("--dataset", own_file, "--pool-size", 60, "--candidate", "lexical/hashtag")


@pytest.fixture(scope="module")
def finished(own_file, tmp_path_factory):
    folder = tmp_path_factory.mktemp("finished") / "suite"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        Suite(folder, cli.RunConfig(dataset=str(own_file), candidates=("lexical/hashtag",), pool_size=60)).run()
    return folder


# Help


@pytest.mark.parametrize("command", COMMANDS + GROUPS)
def test_help_says_what_and_shows_examples(gistbench, command):
    done = gistbench(*command.split(), "--help")
    assert done.code == 0
    assert "Examples:" in done.stdout
    assert f"gistbench {command}" in done.stdout
    assert done.stderr == ""


def test_help_of_all_names_every_command(gistbench):
    done = gistbench("--help")
    assert all(command.split()[0] in done.stdout for command in COMMANDS)
    assert "Examples:" in done.stdout


def test_every_option_is_described():
    for name, command in typer.main.get_command(cli.app).commands.items():
        for parameter in getattr(command, "params", []):
            assert getattr(parameter, "help", "") or name == "datasets", (name, parameter.name)


def all_commands(command):
    yield command
    for below in getattr(command, "commands", {}).values():
        yield from all_commands(below)


def test_examples_can_be_parsed():
    """Every example names a command, and options that it has."""
    examples = [
        example
        for command in all_commands(typer.main.get_command(cli.app))
        for example in re.findall(r"^ +gistbench (.+?)(?=\n\n|\n +gistbench|\Z)", command.help or "", re.M | re.S)
    ]
    assert len(examples) > 50
    for example in examples:
        command = typer.main.get_command(cli.app)
        for word in example.split():
            if hasattr(command, "commands"):
                command = command.commands[word]
            elif re.fullmatch("--?[a-z-]+", word):
                assert word in {flag for parameter in command.params for flag in parameter.opts}, example


def test_version(gistbench):
    done = gistbench("--version")
    assert re.fullmatch(r"gistbench \d+\.\d+\.\d+\n", done.stdout)


def test_the_package_can_be_run_as_a_module():
    command = [sys.executable, "-m", "gistbench.runners", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("gistbench ")
    assert done.stderr == ""


# A run


def test_a_run_says_what_came_of_it_and_what_next(gistbench, small):
    done = gistbench("run", "-o", "suite", *small, "--resamples", 20)
    assert done.code == 0
    assert "lexical/hashtag" in done.stdout
    assert "Written to suite" in done.stdout
    assert "gistbench score suite --thresholds strict" in done.stdout
    # One note, and no bars where nobody watches.
    assert done.message.startswith("Note: The oracle is what one candidate verified")
    assert done.stderr.count("\n") == 1


def test_phases_apart(gistbench, small, tmp_path):
    done = gistbench("extract", "-o", "suite", *small)
    assert (done.code, done.stderr) == (0, "")
    assert "gistbench judge suite" in done.stdout
    assert re.search(r"lexical/hashtag +│ +3 +│ +\d+ +│ +suite/lexical--hashtag@1", done.stdout)
    done = gistbench("judge", "suite")
    assert (done.code, done.stderr) == (0, "")
    assert "gistbench score suite" in done.stdout
    assert not (tmp_path / "suite" / "comparison.csv").exists()
    done = gistbench("score", "suite", "--resamples", 20)
    assert done.code == 0
    assert (tmp_path / "suite" / "comparison.csv").exists()


def test_the_same_command_again_goes_on(gistbench, small):
    first = gistbench("run", "-o", "suite", *small, "--resamples", 20)
    again = gistbench("run", "-o", "suite", *small, "--resamples", 20)
    assert (again.code, again.stdout) == (0, first.stdout)


def test_settings_from_a_file_and_flags_over_them(gistbench, own_file, tmp_path):
    (tmp_path / "run.toml").write_text(
        f'dataset = "{own_file}"\ncandidates = ["lexical/phrase"]\npool_size = 60\nseed = 3\nn_resamples = 20\n'
        'users = ["u01", "u02"]'
    )
    done = gistbench("run", "-o", "suite", "--config", "run.toml", "--seed", 5, "--users", "u03")
    assert done.code == 0
    config = json.loads((tmp_path / "suite" / "config.json").read_text())["config"]
    assert (config["seed"], config["pool_size"], config["candidates"]) == (5, 60, ["lexical/phrase"])
    assert config["users"] == ["u03"]


def test_a_file_sampled_users_and_flags_named_ones(gistbench, own_file, tmp_path):
    """Users by name and by number are two settings: the flag must not be cut by the file's."""
    (tmp_path / "run.toml").write_text(f'dataset = "{own_file}"\ncandidates = ["lexical/phrase"]\nn_users = 1\n')
    done = gistbench("extract", "-o", "suite", "--config", "run.toml", "--users", "u02,u03")
    assert done.code == 0
    assert re.search(r"lexical/phrase +│ +2 +│", done.stdout)


@pytest.mark.parametrize("given", ["u01, u03", "@users.txt", "2"])
def test_users(gistbench, small, tmp_path, given):
    (tmp_path / "users.txt").write_text("u01\n\n  u03  \n")
    done = gistbench("extract", "-o", "suite", *small, "--users", given)
    assert done.code == 0
    assert re.search(r"lexical/hashtag +│ +2 +│", done.stdout)


def test_data_set_options_get_their_types(gistbench, tmp_path):
    options = ("--dataset-option", "n_users=2", "--dataset-option", "n_engagements_per_user=60")
    done = gistbench("extract", "-o", "suite", "--dataset", "planted", *options, "--candidate", "lexical/hashtag")
    assert done.code == 0
    recorded = json.loads((tmp_path / "suite" / "config.json").read_text())["config"]["dataset_options"]
    assert recorded == {"n_users": 2, "n_engagements_per_user": 60}


def test_data_sets_are_listed(gistbench):
    done = gistbench("datasets", "list")
    assert done.code == 0
    assert all(name in done.stdout for name in ("demo", "planted", "movielens", "e+ i+"))
    assert "user_id, object_id, object_text, interaction_type" in " ".join(done.stdout.split())


# Reports


def test_report_as_csv(gistbench, finished):
    done = gistbench("report", finished, "--format", "csv")
    (row,) = csv.DictReader(io.StringIO(done.stdout))
    assert (done.code, row["candidate"]) == (0, "lexical/hashtag")
    assert done.stdout == (finished / "comparison.csv").read_text()


def test_report_as_json(gistbench, finished):
    done = gistbench("report", finished, "-f", "json")
    assert json.loads(done.stdout) == json.loads((finished / "comparison.json").read_text())


def test_report_as_markdown(gistbench, finished):
    done = gistbench("report", finished, "--format", "markdown")
    assert done.stdout == (finished / "comparison.md").read_text()


def test_report_as_a_table_of_suites_and_runs(gistbench, finished):
    done = gistbench("report", finished, finished / "lexical--hashtag@1")
    assert done.code == 0
    assert done.stdout.count("lexical/hashtag") == 2


# What goes wrong


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("run", "-o", "new"), "No candidate is named."),
        (("run", "-o", "new", "--dataset", "dmeo"), "Did you mean 'demo'?"),
        (("run", "-o", "new", "--dataset", "gone.csv"), "No dataset and no file is called 'gone.csv'"),
        (("run", "-o", "new", "--users", "u1"), "named users are not among"),
        (("run", "-o", "new", "--users", "0"), "--users 0: it must be 1 or more."),
        (("run", "-o", "new", "--users", "99"), "n_users=99 was asked for, but only"),
        (("run", "-o", "new", "--users", "@gone.txt"), "--users @gone.txt: there is no file gone.txt"),
        (("run", "-o", "new", "--users", ","), "no"),
        (("run", "-o", "new", "--candidate", "lexical/magic"), "no lexical model 'lexical/magic'"),
        (("run", "-o", "new", "--candidate", "lexical/phrase?x=1"), "x: Extra inputs are not permitted"),
        (("run", "-o", "new", "--judge", "lexical/magic"), "no lexical model 'lexical/magic'"),
        (("run", "-o", "new", "--taxonomy", "opne"), "Did you mean 'open'?"),
        (("run", "-o", "new", "--taxonomy", "foo"), "Known: open, official (and, for a run, none)"),
        (("run", "-o", "new", "--dataset", "movielens"), "Say where they are (command line: --source PATH)."),
        (("run", "-o", "new", "--thresholds", "harsh"), "--thresholds 'harsh': there are base, lenient, strict."),
        (("run", "-o", "new", "--is-scope", "all"), "--is-scope 'all': there are category, verified."),
        (("run", "-o", "new", "--seed", "-1"), "--seed -1: it must be 0 or more."),
        (("run", "-o", "new", "--config", "gone.toml"), "There is no configuration file gone.toml."),
        (("run", "-o", "new", "--config", "bad.toml"), "bad.toml: there is no setting 'candidate'. Did you"),
        (("run", "-o", "new", "--dataset-option", "n_users"), "expected NAME=VALUE"),
        (("run", "-o", "new", "--dataset-option", "colour=3"), "colour"),
        (("run", "-o", "new", "--source", "."), "source"),
        (("run", "-o", "new", "--oracle", "gone.json"), "There is no oracle file"),
        (("run", "-o", "bad.toml"), "bad.toml is a file"),
        (("run", "-o", "full"), "is not empty and no suite folder"),
        (("run", "-o", "new", "--store", "bad.toml"), "is not a response store"),
        (("run", "-o", "new", "--store", "bad.toml/x.sqlite"), "bad.toml"),
        (("extract", "-o", "new"), "No candidate is named."),
        (("judge", "gone"), "gone is no suite folder"),
        (("score", "gone"), "gone is no suite folder"),
        (("report", "gone"), "gone is no suite folder"),
        (("report", "gone", "--format", "xml"), "There is no format 'xml'. There are: table, csv, markdown, json."),
    ],
)
def test_errors_are_one_message_and_leave_nothing(gistbench, small, tmp_path, arguments, message):
    (tmp_path / "bad.toml").write_text('candidate = "lexical/hashtag"\n' + "# no database" * 100)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").write_text("42")
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    needed = {name: value for name, value in zip(small[::2], small[1::2], strict=True) if name not in arguments}
    if "No candidate is named." in message:
        del needed["--candidate"]
    if "--users" in arguments or "--dataset-option" in arguments or "--source" in arguments:
        needed["--dataset"] = "demo"
    if arguments[0] in ("judge", "score", "report"):
        needed = {}
    done = gistbench(*arguments, *(part for pair in needed.items() for part in pair))
    assert done.code == 1
    assert message in done.message
    assert done.message.startswith("Error: ")
    assert "Traceback" not in done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""
    left = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    if "--oracle" not in arguments:
        assert left == before


def test_other_settings_for_the_same_folder_are_refused(gistbench, small, finished, tmp_path):
    folder = shutil.copytree(finished, tmp_path / "suite")
    done = gistbench("run", "-o", folder, *small, "--chunk-size", 7)
    assert done.code == 1
    assert "chunk_size: 100 there, 7 now" in done.message


def test_another_judge_is_refused(gistbench, finished, tmp_path):
    folder = shutil.copytree(finished, tmp_path / "suite")
    done = gistbench("judge", folder, "--judge", "openai:another")
    assert done.code == 1
    assert "is judged by lexical/overlap@1, not by another" in done.message


def test_bad_rows_of_a_file_are_named_with_their_line(gistbench, tmp_path):
    (tmp_path / "mine.csv").write_text("user_id,object_id,object_text,interaction_type\n1,a,Jazz,liked\n")
    done = gistbench("run", "-o", "new", "--dataset", "mine.csv", "--candidate", "lexical/hashtag")
    assert done.code == 1
    assert "liked" in done.message
    assert "mine.csv" in done.message
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("arguments", [("run",), ("run", "--outptu", "x"), ("fly",), ("judge",)])
def test_wrong_usage_is_told_as_such(gistbench, arguments):
    done = gistbench(*arguments)
    assert done.code == 2
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_a_stop_by_the_keyboard_keeps_what_was_answered(gistbench, small, script_engine):
    asked = script_engine()

    def stop(request, ruled):
        if len(stopped) == 2:
            raise KeyboardInterrupt
        stopped.append(request)
        return ruled

    stopped = []
    script_engine(stop)
    done = gistbench("run", "-o", "suite", *small, "--chunk-size", 10)
    assert done.code == 130
    assert "Traceback" not in done.stderr
    assert "the same command goes on from here" in done.message

    asked = script_engine()
    assert gistbench("run", "-o", "suite", *small, "--chunk-size", 10, "--resamples", 20).code == 0
    assert not {request.key for request in stopped} & {request.key for request in asked}


def test_what_cannot_be_written_is_named_as_it_is_to_be(gistbench, finished, monkeypatch):
    def refuse(dir, prefix):
        raise PermissionError(13, "Permission denied", f"{dir}/{prefix}lhc_byhi")

    monkeypatch.setattr("tempfile.mkstemp", refuse)
    done = gistbench("store", "export", finished, "--to", "x.jsonl")
    assert done.code == 1
    assert done.message == "Error: x.jsonl cannot be written to (permission denied)."


def test_a_full_disk_while_models_are_asked_keeps_what_was_answered(gistbench, small, monkeypatch):
    def refuse(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("gistbench.runners.runfolder.pq.write_table", refuse)
    done = gistbench("extract", "-o", "suite", *small)
    assert done.code == 1
    assert done.message == "Error: No space left on device. What was answered so far is kept."


def test_a_folder_that_may_not_be_written_to(gistbench, finished, monkeypatch):
    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied", "suite/.lock")

    monkeypatch.setattr("gistbench.runners.suitefolder.FileLock", refuse)
    for command in ("judge", "score"):
        done = gistbench(command, finished)
        assert done.code == 1
        assert f"{finished} cannot be written to (permission denied). Make it writable, or work" in done.message


def test_another_set_of_users_is_counted(gistbench, small, tmp_path):
    gistbench("extract", "-o", "suite", *small)
    done = gistbench("extract", "-o", "suite", *small, "--users", 2)
    assert done.code == 1
    assert "suite holds another run (other users: 3 there, 2 now). Name another folder" in done.message


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(("nosuch",), "nosuch is no suite folder"), (("--qrels", "nosuch"), "--qrels nosuch: there is no such folder.")],
)
def test_what_is_pushed_is_looked_at_before_the_hub_is(gistbench, monkeypatch, arguments, message):
    monkeypatch.setattr("gistbench.runners.space_hub.push_results", lambda *_, **__: pytest.fail("the Hub was asked"))
    done = gistbench("hub", "push-results", *arguments)
    assert done.code == 1
    assert message in done.message


def test_a_port_that_is_none(gistbench):
    done = gistbench("space", "suite", "--port", 99999999)
    assert done.code == 2
    assert "65535" in done.stderr


def test_a_pipe_that_closes_early_is_no_crash(finished):
    command = f"{sys.executable} -m gistbench.runners report {finished} --format json | head -c 10"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, env=os.environ)
    assert "Traceback" not in done.stderr


# How far a run goes


def test_a_dry_run_says_what_would_be_asked_and_writes_nothing(gistbench, small, tmp_path, script_engine):
    asked = script_engine()
    done = gistbench("run", "-o", "new", *small, "--dry-run")
    assert done.code == 0
    assert "Nothing was asked and nothing written." in done.stdout
    assert all(stage in done.stdout for stage in ("extract", "ground", "shortlist", "retrieve", "map", "total"))
    assert asked == []
    assert list(tmp_path.iterdir()) == []


def test_a_dry_run_looks_at_the_folder_that_is_meant(gistbench, small, tmp_path):
    (tmp_path / "config.json").write_text("{}")  # a model's folder, say
    assert gistbench("run", "-o", "new", *small, "--dry-run").code == 0


def test_a_dry_run_finds_what_would_fail(gistbench, small):
    done = gistbench("run", "-o", "new", *small, "--judge", "lexical/magic", "--dry-run")
    assert done.code == 1
    assert "no lexical model 'lexical/magic'" in done.message


def test_a_run_ends_with_a_stage_and_goes_on_later(gistbench, small, tmp_path, script_engine):
    asked = script_engine()
    done = gistbench("run", "-o", "suite", *small, "--stage", "shortlist")
    assert done.code == 0
    assert "Ended with the stage shortlist." in done.stdout
    assert {request.stage for request in asked} == {"extract", "ground", "shortlist"}
    assert not (tmp_path / "suite" / "comparison.csv").exists()
    del asked[:]
    assert gistbench("run", "-o", "suite", *small, "--resamples", 20).code == 0
    assert {request.stage for request in asked} == {"retrieve", "map"}


def test_judging_ends_with_a_stage_and_goes_on_later(gistbench, small, tmp_path, script_engine):
    asked = script_engine()
    gistbench("extract", "-o", "suite", *small)
    done = gistbench("judge", "suite", "--stage", "ground")
    assert (done.code, done.stdout) == (0, cli.ENDED.format(stage="ground") + "\n")
    assert {request.stage for request in asked} == {"extract", "ground"}
    assert "Judged by lexical/overlap" in gistbench("judge", "suite", "--stage", "map").stdout


def test_extraction_is_no_stage_of_judging(gistbench, finished):
    done = gistbench("judge", finished, "--stage", "extract")
    assert done.code == 1
    assert done.message == "Error: --stage extract: the stages of judging are ground, shortlist, retrieve, map."
    assert "extract, ground" not in gistbench("judge", "--help").stdout


def test_there_is_no_such_stage(gistbench, small):
    done = gistbench("run", "-o", "suite", *small, "--stage", "guess")
    assert "There is no stage 'guess'. There are: extract, ground, shortlist, retrieve, map." in done.message


def test_a_limit_stops_a_run_in_good_order(gistbench, small, script_engine):
    asked = script_engine()
    done = gistbench("run", "-o", "suite", *small, "--limit", 5)
    assert done.code == 3
    assert "Stopped after 5 calls (--limit 5). Everything answered so far is kept" in done.message
    first = {request.key for request in asked}
    assert len(first) == 5
    del asked[:]
    assert gistbench("run", "-o", "suite", *small, "--resamples", 20).code == 0
    assert not first & {request.key for request in asked}


def test_a_budget_that_cannot_be_read(gistbench, small):
    done = gistbench("run", "-o", "suite", *small, "--budget", "five euros")
    assert done.code == 1
    assert "The budget 'five euros' cannot be read." in done.message


def test_repeats_show_how_far_answers_and_scores_move(gistbench, small, tmp_path, script_engine):
    def answer(request, ruled):
        # In the second run one user's history is read as saying nothing.
        silent = request.repeat == 1 and request.stage == "extract" and request.about.user == "u01"
        return replace(ruled, text="[]") if silent else ruled

    script_engine(answer)
    done = gistbench("run", "-o", "rs", *small, "--repeats", 2, "--resamples", 20)
    assert done.code == 0, done.message
    assert "±" in done.stdout
    (row,) = json.loads((tmp_path / "rs" / "repeats.json").read_text())["candidates"]
    assert row["agreement"]["extract"] == {"n": 3, "equal": pytest.approx(2 / 3), "jaccard": pytest.approx(2 / 3)}
    assert row["agreement"]["map"]["equal"] == 1
    assert row["agreement"]["ground"]["equal"] == 1
    low, high = sorted(row["scores"]["ig_f1"]["values"])
    assert (row["scores"]["ig_f1"]["min"], row["scores"]["ig_f1"]["max"]) == (low, high)
    assert (tmp_path / "rs" / "repeat-1" / "comparison.csv").exists()
    watched = gistbench("run", "-o", "rs", "--watch").stdout
    assert "nobody is at work" in watched
    assert watched.count("extract") == 2


def test_repeats_are_whole_runs(gistbench, small, script_engine):
    asked = script_engine()
    done = gistbench("run", "-o", "rs", *small, "--repeats", 2, "--stage", "map")
    assert "each is a whole run: leave --stage out" in done.message
    assert asked == []


def test_a_report_of_what_was_never_asked_to_the_end_is_an_error(gistbench, small):
    assert gistbench("run", "-o", "suite", *small, "--limit", 1).code == 3
    done = gistbench("report", "suite")
    assert done.code == 1
    assert "no candidate has been asked to the end" in done.message


@pytest.mark.parametrize("name", ["manifest.json", "config.json"])
def test_a_damaged_record_says_what_to_do(gistbench, small, tmp_path, name):
    assert gistbench("run", "-o", "suite", *small, "--resamples", 20).code == 0
    (path,) = (tmp_path / "suite").rglob(name)
    path.write_text(path.read_text()[:100])
    done = gistbench("score", "suite")
    assert done.code == 1
    assert f"{name} cannot be read as JSON" in done.message
    assert ("Move it away" if name == "manifest.json" else "--store") in done.message


def test_a_store_that_is_gone_is_told_of(gistbench, small, tmp_path, caplog):
    assert gistbench("run", "-o", "suite", *small, "--resamples", 20).code == 0
    (tmp_path / "suite" / "responses.sqlite").unlink()
    assert gistbench("run", "-o", "suite", *small, "--resamples", 20).code == 0
    assert any("everything is asked again" in message for message in caplog.messages)


def test_one_repeat_is_none(gistbench, small):
    assert "1 repeats cannot be compared." in gistbench("run", "-o", "rs", *small, "--repeats", 1).message


def test_a_finished_run_can_be_watched(gistbench, small):
    assert gistbench("run", "-o", "suite", *small, "--resamples", 20).code == 0
    done = gistbench("run", "-o", "suite", "--watch")
    assert done.code == 0
    assert "nobody is at work" in done.stdout
    assert "no run has begun there" in gistbench("run", "-o", "new", "--watch").message


def test_what_a_run_cost(gistbench, finished):
    done = gistbench("report", finished, "--cost", "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    assert [row["stage"] for row in rows] == ["extract", "ground", "shortlist", "retrieve", "map", "total", "total"]
    assert int(rows[-1]["n_prompts"]) == sum(int(row["n_prompts"]) for row in rows[:5])


def test_profiles_of_ones_own_are_shown_recorded_and_used(gistbench, small, tmp_path):
    (tmp_path / "mine.toml").write_text('[rules]\nversion = 3\nmatch = "hashtag"\n')
    assert "rules/3" in gistbench("profiles", "mine.toml").stdout
    assert gistbench("extract", "-o", "suite", *small, "--profiles", "mine.toml").code == 0
    config = json.loads((tmp_path / "suite" / "config.json").read_text())["config"]
    assert config["profiles"] == str(tmp_path / "mine.toml")
    assert "gone.toml" in gistbench("extract", "-o", "other", *small, "--profiles", "gone.toml").message


def test_a_stratified_sample(gistbench, small, tmp_path):
    assert gistbench("extract", "-o", "suite", *small, "--users", 2, "--sample", "stratified").code == 0
    recorded = json.loads((tmp_path / "suite" / "config.json").read_text())["config"]
    assert (recorded["n_users"], recorded["sample"]) == (2, "stratified")
