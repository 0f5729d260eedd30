import json
import subprocess
import sys

import datasets
import numpy as np
import pyarrow as pa
import pytest
from gistbench.hf_datasets import _sorting
from gistbench.hf_datasets.builder import build_report, prepare
from gistbench.hf_datasets.errors import ConfigError, DataError
from gistbench.hf_datasets.goodbooks_ratings import GoodbooksRatings
from gistbench.hf_datasets.movielens_ratings import MovieLensRatings
from gistbench.hf_datasets.ratings import RATING_SCHEMA, split_ratings


def made(sizes, seed=0):
    rng = np.random.default_rng(seed)
    users = np.repeat(np.arange(len(sizes)), sizes)
    items = np.concatenate([rng.permutation(500)[:size] for size in sizes])
    return pa.table(
        {
            "user": [f"u{user}" for user in users],
            "item": [f"i{item}" for item in items],
            "time": rng.permutation(len(users)).astype(float),
        }
    )


def sides(table, **options):
    split = split_ratings(table, **options)
    rows = zip(table["user"].to_pylist(), table["item"].to_pylist(), split.to_pylist(), strict=True)
    return {(user, item) for user, item, side in rows if side == "test"}


class TestSplit:
    table = made([1, 2, 3, 7, 8, 100, 333])

    def counts(self, found):
        return [sum(user == f"u{u}" for user, _ in found) for u in range(7)]

    def test_a_fifth_of_each_user_rounded_but_never_all(self):
        assert self.counts(sides(self.table)) == [0, 0, 1, 1, 2, 20, 67]
        assert self.counts(sides(self.table, test_share=0.9)) == [0, 1, 2, 6, 7, 90, 300]
        assert sides(self.table, test_share=0.0) == set()

    def test_neither_order_nor_other_users_count(self):
        order = np.random.default_rng(1).permutation(len(self.table))
        assert sides(self.table.take(pa.array(order))) == sides(self.table)
        alone = self.table.filter(pa.array([user == "u5" for user in self.table["user"].to_pylist()]))
        assert sides(alone) == {pair for pair in sides(self.table) if pair[0] == "u5"}

    def test_the_seed_counts(self):
        assert len({frozenset(sides(self.table, seed=seed)) for seed in range(9)}) == 9

    def test_the_draw_is_even(self):
        table = made([300] * 400, seed=3)
        drawn = np.zeros(500)
        for _, item in sides(table):
            drawn[int(item[1:])] += 1
        rated = np.bincount([int(item[1:]) for item in table["item"].to_pylist()], minlength=500)
        # 240 ratings an item, a fifth drawn: 48, with a standard deviation of 6.
        assert abs(drawn / rated - 0.2).max() < 6 * np.sqrt(0.16 / 240)

    def test_by_time_the_newest_are_the_test_side(self):
        found = sides(self.table, temporal=True)
        assert self.counts(found) == self.counts(sides(self.table))
        times = {(row["user"], row["item"]): row["time"] for row in self.table.to_pylist()}
        for user in ("u5", "u6"):
            newest = min(time for pair, time in times.items() if pair[0] == user and pair in found)
            assert newest > max(time for pair, time in times.items() if pair[0] == user and pair not in found)

    def test_other_processes_agree(self):
        script = (
            "import json, pyarrow as pa; from gistbench.hf_datasets.ratings import split_ratings; "
            "t = pa.table({'user': ['a', 'ü'] * 50, 'item': [str(i) for i in range(100)]}); "
            "print(json.dumps([i for i, s in enumerate(split_ratings(t, seed=5).to_pylist()) if s == 'test']))"
        )
        done = subprocess.run(
            [sys.executable, "-c", script], env={"PYTHONHASHSEED": "1", "PATH": ""}, capture_output=True, check=True
        )
        assert json.loads(done.stdout) == [2, 3, 23, 27, 37, 38, 40, 41, 42, 48, 52, 54, 62, 63, 74, 83, 85, 87, 92, 99]

    def test_errors(self):
        with pytest.raises(ConfigError, match="test_share is 1"):
            split_ratings(self.table, test_share=1)
        with pytest.raises(DataError, match="user u0 has rated item"):
            split_ratings(pa.concat_tables([self.table, self.table.slice(0, 1)]))
        with pytest.raises(DataError, match="1 of 1 ratings have no time"):
            split_ratings(pa.table({"user": ["u"], "item": ["i"], "time": pa.nulls(1, pa.float64())}), temporal=True)


class TestBuilders:
    @pytest.fixture
    def movielens(self, tmp_path):
        folder = tmp_path / "ml"
        folder.mkdir()
        rows = [f"{user},{item},{1 + item % 5},{user * 100 + item}" for item in range(30) for user in (7, 12, 3)]
        rows += ["99,1,4,1", "7,2,0.5,9999"]
        (folder / "ratings.csv").write_text("\n".join(["userId,movieId,rating,timestamp", *rows]))
        (folder / "movies.csv").write_text("movieId,title,genres\n")
        return folder

    def built(self, builder_class, source, tmp_path, **parameters):
        builder = prepare(builder_class, "r", source=source, cache_dir=tmp_path / "cache", parameters=parameters)
        return builder.as_dataset(split="train").data.table.cast(RATING_SCHEMA), build_report(builder)

    def test_movielens(self, movielens, tmp_path):
        table, report = self.built(MovieLensRatings, movielens, tmp_path)
        assert table["user"].unique().to_pylist() == ["12", "3", "7", "99"]
        assert table.slice(60, 1).to_pylist() == [
            {"user": "7", "item": "2", "rating": 0.5, "time": 9999.0, "split": table["split"][60].as_py()}
        ]
        assert sides(table) == {(r["user"], r["item"]) for r in table.to_pylist() if r["split"] == "test"}
        assert len(sides(table)) == 18
        assert (report.n_rows, report.n_users) == (91, 4)
        assert report.left_out == {"older ratings of an item that the user rated again": 1}

    def test_parameters(self, movielens, tmp_path):
        table, report = self.built(
            MovieLensRatings, movielens, tmp_path, temporal=True, test_share=0.1, seed=3, min_engagements=2
        )
        assert (report.n_users_left_out, report.n_rows_left_out) == (1, 1)
        assert table["split"].to_pylist() == (["test"] * 3 + ["train"] * 27) * 3
        with pytest.raises(ConfigError, match="test_share is 1"):
            self.built(MovieLensRatings, movielens, tmp_path, test_share=1)

    def test_more_than_fits_into_memory_gives_the_same_rows(self, movielens, tmp_path, monkeypatch):
        expected = self.built(MovieLensRatings, movielens, tmp_path)
        monkeypatch.setattr(_sorting, "RUN_BYTES", 1000)
        assert self.built(MovieLensRatings, movielens, tmp_path / "other") == expected

    def test_goodbooks_have_places_for_times(self, tmp_path):
        folder = tmp_path / "gb"
        folder.mkdir()
        (folder / "ratings.csv").write_text("user_id,book_id,rating\n2,1,5\n1,7,1\n2,9,3\n")
        (folder / "books.csv").write_text("book_id\n")
        table, _ = self.built(GoodbooksRatings, folder, tmp_path, temporal=True, test_share=0.5)
        assert [tuple(row.values()) for row in table.to_pylist()] == [
            ("1", "7", 1.0, 3.0, "train"), ("2", "9", 3.0, 4.0, "test"), ("2", "1", 5.0, 2.0, "train")
        ]  # fmt: skip

    def test_streaming(self, movielens):
        streamed = MovieLensRatings(dataset_name="movielens_ratings", source=str(movielens)).as_streaming_dataset(
            "train"
        )
        assert isinstance(streamed, datasets.IterableDataset)
        assert len(list(streamed)) == 91
