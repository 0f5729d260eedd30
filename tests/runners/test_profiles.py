import pytest
from gistbench.hf_datasets.errors import ConfigError
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
        ("openai/gpt-oss-120b", "default"),
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
    assert [p.name for p in list_profiles().values() if not p.structured] == ["deepseek-r1", "qwen3"]


def test_unknown_keys_are_errors():
    with pytest.raises(ValidationError, match="Extra inputs"):
        Profile(name="x", version=1, temperature=0.5)
