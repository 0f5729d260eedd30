"""Results folders: what the index holds, and that ranks and intervals are those of the run folders and modules."""

import json
import shutil

import pandas as pd
import pyarrow.parquet as pq
import pytest
from gistbench.hf_datasets.errors import ConfigError, StoreError
from gistbench.hf_datasets.results_published import published_value
from gistbench.runners.report.frames import letters
from gistbench.runners.results import CONDITIONS, INDEX_SCHEMA, RANKED, ResultsFolder, _rank
from gistbench.runners.score import load_metric


@pytest.fixture(scope="session")
def index(results):
    return pq.read_table(results / "index.parquet")


def test_index_has_its_schema_and_a_row_for_each_run(index):
    assert index.schema == INDEX_SCHEMA
    rows = index.to_pandas()
    assert rows[rows["origin"] == "measured"]["model"].tolist() == [
        "lexical/hashtag",
        "lexical/phrase",
        "lexical/tfidf",
    ]
    assert rows["id"].is_unique


def test_medians_and_intervals_are_those_of_the_manifests(index, results):
    for row in index.to_pylist():
        if row["origin"] == "measured":
            score = json.loads((results / row["record"] / "manifest.json").read_text())["phases"]["score"]
            for metric in ("ig_precision", "ig_recall", "ig_f1", "is", "hm"):
                assert row[metric] == score[metric]
                assert [row[f"{metric}_low"], row[f"{metric}_high"]] == score[f"ci_{metric}"]
            assert (row["coverage"], row["n_users"]) == (1.0, 12)


def test_ranks_are_those_of_the_module(index, results):
    rows = index.to_pandas()
    rows = rows[rows["origin"] == "measured"].set_index("id")
    scores = {}
    for id, row in rows.iterrows():
        frame = pq.read_table(results / row["record"] / "scores.parquet").to_pandas()
        scores[id] = dict(zip(frame["user_id"], frame["hm"], strict=True))
    found = load_metric("ig").rank_groups(scores, n_resamples=0)
    assert rows["rank_hm"].to_dict() == dict(zip(found["models"]["model"], found["models"]["rank"], strict=True))
    for group in found["groups"]:
        assert len(set.intersection(*(set(rows["group_hm"][id]) for id in group))) >= 1
    assert set(rows["n_ranked_models"]) == {3}


def test_recall_under_oracles_of_several_models(index):
    rows = index.to_pandas()
    rows = rows[rows["origin"] == "measured"]
    # What two models verified is easier to have found than what one did.
    assert (rows["ig_recall_2"] >= rows["ig_recall"]).all()
    assert (rows["ig_recall_3"] == 1).all()  # with three models, all of them verified it


def test_published_rows_are_marked_and_unranked(index):
    rows = index.to_pandas()
    published = rows[rows["origin"] == "published"]
    assert set(published["note"]) == {"published; other prompts, not comparable to the digit"}
    assert published["rank_hm"].isna().all()
    assert published["hm"].isna().all()  # not printed, and no median of two medians
    one = published[(published["model"] == "GPT-OSS-120B") & (published["dataset"] == "kuairec")].iloc[0]
    assert one["ig_f1"] == pytest.approx(published_value("Table 3", "GPT-OSS-120B", "KuaiRec / IG F1") / 100)


def test_records_hold_what_scores_are_made_of_and_no_raw_answers(results, index):
    record = results / index.to_pylist()[0]["record"]
    assert not (record / "answers.parquet").exists()
    assert (record / "retrievals.parquet").exists()
    manifest = json.loads((record / "manifest.json").read_text())
    assert "source" not in manifest["config"]  # paths of the machine stay there
    assert manifest["config"]["seed"] == 0


def test_a_low_coverage_is_not_ranked(demo_suite, tmp_path):
    folder = ResultsFolder(tmp_path / "results")
    record = folder.path / folder.add(demo_suite)[1]
    manifest = json.loads((record / "manifest.json").read_text())
    manifest["phases"]["score"]["coverage"] = 0.5
    (record / "manifest.json").write_text(json.dumps(manifest))
    rows = folder.build().to_pandas().set_index("record")
    row = rows.loc[record.relative_to(folder.path).as_posix()]
    assert "50 % of the users" in row["not_ranked"]
    assert pd.isna(row["rank_hm"])
    assert set(rows["n_ranked_models"].dropna()) == {2}


def test_data_of_ones_own_is_not_published(demo_suite, tmp_path, monkeypatch):
    monkeypatch.setattr("gistbench.runners.results.DATASET_NAMES", ())
    with pytest.raises(ConfigError, match="not published"):
        ResultsFolder(tmp_path / "results").add(demo_suite, public=True)


def test_what_is_published_tells_no_address_and_no_path(demo_suite, tmp_path):
    suite = shutil.copytree(demo_suite, tmp_path / "suite")
    for path in suite.glob("*/manifest.json"):
        manifest = json.loads(path.read_text())
        for phase in ("extract", "judge"):
            options = {"base_url": "http://10.0.0.7:8000/v1", "api_key_env": "OUR_KEY", "structured_outputs": "vllm"}
            manifest["phases"][phase]["model"]["options"] = options
        manifest["phases"]["score"]["oracle"]["given"] = "/home/me/oracle.json"
        path.write_text(json.dumps(manifest))
    folder = ResultsFolder(tmp_path / "results")
    for record in folder.add(suite, public=True):
        text = (folder.path / record / "manifest.json").read_text()
        assert not any(secret in text for secret in ("10.0.0.7", "OUR_KEY", "/home/me"))
        assert json.loads(text)["phases"]["score"]["oracle"]["given"] == "oracle.json"
        assert json.loads(text)["phases"]["judge"]["model"]["options"] == {"structured_outputs": "vllm"}


def test_table_1_of_a_qrels_expansion_stays_here(tmp_path):
    (tmp_path / "work").mkdir()
    for name in ("table_1-example", "table_4-agreement"):
        (tmp_path / "work" / f"{name}.csv").write_text("a\n1\n")
    folder = ResultsFolder(tmp_path / "results")
    added = folder.path / "qrels" / folder.add_qrels(tmp_path / "work")
    assert [path.name for path in added.iterdir()] == ["table_4-agreement.csv"]


def test_an_oracle_that_is_not_the_runs_own_is_refused(demo_suite, tmp_path):
    suite = shutil.copytree(demo_suite, tmp_path / "suite")
    oracle = json.loads((suite / "oracle.json").read_text())
    (suite / "oracle.json").write_text(json.dumps(oracle | {"version": "other"}))
    with pytest.raises(StoreError, match="not the oracle"):
        ResultsFolder(tmp_path / "results").add(suite)


def test_an_oracle_that_was_changed_is_refused(demo_suite, tmp_path):
    suite = shutil.copytree(demo_suite, tmp_path / "suite")
    oracle = json.loads((suite / "oracle.json").read_text())
    (suite / "oracle.json").write_text(json.dumps(oracle | {"oracle": {}}))
    with pytest.raises(StoreError, match="not what its version says"):
        ResultsFolder(tmp_path / "results").add(suite)


def test_groups_beyond_the_alphabet_are_named_as_in_reports():
    """With 28 models that all differ, on 40 users each."""
    rows = [{"id": f"m{n}", "not_ranked": "", **dict.fromkeys(CONDITIONS, "same")} for n in range(28)]
    scores = {f"m{n}": {metric: {f"u{u}": n / 28 for u in range(40)} for metric in RANKED} for n in range(28)}
    _rank(rows, scores)
    assert {row["group_hm"] for row in rows} == {*letters([[str(n)] for n in range(28)]).values()}
