import pytest
from gistbench.runners.engines.schema_check import check_schema

INTERESTS = {
    "type": "array",
    "maxItems": 2,
    "items": {
        "type": "object",
        "properties": {
            "interest": {"type": "string", "minLength": 1, "maxLength": 5},
            "item_ids": {"type": "array", "items": {"enum": ["a", "b"]}, "minItems": 1},
            "n": {"type": ["integer", "null"]},
            "kind": {"const": "x"},
        },
        "required": ["interest", "item_ids"],
        "additionalProperties": False,
    },
}


@pytest.mark.parametrize("schema", [None, {}, {"regex": "NONE|item_[0-9]{1,2}"}, {"choice": ["item_12", "no"]}])
def test_what_fits(schema):
    assert check_schema(schema, " item_12\n") == ""


@pytest.mark.parametrize("text", ["item_123", "item_1, item_2", "none", "", "item_1."])
def test_a_regular_expression_covers_the_whole_answer(text):
    assert "not of the form" in check_schema({"regex": "NONE|item_[0-9]{1,2}"}, text)


def test_a_choice():
    assert check_schema({"choice": ["yes", "no"]}, "maybe") == "The answer is none of those to choose from: 'maybe'."


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        '[{"interest": "jazz", "item_ids": ["a", "b"]}]',
        '\n[{"interest": "jazz", "item_ids": ["a"], "n": 3.0, "kind": "x"}]',
        '[{"interest": "jazz", "item_ids": ["a"]}, {"interest": "é", "item_ids": ["b"], "n": null}]',
    ],
)
def test_json_that_fits(text):
    assert check_schema({"json": INTERESTS}, text) == ""


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "is not JSON"),
        ("```json\n[]\n```", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ("{}", "at $: {} is not of type 'array'"),
        ("[1]", "at $[0]: 1 is not of type 'object'"),
        ('[{"interest": "jazz"}]', "at $[0]: 'item_ids' is a required property"),
        ('[{"interest": "", "item_ids": ["a"]}]', "at $[0].interest: '' should be non-empty"),
        ('[{"interest": "jazzzz", "item_ids": ["a"]}]', "at $[0].interest: 'jazzzz' is too long"),
        ('[{"interest": "j", "item_ids": []}]', "at $[0].item_ids: [] should be non-empty"),
        ('[{"interest": "j", "item_ids": ["c"]}]', "at $[0].item_ids[0]: 'c' is not one of ['a', 'b']"),
        ('[{"interest": "j", "item_ids": ["a"], "n": true}]', "at $[0].n: True is not of type 'integer', 'null'"),
        ('[{"interest": "j", "item_ids": ["a"], "n": 1.5}]', "at $[0].n: 1.5 is not of type"),
        ('[{"interest": "j", "item_ids": ["a"], "kind": "y"}]', "at $[0].kind: 'x' was expected"),
        ('[{"interest": "j", "item_ids": ["a"], "more": 1}]', "at $[0]: Additional properties are not allowed"),
        ("[{}, {}, {}]", "is too long"),
    ],
)
def test_json_that_does_not_fit(text, problem):
    assert problem in check_schema({"json": INTERESTS}, text)


def test_a_long_answer_is_shown_cut():
    assert len(check_schema({"regex": "a"}, "b" * 10_000)) < 150
