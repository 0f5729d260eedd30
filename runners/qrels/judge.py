"""Step 6, `judge`: grades of held-out pairs (Experiment 1) and of pooled pairs (Experiments 2 to 4)."""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ...hf_datasets.errors import ConfigError
from ..agreement import krippendorff_alpha
from ..prompts import load_prompt
from ..stages.grade import Condition, Grade, Pair
from ..tally import Tally
from .completion import Completion, choose_pairs, pair_values
from .judged import PROFILES, Judged, held_out_pairs, sampled_users
from .judging import Judging, read_histories
from .work import Work, fingerprint

__all__ = ["Pairs", "judge", "pairs_to_judge", "sample_agreement"]

Pairs = Literal["all", "test", "pool"]
FloatArray = npt.NDArray[np.float64]


def judge(
    work: Work,
    judging: Judging,
    conditions: Sequence[Condition],
    *,
    pairs: Pairs = "all",
    n_samples: int = 1,
    name: str | None = None,
    profiles_of: str | None = None,
    max_items: int | None = 100,
    n_pool_pairs: int | None = None,
) -> list[dict[str, Any]]:
    """Grade pairs under some conditions; what was answered before is not asked again.

    Args:
        work: a folder with a pool.
        judging: the judge.
        conditions: what the judge is told; each is written when it is complete.
        pairs: ``test``: those that people rated; ``pool``: the pooled ones; ``all``: both.
        n_samples: how often each pair is graded, each time with a seed of its own.
        name: of the folder; by default the judge's.
        profiles_of: the folder whose induced profiles are shown; by default the same.
        max_items: rated items in a prompt.
        n_pool_pairs: grade only so many of the pooled pairs that nobody rated, see :mod:`.completion`.

    Returns:
        A record for each condition.

    Raises:
        ConfigError: several samples at temperature 0, which would be one; or plots that are not there.
        StoreError: nothing is pooled, or no profiles were induced.
        EngineError: the model cannot be loaded, or fails at every request.
        RunStoppedError: a limit or a signal stopped it.
    """
    if n_samples < 1:
        raise ConfigError(f"n_samples is {n_samples}; it must be 1 or more.")
    if n_samples > 1 and judging.config.temperature == 0:
        raise ConfigError(
            f"{n_samples} samples at temperature 0 are one sample. Give the judge a temperature: "
            f"{judging.config.name}?temperature=0.7"
        )
    judged = Judged(work, name or judging.name)
    induced = Judged(work, profiles_of) if profiles_of else judged
    users = sampled_users(work)
    histories, split = read_histories(work, users)
    if any(condition.plot for condition in conditions) and not histories.texts.has_plots:
        raise ConfigError(
            "There are no plots: put a plots.csv (the item's id, plot) beside the files of the data set, or split with "
            "--items FILE that has a column plot; or judge without them."
        )
    completion = None if n_pool_pairs is None else _complete(work, n_pool_pairs)
    asked = pairs_to_judge(work, users, pairs, None if completion is None else completion.chosen)
    built_on = {"split": split, "pool": work.record("pool")["fingerprint"]}
    records = []
    for condition in conditions:
        shows_ipp = condition.mode != "profile"
        profiles = induced.record(PROFILES)["fingerprint"] if shows_ipp else None
        settings = {
            "pairs": pairs,
            "n_samples": n_samples,
            "max_items": None if condition.mode == "ipp" else max_items,
            "n_pool_pairs": n_pool_pairs,
        }
        made_by = fingerprint(
            built_on, profiles, condition.name, settings, judging.identity, load_prompt("grade").sha256
        )
        if judged.is_done(condition.name, made_by) and not judging.retry_failed:
            records.append(judged.record(condition.name))
            continue
        tastes = induced.tastes() if shows_ipp else {}
        tables, tallies = [], []
        for sample in range(n_samples):
            stage = Grade(judging.asker("grade", sample), histories, asked, condition, tastes, max_items)
            tally = Tally()
            what = f"judge {condition.name}" + (f" {sample + 1}/{n_samples}" if n_samples > 1 else "")
            answers = judging.ask(stage, what, tally, [built_on, profiles, condition.name, settings, sample])
            tables.append(stage.records(answers, sample))
            tallies.append(tally)
        table = pa.concat_tables(tables)
        statuses = table["status"].to_pylist()
        matrix = table["grade"].to_numpy().astype(np.float64).reshape(n_samples, -1).T
        record = {
            "condition": condition._asdict(),
            "judge": judged.name,
            "profiles": {"of": induced.name, "fingerprint": profiles} if shows_ipp else None,
            "settings": settings,
            "n_users": len(users),
            "n_pairs": len(asked),
            **{f"n_{status}": statuses.count(status) for status in ("ok", "failed", "refused", "no_evidence")},
            "n_items_without_title": sum(not histories.texts.known(i) for i in {pair.item for pair in asked}),
            "strata": None if completion is None else completion.strata,
            "agreement_of_samples": sample_agreement(matrix) if n_samples > 1 else None,
            **judging.account("grade", *tallies),
        }
        judged.write(condition.name, table, record, made_by=made_by, built_on=built_on)
        records.append(judged.record(condition.name))
    return records


def pairs_to_judge(
    work: Work, users: list[str], pairs: Pairs, of_pool: npt.NDArray[np.bool_] | None = None
) -> list[Pair]:
    """Return the pairs in order: user by user, then by item.

    Args:
        work: a folder with a pool.
        users: the sampled ones.
        pairs: ``test``, ``pool`` or ``all``.
        of_pool: which of the pooled pairs, (pairs of the pool,); None: all.
    """
    chosen: set[Pair] = set()
    if pairs in ("all", "test"):
        held_out = held_out_pairs(work, users)
        chosen |= set(map(Pair, held_out["user"].to_pylist(), held_out["item"].to_pylist()))
    if pairs in ("all", "pool"):
        pooled = work.read("pool", ["user", "item"])
        if of_pool is not None:
            pooled = pooled.filter(pa.array(of_pool))
        chosen |= set(map(Pair, pooled["user"].to_pylist(), pooled["item"].to_pylist()))
    return sorted(chosen)


def _complete(work: Work, n_pairs: int) -> Completion:
    from .setting import Setting

    setting = Setting.read(work)
    return choose_pairs(setting.pool, pair_values(setting.runs, setting.pool), n_pairs)


def sample_agreement(grades: FloatArray) -> dict[str, float | int | None]:
    """Say how far repeated grades of the same pairs agree.

    Args:
        grades: (pairs, samples), NaN where a sample could not be read.

    Returns:
        ``n_pairs`` with two grades or more, ``share_equal`` (all grades of the pair are the same),
        ``mean_absolute_difference`` of two samples, and Krippendorff's ``alpha`` for intervals (None where all grades
        are alike).

    >>> sample_agreement(np.array([[4.0, 4.0], [1.0, 2.0], [0.0, np.nan]]))["share_equal"]
    0.5
    """
    n = (~np.isnan(grades)).sum(axis=1)
    kept, n = grades[n >= 2], n[n >= 2].astype(np.float64)
    if not len(kept):
        return {"n_pairs": 0, "share_equal": None, "mean_absolute_difference": None, "alpha": None}
    alpha = krippendorff_alpha(kept)
    ordered = np.sort(kept, axis=1)
    weight = 2 * np.arange(kept.shape[1]) - (n[:, None] - 1)
    absolute = np.nansum(ordered * weight, axis=1)  # the sum of |a - b| over pairs of samples
    return {
        "n_pairs": len(kept),
        "share_equal": float((np.nanmax(kept, axis=1) == np.nanmin(kept, axis=1)).mean()),
        "mean_absolute_difference": float((absolute / (n * (n - 1) / 2)).mean()),
        "alpha": None if np.isnan(alpha) else alpha,
    }
