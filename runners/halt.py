"""Stops a run in good order: what is in flight is waited for, nothing new is asked, and the run can be gone on with."""

import logging
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import Any, Protocol

from ..hf_datasets.errors import ConfigError
from .engines.base import Engine
from .requests import Outcome

__all__ = ["CallLimit", "Halt", "Limit"]

logger = logging.getLogger(__name__)

SIGNALLED = 130
"""Exit status of a run that a signal stopped."""
LIMITED = 3
"""Exit status of a run that reached a limit."""


class Limit(Protocol):
    """Something that only so much of may be used."""

    def check(self, model: str, described: Mapping[str, Any]) -> None:
        """Make sure that what a model uses can be counted, from what its engine says of itself."""

    def begin(self, model: str, described: Mapping[str, Any]) -> None:
        """Say who is at work from now on."""

    def end(self) -> None:
        """Say that nobody is at work any more."""

    def spend(self, outcome: Outcome) -> None:
        """Take in one outcome of who is at work."""

    @property
    def spent(self) -> str:
        """Why no more may be asked; empty while it may."""


class CallLimit:
    """So many calls, and no more."""

    def __init__(self, n: int) -> None:
        """Allow `n` answered calls.

        Raises:
            ConfigError: less than 1.
        """
        if n < 1:
            raise ConfigError(f"A limit of {n} calls allows nothing. Give 1 or more.")
        self._n = n
        self._used = 0

    def check(self, model: str, described: Mapping[str, Any]) -> None:
        """Do nothing: every call counts as one."""

    def begin(self, model: str, described: Mapping[str, Any]) -> None:
        """Do nothing."""

    def end(self) -> None:
        """Do nothing."""

    def spend(self, outcome: Outcome) -> None:
        """Count one call."""
        self._used += outcome.final

    @property
    def spent(self) -> str:
        """Why no more may be asked; empty while it may."""
        return f"Stopped after {self._used:,} calls (--limit {self._n})." if self._used >= self._n else ""


class Halt:
    """Whether a run is to stop, and why."""

    def __init__(self, *limits: Limit) -> None:
        """Watch limits; there may be none."""
        self._limits = limits
        self.reason = ""
        self.exit_status = 0

    @property
    def wanted(self) -> bool:
        """Whether nothing new is to be asked."""
        return bool(self.reason)

    def check(self, engine: Engine) -> None:
        """Make sure that what an engine would use can be counted.

        Raises:
            ConfigError: it cannot be.
        """
        for limit in self._limits:
            limit.check(engine.model.name, engine.describe())

    def take_in(self, outcome: Outcome) -> None:
        """Take in one outcome that the engine gave."""
        for limit in self._limits:
            limit.spend(outcome)
            if limit.spent and not self.wanted:
                self.reason, self.exit_status = limit.spent, LIMITED

    @contextmanager
    def counting(self, engine: Engine) -> Iterator[None]:
        """Count what an engine uses meanwhile: its GPUs are at work, from the loading of the model on.

        Raises:
            ConfigError: what its model uses cannot be counted.
        """
        for limit in self._limits:
            limit.begin(engine.model.name, engine.describe())
        try:
            yield
        finally:
            for limit in self._limits:
                limit.end()

    @contextmanager
    def on_signals(self) -> Iterator[None]:
        """Stop at the first Ctrl-C or SIGTERM when what is in flight is answered, at the second at once."""

        def handle(number: int, frame: FrameType | None) -> None:
            if self.exit_status == SIGNALLED:
                raise KeyboardInterrupt
            name = "Ctrl-C" if number == signal.SIGINT else signal.Signals(number).name
            self.reason, self.exit_status = f"Stopped by {name}.", SIGNALLED
            logger.warning("Stopping: waiting for what is in flight. %s again stops at once.", name)

        before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
