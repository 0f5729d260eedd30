"""The `taxonomy_open` dataset: the categories of our own taxonomy as rows; see `taxonomy`."""

from dataclasses import dataclass

import datasets
import pyarrow as pa

from .registry import DatasetRecord
from .tables import TableBuilder, TableConfig
from .taxonomy import load_taxonomy, taxonomy_table

__all__ = ["RECORD", "TaxonomyOpen", "TaxonomyOpenConfig"]


@dataclass
class TaxonomyOpenConfig(TableConfig):
    """There is nothing to choose."""

    def make_table(self) -> pa.Table:
        """Return one row per category."""
        return taxonomy_table(load_taxonomy("open"))


class TaxonomyOpen(TableBuilder):
    """Builder of `taxonomy_open`."""

    VERSION = datasets.Version("1.0.0")
    BUILDER_CONFIG_CLASS = TaxonomyOpenConfig


RECORD = DatasetRecord(
    name="taxonomy_open",
    title="Open taxonomy",
    summary="The two-level taxonomy of interests that was written for gistbench.",
    signals=(),
    licence="Apache-2.0; written for gistbench, may be passed on",
    redistributable=True,
    builder=TaxonomyOpen,
)
