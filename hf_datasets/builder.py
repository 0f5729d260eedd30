"""The base of all dataset builders: a `datasets` builder whose cached copy is keyed on what determines its rows.

`datasets` names a cached copy after the arguments and the path of the source, so a changed file at the same path is
served stale. Here the name holds a hash of the parameters and of the source's *content* (its path does not count), and
``VERSION`` stands for the code: bump it whenever the same source gives other rows.

Each builder stands in a module of its own: `datasets` names builders after their module's file.
"""

import contextlib
import dataclasses
import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, cast

import datasets
import pyarrow as pa
from datasets.builder import Key
from datasets.exceptions import DatasetGenerationError

from ._columns import suggestion
from .errors import ConfigError, GistbenchError
from .schema import ENGAGEMENT_SCHEMA, validate_engagements

__all__ = ["FEATURES", "EngagementBuilder", "EngagementConfig", "build_engagements", "sha256_of_file"]

FEATURES = datasets.Features(
    {
        name: datasets.Value(str(kind).replace("double", "float64"))
        for name, kind in zip(ENGAGEMENT_SCHEMA.names, ENGAGEMENT_SCHEMA.types, strict=True)
    }
)


@dataclass
class EngagementConfig(datasets.BuilderConfig):  # type: ignore[misc]
    """Parameters of a dataset: each subclass adds its own as fields with defaults."""

    source: str | None = None
    """Path of the files that the rows are made from, where there are any."""

    needs_source: ClassVar[str] = ""
    """The files that ``source`` has to hold, in words; empty where the dataset takes none."""

    def __post_init__(self) -> None:
        """Check types, then values."""
        super().__post_init__()
        if self.needs_source and not self.source:
            raise ConfigError(f"source is missing: this dataset is made from {self.needs_source}.")
        if self.source and not self.needs_source:
            raise ConfigError(f"source={self.source!r} is not used: this dataset comes with the package.")
        for name, default in self.parameter_defaults().items():
            value = getattr(self, name)
            if isinstance(default, float) and type(value) is int:
                setattr(self, name, float(value))
            elif type(value) is not type(default):
                raise ConfigError(
                    f"{name} is {value!r}; it must be of type {type(default).__name__}, like {default!r}."
                )
        self.check()
        self.content_sha256 = self.source_sha256()

    @classmethod
    def parameter_defaults(cls) -> dict[str, Any]:
        """Return the parameters that this dataset adds, with their defaults."""
        inherited = {field.name for field in dataclasses.fields(EngagementConfig)}
        return {field.name: field.default for field in dataclasses.fields(cls) if field.name not in inherited}

    def check(self) -> None:
        """Raise ConfigError where values of parameters do not make sense."""

    def source_sha256(self) -> str:
        """Return the hash (hex) of everything but the parameters that determines the rows."""
        raise NotImplementedError

    def create_config_id(self, config_kwargs: dict[str, Any], custom_features: datasets.Features | None = None) -> str:
        """Name the cached copy after parameters and content; `datasets` calls this once at construction."""
        key = {name: getattr(self, name) for name in self.parameter_defaults()}
        canonical = json.dumps([key, self.content_sha256], sort_keys=True)
        return f"{self.name}-{hashlib.sha256(canonical.encode()).hexdigest()[:20]}"


class EngagementBuilder(datasets.ArrowBasedBuilder):  # type: ignore[misc]
    """A builder of one split, ``train``, of engagements; subclasses write :meth:`engagement_tables`."""

    BUILDER_CONFIG_CLASS = EngagementConfig
    VERSION: datasets.Version
    # Rows per Arrow record batch; the default of 1,000 makes thousands of chunks of a large table.
    DEFAULT_WRITER_BATCH_SIZE = 65_536

    def engagement_tables(self) -> Iterable[pa.Table]:
        """Yield the dataset's rows in file order, in tables of any size that fits into memory."""
        raise NotImplementedError

    def _info(self) -> datasets.DatasetInfo:
        return datasets.DatasetInfo(features=FEATURES)

    def _split_generators(self, dl_manager: datasets.DownloadManager) -> list[datasets.SplitGenerator]:
        return [datasets.SplitGenerator(name=datasets.Split.TRAIN)]

    def _generate_tables(self) -> Iterator[tuple[Key, pa.Table]]:
        rows = 0
        for batch, table in enumerate(self.engagement_tables()):
            source = f"{self.dataset_name}, after its first {rows} rows" if rows else self.dataset_name
            yield Key(0, batch), validate_engagements(table, source=source)
            rows += table.num_rows


def build_engagements(
    builder_class: type[EngagementBuilder],
    name: str,
    *,
    source: str | os.PathLike[str] | None = None,
    cache_dir: str | os.PathLike[str] | None = None,
    parameters: Mapping[str, Any] | None = None,
) -> pa.Table:
    """Build a dataset, or find it in the cache, and return its rows (memory-mapped).

    Two processes may ask for the same at once: `datasets` locks the cached copy, and the second one finds it ready.

    Args:
        builder_class: the dataset's builder.
        name: the dataset's name.
        source: path of its source files.
        cache_dir: default ``$HF_DATASETS_CACHE``.
        parameters: those of the builder's config that differ from their defaults.

    Raises:
        ConfigError: a parameter is unknown or does not make sense.
        DataError: the source is not what it should be.
    """
    given = dict(parameters or {})
    known = list(builder_class.BUILDER_CONFIG_CLASS.parameter_defaults())
    if unknown := [key for key in given if key not in known]:
        raise ConfigError(
            f"Dataset {name!r} has no parameter {', '.join(map(repr, unknown))}. Parameters: "
            f"{', '.join(known) or 'none'}.{suggestion(unknown[0], known)}"
        )
    if source is not None:
        given["source"] = os.fspath(source)
    builder = builder_class(dataset_name=name, cache_dir=None if cache_dir is None else os.fspath(cache_dir), **given)
    with _no_progress_bars():
        try:
            builder.download_and_prepare()
        except DatasetGenerationError as error:
            ours = _ours_behind(error)
            if ours is None:
                raise
            raise ours from None
        dataset = cast(datasets.Dataset, builder.as_dataset(split="train"))
    return dataset.data.table.cast(ENGAGEMENT_SCHEMA)


def sha256_of_file(path: Path) -> str:
    """Return the sha256 (hex) of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _ours_behind(error: BaseException) -> GistbenchError | None:
    """`datasets` wraps what a builder raises; return the error of ours that is behind it, if any."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, GistbenchError):
        cause = cause.__cause__ or cause.__context__
    return cause


@contextlib.contextmanager
def _no_progress_bars() -> Iterator[None]:
    disabled = datasets.are_progress_bars_disabled()
    datasets.disable_progress_bars()
    try:
        yield
    finally:
        if not disabled:
            datasets.enable_progress_bars()
