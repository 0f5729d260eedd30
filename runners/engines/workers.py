"""Several copies of an engine, each a process of its own, over one shared queue of requests.

Requests that begin alike (`Request.group`) go to one worker, whose prefix cache then holds their beginning; a worker
without work takes the next group, and shares a group only when there is none left. A worker that dies loses nothing:
what it was at is given to another, and a request that was in flight at two deaths is an ``error``.

A worker is a fresh interpreter, not a fork (which breaks a GPU's context) and not one of `multiprocessing`'s children
(which run the caller's main module again, and may have no children of their own, as tensor parallel needs). It stands
in a process group of its own, so a terminal's Ctrl-C does not reach it, and ends when its connection does: it cannot
outlive whoever asks it.

Nothing here knows of models: an engine is made from its configuration by its class. It must take pauses: a None among
its requests says that there is none at the moment, and that it should go on with what it has.
"""

import logging
import os
import queue
import signal
import subprocess
import sys
import threading
from collections import Counter, deque
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from typing import Any, cast

from ...hf_datasets.errors import ConfigError, EngineError
from ..requests import Outcome, Request
from .base import ModelConfig

__all__ = ["Inbox", "PrefixQueue", "SharedEngine", "WorkerPool", "device_slices"]

logger = logging.getLogger(__name__)

MAX_DEATHS = 2
"""A request in flight at so many deaths of workers is taken to be their cause."""
MAX_FRUITLESS_DEATHS = 4
"""After so many deaths with no answer between them, workers are taken to be unable to run at all."""
MAX_WAITING_CHARS = 256_000_000
"""Characters of prompts that wait for a worker."""
CLOSE_SECONDS = 20.0
"""How long a worker may take to free its devices before it is killed."""


def device_slices(visible: str | None, n_devices: int, n_workers: int, n_each: int) -> list[str]:
    """Return the devices of each worker, as CUDA_VISIBLE_DEVICES names them.

    Args:
        visible: CUDA_VISIBLE_DEVICES of this process; None where it is not set.
        n_devices: devices that there are.
        n_workers: workers that need devices.
        n_each: devices of one worker.

    Raises:
        ConfigError: there are not enough.

    >>> device_slices(None, 4, 2, 2)
    ['0,1', '2,3']
    >>> device_slices("5,3", 2, 2, 1)
    ['5', '3']
    """
    names = [str(n) for n in range(n_devices)] if visible is None else [one for one in visible.split(",") if one]
    if len(names) < n_workers * n_each:
        raise ConfigError(
            f"{n_workers} copies of the model on {n_each} devices each need {n_workers * n_each}; there are "
            f"{len(names)}. Lower data_parallel_size or tensor_parallel_size."
        )
    return [",".join(names[i * n_each : (i + 1) * n_each]) for i in range(n_workers)]


@dataclass
class _Group:
    """Requests that begin alike."""

    waiting: deque[Request] = field(default_factory=deque)
    n_with_workers: int = 0


class PrefixQueue:
    """Requests that wait for a worker, read as they are needed."""

    def __init__(self, requests: Iterable[Request | None], n_ahead: int) -> None:
        """Read nothing yet.

        Args:
            requests: in the order in which they are best answered.
            n_ahead: how many may be read before a worker takes them, to find another group.
        """
        self._source = iter(requests)
        self._exhausted = False
        self._n_ahead = n_ahead
        self._n_waiting = self._n_chars = 0
        self._groups: dict[Hashable, _Group] = {}
        self._unowned: dict[Hashable, None] = {}  # in the order in which they came
        self._owned: dict[int, dict[Hashable, None]] = {}
        self._names: dict[str, Hashable] = {}  # of the groups of all requests, by key
        self._last_read: Hashable = None

    def __bool__(self) -> bool:
        """Whether there may be more to take."""
        return self._n_waiting > 0 or not self._exhausted

    def take(self, worker: int, n: int, *, may_split: bool) -> list[Request]:
        """Return up to `n` requests of one group for a worker; none where it had better wait.

        Args:
            worker: who asks.
            n: how many at most.
            may_split: whether, where there is no group of its own and none that nobody works on, it may take part of
                another worker's; from the far end, and half of what waits at most.
        """
        while (name := self._next_group(worker)) is None and self._read():
            pass
        if name is not None:
            group = self._groups[name]
            while len(group.waiting) < n and self._last_read == name and self._read():
                pass  # the rest of the group comes next
            taken = [group.waiting.popleft() for _ in range(min(n, len(group.waiting)))]
            if name in self._unowned:
                del self._unowned[name]
                self._owned.setdefault(worker, {})[name] = None
        elif may_split and self._n_waiting:
            name = max(self._groups, key=lambda one: len(self._groups[one].waiting))
            group = self._groups[name]
            taken = [group.waiting.pop() for _ in range(min(n, (len(group.waiting) + 1) // 2))]
        else:
            return []
        self._n_waiting -= len(taken)
        self._n_chars -= sum(map(_n_chars, taken))
        group.n_with_workers += len(taken)
        return taken

    def done(self, request: Request) -> None:
        """Say that a request was answered."""
        name = self._names.pop(request.key)
        group = self._groups[name]
        group.n_with_workers -= 1
        if not group.waiting and not group.n_with_workers:
            del self._groups[name]
            self._unowned.pop(name, None)
            for owned in self._owned.values():
                owned.pop(name, None)

    def give_back(self, worker: int, requests: Sequence[Request]) -> None:
        """Take back what a worker did not answer; others come to its groups."""
        for request in reversed(requests):
            self._groups[self._names[request.key]].n_with_workers -= 1
            self._wait(request, first=True)
        self._unowned = self._owned.pop(worker, {}) | self._unowned

    def _next_group(self, worker: int) -> Hashable | None:
        """Return the worker's own group with requests that wait, else the next that nobody works on."""
        candidates: list[Iterable[Hashable]] = [self._owned.get(worker, ()), self._unowned]
        return next((name for names in candidates for name in names if self._groups[name].waiting), None)

    def _read(self) -> bool:
        """Read one request; return whether there was one, and room for it."""
        if self._exhausted or self._n_waiting >= self._n_ahead or self._n_chars >= MAX_WAITING_CHARS:
            return False
        request = next(self._source, None)
        if request is None:
            self._exhausted = True
            return False
        # What begins like nothing else is a group of its own.
        name: Hashable = request.group or (request.key,)
        self._names[request.key] = self._last_read = name
        if name not in self._groups:
            self._groups[name] = _Group()
            self._unowned[name] = None
        self._wait(request)
        return True

    def _wait(self, request: Request, *, first: bool = False) -> None:
        waiting = self._groups[self._names[request.key]].waiting
        (waiting.appendleft if first else waiting.append)(request)
        self._n_waiting += 1
        self._n_chars += _n_chars(request)


def _n_chars(request: Request) -> int:
    return sum(len(message.content) for message in request.messages)


class _Worker:
    """The near end of one worker process."""

    def __init__(self, index: int, engine: Any, config: ModelConfig, environment: dict[str, str]) -> None:
        self.index = index
        self.in_flight: dict[str, Request] = {}
        self.is_ready = False
        """The engine has started. Until then others may be quicker to answer."""
        self._made_from = (engine, config)
        self._environment = environment
        self._process: subprocess.Popen[bytes] | None = None
        self.connection: Connection | None = None

    def ask(self, requests: Sequence[Request]) -> None:
        """Hand over requests; the process is started with the first.

        Raises:
            OSError: the worker is dead.
        """
        self.in_flight |= {request.key: request for request in requests}
        if self.connection is None:
            self._start()
        # What the request is about is the stage's, and may be large.
        self.connection.send([replace(request, about=None) for request in requests])  # type: ignore[union-attr]

    def _start(self) -> None:
        near, far = Pipe()
        with far:
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__, str(far.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=2,  # what libraries print is no result of ours
                env=os.environ | self._environment,
                pass_fds=[far.fileno()],
                start_new_session=True,
            )
        self.connection = near
        self.connection.send(self._made_from)

    def end(self, seconds: float = 0.0) -> str:
        """Let the process end, kill what is left of it after `seconds`, and return how it ended."""
        if self._process is None:
            return ""
        with suppress(OSError, AttributeError):
            self.connection.send(None)  # type: ignore[union-attr]
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)
        with suppress(ProcessLookupError):  # tensor parallel workers are of its group
            os.killpg(self._process.pid, signal.SIGKILL)
        code = self._process.wait()
        if self.connection is not None:
            self.connection.close()
        self._process = self.connection = None
        self.in_flight, self.is_ready = {}, False
        return f"killed by signal {-code}" if code < 0 else f"exit status {code}"


class WorkerPool:
    """Copies of an engine in processes of their own."""

    def __init__(
        self, engine: Any, config: ModelConfig, environments: Sequence[dict[str, str]], *, n_running: int
    ) -> None:
        """Prepare the workers; each is started with its first request.

        Args:
            engine: class of the engine, which takes pauses.
            config: what each copy is made from.
            environments: what is added to the environment of each worker, one for each.
            n_running: requests that one copy works on at once.
        """
        self._workers = [_Worker(i, engine, config, added) for i, added in enumerate(environments)]
        self._n_running = n_running
        # A few that wait in the worker keep it busy until an answer has been taken in here and the next has come.
        self._n_in_flight = n_running + max(2, n_running // 4)
        self._described: dict[int, dict[str, Any]] = {}
        self._n_fruitless_deaths = 0

    def generate(self, requests: Iterable[Request | None]) -> Generator[Outcome]:
        """Answer every request; one outcome for each, as workers finish them.

        Raises:
            EngineError: the engine cannot be started, or every worker dies.
        """
        waiting = PrefixQueue(requests, n_ahead=2 * self._n_in_flight * len(self._workers))
        deaths: Counter[str] = Counter()
        self._n_fruitless_deaths = 0
        try:
            while True:
                for worker in self._feed(waiting):
                    yield from self._bury(worker, waiting, deaths)
                asked = {
                    worker.connection: worker for worker in self._workers if worker.in_flight and worker.connection
                }
                if not asked:
                    if waiting:
                        continue  # what a dead worker was at
                    return
                for connection in wait(list(asked)):
                    connection = cast(Connection, connection)
                    worker = asked[connection]
                    try:
                        kind, content = connection.recv()
                    except (EOFError, OSError):
                        yield from self._bury(worker, waiting, deaths)
                        continue
                    if kind == "failed":
                        raise EngineError(content)
                    if kind == "ready":
                        worker.is_ready = True
                        continue
                    if kind == "described":
                        self._described[worker.index] = content
                        continue
                    worker.is_ready = True
                    if content.final:
                        self._n_fruitless_deaths = 0
                        waiting.done(worker.in_flight.pop(content.key))
                    yield content
        finally:
            for worker in self._workers:
                if worker.in_flight:  # the caller has stopped: what is in flight must not be worked on
                    worker.end()

    def _feed(self, waiting: PrefixQueue) -> Iterator[_Worker]:
        """Hand out requests in turns, so that few are spread over all; yield workers that turn out to be dead."""
        hungry = list(self._workers)
        slice_size = max(1, self._n_running // 4)
        while hungry:
            for worker in list(hungry):
                most = self._n_in_flight if worker.is_ready else slice_size
                room = min(slice_size, most - len(worker.in_flight))
                may_split = len(worker.in_flight) < self._n_running
                taken = waiting.take(worker.index, room, may_split=may_split) if room > 0 else []
                if not taken:
                    hungry.remove(worker)
                    continue
                try:
                    worker.ask(taken)
                except OSError:
                    hungry.remove(worker)
                    yield worker

    def _bury(self, worker: _Worker, waiting: PrefixQueue, deaths: Counter[str]) -> Iterator[Outcome]:
        """Give back what a dead worker was at; yield the errors of what was in flight at too many deaths."""
        lost = list(worker.in_flight.values())
        how = worker.end()
        logger.warning("Worker %d died (%s); its %d requests go to another.", worker.index, how, len(lost))
        self._n_fruitless_deaths += 1
        if self._n_fruitless_deaths >= MAX_FRUITLESS_DEATHS:
            raise EngineError(
                f"{self._n_fruitless_deaths} workers died with no answer between them (the last: {how}). Is there "
                "enough memory for every copy of the model? What was answered is kept."
            )
        deaths.update(request.key for request in lost)
        waiting.give_back(worker.index, [request for request in lost if deaths[request.key] < MAX_DEATHS])
        for request in lost:
            if deaths[request.key] >= MAX_DEATHS:
                waiting.done(request)
                problem = f"It was in flight when {MAX_DEATHS} workers died; the last: {how}."
                yield Outcome(key=request.key, status="error", problem=problem)

    def describe(self) -> list[dict[str, Any]]:
        """Return what each copy that has answered says of itself."""
        return [self._described[index] for index in sorted(self._described)]

    @property
    def pids(self) -> list[int]:
        """The processes that run."""
        return [worker._process.pid for worker in self._workers if worker._process is not None]

    def close(self) -> None:
        """End every worker."""
        for worker in self._workers:
            with suppress(OSError, AttributeError):  # all at once, then each is waited for
                worker.connection.send(None)  # type: ignore[union-attr]
        for worker in self._workers:
            worker.end(CLOSE_SECONDS)


class Inbox:
    """Requests that come in from elsewhere, as an engine that takes pauses reads them."""

    def __init__(self, when_hungry: Callable[[], object] = lambda: None) -> None:
        """Be empty.

        Args:
            when_hungry: called when the engine first wants more than there is: it has started then.
        """
        self._when_hungry: Callable[[], object] | None = when_hungry
        self._messages: queue.SimpleQueue[Sequence[Request] | None] = queue.SimpleQueue()
        self._read: deque[Request] = deque()
        self._n_unanswered = 0
        self.ended = False

    def put(self, requests: Sequence[Request] | None) -> None:
        """Add requests; None ends them."""
        self._messages.put(requests)

    def answered(self) -> None:
        """Say that one was answered."""
        self._n_unanswered -= 1

    def __iter__(self) -> Iterator[Request | None]:
        return self

    def __next__(self) -> Request | None:
        while not self._read and not self.ended:
            try:
                # With nothing in flight there is nothing to go on with.
                requests = self._messages.get(block=self._n_unanswered == 0)
            except queue.Empty:
                if self._when_hungry is not None:
                    self._when_hungry()
                    self._when_hungry = None
                return None
            if requests is None:
                self.ended = True
            else:
                self._read.extend(requests)
        if not self._read:
            raise StopIteration
        self._n_unanswered += 1
        return self._read.popleft()


class SharedEngine:
    """One engine that several threads ask at once, so that what one of them asks ends in no idle time."""

    def __init__(self, engine: Any) -> None:
        """Take an engine; one that takes no pauses answers one thread after the other."""
        self._engine = engine
        self._lock = threading.Lock()
        self._inbox = Inbox()
        self._waiting: dict[str, tuple[list[Outcome], threading.Semaphore]] = {}
        self._failure: BaseException | None = None
        self._thread: threading.Thread | None = None

    def answer(self, requests: Sequence[Request]) -> list[Outcome]:
        """Answer requests, as the engine does; with other threads' where it can.

        Raises:
            Exception: whatever the engine raises, in every thread that waits.
        """
        if not getattr(self._engine, "takes_pauses", False):
            with self._lock:
                return list(self._engine.generate(requests))
        outcomes: list[Outcome] = []
        answered = threading.Semaphore(0)
        with self._lock:
            self._waiting |= {request.key: (outcomes, answered) for request in requests}
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, daemon=True)
                self._thread.start()
        self._inbox.put(requests)
        for _ in requests:
            while not answered.acquire(timeout=1.0):
                if self._failure is not None:
                    raise self._failure
        return outcomes

    def _work(self) -> None:
        try:
            for outcome in self._engine.generate(self._inbox):
                outcomes, answered = self._waiting[outcome.key]
                outcomes.append(outcome)
                if outcome.final:
                    self._inbox.answered()
                    del self._waiting[outcome.key]
                    answered.release()
        except BaseException as error:
            self._failure = error  # for whoever waits
            raise


def main(descriptor: int) -> None:
    """Be a worker: answer what comes over a connection, until it ends."""
    for number in (signal.SIGINT, signal.SIGTERM):  # whoever asks decides what is finished
        signal.signal(number, signal.SIG_IGN)
    connection = Connection(descriptor)
    inbox = Inbox(when_hungry=lambda: connection.send(("ready", None)))

    def receive() -> None:
        try:
            while (requests := connection.recv()) is not None:
                inbox.put(requests)
            inbox.put(None)
        except (EOFError, OSError):
            # Nobody is there to answer to. Nothing milder ends an engine that is at work, and its own workers.
            os.killpg(os.getpgid(0), signal.SIGKILL)

    engine_class, config = connection.recv()
    threading.Thread(target=receive, daemon=True).start()
    try:
        engine = engine_class(config)
        described = False
        for outcome in engine.generate(inbox):
            if not described:
                connection.send(("described", engine.describe()))
                described = True
            if outcome.final:
                inbox.answered()
            connection.send(("answered", outcome))
        engine.close()
    except EngineError as error:
        connection.send(("failed", str(error)))
        sys.exit(1)


if __name__ == "__main__":
    # Run by its own name, its classes are those that the other side sends.
    from importlib import import_module

    import_module("gistbench.runners.engines.workers").main(int(sys.argv[1]))
