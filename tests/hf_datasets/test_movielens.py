import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from gistbench.hf_datasets.builder import build_report, prepare
from gistbench.hf_datasets.errors import ConfigError
from gistbench.hf_datasets.movielens import MovieLens
from gistbench.hf_datasets.registry import load_engagements
from gistbench.hf_datasets.schema import describe_engagements, user_slices

from .formats import Format

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
}


MOVIELENS = Format("movielens", FILES, objects="movies.csv", delimiter=",")
load, error = MOVIELENS.load, MOVIELENS.error


@pytest.fixture
def folder(tmp_path):
    source = MOVIELENS.write(tmp_path / "ml")
    (source / "links.csv").write_text("movieId,imdbId\n")  # not asked for
    return source


TOY_STORY = "Toy Story (1995). Animation, Children, Comedy"


def test_rows(folder, tmp_path):
    assert load(folder, tmp_path).to_pydict() == {
        "user_id": ["1", "1", "2", "2", "2"],
        "object_id": ["10", "20", "10", "20", "30"],
        "object_text": [
            f"{TOY_STORY}. Tags: pixar, boys and toys, fun, na, with, comma",
            "Big Bang Theory, The (2007-)",
            f"{TOY_STORY}. Tags: pixar, boys and toys, fun, na, with, comma",
            "Big Bang Theory, The (2007-)",
            "NA",
        ],
        "interaction_type": [
            "explicit_positive", "implicit_positive", "explicit_negative", "implicit_positive", "explicit_positive"
        ],
        "interaction_time": [30.0, 20.0, 10.0, 5.0, None],
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
    monkeypatch.setattr("gistbench.hf_datasets.raw._BLOCK_BYTES", 20)
    assert load_engagements("movielens", source=folder, cache_dir=tmp_path / "other").equals(expected)


def test_missing_file(folder, tmp_path):
    (folder / "movies.csv").unlink()
    text = error(folder, tmp_path)
    for part in ("ratings.csv, movies.csv", "u.data, u.item", "*.inter, *.item"):
        assert part in text


def test_two_releases(folder, tmp_path):
    other = tmp_path / "ml2"
    other.mkdir()
    for name, text in FILES.items():
        (other / name).write_text(text)
    assert "holds MovieLens 20M and later several times" in error(tmp_path, tmp_path)


def test_not_a_zip(tmp_path):
    path = tmp_path / "ml.zip"
    path.write_text("x")
    assert "not a zip file" in error(path, tmp_path)


def test_film_that_movies_lacks(folder, tmp_path):
    (folder / "ratings.csv").write_text("userId,movieId,rating,timestamp\n1,10,5,1\n1,77,5,1\n1,78,5,1\n")
    text = error(folder, tmp_path)
    assert "ratings.csv: line 3: movieId '77' is not in movies.csv. The two files must be of the same release" in text
    builder = prepare(
        MovieLens, "movielens", source=folder, cache_dir=tmp_path / "cache", parameters={"on_error": "skip"}
    )
    report = build_report(builder)
    assert (report.n_rows, dict(report.skipped)) == (1, {f"{folder}: ratings.csv": 2})


def test_blank_user_and_blank_title(folder, tmp_path):
    (folder / "ratings.csv").write_text(FILES["ratings.csv"] + " ,10,3,1\n")
    (folder / "movies.csv").write_text(FILES["movies.csv"] + "40, ,\n")
    assert "movies.csv: line 5: title is ' '; a title was expected" in error(folder, tmp_path)
    builder = prepare(
        MovieLens, "movielens", source=folder, cache_dir=tmp_path / "cache", parameters={"on_error": "skip"}
    )
    report = build_report(builder)
    assert (report.n_rows, dict(report.skipped)) == (5, {f"{folder}: movies.csv": 1, "movielens": 1})
    assert report.examples[1].startswith("movielens: row 6: user_id is missing or blank")


def test_no_ratings(folder, tmp_path):
    (folder / "ratings.csv").write_text("userId,movieId,rating,timestamp\n")
    assert "ratings.csv has a header but no rows" in error(folder, tmp_path)


def test_limits_in_the_wrong_order(folder, tmp_path):
    with pytest.raises(ConfigError, match="no rating would be an implicit positive"):
        load(folder, tmp_path, implicit_positive_min=4.5)


@pytest.mark.parametrize("name", ["plots.csv", "plots.tsv"])
def test_plots(folder, tmp_path, name):
    separator = "," if name.endswith(".csv") else "\t"
    plots = '10,"Toys,\n  alive."\n20, \n'.replace(",", separator, 1).replace("20,", f"20{separator}")
    (folder / name).write_text(f"movieId{separator}plot\n{plots}")
    texts = load(folder, tmp_path, plots=True, n_top_tags=0)["object_text"].to_pylist()
    assert texts[:2] == [f"{TOY_STORY}. Toys, alive.", "Big Bang Theory, The (2007-)"]
    assert load(folder, tmp_path, n_top_tags=0)["object_text"][0].as_py() == TOY_STORY


def test_plots_that_are_not_there(folder, tmp_path):
    with pytest.raises(ConfigError, match=r"holds neither plots\.csv nor plots\.tsv"):
        load(folder, tmp_path, plots=True)


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ("3,10,five,1\n", "rating is 'five', not a number"),
        ("3,10,,1\n", "rating is None; a rating from 0.5 to 5 was expected"),
        ("3,10,NaN,1\n", "rating is nan; a rating from 0.5 to 5 was expected"),
        ("3,10,5.5,1\n", "rating is 5.5; a rating from 0.5 to 5 was expected"),
        ("3,10,3,-1\n", "timestamp is -1.0; a time since 1970"),
        ("3,77,3,1\n", "movieId '77' is not in movies.csv. The two files must be of the same release"),
        ("3,10,3\n", "3 fields, expected as many as the header has: 4"),
    ],
)
def test_broken_rows(folder, tmp_path, row, problem):
    MOVIELENS.check_broken_line(folder, tmp_path, "ratings.csv", row, problem)


class TestHundredK:
    @pytest.fixture
    def folder(self, tmp_path):
        source = tmp_path / "ml-100k"
        source.mkdir()
        (source / "u.data").write_text("196\t242\t3\t881250949\n186\t2\t1\t891717742\n196\t2\t5\t881250950\n")
        flags = {242: [0] * 19, 2: [0] * 19}
        flags[242][5] = flags[242][8] = 1
        flags[2][0] = 1
        titles = {242: "Misérables, Les (1995)", 2: 'A "Quote" (1995)'}
        lines = [f"{i}|{titles[i]}|01-Jan-1995||http://x|{'|'.join(map(str, flags[i]))}" for i in (242, 2)]
        (source / "u.item").write_bytes("\n".join(lines).encode("latin-1"))
        return source

    def test_rows(self, folder, tmp_path):
        assert [tuple(row.values()) for row in load(folder, tmp_path).to_pylist()] == [
            ("186", "2", 'A "Quote" (1995)', "explicit_negative", 891717742.0),
            ("196", "2", 'A "Quote" (1995)', "explicit_positive", 881250950.0),
            ("196", "242", "Misérables, Les (1995). Comedy, Drama", "implicit_positive", 881250949.0),
        ]

    def test_wrong_delimiter(self, folder, tmp_path):
        (folder / "u.data").write_text("196,242,3,881250949\n")
        assert r"u.data: line 1: 1 fields, expected 4 (user, item, rating, time). Is the delimiter '\t'?" in error(
            folder, tmp_path
        )


class TestAtomicFiles:
    @pytest.fixture
    def folder(self, tmp_path):
        source = tmp_path / "x"
        source.mkdir()
        (source / "my.inter").write_text(
            "user_id:token\titem_id:token\trating:float\ttimestamp:float\n196\t242\t3\t881250949\n186\t2\t1\t9\n"
        )
        (source / "my.item").write_text(
            "item_id:token\tmovie_title:token_seq\trelease_year:token\tclass:token_seq\n"
            "242\tKolya\t1996\tComedy Drama\n2\tunknown\t\tunknown\n"
        )
        return source

    def test_rows(self, folder, tmp_path):
        assert [tuple(row.values()) for row in load(folder, tmp_path).to_pylist()] == [
            ("186", "2", "unknown", "explicit_negative", 9.0),
            ("196", "242", "Kolya (1996). Comedy, Drama", "implicit_positive", 881250949.0),
        ]

    def test_missing_column(self, folder, tmp_path):
        (folder / "my.item").write_text("item_id:token\ttitle:token_seq\n1\tx\n")
        assert "my.item: missing columns: movie_title:token_seq" in error(folder, tmp_path)


@pytest.fixture(scope="session")
def recbole():
    """MovieLens-100K as RecBole's wheel carries it; downloaded once, for this test only."""
    cache = Path(__file__).parents[2] / ".cache" / "recbole"
    if not list(cache.glob("recbole-1.2.1-*.whl")):
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(cache)]
        done = subprocess.run([*command, "recbole==1.2.1"], capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"recbole 1.2.1 cannot be downloaded: {done.stderr.strip()[-200:]}")
    (wheel,) = cache.glob("recbole-1.2.1-*.whl")
    folder = cache / "ml-100k"
    with zipfile.ZipFile(wheel) as archive:
        for name in ("ml-100k.inter", "ml-100k.item"):
            folder.mkdir(exist_ok=True)
            (folder / name).write_bytes(archive.read(f"recbole/dataset_example/ml-100k/{name}"))
    return folder


@pytest.mark.slow
def test_real_hundred_k(recbole, tmp_path):
    table = load(recbole, tmp_path)
    stats = describe_engagements(table)
    assert (stats.n_rows, stats.n_users, stats.n_objects) == (100_000, 943, 1_682)
    assert stats.counts == {"explicit_positive": 55_375, "implicit_positive": 27_145, "explicit_negative": 17_480}
    assert (stats.n_duplicates, stats.n_missing_times, stats.engagements_per_user.minimum) == (0, 0, 20)
    assert "Toy Story (1995). Animation, Children's, Comedy" in table["object_text"].to_pylist()


@pytest.mark.skipif(not REAL.is_dir(), reason=f"{REAL} is not here")
def test_real_release(tmp_path):
    table = load(REAL, tmp_path)
    stats = describe_engagements(table)
    assert (stats.n_rows, stats.n_users, stats.n_objects) == (100_004, 671, 9_066)
    assert stats.counts == {"explicit_positive": 51_568, "implicit_positive": 30_602, "explicit_negative": 17_834}
    assert (stats.n_duplicates, stats.n_objects_with_conflicting_text, stats.n_missing_times) == (0, 0, 0)

    def row(i):
        return tuple(table.slice(i, 1).to_pylist()[0].values())

    cinema = "Cinema Paradiso (Nuovo cinema Paradiso) (1989). Drama. Tags: holes80s"
    assert row(0) == ("1", "1172", cinema, "explicit_positive", 1260759205.0)
    assert set(table["user_id"][user_slices(table)["671"]].to_pylist()) == {"671"}
    pairs = (table["user_id"].to_pylist(), table["object_id"].to_pylist())
    rows = {(user, movie): i for i, (user, movie) in enumerate(zip(*pairs, strict=True))}
    assert row(rows["1", "31"]) == ("1", "31", "Dangerous Minds (1995). Drama", "explicit_negative", 1260759144.0)
    assert row(rows["1", "1343"]) == ("1", "1343", "Cape Fear (1991). Thriller", "explicit_negative", 1260759131.0)
    assert row(rows["671", "6565"]) == ("671", "6565", "Seabiscuit (2003). Drama", "implicit_positive", 1074784724.0)
    assert (
        "Pulp Fiction (1994). Comedy, Crime, Drama, Thriller. "
        "Tags: dark comedy, intense, quentin tarantino, r:violence, tarantino"
    ) in table["object_text"].to_pylist()
    tagged = [text for text in table["object_text"].to_pylist() if ". Tags: " in text]
    assert len(tagged) == 22_106
