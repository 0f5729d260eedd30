"""The `taxonomy_official` dataset: the paper's categories as rows; see `taxonomy`."""

from dataclasses import dataclass
from typing import ClassVar

import datasets
import pyarrow as pa

from .registry import DatasetRecord
from .synthetic import CITATION
from .tables import TableBuilder, TableConfig
from .taxonomy import load_taxonomy, taxonomy_table

__all__ = ["RECORD", "TaxonomyOfficial", "TaxonomyOfficialConfig"]


@dataclass
class TaxonomyOfficialConfig(TableConfig):
    """``source`` is a local copy of the official categories.csv; without it the file is fetched once."""

    needs_source: ClassVar[str] = "the official categories.csv; without source it is fetched from its pinned address"
    source_optional: ClassVar[bool] = True

    def make_table(self) -> pa.Table:
        """Return one row per category."""
        return taxonomy_table(load_taxonomy("official", source=self.source))


class TaxonomyOfficial(TableBuilder):
    """Builder of `taxonomy_official`."""

    VERSION = datasets.Version("1.0.0")
    BUILDER_CONFIG_CLASS = TaxonomyOfficialConfig


RECORD = DatasetRecord(
    name="taxonomy_official",
    title="Official taxonomy",
    summary="The 325 flat categories of the paper, from the reference implementation's repository.",
    signals=(),
    licence="CC BY-NC 4.0 (facebookresearch/GISTBench): may be passed on with attribution, not commercially",
    redistributable=True,
    builder=TaxonomyOfficial,
    citation=CITATION,
    homepage="https://github.com/facebookresearch/GISTBench",
    taxonomy="official",
)
