"""The `synthetic` dataset: the paper's own users, as Meta publishes them on the Hugging Face Hub.

Reads the Parquet files of ``facebook/gistbench`` (integer ids, times as text): from ``source``, a file or a folder of
them, or from the Hub, at the revision asked for. Rows are taken as they are: no threshold makes signals here.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar

import datasets
import pyarrow as pa
import pyarrow.parquet as pq

from ._offline import is_offline
from .builder import EngagementBuilder, EngagementConfig, sha256_of_file, valid_engagements
from .errors import DataError
from .registry import DatasetRecord
from .schema import ENGAGEMENT_SCHEMA

__all__ = ["CITATION", "RECORD", "REPOSITORY", "Synthetic", "SyntheticConfig"]

REPOSITORY = "facebook/gistbench"
_BATCH_ROWS = 131_072

CITATION = (
    "Iordanis Fostiropoulos, Muhammad Rafay Azhar, Abdalaziz Sawwan, Boyu Fang, Yuchen Liu, Jiayi Liu, Hanchao Yu and "
    "Qi Guo. 2026. GISTBench: Evaluating LLM User Understanding via Evidence-Based Interest Verification."
)


@dataclass
class SyntheticConfig(EngagementConfig):
    """Which copy of the rows to read."""

    needs_source: ClassVar[str] = (
        f"the Parquet files of {REPOSITORY}: a file or a folder; without source they are downloaded from the Hub"
    )
    source_optional: ClassVar[bool] = True

    min_engagements: int = 100
    """Users with fewer engagements are left out, as in the paper's Table 1."""
    revision: str = "main"
    """Commit, tag or branch of the Hub's repository; used without ``source`` only. Name a commit to pin the rows."""

    @cached_property
    def paths(self) -> list[Path]:
        """The Parquet files, in the order of their paths; downloaded where there is no source.

        Raises:
            DataError: there are none, or they cannot be downloaded.
        """
        if self.source:
            path = Path(self.source).expanduser()
            if not path.exists():
                raise DataError(f"{path}: no such file or folder. Needed: {self.needs_source}.")
        else:
            path = _download(self.revision)
        paths = [path] if path.is_file() else sorted(path.rglob("*.parquet"))
        if not paths:
            raise DataError(f"{path}: the folder holds no .parquet file. Needed: {self.needs_source}.")
        return paths

    def source_sha256(self) -> str:
        """Return the hash of the files' content, wherever they come from."""
        return hashlib.sha256(json.dumps([sha256_of_file(path) for path in self.paths]).encode()).hexdigest()


class Synthetic(EngagementBuilder):
    """Builder of `synthetic`."""

    VERSION = datasets.Version("1.0.0")
    BUILDER_CONFIG_CLASS = SyntheticConfig

    def engagement_tables(self) -> Iterable[pa.Table]:
        """Yield the rows, file by file."""
        for path in self.config.paths:
            first = 1
            for batch in _batches(path):
                yield from valid_engagements(batch, str(path), first, self.bad_rows)
                first += batch.num_rows


def _batches(path: Path) -> Iterator[pa.Table]:
    try:
        file = pq.ParquetFile(path)
        found = file.schema_arrow.names
        if missing := [name for name in ENGAGEMENT_SCHEMA.names if name not in found]:
            raise DataError(
                f"{path}: missing columns: {', '.join(missing)}. Found: {', '.join(found)}. "
                f"Needed: {', '.join(ENGAGEMENT_SCHEMA.names)}."
            )
        for batch in file.iter_batches(_BATCH_ROWS, columns=ENGAGEMENT_SCHEMA.names):
            yield pa.Table.from_batches([batch])
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{path}: not a Parquet file that can be read ({error}).") from error


def _download(revision: str) -> Path:
    from huggingface_hub import snapshot_download  # slow to import
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    try:
        folder = snapshot_download(
            REPOSITORY, repo_type="dataset", revision=revision, allow_patterns=["*.parquet"], token=None
        )
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError, ValueError) as error:
        offline = " (HF_HUB_OFFLINE is set)" if is_offline() else ""
        raise DataError(
            f"{REPOSITORY} at revision {revision!r} could not be downloaded from the Hub{offline}: "
            f"{str(error).splitlines()[0]} Download it where there is a network "
            f"(hf download {REPOSITORY} --repo-type dataset --local-dir DIR) and give DIR as source."
        ) from error
    return Path(folder)


RECORD = DatasetRecord(
    name="synthetic",
    title="Synthetic",
    summary="The paper's synthetic users of short videos, from the Hugging Face Hub or files on your disk.",
    signals=("explicit_positive", "implicit_positive", "implicit_negative"),
    licence=(
        "CC BY-NC 4.0, object texts also under the Llama 3.2 Community License (built with Llama): may be passed on "
        "with attribution and both licences, not commercially"
    ),
    redistributable=True,
    builder=Synthetic,
    citation=CITATION,
    homepage=f"https://huggingface.co/datasets/{REPOSITORY}",
    taxonomy="official",
)
