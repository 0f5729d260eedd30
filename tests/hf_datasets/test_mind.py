import zipfile

import pytest
from gistbench.hf_datasets.builder import build_report, prepare
from gistbench.hf_datasets.errors import DataError
from gistbench.hf_datasets.mind import Mind
from gistbench.hf_datasets.registry import dataset_record, load_engagements

# No header, no quoting: titles hold bare quotes, and N4 has no abstract.
FILES = {
    "behaviors.tsv": (
        "1\tU13\t11/11/2019 9:05:58 AM\tN3 N2\tN1-1 N2-0\n"
        "2\tU9\t11/12/2019 6:11:30 PM\t\tN4-0 N1-0 N2-1\n"
        "3\tU13\t11/14/2019 12:00:00 AM\tN3 N2\tN4-1\n"
    ),
    "news.tsv": (
        'N1\tsports\tsoccer\tThe "Miracle" of Bern\tHow it was won.\thttps://x/1\t'
        '[{"Label": "Bern", "Type": "P"}]\t[]\n'
        "N2\thealth\thealth\tIs coffee good?\tPerhaps.\thttps://x/2\t[]\t[]\n"
        "N3\tnews\tnewsus\tStorm ahead\tStay in\thttps://x/3\t[]\t[]\n"
        "N4\tfood\trecipes\tApple pie\t\thttps://x/4\t\t\n"
    ),
}
TEXTS = {
    "N1": 'The "Miracle" of Bern. How it was won. Category: sports, soccer',
    "N2": "Is coffee good? Perhaps. Category: health",
    "N3": "Storm ahead. Stay in. Category: news, newsus",
    "N4": "Apple pie. Category: food, recipes",
}
MONDAY, TUESDAY, THURSDAY = 1573463158.0, 1573582290.0, 1573689600.0


@pytest.fixture
def folder(tmp_path):
    source = tmp_path / "MINDsmall_train"
    source.mkdir()
    for name, text in FILES.items():
        (source / name).write_text(text)
    return source


def build(source, tmp_path, **parameters):
    parameters = {"min_engagements": 1} | parameters
    return prepare(Mind, "mind", source=source, cache_dir=tmp_path / "cache", parameters=parameters)


def load(source, tmp_path, **parameters):
    parameters = {"min_engagements": 1} | parameters
    return load_engagements("mind", source=source, cache_dir=tmp_path / "cache", **parameters)


def error(source, tmp_path, **parameters):
    with pytest.raises(DataError) as caught:
        load(source, tmp_path, **parameters)
    assert str(caught.value).startswith(str(source))
    return str(caught.value)


def add(folder, name, text, encoding="utf-8"):
    with (folder / name).open("a", encoding=encoding) as file:
        file.write(text)


def test_rows(folder, tmp_path):
    assert load(folder, tmp_path).to_pydict() == {
        "user_id": ["U13", "U13", "U13", "U9", "U9", "U9"],
        "object_id": ["N4", "N1", "N2", "N4", "N1", "N2"],
        "object_text": [TEXTS[news] for news in ("N4", "N1", "N2", "N4", "N1", "N2")],
        "interaction_type": [
            "explicit_positive", "explicit_positive", "implicit_negative",
            "implicit_negative", "implicit_negative", "explicit_positive",
        ],
        "interaction_time": [THURSDAY, MONDAY, MONDAY, TUESDAY, TUESDAY, TUESDAY],
    }  # fmt: skip


def test_history_comes_once_without_times_the_latest_first(folder, tmp_path):
    table = load(folder, tmp_path, include_history=True)
    assert table.num_rows == 8
    assert table.slice(3, 2).to_pydict() == {
        "user_id": ["U13", "U13"],
        "object_id": ["N2", "N3"],
        "object_text": [TEXTS["N2"], TEXTS["N3"]],
        "interaction_type": ["explicit_positive", "explicit_positive"],
        "interaction_time": [None, None],
    }


def test_a_history_that_grows_adds_what_is_new(folder, tmp_path):
    add(folder, "behaviors.tsv", "4\tU13\t11/14/2019 1:00:00 AM\tN3 N2 N1\tN2-0\n")
    table = load(folder, tmp_path, include_history=True)
    assert table.filter(table["interaction_time"].is_null())["object_id"].to_pylist() == ["N2", "N3", "N1"]


def test_zip_byte_order_mark_and_crlf_give_the_same_rows(folder, tmp_path):
    expected = load(folder, tmp_path)
    archive = tmp_path / "MINDsmall_train.zip"
    with zipfile.ZipFile(archive, "w") as opened:
        for name, text in FILES.items():
            opened.writestr(name, "\ufeff" + text.replace("\n", "\r\n"))
    assert load(archive, tmp_path).equals(expected)


def test_min_engagements_is_100(folder, tmp_path):
    assert dataset_record("mind").parameters["min_engagements"] == 100
    report = build_report(build(folder, tmp_path, min_engagements=3))
    assert (report.n_users, report.n_users_left_out) == (2, 0)
    with pytest.raises(DataError, match="none of 2 users has 4 engagements"):
        load(folder, tmp_path, min_engagements=4)


def test_two_splits_must_be_told_apart(folder, tmp_path):
    other = tmp_path / "MINDsmall_dev"
    other.mkdir()
    for name, text in FILES.items():
        (other / name).write_text(text)
    assert "holds MIND several times" in error(tmp_path, tmp_path)


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ("4\tU9\t11/11/2019\t\tN1-1\n", "time is '11/11/2019'; a time such as 11/11/2019 9:05:58 AM was expected"),
        ("4\tU9\t2/30/2019 9:05:58 AM\t\tN1-1\n", "time is '2/30/2019 9:05:58 AM'; a time such as"),
        ("4\tU9\t1/1/1969 9:05:58 AM\t\tN1-1\n", "time is '1/1/1969 9:05:58 AM'; a time such as"),
        ("4\tU9\t11/11/2019 9:05:58 AM\t\tN1 N2\n", "impressions is 'N1 N2'; articles with clicks (N1-1 N2-0) were"),
        ("4\tU9\t11/11/2019 9:05:58 AM\t\tN1-2\n", "impressions is 'N1-2'; articles with clicks"),
        ("4\tU9\t11/11/2019 9:05:58 AM\t\t\n", "impressions is ''; articles with clicks"),
        ("4\tU9\t11/11/2019 9:05:58 AM\t\tN77-1\n", "news_id is 'N77'; it is not in news.tsv;"),
        ("4\t \t11/11/2019 9:05:58 AM\t\tN1-1\n", "user_id is ' '; an id was expected"),
        ("4,U9,11/11/2019 9:05:58 AM,,N1-1\n", "1 fields, expected 5 (impression_id, user_id, time, history, imp"),
    ],
)
def test_broken_rows(folder, tmp_path, row, problem):
    add(folder, "behaviors.tsv", row)
    text = error(folder, tmp_path)
    assert f"behaviors.tsv: line 4: {problem}" in text
    report = build_report(build(folder, tmp_path, on_error="skip"))
    assert report.skipped == {f"{folder}: behaviors.tsv": 1}
    assert report.n_rows == 6
    assert report.examples == (text,)


def test_an_article_listed_twice(folder, tmp_path):
    add(folder, "news.tsv", "N1\tsports\tsoccer\tAgain\t\t\t\t\n")
    assert "news.tsv: line 5: news_id 'N1' is already on line 1" in error(folder, tmp_path)
    assert TEXTS["N1"] in load(folder, tmp_path, on_error="skip")["object_text"].to_pylist()


def test_latin_1_title(folder, tmp_path):
    add(folder, "news.tsv", "N5\tfood\tfood\tCr\xeape\t\t\t\t\n", encoding="latin-1")
    assert "news.tsv: line 5: title is not UTF-8 text" in error(folder, tmp_path)
    assert load(folder, tmp_path, on_error="skip").num_rows == 6


def test_an_article_without_any_text(folder, tmp_path):
    add(folder, "news.tsv", "N5\t\t\t \t\t\t\t\n")
    add(folder, "behaviors.tsv", "4\tU9\t11/11/2019 9:05:58 AM\t\tN5-1\n")
    assert build_report(build(folder, tmp_path)).left_out == {"the object has no text": 1}


def test_missing_and_empty_files(folder, tmp_path):
    (folder / "news.tsv").write_text("")
    assert "news.tsv: the file describes nothing" in error(folder, tmp_path)
    (folder / "news.tsv").unlink()
    assert "no known set of files was found together" in error(folder, tmp_path)


def test_as_a_datasets_builder(folder, tmp_path):
    builder = Mind(dataset_name="mind", cache_dir=str(tmp_path / "own"), source=str(folder), min_engagements=1)
    builder.download_and_prepare()
    assert builder.as_dataset(split="train")["object_id"][:] == ["N4", "N1", "N2", "N4", "N1", "N2"]
