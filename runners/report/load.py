"""Scored run folders as data frames: read when first asked for, grouped by what compares, never mixed.

A group is what one ranking may hold: runs on the same data, asked in the same way, judged by the same judge, scored
under the same thresholds against the same oracle. Knows nothing about tables of the paper.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd
import pyarrow as pa

from ...hf_datasets import Taxonomy, load_taxonomy
from ...hf_datasets.errors import GistbenchError, StoreError
from ..oracle import Category
from ..runfolder import RunFolder, read_json
from ..score import METRICS, load_metric
from ..suitefolder import run_folders

__all__ = ["COUNTS", "Group", "Run", "Runs", "ig_result", "is_result", "rescore", "rescore_results", "scores_frame"]

COUNTS = ("n_explicit_positive", "n_implicit_positive", "n_implicit_negative", "n_explicit_negative")
"""Distinct relevant objects of an interest by interaction type."""
T = TypeVar("T")
_INTERESTS = ("user_id", "interest", "category_id", *COUNTS, "verified", "n_backing", "n_correct", "n_over_selected",
              "specificity")  # fmt: skip
_PRESETS = ("base", "lenient", "strict")
_N_OFFICIAL = 325
"""Categories of the official taxonomy, which may not be at hand (Table 11)."""


@dataclass(frozen=True, eq=False)
class Run:
    """One scored run folder."""

    folder: RunFolder
    model: str
    """How tables call the candidate: its name, with the revision where several of it are loaded."""

    @property
    def path(self) -> Path:
        """The run folder's path."""
        return self.folder.path

    @cached_property
    def manifest(self) -> dict[str, Any]:
        """The manifest, which names scores.

        Raises:
            StoreError: the run has not been scored.
        """
        manifest = self.folder.manifest
        if "score" not in manifest["phases"]:
            raise StoreError(f"{self.path} has no scores yet. Run `gistbench score {self.path.parent}` first.")
        return manifest

    @property
    def score(self) -> dict[str, Any]:
        """The score phase of the manifest: medians, means, intervals, counts, policy."""
        phase: dict[str, Any] = self.manifest["phases"]["score"]
        return phase

    @property
    def dataset(self) -> str:
        """The data set's name."""
        return str(self.manifest["data"]["dataset"])

    @property
    def signals(self) -> tuple[str, ...]:
        """The interaction types that the data set has."""
        return tuple(self.manifest["data"]["signals"])

    @property
    def judge(self) -> str:
        """The judge's name and revision."""
        model = self.manifest["phases"]["judge"]["model"]
        return f"{model['name']}@{model['revision']}" if model["revision"] else str(model["name"])

    @property
    def taxonomy(self) -> Mapping[str, str] | None:
        """Name and sha256 of the taxonomy; None where each interest is its own category."""
        found: Mapping[str, str] | None = self.manifest["phases"]["judge"]["taxonomy"]
        return found

    @property
    def asked(self) -> dict[str, Any]:
        """What decides the questions, besides data and models: runs that differ in it stand apart, under a label."""
        extract, judge = (self.manifest["phases"][name] for name in ("extract", "judge"))
        prompts = {
            name: found["sha256"] for phase in (extract, judge) for name, found in phase.get("prompts", {}).items()
        }
        return {
            "history_length": extract.get("history_length"),
            "chunk_size": extract.get("chunk_size"),
            "max_item_chars": extract.get("max_item_chars"),
            "repeat": self._config.get("repeat", 0),
            "prompts": "" if not prompts else _short(sorted(prompts.items())),
        }

    @property
    def conditions(self) -> dict[str, str]:
        """What runs of one group must share."""
        policy = self.score["policy"]
        data = self.manifest["data"]
        taxonomy = self.taxonomy
        return {
            "data": str(data["sha256"])[:12],
            "users": str(data["users_sha256"])[:12],
            "taxonomy": f"{taxonomy['name']} ({taxonomy['sha256'][:12]})" if taxonomy else "none",
            "thresholds": thresholds_name(policy["ig"]["thresholds"]),
            "is_scope": str(policy["is"]["is_scope"]),
            "oracle": str(self.score["oracle"]["version"]),
        }

    @cached_property
    def _config(self) -> dict[str, Any]:
        path = self.path.parent / "config.json"
        return dict(read_json(path).get("config", {})) if path.exists() else {}

    @cached_property
    def scores(self) -> pd.DataFrame:
        """One row per scored user: `ig_precision` ... `hm` and counts, sorted by user."""
        frame: pd.DataFrame = self.folder.read("scores").to_pandas()
        return frame.sort_values("user_id", ignore_index=True)

    @cached_property
    def users(self) -> pd.DataFrame:
        """One row per requested user: engagements, prompts, whether scored."""
        frame: pd.DataFrame = self.folder.read("users").to_pandas()
        return frame

    @cached_property
    def interests(self) -> pd.DataFrame:
        """One row per scored interest: verdict, counts by signal, category, specificity; no lists."""
        frame: pd.DataFrame = self.folder.read("interests").select(list(_INTERESTS)).to_pandas()
        n_correct = frame["n_correct"]
        return frame.assign(n_correct=n_correct.astype("Int64"), category_id=frame["category_id"].astype("Int64"))

    def table(self, name: str) -> pa.Table:
        """Read any table of the run folder; not kept."""
        return self.folder.read(name)

    @property
    def by_name(self) -> bool:
        """Whether each interest is its own category."""
        return self.taxonomy is None

    @cached_property
    def categories(self) -> pd.DataFrame:
        """The distinct verified (user, category) pairs without category 0: ``user_id``, ``category``."""
        frame = self.interests.loc[self.interests["verified"]]
        key = "interest" if self.by_name else "category_id"
        pairs = frame[["user_id", key]].rename(columns={key: "category"}).drop_duplicates(ignore_index=True)
        return pairs if self.by_name else pairs.loc[pairs["category"] != 0].reset_index(drop=True)

    @cached_property
    def oracle(self) -> dict[str, list[Category]]:
        """The oracle that the stored scores were measured against.

        Raises:
            StoreError: the suite folder's oracle is gone, or is of another version.
        """
        path = self.path.parent / "oracle.json"
        content = read_json(path) if path.exists() else {}
        if content.get("version") != self.score["oracle"]["version"]:
            raise StoreError(
                f"{self.path} was scored against oracle {self.score['oracle']['version']}, and {path} is "
                f"{content.get('version', 'not there')}. Keep run folders in their suite folder, or score again."
            )
        oracle: dict[str, list[Category]] = content["oracle"]
        return oracle

    @property
    def given_oracle(self) -> dict[str, list[Category]]:
        """What a given oracle, if there was one, holds of each user."""
        path = self.path.parent / "oracle.json"
        if not self.score["oracle"].get("given") or not path.exists():
            return {}
        given: dict[str, list[Category]] = {}
        for user, found in read_json(path)["verified_by"].items():
            held = [name if self.by_name else int(name) for name, models in found.items() if "given" in models]
            given |= {user: held} if held else {}
        return given

    @cached_property
    def ig(self) -> dict[str, Any]:
        """The run as a result of the `ig` module, for `rescore`."""
        return ig_result(self.interests, self.scores["user_id"].tolist(), self.by_name, self.score["policy"]["ig"])

    @cached_property
    def specificity(self) -> dict[str, Any]:
        """The run as a result of the `is` module, for `rescore`."""
        return is_result(self.interests, self.ig, self.score["policy"]["is"])


def ig_result(interests: pd.DataFrame, users: list[str], by_name: bool, policy: Mapping[str, Any]) -> dict[str, Any]:
    """Return interests as a result of the `ig` module, for its ``rescore`` and ``build_oracle``.

    Args:
        interests: in the columns of `Run.interests`.
        users: the scored users.
        by_name: whether each interest is its own category.
        policy: of the result that the verdicts come from.
    """
    n = len(interests)
    columns: dict[str, list[Any]] = {name: interests[name].tolist() for name in ("user_id", "interest", *COUNTS)}
    columns["verified"] = interests["verified"].tolist()
    columns["category_id"] = [None] * n if by_name else interests["category_id"].tolist()
    # Reasons and unknown ids say nothing about scores.
    columns["failure_reasons"] = columns["unknown_item_ids"] = [[]] * n
    per_user = {"user_id": users}
    return {"per_user": per_user, "per_interest": columns, "failure_modes": {}, "evidence": {}, "policy": policy}


def is_result(interests: pd.DataFrame, ig: Mapping[str, Any], policy: Mapping[str, Any]) -> dict[str, Any]:
    """Return the same interests as a result of the `is` module, for its ``rescore``."""
    shared = ig["per_interest"]
    columns = {name: shared[name] for name in ("user_id", "interest", "category_id")}
    columns |= {name: interests[name].tolist() for name in ("n_backing", "n_over_selected")}
    n_correct = interests["n_correct"]
    columns["n_correct"] = n_correct.astype(object).where(n_correct.notna(), None).tolist()
    return {
        "per_user": {"user_id": ig["per_user"]["user_id"], "is": []},
        "per_interest": columns,
        "policy": policy,
    }


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
            paths: of either kind; a folder that is named twice counts once.
            common_oracle: score runs that compare but for their oracles once more, against the union of these.

        Raises:
            StoreError: a path is neither, or a run has not been scored.
        """
        folders: dict[Path, RunFolder] = {}
        for path in paths:
            for folder in run_folders(Path(path)):
                folders.setdefault(folder.path.resolve(), folder)
        if not folders:
            raise StoreError("No run folders are named.")
        names = [folder.manifest["candidate"] for folder in folders.values()]
        revisions: dict[str, set[str]] = {}
        for name in names:
            revisions.setdefault(name["name"], set()).add(str(name["revision"]))
        runs = [
            Run(folder, name["name"] if len(revisions[name["name"]]) == 1 else f"{name['name']}@{name['revision']}")
            for folder, name in zip(folders.values(), names, strict=True)
        ]
        for run in runs:
            _ = run.manifest
        return cls(_with_common_oracles(runs) if common_oracle else runs)

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


def _refuse_mixed(dataset: str, judge: str, runs: Sequence[Run]) -> None:
    first = runs[0]
    for run in runs[1:]:
        there, here = first.conditions, run.conditions
        if differing := [name for name in there if there[name] != here[name]]:
            what = "; ".join(f"{name}: {there[name]} and {here[name]}" for name in differing)
            hint = (
                "Score them together in one suite, or against their common oracle (common_oracle, --common-oracle)."
                if differing == ["oracle"]
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


@dataclass(frozen=True, eq=False)
class _Rescored(Run):
    """A run whose scores are measured against another oracle than the stored ones."""

    common: Mapping[str, list[Category]]
    version: str

    @cached_property
    def _again(self) -> tuple[dict[str, Any], dict[str, Any]]:
        policy = super().score["policy"]["ig"].get("interval", {})
        given = {name: policy[name] for name in ("n_resamples", "seed") if name in policy}
        return rescore(self, oracle=self.common, **given)

    @property
    def score(self) -> dict[str, Any]:
        stored = super().score
        ig, specificity = self._again
        changed = {
            f"{prefix}{metric}": (specificity if metric in ("is", "hm") else ig)[f"{prefix}{metric}"]
            for metric in METRICS
            for prefix in ("", "ci_", "mean_", "ci_mean_")
        }
        return {**stored, **changed, "oracle": {**stored["oracle"], "version": self.version}}

    @cached_property
    def scores(self) -> pd.DataFrame:
        stored = Run(self.folder, self.model).scores
        again = scores_frame(*self._again)
        return stored.drop(columns=[*METRICS]).merge(again, on="user_id").sort_values("user_id", ignore_index=True)

    @property
    def oracle(self) -> dict[str, list[Category]]:
        return dict(self.common)

    @cached_property
    def ig(self) -> dict[str, Any]:
        return Run(self.folder, self.model).ig

    @cached_property
    def specificity(self) -> dict[str, Any]:
        return Run(self.folder, self.model).specificity


def _with_common_oracles(runs: Sequence[Run]) -> list[Run]:
    keys = [
        (run.dataset, run.judge, setting, *(v for k, v in run.conditions.items() if k != "oracle"))
        for run, setting in zip(runs, _settings(runs), strict=True)
    ]
    result = list(runs)
    for key in dict.fromkeys(keys):
        mine = [i for i, other in enumerate(keys) if other == key]
        if len({runs[i].conditions["oracle"] for i in mine}) == 1:
            continue
        union = unite_oracles(runs[i].oracle for i in mine)
        version = _short(sorted({runs[i].conditions["oracle"] for i in mine}))
        for i in mine:
            result[i] = _Rescored(runs[i].folder, runs[i].model, union, version)
    return result


def unite_oracles(oracles: Iterable[Mapping[str, Iterable[Category]]]) -> dict[str, list[Category]]:
    """Return each user's categories of any of the oracles, sorted."""
    united: dict[str, set[Category]] = {}
    for oracle in oracles:
        for user, categories in oracle.items():
            united.setdefault(user, set()).update(categories)
    return {user: sorted(found) for user, found in sorted(united.items())}


def rescore(
    run: Run,
    *,
    oracle: Mapping[str, Sequence[Category]] | None = None,
    thresholds: Any = None,
    is_scope: str | None = None,
    n_resamples: int = 0,
    seed: int = 0,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Score a run once more, through the modules `ig` and `is`.

    Args:
        run: its interests, with counts and retrievals.
        oracle: each user's categories; None: what this run verifies. A verified category that it lacks does not count.
        thresholds: None: the verdicts stand.
        is_scope: None: as stored.
        n_resamples: of the intervals; 0 leaves them out.
        seed: of the bootstrap.

    Returns:
        The results of `ig` and `is`.
    """
    options = {"thresholds": thresholds, "is_scope": is_scope, "n_resamples": n_resamples, "seed": seed}
    return rescore_results(run.ig, run.specificity, oracle=oracle, **options)


def rescore_results(
    ig: Mapping[str, Any],
    specificity: Mapping[str, Any],
    *,
    oracle: Mapping[str, Sequence[Category]] | None = None,
    thresholds: Any = None,
    is_scope: str | None = None,
    n_resamples: int = 0,
    seed: int = 0,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Do as `rescore` with results of the modules."""
    options: dict[str, Any] = {"n_resamples": n_resamples, "seed": seed}
    again = load_metric("ig").rescore(
        {"run": ig}, oracle=oracle, thresholds=thresholds, missing_from_oracle="ignore", **options
    )
    found = load_metric("is").rescore({"run": specificity}, ig=again, is_scope=is_scope, **options)
    return again["run"], found["run"]


def scores_frame(ig: Mapping[str, Any], specificity: Mapping[str, Any]) -> pd.DataFrame:
    """Return per-user scores of two results as ``user_id`` and the five metrics."""
    columns = {name: ig["per_user"][name] for name in ("user_id", "ig_precision", "ig_recall", "ig_f1")}
    columns |= {name: specificity["per_user"][name] for name in ("is", "hm")}
    return pd.DataFrame(columns).astype(dict.fromkeys(METRICS, "float64"))


def optional(values: "pd.Series[Any]") -> dict[str, float | None]:
    """Return a column by user, None for NaN."""
    return dict(zip(values.index, values.astype(object).where(values.notna(), None), strict=True))


def thresholds_name(policy: Mapping[str, Any]) -> str:
    """Return the name of thresholds, or their numbers where they have none."""
    if policy["preset"] in _PRESETS:
        return str(policy["preset"])
    return ", ".join(f"{name}={value}" for name, value in policy.items() if name != "preset")


def median(values: Any) -> float:
    """Return the median of what is known; NaN where nothing is."""
    known = np.asarray(values, dtype=float)
    known = known[~np.isnan(known)]
    return float(np.median(known)) if len(known) else float("nan")


def _short(content: Any) -> str:
    import hashlib

    return hashlib.sha256(repr(content).encode()).hexdigest()[:8]
