"""Makes the calls: an event loop in a thread of its own, one layer of retries, and a stop where no call can succeed.

Requests are read in the caller's thread, since what makes them may be bound to it. API keys are removed from everything
that a server says.
"""

import asyncio
import logging
import math
import random
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Mapping
from importlib.metadata import version
from importlib.util import find_spec
from itertools import count
from queue import SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, Any

from ....hf_datasets.errors import EngineError
from ...parsing.answers import clean_text
from ...profiles import find_profile
from ...requests import ModelRef, Outcome, Request
from .chat import Chat, json_object, message_of, nested_int, retry_after_s, server_message
from .config import DEFAULT_BASE_URL, OpenAIConfig, read_key
from .replicas import QUEUED_SHARE, Replica, Replicas

if TYPE_CHECKING:
    import aiohttp

__all__ = ["OpenAIEngine"]

log = logging.getLogger(__name__)

DEFAULT_CONTEXT_TOKENS = 32_768
"""Taken where neither configuration nor profile says: most served models have at least this much."""
CONNECT_TIMEOUT_S = 30.0
LONGEST_BACKOFF_S = 60.0
MAX_PROBLEM_CHARS = 500
MAX_SERVED_AS = 16
"""Names that are kept of what servers say they run: some call it something else in every answer."""

# What no repetition can put right, with what to do about it.
_HOPELESS = {
    401: "Put a valid key into the environment variable {api_key_env}.",
    402: "The account behind {api_key_env} cannot pay.",
    403: "The key in {api_key_env} may not use this model or address.",
    404: "Check base_url (it usually ends in /v1) and the model's name on this server (api_name).",
    405: "Check base_url (it usually ends in /v1).",
}


class OpenAIEngine:
    """Answers requests with calls to one or several OpenAI-compatible servers."""

    _backoff_s = 1.0
    """The first wait before a repetition; it doubles with each. The tests lower it."""

    def __init__(self, config: OpenAIConfig) -> None:
        """Read the key; no call is made before the first request.

        Args:
            config: which model, and how its server is reached.

        Raises:
            EngineError: aiohttp is not installed.
            ConfigError: the environment variable holds something that cannot be a key.
        """
        if find_spec("aiohttp") is None:
            raise EngineError("The openai engine needs aiohttp. Install it with: pip install 'gistbench[openai]'")
        self._config = config
        self._api_key = read_key(config.api_key_env)
        self._served: set[str] = set()
        self.profile = find_profile(config.name, config.profile)
        self._chat = Chat(config, self.profile, self._tell)
        self.model = ModelRef(config.name, config.revision or "", str(self.profile))
        self.context_tokens: int | None = config.context_tokens or self.profile.context_tokens or DEFAULT_CONTEXT_TOKENS

    def generate(self, requests: Iterable[Request]) -> Generator[Outcome]:
        """Answer every request, as the servers finish them.

        At most `concurrency` requests, for each of several servers half as many more, have been taken and not yet
        answered at any time. Closing the generator cancels the calls in flight.

        Raises:
            EngineError: there is no key for OpenAI's own server, or a server refuses the key, the address or the model,
                so that no request can be answered. What was answered before has been yielded.
        """
        if DEFAULT_BASE_URL in self._config.base_urls and not self._api_key.get_secret_value():
            raise EngineError(
                f"{self._config.name} is asked of {DEFAULT_BASE_URL}, and there is no key for it: put one into the "
                f"variable {self._config.api_key_env}, or name another server with base_url=."
            )
        remaining = iter(requests)
        capacity = self._config.concurrency
        if (n_servers := len(self._config.base_urls)) > 1:
            capacity = math.ceil(capacity * n_servers * (1 + QUEUED_SHARE))
        # Both are bounded by what is taken: `capacity` requests with `max_attempts` outcomes each.
        inbox = _Inbox()
        finished: SimpleQueue[Outcome | BaseException] = SimpleQueue()
        loop = asyncio.new_event_loop()
        serving = loop.create_task(self._serve(inbox, finished.put))
        serving.add_done_callback(lambda task: _report_failure(task, finished.put))
        thread = Thread(target=_run, args=(loop, serving), name="gistbench-openai", daemon=True)
        thread.start()
        n_open = 0
        exhausted = False
        try:
            while True:
                while not exhausted and n_open < capacity:
                    request = next(remaining, None)
                    if request is None:
                        exhausted = True
                    else:
                        n_open += 1
                        inbox.put(request, loop)
                if n_open == 0:
                    return
                outcome = finished.get()
                if isinstance(outcome, BaseException):
                    raise outcome
                n_open -= outcome.final
                yield outcome
        finally:
            loop.call_soon_threadsafe(serving.cancel)
            thread.join()
            loop.close()

    def describe(self) -> dict[str, Any]:
        """Return the client's version and options, and what the servers say that they run."""
        hidden = {"engine", "name", "revision", "profile"}
        return {
            "engine": "openai",
            "versions": {"aiohttp": version("aiohttp")},
            "options": self._config.model_dump(exclude=hidden),
            "revision": self.model.revision or "unknown: a served model has no commit, and none was configured",
            "served_as": sorted(self._served),
            "context_tokens": self.context_tokens,
            "hardware": "unknown: the server's",
        }

    def close(self) -> None:
        """Do nothing: connections are held only while requests are answered."""

    async def _serve(self, inbox: "_Inbox", put: Callable[[Outcome], None]) -> None:
        """Answer what comes in until cancelled; the first error that no repetition can put right ends it all."""
        import aiohttp

        config = self._config
        replicas = Replicas(config.base_urls, config.concurrency)
        headers = {"Content-Type": "application/json", "User-Agent": "gistbench"}
        if self._api_key.get_secret_value():
            headers["Authorization"] = f"Bearer {self._api_key.get_secret_value()}"
        timeout = aiohttp.ClientTimeout(total=config.timeout_s, sock_connect=min(CONNECT_TIMEOUT_S, config.timeout_s))
        async with (
            aiohttp.ClientSession(
                headers=headers,
                timeout=timeout,
                connector=aiohttp.TCPConnector(limit=0),  # the gates hold back
                cookie_jar=aiohttp.DummyCookieJar(),
            ) as session,
            asyncio.TaskGroup() as group,
        ):
            while True:
                for request in await inbox.take():
                    group.create_task(self._answer(request, session, replicas, put))

    async def _answer(
        self, request: Request, session: "aiohttp.ClientSession", replicas: Replicas, put: Callable[[Outcome], None]
    ) -> None:
        """Make the calls for one request, and put the outcome of each."""
        body = self._chat.body(request)
        for n_attempt in count(1):
            try:
                outcome = await self._attempt(request, body, n_attempt, session, replicas)
            except _AttemptError as failure:
                log.debug("%s: attempt %d: %s", request.about, n_attempt, failure.problem)
                put(failure.outcome(request.key))
                if failure.is_final:
                    return
                await asyncio.sleep(failure.wait_s)
            else:
                put(outcome)
                return

    async def _attempt(
        self, request: Request, body: bytes, n_attempt: int, session: "aiohttp.ClientSession", replicas: Replicas
    ) -> Outcome:
        """Make one call, to the server that is chosen when its turn comes.

        Raises:
            _AttemptError: the call may succeed when repeated.
            EngineError: no call will ever succeed.
        """
        while True:
            with replicas.choose(request.group) as replica:
                if not await replica.gate.enter():
                    continue  # this server is left out from now on
                try:
                    outcome = await self._call(request, body, session, replica)
                    replica.gate.speed_up()
                    return outcome
                except _AttemptError as failure:
                    self._plan_repetition(failure, n_attempt, replica, replicas)
                    raise
                finally:
                    replica.gate.leave()

    def _plan_repetition(self, failure: "_AttemptError", n_attempt: int, replica: Replica, replicas: Replicas) -> None:
        """Decide whether and when a call is repeated, and spare the server that failed."""
        backoff_s = min(LONGEST_BACKOFF_S, self._backoff_s * 2 ** (n_attempt - 1))
        wait_s = backoff_s if failure.retry_after_s is None else failure.retry_after_s
        failure.wait_s = wait_s + random.uniform(0, self._backoff_s)
        # A server that asks for an hour is left alone: the next run repeats the request.
        longest_s = max(self._config.timeout_s, LONGEST_BACKOFF_S) + self._backoff_s
        failure.is_final = n_attempt >= self._config.max_attempts or failure.wait_s > longest_s
        if failure.is_busy and not failure.is_final:
            replica.gate.slow_down(failure.began, failure.wait_s)
        if failure.is_disconnected:
            others_wait = replicas.failed(replica, failure.began, is_down=failure.is_down)
            failure.wait_s = 0.0 if others_wait else failure.wait_s

    async def _call(self, request: Request, body: bytes, session: "aiohttp.ClientSession", replica: Replica) -> Outcome:
        """Make one call to one server."""
        import aiohttp

        began = time.monotonic()
        try:
            async with session.post(replica.url, data=body, proxy=replica.proxy, allow_redirects=False) as response:
                raw = await response.read()
        except (aiohttp.ClientError, OSError) as error:  # time-outs are OSErrors
            raise self._broken_call(error, began) from None
        replica.answered()
        status = response.status
        payload = json_object(raw)
        if 200 <= status < 300 and payload is not None and payload.get("error"):
            # Routers report an error of the server behind them inside a successful answer.
            status = nested_int(payload, "error", "code")
            status = status if 400 <= status < 600 else 502
        if not 200 <= status < 300:
            return self._refused_call(request, replica, status, payload, raw, response.headers, began)
        message = message_of(payload)
        if payload is None or message is None:
            excerpt = self._tell(raw.decode(errors="replace"), 100)
            raise _AttemptError(f"The server sent something that is not a chat completion: {excerpt!r}", began)
        for name in ("model", "system_fingerprint"):
            if isinstance(payload.get(name), str) and len(self._served) < MAX_SERVED_AS:
                self._served.add(self._tell(payload[name], 100))
        outcome = self._chat.outcome(request, payload, message, time.monotonic() - began)
        if outcome.status == "error":
            raise _AttemptError(outcome.problem, began)
        return outcome

    def _broken_call(self, error: Exception, began: float) -> "_AttemptError":
        import aiohttp

        is_down = isinstance(error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError)
        if isinstance(error, TimeoutError) and not is_down:
            return _AttemptError(f"No answer within {time.monotonic() - began:.3g} s.", began)
        problem = self._tell(f"The connection failed: {type(error).__name__}: {error}")
        return _AttemptError(problem, began, is_disconnected=True, is_down=is_down)

    def _refused_call(
        self,
        request: Request,
        replica: Replica,
        status: int,
        payload: dict[str, Any] | None,
        raw: bytes,
        headers: Mapping[str, str],
        began: float,
    ) -> Outcome:
        """Tell what follows from an answer that is no success: repeat, give this request up, or give all up."""
        said = self._tell(server_message(payload, raw))
        problem = f"The server answered {status}: {said}" if said else f"The server answered {status}"
        problem += "" if problem.endswith((".", "!", "?")) else "."
        error = payload.get("error") if payload else None
        # OpenAI answers 429 also where the account has run out of money, which no wait puts right.
        is_broke = status == 429 and isinstance(error, dict) and error.get("code") == "insufficient_quota"
        if status in _HOPELESS or 300 <= status < 400 or is_broke:
            advice = _HOPELESS.get(402 if is_broke else status, _HOPELESS[405])
            raise EngineError(
                f"{replica.base_url} cannot answer for {self.model}. {problem} "
                f"{advice.format(api_key_env=self._config.api_key_env)}"
            )
        if status in (408, 409, 425, 429) or status >= 500:
            asked_s = retry_after_s(headers)
            if asked_s is not None:
                problem += f" It asks to wait {asked_s:.3g} s."
            raise _AttemptError(problem, began, asked_s, is_busy=status == 429)
        # 400, 413, 422 and their like: the same request would get the same answer.
        return Outcome(key=request.key, status="refused", problem=problem, seconds=time.monotonic() - began)

    def _tell(self, text: str, limit: int = MAX_PROBLEM_CHARS) -> str:
        """Return what a server said, on one line, cut, without the key."""
        key = self._api_key.get_secret_value()
        if key:
            text = text.replace(key, "[key]")
        text = clean_text(" ".join(text.split()))
        return text if len(text) <= limit else text[: limit - 3] + "..."


class _AttemptError(Exception):
    """A call that may succeed when repeated."""

    def __init__(
        self,
        problem: str,
        began: float,
        retry_after_s: float | None = None,
        *,
        is_busy: bool = False,
        is_disconnected: bool = False,
        is_down: bool = False,
    ) -> None:
        super().__init__(problem)
        self.problem = problem
        self.began = began
        self.seconds = time.monotonic() - began
        self.retry_after_s = retry_after_s
        self.is_busy = is_busy
        self.is_disconnected = is_disconnected
        self.is_down = is_down
        """Nobody listens there."""
        self.wait_s = 0.0
        self.is_final = False

    def outcome(self, key: str) -> Outcome:
        return Outcome(key=key, status="error", problem=self.problem, seconds=self.seconds, final=self.is_final)


class _Inbox:
    """Hands requests from the caller's thread to the event loop, waking it once for all that came meanwhile."""

    def __init__(self) -> None:
        self._requests: deque[Request] = deque()
        self._arrived = asyncio.Event()
        self._is_called = False

    def put(self, request: Request, loop: asyncio.AbstractEventLoop) -> None:
        self._requests.append(request)
        if not self._is_called:
            self._is_called = True
            loop.call_soon_threadsafe(self._arrived.set)

    async def take(self) -> list[Request]:
        await self._arrived.wait()
        self._arrived.clear()
        self._is_called = False  # before the requests are taken: what comes after that calls again
        return [self._requests.popleft() for _ in range(len(self._requests))]


def _run(loop: asyncio.AbstractEventLoop, serving: "asyncio.Task[None]") -> None:
    """Run a loop until its one task has ended, however it ended."""
    loop.run_until_complete(asyncio.wait([serving]))
    loop.run_until_complete(loop.shutdown_default_executor())


def _report_failure(task: "asyncio.Task[None]", put: Callable[[BaseException], None]) -> None:
    error = None if task.cancelled() else task.exception()
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if error is not None:
        put(error)
