"""The options of a call, checked: every message says what was found and what is allowed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from .common import CORRECTIONS, Resampling, shown
from .measures import AP_DENOMINATORS, DISCOUNTS, Conventions
from .significance import TESTS

__all__ = ["PARTS", "Options", "choose_systems"]

PARTS = ("positive", "judged", "bounds", "holes", "pool_bias", "pool_depths", "rankings")
TIES = ("trec", "order", "expected")
MISSING_USERS = ("zero", "drop")
HUMAN_FROM = ("ratings", "pool")
GRADES = (0, 1, 2, 3, 4, 5)  # a judge's, in the paper


@dataclass(frozen=True)
class Options:
    """What a call asks for."""

    conventions: Conventions
    missing_users: str
    human_from: str
    """Where people's judgements come from; of a pool, leaving a run out takes some of them away too."""
    resampling: Resampling
    per_user: bool
    parts: list[str]
    hole_grades: npt.NDArray[np.float64]
    pool_depths: list[int]
    """Empty: some that fit k."""
    tests: list[str]
    correction: str
    rbo_p: float

    @property
    def missing(self) -> float:
        """What a user without a list counts: 0, or nothing (NaN)."""
        return 0.0 if self.missing_users == "zero" else np.nan

    @classmethod
    def read(
        cls,
        k: Any = 100,
        relevance_threshold: Any = 4,
        gain: Any = "linear",
        discount: Any = "log2(rank+1)",
        ap_denominator: Any = "relevant",
        ties: Any = "trec",
        missing_users: Any = "zero",
        human_from: Any = "ratings",
        n_resamples: Any = 1000,
        confidence_level: Any = 0.95,
        seed: Any = 0,
        per_user: Any = False,
        parts: Any = None,
        hole_grades: Any = None,
        pool_depths: Any = None,
        significance: Any = None,
        correction: Any = "holm",
        rbo_p: Any = 0.9,
    ) -> Options:
        """Check the options; they are described in the module."""
        resampling = Resampling(n_resamples, confidence_level, seed)
        conventions = _conventions(k, relevance_threshold, gain, discount, ap_denominator, ties)
        _one_of(missing_users, "missing_users", MISSING_USERS)
        _one_of(human_from, "human_from", HUMAN_FROM)
        _one_of(correction, "correction", CORRECTIONS)
        if not isinstance(per_user, (bool, np.bool_)):
            raise ValueError(f"per_user must be True or False, found {shown(per_user)}.")
        wanted = list(PARTS) if parts is None else _some_of(parts, "parts", PARTS)
        tests = [] if significance is None else _some_of(significance, "significance", TESTS)
        if resampling.n_resamples < 1 and {"permutation", "tukey_hsd"} & set(tests):
            raise ValueError("significance: permutation and tukey_hsd need n_resamples >= 1.")
        if not 0 < _real(rbo_p, "rbo_p") < 1:
            raise ValueError(f"rbo_p must be between 0 and 1, found {shown(rbo_p)}.")
        return cls(
            conventions,
            missing_users,
            human_from,
            resampling,
            bool(per_user),
            wanted,
            _hole_grades(hole_grades, conventions),
            _depths(pool_depths, conventions.k),
            tests,
            correction,
            float(rbo_p),
        )

    def depths(self, longest: int) -> list[int]:
        """Return the pool depths, by default a tenth, a fifth and a half of k, and k (None: of the longest list)."""
        k = self.conventions.k or longest
        return self.pool_depths or sorted({max(1, k // 10), max(1, k // 5), max(1, k // 2), k})


def _one_of(value: Any, name: str, choices: Sequence[str]) -> None:
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}, found {shown(value)}.")


def _some_of(values: Any, name: str, choices: Sequence[str]) -> list[str]:
    values = [values] if isinstance(values, str) else values
    if not isinstance(values, (list, tuple, set, frozenset)):
        raise ValueError(f"{name} must be a list of {', '.join(map(repr, choices))}, found {shown(values)}.")
    for value in values:
        _one_of(value, f"{name}: each", choices)
    return [choice for choice in choices if choice in values]


def _integer(value: Any, name: str, least: int) -> int:
    if not isinstance(value, (int, np.integer)) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name} must be an integer >= {least}, found {shown(value)}.")
    return int(value)


def _real(value: Any, name: str) -> float:
    if not isinstance(value, (int, float, np.number)) or isinstance(value, bool) or not np.isfinite(value):
        raise ValueError(f"{name} must be a finite number, found {shown(value)}.")
    return float(value)


def _conventions(
    k: Any, relevance_threshold: Any, gain: Any, discount: Any, ap_denominator: Any, ties: Any
) -> Conventions:
    if k is not None:
        k = _integer(k, "k (or None)", 1)
    if isinstance(gain, Mapping):
        if not gain:
            raise ValueError("gain: the table is empty; give a gain for every rating that occurs.")
        gain = {_real(key, "gain: a rating"): _real(value, f"gain[{key!r}]") for key, value in gain.items()}
        if negative := [rating for rating, value in gain.items() if value < 0]:
            raise ValueError(f"gain[{negative[0]!r}] is negative: {gain[negative[0]]!r}; NDCG needs gains >= 0.")
    elif not isinstance(gain, str) or gain not in ("linear", "exponential"):
        raise ValueError(f"gain must be 'linear', 'exponential' or a dict from ratings to gains, found {shown(gain)}.")
    _one_of(discount, "discount", DISCOUNTS)
    _one_of(ap_denominator, "ap_denominator", AP_DENOMINATORS)
    _one_of(ties, "ties", TIES)
    return Conventions(k, _real(relevance_threshold, "relevance_threshold"), gain, discount, ap_denominator, ties)


def _hole_grades(given: Any, conventions: Conventions) -> npt.NDArray[np.float64]:
    if given is None:
        known = [] if isinstance(conventions.gain, str) else sorted(grade for grade in conventions.gain if grade >= 0)
        return np.array(known or GRADES, dtype=np.float64)
    if isinstance(given, str) or not isinstance(given, (list, tuple, range, np.ndarray)) or not len(given):
        raise ValueError(f"hole_grades must be a list of grades, found {shown(given)}.")
    grades = np.unique([_real(grade, "hole_grades: each grade") for grade in given])
    if grades[0] < 0:
        raise ValueError(f"hole_grades: grades are >= 0, found {float(grades[0])!r}.")
    conventions.gains(grades)
    return grades


def _depths(given: Any, k: int | None) -> list[int]:
    if given is None:
        return []
    if isinstance(given, str) or not isinstance(given, (list, tuple, range, np.ndarray)):
        raise ValueError(f"pool_depths must be a list of depths or None, found {shown(given)}.")
    depths = sorted({_integer(depth, "pool_depths: each depth", 1) for depth in given})
    if k is not None and depths and depths[-1] > k:
        raise ValueError(f"pool_depths: {depths[-1]} is deeper than k={k}, to which the pool goes.")
    return depths


def choose_systems(given: Any, names: list[str]) -> list[int]:
    """Return which systems to report, as positions in ``names``; None means all.

    Raises:
        ValueError: If one is not there, or stands twice, or there is none.
    """
    if given is None:
        return list(range(len(names)))
    if isinstance(given, str) or not isinstance(given, (list, tuple, np.ndarray)):
        raise ValueError(f"systems must be a list of names or None, found {shown(given)}.")
    given = [str(name) for name in given]
    if not given:
        raise ValueError("systems is empty: there is nothing to rank. None means all.")
    if twice := [name for at, name in enumerate(given) if name in given[:at]]:
        raise ValueError(f"systems names {twice[0]!r} twice.")
    at = {name: position for position, name in enumerate(names)}
    if unknown := [name for name in given if name not in at]:
        raise ValueError(f"systems names {unknown[0]!r}, which has no rows in runs; there are {', '.join(names)}.")
    return [at[name] for name in given]
