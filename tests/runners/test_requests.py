import hashlib
import math
from dataclasses import replace

import pytest
from gistbench.runners.requests import FINISHED, Message, ModelRef, Outcome, Request, Sampling, canonical_json
from hypothesis import given
from hypothesis import strategies as st

REQUEST = Request(
    stage="ground",
    about="user 7",
    messages=(Message("system", "s"), Message("user", "u é")),
    model=ModelRef("org/model", "abc", "default/1"),
    sampling=Sampling(max_tokens=16, temperature=0.0),
    schema={"regex": "NONE"},
)


def test_the_key_is_the_sha256_of_the_canonical_json_of_what_determines_the_answer():
    text = (
        '{"messages":[["system","s"],["user","u é"]],'
        '"model":{"name":"org/model","profile":"default/1","revision":"abc"},'
        '"repeat":0,"sampling":{"max_tokens":16,"repetition_penalty":null,"seed":null,"temperature":0.0,'
        '"top_k":null,"top_p":null},'
        '"schema":{"regex":"NONE"}}'
    )
    assert REQUEST.key == hashlib.sha256(text.encode()).hexdigest()


@pytest.mark.parametrize(
    "change",
    [
        {"messages": (Message("system", "s"), Message("user", "u e"))},
        {"messages": (Message("user", "s"), Message("user", "u é"))},
        {"model": ModelRef("org/model-FP8", "abc", "default/1")},
        {"model": ModelRef("org/model", "abd", "default/1")},
        {"model": ModelRef("org/model", "abc", "default/2")},
        {"sampling": Sampling(max_tokens=17)},
        {"sampling": Sampling(max_tokens=16, temperature=None)},
        {"sampling": Sampling(max_tokens=16, top_p=0.9)},
        {"sampling": Sampling(max_tokens=16, top_k=5)},
        {"sampling": Sampling(max_tokens=16, repetition_penalty=1.1)},
        {"sampling": Sampling(max_tokens=16, seed=1)},
        {"schema": None},
        {"schema": {"regex": "NONE|item_0"}},
        {"repeat": 1},
    ],
)
def test_all_that_determines_the_answer_is_keyed(change):
    assert replace(REQUEST, **change).key != REQUEST.key


@pytest.mark.parametrize("change", [{"stage": "map"}, {"about": "user 8"}])
def test_what_does_not_determine_the_answer_is_not_keyed(change):
    assert replace(REQUEST, **change).key == REQUEST.key


def test_the_order_of_a_schemas_keys_does_not_count():
    one, other = ({"type": "array", "maxItems": 3}, {"maxItems": 3, "type": "array"})
    assert replace(REQUEST, schema={"json": one}).key == replace(REQUEST, schema={"json": other}).key


@given(st.text(st.characters(codec=None)))
def test_any_text_has_a_key(text):
    assert len(replace(REQUEST, messages=(Message("user", text),)).key) == 64


def test_nan_has_no_canonical_json():
    with pytest.raises(ValueError, match="not JSON compliant"):
        canonical_json({"temperature": math.nan})


def test_models_read_as_name_and_short_revision():
    assert str(ModelRef("org/model", "0123456789abcdef", "default/1")) == "org/model@0123456789ab"
    assert str(ModelRef("gpt-5", "", "default/1")) == "gpt-5"


def test_an_error_is_not_finished():
    assert set(FINISHED) == {"ok", "truncated", "invalid", "refused"}
    assert Outcome("k", "ok").final
