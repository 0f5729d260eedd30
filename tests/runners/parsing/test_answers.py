import pytest
from gistbench.runners.parsing import strip_reasoning
from gistbench.runners.parsing.answers import clean_text, strip_fence


@pytest.mark.parametrize(
    ("text", "reasoning", "answer"),
    [
        ("0, 2", "", "0, 2"),
        ("", "", ""),
        ("<think>a</think>b", "a", "b"),
        ("a</think>b", "a", "b"),
        ("<think>a", "a", ""),
        ("b<think>a", "a", "b"),
        ("<think></think>b", "", "b"),
        ("<think>a</think>b<think>c</think>d", "a\nc", "b\nd"),
        ("1<think>a</think>2", "a", "1\n2"),
        ("<think>a <think> b</think>c", "a <think> b", "c"),
        ("<think>a<think>b</think>c</think>d", "a<think>b\nc", "d"),
        ("a</think>b</think>c", "a\nb", "c"),
        ("<THINK>a</THINK>b", "", "<THINK>a</THINK>b"),
    ],
)
def test_strip_reasoning(text: str, reasoning: str, answer: str) -> None:
    assert strip_reasoning(text) == (reasoning, answer)


def test_strip_reasoning_with_other_tags() -> None:
    text = "<|channel|>analysis hm<|end|>0, 2"
    assert strip_reasoning(text, open_tag="<|channel|>analysis", close_tag="<|end|>") == ("hm", "0, 2")


def test_empty_tags_are_refused() -> None:
    with pytest.raises(ValueError, match="must not be empty"):
        strip_reasoning("a", open_tag="")


@pytest.mark.parametrize(
    ("answer", "inside"),
    [
        ("```json\n[]\n```", "[]"),
        ("```\n0, 2\n```", "0, 2"),
        ("```0, 2```", "0, 2"),
        ("```json\n[]", "[]"),
        ("~~~\n[]\n~~~", "[]"),
        ("```", ""),
        ("no fence", "no fence"),
        ("text\n```\n[]\n```", "text\n```\n[]\n```"),
    ],
)
def test_strip_fence(answer: str, inside: str) -> None:
    assert strip_fence(answer) == inside


def test_clean_text_can_be_stored_as_utf8() -> None:
    assert clean_text(" a\ud800b ").encode() == "a\ufffdb".encode()
