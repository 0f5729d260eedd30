"""Ratings of any source in one form: a named ratings data set, or a file of one's own; and their matrix.

A file is csv, tsv or Parquet (``.csv.gz`` too) with user, item, rating and, as an option, time, under the usual names.
"""

import gzip
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ...hf_datasets._columns import normalise_ids, normalise_times
from ...hf_datasets.errors import ConfigError, DataError
from ...hf_datasets.files import read_csv_columns
from ...hf_datasets.ratings import RATING_SCHEMA, RatingsBuilder, split_ratings
from ...hf_datasets.raw import BadRows
from .work import Work

__all__ = ["COLUMN_NAMES", "Ratings", "load_split", "read_columns_of", "read_item_table", "read_rating_file"]

COLUMN_NAMES = {
    "user": ("user", "user_id", "userId", "user_id:token", "userid"),
    "item": ("item", "item_id", "itemId", "movieId", "movie_id", "book_id", "item_id:token", "itemid"),
    "rating": ("rating", "rating:float"),
    "time": ("time", "timestamp", "timestamp:float", "rating_timestamp"),
}
"""The names under which a column is found in a file."""

IntArray = npt.NDArray[np.int64]


def load_split(
    name_or_path: str,
    *,
    source: str | None = None,
    test_share: float = 0.2,
    seed: int = 0,
    temporal: bool = False,
    min_profile: int = 1,
    options: dict[str, Any] | None = None,
    with_items: bool = True,
) -> tuple[pa.Table, pa.Table | None, dict[str, Any]]:
    """Load ratings and split them.

    Args:
        name_or_path: a named data set of ratings (``movielens_ratings``), or a file.
        source: the files that a named data set is made from.
        test_share: share of each user's ratings on the test side.
        seed: of the draw.
        temporal: the newest ratings are the test side.
        min_profile: users with fewer ratings are left out.
        options: more parameters of a named data set.
        with_items: read what its source says of items too.

    Returns:
        Ratings in :data:`~gistbench.hf_datasets.ratings.RATING_SCHEMA`; what the source of a named data set says of its
        items (``item``, ``title`` and more), None with a file or without `with_items`; what was left out on the way.

    Raises:
        ConfigError: an option or a name cannot be used.
        DataError: the ratings are not what they should be.
    """
    from ...hf_datasets.registry import TABLE_NAMES, config_record

    split: dict[str, Any] = {"test_share": test_share, "seed": seed, "temporal": temporal}
    named = [name for name in TABLE_NAMES if name.endswith("_ratings")]
    if name_or_path in named:
        from ...hf_datasets.builder import build_report, prepare

        parameters = {**split, "min_engagements": min_profile, **(options or {})}
        record = config_record(name_or_path)
        builder = prepare(record.builder, name_or_path, source=source, parameters=parameters)
        report = build_report(builder)
        table = cast(Any, builder.as_dataset(split="train")).data.table.cast(RATING_SCHEMA)
        bad_rows = BadRows(cast(Any, builder).config.on_error)
        items = cast(RatingsBuilder, builder).item_table(bad_rows).replace_schema_metadata(None) if with_items else None
        return (
            table,
            items,
            {
                "n_users_left_out": report.n_users_left_out,
                "n_ratings_left_out": report.n_rows_left_out,
                "left_out": dict(report.left_out),
                "skipped": {**report.skipped, **bad_rows.counts},
            },
        )
    if not Path(name_or_path).expanduser().is_file():
        raise ConfigError(
            f"No data set of ratings and no file is called {name_or_path!r}. Data sets: {', '.join(named)}; or give a "
            "csv, tsv or Parquet file with user, item, rating and, as an option, time."
        )
    if source is not None or options:
        raise ConfigError(f"source and options go with a named data set; {name_or_path!r} is a file, read as it is.")
    if min_profile < 1:
        raise ConfigError(f"min_profile is {min_profile}; it must be 1 or more.")
    table = read_rating_file(Path(name_or_path).expanduser())
    n_all = table.num_rows
    codes = table["user"].combine_chunks().dictionary_encode()
    where = codes.indices.to_numpy(zero_copy_only=False)
    counts = np.bincount(where, minlength=len(codes.dictionary))
    table = table.filter(pa.array(counts[where] >= min_profile))
    if not table.num_rows:
        raise DataError(f"{name_or_path}: no user has {min_profile} ratings; lower min_profile.")
    table = table.append_column("split", split_ratings(table, **split)).cast(RATING_SCHEMA)
    return (
        table.take(pa.array(_newest_first(table))),
        None,
        {
            "n_users_left_out": int((counts < min_profile).sum()),
            "n_ratings_left_out": n_all - table.num_rows,
            "left_out": {},
            "skipped": {},
        },
    )


def read_rating_file(path: Path) -> pa.Table:
    """Read ``user``, ``item``, ``rating``, ``time`` from a file.

    Raises:
        DataError: a column is missing, an id is blank or a rating is no number above 0; the message names the row.
    """
    table = read_columns_of(path)
    found = {name: _find(table, name) for name in COLUMN_NAMES}
    if missing := [name for name in ("user", "item", "rating") if found[name] is None]:
        raise DataError(
            f"{path}: no column for {', '.join(missing)}. It has {', '.join(table.column_names)}; {missing[0]} is "
            f"looked for under {', '.join(COLUMN_NAMES[missing[0]])}."
        )
    source = str(path)
    ids = [normalise_ids(table[found[name]], cast(str, found[name]), source) for name in ("user", "item")]
    rating = _ratings(table[found["rating"]], source)
    nothing = pa.chunked_array([pa.nulls(table.num_rows, pa.float64())])
    time = nothing if found["time"] is None else normalise_times(table[found["time"]], "time", source)
    if not table.num_rows:
        raise DataError(f"{path} has no ratings.")
    return pa.table([*ids, rating, time], names=RATING_SCHEMA.names[:4])


def _newest_first(table: pa.Table) -> IntArray:
    """Return the rows by user, then newest first (missing times last), then by item."""
    user, item = (_codes(table[name], _in_order(table[name])) for name in ("user", "item"))
    rows: IntArray = np.lexsort((item, -table["time"].to_numpy(), user))
    return rows


def _find(table: pa.Table, name: str) -> str | None:
    return next((known for known in COLUMN_NAMES[name] if known in table.column_names), None)


def _ratings(column: pa.ChunkedArray, source: str) -> pa.ChunkedArray:
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        numeral = pc.fill_null(
            pc.match_substring_regex(column, r"^\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*$"), False
        )
        numbers = pc.if_else(numeral, pc.utf8_trim_whitespace(column), None).cast(pa.float64())
    else:
        try:
            numbers = column.cast(pa.float64())
        except pa.ArrowException as error:
            raise DataError(f"{source}: the ratings have the type {column.type}; they must be numbers.") from error
    values = numbers.to_numpy()
    wrong = ~(np.isfinite(values) & (values > 0))
    if wrong.any():
        row = int(np.argmax(wrong))
        raise DataError(
            f"{source}: row {row + 1} (of {int(wrong.sum())} such rows): the rating is {column[row].as_py()!r}; it "
            "must be a number above 0. Leave out rows that are no ratings."
        )
    return numbers


def read_columns_of(path: Path, names: list[str] | None = None) -> pa.Table:
    """Read a csv, tsv or Parquet file whole, text columns as text.

    Args:
        path: of the file; ``.gz`` is unpacked. An ending that is not known is read with tabs.
        names: of the columns, where the file has no header.

    Raises:
        DataError: the file cannot be read.
    """
    if not path.is_file():
        raise DataError(f"There is no file {path}.")
    plain = path.name.lower().removesuffix(".gz")
    if plain.endswith(".parquet"):
        try:
            return pq.ParquetFile(path).read()
        except (pa.ArrowException, OSError) as error:
            raise DataError(f"{path}: not a Parquet file that can be read ({error}).") from error
    delimiter = "," if plain.endswith(".csv") else "\t"
    opened = cast(Any, gzip.open if path.name.lower().endswith(".gz") else open)

    def opener() -> IO[bytes]:
        return cast(IO[bytes], opened(path, "rb"))

    if names is None:
        return read_csv_columns(opener, None, source=str(path), delimiter=delimiter)
    from ...hf_datasets.raw import LINE, RawFile, read_delimited

    file = RawFile(opener, str(path), names=tuple(names), delimiter=delimiter, quoted=False)
    types = dict.fromkeys(names, pa.string())
    batches = [batch.drop_columns(LINE) for batch in read_delimited(file, types)]
    return pa.concat_tables([pa.schema(list(types.items())).empty_table(), *batches])


def read_item_table(path: Path) -> pa.Table:
    """Read metadata of items: a column for the item's id, called ``item`` in the result, and whatever else there is.

    Raises:
        DataError: there is no such column, an id is blank, or an item stands there twice.
    """
    table = read_columns_of(path)
    found = _find(table, "item")
    if found is None:
        raise DataError(f"{path}: no column for item; it is looked for under {', '.join(COLUMN_NAMES['item'])}.")
    items = normalise_ids(table[found], found, str(path))
    if len(items.unique()) < len(items):
        counted = items.value_counts()
        twice = next(entry["values"].as_py() for entry in counted if entry["counts"].as_py() > 1)
        raise DataError(f"{path}: item {twice!r} stands there more than once; keep one row for each item.")
    return table.drop_columns([found]).add_column(0, "item", items)


@dataclass(frozen=True)
class Ratings:
    """A split as numbers: users and items by code, in ascending order of their ids (bytes of UTF-8)."""

    users: pa.Array
    items: pa.Array
    """The items with training ratings: the only ones that can be recommended."""
    train: Any
    """(users, items) csr_matrix, float64."""
    test_user: IntArray
    """Of each test rating."""
    test_item: pa.Array
    """Text, also of items that are in no training rating."""
    test_rating: npt.NDArray[np.float64]

    @classmethod
    def of(cls, ratings: pa.Table) -> "Ratings":
        """Number users and items of a split table."""
        from scipy import sparse

        is_train = pc.equal(ratings["split"], "train")
        train, test = ratings.filter(is_train), ratings.filter(pc.invert(is_train))
        users = _in_order(ratings["user"])
        items = _in_order(train["item"])
        rows, columns = _codes(train["user"], users), _codes(train["item"], items)
        matrix = sparse.csr_matrix((train["rating"].to_numpy(), (rows, columns)), shape=(len(users), len(items)))
        matrix.sort_indices()
        test_item = test["item"].combine_chunks()
        if pa.types.is_dictionary(test_item.type):
            test_item = test_item.dictionary_decode()
        return cls(users, items, matrix, _codes(test["user"], users), test_item, test["rating"].to_numpy())

    @classmethod
    def read(cls, work: Work) -> "Ratings":
        """Read the split of a work folder."""
        encoded = ("user", "item", "split")
        return cls.of(work.read("ratings", ["user", "item", "rating", "split"], encoded=encoded))

    @cached_property
    def evaluated(self) -> IntArray:
        """Rows of the users with test ratings: those who are recommended to and scored."""
        return np.unique(self.test_user)

    @cached_property
    def n_train(self) -> IntArray:
        """Training ratings of each user."""
        return np.diff(self.train.indptr).astype(np.int64)

    @cached_property
    def count(self) -> IntArray:
        """c(i): training ratings of each item (Eq. 2)."""
        return np.bincount(self.train.indices, minlength=len(self.items)).astype(np.int64)

    def qrels(self, users: IntArray | None = None) -> pa.Table:
        """Return the human judgements, ``user``, ``item``, ``rating``, of all or of some users."""
        kept = slice(None) if users is None else np.flatnonzero(np.isin(self.test_user, users))
        rows = pa.array(np.arange(len(self.test_user))[kept])
        return pa.table(
            {
                "user": pa.DictionaryArray.from_arrays(pa.array(self.test_user[kept].astype(np.int32)), self.users),
                "item": self.test_item.take(rows),
                "rating": pa.array(self.test_rating[kept]),
            }
        )


def _in_order(column: pa.ChunkedArray) -> pa.Array:
    texts = column.unique()
    texts = texts.dictionary_decode() if pa.types.is_dictionary(texts.type) else texts
    texts = texts.cast(pa.string())
    return texts.take(pc.sort_indices(texts))


def _codes(column: pa.ChunkedArray, texts: pa.Array) -> IntArray:
    """Return the place of each row's text, through a dictionary, so that each text is looked up once."""
    if not len(column):
        return np.empty(0, np.int64)
    column = column.unify_dictionaries() if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    encoded = column.combine_chunks()
    encoded = encoded.chunk(0) if isinstance(encoded, pa.ChunkedArray) else encoded
    place = pc.index_in(encoded.dictionary.cast(pa.string()), value_set=texts).to_numpy(zero_copy_only=False)
    codes: IntArray = place[encoded.indices.to_numpy(zero_copy_only=False)].astype(np.int64)
    return codes
