"""Chooses which of several servers of one model answers a request. It makes no calls itself.

Requests of one group begin alike, so a server that answered one of them has the common part in its prefix cache: they
stick to it while it has room. A server whose connections fail is left out for a while; then one request tries it.
"""

import time
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from .config import proxy_for
from .gate import Gate

__all__ = ["QUEUED_SHARE", "Replica", "Replicas"]

FIRST_REST_S = 1.0
LONGEST_REST_S = 60.0
MAX_FAILURES_IN_A_ROW = 3
"""Broken connections with no answer between them, after which a server is taken to be down."""
QUEUED_SHARE = 0.5
"""How many requests, as a share of the calls at once, wait at the server that has their beginning before another is
asked to compute it too. So many more must be at hand, for no server to stand idle meanwhile."""
MAX_GROUPS = 4096
"""Groups whose servers are remembered, so that memory does not grow with their number."""


class Replica:
    """One server, and how it has been doing."""

    def __init__(self, base_url: str, limit: int) -> None:
        """Take an address; `limit` is of the calls at once."""
        self.base_url = base_url
        self.url = f"{base_url}/chat/completions"
        self.proxy = proxy_for(self.url)
        self.gate = Gate(limit)
        self.n_open = 0
        """Requests that are with it, those that wait for their turn included."""
        self.rests_until = 0.0
        self.rest_s = 0.0
        """How long it was last left out; 0 when it has answered since."""
        self.n_failures = 0

    @property
    def has_room(self) -> bool:
        """Whether it would take a request at once."""
        return self.gate.is_open

    @property
    def is_worth_waiting_for(self) -> bool:
        """Whether few enough wait for it already."""
        return self.n_open < (1 + QUEUED_SHARE) * self.gate.allowed

    def answered(self) -> None:
        """Take in that it sent something, be it an error."""
        self.n_failures = 0
        self.rest_s = 0.0


class Replicas:
    """The servers of one model."""

    first_rest_s = FIRST_REST_S
    """How long a server is left out the first time; it doubles with each. The tests lower it."""

    def __init__(self, base_urls: Sequence[str], limit: int) -> None:
        """Take the addresses; `limit` is of the calls at once at each."""
        self._all = [Replica(base_url, limit) for base_url in base_urls]
        self._homes: OrderedDict[str, list[Replica]] = OrderedDict()

    @contextmanager
    def choose(self, group: str) -> Iterator[Replica]:
        """Choose the server for a request, which is with it for as long as the context lasts."""
        replica = self._all[0] if len(self._all) == 1 else self._choice(group)
        replica.n_open += 1
        try:
            yield replica
        finally:
            replica.n_open -= 1

    def failed(self, replica: Replica, began: float, *, is_down: bool) -> bool:
        """Take in that a connection failed, and return whether another server can be asked at once.

        Args:
            replica: whose connection.
            began: when the call did.
            is_down: nobody listens there; else the connection broke, which may happen once.
        """
        if len(self._all) == 1:
            return False
        now = time.monotonic()
        replica.n_failures += 1
        # Calls that were under way when it was sent to rest say nothing new.
        is_news = began >= replica.rests_until - replica.rest_s
        if is_news and (is_down or replica.n_failures >= MAX_FAILURES_IN_A_ROW):
            replica.rest_s = min(LONGEST_REST_S, replica.rest_s * 2 or self.first_rest_s)
            replica.rests_until = now + replica.rest_s
            replica.gate.send_away()
        return any(other is not replica and _is_usable(other, now) for other in self._all)

    def _choice(self, group: str) -> Replica:
        now = time.monotonic()
        usable = [replica for replica in self._all if _is_usable(replica, now)]
        if not usable:
            return min(self._all, key=lambda replica: replica.rests_until)
        best = min(usable, key=_business)
        if not group:
            return best
        homes = self._homes.setdefault(group, [])
        self._homes.move_to_end(group)
        if len(self._homes) > MAX_GROUPS:
            self._homes.popitem(last=False)
        own = min((replica for replica in homes if replica in usable), key=_business, default=None)
        # Else the beginning is computed once more, which costs less than a server that stands idle.
        if own is not None and (own.is_worth_waiting_for or not best.has_room):
            return own
        if best not in homes:
            homes.append(best)
        return best


def _is_usable(replica: Replica, now: float) -> bool:
    """Return whether a server is not left out; one that was is tried with one request at a time."""
    return replica.rests_until <= now and (replica.rest_s == 0 or replica.n_open == 0)


def _business(replica: Replica) -> tuple[bool, int]:
    return not replica.has_room, replica.n_open
