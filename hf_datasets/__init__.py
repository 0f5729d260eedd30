"""The benchmark's data: engagements, the datasets that have a name, and taxonomies.

    >>> from gistbench.hf_datasets import describe_engagements, load_engagements
    >>> describe_engagements(load_engagements("planted", n_users=3)).n_users
    3

What needs the `datasets` library is imported when it is first asked for, so that this package is quick to import.
"""

from typing import TYPE_CHECKING

from .errors import ConfigError, DataError, EngineError, GistbenchError, GistbenchWarning, HubError, StoreError
from .files import FILE_EXTENSIONS, read_engagements
from .registry import (
    CONFIG_NAMES,
    DATASET_NAMES,
    TABLE_NAMES,
    DatasetRecord,
    config_record,
    dataset_record,
    list_datasets,
    load_engagements,
)
from .schema import (
    ENGAGEMENT_SCHEMA,
    INTERACTION_TYPES,
    EngagementStats,
    Quantiles,
    describe_engagements,
    filter_users,
    fingerprint_engagements,
    newest_first,
    user_slices,
    validate_engagements,
)
from .taxonomy import TAXONOMY_NAMES, Taxonomy, load_taxonomy

if TYPE_CHECKING:
    from .builder import FEATURES
    from .planted import planted_oracle, planted_truth
    from .ratings import split_ratings
    from .results_published import load_results_published, published_value

__all__ = [
    "CONFIG_NAMES",
    "DATASET_NAMES",
    "ENGAGEMENT_SCHEMA",
    "FEATURES",
    "FILE_EXTENSIONS",
    "INTERACTION_TYPES",
    "TABLE_NAMES",
    "TAXONOMY_NAMES",
    "ConfigError",
    "DataError",
    "DatasetRecord",
    "EngagementStats",
    "EngineError",
    "GistbenchError",
    "GistbenchWarning",
    "HubError",
    "Quantiles",
    "StoreError",
    "Taxonomy",
    "config_record",
    "dataset_record",
    "describe_engagements",
    "filter_users",
    "fingerprint_engagements",
    "list_datasets",
    "load_engagements",
    "load_results_published",
    "load_taxonomy",
    "newest_first",
    "planted_oracle",
    "planted_truth",
    "published_value",
    "read_engagements",
    "split_ratings",
    "user_slices",
    "validate_engagements",
]


def __getattr__(name: str) -> object:
    if name == "FEATURES":
        from .builder import FEATURES

        return FEATURES
    if name in ("load_results_published", "published_value"):
        from . import results_published

        return getattr(results_published, name)
    if name in ("planted_oracle", "planted_truth"):
        from . import planted

        return getattr(planted, name)
    if name == "split_ratings":
        from .ratings import split_ratings

        return split_ratings
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
