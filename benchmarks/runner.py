"""Measure what a run costs beside the model: CPU time per call, wall time, memory, and the store.

Prints one JSON line per figure. The server is a process of its own that answers by a rule at once, or after a latency;
its CPU time is not counted. Figures:

- `calls_at_0_ms`, `calls_at_20_ms`: a whole suite of 200 users x 300 planted engagements. `cpu_ms_per_call` is of this
  process within `execute` (rendering, keys, look-ups, HTTP, parsing, commits); `wall_s` of all calls, `suite_wall_s` of
  the suite with loading, tables and scores. `parts` says where the time goes, in ms per call, in a run of its own since
  measuring costs too: `http` is the thread that makes the calls, the others are of the thread that asks.
- `peer_aiohttp`, `peer_openai_sdk`: the same bodies sent by a plain loop, with the same number at once.
- `memory`: resident megabytes over 1 M requests to an engine within the process, through `execute` and the store.
- `store_writes`: rows committed per second by 1 and by 4 processes, and bytes per row.

Another implementation of the paper needed 3-4.9 ms of CPU per call, and 257 s for 8,795 calls at 20 ms.

    python benchmarks/runner.py [--users 200] [--requests 1000000] [--only calls memory store]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import resource
import sys
import tempfile
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Generator, Iterable, Iterator
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any

# benchmarks/datasets.py is called like a library: this folder must not come first.
sys.path = [path for path in sys.path if Path(path or ".").resolve() != Path(__file__).resolve().parent]
sys.path.append(str(Path(__file__).resolve().parents[1] / "tests" / "runners"))

from fault_server import fault_server  # noqa: E402
from gistbench.runners import asking  # noqa: E402
from gistbench.runners import suite as suites  # noqa: E402
from gistbench.runners.config import RunConfig  # noqa: E402
from gistbench.runners.engines.openai import engine as openai_engine  # noqa: E402
from gistbench.runners.engines.openai.chat import Chat  # noqa: E402
from gistbench.runners.execute import execute  # noqa: E402
from gistbench.runners.parsing import Parsed  # noqa: E402
from gistbench.runners.requests import Message, ModelRef, Outcome, Request, Sampling  # noqa: E402
from gistbench.runners.stages.extract import Extract  # noqa: E402
from gistbench.runners.stages.ground import Ground  # noqa: E402
from gistbench.runners.stages.map import Map  # noqa: E402
from gistbench.runners.stages.retrieve import Retrieve  # noqa: E402
from gistbench.runners.stages.shortlist import Shortlist  # noqa: E402
from gistbench.runners.store import STORE_NAME, ResponseStore  # noqa: E402

CONCURRENCY = 64
N_PEER_CALLS = 3000
MODEL = ModelRef("stub", "1", "default/1")


class Clock:
    """CPU and wall time within `execute`, and the number of calls made."""

    def __init__(self) -> None:
        """Begin at nothing."""
        self.cpu_s = self.wall_s = 0.0
        self.n_calls = 0

    def execute(self, stage: Any, *arguments: Any, **options: Any) -> Iterator[Any]:
        """Do what `execute` does, and keep the time; the caller only collects."""
        cpu, wall = time.process_time(), time.perf_counter()
        yield from execute(stage, *arguments, **options)
        self.cpu_s += time.process_time() - cpu
        self.wall_s += time.perf_counter() - wall


class Parts:
    """CPU time of the calling thread within functions, by name; time within an inner one counts there alone."""

    def __init__(self) -> None:
        """Begin at nothing."""
        self.seconds: dict[str, float] = defaultdict(float)
        self._inner = [0.0]

    def timed(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that does what `call` does, and keeps the time under a name."""

        def wrapped(*arguments: Any, **options: Any) -> Any:
            start = time.thread_time()
            self._inner.append(0.0)
            try:
                return call(*arguments, **options)
            finally:
                spent = time.thread_time() - start
                self.seconds[name] += spent - self._inner.pop()
                self._inner[-1] += spent

        return wrapped


class Patches:
    """Replaced attributes, put back at the end."""

    def __enter__(self) -> Patches:
        self._before: list[tuple[Any, str, Any]] = []
        return self

    def __exit__(self, *exception: object) -> None:
        for owner, name, value in reversed(self._before):
            setattr(owner, name, value)

    def put(self, owner: Any, name: str, value: Any) -> None:
        """Replace an attribute."""
        self._before.append((owner, name, vars(owner)[name]))
        setattr(owner, name, value)


def run_suite(folder: Path, base_url: str, options: argparse.Namespace) -> float:
    """Run a suite against a server and return the seconds it took."""
    model = {"engine": "openai", "base_url": base_url, "concurrency": CONCURRENCY, "structured": False}
    config = RunConfig(
        dataset="planted",
        dataset_options={"n_users": options.users, "n_engagements_per_user": options.engagements},
        candidates=({**model, "name": "planted-candidate"},),
        judge={**model, "name": "planted-judge"},
    )
    start = time.perf_counter()
    with warnings.catch_warnings(action="ignore"):
        suites.Suite(folder, config).run()
    return time.perf_counter() - start


def measure_calls(options: argparse.Namespace, folder: Path) -> None:
    """Print the figures of whole suites, and those of the peers."""
    with fault_server(0.0) as url:
        run_suite(folder / "warm", url, argparse.Namespace(users=4, engagements=100))
        clock = _timed_suite(folder / "plain", url, options)
        parts, bodies = _parts(folder / "parts", url, options)
        _print("calls_at_0_ms", **_per_call(clock), parts=parts, aim={"cpu_ms_per_call": 0.5})
        _print("peer_aiohttp", **asyncio.run(_plain_loop(url, bodies)))
        if find_spec("openai"):
            _print("peer_openai_sdk", **asyncio.run(_openai_sdk(url, bodies)))
    with fault_server(0.02) as url:
        clock = _timed_suite(folder / "slow", url, options)
        _print("calls_at_20_ms", **_per_call(clock), aim={"wall_s": 8.0})


class SuiteClock(Clock):
    """That of one suite."""

    suite_s = 0.0


def _timed_suite(folder: Path, url: str, options: argparse.Namespace) -> SuiteClock:
    clock = SuiteClock()
    with Patches() as patches:
        patches.put(asking, "execute", clock.execute)
        clock.suite_s = run_suite(folder, url, options)
    with ResponseStore(folder / STORE_NAME) as store:
        clock.n_calls = len(store)
    return clock


def _per_call(clock: SuiteClock) -> dict[str, Any]:
    return {
        "n_calls": clock.n_calls,
        "cpu_ms_per_call": round(1000 * clock.cpu_s / clock.n_calls, 3),
        "wall_s": round(clock.wall_s, 2),
        "suite_wall_s": round(clock.suite_s, 2),
    }


def _parts(folder: Path, url: str, options: argparse.Namespace) -> tuple[dict[str, float], list[bytes]]:
    """Return CPU ms per call by part, and the bodies of some calls."""
    parts, bodies, http = Parts(), [], [0.0]
    run_loop, body_of = openai_engine._run, Chat.body

    def timed_loop(*arguments: Any) -> None:
        run_loop(*arguments)
        http[0] += time.thread_time()

    def kept_body(self: Chat, request: Request) -> bytes:
        body = body_of(self, request)
        bodies.append(body)
        return body

    with Patches() as patches:
        for stage in (Extract, Ground, Shortlist, Retrieve, Map):
            patches.put(stage, "request", parts.timed("render", stage.request))
            patches.put(stage, "parse", parts.timed("parse", stage.parse))
            patches.put(stage, "subjects", parts.timed("subjects", stage.subjects))
        key = cached_property(parts.timed("key", vars(Request)["key"].func))
        key.__set_name__(Request, "key")
        patches.put(Request, "key", key)
        patches.put(ResponseStore, "served", parts.timed("look_up", ResponseStore.served))
        patches.put(ResponseStore, "commit", parts.timed("commit", ResponseStore.commit))
        patches.put(openai_engine, "_run", timed_loop)
        patches.put(Chat, "body", kept_body)
        spent = [0.0]

        def asked(*arguments: Any, **options: Any) -> Iterator[Any]:
            start = time.thread_time()
            yield from execute(*arguments, **options)
            spent[0] += time.thread_time() - start

        patches.put(asking, "execute", asked)
        run_suite(folder, url, options)
    named = {**parts.seconds, "http": http[0]}
    named["rest_of_execute"] = spent[0] - sum(parts.seconds.values())
    n_calls = len(bodies)
    per_call = {name: round(1000 * seconds / n_calls, 4) for name, seconds in named.items()}
    step = max(1, n_calls // N_PEER_CALLS)
    return dict(sorted(per_call.items(), key=lambda item: -item[1])), bodies[::step]


async def _plain_loop(url: str, bodies: list[bytes]) -> dict[str, Any]:
    """Send the bodies and read the answers, nothing else."""
    import aiohttp

    async with aiohttp.ClientSession(headers={"Content-Type": "application/json"}) as session:

        async def call(body: bytes) -> None:
            async with session.post(f"{url}/chat/completions", data=body) as response:
                json.loads(await response.read())["choices"][0]["message"]["content"]

        return await _at_once(bodies, call)


async def _openai_sdk(url: str, bodies: list[bytes]) -> dict[str, Any]:
    """Send the same through the openai SDK."""
    import openai

    questions = [json.loads(body) for body in bodies]
    async with openai.AsyncOpenAI(base_url=url, api_key="none", max_retries=0) as client:

        async def call(question: dict[str, Any]) -> None:
            answer = await client.chat.completions.create(**question)
            assert answer.choices[0].message.content is not None

        return await _at_once(questions, call)


async def _at_once(calls: list[Any], make: Callable[[Any], Any]) -> dict[str, Any]:
    remaining = iter(calls)

    async def work() -> None:
        for one in remaining:
            await make(one)

    cpu, wall = time.process_time(), time.perf_counter()
    await asyncio.gather(*(work() for _ in range(CONCURRENCY)))
    return {
        "n_calls": len(calls),
        "cpu_ms_per_call": round(1000 * (time.process_time() - cpu) / len(calls), 3),
        "wall_s": round(time.perf_counter() - wall, 2),
    }


class NumberStage:
    """Asks numbered questions."""

    name = "numbers"

    def __init__(self, n_questions: int) -> None:
        """Take the number of questions."""
        self._n_questions = n_questions
        self._text = "A question of no great length, which is asked about a number. " * 8

    def subjects(self) -> range:
        """Return the numbers."""
        return range(self._n_questions)

    def request(self, subject: int, *retry: Any) -> Request:
        """Ask about a number."""
        return Request("numbers", subject, (Message("user", f"{self._text}{subject}"),), MODEL, Sampling(64))

    def parse(self, subject: int, outcome: Outcome) -> Parsed[str]:
        """Take any answer."""
        return Parsed("ok", outcome.text)

    def follow_up(self, subject: int, parsed: Parsed[str]) -> None:
        """Ask nothing again."""
        return None


class AnsweringEngine:
    """Answers at once."""

    model = MODEL
    context_tokens = None

    def generate(self, requests: Iterable[Request]) -> Generator[Outcome]:
        """Answer each request in turn."""
        for request in requests:
            yield Outcome(request.key, "ok", "item_1, item_4", finish_reason="stop", n_prompt_tokens=120)

    def describe(self) -> dict[str, Any]:
        """Nothing is recorded."""
        return {}

    def close(self) -> None:
        """Nothing is held."""


def measure_memory(n_requests: int, folder: Path) -> None:
    """Print resident megabytes as requests go by."""
    marks = sorted({n_requests // 10, n_requests // 2, n_requests})
    megabytes = {}
    cpu = time.process_time()
    with ResponseStore(folder / "memory.sqlite") as store:
        for n, _ in enumerate(execute(NumberStage(n_requests), AnsweringEngine(), store), start=1):  # type: ignore[arg-type]
            if n in marks:
                megabytes[n] = round(_held_megabytes(), 1)
    seconds = time.process_time() - cpu
    _print(
        "memory",
        megabytes=megabytes,
        growth_megabytes=round(megabytes[marks[-1]] - megabytes[marks[0]], 1),
        cpu_ms_per_request=round(1000 * seconds / n_requests, 3),
    )


def _held_megabytes() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 2**20


def _commit_rows(path: Path, writer: int, n_rows: int, ready: Any) -> float:
    stage = NumberStage(n_rows)
    requests = [stage.request(writer * n_rows + number) for number in range(n_rows)]
    outcomes = [
        Outcome(request.key, "ok", "item_1, item_4, item_17", finish_reason="stop", n_prompt_tokens=120)
        for request in requests
    ]
    with ResponseStore(path) as store:
        ready.wait()
        start = time.monotonic()
        for request, outcome in zip(requests, outcomes, strict=True):
            store.commit(request, outcome)
        return time.monotonic() - start


def measure_store(folder: Path, n_rows: int = 20_000) -> None:
    """Print commits per second and bytes per row."""
    context = multiprocessing.get_context("spawn")
    for n_writers in (1, 4):
        path = folder / f"writes-{n_writers}.sqlite"
        each = n_rows // n_writers
        with context.Manager() as manager, context.Pool(n_writers) as pool:
            ready = manager.Barrier(n_writers)
            jobs = [pool.apply_async(_commit_rows, (path, writer, each, ready)) for writer in range(n_writers)]
            seconds = max(job.get() for job in jobs)
        ResponseStore(path).close()
        _print(
            "store_writes",
            processes=n_writers,
            rows_per_second=round(each * n_writers / seconds),
            bytes_per_row=round(path.stat().st_size / (each * n_writers)),
        )


def _print(figure: str, **values: Any) -> None:
    print(json.dumps({"figure": figure, **values}), flush=True)


def main(arguments: list[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--users", type=int, default=200)
    parser.add_argument("--engagements", type=int, default=300, help="per user")
    parser.add_argument("--requests", type=int, default=1_000_000, help="of the memory figure")
    parser.add_argument("--only", nargs="*", choices=("calls", "memory", "store"), default=("calls", "memory", "store"))
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        if "memory" in options.only:  # first: a process keeps what a suite took
            measure_memory(options.requests, Path(folder))
        if "store" in options.only:
            measure_store(Path(folder))
        if "calls" in options.only:
            measure_calls(options, Path(folder))
    return 0


if __name__ == "__main__":
    sys.exit(main())
