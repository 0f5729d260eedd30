"""Submissions: taken in, checked in a process of their own, shown, and opened as a pull request on the results.

A check costs time and memory, so each reader has a few an hour and all together run one at a time.
"""

import json
import logging
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from .check import TYPES
from .data import METRICS, HubSource, Snapshot, SourceError, Store
from .intake import FILES, SubmissionError, take_files, take_from_hub
from .text import escape, percent, table

__all__ = ["Checked", "Submissions"]

logger = logging.getLogger(__name__)

MAX_SECONDS = 600
PER_HOUR = 6
PER_HOUR_ALL = 60
KEEP_SECONDS = 3600
N_RIVALS = 5


@dataclass(frozen=True)
class Checked:
    """A submission that passed."""

    folder: Path
    result: dict[str, Any]

    @property
    def place(self) -> str:
        """Where its record goes: made of names that were checked, with nothing left that could be part of a path."""
        model, judge = (_folder_name(self.result[key]) for key in ("model", "judge"))
        revision = _folder_name(self.result["revision"][:12])
        return f"records/{_folder_name(self.result['dataset'])}/{model}@{revision}/{judge}+self-judged"

    def html(self) -> str:
        """Return what the page says of it."""
        summary = self.result["summary"]
        rows = [
            [heading, percent(summary[name]), _interval(summary[f"ci_{name}"]), percent(summary[f"mean_{name}"])]
            for name, heading in METRICS.items()
        ]
        parts = [
            f'<div role="status"><p class="good"><b>The records hold together.</b> {escape(self.result["model"])} on '
            f"{escape(self.result['dataset'])}, scored again here from {summary['n_interests']} interests of "
            f'{summary["n_users"]} users. <span class="badge self">self-judged</span></p></div>',
            table("Scores, made anew from the records (per cent)", ["Metric", "Median", "95 % interval", "Mean"], rows),
        ]
        if self.result["not_ranked"]:
            parts.append(f'<p><span class="badge warn">not ranked</span> {escape(self.result["not_ranked"])}</p>')
        parts += [f"<p>Note: {escape(note)}</p>" for note in self.result["notes"]]
        if self.result["comparisons"]:
            parts.append(
                table("HM beside the best rows (points)", ["Row", "Difference", "95 % interval", "p"], self._rivals())
            )
        return "".join(parts)

    def _rivals(self) -> list[list[str]]:
        return [
            [
                one["rival"],
                f"{100 * one['difference_of_means']:+.1f}" if one["difference_of_means"] is not None else "–",
                _interval(one["ci_difference_of_means"]),
                f"{one['p_value']:.3g}",
            ]
            for one in self.result["comparisons"]
        ]

    def markdown(self) -> str:
        """Return the text of the pull request; names in it were checked to be plain."""
        summary = self.result["summary"]
        lines = [
            f"`{self.result['model']}` at `{self.result['revision']}` on `{self.result['dataset']}`, judged by "
            f"`{self.result['judge']}`. **self-judged**: the scores were made anew from the records, but the judge's "
            "answers came with them. `gistbench hub push-results --repo REPO` makes the index anew after a merge.",
            "",
            "| metric | median % | 95 % interval |",
            "| --- | --- | --- |",
            *(f"| {name} | {percent(summary[name])} | {_interval(summary[f'ci_{name}'])} |" for name in METRICS),
            "",
            f"Users {summary['n_users']} of {summary['n_requested']}, interests {summary['n_interests']}. "
            f"{self.result['not_ranked']}",
        ]
        if self.result["comparisons"]:
            lines += ["", "| HM against | difference | 95 % interval | p |", "| --- | --- | --- | --- |"]
            lines += [f"| {' | '.join(row)} |" for row in self._rivals()]
        return "\n".join([*lines, "", *(f"Note: {note}" for note in self.result["notes"])])


class Submissions:
    """Checks what readers submit."""

    def __init__(self, store: Store, token: str | None = None) -> None:
        """Take the results that a submission is compared with, and the token that may open pull requests."""
        self._store, self._token = store, token
        self._lock, self._counting = threading.Lock(), threading.Lock()
        self._times: dict[str, deque[float]] = {}
        self._all: deque[float] = deque()
        self._folders: deque[tuple[float, Path]] = deque()

    @property
    def can_open(self) -> bool:
        """Whether an accepted submission can become a pull request from here."""
        return bool(self._token) and isinstance(self._store.source, HubSource)

    def check(self, uploads: Sequence[Path], repo: str, client: str) -> Checked:
        """Check a submission.

        Args:
            uploads: a zip file, or the files of a run folder.
            repo: a data set on the Hub, where nothing was uploaded.
            client: who submits, for the limits.

        Raises:
            SubmissionError: what is wrong, in plain words.
        """
        self._spend(client)
        snapshot = self._store.snapshot
        if snapshot is None:
            raise SubmissionError(
                "The results cannot be had at the moment, so nothing can be compared. Try again later."
            )
        if not self._lock.acquire(timeout=MAX_SECONDS):
            raise SubmissionError("Another submission is being checked. Try again in a few minutes.")
        folder = Path(tempfile.mkdtemp(prefix="submission-"))
        self._folders.append((time.monotonic(), folder))
        try:
            if uploads:
                take_files(uploads, folder)
            else:
                take_from_hub(repo, folder)
            _write_context(snapshot, folder)
            result = _run_check(folder)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        finally:
            self._lock.release()
        return Checked(folder, result)

    def open_pull_request(self, checked: Checked) -> str:
        """Open a pull request on the results; return its address.

        Raises:
            SubmissionError: it cannot be opened.
        """
        import httpx2
        from huggingface_hub import CommitOperationAdd, HfApi
        from huggingface_hub.errors import HfHubHTTPError

        record = checked.folder / "record"
        if not self.can_open or not record.is_dir():
            raise SubmissionError("This page cannot open pull requests, or the check is too old: check again.")
        operations = [
            CommitOperationAdd(path_in_repo=f"{checked.place}/{path.name}", path_or_fileobj=str(path))
            for path in sorted(record.iterdir())
        ]
        try:
            made = HfApi(token=self._token).create_commit(
                self._store.source.name,
                operations,
                commit_message=f"Add {checked.result['model']} on {checked.result['dataset']} (self-judged)",
                commit_description=checked.markdown(),
                repo_type="dataset",
                create_pr=True,
            )
        except (HfHubHTTPError, httpx2.HTTPError, OSError, RuntimeError) as error:
            raise SubmissionError(
                f"The Hub did not take the pull request ({type(error).__name__}). Try later."
            ) from error
        shutil.rmtree(checked.folder, ignore_errors=True)
        return str(made.pr_url)

    def _spend(self, client: str) -> None:
        """Count a check, and drop what was kept for too long."""
        now = time.monotonic()
        with self._counting:
            for queue in (*self._times.values(), self._all):
                while queue and queue[0] < now - 3600:
                    queue.popleft()
            self._times = {name: queue for name, queue in self._times.items() if queue}
            while self._folders and self._folders[0][0] < now - KEEP_SECONDS:
                shutil.rmtree(self._folders.popleft()[1], ignore_errors=True)
            if len(self._times.get(client, ())) >= PER_HOUR:
                raise SubmissionError(f"That is more than {PER_HOUR} checks in an hour. Try again later.")
            if len(self._all) >= PER_HOUR_ALL:
                raise SubmissionError(
                    f"All readers together have made {PER_HOUR_ALL} checks in an hour. Try again later."
                )
            self._times.setdefault(client, deque()).append(now)
            self._all.append(now)


def _write_context(snapshot: Snapshot, folder: Path) -> None:
    """Write what the check must know of the data set: its users, its oracle, and what others have seen of it."""
    from .check import read_manifest

    dataset = read_manifest(folder / "manifest.json").get("data")
    name = dataset.get("dataset") if isinstance(dataset, dict) else None
    if not isinstance(name, str) or name not in snapshot.oracles:
        known = ", ".join(sorted(snapshot.oracles)) or "none yet"
        raise SubmissionError(f"The leaderboard takes submissions for these data sets: {known}.")
    version = snapshot.oracles[name]
    rows = snapshot.measured
    rows = rows[(rows["dataset"] == name) & (rows["oracle"] == version)].sort_values("hm", ascending=False)
    trusted = rows[rows["origin"] != "self-judged"]
    official = trusted[trusted["origin"] == "measured"]
    if official.empty:
        raise SubmissionError(f"There is no measured result on {name} to compare with yet.")
    (row,) = snapshot.rows(official.sort_values(["n_users", "id"], ascending=[False, True]).head(1))
    try:
        manifest = snapshot.manifest(row)
        oracle = json.loads(snapshot.source.fetch(f"oracles/{version}.json", snapshot.revision).read_text("utf-8"))
        users = snapshot.record(row, "users")["user_id"].tolist()
        frames = [snapshot.record(one, "evidence") for one in snapshot.rows(trusted.head(N_RIVALS))]
        rivals = {
            f"{one['model']}": dict(zip(scores["user_id"], _values(scores["hm"]), strict=True))
            for one in snapshot.rows(trusted.head(N_RIVALS))
            for scores in [snapshot.record(one, "scores")]
        }
    except (SourceError, ValueError) as error:
        raise SubmissionError(
            f"The records of {name} here hold scores only, so submissions cannot be checked against them."
        ) from error
    frame = pd.concat(frames)
    kinds = frame[frame["interaction_type"].isin(TYPES)].groupby(["user_id", "object_id"])["interaction_type"].unique()
    policy = manifest["phases"]["score"]["policy"]
    thresholds = policy["ig"]["thresholds"]
    context = {
        "dataset": name,
        "data": manifest["data"],
        "sha256": manifest["data"]["sha256"],
        "users_sha256": manifest["data"]["users_sha256"],
        "signals": manifest["data"]["signals"],
        "taxonomy_sha256": (manifest["data"]["taxonomy"] or {}).get("sha256"),
        "prompts": {
            phase: {stage: one["sha256"] for stage, one in manifest["phases"][phase]["prompts"].items()}
            for phase in ("extract", "judge")
        },
        "judge": row["judge"],
        "oracle": version,
        "n_oracle_models": int(row["n_oracle_models"]),
        "thresholds": {key: value for key, value in thresholds.items() if key != "preset"}
        if thresholds["preset"] not in ("base", "lenient", "strict")
        else thresholds["preset"],
        "is_scope": row["is_scope"],
        "users": users,
        "evidence": [[*pair, sorted(found)] for pair, found in zip(kinds.index.tolist(), kinds, strict=True)],
        "max_category": max((c for t, c in snapshot.categories if t == row["taxonomy_sha256"]), default=100_000),
        "rivals": rivals,
    }
    (folder / "context.json").write_text(json.dumps(context, allow_nan=False), encoding="utf-8")
    (folder / "oracle.json").write_text(json.dumps(oracle), encoding="utf-8")


def _values(column: Any) -> list[float | None]:
    return [None if value != value else float(value) for value in column.astype(float)]


def _run_check(folder: Path) -> dict[str, Any]:
    """Run the check in a process of its own; return its result.

    Raises:
        SubmissionError: the submission is refused, or the check did not end well.
    """
    package = (__package__ or "leaderboard").split(".")
    secrets = ("TOKEN", "SECRET", "PASSWORD")
    environment = {k: v for k, v in os.environ.items() if not any(word in k.upper() for word in secrets)}
    try:
        done = subprocess.run(
            [sys.executable, "-m", ".".join([*package, "check"]), str(folder)],
            cwd=Path(__file__).resolve().parents[1],
            env=environment,
            capture_output=True,
            timeout=MAX_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise SubmissionError(f"The check took longer than {MAX_SECONDS} s and was ended.") from error
    path = folder / "result.json"
    if done.returncode or not path.exists():
        logger.warning("a check ended with %s: %s", done.returncode, done.stderr[-2000:].decode(errors="replace"))
        raise SubmissionError(
            "The check did not end well: the files need more memory or time than there is, or are broken."
        )
    result: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    for name in FILES:  # what came from outside is no longer needed
        (folder / name).unlink(missing_ok=True)
    if result["problems"]:
        raise SubmissionError(*result["problems"])
    return result


def _folder_name(text: str) -> str:
    plain = "".join(mark if mark.isalnum() or mark in "-_." else "-" for mark in text.replace("/", "--"))
    return plain.lstrip(".")[:100] or "unknown"


def _interval(ends: list[float] | None) -> str:
    return f"{100 * ends[0]:.1f} to {100 * ends[1]:.1f}" if ends else "–"
