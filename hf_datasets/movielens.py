"""The `movielens` dataset: ratings of films, from the files that GroupLens publishes.

Three layouts, in a folder or in the zip file as downloaded:

* MovieLens 20M and later (32M, latest, latest-small): ``ratings.csv``, ``movies.csv`` and, as an option, ``tags.csv``;
* MovieLens 100K: ``u.data`` and ``u.item`` (Latin-1, no headers);
* RecBole's atomic files: ``*.inter`` and ``*.item``, tab-separated with typed headers (``user_id:token``).

Any of them may have a ``plots.csv`` or ``plots.tsv`` beside it (``movieId``, ``plot``), written by the user. The files
are the user's: GroupLens allows research but no redistribution, so nothing of them is shipped or published.

Where ratings become signals is ours, see :mod:`gistbench.hf_datasets.signals`.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import datasets
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .builder import EngagementBuilder, EngagementConfig
from .errors import ConfigError, DataError
from .plots import PLOTS_FILES, add_plots, check_plots, plots_of
from .raw import LINE, BadRows, Layout, keep_rows, read_delimited, read_whole, unique_rows
from .registry import DatasetRecord
from .schema import ENGAGEMENT_SCHEMA
from .signals import RATING_SIGNALS, check_rating_limits, check_ratings, rating_signals

__all__ = [
    "RECORD",
    "MovieLens",
    "MovieLensConfig",
    "MovieLensSource",
    "movie_texts",
    "movielens_items",
    "movielens_ratings",
]

LATEST = Layout("MovieLens 20M and later", ("ratings.csv", "movies.csv"), ("tags.csv", *PLOTS_FILES))
ML_100K = Layout("MovieLens 100K", ("u.data", "u.item"), PLOTS_FILES)
ATOMIC = Layout("RecBole's atomic files", ("*.inter", "*.item"), PLOTS_FILES)

_GENRES = (
    "unknown", "Action", "Adventure", "Animation", "Children's", "Comedy", "Crime", "Documentary", "Drama", "Fantasy",
    "Film-Noir", "Horror", "Musical", "Mystery", "Romance", "Sci-Fi", "Thriller", "War", "Western",
)  # fmt: skip
"""The 0/1 columns of u.item, in their order (u.genre)."""
_TEXT, _NUMBER = pa.string(), pa.float64()


class MovieLensSource(EngagementConfig):
    """The files of MovieLens as the source of a config."""

    needs_source: ClassVar[str] = (
        "a MovieLens folder or .zip with ratings.csv, movies.csv and, as an option, tags.csv; or with u.data and "
        "u.item (100K); or with RecBole's .inter and .item (https://grouplens.org/datasets/movielens/)"
    )
    layouts: ClassVar[tuple[Layout, ...]] = (LATEST, ML_100K, ATOMIC)


@dataclass
class MovieLensConfig(MovieLensSource):
    """How ratings become signals, and what the text of a film holds."""

    explicit_positive_min: float = 4.0
    """Lowest rating (0.5 to 5) that is an explicit positive."""
    implicit_positive_min: float = 3.0
    """Lowest rating that is an implicit positive; lower ones are explicit negatives."""
    n_top_tags: int = 5
    """Tags in a film's text: the most frequent ones, those of equal frequency in alphabetical order."""
    plots: bool = False
    """Add the plot of the plots file to a film's text."""

    def check(self) -> None:
        """Check the order of the limits and the number of tags."""
        check_rating_limits(self.explicit_positive_min, self.implicit_positive_min)
        if self.n_top_tags < 0:
            raise ConfigError(f"n_top_tags is {self.n_top_tags}; it must be 0 or more.")
        if self.plots:
            check_plots(self)


class MovieLens(EngagementBuilder):
    """Builder of `movielens`."""

    VERSION = datasets.Version("2.0.0")
    BUILDER_CONFIG_CLASS = MovieLensConfig

    def engagement_tables(self) -> Iterable[pa.Table]:
        """Yield the ratings as engagements, in the order of the file."""
        config: MovieLensConfig = self.config
        movies, name = _movies(config, self.bad_rows)
        movie_ids = movies["movieId"].combine_chunks()
        texts = movie_texts(movies, _tags(config, self.bad_rows), config.n_top_tags)
        texts = add_plots(texts, movie_ids, config, "movieId", self.bad_rows) if config.plots else texts
        for ratings in movielens_ratings(config, self.bad_rows):
            places = pc.index_in(ratings["item"], value_set=movie_ids)
            if places.null_count:
                unknown = ratings.filter(pc.is_null(places))
                for line, movie in zip(unknown[LINE].to_pylist(), unknown["item"].to_pylist(), strict=True):
                    self.bad_rows.reject(
                        _ratings_source(config),
                        line,
                        f"movieId {movie!r} is not in {name}. The two files must be of the same release.",
                    )
                ratings, places = ratings.filter(pc.is_valid(places)), places.drop_null()
            yield pa.table(
                [
                    ratings["user"],
                    ratings["item"],
                    texts.take(places),
                    rating_signals(ratings["rating"], config.explicit_positive_min, config.implicit_positive_min),
                    ratings["time"],
                ],
                schema=ENGAGEMENT_SCHEMA,
            )


def movielens_ratings(config: EngagementConfig, bad_rows: BadRows) -> Iterator[pa.Table]:
    """Yield the ratings of any layout: ``user``, ``item``, ``rating`` (0.5 to 5), ``time`` (may be null), line."""
    layout = config.found[0]
    written: dict[str, Any] = {}
    if layout == ATOMIC:
        names, written = ("user_id:token", "item_id:token", "rating:float", "timestamp:float"), _ATOMIC_WRITTEN
    elif layout == ML_100K:
        names = ("user", "item", "rating", "time")
        written = {"names": names, "delimiter": "\t", "quoted": False}
    else:
        names = ("userId", "movieId", "rating", "timestamp")
    file = config.raw_file(_ratings_name(config), **written)
    kinds = dict(zip(names, (_TEXT, _TEXT, _NUMBER, _NUMBER), strict=True))
    any_rows = False
    for batch in read_delimited(file, kinds, bad_rows):
        any_rows = True
        batch = check_ratings(batch, file.source, bad_rows, rating=names[2], time=names[3])
        yield batch.rename_columns(["user", "item", "rating", "time", LINE])
    if not any_rows:
        raise DataError(f"{file.source} has a header but no rows.")


def movielens_items(config: EngagementConfig, bad_rows: BadRows) -> pa.Table:
    """Return ``item``, ``title``, ``year``, ``genres``, ``plot`` of every film of any layout; unknown ones are null."""
    movies, _ = _movies(config, bad_rows)
    ids = movies["movieId"].combine_chunks()
    parts = pc.extract_regex(pc.utf8_trim_whitespace(movies["title"]), r"^(?P<title>.*\S)\s*\((?P<year>\d{4})\)$")
    return pa.table(
        {
            "item": ids,
            "title": pc.coalesce(pc.struct_field(parts, "title"), pc.utf8_trim_whitespace(movies["title"])),
            "year": pc.struct_field(parts, "year"),
            "genres": _genres(movies),
            "plot": plots_of(ids, config, "movieId", bad_rows),
        }
    )


_ATOMIC_WRITTEN: dict[str, Any] = {"delimiter": "\t", "quoted": False}


def _ratings_name(config: EngagementConfig) -> str:
    return config.found[0].required[0]


def _ratings_source(config: EngagementConfig) -> str:
    return config.raw_file(_ratings_name(config)).source


def _movies(config: EngagementConfig, bad_rows: BadRows) -> tuple[pa.Table, str]:
    """Return ``movieId``, ``title``, ``genres`` (``|`` between) of every film, and the name of their file."""
    layout = config.found[0]
    name = layout.required[1]
    if layout == ML_100K:
        all_names = ("movieId", "title", "released", "video", "url", *_GENRES)
        file = config.raw_file(name, names=all_names, delimiter="|", quoted=False, encoding="latin-1")
        flags = dict.fromkeys(_GENRES, pa.int64())
        movies = read_whole(read_delimited(file, {"movieId": _TEXT, "title": _TEXT, **flags}, bad_rows), file.source)
        rows = zip(*(movies[genre].to_pylist() for genre in _GENRES[1:]), strict=True)
        # Not with binary_join_element_wise: it drops rows of which all parts are null.
        genres = ["|".join(genre for genre, flag in zip(_GENRES[1:], row, strict=True) if flag == 1) for row in rows]
        movies = movies.select(["movieId", "title", LINE]).add_column(2, "genres", pa.array(genres, _TEXT))
    elif layout == ATOMIC:
        file = config.raw_file(name, **_ATOMIC_WRITTEN)
        names = ("item_id:token", "movie_title:token_seq", "class:token_seq")
        year = "release_year:token"
        movies = read_whole(read_delimited(file, dict.fromkeys((*names, year), _TEXT), bad_rows), file.source)
        # RecBole takes the year out of the title; films without one have an empty or odd year.
        known = pc.match_substring_regex(movies[year], r"^\d{4}$")
        title = pc.if_else(
            known, pc.binary_join_element_wise(movies[names[1]], " (", movies[year], ")", ""), movies[names[1]]
        )
        genres = pc.replace_substring(pc.if_else(pc.equal(movies[names[2]], "unknown"), "", movies[names[2]]), " ", "|")
        movies = pa.table([movies[names[0]], title, genres, movies[LINE]], names=["movieId", "title", "genres", LINE])
    else:
        file = config.raw_file(name)
        kinds = dict.fromkeys(("movieId", "title", "genres"), _TEXT)
        movies = read_whole(read_delimited(file, kinds, bad_rows), file.source)
    titled = pc.not_equal(pc.utf8_trim_whitespace(movies["title"]), "")
    movies = keep_rows(movies, titled, "a title was expected", "title", file.source, bad_rows)
    return unique_rows(movies, "movieId", file.source, bad_rows), name


def _tags(config: MovieLensConfig, bad_rows: BadRows) -> pa.Table | None:
    if "tags.csv" not in config.found[1] or not config.n_top_tags:
        return None
    batches = list(read_delimited(config.raw_file("tags.csv"), {"movieId": _TEXT, "tag": _TEXT}, bad_rows))
    return pa.concat_tables(batches) if batches else None


def movie_texts(movies: pa.Table, tags: pa.Table | None, n_top_tags: int) -> pa.Array:
    """Return one text per film: ``Toy Story (1995). Animation, Comedy. Tags: pixar, fun``.

    Args:
        movies: (films, >= 3) with the text columns ``movieId`` (unique), ``title`` and ``genres`` (``|`` between).
        tags: (tags, >= 2) with the text columns ``movieId`` and ``tag``, or None. Tags that differ in case or white
            space only are one.
        n_top_tags: the most tags that a text holds.
    """
    titles = pc.utf8_trim_whitespace(movies["title"])
    parts = [titles, _genres(movies)]
    if tags is not None:
        parts.append(_top_tags(movies["movieId"].combine_chunks(), tags, n_top_tags))
    return pc.binary_join_element_wise(*parts, ". ", null_handling="skip").combine_chunks()


def _genres(movies: pa.Table) -> pa.ChunkedArray:
    """Return the genres of each film with commas between, null where none are known."""
    genres = pc.replace_substring(pc.utf8_trim_whitespace(movies["genres"]), "|", ", ")
    return pc.if_else(pc.is_in(genres, value_set=pa.array(["", "(no genres listed)"])), None, genres)


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


RECORD = DatasetRecord(
    name="movielens",
    title="MovieLens",
    summary="Ratings of films with titles, genres and tags, from a MovieLens release on your disk.",
    signals=RATING_SIGNALS,
    licence="GroupLens terms of use: research, with acknowledgement; no redistribution without permission",
    builder=MovieLens,
    citation=(
        "F. Maxwell Harper and Joseph A. Konstan. 2015. The MovieLens Datasets: History and Context. ACM Transactions "
        "on Interactive Intelligent Systems 5, 4, Article 19. https://doi.org/10.1145/2827872"
    ),
    homepage="https://grouplens.org/datasets/movielens/",
)
