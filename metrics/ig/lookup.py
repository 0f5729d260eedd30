"""Finds the engagements of some (user, object) pairs in a long history, reading it once, column by column.

Almost no row of a history is cited. So rows first go through a sieve: a table of flags under a cheap hash of user and
object, which lets all wanted rows through and few others. Only those are compared exactly.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from .common import INTERACTION_TYPES
from .common import canonical_numbers
from .common import codes_in

__all__ = ["types_seen"]

IntArray = npt.NDArray[np.int64]
Hashes = npt.NDArray[np.uint64]

_BLOCK = 1 << 16  # rows at once: their temporary columns stay in the processor's cache
_A, _B, _C, _D = map(np.uint64, (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0xD6E8FEB86659FD93, 0xFF51AFD7ED558CCD))


def types_seen(
    pairs: IntArray,
    user_ids: list[str],
    texts: pa.Array,
    users: pa.ChunkedArray,
    objects: pa.ChunkedArray,
    types: npt.NDArray[np.int8],
) -> npt.NDArray[np.uint8]:
    """Return the interaction types that each pair occurs with, one bit per type.

    Args:
        pairs: distinct and sorted, each ``user * len(texts) + text``, positions in ``user_ids`` and ``texts``.
        user_ids: distinct ids.
        texts: distinct object ids.
        users: the history's users.
        objects: the history's objects.
        types: the history's interaction types, positions in `INTERACTION_TYPES`.
    """
    seen = np.zeros(len(pairs), dtype=np.uint8)
    if not len(pairs) or not len(objects):
        return seen
    user = codes_in(users, user_ids)
    sieve = _sieve(pairs, texts, objects.type)
    rows, found, start = [], [], 0
    for chunk in objects.chunks:
        through = _let_through(sieve, user[start : start + len(chunk)], chunk)
        inside = np.concatenate([np.empty(0, np.int64), *through])
        rows.append(inside + start)
        found.append(chunk.take(pa.array(inside)))
        start += len(chunk)
    row = np.concatenate(rows)
    item = codes_in(pa.chunked_array(found, objects.type), texts)
    known = item >= 0
    wanted = user[row[known]].astype(np.int64) * len(texts) + item[known]
    at = np.minimum(np.searchsorted(pairs, wanted), len(pairs) - 1)
    there = pairs[at] == wanted
    at, kinds = at[there], types[row[known][there]]
    for t in range(len(INTERACTION_TYPES)):
        seen[at[kinds == t]] |= np.uint8(1 << t)
    return seen


def _let_through(sieve: npt.NDArray[np.bool_], user: npt.NDArray[np.int32], chunk: pa.Array) -> Iterator[Any]:
    """Yield the positions of a chunk's rows that may be wanted, block by block."""
    whole = _hashes(chunk) if pa.types.is_dictionary(chunk.type) else None
    for start in range(0, len(chunk), _BLOCK):
        end = min(start + _BLOCK, len(chunk))
        mine = user[start:end]
        hashes = _hashes(chunk[start:end]) if whole is None else whole[start:end]
        hit = np.flatnonzero(sieve[_slots(mine, hashes, sieve)])
        yield hit[mine[hit] >= 0] + start


def _sieve(pairs: IntArray, texts: pa.Array, kind: pa.DataType) -> npt.NDArray[np.bool_]:
    """Flag the wanted pairs, for objects of one Arrow type."""
    user, text = np.divmod(pairs, len(texts))
    value = kind.value_type if pa.types.is_dictionary(kind) else kind
    if pa.types.is_integer(value):
        numbers, at = canonical_numbers(texts, value if pa.types.is_uint64(value) else pa.int64())
        hashes = np.zeros(len(texts), np.uint64)
        hashes[at] = _hashes(numbers)
        possible = np.zeros(len(texts), np.bool_)
        possible[at] = True
        user, text = user[possible[text]], text[possible[text]]
    else:
        hashes = _hashes(texts)
    sieve = np.zeros(1 << max(12, min(26, (16 * len(pairs)).bit_length())), np.bool_)
    sieve[_slots(user, hashes[text], sieve)] = True
    return sieve


def _slots(user: npt.NDArray[Any], hashes: Hashes, sieve: npt.NDArray[np.bool_]) -> IntArray:
    mixed = user.astype(np.uint64)
    mixed *= _C
    mixed ^= hashes
    mixed ^= mixed >> np.uint64(32)
    mixed *= _D
    mixed >>= np.uint64(65 - len(sieve).bit_length())
    return mixed.view(np.int64)


def _hashes(array: pa.Array) -> Hashes:
    """Return a number for each value, the same for the same value; integers of any width hash alike, texts too."""
    if pa.types.is_dictionary(array.type):
        hashes: Hashes = _hashes(array.dictionary)[array.indices.to_numpy(zero_copy_only=False)]
        return hashes
    if pa.types.is_integer(array.type):
        wide = array if pa.types.is_uint64(array.type) else array.cast(pa.int64())
        numbers: Hashes = wide.to_numpy(zero_copy_only=False).view(np.uint64) * _A
        return numbers
    return _text_hashes(array.cast(pa.string()) if pa.types.is_string_view(array.type) else array)


def _text_hashes(array: pa.Array) -> Hashes:
    """Hash the first and the last 8 bytes and the length: ids that differ elsewhere only pass the sieve in vain."""
    n = len(array)
    if not n:
        return np.empty(0, np.uint64)
    _, offset_buffer, data_buffer = array.buffers()
    width = np.int64 if pa.types.is_large_string(array.type) else np.int32
    offsets = np.frombuffer(offset_buffer, width)[array.offset : array.offset + n + 1].astype(np.int64)
    first, last = int(offsets[0]), int(offsets[-1])
    padded = np.zeros(last - first + 16, np.uint8)
    if last > first:
        padded[8:-8] = np.frombuffer(data_buffer, np.uint8)[first:last]
    words: Hashes = np.ndarray((len(padded) - 7,), np.uint64, padded.data, strides=(1,))
    offsets -= first
    length = np.diff(offsets)
    least, most = int(length.min()), int(length.max())
    if least == most:  # equally long ids, as many data sets have: no need to look every place up
        start = np.ndarray((n,), np.uint64, padded.data, 8, (most,))
        tail, head = np.ndarray((n,), np.uint64, padded.data, most, (most,)).copy(), start.copy()
    else:
        tail, head = words[offsets[1:]], words[offsets[:-1] + 8]
    if least < 8:
        tail >>= (64 - 8 * np.minimum(length, 8)).astype(np.uint64)  # what stands before the text does not count
        head[length < 8] = 0
    tail *= _A
    head *= _B
    tail ^= head
    tail += length.view(np.uint64)
    return tail
