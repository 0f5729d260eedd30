"""What one judge left in a work folder: induced profiles and grades, each a table with a record.

The folder ``judged/NAME`` of a work folder holds ``profiles.parquet`` and, for each condition, ``CONDITION.parquet``
(grades, one row for each pair and sample), each with a record beside it that is written last. Unlike the tables of the
first steps they are never removed when something that they were built on changes: answers are paid for. What was
built on something else is refused, and made again from the response store.
"""

import logging
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ...hf_datasets.errors import ConfigError, StoreError
from ..parsing import Taste
from ..runfolder import read_json, write_json
from ..stages.grade import Condition
from ..store import STORE_NAME
from .work import Work, write_table

__all__ = [
    "PAIR_SEPARATOR",
    "PROFILES",
    "Judged",
    "Part",
    "graded_parts",
    "held_out_pairs",
    "judged_names",
    "pair_grades",
    "pair_keys",
    "sampled_users",
]

logger = logging.getLogger(__name__)

PAIR_SEPARATOR = "\x1f"
"""Between user and item in :func:`pair_keys`."""
PROFILES = "profiles"
FORMAT = 1
_NAME = re.compile(r"[A-Za-z0-9][\w.@+-]{0,120}")


class Judged:
    """The folder of one judge."""

    def __init__(self, work: Work, name: str) -> None:
        """Name the judge.

        Raises:
            ConfigError: the name cannot be that of a folder.
        """
        if not _NAME.fullmatch(name):
            raise ConfigError(f"{name!r} cannot name a judge: use letters, digits, and any of _ . @ + -.")
        self.work = work
        self.name = name
        self.path = work.path / "judged" / name

    @property
    def conditions(self) -> list[Condition]:
        """The conditions under which there are grades, without plots first."""
        names = [path.stem for path in sorted(self.path.glob("*.json")) if path.stem != PROFILES]
        found = []
        for name in names:
            try:
                found.append(Condition.of(name))
            except ValueError:
                continue
        return sorted(found, key=lambda one: (one.plot, one.name))

    def record(self, part: str) -> dict[str, Any]:
        """Return the record of a part: ``profiles``, or a condition's name.

        Raises:
            StoreError: there is none, or it was made from another split, sample or pool than is there now.
        """
        path = self.path / f"{part}.json"
        command = "induce" if part == PROFILES else "judge"
        again = f"Run `gistbench qrels {command} --work {self.work.path}`; what was answered is not asked again."
        if not path.exists():
            raise StoreError(f"{self.path} has no {part}. {again}")
        record = read_json(path)
        if not isinstance(record, dict) or record.get("format") != FORMAT:
            raise StoreError(f"{path} is no record that this version reads (format {FORMAT}). {again}")
        for step, made_by in record["built_on"].items():
            if self.work.record(step)["fingerprint"] != made_by:
                raise StoreError(f"{path} was made from another {step}. {again}")
        return record

    def is_current(self, part: str) -> bool:
        """Return whether there is a part, and it was made from what is there now."""
        return self._current(part) is not None

    def is_done(self, part: str, made_by: str) -> bool:
        """Return whether a part was made with the same fingerprint, and every question got an answer of some kind."""
        record = self._current(part)
        if record is None or not (self.path / f"{part}.parquet").exists():
            return False
        return record["fingerprint"] == made_by and not record["n_errors"]

    def _current(self, part: str) -> dict[str, Any] | None:
        try:
            return self.record(part)
        except StoreError:
            return None

    def read(self, part: str) -> pa.Table:
        """Read the table of a part, having made sure of its record.

        Raises:
            StoreError: it is not there, cannot be read, or was made from something else.
        """
        self.record(part)
        path = self.path / f"{part}.parquet"
        try:
            return pq.ParquetFile(path).read()
        except (pa.ArrowException, OSError) as error:
            raise StoreError(f"{path} cannot be read: {error}. Run the step that writes it again.") from error

    def write(
        self, part: str, table: pa.Table, record: Mapping[str, Any], *, made_by: str, built_on: Mapping[str, str]
    ) -> None:
        """Write the table of a part, then its record."""
        self.path.mkdir(parents=True, exist_ok=True)
        path = self.path / f"{part}.json"
        path.unlink(missing_ok=True)
        write_table(self.path / f"{part}.parquet", table)
        write_json(path, {"format": FORMAT, "fingerprint": made_by, "built_on": dict(built_on), **record})

    def tastes(self) -> dict[str, Taste]:
        """Return the induced profiles by user; users without one are left out."""
        table = self.read(PROFILES)
        table = table.filter(pc.equal(table["status"], "ok"))
        rows = table.select(["user", *Taste._fields]).to_pylist()
        return {row.pop("user"): Taste(**row) for row in rows}

    def grades(self, condition: Condition) -> pa.Table:
        """Return one row per pair: see :func:`pair_grades`."""
        return pair_grades(self.read(condition.name))


def judged_names(work: Work) -> list[str]:
    """Return the names of the judges who left grades, in order."""
    folder = work.path / "judged"
    names = sorted(path.name for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []
    return [name for name in names if Judged(work, name).conditions]


class Part(NamedTuple):
    """The grades of one judge under one condition."""

    judged: Judged
    condition: Condition


def graded_parts(
    work: Work, names: Sequence[str] | None = None, conditions: Sequence[Condition] | None = None
) -> list[Part]:
    """Return the grades that were given for the split and pool that are there now; a warning names the others.

    Args:
        work: a folder with a pool.
        names: of judges; None: all who graded.
        conditions: only these; None: all.

    Raises:
        StoreError: nothing is pooled, or a judge who was named has no such grades.
    """
    work.record("pool")
    found: list[Part] = []
    for name in judged_names(work) if names is None else names:
        judged = Judged(work, name)
        others = []
        n_before = len(found)
        for condition in judged.conditions:
            if conditions is None or condition in conditions:
                try:
                    judged.record(condition.name)
                except StoreError as error:
                    others.append(str(error))
                else:
                    found.append(Part(judged, condition))
        if names is not None and len(found) == n_before:
            run = f"Run `gistbench qrels judge --work {work.path}` first."
            raise StoreError(others[0] if others else f"{judged.path} has no grades. {run}")
        for other in others:
            logger.warning("Left out: %s", other)
    return found


def sampled_users(work: Work) -> list[str]:
    """Return the users whose pairs are pooled and judged, in order."""
    if work.record("pool")["settings"]["all_users"]:
        ratings = work.read("ratings", ["user", "split"])
        users = ratings.filter(pc.equal(ratings["split"], "test"))["user"].unique()
    else:
        users = work.read("users", ["user"])["user"]
    found: list[str] = sorted(users.cast(pa.string()).to_pylist(), key=str.encode)
    return found


def held_out_pairs(work: Work, users: list[str]) -> pa.Table:
    """Return ``user``, ``item``, ``rating`` of the held-out ratings of some users: Q^H."""
    table = work.read("ratings", ["user", "item", "rating", "split"])
    user = table["user"].cast(pa.string())
    kept = pc.and_(pc.equal(table["split"], "test"), pc.is_in(user, value_set=pa.array(users, pa.string())))
    return pa.table(
        {
            "user": user.filter(kept),
            "item": table["item"].cast(pa.string()).filter(kept),
            "rating": table["rating"].filter(kept),
        }
    )


def pair_keys(table: pa.Table) -> pa.Array:
    """Return each row's ``user`` and ``item`` as one text."""
    columns = [table[name].cast(pa.string()) for name in ("user", "item")]
    joined = pc.binary_join_element_wise(*columns, PAIR_SEPARATOR)
    return joined.combine_chunks() if isinstance(joined, pa.ChunkedArray) else joined


def pair_grades(graded: pa.Table) -> pa.Table:
    """Bring the samples of each pair together.

    Args:
        graded: in :data:`~gistbench.runners.stages.grade.GRADED`; each sample holds the same pairs in the same order.

    Returns:
        ``user``, ``item``, ``grade`` (the lower median of the readable samples, so a whole grade; null without any),
        ``n_samples``, ``n_parsed``, ``lowest``, ``highest`` of the samples, and ``request_key`` of the first sample.

    >>> table = pa.table({"user": ["u"] * 3, "item": ["a"] * 3, "sample": [0, 1, 2], "grade": [4, 5, None],
    ...                   "status": ["ok", "ok", "failed"], "request_key": ["x", "y", "z"]})
    >>> pair_grades(table).to_pylist()[0]["grade"], pair_grades(table).to_pylist()[0]["n_parsed"]
    (4, 2)
    """
    sample = graded["sample"].to_numpy()
    n_samples = int(sample.max()) + 1 if len(sample) else 1
    first = graded.slice(0, graded.num_rows // n_samples)
    matrix = graded["grade"].to_numpy().astype(np.float64).reshape(n_samples, -1)
    ordered = np.sort(matrix, axis=0)  # NaN stands last
    n_parsed = (~np.isnan(matrix)).sum(axis=0)
    columns = np.arange(matrix.shape[1])
    median = ordered[np.maximum(n_parsed - 1, 0) // 2, columns]
    highest = ordered[np.maximum(n_parsed - 1, 0), columns]
    none = n_parsed == 0

    def whole(values: Any) -> pa.Array:
        return pa.array(np.where(none, 0, values).astype(np.int64), mask=none)

    return pa.table(
        {
            "user": first["user"],
            "item": first["item"],
            "grade": whole(median),
            "n_samples": np.full(len(columns), n_samples),
            "n_parsed": n_parsed,
            "lowest": whole(ordered[0]),
            "highest": whole(highest),
            "request_key": first["request_key"],
        }
    )


def path_of_store(work: Work) -> Path:
    """Return where the answers of all judges are kept unless another place is named."""
    return work.path / "judged" / STORE_NAME
