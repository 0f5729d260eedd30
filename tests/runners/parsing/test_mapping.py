import pytest
from gistbench.runners.parsing import parse_mapping
from hypothesis import given
from hypothesis import strategies as st

NAMES = ["Jazz", "Chess", "Tea, green"]
CATEGORIES = {16: "Music", 31: "Arts, Crafts", 4: "Children's Books", 7: "Board Games", 8: "Music"}
IDS = CATEGORIES.keys() | {50}
BY_ID = {"Jazz": 16, "Chess": 31}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1: 16\n2: 31", BY_ID),
        ("1: 16; 2: 31", BY_ID),
        ("1 = 16, 2 => 31", BY_ID),
        ("- 1: 16\n* 2: 31", BY_ID),
        ("**1.** 16\n**2.** **31**", BY_ID),
        ("1 - 16\n2 → 31", BY_ID),
        ("Interest #1: Category 16\ninterest 2: cat. #31", BY_ID),
        ("1: 16 (music)\n2: 31 (whatever)", BY_ID),
        ("1: 16 - Music\n2: 31.", BY_ID),
        ("2: 31\n1: 16", BY_ID),
        ("Here is the mapping:\n\n1: 16\n2: 31\n\nI hope this helps.", BY_ID),
        ("```\n1: 16\n2: 31\n```", BY_ID),
        ("1. Jazz: 16\n2. Chess -> 31", BY_ID),
        ("jazz: 16\nCHESS = 31", BY_ID),
        ('{"1": 16, "2": "31"}', BY_ID),
        ('{"Interest 1": "Category 16", "Chess": "arts, crafts"}', BY_ID),
        ('{"mapping": {"1": 16, "2": 31}}', BY_ID),
        ('Sure:\n```json\n{"1": 16,\n "2": 31}\n```', BY_ID),
        ("<think>1: 4</think>1: 16\n2: 31", BY_ID),
        ("1: 16\n1: 16\n2: 31", BY_ID),
        ("1: 16\n2: 31\n4: 7", BY_ID),
        ("1: board games", {"Jazz": 7}),
        ('1: "Board  Games"', {"Jazz": 7}),
        ("1: Arts, Crafts, 2: 4", {"Jazz": 31, "Chess": 4}),
        ("1: Board Games (7)", {"Jazz": 7}),
        ("3: Children's Books", {"Tea, green": 4}),
        ('{"Tea, green": 4}', {"Tea, green": 4}),
        ("1: 0\n2: OTHER\n3: none", {"Jazz": 0, "Chess": 0, "Tea, green": 0}),
        ("16\n31\n4", {"Jazz": 16, "Chess": 31, "Tea, green": 4}),
        ("1: 50", {"Jazz": 50}),
        # What is not clear is left out, to be asked again.
        ("1: 16\n2: 99", {"Jazz": 16}),
        ("1: 16\n2: 31 or 4", {"Jazz": 16}),
        ("1: 16\n2: 31\n2: 31 or 4", {"Jazz": 16}),
        ("1: 16\n2: 31, 4", {"Jazz": 16}),
        ("1: 16\n2: 31.5", {"Jazz": 16}),
        ("1: 16\n2: -31", {"Jazz": 16}),
        ("1: 16\n2: 31 (Board Games)", {"Jazz": 16}),
        ("1: 16\n2: 31 - Games", {"Jazz": 16}),
        ("1: 16\n2: Board Games (31)", {"Jazz": 16}),
        ("1: 16\n2: Music", {"Jazz": 16}),
        ('{"1": 16, "2": true}', {"Jazz": 16}),
    ],
)
def test_reads(text: str, expected: dict[str, int]) -> None:
    parsed = parse_mapping(text, NAMES, IDS, category_names=CATEGORIES)
    assert (parsed.status, parsed.problem) == ("ok", "")
    assert dict(parsed.value or ()) == expected


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (" ", "empty"),
        ("<think>1: 16", "reasoning only"),
        ("16\n31", "No interest is mapped"),
        ("16, 31, 4", "No interest is mapped"),
        ("All of them are music.", "No interest is mapped"),
        ("1: 16\n1: 31", "Interest 1 is mapped to 16 and to 31"),
        ('{"1": 16, "1": 31}', "Interest 1 is mapped to 16 and to 31"),
        ("0: 16\n4: 31", "No interest is mapped"),
        ("1: 99", "No interest is mapped"),
        ("1.16", "No interest is mapped"),
        ("[16, 31, 4]", "No interest is mapped"),
        ("{}", "No interest is mapped"),
    ],
)
def test_invalid(text: str, problem: str) -> None:
    parsed = parse_mapping(text, NAMES, IDS, category_names=CATEGORIES)
    assert (parsed.status, parsed.value) == ("invalid", None)
    assert problem in parsed.problem


def test_without_names_a_remark_is_not_checked() -> None:
    assert dict(parse_mapping("1: 16 - Jazz music\n2: Music", NAMES, IDS).value or ()) == {"Jazz": 16}


def test_other_is_unclear_where_a_category_is_called_so() -> None:
    names = {5: "Other"}
    assert parse_mapping("1: OTHER", ["Jazz"], names, category_names=names).status == "invalid"
    assert parse_mapping("1: 5", ["Jazz"], names, category_names=names).value == (("Jazz", 5),)


def test_the_last_entry_of_a_cut_answer_may_have_lost_digits() -> None:
    parsed = parse_mapping("1: 16\n2: 3", NAMES, range(1, 51), finish_reason="length")
    assert (parsed.status, parsed.value) == ("truncated", (("Jazz", 16),))
    assert parse_mapping("1: 1", NAMES, range(1, 51), finish_reason="length").status == "invalid"
    assert parse_mapping('{"1": 16}', NAMES, range(1, 51), finish_reason="length").status == "ok"


@given(
    st.dictionaries(st.integers(1, 9), st.integers(0, 325), min_size=1),
    st.sampled_from([": ", ". ", ") ", " -> ", "="]),
)
def test_round_trip(mapping: dict[int, int], separator: str) -> None:
    names = [f"interest named {n}" for n in range(1, 10)]
    text = "\n".join(f"{number}{separator}{category}" for number, category in mapping.items())
    expected = {names[number - 1]: category for number, category in mapping.items()}
    assert dict(parse_mapping(text, names, range(1, 326)).value or ()) == expected
