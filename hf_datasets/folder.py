"""A folder of configs that `datasets.load_dataset` reads: Parquet files, a README, and ``gistbench.json``.

::

    README.md                                     says where each config's files are, and what they are
    gistbench.json                                the same as records, from which the README is made
    demo/train-00000-of-00001-1a2b3c4d.parquet    the digits begin the hash of the config's rows

A repository on a Hub has the same files. As names of data files hold a hash of the rows, files of different content
never replace each other: a README is either the old one, with the old files beside it, or the new one. Knows nothing
about networks.
"""

import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import datasets
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ._atomic import naming, replacing
from .builder import EngagementBuilder, build_report, prepare
from .card import (
    ConfigEntry,
    SplitEntry,
    describe_dataset,
    entries_from_json,
    entries_to_json,
    render_card,
)
from .errors import DataError
from .registry import CONFIG_NAMES, config_record
from .schema import ENGAGEMENT_SCHEMA
from .statistics import measure_engagements

__all__ = [
    "README_NAME",
    "RECORDS_NAME",
    "BuiltConfig",
    "ConfigFolder",
    "build_config",
    "build_folder",
    "embedded_entries",
    "fingerprint_splits",
    "stale_shards",
    "write_shards",
]

RECORDS_NAME = "gistbench.json"
README_NAME = "README.md"
MAX_SHARD_BYTES = 500 << 20
"""Of a file's values, before compression; `datasets` cuts at the same size."""

_ROW_GROUP_ROWS = 65_536


@dataclass(frozen=True)
class BuiltConfig:
    """A config with its rows, which stay on disk."""

    entry: ConfigEntry
    splits: Mapping[str, pa.Table]


@dataclass(frozen=True)
class ConfigFolder:
    """What :func:`build_folder` made."""

    path: Path
    entry: ConfigEntry
    changed: bool
    """False where the folder held the same already."""


def build_config(
    name: str,
    *,
    source: str | os.PathLike[str] | None = None,
    cache_dir: str | os.PathLike[str] | None = None,
    parameters: Mapping[str, Any] | None = None,
    max_shard_bytes: int = MAX_SHARD_BYTES,
) -> BuiltConfig:
    """Build a named dataset, or find it in the cache, and measure it.

    Args:
        name: one of :data:`~gistbench.hf_datasets.registry.CONFIG_NAMES`.
        source: the files it is made from.
        cache_dir: where `datasets` keeps what was built.
        parameters: those of the dataset that differ from their defaults.
        max_shard_bytes: how much goes into one file.

    Raises:
        ConfigError: an unknown name or parameter.
        DataError: the source is not what it should be.
    """
    record = config_record(name)
    builder = prepare(record.builder, name, source=source, cache_dir=cache_dir, parameters=parameters)
    built = cast(Mapping[str, datasets.Dataset], builder.as_dataset())
    splits = {str(split): rows.data.table.replace_schema_metadata(None) for split, rows in built.items()}
    left_out: dict[str, int] = {}
    if isinstance(builder, EngagementBuilder):
        report = build_report(builder)
        few = {f"users with fewer than {builder.config.min_engagements} engagements": report.n_rows_left_out}
        broken = {f"broken rows of {Path(file).name}": n for file, n in report.skipped.items()}
        left_out = {what: n for what, n in {**report.left_out, **few, **broken}.items() if n}
    return _measured(describe_dataset(record, parameters), splits, left_out, max_shard_bytes)


def _measured(
    entry: ConfigEntry, splits: Mapping[str, pa.Table], left_out: Mapping[str, int], max_shard_bytes: int
) -> BuiltConfig:
    content = fingerprint_splits(splits)
    described = {}
    for split, table in splits.items():
        n_bytes = _value_bytes(table)
        n_shards = max(1, min(-(-n_bytes // max_shard_bytes), table.num_rows))
        shards = tuple(f"{entry.name}/{split}-{i:05d}-of-{n_shards:05d}-{content[:8]}.parquet" for i in range(n_shards))
        described[split] = SplitEntry(table.num_rows, n_bytes, shards)
    one, *more = splits.values()
    engagements = not more and one.schema.equals(ENGAGEMENT_SCHEMA)
    filled = replace(
        entry,
        content_sha256=content,
        dataset_info=_dataset_info(entry.name, one.schema, described),
        splits=described,
        statistics=measure_engagements(one) if engagements else None,
        left_out=left_out,
    )
    return BuiltConfig(filled, splits)


def _dataset_info(name: str, schema: pa.Schema, splits: Mapping[str, SplitEntry]) -> dict[str, Any]:
    """Return features and splits as `datasets` writes them into front matter.

    The size of the files is left out: it differs between versions of Arrow, and nothing reads it.
    """
    from datasets.info import DatasetInfosDict
    from huggingface_hub import DatasetCardData

    listed = datasets.SplitDict(dataset_name=name)
    for split, described in splits.items():
        listed.add(datasets.SplitInfo(name=split, num_bytes=described.n_bytes, num_examples=described.n_rows))
    info = datasets.DatasetInfo(
        features=datasets.Features.from_arrow_schema(schema),
        splits=listed,
        config_name=name,
        dataset_size=sum(split.n_bytes for split in splits.values()),
    )
    data = DatasetCardData()
    DatasetInfosDict({name: info}).to_dataset_card_data(data)
    # Through JSON: front matter holds plain dicts, whatever `datasets` made them of.
    return cast(dict[str, Any], json.loads(json.dumps(data["dataset_info"])))


def embedded_entries(cache_dir: str | os.PathLike[str] | None = None) -> list[ConfigEntry]:
    """Build and measure what comes with the package and may be passed on: the configs of the committed card."""
    described = [describe_dataset(config_record(name)) for name in CONFIG_NAMES]
    names = [entry.name for entry in described if entry.redistributable and not entry.made_from]
    return [build_config(name, cache_dir=cache_dir).entry for name in names]


def write_shards(config: BuiltConfig, folder: Path) -> list[Path]:
    """Write a config's Parquet files below ``folder``, at the paths that its entry names; return them."""
    written = []
    for split, described in config.entry.splits.items():
        table, n_shards = config.splits[split], len(described.shards)
        for i, shard in enumerate(described.shards):
            start, stop = table.num_rows * i // n_shards, table.num_rows * (i + 1) // n_shards
            path = folder / shard
            path.parent.mkdir(parents=True, exist_ok=True)
            _write_parquet(table, start, stop, path)
            written.append(path)
    return written


def _write_parquet(table: pa.Table, start: int, stop: int, path: Path) -> None:
    with (
        replacing(path) as temporary,
        pq.ParquetWriter(
            temporary,
            table.schema,
            compression="zstd",
            write_page_index=True,
            # Similar files share chunks on the Hub's storage.
            use_content_defined_chunking=True,
        ) as writer,
    ):
        for first in range(start, stop, _ROW_GROUP_ROWS):
            writer.write_table(table.slice(first, min(_ROW_GROUP_ROWS, stop - first)))
        if start == stop:
            writer.write_table(table.slice(0, 0))


def build_folder(
    name: str,
    out: str | os.PathLike[str],
    *,
    source: str | os.PathLike[str] | None = None,
    cache_dir: str | os.PathLike[str] | None = None,
    parameters: Mapping[str, Any] | None = None,
    max_shard_bytes: int = MAX_SHARD_BYTES,
) -> ConfigFolder:
    """Build a named dataset into a folder that ``datasets.load_dataset(out)`` reads.

    A folder that is there keeps its other configs. A new one appears whole or not at all; in one that is there the
    README is replaced after the new data are complete and before old ones go.

    Args:
        name: one of :data:`~gistbench.hf_datasets.registry.CONFIG_NAMES`.
        out: the folder.
        source: the files that the dataset is made from.
        cache_dir: where `datasets` keeps what was built.
        parameters: those of the dataset that differ from their defaults.
        max_shard_bytes: how much goes into one file.

    Raises:
        ConfigError: an unknown name or parameter.
        DataError: the source is not what it should be, or the folder holds something else.
    """
    path = Path(out).expanduser().absolute()
    entries = _entries_of(path)
    config = build_config(
        name, source=source, cache_dir=cache_dir, parameters=parameters, max_shard_bytes=max_shard_bytes
    )
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        with naming(path):
            staging = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}."))
        try:
            staging.chmod(0o755)  # mkdtemp lets nobody else in
            _fill(staging, config, {}, path.name)
            os.rename(staging, path)
        except BaseException:
            shutil.rmtree(staging, ignore_errors=True)
            raise
        return ConfigFolder(path, config.entry, True)
    return ConfigFolder(path, config.entry, _fill(path, config, entries, path.name))


def _entries_of(path: Path) -> dict[str, ConfigEntry]:
    """Return the configs of a folder that may be written to."""
    if not path.exists():
        return {}
    if not path.is_dir():
        raise DataError(f"{path}: this is a file. Name a folder for the dataset.")
    records = path / RECORDS_NAME
    if records.is_file():
        return entries_from_json(records.read_text(encoding="utf-8"), source=str(records))
    if found := sorted(entry.name for entry in path.iterdir()):
        raise DataError(
            f"{path}: this folder is no dataset of gistbench's; it holds {', '.join(found[:3])}"
            f"{f' and {len(found) - 3} more' if len(found) > 3 else ''}. Name a new or empty folder."
        )
    return {}


def _fill(folder: Path, config: BuiltConfig, entries: Mapping[str, ConfigEntry], repo: str) -> bool:
    """Put a config into a folder; return whether anything changed."""
    entry = config.entry
    shards = [shard for split in entry.splits.values() for shard in split.shards]
    changed = False
    if not all((folder / shard).is_file() for shard in shards):
        write_shards(config, folder)
        changed = True
    merged = {**entries, entry.name: entry}
    readme = folder / README_NAME
    existing = readme.read_text(encoding="utf-8") if readme.is_file() else None
    changed |= _write_text(folder / RECORDS_NAME, entries_to_json(merged.values()))
    changed |= _write_text(readme, render_card(merged.values(), repo=repo, existing=existing))
    for stale in stale_shards(entry, (f"{entry.name}/{path.name}" for path in (folder / entry.name).iterdir())):
        (folder / stale).unlink()
        changed = True
    return changed


def stale_shards(entry: ConfigEntry, paths: Iterable[str]) -> list[str]:
    """Return which paths are data files of the config, as this module names them, that it no longer has."""
    shards = {shard for split in entry.splits.values() for shard in split.shards}
    ours = re.compile(re.escape(entry.name) + r"/\w+-\d{5}-of-\d{5}-[0-9a-f]{8}\.parquet")
    return [path for path in paths if ours.fullmatch(path) and path not in shards]


def _write_text(path: Path, text: str) -> bool:
    content = text.encode()
    if path.is_file() and path.read_bytes() == content:
        return False
    with replacing(path) as temporary:
        temporary.write_bytes(content)
    return True


def fingerprint_splits(splits: Mapping[str, pa.Table]) -> str:
    """Return the sha256 (hex) of the splits' names, schemas and rows, however Arrow has cut them into chunks."""
    digest = hashlib.sha256(b"gistbench splits 1")
    for split, table in splits.items():
        columns = [[field.name, str(field.type)] for field in table.schema]
        digest.update(json.dumps([split, table.num_rows, columns]).encode())
        for column in table.columns:
            for part in _parts(column):
                digest.update(part)
    return digest.hexdigest()


def _parts(column: pa.ChunkedArray) -> Iterator[bytes | memoryview]:
    """Yield bytes that tell columns of one type and length apart."""
    for start in range(0, len(column), _ROW_GROUP_ROWS):
        values = column.slice(start, _ROW_GROUP_ROWS)
        yield np.packbits(pc.is_valid(values).to_numpy()).tobytes()
        if pa.types.is_string(column.type):
            texts = pc.fill_null(values, "")
            yield pc.binary_length(texts).to_numpy().astype("<i4").tobytes()
            yield from filter(None, map(_text_bytes, texts.chunks))
        elif pa.types.is_integer(column.type) or pa.types.is_floating(column.type):
            # Adding zero makes -0.0 equal to 0.0, as it is everywhere else.
            numbers = pc.fill_null(values, 0).to_numpy() + column.type.to_pandas_dtype()(0)
            yield numbers.astype(numbers.dtype.newbyteorder("<")).tobytes()
        else:  # lists, booleans and the like, in small tables
            yield json.dumps(values.to_pylist(), default=str).encode()


def _text_bytes(texts: pa.Array) -> memoryview | None:
    """Return the bytes of all texts of an array of type ``string``, one after the other."""
    _, offsets_buffer, data = texts.buffers()
    if data is None or not len(texts):
        return None
    offsets = np.frombuffer(offsets_buffer, "<i4")[texts.offset : texts.offset + len(texts) + 1]
    return memoryview(data)[offsets[0] : offsets[-1]]


def _value_bytes(table: pa.Table) -> int:
    """Return how much the values take, however Arrow holds them: lengths of texts, widths of numbers."""
    total = 0
    for column in table.columns:
        if pa.types.is_string(column.type):
            total += (pc.sum(pc.binary_length(column)).as_py() or 0) + 4 * len(column)
        elif pa.types.is_primitive(column.type):
            total += -(-len(column) * column.type.bit_width // 8)
        else:
            total += len(json.dumps(column.to_pylist(), default=str))
    return total
