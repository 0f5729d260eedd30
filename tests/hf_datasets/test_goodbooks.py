from pathlib import Path

import pyarrow as pa
import pytest
from gistbench.hf_datasets.errors import ConfigError, DataError
from gistbench.hf_datasets.goodbooks import Goodbooks, goodbooks_ratings
from gistbench.hf_datasets.raw import BadRows, read_delimited

from .formats import Format

SAMPLE = Path(__file__).parents[3] / "shared" / "data" / "goodbooks-10k-sample"

BOOKS = "book_id,goodreads_book_id,isbn,authors,original_publication_year,title\n"
FILES = {
    "ratings.csv": "user_id,book_id,rating\n2,11,5\n1,12,3\n2,13,2\n1,11,4\n",
    "books.csv": BOOKS
    + '11,900,039,"Mary GrandPré, X",1997.0,"Harry Potter, ""One"""\n12,901,,Homer,-750.0,Iliad\n13,902,,,,Untold\n',
    "tags.csv": "tag_id,tag_name\n1,to-read\n2,Young-Adult\n3,fantasy\n4,--\n5,young-adult\n6,classics\n",
    "book_tags.csv": (
        "goodreads_book_id,tag_id,count\n900,1,99\n900,2,4\n900,5,5\n900,3,8\n901,6,1\n901,3,1\n901,4,7\n999,3,5\n902,1,3\n"
    ),
}
POTTER = 'Harry Potter, "One" by Mary GrandPré, X (1997). Tags: young adult, fantasy'


GOODBOOKS = Format("goodbooks", FILES, objects="books.csv", delimiter=",")
load = GOODBOOKS.load


@pytest.fixture
def folder(tmp_path):
    return GOODBOOKS.write(tmp_path / "goodbooks")


def test_rows(folder, tmp_path):
    assert [tuple(row.values()) for row in load(folder, tmp_path).to_pylist()] == [
        ("1", "11", POTTER, "explicit_positive", 5.0),
        ("1", "12", "Iliad by Homer (-750). Tags: classics, fantasy", "implicit_positive", 3.0),
        ("2", "13", "Untold", "explicit_negative", 4.0),
        ("2", "11", POTTER, "explicit_positive", 2.0),
    ]


def test_parameters(folder, tmp_path):
    assert load(folder, tmp_path, n_top_tags=1)["object_text"][0].as_py() == POTTER.removesuffix(", fantasy")
    table = load(folder, tmp_path, n_top_tags=0, explicit_positive_min=5, min_engagements=2)
    assert table["interaction_type"][0].as_py() == "implicit_positive"
    assert "Tags" not in table["object_text"][0].as_py()
    with pytest.raises(DataError, match=r"none of 2 users has 3 engagements; lower min_engagements"):
        load(folder, tmp_path, min_engagements=3)


def test_plots(folder, tmp_path):
    (folder / "plots.csv").write_text('book_id,plot\n12,"Sing,\ngoddess"\n')
    texts = load(folder, tmp_path, plots=True, n_top_tags=0)["object_text"].to_pylist()
    assert texts[1:3] == ["Iliad by Homer (-750). Sing, goddess", "Untold"]


def test_one_of_the_tag_files(folder, tmp_path):
    (folder / "tags.csv").unlink()
    with pytest.raises(DataError, match=r"book_tags\.csv is there alone"):
        load(folder, tmp_path)
    (folder / "book_tags.csv").unlink()
    assert load(folder, tmp_path)["object_text"][2].as_py() == "Untold"


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ("1,14,3\n", "book_id '14' is not in books.csv"),
        ("1,12,0\n", "rating is 0.0; a rating from 1 to 5 was expected"),
        ("1,12,NaN\n", "rating is nan; a rating from 1 to 5 was expected"),
        ("1,12,\n", "rating is None; a rating from 1 to 5 was expected"),
        ("1,13\n", "2 fields, expected as many as the header has: 3"),
        ("1,13,five\n", "rating is 'five', not a number"),
    ],
)
def test_broken_rows(folder, tmp_path, row, problem):
    GOODBOOKS.check_broken_line(folder, tmp_path, "ratings.csv", row, problem)


def test_limits(folder, tmp_path):
    with pytest.raises(ConfigError, match="no rating would be an implicit positive"):
        load(folder, tmp_path, implicit_positive_min=4.5)
    with pytest.raises(ConfigError, match="n_top_tags is -1"):
        load(folder, tmp_path, n_top_tags=-1)


@pytest.mark.skipif(not SAMPLE.is_dir(), reason=f"{SAMPLE} is not here")
def test_the_real_files_can_be_read(tmp_path):
    config = Goodbooks(dataset_name="goodbooks", source=str(SAMPLE)).config
    assert sum(batch.num_rows for batch in goodbooks_ratings(config, BadRows())) == 99
    columns = dict.fromkeys(("book_id", "title"), pa.string())
    assert sum(batch.num_rows for batch in read_delimited(config.raw_file("books.csv"), columns)) == 99
    table = load(SAMPLE, tmp_path, on_error="skip")
    assert 0 < table.num_rows < 99
