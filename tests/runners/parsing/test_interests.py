import json
import unicodedata
from typing import Any

import pytest
from gistbench.runners.parsing import ExtractedInterest, ExtractedInterests, Parsed, parse_interests
from hypothesis import assume, given
from hypothesis import strategies as st

Pairs = list[tuple[str, tuple[str, ...]]]


def pairs(parsed: Parsed[ExtractedInterests]) -> Pairs:
    assert parsed.value is not None, parsed.problem
    return [(found.name, found.item_ids) for found in parsed.value.interests]


A, B = '{"interest": "a", "item_ids": ["1"]}', '{"interest": "b", "item_ids": ["2"]}'
READ_A: Pairs = [("a", ("1",))]
READ_B: Pairs = [("b", ("2",))]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # Where the answer is.
        (f'{{"interests": [{A}, {B}]}}', READ_A + READ_B),
        (f'{{"Interests": {A}}}', READ_A),
        (f'{{"user": "u", "name": "n", "interests": [{A}]}}', READ_A),
        (f'{{"results": [{A}]}}', READ_A),
        (f'{{"interests": [{A}]}}\n{{"interests": [{B}]}}', READ_A + READ_B),
        (f"[[{A}], [{B}]]", READ_A + READ_B),
        (f"{A},\n{B}", READ_A + READ_B),
        (f"1. {A}\n2. {B}", READ_A + READ_B),
        (f"- {A}\n- {B}", READ_A + READ_B),
        (f"```json\n[{A}]\n```\n```json\n[{B}]\n```", READ_A + READ_B),
        (f"Draft: [{A}]\nBetter: [{B}]", READ_B),
        (f'[{A}]\nNote: {{"total": 1}} of [2]', READ_A),
        (f'Format {{"interest": ..., "item_ids": [...]}}:\n[{A}]', READ_A),
        (f"Draft: [{A}, oops\nFinal: [{B}]", READ_B),
        (f"[]\n[{A}]", READ_A),
        (f"thoughts [{B}] </think> [{A}]", READ_A),
        ('[{"interest": "the <think> tag"}]', [("the <think> tag", ())]),
        # Names and ids.
        (
            '[{"interest": "a", "item_ids": ["1", "2"]}, {"interest": " a ", "item_ids": ["3", "1"]}]',
            [("a", ("1", "2", "3"))],
        ),
        ('[{"Name": "a", "Item IDs": [1]}]', READ_A),
        ('[{"interest-name": "a", "ids": [1]}]', READ_A),
        ('[{"interest": "a", "evidence": [1]}]', READ_A),
        ('[{"interest": "a", "evidence": "likes it, a lot"}]', [("a", ())]),
        ('[{"interest": "a", "item_ids": null, "items": ["1"]}]', READ_A),
        ('[{"interest": "a", "item_ids": "1"}]', READ_A),
        ('[{"interest": "a", "item_ids": 1}]', READ_A),
        ('[{"interest": "a", "item_ids": "1, 2"}]', [("a", ("1", "2"))]),
        ('[{"interest": "a", "item_ids": "[\'1\', \'2\']"}]', [("a", ("1", "2"))]),
        (
            '[{"interest": "a", "item_ids": ["[1]", " (2) ", "\'3\'", "[\\"4\\"]", "#5"]}]',
            [("a", ("1", "2", "3", "4", "#5"))],
        ),
        ('[{"interest": "a", "item_ids": [12.0, 12, 9007199254740993]}]', [("a", ("12", "9007199254740993"))]),
        ('[{"interest": "a\\ud800", "item_ids": ["\\udfff1"]}]', [("a\ufffd", ("\ufffd1",))]),
        ("[{'interest': \"it's\", 'item_ids': ['1'],}]", [("it's", ("1",))]),
    ],
)
def test_reads(text: str, expected: Pairs) -> None:
    parsed = parse_interests(text)
    assert (parsed.status, parsed.problem) == ("ok", "")
    assert pairs(parsed) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f'[{A}, {B}, {{"interest": "c", "item_ids": ["3"', READ_A + READ_B),
        (f"[{A}, {B}", READ_A + READ_B),
        (f'{{"interests": [{A}, {{"inter', READ_A),
        (f'{{"interests": [{A}], "no', READ_A),
        (f'{A}\n{{"inter', READ_A),
        (f"```json\n[{A}, ", READ_A),
        (f"Draft: [{B}]\nFinal: [{A}, {{", READ_A),
        (f'[{A}, {{"item_ids": [{{"name": "never an interest"}}', READ_A),
    ],
)
def test_cut_off_answers_keep_complete_interests(text: str, expected: Pairs) -> None:
    parsed = parse_interests(text)
    assert parsed.status == "truncated"
    assert pairs(parsed) == expected
    assert "cut off" in parsed.problem


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "empty"),
        ("<think>[" + A, "reasoning only"),
        ("I cannot do that.", "begins with 'I cannot"),
        ("The list [] seems to be empty, please send it.", "No list"),
        ('["Jazz", "Rock"]', "No list"),
        ('[{"interest": "a", "item_', "before its first interest"),
        ("[", "before its first interest"),
        (f"[{A}, oops, {B}]", "breaks off at character 39, before 'oops"),
        (f'[{{"interest": oops}}, {B}]', "breaks off"),
        (f"Draft: [{A}]\nOn reflection: []", "ends in an empty list"),
        (f'Draft: [{A}]\nFinal: [{{"interest": "b', "before its first interest"),
        ('[{"interest": 7}, {"interest": "  "}]', "None of the 2 list members"),
    ],
)
def test_invalid(text: str, problem: str) -> None:
    parsed = parse_interests(text)
    assert (parsed.status, parsed.value) == ("invalid", None)
    assert problem in parsed.problem


@pytest.mark.parametrize(
    "text", ["[]", "```json\n[]\n```", '{"interests": []}', "Sure:\n[]", "Answer: `[]`.", "[]\nThat is all."]
)
def test_an_explicit_empty_list_is_no_interests(text: str) -> None:
    assert parse_interests(text) == Parsed("ok", ExtractedInterests((), 0))


def test_bad_members_and_ids_are_counted() -> None:
    text = '[{"interest": "a", "item_ids": [true, null, 1.5, [1], {"id": 1}, " ", "2"]}, null, "b", {"item_ids": []}]'
    found = (ExtractedInterest("a", ("2",)),)
    assert parse_interests(text).value == ExtractedInterests(found, n_dropped=3, n_ids_dropped=6)


def test_finish_reason_length() -> None:
    assert parse_interests(f"[{A}]", finish_reason="length").status == "ok"
    assert parse_interests(f"{A}\n{B}", finish_reason="length").status == "truncated"
    assert "it was cut off" in parse_interests("Let me think", finish_reason="length").problem


def test_reasoning_tags() -> None:
    assert pairs(parse_interests(f"<r>[{B}]</r>x [{A}]", reasoning_tags=("<r>", "</r>"))) == READ_A
    assert pairs(parse_interests(f"<think> [{A}]", reasoning_tags=None)) == READ_A


NAMES = st.text(min_size=1).filter(
    lambda name: any(unicodedata.category(mark) not in ("Cc", "Cf", "Zs", "Zl", "Zp") for mark in name)
)
IDS = st.integers().map(str) | st.text("abc123-_:", min_size=1)
INTERESTS = st.lists(
    st.fixed_dictionaries({"interest": NAMES, "item_ids": st.lists(IDS | st.integers())}, optional={"why": st.text()})
)


def merged(members: list[dict[str, Any]]) -> Pairs:
    by_name: dict[str, dict[str, None]] = {}
    for member in members:
        by_name.setdefault(member["interest"].strip(), {}).update(dict.fromkeys(map(str, member["item_ids"])))
    return [(name, tuple(ids)) for name, ids in by_name.items()]


@given(INTERESTS, st.sampled_from([None, 2]), st.booleans(), st.sampled_from(["{}", "```json\n{}\n```", "Here:\n{}"]))
def test_json_round_trip(members: list[dict[str, Any]], indent: int | None, ascii_only: bool, frame: str) -> None:
    text = frame.replace("{}", json.dumps(members, indent=indent, ensure_ascii=ascii_only))
    assume("think>" not in text or not frame.startswith("Here"))
    parsed = parse_interests(text)
    assert parsed.status == "ok"
    assert pairs(parsed) == merged(members)


@given(INTERESTS, st.booleans(), st.data())
def test_a_prefix_gives_a_prefix_and_invents_nothing(
    members: list[dict[str, Any]], wrap: bool, data: st.DataObject
) -> None:
    text = json.dumps({"interests": members} if wrap else members)
    assume("think>" not in text)
    parsed = parse_interests(text[: data.draw(st.integers(0, len(text) - 1))])
    assert parsed.status in ("truncated", "invalid")
    read = pairs(parsed) if parsed.value is not None else []
    assert read in [merged(members[:n]) for n in range(len(members) + 1)]
