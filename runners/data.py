"""What a run reads: engagements, users, pool and taxonomy, loaded and indexed from a configuration."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from ..hf_datasets import (
    DATASET_NAMES,
    Taxonomy,
    dataset_record,
    describe_engagements,
    filter_users,
    fingerprint_engagements,
    load_engagements,
    load_taxonomy,
)
from .config import RunConfig
from .histories import Histories, ObjectPool, sample_pool

__all__ = ["Data", "choose_taxonomy", "choose_users", "load_data"]


@dataclass(frozen=True)
class Data:
    """What a run reads, indexed."""

    histories: Histories
    pool: ObjectPool
    taxonomy: Taxonomy | None
    record: dict[str, Any]
    """What is recorded of the data: names, versions, fingerprints, counts."""


def load_data(config: RunConfig) -> Data:
    """Load what a configuration names.

    Raises:
        ConfigError, DataError: it cannot be had or used.
    """
    engagements = load_engagements(config.dataset, source=config.source, **config.dataset_options)
    whole = describe_engagements(engagements)
    users = choose_users(engagements, config)
    named = config.dataset in DATASET_NAMES
    taxonomy = choose_taxonomy(config)
    return Data(
        histories=Histories(users, signals=whole.signals, max_item_chars=config.max_item_chars),
        pool=sample_pool(engagements, size=config.pool_size, seed=config.seed, max_item_chars=config.max_item_chars),
        taxonomy=taxonomy,
        record={
            "dataset": config.dataset if named else Path(config.dataset).name,
            "builder_version": dataset_record(config.dataset).version if named else None,
            "sha256": fingerprint_engagements(engagements),
            "users_sha256": fingerprint_engagements(users),
            "signals": list(whole.signals),
            "n_engagements": whole.n_rows,
            "n_users": whole.n_users,
            "n_objects": whole.n_objects,
            "n_duplicates": whole.n_duplicates,
            "n_objects_with_conflicting_text": whole.n_objects_with_conflicting_text,
            "n_users_requested": describe_engagements(users).n_users,
            "taxonomy": {"name": taxonomy.name, "sha256": taxonomy.sha256} if taxonomy else None,
        },
    )


def choose_users(engagements: pa.Table, config: RunConfig) -> pa.Table:
    """Return the engagements of the users that a configuration names.

    Raises:
        ConfigError: there are no such users.
    """
    return filter_users(
        engagements,
        config.users,
        min_engagements=config.min_engagements,
        n_users=config.n_users,
        seed=config.seed,
        stratified=config.sample == "stratified",
    )


def choose_taxonomy(config: RunConfig) -> Taxonomy | None:
    """Return the taxonomy that a configuration names, or else the data set's own; None where it wants none.

    Raises:
        ConfigError, DataError: it cannot be had or used.
    """
    default = dataset_record(config.dataset).taxonomy if config.dataset in DATASET_NAMES else "open"
    name = config.taxonomy or default
    return None if name == "none" else load_taxonomy(name, source=config.taxonomy_source)
