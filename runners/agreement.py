"""How far repeated judgements of the same items agree beyond chance. Knows nothing about who judged, or what."""

from typing import Any

import numpy as np

__all__ = ["krippendorff_alpha"]


def krippendorff_alpha(ratings: Any) -> float:
    """Return Krippendorff's alpha of ratings as intervals, of which some may be missing; NaN where all are alike.

    For labels 0 and 1 the nominal alpha is the same.

    Args:
        ratings: (items, raters), NaN where there is none. Items with one rating say nothing.

    >>> nan = float("nan")
    >>> krippendorff_alpha([[1, 1, nan], [0, 0, 0], [1, 0, nan], [nan, nan, 1]]) == 1 - 6 * 2 / (2 * 3 * 4)
    True
    """
    table = np.asarray(ratings, dtype=float)
    n = (~np.isnan(table)).sum(axis=1)
    kept, n = table[n >= 2], n[n >= 2].astype(float)
    values = kept[~np.isnan(kept)]
    if not len(values) or values.min() == values.max():
        return float("nan")
    # Squared differences do not depend on where 0 lies, but their rounding errors do.
    kept, values, total = kept - values.mean(), values - values.mean(), float(len(values))
    # Over pairs of ratings, the sum of (a - b)^2 is n times the sum of squares less the square of the sum.
    within = n * np.nansum(kept**2, axis=1) - np.nansum(kept, axis=1) ** 2
    expected = float(total * (values**2).sum() - values.sum() ** 2)
    observed = float((within / (n - 1)).sum())
    return 1 - (total - 1) * observed / expected
