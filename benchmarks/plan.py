"""Measure `gistbench plan` at paper A's size: 1,000 users, 4.2 M engagements, one candidate and the judge.

Prints one JSON line per figure: seconds of the plan (data, tokenising, counting; imports left out) and its peak memory;
the naive way, which renders and tokenises every prompt whole, measured on a sample of prompts of each stage and
extrapolated to all of them; their ratio; and prompts and tokens per stage beside Tables 24 and 25. `seconds_cpu` is
beside the wall clock, which other processes of the machine disturb. The data set is built beforehand and not timed.

    python benchmarks/plan.py --tokenizer FOLDER [--users 1000] [--engagements 4214] [--sentences 3] [--sample 40]
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

# benchmarks/datasets.py is called like a library: this folder must not come first.
sys.path = [path for path in sys.path if Path(path or ".").resolve() != Path(__file__).resolve().parent]

import transformers  # noqa: E402, F401
from gistbench.hf_datasets import load_engagements  # noqa: E402
from gistbench.hf_datasets.results_published import published_value  # noqa: E402
from gistbench.runners.config import RunConfig  # noqa: E402
from gistbench.runners.engines import parse_model  # noqa: E402
from gistbench.runners.plan import Expectations, plan_run  # noqa: E402
from gistbench.runners.plan_data import load_plan_data  # noqa: E402
from gistbench.runners.plan_tokens import find_counter  # noqa: E402
from gistbench.runners.requests import ModelRef  # noqa: E402
from gistbench.runners.stages.base import Asker  # noqa: E402
from gistbench.runners.stages.extract import Extract  # noqa: E402

T = TypeVar("T")
CANDIDATE = "vllm:meta-llama/Llama-3.1-8B-Instruct?max_model_len=131072"
JUDGE = "vllm:meta-llama/Llama-3.3-70B-Instruct?max_model_len=131072"
PASSES = {
    "ground": "IG evidence relevance (Sec. 4.2)",
    "shortlist": "IS distractor filtering (Sec. 4.3)",
    "retrieve": "IS retrieval (Sec. 4.3)",
    "map": "Taxonomy mapping (Sec. 4.4)",
}


def say(figure: str, **values: Any) -> None:
    """Print one figure."""
    print(json.dumps({"figure": figure, **values}), flush=True)


def timed(work: Callable[[], T]) -> tuple[T, float, float]:
    """Return what some work gives, with its wall and CPU seconds."""
    wall, cpu = time.perf_counter(), time.process_time()
    result = work()
    return result, time.perf_counter() - wall, time.process_time() - cpu


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tokenizer", default=next(map(str, sorted(Path(".cache/models").glob("SmolLM2*"))), None))
    parser.add_argument("--users", type=int, default=1000)
    parser.add_argument("--engagements", type=int, default=4214)
    parser.add_argument("--sentences", type=int, default=3)
    parser.add_argument("--sample", type=int, default=40)
    options = parser.parse_args()
    if options.tokenizer is None:
        parser.error("no tokenizer: name a folder with --tokenizer")
    planted = {
        "n_users": options.users,
        "n_engagements_per_user": options.engagements,
        "n_sentences_per_text": options.sentences,
    }
    load_engagements("planted", **planted)
    config = RunConfig(dataset="planted", dataset_options=planted, candidates=(CANDIDATE,), judge=JUDGE)
    expect = Expectations(tokenizer=options.tokenizer)

    plan, seconds, cpu = timed(lambda: plan_run(config, expect))
    megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
    say(
        "plan", seconds=round(seconds, 1), seconds_cpu=round(cpu, 1), peak_megabytes=round(megabytes), limit_seconds=600
    )

    # The naive way, on the stage that has nearly all of the text: every extraction prompt rendered and tokenised.
    data = load_plan_data(config)
    model = parse_model(CANDIDATE)
    asker = Asker.of("extract", ModelRef(model.name, "", "default/1"), model, 131_072)
    stage = Extract(asker, data.histories, chunk_size=config.chunk_size)
    subjects = stage.subjects()
    n_sampled = min(options.sample, len(subjects))
    # Evenly spread, and not in step with the chunks of a user.
    sampled = [subjects[round(i * (len(subjects) - 1) / max(n_sampled - 1, 1))] for i in range(n_sampled)]
    counter = find_counter(model, tokenizer=options.tokenizer)

    def whole() -> float:
        texts = [counter.chat(stage.request(subject).messages) for subject in sampled]
        return float(counter.count(texts).sum())

    counted, naive_seconds, naive_cpu = timed(whole)
    factor = len(subjects) / len(sampled)
    judged = sum(row.n_prompt_tokens for row in plan.stages[1:]) / plan.stages[0].n_prompt_tokens
    say(
        "naive, extrapolated",
        sampled_prompts=len(sampled),
        extract_seconds=round(naive_seconds * factor, 1),
        all_stages_seconds=round(naive_seconds * factor * (1 + judged), 1),
        all_stages_seconds_cpu=round(naive_cpu * factor * (1 + judged), 1),
        tokens_per_prompt=round(counted / len(sampled)),
    )
    say("naive / plan", seconds_cpu=round(naive_cpu * factor * (1 + judged) / cpu, 1))
    for row in plan.stages:
        table, name = ("Table 24", "Synthetic") if row.stage == "extract" else ("Table 25", PASSES[row.stage])
        say(
            f"{row.stage}, one candidate",
            prompts=row.n_prompts,
            tokens_in=row.n_prompt_tokens,
            shared=round(row.shared_share, 3),
            tokens_per_prompt=round(row.n_prompt_tokens / row.n_prompts),
            sampled_error=row.sampled_error,
            paper=f"{table}, {'Llama-3.1-8B on Synthetic' if row.stage == 'extract' else '8 candidates, 5 data sets'}",
            paper_prompts=int(published_value(table, name, "Prompts")),
            paper_tokens_in=int(published_value(table, name, "Input tok.")),
            paper_tokens_per_prompt=round(
                published_value(table, name, "Input tok.") / published_value(table, name, "Prompts")
            ),
        )


if __name__ == "__main__":
    main()
