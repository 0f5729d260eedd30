"""How ratings become signals, once for all datasets of ratings.

The papers do not say where. Ours: on a scale of five stars, 4 and more is an explicit positive, 3 and more an implicit
positive, less an explicit negative; both limits are parameters of every such dataset. Knows nothing about files.
"""

import pyarrow as pa
import pyarrow.compute as pc

from .errors import ConfigError
from .raw import BadRows, keep_rows

__all__ = ["RATING_SIGNALS", "check_rating_limits", "check_ratings", "rating_signals"]

RATING_SIGNALS: tuple[str, ...] = ("explicit_positive", "implicit_positive", "explicit_negative")


def rating_signals(
    ratings: pa.ChunkedArray | pa.Array, explicit_positive_min: float = 4.0, implicit_positive_min: float = 3.0
) -> pa.ChunkedArray | pa.Array:
    """Return the interaction type of each rating; the limits are ours, the papers give none.

    Args:
        ratings: numbers, none missing (see :func:`check_ratings`).
        explicit_positive_min: lowest rating that is an explicit positive.
        implicit_positive_min: lowest rating that is an implicit positive; lower ones are explicit negatives.

    >>> rating_signals(pa.array([5.0, 3.5, 1.0])).to_pylist()
    ['explicit_positive', 'implicit_positive', 'explicit_negative']
    """
    positive = pc.if_else(pc.greater_equal(ratings, explicit_positive_min), "explicit_positive", "implicit_positive")
    return pc.if_else(pc.greater_equal(ratings, implicit_positive_min), positive, "explicit_negative")


def check_rating_limits(explicit_positive_min: float, implicit_positive_min: float) -> None:
    """Raise ConfigError where the limits are in the wrong order."""
    if implicit_positive_min > explicit_positive_min:
        raise ConfigError(
            f"implicit_positive_min={implicit_positive_min} is above "
            f"explicit_positive_min={explicit_positive_min}: no rating would be an implicit positive."
        )


def check_ratings(
    table: pa.Table,
    source: str,
    bad_rows: BadRows,
    *,
    rating: str,
    time: str | None = None,
    lowest: float = 0.5,
    highest: float = 5.0,
) -> pa.Table:
    """Reject rows whose rating is missing, NaN or off the scale, or whose time is negative; a missing time is allowed.

    Args:
        table: a batch of a raw file.
        source: the file.
        bad_rows: what to do with broken rows.
        rating: the column of ratings.
        time: the column of times (seconds or milliseconds since 1970), where there is one.
        lowest: least rating there is.
        highest: greatest rating there is.
    """
    ratings = table[rating]
    on_scale = pc.and_(pc.greater_equal(ratings, lowest), pc.less_equal(ratings, highest))  # NaN is neither
    table = keep_rows(
        table, on_scale, f"a rating from {lowest:g} to {highest:g} was expected", rating, source, bad_rows
    )
    if time is not None:
        times = table[time]
        good = pc.or_kleene(pc.is_null(times, nan_is_null=True), pc.greater_equal(times, 0))
        table = keep_rows(table, good, "a time since 1970, 0 or more, was expected", time, source, bad_rows)
    return table
