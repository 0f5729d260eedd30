"""Keeps numerical libraries from taking every core of the machine."""

from contextlib import AbstractContextManager
from typing import Any, cast

from .base import needs

__all__ = ["limited_threads"]


def limited_threads(n_threads: int) -> AbstractContextManager[Any]:
    """Return a context in which BLAS and OpenMP use at most so many threads."""
    return cast(AbstractContextManager[Any], needs("threadpoolctl", "threadpoolctl").threadpool_limits(n_threads))
