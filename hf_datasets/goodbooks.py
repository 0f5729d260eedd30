"""The `goodbooks` dataset: ratings of ten thousand books, from the files of Goodbooks-10k.

Reads ``ratings.csv``, ``books.csv`` and, as an option, ``tags.csv`` with ``book_tags.csv`` (both or none), and a
``plots.csv`` or ``plots.tsv`` (``book_id``, ``plot``) written by the user; in a folder or zip. There are no times, but
ratings.csv is sorted by time, as its authors say: a rating's line stands for its time.

Where ratings become signals is ours, see :mod:`gistbench.hf_datasets.signals`.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar

import datasets
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
    "PERSONAL_SHELVES",
    "RECORD",
    "Goodbooks",
    "GoodbooksConfig",
    "GoodbooksSource",
    "book_texts",
    "goodbooks_items",
    "goodbooks_ratings",
]

PERSONAL_SHELVES: frozenset[str] = frozenset({
    "to-read", "currently-reading", "read", "re-read", "reread", "did-not-finish", "dnf", "abandoned", "unfinished",
    "favorites", "favourites", "favorite", "favourite", "all-time-favorites", "owned", "books-i-own", "owned-books",
    "i-own", "own-it", "my-books", "my-library", "library", "home-library", "default", "to-buy", "wish-list",
    "wishlist", "tbr", "maybe", "borrowed", "audio", "audiobook", "audiobooks", "audio-books", "ebook", "ebooks",
    "e-book", "e-books", "kindle", "kindle-books", "on-kindle", "paperback", "hardcover", "book-club", "bookclub",
    "books", "book", "novel", "novels", "series",
})  # fmt: skip
"""Tags that tell about the reader's shelf, not about the book (ours): left out of texts."""
_TEXT = pa.string()


class GoodbooksSource(EngagementConfig):
    """The files of Goodbooks-10k as the source of a config."""

    needs_source: ClassVar[str] = (
        "a Goodbooks-10k folder or .zip with ratings.csv, books.csv and, as an option, tags.csv and book_tags.csv "
        "(https://github.com/zygmuntz/goodbooks-10k)"
    )
    layouts: ClassVar[tuple[Layout, ...]] = (
        Layout("Goodbooks-10k", ("ratings.csv", "books.csv"), ("tags.csv", "book_tags.csv", *PLOTS_FILES)),
    )


@dataclass
class GoodbooksConfig(GoodbooksSource):
    """How ratings become signals, and what the text of a book holds."""

    explicit_positive_min: float = 4.0
    """Lowest rating (1 to 5) that is an explicit positive."""
    implicit_positive_min: float = 3.0
    """Lowest rating that is an implicit positive; lower ones are explicit negatives."""
    n_top_tags: int = 5
    """Tags in a book's text: those most often given, without :data:`PERSONAL_SHELVES`."""
    plots: bool = False
    """Add the plot of the plots file to a book's text."""

    def check(self) -> None:
        """Check the order of the limits, the number of tags and the files."""
        check_rating_limits(self.explicit_positive_min, self.implicit_positive_min)
        if self.n_top_tags < 0:
            raise ConfigError(f"n_top_tags is {self.n_top_tags}; it must be 0 or more.")
        if len(there := [name for name in ("tags.csv", "book_tags.csv") if name in self.found[1]]) == 1:
            raise DataError(f"{self.source}: {there[0]} is there alone; tags need tags.csv and book_tags.csv.")
        if self.plots:
            check_plots(self)


class Goodbooks(EngagementBuilder):
    """Builder of `goodbooks`."""

    VERSION = datasets.Version("1.0.0")
    BUILDER_CONFIG_CLASS = GoodbooksConfig

    def engagement_tables(self) -> Iterable[pa.Table]:
        """Yield the ratings as engagements, in the order of the file."""
        config: GoodbooksConfig = self.config
        ids, texts = book_texts(config, self.bad_rows)
        source = config.raw_file("ratings.csv").source
        for ratings in goodbooks_ratings(config, self.bad_rows):
            places = pc.index_in(ratings["item"], value_set=ids)
            if places.null_count:
                unknown = ratings.filter(pc.is_null(places))
                for line, book in zip(unknown[LINE].to_pylist(), unknown["item"].to_pylist(), strict=True):
                    self.bad_rows.reject(source, line, f"book_id {book!r} is not in books.csv.")
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


def goodbooks_ratings(config: EngagementConfig, bad_rows: BadRows) -> Iterator[pa.Table]:
    """Yield the ratings: ``user``, ``item``, ``rating`` (1 to 5), ``time`` (the line), line."""
    file = config.raw_file("ratings.csv")
    columns = {"user_id": _TEXT, "book_id": _TEXT, "rating": pa.float64()}
    any_rows = False
    for batch in read_delimited(file, columns, bad_rows):
        any_rows = True
        batch = check_ratings(batch, file.source, bad_rows, rating="rating", lowest=1.0)
        batch = batch.add_column(3, "time", batch[LINE].cast(pa.float64()))
        yield batch.rename_columns(["user", "item", "rating", "time", LINE])
    if not any_rows:
        raise DataError(f"{file.source} has a header but no rows.")


def book_texts(config: GoodbooksConfig, bad_rows: BadRows) -> tuple[pa.Array, pa.Array]:
    """Return the ids of all books, and their texts: ``Emma by Jane Austen (1815). Tags: classics, romance``."""
    books = _books(config, config.n_top_tags, bad_rows)
    by = pc.binary_join_element_wise("by ", books["authors"], "")
    year = pc.binary_join_element_wise("(", books["year"], ")", "")
    texts = pc.binary_join_element_wise(books["title"], by, year, " ", null_handling="skip")
    tags = pc.binary_join_element_wise("Tags: ", books["tags"], "")
    texts = pc.binary_join_element_wise(texts, tags, ". ", null_handling="skip")
    texts, ids = texts.combine_chunks(), books["item"].combine_chunks()
    return ids, add_plots(texts, ids, config, "book_id", bad_rows) if config.plots else texts


def goodbooks_items(config: EngagementConfig, bad_rows: BadRows) -> pa.Table:
    """Return ``item``, ``title``, ``authors``, ``year``, ``tags`` and ``plot`` of every book; unknown ones are null.

    There are no genres; the five tags that readers most often gave say what a book is.
    """
    books = _books(config, GoodbooksConfig.n_top_tags, bad_rows)
    return books.append_column("plot", plots_of(books["item"].combine_chunks(), config, "book_id", bad_rows))


def _books(config: EngagementConfig, n_top_tags: int, bad_rows: BadRows) -> pa.Table:
    """Return ``item``, ``title``, ``authors``, ``year`` and ``tags`` of every book."""
    file = config.raw_file("books.csv")
    names = ("book_id", "goodreads_book_id", "title", "authors", "original_publication_year")
    books = read_whole(read_delimited(file, dict.fromkeys(names, _TEXT), bad_rows), file.source)
    titled = pc.not_equal(pc.utf8_trim_whitespace(books["title"]), "")
    books = keep_rows(books, titled, "a title was expected", "title", file.source, bad_rows)
    books = unique_rows(books, "book_id", file.source, bad_rows)
    title, authors = (pc.utf8_trim_whitespace(books[name]) for name in ("title", "authors"))
    year = pc.replace_substring_regex(books["original_publication_year"], r"\.0$", "")
    tags = pa.nulls(books.num_rows, _TEXT)
    if n_top_tags and {"tags.csv", "book_tags.csv"} <= config.found[1].keys():
        tags = _top_tags(books["goodreads_book_id"].combine_chunks(), config, n_top_tags, bad_rows)
    columns = [books["book_id"], title, *(pc.if_else(pc.equal(one, ""), None, one) for one in (authors, year)), tags]
    return pa.table(columns, names=["item", "title", "authors", "year", "tags"])


def _top_tags(book_ids: pa.Array, config: EngagementConfig, n: int, bad_rows: BadRows) -> pa.Array:
    file = config.raw_file("tags.csv")
    tags = read_whole(read_delimited(file, {"tag_id": _TEXT, "tag_name": _TEXT}, bad_rows), file.source)
    tags = unique_rows(tags, "tag_id", file.source, bad_rows)
    shown = pa.array([_shown(name) for name in tags["tag_name"].to_pylist()], _TEXT)
    file = config.raw_file("book_tags.csv")
    columns = {"goodreads_book_id": _TEXT, "tag_id": _TEXT, "count": pa.float64()}
    given = read_whole(read_delimited(file, columns, bad_rows), file.source)
    table = pa.table(
        {
            "book": pc.index_in(given["goodreads_book_id"], value_set=book_ids),
            "tag": shown.take(pc.index_in(given["tag_id"], value_set=tags["tag_id"].combine_chunks())),
            "count": given["count"],
        }
    )
    table = table.filter(pc.and_(pc.is_valid(table["book"]), pc.is_valid(table["tag"])))
    counted = table.group_by(["book", "tag"]).aggregate([("count", "sum")])
    counted = counted.sort_by([("book", "ascending"), ("count_sum", "descending"), ("tag", "ascending")])
    texts: list[list[str]] = [[] for _ in range(len(book_ids))]
    for book, tag in zip(counted["book"].to_pylist(), counted["tag"].to_pylist(), strict=True):
        if len(texts[book]) < n:
            texts[book].append(tag)
    return pa.array([", ".join(names) or None for names in texts], _TEXT)


def _shown(name: str) -> str | None:
    """Return a tag as words, or None for one that says nothing about a book."""
    folded = name.casefold().strip()
    if folded in PERSONAL_SHELVES or not any(character.isalpha() for character in folded):
        return None
    return " ".join(folded.replace("-", " ").replace("_", " ").split())


RECORD = DatasetRecord(
    name="goodbooks",
    title="Goodbooks-10k",
    summary=(
        "Ratings of ten thousand books with titles, authors and tags, from the Goodbooks-10k files on your disk; the "
        "place in ratings.csv stands for the time."
    ),
    signals=RATING_SIGNALS,
    licence="CC BY-SA 4.0: may be passed on with attribution, under the same licence",
    redistributable=True,
    builder=Goodbooks,
    citation="Zygmunt Zając. 2017. Goodbooks-10k: a new dataset for book recommendations. FastML. http://fastml.com/goodbooks-10k",
    homepage="https://github.com/zygmuntz/goodbooks-10k",
)
