import json

import pytest
from gistbench.runners.engines.schema_check import check_schema
from gistbench.runners.parsing import Taste, parse_grade, parse_taste
from gistbench.runners.parsing.taste import taste_schema
from hypothesis import given
from hypothesis import strategies as st

TASTE = Taste(*(f"About {name}." for name in Taste._fields))


@pytest.mark.parametrize(
    ("text", "grade"),
    [
        ("4", 4),
        (" 0\n", 0),
        ("5.", 5),
        ("**3**", 3),
        ("`2`", 2),
        ('"1"', 1),
        ("Grade: 4", 4),
        ("**Grade:** 4/5", 4),
        ("The grade is 2.", 2),
        ("My final rating: 3 out of 5", 3),
        ("4 stars", 4),
        ("Score = 5", 5),
        ("```\n4\n```", 4),
        ('{"grade": 3}', 3),
        ("<think>3 or 4? The war film: 4.</think>\n4", 4),
        ("3\n\nThe person likes dramas, and this has 2 of them.", 3),
        ("They rated 4 such films high.\n\nGrade: 5", 5),
        ("4\nGrade: 4", 4),
    ],
)
def test_a_grade(text, grade):
    parsed = parse_grade(text)
    assert (parsed.status, parsed.value, parsed.problem) == ("ok", grade, "")


@pytest.mark.parametrize(
    "text",
    [
        "", "  ", "6", "-1", "3.5", "4.0", "3-4", "3 or 4", "10", "45", "four", "N/A", "I would say 4.", "0 to 5",
        "3\n4", "Grade: 2\nGrade: 3", '{"grade": 3.5}', '{"grade": "3"}', '{"grade": true}', '{"grade": 9}', "[4]",
        "<think>4</think>", "4 because they like dramas", "1. Heat", "80%",
    ],
)  # fmt: skip
def test_no_grade_is_guessed(text):
    parsed = parse_grade(text)
    assert (parsed.status, parsed.value) == ("invalid", None)
    assert parsed.problem.endswith(".")


def test_a_grade_that_was_cut_is_none():
    assert parse_grade("4", finish_reason="length").value is None
    assert parse_grade("4", finish_reason="stop").value == 4


@given(st.text(max_size=60) | st.text('0123456789./ \n*{}:"grade', max_size=30))
def test_any_text_gives_a_grade_or_a_problem(text):
    parsed = parse_grade(text)
    assert (parsed.value in range(6)) == (parsed.status == "ok") == (not parsed.problem)
    assert parsed.value is None or str(parsed.value) in text


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(TASTE._asdict()),
        "Here it is:\n```json\n" + json.dumps(TASTE._asdict(), indent=2) + "\n```\nI hope it helps.",
        "<think>{}</think>" + json.dumps(TASTE._asdict() | {"more": 1}),
        json.dumps(dict(reversed(TASTE._asdict().items()))),
    ],
)
def test_a_profile(text):
    assert parse_taste(text).value == TASTE


def test_a_list_of_texts_is_joined():
    assert parse_taste(json.dumps(TASTE._asdict() | {"likes": ["war films ", "dramas"]})).value.likes == (
        "war films; dramas"
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "The answer is empty."),
        ("The person likes films.", "There is no JSON object"),
        (json.dumps(TASTE._asdict())[:-20], "was cut off"),
        (json.dumps({**TASTE._asdict(), "low": " "}), "The object lacks low."),
        (json.dumps({**TASTE._asdict(), "low": None, "high": 3}), "The object lacks high, low."),
        (json.dumps({**TASTE._asdict(), "low": "12", "high": "..."}), "The object lacks high, low."),
        (json.dumps({**TASTE._asdict(), "likes": [1]}), "The object lacks likes."),
        (2 * json.dumps(TASTE._asdict()), "There are 2 JSON objects"),
        ("[1, 2]", "There is no JSON object"),
    ],
)
def test_a_profile_with_a_part_missing_is_none(text, problem):
    parsed = parse_taste(text)
    assert (parsed.status, parsed.value) == ("invalid", None)
    assert problem in parsed.problem


@given(st.text(max_size=80) | st.text('{}[]":,likesow \n', max_size=60))
def test_any_text_gives_a_profile_or_a_problem(text):
    parsed = parse_taste(text)
    assert (parsed.value is None) == (parsed.status == "invalid") == bool(parsed.problem)


def test_the_schema_asks_for_what_is_read_and_ends_each_text():
    schema = taste_schema(40)["json"]
    assert schema["required"] == list(Taste._fields) == list(schema["properties"])
    assert check_schema({"json": schema}, json.dumps(TASTE._replace(low="No evidence.", high="x" * 40)._asdict())) == ""
    for text in ("x" * 41, "No."):
        assert "at $.low" in check_schema({"json": schema}, json.dumps(TASTE._replace(low=text)._asdict()))
