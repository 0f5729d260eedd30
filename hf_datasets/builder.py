"""The base of all dataset builders: a `datasets` builder whose cached copy is keyed on what determines its rows.

`datasets` names a cached copy after the arguments and the path of the source, so a changed file at the same path is
served stale. Here the name holds a hash of the parameters and of the source's *content* (its path does not count), and
``VERSION`` stands for the code: bump it whenever the same source gives other rows.

Built rows are sorted by user, then newest first, so that a user's history is one slice
(:func:`~gistbench.hf_datasets.schema.user_slices`); users with fewer than ``min_engagements`` rows are left out. What
was left out or skipped on the way is kept with the built dataset, see :func:`build_report`.

Each builder stands in a module of its own: `datasets` names builders after their module's file.
"""

import contextlib
import dataclasses
import hashlib
import json
import logging
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, cast

import datasets
import pyarrow as pa
from datasets.builder import Key
from datasets.exceptions import DatasetGenerationError

from ._columns import suggestion
from ._sorting import UserSort
from .errors import ConfigError, DataError, GistbenchError
from .raw import ON_ERROR, BadRows, Layout, Opener, RawFile, find_layout, hash_files
from .schema import ENGAGEMENT_SCHEMA, validate_engagements

__all__ = [
    "FEATURES",
    "BuildReport",
    "EngagementBuilder",
    "EngagementConfig",
    "build_engagements",
    "build_report",
    "prepare",
    "sha256_of_file",
    "valid_engagements",
]

logger = logging.getLogger(__name__)

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
    min_engagements: int = 1
    """Users with fewer engagements are left out, and counted."""
    on_error: str = "raise"
    """A broken line or row of a raw file: ``raise`` an error, or ``skip`` it and count it."""

    needs_source: ClassVar[str] = ""
    """The files that ``source`` has to hold, in words; empty where the dataset takes none."""
    source_optional: ClassVar[bool] = False
    """The dataset can be had without ``source``, from where its record says."""
    layouts: ClassVar[tuple[Layout, ...]] = ()
    """The sets of files that ``source`` may hold."""

    def __post_init__(self) -> None:
        """Check types, then values."""
        super().__post_init__()
        if self.needs_source and not self.source and not self.source_optional:
            raise ConfigError(
                f"source is missing: this dataset is made from {self.needs_source}. Say where they are (command line: "
                "--source PATH)."
            )
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
        if self.min_engagements < 1:
            raise ConfigError(f"min_engagements is {self.min_engagements}; it must be 1 or more.")
        if self.on_error not in ON_ERROR:
            raise ConfigError(f"on_error is {self.on_error!r}; it must be one of {', '.join(ON_ERROR)}.")
        self.check()
        self.content_sha256 = self.source_sha256()

    @classmethod
    def parameter_defaults(cls) -> dict[str, Any]:
        """Return the parameters of this dataset, its own ones first, with their defaults."""
        inherited = {field.name for field in dataclasses.fields(datasets.BuilderConfig)} | {"source"}
        shared = ["min_engagements", "on_error"] if cls.needs_source else ["min_engagements"]
        defaults = {field.name: field.default for field in dataclasses.fields(cls) if field.name not in inherited}
        own = [name for name in defaults if name not in ("min_engagements", "on_error")]
        return {name: defaults[name] for name in (*own, *shared)}

    def check(self) -> None:
        """Raise ConfigError where values of parameters do not make sense."""

    def source_sha256(self) -> str:
        """Return the hash (hex) of everything but the parameters that determines the rows."""
        if not self.layouts:
            raise NotImplementedError
        return hash_files(self.found[1])

    @cached_property
    def found(self) -> tuple[Layout, dict[str, tuple[Opener, Path, str]]]:
        """The layout of the source and its files, by their names in the layout.

        Raises:
            DataError: the source holds none of the layouts.
        """
        return find_layout(Path(self.source or "").expanduser(), self.layouts, self.needs_source)

    def raw_file(self, name: str, **written: Any) -> RawFile:
        """Return a file of the source; ``written`` says how it is written, see RawFile."""
        opener, _, real = self.found[1][name]
        return RawFile(opener, f"{self.source}: {real}", **written)

    def create_config_id(self, config_kwargs: dict[str, Any], custom_features: datasets.Features | None = None) -> str:
        """Name the cached copy after parameters and content; `datasets` calls this once at construction."""
        key = {name: getattr(self, name) for name in self.parameter_defaults()}
        canonical = json.dumps([key, self.content_sha256], sort_keys=True)
        return f"{self.name}-{hashlib.sha256(canonical.encode()).hexdigest()[:20]}"


@dataclass(frozen=True)
class BuildReport:
    """What happened to the rows on the way from the source to the built dataset."""

    n_rows: int
    n_users: int
    n_users_left_out: int
    """Users with fewer than ``min_engagements`` engagements."""
    n_rows_left_out: int
    """Their engagements."""
    left_out: Mapping[str, int] = field(default_factory=dict)
    """Rows that the mapping to engagements leaves out on purpose, by reason."""
    skipped: Mapping[str, int] = field(default_factory=dict)
    """Broken rows skipped, by file; empty unless ``on_error`` is ``skip``."""
    examples: tuple[str, ...] = ()
    """Messages about the first broken rows."""


class EngagementBuilder(datasets.ArrowBasedBuilder):  # type: ignore[misc]
    """A builder of one split, ``train``, of engagements; subclasses write :meth:`engagement_tables`.

    While it makes tables, a subclass gives ``self.bad_rows`` to the readers of raw files, and tells
    :meth:`leave_out` of rows that it leaves out on purpose.
    """

    BUILDER_CONFIG_CLASS = EngagementConfig
    VERSION: datasets.Version
    # Rows per Arrow record batch; the default of 1,000 makes thousands of chunks of a large table.
    DEFAULT_WRITER_BATCH_SIZE = 65_536

    bad_rows: BadRows
    left_out: dict[str, int]

    def engagement_tables(self) -> Iterable[pa.Table]:
        """Yield the dataset's rows in file order, in tables of any size that fits into memory."""
        raise NotImplementedError

    def leave_out(self, reason: str, n_rows: int) -> None:
        """Count rows that are left out on purpose."""
        if n_rows:
            self.left_out[reason] = self.left_out.get(reason, 0) + n_rows

    def _info(self) -> datasets.DatasetInfo:
        return datasets.DatasetInfo(features=FEATURES)

    def _split_generators(self, dl_manager: datasets.DownloadManager) -> list[datasets.SplitGenerator]:
        return [datasets.SplitGenerator(name=datasets.Split.TRAIN)]

    def _generate_tables(self, **shards: Any) -> Iterator[tuple[Key, pa.Table]]:
        config: EngagementConfig = self.config
        self._begin()
        sort = UserSort(min_rows=config.min_engagements)
        n_rows = 0
        for batch, table in enumerate(sort.sorted(self._validated(self.engagement_tables()))):
            n_rows += table.num_rows
            yield Key(0, batch), table
        self._finish(sort, n_rows)

    def _begin(self) -> None:
        self.bad_rows, self.left_out = BadRows(self.config.on_error), {}

    def _validated(self, tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
        rows = 0
        for table in tables:
            for valid in valid_engagements(table, self.dataset_name, rows + 1, self.bad_rows):
                yield valid.replace_schema_metadata(None)
            rows += table.num_rows

    def _finish(self, sort: UserSort, n_rows: int) -> None:
        """Record what happened to the rows, of which so many are left; raise where none is."""
        report = BuildReport(
            n_rows=n_rows,
            n_users=sort.n_users - sort.n_users_left_out,
            n_users_left_out=sort.n_users_left_out,
            n_rows_left_out=sort.n_rows_left_out,
            left_out=self.left_out,
            skipped=self.bad_rows.counts,
            examples=tuple(self.bad_rows.examples),
        )
        if not report.n_rows:
            least = self.config.min_engagements
            why = f" of {sort.n_users} users has {least} engagements; lower min_engagements" if sort.n_users else ""
            raise DataError(f"{self.dataset_name}: no engagement is left{': none' + why if why else ''}.")
        if report.skipped:
            files = ", ".join(f"{n} in {name}" for name, n in report.skipped.items())
            logger.warning("%s: broken rows were skipped: %s.", self.dataset_name, files)
        # `datasets` keeps the description beside the rows, in dataset_info.json.
        self.info.description = json.dumps({"gistbench_build": asdict(report)})


def valid_engagements(table: pa.Table, source: str, first: int, bad_rows: BadRows) -> Iterator[pa.Table]:
    """Yield the rows that are engagements, validated; what others are is for ``bad_rows`` to say.

    Args:
        table: as for :func:`~gistbench.hf_datasets.schema.validate_engagements`; it may have no rows.
        source: how to call it in messages.
        first: the number of its first row.
        bad_rows: what to do with broken rows.

    Raises:
        DataError: a row is broken, or rows do not go together (times that are numbers and dates).
    """
    if not table.num_rows:
        return
    try:
        yield validate_engagements(table, source=source)
    except DataError:
        broken: set[int] = set()
        for row, problem in _broken_rows(table, 0):
            bad_rows.reject(source, first + row, problem, unit="row")
            broken.add(row)
        kept = table.filter(pa.array([row not in broken for row in range(table.num_rows)]))
        if not broken or kept.num_rows:  # rows that are good by themselves may not go together
            yield validate_engagements(kept, source=source)


def _broken_rows(table: pa.Table, first: int) -> Iterator[tuple[int, str]]:
    """Yield the place of each row that is no engagement, and what is wrong with it; found by halving."""
    try:
        validate_engagements(table, source="")
    except DataError as error:
        if table.num_rows == 1:
            yield first, str(error).removeprefix(": ").removeprefix("row 1: ")
            return
        half = table.num_rows // 2
        yield from _broken_rows(table.slice(0, half), first)
        yield from _broken_rows(table.slice(half), first + half)


def build_report(builder: datasets.DatasetBuilder) -> BuildReport:
    """Return what happened to the rows of a dataset that was built, now or earlier.

    Raises:
        ConfigError: the builder has not built its dataset yet.
    """
    try:
        recorded = json.loads(builder.info.description)["gistbench_build"]
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigError(
            f"{builder.dataset_name} has not been built yet: call prepare or download_and_prepare."
        ) from error
    return BuildReport(**{**recorded, "examples": tuple(recorded["examples"])})


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
    builder = prepare(builder_class, name, source=source, cache_dir=cache_dir, parameters=parameters)
    dataset = cast(datasets.Dataset, builder.as_dataset(split="train"))
    return dataset.data.table.cast(ENGAGEMENT_SCHEMA)


def prepare(
    builder_class: type[datasets.DatasetBuilder],
    name: str,
    *,
    source: str | os.PathLike[str] | None = None,
    cache_dir: str | os.PathLike[str] | None = None,
    parameters: Mapping[str, Any] | None = None,
    **options: Any,
) -> datasets.DatasetBuilder:
    """Build a dataset, or find it in the cache; arguments as in :func:`build_engagements`.

    Args:
        options: for ``download_and_prepare``, such as ``output_dir``, ``file_format="parquet"``, ``num_proc``.

    Returns:
        The builder, for ``as_dataset`` and :func:`build_report`.
    """
    given = dict(parameters or {})
    config_class = builder_class.BUILDER_CONFIG_CLASS
    known = list(config_class.parameter_defaults()) if hasattr(config_class, "parameter_defaults") else []
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
            builder.download_and_prepare(**options)
        except DatasetGenerationError as error:
            ours = _ours_behind(error)
            if ours is None:
                raise
            raise ours from None
    return builder


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
