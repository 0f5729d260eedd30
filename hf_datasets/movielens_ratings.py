"""The `movielens_ratings` dataset: the ratings view of `movielens`, split per user; see `ratings` and `movielens`."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import datasets
import pyarrow as pa

from .movielens import RECORD as MOVIELENS
from .movielens import MovieLensSource, movielens_items, movielens_ratings
from .ratings import RatingsBuilder, RatingsConfig
from .raw import BadRows
from .registry import DatasetRecord

__all__ = ["RECORD", "MovieLensRatings", "MovieLensRatingsConfig"]


@dataclass
class MovieLensRatingsConfig(RatingsConfig, MovieLensSource):
    """The split of MovieLens' ratings."""


class MovieLensRatings(RatingsBuilder):
    """Builder of `movielens_ratings`."""

    VERSION = datasets.Version("1.0.0")
    BUILDER_CONFIG_CLASS = MovieLensRatingsConfig

    def rating_tables(self) -> Iterable[pa.Table]:
        """Yield the ratings in the order of the file."""
        return movielens_ratings(self.config, self.bad_rows)

    def item_table(self, bad_rows: BadRows) -> pa.Table:
        """Return what the source says of its items."""
        return movielens_items(self.config, bad_rows)


RECORD: DatasetRecord = replace(
    MOVIELENS,
    name="movielens_ratings",
    title="MovieLens ratings",
    summary="The ratings of a MovieLens release on your disk, 80/20 split per user (column `split`).",
    signals=(),
    builder=MovieLensRatings,
)
