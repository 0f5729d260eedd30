"""The sieve lets every wanted row through, whatever the ids look like: against a loop over a dict of sets."""

import random

import numpy as np
import pyarrow as pa
import pytest

TYPES = ("explicit_positive", "implicit_positive", "implicit_negative", "explicit_negative")
TEXTS = {
    "short": lambda r: "".join(r.choices("ab", k=r.randrange(0, 4))),
    "equally long": lambda r: f"{r.randrange(200):013d}",
    "of 8 bytes": lambda r: f"{r.randrange(200):08d}",
    "of other lengths": lambda r: "x" * r.randrange(12) + str(r.randrange(9)),
    "that differ in the middle": lambda r: f"12345678{r.randrange(50)}12345678",
    "not ASCII": lambda r: "".join(r.choices("é本😀", k=r.randrange(1, 7))),
}
NUMBERS = {
    "small": lambda r: r.randrange(-20, 200),
    "large": lambda r: r.choice([2**63 - 1, -(2**63), 10**18, 10**18 - 1, 0, 7]),
}


def plain(predictions, users, rows):
    """Count distinct objects by type for each interest."""
    seen = {}
    for user, item, kind in rows:
        seen.setdefault((user, str(item)), set()).add(kind)
    return [
        [sum(kind in seen.get((user, item), ()) for item in set(record["item_ids"])) for kind in TYPES]
        for user, records in zip(users, predictions, strict=True)
        for record in records
    ]


def check(ig, draw, seed, encode):
    rng = random.Random(seed)
    users = [f"user {i}" for i in range(5)]
    rows = [(rng.choice([*users, "stranger"]), draw(rng), rng.choice(TYPES)) for _ in range(600)]
    predictions = [
        [
            {"interest": f"i{k}", "category_id": k, "item_ids": [str(draw(rng)) for _ in range(rng.randrange(9))]}
            for k in range(6)
        ]
        for _ in users
    ]
    user_column, objects, types = zip(*rows, strict=True)
    columns = [pa.array(user_column), encode(objects), pa.array(types)]
    history = pa.table(columns, names=["user_id", "object_id", "interaction_type"])
    halves = pa.concat_tables([history.slice(0, 100), history.slice(100, 0), history.slice(100)])
    for table in (history, halves, history.slice(0, 0)):
        found = ig.compute(
            predictions=predictions, references=users, history=table, signals=list(TYPES), n_resamples=0
        )["per_interest"]
        counts = [list(row) for row in zip(*(found[f"n_{kind}"] for kind in TYPES), strict=True)]
        assert counts == plain(predictions, users, rows[: len(table)])


@pytest.mark.parametrize("kind", list(TEXTS))
@pytest.mark.parametrize(
    "type", [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())], ids=str
)
def test_texts(ig, kind, type):
    for seed in range(5):
        check(ig, TEXTS[kind], seed, lambda ids: pa.array(ids).cast(type))


@pytest.mark.parametrize("kind", list(NUMBERS))
@pytest.mark.parametrize("dictionary", [False, True])
def test_integers(ig, kind, dictionary):
    for seed in range(5):
        check(ig, NUMBERS[kind], seed, lambda ids: pa.array(ids).dictionary_encode() if dictionary else pa.array(ids))


@pytest.mark.parametrize("type", [pa.uint64(), pa.int32(), pa.uint8()], ids=str)
def test_widths(ig, type):
    top = min(np.iinfo(type.to_pandas_dtype()).max, 2**64 - 1)
    check(ig, lambda rng: rng.choice([0, 5, 100, int(top)]), 0, lambda ids: pa.array(ids, type))


def test_only_plain_decimal_forms_stand_for_an_integer(ig):
    written = ["7", "07", "+7", "7.0", " 7", "-7", "-0", "0", "٧", "9" * 30, "-" + "9" * 30, "18446744073709551615"]
    history = {"user_id": ["u"] * 3, "object_id": [7, -7, 0], "interaction_type": [TYPES[0]] * 3}
    found = ig.compute(
        predictions=[[{"interest": text, "category_id": 1, "item_ids": [text]} for text in written]],
        references=["u"],
        history=history,
    )["per_interest"]
    known = [text for text, ids in zip(written, found["unknown_item_ids"], strict=True) if not ids]
    assert known == ["7", " 7", "-7", "0"]
