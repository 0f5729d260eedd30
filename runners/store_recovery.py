"""Reads what can be read of a damaged response store: page by page, without SQLite's own way through them.

SQLite gives up at the first damaged page on its way, and loses all behind it. Rows are looked for here in every page
that holds rows of a table, whether anything still leads to it or not: a page that cannot be read costs its own rows
only. It knows the format of the file (https://www.sqlite.org/fileformat2.html) and that of our rows, and checks both.
"""

import struct
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from ..hf_datasets.errors import StoreError
from .requests import STATUSES
from .store import LAST_MS, StoredAttempt, checksum, engine_id

__all__ = ["Recovered", "recover"]

_PAGE_SIZES = tuple(2**n for n in range(9, 17))
_LEAF_OF_ROWS = 13
_CHUNK_ROWS = 1_000
_N_COLUMNS = {"attempts": 18, "origins": 4}
_WIDTHS = (0, 1, 2, 3, 4, 6, 8, 8, 0, 0)
"""Bytes of a value by its serial type."""
_DEFAULT_PAGE_SIZE = 4096


class Recovered(NamedTuple):
    """What a damaged store still says."""

    chunks: Iterator[list[StoredAttempt]]
    """Attempts in the order of their pages; stage and model are empty where their own row was lost."""
    engines: dict[str, str]
    """Descriptions as JSON, by ``made_by``."""


def recover(path: Path) -> Recovered:
    """Find the rows of a damaged store.

    Raises:
        StoreError: the file cannot be read.
    """
    try:
        pages = _Pages(path)
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error}.") from error
    origins: dict[int, tuple[str, str, str]] = {}
    for number, row in pages.rows(_N_COLUMNS["origins"]):
        if all(isinstance(value, str) for value in row[1:]):
            origins[number] = row[1], row[2], row[3]
    return Recovered(_attempts(pages, origins), {engine_id(engine): engine for _, _, engine in origins.values()})


def _attempts(pages: "_Pages", origins: dict[int, tuple[str, str, str]]) -> Iterator[list[StoredAttempt]]:
    seen: set[int] = set()  # a page that was split or moved may have left a copy
    chunk: list[StoredAttempt] = []
    for number, row in pages.rows(_N_COLUMNS["attempts"]):
        _, key, attempt, origin, status, *texts_and_counts, seconds, final, about, finished_ms, written = row
        texts, counts = texts_and_counts[:4], texts_and_counts[4:]
        is_ours = (
            isinstance(key, bytes)
            and len(key) == 32
            and status in STATUSES
            and all(isinstance(text, str) for text in (*texts, about))
            and all(isinstance(count, int) for count in (attempt, origin, *counts, final, finished_ms))
            and isinstance(seconds, int | float)
            and checksum(key.hex(), status, *texts[:2]) == written
        )
        if not is_ours or number in seen:
            continue
        seen.add(number)
        stage, model, engine = origins.get(origin, ("", "", ""))
        # Times are no part of the checksum: an answer is not given up for a time that was damaged.
        ms = max(0, min(finished_ms, LAST_MS))
        at = datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        outcome = (attempt, status, *texts, *counts, float(seconds), bool(final))
        chunk.append(StoredAttempt._make((key.hex(), stage, about, model, *outcome, at, engine_id(engine))))
        if len(chunk) >= _CHUNK_ROWS:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


class _Pages:
    """The pages of a database file, the newest of each where its log holds newer ones."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("rb")
        header = self._file.read(100)
        size = int.from_bytes(header[16:18], "big")
        self.size = {1: 65536}.get(size, size)
        if self.size not in _PAGE_SIZES:
            self.size = _DEFAULT_PAGE_SIZE
        self.n_pages = (path.stat().st_size + self.size - 1) // self.size
        log = path.with_name(path.name + "-wal")
        self._log = log.open("rb") if log.exists() else None
        self._newer = self._index_log()

    def _index_log(self) -> dict[int, int]:
        """Return where in the log the newest copy of each page stands."""
        found: dict[int, int] = {}
        if self._log is None:
            return found
        salt = self._log.read(32)[16:24]
        at = 32
        while len(frame := self._log.read(24)) == 24 and frame[8:16] == salt:
            found[int.from_bytes(frame[:4], "big")] = at + 24
            at += 24 + self.size
            self._log.seek(at)
        self.n_pages = max([self.n_pages, *found])
        return found

    def read(self, number: int) -> bytes:
        """Return a page, counted from 1; filled up with zeros where the file was cut."""
        if number in self._newer and self._log is not None:
            self._log.seek(self._newer[number])
            page = self._log.read(self.size)
        else:
            self._file.seek((number - 1) * self.size)
            page = self._file.read(self.size)
        return page.ljust(self.size, b"\0")

    def rows(self, n_columns: int) -> Iterator[tuple[int, list[Any]]]:
        """Yield number and values of every readable row with so many columns."""
        for number in range(1, self.n_pages + 1):
            page = self.read(number)
            if page[0] != _LEAF_OF_ROWS:
                continue
            for place in range(int.from_bytes(page[3:5], "big")):
                at = int.from_bytes(page[8 + 2 * place : 10 + 2 * place], "big")
                try:
                    row_number, payload = self._cell(page, at, n_columns)
                    values = _values(payload) if payload else []
                except (IndexError, ValueError, struct.error):
                    continue  # damaged
                if len(values) == n_columns:
                    yield row_number, values

    def _cell(self, page: bytes, at: int, n_columns: int) -> tuple[int, bytes]:
        """Return a row's number and its bytes, wherever they go on; none where it has another number of columns."""
        n_bytes, at = _varint(page, at)
        row_number, at = _varint(page, at)
        largest, least = self.size - 35, (self.size - 12) * 32 // 255 - 23
        inside = n_bytes
        if n_bytes > largest:
            fitting = least + (n_bytes - least) % (self.size - 4)
            inside = fitting if fitting <= largest else least
        payload = bytearray(page[at : at + inside])
        # The header says how many columns there are: most rows of other tables need not be read to their end.
        header_size, _ = _varint(payload, 0)
        if not n_columns < header_size <= 10 * n_columns:
            return row_number, b""
        following = int.from_bytes(page[at + inside : at + inside + 4], "big") if inside < n_bytes else 0
        while len(payload) < n_bytes:
            if not 1 < following <= self.n_pages:
                raise ValueError
            more = self.read(following)
            following = int.from_bytes(more[:4], "big")
            payload += more[4 : 4 + n_bytes - len(payload)]
        return row_number, bytes(payload)


def _varint(data: bytes | bytearray, at: int) -> tuple[int, int]:
    """Read a number of one to nine bytes; return it and where it ends."""
    value = 0
    for place in range(8):
        byte = data[at + place]
        value = value << 7 | byte & 127
        if byte < 128:
            return value, at + place + 1
    return value << 8 | data[at + 8], at + 9


def _values(payload: bytes) -> list[Any]:
    """Read the values of a row."""
    header_size, at = _varint(payload, 0)
    kinds = []
    while at < header_size:
        kind, at = _varint(payload, at)
        kinds.append(kind)
    values: list[Any] = []
    at = header_size
    for kind in kinds:
        width = (kind - 12) // 2 if kind >= 12 else _WIDTHS[kind]
        raw = payload[at : at + width]
        if len(raw) != width:
            raise ValueError
        at += width
        if kind >= 12:
            values.append(raw.decode() if kind % 2 else raw)
        elif kind == 0:
            values.append(None)
        elif kind == 7:
            values.append(struct.unpack(">d", raw)[0])
        else:
            values.append(kind - 8 if kind >= 8 else int.from_bytes(raw, "big", signed=True))
    return values
