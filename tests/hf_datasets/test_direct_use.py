"""Builders used directly, as builders of `datasets` are: prepared, streamed, in several processes, side by side."""

import logging

import datasets
import pytest
from gistbench.hf_datasets.builder import FEATURES, BuildReport, build_report, prepare
from gistbench.hf_datasets.demo import Demo
from gistbench.hf_datasets.errors import ConfigError
from gistbench.hf_datasets.goodbooks import Goodbooks
from gistbench.hf_datasets.goodbooks_ratings import GoodbooksRatings
from gistbench.hf_datasets.movielens import MovieLens
from gistbench.hf_datasets.movielens_ratings import MovieLensRatings
from gistbench.hf_datasets.planted import Planted
from gistbench.hf_datasets.schema import fingerprint_engagements, newest_first, user_slices
from gistbench.hf_datasets.synthetic import Synthetic
from gistbench.hf_datasets.taxonomy_open import TaxonomyOpen

from .test_synthetic import write as write_synthetic


@pytest.fixture
def sources(tmp_path):
    """Every builder with arguments that make a few rows."""
    ml, gb = tmp_path / "ml", tmp_path / "gb"
    ml.mkdir()
    gb.mkdir()
    (ml / "movies.csv").write_text("movieId,title,genres\n1,Heat (1995),Crime\n2,Up,\n")
    (ml / "ratings.csv").write_text("userId,movieId,rating,timestamp\n2,1,5,10\n1,1,3,10\n1,2,3,11\n")
    (gb / "books.csv").write_text(
        "book_id,goodreads_book_id,title,authors,original_publication_year\n1,5,Emma,Jane Austen,1815\n"
    )
    (gb / "ratings.csv").write_text("user_id,book_id,rating\n1,1,5\n")
    synthetic = write_synthetic(tmp_path / "s.parquet")
    return {
        Demo: ({}, 1158),
        Planted: ({"n_users": 2, "n_engagements_per_user": 80}, 160),
        MovieLens: ({"source": str(ml)}, 3),
        MovieLensRatings: ({"source": str(ml)}, 3),
        Goodbooks: ({"source": str(gb)}, 1),
        GoodbooksRatings: ({"source": str(gb)}, 1),
        Synthetic: ({"source": str(synthetic), "min_engagements": 1}, 4),
        TaxonomyOpen: ({}, 327),
    }


def test_prepared(sources, tmp_path):
    for builder_class, (arguments, n_rows) in sources.items():
        builder = builder_class(cache_dir=str(tmp_path / "cache"), **arguments)
        builder.download_and_prepare()
        dataset = builder.as_dataset(split="train")
        assert isinstance(dataset, datasets.Dataset)
        assert len(dataset) == n_rows, builder_class
        assert dataset.features == builder.info.features
        if builder_class is not TaxonomyOpen:
            again = builder_class(cache_dir=str(tmp_path / "cache"), **arguments)
            assert build_report(again) == build_report(builder)  # kept beside the rows
            assert build_report(again).n_rows == n_rows


def test_streamed(sources, tmp_path):
    for builder_class, (arguments, n_rows) in sources.items():
        builder = builder_class(cache_dir=str(tmp_path / "cache"), **arguments)
        streamed = builder.as_streaming_dataset(split="train")
        rows = list(streamed)
        assert len(rows) == n_rows, builder_class
        builder.download_and_prepare()
        assert list(builder.as_dataset(split="train")) == rows


def test_as_parquet(sources, tmp_path):
    arguments, n_rows = sources[MovieLens]
    prepare(
        MovieLens,
        "movielens",
        source=arguments["source"],
        cache_dir=tmp_path / "cache",
        output_dir=str(tmp_path / "out"),
        file_format="parquet",
    )
    loaded = datasets.load_dataset(
        "parquet", data_files=str(tmp_path / "out" / "*.parquet"), split="train", cache_dir=str(tmp_path / "cache")
    )
    assert len(loaded) == n_rows


def test_two_builders_with_one_config_name_never_return_each_others_rows(sources, tmp_path):
    for dataset_name in (None, "gistbench"):
        found = {}
        for builder_class, (arguments, n_rows) in sources.items():
            builder = builder_class(
                cache_dir=str(tmp_path / "cache"), config_name="default", dataset_name=dataset_name, **arguments
            )
            assert builder.config.name == "default"
            builder.download_and_prepare()
            found[builder.cache_dir] = len(builder.as_dataset(split="train"))
            assert found[builder.cache_dir] == n_rows
        assert len(found) == len(sources)


def test_two_processes_give_the_same_rows(tmp_path):
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


def test_more_processes_than_there_are_parts(sources, tmp_path, caplog):
    arguments, n_rows = sources[MovieLens]
    builder = MovieLens(cache_dir=str(tmp_path), **arguments)
    with caplog.at_level(logging.WARNING):
        builder.download_and_prepare(num_proc=2)
    assert len(builder.as_dataset(split="train")) == n_rows
    assert build_report(builder).n_rows == n_rows


def test_report_of_what_is_not_built_yet(tmp_path):
    with pytest.raises(ConfigError, match="has not been built yet"):
        build_report(Demo(cache_dir=str(tmp_path)))


def test_options_that_all_datasets_have(sources, tmp_path):
    with pytest.raises(ConfigError, match="min_engagements is 0"):
        Demo(cache_dir=str(tmp_path), min_engagements=0)
    with pytest.raises(ConfigError, match="on_error is 'ignore'; it must be one of raise, skip"):
        MovieLens(cache_dir=str(tmp_path), on_error="ignore", **sources[MovieLens][0])
    with pytest.raises(ConfigError, match=r"min_engagements=81 leaves out all users"):
        Planted(cache_dir=str(tmp_path), min_engagements=81, **sources[Planted][0])


def test_features():
    assert Demo(dataset_name="demo").info.features == FEATURES
