"""One scored run folder as data frames, read when first asked for.

Knows nothing about other runs, nor about tables of the paper.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

from ...hf_datasets.errors import StoreError
from ..oracle import Category
from ..runfolder import RunFolder, plain_revision, read_json
from .results import COUNTS, ig_result, is_result

__all__ = ["Run", "differing", "named", "short_hash", "thresholds_name"]

_INTERESTS = ("user_id", "interest", "category_id", *COUNTS, "verified", "n_backing", "n_correct", "n_over_selected",
              "specificity")  # fmt: skip
_PRESETS = ("base", "lenient", "strict")


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
        """The judge's name and the beginning of its revision."""
        model = self.manifest["phases"]["judge"]["model"]
        return named(str(model["name"]), model["revision"])

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
            "prompts": "" if not prompts else short_hash(sorted(prompts.items())),
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

    def table(self, name: str, columns: Sequence[str] | None = None) -> pa.Table:
        """Read any table of the run folder, or some of its columns; not kept."""
        return self.folder.read(name, columns)

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
    def _oracle_path(self) -> Path:
        """Where the oracle lies: in the suite folder, or, for a record among results, under its version beside them."""
        own, kept = self.path.parent / "oracle.json", f"oracles/{self.score['oracle']['version']}.json"
        return next((folder / kept for folder in self.path.resolve().parents[:4] if (folder / kept).exists()), own)

    @cached_property
    def oracle(self) -> dict[str, list[Category]]:
        """The oracle that the stored scores were measured against.

        Raises:
            StoreError: the suite folder's oracle is gone, or is of another version.
        """
        path = self._oracle_path
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
        path = self._oracle_path
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


def named(name: str, revision: Any) -> str:
    """Return a model's name with the beginning of its revision, where there is one."""
    return f"{name}@{plain_revision(str(revision))}" if revision else name


def thresholds_name(policy: Mapping[str, Any]) -> str:
    """Return the name of thresholds, or their numbers where they have none."""
    if policy["preset"] in _PRESETS:
        return str(policy["preset"])
    return ", ".join(f"{name}={value}" for name, value in policy.items() if name != "preset")


def differing(there: Mapping[str, str], here: Mapping[str, str]) -> dict[str, str]:
    """Return what the conditions of two runs differ in, by name, as ``NAME: THERE and HERE``."""
    return {name: f"{name}: {there[name]} and {here[name]}" for name in there if there[name] != here[name]}


def short_hash(content: Any) -> str:
    """Return eight digits that tell contents apart; equal contents have equal ones in every process."""
    import hashlib

    return hashlib.sha256(repr(content).encode()).hexdigest()[:8]
