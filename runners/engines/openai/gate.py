"""Holds back what a server does not bear. It knows nothing of what is called, or why a call failed."""

import asyncio
import math
import time
from collections import deque

__all__ = ["Gate"]


class Gate:
    """Lets calls through, in order: as many at once as the server bears.

    A busy server halves the number, once for all calls that were under way together, and pauses it; answers
    raise it again, by one for each round of calls.
    """

    def __init__(self, limit: int) -> None:
        """Open the gate.

        Args:
            limit: calls at once that are never exceeded.
        """
        self._limit = limit
        self._allowed = float(limit)
        self._n_busy = 0
        self._waiting: deque[asyncio.Future[bool]] = deque()
        self._slowed_at = -math.inf
        self._reopening: asyncio.TimerHandle | None = None

    @property
    def allowed(self) -> int:
        """Calls at once that are let through now; 0 for the time of a pause."""
        return int(self._allowed) if self._reopening is None else 0

    @property
    def is_open(self) -> bool:
        """Whether one more call would be let through at once."""
        return self._n_busy < self.allowed

    async def enter(self) -> bool:
        """Wait for a turn; False means that all who waited were sent away. Whoever entered must `leave`."""
        if not self._waiting and self.is_open:
            self._n_busy += 1
            return True
        turn: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        return await turn

    def leave(self) -> None:
        """End a call."""
        self._n_busy -= 1
        self._admit()

    def send_away(self) -> None:
        """Give no turn to those who wait."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(False)

    def slow_down(self, began: float, pause_s: float) -> None:
        """Take in that a call, begun at this time, found the server busy."""
        if began > self._slowed_at:
            self._slowed_at = time.monotonic()
            self._allowed = max(1.0, self._allowed / 2)
        loop = asyncio.get_running_loop()
        if self._reopening is None or self._reopening.when() < loop.time() + pause_s:
            if self._reopening is not None:
                self._reopening.cancel()
            self._reopening = loop.call_later(pause_s, self._reopen)

    def speed_up(self) -> None:
        """Take in that a call was answered."""
        if self._allowed < self._limit:
            self._allowed = min(float(self._limit), self._allowed + 1 / self._allowed)
            self._admit()

    def _reopen(self) -> None:
        self._reopening = None
        self._admit()

    def _admit(self) -> None:
        while self._waiting and self.is_open:
            turn = self._waiting.popleft()
            if not turn.done():
                self._n_busy += 1
                turn.set_result(True)
