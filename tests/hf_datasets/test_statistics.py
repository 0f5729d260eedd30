import dataclasses
import json

import numpy as np
import pyarrow as pa
import pytest
from gistbench.hf_datasets.errors import ConfigError, DataError
from gistbench.hf_datasets.registry import load_engagements
from gistbench.hf_datasets.schema import ENGAGEMENT_SCHEMA, describe_engagements
from gistbench.hf_datasets.statistics import (
    DatasetStatistics,
    Distribution,
    count_by_user,
    count_tokens,
    measure_engagements,
)
from gistbench.runners.cli_datasets import datasets_app, read_options
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

EP, IP, IN = "explicit_positive", "implicit_positive", "implicit_negative"
ROWS = [
    ("u1", "a", "one two", EP, 3.0),
    ("u1", "b", "three", IP, 2.0),
    ("u2", "a", "one two", EP, None),
    ("u1", "a", "one two", EP, 1.0),  # repeats the first row
    ("u1", "a", "one two", IN, 1.0),
    ("u2", "b", "another text of b", IP, 1.0),
    ("u3", "c", "", IP, 1.0),
]


def table_of(rows):
    columns = list(zip(*rows, strict=True)) if rows else [[]] * 5
    return pa.table([pa.array(c, t) for c, t in zip(columns, ENGAGEMENT_SCHEMA.types, strict=True)], ENGAGEMENT_SCHEMA)


def test_by_hand():
    s = measure_engagements(table_of(ROWS), min_engagements=2)
    assert (s.n_rows, s.n_users, s.n_objects) == (7, 3, 3)
    assert s.counts == {EP: 3, IP: 3, IN: 1}
    assert s.n_duplicates == 1
    assert s.n_objects_with_conflicting_text == 1
    assert s.n_missing_times == 1
    assert s.share_of_users_with_min_engagements == 2 / 3
    assert s.engagements_per_user["all"] == Distribution(1, 1.5, 2, 3, 4, 7 / 3)  # of 4, 2, 1
    assert s.engagements_per_user[EP] == Distribution(0, 0.5, 1, 1.5, 2, 1)  # of 2, 1, 0: users without it are 0
    assert list(s.engagements_per_user) == ["all", EP, IP, IN]
    assert s.tokens_per_text == Distribution(0, 0.5, 1, 1.5, 2, 1)  # of 2, 1 (b's first text), 0


def test_counts_by_user_are_in_the_order_of_first_rows():
    counted = count_by_user(table_of(ROWS))
    assert counted.user_ids == ("u1", "u2", "u3")
    assert counted.counts.tolist() == [[2, 1, 1, 0], [1, 1, 0, 0], [0, 1, 0, 0]]
    assert counted.signals == (EP, IP, IN)
    assert counted.of(IN).tolist() == [1, 0, 0]


@pytest.mark.parametrize(
    ("text", "n"),
    [
        ("", 0),
        (" \t\n\u00a0\u200b", 0),
        ("NBA Basketball", 2),
        ("it's open_now 24/7", 7),  # it ' s open_now 24 / 7
        ("#café déjà-vu", 5),
        ("très", 1),  # a combining accent belongs to its word
        ("我喜欢猫", 4),
        ("iPhone手机 ひらがな", 7),
        ("🙂👍🏽 ok", 4),
        ("Москва 2024", 2),
    ],
)
def test_tokens(text, n):
    assert count_tokens(pa.chunked_array([[text]])).tolist() == [n]


def test_nothing_to_measure():
    s = measure_engagements(table_of([]))
    assert (s.n_rows, s.n_users, s.n_objects, s.counts) == (0, 0, 0, {})
    assert s.engagements_per_user == {"all": Distribution(0, 0, 0, 0, 0, 0)}
    assert s.share_of_users_with_min_engagements == 0


def test_min_engagements_must_be_positive():
    with pytest.raises(ConfigError, match="min_engagements is 0"):
        measure_engagements(table_of(ROWS), min_engagements=0)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["u", "v", "w"]),
            st.sampled_from("abc"),
            st.sampled_from(["x", "y z"]),
            st.sampled_from([EP, IP, IN]),
            st.none() | st.floats(0, 9),
        ),
        max_size=40,
    ),
    st.integers(1, 7),
)
@settings(deadline=None, max_examples=60)
def test_agrees_with_the_quick_description_however_the_table_is_cut(rows, size):
    table = table_of(rows)
    chunked = pa.concat_tables([table.slice(i, size) for i in range(0, max(1, len(rows)), size)])
    s, quick = measure_engagements(chunked), describe_engagements(table)
    for name in ("n_rows", "n_users", "n_objects", "n_duplicates", "n_objects_with_conflicting_text"):
        assert getattr(s, name) == getattr(quick, name)
    assert (s.counts, s.n_missing_times) == (quick.counts, quick.n_missing_times)
    assert s.engagements_per_user["all"][:5] == tuple(quick.engagements_per_user)
    assert s == measure_engagements(table)


def test_large_batches_agree_with_pandas(monkeypatch):
    monkeypatch.setattr("gistbench.hf_datasets.statistics._BATCH_ROWS", 500)
    table = load_engagements("demo")
    s, frame = measure_engagements(table), table.to_pandas()
    per_user = frame.groupby("user_id").size()
    assert s.engagements_per_user["all"].median == per_user.median()
    assert s.engagements_per_user[IN].mean == pytest.approx((frame.interaction_type == IN).sum() / len(per_user))
    first_texts = frame.drop_duplicates("object_id").object_text
    assert s.tokens_per_text.mean == pytest.approx(np.mean(count_tokens(pa.array(first_texts))))
    assert s.n_duplicates == frame.duplicated(["user_id", "object_id", "interaction_type"]).sum()


def test_plain_data_survives_json():
    s = measure_engagements(table_of(ROWS))
    assert DatasetStatistics.from_dict(json.loads(json.dumps(s.to_dict()))) == s
    assert set(s.to_dict()) == {field.name for field in dataclasses.fields(s)}


def test_command(tmp_path):
    def run(*arguments):
        return CliRunner().invoke(datasets_app, ["stats", *arguments])

    assert DatasetStatistics.from_dict(json.loads(run("demo", "--format", "json").stdout)).n_users == 12
    shown = run("demo", "--min-engagements", "97").stdout
    assert "users with at least 97" in shown
    assert "Tokens are words" in shown
    table = tmp_path / "mine.tsv"
    table.write_text("user_id\tobject_id\tobject_text\tinteraction_type\nu\to\tsome text\timplicit_negative\n")
    assert json.loads(run(str(table), "-f", "json").stdout)["counts"] == {IN: 1}
    assert isinstance(run("demo", "-f", "yaml").exception, ConfigError)
    table.write_text("user_id\tobject_id\n")
    assert isinstance(run(str(table)).exception, DataError)


def test_options_are_read_as_toml_else_as_text():
    pairs = ["n=3", "share=0.5", "kind=x", "on=true", 'quoted="3"', "path=a=b"]
    read = {"n": 3, "share": 0.5, "kind": "x", "on": True, "quoted": "3", "path": "a=b"}
    assert read_options(pairs) == read
    with pytest.raises(ConfigError, match="--option-a 'n': expected NAME=VALUE"):
        read_options(["n"], flag="--option-a")
