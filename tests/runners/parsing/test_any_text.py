"""No text makes a parser raise, answer differently the second time, or take much longer than it is long."""

import time
from collections.abc import Callable
from typing import Any

import pytest
from gistbench.runners.parsing import Parsed, parse_indices, parse_interests, parse_mapping, strip_reasoning
from hypothesis import given
from hypothesis import strategies as st

PARSERS: dict[str, Callable[[str, str | None], Parsed[Any]]] = {
    "interests": lambda text, reason: parse_interests(text, finish_reason=reason),
    "indices": lambda text, reason: parse_indices(text, 6, limit=2, finish_reason=reason),
    "mapping": lambda text, reason: parse_mapping(
        text, ["Jazz", "b: c", "3"], range(1, 51), category_names={1: "Music", 2: "1: 2"}, finish_reason=reason
    ),
}
PIECES = st.sampled_from(
    [
        *"[]{}()\"'\\,:;.-#*`|=0129ab \n\0\ud800",
        *("```json\n", "<think>", "</think>", "NONE", "item_1", "1: 16", "->", "null", "NaN", "//", "\\u12", "Answer:"),
        *('{"interest": "a"', '"item_ids": ["1"]}', '{"interests": [', "Jazz: "),
    ]
)
TEXTS = st.text(st.characters()) | st.lists(PIECES, max_size=30).map("".join)


@pytest.mark.parametrize("parser", PARSERS)
@given(text=TEXTS, reason=st.sampled_from([None, "stop", "length"]))
def test_never_raises_and_is_deterministic(parser: str, text: str, reason: str | None) -> None:
    parsed = PARSERS[parser](text, reason)
    assert parsed == PARSERS[parser](text, reason)
    assert (parsed.value is None) == (parsed.status == "invalid")
    assert bool(parsed.problem) == (parsed.status != "ok")
    parsed.problem.encode()


@given(TEXTS)
def test_reasoning_and_answer_hold_no_more_than_the_text(text: str) -> None:
    reasoning, answer = strip_reasoning(text)
    assert "</think>" not in answer
    assert len(reasoning) + len(answer) <= len(text)


HOSTILE = {
    "open lists": "[" * 100_000,
    "open objects": '{"a":' * 100_000,
    "open interests": '[{"interest":' * 30_000,
    "lists of scalars": "[1] " * 100_000,
    "strings": '["' * 100_000,
    "quotes": '{"a":"' + '" ' * 100_000,
    "quotes and commas": '{"a":"' + '", a ' * 100_000,
    "backslashes": '["' + "\\" * 300_000,
    "spaces": "1 " + " " * 300_000 + "x",
    "fence and spaces": "```" + " " * 300_000 + "x",
    "spaces before lists": " " * 100_000 + "[1]" * 50_000,
    "word and spaces": "interest" + " " * 300_000 + "x",
    "open tags": "<think>" * 50_000,
    "closing tags": "x</think>" * 50_000,
    "one number": "9" * 300_000,
    "one number in a list": "[" + "9" * 300_000 + "]",
    "parentheses": "1: 16 " + "(" * 300_000,
    "bracketed id": '[{"interest":"a","item_ids":["' + "[" * 100_000 + "]" * 100_000 + '"]},]',
    "ranges": "1-5," * 70_000,
    "slashes": "[" + "//" * 100_000,
    "NUL": "\0" * 300_000,
}


@pytest.mark.parametrize("parser", PARSERS)
@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_takes_linear_time(parser: str, text: str) -> None:
    started = time.process_time()
    PARSERS[parser](text, None)
    # A quadratic scan of these takes minutes.
    assert time.process_time() - started < 5


@pytest.mark.parametrize("parser", PARSERS)
@pytest.mark.parametrize("text", ["x", "[", '{"a":'], ids=ascii)
def test_ten_megabytes(parser: str, text: str) -> None:
    started = time.process_time()
    assert PARSERS[parser](text * (10_000_000 // len(text)), None).status == "invalid"
    assert time.process_time() - started < 10


def test_a_loop_of_text_is_no_answer() -> None:
    assert "runs on for" in parse_interests('{"interest": "a"} ' * 100_000).problem
