"""How well a language model's judgements agree with people's, pair by pair (Section 4.3, label level)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from .judgements import Judgements, in_sorted

__all__ = ["agreement"]

FloatArray = npt.NDArray[np.float64]


def agreement(human: Judgements, llm: Judgements, threshold: float) -> dict[str, Any]:
    """Compare the pairs that both judged: MAE and bias on the raw scales, kappa on ratings rounded half up."""
    both = in_sorted(llm.key, human.key)
    machine = llm.rating[both]
    person = human.rating[np.searchsorted(human.key, llm.key[both])]
    n = len(person)
    result: dict[str, Any] = {"n_pairs": n, "n_human": len(human.key), "n_llm": len(llm.key)}
    if not n:
        names = ("mae", "rmse", "bias", "kappa", "kappa_quadratic", "kappa_binary", "confusion")
        return {**result, **dict.fromkeys(names)}
    difference = machine - person
    rows, columns = np.floor(person + 0.5).astype(np.int64), np.floor(machine + 0.5).astype(np.int64)
    labels = np.unique(np.concatenate([rows, columns]))
    counts = np.zeros((len(labels), len(labels)), np.int64)
    np.add.at(counts, (np.searchsorted(labels, rows), np.searchsorted(labels, columns)), 1)
    binary = np.zeros((2, 2), np.int64)
    np.add.at(binary, ((person >= threshold).astype(np.int64), (machine >= threshold).astype(np.int64)), 1)
    return {
        **result,
        "mae": math.fsum(np.abs(difference).tolist()) / n,
        "rmse": math.sqrt(math.fsum((difference**2).tolist()) / n),
        "bias": math.fsum(difference.tolist()) / n,
        "kappa": _kappa(counts, (labels[:, None] != labels[None, :]).astype(np.float64)),
        "kappa_quadratic": _kappa(counts, (labels[:, None] - labels[None, :]).astype(np.float64) ** 2),
        "kappa_binary": _kappa(binary, 1 - np.eye(2)),
        "confusion": {"labels": labels.tolist(), "counts": counts.tolist()},
    }


def _kappa(counts: npt.NDArray[np.int64], weights: FloatArray) -> float | None:
    """Return Cohen's kappa; None where chance alone agrees fully (one label everywhere)."""
    n = counts.sum()
    by_chance = np.outer(counts.sum(axis=1), counts.sum(axis=0)) / n
    expected = float((weights * by_chance).sum())
    return None if expected == 0 else float(1 - (weights * counts).sum() / expected)
