"""Re-judging: interests stay, judgements are made anew; a fair upload keeps its scores, and a forged one loses them."""

import json
import shutil
from hashlib import md5
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from gistbench.hf_datasets.errors import ConfigError, HubError, StoreError
from gistbench.runners.cli import app
from gistbench.runners.rejudge import find_submission, rejudge
from gistbench.runners.results import ResultsFolder
from gistbench.space.leaderboard import check as checking
from gistbench.space.leaderboard import submit
from gistbench.space.leaderboard.data import open_store
from gistbench.space.leaderboard.models import model_page
from gistbench.space.leaderboard.submit import Submissions
from gistbench.space.leaderboard.view import View, leaderboard
from typer.testing import CliRunner

PLACE = "records/demo/lexical--tfidf@1/lexical--overlap+self-judged"
NEW_PLACE = "records/demo/lexical--tfidf@1/lexical--overlap@1+re-judged"
METRICS = ("ig_precision", "ig_recall", "ig_f1", "is", "hm")


def all_relevant(rows):
    """Forge: the judge kept every item that was cited."""
    return [row | {"relevant_item_ids": row["shown_item_ids"]} for row in rows]


def all_found(rows):
    """Forge: the judge found every backing item."""
    return [row | {"selected_item_ids": row["backing_item_ids"]} if row["status"] == "ok" else row for row in rows]


def without_sense(forge=lambda rows: rows):
    """Forge: the interests say nothing, and only the judgements that came with them make them true."""
    return lambda rows: [row | {"interest": md5(row["interest"].encode()).hexdigest()[:9]} for row in forge(rows)]


@pytest.fixture
def submitted(own_results, submission, store, monkeypatch):
    """Put a submission that the page accepted among results; return their folder."""
    monkeypatch.setattr(submit, "_run_check", checking.check)

    def put(**changes) -> Path:
        checked = Submissions(store).check(submission(**changes), "", "1")
        shutil.copytree(checked.folder / "record", own_results / checked.place)
        ResultsFolder(own_results).build()
        return own_results

    return put


def scores(run):
    return {metric: run.manifest["phases"]["score"][metric] for metric in METRICS}


def test_a_fair_submission_keeps_its_scores(submitted, tmp_path, demo_suite):
    submission = find_submission(submitted())
    assert submission.place == PLACE
    found = rejudge(submission, tmp_path / "again", judge="lexical/overlap")
    measured = json.loads((demo_suite / "lexical--tfidf@1" / "manifest.json").read_text())
    assert scores(found.run) == {metric: measured["phases"]["score"][metric] for metric in METRICS}
    assert all(row["difference"] == 0 for row in found.scores)
    assert {row["what"]: row["agreement_share"] for row in found.agreement} == {
        "relevance": 1,
        "verdict": 1,
        "picks": 1,
        "category": 1,
        "specificity": 1,
    }
    interests = [
        (row["user_id"], row["interest"], row["item_ids"]) for row in found.run.read("extractions").to_pylist()
    ]
    table = pq.read_table(demo_suite / "lexical--tfidf@1" / "extractions.parquet").to_pylist()
    assert interests == [(row["user_id"], row["interest"], row["item_ids"]) for row in table]
    for name in ("groundings", "retrievals", "mappings", "evidence"):
        assert found.run.read(name).equals(pq.read_table(demo_suite / "lexical--tfidf@1" / f"{name}.parquet"))


def test_a_forged_submission_loses_what_was_made_up(submitted, tmp_path):
    results = submitted(
        extractions=without_sense(),
        groundings=without_sense(all_relevant),
        retrievals=without_sense(all_found),
        mappings=without_sense(),
    )
    before = ResultsFolder(results).build().to_pandas().set_index("origin").loc["self-judged"]
    found = rejudge(find_submission(results), tmp_path / "again", judge="lexical/overlap")
    by_metric = {row["metric"]: row for row in found.scores}
    for metric in METRICS:
        assert by_metric[metric]["submitted"] == before[metric] > 0.5
        assert by_metric[metric]["rejudged"] == scores(found.run)[metric] == 0
        assert by_metric[metric]["ci_difference"][1] < 0
    shares = {row["what"]: row["agreement_share"] for row in found.agreement}
    assert (shares["relevance"], shares["verdict"]) == (0, 0)
    assert shares["picks"] < 1
    assert "re-judged" in found.markdown()
    assert f"`{PLACE}`" in found.markdown()


def test_the_badge_changes(submitted, tmp_path):
    results = submitted(retrievals=all_found)
    again = ["hub", "rejudge", str(results), "-o", str(tmp_path / "again"), "--judge", "lexical/overlap"]
    shown = CliRunner().invoke(app, again)
    assert shown.exit_code == 0, shown.output
    assert "Nothing but the suite folder was written" in shown.output
    assert (results / PLACE).exists()
    done = CliRunner().invoke(app, [*again, "--push"])
    assert done.exit_code == 0, done.output
    assert not (results / PLACE).exists()
    snapshot = open_store(str(results)).snapshot
    assert "self-judged" not in set(snapshot.index["origin"])
    (row,) = snapshot.rows(snapshot.index[snapshot.index["origin"] == "re-judged"])
    assert row["record"] == NEW_PLACE
    assert row["hm"] == snapshot.index.set_index(["origin", "model"]).loc[("measured", "lexical/tfidf"), "hm"]
    assert row["n_ranked_models"] == 4  # beside the measured ones: data, judge and oracle are the same
    html = leaderboard(snapshot, View(origin="re-judged"))[0]
    assert ">re-judged</span>" in html
    assert "self-judged" not in html
    page = model_page(snapshot, row["id"])
    assert "IS 100.0" in page  # as it was submitted
    manifest = snapshot.manifest(row)
    assert manifest["rejudged"]["place"] == PLACE
    assert manifest["config"]["seed"] == 0
    assert not (results / NEW_PLACE / "answers.parquet").exists()
    with pytest.raises(ConfigError, match="waits to be judged again"):
        find_submission(results)
    assert find_submission(results, NEW_PLACE).place == NEW_PLACE  # as by another judge


def test_made_up_engagements_and_users_left_out(submitted, tmp_path):
    """Evidence comes of the data set, and users whom a submission passes over cost coverage."""
    results = submitted()
    path = results / PLACE / "evidence.parquet"
    rows = pq.read_table(path).to_pylist()
    forged = [row | {"interaction_type": "explicit_positive"} for row in rows]
    pq.write_table(pa.Table.from_pylist(forged), path)
    path = results / PLACE / "users.parquet"
    pq.write_table(pq.read_table(path).slice(2), path)
    for name in ("extractions", "groundings", "retrievals", "interests", "scores"):
        path = results / PLACE / f"{name}.parquet"
        table = pq.read_table(path)
        pq.write_table(table.filter(pa.array([u not in ("u01", "u02") for u in table["user_id"].to_pylist()])), path)
    found = rejudge(find_submission(results), tmp_path / "again", judge="lexical/overlap")
    assert found.run.read("evidence").to_pylist() == [r for r in rows if r["user_id"] not in ("u01", "u02")]
    score = found.run.manifest["phases"]["score"]
    assert (score["n_users"], score["n_requested"]) == (10, 12)


def test_what_stopped_goes_on(submitted, tmp_path):
    from gistbench.hf_datasets.errors import RunStoppedError
    from gistbench.runners.halt import CallLimit, Halt

    submission = find_submission(submitted())
    with pytest.raises(RunStoppedError):
        rejudge(submission, tmp_path / "again", judge="lexical/overlap", halt=Halt(CallLimit(5)))
    assert rejudge(submission, tmp_path / "again", judge="lexical/overlap").scores[0]["difference"] == 0


def rows_of(change):
    def apply(folder):
        path = folder / PLACE / "extractions.parquet"
        pq.write_table(change(pq.read_table(path)), path)

    return apply


def drop_oracle(folder):
    path = folder / "results.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"oracles": {}}))


def other_data(folder):
    path = folder / PLACE / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["data"]["sha256"] = "0" * 64
    path.write_text(json.dumps(manifest))


def no_stages(folder):
    path = folder / PLACE / "manifest.json"
    manifest = json.loads(path.read_text())
    del manifest["phases"]["extract"]["stages"]
    path.write_text(json.dumps(manifest))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (rows_of(lambda t: t.drop_columns(["item_ids"])), "cannot be used"),
        (rows_of(lambda t: pa.concat_tables([t, t])), "stand twice"),
        (
            rows_of(lambda t: pa.Table.from_pylist([{**r, "user_id": "nobody"} for r in t.to_pylist()])),
            "not the data set",
        ),
        (rows_of(lambda t: pa.Table.from_pylist([{**r, "interest": None} for r in t.to_pylist()])), "empty cells"),
        (rows_of(lambda t: pa.table({"user_id": [1], "interest": ["x"], "item_ids": [3]})), "cannot be used"),
        (lambda folder: (folder / PLACE / "users.parquet").write_bytes(b"no"), "cannot be used"),
        (drop_oracle, "no measured record"),
        (other_data, "not that of"),
        (no_stages, "no record that the page wrote"),
    ],
)
def test_records_that_cannot_be_judged_again(submitted, tmp_path, change, said):
    results = submitted()
    change(results)
    with pytest.raises(StoreError, match=said):
        rejudge(find_submission(results), tmp_path / "again", judge="lexical/overlap")


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("records/demo/lexical--tfidf@1/lexical--overlap@1", "It is measured"),
        ("records/demo/none/none", "no submitted record"),
        ("../../etc", "no submitted record"),
    ],
)
def test_only_submissions_are_judged_again(submitted, place, said):
    with pytest.raises(ConfigError, match=said):
        find_submission(submitted(), place)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--push", "--pull-request"], "give one of them"),
        (["--pull-request"], "takes no pull requests"),
        (["--revision", "refs/pr/1"], "has no revisions"),
        ([], "none is self-judged"),
    ],
)
def test_options_that_do_not_fit(results, tmp_path, arguments, said):
    command = ["hub", "rejudge", str(results), "-o", str(tmp_path / "again"), "--judge", "lexical/overlap"]
    failed = CliRunner().invoke(app, [*command, *arguments])
    assert isinstance(failed.exception, (ConfigError, HubError))
    assert said in str(failed.exception)


def changed(path, change):
    """Change a JSON file."""
    path.write_text(json.dumps(change(json.loads(path.read_text()))))


def test_an_oracle_that_was_changed_is_refused(submitted, tmp_path):
    results = submitted()
    submission = find_submission(results)
    changed(submission.oracle, lambda found: found | {"oracle": {user: [] for user in found["oracle"]}})
    with pytest.raises(StoreError, match="not what its version says"):
        rejudge(submission, tmp_path / "again", judge="lexical/overlap")


def test_only_the_submitted_record_is_taken_of_a_proposal(submitted, results, tmp_path):
    """What it says of data sets, oracles and measured records is not looked at."""
    proposed = submitted()
    measured = "records/demo/lexical--hashtag@1/lexical--overlap@1"
    forged = proposed / "records/demo/forged@1/lexical--overlap@1"
    shutil.copytree(proposed / measured, forged)

    def boast(manifest):
        manifest["phases"]["score"] |= {"n_requested": 10**9, "oracle": {"version": "forged"}}
        return manifest

    for path in (forged, proposed / measured):
        changed(path / "manifest.json", boast)
    changed(proposed / "results.json", lambda found: found | {"oracles": {"demo": "forged"}})
    submission = find_submission(results, proposed=proposed)
    assert submission.place == PLACE
    assert submission.run.path == proposed / PLACE
    assert submission.official in {
        one.parent.relative_to(results).as_posix() for one in results.rglob("scores.parquet")
    }
    assert submission.measured.path == results / submission.official
    assert submission.oracle.parent == results / "oracles"
    found = rejudge(submission, tmp_path / "again", judge="lexical/overlap")
    assert all(row["difference"] == 0 for row in found.scores)


def test_a_proposal_cannot_take_the_place_of_a_measured_record(submitted, results):
    proposed = submitted()
    measured = "records/demo/lexical--hashtag@1/lexical--overlap@1"
    shutil.rmtree(proposed / measured)
    shutil.copytree(proposed / PLACE, proposed / measured)
    with pytest.raises(ConfigError, match="place of a measured record"):
        find_submission(results, measured, proposed=proposed)
