import re

import pytest
from gistbench.hf_datasets.errors import ConfigError
from gistbench.runners.engines.openai import OpenAIConfig
from gistbench.runners.requests import ModelRef
from gistbench.runners.retries import FIRST
from gistbench.runners.stages.base import BYTES_PER_TOKEN, NAME_BYTES, Asker, items_schema, split_to_budget
from hypothesis import given
from hypothesis import strategies as st


def slices(*pairs):
    return [slice(first, last) for first, last in pairs]


def test_without_a_limit_all_texts_go_together():
    assert list(split_to_budget(["a", "b"], None, 100)) == slices((0, 2))
    assert list(split_to_budget([], None, 100)) == []
    assert list(split_to_budget([], 100, 10)) == []


def test_a_part_ends_exactly_where_the_budget_does():
    # 3 characters a token: a budget of 30 tokens is 90 characters; each text costs 6 + 24.
    assert list(split_to_budget(["x" * 6] * 7, 130, 100)) == slices((0, 3), (3, 6), (6, 7))
    assert list(split_to_budget(["x" * 7] * 4, 130, 100)) == slices((0, 2), (2, 4))


def test_a_text_beyond_the_budget_stands_alone():
    assert list(split_to_budget(["x", "y" * 500, "z"], 130, 100)) == slices((0, 1), (1, 2), (2, 3))


@given(st.lists(st.text("x", max_size=80), max_size=40), st.integers(0, 300), st.integers(0, 200))
def test_parts_cover_all_texts_once_and_in_order(texts, context, reserved):
    if context <= reserved:
        with pytest.raises(ConfigError, match="leaves no room for items"):
            list(split_to_budget(texts, context, reserved))
        return
    parts = list(split_to_budget(texts, context, reserved))
    assert [i for part in parts for i in range(part.start, part.stop)] == list(range(len(texts)))
    for part in parts:
        cost = sum(len(text) + NAME_BYTES for text in texts[part])
        assert part.stop - part.start == 1 or cost <= (context - reserved) * BYTES_PER_TOKEN


@pytest.mark.parametrize(
    ("n_items", "n_picks", "accepted", "refused"),
    [
        (3, 3, ["NONE", "item_0", "item_2, item_0, item_1"], ["", "item_10", "item_0,item_1", "none", "item_0."]),
        (50, 2, ["item_49", "item_0, item_49"], ["item_0, item_1, item_2", "item_100"]),
        (10, 1, ["item_9", "NONE"], ["item_0, item_1", "item_10"]),
        (1000, 1000, [", ".join(f"item_{i}" for i in range(1000))], ["item_1000"]),
    ],
)
def test_the_schema_of_picks(n_items, n_picks, accepted, refused):
    pattern = re.compile(items_schema(n_items, n_picks)["regex"])
    assert all(pattern.fullmatch(answer) for answer in accepted)
    assert not any(pattern.fullmatch(answer) for answer in refused)


def ask(**options):
    config = OpenAIConfig(base_url="http://localhost/v1", **options)
    model = ModelRef(config.name, "", "default/1")
    return Asker.of("ground", model, config).ask("x", FIRST, {"regex": "NONE"}, items="item_0 | x", interest="y")


def test_a_request_carries_the_prompts_answer_length_and_the_schema():
    request = ask(name="org/model")
    assert (request.stage, request.about, request.schema) == ("ground", "x", {"regex": "NONE"})
    assert (request.sampling.max_tokens, request.sampling.temperature) == (512, 0.0)
    assert ask(name="org/model", max_tokens=99, temperature=0.7, seed=3).sampling.max_tokens == 99


def test_a_model_that_reasons_first_is_not_held_to_a_schema():
    assert ask(name="deepseek-ai/DeepSeek-R1").schema is None
    assert ask(name="org/model", structured=False).schema is None
    assert ask(name="deepseek-ai/DeepSeek-R1", structured=True).schema == {"regex": "NONE"}
    assert ask(name="gpt-5").sampling.temperature is None
