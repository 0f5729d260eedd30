from datetime import UTC, datetime, timedelta, timezone

import pyarrow as pa
import pytest
from gistbench.hf_datasets import goodreads, mind, yelp
from gistbench.hf_datasets._times import parse_times
from hypothesis import given
from hypothesis import strategies as st

MOMENTS = st.datetimes(datetime(1970, 1, 2), datetime(2099, 12, 31)).map(lambda moment: moment.replace(microsecond=0))
MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
DAYS = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]


@given(MOMENTS)
def test_times_of_mind(moment):
    half = "AM" if moment.hour < 12 else "PM"
    date = f"{moment.month}/{moment.day}/{moment.year}"
    text = f"{date} {(moment.hour - 1) % 12 + 1}:{moment.minute:02}:{moment.second:02} {half}"
    assert parse_times(pa.array([text]), mind._TIME).to_pylist() == [moment.replace(tzinfo=UTC).timestamp()]


@given(MOMENTS, st.integers(-14 * 60, 14 * 60))
def test_times_of_goodreads(moment, offset):
    sign, (hours, minutes) = "-" if offset < 0 else "+", divmod(abs(offset), 60)
    text = (
        f"{DAYS[moment.weekday()]} {MONTHS[moment.month - 1]} {moment.day:02} {moment:%H:%M:%S} "
        f"{sign}{hours:02}{minutes:02} {moment.year}"
    )
    expected = moment.replace(tzinfo=timezone(timedelta(minutes=offset))).timestamp()
    assert parse_times(pa.chunked_array([[text]]), goodreads._DATE).to_pylist() == [expected]


@given(MOMENTS)
def test_times_of_yelp(moment):
    midnight = moment.replace(hour=0, minute=0, second=0, tzinfo=UTC)
    texts = pa.array([f"{moment:%Y-%m-%d %H:%M:%S}", None, f"{moment:%Y-%m-%d}"])
    expected = [moment.replace(tzinfo=UTC).timestamp(), None, midnight.timestamp()]
    assert parse_times(texts, yelp._DATE).to_pylist() == expected


@pytest.mark.parametrize(
    "text",
    [
        "2019-02-29", "2019-13-01", "2019-00-10", "2019-01-00", "2019-04-31", "2019-01-01 24:00:00",
        "2019-01-01 23:60:00", "2019-01-01 23:59:60", "2019-01-01T10:00:00", "2019-01-01 ", "x2019-01-01", "",
    ],
)  # fmt: skip
def test_times_that_there_are_not(text):
    assert parse_times(pa.array([text]), yelp._DATE).to_pylist() == [None]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1/2/1970 12:00:00 AM", 86400.0),
        ("1/2/1970 12:00:00 PM", 129600.0),
        ("1/2/1970 0:00:00 AM", None),
        ("1/2/1970 13:00:00 PM", None),
        ("2/29/2020 1:00:00 AM", 1582938000.0),
    ],
)
def test_clocks_of_twelve_hours(text, expected):
    assert parse_times(pa.array([text]), mind._TIME).to_pylist() == [expected]


@pytest.mark.parametrize("zone", ["+1500", "-0760", "+00000", "0700"])
def test_zones_that_there_are_not(zone):
    text = f"Fri Apr 19 08:15:15 {zone} 2013"
    assert parse_times(pa.array([text]), goodreads._DATE).to_pylist() == [None]


def test_no_texts():
    assert parse_times(pa.array([], pa.string()), yelp._DATE).to_pylist() == []
