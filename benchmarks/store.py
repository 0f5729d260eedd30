"""Measure the response store against plain sqlite3: commits, bytes, bulk reads, memory.

Prints one JSON line per figure, ours and the peer of the same run, and their ratio. The peer writes what one would
without thinking of size or of what is served: one table of text columns under a text key, one INSERT and one commit for
each answer, in WAL mode with synchronous=NORMAL as here. Its reads go key by key. A request has 70 bytes of answer,
as a judge's; `--answer-bytes` makes it longer.

    python benchmarks/store.py [--commits 4000] [--rows 1000000] [--answer-bytes 70]
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import multiprocessing
import resource
import sqlite3
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# benchmarks/datasets.py is called like a library: this folder must not come first.
sys.path = [path for path in sys.path if Path(path or ".").resolve() != Path(__file__).resolve().parent]

from gistbench.runners.accounting import write_answers  # noqa: E402
from gistbench.runners.requests import Message, ModelRef, Outcome, Request  # noqa: E402
from gistbench.runners.store import ResponseStore, checksum  # noqa: E402

MODEL = ModelRef("meta-llama/Llama-3.3-70B-Instruct", "6f6073b423013f6a7d4d9f39144961bfbfbc386b", "llama-3/1")
PLAIN = """CREATE TABLE IF NOT EXISTS outcomes (
    key TEXT NOT NULL, attempt INTEGER NOT NULL, status TEXT, text TEXT, reasoning TEXT, problem TEXT,
    finish_reason TEXT, n_prompt_tokens INTEGER, n_cached_tokens INTEGER, n_output_tokens INTEGER,
    n_reasoning_tokens INTEGER, seconds REAL, final INTEGER, stage TEXT, about TEXT, model TEXT, finished_at TEXT,
    PRIMARY KEY (key, attempt))"""


def make_requests(name: str, n: int, answer_bytes: int) -> list[tuple[Request, Outcome]]:
    """Make requests of a stage with their answers."""
    made = []
    for i in range(n):
        request = Request("ground", (f"user {i % 997}", f"{name} {i}"), (Message("user", f"{name} {i}"),), MODEL)
        text = (f"{i} " * answer_bytes)[:answer_bytes]
        made.append((request, Outcome(request.key, "ok", text, "", "", "stop", 2174, 2048, 23, 0, 0.731)))
    return made


def open_plain(path: Path) -> sqlite3.Connection:
    """Open the peer's file."""
    db = sqlite3.connect(path, timeout=60, isolation_level=None)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = NORMAL")
    db.execute(PLAIN)
    return db


def commit_ours(path: Path, made: list[tuple[Request, Outcome]]) -> None:
    """Commit each outcome to a response store."""
    with ResponseStore(path) as store:
        for request, outcome in made:
            store.commit(request, outcome)


def commit_plain(path: Path, made: list[tuple[Request, Outcome]]) -> None:
    """Commit each outcome to a table."""
    with contextlib.closing(open_plain(path)) as db:
        for request, outcome in made:
            row = (
                *(outcome.key, 0, outcome.status, outcome.text, outcome.reasoning, outcome.problem),
                *(outcome.finish_reason, outcome.n_prompt_tokens, outcome.n_cached_tokens, outcome.n_output_tokens),
                *(outcome.n_reasoning_tokens, outcome.seconds, 1, request.stage, str(request.about)),
                *(str(request.model), "2026-01-31T12:00:00.000Z"),
            )
            db.execute(f"INSERT INTO outcomes VALUES ({', '.join('?' * 17)})", row)


WRITERS = {"ours": commit_ours, "plain": commit_plain}


def write(who: str, path: Path, name: str, n: int, answer_bytes: int, barrier: Any, seconds: Any) -> None:
    """Be one of several writers; tell how long the commits took, without making the requests."""
    made = make_requests(name, n, answer_bytes)
    barrier.wait()
    started = time.perf_counter()
    WRITERS[who](path, made)
    seconds.put((started, time.perf_counter()))


def commits_per_second(who: str, path: Path, n_writers: int, n: int, answer_bytes: int) -> float:
    """Return how many commits all writers together make in a second."""
    context = multiprocessing.get_context("spawn")
    barrier, seconds = context.Barrier(n_writers), context.Queue()
    # The peer has one table for all, and nobody waits for its making.
    ResponseStore(path).close() if who == "ours" else open_plain(path).close()
    arguments = [(who, path, f"{i}", n // n_writers, answer_bytes, barrier, seconds) for i in range(n_writers)]
    writers = [context.Process(target=write, args=one) for one in arguments]
    for writer in writers:
        writer.start()
    spans = [seconds.get() for _ in writers]
    for writer in writers:
        writer.join()
    return n / (max(end for _, end in spans) - min(start for start, _ in spans))


def fill(path: Path, n: int, answer_bytes: int) -> None:
    """Fill a store with many rows at once, in a part of the time that single commits take."""

    def rows() -> Iterator[tuple[Any, ...]]:
        for i in range(n):
            key = hashlib.sha256(str(i).encode()).hexdigest()
            text = (f"{i} " * answer_bytes)[:answer_bytes]
            about = f"('user {i % 997}', 'interest {i}')"
            yield (
                *(bytes.fromhex(key), 0, 1, "ok", text, "", "", "stop", 2174, 2048, 23, 0, 0.731, 1, about),
                *(1_770_000_000_000 + i, checksum(key, "ok", text, "")),
            )

    with ResponseStore(path) as store:
        store.query("INSERT INTO origins VALUES (1, 'ground', ?, '')", [str(MODEL)])
    with contextlib.closing(sqlite3.connect(path)) as db, db:
        db.executemany(f"INSERT INTO attempts VALUES (NULL, {', '.join('?' * 17)})", rows())


def write_and_measure(path: Path, n: int, target: Path, result: Any) -> None:
    """Write rows to Parquet in a process of its own; tell seconds, and by how many MB its peak grew."""
    keys = [(hashlib.sha256(str(i).encode()).hexdigest(), "ground") for i in range(n)]
    with ResponseStore(path, mode="read") as store:
        write_answers(store, keys[:10], target)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        started = time.perf_counter()
        n_rows = write_answers(store, keys, target)
        seconds = time.perf_counter() - started
    result.put((n_rows, seconds, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--commits", type=int, default=4_000)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--answer-bytes", type=int, default=70)
    options = parser.parse_args()
    context = multiprocessing.get_context("spawn")

    def tell(what: str, **figures: Any) -> None:
        print(json.dumps({"what": what, **figures}), flush=True)

    with tempfile.TemporaryDirectory() as folder:
        where = Path(folder)
        for n_writers in (1, 4):
            # In turns, since other processes of the machine disturb: the best of each counts.
            best = dict.fromkeys(WRITERS, 0.0)
            for turn in range(3):
                for who in WRITERS:
                    path = where / f"{who}-{n_writers}-{turn}.sqlite"
                    rate = commits_per_second(who, path, n_writers, options.commits, options.answer_bytes)
                    best[who] = max(best[who], rate)
            ours, plain = (round(best[who]) for who in WRITERS)
            tell("commits per second", n_writers=n_writers, ours=ours, plain=plain, ratio=round(ours / plain, 2))
        ours, plain = ((where / f"{who}-1-0.sqlite").stat().st_size / options.commits for who in WRITERS)
        tell("bytes per request", ours=round(ours), plain=round(plain), ratio=round(ours / plain, 2))

        path = where / "large.sqlite"
        fill(path, options.rows, options.answer_bytes)
        tell("bytes per request of a large store", ours=round(path.stat().st_size / options.rows), n=options.rows)
        some = [
            hashlib.sha256(str(i).encode()).hexdigest() for i in range(0, options.rows, max(options.rows // 20_000, 1))
        ]
        with ResponseStore(path, mode="read") as store:
            started = time.perf_counter()
            n_single = sum(len(store.rows(key)) for key in some)
            singly = n_single / (time.perf_counter() - started)
        result = context.Queue()
        reader = context.Process(target=write_and_measure, args=(path, options.rows, where / "answers.parquet", result))
        reader.start()
        n_rows, seconds, megabytes = result.get()
        reader.join()
        bulk = n_rows / seconds
        tell(
            "rows per second, to Parquet against key by key",
            ours=round(bulk),
            plain=round(singly),
            ratio=round(bulk / singly, 2),
        )
        tell("memory of rows to Parquet", n=n_rows, megabytes=round(megabytes, 1), seconds=round(seconds, 1))


if __name__ == "__main__":
    main()
