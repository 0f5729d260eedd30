import pytest
from gistbench.runners.parsing import SelectedIndices, parse_indices
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.parametrize(
    ("text", "indices"),
    [
        ("0;2; 4", (0, 2, 4)),
        ("0, 2, and 4", (0, 2, 4)),
        ("0 & 2", (0, 2)),
        ("0,\n2", (0, 2)),
        ("5, 0, 2", (5, 0, 2)),
        ("items 0 1 2", (0, 1, 2)),
        ("ITEM_0, Object #2, id 4", (0, 2, 4)),
        ("#0, #2", (0, 2)),
        ("item\\_0, item\\_2", (0, 2)),
        ("0.", (0,)),
        ("**0, 2**", (0, 2)),
        ("**0**, **2**.", (0, 2)),
        ("`item_0`, `item_2`", (0, 2)),
        ('"item_0", "item_2"', (0, 2)),
        ("(0, 2)", (0, 2)),
        ("[item_0, item_2]", (0, 2)),
        ("[0], [2]", (0, 2)),
        ("- item_0\n- item_2", (0, 2)),
        ("* 0\n* 2", (0, 2)),
        ("1. item_3\n2. item_5", (3, 5)),
        ("Answer: 0, 2", (0, 2)),
        ("**Answer:** 0, 2", (0, 2)),
        ("The relevant items are:\n- 0\n- 2", (0, 2)),
        ("```\n0, 2\n```", (0, 2)),
        ("1 - 3", (1, 2, 3)),
        ("1–3, 5", (1, 2, 3, 5)),
        ("items 0-2 and 4", (0, 1, 2, 4)),
        ("0 to 2", (0, 1, 2)),
        ("item_0-item_2", (0, 1, 2)),
        ("[0, 2]", (0, 2)),
        ('["item_0", "3"]', (0, 3)),
        ('{"items": [0, 2]}', (0, 2)),
        ('{"why": "since 5", "selected": ["item_0"]}', (0,)),
        ('{"answer": "0, 2"}', (0, 2)),
        ('```json\n{"selected": [2]}\n```', (2,)),
        ("<think>3?</think>\n0", (0,)),
    ],
)
def test_reads(text: str, indices: tuple[int, ...]) -> None:
    assert parse_indices(text, 6).value == SelectedIndices(indices)


NONES = [
    "none",
    "None.",
    '"NONE"',
    "**NONE**",
    "[NONE]",
    "```\nNONE\n```",
    "Answer: NONE",
    "[]",
    '["none"]',
    '{"items": []}',
]


@pytest.mark.parametrize("text", [*NONES, '{"answer": "NONE"}', "<think>0?</think>NONE"])
def test_none(text: str) -> None:
    assert parse_indices(text, 6).value == SelectedIndices(())
    assert parse_indices(text, 0).status == "ok"


@pytest.mark.parametrize(
    "text",
    [
        "   ",
        "<think>0, 2",
        "no",
        "NONE of these",
        "0, NONE",
        "0, 2 fit best",
        "0, 2\nThese fit the interest.",
        "I chose 0, 2",
        "3 items 0, 2",
        "0 item_2",
        "1. 3\n2. 5",
        "2. item_3\n5. item_5",
        "item_0: Jazz",
        "item -3",
        "0, -1",
        "[-1]",
        "0.5",
        "007",
        "item_00",
        "0--2",
        "3-1",
        "0-2-4",
        "0, 2,",
        "[0, 2",
        "0 (not 2)",
        "٣",
        "Items that are not relevant: 0",
        "Irrelevant: 0",
        "Everything except: 0",
        "Unrelated items: 0",
        "These don't fit: 0",
        '{"not_relevant": [0]}',
        '{"relevant": [0], "irrelevant": [1]}',
        '{"count": 3}',
        '{"count": "3"}',
        "[true]",
        "[0.5]",
        "[[0]]",
        '[{"item": 0}]',
        '["0, 2"]',
        '["0", null]',
        "null",
        "6",
        "99999999999999999999",
        "[" + "9" * 5000 + "]",
    ],
)
def test_invalid(text: str) -> None:
    parsed = parse_indices(text, 6)
    assert (parsed.status, parsed.value) == ("invalid", None)
    assert parsed.problem


def test_out_of_range_is_counted() -> None:
    assert parse_indices("0, 6, 99", 6).value == SelectedIndices((0,), n_out_of_range=2)
    assert parse_indices("4-9", 6).value == SelectedIndices((4, 5), n_out_of_range=4)
    assert "None of the items named" in parse_indices("6, 7", 6).problem


def test_first_k_count_and_the_rest_is_over_selection() -> None:
    assert parse_indices("5, 0, 5, 2, 9, 1", 6, limit=2).value == SelectedIndices((5, 0), 1, n_over_selected=2)
    assert parse_indices("5, 0", 6, limit=2).value == SelectedIndices((5, 0))


def test_thousands_are_invalid_where_they_may_be_one_number() -> None:
    assert parse_indices("1,200", 1000).value == SelectedIndices((1, 200))
    assert parse_indices("1,200", 2000).status == "invalid"
    assert parse_indices("1, 200", 2000).value == SelectedIndices((1, 200))


def test_an_answer_that_ran_out_of_tokens_may_have_lost_digits() -> None:
    assert parse_indices("0, 1", 20, finish_reason="length").status == "invalid"
    assert parse_indices("[0, 1]", 20, finish_reason="length").status == "ok"


def test_other_item_words() -> None:
    assert parse_indices("film 2, film_3", 6, item_words=("film",)).value == SelectedIndices((2, 3))
    assert parse_indices("item 2", 6, item_words=("film",)).status == "invalid"
    assert parse_indices("2", 6, item_words=()).value == SelectedIndices((2,))


@given(
    st.lists(st.integers(0, 49), min_size=1, unique=True),
    st.randoms(),
    st.sampled_from([", ", ",", "\n", "; ", " "]),
    st.sampled_from(["{}", "item_{}", "Item #{}", "**{}**"]),
)
def test_a_permutation_selects_the_same(indices: list[int], random: object, separator: str, form: str) -> None:
    shuffled = list(indices)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    for order in (indices, shuffled):
        parsed = parse_indices(separator.join(form.replace("{}", str(index)) for index in order), 50)
        assert parsed.value == SelectedIndices(tuple(order))
