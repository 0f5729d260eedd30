"""Measure how one model's answers differ by engine, batch and dtype, over whole runs of `demo` that it judges itself.

vLLM on the CPU, offline and as an OpenAI-compatible server, answers with schemas for the judge, at temperature 0. Each
run is compared with the first: offline, float32, 16 at once. Servers are told what the offline engine tells vLLM (see
`LIKE_OFFLINE`), but for the one that is started as it comes. Prints one JSON line per run:

- `same_requests`: for each stage, requests that both asked among those that either asked. A request's key holds its
  messages, schema, sampling and model. Judges are asked about what was extracted, so after one differing extraction
  the two ask differently.
- `same_prompt_tokens`: the share of common requests whose prompt has the same number of tokens, so was rendered alike.
- `same_answers`: for each stage, the share of common requests answered with the same text, byte for byte.
- `agreement`: for each stage, what `--repeats` reports: answers to the same question, as they are read.

    python benchmarks/answers.py [--model FOLDER] [--users 12] [--only served_float32 ...]
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

# benchmarks/datasets.py is called like a library: this folder must not come first.
sys.path = [path for path in sys.path if Path(path or ".").resolve() != Path(__file__).resolve().parent]
sys.path.append(str(Path(__file__).resolve().parents[1] / "tests" / "runners"))

from gistbench.runners.config import RunConfig  # noqa: E402
from gistbench.runners.engines.models import digest_folder  # noqa: E402
from gistbench.runners.repeats import agreement  # noqa: E402
from gistbench.runners.runfolder import RunFolder  # noqa: E402
from gistbench.runners.suite import Suite  # noqa: E402
from gistbench.runners.suitefolder import run_folders  # noqa: E402
from vllm_server import LIKE_OFFLINE, vllm_server  # noqa: E402

MODELS = Path(__file__).resolve().parents[1] / ".cache" / "models"
CONTEXT = 4096
FIRST = "offline_float32"
WAYS: dict[str, dict[str, Any]] = {
    FIRST: {"dtype": "float32", "max_num_seqs": 16},
    "offline_float32_one_at_a_time": {"dtype": "float32", "max_num_seqs": 1},
    "served_float32": {"dtype": "float32", "max_num_seqs": 16, "served": True, **LIKE_OFFLINE},
    "served_float32_as_it_comes": {"dtype": "float32", "max_num_seqs": 16, "served": True},
    "offline_bfloat16": {"dtype": "bfloat16", "max_num_seqs": 16},
    "offline_bfloat16_one_at_a_time": {"dtype": "bfloat16", "max_num_seqs": 1},
    "served_bfloat16": {"dtype": "bfloat16", "max_num_seqs": 16, "served": True, **LIKE_OFFLINE},
}
ANSWER_COLUMNS = ["request_key", "stage", "attempt", "text", "n_prompt_tokens"]


@contextmanager
def reached(model: Path, folder: Path, *, served: bool = False, **options: Any) -> Iterator[str]:
    """Yield the specification of a model in a folder, offline or behind a server that runs as long as the block."""
    if not served:
        yield f"vllm:{model}?max_model_len={CONTEXT}&" + "&".join(f"{name}={value}" for name, value in options.items())
        return
    with vllm_server(model, folder / "server.log", max_model_len=CONTEXT, **options) as url:
        name = f"{model.name}@{digest_folder(model)}"
        yield f"openai:{name}?base_url={url}&structured_outputs=vllm&context_tokens={CONTEXT}&concurrency=16"


def run_demo(model: Path, folder: Path, n_users: int, **way: Any) -> tuple[RunFolder, float]:
    """Run `demo` with a model as candidate and judge; return its run folder and the seconds."""
    folder.mkdir()
    with reached(model, folder, **way) as specification, warnings.catch_warnings(action="ignore"):
        config = RunConfig(
            dataset="demo",
            n_users=n_users,
            candidates=(f"{specification}&structured=true&max_tokens=200",),
            judge=f"{specification}&max_tokens=128",
            history_length=40,
            chunk_size=20,
            pool_size=40,
            max_reasks=1,
            n_resamples=1,
        )
        start = time.perf_counter()
        Suite(folder / "suite", config).run()
    (run,) = run_folders(folder / "suite")
    return run, time.perf_counter() - start


def compare(one: RunFolder, other: RunFolder) -> dict[str, Any]:
    """Return how far two runs asked and got the same."""
    tables = [run.read("answers").select(ANSWER_COLUMNS).to_pandas() for run in (one, other)]
    first, second = (table.sort_values("attempt").drop_duplicates("request_key") for table in tables)
    both = first.merge(second, on=["request_key", "stage"], suffixes=("", "_other"))
    either = first.merge(second, on=["request_key", "stage"], how="outer").groupby("stage").size()
    same = both["text"] == both["text_other"]
    return {
        "same_requests": {stage: [int((both["stage"] == stage).sum()), int(n)] for stage, n in either.items()},
        "same_prompt_tokens": round(float((both["n_prompt_tokens"] == both["n_prompt_tokens_other"]).mean()), 4),
        "same_answers": {stage: round(float(share), 3) for stage, share in same.groupby(both["stage"]).mean().items()},
        "agreement": {
            stage: None if found["equal"] is None else round(found["equal"], 3)
            for stage, found in agreement([one, other]).items()
        },
    }


def main(arguments: list[str] | None = None) -> int:
    """Run every way and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--model", type=Path, help="folder of a model; by default SmolLM2 as scripts/smollm2.py makes it"
    )
    parser.add_argument("--users", type=int, default=12)
    parser.add_argument("--only", nargs="+", choices=[name for name in WAYS if name != FIRST])
    options = parser.parse_args(arguments)
    found = sorted(MODELS.glob("SmolLM2-135M-Instruct-*/config.json"))
    model = options.model or (found[-1].parent if found else None)
    if model is None:
        print(json.dumps({"figure": "answers", "skipped": f"no model in {MODELS}: run `sh scripts/cpu_engine.sh`"}))
        return 0
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        first, seconds = run_demo(model.resolve(), folder / FIRST, options.users, **WAYS[FIRST])
        print(json.dumps({"figure": FIRST, "seconds": round(seconds), "users": options.users}), flush=True)
        for name in options.only or [name for name in WAYS if name != FIRST]:
            run, seconds = run_demo(model.resolve(), folder / name, options.users, **WAYS[name])
            print(json.dumps({"figure": name, "seconds": round(seconds), **compare(first, run)}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
