"""The base of builders of small tables: taxonomies and oracles, made in memory in one piece.

As :mod:`gistbench.hf_datasets.builder`, but the rows are no engagements.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import datasets
import pyarrow as pa
from datasets.builder import Key

from .errors import ConfigError

__all__ = ["TableBuilder", "TableConfig"]


@dataclass
class TableConfig(datasets.BuilderConfig):  # type: ignore[misc]
    """Where a table comes from."""

    source: str | None = None
    """A local copy of the file, where the table is made from one."""

    needs_source: ClassVar[str] = ""
    """The file that ``source`` has to be, in words; empty where the table takes none."""
    source_optional: ClassVar[bool] = False

    def __post_init__(self) -> None:
        """Make the table, whose content names the cached copy."""
        super().__post_init__()
        if self.source and not self.needs_source:
            raise ConfigError(f"source={self.source!r} is not used: this dataset comes with the package.")
        self.table = self.make_table()

    @classmethod
    def parameter_defaults(cls) -> dict[str, Any]:
        """Return the parameters: there are none."""
        return {}

    def make_table(self) -> pa.Table:
        """Return the rows."""
        raise NotImplementedError

    def create_config_id(self, config_kwargs: dict[str, Any], custom_features: datasets.Features | None = None) -> str:
        """Name the cached copy after the rows."""
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, self.table.schema) as writer:
            writer.write_table(self.table.combine_chunks())
        return f"{self.name}-{hashlib.sha256(sink.getvalue()).hexdigest()[:20]}"


class TableBuilder(datasets.ArrowBasedBuilder):  # type: ignore[misc]
    """A builder of one split, ``train``, whose config makes the table."""

    BUILDER_CONFIG_CLASS = TableConfig
    VERSION: datasets.Version

    def _info(self) -> datasets.DatasetInfo:
        return datasets.DatasetInfo(features=datasets.Features.from_arrow_schema(self.config.table.schema))

    def _split_generators(self, dl_manager: datasets.DownloadManager) -> list[datasets.SplitGenerator]:
        return [datasets.SplitGenerator(name=datasets.Split.TRAIN)]

    def _generate_tables(self) -> Iterator[tuple[Key, pa.Table]]:
        yield Key(0, 0), self.config.table
