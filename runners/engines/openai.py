"""The openai engine: any server that speaks OpenAI's chat completions, one call per request, many at once.

The calls run on an event loop in a thread of their own; requests are read in the caller's thread, since what makes them
may be bound to it. There is one layer of retries, here. The engine knows nothing of the weights behind the server: a
served model has no commit, so its revision is what the configuration says, or empty.

API keys come from the environment alone, and are removed from everything that a server says.
"""

import asyncio
import json
import logging
import math
import os
import re
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import asdict
from email.utils import parsedate_to_datetime
from importlib.metadata import version
from importlib.util import find_spec
from queue import SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from pydantic import ConfigDict, Field, SecretStr, field_validator

from ...hf_datasets.errors import ConfigError, EngineError
from ..parsing import strip_reasoning
from ..parsing.answers import clean_text
from ..profiles import Profile, find_profile
from ..requests import ModelRef, Outcome, Request
from .base import ModelConfig

if TYPE_CHECKING:
    import aiohttp
    from tenacity import RetryCallState

__all__ = ["OpenAIConfig", "OpenAIEngine"]

log = logging.getLogger(__name__)

DEFAULT_BASE_URL = "https://api.openai.com/v1"
DEFAULT_CONTEXT_TOKENS = 32_768
"""Taken where neither configuration nor profile says: most served models have at least this much."""
CONNECT_TIMEOUT_S = 30.0
LONGEST_BACKOFF_S = 60.0
MAX_PROBLEM_CHARS = 500
WRAPPER = "answer"
"""The one property of the object that stands around a list where only objects are accepted."""

# Size limits are left out of portable schemas: OpenAI, Anthropic and others each refuse different ones.
_SIZE_LIMITS = ("minLength", "maxLength", "minItems", "maxItems")
_COMPLETE = ("stop", "eos", "end_turn", "stop_sequence", "")
_CUT = ("length", "max_tokens", "model_length")
_FILTERED = ("content_filter", "safety", "refusal")
_TOOLS = ("tool_calls", "function_call")
_WRAPPER_OPENED = re.compile(rf'\A\s*\{{\s*"{WRAPPER}"\s*:\s*')
# What no repetition can put right, with what to do about it.
_HOPELESS = {
    401: "Put a valid key into the environment variable {api_key_env}.",
    402: "The account behind {api_key_env} cannot pay.",
    403: "The key in {api_key_env} may not use this model or address.",
    404: "Check base_url (it usually ends in /v1) and the model's name on this server (api_name).",
    405: "Check base_url (it usually ends in /v1).",
}


class OpenAIConfig(ModelConfig):
    """A model behind an OpenAI-compatible server."""

    # A key or a password put into the wrong field must not be printed by the error that refuses it.
    model_config = ConfigDict(hide_input_in_errors=True)

    engine: Literal["openai"] = "openai"
    base_url: str = Field(
        default_factory=lambda: _unquoted(os.environ.get("OPENAI_BASE_URL", "")) or DEFAULT_BASE_URL,
        validate_default=True,
        description="address of the server, usually ending in /v1; by default OPENAI_BASE_URL, or else OpenAI's own",
    )
    api_key_env: str = Field(
        default="OPENAI_API_KEY",
        pattern=r"^[A-Z_][A-Z0-9_]*$",
        description="name of the environment variable that holds the key; where it is not set, no key is sent",
    )
    api_name: str | None = Field(default=None, description="what the server calls the model; its name by default")
    concurrency: int = Field(default=64, ge=1, description="calls at once; fewer for as long as the server is busy")
    timeout_s: float = Field(default=600.0, gt=0, description="longest wait for one answer")
    max_attempts: int = Field(default=6, ge=1, description="calls per request before it counts as an error")
    context_tokens: int | None = Field(
        default=None, ge=1, description="context of the served model; by default its profile's, or else 32768"
    )
    structured_outputs: Literal["openai", "vllm"] = Field(
        default="openai",
        description="how a schema is sent: as a response_format that all servers share (JSON only, an object around a "
        "list, no size limits), or in vLLM's own field, exactly as it is, regular expressions too",
    )

    @field_validator("base_url")
    @classmethod
    def _check_base_url(cls, base_url: str) -> str:
        parts = urlsplit(base_url.strip())
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("must be an http or https address, such as http://localhost:8000/v1")
        if "@" in parts.netloc or parts.query or parts.fragment:
            raise ValueError("must not hold a user, password or parameters; keys are read from the environment")
        return base_url.strip().rstrip("/")


class OpenAIEngine:
    """Answers requests with calls to an OpenAI-compatible server."""

    _backoff_s = 1.0
    """The first wait before a repetition; it doubles with each. The tests lower it."""

    def __init__(self, config: OpenAIConfig) -> None:
        """Read the key; no call is made before the first request.

        Args:
            config: which model, and how its server is reached.

        Raises:
            EngineError: aiohttp or tenacity is not installed.
            ConfigError: the environment variable holds something that cannot be a key.
        """
        if find_spec("aiohttp") is None or find_spec("tenacity") is None:
            raise EngineError(
                "The openai engine needs aiohttp and tenacity. Install them with: pip install 'gistbench[openai]'"
            )
        self._config = config
        self._api_key = _read_key(config.api_key_env)
        self._url = f"{config.base_url}/chat/completions"
        self._served: set[str] = set()
        self.profile = find_profile(config.name, config.profile)
        self.model = ModelRef(config.name, config.revision or "", str(self.profile))
        self.context_tokens: int | None = config.context_tokens or self.profile.context_tokens or DEFAULT_CONTEXT_TOKENS

    def generate(self, requests: Iterable[Request]) -> Generator[Outcome]:
        """Answer every request, as the server finishes them.

        At most `concurrency` requests have been taken and not yet answered at any time. Closing the generator
        cancels the calls in flight.

        Raises:
            EngineError: the server refuses the key, the address or the model, so that no request can be answered. What
                was answered before has been yielded.
        """
        remaining = iter(requests)
        inbox: asyncio.Queue[Request] = asyncio.Queue()
        # Bounded by what is taken: `concurrency` requests with `max_attempts` outcomes each.
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
                while not exhausted and n_open < self._config.concurrency:
                    request = next(remaining, None)
                    if request is None:
                        exhausted = True
                    else:
                        n_open += 1
                        loop.call_soon_threadsafe(inbox.put_nowait, request)
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
        """Return the client's versions and options, and what the server says that it runs."""
        hidden = {"engine", "name", "revision", "profile"}
        return {
            "engine": "openai",
            "versions": {name: version(name) for name in ("aiohttp", "tenacity")},
            "options": self._config.model_dump(exclude=hidden),
            "revision": self.model.revision or "unknown: a served model has no commit, and none was configured",
            "served_as": sorted(self._served),
            "context_tokens": self.context_tokens,
            "hardware": "unknown: the server's",
        }

    def close(self) -> None:
        """Do nothing: connections are held only while requests are answered."""

    async def _serve(self, inbox: "asyncio.Queue[Request]", put: Callable[[Outcome], None]) -> None:
        """Answer what comes in until cancelled; the first error that no repetition can put right ends it all."""
        import aiohttp

        config = self._config
        gate = _Gate(config.concurrency)
        headers = {"Content-Type": "application/json", "User-Agent": "gistbench"}
        if self._api_key.get_secret_value():
            headers["Authorization"] = f"Bearer {self._api_key.get_secret_value()}"
        timeout = aiohttp.ClientTimeout(total=config.timeout_s, sock_connect=min(CONNECT_TIMEOUT_S, config.timeout_s))
        connector = aiohttp.TCPConnector(limit=config.concurrency)
        async with (
            aiohttp.ClientSession(
                headers=headers, timeout=timeout, connector=connector, proxy=_proxy_for(self._url)
            ) as session,
            asyncio.TaskGroup() as group,
        ):
            while True:
                request = await inbox.get()
                group.create_task(self._answer(request, session, gate, put))

    async def _answer(
        self, request: Request, session: "aiohttp.ClientSession", gate: "_Gate", put: Callable[[Outcome], None]
    ) -> None:
        """Make the calls for one request, and put the outcome of each."""
        from tenacity import AsyncRetrying, retry_if_exception_type, wait_exponential, wait_random

        backoff = wait_exponential(multiplier=self._backoff_s, max=LONGEST_BACKOFF_S)
        jitter = wait_random(0, self._backoff_s)

        def wait(state: "RetryCallState") -> float:
            asked = _failure_of(state).retry_after_s
            return (backoff(state) if asked is None else asked) + jitter(state)

        def gives_up(state: "RetryCallState") -> bool:
            # A server that asks for an hour is left alone: the next run repeats the request.
            longest = max(self._config.timeout_s, LONGEST_BACKOFF_S) + self._backoff_s
            return state.attempt_number >= self._config.max_attempts or state.upcoming_sleep > longest

        def before_sleep(state: "RetryCallState") -> None:
            failure = _failure_of(state)
            log.debug("%s: attempt %d: %s", request.about, state.attempt_number, failure.problem)
            if failure.is_busy:
                gate.slow_down(failure.began, state.upcoming_sleep)
            put(failure.outcome(request.key, final=False))

        retrying = AsyncRetrying(
            stop=gives_up,
            wait=wait,
            retry=retry_if_exception_type(_AttemptError),
            before_sleep=before_sleep,
            sleep=asyncio.sleep,
            reraise=True,
        )
        try:
            outcome: Outcome = await retrying(self._attempt, request, session, gate)
        except _AttemptError as failure:
            outcome = failure.outcome(request.key, final=True)
        put(outcome)

    async def _attempt(self, request: Request, session: "aiohttp.ClientSession", gate: "_Gate") -> Outcome:
        """Make one call.

        Raises:
            _AttemptError: the call may succeed when repeated.
            EngineError: no call will ever succeed.
        """
        import aiohttp

        body = json.dumps(self._body(request)).encode()
        async with gate:
            began = time.monotonic()
            try:
                async with session.post(self._url, data=body, allow_redirects=False) as response:
                    raw = await response.read()
            except TimeoutError:
                raise _AttemptError(f"No answer within {time.monotonic() - began:.3g} s.", began) from None
            except (aiohttp.ClientError, OSError) as error:
                problem = self._tell(f"The connection failed: {type(error).__name__}: {error}")
                raise _AttemptError(problem, began) from None
        status = response.status
        payload = _json_object(raw)
        if 200 <= status < 300 and payload is not None and payload.get("error"):
            # Routers report an error of the server behind them inside a successful answer.
            status = _nested_int(payload, "error", "code")
            status = status if 400 <= status < 600 else 502
        if not 200 <= status < 300:
            return self._refused_call(request, status, payload, raw, response.headers, began)
        message = _message_of(payload)
        if payload is None or message is None:
            excerpt = self._tell(raw.decode(errors="replace"), 100)
            raise _AttemptError(f"The server sent something that is not a chat completion: {excerpt!r}", began)
        self._served.update(
            str(payload[name]) for name in ("model", "system_fingerprint") if isinstance(payload.get(name), str)
        )
        outcome = self._outcome(request, payload, message, time.monotonic() - began)
        if outcome.status == "error":
            raise _AttemptError(outcome.problem, began)
        gate.speed_up()
        return outcome

    def _refused_call(
        self,
        request: Request,
        status: int,
        payload: dict[str, Any] | None,
        raw: bytes,
        headers: Mapping[str, str],
        began: float,
    ) -> Outcome:
        """Tell what follows from an answer that is no success: repeat, give this request up, or give all up."""
        said = self._tell(_server_message(payload, raw))
        problem = f"The server answered {status}: {said}" if said else f"The server answered {status}"
        problem += "" if problem.endswith((".", "!", "?")) else "."
        error = payload.get("error") if payload else None
        # OpenAI answers 429 also where the account has run out of money, which no wait puts right.
        is_broke = status == 429 and isinstance(error, dict) and error.get("code") == "insufficient_quota"
        if status in _HOPELESS or 300 <= status < 400 or is_broke:
            advice = _HOPELESS.get(402 if is_broke else status, _HOPELESS[405])
            raise EngineError(
                f"{self._config.base_url} cannot answer for {self.model}. {problem} "
                f"{advice.format(api_key_env=self._config.api_key_env)}"
            )
        if status in (408, 409, 425, 429) or status >= 500:
            retry_after_s = _retry_after_s(headers)
            if retry_after_s is not None:
                problem += f" It asks to wait {retry_after_s:.3g} s."
            raise _AttemptError(problem, began, retry_after_s, is_busy=status == 429)
        # 400, 413, 422 and their like: the same request would get the same answer.
        return Outcome(key=request.key, status="refused", problem=problem, seconds=time.monotonic() - began)

    def _body(self, request: Request) -> dict[str, Any]:
        sampling = request.sampling
        body: dict[str, Any] = {
            "model": self._config.api_name or self.model.name,
            "messages": [message._asdict() for message in request.messages],
            self.profile.max_tokens_field: sampling.max_tokens,
        }
        optional = {name: value for name, value in asdict(sampling).items() if name != "max_tokens"}
        body.update({name: value for name, value in optional.items() if value is not None})
        if self.profile.chat_template_options:
            body["chat_template_kwargs"] = self.profile.chat_template_options
        if request.schema and self._config.structured_outputs == "vllm":
            body["structured_outputs"] = request.schema
        elif request.schema and "json" in request.schema:
            body["response_format"] = _response_format(request.stage, request.schema["json"])
        return body

    def _outcome(self, request: Request, payload: dict[str, Any], message: dict[str, Any], seconds: float) -> Outcome:
        """Read a chat completion."""
        usage = payload.get("usage")
        n_prompt = _nested_int(usage, "prompt_tokens")
        n_reasoning = _nested_int(usage, "completion_tokens_details", "reasoning_tokens")
        content = _text_of(message.get("content"))
        finish_reason = payload["choices"][0].get("finish_reason")
        finish_reason = finish_reason.lower() if isinstance(finish_reason, str) else ""
        finish_reason = "length" if finish_reason in _CUT else finish_reason
        given = message.get("reasoning_content") or message.get("reasoning")
        reasoning, text = given if isinstance(given, str) else "", content or ""
        if not reasoning and not n_reasoning:
            reasoning, text = _split_reasoning(text, self.profile)
        if self._wraps(request):
            text = _unwrapped(text, is_cut=finish_reason == "length")
        refusal = message.get("refusal")
        status: Literal["ok", "truncated", "invalid", "refused", "error"] = "ok"
        problem = ""
        if finish_reason in _FILTERED or (isinstance(refusal, str) and refusal):
            status = "refused"
            said = self._tell(refusal) if isinstance(refusal, str) else ""
            problem = f"The model refused: {said}" if said else "The server's content filter stopped the answer."
        elif finish_reason == "length":
            status = "truncated"
        elif finish_reason in _TOOLS or message.get("tool_calls"):
            status, problem = "invalid", "The model called a tool instead of answering."
        elif finish_reason not in _COMPLETE:
            status, problem = "error", f"The server ended the answer with {self._tell(finish_reason, 50)!r}."
        elif content is None:
            status, problem = "invalid", "The answer has no content."
        return Outcome(
            key=request.key,
            status=status,
            text=clean_text(text) if status != "invalid" else "",
            reasoning=clean_text(reasoning),
            problem=problem,
            finish_reason=clean_text(finish_reason),
            n_prompt_tokens=n_prompt,
            n_cached_tokens=_nested_int(usage, "prompt_tokens_details", "cached_tokens"),
            # Some servers count the reasoning in the total only.
            n_output_tokens=max(_nested_int(usage, "completion_tokens"), _nested_int(usage, "total_tokens") - n_prompt),
            n_reasoning_tokens=n_reasoning,
            seconds=seconds,
        )

    def _wraps(self, request: Request) -> bool:
        schema = (request.schema or {}).get("json")
        return self._config.structured_outputs == "openai" and bool(schema) and not _is_object(schema)

    def _tell(self, text: str, limit: int = MAX_PROBLEM_CHARS) -> str:
        """Return what a server said, on one line, cut, without the key."""
        key = self._api_key.get_secret_value()
        if key:
            text = text.replace(key, "[key]")
        text = clean_text(" ".join(text.split()))
        return text if len(text) <= limit else text[: limit - 3] + "..."


class _AttemptError(Exception):
    """A call that may succeed when repeated."""

    def __init__(self, problem: str, began: float, retry_after_s: float | None = None, is_busy: bool = False) -> None:
        super().__init__(problem)
        self.problem = problem
        self.began = began
        self.seconds = time.monotonic() - began
        self.retry_after_s = retry_after_s
        self.is_busy = is_busy

    def outcome(self, key: str, *, final: bool) -> Outcome:
        return Outcome(key=key, status="error", problem=self.problem, seconds=self.seconds, final=final)


class _Gate:
    """Lets calls through, in order: as many at once as the server bears.

    A busy server halves the number, once for all calls that were under way together, and pauses it; answers
    raise it again, by one for each round of calls.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._allowed = float(limit)
        self._n_busy = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._slowed_at = -math.inf
        self._reopening: asyncio.TimerHandle | None = None

    async def __aenter__(self) -> None:
        if self._waiting or not self._is_open():
            turn = asyncio.get_running_loop().create_future()
            self._waiting.append(turn)
            await turn
        else:
            self._n_busy += 1

    async def __aexit__(self, *exception: object) -> None:
        self._n_busy -= 1
        self._admit()

    def slow_down(self, began: float, pause_s: float) -> None:
        """Take back that a call, begun at this time, found the server busy."""
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
        self._allowed = min(float(self._limit), self._allowed + 1 / self._allowed)
        self._admit()

    def _is_open(self) -> bool:
        return self._n_busy < int(self._allowed) and self._reopening is None

    def _reopen(self) -> None:
        self._reopening = None
        self._admit()

    def _admit(self) -> None:
        while self._waiting and self._is_open():
            self._n_busy += 1
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)


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


def _failure_of(state: "RetryCallState") -> _AttemptError:
    assert state.outcome is not None
    failure = state.outcome.exception()
    assert isinstance(failure, _AttemptError)
    return failure


def _unquoted(value: str) -> str:
    """Return a value without white space and quotes around it, which .env files leave there."""
    return value.strip().strip("\"'").strip()


def _read_key(name: str) -> SecretStr:
    key = _unquoted(os.environ.get(name, ""))
    if not key.isascii() or not key.isprintable() or " " in key:
        raise ConfigError(
            f"The environment variable {name} does not hold an API key: there are spaces or other signs in it."
        )
    return SecretStr(key)


def _proxy_for(url: str) -> str | None:
    """Return the proxy that the environment names; aiohttp's own way of reading it would also send netrc passwords."""
    parts = urlsplit(url)
    return None if proxy_bypass(parts.netloc) else getproxies().get(parts.scheme)


def _json_object(raw: bytes) -> dict[str, Any] | None:
    try:
        payload = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    return payload if isinstance(payload, dict) else None


def _message_of(payload: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return the first choice's message of a chat completion, or None for anything else."""
    choices = payload.get("choices") if payload else None
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, dict) else None
    return message if isinstance(message, dict) else None


def _text_of(content: object) -> str | None:
    """Return a message's content as text: a string, or the text parts of a list."""
    if isinstance(content, list):
        parts = [part.get("text") for part in content if isinstance(part, dict) and part.get("type") == "text"]
        return "".join(part for part in parts if isinstance(part, str))
    return content if isinstance(content, str) else None


def _split_reasoning(text: str, profile: Profile) -> tuple[str, str]:
    open_tag, close_tag = profile.reasoning
    if profile.reasoning_is_opened and text and not text.lstrip().startswith(open_tag):
        text = open_tag + text
    return strip_reasoning(text, open_tag=open_tag, close_tag=close_tag)


def _unwrapped(text: str, *, is_cut: bool) -> str:
    """Return the list in the object that was put around it, as it was written; any other answer as it is."""
    opening = _WRAPPER_OPENED.match(text)
    if opening is None:
        return text
    inner = text[opening.end() :].rstrip()
    return inner if is_cut else inner.removesuffix("}").rstrip()


def _nested_int(value: object, *names: str) -> int:
    """Return the count under these names, 0 where a server leaves any of them out or null."""
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 1 << 53 else 0


def _server_message(payload: dict[str, Any] | None, raw: bytes) -> str:
    """Return an error in the server's own words: OpenAI's form, the forms of others, or the text as it is."""
    if payload is not None:
        error = payload.get("error")
        for said in (error.get("message") if isinstance(error, dict) else error, payload.get("message")):
            if isinstance(said, str) and said:
                return said
    return raw.decode(errors="replace")


def _retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Return how long the server asks to wait: Retry-After in seconds or as a date, or OpenAI's retry-after-ms."""
    milliseconds, after = headers.get("retry-after-ms", ""), headers.get("Retry-After", "")
    for value, unit_s in ((milliseconds, 0.001), (after, 1.0)):
        try:
            seconds = float(value) * unit_s
        except ValueError:
            continue
        if math.isfinite(seconds):
            return max(0.0, seconds)
    try:
        return max(0.0, parsedate_to_datetime(after).timestamp() - time.time())
    except (ValueError, OverflowError):
        return None


def _response_format(stage: str, schema: dict[str, Any]) -> dict[str, Any]:
    """Return a JSON schema in the form that OpenAI's servers accept: an object outside, no size limits."""
    if not _is_object(schema):
        schema = {
            "type": "object",
            "properties": {WRAPPER: schema},
            "required": [WRAPPER],
            "additionalProperties": False,
        }
    portable = _without_size_limits(schema)
    name = re.sub(r"[^A-Za-z0-9_-]", "_", stage)[:64] or "answer"
    return {
        "type": "json_schema",
        "json_schema": {"name": name, "strict": _is_closed(portable), "schema": portable},
    }


def _is_object(schema: Any) -> bool:
    return isinstance(schema, Mapping) and schema.get("type") == "object"


def _without_size_limits(schema: Any, *, names: bool = False) -> Any:
    """Return a schema without size limits; with `names`, a mapping of property names to schemas."""
    if isinstance(schema, Mapping):
        return {
            name: _without_size_limits(value, names=not names and name in ("properties", "$defs"))
            for name, value in schema.items()
            if names or name not in _SIZE_LIMITS
        }
    if isinstance(schema, list | tuple):
        return [_without_size_limits(value) for value in schema]
    return schema


def _is_closed(schema: Any) -> bool:
    """Return whether every object of a schema names all of its properties and requires each, as strict mode demands."""
    if isinstance(schema, list):
        return all(map(_is_closed, schema))
    if not isinstance(schema, dict):
        return True
    if schema.get("type") == "object":
        properties = schema.get("properties", {})
        if schema.get("additionalProperties") is not False or set(schema.get("required", ())) != set(properties):
            return False
        return all(map(_is_closed, properties.values()))
    return all(map(_is_closed, schema.values()))
