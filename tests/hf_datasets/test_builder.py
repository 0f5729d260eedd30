import json
import subprocess
import sys

import datasets
import pytest
from gistbench.hf_datasets.builder import FEATURES, build_engagements
from gistbench.hf_datasets.errors import ConfigError, DataError
from gistbench.hf_datasets.movielens import MovieLens
from gistbench.hf_datasets.planted import Planted
from gistbench.hf_datasets.registry import load_engagements
from gistbench.hf_datasets.schema import ENGAGEMENT_SCHEMA, fingerprint_engagements

SMALL = {"n_users": 3, "n_engagements_per_user": 80}


@pytest.fixture
def movielens(tmp_path):
    folder = tmp_path / "ml"
    folder.mkdir()
    (folder / "movies.csv").write_text("movieId,title,genres\n1,Heat (1995),Crime\n")
    (folder / "ratings.csv").write_text("userId,movieId,rating,timestamp\n1,1,5,10\n")
    return folder


def test_features_are_the_schema():
    assert FEATURES.arrow_schema.remove_metadata() == ENGAGEMENT_SCHEMA


def test_builders_work_as_datasets_builders_do(tmp_path):
    builder = Planted(dataset_name="planted", cache_dir=str(tmp_path), **SMALL)
    builder.download_and_prepare()
    dataset = builder.as_dataset(split="train")
    assert isinstance(dataset, datasets.Dataset)
    assert dataset.features == FEATURES
    assert len(dataset) == 240
    streamed = Planted(dataset_name="planted", cache_dir=str(tmp_path / "other"), **SMALL).as_streaming_dataset("train")
    assert list(streamed)[-1] == dataset[-1]


def test_the_second_load_reads_the_cached_copy(tmp_path, monkeypatch):
    first = load_engagements("planted", cache_dir=tmp_path, **SMALL)
    monkeypatch.setattr(Planted, "engagement_tables", None)
    assert load_engagements("planted", cache_dir=tmp_path, **SMALL).equals(first)
    assert first.schema == ENGAGEMENT_SCHEMA


def test_each_set_of_parameters_has_its_copy_and_defaults_count(tmp_path):
    def place(**parameters):
        return Planted(dataset_name="planted", cache_dir=str(tmp_path), **parameters).cache_dir

    assert place() == place(n_users=1000)
    assert len({place(), place(n_users=999), place(seed=1), place(noise_share=0.2)}) == 4


def test_a_changed_file_at_the_same_path_is_not_served_stale(tmp_path, movielens):
    def load():
        return load_engagements("movielens", source=movielens, cache_dir=tmp_path / "cache")["object_text"].to_pylist()

    assert load() == ["Heat (1995). Crime"]
    (movielens / "movies.csv").write_text("movieId,title,genres\n1,Heat (1995),Drama\n")
    assert load() == ["Heat (1995). Drama"]
    (movielens / "tags.csv").write_text("userId,movieId,tag,timestamp\n1,1,rain,10\n")
    assert load() == ["Heat (1995). Drama. Tags: rain"]


def test_the_same_content_elsewhere_is_the_same_copy(tmp_path, movielens):
    first = MovieLens(dataset_name="movielens", cache_dir=str(tmp_path), source=str(movielens)).cache_dir
    moved = movielens.rename(tmp_path / "moved")
    assert MovieLens(dataset_name="movielens", cache_dir=str(tmp_path), source=str(moved)).cache_dir == first


def test_errors_of_a_build_come_as_they_are_and_leave_nothing(tmp_path, movielens):
    (movielens / "ratings.csv").write_text("userId,movieId,rating,timestamp\n1,2,5,10\n")
    for _ in range(2):
        with pytest.raises(DataError, match=r"ratings\.csv: line 2: movieId '2' is not in movies\.csv"):
            load_engagements("movielens", source=movielens, cache_dir=tmp_path / "cache")
    assert not list((tmp_path / "cache").rglob("*.arrow"))


def test_unknown_parameter_lists_the_valid(tmp_path):
    with pytest.raises(ConfigError, match=r"no parameter 'n_user'\. Parameters: n_users, .* Did you mean 'n_users'\?"):
        build_engagements(Planted, "planted", parameters={"n_user": 3}, cache_dir=tmp_path)
    with pytest.raises(ConfigError, match=r"'demo' has no parameter 'x'\. Parameters: min_engagements\."):
        load_engagements("demo", x=1, cache_dir=tmp_path)


@pytest.mark.parametrize("value", ["5", 5.0, True, None])
def test_wrong_type(value, tmp_path):
    with pytest.raises(ConfigError, match=r"n_users is .*; it must be of type int"):
        load_engagements("planted", n_users=value, cache_dir=tmp_path)


def test_sources(tmp_path):
    with pytest.raises(ConfigError, match="comes with the package"):
        load_engagements("demo", source="x", cache_dir=tmp_path)
    with pytest.raises(ConfigError, match=r"source is missing: .*ratings\.csv"):
        load_engagements("movielens", cache_dir=tmp_path)
    with pytest.raises(DataError, match="no such file or folder"):
        load_engagements("movielens", source=tmp_path / "none", cache_dir=tmp_path)


def test_nothing_is_printed_and_progress_bars_are_left_as_they_were(tmp_path, capfd):
    assert not datasets.are_progress_bars_disabled()
    load_engagements("planted", cache_dir=tmp_path, **SMALL)
    assert capfd.readouterr() == ("", "")
    assert not datasets.are_progress_bars_disabled()


def test_two_processes_at_once_and_the_environments_cache(tmp_path):
    script = (
        "import sys; from gistbench.hf_datasets import *; "
        "print(fingerprint_engagements(load_engagements('planted', n_users=300)))"
    )
    running = [
        subprocess.Popen(
            [sys.executable, "-c", script],
            env={"HF_DATASETS_CACHE": str(tmp_path), "HOME": str(tmp_path), "PYTHONHASHSEED": str(seed), "PATH": ""},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for seed in range(2)
    ]
    results = [process.communicate() for process in running]
    expected = fingerprint_engagements(load_engagements("planted", n_users=300, cache_dir=tmp_path / "own"))
    assert results == [(f"{expected}\n", "")] * 2
    (info,) = (tmp_path / "planted").rglob("dataset_info.json")
    assert json.loads(info.read_text())["splits"]["train"]["num_examples"] == 90_000
