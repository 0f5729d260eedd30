import csv
import json
import random
import re
import shutil
from collections import Counter
from dataclasses import replace
from importlib.metadata import version

import datasets
import pytest
from gistbench.hf_datasets import fingerprint_engagements, load_engagements, load_taxonomy
from gistbench.hf_datasets.errors import ConfigError, GistbenchError, GistbenchWarning, StoreError
from gistbench.runners import suite as module
from gistbench.runners.config import RunConfig
from gistbench.runners.engines.lexical import LexicalConfig
from gistbench.runners.prompts import PROMPTS, load_prompt
from gistbench.runners.runfolder import TABLES
from gistbench.runners.store import ResponseStore
from gistbench.runners.suite import Suite
from gistbench.runners.suitefolder import run_folders

CANDIDATES = ("lexical/hashtag", "lexical/tfidf", "lexical/phrase")
STAGES = ("extract", "ground", "shortlist", "retrieve", "map")
PHASES = ("users", "extractions", "evidence"), ("groundings", "shortlists", "retrievals", "mappings")

# The suites here have few candidates on purpose.
pytestmark = pytest.mark.filterwarnings("ignore:The oracle is what")


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """The whole benchmark on the demo, three candidates."""
    suite = Suite(tmp_path_factory.mktemp("demo") / "suite", RunConfig(candidates=CANDIDATES, n_resamples=100))
    suite.run()
    return suite


@pytest.fixture(scope="module")
def base(own_file, tmp_path_factory):
    """A small suite of two candidates on a file of one's own; tests copy it."""
    folder = tmp_path_factory.mktemp("base") / "suite"
    with pytest.warns(GistbenchWarning, match="what 2 candidates verified"):
        Suite(folder, small(own_file, CANDIDATES[:2])).run()
    return folder


@pytest.fixture
def copied(base, tmp_path):
    return shutil.copytree(base, tmp_path / "suite")


def small(own_file, candidates=CANDIDATES[:1], **values):
    return RunConfig(dataset=str(own_file), candidates=candidates, pool_size=60, n_resamples=20, **values)


def results(folder):
    """All that a run gives and that must not depend on how it came about: tables, scores, oracle and comparison."""
    found = {}
    for run in run_folders(folder):
        for table in TABLES:
            if table != "answers" and (run.path / f"{table}.parquet").exists():
                found[run.path.name, table] = run.read(table).to_pylist()
        # The table of answers is in the order of arrival.
        answers = run.read("answers").drop_columns(["seconds", "finished_at"]).to_pylist()
        found[run.path.name, "answers"] = sorted(answers, key=lambda row: (row["request_key"], row["attempt"]))
        found[run.path.name, "score"] = run.manifest["phases"]["score"]
    for name in ("comparison.csv", "comparison.md", "comparison.json", "oracle.json", "suite.json"):
        found[name] = (folder / name).read_bytes()
    return found


def mtimes(folder):
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*")}


# What is written


def test_all_interests_of_the_demo_are_found_and_verified(demo):
    rows = {row["candidate"]: row for row in json.loads((demo.path / "comparison.json").read_text())}
    assert list(rows) == list(CANDIDATES)
    for row in rows.values():
        assert row["coverage"] == 1.0
        assert row["n_users"] == row["n_requested"] == 12
        assert 0.8 < row["ig_recall"] <= 1.0
        assert 0.9 < row["is"] <= 1.0
        assert row["ci_hm"][0] <= row["hm"] <= row["ci_hm"][1]


@pytest.mark.parametrize("table", TABLES)
def test_every_table_loads_with_datasets(demo, table, tmp_path):
    for run in demo.runs:
        path = run.path / f"{table}.parquet"
        loaded = datasets.load_dataset("parquet", data_files=str(path), split="train", cache_dir=str(tmp_path))
        assert loaded.num_rows == run.read(table).num_rows > 0
        assert loaded.column_names == run.read(table).column_names
        assert "null" not in {str(kind) for kind in run.read(table).schema.types}


def test_a_run_folder_holds_the_documented_tables_and_nothing_else(demo):
    for run in demo.runs:
        assert {path.name for path in run.path.iterdir()} == {"manifest.json", *(f"{t}.parquet" for t in TABLES)}


def test_every_candidates_tables_have_the_same_schema(demo):
    for table in TABLES:
        assert len({str(run.read(table).schema) for run in demo.runs}) == 1


def test_the_suite_folder_holds_its_files_and_nothing_half_written(demo):
    assert {path.name for path in demo.path.iterdir()} - {".lock"} == {
        "comparison.csv",
        "comparison.json",
        "comparison.md",
        "config.json",
        "oracle.json",
        "responses.sqlite",
        "suite.json",
        *(run.path.name for run in demo.runs),
    }


def test_the_manifest_says_what_was_run(demo):
    engagements = load_engagements("demo")
    taxonomy = load_taxonomy("open")
    for run, name in zip(demo.runs, CANDIDATES, strict=True):
        manifest = run.manifest
        assert manifest["candidate"] == {"name": name, "revision": "1", "profile": "lexical/1"}
        assert manifest["data"]["sha256"] == fingerprint_engagements(engagements)
        assert manifest["data"]["taxonomy"] == {"name": "open", "sha256": taxonomy.sha256}
        assert (manifest["data"]["dataset"], manifest["data"]["n_users"]) == ("demo", 12)
        made_with = {**manifest["phases"]["extract"]["prompts"], **manifest["phases"]["judge"]["prompts"]}
        assert made_with == {
            prompt: {"version": load_prompt(prompt).version, "sha256": load_prompt(prompt).sha256} for prompt in PROMPTS
        }
        assert manifest["phases"]["judge"]["versions"]["gistbench"] == version("gistbench")
        assert {"python", "datasets", "evaluate", "numpy", "scipy", "pyarrow"} <= set(
            manifest["phases"]["extract"]["versions"]
        )
        assert list(manifest["phases"]) == ["extract", "judge", "score"]
        assert manifest["phases"]["judge"]["model"]["name"] == "lexical/overlap"
        assert manifest["phases"]["judge"]["model"]["sampling"]["temperature"] == 0.0


def test_the_manifest_accounts_for_every_request(demo):
    for run in demo.runs:
        phases = run.manifest["phases"]
        assert list(phases["extract"]["stages"]) == ["extract"]
        assert list(phases["judge"]["stages"]) == list(STAGES[1:])
        stages = phases["extract"]["stages"] | phases["judge"]["stages"]
        answers = Counter(run.read("answers")["stage"].to_pylist())
        for stage, account in stages.items():
            assert account["outcomes"] == {"ok": answers[stage], "truncated": 0, "invalid": 0, "refused": 0, "error": 0}
            assert account["n_requests"] == account["n_attempts"] == answers[stage]
            assert account["n_unreadable"] == 0
        assert stages["extract"]["n_subjects"] == 12
        assert stages["ground"]["n_subjects"] == run.read("extractions").num_rows


def test_tokens_are_summed_over_all_attempts(own_file, tmp_path, script_engine):
    spent = {"n_prompt_tokens": 100, "n_cached_tokens": 60, "n_output_tokens": 10, "n_reasoning_tokens": 4}
    unread = set()

    def answer(request, ruled):
        first = request.stage == "extract" and request.about not in unread
        unread.add(request.about) if first else None
        return replace(ruled, text="what?" if first else ruled.text, **spent, seconds=0.5)

    asked = script_engine(answer)
    suite = Suite(tmp_path / "suite", small(own_file))
    suite.run()
    (run,) = suite.runs
    stages = run.manifest["phases"]["extract"]["stages"] | run.manifest["phases"]["judge"]["stages"]
    n_asked = Counter(request.stage for request in asked)
    assert n_asked["extract"] == 2 * len(unread)
    for stage, n in n_asked.items():
        account = stages[stage]
        assert account["n_attempts"] == account["n_requests"] == n
        assert {name: account[name] for name in spent} == {name: n * each for name, each in spent.items()}
        assert account["request_seconds"] == n * 0.5
    assert stages["extract"]["outcomes"] == {
        "ok": len(unread),
        "truncated": 0,
        "invalid": len(unread),
        "refused": 0,
        "error": 0,
    }
    assert stages["extract"]["n_subjects"] == len(unread)
    assert stages["extract"]["n_unreadable"] == 0
    # A resumed run sums over both sessions.
    Suite(tmp_path / "suite", small(own_file)).run()
    again = run.manifest["phases"]["extract"]["stages"] | run.manifest["phases"]["judge"]["stages"]
    # Only the wall time grew.
    assert all(again[stage].pop("wall_seconds") >= stages[stage].pop("wall_seconds") for stage in stages)
    assert again == stages
    assert Counter(request.stage for request in asked) == n_asked


def test_every_answer_is_in_the_run_folder(demo):
    with ResponseStore(demo.path / "responses.sqlite") as store:
        for run in demo.runs:
            for row in run.read("answers").to_pylist():
                (attempt,) = store.attempts(row["request_key"])
                assert (row["text"], row["status"]) == (attempt.text, attempt.status)


def test_the_tables_name_the_requests_that_they_rest_on(demo):
    for run in demo.runs:
        keys = set(run.read("answers")["request_key"].to_pylist())
        for table in ("extractions", "groundings", "shortlists", "retrievals", "mappings"):
            used = {key for row in run.read(table)["request_keys"].to_pylist() for key in row}
            assert used <= keys
            assert used


def test_the_suite_file_and_the_oracle(demo):
    suite = json.loads((demo.path / "suite.json").read_text())
    oracle = json.loads((demo.path / "oracle.json").read_text())
    assert suite["runs"] == [run.path.name for run in demo.runs]
    assert suite["oracle"] == {"version": oracle["version"], "n_candidates": 3, "given": None}
    assert suite["scoring"] == {"thresholds": "base", "is_scope": "category", "n_resamples": 100, "seed": 0}
    assert suite["judge"]["name"] == "lexical/overlap"
    assert oracle["taxonomy_sha256"] == load_taxonomy("open").sha256
    assert len(oracle["oracle"]) == 12
    verified = {}
    for run in demo.runs:
        for row in run.read("interests").to_pylist():
            if row["verified"] and row["category_id"]:
                verified.setdefault(row["user_id"], {}).setdefault(str(row["category_id"]), set()).add(run.path.name)
        assert run.manifest["phases"]["score"]["oracle"] == {
            "version": oracle["version"],
            "n_candidates": 3,
            "given": None,
        }
    found = {user: {c: set(names) for c, names in of.items()} for user, of in oracle["verified_by"].items()}
    assert found == verified
    assert {user: sorted(map(int, of)) for user, of in verified.items()} == oracle["oracle"]


def test_scores_follow_from_the_interests_and_the_oracle(demo):
    """Section 4.2 of the paper, computed by hand from the table of interests."""
    oracle = json.loads((demo.path / "oracle.json").read_text())["oracle"]
    for run in demo.runs:
        groups = {}
        for row in run.read("interests").to_pylist():
            groups.setdefault(row["user_id"], {}).setdefault(row["category_id"], []).append(row["verified"])
        for row in run.read("scores").to_pylist():
            of = {c: sum(flags) / len(flags) for c, flags in groups[row["user_id"]].items()}
            precision = sum(of.values()) / len(of)
            recall = sum(g for c, g in of.items() if c != 0) / len(oracle[row["user_id"]])
            assert row["ig_precision"] == pytest.approx(precision)
            assert row["ig_recall"] == pytest.approx(recall)
            assert row["ig_f1"] == pytest.approx(2 * precision * recall / (precision + recall))


# Phases


def test_phases_apart_give_what_one_run_gives(base, own_file, tmp_path):
    folder = tmp_path / "suite"
    Suite(folder, small(own_file, CANDIDATES[:2])).extract()
    assert [run.has("judge") for run in run_folders(folder)] == [False, False]
    Suite.open(folder).judge()
    assert not (folder / "comparison.csv").exists()
    Suite.open(folder).score()
    assert results(folder) == results(base)


def test_candidates_one_after_the_other_give_what_one_run_gives(base, own_file, tmp_path):
    Suite(tmp_path / "suite", small(own_file, CANDIDATES[:1])).run()
    Suite(tmp_path / "suite", small(own_file, CANDIDATES[:2])).run()
    assert results(tmp_path / "suite") == results(base)


def test_the_same_run_again_asks_nothing_and_changes_nothing(copied, base, own_file, script_engine):
    asked = script_engine()
    Suite(copied, small(own_file, CANDIDATES[:2])).run()
    assert asked == []
    assert results(copied) == results(base)


def test_scoring_needs_neither_data_nor_models(copied, base, monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("the data set was read or a model was opened")

    monkeypatch.setattr(module, "load_data", refuse)
    monkeypatch.setattr(module, "open_engine", refuse)
    for name in ("oracle.json", "suite.json", "comparison.csv", "comparison.md", "comparison.json"):
        (copied / name).unlink()
    (copied / "responses.sqlite").unlink()
    for run in run_folders(copied):
        (run.path / "scores.parquet").unlink()
        (run.path / "interests.parquet").unlink()
    Suite.open(copied).score()
    assert results(copied) == results(base)


def test_scoring_needs_the_taxonomy_only_to_check_a_given_oracle(own_file, tmp_path):
    taxonomy = tmp_path / "taxonomy.csv"
    taxonomy.write_text("category_id,category_name\n1,Basketball\n2,Gardening\n", encoding="utf-8")
    Suite(tmp_path / "suite", small(own_file, taxonomy=str(taxonomy))).run()
    before = results(tmp_path / "suite")
    oracle = tmp_path / "given.json"
    oracle.write_text('{"u1": [2]}', encoding="utf-8")
    taxonomy.write_text("category_id,category_name\n1,Basketball\n2,Golf\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"were judged under taxonomy.*Judge again in a new suite folder"):
        Suite.open(tmp_path / "suite", {"oracle": oracle}).score()
    taxonomy.unlink()
    with pytest.raises(ConfigError, match=r"taxonomy\.csv"):
        Suite.open(tmp_path / "suite", {"oracle": oracle}).score()
    Suite.open(tmp_path / "suite").score()
    assert results(tmp_path / "suite") == before


@pytest.mark.parametrize(
    ("phase", "message"),
    [("judge", "is no suite folder"), ("score", "is no suite folder")],
)
def test_phases_need_a_suite_folder(tmp_path, phase, message):
    with pytest.raises(StoreError, match=message):
        getattr(Suite.open(tmp_path), phase)()


def test_phases_need_those_before_them(own_file, tmp_path):
    suite = Suite(tmp_path / "suite", small(own_file))
    with pytest.raises(StoreError, match="no extracted candidates"):
        suite.judge()
    suite.extract()
    with pytest.raises(StoreError, match="not judged yet"):
        suite.score()
    with pytest.raises(StoreError, match="has no scores yet"):
        module.Comparison.of_runs(suite.runs)


# What must fit


@pytest.mark.parametrize(
    ("changed", "names"),
    [
        ({"chunk_size": 20}, ["chunk_size: 100 there, 20 now"]),
        ({"seed": 1, "pool_size": 61}, ["pool_size: 60 there, 61 now", "seed: 0 there, 1 now"]),
        ({"users": ("u01",)}, ["other users: 3 there, 1 now"]),
        ({"taxonomy": "none"}, ["taxonomy: name open, sha256 ", " there, None now"]),
        ({"history_length": 10}, ["history_length: None there, 10 now"]),
    ],
)
def test_other_settings_are_refused_and_named(copied, own_file, changed, names):
    config = small(own_file, CANDIDATES[:2]).model_copy(update=changed)
    before = mtimes(copied)
    with pytest.raises(StoreError, match="holds another run") as error:
        Suite(copied, config).run()
    assert all(name in str(error.value) for name in names)
    assert "Name another folder" in str(error.value)
    assert not re.search("[0-9a-f]{13}", str(error.value))
    assert mtimes(copied) == before


def test_other_data_under_the_same_name_are_refused(own_file, tmp_path):
    path = shutil.copy(own_file, tmp_path / "mine.csv")
    Suite(tmp_path / "suite", small(path)).extract()
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    path.write_text("".join(lines[:-1]), encoding="utf-8")
    with pytest.raises(StoreError, match=r"holds another run \(other data: \w{12} there, \w{12} now\)"):
        Suite(tmp_path / "suite", small(path)).extract()
    with pytest.raises(StoreError, match="was extracted from other data"):
        Suite.open(tmp_path / "suite").judge()


def test_other_sampling_is_refused_before_anything_is_asked(copied, own_file, script_engine):
    asked = script_engine()
    config = small(own_file).model_copy(update={"candidates": ("lexical/hashtag?top_k=5",)})
    for attempt in (lambda: Suite(copied, config).check(), lambda: Suite(copied, config).extract()):
        with pytest.raises(StoreError, match="was extracted with other sampling"):
            attempt()
    assert asked == []


def test_a_judge_does_not_overwrite_what_was_asked(copied):
    recorded = json.loads((copied / "config.json").read_text())
    recorded["identity"]["prompts"]["extract"] = "of another version"
    (copied / "config.json").write_text(json.dumps(recorded))
    with pytest.raises(StoreError, match=r"holds another run .*of another version"):
        Suite.open(copied).judge()
    assert json.loads((copied / "config.json").read_text()) == recorded


def test_suites_that_share_a_store_keep_their_own_time(own_file, tmp_path, script_engine):
    """Repeats ask different questions, so one's time is none of another's; a suite that asks the same shares it."""
    script_engine()
    store = tmp_path / "store.sqlite"

    def seconds(name, **settings):
        suite = Suite(tmp_path / name, small(own_file).model_copy(update=settings), store=store)
        suite.run()
        with ResponseStore(store) as opened:
            works = {work for (work,) in opened.query("SELECT work FROM sessions")}
        return suite.runs[0].manifest["phases"]["extract"]["stages"]["extract"]["wall_seconds"], works

    first, works = seconds("first")
    _, more = seconds("second", repeat=1)
    again, same = seconds("third")
    assert len(more) == 2 * len(works)
    assert same == more
    assert again >= first


def test_another_judge_is_refused(copied, monkeypatch):
    with pytest.raises(StoreError, match=r"is judged by lexical/overlap@1, not by another, .*in another folder"):
        Suite.open(copied, {"judge": "openai:another"}).judge()
    assert json.loads((copied / "config.json").read_text())["config"]["judge"] == "lexical/overlap"


def test_a_folder_with_other_things_in_it_is_refused_and_left_alone(own_file, tmp_path):
    (tmp_path / "thesis.tex").write_text("42")
    with pytest.raises(StoreError, match="is not empty and no suite folder"):
        Suite(tmp_path, small(own_file)).run()
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_file_in_the_place_of_the_folder_is_refused(own_file, tmp_path):
    (tmp_path / "suite").write_text("42")
    with pytest.raises(GistbenchError):
        Suite(tmp_path / "suite", small(own_file)).run()


def test_what_a_killed_process_left_half_written_does_not_block_the_folder(own_file, tmp_path):
    (tmp_path / "suite").mkdir()
    (tmp_path / "suite" / ".config.json.k3j4h5").write_text("{")
    assert len(Suite(tmp_path / "suite", small(own_file)).extract()) == 1


def test_no_candidate_is_an_error_and_makes_nothing(own_file, tmp_path):
    with pytest.raises(ConfigError, match=r"No candidate is named.*--candidate lexical/hashtag"):
        Suite(tmp_path / "suite", small(own_file, ())).run()
    assert not (tmp_path / "suite").exists()


def test_the_same_candidate_twice_is_refused(own_file, tmp_path):
    with pytest.raises(ConfigError, match=r"lexical/hashtag@1 is named twice"):
        Suite(tmp_path / "suite", small(own_file, ("lexical/hashtag", {"name": "lexical/hashtag"}))).run()


def test_a_candidate_that_cannot_be_had_makes_nothing(own_file, tmp_path):
    with pytest.raises(ConfigError, match="no lexical model 'lexical/magic'"):
        Suite(tmp_path / "suite", small(own_file, ("lexical/hashtag", "lexical/magic"))).run()
    assert not (tmp_path / "suite").exists()


def test_a_candidate_that_judges_itself_is_told(own_file, tmp_path, script_engine, monkeypatch):
    monkeypatch.setattr(LexicalConfig, "roles", ("candidate", "judge"))
    script_engine()
    suite = Suite(tmp_path / "suite", small(own_file, ("lexical/overlap",)))
    suite.extract()
    with pytest.warns(GistbenchWarning, match="lexical/overlap@1 judges itself"):
        suite.judge()


# Candidates come and go


def test_a_candidate_is_added(copied, own_file, script_engine, demo):
    asked = script_engine()
    before = results(copied)
    suite = Suite(copied, small(own_file, CANDIDATES))
    suite.run()
    assert {request.model.name for request in asked if request.stage == "extract"} == {"lexical/phrase"}
    after = results(copied)
    names = [run.path.name for run in suite.runs]
    assert names == [run.path.name for run in demo.runs]
    for name in names[:2]:
        assert after[name, "groundings"] == before[name, "groundings"]
        assert after[name, "score"]["oracle"]["n_candidates"] == 3
    assert len({after[name, "score"]["oracle"]["version"] for name in names}) == 1


def test_a_candidate_is_dropped_and_kept(copied, own_file, caplog):
    Suite(copied, small(own_file, CANDIDATES[1:2])).run()
    assert "no longer part of the comparison: lexical--hashtag@1" in caplog.text
    assert [run.path.name for run in run_folders(copied)] == ["lexical--tfidf@1"]
    assert json.loads((copied / "suite.json").read_text())["runs"] == ["lexical--tfidf@1"]
    assert (copied / "lexical--hashtag@1" / "extractions.parquet").exists()
    rows = list(csv.DictReader((copied / "comparison.csv").open(encoding="utf-8")))
    assert [row["candidate"] for row in rows] == ["lexical/tfidf"]
    sources = json.loads((copied / "oracle.json").read_text())["verified_by"]
    assert {name for of in sources.values() for names in of.values() for name in names} == {"lexical--tfidf@1"}


def test_a_store_can_be_shared(base, own_file, tmp_path, script_engine):
    asked = script_engine()
    store = shutil.copy(base / "responses.sqlite", tmp_path / "shared.sqlite")
    suite = Suite(tmp_path / "suite", small(own_file, CANDIDATES[:2]), store=store)
    suite.run()
    assert asked == []
    assert results(suite.path) == results(base)
    assert not (suite.path / "responses.sqlite").exists()


# Scoring


@pytest.mark.parametrize(
    "thresholds", ["lenient", "base", "strict", {"explicit_positive": None, "implicit_positive": 1}]
)
def test_thresholds(copied, thresholds):
    rows = Suite.open(copied, {"thresholds": thresholds}).score().rows
    (run, _) = run_folders(copied)
    policy = run.manifest["phases"]["score"]["policy"]["ig"]["thresholds"]
    if isinstance(thresholds, dict):  # numbers have no name
        assert "implicit_positive=1" in rows[0]["thresholds"]
    else:
        assert rows[0]["thresholds"] == policy["preset"] == thresholds
    if thresholds == "strict":
        assert (policy["explicit_positive"], policy["implicit_positive"]) == (3, 4)
    if isinstance(thresholds, dict):
        assert (policy["explicit_positive"], policy["implicit_positive"]) == (None, 1)
        assert policy["preset"].startswith("custom")


def test_the_stricter_the_thresholds_the_less_is_verified(copied):
    shares = []
    versions = set()
    for thresholds in ("lenient", "base", "strict"):
        comparison = Suite.open(copied, {"thresholds": thresholds}).score()
        shares.append(comparison.rows[0]["verified_share"])
        versions.add(comparison.rows[0]["oracle"])
    assert shares == sorted(shares, reverse=True)
    assert len(versions) == 3


def test_thresholds_that_verify_nothing_at_all_are_refused(copied):
    nothing = dict.fromkeys(
        ["explicit_positive", "implicit_positive", "hybrid_explicit_positive", "hybrid_implicit_positive"]
    )
    with pytest.raises(ValueError, match="nothing could be verified"):
        Suite.open(copied, {"thresholds": nothing}).score()


def test_without_a_taxonomy_each_interest_is_its_own_category(own_file, tmp_path):
    suite = Suite(tmp_path / "suite", small(own_file, CANDIDATES[:2], taxonomy="none"))
    suite.run()
    oracle = json.loads((suite.path / "oracle.json").read_text())
    assert (oracle["taxonomy"], oracle["taxonomy_sha256"]) == ("none", "")
    for run in suite.runs:
        assert not (run.path / "mappings.parquet").exists()
        interests = run.read("interests").to_pylist()
        assert {row["category_id"] for row in interests} == {None}
        for row in run.read("scores").to_pylist():
            verified = {i["interest"] for i in interests if i["user_id"] == row["user_id"] and i["verified"]}
            assert verified <= set(oracle["oracle"][row["user_id"]])
            assert row["ig_recall"] == pytest.approx(len(verified) / len(oracle["oracle"][row["user_id"]]))
    # The two candidates name things differently.
    assert suite.score().rows[0]["ig_recall"] < 1


def test_a_given_oracle_is_united_with_the_runs_own(copied, tmp_path):
    before = json.loads((copied / "oracle.json").read_text())
    given = tmp_path / "given.json"
    given.write_text(json.dumps({"taxonomy_sha256": before["taxonomy_sha256"], "oracle": {"u01": [1, 2, 3, 4, 5]}}))
    rows = Suite.open(copied, {"oracle": str(given)}).score().rows
    after = json.loads((copied / "oracle.json").read_text())
    assert set(after["oracle"]["u01"]) == {*before["oracle"]["u01"], 1, 2, 3, 4, 5}
    assert "given" in after["verified_by"]["u01"]["5"]
    assert rows[0]["oracle"] == after["version"] != before["version"]


def test_the_scope_of_is_is_recorded(copied):
    Suite.open(copied, {"is_scope": "verified"}).score()
    assert run_folders(copied)[0].manifest["phases"]["score"]["policy"]["is"]["is_scope"] == "verified"


def test_a_candidate_that_finds_nothing_scores_0_and_is_listed(own_file, tmp_path, script_engine):
    def answer(request, ruled):
        return replace(ruled, text="[]") if request.model.name == "lexical/phrase" else ruled

    script_engine(answer)
    suite = Suite(tmp_path / "suite", small(own_file, ("lexical/hashtag", "lexical/phrase")))
    rows = {row["candidate"]: row for row in suite.run().rows}
    nothing = rows["lexical/phrase"]
    assert [nothing[m] for m in ("ig_precision", "ig_recall", "ig_f1", "is", "hm")] == [0, 0, 0, 0, 0]
    assert (nothing["coverage"], nothing["n_users"], nothing["interests_per_user"]) == (1.0, 3, 0.0)
    assert "lexical/phrase" in (suite.path / "comparison.md").read_text()
    for run in suite.runs:
        assert run.read("scores").num_rows == 3
    # Tables without rows keep their types.
    for table in TABLES:
        assert suite.runs[0].read(table).schema == suite.runs[1].read(table).schema


def test_only_candidates_that_find_nothing_are_scored_too(own_file, tmp_path, script_engine):
    script_engine(lambda request, ruled: replace(ruled, text="[]"))
    (row,) = Suite(tmp_path / "suite", small(own_file)).run().rows
    assert row["ig_precision"] == 0
    assert row["ig_recall"] is None
    assert row["ig_f1"] is None


# Failures


def test_a_user_whose_chunks_fail_is_missing_and_lowers_coverage(own_file, tmp_path, script_engine):
    def answer(request, ruled):
        if request.stage == "extract" and request.about.user == "u02" and request.about.position == 0:
            return replace(ruled, status="error", text="", problem="no answer")
        return ruled

    script_engine(answer)
    suite = Suite(tmp_path / "suite", small(own_file, chunk_size=10))
    (row,) = suite.run().rows
    (run,) = suite.runs
    assert (row["n_users"], row["n_requested"], row["coverage"]) == (2, 3, pytest.approx(2 / 3))
    users = {user["user_id"]: user for user in run.read("users").to_pylist()}
    assert (users["u02"]["scored"], users["u02"]["n_chunks"], users["u02"]["n_chunks_answered"]) == (False, 4, 3)
    assert run.read("scores")["user_id"].to_pylist() == ["u01", "u03"]
    assert "u02" not in run.read("extractions")["user_id"].to_pylist()
    assert run.manifest["phases"]["extract"]["stages"]["extract"]["outcomes"]["error"] == 1

    # The next run asks what failed, and nothing else.
    asked = script_engine()
    (row,) = Suite(tmp_path / "suite", small(own_file, chunk_size=10)).run().rows
    assert row["coverage"] == 1.0
    assert [str(request.about) for request in asked if request.stage == "extract"] == ["user u02, chunk 1 of 4"]


def test_a_candidate_that_never_answers_is_listed_with_no_scores(own_file, tmp_path, script_engine):
    script_engine(lambda request, ruled: replace(ruled, text="Hm.") if "phrase" in request.model.name else ruled)
    suite = Suite(tmp_path / "suite", small(own_file, ("lexical/hashtag", "lexical/phrase")))
    rows = {row["candidate"]: row for row in suite.run().rows}
    assert rows["lexical/hashtag"]["coverage"] == 1.0
    assert rows["lexical/phrase"]["coverage"] == 0.0
    assert rows["lexical/phrase"]["hm"] is None


def test_answers_that_cannot_be_read_are_told_with_the_first_of_them(own_file, tmp_path, script_engine, caplog):
    script_engine(lambda request, ruled: replace(ruled, text="Sorry!") if request.about.user == "u01" else ruled)
    Suite(tmp_path / "suite", small(own_file)).extract()
    assert "1 of 3 answers cannot be used. The first: user u01, chunk 1 of 1" in caplog.text
    assert "'Sorry!'" in caplog.text


def test_interests_whose_grounding_or_mapping_fails_are_left_out_and_counted(own_file, tmp_path, script_engine, base):
    lost = {}

    def answer(request, ruled):
        if request.stage in ("ground", "map") and request.stage not in lost:
            lost[request.stage] = request.about
        if request.stage in lost and request.about == lost[request.stage]:
            return replace(ruled, status="refused", text="", problem="filtered")
        return ruled

    script_engine(answer)
    suite = Suite(tmp_path / "suite", small(own_file))
    (row,) = suite.run().rows
    (run,) = suite.runs
    ungrounded, unmapped = lost["ground"].claim[:2], lost["map"].names
    rows = run.read("extractions").to_pylist()
    n_unmapped = sum(row["interest"] in unmapped for row in rows)
    assert (row["n_grounding_failed"], row["n_mapping_failed"]) == (1, n_unmapped)
    scored = {(row["user_id"], row["interest"]) for row in run.read("interests").to_pylist()}
    everything = {(row["user_id"], row["interest"]) for row in rows}
    assert everything - scored == {ungrounded, *(pair for pair in everything if pair[1] in unmapped)}
    assert run.manifest["phases"]["judge"]["stages"]["ground"]["outcomes"]["refused"] == 1
    assert run.manifest["phases"]["judge"]["stages"]["ground"]["n_unreadable"] == 1


def test_a_retrieval_that_fails_is_not_scored_as_zero(own_file, tmp_path, script_engine):
    lost = []

    def answer(request, ruled):
        if request.stage == "retrieve":
            lost.append(request.about) if not lost else None
            if request.about == lost[0]:
                return replace(ruled, status="error", text="", problem="gone")
        return ruled

    script_engine(answer)
    suite = Suite(tmp_path / "suite", small(own_file))
    suite.run()
    (run,) = suite.runs
    specificity = {(r["user_id"], r["interest"]): r["specificity"] for r in run.read("interests").to_pylist()}
    assert specificity.pop((lost[0].user, lost[0].interest)) is None
    assert None not in specificity.values()
    assert run.manifest["phases"]["score"]["policy"]["is"]["n_interests_not_judged"] == 1


@pytest.mark.parametrize("seed", [1, 2])
def test_the_order_of_arrival_changes_nothing(own_file, tmp_path, script_engine, monkeypatch, seed):
    """Answers come in any order, a quarter of them unreadable at first."""

    def faulty(request, ruled):
        return replace(ruled, text="Hm." if int(request.key[:2], 16) < 64 else ruled.text)

    script_engine(faulty)
    Suite(tmp_path / "in order", small(own_file, CANDIDATES[:2])).run()
    scripted = module.open_engine

    class Shuffled:
        def __init__(self, engine):
            self._engine = engine

        def __getattr__(self, name):
            return getattr(self._engine, name)

        def generate(self, requests):
            outcomes = list(self._engine.generate(requests))
            random.Random(seed).shuffle(outcomes)
            yield from outcomes

    monkeypatch.setattr(module, "open_engine", lambda config: Shuffled(scripted(config)))
    Suite(tmp_path / "shuffled", small(own_file, CANDIDATES[:2])).run()
    assert results(tmp_path / "shuffled") == results(tmp_path / "in order")


# Data


def test_users_can_be_sampled(tmp_path):
    suite = Suite(
        tmp_path / "suite", RunConfig(candidates=CANDIDATES[:1], n_users=2, pool_size=100, n_resamples=20, seed=3)
    )
    (row,) = suite.run().rows
    assert (row["n_users"], row["n_requested"]) == (2, 2)
    record = suite.runs[0].manifest["data"]
    assert (record["n_users"], record["n_users_requested"]) == (12, 2)
    assert record["sha256"] != record["users_sha256"]


def test_movielens(repo_root, tmp_path):
    source = repo_root.parent / "shared" / "data" / "ml-latest-small"
    if not source.is_dir():
        pytest.skip(f"{source} is not there (GroupLens's files are never committed)")
    config = RunConfig(
        dataset="movielens", source=source, n_users=3, min_engagements=50, candidates=CANDIDATES[:2], n_resamples=20
    )
    suite = Suite(tmp_path / "suite", config)
    rows = suite.run().rows
    assert [row["n_users"] for row in rows] == [3, 3]
    record = suite.runs[0].manifest["data"]
    assert record["signals"] == ["explicit_positive", "implicit_positive", "explicit_negative"]
    assert suite.runs[0].manifest["phases"]["judge"]["pool_size"] == 1000
    with (source / "ratings.csv").open(encoding="utf-8", newline="") as file:
        assert record["n_users"] == len({row["userId"] for row in csv.DictReader(file)})
