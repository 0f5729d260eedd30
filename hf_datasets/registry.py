"""The datasets that have a name, and the one way to load engagements.

A dataset is a module of this package that is called like it and holds a ``RECORD`` (what it is) whose builder makes its
rows. To add one, write the module and add its name to :data:`DATASET_NAMES` where its rows are engagements, else to
:data:`TABLE_NAMES`. Knows nothing about how rows are made.
"""

import importlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa

from ._columns import suggestion
from .errors import ConfigError
from .files import read_engagements
from .schema import validate_engagements

if TYPE_CHECKING:
    import datasets

    from .builder import EngagementBuilder

__all__ = [
    "CONFIG_NAMES",
    "DATASET_NAMES",
    "TABLE_NAMES",
    "DatasetRecord",
    "config_record",
    "dataset_record",
    "list_datasets",
    "load_engagements",
]

DATASET_NAMES: tuple[str, ...] = (
    "demo",
    "planted",
    "synthetic",
    "kuairec",
    "mind",
    "amazon_music",
    "goodreads",
    "yelp",
    "movielens",
    "goodbooks",
)
"""Datasets of engagements."""
TABLE_NAMES: tuple[str, ...] = (
    "movielens_ratings",
    "goodbooks_ratings",
    "taxonomy_open",
    "taxonomy_official",
    "oracle_official",
    "results_published",
)
"""Datasets of other rows: ratings, taxonomies, oracle, published results."""
CONFIG_NAMES: tuple[str, ...] = (*DATASET_NAMES, *TABLE_NAMES)
"""All of them: the configs of the dataset on the Hub, where their licence allows it."""


@dataclass(frozen=True)
class DatasetRecord:
    """What a named dataset is, without its rows."""

    name: str
    title: str
    summary: str
    signals: tuple[str, ...]
    """The interaction types that can occur."""
    licence: str
    """Under which terms the rows may be used, and whether they may be passed on."""
    builder: "type[datasets.DatasetBuilder]"
    redistributable: bool = False
    """The licence allows the built rows to be passed on: only then are they pushed to a Hub."""
    citation: str = "The gistbench contributors. 2026. gistbench. https://huggingface.co/datasets/gistbench/gistbench"
    homepage: str = ""
    taxonomy: str = "open"
    """The default taxonomy, a name for :func:`~gistbench.hf_datasets.taxonomy.load_taxonomy`."""

    @property
    def needs_source(self) -> str:
        """The files that the user has to provide, in words; empty where the dataset comes with the package."""
        return str(getattr(self.builder.BUILDER_CONFIG_CLASS, "needs_source", ""))

    @property
    def version(self) -> str:
        """Version of the builder: it changes when the same source gives other rows."""
        return str(self.builder.VERSION)

    @property
    def parameters(self) -> Mapping[str, Any]:
        """Parameters of the dataset and their defaults."""
        config = self.builder.BUILDER_CONFIG_CLASS
        return dict(config.parameter_defaults()) if hasattr(config, "parameter_defaults") else {}


def list_datasets() -> tuple[DatasetRecord, ...]:
    """Return the records of all named datasets of engagements, in the order of :data:`DATASET_NAMES`."""
    return tuple(dataset_record(name) for name in DATASET_NAMES)


def dataset_record(name: str) -> DatasetRecord:
    """Return the record of a named dataset of engagements.

    Raises:
        ConfigError: no dataset has this name; the message lists those that exist.
    """
    return _record(name, DATASET_NAMES)


def config_record(name: str) -> DatasetRecord:
    """Return the record of any named dataset, whatever its rows are; as :func:`dataset_record`, over all names."""
    return _record(name, CONFIG_NAMES)


def _record(name: str, names: tuple[str, ...]) -> DatasetRecord:
    if name not in names:
        raise ConfigError(f"No dataset is called {name!r}. Datasets: {', '.join(names)}.{suggestion(name, names)}")
    record: DatasetRecord = importlib.import_module(f".{name}", __package__).RECORD
    return record


def load_engagements(
    name_or_path: str | os.PathLike[str],
    *,
    source: str | os.PathLike[str] | None = None,
    cache_dir: str | os.PathLike[str] | None = None,
    **parameters: Any,
) -> pa.Table:
    """Load a named dataset, or a file or folder of engagements.

    A name goes before a file of the same name: write ``./demo`` for the file. Nothing is downloaded, and nothing else
    is loaded in place of what was asked for. Named datasets are built once for each content of their source and each
    set of parameters, and read from the cache of ``datasets`` from then on.

    Args:
        name_or_path: one of :data:`DATASET_NAMES`, or a path that
            :func:`~gistbench.hf_datasets.files.read_engagements` reads.
        source: the files that the dataset is made from; its record says which.
        cache_dir: where built datasets are kept; default ``$HF_DATASETS_CACHE``.
        parameters: the dataset's own parameters; its record lists them.

    Returns:
        Validated engagements, (rows, 5) in :data:`~gistbench.hf_datasets.schema.ENGAGEMENT_SCHEMA`: those of a named
        dataset sorted by user, then newest first; those of a file in file order.

    Raises:
        ConfigError: an unknown name or parameter, a source that is missing or not wanted.
        DataError: the files are not what they should be.

    >>> load_engagements("planted", n_users=2, n_engagements_per_user=80).num_rows
    160
    """
    name = os.fspath(name_or_path)
    if name in DATASET_NAMES:
        record = dataset_record(name)
        from .builder import build_engagements  # imports `datasets`, which files do without

        return build_engagements(
            cast("type[EngagementBuilder]", record.builder),
            name,
            source=source,
            cache_dir=cache_dir,
            parameters=parameters,
        )
    if not Path(name).expanduser().exists():
        raise ConfigError(
            f"No dataset and no file is called {name!r}. Datasets: {', '.join(DATASET_NAMES)}; or give "
            f"the path of a file.{suggestion(name, DATASET_NAMES)}"
        )
    if source is not None or parameters:
        given = [*(["source"] if source is not None else []), *parameters]
        raise ConfigError(f"{', '.join(given)}: these go with a named dataset; {name!r} is a file, read as it is.")
    return validate_engagements(read_engagements(name), source=name)
