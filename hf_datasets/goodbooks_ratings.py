"""The `goodbooks_ratings` dataset: the ratings view of `goodbooks`, split per user; see `ratings` and `goodbooks`."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import datasets
import pyarrow as pa

from .goodbooks import RECORD as GOODBOOKS
from .goodbooks import GoodbooksSource, goodbooks_items, goodbooks_ratings
from .ratings import RatingsBuilder, RatingsConfig
from .raw import BadRows
from .registry import DatasetRecord

__all__ = ["RECORD", "GoodbooksRatings", "GoodbooksRatingsConfig"]


@dataclass
class GoodbooksRatingsConfig(RatingsConfig, GoodbooksSource):
    """The split of Goodbooks' ratings."""


class GoodbooksRatings(RatingsBuilder):
    """Builder of `goodbooks_ratings`."""

    VERSION = datasets.Version("1.0.0")
    BUILDER_CONFIG_CLASS = GoodbooksRatingsConfig

    def rating_tables(self) -> Iterable[pa.Table]:
        """Yield the ratings in the order of the file."""
        return goodbooks_ratings(self.config, self.bad_rows)

    def item_table(self, bad_rows: BadRows) -> pa.Table:
        """Return what the source says of its items."""
        return goodbooks_items(self.config, bad_rows)


RECORD: DatasetRecord = replace(
    GOODBOOKS,
    name="goodbooks_ratings",
    title="Goodbooks-10k ratings",
    summary="The ratings of Goodbooks-10k, from its files on your disk, 80/20 split per user (column `split`).",
    signals=(),
    builder=GoodbooksRatings,
)
