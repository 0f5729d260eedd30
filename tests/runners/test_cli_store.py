import json
import os

import pyarrow.parquet as pq
import pytest
from gistbench.hf_datasets.errors import ConfigError, GistbenchWarning, RunStoppedError, StoreError
from gistbench.runners.cli_store import store_app
from gistbench.runners.config import load_config
from gistbench.runners.halt import CallLimit, Halt
from gistbench.runners.requests import ModelRef, Outcome
from gistbench.runners.store import ResponseStore
from gistbench.runners.store_upkeep import keys_named
from gistbench.runners.suite import Suite
from typer.testing import CliRunner

OTHER = ModelRef("org/other", "abc", "other/1")


def call(*arguments):
    """Return what a command prints, on one line; errors of ours go through."""
    result = CliRunner().invoke(store_app, list(map(str, arguments)))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.output


def words(*arguments):
    return " ".join(call(*arguments).split())


@pytest.fixture
def path(tmp_path, make_request):
    """A store: `a` failed once and was answered, `b` failed, and another model was cut off at `c` and refused `d`."""
    path = tmp_path / "responses.sqlite"
    with ResponseStore(path) as store, store.engine(lambda: {"engine": "x"}):
        for text, status, model, values in [
            ("a", "error", None, {"problem": "busy", "seconds": 0.5}),
            ("a", "ok", None, {"text": "é", "reasoning": "so", "n_prompt_tokens": 10, "n_cached_tokens": 4}),
            ("b", "error", None, {"problem": "busy"}),
            ("c", "truncated", OTHER, {"n_output_tokens": 7, "n_reasoning_tokens": 5, "seconds": 1.5}),
            ("d", "refused", OTHER, {}),
        ]:
            asked = {"stage": "map", "model": OTHER} if model else {}
            request = make_request(text, **asked)
            store.commit(request, Outcome(request.key, status, **values))
    return path


@pytest.fixture(scope="module")
def suite(tmp_path_factory, own_file):
    """A judged suite of one candidate."""
    folder = tmp_path_factory.mktemp("suites") / "suite"
    settings = {"dataset": str(own_file), "candidates": ["lexical/hashtag"], "pool_size": 60}
    made = Suite(folder, load_config(None, settings))
    made.extract()
    made.judge()
    return folder


@pytest.fixture
def shared(suite, path, tmp_path):
    """A store with what the suite and others asked."""
    with ResponseStore(path) as store, ResponseStore(suite / "responses.sqlite", mode="read") as of_suite:
        for chunk in of_suite.scan():
            store.add(chunk, of_suite.engines())
    return path


def test_every_command_has_examples():
    for command in ("stats", "verify", "export", "gc"):
        assert f"gistbench store {command} " in call(command, "--help")


def test_stats_are_by_model_and_stage(path):
    record = json.loads(call("stats", path, "--format", "json"))
    ours, other = record["by_model_and_stage"]
    assert (ours["model"], ours["stage"], ours["n_requests"], ours["n_attempts"]) == (
        "lexical/hashtag@1",
        "ground",
        2,
        3,
    )
    assert ours["outcomes"] == {"ok": 1, "truncated": 0, "invalid": 0, "refused": 0, "error": 1}
    assert ours["rates"] == {"truncated": 0.0, "invalid": 0.0, "refused": 0.0, "error": 0.5}
    assert (ours["n_prompt_tokens"], ours["n_cached_tokens"], ours["request_seconds"], ours["text_bytes"]) == (
        10,
        4,
        0.5,
        4,
    )
    assert (other["model"], other["n_output_tokens"], other["n_reasoning_tokens"]) == ("org/other@abc", 7, 5)
    assert other["rates"] == {"truncated": 0.5, "invalid": 0.0, "refused": 0.5, "error": 0.0}
    assert ours["first_at"] <= ours["last_at"] <= other["last_at"]
    assert record["bytes"] == path.stat().st_size
    assert list(record["engines"].values()) == [{"engine": "x"}]


def test_stats_are_shown_as_tables_of_a_suite_folder(path):
    said = words("stats", path.parent)
    assert "│ lexical/hashtag@1 │ ground │ 2 │ 3 │ 50.0 % │ 0.0 % │ 0.0 % │ 0.0 % │ 50.0 % │" in said
    assert "bytes for each attempt. Answers of 1 engine (--format json describes them)." in said


def test_an_empty_store_has_no_stats(tmp_path):
    ResponseStore(tmp_path / "s.sqlite").close()
    assert json.loads(call("stats", tmp_path / "s.sqlite", "--format", "json"))["by_model_and_stage"] == []
    assert "Answers of 0 engines" in words("stats", tmp_path / "s.sqlite")


@pytest.mark.parametrize("command", [("stats",), ("verify",), ("gc",), ("gc", "--yes"), ("export", "--to", "x.jsonl")])
def test_a_store_that_is_not_there_is_not_made(tmp_path, command):
    with pytest.raises(StoreError, match="There is no response store"):
        call(command[0], tmp_path / "s.sqlite", *command[1:])
    assert list(tmp_path.iterdir()) == []


def test_a_whole_store_is_verified(shared, suite):
    said = words("verify", shared, suite, *suite.glob("lexical--*"))
    assert f"{shared} is whole: " in said


def test_a_store_that_lacks_answers_of_a_suite_is_not_whole(path, suite):
    n = len(keys_named([suite]))
    with pytest.raises(
        StoreError, match=rf"{n} requests of .*suite are not in it, such as [0-9a-f]{{64}}\nNothing was"
    ):
        call("verify", path, suite)


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("UPDATE attempts SET status = 'fine' WHERE id = 2", "1 attempts of an unknown status"),
        ("UPDATE attempts SET attempt = 5 WHERE id = 2", "1 requests whose attempts are not numbered 0, 1, 2"),
        ("UPDATE attempts SET n_output_tokens = -1", "5 attempts with a negative count"),
        ("UPDATE attempts SET final = 2 WHERE id < 3", "2 attempts whose mark of being final"),
        ("UPDATE attempts SET key = 'abc' WHERE id = 3", "1 attempts whose key is no sha256"),
        ("UPDATE attempts SET text = 'e' WHERE id = 2", "1 attempts are not what was written"),
        ("DELETE FROM origins WHERE stage = 'map'", "2 attempts whose stage and model are not recorded"),
    ],
)
def test_what_cannot_be_is_found(path, statement, message):
    with ResponseStore(path) as store:
        store.query(statement)
    with pytest.raises(StoreError, match=rf"is not whole:(.|\n)*{message}(.|\n)*--recover --to NEW\.sqlite"):
        call("verify", path)


def test_a_damaged_file_is_found(path):
    os.truncate(path, path.stat().st_size - 8192)
    with pytest.raises(StoreError, match=r"damaged|not whole"):
        call("verify", path)


@pytest.mark.parametrize(
    ("filters", "texts"),
    [
        ((), ["busy", "", "busy", "", ""]),
        (("--model", "org/other"), ["", ""]),
        (("--model", "org/other@abc", "--status", "refused"), [""]),
        (("--model", "org/other", "--stage", "ground"), []),
        (("--stage", "ground", "--status", "error"), ["busy", "busy"]),
    ],
)
def test_attempts_are_exported_in_the_order_of_arrival(path, tmp_path, filters, texts):
    assert f"{len(texts)} attempts written to" in words("export", path, "--to", tmp_path / "a.parquet", *filters)
    call("export", path, "--to", tmp_path / "a.jsonl", *filters)
    lines = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text(encoding="utf-8").splitlines()]
    rows = pq.read_table(tmp_path / "a.parquet").to_pylist()
    assert [row["problem"] for row in rows] == [line["problem"] for line in lines] == texts
    assert [row["request_key"] for row in rows] == [line["key"] for line in lines]
    assert all(rows[n][name] == lines[n][name] for n in range(len(rows)) for name in rows[n] if name != "request_key")


@pytest.mark.parametrize("how", [(), ("--recover",)])
@pytest.mark.parametrize(
    ("filters", "message"),
    [
        (("--stage", "foo"), "The store has no answers of the stage 'foo'. It has: ground, map."),
        (
            ("--model", "org/oth", "--stage", "map"),
            "The store has no answers of the model 'org/oth'. It has: lexical/hashtag@1, org/other@abc.",
        ),
    ],
)
def test_what_the_store_does_not_have_is_not_exported(path, tmp_path, filters, message, how):
    before = sorted(tmp_path.iterdir())
    for name in ("a.jsonl", "a.parquet", "a.sqlite"):
        with pytest.raises(ConfigError) as error:
            call("export", path, "--to", tmp_path / name, *filters, *how)
        assert str(error.value) == message
    assert sorted(tmp_path.iterdir()) == before


def test_stores_become_one(path, tmp_path, make_request):
    merged = tmp_path / "merged.sqlite"
    with ResponseStore(merged) as store:
        request = make_request("a")
        store.commit(request, Outcome(request.key, "invalid", text="ours"))
    assert "5 attempts added to" in words("export", path, "--to", merged)
    assert "0 attempts added to" in words("export", path, "--to", merged)
    assert "is whole: 6 attempts" in words("verify", merged)
    with ResponseStore(merged) as store:
        assert [row["text"] for row in store.rows(request.key)] == ["ours", "", "é"]
        assert store.engines_of([request.key])[0]["engine"] == {"engine": "x"}


def test_a_damaged_store_is_saved_into_a_new_one(path, tmp_path):
    with path.open("rb+") as file:
        file.write(b"\0" * 16)
    with pytest.raises(StoreError, match="its header is damaged"):
        call("verify", path)
    assert "5 attempts added to" in words("export", path, "--recover", "--to", tmp_path / "saved.sqlite")
    assert "is whole: 5 attempts" in words("verify", tmp_path / "saved.sqlite")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("stats", "--format", "xml"), "There is no format 'xml'. There are: table, json"),
        (
            ("export", "--to", "a.csv"),
            r"--to a\.csv: there is no format '\.csv'. There are: \.parquet, \.jsonl, \.sqlite",
        ),
        (("export", "--to", "a.jsonl", "--status", "bad"), "There is no status 'bad'. There are: ok, truncated"),
    ],
)
def test_options_that_cannot_be_are_refused(path, arguments, message):
    with pytest.raises(ConfigError, match=message):
        call(arguments[0], path, *arguments[1:])


def test_a_file_that_is_there_is_not_written_over(path, tmp_path):
    (tmp_path / "scores.parquet").write_bytes(b"of a run")
    with pytest.raises(ConfigError, match="is there already"):
        call("export", path, "--to", tmp_path / "scores.parquet")
    assert (tmp_path / "scores.parquet").read_bytes() == b"of a run"


def test_nothing_is_recovered_of_what_was_no_store(tmp_path):
    (tmp_path / "hello.sqlite").write_text("hello")
    with pytest.raises(StoreError, match="Nothing can be read of"):
        call("export", tmp_path / "hello.sqlite", "--recover", "--to", tmp_path / "saved.sqlite")
    assert not (tmp_path / "saved.sqlite").exists()


def test_a_store_is_not_exported_into_itself(path):
    with pytest.raises(ConfigError, match="is the store itself"):
        call("export", path, "--to", path)


def test_failed_attempts_that_were_made_good_are_removed_when_told_to(path, make_request):
    before = path.read_bytes()
    assert "│ error │ 1 │" in (said := words("gc", path))
    assert "1 of 5 attempts. Nothing was changed: the same command with --yes removes them." in said
    assert path.read_bytes() == before
    assert "4 attempts are left" in words("gc", path, "--yes")
    assert "is whole: 4 attempts" in words("verify", path)
    with ResponseStore(path) as store:
        assert [(row["attempt"], row["text"]) for row in store.rows(make_request("a").key)] == [(0, "é")]
        assert [row["status"] for row in store.rows(make_request("b").key)] == ["error"]
    assert "4 attempts are left" in words("gc", path, "--yes")


def test_what_no_kept_suite_names_is_removed_when_told_to(shared, suite):
    with ResponseStore(shared) as store:
        n_all = len(store)
    assert f"5 of {n_all} attempts. Nothing was changed" in words("gc", shared, "--keep", suite)
    size = shared.stat().st_size
    assert f"{n_all - 5} attempts are left" in words("gc", shared, "--keep", suite, "--yes")
    assert shared.stat().st_size <= size
    assert f"is whole: {n_all - 5} attempts" in words("verify", shared, suite)


def test_an_unfinished_suite_is_not_kept_by_half(path, own_file, tmp_path):
    settings = {"dataset": str(own_file), "candidates": ["lexical/hashtag"], "pool_size": 60}
    Suite(tmp_path / "suite", load_config(None, settings)).extract()
    with pytest.raises(StoreError, match="not judged yet, so its tables do not name all that was asked"):
        call("gc", path, "--keep", tmp_path / "suite", "--yes")
    assert "is whole: 5 attempts" in words("verify", path)


def test_a_suite_that_is_asking_another_candidate_is_not_kept_by_half(shared, suite, own_file):
    settings = {"dataset": str(own_file), "candidates": ["lexical/hashtag", "lexical/phrase"], "pool_size": 60}
    stopped = Suite(suite, load_config(None, settings), store=shared, halt=Halt(CallLimit(1)))
    with pytest.raises(RunStoppedError):
        stopped.extract()
    with pytest.raises(StoreError, match="do not name all that was asked"):
        call("gc", shared, "--keep", suite, "--yes")


def test_a_candidate_that_is_no_longer_compared_keeps_its_answers(shared, suite, own_file):
    with ResponseStore(shared) as store:
        n_all = len(store)
    settings = {"dataset": str(own_file), "candidates": ["lexical/phrase"], "pool_size": 60}
    with pytest.warns(GistbenchWarning, match="what one candidate verified"):
        Suite(suite, load_config(None, settings), store=shared).run()
    with ResponseStore(shared) as store:
        n_more = len(store) - n_all
    assert n_more > 0
    assert f"{n_all + n_more - 5} attempts are left" in words("gc", shared, "--keep", suite, "--yes")


def test_nothing_is_removed_while_another_has_the_store_open(path):
    with ResponseStore(path):
        assert "1 of 5 attempts" in words("gc", path)
        with pytest.raises(StoreError, match="Another process is at work in it"):
            call("gc", path, "--yes")
    assert "4 attempts are left" in words("gc", path, "--yes")
