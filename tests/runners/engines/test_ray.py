"""Ray Data on this machine: with an engine that reads its script from the requests, then with the real one."""

import os
import signal
from contextlib import closing
from importlib.util import find_spec
from typing import Any

import pytest
from gistbench.hf_datasets.errors import ConfigError, EngineError
from gistbench.runners.engines import ENGINES, open_engine, parse_model
from gistbench.runners.requests import Message, Request, Sampling

needs_ray = pytest.mark.skipif(find_spec("ray") is None, reason="RAY NOT TESTED: pip install 'gistbench[ray]'")
needs_no_ray = pytest.mark.skipif(find_spec("ray") is not None, reason="Ray is installed")


@pytest.fixture(scope="module")
def ray_is_here():
    """One local Ray for all tests: it takes seconds to start."""
    import ray

    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112 - 15 starves them beside other tests
    ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    yield
    ray.shutdown()


@pytest.fixture
def engine_of(fake, monkeypatch, ray_is_here):
    monkeypatch.setitem(ENGINES, "fake", ("fake_engine", "FakeConfig", "FakeEngine"))
    engines = []

    def make(**options):
        engines.append(open_engine(parse_model({"engine": "ray", "name": "fake", "inner": "fake", **options})))
        return engines[-1]

    yield make
    for engine in engines:
        engine.close()


def asked(engine, *texts, repeat=0):
    return [
        Request("test", object(), (Message("user", text),), engine.model, repeat=repeat + n)
        for n, text in enumerate(texts)
    ]


def test_options_that_are_not_rays_are_the_inner_engines():
    config = parse_model("ray:org/model?workers=3&max_model_len=4096&temperature=0.5")
    assert (config.workers, config.temperature) == (3, 0.5)
    inner = config.inner_config
    assert (inner.engine, inner.name, inner.max_model_len, inner.temperature) == ("vllm", "org/model", 4096, 0.5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("max_model_length=4096", "max_model_length"),
        ("inner=none", "no engine 'none'"),
        ("inner=openai", "openai cannot be the inner engine"),
        ("data_parallel_size=2", "say workers=N instead"),
        ("workers=0", "workers"),
    ],
)
def test_options_that_nobody_has_are_refused(options, message):
    with pytest.raises(ConfigError, match=message):
        parse_model(f"ray:org/model?{options}")


@needs_no_ray
def test_without_ray_it_says_how_to_install_it():
    with pytest.raises(EngineError, match=r"gistbench\[ray\]"):
        open_engine(parse_model("ray:lexical/hashtag?inner=lexical"))


@needs_ray
def test_every_request_is_answered_once_though_an_actor_is_killed(engine_of):
    engine = engine_of(workers=2)
    n_read = 0

    def requests():
        nonlocal n_read
        for request in asked(engine, *["sleep 0.01"] * 120):
            n_read += 1
            yield request

    keys, pids = [], set()
    for outcome in engine.generate(requests()):
        keys.append(outcome.key)
        assert outcome.status == "ok"
        assert n_read - len(keys) <= 2 * 12 + 1
        pids.add(outcome.text)
        if len(keys) in (20, 40):
            os.kill(int(outcome.text), signal.SIGKILL)
    assert sorted(keys) == sorted(request.key for request in asked(engine, *["sleep 0.01"] * 120))
    assert len(pids) >= 3
    # The next requests find the actors there.
    more = list(engine.generate(iter(asked(engine, *["sleep 0"] * 10, repeat=1000))))
    assert {outcome.text for outcome in more} & pids
    assert len(more) == 10
    described = engine.describe()
    assert (described["engine"], described["inner_engine"], described["workers"]) == ("ray", "fake", 2)


@needs_ray
@pytest.mark.slow
def test_what_kills_every_actor_is_an_error(engine_of):
    engine = engine_of()
    requests = asked(engine, "sleep 0.01", "die", "sleep 0.01")
    outcomes = {outcome.key: outcome for outcome in engine.generate(iter(requests))}
    assert outcomes.keys() == {request.key for request in requests}
    assert outcomes[requests[1].key].status == "error"
    assert "in flight when 2 actors died" in outcomes[requests[1].key].problem


@needs_ray
@pytest.mark.slow
def test_an_engine_that_cannot_run_says_why(engine_of):
    engine = engine_of()
    with pytest.raises(EngineError, match="there is no such model"):
        list(engine.generate(iter(asked(engine, "fail"))))
    with closing(engine.generate(iter(asked(engine, *["sleep 0"] * 50)))) as outcomes:  # and who stops, stops it
        assert next(outcomes).status == "ok"


@needs_ray
@pytest.mark.slow
def test_an_engine_that_takes_no_pauses_answers_block_by_block(engine_of):
    engine = engine_of(takes_pauses=False)
    assert len(list(engine.generate(iter(asked(engine, *["sleep 0"] * 20))))) == 20


@needs_ray
@pytest.mark.engine
@pytest.mark.slow
def test_real_vllm_under_ray_answers_as_it_does_alone(model_folder, ray_is_here):
    options = f"{model_folder}?dtype=float32&max_model_len=2048&max_num_seqs=16"
    alone, actors = (open_engine(parse_model(f"{name}:{options}")) for name in ("vllm", "ray"))
    assert actors.model == alone.model
    requests = [
        Request(
            "test", n, (Message("user", f"Name river number {n}."),), alone.model, Sampling(max_tokens=12), repeat=n
        )
        for n in range(30)
    ]

    def said(engine: Any) -> dict[str, tuple[Any, ...]]:
        with closing(engine):
            return {one.key: (one.status, one.text, one.n_output_tokens) for one in engine.generate(iter(requests))}

    assert said(actors) == said(alone)
    assert actors.describe()["effective_sampling"] == alone.describe()["effective_sampling"] != []
