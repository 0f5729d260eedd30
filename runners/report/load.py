"""Scored runs of one suite or several, grouped by what compares, never mixed.

A group is what one ranking may hold: runs on the same data, asked in the same way, judged by the same judge, scored
under the same thresholds against the same oracle. Knows nothing about tables of the paper.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd

from ...hf_datasets import Taxonomy, load_taxonomy
from ...hf_datasets.errors import GistbenchError, StoreError
from ..requests import ModelRef
from ..runfolder import RunFolder
from ..score import load_metric
from ..suitefolder import run_folders
from .hub import local_folder
from .rescoring import with_common_oracles
from .results import optional
from .run import Run, differing, named

__all__ = ["Group", "Run", "Runs", "share_oracle"]

T = TypeVar("T")
_N_OFFICIAL = 325
"""Categories of the official taxonomy, which may not be at hand (Table 11)."""


@dataclass(frozen=True, eq=False)
class Group:
    """Runs of several candidates that compare."""

    dataset: str
    judge: str
    setting: str
    """What tells the questions apart from those of other groups on the same data; empty where nothing does."""
    runs: tuple[Run, ...]
    """One for each candidate."""

    @property
    def key(self) -> dict[str, str]:
        """What stands in the first columns of tables."""
        return {"dataset": self.dataset, "judge": self.judge, "setting": self.setting}

    @property
    def models(self) -> list[str]:
        """The candidates, in the order of the folders."""
        return [run.model for run in self.runs]

    def once(self, what: str, compute: Callable[[], T]) -> T:
        """Return what a function gives, computed at the first call under this name."""
        if what not in self._kept:
            self._kept[what] = compute()
        kept: T = self._kept[what]
        return kept

    @cached_property
    def _kept(self) -> dict[str, Any]:
        return {}

    @cached_property
    def scores(self) -> pd.DataFrame:
        """Scores of all users of all candidates, with ``model``."""
        return pd.concat([run.scores.assign(model=run.model) for run in self.runs], ignore_index=True)

    @cached_property
    def interests(self) -> pd.DataFrame:
        """Scored interests of all candidates, with ``model``."""
        return pd.concat([run.interests.assign(model=run.model) for run in self.runs], ignore_index=True)

    def by_user(self, metric: str) -> pd.DataFrame:
        """Return a metric, (users, models): all users that any candidate was asked about; NaN without a value."""

        def pivot() -> pd.DataFrame:
            columns = {run.model: run.scores.set_index("user_id")[metric].astype(float) for run in self.runs}
            asked = sorted(set().union(*(run.users["user_id"] for run in self.runs)))
            return pd.DataFrame(columns, index=pd.Index(asked, name="user_id"))

        return self.once(f"by user, {metric}", pivot)

    def rank_groups(self, metric: str, significance_level: float) -> dict[str, Any] | None:
        """Rank the candidates by a metric with the `ig` module's ``rank_groups``; None with fewer than two."""
        if len(self.runs) < 2:
            return None

        def rank() -> dict[str, Any]:
            scores = {model: optional(values) for model, values in self.by_user(metric).items()}
            found: dict[str, Any] = load_metric("ig").rank_groups(
                scores, n_resamples=0, significance_level=significance_level
            )
            return found

        return self.once(f"ranks by {metric}, {significance_level}", rank)

    @cached_property
    def taxonomy_size(self) -> int | None:
        """How many categories there are; None without a taxonomy, or where it is not at hand."""
        taxonomy = self.runs[0].taxonomy
        if taxonomy is None:
            return None
        found = self.taxonomy(None)
        return len(found) if found else (_N_OFFICIAL if taxonomy["name"] == "official" else None)

    def taxonomy(self, source: Path | None) -> Taxonomy | None:
        """Return the taxonomy with its names and domains; None where it is not at hand. Downloads nothing.

        Args:
            source: a local copy of the official one.
        """
        run = self.runs[0]
        if run.taxonomy is None:
            return None
        recorded = run._config.get("taxonomy")
        name = run.taxonomy["name"]
        if name == "official":
            source = source or (Path(s) if (s := run._config.get("taxonomy_source")) else None)
        elif name != "open" and recorded:
            name = recorded
        try:
            # An address that answers nothing: what is not on this machine stays away.
            found = load_taxonomy(name, source=source if name == "official" else None, url="file:///dev/null")
        except (GistbenchError, OSError, ValueError):
            return None
        return found if found.sha256 == run.taxonomy["sha256"] else None


class Runs:
    """Scored run folders of one suite or several."""

    def __init__(self, runs: Sequence[Run]) -> None:
        """Hold the runs; tables are read when first asked for."""
        self.all = tuple(runs)

    @classmethod
    def open(cls, paths: Iterable[Path | str], *, common_oracle: bool = False) -> "Runs":
        """Open suite folders and run folders.

        Args:
            paths: of either kind, on this machine or on the Hub (``hf://datasets/OWNER/NAME/FOLDER``); a folder that
                is named twice counts once.
            common_oracle: score runs that compare but for their oracles once more, against the union of these.

        Raises:
            StoreError: a path is neither, or a run has not been scored.
            HubError: a folder on the Hub cannot be had.
        """
        folders: dict[Path, RunFolder] = {}
        for path in paths:
            for folder in run_folders(local_folder(path)):
                folders.setdefault(folder.path.resolve(), folder)
        if not folders:
            raise StoreError("No run folders are named.")
        names = [ModelRef(**folder.manifest["candidate"]) for folder in folders.values()]
        revisions: dict[str, set[str]] = {}
        for name in names:
            revisions.setdefault(name.label, set()).add(name.revision)
        runs = [
            Run(folder, named(name.label, name.revision if len(revisions[name.label]) > 1 else None))
            for folder, name in zip(folders.values(), names, strict=True)
        ]
        for run in runs:
            _ = run.manifest
        return cls(with_common_oracles(runs, _settings(runs)) if common_oracle else runs)

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        """The runs by data set, judge and how they were asked.

        Raises:
            StoreError: runs of one group were scored differently, or are of the same candidate; the message says which.
        """
        together: dict[tuple[str, str, str], list[Run]] = {}
        for run, setting in zip(self.all, _settings(self.all), strict=True):
            together.setdefault((run.dataset, run.judge, setting), []).append(run)
        groups = []
        for (dataset, judge, setting), runs in together.items():
            _refuse_mixed(dataset, judge, runs)
            groups.append(Group(dataset, judge, setting, tuple(runs)))
        return tuple(groups)

    @property
    def datasets(self) -> tuple[str, ...]:
        """The data sets' names, in the order of the folders."""
        return tuple(dict.fromkeys(run.dataset for run in self.all))


def share_oracle(*sides: Runs) -> tuple[Runs, ...]:
    """Score runs that differ in their oracles once more, against the union of these, so that the sides compare.

    Runs that were asked differently (other prompts, lengths) share one oracle here: their difference is in question.
    Runs under other conditions, such as another taxonomy, stay as they are.

    Args:
        sides: of a comparison.

    Returns:
        The sides, in order.
    """
    runs = [run for side in sides for run in side.all]
    shared = iter(with_common_oracles(runs, [""] * len(runs)))
    return tuple(Runs([next(shared) for _ in side.all]) for side in sides)


def _refuse_mixed(dataset: str, judge: str, runs: Sequence[Run]) -> None:
    first = runs[0]
    for run in runs[1:]:
        if found := differing(first.conditions, run.conditions):
            what = "; ".join(found.values())
            hint = (
                "Score them together in one suite, or against their common oracle (common_oracle, --common-oracle)."
                if list(found) == ["oracle"]
                else "Report them apart."
            )
            raise StoreError(
                f"{first.path} and {run.path} are runs on {dataset} judged by {judge}, but do not compare ({what}). "
                f"{hint}"
            )
    models = Counter(run.model for run in runs)
    if twice := [model for model, n in models.items() if n > 1]:
        paths = ", ".join(str(run.path) for run in runs if run.model == twice[0])
        raise StoreError(f"{twice[0]} is there {models[twice[0]]} times, in {paths}. Name one of them.")


def _settings(runs: Sequence[Run]) -> list[str]:
    """Return a label for how each run was asked: what differs among the runs on the same data."""
    labels = []
    for run in runs:
        peers = [other.asked for other in runs if other.dataset == run.dataset]
        own, parts = run.asked, []
        for name, value in own.items():
            if len({str(peer[name]) for peer in peers}) > 1:
                parts.append(f"{name.replace('_', ' ')} {'whole' if value is None else value}")
        labels.append(", ".join(parts))
    return labels
