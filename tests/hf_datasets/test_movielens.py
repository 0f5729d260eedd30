import zipfile
from pathlib import Path

import pytest
from gistbench.hf_datasets.errors import ConfigError, DataError
from gistbench.hf_datasets.movielens import MovieLens
from gistbench.hf_datasets.registry import load_engagements
from gistbench.hf_datasets.schema import describe_engagements

REAL = Path(__file__).parents[3] / "shared" / "data" / "ml-latest-small"

FILES = {
    "ratings.csv": "userId,movieId,rating,timestamp\n1,10,5.0,30\n1,20,3.5,20\n2,10,2.5,10\n2,30,4.0,\n2,20,3.0,5\n",
    "movies.csv": (
        "movieId,title,genres\n"
        "10,Toy Story (1995) ,Animation|Children|Comedy\n"
        '20,"Big Bang Theory, The (2007-)",(no genres listed)\n'
        "30,NA,\n"
    ),
    "tags.csv": (
        "userId,movieId,tag,timestamp\n1,10,Pixar,1\n2,10,pixar ,2\n3,10,fun,3\n4,10,boys  and toys,4\n5,10,zebra,5\n"
        '6,10,"with, comma",6\n7,10,NA,7\n8,99,elsewhere,8\n9,30, ,9\n'
    ),
    "links.csv": "movieId,imdbId\n",
}


@pytest.fixture
def folder(tmp_path):
    source = tmp_path / "ml"
    source.mkdir()
    for name, text in FILES.items():
        (source / name).write_text(text)
    return source


def load(source, tmp_path, **parameters):
    return load_engagements("movielens", source=source, cache_dir=tmp_path / "cache", **parameters)


def error(source, tmp_path, **parameters):
    with pytest.raises(DataError) as caught:
        load(source, tmp_path, **parameters)
    assert str(caught.value).startswith(str(source))
    return str(caught.value)


TOY_STORY = "Toy Story (1995). Animation, Children, Comedy"


def test_rows(folder, tmp_path):
    assert load(folder, tmp_path).to_pydict() == {
        "user_id": ["1", "1", "2", "2", "2"],
        "object_id": ["10", "20", "10", "30", "20"],
        "object_text": [
            f"{TOY_STORY}. Tags: pixar, boys and toys, fun, na, with, comma",
            "Big Bang Theory, The (2007-)",
            f"{TOY_STORY}. Tags: pixar, boys and toys, fun, na, with, comma",
            "NA",
            "Big Bang Theory, The (2007-)",
        ],
        "interaction_type": [
            "explicit_positive", "implicit_positive", "explicit_negative", "explicit_positive", "implicit_positive"
        ],
        "interaction_time": [30.0, 20.0, 10.0, None, 5.0],
    }  # fmt: skip


def test_parameters(folder, tmp_path):
    table = load(folder, tmp_path, n_top_tags=1, explicit_positive_min=5, implicit_positive_min=2.5)
    assert table["object_text"][0].as_py() == f"{TOY_STORY}. Tags: pixar"
    assert [kind.as_py() for kind in table["interaction_type"]] == ["explicit_positive"] + ["implicit_positive"] * 4
    assert load(folder, tmp_path, n_top_tags=0)["object_text"][0].as_py() == TOY_STORY


def test_without_tags(folder, tmp_path):
    (folder / "tags.csv").unlink()
    assert load(folder, tmp_path)["object_text"][0].as_py() == TOY_STORY


def test_sub_folder_and_zip_give_the_same_rows(folder, tmp_path):
    expected = load(folder, tmp_path)
    assert load(tmp_path, tmp_path).equals(expected)
    archive = tmp_path / "ml.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as opened:
        for name, text in FILES.items():
            opened.writestr(f"ml-latest/{name}", text)
        opened.writestr("__MACOSX/ml-latest/ratings.csv", "x")
    assert load(archive, tmp_path).equals(expected)


def test_batches_join_to_the_same_rows(folder, tmp_path, monkeypatch):
    expected = load(folder, tmp_path)
    monkeypatch.setattr("gistbench.hf_datasets.movielens._BATCH_ROWS", 2)
    assert len(list(MovieLens(dataset_name="movielens", source=str(folder)).engagement_tables())) == 3
    assert load_engagements("movielens", source=folder, cache_dir=tmp_path / "other").equals(expected)


def test_missing_file(folder, tmp_path):
    (folder / "movies.csv").unlink()
    assert "ratings.csv and movies.csv were not found together" in error(folder, tmp_path)


def test_two_releases(folder, tmp_path):
    other = tmp_path / "ml2"
    other.mkdir()
    for name, text in FILES.items():
        (other / name).write_text(text)
    assert "several MovieLens releases" in error(tmp_path, tmp_path)


def test_not_a_zip(tmp_path):
    path = tmp_path / "ml.zip"
    path.write_text("x")
    assert "not a zip file" in error(path, tmp_path)


def test_missing_columns(folder, tmp_path):
    (folder / "ratings.csv").write_text("userId,itemId,rating\n1,10,5\n")
    text = error(folder, tmp_path)
    assert "ratings.csv: missing columns: movieId, timestamp" in text
    assert "Needed: userId, movieId, rating, timestamp" in text


def test_film_that_movies_lacks(folder, tmp_path):
    (folder / "ratings.csv").write_text("userId,movieId,rating,timestamp\n1,10,5,1\n1,77,5,1\n1,78,5,1\n")
    text = error(folder, tmp_path)
    assert "2 of 3 ratings are of movies that movies.csv lacks; the first is movieId '77'" in text


def test_film_listed_twice(folder, tmp_path):
    (folder / "movies.csv").write_text(FILES["movies.csv"] + "20,Again,\n")
    assert "movies.csv has movieId '20' more than once" in error(folder, tmp_path)


def test_rating_that_is_no_number(folder, tmp_path):
    (folder / "ratings.csv").write_text(FILES["ratings.csv"] + "3,10,five,1\n")
    assert "ratings.csv: line 7: rating is 'five', not a number" in error(folder, tmp_path)


def test_missing_rating(folder, tmp_path):
    (folder / "ratings.csv").write_text(FILES["ratings.csv"] + "3,10,,1\n")
    assert "ratings.csv has 1 rows without a rating" in error(folder, tmp_path)


def test_no_ratings(folder, tmp_path):
    (folder / "ratings.csv").write_text("userId,movieId,rating,timestamp\n")
    assert "ratings.csv has a header but no rows" in error(folder, tmp_path)


def test_limits_in_the_wrong_order(folder, tmp_path):
    with pytest.raises(ConfigError, match="no rating would be an implicit positive"):
        load(folder, tmp_path, implicit_positive_min=4.5)


@pytest.mark.skipif(not REAL.is_dir(), reason=f"{REAL} is not here")
def test_real_release(tmp_path):
    table = load(REAL, tmp_path)
    stats = describe_engagements(table)
    assert (stats.n_rows, stats.n_users, stats.n_objects) == (100_004, 671, 9_066)
    assert stats.counts == {"explicit_positive": 51_568, "implicit_positive": 30_602, "explicit_negative": 17_834}
    assert (stats.n_duplicates, stats.n_objects_with_conflicting_text, stats.n_missing_times) == (0, 0, 0)

    def row(i):
        return tuple(table.slice(i, 1).to_pylist()[0].values())

    assert row(0) == ("1", "31", "Dangerous Minds (1995). Drama", "explicit_negative", 1260759144.0)
    assert row(9) == ("1", "1343", "Cape Fear (1991). Thriller", "explicit_negative", 1260759131.0)
    assert row(100_003) == ("671", "6565", "Seabiscuit (2003). Drama", "implicit_positive", 1074784724.0)
    assert (
        "Pulp Fiction (1994). Comedy, Crime, Drama, Thriller. "
        "Tags: dark comedy, intense, quentin tarantino, r:violence, tarantino"
    ) in table["object_text"].to_pylist()
    tagged = [text for text in table["object_text"].to_pylist() if ". Tags: " in text]
    assert len(tagged) == 22_106
