"""The real engine on the CPU, in one process and in two.

Most tests use a model of two layers with random weights and SmolLM2's tokenizer, which answers in milliseconds;
what only a real model shows is asked of SmolLM2-135M-Instruct itself.
"""

import json
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from gistbench.hf_datasets.errors import EngineError
from gistbench.runners.engines import open_engine, parse_model, processes
from gistbench.runners.engines.models import digest_folder
from gistbench.runners.engines.processes import Team
from gistbench.runners.engines.transformers import Prompt, make_batches
from gistbench.runners.requests import Message, Request, Sampling

REPOSITORY = Path(__file__).resolve().parents[3]
MISSING = "REAL ENGINE NOT TESTED: run `sh scripts/cpu_engine.sh` to install transformers, accelerate and SmolLM2"
OPTIONS = "dtype=float32&max_model_len=1024&batch_size=4"


@pytest.fixture(scope="module")
def model_folder() -> Path:
    """SmolLM2's folder; without it or the packages these tests skip, and fail in continuous integration."""
    folders = sorted((REPOSITORY / ".cache" / "models").glob("SmolLM2-135M-Instruct-*/config.json"))
    if not folders or any(find_spec(name) is None for name in ("transformers", "accelerate", "torch")):
        if os.environ.get("CI"):
            pytest.fail(MISSING)
        pytest.skip(MISSING)
    return folders[-1].parent


@pytest.fixture(scope="module")
def tiny_folder(model_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of two layers; its weights are wide, so that no two tokens are nearly equally likely."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    folder = tmp_path_factory.mktemp("models") / "tiny"
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 16}
    config = AutoConfig.from_pretrained(model_folder)
    config.update({**sizes, **heads, "initializer_range": 0.5})
    torch.manual_seed(0)
    AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    for file in model_folder.iterdir():
        if file.name.startswith(("tokenizer", "special_tokens", "vocab", "merges", "chat_template")):
            shutil.copy(file, folder)
    return folder


@pytest.fixture(scope="module")
def engine(tiny_folder: Path) -> Iterator[Any]:
    yield from open_one(tiny_folder)


@pytest.fixture
def real_engine(model_folder: Path) -> Iterator[Any]:
    yield from open_one(model_folder)


def open_one(folder: Path) -> Iterator[Any]:
    import torch

    n_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    opened = open_engine(parse_model(f"transformers:{folder}?{OPTIONS}"))
    yield opened
    opened.close()
    torch.set_num_threads(n_threads)


def ask(engine: Any, *texts: str, schema: dict[str, Any] | None = None, **sampling: Any) -> list[Request]:
    return [
        Request(
            stage="test",
            about=text[:20],
            messages=(Message("system", "Answer in one short sentence."), Message("user", text)),
            model=engine.model,
            sampling=Sampling(**{"max_tokens": 6, **sampling}),
            schema=schema,
        )
        for text in texts
    ]


@pytest.mark.engine
class TestOneProcess:
    def test_an_answer_is_the_same_alone_and_in_a_batch(self, engine):
        requests = ask(engine, *(f"Name animal number {n}." + " Please do." * 5 * n for n in range(5)))
        together = {outcome.key: outcome for outcome in engine.generate(iter(requests))}
        assert set(together) == {request.key for request in requests}
        for request in requests[:3]:
            (alone,) = engine.generate([request])
            assert (alone.text, alone.n_output_tokens) == (together[request.key].text, 6)
            assert together[request.key].text

    def test_a_real_model_ends_its_answers(self, real_engine):
        short, cut = (
            *ask(real_engine, "What is 1 + 1? Answer with the number.", max_tokens=40),
            *ask(real_engine, "Tell a story."),
        )
        outcomes = {outcome.key: outcome for outcome in real_engine.generate([short, cut])}
        ended, truncated = outcomes[short.key], outcomes[cut.key]
        assert (ended.status, ended.finish_reason) == ("ok", "stop")
        assert 1 < ended.n_output_tokens < 40
        assert (truncated.status, truncated.n_output_tokens) == ("truncated", 6)

    def test_what_becomes_of_each_request(self, engine):
        long, cut = ask(engine, "word " * 1200, "Tell me a very long story about a ship.")
        outcomes = {outcome.key: outcome for outcome in engine.generate([long, cut])}
        refused = outcomes[long.key]
        assert (refused.status, refused.final) == ("refused", True)
        assert refused.problem.endswith(f"the context of {engine.model} has 1024.")
        truncated = outcomes[cut.key]
        assert (truncated.status, truncated.finish_reason, truncated.n_output_tokens) == ("truncated", "length", 6)

    def test_each_answer_ends_at_its_own_limit(self, engine):
        near, far = ask(engine, "word " * 985, "Tell me a long story.", max_tokens=30)
        prepared = [engine._prepare(request) for request in (near, far)]
        room = 1024 - len(prepared[0].token_ids)
        assert room < 30
        first, second = engine.answer(prepared)
        assert (first.n_output_tokens, second.n_output_tokens) == (room, 30)
        assert second.text == engine.answer(prepared[1:])[0].text

    def test_the_template_alone_adds_special_tokens(self, engine):
        (request,) = ask(engine, "Hello.")
        tokenizer = engine._tokenizer
        text = tokenizer.apply_chat_template(
            [message._asdict() for message in request.messages], add_generation_prompt=True, tokenize=False
        )
        prompt = engine._prepare(request)
        assert prompt.token_ids == tokenizer.encode(text, add_special_tokens=False)

    def test_no_prompt_begins_twice(self, engine, monkeypatch):
        begin = engine._tokenizer.bos_token_id
        twice = {"input_ids": [begin, begin, 5, 6]}
        monkeypatch.setattr(engine._tokenizer, "apply_chat_template", lambda *_, **__: twice)
        assert engine._prepare(ask(engine, "Hello.")[0]).token_ids == [begin, 5, 6]

    def test_today_is_the_same_on_every_day(self, engine, monkeypatch):
        template = "{{ strftime_now('%d %b %Y') }} {{ messages[-1]['content'] }}"
        monkeypatch.setattr(engine._tokenizer, "chat_template", template)
        prompt = engine._prepare(ask(engine, "Hello.")[0])
        assert engine._tokenizer.decode(prompt.token_ids) == "01 Jan 2026 Hello."

    def test_a_schema_is_not_enforced_but_checked(self, engine, monkeypatch):
        monkeypatch.setattr(engine, "_generate", lambda batch: [[1000, engine._end_ids[0]]])
        (outcome,) = engine.generate(ask(engine, "Name an animal.", schema={"regex": "item_[0-9]"}))
        assert outcome.status == "invalid"
        assert outcome.problem.startswith("The answer is not of the form asked for")
        assert outcome.text

    def test_a_drawn_answer_repeats_with_its_seed(self, engine):
        one, other = (ask(engine, "Name an animal.", temperature=1.5, top_p=0.99, seed=seed)[0] for seed in (1, 2))
        (first,), (again,), (second,) = engine.generate([one]), engine.generate([one]), engine.generate([other])
        assert first.text == again.text != second.text

    def test_less_is_asked_at_once_where_memory_runs_out(self, engine, monkeypatch):
        import torch

        sizes = []

        def generate(batch):
            sizes.append(len(batch))
            if len(batch) > 1 or len(batch[0].token_ids) > 100:
                raise torch.OutOfMemoryError("no room")
            return [[5, engine._end_ids[0], 7]]

        monkeypatch.setattr(engine, "_generate", generate)
        requests = ask(engine, "word " * 100, "a", "b")
        outcomes = {outcome.key: outcome for outcome in engine.generate(requests)}
        assert sizes == [3, 1, 2, 1, 1]
        assert [outcomes[request.key].status for request in requests] == ["error", "ok", "ok"]
        assert "ran out of memory at one prompt of" in outcomes[requests[0].key].problem
        assert outcomes[requests[1].key].n_output_tokens == 2

    def test_what_is_recorded(self, engine, tiny_folder):
        list(engine.generate(ask(engine, "Hello.", max_tokens=1)))
        described = engine.describe()
        assert (engine.model.name, engine.model.revision) == ("tiny", digest_folder(tiny_folder))
        assert described["options"]["dtype"] == "float32"
        assert described["generation_config"]["eos_token_id"] == 2
        assert (described["processes"], described["hardware"]) == (1, "cpu")
        assert set(described["versions"]) == {"transformers", "accelerate", "torch"}
        json.dumps(described)

    def test_a_model_that_cannot_be_asked_is_an_error(self, tmp_path, tiny_folder):
        with pytest.raises(EngineError, match=r"no config\.json"):
            open_engine(parse_model(f"transformers:{tmp_path}"))
        for name in ("config.json", "tokenizer.json", "tokenizer_config.json"):
            shutil.copy(tiny_folder / name, tmp_path)
        without_template = open_engine(parse_model(f"transformers:{tmp_path}?max_model_len=512"))
        with pytest.raises(EngineError, match="no chat template"):
            list(without_template.generate(ask(without_template, "Hello.")))


def prompt(n_tokens: int, **sampling: Any) -> Prompt:
    return Prompt(f"{n_tokens:03}", [0] * n_tokens, Sampling(**sampling), 8)


class TestBatches:
    def test_are_sorted_by_length_whatever_came_first(self):
        prompts = [prompt(n) for n in (3, 9, 1, 7, 5)]
        lengths = [[len(p.token_ids) for p in batch] for batch in make_batches(prompts, 2)]
        assert lengths == [[9, 7], [5, 3], [1]]
        assert make_batches(reversed(prompts), 2) == make_batches(prompts, 2)

    def test_hold_one_sampling_each(self):
        batches = make_batches([prompt(1), prompt(2, temperature=1.0), prompt(3), prompt(4, temperature=1.0)], 4)
        assert sorted([len(p.token_ids) for p in batch] for batch in batches) == [[3, 1], [4, 2]]


class TestTeam:
    @pytest.fixture
    def wire(self, monkeypatch):
        """What is sent to the other processes, and what they reply."""
        wire = SimpleNamespace(sent=[], replies={})
        monkeypatch.setattr(processes, "_send", lambda message, rank: wire.sent.append((rank, message[0])))
        monkeypatch.setattr(processes, "_receive", lambda rank: wire.replies[rank])
        return wire

    def test_batches_are_answered_in_order(self, wire):
        wire.replies = {1: ("ok", "one"), 2: ("ok", "two")}
        team = Team(4)
        assert team.answer("job", ["a", "b", "c"], str.upper) == ["A", "one", "two"]
        team.dismiss()
        assert wire.sent == [(1, "answer"), (2, "answer"), (1, "end"), (2, "end"), (3, "end")]

    def test_what_another_process_cannot_do_is_an_error_and_the_team_goes_on(self, wire):
        wire.replies = {1: ("error", "OSError: no such file"), 2: ("ok", "two")}
        team = Team(3)
        with pytest.raises(EngineError, match="Process 1 of 3: OSError: no such file"):
            team.answer("job", ["a", "b", "c"], str.upper)
        team.dismiss()
        assert wire.sent[-2:] == [(1, "end"), (2, "end")]

    def test_a_process_that_is_gone_is_an_error_and_nobody_is_waited_for(self, wire, monkeypatch):
        def gone(rank: int) -> Any:
            raise RuntimeError("Connection closed by peer")

        monkeypatch.setattr(processes, "_receive", gone)
        team = Team(2)
        with pytest.raises(EngineError, match="One of the 2 processes is gone"):
            team.answer("job", ["a", "b"], str.upper)
        team.dismiss()
        assert wire.sent == [(1, "answer")]

    def test_a_process_alone_has_no_team(self, monkeypatch):
        monkeypatch.delenv("WORLD_SIZE", raising=False)
        with processes.processes():
            assert processes.current_team() is None


@pytest.mark.engine
@pytest.mark.parametrize("model", ["tiny_folder", pytest.param("model_folder", marks=pytest.mark.slow)])
def test_two_processes_give_the_same_as_one(model, request, tmp_path):
    """`accelerate launch` of the command line: same answers, same tables; one process writes, both answer."""
    folder = request.getfixturevalue(model)
    arguments = ["extract", "--dataset", "demo", "--users", "u01,u05", "--history-length", "16", "--chunk-size", "4"]
    candidate = f"transformers:{folder}?dtype=float32&max_model_len=2048&batch_size=2&max_tokens=6"
    arguments += ["--max-reasks", "0", "--candidate", candidate]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MASTER_PORT": "0", "HF_HUB_OFFLINE": "1"}
    launched = [sys.executable, "-m", "accelerate.commands.launch", "--multi_gpu", "--num_processes", "2"]
    launched += ["--num_machines", "1", "--mixed_precision", "no", "--dynamo_backend", "no", "--main_process_port", "0"]
    answers = {}
    for name, command in (("one", [sys.executable]), ("two", launched)):
        command = [*command, "-m", "gistbench.runners", *arguments, "--output", str(tmp_path / name)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        with sqlite3.connect(tmp_path / name / "responses.sqlite") as store:
            rows = store.execute(
                "SELECT key, attempt, status, text, n_output_tokens FROM outcomes ORDER BY key, attempt"
            )
            answers[name] = rows.fetchall()
            assert store.execute("SELECT COUNT(*) FROM sessions").fetchone() == (1,)
    assert answers["one"] == answers["two"]
    assert len({key for key, *_ in answers["one"]}) == len(answers["one"]) == 8
    folders = {name: next((tmp_path / name).glob(f"{folder.name}@*")) for name in answers}
    for table in ("extractions.parquet", "users.parquet", "evidence.parquet"):
        assert (folders["one"] / table).read_bytes() == (folders["two"] / table).read_bytes()
    manifests = {name: json.loads((folder / "manifest.json").read_text()) for name, folder in folders.items()}
    n_processes = {name: m["phases"]["extract"]["model"]["processes"] for name, m in manifests.items()}
    assert n_processes == {"one": 1, "two": 2}


@pytest.mark.engine
def test_the_other_processes_end_with_the_main_one(model_folder):
    """Also where it is killed, and cannot tell them."""
    program = """
from operator import methodcaller
from gistbench.runners.engines.processes import current_team, processes
with processes():
    print(*current_team().answer((methodcaller, "upper"), ["a", "b"], str.upper), flush=True)
    input()
"""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    shared = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1"}
    main, other = (
        subprocess.Popen(
            [sys.executable, "-c", program],
            env={**os.environ, **shared, "RANK": str(rank)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        for rank in range(2)
    )
    try:
        assert main.stdout.readline() == "A B\n"
        other.send_signal(signal.SIGTERM)  # the main one's to heed
        main.kill()
        assert other.communicate(timeout=300)[0] == ""
        assert other.returncode == 0
    finally:
        for process in (main, other):
            process.kill()
            process.communicate()
