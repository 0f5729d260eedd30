import json
import logging
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from email.utils import formatdate
from typing import Any

import pytest
from gistbench.hf_datasets.errors import ConfigError, EngineError
from gistbench.runners.engines.openai import OpenAIConfig, OpenAIEngine
from gistbench.runners.execute import execute
from gistbench.runners.parsing import Parsed
from gistbench.runners.requests import STATUSES, Message, Outcome, Request
from gistbench.runners.retries import FIRST, Retry
from gistbench.runners.store import ResponseStore
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

KEY = "sk-test-1234567890abcdef"
FIELDS = ["content", "refusal", "reasoning", "reasoning_content", "tool_calls"]
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters())
    | st.sampled_from(["stop", "length"]),
    lambda values: (
        st.lists(values, max_size=3)
        | st.dictionaries(
            st.sampled_from(["type", "text", "prompt_tokens", "completion_tokens", "total_tokens"]), values
        )
    ),
    max_leaves=6,
)
LIST_SCHEMA = {
    "type": "array",
    "maxItems": 3,
    "items": {
        "type": "object",
        "properties": {"interest": {"type": "string", "minLength": 1}, "maxLength": {"type": "string"}},
        "required": ["interest", "maxLength"],
        "additionalProperties": False,
    },
}


@pytest.fixture(autouse=True)
def surroundings(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("OPENAI_BASE_URL", "HTTP_PROXY", "http_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setattr(OpenAIEngine, "_backoff_s", 0.01)
    yield
    assert [thread for thread in threading.enumerate() if thread.name == "gistbench-openai"] == []


def engine_for(server: Any, name: str = "acme/model-1", **options: Any) -> OpenAIEngine:
    return OpenAIEngine(OpenAIConfig(**{"name": name, "base_url": server.base_url, **options}))


def request_for(engine: OpenAIEngine, prompt: str, **values: Any) -> Request:
    sampling = engine._config.sampling(512)
    return Request("ground", prompt, (Message("user", prompt),), engine.model, sampling, **values)


def ask(engine: OpenAIEngine, *prompts: str, **values: Any) -> list[Outcome]:
    return list(engine.generate(request_for(engine, prompt, **values) for prompt in prompts))


def ask_one(engine: OpenAIEngine, prompt: str, **values: Any) -> Outcome:
    (outcome,) = ask(engine, prompt, **values)
    return outcome


class TestAnswers:
    def test_reads_an_answer(self, server):
        usage = {
            "prompt_tokens": 120,
            "completion_tokens": 40,
            "total_tokens": 160,
            "prompt_tokens_details": {"cached_tokens": 96},
            "completion_tokens_details": {"reasoning_tokens": 25},
        }
        server.answer("p", "item_1, item_4", usage=usage)
        engine = engine_for(server)
        outcome = ask_one(engine, "p")
        assert outcome.seconds > 0
        assert outcome == Outcome(
            key=request_for(engine, "p").key,
            status="ok",
            text="item_1, item_4",
            finish_reason="stop",
            n_prompt_tokens=120,
            n_cached_tokens=96,
            n_output_tokens=40,
            n_reasoning_tokens=25,
            seconds=outcome.seconds,
        )

    @pytest.mark.parametrize(
        "usage",
        [
            {"prompt_tokens": None, "completion_tokens": None},
            {"prompt_tokens_details": None, "completion_tokens_details": None},
            {"prompt_tokens_details": {"cached_tokens": None}, "completion_tokens": "many", "total_tokens": True},
            [],
            "none",
        ],
    )
    def test_usage_may_be_missing(self, server, usage):
        server.answer("p", "x", usage=usage)
        outcome = ask_one(engine_for(server), "p")
        assert outcome.status == "ok"
        assert (outcome.n_prompt_tokens, outcome.n_cached_tokens, outcome.n_output_tokens) == (0, 0, 0)

    def test_output_tokens_include_reasoning_that_is_in_the_total_only(self, server):
        usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 45}
        server.answer("p", "x", usage=usage)
        assert ask_one(engine_for(server), "p").n_output_tokens == 35

    @pytest.mark.parametrize(
        ("name", "content", "message", "reasoning", "text"),
        [
            ("acme/model-1", "<think>7? no</think>\nitem_1", {}, "7? no", "item_1"),
            ("acme/model-1", "item_1", {}, "", "item_1"),
            ("deepseek-ai/DeepSeek-R1", "7? no</think>item_1", {}, "7? no", "item_1"),
            ("deepseek-ai/DeepSeek-R1", "<think>7? no</think>item_1", {}, "7? no", "item_1"),
            ("deepseek-ai/DeepSeek-R1", "item_1", {"reasoning_content": "7? no"}, "7? no", "item_1"),
            ("Qwen/Qwen3-32B", "item_1", {"reasoning": "7? no"}, "7? no", "item_1"),
            ("Qwen/Qwen3-32B", "item_1", {"reasoning": None, "reasoning_content": None}, "", "item_1"),
        ],
    )
    def test_separates_reasoning(self, server, name, content, message, reasoning, text):
        server.answer("p", content, **message)
        outcome = ask_one(engine_for(server, name), "p")
        assert (outcome.status, outcome.reasoning, outcome.text) == ("ok", reasoning, text)

    @pytest.mark.parametrize(
        ("name", "content", "message"),
        [
            ("acme/model-1", "<think>7? per", {}),
            ("deepseek-ai/DeepSeek-R1", "7? per", {}),
            ("acme/model-1", None, {"reasoning_content": "7? per"}),
        ],
    )
    def test_reasoning_that_was_cut_is_no_answer(self, server, name, content, message):
        server.answer("p", content, finish_reason="length", **message)
        outcome = ask_one(engine_for(server, name), "p")
        assert (outcome.status, outcome.reasoning, outcome.text) == ("truncated", "7? per", "")

    def test_hidden_reasoning_leaves_the_answer_alone(self, server):
        usage = {"prompt_tokens": 1, "completion_tokens": 9, "completion_tokens_details": {"reasoning_tokens": 8}}
        server.answer("p", "item_1", usage=usage)
        assert ask_one(engine_for(server, "deepseek-ai/DeepSeek-R1"), "p").text == "item_1"

    @pytest.mark.parametrize(
        ("content", "message", "status", "text", "problem"),
        [
            ("item_0, it", {"finish_reason": "length"}, "truncated", "item_0, it", ""),
            ("", {"finish_reason": "content_filter"}, "refused", "", "content filter"),
            (None, {"refusal": "I cannot\nhelp."}, "refused", "", "I cannot help."),
            ("", {}, "ok", "", ""),
            ("x", {"finish_reason": None}, "ok", "x", ""),
            (
                [{"type": "thinking"}, {"type": "text", "text": "it"}, {"type": "text", "text": "em_1"}],
                {},
                "ok",
                "item_1",
                "",
            ),
            (None, {}, "invalid", "", "no content"),
            (None, {"finish_reason": "tool_calls", "tool_calls": [{"id": "1"}]}, "invalid", "", "tool"),
            ("half a \ud800 pair", {}, "ok", "half a \ufffd pair", ""),
        ],
    )
    def test_tells_what_became_of_an_answer(self, server, content, message, status, text, problem):
        server.answer("p", content, **message)
        outcome = ask_one(engine_for(server), "p")
        assert (outcome.status, outcome.text, outcome.final) == (status, text, True)
        assert problem in outcome.problem
        assert bool(problem) == bool(outcome.problem)
        assert server.n_calls("p") == 1

    @given(message=st.dictionaries(st.sampled_from(FIELDS), JSON), finish_reason=JSON, usage=JSON)
    @settings(max_examples=300, deadline=None)
    def test_reads_any_message(self, message, finish_reason, usage):
        engine = OpenAIEngine(OpenAIConfig(name="m", base_url="http://nowhere/v1"))
        payload = {"choices": [{"message": message, "finish_reason": finish_reason}], "usage": usage}
        outcome = engine._chat.outcome(request_for(engine, "p"), payload, message, 1.0)
        assert outcome.status in STATUSES
        assert (outcome.status in ("invalid", "refused", "error")) == bool(outcome.problem)
        json.dumps(asdict(outcome)).encode()
        (outcome.text + outcome.reasoning + outcome.problem + outcome.finish_reason).encode()
        assert 0 <= outcome.n_output_tokens < 1 << 53


class TestBody:
    def test_sends_what_was_asked(self, server):
        engine = engine_for(server, top_p=0.9, seed=3, api_name="model-one")
        ask(engine, "p")
        (call,) = server.calls
        assert call.headers["Authorization"] == f"Bearer {KEY}"
        assert call.body == {
            "model": "model-one",
            "messages": [{"role": "user", "content": "p"}],
            "max_tokens": 512,
            "temperature": 0.0,
            "top_p": 0.9,
            "seed": 3,
        }

    def test_a_gpt_5_gets_its_own_field_names_and_no_temperature(self, server):
        ask(engine_for(server, "gpt-5-mini"), "p")
        assert server.calls[0].body == {
            "model": "gpt-5-mini",
            "messages": [{"role": "user", "content": "p"}],
            "max_completion_tokens": 512,
        }

    def test_a_profile_adds_fields_of_its_own(self, server):
        ask(engine_for(server, "claude-opus-4-6", profile="claude-4.6:thinking-on"), "p")
        assert server.calls[0].body["thinking"] == {"type": "adaptive"}
        assert "temperature" not in server.calls[0].body

    def test_a_list_is_wrapped_for_openai_and_unwrapped_again(self, server):
        server.answer("p", '{"answer": [{"interest": "a}", "maxLength": "x"}]}')
        outcome = ask_one(engine_for(server), "p", schema={"json": LIST_SCHEMA})
        assert outcome.text == '[{"interest": "a}", "maxLength": "x"}]'
        assert server.calls[0].body["response_format"] == {
            "type": "json_schema",
            "json_schema": {
                "name": "ground",
                "strict": True,
                "schema": {
                    "type": "object",
                    "properties": {
                        "answer": {
                            "type": "array",
                            "items": {
                                "type": "object",
                                "properties": {"interest": {"type": "string"}, "maxLength": {"type": "string"}},
                                "required": ["interest", "maxLength"],
                                "additionalProperties": False,
                            },
                        }
                    },
                    "required": ["answer"],
                    "additionalProperties": False,
                },
            },
        }

    @pytest.mark.parametrize(
        ("content", "finish_reason", "text"),
        [
            ('{ "answer" : [{"interest": "a"}, {"int', "length", '[{"interest": "a"}, {"int'),
            ('[{"interest": "a"}]', "stop", '[{"interest": "a"}]'),
            ('{"interests": []}', "stop", '{"interests": []}'),
        ],
    )
    def test_unwraps_only_what_it_wrapped(self, server, content, finish_reason, text):
        server.answer("p", content, finish_reason=finish_reason)
        assert ask_one(engine_for(server), "p", schema={"json": LIST_SCHEMA}).text == text

    @pytest.mark.parametrize(
        ("schema", "strict"),
        [
            ({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}, False),
            ({"type": "object", "properties": {"a": {}}, "required": [], "additionalProperties": False}, False),
            ({"type": "object", "properties": {"a": {}}, "required": ["a"], "additionalProperties": False}, True),
        ],
    )
    def test_an_object_is_sent_as_it_is_and_strict_only_when_closed(self, server, schema, strict):
        server.answer("p", '{"answer": 1}')
        assert ask_one(engine_for(server), "p", schema={"json": schema}).text == '{"answer": 1}'
        sent = server.calls[0].body["response_format"]["json_schema"]
        assert sent == {"name": "ground", "strict": strict, "schema": schema}

    def test_a_regular_expression_is_not_sent_to_openai(self, server):
        ask(engine_for(server), "p", schema={"regex": "NONE|item_[0-9]"})
        assert set(server.calls[0].body) == {"model", "messages", "max_tokens", "temperature"}

    @pytest.mark.parametrize("schema", [{"regex": "NONE|item_[0-9]"}, {"json": LIST_SCHEMA}])
    def test_vllm_gets_every_schema_in_its_own_field(self, server, schema):
        server.answer("p", '{"answer": [1]}')
        outcome = ask_one(engine_for(server, structured_outputs="vllm"), "p", schema=schema)
        assert server.calls[0].body["structured_outputs"] == schema
        assert "response_format" not in server.calls[0].body
        assert outcome.text == '{"answer": [1]}'


class TestSchemas:
    """A server may ignore a schema without saying so."""

    @pytest.mark.parametrize(
        ("way", "schema", "content", "problem"),
        [
            ("vllm", {"regex": "NONE|item_[0-9]"}, "item_3", ""),
            ("vllm", {"regex": "NONE|item_[0-9]"}, "Item 3, I think", "not of the form asked for"),
            ("vllm", {"json": LIST_SCHEMA}, '[{"interest": "a", "maxLength": "b"}]', ""),
            ("vllm", {"json": LIST_SCHEMA}, '[{"interest": "", "maxLength": "b"}]', "should be non-empty"),
            ("openai", {"json": LIST_SCHEMA}, '{"answer": [{"interest": "a", "maxLength": "b"}]}', ""),
            (
                "openai",
                {"json": LIST_SCHEMA},
                '{"answer": [{"interest": "a"}]}',
                "'maxLength' is a required property",
            ),
            ("openai", {"json": LIST_SCHEMA}, "Here you are: []", "not JSON"),
            # What the server was not told, no answer fails for.
            ("openai", {"json": LIST_SCHEMA}, '{"answer": [{"interest": "", "maxLength": "b"}]}', ""),
            ("openai", {"regex": "NONE|item_[0-9]"}, "Item 3, I think", ""),
        ],
    )
    def test_an_answer_is_checked_again(self, server, way, schema, content, problem):
        server.answer("p", content)
        outcome = ask_one(engine_for(server, structured_outputs=way), "p", schema=schema)
        assert outcome.status == ("invalid" if problem else "ok")
        assert problem in outcome.problem
        assert outcome.text

    def test_a_cut_answer_is_truncated_and_not_invalid(self, server):
        server.answer("p", "item_1, it", finish_reason="length")
        schema = {"regex": "item_[0-9]"}
        assert ask_one(engine_for(server, structured_outputs="vllm"), "p", schema=schema).status == "truncated"


class TestRetries:
    @pytest.mark.parametrize(
        ("failure", "problem"),
        [
            ({"status": 500, "body": {"error": {"message": "out of memory"}}}, "answered 500: out of memory"),
            ({"status": 503, "body": b"<html>\n  upstream\n</html>"}, "answered 503: <html> upstream </html>"),
            ({"status": 408, "body": {"detail": "slow"}}, "answered 408"),
            ({"status": 409, "body": {"error": "conflict"}}, "answered 409: conflict"),
            ({"status": 429, "body": {"message": "busy"}}, "answered 429: busy"),
            ({"delay_s": 5.0}, "No answer within"),
            ({"reset": True}, "connection failed"),
            ({"body": b'{"choices": [{"mess'}, "not a chat completion"),
            ({"body": b""}, "not a chat completion"),
            ({"body": {"choices": []}}, "not a chat completion"),
            ({"body": {"choices": [{"message": None}]}}, "not a chat completion"),
            ({"body": [1]}, "not a chat completion"),
            ({"body": {"error": {"message": "provider down", "code": 502}}}, "answered 502: provider down"),
            ({"body": {"choices": [{"message": {"content": "x"}, "finish_reason": "abort"}]}}, "'abort'"),
        ],
    )
    def test_repeats_what_may_pass(self, server, failure, problem):
        server.reply("p", **failure).answer("p", "ok")
        first, last = ask(engine_for(server, timeout_s=0.5), "p")
        assert (first.status, first.final, last.status, last.final) == ("error", False, "ok", True)
        assert problem in first.problem
        assert first.key == last.key
        assert server.n_calls("p") == 2

    def test_gives_up_after_max_attempts_in_one_layer(self, server):
        server.fail("p", 500, "still broken")
        outcomes = ask(engine_for(server, max_attempts=4), "p")
        assert [outcome.final for outcome in outcomes] == [False, False, False, True]
        assert {outcome.status for outcome in outcomes} == {"error"}
        assert "still broken" in outcomes[-1].problem
        assert server.n_calls("p") == 4

    def test_a_server_that_is_not_there(self):
        config = OpenAIConfig(name="m", base_url="http://127.0.0.1:9/v1", max_attempts=2)
        outcomes = ask(OpenAIEngine(config), "p")
        assert [(o.status, o.final) for o in outcomes] == [("error", False), ("error", True)]
        assert "127.0.0.1:9" in outcomes[-1].problem

    @pytest.mark.parametrize(
        ("headers", "at_least_s", "at_most_s"),
        [
            (lambda: {"Retry-After": "1"}, 1.0, 1.5),
            (lambda: {"Retry-After": formatdate(time.time() + 2, usegmt=True)}, 0.9, 2.5),
            (lambda: {"Retry-After": "5", "retry-after-ms": "300"}, 0.3, 0.8),
            (lambda: {"Retry-After": "soon"}, 0.0, 0.5),
            (lambda: {"Retry-After": "nan"}, 0.0, 0.5),
            (lambda: {"Retry-After": "-3"}, 0.0, 0.5),
            (lambda: {"Retry-After": formatdate(time.time() - 100, usegmt=True)}, 0.0, 0.5),
        ],
    )
    def test_waits_as_long_as_the_server_asks(self, server, headers, at_least_s, at_most_s):
        server.fail("p", 429, headers=headers()).answer("p", "ok")
        assert ask(engine_for(server), "p")[-1].status == "ok"
        first, second = (call.at for call in server.calls)
        assert at_least_s <= second - first <= at_most_s

    def test_any_failing_server_may_ask_to_wait(self, server):
        server.fail("p", 503, headers={"retry-after-ms": "300"}).answer("p", "ok")
        ask(engine_for(server), "p")
        assert server.calls[1].at - server.calls[0].at >= 0.3

    def test_a_server_that_asks_for_an_hour_is_left_alone(self, server):
        server.fail("p", 429, "limit reached", headers={"Retry-After": "3600"})
        outcome = ask_one(engine_for(server), "p")
        assert (outcome.status, outcome.final) == ("error", True)
        assert "limit reached. It asks to wait 3.6e+03 s." in outcome.problem

    @pytest.mark.parametrize("status", [400, 413, 422])
    def test_a_refused_request_fails_alone_and_at_once(self, server, status):
        server.fail("bad", status, f"context exceeded {KEY} " + "x" * 1000)
        outcomes = ask(engine_for(server), "good", "bad")
        assert len(outcomes) == 2
        bad = next(outcome for outcome in outcomes if outcome.status == "refused")
        assert bad.final
        assert bad.problem.startswith(f"The server answered {status}: context exceeded [key] xxx")
        assert len(bad.problem) < 550
        assert server.n_calls("bad") == 1

    @pytest.mark.parametrize(
        ("status", "advice"),
        [(401, "OPENAI_API_KEY"), (403, "OPENAI_API_KEY"), (404, "api_name"), (302, "base_url"), (405, "base_url")],
    )
    def test_what_can_never_work_stops_everything(self, server, status, advice):
        server.answer("good", "ok")
        server.fail("bad", status, f"wrong: {KEY}", delay_s=0.3, headers={"Location": "/v1/elsewhere"})
        engine = engine_for(server, concurrency=4)
        outcomes: list[Outcome] = []
        prompts = ["good", *["bad"] * 50]
        requests = (request_for(engine, prompt, repeat=n) for n, prompt in enumerate(prompts))
        with pytest.raises(EngineError) as caught:
            outcomes.extend(engine.generate(requests))
        message = str(caught.value)
        assert [outcome.text for outcome in outcomes] == ["ok"]
        assert server.base_url in message
        assert f"answered {status}: wrong: [key]" in message
        assert advice in message
        assert KEY not in message
        assert server.n_calls("bad") <= 4

    def test_an_account_without_money_is_no_busy_server(self, server):
        server.reply("p", 429, body={"error": {"message": "You exceeded your quota", "code": "insufficient_quota"}})
        with pytest.raises(EngineError, match=r"You exceeded your quota. The account"):
            ask(engine_for(server), "p")
        assert server.n_calls("p") == 1


class TestConcurrency:
    def test_nothing_is_lost(self, server):
        for n in range(0, 500, 10):
            server.fail(f"p{n}", 500).answer(f"p{n}", f"answer to p{n}")
        engine = engine_for(server, concurrency=32)
        outcomes = ask(engine, *(f"p{n}" for n in range(500)))
        final = {outcome.key: outcome for outcome in outcomes if outcome.final}
        assert len(outcomes) == 550
        assert len(final) == 500
        assert all(final[request_for(engine, f"p{n}").key].text == f"answer to p{n}" for n in range(500))
        assert server.max_in_flight <= 32
        assert set(Counter(call.prompt for call in server.calls).values()) == {1, 2}

    def test_uses_the_concurrency_that_it_may(self, server):
        server.delay_s = 0.05
        ask(engine_for(server, concurrency=20), *map(str, range(60)))
        assert server.max_in_flight == 20

    def test_adapts_to_a_busy_server(self, server):
        server.capacity = 5
        server.delay_s = 0.01
        outcomes = ask(engine_for(server, concurrency=64), *map(str, range(300)))
        n_refused = sum(not outcome.final for outcome in outcomes)
        assert Counter(outcome.status for outcome in outcomes if outcome.final) == {"ok": 300}
        # The first round meets 59 refusals; without adapting every round would.
        assert n_refused < 200

    def test_a_busy_server_is_left_alone_by_all(self, server):
        server.fail("busy", 429, headers={"retry-after-ms": "500"}).answer("busy", "ok")
        server.answer("slow", "ok", delay_s=0.1)
        outcomes = ask(engine_for(server, concurrency=2), "busy", "slow", *map(str, range(10)))
        assert sum(outcome.status == "ok" for outcome in outcomes) == 12
        first, second, *others = (call.at for call in server.calls)
        assert second - first < 0.3
        assert all(at - first >= 0.5 for at in others)

    def test_refusals_that_come_together_count_once(self, server):
        prompts = list(map(str, range(8)))
        for prompt in prompts:
            server.fail(prompt, 429, delay_s=0.1).answer(prompt, "ok", delay_s=0.1)
        engine = engine_for(server, concurrency=8)
        outcomes = engine.generate(request_for(engine, prompt) for prompt in prompts)
        assert [next(outcomes).final for _ in prompts] == [False] * 8
        server.max_in_flight = 0
        assert next(outcomes).final
        assert server.max_in_flight == 4
        assert len(list(outcomes)) == 7

    def test_goes_back_to_full_concurrency(self, server):
        server.fail("busy", 429).answer("busy", "ok")
        server.delay_s = 0.01
        engine = engine_for(server, concurrency=8)
        outcomes = engine.generate(request_for(engine, prompt) for prompt in ["busy", *map(str, range(200))])
        for n_answered, _ in enumerate(outcomes):
            if n_answered == 100:
                server.max_in_flight = 0
        assert server.max_in_flight == 8

    def test_takes_requests_lazily_and_in_the_callers_thread(self, server):
        taken = []

        def requests() -> Iterator[Request]:
            for n in range(100):
                taken.append(threading.current_thread())
                yield request_for(engine, str(n))

        engine = engine_for(server, concurrency=8)
        for n_answered, _ in enumerate(engine.generate(requests())):
            assert len(taken) <= n_answered + 8
        assert set(taken) == {threading.current_thread()}
        assert len(taken) == 100

    def test_no_request_makes_no_call(self, server):
        assert ask(engine_for(server)) == []
        assert server.calls == []

    def test_closing_early_cancels_what_is_in_flight(self, server):
        server.delay_s = 30
        server.answer("first", "ok")
        engine = engine_for(server, concurrency=8)
        outcomes = engine.generate(request_for(engine, prompt) for prompt in ["first", *map(str, range(50))])
        assert next(outcomes).text == "ok"
        before = time.monotonic()
        outcomes.close()
        assert time.monotonic() - before < 2
        assert len(server.calls) <= 9
        time.sleep(0.1)
        assert server._in_flight == 0

    def test_an_error_of_the_caller_closes_it_too(self, server):
        def requests() -> Iterator[Request]:
            yield request_for(engine, "p")
            raise KeyboardInterrupt

        engine = engine_for(server)
        with pytest.raises(KeyboardInterrupt):
            list(engine.generate(requests()))

    def test_two_generators_at_once(self, server):
        engine = engine_for(server)
        pairs = zip(
            engine.generate(request_for(engine, f"a{n}") for n in range(5)),
            engine.generate(request_for(engine, f"b{n}") for n in range(5)),
            strict=True,
        )
        assert len(list(pairs)) == 5


class TestConfig:
    @pytest.mark.parametrize("value", [f'"{KEY}"', f"'{KEY}'", f'  "{KEY}" \n', f"{KEY}\r\n"])
    def test_quotes_around_a_key_are_removed(self, server, monkeypatch, value):
        monkeypatch.setenv("MY_KEY", value)
        ask(engine_for(server, api_key_env="MY_KEY"), "p")
        assert server.calls[0].headers["Authorization"] == f"Bearer {KEY}"

    @pytest.mark.parametrize("value", [None, "", '""'])
    def test_without_a_key_none_is_sent(self, server, monkeypatch, value):
        monkeypatch.delenv("OPENAI_API_KEY")
        if value is not None:
            monkeypatch.setenv("OPENAI_API_KEY", value)
        ask(engine_for(server), "p")
        assert "Authorization" not in server.calls[0].headers

    def test_openais_own_server_is_not_asked_without_a_key(self, monkeypatch):
        monkeypatch.delenv("OPENAI_API_KEY")
        monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
        with pytest.raises(EngineError, match="put one into the variable OPENAI_API_KEY"):
            ask(OpenAIEngine(OpenAIConfig(name="m")), "p")

    def test_a_key_is_shown_nowhere(self, server, caplog):
        caplog.set_level(logging.DEBUG)
        server.fail("p", 500, f"key {KEY}").fail("p", 400, f"key {KEY}")
        engine = engine_for(server)
        problems = [outcome.problem for outcome in ask(engine, "p")]
        assert problems == ["The server answered 500: key [key].", "The server answered 400: key [key]."]
        shown = [repr(engine), repr(vars(engine)), repr(engine._config), json.dumps(engine.describe()), caplog.text]
        assert not any(KEY in text for text in shown)
        assert [record for record in caplog.records if record.levelno > logging.DEBUG] == []

    def test_a_key_is_stored_nowhere(self, server, tmp_path):
        server.fail("0", 500, f"key {KEY}").answer("0", "ok")
        engine = engine_for(server)
        with ResponseStore(tmp_path / "store.db") as store:
            assert len(list(execute(EchoStage(engine, 1), engine, store))) == 1
        assert server.calls[0].headers["Authorization"] == f"Bearer {KEY}"
        kept = b"".join(path.read_bytes() for path in tmp_path.iterdir())
        assert b"[key]" in kept
        assert KEY.encode() not in kept
        assert KEY not in json.dumps(engine.describe())
        assert not any(KEY in json.dumps(call.body) for call in server.calls)

    def test_what_cannot_be_a_key_is_refused_unseen(self, monkeypatch):
        monkeypatch.setenv("OPENAI_API_KEY", "my secret\nkey")
        with pytest.raises(ConfigError, match="OPENAI_API_KEY") as caught:
            OpenAIEngine(OpenAIConfig(name="m"))
        assert "secret" not in str(caught.value)

    @pytest.mark.parametrize(
        "options",
        [
            {"api_key_env": KEY},
            {"base_url": f"https://user:{KEY}@host/v1"},
            {"base_url": f"https://host/v1?key={KEY}"},
            {"base_url": "host/v1"},
            {"base_url": "ftp://host"},
            {"concurrency": 0},
            {"api_key": KEY},
        ],
    )
    def test_refuses_what_it_cannot_use_without_printing_it(self, options):
        with pytest.raises(ValidationError) as caught:
            OpenAIConfig(name="m", **options)
        assert KEY not in str(caught.value)

    def test_the_address(self, monkeypatch):
        assert OpenAIConfig(name="m").base_url == "https://api.openai.com/v1"
        monkeypatch.setenv("OPENAI_BASE_URL", '"http://here:8000/v1/"')
        assert OpenAIConfig(name="m").base_url == "http://here:8000/v1"
        assert OpenAIConfig(name="m", base_url="http://there/v1").base_url == "http://there/v1"

    def test_describes_what_is_served(self, server):
        engine = engine_for(server, "Qwen/Qwen3-32B", context_tokens=4096)
        ask(engine, "p")
        described = engine.describe()
        assert (engine.model.revision, engine.context_tokens) == ("", 4096)
        assert engine.model.profile.startswith("qwen3")
        assert described["served_as"] == ["served-model"]
        assert described["options"]["base_url"] == server.base_url
        assert described["revision"].startswith("unknown")
        assert engine_for(server, revision="2026-11").describe()["revision"] == "2026-11"
        engine.close()

    def test_options_that_only_concern_the_calls_are_not_keyed(self, server):
        one, other = engine_for(server), engine_for(server, concurrency=1, timeout_s=5, api_name="other")
        assert request_for(one, "p").key == request_for(other, "p").key

    def test_the_module_needs_no_client_library(self):
        code = (
            "import sys; sys.modules['aiohttp'] = None\n"
            "import importlib.util as u; found = u.find_spec\n"
            "import gistbench.runners.engines.openai.engine as module\n"
            "module.find_spec = lambda name: None if name == 'aiohttp' else found(name)\n"
            "config = module.OpenAIConfig(name='m')\n"
            "try:\n    module.OpenAIEngine(config)\n"
            "except Exception as error:\n    print(type(error).__name__, error)\n"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert done.stdout.startswith("EngineError")
        assert "pip install 'gistbench[openai]'" in done.stdout


@dataclass
class EchoStage:
    """A stage that asks numbered questions, and reads any answer that is not empty."""

    engine: OpenAIEngine
    n_subjects: int
    name: str = "echo"

    def subjects(self) -> list[int]:
        return list(range(self.n_subjects))

    def request(self, subject: int, retry: Retry = FIRST) -> Request:
        return request_for(self.engine, f"{subject}", repeat=retry.n)

    def parse(self, subject: int, outcome: Outcome) -> Parsed[str]:
        return Parsed("ok", outcome.text) if outcome.text else Parsed("invalid", None, "It is empty.")

    def follow_up(self, subject: int, parsed: Parsed[str]) -> int | None:
        return None


class TestWithTheStore:
    def test_every_subject_ends_and_a_second_run_repeats_only_errors(self, server, tmp_path):
        server.fail("3", 429, headers={"retry-after-ms": "20"}).answer("3", "three")
        server.fail("4", 500).fail("4", 502).answer("4", "four")
        server.reply("5", delay_s=3).answer("5", "five")
        server.reply("6", body=b'{"choi').answer("6", "six")
        server.reply("7", reset=True).answer("7", "seven")
        server.answer("8", None, refusal="No.")
        server.fail("9", 400, "too long")
        server.fail("10", 500).fail("10", 500).fail("10", 500).answer("10", "ten")
        engine = engine_for(server, concurrency=4, max_attempts=3, timeout_s=0.4)
        stage = EchoStage(engine, 40)
        with ResponseStore(tmp_path / "store.db") as store:
            answered = {answer.subject: answer for answer in execute(stage, engine, store)}
            assert sorted(answered) == list(range(40))
            statuses = {subject: answer.outcome.status for subject, answer in answered.items()}
            assert {s: v for s, v in statuses.items() if v != "ok"} == {8: "refused", 9: "refused", 10: "error"}
            assert answered[4].outcome.text == "four"
            attempts = {n: [o.status for o in store.attempts(stage.request(n).key)] for n in range(11)}
            assert attempts[2] == ["ok"]
            assert all(attempts[n] == ["error", "ok"] for n in (3, 5, 6, 7))
            assert attempts[4] == ["error", "error", "ok"]
            assert attempts[8] == ["refused"]
            assert attempts[9] == ["refused"]
            assert attempts[10] == ["error", "error", "error"]

        before = len(server.calls)
        with ResponseStore(tmp_path / "store.db") as store:
            again = {answer.subject: answer.outcome.status for answer in execute(stage, engine, store)}
        assert [call.prompt for call in server.calls[before:]] == ["10"]
        assert again == {**statuses, 10: "ok"}

    def test_a_wrong_key_stops_the_run(self, server, tmp_path):
        server.fail("2", 401, "Incorrect API key provided", delay_s=0.2)
        engine = engine_for(server, concurrency=2)
        stage = EchoStage(engine, 200)
        with ResponseStore(tmp_path / "store.db") as store:
            with pytest.raises(EngineError, match="Incorrect API key provided"):
                list(execute(stage, engine, store))
            kept = store.served(stage.request(subject).key for subject in stage.subjects())
        assert 2 <= len(kept) < 200
        assert server.n_calls("2") == 1
