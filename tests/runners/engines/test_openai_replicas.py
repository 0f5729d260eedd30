"""Several servers of one model: who answers what, and what becomes of a server that fails."""

import asyncio
import time
from collections import Counter
from contextlib import ExitStack

import pytest
from gistbench.hf_datasets.errors import EngineError
from gistbench.runners.engines import parse_model
from gistbench.runners.engines.openai import OpenAIConfig, OpenAIEngine
from gistbench.runners.engines.openai import replicas as module
from gistbench.runners.engines.openai.gate import Gate
from gistbench.runners.engines.openai.replicas import Replicas
from gistbench.runners.requests import Message, Request

from .conftest import FakeServer

NOBODY = "http://127.0.0.1:9/v1"


@pytest.fixture
def servers():
    started = [FakeServer(), FakeServer()]
    yield started
    for server in started:
        server.stop()


@pytest.fixture(autouse=True)
def surroundings(monkeypatch):
    for name in ("OPENAI_BASE_URL", "OPENAI_API_KEY", "HTTP_PROXY", "http_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(OpenAIEngine, "_backoff_s", 0.01)
    monkeypatch.setattr(Replicas, "first_rest_s", 0.3)


def engine_for(*base_urls, **options):
    return OpenAIEngine(OpenAIConfig(name="m", base_url=",".join(base_urls), **options))


def requests_for(engine, n, group=lambda number: ""):
    sampling = engine._config.sampling(64)
    return [
        Request("ground", n, (Message("user", f"{group(n)}{n}"),), engine.model, sampling, group=group(n))
        for n in range(n)
    ]


def prompts(server):
    return [call.prompt for call in server.calls]


class TestConfig:
    @pytest.mark.parametrize(
        "value",
        [
            "http://a/v1,http://b/v1/",
            " http://a/v1 http://b/v1\n",
            "http://a/v1, http://b/v1, http://a/v1",
            ["http://a/v1", "http://b/v1"],
        ],
    )
    def test_several_addresses(self, value):
        assert OpenAIConfig(name="m", base_url=value).base_urls == ("http://a/v1", "http://b/v1")

    def test_of_a_specification(self):
        config = parse_model("openai:m?base_url=http://a/v1,http://b/v1&concurrency=4")
        assert config.base_urls == ("http://a/v1", "http://b/v1")

    @pytest.mark.parametrize("value", ["", ",", "http://a/v1,b/v1", "http://a/v1,http://u:p@b/v1", ["http://a", 3]])
    def test_each_is_checked(self, value):
        with pytest.raises(ValueError, match="base_url"):
            OpenAIConfig(name="m", base_url=value)


class TestWhoAnswers:
    def test_all_have_the_load(self, servers):
        for server in servers:
            server.delay_s = 0.02
        engine = engine_for(*(server.base_url for server in servers), concurrency=4)
        assert len(list(engine.generate(requests_for(engine, 80)))) == 80
        assert [server.max_in_flight for server in servers] == [4, 4]
        assert min(len(server.calls) for server in servers) >= 20

    def test_requests_that_begin_alike_stay_together(self, servers):
        for server in servers:
            server.delay_s = 0.01
        engine = engine_for(*(server.base_url for server in servers), concurrency=8)
        requests = requests_for(engine, 120, group=lambda number: f"group {number // 6}: ")
        assert len(list(engine.generate(requests))) == 120
        homes = {}
        for server in servers:
            for prompt in prompts(server):
                homes.setdefault(prompt.split(":")[0], set()).add(server.base_url)
        assert len(homes) == 20
        # When many wait at a server, the other computes the beginning once more rather than stand idle.
        assert sum(len(home) == 1 for home in homes.values()) >= 14
        assert min(len(server.calls) for server in servers) >= 30

    def test_one_large_group_uses_all(self, servers):
        for server in servers:
            server.delay_s = 0.02
        engine = engine_for(*(server.base_url for server in servers), concurrency=4)
        list(engine.generate(requests_for(engine, 80, group=lambda number: "all")))
        assert [server.max_in_flight for server in servers] == [4, 4]

    def test_the_choice(self):
        replicas = Replicas(["http://a/v1", "http://b/v1"], 2)
        a, b = replicas._all
        with replicas.choose("x") as first, replicas.choose("y") as second:
            assert (first, second) == (a, b)
            with replicas.choose("y") as third, replicas.choose("") as fourth:
                assert (third, fourth) == (b, a)
        assert (a.n_open, b.n_open) == (0, 0)

    def test_a_group_waits_at_its_server_for_a_while_and_then_gets_another(self):
        replicas = Replicas(["http://a/v1", "http://b/v1"], 4)
        a, b = replicas._all
        with ExitStack() as held:

            def hold(group: str, n: int) -> list[str]:
                return [held.enter_context(replicas.choose(group)).base_url for _ in range(n)]

            # The gates count calls, which nobody makes here: both have room all the time.
            assert hold("x", 3) == [a.base_url] * 3
            assert hold("y", 3) == [b.base_url] * 3
            assert hold("x", 3) == [a.base_url] * 3
            assert hold("x", 4) == [b.base_url] * 3 + [a.base_url]
        assert (a.n_open, b.n_open) == (0, 0)

    def test_groups_are_forgotten_in_time(self, monkeypatch):
        monkeypatch.setattr(module, "MAX_GROUPS", 10)
        replicas = Replicas(["http://a/v1", "http://b/v1"], 2)
        for number in range(100):
            with replicas.choose(str(number)):
                pass
        assert list(replicas._homes) == [str(number) for number in range(90, 100)]


class TestServersThatFail:
    def test_one_that_is_not_there_is_left_out(self, servers):
        engine = engine_for(NOBODY, servers[0].base_url, concurrency=4, max_attempts=3)
        outcomes = list(engine.generate(requests_for(engine, 60, group=lambda number: str(number % 5))))
        final = [outcome for outcome in outcomes if outcome.final]
        assert Counter(outcome.status for outcome in final) == {"ok": 60}
        assert len(servers[0].calls) == 60
        # The calls that were under way when it was found out, and a few that tried it again.
        assert len(outcomes) - 60 < 20

    def test_one_that_comes_back_is_used_again(self, servers):
        good, flaky = servers
        good.delay_s = 0.02
        for n in range(4):
            for _ in range(2):
                flaky.reply(f"{n}", reset=True)
            flaky.answer(f"{n}", "late")
        engine = engine_for(flaky.base_url, good.base_url, concurrency=4)
        outcomes = list(engine.generate(requests_for(engine, 300)))
        assert Counter(outcome.status for outcome in outcomes if outcome.final) == {"ok": 300}
        assert len(flaky.calls) > 20

    def test_without_any_the_requests_end_as_errors(self):
        engine = engine_for(NOBODY, "http://127.0.0.1:10/v1", max_attempts=3)
        outcomes = list(engine.generate(requests_for(engine, 5)))
        assert Counter(outcome.final for outcome in outcomes) == {False: 10, True: 5}
        assert {outcome.status for outcome in outcomes} == {"error"}

    def test_a_busy_one_does_not_slow_the_other(self, servers):
        busy, free = servers
        busy.capacity = 0
        free.delay_s = 0.02
        engine = engine_for(busy.base_url, free.base_url, concurrency=4, max_attempts=8)
        outcomes = list(engine.generate(requests_for(engine, 60)))
        assert Counter(outcome.status for outcome in outcomes if outcome.final)["ok"] >= 50
        assert free.max_in_flight == 4

    def test_a_wrong_key_names_the_server(self, servers):
        servers[1].fail("0", 401).fail("1", 401)
        servers[0].delay_s = 0.2  # so that the other one is asked too
        engine = engine_for(*(server.base_url for server in servers), concurrency=1)
        with pytest.raises(EngineError, match=servers[1].base_url):
            list(engine.generate(requests_for(engine, 2)))

    def test_rests_double_and_one_request_tries(self, monkeypatch):
        now = [100.0]
        monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
        replicas = Replicas(["http://a/v1", "http://b/v1"], 4)
        a, b = replicas._all
        assert replicas.failed(a, now[0], is_down=True)
        assert a.rest_s == pytest.approx(0.3)
        assert replicas.failed(a, now[0] - 1, is_down=True)  # a call that was under way
        assert a.rest_s == pytest.approx(0.3)
        with replicas.choose("") as chosen:
            assert chosen is b
        now[0] += 0.4
        with replicas.choose("") as trying, replicas.choose("") as other:
            assert (trying, other) == (a, b)
            replicas.failed(a, now[0], is_down=True)
        assert a.rest_s == pytest.approx(0.6)
        a.answered()
        assert a.rest_s == 0

    def test_a_broken_connection_now_and_then_is_no_reason(self):
        replicas = Replicas(["http://a/v1", "http://b/v1"], 4)
        a, _ = replicas._all
        for _ in range(5):
            replicas.failed(a, time.monotonic(), is_down=False)
            replicas.failed(a, time.monotonic(), is_down=False)
            a.answered()
        assert a.rests_until == 0
        for _ in range(3):
            replicas.failed(a, time.monotonic(), is_down=False)
        assert a.rests_until > time.monotonic()

    def test_those_who_wait_for_it_go_elsewhere(self):
        async def wait() -> list[bool]:
            gate = Gate(1)
            assert await gate.enter()
            waiting = [asyncio.create_task(gate.enter()) for _ in range(3)]
            await asyncio.sleep(0)
            gate.send_away()
            results = await asyncio.gather(*waiting)
            gate.leave()
            assert await gate.enter()
            return results

        assert asyncio.run(wait()) == [False] * 3

    def test_one_who_left_the_queue_takes_no_turn(self):
        async def wait() -> bool:
            gate = Gate(1)
            assert await gate.enter()
            gone, waiting = (asyncio.create_task(gate.enter()) for _ in range(2))
            await asyncio.sleep(0)
            gone.cancel()
            await asyncio.sleep(0)
            gate.leave()
            return await waiting and not gate.is_open

        assert asyncio.run(wait())
