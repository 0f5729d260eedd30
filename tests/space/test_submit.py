"""Submissions: scored again from their records, and refused in plain words where something is wrong or hostile."""

import io
import json
import stat
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from gistbench.space.leaderboard import check as checking
from gistbench.space.leaderboard import intake, submit
from gistbench.space.leaderboard.intake import SubmissionError, take_files, take_from_hub
from gistbench.space.leaderboard.submit import Submissions


@pytest.fixture
def submissions(store, monkeypatch):
    """Submissions that are checked in this process, which is quicker than one of their own."""

    def run_check(folder):
        return checking.check(folder)

    monkeypatch.setattr(submit, "_run_check", run_check)
    return Submissions(store)


@pytest.fixture
def refused(submissions, submission):
    """Submit with changes; return what is said against it."""

    def refuse(**changes):
        with pytest.raises(SubmissionError) as caught:
            submissions.check(submission(**changes), "", "1.2.3.4")
        return " ".join(caught.value.problems)

    return refuse


def zipped(path: Path, files: list[Path], folder: str = "run/") -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in files:
            archive.write(file, folder + file.name)
    return path


# --- what is right --------------------------------------------------------------------------------------------------


def test_scores_are_made_anew_and_are_those_of_the_run(submissions, submission, snapshot):
    checked = submissions.check(submission(), "", "1.2.3.4")
    row = snapshot.measured.set_index("model").loc["lexical/tfidf"]
    summary = checked.result["summary"]
    for metric in ("ig_precision", "ig_recall", "ig_f1", "is", "hm"):
        assert summary[metric] == row[metric]
        assert summary[f"mean_{metric}"] == pytest.approx(row[f"mean_{metric}"])
    assert (summary["n_users"], summary["coverage"]) == (12, 1.0)
    assert checked.result["not_ranked"] == ""
    assert {one["rival"] for one in checked.result["comparisons"]} >= {"lexical/hashtag"}
    assert "self-judged" in checked.html()
    assert checked.place == "records/demo/lexical--tfidf@1/lexical--overlap+self-judged"


def test_scores_in_the_upload_are_not_read(submissions, submission):
    def boast(manifest):
        manifest["phases"]["score"] = {"hm": 1.0, "ci_hm": [1.0, 1.0]}
        return manifest

    assert submissions.check(submission(manifest=boast), "", "1").result["summary"]["hm"] < 1


def test_a_zip_in_a_process_of_its_own(store, submission, tmp_path):
    checked = Submissions(store).check([zipped(tmp_path / "run.zip", submission())], "", "1.2.3.4")
    assert checked.result["summary"]["n_users"] == 12
    assert {path.name for path in (checked.folder / "record").iterdir()} >= {"manifest.json", "scores.parquet"}
    assert not (checked.folder / "users.parquet").exists()  # what came from outside is gone


def test_the_record_can_be_indexed_and_is_marked(submissions, submission, own_results):
    import shutil

    from gistbench.runners.results import ResultsFolder

    checked = submissions.check(submission(), "", "1")
    shutil.copytree(checked.folder / "record", own_results / checked.place)
    rows = ResultsFolder(own_results).build().to_pandas()
    own = rows[rows["origin"] == "self-judged"].iloc[0]
    assert own["hm"] == checked.result["summary"]["hm"]
    assert own["n_ranked_models"] == 4
    assert own["rank_hm"] == rows.set_index(["origin", "model"]).loc[("measured", "lexical/tfidf"), "rank_hm"]


def test_leaving_hard_users_out_costs_coverage_and_the_rank(submissions, submission):
    def some(rows):
        return [{**row, "scored": at < 8} for at, row in enumerate(rows)]

    result = submissions.check(submission(users=some), "", "1").result
    assert result["summary"]["coverage"] == pytest.approx(8 / 12)
    assert "67 %" in result["not_ranked"]


def test_leaving_users_out_of_the_table_costs_the_same(submissions, submission):
    def some(rows):
        return [row for row in rows if row["user_id"] not in ("u01", "u02", "u03", "u04")]

    changes = dict.fromkeys(("users", "extractions", "evidence", "groundings", "retrievals"), some)
    assert submissions.check(submission(**changes), "", "1").result["summary"]["coverage"] == pytest.approx(8 / 12)


def test_failed_judgements_do_not_buy_a_rank(submissions, submission):
    def fail(rows):
        failed = {"relevant_item_ids": None, "status": "failed"}
        return [{**row, **(failed if at % 3 == 0 else {})} for at, row in enumerate(rows)]

    assert "no usable judgement" in submissions.check(submission(groundings=fail), "", "1").result["not_ranked"]


def test_another_judge_is_said(submissions, submission):
    def other(manifest):
        manifest["phases"]["judge"]["model"]["name"] = "my/judge"
        return manifest

    assert "judge is not lexical/overlap" in " ".join(
        submissions.check(submission(manifest=other), "", "1").result["notes"]
    )


# --- what is wrong --------------------------------------------------------------------------------------------------


def first(**values):
    return lambda rows: [{**rows[0], **values}, *rows[1:]]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"users": lambda rows: [*rows, rows[0]]}, "stand twice"),
        ({"users": first(user_id="stranger")}, "not among the data set's"),
        ({"users": first(n_engagements=-1)}, "out of range"),
        ({"users": first(scored=None)}, "scored is missing"),
        ({"users": first(user_id=None)}, "user_id is missing"),
        ({"extractions": first(item_ids=None)}, "item_ids is missing"),
        (
            {"evidence": lambda rows: [{**row, "user_id": None if at else "z"} for at, row in enumerate(rows)]},
            "missing",
        ),
        ({"groundings": first(interest=None)}, "interest is missing"),
        ({"retrievals": first(status=None)}, "status is missing"),
        ({"mappings": first(interest=None)}, "interest is missing"),
        ({"users": first(n_chunks_answered=99)}, "more chunks"),
        ({"extractions": lambda rows: [*rows, rows[0]]}, "stand twice"),
        ({"extractions": first(interest="  ")}, "empty or longer"),
        ({"extractions": first(interest="x" * 501)}, "empty or longer"),
        ({"extractions": first(interest="never judged")}, "did not name"),
        ({"extractions": first(item_ids=["", "v0001"])}, "an id that is missing"),
        ({"evidence": first(interaction_type="loved")}, "there are explicit_positive"),
        ({"evidence": first(interaction_type="explicit_negative")}, "not those of the data set"),
        ({"groundings": first(relevant_item_ids=["v9999"])}, "does not cite"),
        ({"groundings": first(status="fine")}, "there are ok"),
        ({"groundings": lambda rows: rows[1:]}, "no judgement of the interest"),
        ({"retrievals": first(backing_item_ids=["v9999"])}, "not cited"),
        ({"retrievals": first(selected_item_ids=None)}, "has no selection"),
        ({"retrievals": lambda rows: rows[1:]}, "no judgement of the interest"),
        ({"mappings": first(category_id=99_999)}, "not in the taxonomy"),
        ({"mappings": lambda rows: [*rows, rows[0]]}, "stand twice"),
        ({"users": lambda rows: [{**row, "scored": False} for row in rows]}, "No user could be scored"),
    ],
)
def test_rows_that_are_wrong(refused, changes, said):
    assert said in refused(**changes)


def in_manifest(*path, value):
    def change(manifest):
        part = manifest
        for key in path[:-1]:
            part = part[key]
        part[path[-1]] = value
        return manifest

    return change


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (in_manifest("format", value=7), "format 7"),
        (in_manifest("data", "dataset", value="unknown"), "takes submissions for these data sets: demo"),
        (in_manifest("data", "dataset", value=["demo"]), "takes submissions"),
        (in_manifest("data", value=3), "takes submissions"),
        (in_manifest("data", "sha256", value="0" * 64), "not those of the leaderboard"),
        (in_manifest("data", "taxonomy", value=None), "taxonomy is another one"),
        (in_manifest("candidate", "name", value="<script>alert(1)</script>"), "candidate's name may hold"),
        (in_manifest("candidate", "name", value="../../etc/passwd"), "candidate's name may hold"),
        (in_manifest("candidate", "name", value="=HYPERLINK(1)"), "candidate's name may hold"),
        (in_manifest("candidate", "revision", value={"a": 1}), "candidate's revision may hold"),
        (in_manifest("candidate", value=None), "candidate's name may hold"),
        (in_manifest("phases", value=[]), "does not say how"),
        (in_manifest("phases", "extract", "stages", "extract", "unusable_share", value=-1), "not between 0 and 1"),
        (in_manifest("phases", "extract", "stages", "extract", "n_requests", value="many"), "n_requests is no count"),
        (in_manifest("phases", "judge", "stages", "ground", "outcomes", value={}), "counts of outcomes"),
        (in_manifest("phases", "judge", "stages", "ground", "engines", value=3), "engines is no list"),
    ],
)
def test_manifests_that_are_wrong(refused, change, said):
    assert said in refused(manifest=change)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{",
        '{"a": NaN}',
        '{"a": Infinity}',
        '{"a": 1e999}',
        "[" * 100_000,
        '{"a": ' + "9" * 5000 + "}",
        "\xff",
    ],
)
def test_manifests_that_are_no_json(submissions, submission, text):
    files = submission()
    files[0].write_text(text, encoding="latin-1")
    with pytest.raises(SubmissionError):
        submissions.check(files, "", "1")


def test_metrics_that_cannot_be_had_are_said(store, submission, monkeypatch, tmp_path):
    monkeypatch.setenv("GISTBENCH_METRICS", str(tmp_path))
    (tmp_path / "ig").mkdir()
    (tmp_path / "ig" / "ig.py").write_text("raise ImportError('broken')\n")
    with pytest.raises(SubmissionError, match=r"metric ig cannot be loaded.*Try again later"):
        Submissions(store).check(submission(), "", "1")


@pytest.mark.parametrize("kind", [MemoryError, KeyError, KeyboardInterrupt])
def test_nothing_of_a_check_stays_where_it_breaks(store, submission, monkeypatch, kind):
    seen = []

    def breaks(folder):
        seen.append(folder)
        raise kind

    monkeypatch.setattr(submit, "_run_check", breaks)
    with pytest.raises(kind):
        Submissions(store).check(submission(), "", "1")
    assert not seen[0].exists()


# --- what is hostile ------------------------------------------------------------------------------------------------


def test_a_zip_bomb_is_not_unpacked(tmp_path):
    path = tmp_path / "bomb.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("users.parquet", b"\0" * 50_000_000)
    with pytest.raises(SubmissionError, match="would unpack to"):
        take_files([path], tmp_path)
    assert not (tmp_path / "users.parquet").exists()


def test_a_zip_that_lies_about_sizes_is_stopped_while_it_unpacks(tmp_path, monkeypatch):
    monkeypatch.setattr(intake, "MAX_UNPACKED_BYTES", 1000)
    monkeypatch.setattr(intake, "MAX_RATIO", 10**9)
    path = tmp_path / "lies.zip"
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("users.parquet", b"x" * 5_000)
    # Both headers say 100 bytes.
    path.write_bytes(content.getvalue().replace((5_000).to_bytes(4, "little"), (100).to_bytes(4, "little")))
    with pytest.raises(SubmissionError):
        take_files([path], tmp_path)


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_damaged_zip_is_said(tmp_path, method):
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w", method) as archive:
        archive.writestr("users.parquet", bytes(range(256)) * 9)
        begin = archive.infolist()[0].header_offset + 30 + len("users.parquet")
    content = bytearray(path.read_bytes())
    content[begin : begin + 40] = b"\xff" * 40
    path.write_bytes(bytes(content))
    with pytest.raises(SubmissionError, match="zip file cannot be read"):
        take_files([path], tmp_path)


class HubOfOneFolder:
    """Stands for the Hub's client: a data set with the files of a folder."""

    def __init__(self, folder):
        self.folder = folder

    def __call__(self, **_):
        return self

    def dataset_info(self, name, **_):
        return SimpleNamespace(sha="1")

    def list_repo_tree(self, name, *_, **__):
        return [SimpleNamespace(path=one.name, size=one.stat().st_size) for one in self.folder.iterdir()]

    def download(self, name, place, **_):
        return str(self.folder / place)


@pytest.mark.parametrize("way", ["zip", "files", "hub"])
def test_a_manifest_has_a_limit_of_its_own_whichever_way_it_comes(tmp_path, submission, monkeypatch, way):
    """It is parsed in the page's own process."""
    files = submission()
    files[0].write_bytes(b" " * 5_000_001)
    folder = tmp_path / "taken"
    folder.mkdir()
    hub = HubOfOneFolder(files[0].parent)
    monkeypatch.setattr("huggingface_hub.HfApi", hub)
    monkeypatch.setattr("huggingface_hub.hf_hub_download", hub.download)
    monkeypatch.setattr(intake, "MAX_RATIO", 10**9)
    ways = {
        "zip": lambda: take_files([zipped(tmp_path / "run.zip", files)], folder),
        "files": lambda: take_files(files, folder),
        "hub": lambda: take_from_hub("a/b", folder),
    }
    with pytest.raises(SubmissionError, match=r"manifest\.json is larger than 5,000,000 bytes"):
        ways[way]()


@pytest.mark.parametrize("name", ["../users.parquet", "/users.parquet", "a/../../users.parquet", "..\\users.parquet"])
def test_no_name_in_a_zip_leaves_the_folder(tmp_path, name):
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(zipfile.ZipInfo(name), b"x")
    (tmp_path / "inside").mkdir()
    with pytest.raises(SubmissionError, match="leaves its folder"):
        take_files([path], tmp_path / "inside")
    assert [one.name for one in tmp_path.iterdir()] == ["x.zip", "inside"] or not list((tmp_path / "inside").iterdir())


def test_links_in_a_zip_are_refused(tmp_path):
    path = tmp_path / "x.zip"
    link = zipfile.ZipInfo("run/users.parquet")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(link, "/etc/passwd")
    with pytest.raises(SubmissionError, match="link"):
        take_files([path], tmp_path)


def test_many_members_two_folders_and_twice_the_same_are_refused(tmp_path):
    for names, said in (
        ([f"{n}.txt" for n in range(100)], "members"),
        (["a/users.parquet", "b/evidence.parquet"], "several folders"),
        (["a/users.parquet", "b/users.parquet"], "twice"),
    ):
        path = tmp_path / "x.zip"
        with zipfile.ZipFile(path, "w") as archive:
            for name in names:
                archive.writestr(name, b"x")
        with pytest.raises(SubmissionError, match=said):
            take_files([path], tmp_path)


@pytest.mark.parametrize("content", [b"", b"PK\x05\x06", b"PK\x03\x04 and no more", b"not a zip"])
def test_what_is_no_zip(tmp_path, content):
    path = tmp_path / "x.zip"
    path.write_bytes(content)
    with pytest.raises(SubmissionError):
        take_files([path], tmp_path)


def test_files_of_other_names_are_refused(tmp_path):
    path = tmp_path / "evil.pkl"
    path.write_bytes(b"cos\nsystem\n(S'true'\ntR.")
    with pytest.raises(SubmissionError, match="no run folder has"):
        take_files([path], tmp_path / "x")


def test_an_upload_that_is_too_large(tmp_path, monkeypatch):
    monkeypatch.setattr(intake, "MAX_UPLOAD_BYTES", 10)
    path = tmp_path / "manifest.json"
    path.write_bytes(b"x" * 11)
    with pytest.raises(SubmissionError, match="larger than"):
        take_files([path], tmp_path)


def test_ten_million_rows_are_refused_by_their_declaration(submissions, submission):
    files = submission()
    table = pa.table({"user_id": pa.array(["u"]).take(pa.array([0] * 10_000_000))})
    pq.write_table(table, files[1], compression="zstd")
    assert files[1].stat().st_size < 1_000_000
    with pytest.raises(SubmissionError, match="declares 10,000,000 rows"):
        submissions.check(files, "", "1")


def test_few_rows_with_very_many_values_are_refused(submissions, submission, monkeypatch):
    monkeypatch.setattr(checking, "MAX_VALUES", 100_000)
    files = submission()
    rows = {"user_id": ["u01"], "interest": ["x"], "item_ids": [["v0001"] * 200_000]}
    pq.write_table(pa.table(rows), files[2])
    with pytest.raises(SubmissionError, match="too much"):
        submissions.check(files, "", "1")


@pytest.mark.parametrize(
    ("table", "said"),
    [
        (pa.table({"user_id": [1, 2]}), "must be a text, found int64"),
        (pa.table({"user_id": [["u"]]}), "must be a text, found list"),
        (pa.table({"user_id": pa.array([b"u"])}), "must be a text, found binary"),
        (pa.table({"other": ["u"]}), "lacks the column user_id"),
        (pa.table({"scored": [1.5]}), "must be a yes or no, found double"),
        (pa.table({"n_chunks": [float("nan")]}), "must be a whole number, found double"),
        (pa.table({"n_chunks": [float("inf")]}), "must be a whole number, found double"),
        (pa.table({"user_id": pa.array(["u"]).dictionary_encode()}), "must be a text, found dictionary"),
    ],
)
def test_columns_of_other_types(submissions, submission, table, said):
    files = submission()
    pq.write_table(table, files[1])
    with pytest.raises(SubmissionError) as caught:
        submissions.check(files, "", "1")
    assert said in " ".join(caught.value.problems)


@pytest.mark.parametrize("content", [b"", b"PAR1", b"PAR1" + b"\xff" * 100 + b"PAR1", b"col1,col2\n"])
def test_what_is_no_parquet(submissions, submission, content):
    files = submission()
    files[1].write_bytes(content)
    with pytest.raises(SubmissionError, match="cannot be read as Parquet"):
        submissions.check(files, "", "1")


def test_scripts_in_interests_are_text(submissions, submission):
    """Names of interests are the model's own words, so they may hold anything, and are only ever shown as text."""
    evil = "<img src=x onerror=alert(1)>${alert(1)}"

    def renamed(rows):
        return [{**row, "interest": evil if row["interest"] == interest else row["interest"]} for row in rows]

    interest = pd.read_parquet(submission()[2])["interest"].iloc[0]
    tables = dict.fromkeys(("extractions", "groundings", "retrievals", "mappings"), renamed)
    checked = submissions.check(submission(**tables), "", "1")
    assert evil not in checked.html()
    assert evil not in checked.markdown()


def test_what_a_manifest_says_besides_is_cleaned(submissions, submission):
    def change(manifest):
        manifest["phases"]["extract"]["versions"] = {"<b>": "<script>`x`</script>"}
        manifest["anything"] = "else"
        return manifest

    checked = submissions.check(submission(manifest=change), "", "1")
    text = (checked.folder / "record" / "manifest.json").read_text()
    assert not set(text) & set("<>`")
    assert "anything" not in text
    assert json.loads(text)["origin"] == "self-judged"


def test_columns_that_nobody_asked_for_do_not_pass(submissions, submission):
    def more(rows):
        return pa.Table.from_pylist([{**row, "=cmd": "<script>"} for row in rows])

    checked = submissions.check(submission(users=more), "", "1")
    assert "=cmd" not in pq.read_schema(checked.folder / "record" / "users.parquet").names


def test_the_rate_is_limited(submissions):
    for _ in range(submit.PER_HOUR):
        with pytest.raises(SubmissionError, match="Name a data set"):
            submissions.check([], "x", "9.9.9.9")
    with pytest.raises(SubmissionError, match="checks in an hour"):
        submissions.check([], "x", "9.9.9.9")
    with pytest.raises(SubmissionError, match="Name a data set"):
        submissions.check([], "x", "8.8.8.8")


def test_who_was_here_long_ago_is_forgotten(submissions, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(submit.time, "monotonic", lambda: now[0])
    for client in ("1.1.1.1", "2.2.2.2"):
        with pytest.raises(SubmissionError, match="Name a data set"):
            submissions.check([], "x", client)
    now[0] = 3601.0
    with pytest.raises(SubmissionError, match="Name a data set"):
        submissions.check([], "x", "3.3.3.3")
    assert set(submissions._times) == {"3.3.3.3"}


@pytest.mark.parametrize("name", ["x", "a/../b", "/etc/passwd", "a//b", "a" * 400 + "/b", "a/b/../../c"])
def test_names_of_data_sets_that_are_none(submissions, name):
    with pytest.raises(SubmissionError, match="Name a data set"):
        submissions.check([], name, "1")


def test_a_check_that_runs_too_long_is_ended(store, submission, monkeypatch):
    monkeypatch.setattr(submit, "MAX_SECONDS", 0.05)
    with pytest.raises(SubmissionError, match="took longer"):
        Submissions(store).check(submission(), "", "1")


def test_without_a_token_no_pull_request(submissions, submission):
    checked = submissions.check(submission(), "", "1")
    assert not submissions.can_open
    with pytest.raises(SubmissionError, match="cannot open"):
        submissions.open_pull_request(checked)
