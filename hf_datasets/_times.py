"""Times as raw files write them, as seconds since 1970: any layout that a regular expression can take apart.

Knows nothing about files; every part is computed with, so that no locale counts and no impossible date is let through.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["parse_times"]

_MONTHS = pa.array(["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"])


def parse_times(texts: pa.ChunkedArray | pa.Array, pattern: str) -> pa.Array:
    """Return seconds since 1970 (float64), null where a text is null, does not match, or is no time that there is.

    Args:
        texts: as the file has them.
        pattern: a regular expression for the whole text, with the groups ``year``, ``month`` (a number, or ``Jan`` to
            ``Dec``) and ``day``, and as an option ``hour``, ``minute`` and ``second`` (each 0 where empty), ``half``
            (``AM`` or ``PM``) and ``zone`` (``-0700``; without it, times are read as UTC).

    >>> pattern = r"(?P<month>\\d+)/(?P<day>\\d+)/(?P<year>\\d+)"
    >>> parse_times(pa.array(["2/28/1970", "2/30/1970"]), pattern).to_pylist()
    [5011200.0, None]
    """
    if isinstance(texts, pa.ChunkedArray):
        texts = texts.combine_chunks()
    parts = pc.extract_regex(texts, f"^(?:{pattern})$")
    names = {field.name for field in parts.type}
    known = np.asarray(pc.is_valid(parts))

    def number(name: str) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        if name not in names:
            return np.zeros(len(parts), np.int64)
        text = pc.utf8_ltrim(pc.fill_null(parts.field(name), ""), "+")
        text = pc.if_else(pc.equal(text, ""), "0", text)
        if name == "month":
            place = pc.index_in(text, value_set=_MONTHS)
            text = pc.coalesce(pc.add(place, 1).cast(pa.string()), text)
        # More digits than a part of a time can have: such a text is no time, whatever its value.
        text = pc.if_else(pc.match_substring_regex(text, r"^-?\d{1,4}$"), text, "9999")
        return np.asarray(text.cast(pa.int64()))

    year, month, day, hour, minute, second, zone = map(
        number, ("year", "month", "day", "hour", "minute", "second", "zone")
    )
    good = known & (month >= 1) & (month <= 12) & (minute < 60) & (second < 60)
    good &= (np.abs(zone) <= 1400) & (np.abs(zone) % 100 < 60)
    if "half" in names:
        good &= (hour >= 1) & (hour <= 12)
        hour = hour % 12 + 12 * np.asarray(pc.fill_null(pc.equal(parts.field("half"), "PM"), False))
    good &= hour < 24
    months = np.where(good, (year - 1970) * 12 + month - 1, 0)
    first = months.astype("datetime64[M]").astype("datetime64[D]")
    after = (months + 1).astype("datetime64[M]").astype("datetime64[D]")
    good &= (day >= 1) & (day <= (after - first).astype(np.int64))
    offset = np.sign(zone) * (np.abs(zone) // 100 * 60 + np.abs(zone) % 100)
    seconds = ((first.astype(np.int64) + day - 1) * 24 + hour) * 3600 + (minute - offset) * 60 + second
    return pa.array(seconds.astype(np.float64), mask=~good)
