"""Shows how far a run is: bars in a terminal, a line a minute elsewhere, and a file for those who watch."""

import json
import logging
import os
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    ProgressColumn,
    Task,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as Bars
from rich.table import Table
from rich.text import Text

from ..hf_datasets._atomic import replacing
from ..hf_datasets.errors import StoreError
from .requests import STATUSES, Outcome
from .suitefolder import SuiteFolder

__all__ = ["PROGRESS_FILE", "RunProgress", "StepProgress", "watch"]

logger = logging.getLogger(__name__)

PROGRESS_FILE = ".progress.json"
LINE_EVERY_S = 60.0
SAVE_EVERY_S = 1.0
DRAW_EVERY_S = 0.1


@dataclass
class _Stage:
    """How far one stage of one candidate is."""

    description: str
    total: int
    started_at: float = field(default_factory=time.time)
    n_done: int = 0
    n_stored: int = 0
    outcomes: dict[str, int] = field(default_factory=lambda: dict.fromkeys(STATUSES, 0))
    n_prompt_tokens: int = 0
    n_cached_tokens: int = 0
    seconds: float = 0.0
    """Since it began."""
    is_finished: bool = False

    @property
    def rate(self) -> float:
        """Requests a second that the engine answered."""
        return (self.n_done - self.n_stored) / self.seconds if self.seconds > 0 else 0.0

    @property
    def remaining_s(self) -> float | None:
        """Seconds to the end at this rate; None while nothing is known."""
        return (self.total - self.n_done) / self.rate if self.rate else None

    @property
    def note(self) -> str:
        """What became of the requests, and what was spared."""
        bad = [f"{self.outcomes[status]:,} {status}" for status in STATUSES[1:] if self.outcomes[status]]
        parts = [f"{self.n_stored:,} from the store"] if self.n_stored else []
        if self.n_cached_tokens:
            parts.append(f"{100 * self.n_cached_tokens / self.n_prompt_tokens:.0f} % of the prompt cached")
        return " · ".join(parts + bad)

    @property
    def line(self) -> str:
        """One line of text."""
        share = f" ({100 * self.n_done / self.total:.0f} %)" if self.total else ""
        left = f", {_duration(self.remaining_s)} left" if self.remaining_s is not None else ""
        note = f"; {self.note}" if self.note else ""
        return f"{self.description}: {self.n_done:,} of {self.total:,}{share}, {self.rate:.1f}/s{left}{note}"


class _Rate(ProgressColumn):
    """Requests a second."""

    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{speed:.1f}/s")


class RunProgress:
    """The progress of a run, on standard error and in the suite folder. Use it as a context manager."""

    def __init__(self, console: Console, folder: Path | None = None) -> None:
        """Say where to show it.

        Args:
            console: bars where it is a terminal, else a line a minute.
            folder: of the suite, for those who watch; None leaves no trace.
        """
        self._console = console
        self._folder = folder
        self._stages: list[_Stage] = []
        self._bars = Bars(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            _Rate(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}"),
            console=console,
            disable=not console.is_terminal,
        )
        self._task = self._bars.add_task("", visible=False, note="")
        self._said_at = self._saved_at = self._drawn_at = time.monotonic()

    def __enter__(self) -> "RunProgress":
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.stop()
        if self._stages:
            self._save()

    def start(self, description: str, total: int) -> None:
        """Show a new stage."""
        self._stages.append(_Stage(description, total))
        self._task = self._bars.add_task(description, total=total, note="")
        self._save()

    def advance(self, outcome: Outcome, *, stored: bool) -> None:
        """Move on by one request."""
        stage = self._stages[-1]
        stage.n_done += 1
        stage.outcomes[outcome.status] += 1
        if stored:
            stage.n_stored += 1
        else:
            stage.n_prompt_tokens += outcome.n_prompt_tokens
            stage.n_cached_tokens += outcome.n_cached_tokens
        now = time.monotonic()
        if now - self._drawn_at >= DRAW_EVERY_S:
            self._draw(now)
        if now - self._saved_at >= SAVE_EVERY_S:
            self._save()
        if not self._console.is_terminal and now - self._said_at >= LINE_EVERY_S:
            self._said_at = now
            self._console.print(stage.line, highlight=False, soft_wrap=True, markup=False)

    def grow(self, n: int) -> None:
        """Lengthen the stage by requests that are asked again."""
        self._stages[-1].total += n
        self._bars.update(self._task, total=self._stages[-1].total)

    def finish(self) -> None:
        """Leave the stage as it is, done."""
        self._stages[-1].is_finished = True
        self._draw(time.monotonic())
        self._save()

    def _draw(self, now: float) -> None:
        self._drawn_at = now
        stage = self._stages[-1]
        self._bars.update(self._task, completed=stage.n_done, note=stage.note)

    def _save(self) -> None:
        self._saved_at = time.monotonic()
        stage = self._stages[-1]
        stage.seconds = time.time() - stage.started_at
        if self._folder is None or not self._folder.is_dir():
            return
        record = {"pid": os.getpid(), "saved_at": time.time(), "stages": [asdict(stage) for stage in self._stages]}
        try:
            with replacing(self._folder / PROGRESS_FILE) as temporary:
                temporary.write_text(json.dumps(record), encoding="utf-8")
        except OSError as error:  # who watches sees less; the run itself says what is wrong with the disk
            logger.debug("%s cannot be written: %s", PROGRESS_FILE, error)


class StepProgress:
    """The progress of a step that asks no model: a bar in a terminal. Use it as a context manager."""

    def __init__(self, console: Console) -> None:
        """Draw on a console, if it is a terminal."""
        self._bars = Bars(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[note]}"),
            console=console,
            disable=not console.is_terminal,
        )
        self._n_stored = 0
        self._task = TaskID(0)

    def __enter__(self) -> "StepProgress":
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.stop()

    def start(self, description: str, total: int) -> None:
        """Show a new bar."""
        self._n_stored = 0
        self._task = self._bars.add_task(description, total=total, note="")

    def advance(self, *, stored: bool) -> None:
        """Move on by one run, made now or before."""
        self._n_stored += stored
        note = f"{self._n_stored} finished before" if self._n_stored else ""
        self._bars.update(self._task, advance=1, note=note)

    def finish(self) -> None:
        """Leave the bar as it is."""


def watch(folder: Path, console: Console, *, every_s: float = 1.0) -> None:
    """Show how far the run in a suite folder is, until nobody is at work there; once where nobody watches.

    Raises:
        StoreError: there is no such run.
    """
    if not (folder / PROGRESS_FILE).exists():
        raise StoreError(f"{folder}: no run has begun there. Name the folder that `gistbench run -o` was given.")
    if not console.is_terminal:
        console.print(_table(folder))
        return
    with Live(_table(folder), console=console, refresh_per_second=4) as live:
        while _is_busy(folder):
            time.sleep(every_s)
            live.update(_table(folder))
        live.update(_table(folder))


def _is_busy(folder: Path) -> bool:
    """Return whether a process is at work in a suite folder, or at one of several repeats."""
    return any(SuiteFolder(one).is_busy for one in (folder, *folder.glob("repeat-*")))


def _table(folder: Path) -> Table:
    record = json.loads((folder / PROGRESS_FILE).read_text(encoding="utf-8"))
    stages = [_Stage(**stage) for stage in record["stages"]]
    busy = _is_busy(folder)
    state = f"running, process {record['pid']}" if busy else "nobody is at work"
    table = Table(title=f"{escape(str(folder))}: {state}", box=SIMPLE_HEAD)
    table.add_column("Stage", overflow="fold")
    for heading in ("Done", "of", "Rate", "Left"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("Notes")
    for stage in stages:
        left = "done" if stage.is_finished else _duration(stage.remaining_s) if busy else "stopped"
        cells: list[Any] = [f"{stage.n_done:,}", f"{stage.total:,}", f"{stage.rate:.1f}/s", left, stage.note]
        table.add_row(escape(stage.description), *cells)
    return table


def _duration(seconds: float | None) -> str:
    """Return a duration as people say it.

    >>> _duration(59.6), _duration(3700), _duration(None)
    ('1m00', '1h01', '?')
    """
    if seconds is None:
        return "?"
    minutes, rest = divmod(round(seconds), 60)
    if minutes == 0:
        return f"{rest} s"
    return f"{minutes // 60}h{minutes % 60:02d}" if minutes >= 60 else f"{minutes}m{rest:02d}"
