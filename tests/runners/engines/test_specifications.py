import pytest
from gistbench.hf_datasets.errors import ConfigError
from gistbench.runners.engines import ENGINES, ModelConfig, open_engine, parse_model
from gistbench.runners.requests import Message, ModelRef, Request


def named(specification):
    config = parse_model(specification)
    return config.engine, config.name, config.revision


@pytest.mark.parametrize(
    ("specification", "expected"),
    [
        ("lexical/hashtag", ("lexical", "lexical/hashtag", None)),
        ("lexical:lexical/hashtag", ("lexical", "lexical/hashtag", None)),
        ("openai/gpt-oss-120b", ("vllm", "openai/gpt-oss-120b", None)),
        ("org/model@main", ("vllm", "org/model", "main")),
        ("vllm:org/model@refs/pr/3", ("vllm", "org/model", "refs/pr/3")),
        ("openai:gpt-5", ("openai", "gpt-5", None)),
        ("openai:gpt-5@2026-01-01", ("openai", "gpt-5", "2026-01-01")),
        ("vllm:/models/SmolLM2", ("vllm", "/models/SmolLM2", None)),
    ],
)
def test_a_specification_names_engine_model_and_revision(specification, expected):
    assert named(specification) == expected


def test_options_get_their_types():
    config = parse_model("vllm:org/model@main?max_model_len=8192&temperature=0.6&structured=false")
    assert (config.max_model_len, config.temperature, config.structured) == (8192, 0.6, False)


def test_an_address_is_an_option_like_any_other():
    config = parse_model("openai:judge?base_url=http://localhost:8000/v1&concurrency=4")
    assert (config.base_url, config.concurrency) == ("http://localhost:8000/v1", 4)


def test_a_folder_may_have_an_at_sign_in_its_path(tmp_path):
    folder = tmp_path / "model@v2"
    folder.mkdir()
    assert named(f"vllm:{folder}") == ("vllm", str(folder), None)


def test_a_table_of_options_is_a_specification_too():
    assert parse_model({"name": "org/model", "revision": "main", "max_model_len": 8192}) == parse_model(
        "org/model@main?max_model_len=8192"
    )
    assert parse_model({"name": "lexical/phrase"}).engine == "lexical"


@pytest.mark.parametrize(
    ("specification", "message"),
    [
        ("openai:gpt-5?concurency=4", r"concurency: Extra inputs.*Options of openai: .*concurrency"),
        ("org/model?max_model_len=long", r"max_model_len: .*integer"),
        ("org/model?max_model_len", r"after \? stand OPTION=VALUE pairs"),
        ("org/model?temperature=-1", r"temperature: .*greater than or equal to 0"),
        ("lexical/magic", r"no lexical model 'lexical/magic'; there are lexical/hashtag, lexical/tfidf"),
        ("lexical:hashtag", r"no lexical model 'hashtag'; there are lexical/hashtag"),
        ("vllm:", r"name: .*at least 1 character"),
        ("", r"name: .*at least 1 character"),
        ({"engine": "vllm"}, r"name: Field required"),
        ({"name": "a", "engine": "vlm"}, r"There is no engine 'vlm'.*There are: lexical, vllm, ray, openai, transf"),
    ],
)
def test_what_cannot_be_used_is_named_with_what_there_is(specification, message):
    with pytest.raises(ConfigError, match=message):
        parse_model(specification)


def test_configurations_do_not_change_and_describe_their_options():
    config = parse_model("lexical/hashtag")
    assert isinstance(config, ModelConfig)
    with pytest.raises(ValueError, match="frozen"):
        config.name = "another"


def test_every_engine_can_be_imported_without_its_library():
    for name in ENGINES:
        model = "lexical/phrase" if name == "lexical" else "m"
        assert parse_model({"engine": name, "name": model}).engine == name


@pytest.mark.parametrize("accepts", [True, False])
def test_sampling_leaves_out_a_temperature_that_a_model_refuses(accepts, monkeypatch):
    config = parse_model("org/model?temperature=0.5&top_p=0.9&seed=3")
    if not accepts:
        from gistbench.runners.engines import base

        profile = base.find_profile("org/model").model_copy(update={"accepts_temperature": False})
        monkeypatch.setattr(base, "find_profile", lambda *_: profile)
    sampling = config.sampling(512)
    assert (sampling.max_tokens, sampling.temperature) == (512, 0.5 if accepts else None)
    assert (sampling.top_p, sampling.seed) == (0.9, 3)


def test_a_model_has_its_own_longest_answer():
    assert parse_model("org/model?max_tokens=100").sampling(512).max_tokens == 100


def test_the_lexical_engine_refuses_what_it_cannot_answer():
    engine = open_engine(parse_model("lexical/hashtag"))
    assert engine.model == ModelRef("lexical/hashtag", "1", "lexical/1")
    request = Request("ground", "an interest", (Message("user", "item_0 | a"),), engine.model)
    (outcome,) = engine.generate([request])
    assert (outcome.key, outcome.status) == (request.key, "refused")
    assert outcome.problem == "lexical/hashtag cannot answer ground requests."


def test_the_lexical_engine_takes_requests_one_by_one():
    engine = open_engine(parse_model("lexical/overlap"))
    taken = []

    def requests():
        for n in range(5):
            taken.append(n)
            yield Request("ground", n, (Message("user", f"item_0 | jazz {n}\n\nInterest: jazz"),), engine.model)

    outcomes = engine.generate(requests())
    assert next(outcomes).text == "item_0"
    assert taken == [0]
    assert len(list(outcomes)) == 4
