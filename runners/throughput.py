"""How fast models read and write: tokens per second on one GPU, kept as data with their source.

Knows no engines: what a machine really does, `gistbench plan --probe` measures.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ..hf_datasets.errors import ConfigError
from .prices import read_toml

__all__ = ["Rate", "Throughput"]


@dataclass(frozen=True)
class Rate:
    """The speed of one model on one GPU."""

    prefill_tokens_per_second: float
    decode_tokens_per_second: float
    source: str

    def gpu_hours(self, n_read: float, n_written: float) -> float:
        """Return the GPU hours for tokens read (those from a cache left out) and written.

        >>> Rate(1000, 10, "").gpu_hours(1_800_000, 18_000)
        1.0
        """
        return (n_read / self.prefill_tokens_per_second + n_written / self.decode_tokens_per_second) / 3600


class _Row(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    match: str
    gpu: str
    prefill_tokens_per_second: float = Field(gt=0)
    decode_tokens_per_second: float = Field(gt=0)
    active_billions: float | None = Field(default=None, gt=0)
    source: str


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    match: str
    active_billions: float = Field(gt=0)


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    rows: Sequence[_Row]
    models: Sequence[_Model] = ()


@dataclass(frozen=True)
class Throughput:
    """A table of speeds."""

    table: _File

    @classmethod
    def load(cls, path: Path | None = None) -> "Throughput":
        """Read a table, by default the package's.

        Raises:
            ConfigError: the file cannot be read or used.
        """
        try:
            return cls(_File(**read_toml(path, "throughput.toml")))
        except (ValidationError, TypeError) as error:
            raise ConfigError(f"{path or 'throughput.toml'} is no table of throughput: {error}") from error

    @property
    def gpus(self) -> list[str]:
        """GPUs that a speed is known on, each once."""
        return list(dict.fromkeys(row.gpu for row in self.table.rows))

    def find(self, model: str, gpu: str) -> Rate | None:
        """Return a model's speed on a GPU: measured, else scaled from another model's, else None."""
        rows = [row for row in self.table.rows if row.gpu == gpu]
        for row in rows:
            if re.search(row.match, model, re.IGNORECASE):
                return Rate(row.prefill_tokens_per_second, row.decode_tokens_per_second, row.source)
        known = next((m for m in self.table.models if re.search(m.match, model, re.IGNORECASE)), None)
        reference = next((row for row in rows if row.active_billions), None)
        if known is None or reference is None or reference.active_billions is None:
            return None
        scale = reference.active_billions / known.active_billions
        return Rate(
            reference.prefill_tokens_per_second * scale,
            reference.decode_tokens_per_second * scale,
            f"a guess: {reference.source}, times {reference.active_billions:g} / {known.active_billions:g} active "
            "parameters",
        )
