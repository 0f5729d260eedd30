"""Builders used directly, as builders of `datasets` are: prepared, streamed, in several processes, side by side."""

import logging

import datasets
import pyarrow as pa
import pytest
from gistbench.hf_datasets.builder import FEATURES, BuildReport, EngagementBuilder, build_report, prepare
from gistbench.hf_datasets.demo import Demo
from gistbench.hf_datasets.errors import ConfigError
from gistbench.hf_datasets.movielens import MovieLens
from gistbench.hf_datasets.planted import Planted
from gistbench.hf_datasets.registry import CONFIG_NAMES, config_record
from gistbench.hf_datasets.schema import fingerprint_engagements, newest_first, user_slices

from .small_configs import parameters_of, source_of


@pytest.fixture
def arguments(name, tmp_path):
    """Of the builder of a config, for few rows."""
    source = source_of(name, tmp_path)
    return parameters_of(name) | ({"source": str(source)} if source else {})


@pytest.fixture
def make(name, arguments, tmp_path):
    """Make the builder of a config, with a cache folder of that name."""

    def make_builder(cache="cache", **options):
        return config_record(name).builder(cache_dir=str(tmp_path / cache), **arguments, **options)

    return make_builder


def rows_of(builder):
    dataset = builder.as_dataset(split="train")
    assert isinstance(dataset, datasets.Dataset)
    assert dataset.features == builder.info.features
    return dataset.data.table.replace_schema_metadata()


every_config = pytest.mark.parametrize("name", CONFIG_NAMES)


@every_config
def test_prepared_streamed_and_by_two_processes(make, caplog):
    """All three give the same rows, and so does Parquet."""
    builder = make()
    builder.download_and_prepare()
    expected = rows_of(builder)
    assert expected.num_rows > 0

    stream = make("streamed").as_streaming_dataset(split="train")
    assert stream.features == builder.info.features
    assert pa.Table.from_pylist(list(stream), schema=expected.schema).equals(expected)

    with caplog.at_level(logging.WARNING):
        parallel = make("parallel")
        parallel.download_and_prepare(num_proc=2)
    assert rows_of(parallel).equals(expected)
    assert parallel.info.splits["train"].num_examples == expected.num_rows


@every_config
def test_what_was_left_out_is_kept_beside_the_rows(make):
    builder = make()
    builder.download_and_prepare(num_proc=2)
    if isinstance(builder, EngagementBuilder):
        report = build_report(builder)
        assert report.n_rows == builder.info.splits["train"].num_examples
        assert build_report(make()) == report


@every_config
def test_as_parquet(name, make, tmp_path):
    make().download_and_prepare(output_dir=str(tmp_path / "out"), file_format="parquet")
    files, cache = str(tmp_path / "out" / "*.parquet"), str(tmp_path / "loaded")
    loaded = datasets.load_dataset("parquet", data_files=files, split="train", cache_dir=cache)
    builder = make()
    builder.download_and_prepare()
    assert loaded.data.table.replace_schema_metadata().equals(rows_of(builder))


@pytest.mark.parametrize("dataset_name", [None, "gistbench"])
def test_two_builders_with_one_config_name_never_return_each_others_rows(dataset_name, tmp_path):
    found = {}
    for name in CONFIG_NAMES:
        try:
            source = source_of(name, tmp_path)
        except pytest.skip.Exception:
            continue
        given = parameters_of(name) | ({"source": str(source)} if source else {})
        builder_class = config_record(name).builder
        builder = builder_class(
            cache_dir=str(tmp_path / "cache"), config_name="default", dataset_name=dataset_name, **given
        )
        assert builder.config.name == "default"
        builder.download_and_prepare()
        alone = builder_class(cache_dir=str(tmp_path / "alone" / name), **given)
        alone.download_and_prepare()
        assert rows_of(builder).equals(rows_of(alone)), name
        found[name] = builder.cache_dir
    assert len(set(found.values())) == len(found)


def test_two_processes_share_the_blocks_of_users(tmp_path):
    def rows(**options):
        parameters = {"n_users": 2500, "n_engagements_per_user": 40, "n_interests_per_user": 2}
        builder = prepare(Planted, "planted", cache_dir=tmp_path / str(options), parameters=parameters, **options)
        table = builder.as_dataset(split="train").data.table
        assert build_report(builder) == BuildReport(100_000, 2500, 0, 0)
        return table

    one, two = rows(), rows(num_proc=2)
    assert fingerprint_engagements(one) == fingerprint_engagements(two)
    assert newest_first(two) is two
    assert len(user_slices(two)) == 2500


def test_report_of_what_is_not_built_yet(tmp_path):
    with pytest.raises(ConfigError, match="has not been built yet"):
        build_report(Demo(cache_dir=str(tmp_path)))


def test_options_that_all_datasets_have(tmp_path):
    with pytest.raises(ConfigError, match="min_engagements is 0"):
        Demo(cache_dir=str(tmp_path), min_engagements=0)
    with pytest.raises(ConfigError, match="on_error is 'ignore'; it must be one of raise, skip"):
        MovieLens(cache_dir=str(tmp_path), on_error="ignore", source=str(source_of("movielens", tmp_path)))
    with pytest.raises(ConfigError, match=r"min_engagements=81 leaves out all users"):
        Planted(cache_dir=str(tmp_path), min_engagements=81, n_engagements_per_user=80)


def test_features():
    assert Demo(dataset_name="demo").info.features == FEATURES
