"""The leaderboard under load: start with many results, and 50 viewers at once. Prints JSON lines.

    python benchmarks/space.py [--models 200] [--datasets 6] [--viewers 50] [--seconds 30]

The start is also given as a ratio to what `import gradio` alone takes, measured just before. CPU time is the server's
own (Linux). Results are generated and have no meaning. Viewers do what readers do: open the page, filter, sort, search,
turn pages, look at pictures, a model and a comparison, with a pause of about a second between. They run on this machine
too.
"""

import argparse
import asyncio
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import Any

import aiohttp
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from gistbench.runners.results import INDEX_SCHEMA, METRICS, ResultsFolder

N_USERS = 200


def generate(folder: Path, n_models: int, n_datasets: int) -> list[str]:
    """Write a results folder; return the ids of its rows."""
    rng = np.random.default_rng(0)
    ResultsFolder(folder).build()
    published = pq.read_table(folder / "index.parquet").to_pylist()
    rows = []
    users = [f"u{n}" for n in range(N_USERS)]
    for m in range(n_models):
        skill = rng.uniform(0.3, 0.9)
        for d in range(n_datasets):
            record = f"records/data-{d}/org-{m % 20}--model-{m}@1/judge@1"
            scores = {metric: np.clip(rng.normal(skill, 0.15, N_USERS), 0, 1) for metric in METRICS}
            (folder / record).mkdir(parents=True)
            pq.write_table(pa.table({"user_id": users, **scores}), folder / record / "scores.parquet")
            (folder / record / "manifest.json").write_text('{"candidate": {}, "phases": {}}', encoding="utf-8")
            row: dict[str, Any] = dict.fromkeys(INDEX_SCHEMA.names)
            for metric, values in scores.items():
                median = float(np.median(values))
                row |= {metric: median, f"{metric}_low": median - 0.02, f"{metric}_high": median + 0.02}
                row |= {f"mean_{metric}": float(values.mean()), f"n_users_{metric}": N_USERS}
            domains = {
                f"Domain {n}": {"n": 9, "verified": float(rng.random()), "is": float(rng.random())} for n in range(20)
            }
            modes = {"insufficient_explicit_positive": float(rng.random()), "excessive_negative": float(rng.random())}
            row |= {
                "id": sha256(record.encode()).hexdigest()[:10],
                "origin": "measured",
                "model": f"org-{m % 20}/model-{m}",
                "revision": "1",
                "dataset": f"data-{d}",
                "users_sha256": str(d),
                "judge": f"judge-{m % 2}",
                "judge_revision": "1",
                "taxonomy": "open",
                "thresholds": "base",
                "oracle": str(d),
                "not_ranked": "",
                "rank_hm": m + 1,
                "group_hm": "a",
                "n_ranked_models": n_models,
                "n_ranked_users": N_USERS,
                "coverage": 1.0,
                "unusable_share": 0.01,
                "n_users": N_USERS,
                "n_requested": N_USERS,
                "n_oracle_models": n_models,
                "parameters_b": float(rng.choice([1, 8, 70, 400])),
                "weights": "open" if m % 3 else "closed",
                "n_output_tokens": int(rng.integers(10_000, 900_000)),
                "cost_usd": float(rng.uniform(0.1, 9)),
                "failure_modes": json.dumps(modes),
                "domains": json.dumps(domains),
                "record": record,
            }
            rows.append(row)
    pq.write_table(pa.Table.from_pylist([*rows, *published], schema=INDEX_SCHEMA), folder / "index.parquet")
    return [row["id"] for row in rows]


class Viewer:
    """One reader's session with the page."""

    def __init__(
        self, http: aiohttp.ClientSession, url: str, config: dict[str, Any], seed: int, ids: list[str]
    ) -> None:
        """Know the page's components by their labels and its events by what they listen to."""
        self.http, self.url, self.ids, self.draw = http, url, ids, random.Random(seed)
        self.session = f"viewer{seed}"
        parts = {one["id"]: one for one in config["components"]}
        self.label = {str(part["props"].get("label") or ""): id for id, part in parts.items()}
        self.values = {id: part["props"].get("value") for id, part in parts.items()}
        self.events: dict[tuple[int, str], dict[str, Any]] = {}
        for event in config["dependencies"]:
            for id, name in event["targets"]:
                self.events.setdefault((id, name), event)

    async def use(self, label: str, event: str, value: Any) -> float:
        """Set a component, wait for the page's answer; return the seconds."""
        id = self.label[label]
        self.values[id] = value
        found = self.events[id, event]
        asked = {
            "data": [self.values[one] for one in found["inputs"]],
            "fn_index": found["id"],
            "session_hash": self.session,
            "event_data": None,
            "trigger_id": id,
        }
        begun = time.perf_counter()
        async with self.http.post(f"{self.url}/gradio_api/run/predict", json=asked) as answer:
            answer.raise_for_status()
            await answer.read()
        return time.perf_counter() - begun

    async def read(self, until: float, seen: dict[str, list[float]]) -> None:
        """Do what readers do until a time, noting how long each answer took."""
        await asyncio.sleep(self.draw.random() * 2)
        begun = time.perf_counter()
        async with self.http.get(self.url) as answer:
            await answer.read()
        seen.setdefault("open", []).append(time.perf_counter() - begun)
        acts = (
            ("filter", "Data set", "input", lambda: f"data-{self.draw.randrange(6)}"),
            ("filter", "Size", "input", lambda: self.draw.choice(["", "small", "large"])),
            ("sort", "Sort by", "input", lambda: self.draw.choice(["hm", "is", "ig_f1", "model"])),
            ("search", "Search", "input", lambda: f"model-{self.draw.randrange(200)}"),
            ("search", "Search", "input", lambda: ""),
            ("page", "Page", "submit", lambda: self.draw.randrange(1, 9)),
            ("picture", "Picture", "input", lambda: self.draw.choice(["scatter", "forest", "cost"])),
            ("model", "Model", "input", lambda: self.draw.choice(self.ids)),
            ("compare", "B", "input", lambda: self.draw.choice(self.ids)),
        )
        self.values[self.label["A"]] = self.ids[0]
        while time.perf_counter() < until:
            await asyncio.sleep(self.draw.uniform(0.5, 1.5))
            kind, label, event, value = self.draw.choice(acts)
            seen.setdefault(kind, []).append(await self.use(label, event, value()))


def import_seconds(name: str) -> float:
    """Return how long a fresh interpreter takes to import a module."""
    begun = time.perf_counter()
    subprocess.run([sys.executable, "-c", f"import {name}"], check=True, capture_output=True)
    return time.perf_counter() - begun


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process so far; not a number where the system does not say."""
    try:
        ticks = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    except OSError:
        return float("nan")
    return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")


async def load(
    url: str, ids: list[str], n_viewers: int, seconds: float, pid: int
) -> tuple[dict[str, list[float]], float]:
    """Let viewers read for some seconds; return the seconds of each kind of interaction, and the server's CPU time."""
    seen: dict[str, list[float]] = {}
    limits = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=limits) as http:
        async with http.get(f"{url}/config") as answer:
            config = await answer.json()
        first = Viewer(http, url, config, 10_000, ids)
        first.values[first.label["A"]] = ids[0]
        await first.use("B", "input", ids[7])  # loads the metric module, as the page's start does
        before, until = cpu_seconds(pid), time.perf_counter() + seconds
        viewers = [Viewer(http, url, config, seed, ids) for seed in range(n_viewers)]
        await asyncio.gather(*(viewer.read(until, seen) for viewer in viewers))
    return seen, cpu_seconds(pid) - before


def main() -> None:
    """Generate, start, load, print."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--models", type=int, default=200)
    options.add_argument("--datasets", type=int, default=6)
    options.add_argument("--viewers", type=int, default=50)
    options.add_argument("--seconds", type=float, default=30)
    options.add_argument("--port", type=int, default=7871)
    given = options.parse_args()
    space = Path(str(files("gistbench.space")))
    with tempfile.TemporaryDirectory() as work:
        ids = generate(Path(work) / "results", given.models, given.datasets)
        environment = os.environ | {
            "GISTBENCH_RESULTS": str(Path(work) / "results"),
            "GISTBENCH_METRICS": str(files("gistbench.metrics")),
            "GRADIO_SERVER_NAME": "127.0.0.1",
            "GRADIO_SERVER_PORT": str(given.port),
        }
        peer = import_seconds("gradio")
        begun = time.perf_counter()
        server = subprocess.Popen([sys.executable, str(space / "app.py")], cwd=space, env=environment)
        url = f"http://127.0.0.1:{given.port}"
        try:
            started = asyncio.run(_wait(url, begun))
            about = {"models": given.models, "datasets": given.datasets, "cpus": os.cpu_count()}
            about["load_average"] = round(os.getloadavg()[0], 1)
            start = {"seconds": round(started, 2), "cpu_seconds": round(cpu_seconds(server.pid), 2)}
            start |= {"import_gradio_seconds": round(peer, 2), "ratio_to_import_gradio": round(started / peer, 2)}
            print(json.dumps({"benchmark": "space start", **about, **start}))
            seen, cpu = asyncio.run(load(url, ids, given.viewers, given.seconds, server.pid))
        finally:
            server.terminate()
            server.wait()
    seen["all"] = [value for values in seen.values() for value in values]
    for kind, values in seen.items():
        p50, p95 = np.percentile(values, [50, 95])
        line = {"benchmark": f"space {kind}", "viewers": given.viewers, "n": len(values)}
        line |= {"p50_seconds": round(float(p50), 3), "p95_seconds": round(float(p95), 3)}
        if kind == "all":
            line["cpu_ms_per_interaction"] = round(1000 * cpu / len(values), 1)
        print(json.dumps(line))


async def _wait(url: str, begun: float) -> float:
    async with aiohttp.ClientSession() as http:
        while True:
            try:
                async with http.get(url) as answer:
                    if answer.status == 200:
                        await answer.read()
                        return time.perf_counter() - begun
            except aiohttp.ClientError:
                await asyncio.sleep(0.05)
            if time.perf_counter() - begun > 120:
                raise SystemExit("The page did not start within two minutes.")


if __name__ == "__main__":
    main()
