import io
import os

import pytest
from gistbench.hf_datasets.errors import ConfigError
from gistbench.runners import profiles
from gistbench.runners.engines import parse_model
from gistbench.runners.profiles import (
    PROFILES_VARIABLE,
    Profile,
    find_profile,
    list_profiles,
    load_profiles,
    profiles_table,
    settle_options,
    split_answer,
    switch_thinking,
    template_options,
    use_profiles,
)
from pydantic import ValidationError
from rich.console import Console


@pytest.fixture
def write(tmp_path):
    def write(text, name="mine.toml"):
        path = tmp_path / name
        path.write_text(text)
        return path

    return write


@pytest.mark.parametrize(
    ("model", "profile"),
    [
        # Table 23 of the GISTBench paper, its judge and its closed models; the judge of the other paper
        ("deepseek-ai/DeepSeek-R1", "deepseek-r1"),
        ("openai/gpt-oss-120b", "gpt-oss-120b"),
        ("Qwen/Qwen3-32B", "qwen3-32b"),
        ("Qwen/Qwen3-VL-235B-A22B-Instruct", "qwen3-vl-235b-a22b"),
        ("deepseek-ai/DeepSeek-R1-Distill-Llama-70B", "deepseek-r1-distill-llama-70b"),
        ("Qwen/Qwen2.5-72B-Instruct", "qwen2.5-72b"),
        ("meta-llama/Llama-3.1-8B-Instruct", "llama-3.1-8b"),
        ("Qwen/Qwen2-7B-Instruct", "qwen2-7b"),
        ("meta-llama/Llama-3.3-70B-Instruct", "llama-3.3-70b"),
        ("gpt-5", "gpt-5"),
        ("claude-opus-4-6", "claude-4.6"),
        ("gemini-3.5-flash", "gemini-3.5-flash"),
        ("nvidia/Llama-4-Scout-17B-16E-Instruct-FP4", "llama-4-scout-fp4"),
        # their families, and others
        ("deepseek-ai/DeepSeek-R1-Distill-Qwen-7B", "deepseek-r1-distill"),
        ("deepseek-ai/DeepSeek-R1-0528", "deepseek-r1"),
        ("Qwen/Qwen3-8B", "qwen3"),
        ("Qwen/Qwen3-VL-8B-Instruct", "default"),
        ("openai/gpt-oss-20b", "gpt-oss"),
        ("openai/gpt-5", "gpt-5"),
        ("o3-mini", "openai-reasoning"),
        ("/models/deepseek-r1/SmolLM2", "default"),
        ("lexical/overlap", "default"),
    ],
)
def test_found_by_the_models_name(model, profile):
    assert find_profile(model).name == profile


def test_found_by_its_own_name():
    assert find_profile("anything", "qwen3").name == "qwen3"
    with pytest.raises(ConfigError, match=r"no model profile 'qwen9'\. There are: default, deepseek-r1"):
        find_profile("anything", "qwen9")


VERSIONS = {
    "default/1": "eb25b125",
    "deepseek-r1-distill-llama-70b/1": "4394aa35",
    "deepseek-r1-distill/1": "4394aa35",
    "deepseek-r1/1": "4394aa35",
    "qwen3-32b/1": "eb25b125",
    "qwen3-32b:thinking-off/1": "08f49c22",
    "qwen3/1": "eb25b125",
    "qwen3:thinking-off/1": "08f49c22",
    "qwen3-vl-235b-a22b/1": "eb25b125",
    "qwen2.5-72b/1": "eb25b125",
    "qwen2-7b/1": "eb25b125",
    "llama-3.1-8b/1": "eb25b125",
    "llama-3.3-70b/1": "eb25b125",
    "llama-4-scout-fp4/1": "eb25b125",
    "gpt-oss-120b/1": "e64e6485",
    "gpt-oss/2": "e64e6485",
    "gpt-5/1": "eb25b125",
    "openai-reasoning/1": "eb25b125",
    "claude-4.6/1": "eb25b125",
    "claude-4.6:thinking-on/1": "318b29f5",
    "gemini-3.5-flash/1": "eb25b125",
}


def test_what_can_change_an_answer_has_a_new_version():
    """A digest that differs under an old version: raise the version in profiles.toml, then write both down here."""
    assert {str(profile): profile.digest for profile in list_profiles().values()} == VERSIONS


# What a model of each profile writes: the text, what a server gave apart, and the reasoning and answer in it.
R1 = [
    ("7? no</think>\n\nitem_1", "", "7? no", "item_1"),  # opened by the template
    ("<think>\n7? no\n</think>\n\nitem_1", "", "7? no", "item_1"),
    ("7? per", "", "7? per", ""),  # cut
    ("item_1", "7? no", "7? no", "item_1"),
]
TAGS = [
    ("<think>\n7? no\n</think>\n\nitem_1", "", "7? no", "item_1"),
    ("<think>\n7? per", "", "7? per", ""),
    ("7? no</think>item_1", "", "7? no", "item_1"),
    ("\n\nitem_1", "7? no\n", "7? no", "item_1"),
]
THINKING_OFF = [("item_1", "", "", "item_1"), ("<think>\n\n</think>\n\nitem_1", "", "", "item_1")]
HARMONY = [
    (
        "<|channel|>analysis<|message|>7? no<|end|><|start|>assistant<|channel|>final<|message|>item_1<|return|>",
        "",
        "7? no",
        "item_1",
    ),
    ("<|channel|>analysis<|message|>7? no<|end|><|channel|>final<|message|>item_1", "", "7? no", "item_1"),
    ("<|channel|>analysis<|message|>7? per", "", "7? per", ""),
    ("analysis7? noassistantfinalitem_1", "", "7? no", "item_1"),
    ("item_1", "7? no", "7? no", "item_1"),
]
PLAIN = [("item_1", "", "", "item_1"), ("item_1, item_2\n", "", "", "item_1, item_2")]
GOLDEN = {
    "default": [*PLAIN, *TAGS],
    "deepseek-r1-distill-llama-70b": R1,
    "deepseek-r1-distill": R1,
    "deepseek-r1": R1,
    "qwen3-32b": TAGS,
    "qwen3-32b:thinking-off": THINKING_OFF,
    "qwen3": TAGS,
    "qwen3:thinking-off": THINKING_OFF,
    "qwen3-vl-235b-a22b": PLAIN,
    "qwen2.5-72b": PLAIN,
    "qwen2-7b": PLAIN,
    "llama-3.1-8b": PLAIN,
    "llama-3.3-70b": PLAIN,
    "llama-4-scout-fp4": PLAIN,
    "gpt-oss-120b": HARMONY,
    "gpt-oss": HARMONY,
    "gpt-5": PLAIN,
    "openai-reasoning": PLAIN,
    "claude-4.6": PLAIN,
    "claude-4.6:thinking-on": PLAIN,
    "gemini-3.5-flash": PLAIN,
}


class TestAnswers:
    def test_every_profile_has_answers_in_its_raw_format(self):
        assert list(GOLDEN) == list(list_profiles())

    @pytest.mark.parametrize(
        ("name", "text", "given", "reasoning", "answer"),
        [(name, *answer) for name, answers in GOLDEN.items() for answer in answers],
    )
    def test_are_split(self, name, text, given, reasoning, answer):
        assert split_answer(text, list_profiles()[name], reasoning=given) == (reasoning, answer)

    def test_end_marks_are_no_part_of_them(self):
        profile = Profile(name="x", version=1, strips=["<|im_end|>", "</s>"])
        assert split_answer("<think>a</think>b</s><|im_end|>\n", profile) == ("a", "b")
        assert split_answer("b<|im_end|>", profile, reasoning="a") == ("a", "b")

    @pytest.mark.parametrize(
        ("text", "reasoning", "answer"),
        [("item_1", "", "item_1"), ("7? no</think>item_1", "7? no", "item_1"), ("<think>7? per", "7? per", "")],
    )
    def test_a_server_may_have_taken_the_reasoning_out(self, text, reasoning, answer):
        profile = find_profile("deepseek-ai/DeepSeek-R1")
        assert split_answer(text, profile, may_lack_reasoning=True) == (reasoning, answer)

    def test_models_that_reason_in_their_text_are_not_held_to_a_schema(self):
        free = {profile.name.partition(":")[0] for profile in list_profiles().values() if not profile.structured}
        assert free == {
            name for name in GOLDEN if name.startswith(("deepseek", "gpt-oss", "qwen3")) and "vl" not in name
        } - {
            "qwen3:thinking-off",
            "qwen3-32b:thinking-off",
        }

    def test_models_that_reason_have_room_for_it(self):
        assert all(bool(p.reasoning_tokens) == (p.thinking == "on") for p in list_profiles().values())

    def test_templates_are_told_the_same_date_on_every_day(self):
        options = template_options(find_profile("x", "qwen3:thinking-off"))
        assert options["strftime_now"]("%Y-%m-%d") == "2026-01-01"
        assert options["enable_thinking"] is False


class TestOptions:
    def test_thinking_is_a_profile_of_its_own_and_so_part_of_every_key(self):
        off = settle_options({"name": "Qwen/Qwen3-32B", "thinking": "off"})
        assert str(find_profile(off["name"], off["profile"])) == "qwen3-32b:thinking-off/1"
        assert settle_options(off | {"thinking": "on"})["profile"] == "qwen3-32b"
        assert settle_options({"name": "Qwen/Qwen3-32B", "thinking": True})["profile"] == "qwen3-32b"
        assert switch_thinking(find_profile("claude-opus-4-6"), "on").api_options == {"thinking": {"type": "adaptive"}}

    @pytest.mark.parametrize(
        ("options", "problem"),
        [
            ({"name": "deepseek-ai/DeepSeek-R1", "thinking": "off"}, "'deepseek-r1': its reasoning is always on"),
            ({"name": "org/model", "thinking": "on"}, "'default': its reasoning is not known to be switchable"),
            ({"name": "org/model", "thinking": "maybe"}, "thinking is on or off, not 'maybe'"),
            ({"name": "org/model", "sampling": "best"}, "sampling is greedy or recommended, not 'best'"),
            ({"name": "org/model", "sampling": "recommended"}, "'default' recommends no sampling"),
        ],
    )
    def test_what_a_profile_cannot_do_is_an_error(self, options, problem):
        with pytest.raises(ConfigError, match=problem):
            settle_options(options)

    def test_recommended_sampling_is_used_only_where_it_is_asked_for(self):
        model = {"engine": "vllm", "name": "Qwen/Qwen3-32B"}
        assert parse_model(settle_options(model)).sampling(64).temperature == 0
        assert parse_model(settle_options(model | {"sampling": "greedy"})).sampling(64).temperature == 0
        asked = parse_model(settle_options(model | {"sampling": "recommended", "top_k": "5"})).sampling(64)
        assert (asked.temperature, asked.top_p, asked.top_k) == (0.6, 0.95, 5)
        off = parse_model(settle_options(model | {"sampling": "recommended", "thinking": "off"})).sampling(64)
        assert (off.temperature, off.top_p, off.top_k) == (0.7, 0.8, 20)

    def test_other_options_are_left_alone(self):
        assert settle_options({"name": "x", "dtype": "auto"}) == {"name": "x", "dtype": "auto"}


MINE = """
[mine]
version = 3
match = "^smol"
reasoning = ["<r>", "</r>"]

[qwen3-32b]
like = "qwen3-32b"
version = 7
match = "qwen3-32b"
reasoning_tokens = 100

[qwen3-32b.thinking_off]
chat_template_options = { think = false }
"""


class TestFiles:
    def test_the_users_profiles_go_before_those_of_the_package(self, write):
        use_profiles(write(MINE))
        assert find_profile("org/SmolLM2").reasoning == ("<r>", "</r>")
        own = find_profile("Qwen/Qwen3-32B")
        assert (own.version, own.reasoning_tokens, own.context_tokens, own.recommended.top_k) == (7, 100, 40_960, 20)
        assert own.parameters_b is None
        assert switch_thinking(own, "off").chat_template_options == {"think": False}
        assert find_profile("Qwen/Qwen3-8B").version == 1
        names = list(list_profiles())
        assert names[:4] == ["mine", "qwen3-32b", "qwen3-32b:thinking-off", "default"]
        assert len(names) == len(set(names))

    def test_they_are_found_by_the_environment_in_every_process(self, write, monkeypatch):
        first, second = write(MINE), write("[mine]\nversion = 4\n[other]\nversion = 1", "other.toml")
        monkeypatch.setenv(PROFILES_VARIABLE, os.pathsep.join([str(first), str(second)]))
        assert (find_profile("x", "mine").version, find_profile("x", "other").version) == (3, 1)
        use_profiles(second)
        assert find_profile("x", "mine").version == 4
        assert os.environ[PROFILES_VARIABLE] == os.pathsep.join([str(second), str(first)])

    def test_a_changed_file_changes_every_key_though_its_version_stands(self, write):
        before, after = (
            load_profiles(write(text))["mine"] for text in (MINE, MINE.replace('["<r>", "</r>"]', '["<s>", "</s>"]'))
        )
        assert str(before).startswith("mine/3-")
        assert str(before) != str(after)
        same = load_profiles(write(MINE + "\n[more]\nversion = 1\nnote = 'x'"))["mine"]
        assert str(same) == str(before)

    @pytest.mark.parametrize(
        ("text", "problem"),
        [
            (
                "[a]\nversion = 1\ntemperature = 0.5",
                r"'a' cannot be used: temperature: Extra inputs are not permitted\. Keys: like",
            ),
            ("[a]\nversion = 1\napi_key = 'sk-secret'", "'a' cannot be used: api_key: Extra inputs are not permitted"),
            ("[a]\nmatch = 'x'", r"'a' cannot be used: version: Field required"),
            ("[a]\nversion = 0", r"'a' cannot be used: version: .* \(found 0\)"),
            ("[a]\nversion = 1\nmatch = '('", "'a' cannot be used: match: .*no regular expression"),
            ("[a]\nversion = 1\nreasoning = ['', 'x']", "'a' cannot be used: reasoning: .*must not be empty"),
            ("[a]\nversion = 1\nrecommended = {top_p = 2}", r"'a' cannot be used: recommended\.top_p"),
            ("[a]\nversion = 1\nname = 'b'", "'a' cannot be used: name: is not to be given"),
            ("[a]\nversion = 1\nlike = 'z'", r"'a' is like 'z'\. Profiles that it can be like: a, default"),
            ("[a]\nversion = 1\nlike = 'b'\n[b]\nversion = 1\nlike = 'a'", "likes in a circle to 'a'"),
            ("[a]\nversion = 1\nlike = 5", "'a': like must be the name of a profile"),
            ("[a]\nversion = 1\nthinking_on = true", "'a': thinking_on must be a table"),
            ("[a]\nversion = 1\n[a.thinking_on]\nx = 1", "'a:thinking-on' cannot be used: x: Extra"),
            ("a = 1", "'a' is no table"),
            ("['a:b']\nversion = 1", "profile 'a:b': a name has letters"),
            ("[a", "is not TOML"),
        ],
    )
    def test_an_error_names_file_profile_and_key(self, write, text, problem):
        with pytest.raises(ConfigError, match=problem) as caught:
            use_profiles(write(text))
        assert "mine.toml" in str(caught.value)
        assert PROFILES_VARIABLE not in os.environ

    def test_a_file_that_is_not_there_is_an_error(self, tmp_path, monkeypatch):
        with pytest.raises(ConfigError, match=r"gone\.toml cannot be read"):
            load_profiles(tmp_path / "gone.toml")
        monkeypatch.setenv(PROFILES_VARIABLE, str(tmp_path / "gone.toml"))
        with pytest.raises(ConfigError, match=r"gone\.toml cannot be read"):
            find_profile("x")


def test_what_was_not_run_is_labelled():
    tested = [profile.name for profile in list_profiles().values() if profile.tested]
    assert tested == ["default"]
    named = [profile for profile in list_profiles().values() if profile.tensor_parallel]
    assert all("not run here" in profile.note for profile in named)


def test_the_table_shows_every_profile():
    console = Console(width=240, record=True, file=io.StringIO())
    console.print(profiles_table())
    shown = console.export_text()
    assert all(str(profile) in shown for profile in list_profiles().values())
    assert "671 B (37 active)" in shown
    assert "16 x 80 GB, 8 x 141 GB" in shown


def test_unknown_keys_are_errors():
    with pytest.raises(ValidationError, match="Extra inputs"):
        Profile(name="x", version=1, temperature=0.5)


def test_the_files_of_the_package_and_the_docs_agree(repo_root):
    text = (repo_root / "docs" / "engines.md").read_text(encoding="utf-8")
    assert all(f"`{name}`" in text for name in profiles.list_profiles() if ":" not in name)
