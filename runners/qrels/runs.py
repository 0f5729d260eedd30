"""Finished runs in a work folder: one Parquet file, its record and, as an option, a TREC file each."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from ...hf_datasets._atomic import replacing
from ...hf_datasets.errors import DataError, StoreError
from ..runfolder import read_json, write_json
from .work import Work

__all__ = [
    "RUN_SCHEMA",
    "RunRecord",
    "RunTable",
    "finished_run",
    "read_run_table",
    "run_path",
    "write_run",
    "write_trec",
]

_ENCODED = pa.dictionary(pa.int32(), pa.string())
RUN_SCHEMA: pa.Schema = pa.schema(
    [
        pa.field("system", _ENCODED),
        pa.field("user", _ENCODED),
        pa.field("item", _ENCODED),
        pa.field("rank", pa.int32()),
        pa.field("score", pa.float32()),
    ]
)
"""Users in ascending order of their ids, each list best first, from rank 1."""

_TREC_ROWS = 1_000_000


@dataclass(frozen=True)
class RunRecord:
    """What a run is, and how it was made."""

    system: str
    algorithm: str
    representative: bool
    """The one run that stands for its algorithm."""
    parameters: dict[str, Any]
    """Of the recommender; of an imported run, its file and format."""
    fingerprint: str
    """Of all that determines the lists."""
    n_users: int
    """Users with a list."""
    n_rows: int
    n_bytes: int
    """Size of the Parquet file."""
    seconds: float
    cpu_seconds: float
    """Of this process with all its threads: what the run takes on an idle core."""
    counts: dict[str, int]
    """Of an imported run: what was left out of it, and what is odd in it."""


class RunTable:
    """A run being written, block by block."""

    def __init__(self, system: str, users: pa.Array, items: pa.Array) -> None:
        """Name the system; users and items are the texts of all codes."""
        self._names = (pa.array([system]), users, items)

    def block(self, users: npt.NDArray[Any], items: npt.NDArray[Any], scores: npt.NDArray[np.float32]) -> pa.Table:
        """Return the rows of some lists.

        Args:
            users: code of each list's user, (lists,).
            items: codes, best first, -1 after the end, (lists, k).
            scores: (lists, k).
        """
        there = items >= 0
        rank = np.broadcast_to(np.arange(1, items.shape[1] + 1, dtype=np.int32), items.shape)[there]
        codes = (
            np.zeros(len(rank), np.int32),
            np.repeat(users.astype(np.int32), there.sum(axis=1)),
            items[there].astype(np.int32),
        )
        encoded = [
            pa.DictionaryArray.from_arrays(pa.array(c), texts) for c, texts in zip(codes, self._names, strict=True)
        ]
        return pa.table([*encoded, pa.array(rank), pa.array(scores[there])], schema=RUN_SCHEMA)


def run_path(work: Work, system: str, ending: str) -> Path:
    """Return the path of a run's file: ``parquet``, ``json`` or ``run``."""
    return work.path / "runs" / f"{system}.{ending}"


def finished_run(work: Work, system: str, made_by: str) -> RunRecord | None:
    """Return the record of a finished run; None if there is none, it was made otherwise, or its table is damaged."""
    record, table = run_path(work, system, "json"), run_path(work, system, "parquet")
    if not record.exists() or not table.exists():
        return None
    try:
        found = RunRecord(**read_json(record))
    except (StoreError, TypeError):
        return None
    return found if found.fingerprint == made_by and table.stat().st_size == found.n_bytes else None


def write_run(
    work: Work, record: RunRecord, blocks: Iterable[pa.Table], *, trec: bool, seconds: Callable[[], tuple[float, float]]
) -> RunRecord:
    """Write a run: its table, then its TREC file, then its record.

    Args:
        work: the folder.
        record: the run; what is known only afterwards is filled in.
        blocks: its rows.
        trec: whether to write a TREC file.
        seconds: how long making the blocks took (wall, CPU), asked when they are done.

    Raises:
        DataError: there is no list for any user.
    """
    run_path(work, record.system, "json").unlink(missing_ok=True)
    path = run_path(work, record.system, "parquet")
    n_rows = n_users = 0
    with replacing(path) as temporary, pq.ParquetWriter(temporary, RUN_SCHEMA, compression="zstd") as writer:
        for block in blocks:
            n_rows += block.num_rows
            n_users += int(np.count_nonzero(block["rank"].to_numpy() == 1))
            writer.write_table(block)
        if not n_rows:
            raise DataError(
                f"The run {record.system} has no list for any user, so there is nothing to score. Leave it out, or "
                "change its settings."
            )
    wall, cpu = seconds()
    if trec:
        write_trec(work, record.system)
    else:
        run_path(work, record.system, "run").unlink(missing_ok=True)
    known = {"n_users": n_users, "n_rows": n_rows, "n_bytes": path.stat().st_size}
    done = RunRecord(**{**asdict(record), **known, "seconds": round(wall, 3), "cpu_seconds": round(cpu, 3)})
    write_json(run_path(work, record.system, "json"), asdict(done))
    return done


def write_trec(work: Work, system: str) -> None:
    """Write the TREC file of a run from its table, with the writer of the `qrels_expansion` module."""
    from ..score import load_metric

    metric = load_metric("qrels_expansion")
    with replacing(run_path(work, system, "run")) as temporary, temporary.open("wb") as out:
        part = temporary.with_name(temporary.name + ".part")
        try:
            for table in _whole_lists(run_path(work, system, "parquet")):
                metric.write_run(table, part)
                with part.open("rb") as written:
                    while chunk := written.read(1 << 20):
                        out.write(chunk)
        finally:
            part.unlink(missing_ok=True)


def _whole_lists(path: Path) -> Iterator[pa.Table]:
    """Yield a run in parts that cut no list."""
    rest: pa.Table | None = None
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(_TREC_ROWS, columns=["system", "user", "item", "rank", "score"]):
            table = pa.Table.from_batches([batch])
            table = table if rest is None else pa.concat_tables([rest, table])
            starts = np.flatnonzero(table["rank"].to_numpy() == 1)
            last = int(starts[-1]) if len(starts) else 0
            if last:
                yield table.slice(0, last)
            rest = table.slice(last)
    if rest is not None and rest.num_rows:
        yield rest


def read_run_table(work: Work, system: str, users: pa.Array | None = None) -> pa.Table:
    """Read a run, of all users or of some, ids dictionary-encoded.

    Raises:
        StoreError: it is not there, or cannot be read.
    """
    import pyarrow.compute as pc

    path = run_path(work, system, "parquet")
    try:
        with pq.ParquetFile(path, read_dictionary=["system", "user", "item"]) as file:
            if users is None:
                return file.read()
            kept = []
            for group in range(file.num_row_groups):
                table = file.read_row_group(group)
                kept.append(table.filter(pc.is_in(table["user"].cast(pa.string()), value_set=users)))
            return pa.concat_tables(kept) if kept else file.schema_arrow.empty_table()
    except (pa.ArrowException, OSError) as error:
        raise StoreError(
            f"{path} cannot be read: {error}. Run `gistbench qrels recommend --work {work.path}` again."
        ) from error
