"""Scrambles 64-bit numbers one to one, the same on every machine and with every version of numpy."""

import numpy as np
from numpy.typing import NDArray

__all__ = ["mix64"]


def mix64(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the numbers scrambled: the finaliser of SplitMix64 (Steele, Lea and Flood 2014), a bijection."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))
