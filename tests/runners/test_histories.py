import numpy as np
import pyarrow as pa
import pytest
from gistbench.hf_datasets import validate_engagements
from gistbench.runners.histories import Histories, sample_pool
from hypothesis import given
from hypothesis import strategies as st

ALL = ("explicit_positive", "implicit_positive", "implicit_negative", "explicit_negative")
ROWS = [
    # user, object, text, type, time
    ("u2", "b", "Blues", "implicit_positive", 3.0),
    ("u1", "a", "Jazz\nlive", "implicit_positive", 9.0),
    ("u1", "b", "Blues", "explicit_positive", 10.0),
    ("u1", "a", "Jazz again", "explicit_positive", 11.0),
    ("u1", "c", "Cello", "implicit_negative", None),
    ("u1", "a", "Jazz\nlive", "implicit_positive", 12.0),
]


def table(rows):
    names = ("user_id", "object_id", "object_text", "interaction_type", "interaction_time")
    columns = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
    return validate_engagements(pa.table(columns), source="test")


def histories(rows=ROWS, **options):
    return Histories(table(rows), **{"signals": ALL, "max_item_chars": None, **options})


def history_of(found, user):
    objects, types = found.engagements_of(user)
    return [(found.object_ids[o], ALL[t]) for o, t in zip(objects, types, strict=True)]


def test_newest_first_and_repeats_of_one_kind_once():
    found = histories()
    assert found.users == ("u1", "u2")
    assert found.object_ids == ("a", "b", "c")
    assert history_of(found, "u1") == [
        ("a", "implicit_positive"),  # of times 12 and 9: the newest stands for both
        ("a", "explicit_positive"),
        ("b", "explicit_positive"),
        ("c", "implicit_negative"),  # no time: last
    ]
    assert found.n_engagements("u1") == 4
    assert history_of(found, "u2") == [("b", "implicit_positive")]
    assert found.objects_of("u1") == {"a", "b", "c"}
    assert found.objects_of("u2") == {"b"}


def test_each_object_has_one_cleaned_text_its_first():
    found = histories()
    assert found.texts == ("Jazz live", "Blues", "Cello")
    assert found.text_of("a") == "Jazz live"
    assert histories(max_item_chars=5).text_of("a") == "Jazz…"


def test_signals_are_those_of_the_whole_data_set_in_their_fixed_order():
    assert histories(signals=["implicit_negative", "explicit_positive"]).signals == (
        "explicit_positive",
        "implicit_negative",
    )


def test_evidence_is_what_was_cited_and_happened():
    found = histories()
    cited = pa.table({"user_id": ["u1", "u1", "u2", "u2", "nobody"], "object_id": ["a", "ghost", "b", "a", "a"]})
    assert found.evidence(cited).to_pylist() == [
        {"user_id": "u1", "object_id": "a", "object_text": "Jazz live", "interaction_type": kind}
        for kind in ("implicit_positive", "explicit_positive")
    ] + [{"user_id": "u2", "object_id": "b", "object_text": "Blues", "interaction_type": "implicit_positive"}]


@pytest.mark.parametrize("cited", [[], [("u1", "ghost")], [("ghost", "a")]])
def test_no_evidence(cited):
    columns = {"user_id": [user for user, _ in cited], "object_id": [item for _, item in cited]}
    found = histories().evidence(pa.table({name: pa.array(values, pa.string()) for name, values in columns.items()}))
    assert found.num_rows == 0
    assert found.column_names == ["user_id", "object_id", "object_text", "interaction_type"]


@given(st.permutations(range(30)))
def test_the_order_of_rows_with_times_changes_nothing(places):
    rows = [(f"u{n % 3}", f"o{n % 7}", f"text {n % 7}", ALL[n % 4], float(n)) for n in range(30)]
    expected, found = histories(rows), histories([rows[i] for i in places])
    assert (found.users, found.object_ids, found.texts) == (expected.users, expected.object_ids, expected.texts)
    for user in expected.users:
        for mine, theirs in zip(found.engagements_of(user), expected.engagements_of(user), strict=True):
            assert np.array_equal(mine, theirs)


def test_the_pool_is_a_seeded_sample_of_all_objects():
    rows = [("u", f"o{n}", f"text\t{n}", "explicit_positive", None) for n in range(50)]
    pool = sample_pool(table(rows), size=10, seed=0, max_item_chars=None)
    again = sample_pool(table(rows[::-1]), size=10, seed=0, max_item_chars=None)
    assert len(pool) == 10
    assert (pool.object_ids, pool.texts) == (again.object_ids, again.texts)
    assert pool.hashes.tolist() == again.hashes.tolist()
    assert all(text == f"text {object_id[1:]}" for object_id, text in zip(pool.object_ids, pool.texts, strict=True))
    assert sample_pool(table(rows), size=10, seed=1, max_item_chars=None).object_ids != pool.object_ids
    assert pool.object_ids == sample_pool(table(rows), size=30, seed=0, max_item_chars=None).object_ids[:10]
    assert set(sample_pool(table(rows), size=1000, seed=0, max_item_chars=None).object_ids) == {r[1] for r in rows}
