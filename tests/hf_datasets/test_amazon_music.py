import gzip
import json

import pytest
from gistbench.hf_datasets.amazon_music import product_text
from gistbench.hf_datasets.builder import build_report
from gistbench.hf_datasets.errors import ConfigError, DataError
from gistbench.hf_datasets.registry import dataset_record

from .formats import Format, add


def review(user, product, rating, time, **more):
    return {
        "rating": rating,
        "title": "Nice",
        "text": "I like it.\nReally.",
        "images": [],
        "asin": f"{product}X",
        "parent_asin": product,
        "user_id": user,
        "timestamp": time,
        "helpful_vote": 0,
        "verified_purchase": True,
    } | more


def meta(product, title, store, **more):
    return {
        "main_category": "Digital Music",
        "title": title,
        "average_rating": 4.9,
        "rating_number": 19,
        "features": [],
        "description": [],
        "price": None,
        "images": [{"thumb": "https://x/t.jpg", "large": "https://x/l.jpg", "variant": "MAIN", "hi_res": None}],
        "videos": [],
        "store": store,
        "categories": [],
        "details": {"Label": "L1", "Number of discs": "1"},
        "parent_asin": product,
        "bought_together": None,
    } | more


REVIEWS = [
    review("AF", "B0A", 5.0, 1676601581238),
    review("AF", "B0B", 3.0, 1676601582000),
    review("AE", "B0A", 2.0, 1146614400000),
    review("AE", "B0C", 4.0, 1146614401000),
]
META = [
    meta("B0A", "Release Some Tension", "SWV   Format: Audio CD", categories=["CDs & Vinyl", "R&B", "Soul"]),
    meta("B0B", "Baja  Marimba Band", "Baja Marimba Band", description=["Track listing:", "", "1. Comin' in"]),
    meta("B0C", "Tension?", None),
]
TEXTS = {
    "B0A": "Release Some Tension. By SWV. Category: CDs & Vinyl, R&B, Soul",
    "B0B": "Baja Marimba Band. By Baja Marimba Band. Track listing: 1. Comin' in",
    "B0C": "Tension?",
}


def lines(records):
    return "".join(f"{json.dumps(record)}\n" for record in records)


AMAZON_MUSIC = Format(
    "amazon_music",
    {"Digital_Music.jsonl": lines(REVIEWS), "meta_Digital_Music.jsonl": lines(META)},
    objects="meta_Digital_Music.jsonl",
)
build, load, error = AMAZON_MUSIC.build, AMAZON_MUSIC.load, AMAZON_MUSIC.error


@pytest.fixture
def folder(tmp_path):
    return AMAZON_MUSIC.write(tmp_path / "amazon_music")


def test_rows(folder, tmp_path):
    assert load(folder, tmp_path).to_pydict() == {
        "user_id": ["AE", "AE", "AF", "AF"],
        "object_id": ["B0C", "B0A", "B0B", "B0A"],
        "object_text": [TEXTS["B0C"], TEXTS["B0A"], TEXTS["B0B"], TEXTS["B0A"]],
        "interaction_type": [
            "explicit_positive", "explicit_negative", "implicit_positive", "explicit_positive"
        ],
        "interaction_time": [1146614401.0, 1146614400.0, 1676601582.0, 1676601581.238],
    }  # fmt: skip


def test_parameters(folder, tmp_path):
    table = load(folder, tmp_path, explicit_positive_min=5, implicit_positive_min=2, n_description_words=2)
    assert table["interaction_type"].to_pylist() == ["implicit_positive"] * 3 + ["explicit_positive"]
    assert table["object_text"][2].as_py() == "Baja Marimba Band. By Baja Marimba Band. Track listing: …"
    with pytest.raises(ConfigError, match="n_description_words is -1"):
        load(folder, tmp_path, n_description_words=-1)
    with pytest.raises(ConfigError, match="no rating would be an implicit positive"):
        load(folder, tmp_path, implicit_positive_min=4.5)


def test_users_need_20_engagements(folder, tmp_path):
    assert dataset_record("amazon_music").parameters["min_engagements"] == 20
    with pytest.raises(DataError, match="none of 2 users has 20 engagements"):
        load(folder, tmp_path, min_engagements=20)
    add(folder, "Digital_Music.jsonl", lines([review("AF", "B0C", 1, 1)] * 18))
    report = build_report(build(folder, tmp_path, min_engagements=20))
    assert (report.n_users, report.n_rows, report.n_users_left_out, report.n_rows_left_out) == (1, 20, 1, 2)


def test_plain_and_gzipped_files_side_by_side(folder, tmp_path):
    (folder / "Digital_Music.jsonl.gz").write_bytes(gzip.compress(b""))
    assert "several files are Digital_Music.jsonl" in error(folder, tmp_path)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (lines([review("AF", "B0A", float("nan"), 1)]), "rating is nan; a rating from 1 to 5 was expected"),
        (lines([review("AF", "B0A", None, 1)]), "rating is None; a rating from 1 to 5 was expected"),
        (lines([review("AF", "B0A", 0, 1)]), "rating is 0.0; a rating from 1 to 5 was expected"),
        (lines([review("AF", "B0A", "five", 1)]), "rating is 'five'; a JSON value of type double was expected"),
        (lines([review("AF", "B0A", 5, -1)]), "timestamp is -1; a time since 1970, 0 or more, was expected"),
        (lines([review("AF", "B0A", 5, "2023")]), "timestamp is '2023'; a JSON value of type int64 was expected"),
        (lines([review(None, "B0A", 5, 1)]), "user_id is None; an id was expected"),
        (lines([review("AF", " ", 5, 1)]), "parent_asin is ' '; an id was expected"),
        (lines([review("AF", "B0Z", 5, 1)]), "parent_asin is 'B0Z'; it is not in meta_Digital_Music.jsonl;"),
        ('{"rating": 5.0, "title\n', "not JSON (Unterminated string"),
        ('["AF", "B0A", 5, 1]\n', "a JSON object {...} was expected, found ['AF', 'B0A', 5, 1]"),
        ("rating,title,text\n", "not JSON (Expecting value, column 1)"),
    ],
)
def test_broken_lines(folder, tmp_path, line, problem):
    AMAZON_MUSIC.check_broken_line(folder, tmp_path, "Digital_Music.jsonl", line, problem)


def test_a_product_without_any_text(folder, tmp_path):
    add(folder, "meta_Digital_Music.jsonl", '{"parent_asin": "B0D", "store": "Format: Audio CD"}\n')
    add(folder, "Digital_Music.jsonl", lines([review("AF", "B0D", 5, 1)]))
    assert build_report(build(folder, tmp_path)).left_out == {"the object has no text": 1}


def test_a_review_without_a_time_comes_last(folder, tmp_path):
    add(folder, "Digital_Music.jsonl", lines([review("AE", "B0B", 5, None)]))
    assert load(folder, tmp_path)["interaction_time"].to_pylist()[:3] == [1146614401.0, 1146614400.0, None]


@pytest.mark.parametrize(
    ("store", "artist"),
    [
        ("SWV   Format: Audio CD", " By SWV"),
        ("Shrimp City Slim  (Artist)    Format: Audio CD", " By Shrimp City Slim"),
        ("Format: Audio CD", ""),
        ("Information: Format", " By Information: Format"),
        (None, ""),
    ],
)
def test_the_artist_is_in_the_name_of_the_store(store, artist):
    product = {"title": "Hits", "store": store, "categories": None, "description": None}
    assert product_text(product, 10) == f"Hits{'.' if artist else ''}{artist}"
