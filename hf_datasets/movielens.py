"""The `movielens` dataset: ratings of films, from the files that GroupLens publishes.

Reads the format of MovieLens 20M and later (32M, latest, latest-small): ``ratings.csv``, ``movies.csv`` and, as an
option, ``tags.csv``, in a folder or in the zip file as downloaded. The files are the user's: GroupLens allows research
but no redistribution, so nothing of them is shipped or published.

The paper does not say where ratings become signals. Ours: 4 and more is an explicit positive, 3 and more an implicit
positive, less an explicit negative; both limits are parameters.
"""

import hashlib
import json
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, ClassVar

import datasets
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .builder import EngagementBuilder, EngagementConfig, sha256_of_file
from .errors import ConfigError, DataError
from .files import Opener, read_csv_columns
from .registry import DatasetRecord
from .schema import ENGAGEMENT_SCHEMA

__all__ = ["RECORD", "MovieLens", "MovieLensConfig", "movie_texts"]

_REQUIRED = ("ratings.csv", "movies.csv")
_OPTIONAL = ("tags.csv",)
_BATCH_ROWS = 1_000_000


@dataclass
class MovieLensConfig(EngagementConfig):
    """How ratings become signals, and what the text of a film holds."""

    needs_source: ClassVar[str] = (
        "a MovieLens folder or .zip with ratings.csv, movies.csv and, as an option, tags.csv "
        "(https://grouplens.org/datasets/movielens/)"
    )

    explicit_positive_min: float = 4.0
    """Lowest rating (0.5 to 5) that is an explicit positive."""
    implicit_positive_min: float = 3.0
    """Lowest rating that is an implicit positive; lower ones are explicit negatives."""
    n_top_tags: int = 5
    """Tags in a film's text: the most frequent ones, those of equal frequency in alphabetical order."""

    def check(self) -> None:
        """Check the order of the limits and the number of tags."""
        if self.implicit_positive_min > self.explicit_positive_min:
            raise ConfigError(
                f"implicit_positive_min={self.implicit_positive_min} is above "
                f"explicit_positive_min={self.explicit_positive_min}: no rating would be an implicit positive."
            )
        if self.n_top_tags < 0:
            raise ConfigError(f"n_top_tags is {self.n_top_tags}; it must be 0 or more.")

    def source_sha256(self) -> str:
        """Return the hash of the files that are read, or of the zip file that holds them."""
        path = Path(self.source or "").expanduser()
        openers = _locate(path)
        if path.is_file():
            return sha256_of_file(path)
        hashes = {name: sha256_of_file(_folder_of(path) / name) for name in sorted(openers)}
        return hashlib.sha256(json.dumps(hashes).encode()).hexdigest()


class MovieLens(EngagementBuilder):
    """Builder of `movielens`."""

    VERSION = datasets.Version("1.0.0")
    BUILDER_CONFIG_CLASS = MovieLensConfig

    def engagement_tables(self) -> Iterable[pa.Table]:
        """Yield the ratings as engagements, in the order of ratings.csv."""
        config: MovieLensConfig = self.config
        files = _locate(Path(config.source or "").expanduser())
        text = pa.string()
        movies = _read(files, "movies.csv", {"movieId": text, "title": text, "genres": text}, config)
        tags = None
        if "tags.csv" in files and config.n_top_tags:
            tags = _read(files, "tags.csv", {"movieId": text, "tag": text}, config)
        ratings = _read(
            files,
            "ratings.csv",
            {"userId": text, "movieId": text, "rating": pa.float64(), "timestamp": pa.float64()},
            config,
        )
        movie_ids = movies["movieId"].combine_chunks()
        if len(pc.unique(movie_ids)) < len(movie_ids):
            counts = pc.value_counts(movie_ids)
            repeated = counts.filter(pc.greater(counts.field("counts"), 1))[0]["values"].as_py()
            raise DataError(f"{config.source}: movies.csv has movieId {repeated!r} more than once; it must be unique.")
        if (missing := ratings["rating"].null_count + pc.sum(pc.is_nan(ratings["rating"])).as_py()) > 0:
            raise DataError(f"{config.source}: ratings.csv has {missing} rows without a rating.")
        places = pc.index_in(ratings["movieId"], value_set=movie_ids)
        if places.null_count:
            first = ratings["movieId"].filter(pc.is_null(places))[0].as_py()
            raise DataError(
                f"{config.source}: {places.null_count} of {len(places)} ratings are of movies that movies.csv lacks; "
                f"the first is movieId {first!r}. The two files must be of the same release."
            )
        texts = movie_texts(movies, tags, config.n_top_tags)
        for start in range(0, ratings.num_rows, _BATCH_ROWS):
            batch = ratings.slice(start, _BATCH_ROWS)
            yield pa.table(
                [
                    batch["userId"],
                    batch["movieId"],
                    texts.take(places.slice(start, _BATCH_ROWS)),
                    _signals(batch["rating"], config),
                    batch["timestamp"],
                ],
                schema=ENGAGEMENT_SCHEMA,
            )


def movie_texts(movies: pa.Table, tags: pa.Table | None, n_top_tags: int) -> pa.Array:
    """Return one text per film: ``Toy Story (1995). Animation, Comedy. Tags: pixar, fun``.

    Args:
        movies: (films, >= 3) with the text columns ``movieId`` (unique), ``title`` and ``genres`` (``|`` between).
        tags: (tags, >= 2) with the text columns ``movieId`` and ``tag``, or None. Tags that differ in case or white
            space only are one.
        n_top_tags: the most tags that a text holds.
    """
    titles = pc.utf8_trim_whitespace(movies["title"])
    genres = pc.replace_substring(pc.utf8_trim_whitespace(movies["genres"]), "|", ", ")
    unknown = pc.is_in(genres, value_set=pa.array(["", "(no genres listed)"]))
    parts = [titles, pc.if_else(unknown, None, genres)]
    if tags is not None:
        parts.append(_top_tags(movies["movieId"].combine_chunks(), tags, n_top_tags))
    return pc.binary_join_element_wise(*parts, ". ", null_handling="skip").combine_chunks()


def _top_tags(movie_ids: pa.Array, tags: pa.Table, n: int) -> pa.ChunkedArray:
    """Return ``Tags: a, b`` for each film, null for those without tags."""
    encoded = tags["tag"].combine_chunks().dictionary_encode()
    folded = pa.array([" ".join(tag.casefold().split()) for tag in encoded.dictionary.to_pylist()], pa.string())
    table = pa.table({"movie": pc.index_in(tags["movieId"], value_set=movie_ids), "tag": folded.take(encoded.indices)})
    table = table.filter(pc.and_(pc.is_valid(table["movie"]), pc.not_equal(table["tag"], "")))
    counted = table.group_by(["movie", "tag"]).aggregate([([], "count_all")])
    counted = counted.sort_by([("movie", "ascending"), ("count_all", "descending"), ("tag", "ascending")])
    movies = counted["movie"].to_numpy()
    starts = np.searchsorted(movies, np.arange(len(movie_ids) + 1))
    kept = counted.filter(pa.array(np.arange(len(movies)) - starts[movies] < n))
    offsets = np.concatenate([[0], np.cumsum(np.minimum(np.diff(starts), n))]).astype(np.int32)
    lists = pa.ListArray.from_arrays(pa.array(offsets), kept["tag"].combine_chunks())
    joined = pc.binary_join_element_wise("Tags: ", pc.binary_join(lists, ", "), "")
    return pa.chunked_array([pc.if_else(pc.equal(joined, "Tags: "), None, joined)])


def _signals(ratings: pa.ChunkedArray, config: MovieLensConfig) -> pa.ChunkedArray:
    positive = pc.if_else(
        pc.greater_equal(ratings, config.explicit_positive_min), "explicit_positive", "implicit_positive"
    )
    return pc.if_else(pc.greater_equal(ratings, config.implicit_positive_min), positive, "explicit_negative")


def _read(
    files: Mapping[str, Opener], name: str, columns: Mapping[str, pa.DataType], config: MovieLensConfig
) -> pa.Table:
    table = read_csv_columns(files[name], columns, source=f"{config.source}: {name}")
    if not table.num_rows and name in _REQUIRED:
        raise DataError(f"{config.source}: {name} has a header but no rows.")
    return table


def _locate(source: Path) -> dict[str, Opener]:
    """Find the files in a folder, a sub-folder of it, or a zip file."""
    if source.is_dir():
        folder = _folder_of(source)
        return {name: partial(_open_file, folder / name) for name in _present(p.name for p in folder.iterdir())}
    if not source.is_file():
        raise DataError(f"{source}: no such file or folder. Needed: {MovieLensConfig.needs_source}.")
    try:
        with zipfile.ZipFile(source) as archive:
            members = [name for name in archive.namelist() if not name.startswith("__MACOSX/")]
    except zipfile.BadZipFile as error:
        raise DataError(f"{source}: not a zip file ({error}). Needed: {MovieLensConfig.needs_source}.") from error
    folders = [name.removesuffix(_REQUIRED[0]) for name in members if name.split("/")[-1] == _REQUIRED[0]]
    prefix = _the_only([folder for folder in folders if folder + _REQUIRED[1] in members], source)
    inside = _present(name.removeprefix(prefix) for name in members if name.startswith(prefix))
    return {name: partial(_open_member, source, prefix + name) for name in inside}


def _folder_of(source: Path) -> Path:
    candidates = [source, *sorted(path for path in source.iterdir() if path.is_dir())]
    complete = [str(path) for path in candidates if all((path / name).is_file() for name in _REQUIRED)]
    return Path(_the_only(complete, source))


def _the_only(complete: list[str], source: Path) -> str:
    if not complete:
        raise DataError(
            f"{source}: {' and '.join(_REQUIRED)} were not found together, neither there nor one folder below. "
            f"Needed: {MovieLensConfig.needs_source}."
        )
    if len(complete) > 1:
        raise DataError(f"{source}: holds several MovieLens releases ({', '.join(complete)}). Name one of them.")
    return complete[0]


def _present(names: Iterable[str]) -> list[str]:
    found = set(names)
    return [name for name in (*_REQUIRED, *_OPTIONAL) if name in found]


def _open_file(path: Path) -> IO[bytes]:
    return path.open("rb")


def _open_member(archive: Path, member: str) -> IO[bytes]:
    with zipfile.ZipFile(archive) as opened:
        return opened.open(member)


RECORD = DatasetRecord(
    name="movielens",
    title="MovieLens",
    summary="Ratings of films with titles, genres and tags, from a MovieLens release (20M and later) on your disk.",
    signals=("explicit_positive", "implicit_positive", "explicit_negative"),
    licence="GroupLens terms of use: research, with acknowledgement; no redistribution without permission",
    builder=MovieLens,
    citation=(
        "F. Maxwell Harper and Joseph A. Konstan. 2015. The MovieLens Datasets: History and Context. ACM Transactions "
        "on Interactive Intelligent Systems 5, 4, Article 19. https://doi.org/10.1145/2827872"
    ),
    homepage="https://grouplens.org/datasets/movielens/",
)
