"""The `goodreads` dataset: ratings of books, from the files of the UCSD Book Graph (Wan and McAuley 2018).

Reads one ``goodreads_interactions*.json`` and its ``goodreads_books*.json`` (all books, or those of one genre) and,
as an option, ``goodreads_book_authors.json`` (books name their authors by ids only), plain or gzipped, in a folder.

A rating of 0 means that somebody put a book on a shelf and did not rate it. The signals of the paper's Table 1 are
ratings, so such rows are left out and counted; ``unrated_is_positive`` makes them implicit positives. Where stars
become signals is ours, see :mod:`gistbench.hf_datasets.signals`. An engagement's time is when the book was put on the
shelf.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import datasets
import pyarrow as pa
import pyarrow.compute as pc

from ._objects import ObjectTexts, describe_objects, engagements
from ._texts import clean, first_words, joined, listed
from ._times import parse_times
from .builder import EngagementBuilder, EngagementConfig
from .errors import ConfigError
from .raw import LINE, Layout, keep_rows, read_json_lines
from .registry import DatasetRecord
from .signals import RATING_SIGNALS, check_rating_limits, check_ratings, rating_signals

__all__ = ["RECORD", "Goodreads", "GoodreadsConfig", "book_text"]

_INTERACTIONS, _BOOKS, _AUTHORS = "goodreads_interactions*.json", "goodreads_books*.json", "goodreads_book_authors.json"
_TEXT = pa.string()
_INTERACTION_FIELDS = {"user_id": _TEXT, "book_id": _TEXT, "rating": pa.float64(), "date_added": _TEXT}
_BOOK_FIELDS = {
    "book_id": _TEXT,
    "title": _TEXT,
    "description": _TEXT,
    "authors": pa.list_(pa.struct([("author_id", _TEXT), ("role", _TEXT)])),
    "popular_shelves": pa.list_(pa.struct([("count", _TEXT), ("name", _TEXT)])),
}
_DATE = (
    r"[A-Z][a-z]{2} (?P<month>[A-Z][a-z]{2}) +(?P<day>\d{1,2}) "
    r"(?P<hour>\d{2}):(?P<minute>\d{2}):(?P<second>\d{2}) (?P<zone>[+-]\d{4}) (?P<year>\d{4})"
)
_SHELF_OF_A_READER = re.compile(
    r"(^|-)(read|reads|reading|reread|tbr|own|owned|have|mine|my|i|buy|bought|want|wish|wishlist|borrowed|library|shelf|"
    r"shelves|bookshelf|default|favorites?|favourites?|faves?|kindle|nook|ebooks?|e-books?|audio|audiobooks?|dnf|finish|"
    r"finished|unfinished|abandoned|maybe|\d{4})(-|$)"
)
"""Names of shelves that tell of a reader and not of a book: to-read, owned, favorites, read-in-2016."""


@dataclass
class GoodreadsConfig(EngagementConfig):
    """How stars become signals, and what the text of a book holds."""

    needs_source: ClassVar[str] = (
        "a folder with one goodreads_interactions*.json, its goodreads_books*.json and, as an option, "
        "goodreads_book_authors.json, plain or gzipped (https://mengtingwan.github.io/data/goodreads.html)"
    )
    layouts: ClassVar[tuple[Layout, ...]] = (Layout("the UCSD Book Graph", (_INTERACTIONS, _BOOKS), (_AUTHORS,)),)

    min_engagements: int = 100
    explicit_positive_min: float = 4.0
    """Fewest stars (1 to 5) that are an explicit positive."""
    implicit_positive_min: float = 3.0
    """Fewest stars that are an implicit positive; fewer are explicit negatives."""
    unrated_is_positive: bool = False
    """A book on a shelf without a rating is an implicit positive; else it is left out."""
    n_description_words: int = 50
    """The first words of a book's description are part of its text."""
    n_top_shelves: int = 5
    """Shelves in a book's text: those that most readers use, without those that tell of the reader (to-read, owned)."""

    def check(self) -> None:
        """Check the order of the limits and the numbers."""
        check_rating_limits(self.explicit_positive_min, self.implicit_positive_min)
        for name in ("n_description_words", "n_top_shelves"):
            if getattr(self, name) < 0:
                raise ConfigError(f"{name} is {getattr(self, name)}; it must be 0 or more.")


class Goodreads(EngagementBuilder):
    """Builder of `goodreads`."""

    VERSION = datasets.Version("1.0.0")
    BUILDER_CONFIG_CLASS = GoodreadsConfig

    def engagement_tables(self) -> Iterable[pa.Table]:
        """Yield the ratings as engagements, in the order of the file."""
        config: GoodreadsConfig = self.config
        books = self._books()
        file = config.raw_file(_INTERACTIONS)
        for batch in read_json_lines(file, _INTERACTION_FIELDS, self.bad_rows):
            batch = batch.append_column("seconds", parse_times(batch["date_added"], _DATE))
            undated = pc.equal(pc.fill_null(batch["date_added"], ""), "")
            good = pc.or_kleene(undated, pc.greater_equal(batch["seconds"], 0))
            problem = "a time such as Fri Apr 19 08:15:15 -0700 2013 was expected"
            batch = keep_rows(batch, good, problem, "date_added", file.source, self.bad_rows)
            batch = check_ratings(batch, file.source, self.bad_rows, rating="rating", lowest=0)
            types = rating_signals(batch["rating"], config.explicit_positive_min, config.implicit_positive_min)
            unrated = pc.equal(batch["rating"], 0)
            if config.unrated_is_positive:
                types = pc.if_else(unrated, "implicit_positive", types)
            rows = pa.table(
                {
                    "user_id": batch["user_id"],
                    "object_id": batch["book_id"],
                    "interaction_type": types,
                    "interaction_time": batch["seconds"],
                    LINE: batch[LINE],
                }
            )
            if not config.unrated_is_positive:
                self.leave_out("on a shelf, not rated", pc.sum(unrated, min_count=0).as_py())
                rows = rows.filter(pc.invert(unrated))
            yield from engagements(rows, books, file.source, self)

    def _books(self) -> ObjectTexts:
        config: GoodreadsConfig = self.config
        file = config.raw_file(_BOOKS)
        text_of = partial(
            book_text,
            author_names=self._author_names(),
            n_description_words=config.n_description_words,
            n_top_shelves=config.n_top_shelves,
        )
        return describe_objects(read_json_lines(file, _BOOK_FIELDS, self.bad_rows), "book_id", text_of, file, self)

    def _author_names(self) -> dict[str, str]:
        config: GoodreadsConfig = self.config
        if _AUTHORS not in config.found[1]:
            return {}
        file = config.raw_file(_AUTHORS)
        names: dict[str, str] = {}
        for batch in read_json_lines(file, {"author_id": _TEXT, "name": _TEXT}, self.bad_rows):
            names.update(zip(batch["author_id"].to_pylist(), batch["name"].to_pylist(), strict=True))
        return names


def book_text(
    book: dict[str, Any], author_names: dict[str, str], *, n_description_words: int, n_top_shelves: int
) -> str:
    """Return what is known of a book: ``Ariel. By Sylvia Plath. Shelves: poetry, classics. The poems …``.

    Args:
        book: ``title``, ``description``, ``authors`` and ``popular_shelves`` of a line of the books file.
        author_names: names by id; authors that are not there, illustrators and translators are left out.
        n_description_words: most words of the description.
        n_top_shelves: most shelves; equally popular ones in the order of the file.
    """
    authors = [clean(author_names.get(author["author_id"])) for author in book["authors"] or () if not author["role"]]
    authors = list(dict.fromkeys(filter(None, authors)))
    shelves = [shelf for shelf in book["popular_shelves"] or () if not _SHELF_OF_A_READER.search(clean(shelf["name"]))]
    shelves.sort(key=lambda shelf: -_count(shelf["count"]))
    return joined(
        [
            clean(book["title"]),
            f"By {', '.join(authors)}" if authors else "",
            listed("Shelves", [clean(shelf["name"]) for shelf in shelves[:n_top_shelves]]),
            first_words(clean(book["description"]), n_description_words),
        ]
    )


def _count(written: str | None) -> int:
    return int(written) if written and written.isascii() and written.isdigit() else 0


RECORD = DatasetRecord(
    name="goodreads",
    title="Goodreads (UCSD Book Graph)",
    summary="Star ratings of books with descriptions and popular shelves, from the UCSD Book Graph on your disk.",
    signals=RATING_SIGNALS,
    licence="academic use only, no redistribution, no commercial use (the authors' terms)",
    builder=Goodreads,
    citation=(
        "Mengting Wan and Julian McAuley. 2018. Item Recommendation on Monotonic Behavior Chains. RecSys '18, 86-94. "
        "https://doi.org/10.1145/3240323.3240369. Mengting Wan, Rishabh Misra, Ndapa Nakashole and Julian McAuley. "
        "2019. Fine-Grained Spoiler Detection from Large-Scale Review Corpora. ACL 2019, 2605-2610. "
        "https://aclanthology.org/P19-1248"
    ),
    homepage="https://mengtingwan.github.io/data/goodreads.html",
)
