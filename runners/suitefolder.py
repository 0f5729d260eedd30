"""Suite folders: which run folders belong together, under which configuration, and who may work on them.

``config.json`` records what was asked for. A folder that holds a run on other data, with other questions or another
judge is refused; two processes take turns.
"""

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from ..hf_datasets.errors import StoreError
from .requests import ModelRef
from .runfolder import RunFolder, read_json, write_json
from .store import STORE_NAME

__all__ = ["SUITE_FORMAT", "SuiteFolder", "run_folders"]

logger = logging.getLogger(__name__)

SUITE_FORMAT = 1
N_HASH_CHARS = 64
_CALLED = {"sha256": "other data", "users_sha256": "other users"}


class SuiteFolder:
    """One suite folder on disk."""

    def __init__(self, path: Path | str) -> None:
        """Name the folder; nothing is read or made yet."""
        self.path = Path(path)
        self._config = self.path / "config.json"

    @property
    def recorded(self) -> dict[str, Any]:
        """What the folder records of itself.

        Raises:
            StoreError: it is no suite folder.
        """
        if not self._config.exists():
            raise StoreError(
                f"{self.path} is no suite folder: it has no config.json. `gistbench run` or `extract` makes one."
            )
        store = self.path / STORE_NAME
        advice = f"Run into another folder with --store {store}: what was answered is not asked again."
        recorded: dict[str, Any] = read_json(self._config, advice)
        needed = {"format", "config", "identity", "judge", "runs"}
        if not isinstance(recorded, dict) or not needed <= set(recorded) or recorded["format"] != SUITE_FORMAT:
            raise StoreError(
                f"{self._config} is not what a suite of format {SUITE_FORMAT} records. Name another folder."
            )
        for name in recorded["runs"]:
            if not isinstance(name, str) or Path(name).name != name or name in ("", ".", ".."):
                raise StoreError(f"{self._config} names the run folder {name!r}, which is not a folder of this suite.")
        return recorded

    @property
    def runs(self) -> list[RunFolder]:
        """The run folders that belong to it, in order; none where the folder is not claimed yet."""
        if not self._config.exists():
            return []
        return [RunFolder(self.path / name) for name in self.recorded["runs"]]

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Work on the folder alone: a second process waits, and then finds everything answered.

        Raises:
            StoreError: it is a file, a folder of something else, or cannot be written to.
        """
        try:
            self.refuse_foreign()
            self.path.mkdir(parents=True, exist_ok=True)
            lock = FileLock(self.path / ".lock")
            try:
                lock.acquire(blocking=False)
            except Timeout:
                logger.warning("%s: another process is at work here; waiting for it.", self.path)
                lock.acquire()
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise StoreError(
                f"{self.path} cannot be written to ({reason}). Make it writable, or work in another folder."
            ) from error
        try:
            yield
        finally:
            lock.release()

    @property
    def is_busy(self) -> bool:
        """Whether a process is at work here at this moment."""
        if not (self.path / ".lock").exists():
            return False
        try:
            FileLock(self.path / ".lock").acquire(blocking=False).lock.release()
        except Timeout:
            return True
        return False

    def refuse_foreign(self) -> None:
        """Make sure that the folder is not there, empty, or a suite's.

        Raises:
            StoreError: it is none of these.
        """
        if self.path.exists() and not self.path.is_dir():
            raise StoreError(f"{self.path} is a file, not a folder. Name another folder.")
        # Hidden: what a process that was killed, or that starts at this moment, has not moved into its place.
        files = self.path.iterdir() if self.path.exists() and not self._config.exists() else ()
        if any(not file.name.startswith(".") for file in files):
            raise StoreError(f"{self.path} is not empty and no suite folder. Name another folder.")

    def claim(self, config: Mapping[str, Any], identity: Mapping[str, Any], *, n_users: int) -> None:
        """Take an empty folder.

        Args:
            config: what was asked for.
            identity: the part of it that must not change within a suite folder.
            n_users: how many users are asked about, for the message.

        Raises:
            StoreError: the folder holds a run on other data or with other questions.
        """
        if not self._config.exists():
            self.record(config, identity, runs=[])
            return
        there = self.recorded["identity"]
        differing = sorted(name for name in identity if identity[name] != there.get(name))
        if differing:
            found = {name: _differing(there.get(name), identity[name]) for name in differing}
            if "sha256" in found:  # then the users' engagements differ anyway
                found.pop("users_sha256", None)
            elif "users_sha256" in found:
                counted = [run.manifest["data"]["n_users_requested"] for run in self.runs if run.has("extract")]
                found["users_sha256"] = (str(counted[0]) if counted else "some", str(n_users))
            said = "; ".join(f"{_CALLED.get(name, name)}: {was} there, {now} now" for name, (was, now) in found.items())
            raise StoreError(
                f"{self.path} holds another run ({said}). Name another folder, or go on with the recorded settings."
            )

    def begin(self) -> None:
        """Write down that candidates are being asked: until they are recorded, no table names all that was asked."""
        write_json(self._config, {**self.recorded, "unfinished": True})

    def record(self, config: Mapping[str, Any], identity: Mapping[str, Any], **changes: Any) -> None:
        """Write down what was asked for, and which run folders belong to it (``runs``) or who judges (``judge``)."""
        kept: dict[str, Any] = {"runs": [], "judge": None, "unfinished": False}
        if self._config.exists():
            recorded = self.recorded
            kept = {name: recorded.get(name) for name in kept}
        if "runs" in changes:
            kept["unfinished"] = False
        write_json(self._config, {"format": SUITE_FORMAT, "config": config, "identity": identity, **kept, **changes})

    def refuse_other_judge(self, judge: ModelRef) -> None:
        """Make sure that nobody else judges here.

        Raises:
            StoreError: another model does.
        """
        recorded = self.recorded["judge"] if self._config.exists() else None
        if recorded is not None and recorded != asdict(judge):
            raise StoreError(
                f"{self.path} is judged by {ModelRef(**recorded)}, not by {judge}, and scores of different judges "
                "do not compare. Judge in another folder (with --store the extractions are not paid for again)."
            )


def _differing(there: Any, now: Any) -> tuple[str, str]:
    """Return two settings in short: the beginnings of hashes, and of tables what differs."""
    if isinstance(there, dict) and isinstance(now, dict):
        names = sorted(name for name in there | now if there.get(name) != now.get(name))
        return (
            ", ".join(f"{name} {_short(there.get(name))}" for name in names),
            ", ".join(f"{name} {_short(now.get(name))}" for name in names),
        )
    return _short(there), _short(now)


def _short(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_short(one)}" for name, one in value.items())
    return value[:12] if isinstance(value, str) and len(value) == N_HASH_CHARS else str(value)


def run_folders(path: Path) -> list[RunFolder]:
    """Return the run folders of a suite folder, or a run folder itself.

    Raises:
        StoreError: the path is neither.
    """
    if (path / "manifest.json").exists():
        return [RunFolder(path)]
    return [RunFolder(path / name) for name in SuiteFolder(path).recorded["runs"]]
