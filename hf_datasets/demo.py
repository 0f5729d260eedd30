"""The `demo` dataset: a dozen invented users, shipped with the package, to try things with.

Knows nothing beyond its file, ``data/demo.csv``.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import datasets
import pyarrow as pa

from .builder import EngagementBuilder, EngagementConfig, sha256_of_file
from .files import read_engagements
from .registry import DatasetRecord
from .schema import INTERACTION_TYPES, validate_engagements

__all__ = ["RECORD", "Demo", "DemoConfig"]

_PATH = Path(__file__).parent / "data" / "demo.csv"


@dataclass
class DemoConfig(EngagementConfig):
    """The demo has no parameters."""

    def source_sha256(self) -> str:
        """Return the hash of the shipped file."""
        return sha256_of_file(_PATH)


class Demo(EngagementBuilder):
    """Builder of `demo`."""

    VERSION = datasets.Version("2.0.0")
    BUILDER_CONFIG_CLASS = DemoConfig

    def engagement_tables(self) -> Iterable[pa.Table]:
        """Yield the rows of the shipped file."""
        yield validate_engagements(read_engagements(_PATH), source=str(_PATH))


RECORD = DatasetRecord(
    name="demo",
    title="Demo",
    summary="A dozen invented users with about 100 engagements each.",
    signals=INTERACTION_TYPES,
    licence="Apache-2.0; written for gistbench, may be passed on",
    redistributable=True,
    builder=Demo,
)
