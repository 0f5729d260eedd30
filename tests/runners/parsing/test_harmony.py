import pytest
from gistbench.runners.parsing.harmony import strip_harmony
from hypothesis import given
from hypothesis import strategies as st

ANALYSIS = "<|channel|>analysis<|message|>7? no<|end|>"
FINAL = "<|channel|>final<|message|>item_1<|return|>"


@pytest.mark.parametrize(
    ("text", "reasoning", "answer"),
    [
        (f"{ANALYSIS}<|start|>assistant{FINAL}", "7? no", "item_1"),
        (f"<|start|>assistant{ANALYSIS}<|start|>assistant{FINAL}", "7? no", "item_1"),
        (f"{ANALYSIS}{FINAL}", "7? no", "item_1"),  # without the start token
        (f"{ANALYSIS}assistant{FINAL}", "7? no", "item_1"),  # without the token, with the role
        (f"assistant{ANALYSIS}{FINAL}", "7? no", "item_1"),
        (f"7? no<|end|><|start|>assistant{FINAL}", "7? no", "item_1"),  # the template had opened the analysis
        (FINAL, "", "item_1"),
        ("<|channel|>final <|constrain|>json<|message|>[1]<|return|>", "", "[1]"),
        ("<|start|>assistant<|message|>item_1<|end|>", "", "item_1"),
        (f"{ANALYSIS}<|channel|>commentary<|message|>I look<|end|>{FINAL}", "7? no\nI look", "item_1"),
        (f"{ANALYSIS}<|channel|>commentary to=functions.f <|constrain|>json<|message|>{{}}<|call|>", "7? no\n{}", ""),
        ("<|channel|>analysis<|message|>7? per", "7? per", ""),
        ("<|channel|>analysis", "", ""),
        (f"{ANALYSIS}<|start|>assistant<|channel|>final<|message|>item_1, it", "7? no", "item_1, it"),
        (f"{ANALYSIS}<|start|>assistant<|chan", "7? no", ""),
        ("item_1<|return|>", "", "item_1"),
        ("item_1", "", "item_1"),
        ("analysis of a life", "", "analysis of a life"),
        ("analysisThe user. No.assistantfinalitem_1", "The user. No.", "item_1"),
        ("analysisThe user. Pe", "The user. Pe", ""),
        ("", "", ""),
    ],
)
def test_only_the_final_channel_is_the_answer(text, reasoning, answer):
    assert strip_harmony(text) == (reasoning, answer)


PARTS = ["<|start|>", "assistant", "<|channel|>", "analysis", "final", "<|message|>", "<|end|>", "<|return|>", "x "]


@given(st.lists(st.sampled_from(PARTS)).map("".join))
def test_reads_any_text_and_leaves_no_mark_in_it(text):
    reasoning, answer = strip_harmony(text)
    assert "<|" not in reasoning + answer
