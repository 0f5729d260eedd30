"""Measure the vLLM engine with a real model on the CPU: its overhead, and what the order of requests saves.

Prints one JSON line per figure:

- `engine_against_vllm`: tokens (in and out) per second through our engine, every outcome committed to a store, against
  `vllm.LLM.chat` on the same prompts and the same loaded model; best of the repeats of each, taken in turns, the prefix
  cache emptied before each. `cpu_ratio` compares the CPU time, which other processes of the machine disturb less.
- `prefix_cache_by_order`: the share of prompt tokens that came from the prefix cache for prompts as the shortlist stage
  writes them (a part of the pool first, a user's interests last), in our order and shuffled. The cache is made smaller
  than all parts together, as it is with a real pool; within it, order would not matter.

    python benchmarks/engines.py [--model FOLDER] [--prompts 64] [--repeats 3] [--parts 8] [--users 12]
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

# benchmarks/datasets.py is called like a library: this folder must not come first.
sys.path = [path for path in sys.path if Path(path or ".").resolve() != Path(__file__).resolve().parent]

from gistbench.hf_datasets.errors import GistbenchError  # noqa: E402
from gistbench.runners.engines import open_engine, parse_model  # noqa: E402
from gistbench.runners.requests import Message, Outcome, Request, Sampling  # noqa: E402
from gistbench.runners.store import ResponseStore  # noqa: E402

MODELS = Path(__file__).resolve().parents[1] / ".cache" / "models"
THEMES = ("trail running", "film noir", "sourdough", "cold brew", "chess openings", "houseplants", "synthesizers")
BLOCK_TOKENS = 32


def item(number: int) -> str:
    """Return a line as prompts have them."""
    theme = THEMES[number % len(THEMES)]
    return f"<item_{number}> A post about {theme}, part {number * 37 % 101}: what I learned this week. </item_{number}>"


def request(engine: Any, text: str, n: int, max_tokens: int, group: str = "") -> Request:
    """Return one request."""
    messages = (Message("system", "You judge which items fit."), Message("user", text))
    return Request("benchmark", n, messages, engine.model, Sampling(max_tokens=max_tokens), repeat=n, group=group)


def measure(call: Callable[[], int]) -> tuple[float, float, int]:
    """Return seconds, CPU seconds and the tokens that a call returns."""
    start, start_cpu = time.perf_counter(), time.process_time()
    n_tokens = call()
    return time.perf_counter() - start, time.process_time() - start_cpu, n_tokens


def overhead(engine: Any, n_prompts: int, repeats: int, folder: Path) -> dict[str, Any]:
    """Measure tokens per second, ours and vLLM's own."""
    import vllm

    texts = [
        "\n".join(item(n * 13 + k) for k in range(8)) + f"\nWhich fit an interest in {THEMES[n % len(THEMES)]}?"
        for n in range(n_prompts)
    ]
    requests = [request(engine, text, n, max_tokens=32) for n, text in enumerate(texts)]
    list(engine.generate(iter(requests[:2])))  # loads the model
    llm = engine._llm
    conversations: Any = [[message._asdict() for message in one.messages] for one in requests]
    params = vllm.SamplingParams(max_tokens=32, temperature=0.0)
    n_stores = 0

    def ours() -> int:
        nonlocal n_stores
        n_stores += 1
        n_tokens = 0
        with ResponseStore(folder / f"{n_stores}.sqlite") as store:
            asked = {one.key: one for one in requests}
            for outcome in engine.generate(iter(requests)):
                store.commit(asked[outcome.key], outcome)
                n_tokens += outcome.n_prompt_tokens + outcome.n_output_tokens
        return n_tokens

    def direct() -> int:
        outputs = llm.chat(conversations, params, use_tqdm=False)
        return sum(len(one.prompt_token_ids) + len(one.outputs[0].token_ids) for one in outputs)

    measured: dict[str, list[tuple[float, float, int]]] = {"ours": [], "direct": []}
    for _ in range(repeats):
        for name, call in (("ours", ours), ("direct", direct)):
            llm.reset_prefix_cache()
            measured[name].append(measure(call))
    rate = {name: max(tokens / wall for wall, _, tokens in runs) for name, runs in measured.items()}
    rate_cpu = {name: max(tokens / cpu for _, cpu, tokens in runs) for name, runs in measured.items()}
    return {
        "figure": "engine_against_vllm",
        "tokens_per_second_ours": round(rate["ours"], 1),
        "tokens_per_second_direct": round(rate["direct"], 1),
        "ratio": round(rate["ours"] / rate["direct"], 3),
        "cpu_ratio": round(rate_cpu["ours"] / rate_cpu["direct"], 3),
        "prompts": n_prompts,
        "tokens": {name: runs[0][2] for name, runs in measured.items()},
        "repeats": repeats,
    }


def by_order(engine: Any, n_parts: int, n_users: int) -> dict[str, Any]:
    """Measure the share of prompt tokens that the prefix cache serves."""
    parts = ["\n".join(item(part * 1000 + k) for k in range(24)) for part in range(n_parts)]
    requests = []
    for part, lines in enumerate(parts):
        for user in range(n_users):
            interests = "\n".join(f"- {THEMES[(user + k) % len(THEMES)]}" for k in range(3))
            text = f"{lines}\nInterests:\n{interests}\nWhich items overlap?"
            requests.append(request(engine, text, part * n_users + user, max_tokens=2, group=f"part {part}"))
    shuffled = random.Random(0).sample(requests, len(requests))

    def share(asked: Sequence[Request]) -> tuple[float, float]:
        if engine._llm is not None:
            engine._llm.reset_prefix_cache()
        start = time.perf_counter()
        outcomes: list[Outcome] = list(engine.generate(iter(asked)))
        n_cached = sum(one.n_cached_tokens for one in outcomes)
        return n_cached / sum(one.n_prompt_tokens for one in outcomes), time.perf_counter() - start

    list(engine.generate(iter(requests[:1])))
    ours, seconds_ours = share(requests)
    arrival, seconds_arrival = share(shuffled)
    return {
        "figure": "prefix_cache_by_order",
        "cached_share_ours": round(ours, 3),
        "cached_share_shuffled": round(arrival, 3),
        "most_possible": round(1 - (n_parts / len(requests)), 3),
        "seconds_ours": round(seconds_ours, 1),
        "seconds_shuffled": round(seconds_arrival, 1),
        "prompts": len(requests),
        "parts": n_parts,
        "cache_tokens": engine._options["num_gpu_blocks_override"] * BLOCK_TOKENS,
    }


def main(arguments: list[str] | None = None) -> int:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", help="folder of a model; by default SmolLM2 as scripts/smollm2.py makes it")
    parser.add_argument("--prompts", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--parts", type=int, default=8)
    parser.add_argument("--users", type=int, default=12)
    options = parser.parse_args(arguments)
    found = sorted(MODELS.glob("SmolLM2-135M-Instruct-*/config.json"))
    model = options.model or (found[-1].parent if found else None)
    try:
        if model is None:
            raise FileNotFoundError(f"no model in {MODELS}: run `sh scripts/cpu_engine.sh`")
        engine: Any = open_engine(parse_model(f"vllm:{model}?max_model_len=2048&max_num_seqs=16"))
        with tempfile.TemporaryDirectory() as folder:
            print(json.dumps(overhead(engine, options.prompts, options.repeats, Path(folder))), flush=True)
        engine.close()
        engine = open_engine(parse_model(f"vllm:{model}?max_model_len=2048&max_num_seqs=2&block_size={BLOCK_TOKENS}"))
        engine._options["num_gpu_blocks_override"] = 128
        print(json.dumps(by_order(engine, options.parts, options.users)), flush=True)
        engine.close()
    except (GistbenchError, FileNotFoundError) as error:
        print(json.dumps({"figure": "engines", "skipped": str(error)}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
