"""Finds the engagements of some (user, object) pairs in a long history, reading it once, column by column.

Almost no row of a history is cited. So rows first go through a sieve: a table of flags under a cheap hash of user and
object, which lets all wanted rows through and few others. Under the same hash stands one pair, with which such a row is
compared exactly; rows under whose hash several pairs stand, a few, are looked up once more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from .common import INTERACTION_TYPES
from .common import canonical_numbers
from .common import codes_in

__all__ = ["types_seen"]

IntArray = npt.NDArray[np.int64]
Hashes = npt.NDArray[np.uint64]

_COARSER = 2  # bits of a hash that the table of pairs, four times smaller than that of flags, leaves out
_BLOCK = 1 << 16  # rows at once: their temporary columns stay in the processor's cache
_A, _B, _C, _D = map(np.uint64, (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0xD6E8FEB86659FD93, 0xFF51AFD7ED558CCD))


def types_seen(
    pairs: IntArray,
    texts: pa.Array,
    user: npt.NDArray[np.int32],
    objects: pa.ChunkedArray,
    types: npt.NDArray[np.int8],
) -> npt.NDArray[np.uint8]:
    """Return the interaction types that each pair occurs with, one bit per type.

    Args:
        pairs: distinct and sorted, each ``user * len(texts) + text``, the latter a position in ``texts``.
        texts: distinct object ids.
        user: the user of each row of the history, -1 where it is of no pair.
        objects: the history's objects.
        types: the history's interaction types, positions in `INTERACTION_TYPES`.
    """
    seen = np.zeros(len(pairs), dtype=np.uint8)
    if not len(pairs) or not len(objects):
        return seen
    wanted = _Wanted.of(pairs, texts, _plain_type(objects.type))
    rows, slots, found, start = [], [], [], 0
    for chunk in objects.chunks:
        inside, slot = wanted.let_through(user[start : start + len(chunk)], chunk)
        taken = chunk.take(pa.array(inside))
        rows.append(inside + start)
        slots.append(slot)
        found.append(taken.dictionary_decode() if pa.types.is_dictionary(taken.type) else taken)
        start += len(chunk)
    row, slot = np.concatenate(rows), np.concatenate(slots)
    values = pa.concat_arrays(found)
    pair = wanted.pair_of(user[row], slot, values)

    again = np.flatnonzero((pair < 0) & wanted.contested[slot >> _COARSER])
    if len(again):
        some = np.flatnonzero(np.bincount(pairs[wanted.rivals] % len(texts), minlength=len(texts)))
        item = codes_in(pa.chunked_array([values.take(pa.array(again))]), texts.take(pa.array(some)))
        keys = np.where(item < 0, -1, user[row[again]].astype(np.int64) * len(texts) + some[item])
        at = np.minimum(np.searchsorted(pairs, keys), len(pairs) - 1)
        pair[again] = np.where(pairs[at] == keys, at, -1)

    known = pair >= 0
    pair, kind = pair[known], types[row[known]]
    for t in range(len(INTERACTION_TYPES)):
        seen[pair[kind == t]] |= np.uint8(1 << t)
    return seen


def _plain_type(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


@dataclass(frozen=True)
class _Wanted:
    """The wanted pairs that can occur in a column of objects of one type, by hash."""

    index: IntArray
    """Position among all pairs."""
    user: IntArray
    place: IntArray
    """Position of the object in ``values``."""
    values: pa.Array
    """Objects, of the type of the column: texts, or the integers that texts are the decimal form of."""
    sieve: npt.NDArray[np.bool_]
    """Whether a pair stands under a hash."""
    at: npt.NDArray[np.int32]
    """Under a coarser hash, one of the pairs that stand there."""
    contested: npt.NDArray[np.bool_]
    """Under the coarser hash, whether there are others."""
    rivals: IntArray
    """All pairs, as positions among all, that do not stand there alone."""

    @classmethod
    def of(cls, pairs: IntArray, texts: pa.Array, kind: pa.DataType) -> _Wanted:
        user, place = np.divmod(pairs, len(texts))
        index = np.arange(len(pairs))
        if pa.types.is_integer(kind):
            values, at = canonical_numbers(texts, kind if pa.types.is_uint64(kind) else pa.int64())
            place_of = np.full(len(texts), -1, dtype=np.int64)
            place_of[at] = np.arange(len(at))
            place = place_of[place]
            index = np.flatnonzero(place >= 0)
            user, place = user[index], place[index]
        else:
            values = texts.cast(kind)
        bits = max(12, min(26, (16 * len(pairs)).bit_length()))
        slots = _slots(user, _hashes(values)[place], bits)
        sieve = np.zeros(1 << bits, np.bool_)
        sieve[slots] = True
        own, coarse = np.arange(len(slots), dtype=np.int32), slots >> _COARSER
        at_slot = np.full(1 << bits - _COARSER, -1, np.int32)
        at_slot[coarse] = own
        contested = np.zeros(1 << bits - _COARSER, np.bool_)
        contested[coarse[at_slot[coarse] != own]] = True
        rivals = index[contested[coarse]]
        return cls(index, user, place, values, sieve, at_slot, contested, rivals)

    def let_through(self, user: npt.NDArray[np.int32], chunk: pa.Array) -> tuple[IntArray, IntArray]:
        """Return the positions of a chunk's rows that may be wanted, and their hashes, block by block."""
        whole = _hashes(chunk) if pa.types.is_dictionary(chunk.type) else None
        bits = len(self.sieve).bit_length() - 1
        rows, slots = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for start in range(0, len(chunk), _BLOCK):
            end = min(start + _BLOCK, len(chunk))
            mine = user[start:end]
            slot = _slots(mine, _hashes(chunk[start:end]) if whole is None else whole[start:end], bits)
            hit = np.flatnonzero(self.sieve[slot])
            hit = hit[mine[hit] >= 0]
            rows.append(hit + start)
            slots.append(slot[hit])
        return np.concatenate(rows), np.concatenate(slots)

    def pair_of(self, user: npt.NDArray[np.int32], slot: IntArray, values: pa.Array) -> IntArray:
        """Return the pair that stands under each row's hash, if the row is of that pair; else -1."""
        if not len(self.index):
            return np.full(len(slot), -1, dtype=np.int64)
        one = self.at[slot >> _COARSER]
        of_pair = self.values.take(pa.array(self.place[one]))
        same = pc.equal(values.cast(of_pair.type), of_pair).to_numpy(zero_copy_only=False)
        return np.where(same & (self.user[one] == user) & (one >= 0), self.index[one], -1)


def _slots(user: npt.NDArray[Any], hashes: Hashes, bits: int) -> IntArray:
    mixed = user.astype(np.uint64)
    mixed *= _C
    mixed ^= hashes
    mixed ^= mixed >> np.uint64(32)
    mixed *= _D
    mixed >>= np.uint64(64 - bits)
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
