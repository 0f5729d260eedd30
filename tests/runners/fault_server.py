"""An OpenAI-compatible server that answers the benchmark's questions by a rule, and fails where it is told to.

    python fault_server.py [--latency-s 0.02] [--faults SEED] [--log FILE]

It prints its port, and ends when its standard input does. Answers depend on nothing but the question, whatever reminder
stands behind it. With ``--faults``, what happens to a call is drawn by the seed from the body of the call and the
number of times that it came before, so two runs that ask the same meet the same. Each call is logged with one line: a
number that stands for its body, and what became of it; the same number comes back as ``prompt_tokens``, so that a store
can be compared with the log.
"""

import argparse
import asyncio
import hashlib
import json
import os
import re
import subprocess
import sys
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

from aiohttp import web
from gistbench.runners.prompts import PROMPTS, load_prompt

FAULTS = {"busy": 0.10, "broken": 0.05, "reset": 0.03, "stall": 0.02, "malformed": 0.05, "truncated": 0.03}
"""What goes wrong, and with which share of the calls."""
STALL_S = 3600.0

_STAGES = {load_prompt(name).system.strip(): name for name in PROMPTS}
_RECORD = re.compile(r"^(\S+) \| (?:explicit|implicit)_(?:positive|negative) \| ", re.MULTILINE)
_ITEM = re.compile(r"^item_\d+ \| ", re.MULTILINE)
_INTEREST = re.compile(r"^Interest: (.*)$", re.MULTILINE)
_PICKS = re.compile(r"^Exactly (\d+) of these items", re.MULTILINE)
_NUMBERED = re.compile(r"^(\d+) \| ", re.MULTILINE)


def answer_to(messages: list[dict[str, str]]) -> str:
    """Answer one of the benchmark's questions, or any other with a text of its own."""
    stage, prompt = _STAGES.get(messages[0]["content"]), messages[-1]["content"]
    if stage is None:
        return f"answer {zlib.crc32(prompt.encode())}"
    if stage == "extract":
        return _interests(prompt)
    if stage == "map":
        head, names = prompt.rsplit("\nInterests:\n", 1)
        ids = _category_ids(head)
        names = re.findall(r"^(\d+) \| (.*)$", names.split("\n\n", 1)[0], re.MULTILINE)
        return "\n".join(f"{number}: {ids[zlib.crc32(name.encode()) % len(ids)]}" for number, name in names)
    n_items = len(_ITEM.findall(prompt))
    if stage == "shortlist":
        names = prompt.rsplit("\nInterests:\n", 1)[1].split("\n\n", 1)[0].strip()
        drawn = zlib.crc32(names.encode())
        picks = range(drawn % 29, n_items, 29)
    else:
        drawn = zlib.crc32(_INTEREST.findall(prompt)[-1].encode())
        if stage == "ground":
            picks = [index for index in range(n_items) if (drawn >> index % 29) % 8]
        else:
            n_picks = int(_PICKS.findall(prompt)[-1])
            picks = sorted({(drawn + 7 * index) % n_items for index in range(n_picks)})
    return ", ".join(f"item_{index}" for index in picks) or "NONE"


def _interests(prompt: str) -> str:
    ids = list(dict.fromkeys(_RECORD.findall(prompt)))
    drawn = zlib.crc32(" ".join(ids).encode())
    interests = [
        {"interest": f"topic {(drawn >> 3 * index) % 400}", "item_ids": ids[index::8][: 4 + (drawn >> index) % 8]}
        for index in range(min(8, len(ids)))
    ]
    return json.dumps(interests)


@lru_cache
def _category_ids(text: str) -> list[str]:
    return _NUMBERED.findall(text) or ["0"]


class FaultServer:
    """Answers POST /v1/chat/completions."""

    def __init__(self, latency_s: float, faults: int | None, log: Path | None) -> None:
        self._latency_s = latency_s
        self._faults = faults
        self._log = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT) if log else None
        self._n_calls: Counter[int] = Counter()

    def _fault(self, number: int) -> str:
        """Return what goes wrong with the next call that has this body."""
        if self._faults is None:
            return "none"
        self._n_calls[number] += 1
        seed = f"{self._faults}:{number}:{self._n_calls[number]}".encode()
        drawn = int.from_bytes(hashlib.blake2b(seed, digest_size=6).digest()) / 2**48
        for name, share in FAULTS.items():
            drawn -= share
            if drawn < 0:
                return name
        return "none"

    async def handle(self, call: web.Request) -> web.Response:
        raw = await call.read()
        body = json.loads(raw)
        number = int.from_bytes(hashlib.blake2b(raw, digest_size=5).digest()) + 1
        fault = self._fault(number)
        if self._latency_s:
            await asyncio.sleep(self._latency_s)
        if self._log is not None:
            os.write(self._log, f"{number} {fault}\n".encode())
        if fault == "busy":
            return web.json_response({"error": {"message": "busy"}}, status=429, headers={"retry-after-ms": "20"})
        if fault == "broken":
            return web.json_response({"error": {"message": "out of memory"}}, status=500)
        if fault == "reset":
            assert call.transport is not None
            call.transport.abort()
        if fault == "stall":
            await asyncio.sleep(STALL_S)
        text, finish_reason, n_tokens = answer_to(body["messages"]), "stop", 9
        if fault == "malformed" and number % 2:
            return web.Response(body=b'{"choices": [{"mess', content_type="application/json")
        if fault == "malformed":
            text = "That is hard to say, and depends on how one looks at it"
        if fault == "truncated":
            text, finish_reason, n_tokens = text[: len(text) // 2], "length", body["max_tokens"]
        message = {"role": "assistant", "content": text}
        usage = {"prompt_tokens": number, "completion_tokens": n_tokens, "total_tokens": number + n_tokens}
        return web.json_response(
            {
                "model": "planted",
                "choices": [{"index": 0, "message": message, "finish_reason": finish_reason}],
                "usage": usage,
            }
        )


async def _serve(server: FaultServer) -> None:
    app = web.Application(client_max_size=1 << 26)
    app.router.add_post("/v1/chat/completions", server.handle)
    runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0.01)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.to_thread(sys.stdin.read)
    await runner.cleanup()


@contextmanager
def fault_server(latency_s: float = 0.0, *, faults: int | None = None, log: Path | None = None) -> Iterator[str]:
    """Run the server in a process of its own and give its address; `log` is the file of its calls."""
    options = ["--latency-s", str(latency_s)]
    options += [] if faults is None else ["--faults", str(faults)]
    options += [] if log is None else ["--log", str(log)]
    process = subprocess.Popen(
        [sys.executable, __file__, *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield f"http://127.0.0.1:{int(process.stdout.readline())}/v1"
    finally:
        process.stdin.close()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()


def logged(log: Path) -> list[tuple[int, str]]:
    """Return the calls in a log: the number of each, and what became of it."""
    lines = log.read_text().splitlines() if log.exists() else []
    return [(int(number), fault) for number, fault in (line.split() for line in lines)]


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--latency-s", type=float, default=0.0)
    parser.add_argument("--faults", type=int)
    parser.add_argument("--log", type=Path)
    arguments = parser.parse_args()
    asyncio.run(_serve(FaultServer(arguments.latency_s, arguments.faults, arguments.log)))
