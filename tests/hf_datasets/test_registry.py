import json

import pytest
from gistbench.hf_datasets.errors import ConfigError, DataError
from gistbench.hf_datasets.registry import (
    CONFIG_NAMES,
    DATASET_NAMES,
    TABLE_NAMES,
    config_record,
    dataset_record,
    list_datasets,
    load_engagements,
)
from gistbench.hf_datasets.schema import ENGAGEMENT_SCHEMA, INTERACTION_TYPES
from gistbench.hf_datasets.taxonomy import TAXONOMY_NAMES

ROW = {"user_id": 1, "object_id": 2, "object_text": "t", "interaction_type": "explicit_positive"}


def test_records_are_complete():
    assert tuple(record.name for record in list_datasets()) == DATASET_NAMES
    for name in CONFIG_NAMES:
        record = config_record(name)
        assert record.name == name
        assert bool(record.signals) == (name in DATASET_NAMES)
        assert isinstance(record.redistributable, bool)
        assert record.title
        assert record.summary
        assert record.licence
        assert set(record.signals) <= set(INTERACTION_TYPES)
        assert record.taxonomy in TAXONOMY_NAMES
        assert record.version.count(".") == 2
        assert record.builder.__module__.rsplit(".", 1)[1] == record.name  # one module per builder


def test_names():
    assert (*DATASET_NAMES, *TABLE_NAMES) == CONFIG_NAMES
    with pytest.raises(ConfigError, match="No dataset is called 'taxonomy_open'"):
        dataset_record("taxonomy_open")
    with pytest.raises(ConfigError, match=r"Did you mean 'taxonomy_open'\?"):
        config_record("taxonomy_opn")


def test_what_may_be_passed_on():
    assert not config_record("movielens").redistributable
    assert not config_record("movielens_ratings").redistributable
    assert {name for name in ("demo", "planted", "synthetic", "goodbooks") if config_record(name).redistributable} == {
        "demo",
        "planted",
        "synthetic",
        "goodbooks",
    }


def test_parameters_and_sources():
    assert dataset_record("demo").parameters == {"min_engagements": 1}
    assert dataset_record("demo").needs_source == ""
    assert dataset_record("planted").parameters["n_users"] == 1000
    assert dataset_record("movielens").parameters == {
        "explicit_positive_min": 4.0,
        "implicit_positive_min": 3.0,
        "n_top_tags": 5,
        "plots": False,
        "min_engagements": 1,
        "on_error": "raise",
    }
    assert dataset_record("synthetic").parameters == {"revision": "main", "min_engagements": 100, "on_error": "raise"}
    assert "ratings.csv" in dataset_record("movielens").needs_source


@pytest.mark.parametrize("load", [dataset_record, load_engagements])
def test_unknown_name_lists_all_and_suggests(load):
    with pytest.raises(ConfigError, match=r"demo, planted, .*movielens.* Did you mean 'movielens'\?"):
        load("MovieLense")


def test_file_by_path(tmp_path):
    path = tmp_path / "mine.json"
    path.write_text(json.dumps([ROW]))
    table = load_engagements(path)
    assert table.schema == ENGAGEMENT_SCHEMA
    assert table["user_id"].to_pylist() == ["1"]
    assert load_engagements(str(path)).equals(table)


def test_a_bad_file_is_named(tmp_path):
    path = tmp_path / "mine.json"
    path.write_text(json.dumps([ROW | {"interaction_type": "liked"}]))
    with pytest.raises(DataError, match=r"mine\.json: row 1: interaction_type is 'liked'"):
        load_engagements(path)


def test_parameters_do_not_go_with_a_file(tmp_path):
    path = tmp_path / "mine.json"
    path.write_text(json.dumps([ROW]))
    with pytest.raises(ConfigError, match="source, n_users: these go with a named dataset"):
        load_engagements(path, source="x", n_users=3)


def test_a_name_goes_before_a_file_of_that_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "demo").mkdir()
    assert load_engagements("demo", cache_dir=tmp_path / "cache").num_rows > 1000
    with pytest.raises(DataError, match=r"no \.parquet file"):
        load_engagements("./demo")
