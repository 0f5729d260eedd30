"""Progress bars on the terminal: counts, rate and remaining time; silent where nobody watches."""

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bars
from rich.text import Text

__all__ = ["BarProgress"]


class _Rate(ProgressColumn):
    """Requests a second."""

    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{speed:.1f}/s")


class BarProgress:
    """One bar for each stage, on standard error; nothing at all when that is not a terminal."""

    def __init__(self, console: Console) -> None:
        """Draw on a console, if it is a terminal."""
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
        self._task = None if self._bars.disable else self._bars.add_task("", visible=False, note="")
        self._n_stored = 0

    def __enter__(self) -> "BarProgress":
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.stop()

    def start(self, description: str, total: int) -> None:
        """Show a new bar."""
        self._n_stored = 0
        if self._task is not None:
            self._task = self._bars.add_task(description, total=total, note="")

    def advance(self, *, stored: bool) -> None:
        """Move the bar by one request."""
        if self._task is not None:
            self._n_stored += stored
            note = f"{self._n_stored} from the store" if self._n_stored else ""
            self._bars.update(self._task, advance=1, note=note)

    def grow(self, n: int) -> None:
        """Lengthen the bar by requests that are asked again."""
        if self._task is not None:
            self._bars.update(self._task, total=(self._bars.tasks[self._task].total or 0) + n)

    def finish(self) -> None:
        """Leave the bar as it is, full."""
