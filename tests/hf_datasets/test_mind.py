import pytest
from gistbench.hf_datasets.builder import build_report
from gistbench.hf_datasets.errors import DataError
from gistbench.hf_datasets.registry import dataset_record

from .formats import Format, add

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


MIND = Format("mind", FILES, objects="news.tsv", delimiter="\t", header=False)
build, load, error = MIND.build, MIND.load, MIND.error


@pytest.fixture
def folder(tmp_path):
    return MIND.write(tmp_path / "mind")


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
    MIND.check_broken_line(folder, tmp_path, "behaviors.tsv", row, problem)


def test_an_article_without_any_text(folder, tmp_path):
    add(folder, "news.tsv", "N5\t\t\t \t\t\t\t\n")
    add(folder, "behaviors.tsv", "4\tU9\t11/11/2019 9:05:58 AM\t\tN5-1\n")
    assert build_report(build(folder, tmp_path)).left_out == {"the object has no text": 1}
