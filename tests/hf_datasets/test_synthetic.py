import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from gistbench.hf_datasets.builder import build_report, prepare
from gistbench.hf_datasets.errors import DataError
from gistbench.hf_datasets.registry import dataset_record, load_engagements
from gistbench.hf_datasets.schema import user_slices
from gistbench.hf_datasets.synthetic import Synthetic


def write(
    path, users=(3, 3, 20, 3), times=("2024-01-02 10:00:00", "2024-01-03", None, "2024-01-01T00:00:00Z"), **columns
):
    n = len(users)
    table = {
        "user_id": pa.array(users, pa.int64()),
        "object_id": pa.array([10**15 + i for i in range(n)], pa.int64()),
        "object_text": [f"text {i}" for i in range(n)],
        "interaction_type": ["explicit_positive", "implicit_positive", "implicit_negative", "implicit_positive"][:n],
        "interaction_time": pa.array(times, pa.string()),
    }
    pq.write_table(pa.table(table | columns), path)
    return path


def load(source, tmp_path, min_engagements=1, **parameters):
    return load_engagements(
        "synthetic", source=source, cache_dir=tmp_path / "cache", min_engagements=min_engagements, **parameters
    )


def test_rows_of_a_file(tmp_path):
    table = load(write(tmp_path / "a.parquet"), tmp_path)
    assert [tuple(row.values()) for row in table.to_pylist()] == [
        ("20", "1000000000000002", "text 2", "implicit_negative", None),
        ("3", "1000000000000001", "text 1", "implicit_positive", 1704240000.0),
        ("3", "1000000000000000", "text 0", "explicit_positive", 1704189600.0),
        ("3", "1000000000000003", "text 3", "implicit_positive", 1704067200.0),
    ]
    assert user_slices(table) == {"20": slice(0, 1), "3": slice(1, 4)}


def test_a_folder_of_files_and_the_same_content_elsewhere(tmp_path):
    folder = tmp_path / "hub" / "data"
    folder.mkdir(parents=True)
    write(folder / "train-0.parquet")
    write(folder / "train-1.parquet", users=(7,), times=("2024-01-01",))
    assert load(tmp_path / "hub", tmp_path)["user_id"].to_pylist() == ["20", "3", "3", "3", "7"]
    first = Synthetic(dataset_name="synthetic", source=str(tmp_path / "hub")).cache_dir
    moved = (tmp_path / "hub").rename(tmp_path / "moved")
    assert Synthetic(dataset_name="synthetic", source=str(moved)).cache_dir == first


def test_users_with_few_engagements_are_left_out(tmp_path):
    path = write(tmp_path / "a.parquet")
    builder = prepare(Synthetic, "synthetic", source=path, cache_dir=tmp_path, parameters={"min_engagements": 3})
    report = build_report(builder)
    assert (report.n_rows, report.n_users, report.n_rows_left_out, report.n_users_left_out) == (3, 1, 1, 1)
    with pytest.raises(DataError, match="none of 2 users has 100 engagements"):
        load(path, tmp_path, min_engagements=100)


def test_broken_rows(tmp_path):
    path = write(
        tmp_path / "a.parquet", object_text=["x", " ", "y", "z"], times=("2024-01-02", None, "soon", "2024-01-09")
    )
    with pytest.raises(DataError, match=rf"{path}: row 2: object_text is missing or blank"):
        load(path, tmp_path)
    builder = prepare(
        Synthetic, "synthetic", source=path, cache_dir=tmp_path, parameters={"min_engagements": 1, "on_error": "skip"}
    )
    assert dict(build_report(builder).skipped) == {str(path): 2}


@pytest.mark.parametrize("on_error", ["raise", "skip"])
def test_times_that_do_not_sort_together(tmp_path, on_error):
    path = write(tmp_path / "a.parquet", times=("2024-01-02", None, "9", "2024-01-09"))
    with pytest.raises(DataError, match="interaction_time mixes numbers"):
        load(path, tmp_path, on_error=on_error)


def test_missing_columns_and_other_files(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"user_id": [1]}), path)
    with pytest.raises(DataError, match=r"missing columns: object_id, .*Found: user_id\."):
        load(path, tmp_path)
    path.write_text("x")
    with pytest.raises(DataError, match="not a Parquet file that can be read"):
        load(path, tmp_path)
    with pytest.raises(DataError, match="no such file or folder"):
        load(tmp_path / "none", tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match=r"holds no \.parquet file"):
        load(tmp_path / "empty", tmp_path)


def test_offline_says_how_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    with pytest.raises(
        DataError, match=r"facebook/gistbench at revision 'v1' could not be downloaded .*give DIR as source"
    ):
        load_engagements("synthetic", revision="v1", cache_dir=tmp_path)


def test_from_the_hub(tmp_path, monkeypatch):
    folder = tmp_path / "snapshot"
    folder.mkdir()
    write(folder / "train.parquet")
    asked = []

    def snapshot_download(*arguments, **options):
        asked.append((arguments, options["repo_type"], options["revision"]))
        return str(folder)

    monkeypatch.setattr("huggingface_hub.snapshot_download", snapshot_download)
    table = load_engagements("synthetic", revision="abc", min_engagements=1, cache_dir=tmp_path / "cache")
    assert table.num_rows == 4
    assert asked == [(("facebook/gistbench",), "dataset", "abc")]


def test_record():
    record = dataset_record("synthetic")
    assert record.taxonomy == "official"
    assert "CC BY-NC 4.0" in record.licence
    assert "Llama 3.2" in record.licence
