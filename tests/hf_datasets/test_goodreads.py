import json

import pytest
from gistbench.hf_datasets.builder import build_report
from gistbench.hf_datasets.errors import ConfigError, DataError
from gistbench.hf_datasets.goodreads import book_text
from gistbench.hf_datasets.registry import dataset_record

from .formats import Format, add

INTERACTIONS, BOOKS = "goodreads_interactions_poetry.json", "goodreads_books_poetry.json"


def interaction(user, book, rating, added, **more):
    return {
        "user_id": user,
        "book_id": book,
        "review_id": f"{user}-{book}",
        "is_read": bool(rating),
        "rating": rating,
        "review_text_incomplete": "",
        "date_added": added,
        "date_updated": "Sun Jul 30 07:44:10 -0700 2017",
        "read_at": "",
        "started_at": "",
    } | more


def shelf(name, count):
    return {"count": str(count), "name": name}


def book(book_id, title, description, authors, shelves, **more):
    return {
        "isbn": "0151686564",
        "series": [],
        "popular_shelves": shelves,
        "is_ebook": "false",
        "average_rating": "4.09",
        "similar_books": ["884306", "234"],
        "description": description,
        "authors": [{"author_id": author, "role": role} for author, role in authors],
        "num_pages": "",
        "book_id": book_id,
        "ratings_count": "15716",
        "title": title,
        "title_without_series": title,
    } | more


INTERACTION_LINES = [
    interaction("80d5", "402128", 4, "Fri Apr 19 08:15:15 -0700 2013"),
    interaction("80d5", "77", 0, "Sat Apr 20 08:15:15 -0700 2013"),
    interaction("80d5", "9", 1, "Fri Apr 19 08:15:15 -0800 2013"),
    interaction("3ca7", "402128", 3, "Tue Jun 5 23:59:59 +0530 2012"),
    interaction("3ca7", "77", 5, ""),
]
BOOK_LINES = [
    book(
        "402128",
        "Cats in Verse",
        "Playful poems about cats, loved by readers of all ages.",
        [("18", ""), ("21", "Illustrator"), ("22", "")],
        [shelf("to-read", 15419), shelf("cats", 136), shelf("poetry", 1762), shelf("read-in-2016", 140)],
    ),
    book("77", "Ariel", "", [("23", "")], []),
    book("9", "Notes", "None.", [], [shelf("1930s", 9), shelf("owned", 9), shelf("plays", 9)]),
]
CATS = "Cats in Verse. Shelves: poetry, cats. Playful poems about cats, loved by readers of all ages."
NOTES = "Notes. Shelves: 1930s, plays. None."
APRIL, JUNE = 1366384515.0, 1338920999.0


def lines(records):
    return "".join(f"{json.dumps(record)}\n" for record in records)


GOODREADS = Format("goodreads", {INTERACTIONS: lines(INTERACTION_LINES), BOOKS: lines(BOOK_LINES)}, objects=BOOKS)
build, load, error = GOODREADS.build, GOODREADS.load, GOODREADS.error


@pytest.fixture
def folder(tmp_path):
    return GOODREADS.write(tmp_path / "goodreads")


def test_rows(folder, tmp_path):
    assert load(folder, tmp_path).to_pydict() == {
        "user_id": ["3ca7", "3ca7", "80d5", "80d5"],
        "object_id": ["402128", "77", "9", "402128"],
        "object_text": [CATS, "Ariel", NOTES, CATS],
        "interaction_type": [
            "implicit_positive", "explicit_positive", "explicit_negative", "explicit_positive"
        ],
        "interaction_time": [JUNE, None, APRIL + 3600, APRIL],
    }  # fmt: skip
    assert build_report(build(folder, tmp_path)).left_out == {"on a shelf, not rated": 1}


def test_books_on_a_shelf_can_be_implicit_positives(folder, tmp_path):
    table = load(folder, tmp_path, unrated_is_positive=True, implicit_positive_min=3.5)
    assert table.num_rows == 5
    assert table["object_text"][2].as_py() == "Ariel"
    assert table["interaction_type"].to_pylist() == [
        "explicit_negative", "explicit_positive", "implicit_positive", "explicit_negative", "explicit_positive"
    ]  # fmt: skip
    assert build_report(build(folder, tmp_path, unrated_is_positive=True)).left_out == {}


def test_authors_have_names_in_a_file_of_their_own(folder, tmp_path):
    names = [("18", "T. S. Eliot"), ("21", "Edward Gorey"), ("22", " Axel  Scheffler "), ("24", "Nobody")]
    text = lines([{"average_rating": "3.9", "author_id": author, "name": name} for author, name in names])
    (folder / "goodreads_book_authors.json").write_text(text)
    table = load(folder, tmp_path)
    assert table["object_text"][0].as_py() == CATS.replace("Verse.", "Verse. By T. S. Eliot, Axel Scheffler.")
    assert table["object_text"][1].as_py() == "Ariel"


def test_parameters(folder, tmp_path):
    text = load(folder, tmp_path, n_top_shelves=1, n_description_words=3)["object_text"][0].as_py()
    assert text == "Cats in Verse. Shelves: poetry. Playful poems about …"
    text = load(folder, tmp_path, n_top_shelves=0, n_description_words=0)["object_text"][0].as_py()
    assert text == "Cats in Verse"
    with pytest.raises(ConfigError, match="n_top_shelves is -1; it must be 0 or more"):
        load(folder, tmp_path, n_top_shelves=-1)
    with pytest.raises(ConfigError, match="no rating would be an implicit positive"):
        load(folder, tmp_path, implicit_positive_min=4.5)


def test_min_engagements_is_100_of_those_that_are_rated(folder, tmp_path):
    assert dataset_record("goodreads").parameters["min_engagements"] == 100
    with pytest.raises(DataError, match="none of 2 users has 3 engagements"):
        load(folder, tmp_path, min_engagements=3)
    assert set(load(folder, tmp_path, min_engagements=3, unrated_is_positive=True)["user_id"].to_pylist()) == {"80d5"}


def test_two_genres_in_a_folder(folder, tmp_path):
    (folder / "goodreads_interactions_romance.json").write_text(lines(INTERACTION_LINES))
    assert "several files are goodreads_interactions*.json" in error(folder, tmp_path)


APRIL_19 = "Fri Apr 19 08:15:15 -0700 2013"


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (lines([interaction("80d5", "9", 6, APRIL_19)]), "rating is 6.0; a rating from 0 to 5 was expected"),
        (lines([interaction("80d5", "9", -1, APRIL_19)]), "rating is -1.0; a rating from 0 to 5 was expected"),
        (lines([interaction("80d5", "9", float("nan"), APRIL_19)]), "rating is nan; a rating from 0 to 5 was"),
        (lines([interaction("80d5", "9", None, APRIL_19)]), "rating is None; a rating from 0 to 5 was"),
        (lines([interaction("80d5", "9", 5, "2013-04-19")]), "date_added is '2013-04-19'; a time such as Fri Apr 19"),
        (lines([interaction("80d5", "9", 5, "Fri Apr 31 08:15:15 -0700 2013")]), "date_added is 'Fri Apr 31 08:15:15"),
        (lines([interaction("80d5", "9", 5, "Fri Apr 19 08:15:15 -0700 1913")]), "date_added is 'Fri Apr 19 08:15:15"),
        (lines([interaction("", "9", 5, APRIL_19)]), "user_id is ''; an id was expected"),
        (lines([interaction("80d5", None, 5, APRIL_19)]), "book_id is None; an id was expected"),
        (lines([interaction("80d5", "123", 5, APRIL_19)]), f"book_id is '123'; it is not in {BOOKS};"),
        ('{"user_id": \n', "not JSON (Expecting value"),
        ("80d5,9,1,5,0\n", "not JSON (Extra data"),
    ],
)
def test_broken_lines(folder, tmp_path, line, problem):
    GOODREADS.check_broken_line(folder, tmp_path, INTERACTIONS, line, problem)


def test_a_book_without_any_text(folder, tmp_path):
    add(folder, BOOKS, '{"book_id": "10", "title": " "}\n')
    add(folder, INTERACTIONS, lines([interaction("80d5", "10", 5, APRIL_19)]))
    assert build_report(build(folder, tmp_path)).left_out == {"on a shelf, not rated": 1, "the object has no text": 1}


@pytest.mark.parametrize(
    ("name", "tells_of_the_book"),
    [
        ("poetry", True),
        ("young-adult", True),
        ("20th-century", True),
        ("1930s", True),
        ("classic-literature", True),
        ("t-s-eliot", True),
        ("mythology", True),
        ("to-read", False),
        ("currently-reading", False),
        ("books-i-own", False),
        ("my-library", False),
        ("favourites", False),
        ("2017-reading-challenge", False),
        ("read-2016", False),
        ("e-book", False),
        ("wish-list", False),
        ("dnf", False),
    ],
)
def test_shelves_that_tell_of_a_reader_are_left_out(name, tells_of_the_book):
    text = book_text(book("1", "T", None, [], [shelf(name, 3)]), {}, n_description_words=5, n_top_shelves=5)
    assert text == (f"T. Shelves: {name}" if tells_of_the_book else "T")
