import pyarrow as pa
import pytest
from gistbench.hf_datasets.errors import ConfigError, DataError
from gistbench.hf_datasets.raw import LINE, BadRows
from gistbench.hf_datasets.signals import check_rating_limits, check_ratings, rating_signals


def test_limits_belong_to_the_better_signal():
    assert rating_signals(pa.array([0.5, 2.9, 3, 3.99, 4, 5])).to_pylist() == [
        *["explicit_negative"] * 2,
        *["implicit_positive"] * 2,
        *["explicit_positive"] * 2,
    ]
    assert rating_signals(pa.array([1.0, 4.0]), 5, 1).to_pylist() == ["implicit_positive"] * 2


def test_limits_in_the_wrong_order():
    check_rating_limits(3, 3)
    with pytest.raises(ConfigError, match="no rating would be an implicit positive"):
        check_rating_limits(3, 3.5)


TABLE = pa.table(
    {
        "r": [5, None, float("nan"), 0, 5.5, 0.5, 4],
        "t": [0.0, 1, 1, 1, 1, -1, None],
        LINE: range(2, 9),
    }
)


def test_missing_nan_off_the_scale_and_negative_times():
    bad = BadRows("skip")
    assert check_ratings(TABLE, "f", bad, rating="r", time="t")[LINE].to_pylist() == [2, 8]
    assert bad.examples == [
        "f: line 3: r is None; a rating from 0.5 to 5 was expected.",
        "f: line 4: r is nan; a rating from 0.5 to 5 was expected.",
        "f: line 5: r is 0.0; a rating from 0.5 to 5 was expected.",
        "f: line 6: r is 5.5; a rating from 0.5 to 5 was expected.",
        "f: line 7: t is -1.0; a time since 1970, 0 or more, was expected.",
    ]
    with pytest.raises(DataError, match="line 3: r is None"):
        check_ratings(TABLE, "f", BadRows(), rating="r")
