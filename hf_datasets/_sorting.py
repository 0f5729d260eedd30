"""Sort more rows than fit into memory by user, then newest first, and leave out users with few rows.

Rows are gathered into runs of a bounded size; each run is sorted, and where there is more than one, written to a
temporary file (in ``$TMPDIR``). Then all runs are read side by side, one range of users after the other. So memory is
bounded by the size of a run, whatever the number of rows. Knows nothing about what the rows mean.
"""

import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .schema import order_newest_first, take_rows

__all__ = ["UserSort"]

RUN_BYTES = 96 << 20
"""Rows are sorted, and read back, in pieces of this size."""
_BATCH_ROWS = 16_384


@dataclass
class _Run:
    path: Path
    first: list[str]
    """First user of each batch of the file."""
    last: list[str]


class UserSort:
    """One pass of sorting; the counts are known when it is through."""

    def __init__(self, *, user: str = "user_id", time: str = "interaction_time", min_rows: int = 1) -> None:
        """Name the columns to sort by, and how many rows a user needs to have."""
        self._user, self._time, self._min_rows = user, time, min_rows
        self.n_rows = 0
        """Rows that came in."""
        self.n_users = 0
        """Users that came in."""
        self.n_users_left_out = 0
        self.n_rows_left_out = 0

    def sorted(self, tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
        """Yield the rows of the tables, which have one schema, in order, in pieces of whole users."""
        with tempfile.TemporaryDirectory(prefix="gistbench-sort-") as folder:
            runs: list[_Run] = []
            counts: pa.Table | None = None
            rows = size = 0
            only: pa.Table | None = None
            for table in self._pieces(tables):
                if only is not None:
                    runs.append(self._write(only, Path(folder) / f"{len(runs)}.arrow"))
                only = take_rows(table, order_newest_first(table, self._user, self._time))
                rows, size = rows + only.num_rows, size + only.nbytes
                counts = self._counted(only, counts)
                del table
            if counts is None or only is None:
                return
            counts = counts.sort_by(self._user)
            kept = self._kept(counts)
            if not runs:
                yield self._filtered(only, counts, kept)
                return
            runs.append(self._write(only, Path(folder) / f"{len(runs)}.arrow"))
            only = None
            yield from self._merged(runs, kept, max(1, RUN_BYTES * rows // max(size, 1)), len(kept) < len(counts))

    def _pieces(self, tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
        """Gather tables to about the size of a run, and cut longer ones."""
        held: list[pa.Table] = []
        size = 0
        for table in tables:
            rows = max(1, table.num_rows * RUN_BYTES // max(table.nbytes, 1))
            for start in range(0, table.num_rows, rows):
                piece = table.slice(start, rows)
                if held and size + piece.nbytes > RUN_BYTES:
                    yield pa.concat_tables(held)
                    held, size = [], 0
                held.append(piece)
                size += piece.nbytes
        if held:
            yield pa.concat_tables(held)

    def _write(self, table: pa.Table, path: Path) -> _Run:
        run = _Run(path, [], [])
        options = pa.ipc.IpcWriteOptions(compression="lz4")
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema, options=options) as writer:
            for start in range(0, table.num_rows, _BATCH_ROWS):
                piece = table.slice(start, _BATCH_ROWS).combine_chunks()
                for batch in piece.to_batches():
                    run.first.append(batch[self._user][0].as_py())
                    run.last.append(batch[self._user][-1].as_py())
                    writer.write_batch(batch)
        return run

    def _counted(self, table: pa.Table, before: pa.Table | None) -> pa.Table:
        counted = table.group_by(self._user).aggregate([([], "count_all")]).rename_columns([self._user, "rows"])
        if before is None:
            return counted
        both = pa.concat_tables([before, counted]).group_by(self._user).aggregate([("rows", "sum")])
        return both.rename_columns([self._user, "rows"])

    def _kept(self, counts: pa.Table) -> pa.Table:
        kept = counts.filter(pc.greater_equal(counts["rows"], self._min_rows)) if self._min_rows > 1 else counts
        self.n_rows, self.n_users = pc.sum(counts["rows"]).as_py(), counts.num_rows
        self.n_users_left_out = counts.num_rows - kept.num_rows
        self.n_rows_left_out = self.n_rows - (pc.sum(kept["rows"]).as_py() or 0)
        return kept

    def _filtered(self, table: pa.Table, counts: pa.Table, kept: pa.Table) -> pa.Table:
        if len(kept) == len(counts):
            return table
        return table.filter(pc.is_in(table[self._user], value_set=kept[self._user].combine_chunks()))

    def _merged(self, runs: list[_Run], kept: pa.Table, target_rows: int, filtering: bool) -> Iterator[pa.Table]:
        files = [pa.ipc.open_file(pa.OSFile(str(run.path))) for run in runs]
        ends = np.cumsum(kept["rows"].to_numpy())
        start = 0
        while start < len(ends):
            before = ends[start - 1] if start else 0
            stop = max(start + 1, int(np.searchsorted(ends, before + target_rows, side="right")))
            users = kept[self._user].slice(start, stop - start).combine_chunks()
            low, high = users[0].as_py(), users[-1].as_py()
            parts = []
            for run, file in zip(runs, files, strict=True):
                for i in range(len(run.first)):
                    if run.last[i] >= low and run.first[i] <= high:
                        part = pa.Table.from_batches([file.get_batch(i)])
                        if run.first[i] < low or run.last[i] > high:
                            column = part[self._user]
                            part = part.filter(pc.and_(pc.greater_equal(column, low), pc.less_equal(column, high)))
                        parts.append(part)
            table = pa.concat_tables(parts)
            del parts
            if filtering:
                table = table.filter(pc.is_in(table[self._user], value_set=users))
            yield take_rows(table, order_newest_first(table, self._user, self._time))
            start = stop
