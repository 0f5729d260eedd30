"""Beyond the paper: means over all users from people's judgements of a few and a judge's of all.

Prediction-powered inference (Angelopoulos et al., 2023; tuned as in "PPI++", 2023), user by user, for any metric: the
judge's mean over the users without people's judgements, corrected by the judge's error on those with them. The interval
holds whatever the judge is worth, as long as the users with people's judgements are a random sample; a judge who is
worth nothing gets the weight 0.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import stats

from ...hf_datasets.errors import DataError

__all__ = ["Powered", "prediction_powered"]

FloatArray = npt.NDArray[np.float64]
MIN_LABELLED = 3
N_FOLDS = 10
"""The judge's weight is found without the users that it is used for; found on the same ones, it biases the estimate."""


@dataclass(frozen=True)
class Powered:
    """Estimates with intervals, one for each system, (systems,)."""

    estimate: FloatArray
    low: FloatArray
    high: FloatArray
    weight: FloatArray
    """Of the judge, from 0 (not used) to 1."""
    classical: FloatArray
    """The mean of the users with people's judgements alone."""
    classical_low: FloatArray
    classical_high: FloatArray
    judge_alone: FloatArray
    """The judge's mean over all users, uncorrected."""
    n_labelled: int
    n_unlabelled: int


def prediction_powered(judge: FloatArray, human: FloatArray, *, confidence_level: float = 0.95) -> Powered:
    """Estimate the mean over users of a metric under people's judgements.

    Args:
        judge: the metric under the judge's judgements, (systems, users).
        human: under people's, NaN for users whom people did not judge, the same for all systems, (systems, users).
        confidence_level: of the intervals (Student's t with one less than the number of labelled users).

    Raises:
        DataError: fewer than three users with people's judgements, or none without.
    """
    labelled = ~np.isnan(human).any(axis=0)
    n, others = int(labelled.sum()), int((~labelled).sum())
    if n < MIN_LABELLED or not others:
        raise DataError(
            f"{n} users with people's judgements and {others} without: at least {MIN_LABELLED} and 1 are needed."
        )
    y, f, g = human[:, labelled], judge[:, labelled], judge[:, ~labelled]
    weight, estimate = np.zeros(len(judge)), np.zeros(len(judge))
    folds = np.arange(n) % min(N_FOLDS, n)
    for fold in range(folds.max() + 1):
        own = folds == fold
        of_fold = _weight(y[:, ~own], f[:, ~own], g, n)
        share = own.mean()
        rest = y[:, own] - of_fold[:, None] * f[:, own]
        weight += share * of_fold
        estimate += share * (of_fold * g.mean(axis=1) + rest.mean(axis=1))
    of_others = g.var(axis=1, ddof=1) / others if others > 1 else f.var(axis=1, ddof=1)
    spread = (y - weight[:, None] * f).var(axis=1, ddof=1)
    error = np.sqrt(weight**2 * of_others + spread / n)
    t = float(stats.t.ppf(0.5 + confidence_level / 2, n - 1))
    classical = y.mean(axis=1)
    of_people = np.sqrt(y.var(axis=1, ddof=1) / n)
    return Powered(
        estimate=estimate,
        low=estimate - t * error,
        high=estimate + t * error,
        weight=weight,
        classical=classical,
        classical_low=classical - t * of_people,
        classical_high=classical + t * of_people,
        judge_alone=judge.mean(axis=1),
        n_labelled=n,
        n_unlabelled=others,
    )


def _weight(y: FloatArray, f: FloatArray, g: FloatArray, n: int) -> FloatArray:
    """Return the weight of the judge that makes the variance least, for each system."""
    others = g.shape[1]
    everything = np.concatenate([f, g], axis=1).var(axis=1, ddof=1)
    centred = (y - y.mean(axis=1, keepdims=True)) * (f - f.mean(axis=1, keepdims=True))
    covariance = centred.sum(axis=1) / (y.shape[1] - 1)
    raw = np.divide(covariance, (1 + n / others) * everything, out=np.zeros(len(y)), where=everything > 0)
    weight: FloatArray = np.clip(raw, 0, 1)
    return weight
