"""The `oracle_official` dataset: the paper's oracle of `synthetic`, one row per user.

Fetched from the reference implementation's repository at a pinned commit, its bytes checked; never part of this
repository. Category ids are those of the official taxonomy, whose hash each row carries.
Knows nothing about how an oracle is made or used.
"""

import json
import os
from dataclasses import dataclass
from typing import Any, ClassVar

import datasets
import pyarrow as pa

from ._pinned import PinnedFile
from .errors import DataError
from .registry import DatasetRecord
from .synthetic import CITATION
from .tables import TableBuilder, TableConfig

__all__ = [
    "OFFICIAL_ORACLE_SHA256",
    "OFFICIAL_ORACLE_URL",
    "OFFICIAL_ORACLE_VARIABLE",
    "ORACLE_SCHEMA",
    "RECORD",
    "OracleOfficial",
    "OracleOfficialConfig",
    "load_official_oracle",
]

OFFICIAL_ORACLE_URL = (
    "https://raw.githubusercontent.com/facebookresearch/GISTBench/0d7e033/gistbench/assets/oracle_synthetic.json"
)
OFFICIAL_ORACLE_SHA256 = "dd4ed69fec183f72698fbe3b66f90601d7cd373dced53a85dd111df803a92c6f"
OFFICIAL_ORACLE_VARIABLE = "GISTBENCH_OFFICIAL_ORACLE"
"""Environment variable that names a local copy of the official file."""
OFFICIAL_TAXONOMY_CONTENT_SHA256 = "0e0d2709a3fd6c912b31522a6230d39b3e015322ae045f5a12ed270498a729f1"
"""``Taxonomy.sha256`` of the official taxonomy, which the oracle's category ids are of."""

ORACLE_SCHEMA: pa.Schema = pa.schema(
    [
        pa.field("user_id", pa.string()),
        pa.field("category_ids", pa.list_(pa.int64())),
        pa.field("taxonomy", pa.string()),
        pa.field("taxonomy_sha256", pa.string()),
    ]
)
"""One row per user, in the order of their ids as text; ``category_ids`` ascend."""

_FILE = PinnedFile(
    what="official oracle",
    url=OFFICIAL_ORACLE_URL,
    sha256=OFFICIAL_ORACLE_SHA256,
    variable=OFFICIAL_ORACLE_VARIABLE,
    file_name="oracle_synthetic.json",
    option="--source PATH",
)


def load_official_oracle(
    source: str | os.PathLike[str] | None = None,
    *,
    cache_dir: str | os.PathLike[str] | None = None,
    url: str = OFFICIAL_ORACLE_URL,
) -> dict[str, list[int]]:
    """Return the official categories of each user of `synthetic`, ascending.

    Args:
        source: a local copy of the official file.
        cache_dir: where the downloaded file is kept; default ``$GISTBENCH_CACHE`` or ``~/.cache/gistbench``.
        url: where to download it from.

    Raises:
        DataError: it cannot be had, or has other bytes than the pinned ones.
    """
    return _parse(_FILE.content(source, cache_dir=cache_dir, url=url))


def _parse(content: bytes) -> dict[str, list[int]]:
    recorded: Any = json.loads(content)
    try:
        return {str(user): sorted(map(int, ids)) for user, ids in sorted(recorded["oracle"].items())}
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise DataError('official oracle: {"oracle": {user: [category ids]}} was expected.') from error


@dataclass
class OracleOfficialConfig(TableConfig):
    """``source`` is a local copy of the official oracle_synthetic.json; without it the file is fetched once."""

    needs_source: ClassVar[str] = (
        "the official oracle_synthetic.json; without source it is fetched from its pinned address"
    )
    source_optional: ClassVar[bool] = True

    def make_table(self) -> pa.Table:
        """Return one row per user."""
        oracle = load_official_oracle(self.source)
        n = len(oracle)
        return pa.table(
            [list(oracle), list(oracle.values()), ["official"] * n, [OFFICIAL_TAXONOMY_CONTENT_SHA256] * n],
            schema=ORACLE_SCHEMA,
        )


class OracleOfficial(TableBuilder):
    """Builder of `oracle_official`."""

    VERSION = datasets.Version("1.0.0")
    BUILDER_CONFIG_CLASS = OracleOfficialConfig


RECORD = DatasetRecord(
    name="oracle_official",
    title="Official oracle",
    summary="The paper's oracle of `synthetic`: the verified categories of each of 997 users.",
    signals=(),
    licence="CC BY-NC 4.0 (facebookresearch/GISTBench): may be passed on with attribution, not commercially",
    redistributable=True,
    builder=OracleOfficial,
    citation=CITATION,
    homepage="https://github.com/facebookresearch/GISTBench",
    taxonomy="official",
)
