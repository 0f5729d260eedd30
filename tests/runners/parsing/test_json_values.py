import json
from typing import Any

import pytest
from gistbench.runners.parsing.json_values import _Reader, find_values, read_whole
from hypothesis import given
from hypothesis import strategies as st

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
JSON = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20).filter(
    lambda value: isinstance(value, (list, dict))
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": [1, 2,],}', {"a": [1, 2]}),
        ("{'a': 'it''s', 'b': 'Rock 'n' roll'}", {"a": "it''s", "b": "Rock 'n' roll"}),
        ("{'a': None, 'b': True, 'c': False}", {"a": None, "b": True, "c": False}),
        ("{a: 1, b_c: 'x'}", {"a": 1, "b_c": "x"}),
        ('{"a": "line\nbreak"}', {"a": "line\nbreak"}),
        ('{"a": "the "best", he said"}', {"a": 'the "best", he said'}),
        ('[{"a": 1} {"a": 2}]', [{"a": 1}, {"a": 2}]),
        ('[{"a": ["1", "2"}, {"a": []}]', [{"a": ["1", "2"]}, {"a": []}]),
        ('["1", // one\n "2"]', ["1", "2"]),
        ('["http://x", 1,]', ["http://x", 1]),
        (r'["caf\u00e9 \ud83c\udfb8", "a\_b", "\alpha\d", "\n",]', ["café 🎸", "a_b", "\\alpha\\d", "\n"]),
        ("[-1.5e3, 0, 12.0,]", [-1500.0, 0, 12.0]),
    ],
)
def test_reads_what_can_only_mean_one_thing(text: str, value: object) -> None:
    (found,) = find_values(text)
    assert (found.state, found.value) == ("complete", value)
    assert text[found.start : found.end] == text


@pytest.mark.parametrize("text", ["no brackets", "[final]", "(see [a] and {b})", "[1 2]", "{,}", "[1,,2]", "[007]"])
def test_prose_in_brackets_is_no_value(text: str) -> None:
    assert find_values(text) == []


@pytest.mark.parametrize("text", ['{"a": oops}', '[{"a": 1}, oops]', '{"a": 1 "b": 2}', '{"a": }', '[{"a": 1]'])
def test_broken_objects_are_reported(text: str) -> None:
    assert find_values(text)[0].state == "broken"


def test_values_inside_what_was_not_one_are_found() -> None:
    assert [found.value for found in find_values('Result [see "below": [{"a": "x"}] and [3]')] == [[{"a": "x"}], [3]]


def test_a_cut_value_keeps_what_was_complete() -> None:
    (found,) = find_values('x [{"a": 1}, {"b": [2')
    assert found.state == "cut"
    assert [(container.content, container.key) for container in found.open] == [
        ([{"a": 1}], None),
        ({}, "b"),
        ([2], None),
    ]


def test_read_whole_takes_nothing_else() -> None:
    assert read_whole("[1] x") is None
    assert read_whole("3") is None
    assert read_whole("[" * 100_000) is None
    whole = read_whole(' {"a": 1, "a": 2} ', pairs_hook=tuple)
    assert whole is not None
    assert whole.value == (("a", 1), ("a", 2))


@given(JSON, st.sampled_from([None, 2]), st.booleans())
def test_reads_json_as_json_does(value: Any, indent: int | None, ascii_only: bool) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    found = _Reader(text, 0).read()
    assert (found.state, found.end) == ("complete", len(text))
    assert found.value == json.loads(text)


@given(JSON, st.data())
def test_no_beginning_of_json_is_broken_or_complete(value: Any, data: st.DataObject) -> None:
    text = json.dumps(value)
    cut = text[: data.draw(st.integers(1, len(text) - 1))]
    assert _Reader(cut, 0).read().state == "cut"
