import gzip
import json
import zipfile

import pytest
from gistbench.hf_datasets.builder import build_report, prepare
from gistbench.hf_datasets.errors import ConfigError, DataError
from gistbench.hf_datasets.registry import dataset_record, load_engagements
from gistbench.hf_datasets.yelp import Yelp, business_text

REVIEWS, BUSINESSES = "yelp_academic_dataset_review.json", "yelp_academic_dataset_business.json"


def review(user, business, stars, date, **more):
    return {
        "review_id": f"{user}_{business}",
        "user_id": user,
        "business_id": business,
        "stars": stars,
        "useful": 0,
        "funny": 0,
        "cool": 0,
        "text": "It takes long.\n\nThe food is good.",
        "date": date,
    } | more


def business(business_id, name, categories, city="Philadelphia", state="PA", **more):
    return {
        "business_id": business_id,
        "name": name,
        "address": "1616 Chapala St, Ste 2",
        "city": city,
        "state": state,
        "postal_code": "19106",
        "latitude": 39.95,
        "longitude": -75.14,
        "stars": 3.5,
        "review_count": 7,
        "is_open": 1,
        "attributes": {"ByAppointmentOnly": "True"},
        "categories": categories,
        "hours": None,
    } | more


REVIEW_LINES = [
    review("mh_-e", "XQfw", 3.0, "2018-07-07 22:09:11"),
    review("mh_-e", "7ATY", 5.0, "2012-01-03 15:28:18"),
    review("Oyog", "XQfw", 1.0, "2014-02-05 20:30:30"),
    review("Oyog", "none", 4, "2014-02-05"),
]
BUSINESS_LINES = [
    business("XQfw", "Turning Point of North Wales", "Restaurants, Breakfast & Brunch, Food", city="North Wales"),
    business("7ATY", "Body Cycle", "Active Life,  Gyms , Gyms"),
    business("none", "Mystery  Venue", None, state=""),
]
TEXTS = {
    "XQfw": "Turning Point of North Wales. Category: Restaurants, Breakfast & Brunch, Food. In North Wales, PA",
    "7ATY": "Body Cycle. Category: Active Life, Gyms. In Philadelphia, PA",
    "none": "Mystery Venue. In Philadelphia",
}


def lines(records):
    return "".join(f"{json.dumps(record)}\n" for record in records)


@pytest.fixture
def folder(tmp_path):
    source = tmp_path / "yelp"
    source.mkdir()
    (source / REVIEWS).write_text(lines(REVIEW_LINES))
    (source / BUSINESSES).write_text(lines(BUSINESS_LINES))
    return source


def build(source, tmp_path, **parameters):
    parameters = {"min_engagements": 1} | parameters
    return prepare(Yelp, "yelp", source=source, cache_dir=tmp_path / "cache", parameters=parameters)


def load(source, tmp_path, **parameters):
    parameters = {"min_engagements": 1} | parameters
    return load_engagements("yelp", source=source, cache_dir=tmp_path / "cache", **parameters)


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
        "user_id": ["Oyog", "Oyog", "mh_-e", "mh_-e"],
        "object_id": ["XQfw", "none", "XQfw", "7ATY"],
        "object_text": [TEXTS["XQfw"], TEXTS["none"], TEXTS["XQfw"], TEXTS["7ATY"]],
        "interaction_type": [
            "explicit_negative", "explicit_positive", "implicit_positive", "explicit_positive"
        ],
        "interaction_time": [1391632230.0, 1391558400.0, 1531001351.0, 1325604498.0],
    }  # fmt: skip


def test_parameters(folder, tmp_path):
    table = load(folder, tmp_path, explicit_positive_min=5, implicit_positive_min=4)
    assert table["interaction_type"].to_pylist() == [
        "explicit_negative", "implicit_positive", "explicit_negative", "explicit_positive"
    ]  # fmt: skip
    with pytest.raises(ConfigError, match="no rating would be an implicit positive"):
        load(folder, tmp_path, implicit_positive_min=4.5)


def test_min_engagements_is_100(folder, tmp_path):
    assert dataset_record("yelp").parameters["min_engagements"] == 100
    with pytest.raises(DataError, match="none of 2 users has 100 engagements"):
        load(folder, tmp_path, min_engagements=100)


def test_zip_byte_order_mark_and_crlf_give_the_same_rows(folder, tmp_path):
    expected = load(folder, tmp_path)
    archive = tmp_path / "yelp.zip"
    with zipfile.ZipFile(archive, "w") as opened:
        for path in folder.iterdir():
            opened.writestr(f"Yelp JSON/{path.name}", b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n"))
    assert load(archive, tmp_path).equals(expected)


def test_a_file_that_is_cut_off_is_an_error_in_any_case(folder, tmp_path):
    (folder / REVIEWS).write_bytes(gzip.compress((folder / REVIEWS).read_bytes())[:-9])
    for on_error in ("raise", "skip"):
        assert f"{REVIEWS}: line 1: the file cannot be read any further" in error(folder, tmp_path, on_error=on_error)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (
            lines([review("Oyog", "7ATY", float("nan"), "2014-02-05")]),
            "stars is nan; a rating from 1 to 5 was expected",
        ),
        (lines([review("Oyog", "7ATY", 0, "2014-02-05")]), "stars is 0.0; a rating from 1 to 5 was expected"),
        (lines([review("Oyog", "7ATY", None, "2014-02-05")]), "stars is None; a rating from 1 to 5 was expected"),
        (lines([review("Oyog", "7ATY", 5, "1914-02-05")]), "date is '1914-02-05'; a time such as 2018-07-07 22:09:11"),
        (lines([review("Oyog", "7ATY", 5, "2014-02-29")]), "date is '2014-02-29'; a time such as 2018-07-07 22:09:11"),
        (lines([review("Oyog", "7ATY", 5, "")]), "date is ''; a time such as 2018-07-07 22:09:11"),
        (lines([review("Oyog", "7ATY", 5, "2014-02-05 24:00:00")]), "date is '2014-02-05 24:00:00'; a time such as"),
        (lines([review(None, "7ATY", 5, "2014-02-05")]), "user_id is None; an id was expected"),
        (lines([review("Oyog", "", 5, "2014-02-05")]), "business_id is ''; an id was expected"),
        (lines([review("Oyog", "gone", 5, "2014-02-05")]), f"business_id is 'gone'; it is not in {BUSINESSES};"),
        (json.dumps(REVIEW_LINES[0])[:-20] + "\n", "not JSON (Unterminated string"),
        ("[1, 2]\n", "a JSON object {...} was expected, found [1, 2]"),
    ],
)
def test_broken_lines(folder, tmp_path, line, problem):
    add(folder, REVIEWS, line)
    text = error(folder, tmp_path)
    assert f"{REVIEWS}: line 5: {problem}" in text
    report = build_report(build(folder, tmp_path, on_error="skip"))
    assert report.skipped == {f"{folder}: {REVIEWS}": 1}
    assert report.n_rows == 4
    assert report.examples == (text,)


def test_a_business_listed_twice(folder, tmp_path):
    add(folder, BUSINESSES, lines([business("XQfw", "Again", None)]))
    assert f"{BUSINESSES}: line 4: business_id 'XQfw' is already on line 1" in error(folder, tmp_path)
    assert load(folder, tmp_path, on_error="skip")["object_text"][0].as_py() == TEXTS["XQfw"]


def test_categories_of_old_releases_are_lists(folder, tmp_path):
    add(folder, BUSINESSES, lines([business("old", "Old", ["Food", "Pizza"])]))
    assert f"{BUSINESSES}: line 4: categories is ['Food', 'Pizza']; a JSON value of type string was expected" in error(
        folder, tmp_path
    )


def test_latin_1_name(folder, tmp_path):
    add(folder, BUSINESSES, '{"business_id": "c", "name": "caf\xe9"}\n', encoding="latin-1")
    assert f"{BUSINESSES}: line 4: this is not UTF-8 text" in error(folder, tmp_path)
    assert load(folder, tmp_path, on_error="skip").num_rows == 4


def test_a_review_without_a_time_comes_last(folder, tmp_path):
    add(folder, REVIEWS, lines([review("Oyog", "7ATY", 5, None)]))
    assert load(folder, tmp_path)["interaction_time"].to_pylist()[:3] == [1391632230.0, 1391558400.0, None]


def test_missing_file(folder, tmp_path):
    (folder / BUSINESSES).unlink()
    assert "no known set of files was found together" in error(folder, tmp_path)


def test_as_a_datasets_builder(folder, tmp_path):
    builder = Yelp(dataset_name="yelp", cache_dir=str(tmp_path / "own"), source=str(folder), min_engagements=1)
    builder.download_and_prepare()
    assert builder.as_dataset(split="train")["object_id"][:] == ["XQfw", "none", "XQfw", "7ATY"]


def test_business_text_without_a_place():
    assert business_text({"name": "Pho 75", "categories": "", "city": None, "state": " "}) == "Pho 75"
