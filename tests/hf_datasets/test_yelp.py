import json

import pytest
from gistbench.hf_datasets.errors import ConfigError, DataError
from gistbench.hf_datasets.registry import dataset_record
from gistbench.hf_datasets.yelp import business_text

from .formats import Format, add

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


YELP = Format("yelp", {REVIEWS: lines(REVIEW_LINES), BUSINESSES: lines(BUSINESS_LINES)}, objects=BUSINESSES)
build, load, error = YELP.build, YELP.load, YELP.error


@pytest.fixture
def folder(tmp_path):
    return YELP.write(tmp_path / "yelp")


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
    YELP.check_broken_line(folder, tmp_path, REVIEWS, line, problem)


def test_categories_of_old_releases_are_lists(folder, tmp_path):
    add(folder, BUSINESSES, lines([business("old", "Old", ["Food", "Pizza"])]))
    assert f"{BUSINESSES}: line 4: categories is ['Food', 'Pizza']; a JSON value of type string was expected" in error(
        folder, tmp_path
    )


def test_a_review_without_a_time_comes_last(folder, tmp_path):
    add(folder, REVIEWS, lines([review("Oyog", "7ATY", 5, None)]))
    assert load(folder, tmp_path)["interaction_time"].to_pylist()[:3] == [1391632230.0, 1391558400.0, None]


def test_business_text_without_a_place():
    assert business_text({"name": "Pho 75", "categories": "", "city": None, "state": " "}) == "Pho 75"
