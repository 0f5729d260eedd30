import pytest
from gistbench.hf_datasets.errors import ConfigError
from gistbench.runners.parsing import strip_reasoning
from gistbench.runners.profiles import Profile, find_profile, list_profiles
from pydantic import ValidationError


@pytest.mark.parametrize(
    ("model", "profile"),
    [
        ("deepseek-ai/DeepSeek-R1", "deepseek-r1"),
        ("deepseek-ai/DeepSeek-R1-Distill-Llama-70B", "deepseek-r1"),
        ("Qwen/Qwen3-32B", "qwen3"),
        ("Qwen/Qwen3-VL-235B-A22B-Instruct", "default"),
        ("Qwen/Qwen2.5-72B-Instruct", "default"),
        ("meta-llama/Llama-3.3-70B-Instruct", "default"),
        ("gpt-5", "openai-reasoning"),
        ("o3-mini", "openai-reasoning"),
        ("openai/gpt-oss-120b", "gpt-oss"),
        ("openai/gpt-5", "openai-reasoning"),
        ("/models/deepseek-r1/SmolLM2", "default"),
        ("lexical/overlap", "default"),
    ],
)
def test_found_by_the_models_name(model, profile):
    assert find_profile(model).name == profile


def test_found_by_its_own_name():
    assert find_profile("anything", "qwen3").name == "qwen3"
    with pytest.raises(ConfigError, match=r"no model profile 'qwen9'\. There are: default, deepseek-r1, qwen3"):
        find_profile("anything", "qwen9")


def test_a_profile_names_its_version_which_is_part_of_every_key():
    assert str(find_profile("Qwen/Qwen3-32B")) == "qwen3/1"


def test_models_that_reason_in_their_text_are_not_held_to_a_schema():
    assert [p.name for p in list_profiles().values() if not p.structured] == ["deepseek-r1", "qwen3", "gpt-oss"]


def test_of_harmony_only_the_final_channel_is_the_answer():
    profile = find_profile("openai/gpt-oss-120b")
    raw = "<|channel|>analysis<|message|>item_7? no<|end|><|start|>assistant<|channel|>final<|message|>item_1"
    reasoning, answer = strip_reasoning(raw, open_tag=profile.reasoning[0], close_tag=profile.reasoning[1])
    assert (reasoning, answer) == ("item_7? no<|end|>", "item_1")
    cut, nothing = strip_reasoning(raw[:50], open_tag=profile.reasoning[0], close_tag=profile.reasoning[1])
    assert (cut.startswith("item_7?"), nothing) == (True, "")


def test_unknown_keys_are_errors():
    with pytest.raises(ValidationError, match="Extra inputs"):
        Profile(name="x", version=1, temperature=0.5)
