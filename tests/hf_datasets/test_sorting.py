import random

import numpy as np
import pyarrow as pa
import pytest
from gistbench.hf_datasets import _sorting
from gistbench.hf_datasets._sorting import UserSort
from gistbench.hf_datasets.schema import ENGAGEMENT_SCHEMA, newest_first, user_slices


def made(n_rows, n_users, seed=0):
    rng = np.random.default_rng(seed)
    return pa.table(
        [
            [f"u{user}é" for user in rng.integers(n_users, size=n_rows)],
            [str(row) for row in range(n_rows)],
            ["some text"] * n_rows,
            ["explicit_positive"] * n_rows,
            pa.array([None if time == 7 else float(time) for time in rng.integers(20, size=n_rows)], pa.float64()),
        ],
        schema=ENGAGEMENT_SCHEMA,
    )


@pytest.fixture(params=[1 << 30, 20_000, 500])
def _run_size(request, monkeypatch):
    monkeypatch.setattr(_sorting, "RUN_BYTES", request.param)
    monkeypatch.setattr(_sorting, "_BATCH_ROWS", 37)


@pytest.mark.usefixtures("_run_size")
class TestUserSort:
    @pytest.mark.parametrize("piece", [1, 100, 3000])
    def test_the_same_rows_as_sorting_at_once(self, piece):
        table = made(3000 if piece > 1 else 300, 40)
        sort = UserSort()
        pieces = list(sort.sorted(table.slice(start, piece) for start in range(0, len(table), piece)))
        assert pa.concat_tables(pieces).combine_chunks().equals(newest_first(table).combine_chunks())
        assert (sort.n_rows, sort.n_users, sort.n_rows_left_out, sort.n_users_left_out) == (len(table), 40, 0, 0)
        starts = [piece["user_id"][0].as_py() for piece in pieces]
        assert len(set(starts)) == len(starts)  # no user spans two pieces
        user_slices(pa.concat_tables(pieces))

    def test_users_with_few_rows_are_left_out_and_counted(self):
        table = made(2000, 40, seed=1)
        counts = {row["values"]: row["counts"] for row in table["user_id"].value_counts().to_pylist()}
        least = sorted(counts.values())[20]
        kept = {user for user, count in counts.items() if count >= least}
        sort = UserSort(min_rows=least)
        found = pa.concat_tables(sort.sorted([table.slice(0, 700), table.slice(700)]))
        expected = newest_first(table.filter(pa.array([user in kept for user in table["user_id"].to_pylist()])))
        assert found.combine_chunks().equals(expected.combine_chunks())
        assert (sort.n_rows, sort.n_users, sort.n_users_left_out) == (2000, 40, 40 - len(kept))
        assert sort.n_rows_left_out == 2000 - len(found)

    def test_nobody_is_left(self):
        sort = UserSort(min_rows=9999)
        assert sum(map(len, sort.sorted([made(300, 9)]))) == 0
        assert sort.n_users_left_out == 9

    def test_no_rows(self):
        assert list(UserSort().sorted([])) == []


def test_nothing_is_left_behind(tmp_path, monkeypatch):
    monkeypatch.setattr(_sorting, "RUN_BYTES", 500)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    pieces = UserSort().sorted([made(300, 9)])
    next(pieces)
    assert list(tmp_path.iterdir())
    pieces.close()
    assert not list(tmp_path.iterdir())


def test_slices_give_each_users_rows():
    table = newest_first(made(500, 30))
    slices = user_slices(table)
    assert list(slices) == sorted(set(table["user_id"].to_pylist()))
    user = random.Random(0).choice(list(slices))
    assert set(table["user_id"][slices[user]].to_pylist()) == {user}
    assert sum(part.stop - part.start for part in slices.values()) == 500
    assert user_slices(table.slice(0, 0)) == {}
