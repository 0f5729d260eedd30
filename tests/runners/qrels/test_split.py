import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from gistbench.hf_datasets.errors import ConfigError, DataError, StoreError
from gistbench.hf_datasets.ratings import RATING_SCHEMA, split_ratings
from gistbench.runners.qrels.ratings import Ratings, read_rating_file
from gistbench.runners.qrels.split import describe_split, split
from gistbench.runners.qrels.work import Work
from gistbench.runners.rated import ItemTexts


def write(tmp_path, text, name="ratings.csv"):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


def test_the_split_is_that_of_the_ratings_view(ratings_csv, tmp_path):
    work = Work(tmp_path / "w")
    record = split(work, str(ratings_csv), seed=4)
    table = work.read("ratings")
    assert table.schema.equals(RATING_SCHEMA)
    assert table["split"].to_pylist() == split_ratings(table, seed=4).to_pylist()
    s = record["statistics"]
    assert s["n_users"] == 120
    assert s["n_train"] + s["n_test"] == s["n_ratings"] == table.num_rows
    assert abs(s["n_test"] / s["n_ratings"] - 0.2) < 0.01
    users = table["user"].to_pylist()
    assert users == sorted(users)


def test_statistics_by_hand():
    table = pa.table(
        {
            "user": ["a", "a", "b", "b", "c"],
            "item": ["x", "y", "x", "z", "x"],
            "rating": [5.0, 4.0, 1.0, 2.0, 3.0],
            "split": ["train", "test", "train", "test", "train"],
        }
    )
    s = describe_split(table, pa.table({"item": ["x", "q"]}))
    assert (s["n_users"], s["n_items"], s["n_ratings"], s["n_train"], s["n_test"]) == (3, 3, 5, 3, 2)
    assert s["density"] == pytest.approx(5 / 9)
    assert (s["n_test_relevant"], s["n_users_without_test"], s["n_users_without_relevant_test"]) == (1, 1, 2)
    assert (s["n_items_in_training"], s["n_test_items_without_training"], s["n_items_without_metadata"]) == (1, 2, 2)
    assert s["profile_length_quantiles"] == {"0": 1.0, "0.25": 1.5, "0.5": 2.0, "0.75": 2.0, "1": 2.0}
    assert s["ratings_by_value"] == {"1.0": 1, "2.0": 1, "3.0": 1, "4.0": 1, "5.0": 1}


def test_the_same_again_changes_nothing(ratings_csv, tmp_path):
    work = Work(tmp_path / "w")
    split(work, str(ratings_csv))
    before = {path: path.stat().st_mtime_ns for path in work.path.iterdir()}
    split(work, str(ratings_csv))
    assert {path: path.stat().st_mtime_ns for path in work.path.iterdir()} == before
    split(work, str(ratings_csv), seed=1)
    assert {path: path.stat().st_mtime_ns for path in work.path.iterdir()} != before


def test_another_split_unmakes_what_was_built_on_it(work, ratings_csv):
    assert work.has("recommend")
    split(work, str(ratings_csv), seed=1)
    assert not work.has("recommend")
    with pytest.raises(StoreError, match=r"no recommend\.json: run `gistbench qrels recommend"):
        work.record("recommend")


def test_by_time_and_by_profile_length(tmp_path):
    lines = [f"a,{i},3,{i}" for i in range(10)] + ["b,1,5,1", "b,2,4,2"]
    path = write(tmp_path, "\n".join(["user_id,movieId,rating,timestamp", *lines]))
    work = Work(tmp_path / "w")
    record = split(work, str(path), temporal=True, min_profile=3)
    table = work.read("ratings")
    assert [(row["item"], row["split"]) for row in table.to_pylist()][:3] == [
        ("9", "test"),
        ("8", "test"),
        ("7", "train"),
    ]
    assert (record["statistics"]["n_users_left_out"], record["statistics"]["n_ratings_left_out"]) == (1, 2)
    with pytest.raises(DataError, match="no user has 11 ratings"):
        split(work, str(path), min_profile=11)


def test_a_named_data_set(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "ml"
    folder.mkdir()
    rows = [f"{user},{item},{1 + item % 5},{item}" for item in range(10) for user in (7, 12)] + ["9,1,4,1"]
    write(folder, "\n".join(["userId,movieId,rating,timestamp", *rows]))
    write(folder, 'movieId,title,genres\n1,Heat (1995),Crime|Drama\n2,"Big, the",(no genres listed)\n', "movies.csv")
    write(folder, "movieId,plot\n1,A  robbery.\n", "plots.csv")
    work = Work(tmp_path / "w")
    record = split(work, "movielens_ratings", source=str(folder), min_profile=2)
    assert record["statistics"]["n_users"] == 2
    assert (record["statistics"]["n_users_left_out"], record["statistics"]["n_test"]) == (1, 4)
    assert work.read("items").to_pylist() == [
        {"item": "1", "title": "Heat", "year": "1995", "genres": "Crime, Drama", "plot": "A robbery."},
        {"item": "2", "title": "Big, the", "year": None, "genres": None, "plot": None},
    ]
    assert record["statistics"]["n_items_without_metadata"] == 8
    texts = ItemTexts(work.read("items"))
    assert texts.text("1", plot=True) == "Heat | 1995 | Crime, Drama | Plot: A robbery."
    own = write(tmp_path, "item,title\n1,Mine\n", "own.csv")
    write(folder, "movieId,title,genres\n", "movies.csv")  # is not read then
    split(work, "movielens_ratings", source=str(folder), min_profile=2, items=own)
    assert work.read("items").to_pylist() == [{"item": "1", "title": "Mine"}]


@pytest.mark.parametrize(
    ("name", "folder", "n_unknown", "text"),
    [
        (
            "movielens_ratings",
            "ml-latest-small",
            0,
            "Toy Story | 1995 | Adventure, Animation, Children, Comedy, Fantasy",
        ),
        (
            "goodbooks_ratings",
            "goodbooks-10k-sample",
            69,
            "The Hunger Games (The Hunger Games, #1) | Suzanne Collins | 2008",
        ),
    ],
)
def test_a_named_data_set_brings_its_metadata(name, folder, n_unknown, text, shared, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    work = Work(tmp_path / name)
    record = split(work, name, source=str(shared / "data" / folder))
    assert record["statistics"]["n_items_without_metadata"] == n_unknown
    assert ItemTexts(work.read("items")).text("1") == text


def test_books_have_readers_tags_for_genres(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "books"
    folder.mkdir()
    write(folder, "user_id,book_id,rating\n1,1,4\n1,2,5\n")
    columns = "book_id,goodreads_book_id,title,authors,original_publication_year\n"
    write(folder, columns + "1,10,Emma,Jane Austen,1815.0\n2,20,Untold,,\n", "books.csv")
    write(folder, "tag_id,tag_name\n1,to-read\n2,classics\n3,love-story\n", "tags.csv")
    write(folder, "goodreads_book_id,tag_id,count\n10,1,99\n10,3,5\n10,2,7\n", "book_tags.csv")
    write(folder, "book_id\tplot\n2\tA secret.\n", "plots.tsv")
    work = Work(tmp_path / "w")
    split(work, "goodbooks_ratings", source=str(folder))
    texts = ItemTexts(work.read("items"))
    assert texts.text("1", plot=True) == "Emma | Jane Austen | 1815 | classics, love story"
    assert texts.text("2", plot=True) == "Untold | Plot: A secret."


def test_metadata_is_kept_and_what_lacks_it_is_counted(ratings_csv, tmp_path):
    items = write(tmp_path, "movieId\ttitle\n" + "".join(f"i{i:03d}\tFilm {i}\n" for i in range(100)), "items.tsv")
    work = Work(tmp_path / "w")
    record = split(work, str(ratings_csv), items=items)
    assert work.read("items").column_names == ["item", "title"]
    n_items = record["statistics"]["n_items"]
    assert record["statistics"]["n_items_without_metadata"] == n_items - 100
    again = write(tmp_path, "item,title\na,1\na,2\n", "again.csv")
    with pytest.raises(DataError, match="item 'a' stands there more than once"):
        split(work, str(ratings_csv), items=again)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("user,rating\na,1\n", "no column for item. It has user, rating"),
        ("user,item,rating\na,x,five\n", "row 1 .*the rating is 'five'"),
        ("user,item,rating\na,x,3\na,y,\n", "row 2 .*the rating is ''"),
        ("user,item,rating\na,x,-1\n", "the rating is '-1'"),
        ("user,item,rating\n,x,3\n", "row 1: user is missing or blank"),
        ("user,item,rating\na,x,3\na,x,4\n", "user a has rated item x more than once"),
        ("user,item,rating\n", "has no ratings|no rows"),
        ("user,item,rating\na,x\n", "line 2"),
    ],
)
def test_bad_files(tmp_path, text, message):
    with pytest.raises(DataError, match=message):
        split(Work(tmp_path / "w"), str(write(tmp_path, text)))
    assert not (tmp_path / "w" / "split.json").exists()


def test_parquet_with_missing_and_infinite_ratings(tmp_path):
    path = tmp_path / "r.parquet"
    pq.write_table(pa.table({"user": [1, 2], "item": [1, 2], "rating": [1.0, None]}), path)
    with pytest.raises(DataError, match=r"row 2 .*the rating is None"):
        read_rating_file(path)
    pq.write_table(pa.table({"user": [1.0], "item": [1], "rating": [1.0]}), path)
    with pytest.raises(DataError, match="Decimals are not ids"):
        read_rating_file(path)


def test_unknown_names(tmp_path, ratings_csv):
    work = Work(tmp_path / "w")
    with pytest.raises(ConfigError, match="No data set of ratings and no file is called 'movielens'"):
        split(work, "movielens")
    with pytest.raises(ConfigError, match="go with a named data set"):
        split(work, str(ratings_csv), source="x")
    with pytest.raises(ConfigError, match="test_share is 1"):
        split(work, str(ratings_csv), test_share=1.0)


def test_the_matrix_is_in_the_order_of_ids(tmp_path):
    path = write(tmp_path, "user,item,rating\nb,é,3\nb,z,2\na,10,1\na,9,5\n")
    work = Work(tmp_path / "w")
    split(work, str(path), test_share=0.0)
    ratings = Ratings.read(work)
    assert ratings.users.to_pylist() == ["a", "b"]
    assert ratings.items.to_pylist() == ["10", "9", "z", "é"]
    assert ratings.train.toarray().tolist() == [[1, 5, 0, 0], [0, 0, 2, 3]]
    assert len(ratings.evaluated) == 0


class TestRecords:
    def test_of_another_format_or_content(self, work):
        path = work.path / "split.json"
        good = json.loads(path.read_text())
        path.write_text(json.dumps({**good, "format": 99}))
        with pytest.raises(StoreError, match="format 99"):
            work.record("split")
        path.write_text("[]")
        with pytest.raises(StoreError, match="is no record of split"):
            work.record("split")
        path.write_text(json.dumps({**good, "fingerprint": "other"}))
        with pytest.raises(StoreError, match="was made from another split"):
            work.record("recommend")

    def test_a_table_that_is_gone(self, work):
        (work.path / "ratings.parquet").unlink()
        with pytest.raises(StoreError, match="run `gistbench qrels split"):
            work.read("ratings")
