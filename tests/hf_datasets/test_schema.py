import itertools
import json
import subprocess
import sys
from datetime import UTC, date, datetime
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from gistbench.hf_datasets import _columns
from gistbench.hf_datasets.errors import ConfigError, DataError
from gistbench.hf_datasets.schema import (
    ENGAGEMENT_SCHEMA,
    INTERACTION_TYPES,
    Quantiles,
    describe_engagements,
    filter_users,
    fingerprint_engagements,
    newest_first,
    validate_engagements,
)
from hypothesis import given, settings
from hypothesis import strategies as st


def raw(**columns):
    """Two good rows, with some columns replaced or (None) removed."""
    table = {
        "user_id": ["u", "u"],
        "object_id": ["a", "b"],
        "object_text": ["A", "B"],
        "interaction_type": ["explicit_positive", "implicit_negative"],
        "interaction_time": [1.0, 2.0],
    } | columns
    return pa.table({name: values for name, values in table.items() if values is not None})


def rows(*engagements):
    """Validated engagements from (user, object, type initials, time)."""
    types = {"ep": 0, "ip": 1, "in": 2, "en": 3}
    users, objects, kinds, times = zip(*engagements, strict=True)
    return validate_engagements(
        pa.table(
            {
                "user_id": users,
                "object_id": objects,
                "object_text": [f"text {o}" for o in objects],
                "interaction_type": [INTERACTION_TYPES[types[kind]] for kind in kinds],
                "interaction_time": pa.array(times, pa.float64()),
            }
        ),
        source="test",
    )


def validated(**columns):
    return validate_engagements(raw(**columns), source="test")


def message(**columns):
    with pytest.raises(DataError) as caught:
        validate_engagements(raw(**columns), source="file.csv")
    assert str(caught.value).startswith("file.csv: ")
    return str(caught.value)


class TestValidateShape:
    def test_good_rows_come_back_in_the_schema(self):
        table = validated()
        assert table.schema == ENGAGEMENT_SCHEMA
        assert table.to_pydict() == raw().to_pydict()

    def test_all_missing_columns_are_named(self):
        text = message(object_id=None, interaction_type=None)
        assert "missing columns: object_id, interaction_type" in text
        assert "Found: user_id, object_text, interaction_time" in text

    def test_absent_times_become_null(self):
        assert validated(interaction_time=None)["interaction_time"].to_pylist() == [None, None]

    def test_extra_columns_are_left_out_and_counted_also_after_a_second_validation(self):
        table = validated(rating=[1, 2], comment=["x", "y"])
        assert table.column_names == ENGAGEMENT_SCHEMA.names
        again = validate_engagements(table, source="test")
        assert describe_engagements(again).ignored_columns == ("rating", "comment")

    def test_no_rows(self):
        with pytest.raises(DataError, match=r"t: there are no engagements"):
            validate_engagements(raw().slice(0, 0), source="t")

    def test_repeated_column(self):
        table = raw().append_column("user_id", pa.array(["x", "y"]))
        with pytest.raises(DataError, match="more than once: user_id"):
            validate_engagements(table, source="t")


class TestValidateIds:
    @pytest.mark.parametrize("kind", [pa.int64(), pa.int8(), pa.uint64()])
    def test_integers_become_text(self, kind):
        table = validated(user_id=pa.array([12, 7], kind))
        assert table["user_id"].to_pylist() == ["12", "7"]

    def test_large_integers_stay_exact(self):
        assert validated(object_id=pa.array([2**63, 2**63 + 1], pa.uint64()))["object_id"].to_pylist() == [
            "9223372036854775808",
            "9223372036854775809",
        ]

    @pytest.mark.parametrize("values", [[1.0, 2.0], [1.5, 2.5], [Decimal("1.0"), Decimal("2.0")]])
    def test_decimals_are_refused_with_the_reason(self, values):
        text = message(object_id=values)
        assert "'object_id' holds decimal numbers" in text
        assert "2**53" in text

    def test_other_types_are_refused(self):
        assert "has type bool" in message(user_id=[True, False])

    @pytest.mark.parametrize("kind", [pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())])
    def test_every_kind_of_text(self, kind):
        assert validated(user_id=pa.array(["é", "u"]).cast(kind))["user_id"].to_pylist() == ["é", "u"]

    def test_surrounding_white_space_goes(self):
        assert validated(user_id=[" u", "u\n"])["user_id"].to_pylist() == ["u", "u"]

    @pytest.mark.parametrize("bad", [None, "", " \t"])
    def test_missing_ids_name_row_and_how_many_more(self, bad):
        text = message(user_id=["u", bad, "u", bad, bad], **{n: raw()[n].take([0] * 5) for n in raw().column_names[1:]})
        assert "row 2 (and 2 more rows): user_id is missing or blank" in text

    def test_all_null(self):
        assert "row 1 (and 1 more row): object_id is missing" in message(object_id=[None, None])

    def test_words_that_others_take_for_missing(self):
        assert validated(object_id=["NA", "null"], object_text=["None", "NaN"])["object_id"].to_pylist() == [
            "NA",
            "null",
        ]


class TestValidateTextAndType:
    @pytest.mark.parametrize("bad", [None, "", "\u00a0 "])
    def test_blank_text(self, bad):
        assert "row 2: object_text is missing or blank" in message(object_text=["A", bad])

    def test_text_is_unchanged(self):
        texts = [" two  spaces\n", "</item>"]
        assert validated(object_text=texts)["object_text"].to_pylist() == texts

    def test_numbers_are_no_text(self):
        assert "'object_text' has type int64" in message(object_text=[1, 2])

    def test_unknown_type_lists_the_valid_and_suggests(self):
        text = message(interaction_type=["explicit_positive", "Explicit_Positve"])
        assert "row 2: interaction_type is 'Explicit_Positve'" in text
        assert "implicit_positive, implicit_negative" in text
        assert text.endswith("Did you mean 'explicit_positive'?")

    def test_null_type(self):
        assert "row 1 (and 1 more row): interaction_type is None" in message(interaction_type=[None, None])


class TestValidateTime:
    def times(self, values):
        return validated(interaction_time=values)["interaction_time"].to_pylist()

    def test_numbers_stay(self):
        assert self.times([3, -1]) == [3.0, -1.0]
        assert self.times(["9", " 10 "]) == [9.0, 10.0]
        assert self.times(["1e3", ".5"]) == [1000.0, 0.5]

    def test_missing_ones(self):
        assert self.times([None, 1.0]) == [None, 1.0]
        assert self.times([float("nan"), 1.0]) == [None, 1.0]
        assert self.times(["", "  "]) == [None, None]
        assert self.times([None, "2024-01-01"]) == [None, 1704067200.0]

    def test_date_text_is_utc_unless_it_says_otherwise(self):
        assert self.times(["1970-01-02", "1970-01-01T00:00:01.5"]) == [86400.0, 1.5]
        assert self.times(["1970-01-01 01:00:00Z", "1970-01-01T01:00:00+01:00"]) == [3600.0, 0.0]
        assert self.times(["1970-02", "19700102T00"]) == [31 * 86400.0, 86400.0]

    def test_dates_far_from_now(self):
        assert self.times(["0001-01-01", "9999-12-31"]) == [-62135596800.0, 253402214400.0]

    def test_arrow_dates(self):
        assert self.times([date(1970, 1, 2), None]) == [86400.0, None]
        assert self.times([datetime(1970, 1, 1, 1), datetime(1970, 1, 1, 2)]) == [3600.0, 7200.0]
        assert self.times(
            pa.array([datetime(1970, 1, 1, 1, tzinfo=UTC)] * 2, pa.timestamp("ns", "America/New_York"))
        ) == [
            3600.0,
            3600.0,
        ]

    def test_numbers_and_dates_do_not_mix(self):
        text = message(interaction_time=["2024-01-01", "12"])
        assert "mixes numbers (row 2: '12') and dates (row 1: '2024-01-01')" in text

    @pytest.mark.parametrize("bad", ["yesterday", "now", "2024-13-01", "2024-02-30", "1/2/2024", "nan", "inf", "12 s"])
    def test_unreadable(self, bad):
        assert f"row 2: interaction_time is neither a number nor an ISO 8601 date ({bad!r})" in message(
            interaction_time=["2024-01-01", bad]
        )

    def test_infinite(self):
        assert "row 1: interaction_time is infinite" in message(interaction_time=[float("inf"), 1.0])

    def test_booleans(self):
        assert "has type bool" in message(interaction_time=[True, False])


def test_describe():
    table = rows(
        ("u1", "a", "ep", 1), ("u1", "a", "ep", 2), ("u1", "a", "in", 3), ("u2", "a", "ep", None), ("u2", "b", "ep", 1)
    )  # fmt: skip
    stats = describe_engagements(table)
    assert (stats.n_rows, stats.n_users, stats.n_objects) == (5, 2, 2)
    assert stats.signals == ("explicit_positive", "implicit_negative")
    assert stats.counts == {"explicit_positive": 4, "implicit_negative": 1}
    assert stats.n_duplicates == 1
    assert stats.n_objects_with_conflicting_text == 0
    assert stats.n_missing_times == 1
    assert stats.engagements_per_user == Quantiles(2.0, 2.25, 2.5, 2.75, 3.0)
    assert stats.ignored_columns == ()


def test_describe_counts_objects_with_two_texts():
    assert describe_engagements(validated(object_id=["a", "a"])).n_objects_with_conflicting_text == 1


class TestNewestFirst:
    def test_numbers_sort_as_numbers_nulls_last_ties_in_file_order(self):
        table = rows(
            ("u9", "z", "ep", 1), ("u10", "a", "ep", None), ("u10", "b", "ep", 9), ("u10", "c", "ep", 10),
            ("u10", "d", "ep", 9), ("u10", "e", "ep", None), ("u10", "f", "ep", -1),
        )  # fmt: skip
        result = newest_first(table)
        assert result["object_id"].to_pylist() == ["c", "b", "d", "f", "a", "e", "z"]
        assert result.schema == table.schema

    def test_equal_times_do_not_depend_on_chunks(self):
        table = rows(*[("u", str(i), "ep", i % 3) for i in range(100)])
        pieces = pa.concat_tables([table.slice(0, 7), table.slice(7, 50), table.slice(57)])
        expected = [str(i) for time in (2, 1, 0) for i in range(100) if i % 3 == time]
        assert newest_first(pieces)["object_id"].to_pylist() == expected

    def test_columns_longer_than_a_chunk(self, monkeypatch):
        monkeypatch.setattr(_columns, "_STRING_CHUNK_BYTES", 64)
        result = newest_first(rows(*[("u", str(i), "ep", i) for i in range(50)]))
        assert result["object_text"].num_chunks > 1
        assert result["object_text"].to_pylist() == [f"text {i}" for i in reversed(range(50))]

    @settings(max_examples=50, deadline=None)
    @given(st.lists(st.tuples(st.sampled_from("abé"), st.none() | st.integers(-2, 2)), min_size=1, max_size=30))
    def test_equals_pythons_sort(self, items):
        table = rows(*[(user, str(i), "ep", time) for i, (user, time) in enumerate(items)])
        key = [(user, time is None, -(time or 0), i) for i, (user, time) in enumerate(items)]
        assert newest_first(table)["object_id"].to_pylist() == [str(k[3]) for k in sorted(key)]


class TestFingerprint:
    table = rows(("u", "ab", "ep", 1), ("u", "c", "ip", None), ("v", "é", "en", 0))

    def test_chunks_slices_and_metadata_do_not_count(self):
        expected = fingerprint_engagements(self.table)
        cut = pa.concat_tables([self.table.slice(0, 1), self.table.slice(1, 0), self.table.slice(1)])
        assert fingerprint_engagements(cut) == expected
        assert fingerprint_engagements(pa.concat_tables([self.table, self.table]).slice(3)) == expected
        assert fingerprint_engagements(self.table.replace_schema_metadata({"a": "b"})) == expected

    @pytest.mark.parametrize(
        "other",
        [
            rows(("u", "a", "ep", 1), ("u", "bc", "ip", None), ("v", "é", "en", 0)),
            rows(("u", "ab", "ep", 1), ("u", "c", "ip", 0), ("v", "é", "en", 0)),
            rows(("u", "ab", "ep", 1), ("u", "c", "in", None), ("v", "é", "en", 0)),
            rows(("u", "c", "ip", None), ("u", "ab", "ep", 1), ("v", "é", "en", 0)),
            rows(("u", "ab", "ep", 1), ("u", "c", "ip", None)),
        ],
    )
    def test_any_difference_counts(self, other):
        assert fingerprint_engagements(other) != fingerprint_engagements(self.table)

    def test_value_is_pinned(self):
        expected = "f8a20af908386fa8aa11f16a6cab84d79e8e37327ce22d6ea5ed481f48adc7ef"
        assert fingerprint_engagements(self.table) == expected


class TestFilterUsers:
    table = rows(*[(f"u{i}", f"o{j}", "ep", j) for i in range(1, 6) for j in range(i)])

    def users(self, **options):
        return list(dict.fromkeys(filter_users(self.table, **options)["user_id"].to_pylist()))

    def test_nothing_asked_keeps_all(self):
        assert filter_users(self.table) is self.table

    def test_named_users_in_file_order(self):
        assert self.users(users=["u4", "u2"]) == ["u2", "u4"]
        assert filter_users(self.table, users=["u2"]).num_rows == 2

    def test_min_engagements(self):
        assert self.users(min_engagements=4) == ["u4", "u5"]

    def test_samples_are_nested_and_ignore_row_order(self):
        samples = [set(self.users(n_users=n, seed=3)) for n in range(1, 6)]
        assert [len(s) for s in samples] == [1, 2, 3, 4, 5]
        assert all(a < b for a, b in itertools.pairwise(samples))
        reversed_rows = self.table.take(np.arange(self.table.num_rows)[::-1])
        assert set(filter_users(reversed_rows, n_users=2, seed=3)["user_id"].to_pylist()) == samples[1]

    @pytest.mark.parametrize("n_users", [1, 7, 20, 33, 40])
    def test_a_stratified_sample_keeps_the_shares_of_history_lengths(self, n_users):
        table = rows(*[(f"u{i:02}", f"o{j}", "ep", j) for i in range(40) for j in range(i + 1)])
        found = {
            int(user[1:])
            for user in filter_users(table, n_users=n_users, stratified=True, seed=1)["user_id"].to_pylist()
        }
        assert len(found) == n_users
        tenths = np.bincount([length // 4 for length in found], minlength=10)
        assert all(abs(tenths - n_users / 10) < 1)

    def test_seed_counts(self):
        assert len({tuple(self.users(n_users=2, seed=seed)) for seed in range(20)}) > 3

    def test_unknown_user(self):
        with pytest.raises(ConfigError, match=r"2 of 3 named users .* U2, nobody\. Did you mean 'u2'\?"):
            filter_users(self.table, users=["u1", "U2", "nobody"])

    def test_named_user_with_too_few(self):
        with pytest.raises(ConfigError, match=r"u1 \(1\)"):
            filter_users(self.table, users=["u1", "u5"], min_engagements=3)

    def test_too_few_qualify(self):
        with pytest.raises(ConfigError, match=r"n_users=3 .* only 2 of 5 users qualify with min_engagements=4\."):
            filter_users(self.table, n_users=3, min_engagements=4)

    def test_none_qualifies(self):
        with pytest.raises(ConfigError, match="None of 5 users qualifies"):
            filter_users(self.table, min_engagements=6)
        with pytest.raises(ConfigError, match="None of 5"):
            filter_users(self.table, users=[])

    @pytest.mark.parametrize("options", [{"n_users": 0}, {"min_engagements": 0}, {"users": "u1"}])
    def test_options_without_sense(self, options):
        with pytest.raises(ConfigError):
            filter_users(self.table, **options)


def test_other_processes_agree():
    script = """
import json, pyarrow as pa
from gistbench.hf_datasets.schema import *
n = 200
table = validate_engagements(pa.table({
    "user_id": [f"user {i % 50}" for i in range(n)], "object_id": list(range(n)), "object_text": ["x"] * n,
    "interaction_type": ["explicit_positive"] * n}), source="t")
kept = filter_users(table, n_users=5, seed=7)
print(json.dumps([fingerprint_engagements(table), sorted(set(kept["user_id"].to_pylist()))]))
"""
    answers = []
    for seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", script],
            env={"PYTHONHASHSEED": seed, "PATH": ""},
            capture_output=True,
            text=True,
            check=True,
        )
        answers.append(json.loads(done.stdout))
    assert answers[0] == answers[1]
    assert len(answers[0][1]) == 5


def test_pandas_frames_arrive_whole():
    frame = pd.DataFrame(raw().to_pydict()).astype({"interaction_type": "category"})
    assert validate_engagements(pa.Table.from_pandas(frame), source="frame").to_pydict() == raw().to_pydict()
