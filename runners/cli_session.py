"""What the commands that ask a model share: progress, and what may stop them."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console

__all__ = ["session"]


@contextmanager
def session(
    console: Console, folder: Path | None, budget: list[str] | None, limit: int | None
) -> Iterator[dict[str, Any]]:
    """Give what a session of asking needs, as keywords: ``progress`` and ``halt``.

    Args:
        console: where progress is shown.
        folder: of the suite, for those who watch; None leaves no trace.
        budget: limits such as ``5M tokens``.
        limit: of calls.
    """
    from .budget import Budget
    from .halt import CallLimit, Halt, Limit
    from .progress import RunProgress

    limits: list[Limit] = []
    if budget:
        limits.append(Budget.parse(budget))
    if limit is not None:
        limits.append(CallLimit(limit))
    halt = Halt(*limits)
    with RunProgress(console, folder) as progress, halt.on_signals():
        try:
            yield {"progress": progress, "halt": halt}
        except OSError as error:
            error.add_note("What was answered so far is kept.")
            raise
