"""Beyond the paper: several judges as a panel.

By majority, or with weights by estimated reliability (Dawid and Skene, 1979). A panel is written like one judge, so the
experiments treat it as such.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ...hf_datasets.errors import ConfigError
from ..stages.grade import GRADED, Condition
from .experiments import mean_absolute_error
from .judge import sample_agreement
from .judged import Judged, held_out_pairs, sampled_users
from .work import Work, fingerprint

__all__ = ["DawidSkene", "dawid_skene", "majority_grade", "make_panel"]

FloatArray = npt.NDArray[np.float64]
Method = Literal["majority", "dawid-skene"]
N_GRADES = 6
SMOOTHING = 0.1
"""Imaginary answers of each kind, so that what was never seen is not impossible."""


@dataclass(frozen=True)
class DawidSkene:
    """What is estimated of the truth and of the judges."""

    grade: FloatArray
    """The most probable grade, NaN where no judge gave one, (pairs,)."""
    probability: FloatArray
    """Of each grade, (pairs, 6)."""
    confusion: FloatArray
    """Of each judge: the probability of an answer given the truth, (judges, truth, answer)."""
    n_rounds: int

    @property
    def reliability(self) -> FloatArray:
        """How often each judge is right, over the estimated truths, (judges,)."""
        prior = np.nan_to_num(self.probability).sum(axis=0)
        shares: FloatArray = (np.diagonal(self.confusion, axis1=1, axis2=2) * prior).sum(axis=1) / prior.sum()
        return shares


def majority_grade(grades: FloatArray) -> FloatArray:
    """Return the grade that most judges give; of several such the one nearest to the judges' mean, then the lower.

    Args:
        grades: whole grades, NaN where a judge gave none, (pairs, judges).

    Returns:
        NaN where no judge gave a grade, (pairs,).

    >>> majority_grade(np.array([[4.0, 4.0, 1.0], [5.0, 1.0, 4.0], [np.nan, np.nan, np.nan]])).tolist()
    [4.0, 4.0, nan]
    """
    counts = (grades[:, :, None] == np.arange(N_GRADES)).sum(axis=1)
    n = counts.sum(axis=1)
    mean = np.divide(np.nansum(grades, axis=1), n, out=np.zeros(len(grades)), where=n > 0)
    distance = np.abs(np.arange(N_GRADES) - mean[:, None])
    best = np.argmax(counts - distance / (2 * N_GRADES), axis=1)
    found: FloatArray = np.where(n > 0, best, np.nan)
    return found


def dawid_skene(grades: FloatArray, *, max_rounds: int = 200, tolerance: float = 1e-6) -> DawidSkene:
    """Estimate the truth and each judge's confusion by expectation maximisation, from the shares of the votes.

    Args:
        grades: whole grades from 0 to 5, NaN where a judge gave none, (pairs, judges).
        max_rounds: of the iteration.
        tolerance: it ends when no probability changes by more.
    """
    n_judges = grades.shape[1]
    said = (grades[:, :, None] == np.arange(N_GRADES)).astype(np.float64)
    votes = said.sum(axis=1)
    known = votes.sum(axis=1) > 0
    probability = np.zeros(votes.shape)
    probability[known] = votes[known] / votes[known].sum(axis=1, keepdims=True)
    confusion = np.zeros((n_judges, N_GRADES, N_GRADES))
    rounds = 0
    for rounds in range(1, max_rounds + 1):  # noqa: B007 - how many there were is told
        counts = np.einsum("pt,pja->jta", probability, said) + SMOOTHING / N_GRADES
        confusion = counts / counts.sum(axis=2, keepdims=True)
        prior = probability.sum(axis=0) + SMOOTHING
        logs = np.log(prior / prior.sum()) + np.einsum("pja,jta->pt", said, np.log(confusion))
        new = np.exp(logs - logs.max(axis=1, keepdims=True))
        new = np.where(known[:, None], new / new.sum(axis=1, keepdims=True), 0.0)
        change = float(np.abs(new - probability).max()) if len(new) else 0.0
        probability = new
        if change <= tolerance:
            break
    grade = np.where(known, probability.argmax(axis=1), np.nan)
    return DawidSkene(grade, np.where(known[:, None], probability, np.nan), confusion, rounds)


def make_panel(
    work: Work,
    names: Sequence[str],
    condition: Condition,
    *,
    method: Method = "dawid-skene",
    name: str | None = None,
) -> dict[str, Any]:
    """Write the grades of a panel as a judge of its own.

    Args:
        work: a folder where the judges graded the same pairs.
        names: of the judges.
        condition: under which they graded.
        method: how their grades become one.
        name: of the panel; by default ``panel-METHOD``.

    Returns:
        The record: the judges' agreement with each other, and each one's and the panel's MAE with people.

    Raises:
        ConfigError: fewer than two judges, or other pairs.
        StoreError: a judge has no grades under the condition.
    """
    if len(set(names)) < 2:
        raise ConfigError(f"A panel needs two judges or more; there is {', '.join(names) or 'none'}.")
    if method not in ("majority", "dawid-skene"):
        raise ConfigError(f"There is no method {method!r}. There are: majority, dawid-skene.")
    judges = [Judged(work, one) for one in dict.fromkeys(names)]
    tables = [judge.grades(condition) for judge in judges]
    first = tables[0].select(["user", "item"])
    for judge, table in zip(judges, tables, strict=True):
        if not table.select(["user", "item"]).equals(first):
            raise ConfigError(f"{judge.name} graded other pairs than {judges[0].name}: let both grade the same.")
    matrix = np.stack([table["grade"].to_numpy().astype(np.float64) for table in tables], axis=1)
    estimated = dawid_skene(matrix) if method == "dawid-skene" else None
    grade = majority_grade(matrix) if estimated is None else estimated.grade
    n = len(grade)
    missing = np.isnan(grade)
    graded = pa.table(
        {
            "user": first["user"],
            "item": first["item"],
            "sample": np.zeros(n, np.int64),
            "grade": pa.array(np.where(missing, 0, grade).astype(np.int64), mask=missing),
            "status": np.where(missing, "failed", "ok"),
            "request_key": pa.nulls(n, pa.string()),
        }
    ).cast(GRADED)
    records = [judge.record(condition.name) for judge in judges]
    human = held_out_pairs(work, sampled_users(work))
    panel = Judged(work, name or f"panel-{method}")
    record = {
        "condition": condition._asdict(),
        "judge": panel.name,
        "panel": {"of": [judge.name for judge in judges], "method": method},
        "profiles": None,
        "settings": {"pairs": records[0]["settings"]["pairs"], "n_samples": 1, "max_items": None},
        "n_pairs": n,
        "n_ok": int((~missing).sum()),
        "n_failed": int(missing.sum()),
        "n_errors": 0,
        "agreement_of_judges": sample_agreement(matrix),
        "mae": {judge.name: _mae(human, table) for judge, table in zip(judges, tables, strict=True)}
        | {panel.name: _mae(human, graded)},
        "reliability": None
        if estimated is None
        else dict(zip((judge.name for judge in judges), estimated.reliability.tolist(), strict=True)),
    }
    made_by = fingerprint([one["fingerprint"] for one in records], method, condition.name)
    panel.write(condition.name, graded, record, made_by=made_by, built_on=records[0]["built_on"])
    return panel.record(condition.name)


def _mae(human: pa.Table, grades: pa.Table) -> float | None:
    value = mean_absolute_error(human, grades, n_resamples=0)[0]
    return None if np.isnan(value) else value
